"""Real frameworks for tests: folders of packages, installed once with uv outside the clone and shared by all tests.

The pins are requirement files next to this module (``pins/NAME.txt``). PyTorch's wheel comes from where the machine's
own configuration of pip and uv leads, so that one without CUDA serves where there is one; its file states no digests.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from envbuild.core.fs import locked

PINS = Path(__file__).parent / "pins"
NAMES = tuple(sorted(path.stem for path in PINS.glob("*.txt")))
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envbuild-tests"
"""What tests keep outside the clone; all of it may be deleted."""
UV_INSTALL = (sys.executable, "-m", "uv", "pip", "install")
"""The start of a command that installs with the uv of this environment, which need not be activated."""


def environment(name: str, version: str = "") -> Path:
    """Return a folder to put on ``sys.path`` that holds the packages of one of ``NAMES``.

    Args:
        name: which.
        version: of the Python that they are for, such as ``3.11``; this interpreter's by default. Who states it mounts
            the folder read-only: what is compiled before is not compiled again in each container, which for TensorFlow
            takes longer than all that a small training does.
    """
    own = sysconfig.get_python_version()
    marker = ".compiled" if version == own else ".complete"
    version = version or own
    folder = CACHE / environment_name(name, version)
    if (folder / marker).exists():
        return folder
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not (folder / ".complete").exists():
            command = [*UV_INSTALL, "--quiet", "--python", sys.executable, "--target", str(folder)]
            command += ["--python-version", version] if version != own else []
            subprocess.run([*command, *_find_links(), "-r", str(PINS / f"{name}.txt")], check=True)
            (folder / ".complete").touch()
        if not (folder / marker).exists():
            # Not checked: packages bring files named so that are templates, or for another Python.
            subprocess.run([sys.executable, "-m", "compileall", "-qq", "-j", "0", str(folder)], check=False)
            (folder / marker).touch()
    return folder


def environment_name(name: str, version: str) -> str:
    """Return the name of an environment's folder."""
    return f"python{version}-{name}-{hashlib.sha256((PINS / f'{name}.txt').read_bytes()).hexdigest()[:12]}"


def _find_links() -> list[str]:
    """Pass pip's extra folders of wheels on to uv, which does not read pip's configuration."""
    folders = os.environ.get("PIP_FIND_LINKS", "").split()
    return [word for folder in folders for word in ("--find-links", folder)]
