"""The plan of an image: which layers, in which order, made of what, and how the image is to be run.

A pure function of the lock, and of envbuild's own files as far as they decide bytes. Order, bottom first: what is
large and seldom changes lies low, so that a change rebuilds, sends and unpacks little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from envbuild import layout
from envbuild.digest import sha256_bytes, sha256_json
from envbuild.errors import BuildError
from envbuild.image import rootfs, runtime
from envbuild.lock import Lock, PythonPackage, Wheel, lock_digest

LayerKind = Literal["os", "wheel", "bytecode", "environment", "runtime"]

CREATED = "1980-01-01T00:00:00Z"
"""``layout.EPOCH`` as the OCI image configuration writes times."""

_PATH = f"{layout.ENV_PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Debian's name of an architecture to (architecture, variant) of the OCI image configuration, which are Go's.
_ARCHITECTURES: Mapping[str, tuple[str, str]] = {
    "amd64": ("amd64", ""),
    "arm64": ("arm64", "v8"),
    "armel": ("arm", "v5"),
    "armhf": ("arm", "v7"),
    "i386": ("386", ""),
    "mips64el": ("mips64le", ""),
    "ppc64el": ("ppc64le", ""),
    "riscv64": ("riscv64", ""),
    "s390x": ("s390x", ""),
}

# Which of this folder's files decide the bytes of which kind of layer; the OS layer takes all that no other names.
_TAR_CODE = frozenset({"layer.py", "sink.py"})
_WHEEL_CODE = _TAR_CODE | {"wheel.py", "environment.py"}
_BYTECODE_CODE = _WHEEL_CODE | {"compile.py"}
_NOT_OS_CODE = (
    _BYTECODE_CODE
    | {"plan.py", "oci.py", "layers.py", "assemble.py", "runtime.py", "dockerfile.py", "base.py", "compare.py"}
) - {"layer.py"}


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerSpec:
    """One layer to be.

    Attributes:
        kind: what it holds.
        title: for people, also the image's history line.
        key: SHA-256 of everything its bytes depend on; the cache's key.
        wheels: the wheels of a ``wheel``, ``bytecode`` or ``environment`` layer, lowest precedence first.
    """

    kind: LayerKind
    title: str
    key: str
    wheels: tuple[Wheel, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to assemble.

    Attributes:
        name: the image's name: that of the lock.
        lock: the lock's digest.
        python: feature release of the interpreter.
        executable: path of the interpreter in the image.
        interpreter: digest of what makes it.
        layers: bottom first.
        platform: ``os``, ``architecture`` and perhaps ``variant`` as the OCI specifications name them.
        config: the ``config`` object of the OCI image configuration.
        labels: annotations of the manifest, also labels of the image.
    """

    name: str
    lock: str
    python: str
    executable: str
    interpreter: str
    layers: tuple[LayerSpec, ...]
    platform: Mapping[str, str]
    config: Mapping[str, Any]
    labels: Mapping[str, str]

    @property
    def wheels(self) -> tuple[Wheel, ...]:
        """All wheels in the order of their installation: where two ship one path, the later one wins."""
        return tuple(wheel for layer in self.layers if layer.kind in ("wheel", "environment") for wheel in layer.wheels)


def plan(lock: Lock) -> Plan:
    """Decide an image.

    Raises:
        LockError: the lock is of a layout version that this envbuild cannot make.
        BuildError: it is of an architecture that images have no name for.
    """
    layout.check(lock.layout, lock.file_name)
    name = _ARCHITECTURES.get(lock.os.architecture)
    if name is None:
        raise BuildError(f"os.architecture: expected one of {', '.join(_ARCHITECTURES)}, found {lock.os.architecture}")
    platform = {"os": "linux", "architecture": name[0], **({"variant": name[1]} if name[1] else {})}
    texts = labels(lock)
    return Plan(
        name=lock.name,
        lock=lock_digest(lock),
        python=lock.python.version,
        executable=lock.python.executable,
        interpreter=interpreter(lock),
        layers=_ORDERS[lock.layout](lock),
        platform=MappingProxyType(platform),
        config=MappingProxyType(_config(lock, texts)),
        labels=MappingProxyType(texts),
    )


def labels(lock: Lock) -> dict[str, str]:
    """Return what an image says of itself; the names beginning with org. are the OCI annotation specification's."""
    python = next((item.version for item in lock.os.packages if item.name == f"python{lock.python.version}"), "")
    frameworks = {f"envbuild.framework.{name}": version for name, version in lock.frameworks.items()}
    texts = {
        "org.opencontainers.image.created": CREATED,
        "org.opencontainers.image.title": lock.name,
        "envbuild.layout": str(lock.layout),
        "envbuild.lock": f"sha256:{lock_digest(lock)}",
        "envbuild.os": lock.os.release or lock.os.image,
        "envbuild.kernel": lock.hardware.kernel or "any",
        "envbuild.cpu": lock.hardware.cpu,
        "envbuild.cuda": lock.cuda.version if lock.cuda else "none",
        "envbuild.python": python or lock.python.version,
        **frameworks,
        **_base_labels(lock),
    }
    return dict(sorted(texts.items()))


