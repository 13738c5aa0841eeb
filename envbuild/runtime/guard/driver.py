"""What NVIDIA's driver leaves in files: the kernel module's version, and whether there is a driver at all.

Read by the guard before it starts the GPU probe, and by the probe itself; no library is loaded here.
"""

from __future__ import annotations

import os

NVML = "libnvidia-ml.so.1"
_TRACES = ("dev/nvidiactl", "sys/module/nvidia/version", "proc/driver/nvidia/version", "dev/dxg")
"""The control device; the kernel module; the same in older words; Windows' GPU under WSL 2, which has no module."""
_FOLDERS = (
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "usr/lib64",
    "lib",
    "usr/lib",
)
_HWCAPS = ("", "glibc-hwcaps/x86-64-v4", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2")


def module(root: str = "/") -> tuple[str, str]:
    """Return the loaded kernel module's version and the file that holds it; two empty strings if there is none.

    Sources: ``MODULE_VERSION`` in sysfs; ``NVRM version`` in procfs, which the proprietary and the open module write
    differently (https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/).
    """
    for name in ("sys/module/nvidia/version", "proc/driver/nvidia/version"):
        for word in _first_line(os.path.join(root, name)).split():
            if is_version(word):
                return word, f"/{name}"
    return "", ""


def is_version(text: str) -> bool:
    """Return whether a text is a driver's version such as ``580.159.04``: three or four digits come first."""
    parts = text.split(".")
    digits = all(part.isascii() and part.isdigit() and len(part) <= 4 for part in parts)
    return digits and 2 <= len(parts) <= 4 and len(parts[0]) >= 3


def traces(root: str = "/", search: str = "") -> bool:
    """Return whether anything of a driver is here: a device, the kernel module, or NVML's library.

    Args:
        root: replaces ``/`` in tests.
        search: the value of ``LD_LIBRARY_PATH``.
    """
    if any(os.path.exists(os.path.join(root, name)) for name in _TRACES):
        return True
    folders = [os.path.join(root, folder, part) for folder in _FOLDERS for part in _HWCAPS]
    folders += [folder for folder in search.replace(";", ":").split(":") if folder]
    if any(os.path.exists(os.path.join(folder, NVML)) for folder in folders):
        return True
    return NVML.encode() in _bytes(os.path.join(root, "etc/ld.so.cache"))


def _first_line(path: str) -> str:
    return _bytes(path).split(b"\n")[0].decode("ascii", "replace")


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read()
    except OSError:
        return b""
