"""Host descriptions for tests: machines as a probe would describe them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envbuild.host.facts import Containers, Cpu, GpuFacts, HostFacts, HostGpu, Libcuda, Problem

DRIVER = "580.159.04"


def gpu(name: str = "NVIDIA H200", **facts: Any) -> HostGpu:
    """Return one GPU, an H200 by default."""
    known: dict[str, Any] = {
        "uuid": "GPU-00000000-0000-0000-0000-000000000000",
        "compute_capability": "9.0",
        "sms": 132,
        "memory": 143771,
        "free": 143000,
        "mig": "none",
        "ecc": True,
        "vbios": "96.00.D9.00.01",
        "board": "900-21010-0040-000",
        "persistence": True,
        "visible": True,
    }
    return HostGpu(name=name, **{**known, **facts})


def host(
    gpus: Iterable[HostGpu] = (), *, driver: str = DRIVER, problem: Problem | None = None, **facts: Any
) -> HostFacts:
    """Return a machine with these GPUs; no driver is loaded on one without GPUs unless there is a problem."""
    devices = tuple(gpus)
    known: dict[str, Any] = {
        "kernel": "6.8.0-45-generic",
        "machine": "x86_64",
        "libc": "glibc 2.39",
        "memory": 2 << 40,
        "cpu": Cpu(model="A CPU", level="x86-64-v4", flags=("avx2", "avx512f", "fma"), visible=16, total=64),
        "gpu": GpuFacts(
            driver=driver if devices else "",
            driver_source="/sys/module/nvidia/version" if devices else "",
            nvml=driver if devices else "",
            libcuda=Libcuda(path="/usr/lib/libcuda.so.1", version=driver, api="13.0") if devices else Libcuda(),
            problem=problem,
            devices=devices,
        ),
        "containers": Containers(engine="Docker", version="28.5.1", nvidia="cdi", toolkit="1.18.0"),
    }
    return HostFacts(**{**known, **facts})