def _base_labels(lock: Lock) -> dict[str, str]:
    """Name the base image, if there is one."""
    name, _, digest = lock.os.image.partition("@")
    keys = "org.opencontainers.image.base.name", "org.opencontainers.image.base.digest"
    return dict(zip(keys, (name, digest), strict=True)) if name else {}


def interpreter(lock: Lock) -> str:
    """Return the SHA-256 of what makes the interpreter: its Debian packages, or the base image's file system."""
    packages = sorted(item.sha256 for item in lock.os.packages if item.name.startswith(("python3", "libpython3")))
    return sha256_json({"packages": packages, "rootfs": lock.os.image_rootfs, "executable": lock.python.executable})


def bytecode_key(plan: Plan, sources: str) -> str:
    """Return the cache key of one group's bytecode; ``sources`` is the digest of the wheel or of the modules."""
    code = _code(_BYTECODE_CODE)
    return sha256_json({"code": code, "interpreter": plan.interpreter, "python": plan.python, "sources": sources})


def _layers_1(lock: Lock) -> tuple[LayerSpec, ...]:
    """Layout 1: the OS, large wheels by size, their bytecode, the environment with the small ones, theirs, runtime."""
    large = sorted((item for item in lock.packages if is_large(item)), key=lambda item: (-item.wheel.size, item.name))
    small = sorted((item for item in lock.packages if not is_large(item)), key=lambda item: item.name)
    layers = [_os(lock)]
    for item in large:
        key = _key("wheel", lock, code=_code(_WHEEL_CODE), wheel=item.wheel.sha256)
        layers.append(
            LayerSpec(kind="wheel", title=f"{item.name} {item.version}", key=key, wheels=(item.wheel,)),
        )
    if large:
        layers.append(_bytecode(lock, large, "large"))
    layers.append(_environment(lock, small))
    if small:
        layers.append(_bytecode(lock, small, "small"))
    layers.append(LayerSpec(kind="runtime", title="guard and lock", key=lock_digest(lock)))
    return tuple(layers)


def is_large(package: PythonPackage) -> bool:
    """Tell whether a package's wheel gets a layer of its own."""
    return package.wheel.size >= layout.LARGE_WHEEL


def _os(lock: Lock) -> LayerSpec:
    key = sha256_json({"kind": "os", "inputs": rootfs.os_key(lock.os), "code": _code(None)})
    title = lock.os.image or f"{lock.os.release}, {len(lock.os.packages)} packages"
    return LayerSpec(kind="os", title=title, key=key)


def _environment(lock: Lock, small: list[PythonPackage]) -> LayerSpec:
    key = _key(
        "environment",
        lock,
        code=_code(_WHEEL_CODE),
        executable=lock.python.executable,
        wheels=[item.wheel.sha256 for item in small],
    )
    title = f"Python {lock.python.version} environment, {len(small)} small wheels"
    return LayerSpec(kind="environment", title=title, key=key, wheels=tuple(item.wheel for item in small))


def _bytecode(lock: Lock, packages: list[PythonPackage], what: str) -> LayerSpec:
    key = _key(
        "bytecode",
        lock,
        code=_code(_BYTECODE_CODE),
        interpreter=interpreter(lock),
        wheels=[item.wheel.sha256 for item in packages],
    )
    wheels = tuple(item.wheel for item in packages)
    return LayerSpec(kind="bytecode", title=f"bytecode of {what} wheels", key=key, wheels=wheels)


def _key(kind: str, lock: Lock, **inputs: Any) -> str:
    return sha256_json({"kind": kind, "layout": lock.layout, "python": lock.python.version, **inputs})


@cache
def _code(names: frozenset[str] | None) -> str:
    """Digest of envbuild's own files that decide a layer: a change of the code never meets an older cache."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    chosen = [path for path in files if (path.name in names if names else path.name not in _NOT_OS_CODE)]
    chosen.append(Path(layout.__file__))
    return sha256_json([[path.name, sha256_bytes(path.read_bytes())] for path in chosen])


def _config(lock: Lock, texts: Mapping[str, str]) -> dict[str, Any]:
    environment = {"PATH": _PATH, "VIRTUAL_ENV": layout.ENV_PREFIX, **lock.environment}
    return {
        "Cmd": [f"{layout.ENV_PREFIX}/bin/python"],
        "Entrypoint": list(runtime.entrypoint(lock)),
        "Env": [f"{name}={value}" for name, value in sorted(environment.items())],
        "Labels": dict(texts),
        "WorkingDir": layout.WORKSPACE,
    }


_ORDERS: Mapping[int, Callable[[Lock], tuple[LayerSpec, ...]]] = {1: _layers_1}
"""Which layers there are, by layout version. A published one stays as it is: locks keep theirs."""
