"""A tiny root file system made of a few programs of the machine that runs the tests."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

PROGRAMS = ("sh", "cat", "sleep", "id", "stty", "tail", "env", "ls", "true", "head", "yes", "touch", "kill")


def write_rootfs(output: Path, programs: Sequence[str] = PROGRAMS) -> None:
    """Write an uncompressed tar with programs in /bin and the shared libraries they need."""
    files: dict[str, Path] = {}
    for name in programs:
        found = shutil.which(name)
        if found is None:
            raise RuntimeError(f"the tests need the program {name}")
        files[f"bin/{name}"] = Path(found).resolve()
        listed = subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+)", listed):
            files[library.lstrip("/")] = Path(library).resolve()
    with tarfile.open(output, "w") as tar:
        for folder in ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "workspace"):
            tar.addfile(_member(folder, kind=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755))
        made = {"bin"}
        for name, path in sorted(files.items()):
            for folder in reversed([str(above) for above in PurePosixPath(name).parents if str(above) != "."]):
                if folder not in made:
                    made.add(folder)
                    tar.addfile(_member(folder, kind=tarfile.DIRTYPE, mode=0o755))
            data = path.read_bytes()
            tar.addfile(_member(name, mode=0o755, size=len(data)), io.BytesIO(data))


def write_tar(output: Path, files: dict[str, bytes]) -> None:
    """Write a tar of plain files."""
    with tarfile.open(output, "w") as tar:
        for name, data in files.items():
            tar.addfile(_member(name, size=len(data)), io.BytesIO(data))


def _member(name: str, *, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size = kind, mode, size
    return member
