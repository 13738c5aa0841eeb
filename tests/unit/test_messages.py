"""Every message of an error, in one table: what changes in it is read in one place."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.support.messages import table

GOLDEN = Path(__file__).parents[1] / "golden" / "messages.txt"
QUAINT = re.compile(
    r"\b(?:tells?|told|says?|said|lies|stands?|beside|besides|whose word|hands? (?:on|over)|by whom|parcels?|wares|"
    r"gives? up|given up|no ear|what becomes of|nought|hence|thither|lest)\b"
)
"""Words that a reader whose first language is another reads twice; design rule: plain technical English."""


def test_the_table_of_messages() -> None:
    """Class, exit code, sentence and hint of every error are as in the golden file.

    To change them: ``ENVBUILD_GOLDEN=write python -m pytest tests/unit/test_messages.py``, and read the difference.
    """
    found = table()
    if os.environ.get("ENVBUILD_GOLDEN") == "write":
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")
    assert found.count("  exit ") > 300


def test_messages_are_plain() -> None:
    """No quaint words; a sentence begins in lower case or with a name, and ends without a full stop."""
    lines = [line.strip() for line in table().splitlines() if line.startswith("      ")]
    assert [line for line in lines if QUAINT.search(re.sub(r"\{[^{}]*\}", "", line))] == []
    assert [line for line in lines if re.search(r"[^.…]\.$", line)] == []
