"""The runtime layer: guard, hook, expectations and the lock itself, as bytes by path.

Everything here is a pure function of the lock and of the files shipped in ``envbuild/runtime``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import envbuild.runtime
from envbuild.core.digest import sha256_bytes
from envbuild.core.types import without_defaults
from envbuild.errors import LockError
from envbuild.lockfile import layout
from envbuild.lockfile.hardware import POLICIES, Cuda, Hardware
from envbuild.lockfile.model import Lock, dumps, lock_digest
from envbuild.runtime import fastjson
from envbuild.runtime.guard import ranges

PACKAGE = "_envbuild"
"""Name of the runtime's package inside an image: no distribution is called so, and it hides from completion."""
LIBRARY = f"{layout.RUNTIME_PREFIX}/lib"
ENTRY = f"{layout.RUNTIME_PREFIX}/guard.py"
STARTUP = "00-envbuild.pth"
"""Sorts before the start-up files of other distributions: the gate comes first."""

# One line, as site.py wants it, and ASCII, since the locale decides how it is read. It fails closed: without the hook
# nothing runs.
_PTH = (
    "import sys; exec("
    '"try:\\n sys.path.insert(0, {library!r})\\n import {package}.hook.startup as startup\\n'
    " sys.path.remove({library!r})\\n startup.start()\\n"
    "except Exception as error:\\n import os\\n"
    " os.write(2, ('envbuild: the start-up hook of this image failed: ' + repr(error) + "
    "' \\u2014 nothing was run\\\\n').encode())\\n"
    ' os._exit(78)")\n'
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeFile:
    """A regular file of the runtime layer; owner root."""

    data: bytes
    mode: int = 0o644


def runtime_files(lock: Lock) -> dict[str, RuntimeFile]:
    """Return every file of the runtime layer by absolute path, sorted.

    The modules (``*.py`` below ``LIBRARY``) want bytecode next to them, since every start of Python imports some: see
    ``runtime_sources``.

    Raises:
        LockError: the kernel range is none.
    """
    files = {
        **runtime_sources(),
        ENTRY: _source("entry.py"),
        f"{LIBRARY}/{PACKAGE}/config.py": config_module(lock).encode(),
        f"{site_packages(lock)}/{STARTUP}": _PTH.format(library=LIBRARY, package=PACKAGE).encode(),
        layout.LOCK_PATH: dumps(lock),
    }
    files[layout.EXPECT_PATH] = expectations_file(lock, files)
    return {path: RuntimeFile(data=data) for path, data in sorted(files.items())}


@cache
def runtime_sources() -> Mapping[str, bytes]:
    """Return the modules that are the same in every image, by absolute path: what may be compiled and cached once."""
    root = Path(envbuild.runtime.__file__).parent
    modules = [path.relative_to(root) for path in root.rglob("*.py") if path.name != "entry.py"]
    return {f"{LIBRARY}/{PACKAGE}/{module}": _source(str(module)) for module in sorted(modules)}


def entrypoint(lock: Lock) -> tuple[str, ...]:
    """Return the image's entry point: the OS's interpreter, isolated, without site, running the guard."""
    return (lock.python.executable, "-I", "-S", "-B", ENTRY)


def site_packages(lock: Lock) -> str:
    """Return the environment's site-packages folder in the image."""
    return f"{layout.ENV_PREFIX}/lib/python{lock.python.version}/site-packages"


def expectations(lock: Lock, files: Mapping[str, bytes] = {}) -> dict[str, Any]:
    """Return what the guard compares with (docs/reference/guard.md).

    Args:
        lock: the lock.
        files: runtime files by absolute path whose digests are to be checked.

    Raises:
        LockError: the kernel range is none.
    """
    try:
        ranges.parse(lock.hardware.kernel)
    except ValueError as error:
        raise LockError(f"{lock.file_name}: hardware.kernel: {error}", "lock again: envbuild lock spec.yaml") from None
    return {
        "format": 1,
        "lock": lock.file_name,
        "identity": lock_digest(lock),
        "kernel": lock.hardware.kernel,
        "cpu": lock.hardware.cpu,
        "cpu-flags": sorted(lock.hardware.cpu_flags),
        "fingerprint": lock.hardware.fingerprint,
        "gpu": _gpu(lock.hardware),
        "cuda": _cuda(lock.cuda),
        "policy": {field: lock.hardware.policy_of(field) for field in POLICIES},
        "threads": lock.determinism.threads,
        "environment": dict(sorted(lock.environment.items())),
        "interpreter": f"{layout.ENV_PREFIX}/bin/python",
        "site": site_packages(lock),
        "startup": STARTUP,
        "distributions": {package.name: package.version for package in sorted(lock.packages, key=lambda p: p.name)},
        "files": {path: sha256_bytes(data) for path, data in sorted(files.items())},
    }


def _gpu(hardware: Hardware) -> dict[str, Any] | None:
    """Return the GPUs as the guard's checks read them; an empty field of a device is left out."""
    gpu = hardware.gpu
    if gpu is None:
        return None
    devices = [{"count": device.count, **without_defaults(device)} for device in gpu.devices]
    return {"count": gpu.count, "driver": gpu.driver, "exclusive": gpu.exclusive, "devices": devices}


def _cuda(cuda: Cuda | None) -> dict[str, str] | None:
    if cuda is None:
        return None
    names = ("version", "cudnn", "cublas", "nccl", "driver")
    return {name: getattr(cuda, name) for name in names}


def expectations_file(lock: Lock, files: Mapping[str, bytes]) -> bytes:
    """Return ``expect.json``: it cannot list its own digest, so it holds the expectations next to their digest."""
    expect = expectations(lock, files)
    document = {"sha256": sha256_bytes(fastjson.dumps(expect).encode()), "expect": expect}
    return fastjson.dumps(document).encode() + b"\n"


def config_module(lock: Lock) -> str:
    """Return the hook's settings as a module: from bytecode it loads faster than any file could be parsed."""
    settings = {
        "LOCK": lock.file_name,
        "IDENTITY": lock_digest(lock),
        "SEED": lock.determinism.seed,
        "LEVEL": lock.determinism.level,
        "THREADS": lock.determinism.threads,
        "STRICT": lock.determinism.strict,
        "ENVIRONMENT": dict(sorted(lock.environment.items())),
        "CUDA": _cuda(lock.cuda),
    }
    lines = [f"{name} = {value!r}" for name, value in settings.items()]
    return '"""Written by envbuild from the lock."""\n\n' + "\n".join(lines) + "\n"


def _source(name: str) -> bytes:
    return (Path(envbuild.runtime.__file__).parent / name).read_bytes()
