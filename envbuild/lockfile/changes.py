"""What moved between two locks, for the people who decide whether to take it: Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from envbuild.lockfile.model import Lock

Kind = Literal["framework", "numeric", "python", "os", "environment", "other"]
NONE: Final = "—"
"""Stands for what one of the two locks lacks."""

NUMERIC: Final = ("libc6", "libgomp", "libstdc++", "libgcc", "libblas", "liblapack", "libopenblas", "libgfortran")
"""Debian packages by which numbers are computed, by the start of their names."""

_SHOWN: Final[tuple[Kind, ...]] = ("framework", "numeric", "python", "other", "environment")
_CVE = re.compile(r"\bCVE-[0-9]{4}-[0-9]{4,7}\b")
_ENTRY = re.compile(r"[a-z0-9][a-z0-9+.-]* \(([0-9][A-Za-z0-9.+~:-]*)\) ")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#!~])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One thing that is not as it was.

    Attributes:
        before, after: versions or values; ``NONE`` where one lock lacks it.
        fixes: CVE numbers that the package's changelog names between the two versions, in order.
    """

    kind: Kind
    name: str
    before: str
    after: str
    fixes: tuple[str, ...] = ()


def moves(
    old: Lock,
    new: Lock,
    facts: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
    fixes: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Move, ...]:
    """Compare two locks, what weighs most first.

    Args:
        facts: further values of the old and of the new lock by name, such as those of CUDA and hardware.
        fixes: CVE numbers by name of the Debian package.
    """
    found = []
    names = {*old.frameworks, *new.frameworks}
    for name, before, after in _pairs(_wheels(old), _wheels(new)):
        found.append(Move(kind="framework" if name in names else "python", name=name, before=before, after=after))
    for name, before, after in _pairs(_debs(old), _debs(new)):
        kind: Kind = "numeric" if name.startswith(NUMERIC) else "os"
        numbers = tuple((fixes or {}).get(name, ()))
        found.append(Move(kind=kind, name=name, before=before, after=after, fixes=numbers))
    for name, before, after in _pairs(old.environment, new.environment):
        found.append(Move(kind="environment", name=name, before=before, after=after))
    for name, before, after in _pairs({**_rest(old), **facts[0]}, {**_rest(new), **facts[1]}):
        found.append(Move(kind="other", name=name, before=before, after=after))
    return tuple(found)


def markdown(lock: str, moved: Sequence[Move], *, changelogs: bool = True) -> str:
    """Render what moved as Markdown, ending in a newline.

    Args:
        lock: the lock's file name.
        changelogs: whether the changelogs of the moved Debian packages could be read.
    """
    if not moved:
        return f"## {_text(lock)}: nothing moved\n"
    by_kind: dict[Kind, list[Move]] = {}
    for move in moved:
        by_kind.setdefault(move.kind, []).append(move)
    lines = [f"## {_text(lock)}: {_counted(by_kind)}", ""]
    if effect := _effect(by_kind):
        lines += [effect, ""]
    lines += _security(moved, changelogs)
    shown = [
        move for kind in ("framework", "numeric", "python", "other", "environment") for move in by_kind.get(kind, ())
    ]
    if shown:
        lines += ["| what | from | to |", "|---|---|---|", *map(_row, shown), ""]
    if system := by_kind.get("os"):
        lines += [f"<details><summary>{_packages(len(system), 'other Debian package')}</summary>", ""]
        lines += ["| package | from | to |", "|---|---|---|", *map(_row, system), "", "</details>", ""]
    return "\n".join(lines)


def cves(changelog: str, is_newer: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the CVE numbers that the new entries of a Debian changelog name, each once, newest first.

    Args:
        changelog: text in the format of deb-changelog(5), newest entry first.
        is_newer: whether an entry of this version is new; reading ends at the first that is not.
    """
    found: dict[str, None] = {}
    for line in changelog.splitlines():
        if (entry := _ENTRY.match(line)) and not is_newer(entry[1]):
            break
        found.update(dict.fromkeys(_CVE.findall(line)))
    return tuple(found)


def _pairs(old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield name, old.get(name, NONE), new.get(name, NONE)


def _wheels(lock: Lock) -> dict[str, str]:
    """Versions; equal versions in other files are told apart by the file's digest."""
    return {package.name: f"{package.version} ({package.wheel.sha256[:12]})" for package in lock.packages}


def _debs(lock: Lock) -> dict[str, str]:
    return {package.name: f"{package.version} ({package.sha256[:12]})" for package in lock.os.packages}


def _rest(lock: Lock) -> dict[str, str]:
    facts = {"image layout": str(lock.layout), "OS release": lock.os.release, "Python": lock.python.version}
    determinism = {f"determinism.{name}": str(getattr(lock.determinism, name)) for name in ("level", "seed", "threads")}
    return {**facts, **determinism, **{f"added: {name}": reason for name, reason in lock.added.items()}}


def _row(move: Move) -> str:
    before, after = move.before, move.after
    if before.partition(" (")[0] != after.partition(" (")[0]:
        before, after = before.partition(" (")[0], after.partition(" (")[0]
    bold = "**" if move.kind == "framework" else ""
    return f"| {bold}{_text(move.name)}{bold} | {_text(before)} | {_text(after)} |"


def _counted(by_kind: Mapping[Kind, Sequence[Move]]) -> str:
    wheels = len(by_kind.get("framework", ())) + len(by_kind.get("python", ()))
    debs = len(by_kind.get("numeric", ())) + len(by_kind.get("os", ()))
    rest = len(by_kind.get("environment", ())) + len(by_kind.get("other", ()))
    parts = [
        _packages(wheels, "wheel") if wheels else "",
        _packages(debs, "Debian package") if debs else "",
        _packages(rest, "setting") if rest else "",
    ]
    return ", ".join(part for part in parts if part) + " moved"


def _effect(by_kind: Mapping[Kind, Sequence[Move]]) -> str:
    """Say what to expect of results."""
    if frameworks := by_kind.get("framework"):
        names = ", ".join(_text(move.name) for move in frameworks)
        return f"**Results will change**: {names} computes them. Compare before merging: `envbuild verify`."
    if by_kind.get("numeric") or by_kind.get("python") or by_kind.get("other") or by_kind.get("environment"):
        return (
            "Results may change: what moved can take part in computing them. Compare before merging: `envbuild verify`."
        )
    return "Results should stay: only packages moved that take no part in computing them."


def _security(moved: Sequence[Move], changelogs: bool) -> list[str]:
    fixed = [move for move in moved if move.fixes]
    lines = [f"- **{_text(move.name)}** fixes {', '.join(move.fixes)}" for move in fixed]
    if lines:
        return ["Security, by the changelogs of the Debian packages:", "", *lines, ""]
    if not changelogs:
        return ["Security: the changelogs of the moved Debian packages could not be read.", ""]
    return []


def _packages(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _text(text: str) -> str:
    """Escape what Markdown would take for markup."""
    return _MARKUP.sub(r"\\\1", text)
