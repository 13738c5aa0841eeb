"""The first file system: essential packages unpacked in Python, enough for dpkg and its scripts to run.

Every package is decompressed once, checked member by member, and passed on uncompressed, so that neither dpkg nor
what compiles modules need do it again. What the seed holds is written again by dpkg, so it leaves out what no script
reads.
"""

from __future__ import annotations

import dataclasses
import fcntl
import io
import os as system
import re
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from envbuild.core.digest import sha256_file
from envbuild.core.fs import atomic_file
from envbuild.core.package_data import template_dir
from envbuild.core.progress import Advance
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.os import bootstrap
from envbuild.image.os.deb import Deb, open_deb
from envbuild.image.os.normalise import add_constants
from envbuild.image.os.tree import Members, Slice, Tree
from envbuild.image.tar.layer import Entry, Layer, LayerWriter
from envbuild.lockfile.model import Os, OsPackage

WORK = "tmp/envbuild-os"
"""Where the install script finds its inputs, relative to the root."""

_MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
_UNSEEDED = re.compile(
    r"usr/share/(?!debconf/|dpkg/sh/|perl5/).+|usr/lib/(?:locale|systemd|udev)/.+|usr/lib/[^/]+/(?:gconv|perl-base/unicore)/.+"
)
"""What no script reads before dpkg has written it: every seeded file costs the engine's import and a copy by dpkg."""

_IN_MEMORY = 4 << 20
_KEPT: dict[tuple[str, int, int, int, int, int], tuple[Path, int, int]] = {}
"""Where the data archives of packages are uncompressed just now, digest compared: file, offset and size."""
_SET_PIPE_SIZE = 1031  # linux/fcntl.h; Python has it since 3.10 on most systems


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A locked package, its opened file and its control fields."""

    package: OsPackage
    deb: Deb
    fields: dict[str, str]


def install_script() -> bytes:
    """Return the script that installs and cleans, the same in ``envbuild build`` and in a Dockerfile build."""
    return (template_dir() / "os-install.sh").read_bytes()


def dpkg_config() -> bytes:
    """Return the image's dpkg configuration."""
    return (template_dir() / "dpkg.cfg").read_bytes()


def open_packages(os: Os, store_path: Callable[[str], Path]) -> tuple[Source, ...]:
    """Open the locked packages, sorted by file name.

    Raises:
        IntegrityError: a file is missing from the store, or holds another package than the lock reports.
        BuildError: a file is no sound package, or a package is locked twice.
    """
    sources = []
    names: set[str] = set()
    for package in sorted(os.packages, key=lambda package: package.file):
        if package.name in names:
            raise BuildError(f"the lock names the OS package {package.name} twice", "lock again: envbuild lock")
        names.add(package.name)
        path = store_path(package.sha256)
        if not path.is_file():
            raise IntegrityError(f"{package.file} is not in the store (sha256 {package.sha256})", "envbuild fetch")
        deb = open_deb(path, package.file)
        fields = deb.fields()
        for field, expected in (
            ("Package", package.name),
            ("Version", package.version),
            ("Architecture", package.architecture),
        ):
            if fields.get(field) != expected:
                raise IntegrityError(
                    f"{package.file}: {field}: expected {expected!r} as locked, found {fields.get(field)!r}",
                    "lock again: envbuild lock",
                )
        sources.append(Source(package=package, deb=deb, fields=fields))
    return tuple(sources)


def install_plan(sources: Iterable[Source]) -> bytes:
    """Return the plan that the install script follows."""
    return bootstrap.render(bootstrap.install_plan(map(_ordered, sources)))


def write_seed(os: Os, sources: Iterable[Source], seed: Path, advance: Advance) -> Layer:
    """Write the seed alone, for a Dockerfile's context; arguments and errors as for ``write_seed_and_inputs``."""
    return _write(os, tuple(sources), seed, None, advance)


