"""Bytecode: compiles the modules of wheels so that the same sources give the same bytes.

Standard library only and Python 3.9 or later: it runs as a script under the target's own interpreter, in a build step
of envbuild and in a Dockerfile's build stage.

Usage: ``compile.py SOURCES [--skip NAME]... --archive OUTPUT`` or ``… --into ROOT``. ``SOURCES`` holds one folder per
wheel (``0000``, ``0001`` …), each with modules at their installed paths relative to ``/``. The first form writes
``OUTPUT/0000.tar`` … with the bytecode at its installed paths, sorted; the second puts it below ``ROOT``, later
wheels last. Modules in a folder called ``NAME`` are left out.

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
import importlib.util
import io
import marshal
import os
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

FLAGS = ("-s", "-S", "-B", "-W", "ignore", "-X", "utf8")
"""The interpreter's, without which ``main`` starts it again."""
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONHASHSEED": "0"}
"""All variables that it runs with: what is interned, and in which order sets are written, must not depend on others."""
EPOCH = 315_532_800  # layout.EPOCH; a test compares the two


def compile_tree(sources: str, archive: str, skip: Sequence[str] = ()) -> None:
    """Compile all modules below ``sources``, in this process, into a tar.

    Args:
        sources: folder that represents the target's ``/``.
        skip: names of folders whose modules get no bytecode.
        archive: tar file to write: sorted, ustar or PAX, mode 0644, owner root, time ``EPOCH``.
    """
    modules = [Path(folder, name) for folder, _, names in os.walk(sources) for name in names if name.endswith(".py")]
    bytecode = {}
    for key, module in sorted((os.fsencode(module.relative_to(sources)), module) for module in modules):
        installed = os.fsdecode(key)
        if not set(skip).isdisjoint(installed.split("/")[:-1]):
            continue
        data = _compile(module.read_bytes(), f"/{installed}")
        if data:
            bytecode[importlib.util.cache_from_source(installed, optimization="")] = data
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(bytecode, key=os.fsencode):
            member = tarfile.TarInfo(path)
            member.size = len(bytecode[path])
            member.mtime = EPOCH
            tar.addfile(member, io.BytesIO(bytecode[path]))


def _compile(source: bytes, installed: str) -> bytes:
    """One module's unchecked-hash bytecode file (PEP 552); empty if it does not compile, for whatever reason."""
    try:
        code = compile(source, installed, "exec", dont_inherit=True, optimize=0)
    except Exception:  # the compiler raises nearly anything: SyntaxError, ValueError, RecursionError, MemoryError …
        return b""
    flags = (0b01).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + flags + importlib.util.source_hash(source) + marshal.dumps(code)


def compile_all(sources: str, output: str, skip: Sequence[str] = ()) -> list[Path]:
    """Compile each folder in ``sources`` in a fork of this process; returns the tars in ``output``, in order."""
    Path(output).mkdir(parents=True, exist_ok=True)
    numbers = sorted(entry.name for entry in os.scandir(sources))

    def weight(number: str) -> int:
        return -sum(len(names) for _, _, names in os.walk(Path(sources, number)))

    running: set[int] = set()
    for number in sorted(numbers, key=weight):  # the largest first, so that all end together
        if len(running) == len(os.sched_getaffinity(0)):
            _wait(running)
        running.add(_fork(str(Path(sources, number)), str(Path(output, f"{number}.tar")), skip))
    while running:
        _wait(running)
    return [Path(output, f"{number}.tar") for number in numbers]


def _fork(sources: str, archive: str, skip: Sequence[str]) -> int:
    """Start to compile one folder; returns the process."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
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


def unpack(archive: Path, root: str) -> None:
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
        scratch = Path(f"{options.sources}.bytecode")
        for archive in compile_all(options.sources, str(scratch), options.skip):
            unpack(archive, options.into)
            archive.unlink()
        scratch.rmdir()


if __name__ == "__main__":
    main(sys.argv[1:])
