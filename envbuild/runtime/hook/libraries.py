"""NVIDIA's libraries as they are loaded in this process, against the lock.

Frameworks find cuDNN, cuBLAS and NCCL by search paths that a variable or a stray copy can bend, and load cuDNN at the
first convolution only, from C, which no hook of Python's sees. So ``/proc/self/maps`` is read right after a framework
was imported and once more at the end. Each library must be in the environment, and return the version that the lock
names; it is asked for through the copy that is loaded already (RTLD_NOLOAD), so that nothing is loaded or initialised
by asking (cuDNN 9, whose front would load more, is asked once it has done so by itself). No digest is taken: cuBLAS
alone has 700 MB, and the wheels were verified when the image was built.

Sources of the functions: the headers ``cudnn_version.h``, ``cublas_api.h``, ``nccl.h``, ``cuda_runtime_api.h``.
"""

from __future__ import annotations

import os
import sys

from ..guard.library_check import is_nvidia
from .objects import executable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Protocol

    class Checked(Protocol):
        """What a check needs of the process."""

        config: Any
        libraries: list[dict[str, Any]]

        def stop(self, headline: str, message: str, fix: str) -> None:
            """End the process, or warn."""


DRIVER = "libcuda"
"""Comes from the host, not from the environment: recorded, and judged by the guard."""
KINDS = {"libcudart": "version", "libcublas": "cublas", "libcublasLt": "cublas", "libcudnn": "cudnn", "libnccl": "nccl"}
"""Library to the field of the lock's CUDA table that holds its version."""
_GRAPH = "libcudnn_graph"
_HEADLINE = "a library of NVIDIA's is not the locked one — the program was stopped"
_FIX = (
    "start without what leads to another copy: LD_LIBRARY_PATH, LD_PRELOAD, mounts over /opt/env\n"
    "  set determinism.strict: false in spec.yaml to be warned only, then: envbuild lock spec.yaml && envbuild build"
)


def check(process: Checked, maps: str = "/proc/self/maps") -> None:
    """Look at what is loaded now, keep it for the record, and stop or warn about what is not as locked.

    For a lock without CUDA it is only recorded.
    """
    wanted = process.config.CUDA
    paths = relevant(_mapped(maps))
    known = {entry["path"]: entry for entry in process.libraries}
    for path in paths:
        if path in known and not _postponed(known[path]):
            continue
        asked = _stem(path) != "libcudnn" or not _is_front(path) or any(_stem(p) == _GRAPH for p in paths)
        known[path] = describe(path, wanted or {}, sys.prefix, ask=asked)
        process.libraries = sorted(known.values(), key=lambda entry: str(entry["name"]))
        if wanted is not None and known[path]["problem"]:
            process.stop(_HEADLINE, f"{path}: {known[path]['problem']}", _FIX)


def _postponed(entry: Mapping[str, Any]) -> bool:
    """Whether a version is still to be asked for."""
    return bool(entry["locked"] and not entry["version"] and not entry["problem"])


def _is_front(path: str) -> bool:
    """Whether a ``libcudnn`` is the front of others: since version 9 it loads ``libcudnn_graph`` when first called."""
    major = path.partition(".so.")[2].partition(".")[0]
    return major.isdecimal() and int(major) >= 9


def relevant(paths: Iterable[str]) -> list[str]:
    """Return those of some files that are NVIDIA's user-space libraries or the driver's ``libcuda``, sorted."""
    return sorted(path for path in paths if _stem(path) == DRIVER or is_nvidia(path))


def describe(path: str, wanted: Mapping[str, str], prefix: str, *, ask: bool = True) -> dict[str, Any]:
    """Describe one loaded library.

    Args:
        path: as the kernel shows it; `` (deleted)`` at its end means that the file is not there any more.
        wanted: the lock's CUDA table.
        prefix: the environment's folder.
        ask: ask the library for its version.

    Returns:
        ``name``, ``path``, ``version``, ``locked`` (both empty if unknown) and ``problem``, empty if all is well.
    """
    stem = _stem(path)
    locked = wanted.get(KINDS.get(stem, ""), "")
    if stem == DRIVER:
        version = path.partition(".so.")[2]
        return {"name": os.path.basename(path), "path": path, "version": version, "locked": "", "problem": ""}
    file, deleted = path.removesuffix(" (deleted)"), path.endswith(" (deleted)")
    version = version_of(stem, path) if ask and not deleted else ""
    problem = ""
    if not path.startswith(os.path.join(prefix, "")):
        problem = f"is loaded from outside {prefix}, not from a locked wheel"
    elif deleted:
        problem = "was replaced while it is in use"
    elif not same(locked, version):
        problem = f"is version {version}, locked is {locked}"
    return {"name": os.path.basename(file), "path": path, "version": version, "locked": locked, "problem": problem}


def same(locked: str, found: str) -> bool:
    """Compare a wheel's version with a library's own, which has fewer numbers; what is unknown agrees."""
    pairs = zip(locked.split("."), found.split("."))
    return not locked or not found or all(int(left) == int(right) for left, right in pairs)


def version_of(stem: str, path: str) -> str:
    """Ask a library that is loaded already for its version; empty if it cannot return one."""
    if stem not in KINDS:
        return ""
    try:
        import ctypes

        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        return str(_ASK[stem](ctypes, library))
    except (ImportError, OSError, AttributeError):
        return ""


def _cudnn(ctypes: Any, library: Any) -> str:
    """Version 9 counts major × 10000 + minor × 100 + patch, earlier ones major × 1000."""
    library.cudnnGetVersion.restype = ctypes.c_size_t
    number = int(library.cudnnGetVersion())
    major, rest = divmod(number, 10000 if number >= 90000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _nccl(ctypes: Any, library: Any) -> str:
    """Since 2.9 major × 10000 + minor × 100 + patch, before major × 1000."""
    number = _number(ctypes, library.ncclGetVersion)
    major, rest = divmod(number, 10000 if number >= 10000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _cudart(ctypes: Any, library: Any) -> str:
    number = _number(ctypes, library.cudaRuntimeGetVersion)
    return f"{number // 1000}.{number % 1000 // 10}"


def _number(ctypes: Any, function: Any) -> int:
    found = ctypes.c_int()
    if function(ctypes.byref(found)):
        raise OSError("no version")
    return int(found.value)


def _property(name: str) -> Any:
    """Return what asks ``NAME(property, int *)`` for major, minor and patch level (``library_types.h``)."""

    def ask(ctypes: Any, library: Any) -> str:
        numbers = []
        for index in range(3):
            found = ctypes.c_int()
            if getattr(library, name)(index, ctypes.byref(found)):
                raise OSError("no version")
            numbers.append(str(found.value))
        return ".".join(numbers)

    return ask


_ASK = {
    "libcublas": _property("cublasGetProperty"),
    "libcublasLt": _property("cublasLtGetProperty"),
    "libcudart": _cudart,
    "libcudnn": _cudnn,
    "libnccl": _nccl,
}


def _mapped(maps: str) -> set[str]:
    try:
        with open(maps, encoding="utf-8", errors="surrogateescape") as stream:
            return executable(stream)
    except OSError:
        return set()


def _stem(path: str) -> str:
    """Return ``libcudart`` for ``…/libcudart.so.12`` and for a bundled ``…/libcudart-d0da41ae.so.12``."""
    name, dot, _ = os.path.basename(path).partition(".so")
    return name.partition("-")[0] if dot else ""