def write_seed_and_inputs(os: Os, sources: Iterable[Source], seed: Path, inputs: Path, advance: Advance) -> Layer:
    """Write the seed, and the tar that brings install script, plan and packages into the container.

    Args:
        os: for the architecture.
        sources: the opened packages.
        seed: where the seed's tar goes.
        inputs: where the other tar goes.
        advance: called with 1 for each package.

    Raises:
        BuildError: an unsound package or member; neither file is written.
        IntegrityError: a package's bytes are not what the lock has.
    """
    sources = tuple(sources)
    with atomic_file(inputs, sync=False) as output, LayerWriter(output, "the OS inputs") as writer:
        for path, mode in (("tmp", 0o1777), (WORK, 0o755), (f"{WORK}/debs", 0o755)):
            writer.add(Entry(path=path, kind="dir", mode=mode))
        layer = _write(os, sources, seed, writer, advance)
        for name, data, mode in (("install.sh", install_script(), 0o755), ("plan", install_plan(sources), 0o644)):
            writer.add(Entry(path=f"{WORK}/{name}", kind="file", mode=mode, size=len(data)), data)
    return layer


class Uncompressed:
    """Packages that are being uncompressed, each to a file of its own (deb(5) allows it), and checked against the lock.

    Attributes:
        files: their paths by the packages' file names; whole when ``open`` has returned.
    """

    def __init__(self, sources: Iterable[Source], folder: Path, pool: ThreadPoolExecutor) -> None:
        sources = tuple(sources)
        self.files = {source.package.file: folder / source.package.file for source in sources}
        self._places = {
            source.package.file: pool.submit(_unpack_package, source, self.files[source.package.file])
            for source in sorted(sources, key=lambda source: -source.deb.data.size)
        }

    def open(self, source: Source) -> _Part:
        """Wait for a package and open its data archive.

        Raises:
            IntegrityError: its bytes are not what the lock has.
            BuildError: it cannot be decompressed.
        """
        return _Part(*self._places[source.package.file].result())


@contextmanager
def uncompressed(sources: Iterable[Source], folder: Path) -> Iterator[Uncompressed]:
    """Uncompress packages in threads, the largest first, so that none is left over for one processor at the end.

    Args:
        sources: the packages.
        folder: receives the files; private to this process, and removed by the caller.

    Yields:
        The packages. Within the context, others of this process find them there too.
    """
    sources = tuple(sources)
    pool = ThreadPoolExecutor(_workers(), thread_name_prefix="unpack")
    try:
        yield Uncompressed(sources, folder, pool)
    finally:
        pool.shutdown(cancel_futures=True)
        for source in sources:
            with suppress(OSError):
                _KEPT.pop(_state(source), None)


def fill_seed(os: Os, sources: Iterable[Source], output: BinaryIO, advance: Advance, packages: Uncompressed) -> None:
    """Write the members of the seed to a stream as packages are read, all of them to their end, then script and plan.

    Args:
        os: for the architecture.
        sources: the opened packages.
        output: takes a tar's members, in any order.
        advance: called with 1 for each package.
        packages: the same, uncompressed.

    Raises:
        BuildError: an unsound package or member.
        IntegrityError: a package's bytes are not what the lock has.
    """
    sources = tuple(sources)
    base = bootstrap.essential(map(_ordered, sources))
    tree = Members(output, "the OS seed")
    for source in sources:
        with packages.open(source) as data:
            for entry, content in source.deb.members(cast(BinaryIO, data)):
                if source.package.name in base:
                    add_member(tree, entry, content)
        advance(1)
    add_skeleton(tree, os.architecture)
    for name, made, mode in (("install.sh", install_script(), 0o755), ("plan", install_plan(sources), 0o644)):
        tree.add(Entry(path=f"{WORK}/{name}", kind="file", mode=mode, size=len(made)), made)


def _state(source: Source) -> tuple[str, int, int, int, int, int]:
    """Return what distinguishes a file of one digest from another file, or from itself changed."""
    found = source.deb.path.stat()
    numbers = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return source.package.sha256, *numbers


def _write(os: Os, sources: tuple[Source, ...], seed: Path, inputs: LayerWriter | None, advance: Advance) -> Layer:
    base = bootstrap.essential(map(_ordered, sources))
    with Tree(seed.parent, "the OS seed") as tree:
        for source, data in unpacked(sources, whole=inputs is not None):
            for entry, content in source.deb.members(data):
                if source.package.name in base:
                    add_member(tree, entry, content)
            if inputs is not None:
                _repack(inputs, source, data)
            advance(1)
        add_skeleton(tree, os.architecture)
        with atomic_file(seed, sync=False) as output:
            return tree.write(output)


def _ordered(source: Source) -> bootstrap.Package:
    return bootstrap.Package(name=source.package.name, file=source.package.file, fields=source.fields)


def _workers() -> int:
    """Return how many threads unpack packages."""
    return min(4, (system.cpu_count() or 1) + 1)


