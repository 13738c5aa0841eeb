"""GPUs for the local engine: by CDI where the machine describes them so, else the driver's files as they are found.

A description (``/etc/cdi``, ``/var/run/cdi``) names device nodes, files to mount, variables, and hooks; what the hooks
of NVIDIA's toolkit would do — links and the loader's cache — is done here. Without a description the driver's libraries
are looked up where the loader finds them and the device nodes in ``/dev``, as Apptainer's ``--nv`` and enroot do.

Sources: the CDI specification (see ``envbuild/engine/cdi.py``); nvidia-container-toolkit, cmd/nvidia-cdi-hook and
pkg/nvcdi; Apptainer, etc/nvliblist.conf; enroot, conf/hooks/98-nvidia.sh.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.driver_gpus import FOLDER, driver_gpus
from envbuild.core.settings import setting
from envbuild.core.text import plain
from envbuild.engine.cdi import FOLDERS, KIND, chosen_names
from envbuild.engine.local.program_request import Handed
from envbuild.engine.protocol import Gpus, GpusRefusedError, GpuSupport, refuse_fewer

if TYPE_CHECKING:
    from envbuild.engine.local.descriptions import Description

VARIABLE = "ENVBUILD_CDI_DIRS"
"""Folders of descriptions instead of the default ones, separated by colons."""
_CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_TOOLS = ("nvidia-smi", "nvidia-cuda-mps-control")
_PROC = Path("/") / FOLDER
_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/lib/wsl/lib")
"""Where NVIDIA's device plugin on Google's clusters, and WSL 2, put the libraries: often in no cache of the loader."""


@cache
def _driver_library() -> re.Pattern[str]:
    """Return the pattern of the driver's libraries: computing, its compilers, video. No graphics: nothing here draws.

    Compiling it takes 2 ms, which runs without GPUs need not wait for.
    """
    return re.compile(
        r"lib(?:cuda|cudadebugger|nvcuvid|nvoptix|nvidia-(?:ml|ptxjitcompiler|nvvm\d*|gpucomp|allocator|opencl|encode|opticalflow"
        r"|cfg|sandboxutils|pkcs11|pkcs11-openssl3|tileiras))\.so(?:\.\d+)*\Z"
    )


def support() -> GpuSupport:
    """Return how GPUs of this machine can be handed over; empty if none are found."""
    if _described():
        return "cdi"
    return "nvidia" if Path("/dev/nvidiactl").exists() and "libcuda.so.1" in _libraries() else ""


def handed(gpus: Gpus) -> Handed:
    """Return what a program gets for these GPUs.

    Raises:
        GpusRefusedError: this machine has no such GPU, or its description is unsound.
    """
    devices = _described()
    if devices:
        return _by_description(gpus, devices)
    libraries = _libraries()
    if not Path("/dev/nvidiactl").exists() or "libcuda.so.1" not in libraries:
        raise GpusRefusedError(
            "no GPU can be handed over: this machine has neither a CDI description of GPUs nor NVIDIA's driver",
            "see whether the driver answers: nvidia-smi; compare this host with the lock: envbuild check",
        )
    return _by_search(gpus, libraries)


def _described() -> dict[str, Description]:
    """Return the descriptions of this machine's GPUs by their names below ``nvidia.com/gpu``."""
    from envbuild.engine.local.descriptions import find_descriptions

    folders = setting("cdi-dirs")
    return find_descriptions(folders.split(":") if folders else FOLDERS)


def _by_description(gpus: Gpus, described: Mapping[str, Description]) -> Handed:
    from envbuild.engine.local.descriptions import GENERATE, apply

    names = gpus.devices or chosen_names(gpus, tuple(described))
    for name in names:
        if name not in described:
            raise GpusRefusedError(
                f"this machine describes no GPU {KIND}={name}; it has {', '.join(map(plain, sorted(described)))}",
                f"list them: nvidia-ctk cdi list; or {GENERATE}",
            )
    made = apply(names, described)
    return Handed(
        mounts=tuple(made.mounts.values()),
        variables=made.variables,
        links=made.links,
        folders=tuple(made.folders),
        groups=tuple(made.groups),
    )


