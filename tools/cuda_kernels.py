"""Which GPUs a wheel was built for, read from its machine code: python -m tools.cuda_kernels WHEEL…

nvcc puts the kernels of every object into "fat binaries": a header, then one entry per compute capability, either
machine code or PTX. NVIDIA does not document the layout; what is read here agrees with what TensorFlow's and JAX's
build files ask for. Libraries linked in add capabilities of their own: for PyTorch ``torch.cuda.get_arch_list()`` has
what its own kernels are built for. Used to write rows of ``data/cuda.toml``, never at lock time.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from envbuild.resolve.cuda.table import numbers

_MAGIC = struct.pack("<I", 0xBA55ED50)
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHI")
_PTX, _CUBIN = 1, 2


def kernels(data: mmap.mmap | bytes) -> tuple[set[str], set[str]]:
    """Return the compute capabilities of the machine code and of the PTX in an object's bytes."""
    found: dict[int, set[str]] = {_CUBIN: set(), _PTX: set()}
    at = data.find(_MAGIC)
    while at >= 0:
        for kind, architecture in _entries(data, at):
            found[kind].add(f"{architecture // 10}.{architecture % 10}")
        at = data.find(_MAGIC, at + 4)
    return found[_CUBIN], found[_PTX]


def _entries(data: mmap.mmap | bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield kind and architecture of each entry of one fat binary; what is none by chance yields nothing."""
    if at + _HEADER.size > len(data):
        return
    _, version, size, total = _HEADER.unpack_from(data, at)
    if version != 1 or size != _HEADER.size:
        return
    place, end = at + size, min(at + size + total, len(data))
    while place + _ENTRY.size <= end:
        kind, _, header, length, _, _, _, _, architecture = _ENTRY.unpack_from(data, place)
        if kind not in (_PTX, _CUBIN) or not 20 <= architecture <= 200 or header < _ENTRY.size:
            return
        yield kind, architecture
        place += header + length


def in_wheel(path: Path) -> tuple[list[str], list[str]]:
    """Return the compute capabilities of machine code and PTX in all objects of a wheel, sorted."""
    cubins: set[str] = set()
    ptx: set[str] = set()
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(prefix="envbuild-kernels-") as folder:
        for info in archive.infolist():
            if ".so" not in info.filename.rsplit("/", 1)[-1] or info.file_size < _HEADER.size:
                continue
            target = Path(folder) / "object"
            with archive.open(info) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            with target.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                here = kernels(data)
            cubins |= here[0]
            ptx |= here[1]
    return sorted(cubins, key=numbers), sorted(ptx, key=numbers)


def main(arguments: list[str] | None = None) -> int:
    """Print one line per wheel."""
    for name in sys.argv[1:] if arguments is None else arguments:
        cubins, ptx = (" ".join(found) or "none" for found in in_wheel(Path(name)))
        sys.stdout.write(f"{Path(name).name}: machine code {cubins}; PTX {ptx}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