def unpacked(sources: Iterable[Source], *, whole: bool) -> Iterator[tuple[Source, BinaryIO]]:
    """Yield each package with its unpacked data archive, in order, a few packages ahead in threads.

    Decompression and hashing release Python's lock, so that two CPUs are kept busy; only as many archives as there
    are threads are held at a time.

    Args:
        whole: the archives can be read again from their start, and those over 4 MiB are on disk; else each comes
            through a pipe, or from where it is uncompressed already.

    Raises:
        IntegrityError: a package's bytes are not what the lock has.
        BuildError: one cannot be decompressed.
    """
    workers = _workers()
    waiting: deque[_Unpacking] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="unpack") as pool:
        try:
            for source in sources:
                waiting.append(_Unpacking(source, pool, whole))
                if len(waiting) > workers:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()


class _Unpacking:
    """A package that is unpacked in a thread, into a file (``whole``) or a pipe."""

    def __init__(self, source: Source, pool: ThreadPoolExecutor, whole: bool) -> None:
        self._source = source
        self._reader: BinaryIO | None = None
        self._file: Future[BinaryIO] | None = None
        if whole:
            self._file = pool.submit(_unpack, source)
        elif (kept := _kept(source)) is not None:
            self._file = Future()
            self._file.set_result(kept)
        else:
            self._reader, self._writer = _pipe()
            self._worker = pool.submit(_unpack_into, source, self._writer)

    def result(self) -> Iterator[tuple[Source, BinaryIO]]:
        """Yield the package with its data, and wait for the thread."""
        if self._file is not None:
            with self._file.result() as data:
                yield self._source, data
            return
        assert self._reader is not None  # noqa: S101 - one of the two
        with self._reader:
            piped = _Piped(self._reader, self._worker)
            yield self._source, cast(BinaryIO, piped)
            while piped.read(1 << 20):
                pass

    def cancel(self) -> None:
        """Let the thread end."""
        if self._file is not None:
            self._file.cancel()
        elif self._reader is not None:
            self._reader.close()
            if self._worker.cancel():
                self._writer.close()


class _Piped:
    """Reads a pipe; where it ends because the thread that fills it has failed, raises what that raised."""

    def __init__(self, reader: BinaryIO, worker: Future[None]) -> None:
        self._reader, self._worker = reader, worker

    def read(self, amount: int) -> bytes:
        """Return that many bytes, fewer at the end."""
        chunk = self._reader.read(amount)
        if len(chunk) < amount:
            self._worker.result()
        return chunk


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    """Open a pipe that holds a MiB where the system lets it."""
    reader, writer = system.pipe2(system.O_CLOEXEC)
    with suppress(OSError, AttributeError):
        fcntl.fcntl(writer, _SET_PIPE_SIZE, 1 << 20)
    return open(reader, "rb"), open(writer, "wb")


def _unpack_into(source: Source, writer: BinaryIO) -> None:
    """Check a package's bytes against the lock and unpack its data archive into a pipe."""
    with suppress(BrokenPipeError), writer:  # nobody wants the rest
        _check(source)
        source.deb.unpack_data(writer)


def _unpack(source: Source) -> BinaryIO:
    """Check a package's bytes against the lock and unpack its data archive into a temporary file."""
    _check(source)
    data = cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))  # noqa: SIM115 - closed by _next
    source.deb.unpack_data(data)
    data.seek(0)
    return data


def _unpack_package(source: Source, path: Path) -> tuple[Path, int, int]:
    """Check a package's bytes against the lock and write it uncompressed to a new file.

    Returns:
        The file, and offset and size of the data archive in it.
    """
    _check(source)
    control = _control(source)
    offset = len(_head(source, control, 0))
    with path.open("xb") as output:
        output.seek(offset)
        source.deb.unpack_data(output)
        size = output.tell() - offset
        output.write(_tail(size))
        output.seek(0)
        output.write(_head(source, control, size))
    path.chmod(0o644)  # whatever the umask is: dpkg is somebody else
    _KEPT[_state(source)] = place = path, offset, size
    return place


def _kept(source: Source) -> BinaryIO | None:
    """Open a package's data archive where it is uncompressed; None where it is not, or not any more."""
    try:
        return cast(BinaryIO, _Part(*_KEPT[_state(source)]))
    except (KeyError, OSError):
        return None


