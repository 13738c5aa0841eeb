"""The layer of bytecode: what goes into the step that compiles, what comes out, and the layer made of it.

What runs in the step is ``compile.py``.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast

from envbuild.engine.protocol import FinishedTree
from envbuild.errors import BuildError
from envbuild.image.bytecode.compile import DEFLATED, FLAGS, LIST, STORED, listing
from envbuild.image.python.environment import Content, Made, WheelFile, add_tree, opened
from envbuild.image.python.inflate import Reader
from envbuild.image.python.wheel import File, is_module
from envbuild.image.tar.layer import Entry, Layer, LayerWriter

COMPILE_DIR = "build"
"""Where the compile step works inside its container."""
COMPILE_OUT = f"/{COMPILE_DIR}/out"
WHEELS = f"/{COMPILE_DIR}/wheels"
"""Where a compile step on this machine sees the wheels."""

Group = WheelFile | Mapping[str, bytes]
"""A wheel, or modules by path relative to ``/``; each group is compiled in a separate process."""


def seen_wheels(groups: Sequence[Group]) -> dict[str, Path]:
    """Return the wheels among groups, by the names that a step is to see them under in ``WHEELS``."""
    return {_seen(number): group.path for number, group in enumerate(groups) if isinstance(group, WheelFile)}


def pack_sources(
    output: BinaryIO, groups: Sequence[Group], python: str, skip: Sequence[str] = (), *, seen: bool = False
) -> None:
    """Write the compile step's inputs: ``compile.py``, and each group's modules below ``in/0000``, ``in/0001`` …

    Args:
        output: receives the tar, to be unpacked over ``/``.
        groups: what is to be compiled.
        python: feature release of the target.
        skip: names of folders whose modules get no bytecode, and need not travel.
        seen: the step sees ``seen_wheels``, so that lists of their modules are enough.
    """
    script = Path(__file__).with_name("compile.py").read_bytes()
    with LayerWriter(output, "the modules to compile") as writer:
        writer.add(Entry(path=COMPILE_DIR, kind="dir", mode=0o755))
        writer.add(Entry(path=f"{COMPILE_DIR}/compile.py", kind="file", mode=0o644, size=len(script)), script)
        writer.add(Entry(path=f"{COMPILE_DIR}/in", kind="dir", mode=0o755))
        for number, group in enumerate(groups):
            top = f"{COMPILE_DIR}/in/{number:04}"
            if isinstance(group, WheelFile):
                with opened([group], python) as (archive,):
                    modules = {
                        file.path: (archive, file)
                        for file in archive.wheel.files
                        if is_module(file.path) and set(skip).isdisjoint(file.path.split("/"))
                    }
                    _add_modules(writer, top, modules, f"{WHEELS}/{_seen(number)}" if seen else "")
            else:
                writer.add(Entry(path=top, kind="dir", mode=0o755))
                add_tree(writer, {path: Made(data=data) for path, data in group.items()}, prefix=f"{top}/")


def _seen(number: int) -> str:
    return f"{number:04}.whl"


def _add_modules(writer: LayerWriter, top: str, modules: Mapping[str, tuple[Reader, File]], wheel: str) -> None:
    """Add a wheel's modules: a list of them if a step sees the wheel, and else what they hold."""
    members = [(path, file.member) for path, (_, file) in modules.items()]
    found = [
        (path, member.header_offset, member.compress_size, member.file_size, member.compress_type)
        for path, member in members
        if member is not None and member.compress_type in (STORED, DEFLATED)
    ]
    if wheel and len(found) == len(members):
        data = listing(wheel, found)
        writer.add(Entry(path=f"{top}{LIST}", kind="file", mode=0o644, size=len(data)), data)
        return
    writer.add(Entry(path=top, kind="dir", mode=0o755))
    add_tree(writer, modules, prefix=f"{top}/")


def compile_command(executable: str, skip: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the compile step's command; its results are ``<number>.tar`` in ``/build/out``.

    Args:
        executable: the interpreter.
        skip: names of folders whose modules get no bytecode.
    """
    script, places = f"/{COMPILE_DIR}/compile.py", (f"/{COMPILE_DIR}/in", "--archive", COMPILE_OUT)
    return (executable, *FLAGS, script, *places, *(word for name in skip for word in ("--skip", name)))


def unpack_bytecode(stream: BinaryIO, count: int, folder: Path) -> list[Path]:
    """Take the compile step's result apart.

    Args:
        stream: tar of the result folder.
        count: number of groups.
        folder: receives one tar per group.

    Raises:
        BuildError: the result is not what ``compile.py`` makes.
    """
    wanted = {f"{COMPILE_OUT.rpartition('/')[2]}/{number:04}.tar": number for number in range(count)}
    paths = [folder / f"{number:04}.tar" for number in range(count)]
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            number = wanted.pop(member.name, None)
            data = tar.extractfile(member) if number is not None and member.isreg() else None
            if number is not None and data is not None:
                with paths[number].open("wb") as file:
                    shutil.copyfileobj(data, file, 1 << 20)
    if wanted:
        raise BuildError(f"the compile step left out {min(wanted)}")
    return paths


def take_bytecode(found: FinishedTree, count: int, folder: Path) -> list[Path]:
    """Take the compile step's result from where the step has left it; arguments and errors as ``unpack_bytecode``."""
    left = {entry.path for entry in found.entries if entry.kind == "file"}
    paths = []
    for number in range(count):
        name = f"{COMPILE_OUT.lstrip('/')}/{number:04}.tar"
        if name not in left:
            raise BuildError(f"the compile step left out {name.partition('/')[2]}")
        path = folder / f"{number:04}.tar"
        (found.root / name).rename(path)
        if os.geteuid() == 0:
            os.chown(path, 0, 0)
        path.chmod(0o644)
        paths.append(path)
    return paths


def pack_bytecode(output: BinaryIO, archives: Sequence[Path], label: str) -> Layer:
    """Write the layer of bytecode from what the compile step made; a later archive's files win."""
    with ExitStack() as stack:
        found: dict[str, Content] = {}
        for path in archives:
            tar = stack.enter_context(tarfile.open(path, "r:"))
            found.update({member.name: (tar, member) for member in tar if member.isreg()})
        with LayerWriter(output, label) as writer:
            add_tree(writer, found)
    return writer.layer()


def read_archive(archive: Path) -> dict[str, bytes]:
    """Return the files of a small archive of bytecode by path."""
    with tarfile.open(archive, "r:") as tar:
        return {member.name: cast(BinaryIO, tar.extractfile(member)).read() for member in tar if member.isreg()}
