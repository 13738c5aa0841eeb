"""Which layers an image has and in which order, for each layout version.

Bottom first. An engine unpacks every layer above a changed one again, so what is large and seldom changes is low,
and two projects share as many layers as they have in common from the bottom up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from envbuild.core.digest import sha256_bytes, sha256_json
from envbuild.image.bytecode.interpreter import is_of_interpreter
from envbuild.image.os import rootfs
from envbuild.lockfile import layout
from envbuild.lockfile.model import Lock, PythonBuild, PythonPackage, Wheel, lock_digest

LayerKind = Literal["os", "python", "wheel", "bytecode", "environment", "runtime"]

_OS_CODE = ("os", "tar")
_PYTHON_CODE = ("cpython", "tar")
_WHEEL_CODE = ("python", "tar")
_BYTECODE_CODE = ("bytecode", "python", "tar")
"""Folders of this package whose modules decide the bytes of each kind of layer."""

_SKIPPED: Mapping[int, tuple[str, ...]] = {1: (), 2: ("tests",)}
"""Folders whose modules get no bytecode: a third of what NumPy, SciPy and scikit-learn have, and never imported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerSpec:
    """One layer to be.

    Attributes:
        kind: what it holds.
        title: for people, also the image's history line.
        key: SHA-256 of everything its bytes depend on; the cache's key.
        wheels: the wheels of a ``wheel``, ``bytecode`` or ``environment`` layer, lowest precedence first.
        build: the standalone Python of a ``python`` layer, or of the ``bytecode`` layer of its modules.
    """

    kind: LayerKind
    title: str
    key: str
    wheels: tuple[Wheel, ...] = ()
    build: PythonBuild | None = None


def layers(lock: Lock) -> tuple[LayerSpec, ...]:
    """Return an image's layers, bottom first, in the order of the lock's layout version."""
    return _BY_LAYOUT[lock.layout](lock)


def interpreter(lock: Lock) -> str:
    """Return the SHA-256 of what makes the interpreter: an archive, Debian packages, or a base image's file system."""
    if build := lock.python.build:
        return sha256_json({"build": build.sha256, "code": _code(_PYTHON_CODE), "executable": lock.python.executable})
    packages = sorted(item.sha256 for item in lock.os.packages if is_of_interpreter(item.name))
    return sha256_json({"packages": packages, "rootfs": lock.os.image_rootfs, "executable": lock.python.executable})


def skipped(version: int) -> tuple[str, ...]:
    """Return the names of the folders whose modules get no bytecode in a layout version."""
    return _SKIPPED[version]


def bytecode_code(version: int) -> str:
    """Return the digest of all but interpreter and modules that decides bytecode in a layout version."""
    code = _code(_BYTECODE_CODE)
    return sha256_json({"code": code, "skipped": skipped(version)}) if skipped(version) else code


def _layers_1(lock: Lock) -> tuple[LayerSpec, ...]:
    """Layout 1: the OS, large wheels by size, their bytecode, the environment with the small ones, theirs, runtime."""
    large = sorted((item for item in lock.packages if _is_large(item)), key=lambda item: (-item.wheel.size, item.name))
    small = sorted((item for item in lock.packages if not _is_large(item)), key=lambda item: item.name)
    found = [*_system(lock), *(_wheel(lock, item) for item in large)]
    if large:
        found.append(_bytecode(lock, large, "large wheels"))
    return (*found, *_top(lock, small))


def _layers_2(lock: Lock) -> tuple[LayerSpec, ...]:
    """Layout 2: classes of wheels, the largest lowest, each with its bytecode; then the OS, small wheels, runtime.

    A wheel's class is that of its own size alone, and within a class the name decides: another wheel, or another
    release of it, moves no layer below its own. The OS is above, since its packages change more often than a
    framework, and is a tenth of its size. A base image is at the bottom: it may hold anything, and wheels must win.
    """
    packages = sorted(lock.packages, key=lambda item: item.name)
    below, above = (_system(lock), []) if lock.os.image else ([], _system(lock))
    for power in sorted({_power(item) for item in packages}, reverse=True):
        members = [item for item in packages if _power(item) == power]
        size = f"{layout.SIZE_CLASS**power >> 20} MiB"
        if power >= layout.OWN_LAYER:
            below += [_wheel(lock, item) for item in members]
        elif power >= layout.SHARED_LAYER:
            below.append(_wheels(lock, members, f"wheels from {size}"))
        else:
            break
        below.append(_bytecode(lock, members, f"wheels from {size}"))
    return (*below, *above, *_top(lock, [item for item in packages if _power(item) < layout.SHARED_LAYER]))


