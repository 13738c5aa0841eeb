"""The hardware part of a lock: what a host must be, field by field, and how strictly each field is meant.

A result holds for the hardware it was made on: cuBLAS promises equal bits for the same toolkit, architecture and number
of SMs, cuDNN promises none across architectures. Which fields are hard follows from that (docs/reference/gpu.md).
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from envbuild.core.types import (
    Capability,
    CpuFlag,
    CpuLevel,
    CudaVersion,
    DriverVersion,
    HardwareField,
    KernelRange,
    LibraryVersion,
    Line,
    MigProfile,
    OptionalSha256,
    Policy,
    SpecField,
    Value,
)

POLICIES: Final[Mapping[str, Policy]] = {
    "cpu": "at least",
    "cpu.flags": "exact",
    "gpu.count": "exact",
    "gpu.model": "exact",
    "gpu.compute-capability": "exact",
    "gpu.sms": "exact",
    "gpu.mig": "exact",
    "gpu.driver": "exact",
    "gpu.memory": "exact, warn",
    "gpu.ecc": "exact, warn",
    "gpu.vbios": "exact, warn",
    "gpu.board": "exact, warn",
}
"""Every field that has a policy, with its default. ``, warn``: a difference warns instead of refusing."""

WORDS: Final = ("exact", "same branch", "at least", "any")
"""The policies: equal; equal up to the first dot (a driver's branch); not below; not compared, only recorded."""


class GpuDevice(Value, frozen=True, kw_only=True, omit_defaults=True):
    """One kind of GPU, ``count`` times; an empty field is not compared.

    Attributes:
        model: as NVML names it, such as ``NVIDIA H200``.
        sms: streaming multiprocessors visible to a program (a MIG slice has fewer); 0 for unknown.
        mig: profile of a slice such as ``3g.40gb``; ``none`` for a whole GPU.
        memory: MiB, whole GPU or slice; 0 for unknown.
    """

    count: Annotated[int, Meta(ge=1, le=1024)] = 1
    model: Line = ""
    compute_capability: Capability = ""
    sms: Annotated[int, Meta(ge=0, le=4096)] = 0
    mig: MigProfile = ""
    memory: Annotated[int, Meta(ge=0, le=1 << 40)] = 0
    ecc: bool | None = None
    vbios: Line = ""
    board: Line = ""


class Gpu(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The GPUs a run sees.

    Attributes:
        driver: version of the kernel module, or the least one if its policy requires so.
        exclusive: refuse when other programs hold the GPU.
    """

    driver: DriverVersion = ""
    exclusive: bool = False
    devices: Annotated[tuple[GpuDevice, ...], Meta(min_length=1)]

    @property
    def count(self) -> int:
        """How many GPUs there are in all."""
        return sum(device.count for device in self.devices)


class Hardware(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a host must be.

    Attributes:
        kernel: version range in PEP 440 operators, such as ``>=5.10,<7``; empty for any.
        cpu: x86-64 psABI level such as ``x86-64-v3``, or ``any``.
        cpu_flags: flags of ``/proc/cpuinfo`` that make libraries choose other code, those present; empty: not compared.
        fingerprint: compare the numeric fingerprint at start.
        host: SHA-256 of the host description that values were taken from (``host_file.digest``); empty for none.
        by_hand: fields that the host described did not decide, but the spec; ``gpu``: it has no GPU at all.
        gpu: None for no GPU.
        gpu_optional: a run on a machine without any GPU computes without, and its record has that it was allowed.
        policy: policy of each field that has a value; a field left out has its default of ``POLICIES``.
    """

    kernel: KernelRange = ""
    cpu: CpuLevel = "any"
    cpu_flags: tuple[CpuFlag, ...] = ()
    fingerprint: bool = False
    host: OptionalSha256 = ""
    by_hand: tuple[SpecField, ...] = ()
    gpu: Gpu | None = None
    gpu_optional: bool = False
    policy: dict[HardwareField, Policy] = msgspec.field(default_factory=dict)

    def policy_of(self, field: str) -> Policy:
        """Return the policy of a field of ``POLICIES``."""
        return self.policy.get(field, POLICIES[field])


class Cuda(Value, frozen=True, kw_only=True, omit_defaults=True):
    """NVIDIA's user-space libraries as they come with the wheels, and what they need of a driver.

    Attributes:
        version: of the CUDA runtime, ``12.9``.
        cudnn, cublas, nccl: versions of the wheels; empty if there is none.
        driver: least driver that loads this CUDA (minor-version compatibility).
        toolkit_driver: the driver that the toolkit was released with: needed for all of its features; empty: unknown.
        architectures: compute capabilities the framework's kernels were built for, as far as known.
    """

    version: CudaVersion
    cudnn: LibraryVersion = ""
    cublas: LibraryVersion = ""
    nccl: LibraryVersion = ""
    driver: DriverVersion
    toolkit_driver: DriverVersion = ""
    architectures: tuple[Capability, ...] = ()
