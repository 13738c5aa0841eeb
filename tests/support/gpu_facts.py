"""What the GPU probe would print, what a lock would expect, and many pairs of both: fitting ones and others.

A mismatch is expectations, observations, the one field that reports it, what was found, what it means, and perhaps
variables. A match is expectations, observations, perhaps variables, and perhaps the fields that warn.
"""

from __future__ import annotations

from typing import Any

from envbuild.lockfile.hardware import POLICIES
from envbuild.runtime.guard import gpu_words

DRIVER = "580.159.04"
H200 = {
    "model": "NVIDIA H200",
    "compute-capability": "9.0",
    "sms": 132,
    "mig": "none",
    "memory": 143771,
    "ecc": True,
    "vbios": "96.00.D0.00.03",
    "board": "692-2G520-0280-501",
}
H100 = {**H200, "model": "NVIDIA H100 80GB HBM3", "memory": 81559, "vbios": "96.00.74.00.01", "board": "692-2G520"}
A100 = {
    **H200,
    "model": "NVIDIA A100-SXM4-40GB",
    "compute-capability": "8.0",
    "sms": 108,
    "memory": 40960,
    "vbios": "92.00.45.00.03",
    "board": "692-2G506-0200-002",
}
SLICE = {**A100, "mig": "1g.5gb", "sms": 14, "memory": 4864}
T4 = {**A100, "model": "Tesla T4", "compute-capability": "7.5", "sms": 40, "memory": 15360, "board": "900-2G183"}
LAPTOP = {
    "model": "NVIDIA GeForce RTX 4060 Laptop GPU",
    "compute-capability": "8.9",
    "sms": 24,
    "memory": 8188,
    "ecc": None,
    "vbios": "95.07.0B.00.2C",
}
COMPAT = "/usr/local/cuda/compat/libcuda.so.590.44.01"


def found(kind: dict[str, Any], number: int = 0, **changes: Any) -> dict[str, Any]:
    """A GPU as the probe describes it."""
    device = {**kind, **{key.replace("_", "-"): value for key, value in changes.items()}}
    device.setdefault("name", device.pop("model", ""))
    device.setdefault("free", device["memory"] - 480)
    return {"uuid": f"GPU-{number:08x}-0000-4000-8000-000000000000", "visible": True, "processes": [], **device}


def facts(*devices: dict[str, Any], driver: str = DRIVER, **changes: Any) -> dict[str, Any]:
    """What the probe prints."""
    numbered = [{**device, "uuid": found(H200, index)["uuid"]} for index, device in enumerate(devices)]
    library = {"path": f"/usr/lib/x86_64-linux-gnu/libcuda.so.{driver}", "version": driver, "compat": False}
    base = {"driver": driver, "nvml": driver, "libcuda": {**library, "problem": None}, "problem": None}
    return {**base, "devices": numbered, **changes}


def expect(*kinds: dict[str, Any], driver: str = DRIVER, **changes: Any) -> dict[str, Any]:
    """Expectations of a lock with these GPUs; policies and ``cuda`` by keyword, fields with a point as ``gpu_sms``."""
    policy = dict(POLICIES)
    for name in [name for name in changes if name.startswith("gpu_")]:
        policy[name.replace("gpu_", "gpu.").replace("_", "-")] = changes.pop(name)
    cuda = changes.pop("cuda", {"version": "12.9", "driver": "525.60.13"})
    devices = [{"count": 1, **kind} for kind in kinds]
    count = sum(int(device["count"]) for device in devices)
    gpu = {"count": count, "driver": driver, "exclusive": False, "devices": devices, **changes}
    return {"gpu": gpu, "policy": policy, "cuda": cuda}


EIGHT = {"count": 8, **H200}
NO_SPLIT = "a program that uses every GPU splits its sums otherwise: other bits"
NEITHER = "neither cuBLAS nor cuDNN promises equal bits"
LIKELY = "132 SMs of the same architecture on both, other memory: results likely equal, not promised"
SLICED = "cuBLAS's guarantee of equal bits is void; expect other bits in matrix products"
PTX = "the driver compiles kernels (PTX): other bits possible"
MEMORY = "batches or algorithms that are chosen by free memory may change: other bits possible"
SHARED = "shares its memory and its time: batches or algorithms that are chosen by free memory or by speed may change"


