"""What is built: a small real lock, its files in a folder, and a copy of the code that does not change meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SPEC = """\
name: {name}
os: debian-12
python: "3.11"
# A large wheel, scripts made from entry points, scripts that a wheel brings (jmespath's data folder), compiled modules.
requirements: [numpy, jmespath, charset-normalizer, msgpack]
"""
_LIBRARIES = {"clock": ("CLOCK",), "order": ("ORDER",), "kernel": ("KERNEL",), "all": ("CLOCK", "ORDER", "KERNEL")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What every cell of the matrix starts from.

    Attributes:
        folder: everything the matrix makes is below.
        code: copy of the packages ``envbuild`` and ``tests``, and of the templates.
        vendor: every file of the lock.
        lock: the lock's file.
        libraries: compiled variants of ``elsewhere.c`` by name.
    """

    folder: Path
    code: Path
    vendor: Path
    lock: Path
    libraries: dict[str, Path]


def prepare(folder: Path, name: str, clock_ahead: int) -> Subject:
    """Lock for real, fetch once, copy the code, compile the libraries.

    Args:
        folder: empty; the user who runs the cells must be able to read it.
        name: the lock's; also part of the images' tags.
        clock_ahead: seconds.
    """
    folder.chmod(0o755)
    project, vendor, code = folder / "locked", folder / "vendor", folder / "code"
    project.mkdir()
    (project / "spec.yaml").write_text(_SPEC.format(name=name))
    command = [sys.executable, "-m", "envbuild"]
    quiet = {"cwd": project, "check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([*command, "lock", "spec.yaml"], **quiet)  # type: ignore[call-overload]
    subprocess.run([*command, "fetch", "--vendor", str(vendor)], **quiet)  # type: ignore[call-overload]
    without = shutil.ignore_patterns("__pycache__")
    for part in ("envbuild", "templates", "tests/reproducibility"):
        shutil.copytree(ROOT / part, code / part, ignore=without)
    (code / "tests" / "__init__.py").touch()
    libraries = {}
    source = Path(__file__).with_name("elsewhere.c")
    for library, names in _LIBRARIES.items():
        libraries[library] = folder / f"{library}.so"
        defined = [f"-D{name}={clock_ahead}" for name in names]
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", *defined, "-o", libraries[library], source], check=True)
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    return Subject(folder=folder, code=code, vendor=vendor, lock=project / f"pylock.{name}.toml", libraries=libraries)


def fill(store: Path, earlier: Path, *, half: bool) -> None:
    """Give a store what an earlier build left in another: all of it, or every second file and layer.

    Files are shared as hard links; both stay as they are, since a store replaces files and never writes into one.
    """
    for part in ("sha256", "derived"):
        units = _units(earlier / part)
        for unit in units[::2] if half else units:
            target = store / unit.relative_to(earlier)
            target.parent.mkdir(parents=True, exist_ok=True)
            if unit.is_dir():
                shutil.copytree(unit, target, copy_function=os.link)
            else:
                os.link(unit, target)


def _units(folder: Path) -> list[Path]:
    """What is there whole or not at all: objects, and folders of derived things."""
    return sorted(path for path in folder.glob("*/*") if not path.name.startswith("."))
