"""The GPU probe: a process of its own that prints one JSON object, ``GpuFacts`` of ``envbuild/host/facts.py``.

It is apart from the guard since NVIDIA's libraries may hang, crash or print, and since neither they nor the device
files they open may stay in the process that becomes the user's program. The guard starts it so (``gpu_ask``):
``PYTHON -I -S -B -c "import sys; sys.path.insert(0, FOLDER); from PACKAGE.guard import gpu; gpu.main()" SITE``.
``SITE`` is the folder where nvidia-ml-py is. Nothing found is a value: without any driver all fields are empty, and a
library that cannot be asked is a ``problem``.
"""

from __future__ import annotations

import os
import sys

from ..fastjson import dumps
from . import driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(arguments: list[str] | None = None) -> None:
    """Print the facts. Whatever the libraries print goes to standard error."""
    site = (sys.argv[1:] if arguments is None else arguments)[0]
    answer = os.dup(1)
    os.dup2(2, 1)
    try:
        facts = look(site)
    except Exception as error:  # a bug here must not look like a machine without GPUs
        facts = failed("FAILED", f"the GPU probe failed: {type(error).__name__}: {error}")
    with open(answer, "wb", buffering=0) as stream:
        stream.write(dumps(facts).encode())
    os._exit(0)  # the libraries' own exit handlers may take long, or hang


def empty() -> dict[str, Any]:
    """Return the facts of a machine without a driver."""
    libcuda = {"path": "", "version": "", "compat": False, "api": "", "problem": None}
    return {"driver": "", "driver-source": "", "nvml": "", "libcuda": libcuda, "problem": None, "devices": []}


def failed(name: str, message: str, root: str = "/") -> dict[str, Any]:
    """Return the facts of a machine whose libraries could not be asked."""
    version, source = driver.module(root)
    problem = {"code": 0, "name": name, "message": message}
    return {**empty(), "driver": version, "driver-source": source, "problem": problem}


def look(site: str, root: str = "/") -> dict[str, Any]:
    """Ask the kernel, NVML and libcuda, in this order."""
    facts = empty()
    facts["driver"], facts["driver-source"] = driver.module(root)
    if not _has_nvml():
        if not driver.traces(root):
            return facts
        message = f"{driver.NVML} cannot be loaded"
        facts["problem"] = {"code": 12, "name": "NVML_ERROR_LIBRARY_NOT_FOUND", "message": message}
    else:
        _ask_nvml(facts, site)
    if not facts["driver"] and facts["nvml"]:
        facts["driver"], facts["driver-source"] = facts["nvml"], "NVML"
    from . import gpu_cuda

    facts["libcuda"], shown = gpu_cuda.ask(facts["driver"])
    if shown is not None:
        join(facts["devices"], shown)
    return facts


def _has_nvml() -> bool:
    """Load NVML's library: without it its binding need not be imported, which takes 20 ms."""
    import ctypes

    try:
        ctypes.CDLL(driver.NVML)
    except OSError:
        return False
    return True


def _ask_nvml(facts: dict[str, Any], site: str) -> None:
    """Fill in what NVML reports; the reason why it reports nothing becomes the problem."""
    from . import gpu_nvml

    if site:
        sys.path.append(site)
    _lighten()
    try:
        import pynvml
    except ImportError:
        message = "nvidia-ml-py is not installed, through which NVML is asked"
        facts["problem"] = {"code": 0, "name": "BINDING_NOT_FOUND", "message": message}
        return
    try:
        nvml = gpu_nvml.Nvml(pynvml)
        facts["nvml"] = nvml.version()
        facts["devices"] = nvml.devices()
    except pynvml.NVMLError as error:
        facts["problem"] = gpu_nvml.problem(pynvml, error)


def _lighten() -> None:
    """Spare nvidia-ml-py the import of ``ctypes.util``, of which it takes ``find_library`` and never calls it.

    That module needs ``subprocess``, ``shutil`` and ``tempfile``: a third of the binding's import.
    """
    import types

    def find_library(name: str) -> str | None:
        sys.modules.pop("ctypes.util", None)
        from ctypes.util import find_library as real

        return real(name)

    stand_in = types.ModuleType("ctypes.util")
    stand_in.find_library = find_library  # type: ignore[attr-defined]
    sys.modules.setdefault("ctypes.util", stand_in)


def join(devices: list[dict[str, Any]], shown: list[dict[str, Any]]) -> None:
    """Add what libcuda knows to NVML's devices: SM counts, and which of them a program sees.

    They are matched by UUID, since CUDA's order is another one; a GPU without an UUID by name. GPUs that NVML does not
    report (a container without the ``utility`` capability has no NVML) are appended.
    """
    left = list(shown)
    for device in devices:
        uuid = device["uuid"].partition("-")[2].replace("-", "").lower()
        for candidate in left:
            same = candidate["uuid"] == uuid if uuid and candidate["uuid"] else candidate["name"] == device["name"]
            if same:
                device["sms"] = device["sms"] or candidate["sms"]
                device["visible"] = True
                left.remove(candidate)
                break
        else:
            device["visible"] = False
    if not devices:
        from .gpu_nvml import blank

        for candidate in left:
            uuid = candidate["uuid"]
            parts = (uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:])
            found = {**blank(), **candidate, "uuid": "GPU-" + "-".join(parts) if uuid else "", "visible": True}
            devices.append(found)
