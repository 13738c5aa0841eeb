"""Two locks and their images: packages by version, CUDA, hardware, determinism."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from envbuild.core.text import plain
from envbuild.difference.finding import NOWHERE, Context, Finding, Section, changed
from envbuild.difference.text import digest, flat, pairs, shown
from envbuild.lockfile.changes import NUMERIC
from envbuild.lockfile.model import Lock
from envbuild.record.model import Record

_FRAMEWORK, _WHEEL, _PATCH, _NUMERIC_OS, _OS = 68, 60, 56, 54, 38
_TABLES = {
    "variant": (99, "another variant of the spec"),
    "platform": (98, "another platform of the spec"),
    "emulators": (0, ""),
    "determinism.seed": (81, "the root of all seeds"),
    "determinism.level": (76, "which switches are set"),
    "determinism.threads": (73, "changes how work is split: other bits"),
    "determinism.strict": (12, "whether a switch that has no effect ends the program"),
    "os.release": (52, ""),
    "os.architecture": (66, ""),
    "os.snapshot": (0, ""),
    "os.image": (51, ""),
    "python.version": (65, ""),
    "python.build.version": (56, "another release of Python"),
    "python.build.path": (40, "another build of Python"),
    "python.build.size": (0, ""),
    "python.build.sha256": (40, "another build of Python"),
    "cuda": (62, "other kernels: other bits"),
    "cuda.driver": (0, ""),
    "cuda.toolkit-driver": (0, ""),
    "cuda.architectures": (40, "which kernels are shipped, and which the driver compiles"),
    "hardware": (5, "what the guard accepts"),
    "hardware.host": (0, ""),
    "layout": (34, "envbuild lays images out otherwise"),
    "name": (0, ""),
    "added": (0, ""),
    "exclude-newer": (0, ""),
    "sources": (6, "how wheels are built from source"),
    "build-packages": (6, "the system that sources are built in"),
    "missing-libraries": (3, "which shared libraries may be absent"),
    "resolution": (0, ""),
}
_ELSEWHERE = ("inputs", "environment", "run", "packages", "frameworks")
"""Reported by other sections; of ``os`` its packages and suites are."""


def locks(a: Record, b: Record, context: Context) -> tuple[Section, Section, Section]:
    """Return what differs in packages, in the rest of the locks, and between the images."""
    if a.lock.sha256 == b.lock.sha256:
        named = changed("lock", "lock file", a.lock.file, b.lock.file, 0) if a.lock.file != b.lock.file else None
        return Section(""), Section("lock", (named,) if named else ()), _image(a, b, "")
    if context.lock_a is None or context.lock_b is None:
        missing = " and ".join(side for side, lock in (("A", context.lock_a), ("B", context.lock_b)) if lock is None)
        why = f"the lock of {missing} was not kept: its packages cannot be compared"
        found = changed("lock", _name(a, b), digest(a.lock.sha256), digest(b.lock.sha256), 50, why=why)
        unknown = (f"packages (the lock of {missing} was not kept)",)
        return Section("packages", compared=False, unknown=unknown), Section("lock", (found,)), _image(a, b, "lock")
    packages = tuple(_packages(context.lock_a, context.lock_b))
    rest = tuple(_rest(context.lock_a, context.lock_b))
    whole = changed("lock", _name(a, b), digest(a.lock.sha256), digest(b.lock.sha256), 0, follows="what differs in it")
    return Section("packages", packages), Section("", (*rest, whole)), _image(a, b, "lock")


def _name(a: Record, b: Record) -> str:
    return a.lock.file if a.lock.file == b.lock.file else f"{a.lock.file} / {b.lock.file}"


def _image(a: Record, b: Record, follows: str) -> Section:
    """Compare images: the lock is in the image, so that another lock always means another image."""
    if a.image == b.image:
        return Section("image")
    why = "" if follows else "of one lock: another envbuild made guard, hook or layout otherwise"
    found = changed("image", "image", digest(a.image), digest(b.image), 35, why=why, follows=follows)
    return Section("image", (found,))


def _packages(a: Lock, b: Lock) -> Iterator[Finding]:
    """Yield wheels, frameworks first, then Debian packages."""
    frameworks = {*a.frameworks, *b.frameworks}
    mine = {each.name: (each.version, each.wheel.sha256) for each in a.packages}
    theirs = {each.name: (each.version, each.wheel.sha256) for each in b.packages}
    for name, before, after in pairs(mine, theirs):
        yield _package(name, before, after, _FRAMEWORK if name in frameworks else None)
    mine = {each.name: (each.version, each.sha256) for each in a.os.packages}
    theirs = {each.name: (each.version, each.sha256) for each in b.os.packages}
    for name, before, after in pairs(mine, theirs):
        yield _package(name, before, after, _NUMERIC_OS if name.startswith(NUMERIC) else _OS)


def _package(name: str, before: Any, after: Any, weight: int | None) -> Finding:
    """Describe one package; of equal versions the file."""
    one, other = (each[0] if each else NOWHERE for each in (before, after))
    if one == other:
        one, other = f"{one} ({digest(before[1])})", f"{other} ({digest(after[1])})"
    elif weight is None and before and after and _minor(one) == _minor(other):
        weight = _PATCH
    return changed("packages", name, one, other, _WHEEL if weight is None else weight)


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _rest(a: Lock, b: Lock) -> Iterator[Finding]:
    """Yield all other fields of two locks."""
    for name, before, after in pairs(_table(a), _table(b)):
        weight, why = _weight(name)
        one, other = shown(before, after)
        yield changed("lock", plain(name), one, other, weight, why=why)


def _table(lock: Lock) -> dict[str, Any]:
    table = msgspec.to_builtins(lock)
    for name in _ELSEWHERE:
        del table[name]
    for name in ("packages", "suites"):
        table["os"].pop(name, None)
    return dict(flat(table))


def _weight(name: str) -> tuple[int, str]:
    """Look a field up, or the table it is in."""
    while name:
        if name in _TABLES:
            return _TABLES[name]
        name = name.rpartition(".")[0]
    return 30, ""
