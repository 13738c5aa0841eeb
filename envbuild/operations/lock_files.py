"""The files beside a spec: which lock and which Dockerfile are its own, and which are another's or a person's."""

from __future__ import annotations

import re
from pathlib import Path

from envbuild.errors import LockError, SpecError, UsageError
from envbuild.lockfile import model as locks
from envbuild.lockfile.discovery import locks_in
from envbuild.spec.model import Spec, load_spec

_HEAD = re.compile(rb"# Written by envbuild from (pylock\.[a-z0-9_-]{1,64}\.toml);")


def existing_lock(path: Path, spec: Spec, *, upgrade: bool) -> locks.Lock | None:
    """Load the lock that is about to be replaced; None if there is none.

    Args:
        path: the spec's file.
        upgrade: every pin is to move anyway, so that a lock that cannot be read is as good as none.

    Raises:
        LockError: it cannot be read: to resolve without it would move every pin and tell nobody.
        UsageError: it is the lock of another spec of that name.
    """
    target = path.parent / f"pylock.{spec.name}.toml"
    if not target.exists():
        return None
    try:
        old = locks.load(target)
    except LockError as error:
        if upgrade:
            return None
        way = error.hint.replace("envbuild lock --upgrade", f"envbuild lock --upgrade {path}")
        raise LockError(f"{error.message}\n  it is not replaced, since all its pins would be lost", way) from None
    others = [name for name in old.resolution if name != path.name and name.endswith((".yaml", ".yml"))]
    if path.name not in old.resolution and (other := next((x for x in others if _is_named(path, x, spec)), "")):
        raise UsageError(
            f"{target.name} is the lock of {other}, which is named {spec.name} too",
            "give one of them another name, or remove the one that is not needed",
        )
    return old


def earlier_locks(path: Path, target: Path) -> list[str]:
    """Return the names of further locks that were made from this spec, under names that it had before."""
    found = []
    for place in locks_in(path.parent).values():
        try:
            if place.name != target.name and path.name in locks.load(place).resolution:
                found.append(place.name)
        except LockError:
            continue
    return sorted(found)


def dockerfile_of(path: Path, target: Path) -> Path:
    """Return where a lock's Dockerfile lies: ``Dockerfile``, unless that is another lock's or a person's.

    Then it is ``Dockerfile.NAME``, and stays there. The first line of each tells whose it is.

    Raises:
        UsageError: both files are there and neither was written by ``envbuild lock``.
    """
    shared = path.parent / "Dockerfile"
    own = path.parent / f"Dockerfile.{target.name.removeprefix('pylock.').removesuffix('.toml')}"
    owner = _owner(shared)
    if _owner(own) == target.name:
        return own
    if not shared.exists() or owner == target.name:
        return shared
    if owner and (not (path.parent / owner).exists() or owner in earlier_locks(path, target)):
        return shared
    if own.exists() and not _owner(own):
        raise UsageError(f"{shared} and {own.name} are not of envbuild: neither is replaced", "move one of them")
    return own


def _is_named(path: Path, other: str, spec: Spec) -> bool:
    """Whether another spec of this folder is there and has this spec's name; one that cannot be read may have it."""
    try:
        return (path.parent / other).is_file() and load_spec(path.parent / other).name == spec.name
    except SpecError:
        return True


def _owner(path: Path) -> str:
    """Return the name of the lock that a Dockerfile was written from; empty if it is absent or another's."""
    try:
        with path.open("rb") as stream:
            match = _HEAD.match(stream.readline(200))
    except OSError:
        return ""
    return match[1].decode() if match else ""
