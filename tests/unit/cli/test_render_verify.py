"""How ``verify`` shows likely causes."""

from __future__ import annotations

from envbuild.cli.render.verify import _because
from envbuild.difference.finding import Finding


def _finding(sentence: str, where: str) -> Finding:
    return Finding(area="sources", what=sentence, weight=90, where=where)


def test_a_cause_that_reads_as_one_before_it_is_said_once() -> None:
    """marimo draws at one line through three paths, and the same sentence came three times."""
    drawn = [_finding("random.Random() draws from the system's entropy", "ui_element.py:123") for _ in range(3)]

    rows = list(_because([*drawn, _finding("time.time() is read", "train.py:3")], 1))

    assert [text for _, text in rows if "draws" in text] == [
        "random.Random() draws from the system's entropy  (ui_element.py:123)"
    ]
    assert any("time.time() is read  (train.py:3)" in text for _, text in rows)
