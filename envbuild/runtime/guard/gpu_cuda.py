"""What libcuda reports, through ctypes: which library was really loaded, SM counts, and the GPUs a program would see.

NVML reports neither the number of SMs nor what ``CUDA_VISIBLE_DEVICES`` leaves; only libcuda does
(https://docs.nvidia.com/cuda/cuda-driver-api/). Runs in the probe's own process.
"""

from __future__ import annotations

import os

from . import driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ctypes import CDLL
    from typing import Any

LIBRARY = "libcuda.so.1"
_SMS, _MAJOR, _MINOR = 16, 75, 76
"""``CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT``, ``…_COMPUTE_CAPABILITY_MAJOR`` and ``…_MINOR``."""


def ask(kernel: str) -> tuple[dict[str, Any], list[dict[str, Any]] | None]:
    """Load libcuda as a program of this process would, and ask it about every GPU it shows.

    Args:
        kernel: version of the kernel module, empty if unknown; a newer libcuda is a compatibility package's.

    Returns:
        ``libcuda`` of ``envbuild/host/facts.py``, and one device (``uuid`` as 32 hexadecimal digits, ``name``, ``sms``,
        ``compute-capability``, ``memory`` in MiB) per visible GPU; None if libcuda could not be asked.
    """
    import ctypes

    facts: dict[str, Any] = {"path": "", "version": "", "compat": False, "api": "", "problem": None}
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        facts["problem"] = {"code": 0, "name": "LIBRARY_NOT_FOUND", "message": str(error)}
        return facts, None
    facts["path"] = loaded_path()
    facts["version"] = version_of(facts["path"])
    facts["compat"] = is_compat(facts["path"], facts["version"], kernel)
    try:
        number = ctypes.c_int()
        if library.cuDriverGetVersion(ctypes.byref(number)) == 0:
            facts["api"] = f"{number.value // 1000}.{number.value % 1000 // 10}"
        code = library.cuInit(0)
        if code:
            facts["problem"] = _problem(library, code)
            return facts, [] if code == 100 else None  # CUDA_ERROR_NO_DEVICE: none is visible
        return facts, _devices(library)
    except AttributeError as error:
        facts["problem"] = {"code": 0, "name": "FUNCTION_NOT_FOUND", "message": str(error)}
        return facts, None


def loaded_path(maps: str = "/proc/self/maps") -> str:
    """Return the file that libcuda was mapped from, links followed by the kernel; empty if none is mapped."""
    try:
        with open(maps, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                path = line.rstrip("\n").partition("/")[2].removesuffix(" (deleted)")
                if path.rpartition("/")[2].startswith("libcuda.so"):
                    return f"/{path}"
    except OSError:
        pass
    return ""


def version_of(path: str) -> str:
    """Return the driver version that a library's file name ends in, or an empty string."""
    version = path.rpartition("/")[2].removeprefix("libcuda.so").lstrip(".")
    return version if driver.is_version(version) else ""


def is_compat(path: str, version: str, kernel: str) -> bool:
    """Return whether a libcuda is a forward-compatibility package's: by its folder, or newer than the kernel module."""
    if "compat" in path.split("/")[:-1]:
        return True
    return bool(version and kernel) and _numbers(version) > _numbers(kernel)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _devices(library: CDLL) -> list[dict[str, Any]]:
    """Ask for every visible GPU; what a GPU does not report stays empty."""
    import ctypes

    def attribute(handle: int, number: int) -> int:
        value = ctypes.c_int()
        code = library.cuDeviceGetAttribute(ctypes.byref(value), number, handle)
        return 0 if code else value.value

    count = ctypes.c_int()
    found: list[dict[str, Any]] = []
    if library.cuDeviceGetCount(ctypes.byref(count)):
        return found
    for index in range(count.value):
        handle, name, uuid = ctypes.c_int(), ctypes.create_string_buffer(256), (ctypes.c_ubyte * 16)()
        size = ctypes.c_size_t()
        if library.cuDeviceGet(ctypes.byref(handle), index):
            continue
        known = not _uuid_function(library)(uuid, handle)
        named = not library.cuDeviceGetName(name, 256, handle)
        sized = not library.cuDeviceTotalMem_v2(ctypes.byref(size), handle)
        major, minor = attribute(handle.value, _MAJOR), attribute(handle.value, _MINOR)
        found.append(
            {
                "name": name.value.decode("utf-8", "replace") if named else "",
                "uuid": bytes(uuid).hex() if known else "",
                "sms": attribute(handle.value, _SMS),
                "compute-capability": f"{major}.{minor}" if major else "",
                "memory": size.value >> 20 if sized else 0,
            }
        )
    return found


def _uuid_function(library: CDLL) -> Any:
    """Return the function that gives a MIG slice its own UUID; drivers before 470 have only the older one."""
    try:
        return library.cuDeviceGetUuid_v2
    except AttributeError:
        return library.cuDeviceGetUuid


def _problem(library: CDLL, code: int) -> dict[str, Any]:
    import ctypes

    words = []
    for function in ("cuGetErrorName", "cuGetErrorString"):
        text = ctypes.c_char_p()
        try:
            code_of_call = getattr(library, function)(code, ctypes.byref(text))
        except AttributeError:
            code_of_call = 1
        words.append("" if code_of_call or not text.value else os.fsdecode(text.value))
    return {"code": code, "name": words[0] or "CUDA_ERROR", "message": words[1] or f"cuInit answered {code}"}