def _power(package: PythonPackage) -> int:
    """Return the class of a package's wheel: the power of ``SIZE_CLASS`` that its packed size reaches."""
    power = 0
    while layout.SIZE_CLASS ** (power + 1) <= package.wheel.size:
        power += 1
    return power


def _is_large(package: PythonPackage) -> bool:
    return package.wheel.size >= layout.LARGE_WHEEL


def _top(lock: Lock, small: Sequence[PythonPackage]) -> tuple[LayerSpec, ...]:
    """Return what is uppermost in every layout: the environment with small wheels, their bytecode, the runtime."""
    bytecode = [_bytecode(lock, small, "small wheels")] if small else []
    runtime = LayerSpec(kind="runtime", title="guard and lock", key=lock_digest(lock))
    return (_environment(lock, small), *bytecode, runtime)


def _system(lock: Lock) -> list[LayerSpec]:
    """Return the OS, and above it a standalone Python with its bytecode, if the lock has one."""
    build = lock.python.build
    if build is None:
        return [_os(lock)]
    name = f"Python {build.version} ({build.release})"
    key = _key("python", lock, code=_code(_PYTHON_CODE), build=build.sha256)
    made = _key("bytecode", lock, code=bytecode_code(lock.layout), interpreter=interpreter(lock), build=build.sha256)
    return [
        _os(lock),
        LayerSpec(kind="python", title=name, key=key, build=build),
        LayerSpec(kind="bytecode", title=f"bytecode of {name}", key=made, build=build),
    ]


def _os(lock: Lock) -> LayerSpec:
    key = sha256_json({"kind": "os", "inputs": rootfs.os_key(lock.os), "code": _code(_OS_CODE)})
    title = lock.os.image or f"{lock.os.release}, {len(lock.os.packages)} packages"
    return LayerSpec(kind="os", title=title, key=key)


def _wheel(lock: Lock, item: PythonPackage) -> LayerSpec:
    key = _key("wheel", lock, code=_code(_WHEEL_CODE), wheel=item.wheel.sha256)
    return LayerSpec(kind="wheel", title=f"{item.name} {item.version}", key=key, wheels=(item.wheel,))


def _wheels(lock: Lock, items: Sequence[PythonPackage], title: str) -> LayerSpec:
    key = _key("wheel", lock, code=_code(_WHEEL_CODE), wheels=_digests(items))
    return LayerSpec(kind="wheel", title=title, key=key, wheels=tuple(item.wheel for item in items))


def _environment(lock: Lock, small: Sequence[PythonPackage]) -> LayerSpec:
    code, executable = _code(_WHEEL_CODE), lock.python.executable
    key = _key("environment", lock, code=code, executable=executable, wheels=_digests(small))
    title = f"Python {lock.python.version} environment, {len(small)} small wheels"
    return LayerSpec(kind="environment", title=title, key=key, wheels=tuple(item.wheel for item in small))


def _bytecode(lock: Lock, packages: Sequence[PythonPackage], what: str) -> LayerSpec:
    code = bytecode_code(lock.layout)
    key = _key("bytecode", lock, code=code, interpreter=interpreter(lock), wheels=_digests(packages))
    wheels = tuple(item.wheel for item in packages)
    return LayerSpec(kind="bytecode", title=f"bytecode of {what}", key=key, wheels=wheels)


def _digests(packages: Iterable[PythonPackage]) -> list[str]:
    return [item.wheel.sha256 for item in packages]


def _key(kind: str, lock: Lock, **inputs: Any) -> str:
    return sha256_json({"kind": kind, "python": lock.python.version, **inputs})


@cache
def _code(folders: tuple[str, ...]) -> str:
    """Digest of envbuild's own folders that decide a layer: a change of the code never meets an older cache."""
    root = Path(__file__).parents[1]
    files = [(f"{folder}/{path.name}", path) for folder in folders for path in sorted((root / folder).glob("*.py"))]
    files.append(("layout.py", Path(layout.__file__)))
    return sha256_json([[name, sha256_bytes(path.read_bytes())] for name, path in files])


_BY_LAYOUT: Mapping[int, Callable[[Lock], tuple[LayerSpec, ...]]] = {1: _layers_1, 2: _layers_2}
"""By layout version. A published one stays as it is: locks keep theirs."""