def _by_search(gpus: Gpus, libraries: Mapping[str, str]) -> Handed:
    """Hand over what the driver installed: control nodes, the nodes of the chosen GPUs, libraries, tools."""
    from envbuild.engine.local.descriptions import mount

    nodes = [f"/dev/{name}" for name in _CONTROL if Path(f"/dev/{name}").exists()]
    nodes += [f"/dev/nvidia{minor}" for minor in _minors(gpus)]
    nodes += ["/dev/nvidia-caps"] if Path("/dev/nvidia-caps").is_dir() else []
    mounts = [mount(path, path, devices=True) for path in nodes]
    folder = "/usr/local/nvidia/lib64"
    mounts += [mount(path, f"{folder}/{name}", read_only=True) for name, path in sorted(libraries.items())]
    for name in _TOOLS:
        for place in ("/usr/bin", "/usr/local/bin", "/bin"):
            if Path(f"{place}/{name}").is_file():
                mounts.append(mount(f"{place}/{name}", f"/usr/bin/{name}", read_only=True))
                break
    if Path("/proc/driver/nvidia").is_dir():
        mounts.append(mount("/proc/driver/nvidia", "/proc/driver/nvidia", read_only=True))
    variables = {}
    if any(name.startswith("MIG-") for name in gpus.devices):
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(gpus.devices)
    links = {f"{folder}/libcuda.so": "libcuda.so.1"}
    return Handed(mounts=tuple(mounts), variables=variables, links=links, folders=(folder,))


def _minors(gpus: Gpus) -> list[int]:
    """Return the numbers of the device nodes of the chosen GPUs, in the driver's order (that of the bus)."""
    found = [(gpu.minor, gpu.uuid) for gpu in driver_gpus(_PROC) if gpu.minor is not None]
    if not found:  # as under WSL 2, or where /proc is hidden
        names = [path.name for path in Path("/dev").glob("nvidia[0-9]*")]
        found = sorted((int(name.removeprefix("nvidia")), "") for name in names if name[6:].isdecimal())
    if not gpus.devices:
        refuse_fewer(gpus, len(found))
        return [minor for minor, _ in found[: gpus.count or None]]
    chosen = []
    for name in gpus.devices:
        if name.startswith("MIG-"):
            return [minor for minor, _ in found]  # the slice is chosen by the driver, from the variable
        index = int(name) if name.isdecimal() else -1
        match = [minor for place, (minor, identity) in enumerate(found) if identity == name or place == index]
        if not match:
            raise GpusRefusedError(f"the host has no GPU {name}", "list its GPUs: nvidia-smi -L")
        chosen += match
    return chosen


def _libraries() -> dict[str, str]:
    """Return the driver's 64-bit libraries by name: as the loader finds them, then where containers have them."""
    found: dict[str, str] = {}
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        _add_folder(found, folder)
    _add_cached(found)
    for folder in _FOLDERS:
        _add_folder(found, folder)
    return found


def _add_folder(found: dict[str, str], folder: str) -> None:
    """Add the libraries in a folder; names without a version are for compilers."""
    if not folder.startswith("/"):
        return
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names are all that is needed
            if not name.endswith(".so") and _driver_library().match(name) and _is_64_bit(f"{folder}/{name}"):
                found.setdefault(name, f"{folder}/{name}")


def _is_64_bit(path: str) -> bool:
    """Whether a file is of the machine's own kind, and not for its 32-bit programs: ``e_ident`` in elf(5)."""
    with suppress(OSError), open(path, "rb") as stream:
        return stream.read(5) == b"\x7fELF\x02"
    return False


def _add_cached(found: dict[str, str]) -> None:
    """Add the libraries in the loader's cache."""
    import subprocess

    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run([program, "-p"], capture_output=True, text=True, errors="replace", timeout=10)
            for line in done.stdout.splitlines():
                name, _, rest = line.strip().partition(" (")
                kind, arrow, path = rest.partition(") => ")
                if arrow and ("x86-64" in kind or "AArch64" in kind) and _driver_library().match(name):
                    found.setdefault(name, path)
            return