def nvml(code: int, message: str) -> dict[str, Any]:
    return {"problem": {"code": code, "name": "X", "message": message}}


def libcuda(**changes: Any) -> dict[str, Any]:
    return {"libcuda": {**facts()["libcuda"], **changes}}


MISMATCHES: dict[str, tuple[Any, ...]] = {
    # name: expectations, observations, field, found, meaning[, variables]
    "H100 for H200": (expect(H200), facts(found(H100)), "gpu.model", "NVIDIA H100 80GB HBM3", LIKELY),
    "A100 for H200": (
        expect(H200),
        facts(found(A100)),
        "gpu.model",
        "NVIDIA A100-SXM4-40GB",
        f"another architecture (compute capability 8.0 instead of 9.0, 108 SMs instead of 132): {NEITHER}",
    ),
    "same architecture, fewer SMs": (
        expect(H100),
        facts(found(H100, name="NVIDIA H100 PCIe", sms=114)),
        "gpu.model",
        "NVIDIA H100 PCIe",
        f"114 SMs instead of 132: {SLICED}",
    ),
    "another architecture, SMs not locked": (
        expect({"model": "NVIDIA H200", "compute-capability": "9.0"}),
        facts(found(T4)),
        "gpu.model",
        "Tesla T4",
        f"another architecture (compute capability 7.5 instead of 9.0): {NEITHER}",
    ),
    "only the model is locked": (
        expect({"model": "NVIDIA H200"}),
        facts(found(T4)),
        "gpu.model",
        "Tesla T4",
        "another GPU: equal bits are not promised",
    ),
    "model and memory are locked": (
        expect({"model": "NVIDIA H200", "memory": 143771}),
        facts(found(T4)),
        "gpu.model",
        "Tesla T4",
        "another GPU, other memory: equal bits are not promised",
    ),
    "one of eight": (
        expect(EIGHT),
        facts(*[found(H100 if number == 3 else H200) for number in range(8)]),
        "gpu.model",
        "NVIDIA H100 80GB HBM3 (GPU 3 GPU-00000003)",
        LIKELY,
    ),
    "three of eight": (
        expect(EIGHT),
        facts(*[found(H100 if number in (1, 5, 6) else H200) for number in range(8)]),
        "gpu.model",
        "NVIDIA H100 80GB HBM3 (GPUs 1, 5, 6)",
        LIKELY,
    ),
    "all of eight": (
        expect(EIGHT),
        facts(*[found(H100)] * 8),
        "gpu.model",
        "NVIDIA H100 80GB HBM3 (all 8 GPUs)",
        LIKELY,
    ),
    "one of three kinds": (
        expect(H200, H100, T4),
        facts(found(T4), found(H100), found(H100)),
        "gpu.model",
        "NVIDIA H100 80GB HBM3 (GPU 1 GPU-00000001)",
        LIKELY,
    ),
    "two kinds at once": (
        expect(H200, H200, T4),
        facts(found(A100), found(T4), found(H100)),
        "gpu.model",
        "NVIDIA A100-SXM4-40GB (GPU 0 GPU-00000000), NVIDIA H100 80GB HBM3 (GPU 2 GPU-00000002)",
        f"another architecture (compute capability 8.0 instead of 9.0, 108 SMs instead of 132): {NEITHER}",
    ),
    "name not told": (expect(H200), facts(found(H200, name="")), "gpu.model", "unknown", gpu_words.UNKNOWN),
    "fewer GPUs": (expect(EIGHT), facts(*[found(H200)] * 7), "gpu.count", "7", NO_SPLIT),
    "more GPUs": (expect(H200), facts(found(H200), found(H200)), "gpu.count", "2", NO_SPLIT),
    "no GPU though a driver": (expect(H200), facts(), "gpu.count", "0", gpu_words.NONE),
    "not enough": (
        expect({"count": 4, **H200}, gpu_count="at least"),
        facts(*[found(H200)] * 3),
        "gpu.count",
        "3",
        NO_SPLIT,
    ),
    "none, any number": (expect(H200, gpu_count="any, warn"), facts(), "gpu.count", "0", gpu_words.NONE),
    "handed on by number": (
        expect(H200, H200),
        facts(found(H200)),
        "gpu.count",
        "1",
        f"NVIDIA_VISIBLE_DEVICES=1 passes no others: {NO_SPLIT}",
        {"NVIDIA_VISIBLE_DEVICES": "1"},
    ),
    "handed on by CDI": (
        expect(H200, H200),
        facts(found(H200)),
        "gpu.count",
        "1",
        NO_SPLIT,
        {"NVIDIA_VISIBLE_DEVICES": "void"},
    ),
    "lost on the bus": (
        expect(H200, H200),
        facts(found(H200), found(H200, problem={"code": 15, "name": "X", "message": "GPU is lost"})),
        "gpu.count",
        "1",
        f"GPU 1 GPU-00000001 cannot be opened (NVML: GPU is lost (15)): {NO_SPLIT}",
    ),
    "hidden by CUDA's variable": (
        expect(H200, H200),
        facts(found(H200), found(H200, visible=False)),
        "gpu.visible",
        "1 of 2",
        f"CUDA_VISIBLE_DEVICES=0 hides 1 of 2 GPUs: {NO_SPLIT}",
        {"CUDA_VISIBLE_DEVICES": "0"},
    ),
    "all hidden": (
        expect(H200),
        facts(found(H200, visible=False), **libcuda(problem={"code": 100, "name": "X", "message": "no device"})),
        "gpu.visible",
        "0 of 1",
        f"CUDA_VISIBLE_DEVICES= hides 1 of 1 GPUs: {gpu_words.NONE}",
        {"CUDA_VISIBLE_DEVICES": ""},
    ),
    "hidden by nobody knows what": (
        expect(H200, H200),
        facts(found(H200), found(H200, visible=False)),
        "gpu.visible",
        "1 of 2",
        f"CUDA hides 1 of 2 GPUs: {NO_SPLIT}",
    ),
    "too many, some hidden": (
        expect(H200),
        facts(found(H200), found(H200), found(H200, visible=False)),
        "gpu.count",
        "2",
        NO_SPLIT,
        {"CUDA_VISIBLE_DEVICES": "0,1"},
    ),
    "a slice is chosen": (
        expect(SLICE, SLICE),
        facts(found(SLICE), found(SLICE, visible=False)),
        "gpu.visible",
        "1 of 2",
        f"CUDA_VISIBLE_DEVICES=MIG-1 hides 1 of 2 GPUs: {NO_SPLIT}",
        {"CUDA_VISIBLE_DEVICES": "MIG-1"},
    ),
    "other SM count": (
        expect(H200),
        facts(found(H200, sms=114)),
        "gpu.sms",
        "114",
        f"SM count differs: {SLICED}",
    ),
    "one of two has other SMs": (
        expect(H200, H200),
        facts(found(H200), found(H200, sms=114)),
        "gpu.sms",
        "114 (GPU 1 GPU-00000001)",
        f"SM count differs: {SLICED}",
    ),
    "SM count not told": (expect(H200), facts(found(H200, sms=0)), "gpu.sms", "unknown", gpu_words.UNKNOWN),
    "fewer SMs than at least": (
        expect({**H200, "sms": 140}, gpu_sms="at least"),
        facts(found(H200)),
        "gpu.sms",
        "132",
        f"SM count differs: {SLICED}",
    ),
    "other compute capability": (
        expect(H200),
        facts(found(H200, compute_capability="10.0")),
        "gpu.compute-capability",
        "10.0",
        f"another architecture: other kernels run; {NEITHER}",
    ),
    "slice for whole": (
        expect(A100),
        facts(found(SLICE)),
        "gpu.mig",
        "1g.5gb",
        f"a slice has a part of the GPU's SMs and memory: {SLICED}",
    ),
    "whole for slice": (
        expect(SLICE),
        facts(found(A100)),
        "gpu.mig",
        "none",
        f"a slice has a part of the GPU's SMs and memory: {SLICED}",
    ),
    "other slice": (
        expect(SLICE),
        facts(found({**SLICE, "mig": "2g.10gb", "sms": 28, "memory": 9856})),
        "gpu.mig",
        "2g.10gb",
        f"slices of another profile have other SMs or memory: {SLICED}",
    ),
    "older driver": (expect(H200), facts(found(H200), driver="570.86.15"), "gpu.driver", "570.86.15", PTX),
    "newer driver": (expect(H200), facts(found(H200), driver="590.44.01"), "gpu.driver", "590.44.01", PTX),
    "same branch, exact": (expect(H200), facts(found(H200), driver="580.126.09"), "gpu.driver", "580.126.09", PTX),
    "another branch": (
        expect(H200, gpu_driver="same branch"),
        facts(found(H200), driver="590.44.01"),
        "gpu.driver",
        "590.44.01",
        PTX,
    ),
    "older than at least": (
        expect(H200, gpu_driver="at least"),
        facts(found(H200), driver="580.95.05"),
        "gpu.driver",
        "580.95.05",
        PTX,
    ),
    "too old for CUDA": (
        expect(H200, gpu_driver="any"),
        facts(found(H200), driver="470.256.02"),
        "gpu.driver",
        "470.256.02",
        "CUDA 12.9 does not load below 525.60.13",
    ),
    "too old for CUDA, nothing else locked": (
        expect({}, driver="", gpu_count="at least"),
        facts(found(T4), driver="470.256.02"),
        "gpu.driver",
        "470.256.02",
        "CUDA 12.9 does not load below 525.60.13",
    ),
    "driver not told": (
        expect(H200),
        facts(found(H200), **{"driver": "", **libcuda()}),
        "gpu.driver",
        "unknown",
        "unknown: the driver compiles kernels (PTX), so its version decides bits",
    ),
    "compatibility package": (
        expect(H200),
        facts(found(H200), **libcuda(path=COMPAT, version="590.44.01", compat=True)),
        "gpu.libcuda",
        f"libcuda 590.44.01 ({COMPAT})",
        gpu_words.COMPAT,
    ),
    "another libcuda": (
        expect(H200),
        facts(found(H200), **libcuda(path="/usr/lib/libcuda.so.570.86.15", version="570.86.15")),
        "gpu.libcuda",
        "libcuda 570.86.15 (/usr/lib/libcuda.so.570.86.15)",
        gpu_words.LIBCUDA,
    ),
    "no libcuda": (
        expect(H200),
        facts(found(H200, sms=0), libcuda={"path": "", "problem": {"message": "libcuda.so.1 cannot be loaded"}}),
        "gpu.libcuda",
        "libcuda: libcuda.so.1 cannot be loaded",
        "no CUDA program can start",
    ),
    "libcuda does not start": (
        expect(H200),
        facts(found(H200, sms=0), **libcuda(problem={"code": 803, "name": "X", "message": "driver mismatch"})),
        "gpu.libcuda",
        f"/usr/lib/x86_64-linux-gnu/libcuda.so.{DRIVER}: driver mismatch (803)",
        "no CUDA program can start",
    ),
    "no driver": (
        expect(H200),
        facts(driver="", libcuda={}),
        "gpu",
        "no NVIDIA driver",
        "without it nothing can run on a GPU",
    ),
    "no driver, as NVML says": (
        expect(H200),
        facts(driver="", libcuda={}, **nvml(9, "Driver Not Loaded")),
        "gpu",
        "no NVIDIA driver, NVML: Driver Not Loaded (9)",
        "without it nothing can run on a GPU",
    ),
    "NVML: no permission": (
        expect(H200),
        facts(**nvml(4, "Insufficient Permissions")),
        "gpu.nvml",
        "NVML: Insufficient Permissions (4)",
        "this user may not use the GPU",
    ),
    "NVML: no module": (
        expect(H200),
        facts(**nvml(9, "Driver Not Loaded")),
        "gpu.nvml",
        "NVML: Driver Not Loaded (9)",
        "the NVIDIA kernel module is not loaded, or the container was given no GPU",
    ),
    "NVML: no library": (
        expect(H200),
        facts(**nvml(12, "NVML Shared Library Not Found")),
        "gpu.nvml",
        "NVML: NVML Shared Library Not Found (12)",
        "NVML's library (libnvidia-ml.so.1) is missing: NVIDIA_DRIVER_CAPABILITIES lacks utility, or the container "
        "was started without --gpus",
    ),
    "NVML: no utility": (
        expect(H200),
        facts(**nvml(12, "NVML Shared Library Not Found")),
        "gpu.nvml",
        "NVML: NVML Shared Library Not Found (12)",
        "NVIDIA_DRIVER_CAPABILITIES=compute,video lacks utility: the container was given no NVML",
        {"NVIDIA_DRIVER_CAPABILITIES": "compute,video"},
    ),
    "NVML: started without GPUs": (
        expect(H200),
        facts(**nvml(12, "NVML Shared Library Not Found")),
        "gpu.nvml",
        "NVML: NVML Shared Library Not Found (12)",
        "NVIDIA_VISIBLE_DEVICES=none: the container was started without GPUs",
        {"NVIDIA_VISIBLE_DEVICES": "none", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"},
    ),
    "NVML: lost": (
        expect(H200),
        facts(**nvml(15, "GPU is lost")),
        "gpu.nvml",
        "NVML: GPU is lost (15)",
        "the GPU fell off the bus or cannot be reached",
    ),
    "NVML: operating system": (
        expect(H200),
        facts(**nvml(17, "RM has detected an NVML/RM version mismatch")),
        "gpu.nvml",
        "NVML: RM has detected an NVML/RM version mismatch (17)",
        "the operating system or a control group blocks the GPU's device files",
    ),
    "NVML: upgraded under the module": (
        expect(H200),
        facts(**nvml(18, "Driver/library version mismatch")),
        "gpu.nvml",
        "NVML: Driver/library version mismatch (18)",
        "the host's driver was upgraded under a running kernel module: no CUDA program can start",
    ),
    "NVML: unknown": (
        expect(H200),
        facts(**nvml(999, "Unknown Error")),
        "gpu.nvml",
        "NVML: Unknown Error (999)",
        "the driver does not report why: often a container that lost its GPUs when the host reloaded systemd",
    ),
    "NVML: any other": (
        expect(H200),
        facts(problem={"name": "probe", "message": ""}),
        "gpu.nvml",
        "NVML: probe",
        "NVML cannot be asked about the GPU",
    ),
    "NVML: no binding": (
        expect(H200),
        facts(problem={"code": 0, "name": "BINDING_NOT_FOUND", "message": "nvidia-ml-py is not installed"}),
        "gpu.nvml",
        "NVML: nvidia-ml-py is not installed",
        "nvidia-ml-py, through which the GPU is asked, is not installed",
    ),
    "NVML: hangs": (
        expect(H200),
        facts(problem={"code": 0, "name": "TIMEOUT", "message": "no answer within 60 s"}),
        "gpu.nvml",
        "NVML: no answer within 60 s",
        "the driver hangs: a program could hang in it too",
    ),
    "memory, hard": (
        expect(H200, gpu_memory="exact"),
        facts(found(H200, memory=141000)),
        "gpu.memory",
        "141000 MiB",
        MEMORY,
    ),
    "memory, at least": (
        expect(T4, gpu_memory="at least"),
        facts(found(T4, memory=14000, free=13600)),
        "gpu.memory",
        "14000 MiB",
        MEMORY,
    ),
    "ECC off": (
        expect(H200, gpu_ecc="exact"),
        facts(found(H200, ecc=False)),
        "gpu.ecc",
        "off",
        "errors of memory pass unseen: bits are equal as long as there is none",
    ),
    "ECC on": (
        expect({**H200, "ecc": False}, gpu_ecc="exact"),
        facts(found(H200)),
        "gpu.ecc",
        "on",
        "errors of memory are corrected, at some memory and speed: no change of bits is known",
    ),
    "no ECC": (
        expect(H200, gpu_ecc="exact"),
        facts(found(H200, ecc=None)),
        "gpu.ecc",
        "no such mode",
        "errors of memory pass unseen: bits are equal as long as there is none",
    ),
    "VBIOS": (
        expect(H200, gpu_vbios="exact"),
        facts(found(H200, vbios="97")),
        "gpu.vbios",
        "97",
        "other firmware, clocks and power limits perhaps: no change of bits is known",
    ),
    "board": (
        expect(H200, gpu_board="exact"),
        facts(found(H200, board="")),
        "gpu.board",
        "unknown",
        gpu_words.UNKNOWN,
    ),
    "another program": (
        expect(H200, exclusive=True),
        facts(found(H200, processes=[{"pid": 77, "name": "python", "memory": 9}])),
        "gpu.exclusive",
        "python (pid 77)",
        SHARED,
    ),
    "another container's program": (
        expect(H200, H200, exclusive=True),
        facts(found(H200), found(H200, free=90000)),
        "gpu.exclusive",
        "90000 of 143771 MiB free on GPU 1 GPU-00000001",
        SHARED,
    ),
}

MATCHES: dict[str, tuple[Any, ...]] = {
    # name: expectations, observations[, variables[, soft fields]]
    "H200": (expect(H200), facts(found(H200))),
    "H100": (expect(H100), facts(found(H100))),
    "T4": (expect(T4), facts(found(T4))),
    "a GPU that cannot be sliced": (expect(T4), facts(found(T4, mig=""))),
    "laptop": (expect(LAPTOP), facts(found(LAPTOP, mig=""))),
    "eight": (expect(EIGHT), facts(*[found(H200)] * 8)),
    "two entries of one kind": (expect(H200, {"count": 3, **H200}), facts(*[found(H200)] * 4)),
    "slice": (expect(SLICE), facts(found(SLICE))),
    "CUDA shows one slice": (
        expect(SLICE, SLICE, A100 | {"mig": "3g.20gb", "sms": 42}),
        facts(found(SLICE), found(SLICE, visible=False), found(A100, mig="3g.20gb", sms=42, visible=False)),
    ),
    "one slice of two is chosen": (
        expect(SLICE),
        facts(found(SLICE, visible=False), found(SLICE)),
        {"CUDA_VISIBLE_DEVICES": "MIG-1"},
    ),
    "one GPU of two is chosen": (
        expect(H200),
        facts(found(T4, visible=False), found(H200)),
        {"CUDA_VISIBLE_DEVICES": "1"},
    ),
    "visibility not known": (expect(H200), facts(found(H200, visible=None))),
    "a broken GPU that is not used": (
        expect(H200),
        facts(found(H200), found(H200, problem={"code": 15, "name": "X", "message": "GPU is lost"})),
    ),
    "more than at least": (expect(H200, gpu_count="at least"), facts(*[found(H200)] * 3)),
    "any number": (expect(EIGHT, gpu_count="any"), facts(found(H200))),
    "same branch": (expect(H200, gpu_driver="same branch"), facts(found(H200), driver="580.95.05")),
    "newer than at least": (expect(H200, driver="580.65.06", gpu_driver="at least"), facts(found(H200))),
    "leading zeros": (
        expect(H200, driver="580.65.6", gpu_driver="at least"),
        facts(found(H200), driver="580.65.06"),
    ),
    "any driver": (expect(H200, gpu_driver="any"), facts(found(H200), driver="560.35.05")),
    "any model of this architecture": (
        expect(H200, gpu_model="any", gpu_memory="any", gpu_vbios="any", gpu_board="any"),
        facts(found(H100)),
    ),
    "the maker's name left out by an old driver": (expect(H200), facts(found(H200, name="H200"))),
    "nothing but CUDA": (expect({}, driver="", gpu_count="at least"), facts(found(T4), found(H200))),
    "nothing but a GPU": (expect({}, driver="", cuda=None), facts(found(T4), driver="470.1")),
    "WSL": (expect(H200), facts(found(H200), **libcuda(path="/usr/lib/wsl/lib/libcuda.so.1.1", version="1.1"))),
    "driver differs, warns": (
        expect(H200, gpu_driver="exact, warn"),
        facts(found(H200), driver="580.95.05"),
        {},
        ["gpu.driver"],
    ),
    "compatibility package, any driver": (
        expect(H200, gpu_driver="any"),
        facts(found(H200), **libcuda(path=COMPAT, version="590.44.01", compat=True)),
        {},
        ["gpu.libcuda"],
    ),
    "soft fields": (
        expect(H200),
        facts(found(H200, memory=141000, ecc=False, vbios="1", board="2")),
        {},
        ["gpu.memory", "gpu.ecc", "gpu.vbios", "gpu.board"],
    ),
    "exclusive and idle": (expect(H200, exclusive=True), facts(found(H200))),
    "exclusive, memory not told": (expect(H200, exclusive=True), facts(found(H200, free=0))),
}
