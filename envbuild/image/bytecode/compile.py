"""Bytecode: compiles the modules of wheels so that the same sources give the same bytes.

Standard library only and Python 3.9 or later: it runs as a script under the target's own interpreter, in a build step
of envbuild and in a Dockerfile's build stage.

Usage: ``compile.py SOURCES [--skip NAME]... --archive OUTPUT`` or ``… --into ROOT``. ``SOURCES`` holds for each wheel
(``0000``, ``0001`` …) either a folder with its modules at their installed paths relative to ``/``, or a list of where
they are in the wheel itself (``0000.list``, ``listing``). The first form writes ``OUTPUT/0000.tar`` … with the bytecode
at its installed paths, sorted; the second puts it below ``ROOT``, later wheels last. Modules in a folder called
``NAME`` are left out.

What would make bytecode vary, and is held fixed (measured on Keras and TensorFlow): marshal's output depends on
reference counts, so on what else the process holds: modules that it has imported, what it has compiled before. So
each wheel is compiled in a separate fork of this process, which starts with the same flags and variables everywhere
and imports always the same; files come in the order of their paths' bytes. (A new process for each wheel would do as
well, but in a system without bytecode of its own each spends 0.2 s on imports.) The file's path is in it: ``dfile`` is
the installed path. Time stamps: unchecked-hash mode (PEP 552). A module that does not compile gets no bytecode, as
with pip.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib.util
import io
import marshal
import os
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

FLAGS = ("-s", "-S", "-B", "-W", "ignore", "-X", "utf8")
"""The interpreter's, without which ``main`` starts it again."""
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONHASHSEED": "0"}
"""All variables that it runs with: what is interned, and in which order sets are written, must not depend on others."""
EPOCH = 315_532_800  # layout.EPOCH; a test compares the two
LIST = ".list"
"""Ending of a list's name."""
STORED, DEFLATED = 0, 8
"""How a member of a wheel may be kept for ``listing`` (APPNOTE.TXT 6.3, section 4.4.5)."""


def listing(archive: str, members: Iterable[tuple[str, int, int, int, int]]) -> bytes:
    """Return the list of a wheel's modules, which ``compile_tree`` reads from the wheel by it.

    Args:
        archive: where the wheel is seen.
        members: installed path relative to ``/``; offset of the local header in the wheel, packed and unpacked bytes,
            and ``STORED`` or ``DEFLATED``. No path has a line break in it.
    """
    lines = [archive, *(" ".join([*map(str, numbers), path]) for path, *numbers in members), ""]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def compile_tree(sources: str, archive: str, skip: Sequence[str] = ()) -> None:
    """Compile all modules of ``sources``, in this process, into a tar.

    Args:
        sources: folder that represents the target's ``/``, or a list.
        skip: names of folders whose modules get no bytecode.
        archive: tar file to write: sorted, ustar or PAX, mode 0644, owner root, time ``EPOCH``.
    """
    modules = _listed(sources) if sources.endswith(LIST) else _found(sources)
    bytecode = {}
    for key, read in sorted(modules, key=lambda module: module[0]):
        installed = os.fsdecode(key)
        if not set(skip).isdisjoint(installed.split("/")[:-1]):
            continue
        data = _compile(read(), f"/{installed}")
        if data:
            bytecode[importlib.util.cache_from_source(installed, optimization="")] = data
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(bytecode, key=os.fsencode):
            member = tarfile.TarInfo(path)
            member.size = len(bytecode[path])
            member.mtime = EPOCH
            tar.addfile(member, io.BytesIO(bytecode[path]))


def _found(sources: str) -> Iterator[tuple[bytes, Callable[[], bytes]]]:
    """Yield the installed path of each module in a folder, and what reads it."""
    for folder, _, names in os.walk(sources):
        for name in names:
            if name.endswith(".py"):
                module = os.path.join(folder, name)  # noqa: PTH118 - a path's parts must not be interned
                yield os.fsencode(os.path.relpath(module, sources)), functools.partial(_read, module)


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _listed(sources: str) -> Iterator[tuple[bytes, Callable[[], bytes]]]:
    """Yield the installed path of each module in a list, and what reads it."""
    archive, *lines = _read(sources).splitlines()
    wheel = os.open(archive, os.O_RDONLY)  # closed with the process
    for line in lines:
        offset, packed, size, method, path = line.split(b" ", 4)
        yield path, functools.partial(_unpacked, wheel, int(offset), int(packed), int(size), int(method))


