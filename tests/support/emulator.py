"""Other CPUs for tests: QEMU's user-mode emulation, which runs one program on a CPU of another model.

It is taken from the machine, else from the package ``qemu-user-static`` of the machine's own archive, unpacked into the
tests' cache: nothing is installed, since that package would have the kernel run foreign programs for everybody.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from envbuild.core.fs import locked

PACKAGES = ("qemu-user-static", "qemu-user")
"""In Debian 13 the second one has the programs that are linked statically."""


def emulator() -> Path:
    """Return the program ``qemu-x86_64``; raises ``RuntimeError`` where there is none and none can be had."""
    for name in ("qemu-x86_64-static", "qemu-x86_64"):
        if found := shutil.which(name):
            return Path(found)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envbuild-tests"
    folder = cache / "qemu"
    cache.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("qemu.lock")):
        if not folder.exists():
            _unpack(folder)
    for name in ("qemu-x86_64-static", "qemu-x86_64"):
        if (folder / "usr/bin" / name).exists():
            return folder / "usr/bin" / name
    raise RuntimeError(f"{folder} holds no emulator: remove it, or install one: sudo apt-get install qemu-user")


def _unpack(folder: Path) -> None:
    """Download a package with apt, which checks its signature, and unpack the program for x86-64 from it."""
    for package in PACKAGES:
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            work = Path(name)
            done = subprocess.run(
                ["apt-get", "download", package], cwd=work, capture_output=True, text=True, check=False
            )
            files = sorted(work.glob("*.deb"))
            if done.returncode or not files:
                continue
            subprocess.run(["dpkg", "-x", files[0], work / "all"], check=True)
            found = sorted((work / "all/usr/bin").glob("qemu-x86_64*"))
            if found and not found[0].is_symlink():
                (work / "kept/usr/bin").mkdir(parents=True)
                found[0].rename(work / "kept/usr/bin" / found[0].name)
                (work / "kept").rename(folder)
                return
    raise RuntimeError("no emulator for other CPUs: sudo apt-get update && sudo apt-get install qemu-user")
