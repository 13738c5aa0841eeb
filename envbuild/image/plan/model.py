"""The plan of an image: which layers, in which order, made of what, and how the image is to be run.

A pure function of the lock, and of envbuild's own files as far as they decide bytes; ``orders`` decides the layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from envbuild.core.digest import sha256_json
from envbuild.errors import BuildError
from envbuild.image.plan import layer_order
from envbuild.image.plan.layer_order import LayerSpec
from envbuild.image.runtime import files
from envbuild.lockfile import layout
from envbuild.lockfile.model import Lock, Wheel, lock_digest

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to assemble.

    Attributes:
        name: the image's name: that of the lock.
        lock: the lock's digest.
        layout: its layout version.
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
    layout: int
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
        layout=lock.layout,
        python=lock.python.version,
        executable=lock.python.executable,
        interpreter=layer_order.interpreter(lock),
        layers=layer_order.layers(lock),
        platform=MappingProxyType(platform),
        config=MappingProxyType(_config(lock, texts)),
        labels=MappingProxyType(texts),
    )


def labels(lock: Lock) -> dict[str, str]:
    """Return what an image states of itself; the names beginning with org. are the OCI annotation specification's."""
    own = f"python{lock.python.version}" if lock.python.build is None else ""
    python = next((item.version for item in lock.os.packages if item.name == own), "")
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
        "envbuild.python": python or lock.python.release,
        **frameworks,
        **_base_labels(lock),
    }
    return dict(sorted(texts.items()))


def _base_labels(lock: Lock) -> dict[str, str]:
    """Name the base image, if there is one."""
    name, _, digest = lock.os.image.partition("@")
    keys = "org.opencontainers.image.base.name", "org.opencontainers.image.base.digest"
    return dict(zip(keys, (name, digest), strict=True)) if name else {}


def bytecode_key(plan: Plan, sources: str) -> str:
    """Return the cache key of one group's bytecode; ``sources`` is the digest of the wheel or of the modules."""
    code = layer_order.bytecode_code(plan.layout)
    return sha256_json({"code": code, "interpreter": plan.interpreter, "python": plan.python, "sources": sources})


def _config(lock: Lock, texts: Mapping[str, str]) -> dict[str, Any]:
    environment = {"PATH": _PATH, "VIRTUAL_ENV": layout.ENV_PREFIX, **lock.environment}
    return {
        "Cmd": [f"{layout.ENV_PREFIX}/bin/python"],
        "Entrypoint": list(files.entrypoint(lock)),
        "Env": [f"{name}={value}" for name, value in sorted(environment.items())],
        "Labels": dict(texts),
        "WorkingDir": layout.WORKSPACE,
    }
