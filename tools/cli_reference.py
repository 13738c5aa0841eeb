"""The reference of the command line: ``python -m tools.cli_reference docs/reference/cli.md`` makes it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from envbuild.cli.app import whole
from envbuild.core.fs import atomic_write

_HEAD = """\
# Command line

<!-- Generated from the commands: python -m tools.cli_reference docs/reference/cli.md -->

Every command has `--help`, and most have `--json` for programs ([keys](json.md)). `envbuild run` passes the exit code
of your program through; envbuild's own are in [exit codes](exit-codes.md). Commands that take a `LOCK` search for
`pylock.*.toml` in the current folder and then in each folder above it.

"""
_PLACEHOLDER = re.compile(r"(?<![`\w/])(--[a-z][a-z-]*)(?![\w`-])")


def document() -> str:
    """Return the page in Markdown."""
    root = typer.main.get_command(whole())
    commands = list(_commands(root, ("envbuild",)))
    lines = ["| command | what it does |", "|---|---|"]
    for path, command in commands:
        lines.append(f"| [`{' '.join(path)}`](#{'-'.join(path)}) | {_cell(_paragraphs(command)[0])} |")
    return "\n".join([_HEAD + "\n".join(lines), *(_section(path, command) for path, command in commands)]) + "\n"


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command that can be called, with the words that call it."""
    inner = getattr(command, "commands", {})
    if not inner:
        yield path, command
    for name, child in inner.items():
        yield from _commands(child, (*path, name))


def _section(path: tuple[str, ...], command: Any) -> str:
    """Return one command's heading, description, usage and tables."""
    context = _context(path, command)
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    parts = [f"\n## {' '.join(path)}\n", *(f"{_text(text)}\n" for text in _paragraphs(command)), f"    {usage}\n"]
    for title, kind in (("argument", "argument"), ("option", "option")):
        found = [parameter for parameter in command.get_params(context) if parameter.param_type_name == kind]
        rows = [record for parameter in found if (record := parameter.get_help_record(context))]
        if rows:
            parts += [f"| {title} | meaning |\n|---|---|"]
            parts += [f"| `{_escaped(name)}` | {_cell(meaning)} |" for name, meaning in rows]
            parts.append("")
    return "\n".join(parts).rstrip()


def _context(path: tuple[str, ...], command: Any) -> Any:
    return command.context_class(command, info_name=" ".join(path))


def _paragraphs(command: Any) -> list[str]:
    """Return the help text's paragraphs, each in one line."""
    text = inspect.cleandoc(command.help or "").replace("\b", "")
    return [" ".join(part.split()) for part in text.split("\n\n")]


def _text(text: str) -> str:
    return re.sub(r"(?<!\w)docs/(reference|how-to)/([a-z-]+\.md)", _link, _PLACEHOLDER.sub(r"`\1`", text))


def _link(found: re.Match[str]) -> str:
    target = found[2] if found[1] == "reference" else f"../{found[1]}/{found[2]}"
    return f"[{found[2].removesuffix('.md').replace('-', ' ')}]({target})"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _cell(text: str) -> str:
    return _escaped(_text(" ".join(text.split()))).replace("<", "&lt;")


def main(path: Path) -> None:
    """Write the page."""
    atomic_write(path, document().encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
