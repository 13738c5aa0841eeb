"""A project is the folder that holds a lock; its lock is found upward from the working directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from envbuild.core.patterns import lazy
from envbuild.errors import LockError, UsageError

STATE_FOLDER = ".envbuild"
"""Run records and the like, below the project."""

Prefer = Callable[[Sequence[Path]], Path | None]

_LOCK_NAME = lazy(r"pylock\.([a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?)\.toml")


def locks_in(folder: Path) -> dict[str, Path]:
    """Return the locks of a folder by the name part of each; a folder that cannot be read has none."""
    return {match[1]: folder / match[0] for match in map(_LOCK_NAME.fullmatch, _names(folder)) if match}


def find_lock(start: Path, name: str = "", *, option: bool = False, prefer: Prefer | None = None) -> Path:
    """Find the nearest ``pylock.<name>.toml`` from ``start`` (a file or folder) upward.

    Args:
        start: where to begin.
        name: the lock's name part, or empty if the nearest folder with locks has only one.
        option: the command takes a lock as ``--lock FILE``, not as an argument.
        prefer: chooses one of several; None: they are as good as each other.

    Raises:
        LockError: there is none.
        UsageError: the nearest folder holds several and no name was given.
    """
    begin = start.resolve()
    if not begin.is_dir():
        begin = begin.parent
    for folder in (begin, *begin.parents):
        found = locks_in(folder)
        if name and name in found:
            return found[name]
        if not name and len(found) == 1:
            return next(iter(found.values()))
        if not name and prefer and (one := prefer([found[key] for key in sorted(found)])):
            return one
        if not name and found:
            listed = sorted(path.name for path in found.values())
            way = f"choose one: --lock {listed[0]}" if option else f"choose one: {listed[0]} as the last argument"
            if variant := _a_variant(found.values()):
                way = f"choose one, by its variant: --variant {variant}"
            raise UsageError(f"{folder} holds {len(found)} locks: {', '.join(listed)}", way)
    wanted = f"pylock.{name}.toml" if name else "lock (pylock.NAME.toml)"
    raise LockError(f"no {wanted} in {begin} or any folder above it", _way_to_a_lock(begin))


def nearest_locks(start: Path) -> tuple[Path, ...]:
    """Return all locks of the nearest folder upward that has any, sorted; raises ``LockError`` if there is none."""
    begin = start.resolve()
    for folder in (begin, *begin.parents):
        if found := locks_in(folder):
            return tuple(found[name] for name in sorted(found))
    raise LockError(f"no lock (pylock.NAME.toml) in {begin} or any folder above it", _way_to_a_lock(begin))


def _a_variant(paths: Iterable[Path]) -> str:
    """Return the variant of the first lock, if all are of variants of one spec; else nothing."""
    from envbuild.lockfile import model

    try:
        found = sorted((lock.base_name, lock.variant) for lock in map(model.load, paths))
    except LockError:
        return ""
    names = {name for name, _ in found}
    return found[0][1] if len(names) == 1 and all(variant for _, variant in found) else ""


def state_path(project: Path, *names: str) -> Path:
    """Return ``.envbuild/names…`` of a project, whether it is there or not.

    Raises:
        UsageError: one of these folders is a link: what is written, or removed, would be elsewhere.
    """
    path = project / STATE_FOLDER
    for name in ("", *names):
        path /= name
        if path.is_symlink():
            raise UsageError(f"{path} is a link, which envbuild does not follow", f"remove it: rm {path}")
    return path


def near_spec(folder: Path) -> str:
    """Return the path of the nearest ``spec.yaml`` in a folder or above it, from the working directory; or nothing."""
    for place in (folder, *folder.parents):
        if (place / "spec.yaml").is_file():
            return os.path.relpath(place / "spec.yaml")
    return ""


def _way_to_a_lock(folder: Path) -> str:
    if found := near_spec(folder):
        return f"write one: envbuild lock {found}"
    here = Path.cwd()
    if not here.is_relative_to(folder) and any(map(locks_in, (here, *here.parents))):
        import shlex

        own = shlex.quote(os.path.relpath(folder))
        return f"a lock is for scripts in its own project: copy this one there, or make another: envbuild init {own}"
    return "write a spec, then lock it: envbuild init"


def project_of(folder: Path) -> Path:
    """Return the project of a folder, whose runs are asked for: the nearest with a lock or runs, else itself.

    Raises:
        UsageError: it is no folder; a slip of the pen must not end in the project above it.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", "name a project: a folder with a lock or with runs")
    for candidate in (folder.absolute(), *folder.absolute().parents):
        if (candidate / STATE_FOLDER).is_dir() or any(_LOCK_NAME.fullmatch(name) for name in _names(candidate)):
            return candidate
    return folder.absolute()


def _names(folder: Path) -> list[str]:
    """List a folder's entries; a folder that cannot be read counts as empty."""
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
