"""Machines with GPUs against locks, for the real guard in a real container: what is refused and what is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import msgspec

from envbuild.lockfile.hardware import Cuda, Gpu, GpuDevice, Hardware
from tests.support import gpus
from tests.support.gpus import (
    GPU_IS_LOST,
    NO_PERMISSION,
    SCENARIOS,
    Device,
    Scenario,
    a100,
    a100_mig,
    eight_h200,
    h100,
    h200,
    laptop,
    machine,
    t4,
)

CUDA = Cuda(version="12.9", driver="525.60.13")
ANOTHER = "580.126.09"
"""Of the same branch as the stand-ins' driver."""


def gpu_of(scenario: Scenario, **changes: Any) -> Gpu:
    """Lock what a machine has, as ``detect`` does."""
    devices = [kind for device in scenario.devices for kind in _kinds(device)]
    merged = [
        msgspec.structs.replace(kind, count=len(list(same))) for kind, same in groupby(devices) if kind is not None
    ]
    return Gpu(**{"driver": scenario.driver, "devices": tuple(merged), **changes})


def _kinds(device: Device) -> list[GpuDevice]:
    """Return a GPU as locked, or its slices."""

    def reported(function: str, value: Any, absent: Any) -> Any:
        return absent if f"nvmlDeviceGet{function}" in device.returns else value

    whole = GpuDevice(
        model=device.name,
        compute_capability=device.compute_capability,
        sms=device.sms,
        mig="none",
        memory=device.memory,
        ecc=reported("EccMode", bool(device.ecc), None),
        vbios=device.vbios,
        board=reported("BoardPartNumber", device.board, ""),
    )
    if not device.mig:
        return [whole]
    return [
        msgspec.structs.replace(whole, sms=piece.sms, mig=piece.name, memory=piece.memory) for piece in device.slices
    ]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A lock on a machine.

    Attributes:
        gpu: what is locked; what the machine has if None.
        policy: policies other than the default ones.
        variables: set for this start.
        kernel, libcuda, compat: of ``gpus.install``.
        fields: hard fields that fail, in the order of the verdict; empty if the machine is accepted.
        states: a piece of the first field's meaning or of what was found.
    """

    machine: Scenario
    gpu: Gpu | None = None
    policy: Mapping[str, str] = field(default_factory=dict)
    cuda: Cuda | None = CUDA
    variables: Mapping[str, str] = field(default_factory=dict)
    kernel: str = ""
    libcuda: str = ""
    compat: bool = False
    fields: tuple[str, ...] = ()
    says: str = ""

    @property
    def hardware(self) -> Hardware:
        """The lock's hardware."""
        return Hardware(gpu=self.gpu or gpu_of(self.machine), policy=dict(self.policy))


def _wrong(locked: Scenario, found: Scenario, *fields: str, says: str = "", **options: Any) -> Case:
    changes = options.pop("lock", {})
    return Case(machine=found, gpu=gpu_of(locked, **changes), fields=fields, says=says, **options)


def _init(code: int, says: str) -> Case:
    """NVML's first call answers a code, and nothing else of the driver works."""
    broken = machine(h200(), returns={"nvmlInit_v2": code, "nvmlInitWithFlags": code, "cuInit": 999})
    return _wrong(ONE, broken, "gpu.nvml", "gpu.libcuda", says=says)


ONE, TWO = SCENARIOS["h200"], machine(h200(), h200(1))
MIXED = SCENARIOS["mixed"]
SLICED, SLICES = SCENARIOS["a100-mig-1g"], SCENARIOS["a100-mig-mixed"]
OTHER_MODEL = ("gpu.model", "gpu.compute-capability", "gpu.sms")
VOID = "cuBLAS's guarantee of equal bits is void"
LIKELY = "132 SMs of the same architecture on both, other memory: results likely equal, not promised"