def _unpacked(wheel: int, offset: int, packed: int, size: int, method: int) -> bytes:
    """Read a member, whose local header has its name's and its extra field's sizes at 26 (section 4.3.7)."""
    head = os.pread(wheel, 30, offset)
    offset += 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
    data = os.pread(wheel, packed, offset)
    if method == DEFLATED:
        data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)
    if head[:4] != b"PK\3\4" or len(data) != size:
        raise SystemExit(f"compile.py: the wheel has no module of {size} bytes at {offset}")
    return data


def _compile(source: bytes, installed: str) -> bytes:
    """One module's unchecked-hash bytecode file (PEP 552); empty if it does not compile, for whatever reason."""
    try:
        code = compile(source, installed, "exec", dont_inherit=True, optimize=0)
    except Exception:  # the compiler raises nearly anything: SyntaxError, ValueError, RecursionError, MemoryError …
        return b""
    flags = (0b01).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + flags + importlib.util.source_hash(source) + marshal.dumps(code)


def compile_all(sources: str, output: str, skip: Sequence[str] = ()) -> list[str]:
    """Compile each folder or list of ``sources`` in a fork of this process; return the tars in ``output``, in order.

    ``Path`` interns the parts of a path since Python 3.12 (``Lib/pathlib.py``), and marshal writes interned strings
    otherwise: none is made before the forks, or names of folders here would be in the bytes there.
    """
    os.makedirs(output, exist_ok=True)  # noqa: PTH103
    numbers = sorted(entry.name for entry in os.scandir(sources))

    def weight(number: str) -> int:
        if number.endswith(LIST):
            return -_read(f"{sources}/{number}").count(b"\n")
        return -sum(len(names) for _, _, names in os.walk(f"{sources}/{number}"))

    running: set[int] = set()
    results = {number: f"{output}/{number.removesuffix(LIST)}.tar" for number in numbers}
    for number in sorted(numbers, key=weight):  # the largest first, so that all end together
        if len(running) == len(os.sched_getaffinity(0)):
            _wait(running)
        running.add(_fork(f"{sources}/{number}", results[number], skip))
    while running:
        _wait(running)
    return [results[number] for number in numbers]


def _fork(sources: str, archive: str, skip: Sequence[str]) -> int:
    """Start to compile one folder; returns the process."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        gc.disable()  # syntax trees have no cycles
        compile_tree(sources, archive, skip)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait(running: set[int]) -> None:
    """Wait until one of the processes has ended."""
    process, status = os.wait()
    running.remove(process)
    if status:
        raise SystemExit(f"compile.py: the process {process} ended with {os.waitstatus_to_exitcode(status)}")


def unpack(archive: str, root: str) -> None:
    """Put the bytecode of one archive below ``root``."""
    with tarfile.open(archive) as tar:
        for member in tar:
            stream = tar.extractfile(member)
            assert stream is not None  # noqa: S101 - written above: regular files only
            target = Path(root, member.name)
            target.parent.mkdir(mode=0o755, exist_ok=True)
            target.write_bytes(stream.read())
            target.chmod(0o644)


def main(arguments: list[str]) -> None:
    """Parse the command line; see the module's description."""
    parser = argparse.ArgumentParser(description="Compile the modules of wheels, reproducibly.")
    parser.add_argument("sources")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--archive", metavar="OUTPUT")
    where.add_argument("--into", metavar="ROOT")
    parser.add_argument("--skip", action="append", default=[], metavar="NAME")
    options = parser.parse_args(arguments)
    flags = sys.flags
    if flags.hash_randomization or not (flags.no_site and flags.utf8_mode) or sys.warnoptions != ["ignore"]:
        again = [sys.executable, *FLAGS, __file__, *arguments]
        os.execve(sys.executable, again, ENVIRONMENT)  # noqa: S606 - this script
    os.umask(0o022)
    if options.archive:
        compile_all(options.sources, options.archive, options.skip)
    else:
        scratch = f"{options.sources}.bytecode"
        for archive in compile_all(options.sources, scratch, options.skip):
            unpack(archive, options.into)
            os.unlink(archive)  # noqa: PTH108
        os.rmdir(scratch)  # noqa: PTH106


if __name__ == "__main__":
    main(sys.argv[1:])
