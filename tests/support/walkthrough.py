"""Documentation pages that are followed as written: files, commands and the printed samples of a Markdown page.

A page's blocks of code:

- ```` ```console ````: commands after ``$ ``, each with what it prints; output that differs is a failure.
- ```` ```bash ````: commands, one a line (a comment after two spaces), that must succeed; a block that begins with
  ``#!`` is a script and only parsed.
- ```` ```yaml title="NAME" ```` (or another language): a file of the current folder. It is written if it does not
  exist, and must be equal if it does.
- ```` ```text ````: nothing to follow.

A comment before a block changes what is done: ``<!-- not tested: REASON -->`` skips it, ``<!-- machine: NAME -->`` runs
it and those after it with the variables of another machine, ``<!-- exit: CODE -->`` states the exit code of its last
command.

Samples are compared line by line after masks: numbers, units of time and size, paths of the reader's home. ``…`` alone
in a line stands for any lines, within a line for any text. Identifiers of runs and digests are compared as an
assignment: equal ones in the sample are equal in the output, different ones are different, across the whole page.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["SLOW", "Block", "Reader", "blocks", "clone"]

_FENCE = re.compile(
    r"(?P<notes>(?:^<!-- [a-z ]+: [^\n]*? -->\n+)*)^```(?P<language>\w*)(?P<options>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_NOTE = re.compile(r"<!-- ([a-z ]+): (.*?) -->")
_IDENTIFIER = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{8,24}\b|(?<=sha256:)[0-9a-f]{12,64}\b|\b[0-9a-f]{16,64}\b")
_NUMBER = re.compile(r"\d[\d.,]*")
_UNIT = re.compile(r"N (?:ms|s|min|h|B|kB|MB|GB)\b(?: N (?:s|min)\b)?")
_CACHE = ("fetch ", "load ", "os ", "wheels ", "bytecode ", "layers ")
"""First words of lines that ``build`` prints only for what is not there yet."""
SLOW = re.compile(
    r"[a-z]+(?:: [a-z]+)?(?: {2,}[\d,.]+(?: [A-Za-z]+)?(?: of [\d,.]+ [A-Za-z]+)?(?:  [\d,.]+ [A-Za-z]+/s)?)?"
    r" {2,}[\d.]+ s"
)
"""A line about a phase, which a log gets only if the phase took long: ``console._Plain``."""


@dataclass(frozen=True)
class Block:
    """One block of code of a page."""

    language: str
    title: str
    text: str
    notes: Mapping[str, str]

    def commands(self) -> list[tuple[str, list[str]]]:
        """Return the commands, each with the lines of its sample output."""
        if self.language == "bash":
            if self.text.startswith("#!"):
                return []
            lines = [line.split("  #")[0].rstrip() for line in self.text.replace("\\\n", " ").splitlines()]
            return [(line, []) for line in lines if line and not line.startswith("#")]
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:].split("  #")[0].rstrip(), []))
            elif found:
                found[-1][1].append(line)
            else:
                raise ValueError(f"a console block begins with a command: {line}")
        return found


def blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page.

    Raises:
        ValueError: an indented block, or a fence that is not understood.
    """
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        title = re.search(r'title="(.*?)"', match["options"])
        notes = dict(_NOTE.findall(match["notes"]))
        found.append(Block(match["language"], title[1] if title else "", match["text"], notes))
    if len(found) * 2 != len(re.findall(r"^```", text, re.MULTILINE)):
        raise ValueError(f"{page}: a fence that this reader does not understand")
    return found