MISMATCHES: Mapping[str, Case] = {
    "h100 for h200": _wrong(ONE, SCENARIOS["h100"], "gpu.model", says=LIKELY),
    "h200 for h100": _wrong(SCENARIOS["h100"], ONE, "gpu.model", says=LIKELY),
    "a100 for h200": _wrong(ONE, SCENARIOS["a100"], *OTHER_MODEL, says="108 SMs instead of 132"),
    "t4 for h200": _wrong(ONE, SCENARIOS["t4"], *OTHER_MODEL, says="compute capability 7.5 instead of 9.0"),
    "laptop for t4": _wrong(SCENARIOS["t4"], machine(laptop()), *OTHER_MODEL, says="24 SMs instead of 40"),
    "slice for h200": _wrong(ONE, SLICED, *OTHER_MODEL, "gpu.mig", says="another architecture"),
    "one of eight": _wrong(
        eight_h200(),
        machine(*(h200(n) if n != 3 else h100() for n in range(8))),
        "gpu.model",
        says="(GPU 3 GPU-00000100)",
    ),
    "all of eight": _wrong(eight_h200(), machine(*(h100(n) for n in range(8))), "gpu.model", says="(all 8 GPUs)"),
    "one kind of three": _wrong(MIXED, machine(h200(), h200(1), t4()), "gpu.model", says="NVIDIA H200 (GPU"),
    "two kinds of three": _wrong(MIXED, machine(t4(), a100(), laptop()), *OTHER_MODEL, says="another architecture"),
    "seven of eight": _wrong(eight_h200(), machine(*(h200(n) for n in range(7))), "gpu.count", says="other bits"),
    "two for one": _wrong(ONE, TWO, "gpu.count", says="other bits"),
    "no GPU": _wrong(ONE, SCENARIOS["none"], "gpu.count", says="nothing can run on a GPU", variables={}),
    "one of the kinds missing": _wrong(MIXED, machine(h200(), t4()), "gpu.count"),
    "fewer than at least": _wrong(
        machine(h200(), h200(1), h200(2)), TWO, "gpu.count", policy={"gpu.count": "at least"}
    ),
    "handed on by number": _wrong(
        TWO, ONE, "gpu.count", says="NVIDIA_VISIBLE_DEVICES=0 passes", variables={"NVIDIA_VISIBLE_DEVICES": "0"}
    ),
    "one hidden": _wrong(
        TWO, TWO, "gpu.visible", says="CUDA_VISIBLE_DEVICES=0 hides 1 of 2", variables={"CUDA_VISIBLE_DEVICES": "0"}
    ),
    "all hidden": _wrong(
        ONE, ONE, "gpu.visible", says="CUDA_VISIBLE_DEVICES= hides 1 of 1", variables={"CUDA_VISIBLE_DEVICES": ""}
    ),
    "hidden by an invalid number": _wrong(
        TWO, TWO, "gpu.visible", says="hides 1 of 2", variables={"CUDA_VISIBLE_DEVICES": "1,-1,0"}
    ),
    "fewer SMs": _wrong(ONE, machine(h200(sms=114)), "gpu.sms", says=VOID),
    "fewer SMs on one": _wrong(TWO, machine(h200(), h200(1, sms=114)), "gpu.sms", says="GPU 1 GPU-00000201"),
    "SMs not told": _wrong(
        ONE, machine(h200(), returns={"cuDeviceGetAttribute": 1}), "gpu.sms", says="does not report"
    ),
    "other architecture": _wrong(
        ONE, machine(h200(compute_capability="10.0")), "gpu.compute-capability", says="other kernels run"
    ),
    "architecture not told": _wrong(
        ONE, machine(h200().unsupported("CudaComputeCapability")), "gpu.compute-capability", says="does not report"
    ),
    "name not told": _wrong(ONE, machine(h200().unsupported("Name")), "gpu.model", says="does not report"),
    "slice for whole": _wrong(SCENARIOS["a100"], SLICED, "gpu.sms", "gpu.mig", says="SM count differs"),
    "whole for slice": _wrong(SLICED, SCENARIOS["a100"], "gpu.sms", "gpu.mig", says="SM count differs"),
    "other slice": _wrong(SLICED, machine(a100_mig("2g.10gb")), "gpu.sms", "gpu.mig"),
    "one slice of three": _wrong(SLICES, machine(a100_mig("3g.20gb", "2g.10gb", "2g.10gb")), "gpu.sms", "gpu.mig"),
    "slices missing": _wrong(SLICES, machine(a100_mig("3g.20gb", "2g.10gb")), "gpu.count"),
    "driver of the same branch": _wrong(ONE, ONE.but(driver=ANOTHER), "gpu.driver", says="compiles kernels (PTX)"),
    "older driver": _wrong(ONE, ONE.but(driver="570.86.15"), "gpu.driver", says="compiles kernels (PTX)"),
    "driver of another branch": _wrong(
        ONE, ONE.but(driver="590.44.01"), "gpu.driver", policy={"gpu.driver": "same branch"}
    ),
    "older than at least": _wrong(ONE, ONE.but(driver=ANOTHER), "gpu.driver", policy={"gpu.driver": "at least"}),
    "driver too old for CUDA": _wrong(
        ONE,
        ONE.but(driver="470.256.02"),
        "gpu.driver",
        policy={"gpu.driver": "any"},
        says="CUDA 12.9 does not load below 525.60.13",
    ),
    "CUDA alone, driver too old": Case(
        machine=SCENARIOS["t4"].but(driver="470.256.02"),
        gpu=Gpu(driver="525.60.13", devices=(GpuDevice(),)),
        policy={"gpu.count": "at least", "gpu.driver": "at least"},
        fields=("gpu.driver",),
    ),
    "CUDA alone, no GPU": Case(
        machine=machine(),
        gpu=Gpu(driver="525.60.13", devices=(GpuDevice(),)),
        policy={"gpu.count": "at least", "gpu.driver": "at least"},
        fields=("gpu.count",),
    ),
    "compatibility package": _wrong(
        ONE, ONE, "gpu.libcuda", libcuda="590.44.01", compat=True, says="compatibility package"
    ),
    "libcuda of another driver": _wrong(ONE, ONE, "gpu.libcuda", libcuda="570.86.15", says="loaded kernel module"),
    "no libcuda": _wrong(ONE, ONE, "gpu.sms", "gpu.libcuda", libcuda="none"),
    "libcuda does not start": _wrong(ONE, ONE.but(returns={"cuInit": 803}), "gpu.sms", "gpu.libcuda"),
    "NVML 4": _init(4, "this user may not use the GPU"),
    "NVML 9": _init(9, "the NVIDIA kernel module is not loaded"),
    "NVML 12": _init(12, "NVIDIA_DRIVER_CAPABILITIES lacks utility"),
    "NVML 15": _init(15, "fell off the bus"),
    "NVML 17": _init(17, "the operating system or a control group blocks"),
    "NVML 18": _init(18, "upgraded under a running kernel module"),
    "NVML 999": _init(999, "the driver does not report why"),
    "no driver": Case(machine=ONE, kernel="none", libcuda="none", fields=("gpu",), says="nothing can run on a GPU"),
    "lost on the bus": _wrong(
        TWO, machine(h200(), h200(1).unsupported("Name", code=GPU_IS_LOST)), "gpu.count", says="cannot be opened"
    ),
    "may not be opened": _wrong(
        ONE,
        machine(h200(returns={"nvmlDeviceGetHandleByIndex_v2": NO_PERMISSION})),
        "gpu.count",
        says="cannot be opened",
    ),
    "vanishes while it is asked": _wrong(
        TWO, machine(h200(), h200(1, lost_after=3)), "gpu.count", says="GPU-00000201 cannot be opened"
    ),
    "memory": _wrong(ONE, machine(h200(memory=141000)), "gpu.memory", policy={"gpu.memory": "exact"}),
    "less memory": _wrong(ONE, machine(h200(memory=141000)), "gpu.memory", policy={"gpu.memory": "at least"}),
    "memory not told": _wrong(
        ONE, machine(h200().unsupported("MemoryInfo", "MemoryInfo_v2")), "gpu.memory", policy={"gpu.memory": "exact"}
    ),
    "ECC off": _wrong(ONE, machine(h200(ecc=0)), "gpu.ecc", policy={"gpu.ecc": "exact"}, says="pass unseen"),
    "no ECC": _wrong(
        ONE, machine(h200().unsupported("EccMode")), "gpu.ecc", policy={"gpu.ecc": "exact"}, says="pass unseen"
    ),
    "VBIOS": _wrong(ONE, machine(h200(vbios="1")), "gpu.vbios", policy={"gpu.vbios": "exact"}, says="firmware"),
    "board": _wrong(ONE, machine(h200(board="2")), "gpu.board", policy={"gpu.board": "exact"}, says="board"),
    "another program": _wrong(
        ONE, machine(h200(processes=((77, 900, "trainer"),))), "gpu.exclusive", lock={"exclusive": True}
    ),
    "another container's program": _wrong(
        ONE, machine(h200(free=90000)), "gpu.exclusive", lock={"exclusive": True}, says="shares its memory"
    ),
}

