"""Suggestions: near names and readable quotes."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.core.text import CONTROLS, either, harmless, nearest, perhaps, quote


@pytest.mark.parametrize(
    ("word", "found"),
    [("pyton", "python"), ("Requirments", "requirements"), ("PACKAGES", "packages"), ("zzz", ""), ("", "")],
)
def test_nearest_finds_what_was_meant(word: str, found: str) -> None:
    """A slip of the keyboard or of case finds the name; nonsense finds none."""
    assert nearest(word, ["python", "requirements", "packages"]) == found


def test_perhaps_ends_a_sentence() -> None:
    """The suggestion reads as part of the sentence, or is absent."""
    assert perhaps("pyton", ["python"]) == " — perhaps you meant python"
    assert perhaps("qqq", ["python"]) == ""


def test_either_joins_as_people_do() -> None:
    """Alternatives are joined by commas and one or."""
    assert [either(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a or b", "a, b or c"]


@given(st.text(max_size=200))
def test_a_quoted_text_never_breaks_the_line(text: str) -> None:
    """No text, however strange, brings control characters or line breaks into a message."""
    shown = quote(text)
    assert shown.isprintable()
    if len(text) <= 60:
        assert json.loads(shown) == text


@pytest.mark.parametrize("sign", ["\x1b", "\x7f", "\x85", "\u200e", "\u202e", "\u2066", "\udc80"])
def test_what_speaks_to_the_terminal_is_escaped(sign: str) -> None:
    """All that ``CONTROLS`` has is no printable character, so a text of printable ones has nothing of it."""
    assert not sign.isprintable()
    assert harmless(f"a{sign}b") == f"a{sign.encode('unicode_escape').decode()}b"
    assert harmless("run · done") == "run · done"


def test_no_printable_character_is_a_control() -> None:
    """All of Unicode."""
    assert not any(map(CONTROLS.search, filter(str.isprintable, map(chr, range(sys.maxunicode + 1)))))
