"""Private copies of a project, so that a run finds what the one before it found, and leaves the user's folder alone.

A copy holds what a run could change. Declared inputs are mounted read-only over it; so are the folders of tools that
are no results (``workspace.SKIPPED``): they are left out, and those that a program may look into are read-only in the
copy. Files share their blocks with the originals where the file system can do that (Btrfs, XFS, bcachefs).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.fs import clone, open_regular
from envbuild.engine.protocol import Mount
from envbuild.errors import UsageError
from envbuild.lockfile.layout import WORKSPACE
from envbuild.runs.workspace import SKIPPED

LIMIT = 4 << 30
"""Bytes of one copy, where blocks cannot be shared."""
COUNT = 100_000
"""Files of one copy."""
SHOWN = frozenset((".git", ".hg", ".svn", ".venv", "venv", "node_modules"))
"""Folders at the project's top that a program may look into; mounted read-only."""
_MEGABYTE = 1_000_000
_WAYS_OUT = (
    "declare data as inputs in spec.yaml (they are mounted, not copied), move what the program does not need out of "
    "the project, or run in the project itself, one after another: --in-place"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to copy.

    Attributes:
        project: the original.
        folders, files, links: relative paths, sorted; a folder is before what is in it.
        size: bytes of the files.
        shown: folders to mount read-only.
    """

    project: Path
    folders: tuple[str, ...]
    files: tuple[str, ...]
    links: tuple[str, ...]
    size: int
    shown: tuple[str, ...]

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """Mounts that belong to every copy."""
        return tuple(
            Mount(source=self.project / name, target=f"{WORKSPACE}/{name}", read_only=True) for name in self.shown
        )


def plan_copy(project: Path, inputs: Collection[str]) -> Plan:
    """Look at a project.

    Args:
        project: the folder that holds the lock.
        inputs: relative paths of declared inputs; of these a copy has empty places to mount them at.
    """
    folders, files, links, size, shown = [], [], [], 0, []
    left = [""]
    while left:
        folder = left.pop()
        with os.scandir(project / folder) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                if path in inputs:
                    continue
                if entry.is_symlink():
                    links.append(path)
                elif entry.is_dir():
                    if entry.name in SKIPPED:
                        shown += [path] if path in SHOWN else []
                        continue
                    folders.append(path)
                    left.append(f"{path}/")
                elif entry.is_file():
                    files.append(path)
                    size += entry.stat().st_size
    return Plan(
        project=project,
        folders=tuple(sorted(folders)),
        files=tuple(sorted(files)),
        links=tuple(sorted(links)),
        size=size,
        shown=tuple(sorted(shown)),
    )


def check_size(plan: Plan, copies: int, folder: Path, limit: int = LIMIT, count: int = COUNT) -> None:
    """Refuse a project that is too large to copy.

    Args:
        plan: what to copy.
        copies: how many there are at once.
        folder: where they will be.
        limit: bytes of one copy that shares no blocks with the original.
        count: files.

    Raises:
        UsageError: too many files, too many bytes, or less free space than the copies would fill.
    """
    if len(plan.files) > count:
        raise UsageError(
            f"{plan.project} has {len(plan.files):,} files besides its declared inputs; "
            f"expected at most {count:,} to copy",
            _WAYS_OUT,
        )
    if plan.size * copies < 64 * _MEGABYTE or _shares_blocks(plan, folder):
        return
    if plan.size > limit:
        raise UsageError(
            f"{plan.project} holds {plan.size // _MEGABYTE:,} MB besides its declared inputs; expected at most "
            f"{limit // _MEGABYTE:,} MB to copy, since this file system cannot share blocks",
            _WAYS_OUT,
        )
    free = shutil.disk_usage(folder).free
    if plan.size * copies > free // 2:
        number = f"{copies} copies" if copies > 1 else "a copy"
        raise UsageError(
            f"{number} of {plan.project} would take {plan.size * copies // _MEGABYTE:,} MB; "
            f"expected at most half of the {free // _MEGABYTE:,} MB that are free",
            f"{_WAYS_OUT}, or fewer at once: --jobs 1" if copies > 1 else _WAYS_OUT,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Aging:
    """How times of change in a copy differ from the original's.

    Attributes:
        seconds: by which all are older.
        reverse: which file is the newest is turned round: the first by name is, whatever the original order.
    """

    seconds: int = 0
    reverse: bool = False


def make_copy(plan: Plan, target: Path, inputs: Collection[str], aging: Aging | None = None) -> None:
    """Copy a project to a new folder: content, permissions, owners and times; files in the order of their names.

    What vanishes meanwhile is left out, as are sockets and pipes. Times of change differ as described in ``aging``.
    """
    target.mkdir(parents=True)
    _like(plan.project, target)
    for path in (*plan.folders, *plan.shown):
        (target / path).mkdir(exist_ok=True)
    for path in plan.files:
        with suppress(FileNotFoundError):
            _copy_file(plan.project / path, target / path)
    for path in plan.links:
        with suppress(FileNotFoundError):
            os.symlink(os.readlink(plan.project / path), target / path)  # noqa: PTH115, PTH211 - the name as it is
            _like(plan.project / path, target / path)
    for path in inputs:
        _make_parents(plan.project / path, target / path)
    for path in reversed(plan.folders):  # last: a folder's time changes with what is put into it
        _like(plan.project / path, target / path)
    if aging is not None and aging.seconds:
        _age(plan, target, aging)


def remove_copy(target: Path) -> None:
    """Remove a copy, also folders that the program made unwritable; one that is gone is fine."""

    def again(function: object, path: str, error: object) -> None:
        with suppress(OSError):
            Path(path).parent.chmod(0o700)
            if stat.S_ISDIR(os.lstat(path).st_mode):
                Path(path).chmod(0o700)
                shutil.rmtree(path, ignore_errors=True)
            else:
                Path(path).unlink()

    shutil.rmtree(target, onerror=again)


def _copy_file(source: Path, target: Path) -> None:
    with open_regular(source, follow=False) as original, target.open("xb") as copy:
        if not clone(original, copy):
            shutil.copyfileobj(original, copy, 1 << 20)
    _like(source, target)


def _make_parents(source: Path, target: Path) -> None:
    """Make the file or folder that an input is mounted at."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def _like(source: Path, target: Path) -> None:
    """Give a copy its original's owner, permissions and times, as far as this user may."""
    status = os.lstat(source)
    with suppress(OSError):
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        target.chmod(stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)


def _age(plan: Plan, target: Path, aging: Aging) -> None:
    """Set back the times of change in a copy."""
    newest = os.lstat(plan.project).st_mtime_ns
    for place, path in enumerate((*plan.files, *reversed(plan.folders))):
        with suppress(FileNotFoundError):
            status = os.lstat(target / path)
            changed = status.st_mtime_ns if not aging.reverse else newest - place * 1_000_000_000
            os.utime(target / path, ns=(status.st_atime_ns, changed - aging.seconds * 1_000_000_000))


def _shares_blocks(plan: Plan, folder: Path) -> bool:
    """Try with one file whether copies share their blocks with the originals."""
    sample = next((plan.project / path for path in plan.files if (plan.project / path).stat().st_size), None)
    if sample is None:
        return False
    trial = folder / f".share-{os.getpid()}"
    try:
        with sample.open("rb") as original, trial.open("xb") as copy:
            return clone(original, copy)
    except OSError:
        return False
    finally:
        trial.unlink(missing_ok=True)
