"""Reference pages that are made from the code are made again when the code changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import cli_reference, record_reference

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_the_command_line_is_documented_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has every command and option, whatever the width of the terminal and its colours."""
    monkeypatch.setenv("COLUMNS", "40")
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    assert page == cli_reference.document(), "run: python -m tools.cli_reference docs/reference/cli.md"
    assert "## envbuild store gc\n" in page


def test_the_record_is_documented_as_it_is() -> None:
    """The page has every field of a record, with what its struct says of it."""
    page = (REFERENCE / "record-schema.md").read_text(encoding="utf-8")
    assert page == record_reference.document(), "run: python -m tools.record_reference docs/reference/record-schema.md"
    assert "| `duration` | number or null | `null` | seconds. |" in page


def test_every_page_is_in_the_navigation() -> None:
    """A page that nobody can reach is no documentation."""
    navigation = (REFERENCE.parents[1] / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {path.relative_to(REFERENCE.parent).as_posix() for path in REFERENCE.parent.rglob("*.md")}
    assert pages == {line.rpartition(" ")[2] for line in navigation.splitlines() if line.endswith(".md")}
