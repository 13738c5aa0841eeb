"""A host in the lock's terms: what of a description can be locked, and nothing else of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from envbuild.host.facts import GpuFacts, HostFacts, HostGpu
from envbuild.lockfile.hardware import GpuDevice, Hardware


@dataclass(frozen=True, kw_only=True, slots=True)
class HostValues:
    """What a lock can hold of a host; empty values are unknown.

    Attributes:
        kernel: version range that the host's kernel is in.
        driver: version of the driver that the GPUs have.
        devices: GPUs that can be opened, equal ones counted together.
        closed: GPUs that are there but cannot be opened, each with the reason.
        no_gpu: what a host without such GPUs has instead, a phrase with a verb.
        broken: there may be GPUs, but they could not be asked or opened.
        machine: ``x86_64`` or ``aarch64``; empty for unknown.
        lost: fields whose value is not known any more, since the spec had its own when the host was locked.
    """

    kernel: str = ""
    cpu: str = "any"
    flags: tuple[str, ...] = ()
    driver: str = ""
    devices: tuple[GpuDevice, ...] = ()
    closed: tuple[str, ...] = ()
    no_gpu: str = ""
    broken: bool = False
    machine: str = ""
    lost: frozenset[str] = field(default_factory=frozenset)


def of_host(host: HostFacts) -> HostValues:
    """Return what can be locked of a host description; what it does not know stays unknown."""
    kernel = re.match(r"[0-9]{1,5}\.[0-9]{1,5}", host.kernel)
    gpu = host.gpu
    names = [device.name or f"GPU {index}" for index, device in enumerate(gpu.devices)]
    devices = grouped(_device(device) for device in gpu.devices if device.problem is None)
    closed = tuple(
        f"{name} ({device.problem.message or device.problem.name})"
        for name, device in zip(names, gpu.devices, strict=True)
        if device.problem is not None
    )
    return HostValues(
        kernel=f">={kernel[0]}" if kernel else "",
        cpu=host.cpu.level or "any",
        flags=tuple(sorted(set(host.cpu.flags))),
        driver=(gpu.driver or gpu.nvml) if devices else "",
        devices=devices,
        closed=closed,
        no_gpu=f"has no GPU that can be opened: {', '.join(closed)}" if closed else f"has no GPU: {_no_gpu(gpu)}",
        broken=bool(closed) or gpu.problem is not None,
        machine=host.machine,
    )


def of_lock(hardware: Hardware) -> HostValues:
    """Return what a lock keeps of the host that it was made for."""
    lost = frozenset(hardware.by_hand)
    gpu = hardware.gpu if "gpu" not in lost else None
    return HostValues(
        kernel=hardware.kernel,
        cpu=hardware.cpu,
        flags=hardware.cpu_flags,
        driver=gpu.driver if gpu else "",
        devices=gpu.devices if gpu and "gpu.devices" not in lost else (),
        no_gpu="has no GPU: this lock keeps none of its host",
        lost=lost,
    )


def grouped(devices: Iterable[GpuDevice]) -> tuple[GpuDevice, ...]:
    """Count equal GPUs together, in an order that does not depend on their indexes."""
    kinds: dict[GpuDevice, int] = {}
    for device in devices:
        kind = msgspec.structs.replace(device, count=1)
        kinds[kind] = kinds.get(kind, 0) + device.count
    groups = [msgspec.structs.replace(kind, count=count) for kind, count in kinds.items()]
    return tuple(sorted(groups, key=lambda group: (group.model, -group.count, msgspec.json.encode(group))))


def many(devices: Iterable[GpuDevice]) -> str:
    """Name GPUs for people: ``2 × NVIDIA H200, 1 × NVIDIA A100-SXM4-40GB (MIG 3g.20gb)``."""
    words = []
    for device in devices:
        mig = f" (MIG {device.mig})" if device.mig not in ("", "none") else ""
        words.append(f"{device.count} × {device.model or 'GPU'}{mig}")
    return ", ".join(words)


def _device(gpu: HostGpu) -> GpuDevice:
    return GpuDevice(
        model=gpu.name,
        compute_capability=gpu.compute_capability,
        sms=gpu.sms,
        mig=gpu.mig,
        memory=gpu.memory,
        ecc=gpu.ecc,
        vbios=gpu.vbios,
        board=gpu.board,
    )


def _no_gpu(gpu: GpuFacts) -> str:
    """Explain why a description has no GPU that could be locked."""
    if gpu.problem is not None:
        name = f" ({gpu.problem.name})" if gpu.problem.name else ""
        return f"NVML reported: {gpu.problem.message or 'no reason'}{name}"
    return f"driver {gpu.driver} is loaded, but it shows no GPU" if gpu.driver else "no NVIDIA driver is loaded there"