@dataclass
class Reader:
    """Somebody who types what a page shows, in one shell session.

    Attributes:
        folder: where the session is now.
        environ: its variables now.
        machines: by name, variables that a block of that machine has in addition.
        replace: text of commands that is typed otherwise, such as an address that does not exist.
        assigned: identifiers and digests of the page, with what they are here.
    """

    folder: Path
    environ: dict[str, str]
    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    replace: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, str] = field(default_factory=dict)
    machine: str = ""
    followed: int = 0

    def follow(self, page: Path) -> None:
        """Follow a page from top to bottom.

        Raises:
            AssertionError: a command failed, or printed something else than the page shows.
        """
        for block in blocks(page):
            self.take(block)

    def take(self, block: Block) -> None:
        """Do what one block shows."""
        self.machine = block.notes.get("machine", self.machine)
        if "not tested" in block.notes or block.language == "text":
            return
        if block.title:
            self._file(block)
            return
        commands = block.commands()
        if block.text.startswith("#!"):
            subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
        for number, (command, sample) in enumerate(commands, 1):
            code = int(block.notes.get("exit", "0")) if number == len(commands) else 0
            out = self.type(command, code)
            if sample:
                self.compare(command, sample, out)

    def type(self, command: str, code: int = 0) -> str:
        """Run one command in the session; returns what it printed, standard error included."""
        for text, other in {**self.assigned, **self.replace}.items():
            command = command.replace(text, other)
        state = self.folder.parent / "session"
        script = f"set -a\n{command}\ncode=$?; pwd >{state}.cwd; env -0 >{state}.env; exit $code"
        extra = self.machines.get(self.machine, {})
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self.environ | extra, check=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        out = done.stdout.decode()
        assert done.returncode == code, f"$ {command}\n{out}\nexit {done.returncode}, expected {code}"
        self.folder = Path(Path(f"{state}.cwd").read_text().rstrip("\n"))
        pairs = (pair.split("=", 1) for pair in Path(f"{state}.env").read_text().split("\0") if pair)
        self.environ = {name: value for name, value in pairs if name not in extra}
        self.followed += 1
        return out

    def compare(self, command: str, sample: list[str], out: str) -> None:
        """Compare a sample with an output."""
        building = command.startswith("envbuild build")

        def counts(line: str) -> bool:
            chance = (building and line.startswith(_CACHE)) or SLOW.fullmatch(line)
            return bool(line.strip()) and not chance

        wanted, found = ([line for line in lines if counts(line)] for lines in (sample, out.splitlines()))
        assert self._matches(wanted, found), (
            f"$ {command}\nthe page shows\n{_shown(wanted)}\nprinted was\n{_shown(found)}"
        )

    def _matches(self, wanted: list[str], found: list[str]) -> bool:
        """Match lines, ``…`` standing for any; assigns the identifiers of lines that match."""
        if not wanted:
            return not found
        if wanted[0].strip() == "…":
            return any(self._matches(wanted[1:], found[start:]) for start in range(len(found) + 1))
        return bool(found) and self._line(wanted[0], found[0]) and self._matches(wanted[1:], found[1:])

    def _line(self, wanted: str, found: str) -> bool:
        home = self.environ.get("HOME", "")
        if home:
            found, wanted = found.replace(home, "~"), wanted.replace(home, "~")
        pattern = re.escape(_masked(wanted)).replace("…", ".*").replace(r"\ ", " ")
        if not re.fullmatch(pattern, _masked(found)):
            return False
        pairs = dict(zip(_IDENTIFIER.findall(wanted), _IDENTIFIER.findall(found), strict=False))
        together = self.assigned | pairs
        if any(self.assigned.get(name, own) != own for name, own in pairs.items()):
            return False
        if len(set(together.values())) != len(together):
            return False
        self.assigned = together
        return True

    def _file(self, block: Block) -> None:
        path = self.folder / block.title
        if path.exists():
            assert path.read_text() == block.text, f"{path} is not what the page shows"
        else:
            path.write_text(block.text)


def _masked(line: str) -> str:
    """Return a line without what differs from run to run and from machine to machine."""
    line = _IDENTIFIER.sub("I", line)
    line = _UNIT.sub("N U", _NUMBER.sub("N", line))
    return re.sub(r"[ ━]+", " ", line).strip()


def _shown(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def clone(source: Path, target: Path) -> Path:
    """Copy a repository as a fresh clone has it, with changes that are not committed; returns ``target``."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=source, check=True, capture_output=True).stdout.split(b"\0")
    for name in map(os.fsdecode, filter(None, listed)):
        if (source / name).exists():  # what was removed and not committed yet is listed too
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name, follow_symlinks=False)
    return target
