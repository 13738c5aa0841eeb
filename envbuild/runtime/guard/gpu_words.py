"""What a difference of GPUs, driver or CUDA means for the bits of a result, and what to do about it.

Sources: cuBLAS, "Results reproducibility" (https://docs.nvidia.com/cuda/cublas/#results-reproducibility): equal bits
for the same toolkit version, architecture and number of SMs; cuDNN, "Reproducibility": none across architectures;
NVML's return codes (https://docs.nvidia.com/deploy/nvml-api/). All wording of the GPU's checks that is longer than a
few words is here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

RELOCK = "envbuild lock spec.yaml && envbuild build"
DETECT = (
    "lock for this host (values written in spec.yaml stay: remove them): "
    "envbuild lock spec.yaml --host detect && envbuild build"
)

DRIVER = "the driver compiles kernels (PTX): other bits possible"
COUNT = "a program that uses every GPU splits its sums otherwise: other bits"
NONE = "nothing can run on a GPU"
SMS = "SM count differs: cuBLAS's guarantee of equal bits is void; expect other bits in matrix products"
CAPABILITY = "another architecture: other kernels run; neither cuBLAS nor cuDNN promises equal bits"
UNKNOWN = "this GPU does not report it, so it cannot be compared"
EXCLUSIVE = (
    "shares its memory and its time: batches or algorithms that are chosen by free memory or by speed may change"
)
COMPAT = "a CUDA compatibility package takes the driver's place: it compiles kernels (PTX): other bits possible"
LIBCUDA = "the CUDA library is not the one of the loaded kernel module: the driver compiles kernels (PTX): other bits"

_DEVICE = {
    "gpu.compute-capability": CAPABILITY,
    "gpu.sms": SMS,
    "gpu.memory": "batches or algorithms that are chosen by free memory may change: other bits possible",
    "gpu.vbios": "other firmware, clocks and power limits perhaps: no change of bits is known",
    "gpu.board": "another board with this GPU, clocks and power limits perhaps: no change of bits is known",
}

# NVML's code: what it means, what to do. In the order of nvml.h.
_NVML = {
    4: ("this user may not use the GPU", "give the user access to /dev/nvidia*, or run as one who has it"),
    9: (
        "the NVIDIA kernel module is not loaded, or the container was given no GPU",
        "on the host: sudo modprobe nvidia, then nvidia-smi; or give the container GPUs: envbuild run does, "
        "docker run --gpus",
    ),
    12: (
        "NVML's library (libnvidia-ml.so.1) is missing: NVIDIA_DRIVER_CAPABILITIES lacks utility, or the container "
        "was started without --gpus",
        "give the container GPUs, with utility and compute: envbuild run does, docker run --gpus all "
        "-e NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ),
    15: ("the GPU fell off the bus or cannot be reached", "reboot the host; see dmesg for the Xid error"),
    17: (
        "the operating system or a control group blocks the GPU's device files",
        "start a new container, with GPUs: envbuild run does, docker run --gpus",
    ),
    18: (
        "the host's driver was upgraded under a running kernel module: no CUDA program can start",
        "reboot the host, or stop what uses the GPU and reload the module: sudo rmmod nvidia_uvm nvidia_drm "
        "nvidia_modeset nvidia && sudo modprobe nvidia",
    ),
    999: (
        "the driver does not report why: often a container that lost its GPUs when the host reloaded systemd",
        "start the container again; if nvidia-smi fails on the host too: reboot it",
    ),
}

# The probe's own names for having no answer of NVML at all (``gpu_ask``).
_PROBE = {
    "BINDING_NOT_FOUND": (
        "nvidia-ml-py, through which the GPU is asked, is not installed",
        "in an image: envbuild lock spec.yaml && envbuild build, which add it; on a host: install it with envbuild",
    ),
    "TIMEOUT": ("the driver hangs: a program could hang in it too", "see dmesg for Xid errors; reboot the host"),
    "CRASHED": ("the driver's libraries crash", "install the driver anew; see dmesg for Xid errors"),
}


def nvml(problem: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a problem of NVML means and what to do, for codes without a row too."""
    known = _NVML.get(problem.get("code", 0)) or _PROBE.get(problem.get("name", ""))
    return known or ("NVML cannot be asked about the GPU", "make nvidia-smi work on this host")


def device(field: str, locked: Any, found: Any) -> str:
    """Return what a difference of one field of a GPU means; the model has ``model``."""
    if field == "gpu.mig":
        if "none" in (locked, found):
            part = "a slice has a part of the GPU's SMs and memory"
        else:
            part = "slices of another profile have other SMs or memory"
        return f"{part}: cuBLAS's guarantee of equal bits is void; expect other bits in matrix products"
    if field == "gpu.ecc":
        if found:
            return "errors of memory are corrected, at some memory and speed: no change of bits is known"
        return "errors of memory pass unseen: bits are equal as long as there is none"
    return _DEVICE[field]


def model(locked: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return what another model means, with everything that follows from it: architecture, SMs, memory."""
    capability, other = locked.get("compute-capability", ""), found.get("compute-capability", "")
    sms, others = locked.get("sms", 0), found.get("sms", 0)
    counts = f"{others} SMs instead of {sms}" if sms and others and sms != others else ""
    if capability and other and capability != other:
        words = f"another architecture (compute capability {other} instead of {capability}"
        return f"{words}{', ' + counts if counts else ''}): neither cuBLAS nor cuDNN promises equal bits"
    if counts:
        return f"{counts}: cuBLAS's guarantee of equal bits is void; expect other bits in matrix products"
    memory = ", other memory" if locked.get("memory") and locked["memory"] != found.get("memory") else ""
    if capability and sms and other and others:
        return f"{sms} SMs of the same architecture on both{memory}: results likely equal, not promised"
    return f"another GPU{memory}: equal bits are not promised"


def relax(field: str, policies: Sequence[str]) -> str:
    """Return the line of a fix that names the policies which would let the difference pass."""
    return f"relax hardware.{field} in spec.yaml (policy: {' or '.join(policies)}), then: {RELOCK}"
