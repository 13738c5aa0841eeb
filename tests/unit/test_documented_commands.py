"""Every ``envbuild`` command that a page shows exists, with every option that it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from envbuild.cli.app import whole

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "lockfiles" / "README.md", *ROOT.glob("docs/**/*.md")]
_OWN_END = re.compile(r"\s(?:#|&&|\|\||\||;|>|<)(?:\s|$)|`|…|\s{3,}")
"""Where a command ends on a page: a comment, another command, a redirection, a column of text."""
_MANIFEST = "inputs 1"
"""The first line of a manifest of input data, which is no command."""
_PASSING = {"run", "verify"}
"""Commands whose options end at the program."""


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command that a page shows, in a block of code or in a line of text."""
    text = re.sub(r"^(?:!!!|\?\?\?).*\n(?:(?: {4}.*)?\n)*", "", text, flags=re.MULTILINE)  # a note, not a block of code
    fenced = re.findall(r"^```\w*[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^ {4,}(?=\S)(.*)$", text, re.MULTILINE)
    lines = [line.strip() for block in (*fenced, *indented) for line in block.splitlines()]
    shown = [re.match(r"(?:\S*\$ +)?(?:[A-Z_]+=\S* )*envbuild (?=[a-z-])(.*)", line) for line in lines]
    inline = re.findall(r"`(?:[A-Z_]+=\S* )*envbuild (?=[a-z-])([^`]+)`", text)
    for found in (*inline, *(match[1] for match in shown if match)):
        if found != _MANIFEST:
            yield _OWN_END.split(found)[0].split()


def wrong(words: list[str], command: Any) -> str:
    """Return what is wrong with a command; empty if nothing is."""
    verb = ""
    while words and hasattr(command, "commands"):
        if words[0].startswith("-"):
            break
        if words[0] not in command.commands:
            return f"no command {words[0]}"
        verb, command, words = words[0], command.commands[words[0]], words[1:]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"-h", "--help"}
    for word in words:
        if verb in _PASSING and re.fullmatch(r"\S+\.py|PROGRAM|--|-m", word):
            break
        option = word.partition("=")[0].rstrip(",.:;)")
        if re.fullmatch(r"--[a-z][a-z-]*|-[a-zA-Z]", option) and option not in known:
            return f"{verb} has no option {option}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_on_a_page_is_real(page: Path) -> None:
    """Command and options exist; what follows the program of ``run`` and ``verify`` is the program's."""
    root = typer.main.get_command(whole())
    found = [(" ".join(words), wrong(words, root)) for words in commands(page.read_text(encoding="utf-8"))]
    assert [f"envbuild {command}: {problem}" for command, problem in found if problem] == []


def test_a_command_that_is_not_real_is_found() -> None:
    """The check itself: an unknown command, an unknown option, and a program's own option, which is no matter."""
    root = typer.main.get_command(whole())
    text = "`envbuild runn t.py`, `envbuild run --tracee t.py`\n\n    $ envbuild run t.py --lr 3   # `x`\n"
    assert [wrong(words, root) for words in commands(text)] == ["no command runn", "run has no option --tracee", ""]
