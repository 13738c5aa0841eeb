"""Copies of NVIDIA's libraries that a program would find before the locked ones.

The wheels' libraries carry search paths of their own (DT_RUNPATH), and ``LD_LIBRARY_PATH`` is looked at before those
(ld.so(8)). A copy of cuDNN in one of its folders therefore wins. What ``/etc/ld.so.cache`` lists is found last, and
only by a program that asks for a library the environment does not have. The libraries that are really loaded are
looked at later, by the hook (``hook/libraries.py``), in each process.
"""

from __future__ import annotations

import os

from .check import Check, once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Facts = Mapping[str, Any]

PREFIXES = (
    *("libcublas", "libcudart", "libcudnn", "libcufft", "libcupti", "libcurand", "libcusolver", "libcusparse"),
    *("libnccl", "libnvJitLink", "libnvrtc", "libnvshmem"),
)
"""Beginnings of the names of NVIDIA's user-space libraries; the driver's (``libcuda``, ``libnvidia-…``) are not."""


def is_nvidia(path: str) -> bool:
    """Whether a file is one of NVIDIA's user-space libraries, by its name."""
    name = os.path.basename(path)
    return name.startswith(PREFIXES) and ".so" in name


def on_search_path(search: str, prefix: str) -> list[str]:
    """Return NVIDIA's libraries in the folders of an ``LD_LIBRARY_PATH``, those below ``prefix`` left out."""
    found = []
    for folder in search.replace(";", ":").split(":") if search else ():  # ld.so takes either
        if os.path.realpath(folder).startswith(os.path.join(prefix, "")):
            continue
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        found += [os.path.join(folder, name) for name in sorted(names) if is_nvidia(name)]
    return found


def in_cache(path: str = "/etc/ld.so.cache") -> list[str]:
    """Return NVIDIA's libraries that the dynamic linker's cache lists: its strings end with a zero byte each."""
    try:
        with open(path, "rb", buffering=0) as stream:
            words = stream.read().split(b"\0")
    except OSError:
        return []
    paths = {word.decode("utf-8", "replace") for word in words if word[:1] == b"/"}
    return sorted(path for path in paths if is_nvidia(path))


def check(expect: Facts, seen: Facts) -> list[Check]:
    """No copy shadows a locked library (refused) or is found next to it (warning); nothing for a lock without CUDA.

    Args:
        expect: the guard's expectations.
        seen: ``libraries``: both lists above, ``path`` and ``cache``.
    """
    if not expect.get("cuda"):
        return []
    checks = []
    for found, severity in ((seen["libraries"]["path"], "hard"), (seen["libraries"]["cache"], "soft")):
        for path in found:
            field = f"libraries.{os.path.basename(path)}"
            if severity == "hard":
                meaning = "LD_LIBRARY_PATH leads to this copy before the locked one"
                fix = f"start without LD_LIBRARY_PATH, or take {os.path.dirname(path) or '.'} out of it"
                fix += f"\n{once(field)}"
            else:
                meaning, fix = "a copy next to the locked one, which a program could load", ""
            checks.append(Check(field, "from its wheel", path, ok=False, severity=severity, meaning=meaning, fix=fix))
    return checks or [Check("libraries", "from their wheels", "no other copy", ok=True)]
