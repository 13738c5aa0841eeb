"""Digests of declared input data: every byte, every name, every link.

The digest of an input is the SHA-256 of its manifest: one record per entry, sorted by the bytes of its path, which is
relative to the input and in POSIX form (empty for the input itself). A record is three fields, each ended by a NUL::

    file  <path>  <SHA-256 of the content>
    link  <path>  <target, as stored in the link>
    dir   <path>  <empty>

Folders count, also empty ones: a program that lists class folders sees them. Modes, owners and times do not: they
differ between checkouts and no training reads them. Links are not followed; one that leads out of all declared
inputs is refused, since what it leads to would go unnoticed. An input that is itself a link is followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from envbuild.errors import IntegrityError, Problem, SpecError
from envbuild.lock import Input
from envbuild.progress import Progress, Silent
from envbuild.suggest import names_in, perhaps, quote

_CHUNK = 1 << 20
_BATCH = 8 << 20
"""Small files are hashed in batches of about this many bytes: a task per file would cost more than its hash."""

HashFile = Callable[[Path, os.stat_result], str]
"""Content digest of a regular file; a stat cache or another hash can stand in for ``hash_file``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One input that is not as locked; ``found`` is None if it is missing or cannot be an input any more."""

    path: str
    locked: Input
    found: Input | None
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """One entry of an input's tree; ``name`` is its path relative to the input."""

    kind: str
    name: bytes
    path: Path
    status: os.stat_result


def hash_file(path: Path, status: os.stat_result) -> str:
    """Return the SHA-256 of a regular file, without following a link.

    Args:
        path: the file.
        status: what ``lstat`` said when the tree was listed.

    Raises:
        IntegrityError: the file changed since, or while it was read.
    """
    digest = hashlib.sha256()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
            after = os.fstat(stream.fileno())
    except OSError as error:
        raise IntegrityError(f"cannot read {path}: {error.strerror}", "check the disk and permissions") from None
    if _identity(after) != _identity(status):
        raise IntegrityError(f"{path} changed while it was read", "stop what writes to it, then try again")
    return digest.hexdigest()


def digest_inputs(
    base: Path,
    paths: Sequence[str],
    *,
    source: str = "spec.yaml",
    progress: Progress | None = None,
    hash_file: HashFile = hash_file,
) -> tuple[Input, ...]:
    """Digest input files and folders, on all cores.

    Args:
        base: folder that the paths are relative to.
        paths: relative POSIX paths.
        source: what messages call the file that declares them.
        progress: told the bytes read.

    Raises:
        SpecError: missing paths, paths and links that lead outside, sockets, devices, unreadable files; all at once.
        IntegrityError: a file changed while it was read.
    """
    trees, wrong = _scan_all(base, paths)
    problems = [
        Problem(path=f"inputs[{index}]", message=message) for index, some in enumerate(wrong) for message in some
    ]
    if problems:
        raise SpecError(source, problems, "correct the paths, or leave them out of inputs")
    digests = _hash_all(trees, hash_file, progress or Silent())
    return tuple(_input(path, tree, digests) for path, tree in zip(paths, trees, strict=True))


def compare_inputs(
    base: Path, locked: Sequence[Input], *, progress: Progress | None = None, hash_file: HashFile = hash_file
) -> tuple[Difference, ...]:
    """Compare inputs with a lock.

    Returns:
        One difference for each input that is not as locked, in the lock's order.

    Raises:
        IntegrityError: a file changed while it was read.
    """
    trees, wrong = _scan_all(base, [entry.path for entry in locked])
    sound = [tree for tree, some in zip(trees, wrong, strict=True) if not some]
    digests = _hash_all(sound, hash_file, progress or Silent())
    differences = []
    for entry, tree, some in zip(locked, trees, wrong, strict=True):
        found = None if some else _input(entry.path, tree, digests)
        if found is None or found.sha256 != entry.sha256:
            message = f"{entry.path}: {'; '.join(some)}" if found is None else _changed(entry, found)
            differences.append(Difference(path=entry.path, locked=entry, found=found, message=message))
    return tuple(differences)


def _changed(locked: Input, found: Input) -> str:
    if (locked.files, locked.bytes) == (found.files, found.bytes):
        return f"{locked.path}: the same number of files ({found.files:,}) and bytes ({found.bytes:,}), other content"
    return (
        f"{locked.path}: locked with {locked.files:,} files of {locked.bytes:,} bytes, "
        f"found {found.files:,} files of {found.bytes:,} bytes"
    )


