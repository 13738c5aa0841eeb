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
