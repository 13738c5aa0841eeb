"""Private copies of a project, so that a run finds what the one before it found, and leaves the user's folder alone.

A copy holds what a run could change. Declared inputs are mounted read-only over it; so are the folders of tools that
are no results (``workspace.SKIPPED``): they are left out, and those that a program may look into are read-only in the
copy. Files share their blocks with the originals where the file system can do that (Btrfs, XFS, bcachefs).

Another program may write the project meanwhile, perhaps from a container: every file is reached through open folders,
and no link is followed, whatever becomes of a name between two looks at it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Literal

from envbuild.core.fs import clone, folder_below, naming, open_regular
from envbuild.core.patterns import lazy
from envbuild.core.removal import remove_tree
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
_TIMES, _SOURCES = lazy(rb"st_[mc]time|get[mc]time|st_birthtime"), (".py", ".ipynb")
_SEEDS = lazy(
    rb"(?i:seed|rng|random)[^\n#]{0,200}(?:getpid|getppid|get_native_id|\.pid\b|\.native_id\b)"
    rb"|(?:getpid|getppid|get_native_id|\.pid\b|\.native_id\b)[^\n#]{0,200}(?i:seed|rng|random)"
    rb"|(?:getp?pid\(\)|\.pid)\s*(?:%|\^|&|\*|>>|<<|//)|\$\(\([^\n)]{0,100}\$\$[^\n]{0,100}\)\)|\bRANDOM=[^\s;]{0,40}\$\$"
)
"""A line with the number of a process or thread and a word of random numbers, or that computes with one, in a shell's
text too (``$(( $$ % 9 ))``); most such numbers name files and logs."""
_SHELL = (".sh", ".bash")
_MOST_SOURCES, _LONGEST_SOURCE = 2000, 1 << 20
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


def asks_for(plan: Plan) -> frozenset[Literal["order of times", "pids"]]:
    """Return what a result may depend on by the sources in a project.

    They ask when files were changed, so that the order of these times may matter, or draw by numbers of processes.
    """
    found: set[Literal["order of times", "pids"]] = set()
    sources = [path for path in plan.files if path.endswith((*_SOURCES, *_SHELL))]
    for path in sources[:_MOST_SOURCES]:
        above, _, name = path.rpartition("/")
        parts = above.split("/") if above else ()
        with suppress(OSError), folder_below(plan.project, *parts) as folder, open_regular(folder / name) as file:
            text = file.read(_LONGEST_SOURCE)
            found |= {"order of times"} if _TIMES.search(text) is not None else set()
            found |= {"pids"} if _SEEDS.search(text) is not None else set()
    return frozenset(found)


def plan_copy(project: Path, inputs: Collection[str]) -> Plan:
    """Look at a project.

    Args:
        project: the folder that holds the lock.
        inputs: relative paths of declared inputs; of these a copy has empty places to mount them at.
    """
    folders, files, links, size, shown = [], [], [], 0, []
    left = [""]
    while left:
        above = left.pop()
        with (
            _unless_gone(above),
            folder_below(project, *above.split("/")[:-1]) as folder,
            os.scandir(folder) as entries,
        ):
            for entry in entries:
                path = f"{above}{entry.name}"
                if path in inputs:
                    continue
                if entry.is_symlink():
                    links.append(path)
                elif entry.is_dir(follow_symlinks=False):
                    if entry.name in SKIPPED:
                        shown += [path] if path in SHOWN else []
                        continue
                    folders.append(path)
                    left.append(f"{path}/")
                elif entry.is_file(follow_symlinks=False):
                    files.append(path)
                    size += entry.stat(follow_symlinks=False).st_size
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
            f"{plan.project} has {len(plan.files):,} files in addition to its declared inputs; "
            f"expected at most {count:,} to copy",
            _WAYS_OUT,
        )
    if plan.size * copies < 64 * _MEGABYTE or _shares_blocks(plan, folder):
        return
    if plan.size > limit:
        raise UsageError(
            f"{plan.project} holds {plan.size // _MEGABYTE:,} MB in addition to its declared inputs; expected at most "
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


def make_copy(
    plan: Plan, target: Path, inputs: Collection[str], aging: Aging | None = None, *, backwards: bool = False
) -> None:
    """Copy a project to a new folder: content, permissions, owners and times; files in the order of their names.

    What vanishes meanwhile is left out, as are sockets and pipes. Times of change differ as described in ``aging``.
    ``backwards``: the last file by name is made first, so that inode numbers have another order, and so have listings
    of file systems that list in the order of making.
    """
    order = slice(None, None, -1 if backwards else 1)
    target.mkdir(parents=True)
    _like(plan.project, target)
    for path in (*plan.folders, *plan.shown):
        with folder_below(target, *path.split("/"), make=True):
            pass
    for above, names in _by_folder(plan.files[order]):
        with _unless_gone(above), _both(plan.project, target, above) as (source, copy):
            for name in names:
                with _unless_gone(name):
                    _copy_file(source / name, copy / name)
    for above, names in _by_folder(plan.links[order]):
        with _unless_gone(above), _both(plan.project, target, above) as (source, copy):
            for name in names:
                with _unless_gone(name):
                    os.symlink(os.readlink(source / name), copy / name)  # noqa: PTH115, PTH211 - the name as it is
                    _like_link(source / name, copy / name)
    for path in inputs:
        with _unless_gone(path):
            _make_place(plan.project / path, target, path.split("/"))
    for path in reversed(plan.folders):  # last: a folder's time changes with what is put into it
        with _unless_gone(path), _both(plan.project, target, path) as (source, copy):
            _like(source, copy)
    if aging is not None and (aging.seconds or aging.reverse):
        _age(plan, target, aging)


def remove_copy(target: Path) -> None:
    """Remove a copy, also folders that the program made unwritable; one that is gone is fine."""
    remove_tree(target)


def _by_folder(paths: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Give names in the order of their paths, together where neighbours are in one folder."""
    for above, group in groupby(paths, lambda path: path.rpartition("/")[0]):
        yield above, [path.rpartition("/")[2] for path in group]