def _scan_all(base: Path, paths: Sequence[str]) -> tuple[list[list[_Entry]], list[list[str]]]:
    """List the tree of every input, and what is wrong with each."""
    roots = [Path(os.path.realpath(base / path)) for path in paths]
    scans = [_scan(base, path, roots) for path in paths]
    return [tree for tree, _ in scans], [wrong for _, wrong in scans]


def _scan(base: Path, path: str, roots: Sequence[Path]) -> tuple[list[_Entry], list[str]]:
    """List an input's tree, and what is wrong with it."""
    root = base / path
    real_base = Path(os.path.realpath(base))
    real = Path(os.path.realpath(root))
    if real == real_base or not real.is_relative_to(real_base):
        return [], [f"{quote(path)} leads out of the folder {base}"]
    if not os.path.lexists(root):
        return [], [f"no file or folder {quote(path)}{perhaps(root.name, names_in(root.parent))}"]
    entries: list[_Entry] = []
    problems: list[str] = []
    for entry, problem in _walk(real, b""):
        if problem:
            problems.append(problem)
        elif entry is not None and entry.kind == "link" and not _covered(entry.path, roots):
            target = os.fsdecode(_target(entry.path))
            problems.append(f"the link {entry.path} leads to {quote(target)}, outside all declared inputs")
        elif entry is not None:
            entries.append(entry)
    return sorted(entries, key=lambda entry: entry.name), problems


def _walk(path: Path, name: bytes) -> Iterator[tuple[_Entry | None, str]]:
    """Yield an entry or a problem for a path and everything below it."""
    pending = [(path, name)]
    while pending:
        here, relative = pending.pop()
        try:
            status = here.lstat()
            kind = _kind(status.st_mode)
            if kind == "dir":
                prefix = relative + b"/" if relative else b""
                pending += [(child, prefix + os.fsencode(child.name)) for child in here.iterdir()]
            elif kind == "file" and not os.access(here, os.R_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            yield None, f"cannot read {here}: {error.strerror}"
            continue
        if not kind:
            yield None, f"{here} is neither a file, a folder nor a link"
        else:
            yield _Entry(kind=kind, name=relative, path=here, status=status), ""


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "link" if stat.S_ISLNK(mode) else ""


def _target(link: Path) -> bytes:
    return os.readlink(os.fsencode(link))  # noqa: PTH115 - Path.readlink drops "./" and "//"


def _covered(link: Path, roots: Sequence[Path]) -> bool:
    """Whether a link leads into one of the inputs, so that what it leads to is digested as well."""
    target = Path(os.path.realpath(link))
    return any(target.is_relative_to(root) for root in roots)


def _hash_all(trees: Sequence[Sequence[_Entry]], hash_file: HashFile, progress: Progress) -> dict[Path, str]:
    """Hash every file once, the largest first, so that no core waits for a late large one."""
    unique = {entry.path: entry for tree in trees for entry in tree if entry.kind == "file"}
    ordered = sorted(unique.values(), key=lambda entry: -entry.status.st_size)
    total = sum(entry.status.st_size for entry in ordered)

    def work(batch: list[_Entry]) -> list[tuple[Path, str]]:
        done = []
        for entry in batch:
            done.append((entry.path, hash_file(entry.path, entry.status)))
            advance(entry.status.st_size)
        return done

    workers = len(os.sched_getaffinity(0))
    with progress.phase("inputs", total) as advance, ThreadPoolExecutor(workers) as pool:
        return dict(pair for pairs in pool.map(work, _batches(ordered)) for pair in pairs)


def _batches(entries: Sequence[_Entry]) -> Iterator[list[_Entry]]:
    batch: list[_Entry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += entry.status.st_size + 4096
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _input(path: str, tree: Sequence[_Entry], digests: dict[Path, str]) -> Input:
    """Digest the manifest of one input."""
    manifest = hashlib.sha256()
    for entry in tree:
        value = b""
        if entry.kind == "file":
            value = digests[entry.path].encode()
        elif entry.kind == "link":
            value = _target(entry.path)
        manifest.update(b"\0".join((entry.kind.encode(), entry.name, value, b"")))
    return Input(
        path=path,
        sha256=manifest.hexdigest(),
        files=sum(entry.kind != "dir" for entry in tree),
        bytes=sum(entry.status.st_size for entry in tree if entry.kind == "file"),
    )


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
