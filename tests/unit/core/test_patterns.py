"""A regular expression that is compiled late is the one that ``re.compile`` returns."""

from __future__ import annotations

import re
from threading import Thread

import pytest

from envbuild.core.patterns import believed, checking, lazy


def test_it_finds_what_the_compiled_one_finds() -> None:
    """All methods, the pattern, the flags and the groups are those of the compiled expression."""
    text, pattern = "a1, B22; b3", r"(?P<name>[ab])(\d+)"
    for mine, theirs in ((lazy(pattern, re.I), re.compile(pattern, re.I)), (lazy(pattern), re.compile(pattern))):
        for _ in range(2):
            assert mine.findall(text) == theirs.findall(text)
            assert [match.span() for match in mine.finditer(text)] == [match.span() for match in theirs.finditer(text)]
            assert (mine.sub("-", text), mine.subn("-", text)) == (theirs.sub("-", text), theirs.subn("-", text))
            assert mine.split(text) == theirs.split(text)
            assert mine.fullmatch(text) is None
            assert [bool(mine.match(text)), bool(mine.search(text, 2))] == [True, bool(theirs.search(text, 2))]
            assert (mine.pattern, mine.flags, mine.groupindex) == (theirs.pattern, theirs.flags, theirs.groupindex)


def test_bytes_are_searched_by_bytes() -> None:
    """As with ``re.compile``."""
    assert lazy(rb"\d+").search(b"a12") is not None


def test_nothing_is_compiled_before_its_use() -> None:
    """A mistake shows when the expression is used, as does what it has not."""
    wrong = lazy("(")
    with pytest.raises(re.error):
        wrong.search("")
    with pytest.raises(AttributeError):
        lazy("a").nothing  # type: ignore[attr-defined]  # noqa: B018


def test_data_that_is_believed_is_not_compared() -> None:
    """Only with patterns made for that which were not used yet, in this thread, and as long as the block runs."""
    mine, other, used = checking("^a$"), lazy("^a$"), checking("^a$")
    assert used.search("b") is None
    found: list[object] = []
    with believed():
        assert mine.search("b")
        assert mine.search("")
        assert other.search("b") is None
        assert used.search("b") is None
        thread = Thread(target=lambda: found.append(checking("^a$").search("b")))
        thread.start()
        thread.join()
    assert found == [None]
    assert mine.search("b") is None
    assert mine.search("a")
