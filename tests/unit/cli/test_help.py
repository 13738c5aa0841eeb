"""The command line as people see it first: every command's help text is a promise kept in a golden file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from envbuild import cli

GOLDEN = Path(__file__).parents[2] / "golden" / "help.txt"


def _commands() -> Iterator[tuple[str, ...]]:
    from envbuild.cli.app import whole

    root = typer.main.get_command(whole())
    yield ()
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        yield (name,)
        yield from ((name, inner) for inner in getattr(command, "commands", {}))


def test_help_texts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, options and their help stay as they are unless they are changed on purpose.

    To change them: ``ENVBUILD_GOLDEN=write python -m pytest tests/unit/cli/test_help.py``, and read the difference.
    """
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERMINAL_WIDTH", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    parts = []
    for words in _commands():
        assert cli.main([*words, "--help"]) == 0
        parts.append(f"$ envbuild {' '.join([*words, '--help'])}\n{capsys.readouterr().out.rstrip()}\n")
    found = "\n".join("\n".join(line.rstrip() for line in part.splitlines()) + "\n" for part in parts)
    if os.environ.get("ENVBUILD_GOLDEN") == "write":
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()
