"""QEMU's user-mode emulator from its Debian package: it starts a build step's programs on a machine of another kind.

Of the package only the one program is taken, and nothing of it is in an image.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from envbuild.core.digest import sha256_file
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.os.deb import Deb, open_deb
from envbuild.lockfile.model import OsPackage

PROGRAM = "emulator"
"""Name of the file that ``unpack_emulator`` writes."""
_INTERPRETER = 3
"""Type of a program header that names a dynamic linker: elf(5), ``PT_INTERP``."""
_OS_ABI, MARK = 7, 0xFF
"""Place of the number of the system in an ELF file, which Linux ignores, and one that no program has: elf(5)."""
_AGAIN = "lock again for another version of it: envbuild lock --upgrade"


def unpack_emulator(package: OsPackage, path: Path, machine: str, folder: Path) -> None:
    """Write the emulator of a machine to a folder.

    Args:
        package: as locked.
        path: its file.
        machine: what is emulated, as ``uname`` names it.
        folder: gets the file ``PROGRAM``.

    Raises:
        IntegrityError: the file does not match the lock.
        BuildError: it holds no such program, or one that needs libraries.
    """
    found = sha256_file(path)
    if found != package.sha256:
        raise IntegrityError(
            f"{package.file} in the store was altered: expected sha256 {package.sha256}, found {found}",
            f"delete {path} and fetch it again: envbuild fetch",
        )
    program = folder / PROGRAM
    if not _extract(open_deb(path, package.file), [f"usr/bin/qemu-{machine}{end}" for end in ("-static", "")], program):
        raise BuildError(f"{package.file} has no emulator of {machine}", _AGAIN)
    if not _is_static(program):
        raise BuildError(f"{package.file}: its emulator of {machine} is no statically linked program", _AGAIN)
    program.chmod(0o755)


def mark_emulator(program: Path) -> None:
    """Mark an emulator of the very machine that it runs on: its file must be distinguished from the programs it starts.

    Args:
        program: as ``unpack_emulator`` wrote it; one byte of its head is replaced, which nothing reads.
    """
    with program.open("r+b") as stream:
        stream.seek(_OS_ABI)
        stream.write(bytes([MARK]))


def _extract(deb: Deb, names: Sequence[str], target: Path) -> bool:
    """Write the first regular file of one of these names; what comes after it is not unpacked."""
    reader, writer = os.pipe()
    with ThreadPoolExecutor(1, thread_name_prefix="unpack") as pool, os.fdopen(reader, "rb") as data:
        unpacked = pool.submit(_unpack, deb, os.fdopen(writer, "wb"))
        for entry, content in deb.members(data):
            if entry.path in names and content is not None:
                with target.open("wb") as output:
                    shutil.copyfileobj(content, output, 1 << 20)
                return True
        unpacked.result()
    return False


def _unpack(deb: Deb, output: BinaryIO) -> None:
    with suppress(BrokenPipeError), output:  # nobody wants the rest
        deb.unpack_data(output)


def _is_static(program: Path) -> bool:
    """Return whether a 64-bit ELF file names no dynamic linker: elf(5)."""
    data = program.read_bytes()[: 1 << 16]
    if data[:6] != b"\x7fELF\x02\x01":
        return False
    start = struct.unpack_from("<Q", data, 32)[0]
    size, count = struct.unpack_from("<HH", data, 54)
    return all(struct.unpack_from("<I", data, start + number * size)[0] != _INTERPRETER for number in range(count))