class _Part(Slice):
    """Reads a part of a file that nobody else reads; closed by its context."""

    def __init__(self, path: Path, offset: int, size: int) -> None:
        self._own = path.open("rb")
        super().__init__(self._own, offset, size)

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *_: object) -> None:
        self._own.close()


def _check(source: Source) -> None:
    found = sha256_file(source.deb.path)
    if found != source.package.sha256:
        raise IntegrityError(
            f"{source.package.file} in the store was altered: expected sha256 {source.package.sha256}, found {found}",
            f"delete {source.deb.path} and fetch it again: envbuild fetch",
        )


def _repack(writer: LayerWriter, source: Source, data: BinaryIO) -> None:
    """Add a package whose data archive is not compressed (deb(5) allows it); its content is the same."""
    size = data.seek(0, io.SEEK_END)
    data.seek(0)
    head, tail = _head(source, _control(source), size), _tail(size)
    path = f"{WORK}/debs/{source.package.file}"
    content = cast(BinaryIO, _Chain(head, data, tail))
    writer.add(Entry(path=path, kind="file", mode=0o644, size=len(head) + size + len(tail)), content)


def _control(source: Source) -> bytes:
    """Return a package's control archive as it is in its file."""
    with source.deb.path.open("rb") as stream:
        stream.seek(source.deb.control.offset)
        return stream.read(source.deb.control.size)


def _head(source: Source, control: bytes, size: int) -> bytes:
    """Return what comes before an uncompressed data archive of so many bytes."""
    head = b"!<arch>\n" + _ar(b"debian-binary", 4) + b"2.0\n" + _ar(source.deb.control.name.encode(), len(control))
    return head + control + b"\n" * (len(control) % 2) + _ar(b"data.tar", size)


def _tail(size: int) -> bytes:
    """Return what comes behind it."""
    return b"\n" * (size % 2)


def _ar(name: bytes, size: int) -> bytes:
    return b"%-16b%-12d%-6d%-6d%-8b%-10d`\n" % (name, 0, 0, 0, b"100644", size)


class _Chain:
    """Reads bytes, then a stream, then bytes."""

    def __init__(self, head: bytes, stream: BinaryIO, tail: bytes) -> None:
        self._streams = deque([io.BytesIO(head), stream, io.BytesIO(tail)])

    def read(self, amount: int) -> bytes:
        """Return up to ``amount`` bytes; empty at the end."""
        while self._streams:
            if chunk := self._streams[0].read(amount):
                return chunk
            self._streams.popleft()
        return b""


def add_member(tree: Tree | Members, entry: Entry, content: BinaryIO | None) -> None:
    """Take a package's member into a tree, with /usr merged (file-hierarchy(7)) and without documents."""
    path = _merged(entry.path)
    if path in _MERGED or _UNSEEDED.fullmatch(path) or entry.kind in ("char", "block", "fifo"):
        return
    if entry.kind == "dir" and path in tree:
        return
    target = _merged(entry.target) if entry.kind == "hardlink" else entry.target
    tree.add(dataclasses.replace(entry, path=path, target=target), content)


def _merged(path: str) -> str:
    """Move what is below /bin, /lib and so on to /usr."""
    return f"usr/{path}" if "/" in path and path.split("/", 1)[0] in _MERGED else path


def add_skeleton(tree: Tree | Members, architecture: str) -> None:
    """Add what no package brings, and what dpkg needs before it is installed itself."""
    links = {name: f"usr/{name}" for name in ("bin", "lib", "sbin")}
    if architecture == "amd64":
        links["lib64"] = "usr/lib64"
    # mawk's own script makes this link by way of update-alternatives, long after base-files has needed it.
    links["usr/bin/awk"] = "mawk"
    for path, target in links.items():
        tree.add(Entry(path=path, kind="symlink", mode=0o777, target=target))
    # update-alternatives puts links into these folders and fails without, as Java's packages show; see dpkg.cfg.
    manuals = [f"usr/share/man/man{section}" for section in range(1, 9)]
    for folder in [*manuals, *(f"usr/{name}" for name in links if "/" not in name)]:
        if folder not in tree:
            tree.add(Entry(path=folder, kind="dir", mode=0o755))
    for path, data in {
        "etc/dpkg/dpkg.cfg.d/envbuild": dpkg_config(),
        "var/lib/dpkg/available": b"",
        "var/lib/dpkg/status": b"",
    }.items():
        tree.add(Entry(path=path, kind="file", mode=0o644, size=len(data)), data)
    add_constants(tree)
    tree.add_parents()
