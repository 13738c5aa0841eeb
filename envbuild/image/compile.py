"""Bytecode: compiles the modules of wheels so that the same sources give the same bytes.

Standard library only and Python 3.9 or later: it runs as a script under the target's own interpreter, in a build step
of envbuild and in a Dockerfile's build stage.

Usage: ``compile.py SOURCES [--skip NAME]... --archive OUTPUT`` or ``… --into ROOT``. ``SOURCES`` holds one folder per
wheel (``0000``, ``0001`` …), each with modules at their installed paths relative to ``/``. The first form writes
``OUTPUT/0000.tar`` … with the bytecode at its installed paths, sorted; the second puts it below ``ROOT``, later
wheels last. Modules in a folder called ``NAME`` are left out.

What would make bytecode vary, and is held fixed (measured on Keras and TensorFlow): marshal's output depends on
reference counts, hence on what was compiled before in the same process: one fresh process per wheel, files in the
order of their paths' bytes, ``PYTHONHASHSEED=0``, no site module. The file's path is in it: ``dfile`` is the installed
path. Time stamps: unchecked-hash mode (PEP 552). A module that does not compile gets no bytecode, as with pip.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import marshal
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

EPOCH = 315_532_800  # layout.EPOCH; a test compares the two


def compile_tree(sources: str, archive: str, skip: Sequence[str] = ()) -> None:
    """Compile all modules below ``sources``, in this process, into a tar.

    Args:
        sources: folder that stands for the target's ``/``.
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


def compile_all(sources: str, output: str, skip: Sequence[str] = (), jobs: int = 2) -> list[Path]:
    """Compile each folder in ``sources`` in a fresh process; returns the tars written to ``output``, in order."""
    Path(output).mkdir(parents=True, exist_ok=True)
    numbers = sorted(entry.name for entry in os.scandir(sources))

    def weight(number: str) -> int:
        return -sum(len(names) for _, _, names in os.walk(Path(sources, number)))

    def one(number: str) -> None:
        archive = Path(output, f"{number}.tar")
        interpreter = [sys.executable, "-s", "-S", "-B", "-W", "ignore", "-X", "utf8"]
        command = [*interpreter, __file__, str(Path(sources, number)), "--one", str(archive)]
        command += [word for name in skip for word in ("--skip", name)]
        environment = {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "PATH": os.defpath}
        subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, sorted(numbers, key=weight)))  # the largest first, so that all jobs end together
    return [Path(output, f"{number}.tar") for number in numbers]


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
    where.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--skip", action="append", default=[], metavar="NAME")
    options = parser.parse_args(arguments)
    os.umask(0o022)
    if options.one:
        compile_tree(options.sources, options.one, options.skip)
    elif options.archive:
        compile_all(options.sources, options.archive, options.skip)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            for archive in compile_all(options.sources, scratch, options.skip):
                unpack(archive, options.into)


if __name__ == "__main__":
    main(sys.argv[1:])
