"""Walking an input's tree in the order of its manifest: what is there, and what is wrong with it.

A folder is read by its descriptor and entries are looked at relative to it: one system call per entry. Links are not
followed; one that leads out of all declared inputs is refused, since what it leads to would go unnoticed. An input
that is itself a link represents what it leads to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from envbuild.core.text import names_in, perhaps, quote
from envbuild.inputs.manifest import DIR, FILE, LINK

_ALL_SIGNS = 10
"""So many things wrong with one input are reported; of the others, how many."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Found(NamedTuple):
    """One entry: what it is, its path in the manifest, its state, a link's target."""

    kind: bytes
    path: bytes
    status: os.stat_result
    target: bytes = b""


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    """One input.

    Attributes:
        path: as declared.
        real: where it is, links resolved.
        roots: where all inputs are; a link may lead into any of them.
    """

    path: str
    real: Path
    roots: tuple[Path, ...]

    def place(self, path: bytes) -> Path:
        """Return where an entry of the manifest is."""
        return self.real / os.fsdecode(path) if path else self.real


class Problems:
    """What is wrong with one input, the first of it as text."""

    def __init__(self) -> None:
        self.count = 0
        self._messages: list[str] = []

    def add(self, message: str) -> None:
        """Note one more."""
        self.count += 1
        if len(self._messages) < _ALL_SIGNS:
            self._messages.append(message)

    @property
    def messages(self) -> list[str]:
        """The first of them, then the number of others."""
        more = self.count - len(self._messages)
        return [*self._messages, f"and {more:,} more of the kind"] if more else list(self._messages)


def find_roots(base: Path, paths: Sequence[str]) -> tuple[list[Root], list[Problems]]:
    """Find inputs, and report for each what is wrong with it so far: it must be inside the folder ``base``."""
    real_base = Path(os.path.realpath(base))
    reals = tuple(Path(os.path.realpath(base / path)) for path in paths)
    problems = [Problems() for _ in paths]
    for path, real, wrong in zip(paths, reals, problems, strict=True):
        if real == real_base or not real.is_relative_to(real_base):
            wrong.add(f"{quote(path)} leads out of the folder {base}")
        elif not os.path.lexists(base / path):
            name = Path(path)
            wrong.add(f"no file or folder {quote(path)}{perhaps(name.name, names_in(base / name.parent))}")
    return [Root(path=path, real=real, roots=reals) for path, real in zip(paths, reals, strict=True)], problems


def walk(root: Root, wrong: Callable[[str], None]) -> Iterator[list[Found]]:
    """Yield the entries of an input in the order of its manifest, some at a time.

    Args:
        root: the input.
        wrong: receives what is neither file, folder nor link, cannot be read, or leads out; that is left out.
    """
    try:
        status = root.real.lstat()
        found = _found(root, b"", status, wrong)
        if found is None or found.kind != DIR:
            yield [found] if found else []
            return
        descriptor = os.open(root.real, _FOLDER)
    except OSError as error:
        wrong(f"cannot read {root.real}: {error.strerror}")
        return
    try:
        yield [found]
        yield from _below(root, descriptor, wrong)
    finally:
        os.close(descriptor)


def _below(root: Root, descriptor: int, wrong: Callable[[str], None]) -> Iterator[list[Found]]:
    """Yield what is below a folder. ``stack`` holds what is left to report each folder on the way down."""
    stack = [_listed(root, descriptor, b"", wrong)]
    while stack:
        ready: list[Found] = []
        while stack[-1]:
            found = stack[-1].pop()
            ready.append(found)
            if found.kind == DIR:
                break
        else:
            stack.pop()
            yield ready
            continue
        yield ready
        try:
            folder = os.open(ready[-1].path, _FOLDER, dir_fd=descriptor)
        except OSError as error:
            wrong(f"cannot read {root.place(ready[-1].path)}: {error.strerror}")
            continue
        try:
            stack.append(_listed(root, folder, ready[-1].path + b"/", wrong))
        finally:
            os.close(folder)


def _listed(root: Root, folder: int, prefix: bytes, wrong: Callable[[str], None]) -> list[Found]:
    """Return a folder's entries, the last first."""
    found = []
    try:
        with os.scandir(folder) as listing:
            for entry in listing:
                path = prefix + os.fsencode(entry.name)
                try:
                    status = entry.stat(follow_symlinks=False)
                    if (one := _found(root, path, status, wrong)) is not None:
                        found.append(one)
                except OSError as error:
                    wrong(f"cannot read {root.place(path)}: {error.strerror}")
    except OSError as error:
        wrong(f"cannot read {root.place(prefix.rstrip(b'/'))}: {error.strerror}")
    found.sort(key=_path, reverse=True)
    return found


def _path(found: Found) -> bytes:
    return found.path


def _found(root: Root, path: bytes, status: os.stat_result, wrong: Callable[[str], None]) -> Found | None:
    """Look at one entry; None if it cannot be part of an input."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        if _seems_readable(status) or os.access(root.place(path), os.R_OK):
            return Found(FILE, path, status)
        wrong(f"cannot read {root.place(path)}: Permission denied")
    elif stat.S_ISDIR(mode):
        return Found(DIR, path, status)
    elif stat.S_ISLNK(mode):
        place = root.place(path)
        target = os.readlink(os.fsencode(place))  # noqa: PTH115 - Path.readlink drops "./" and "//"
        real = Path(os.path.realpath(place))
        if any(real.is_relative_to(one) for one in root.roots):
            return Found(LINK, path, status, target)
        wrong(f"the link {place} leads to {quote(os.fsdecode(target))}, outside all declared inputs")
    else:
        wrong(f"{root.place(path)} is neither a file, a folder nor a link")
    return None


def _seems_readable(status: os.stat_result) -> bool:
    """Whether the mode alone lets everyone or the owner, us, read; the system is asked only where it does not."""
    return bool(status.st_mode & stat.S_IROTH) or (status.st_uid == os.geteuid() and bool(status.st_mode & 0o400))
