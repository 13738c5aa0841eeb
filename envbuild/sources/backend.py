"""Runs in the build step, by the target's Python: unpacks sources and calls their build backend (PEP 517).

Standard library only. ``request.json`` next to this file has: ``archive`` (path of a source archive), ``place`` (folder
to unpack it into), ``subdirectory`` (of the project in it), ``backend``, ``path``, ``known`` (requirements that are
installed), ``out``. Into ``out`` go either ``requires.json``, if the backend asks for more than is known, or the wheel
that it builds.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any


def main() -> None:
    """Do what the request says."""
    request = json.loads(Path(__file__).with_name("request.json").read_bytes())
    out, place = Path(request["out"]), Path(request["place"])
    out.mkdir(parents=True)
    place.mkdir(parents=True)
    folder = _unpack(request["archive"], place) / request["subdirectory"]
    os.chdir(folder)
    os.environ["CFLAGS"] = f"{_optimised(request['backend'])}-g0 -ffile-prefix-map={folder}=."
    os.environ["CXXFLAGS"] = os.environ["CFLAGS"]
    os.environ["LDFLAGS"] = "-Wl,-s"
    if (cuda := _cuda(out.parent / "cuda", [Path(entry, "nvidia") for entry in sys.path])) is not None:
        os.environ["CUDA_HOME"] = os.environ["CUDA_PATH"] = str(cuda)
        os.environ["PATH"] = f"{cuda / 'bin'}{os.pathsep}{os.environ['PATH']}"
        # Names of temporary files, with the number of nvcc's process, would be part of objects.
        os.environ["NVCC_APPEND_FLAGS"] = f"-objtemp -Xcompiler=-g0 -Xcompiler=-ffile-prefix-map={folder}=."
    sys.argv = [""]
    sys.path[:] = [str(folder / part) for part in request["path"]] + sys.path[1:]
    backend = _backend(request["backend"])
    asked = set(getattr(backend, "get_requires_for_build_wheel", lambda settings=None: ())(None))
    if asked - set(request["known"]):
        (out / "requires.json").write_text(json.dumps(sorted(asked)), encoding="utf-8")
        return
    backend.build_wheel(str(out), None, None)


def _optimised(backend: str) -> str:
    """Return Python's own flags, which ``CFLAGS`` replaces in setuptools; Meson and CMake add it to theirs."""
    return "" if backend.startswith(("mesonpy", "scikit_build_core")) else "-fwrapv -O2 -DNDEBUG "


def _cuda(home: Path, folders: list[Path]) -> Path | None:
    """Put what wheels have of CUDA's compiler and libraries together as CUDA's installer does; None without nvcc.

    A wheel has a part of it (``nvidia/cu13``, ``nvidia/cuda_nvcc``), and libraries under their versioned names alone.
    """
    parts = [part for folder in folders if folder.is_dir() for part in sorted(folder.iterdir()) if part.is_dir()]
    if not any((part / "bin/nvcc").is_file() for part in parts):
        return None
    for part in parts:
        for file in (path for top in ("bin", "include", "lib", "nvvm") for path in sorted((part / top).rglob("*"))):
            target = home / file.relative_to(part)
            if file.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(file, target)
    libraries = home / "lib"
    for file in sorted(libraries.glob("*.so.*")):
        name = libraries / f"{file.name.partition('.so.')[0]}.so"
        if not name.exists():
            name.symlink_to(file.name)
    (home / "lib64").symlink_to("lib")
    return home


def _unpack(archive: str, place: Path) -> Path:
    """Unpack an archive; returns its one top folder."""
    if archive.endswith(".zip"):
        with zipfile.ZipFile(archive) as found:
            found.extractall(place)  # noqa: S202 - the sandbox holds nothing else
    else:
        with tarfile.open(archive) as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extractall(place, filter="data")
            else:
                tar.extractall(place)  # noqa: S202 - the sandbox holds nothing else
    (top,) = (path for path in place.iterdir() if path.is_dir())
    return top


def _backend(name: str) -> Any:
    module, _, inner = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in filter(None, inner.split(".")):
        found = getattr(found, part)
    return found


if __name__ == "__main__":
    main()
