"""Digests of declared data: one large file, many unchanged ones, many new ones; against BLAKE3 alone and coreutils."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Case

GIBIBYTE = 1 << 30
REPEATS = 8
"""How often a process hashes the file, so that its start weighs little; the file is in memory for all contestants."""
FILES = 100_000

_DIGEST = "from pathlib import Path\nfrom envbuild.inputs.digest import digest_inputs\nbase = Path.cwd()\n"


def large(folder: Path) -> tuple[str, list[Case]]:
    """One file of 1 GiB, hashed several times by each process."""
    _fill(folder / "large", GIBIBYTE)
    # Nothing is remembered, so that it is read each time.
    ours = _DIGEST + (
        "import shutil\n"
        f"for _ in range({REPEATS}):\n"
        "    digest_inputs(base, ['large'])\n"
        "    shutil.rmtree('.envbuild')\n"
    )
    mapped = f"for _ in range({REPEATS}): blake3(max_threads=blake3.AUTO).update_mmap('large').digest()\n"
    cases = [
        Case(name="envbuild's input digest", command=[sys.executable, "-c", ours], cwd=folder),
        Case(
            name="BLAKE3 alone, memory-mapped, all cores",
            command=[sys.executable, "-c", f"from blake3 import blake3\n{mapped}"],
            cwd=folder,
        ),
        Case(name="sha256sum", command=["sha256sum", *["large"] * REPEATS], cwd=folder, runs=2),
    ]
    if shutil.which("b3sum"):
        cases.append(Case(name="b3sum", command=["b3sum", *["large"] * REPEATS], cwd=folder))
    return f"inputs: {REPEATS} × 1 GiB in one file", cases


def unchanged(folder: Path) -> tuple[str, list[Case]]:
    """A hundred thousand files of 10 kB that nobody touched since they were locked, compared with the lock."""
    _many(folder / "data")
    check = _DIGEST + (
        "import pickle\n"
        "from envbuild.inputs.compare import compare_inputs\n"
        "if not Path('locked').exists():\n"
        "    Path('locked').write_bytes(pickle.dumps(digest_inputs(base, ['data'])))\n"
        "assert not compare_inputs(base, pickle.loads(Path('locked').read_bytes())).differences\n"
    )
    sums = "find data -type f -print0 | xargs -0 sha256sum > sums; sha256sum --quiet --check sums"
    return f"inputs: {FILES:,} unchanged files compared", [
        Case(name="envbuild", command=[sys.executable, "-c", check], cwd=folder),
        Case(name="find, sizes and times only", command=["find", "data", "-printf", "%s%T@"], cwd=folder),
        Case(name="sha256sum, then sha256sum --check", command=["sh", "-c", sums], cwd=folder, runs=2),
    ]


def new(folder: Path) -> tuple[str, list[Case]]:
    """The same files, none of them known."""
    _many(folder / "data")

    def forget() -> None:
        shutil.rmtree(folder / ".envbuild", ignore_errors=True)

    sums = "find data -type f -print0 | xargs -0 -P 0 -n 1000 sha256sum"
    return f"inputs: {FILES:,} new files digested", [
        Case(
            name="envbuild",
            command=[sys.executable, "-c", _DIGEST + "digest_inputs(base, ['data'])\n"],
            cwd=folder,
            prepare=forget,
        ),
        Case(name="sha256sum, all cores", command=["sh", "-c", sums], cwd=folder),
    ]


BENCHMARKS: dict[str, Callable[[Path], tuple[str, list[Case]]]] = {
    "inputs-large": large,
    "inputs-unchanged": unchanged,
    "inputs-new": new,
}


def _fill(path: Path, size: int) -> None:
    """Write a file, no two of its blocks alike."""
    block = os.urandom(1 << 20)
    with path.open("wb") as stream:
        for number in range(size // len(block)):
            stream.write(number.to_bytes(8, "big") + block[8:])


def _many(folder: Path) -> None:
    """Write files in a hundred folders, each with content of its own."""
    block = os.urandom(10_000)
    for number in range(FILES):
        path = folder / f"class-{number % 100:02}" / f"image-{number:06}.png"
        if number < 100:
            path.parent.mkdir(parents=True)
        path.write_bytes(number.to_bytes(8, "big") + block[8:])