@contextmanager
def _both(source: Path, target: Path, path: str) -> Iterator[tuple[Path, Path]]:
    """Open a folder of the project and the same one of its copy."""
    names = path.split("/") if path else []
    with folder_below(source, *names) as one, folder_below(target, *names) as other:
        yield one, other


@contextmanager
def _unless_gone(path: str) -> Iterator[None]:
    """Leave out what vanished, or became a link, a pipe or the like; the project itself (no path) must be there."""
    try:
        yield
    except OSError as error:
        if not path or error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO):
            raise


def _copy_file(source: Path, target: Path) -> None:
    with naming(target), open_regular(source, follow=False) as original, target.open("xb") as copy:
        if not clone(original, copy):
            shutil.copyfileobj(original, copy, 1 << 20)
        copy.flush()
        _give(os.fstat(original.fileno()), copy)


def _give(status: os.stat_result, copy: BinaryIO) -> None:
    """Give an open copy its original's owner, permissions and time of change, as far as this user may.

    The time of access is made the same, so that another one shows that the copy was read (``workspace.read_files``).
    """
    with suppress(OSError):
        os.fchown(copy.fileno(), status.st_uid, status.st_gid)
    with suppress(PermissionError):  # file systems with modes of their own
        os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode))
    os.utime(copy.fileno(), ns=(status.st_mtime_ns, status.st_mtime_ns))


def _make_place(source: Path, copy: Path, names: Sequence[str]) -> None:
    """Make the file or folder that an input is mounted at."""
    folder = source.is_dir()
    with folder_below(copy, *(names if folder else names[:-1]), make=True) as place:
        if not folder:
            (place / names[-1]).touch()


def _like(source: Path, target: Path) -> None:
    """Give a folder of a copy its original's owner, permissions and times, as far as this user may."""
    status = source.stat()
    with suppress(OSError):
        os.chown(target, status.st_uid, status.st_gid)
    with suppress(PermissionError):
        target.chmod(stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _like_link(source: Path, target: Path) -> None:
    """The same of a link itself."""
    status = os.lstat(source)
    with suppress(OSError):
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)


def _age(plan: Plan, target: Path, aging: Aging) -> None:
    """Set back the times of change in a copy."""
    newest = plan.project.stat().st_mtime_ns
    for place, path in enumerate((*plan.files, *reversed(plan.folders))):
        above, _, name = path.rpartition("/")
        with _unless_gone(path), folder_below(target, *(above.split("/") if above else ())) as folder:
            status = os.lstat(folder / name)
            changed = status.st_mtime_ns if not aging.reverse else newest - place * 1_000_000_000
            changed -= aging.seconds * 1_000_000_000
            os.utime(folder / name, ns=(changed, changed), follow_symlinks=False)


def _shares_blocks(plan: Plan, folder: Path) -> bool:
    """Try with one file whether copies share their blocks with the originals."""
    sample = next((plan.project / path for path in plan.files if os.lstat(plan.project / path).st_size), None)
    if sample is None:
        return False
    trial = folder / f".share-{os.getpid()}"
    try:
        with open_regular(sample, follow=False) as original, trial.open("xb") as copy:
            return clone(original, copy)
    except OSError:
        return False
    finally:
        trial.unlink(missing_ok=True)