MATCHES: Mapping[str, Case] = {
    **{name: Case(machine=scenario) for name, scenario in SCENARIOS.items() if scenario.devices},
    "eight in another order": _wrong(eight_h200(), machine(*(h200(n) for n in (3, 1, 7, 0, 2, 6, 5, 4)))),
    "kinds in another order": _wrong(MIXED, machine(t4(), h200(), h100())),
    "slices in another order": _wrong(SLICES, machine(a100_mig("1g.5gb", "3g.20gb", "2g.10gb"))),
    "one slice chosen": _wrong(
        SLICED,
        machine(a100_mig("1g.5gb", "1g.5gb")),
        variables={"CUDA_VISIBLE_DEVICES": gpus.gpu_uuid(0xA1000, "MIG")},
    ),
    "one of two chosen": _wrong(ONE, machine(t4(), h200()), variables={"CUDA_VISIBLE_DEVICES": gpus.gpu_uuid(0x200)}),
    "same branch": _wrong(ONE, ONE.but(driver=ANOTHER), policy={"gpu.driver": "same branch"}),
    "newer driver": _wrong(ONE.but(driver="570.86.15"), ONE, policy={"gpu.driver": "at least"}),
    "any driver": _wrong(ONE, ONE.but(driver="560.35.05"), policy={"gpu.driver": "any"}),
    "driver warns": _wrong(ONE, ONE.but(driver=ANOTHER), policy={"gpu.driver": "exact, warn"}),
    "more GPUs": _wrong(ONE, TWO, policy={"gpu.count": "at least"}),
    "any model of one architecture": _wrong(ONE, SCENARIOS["h100"], policy={"gpu.model": "any"}),
    "soft fields": _wrong(ONE, machine(h200(memory=141000, free=140500, ecc=0, vbios="1", board="2"))),
    "soft fields not told": _wrong(ONE, machine(h200().unsupported("EccMode", "VbiosVersion", "BoardPartNumber"))),
    "no UUID": _wrong(ONE, machine(h200().unsupported("UUID"))),
    "no persistence mode": _wrong(ONE, machine(h200().unsupported("PersistenceMode", "MigMode"))),
    "exclusive and idle": _wrong(ONE, ONE, lock={"exclusive": True}),
    "CUDA alone": Case(
        machine=MIXED,
        gpu=Gpu(driver="525.60.13", devices=(GpuDevice(),)),
        policy={"gpu.count": "at least", "gpu.driver": "at least"},
    ),
    "without CUDA": Case(machine=SCENARIOS["t4"], cuda=None),
}
