"""The keys of a spec's ``hardware`` section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envbuild.core import types
from envbuild.lockfile.hardware import POLICIES
from envbuild.spec import validators
from envbuild.spec.fields import Choice, Field, Flag, Kind, ListOf, Table, Text, Whole
from envbuild.spec.hardware import GPU_FIELDS
from envbuild.spec.hardware_fields import Devices, Flags, Graded, Memory
from envbuild.spec.yaml import Report

LEVELS: Mapping[str, str] = {
    "any": "any CPU",
    "x86-64": "the x86-64 baseline: SSE2",
    "x86-64-v2": "SSE4.2, POPCNT",
    "x86-64-v3": "AVX2, FMA, BMI2",
    "x86-64-v4": "AVX-512 F, BW, CD, DQ, VL",
    "armv8.0-a": "the 64-bit Arm baseline, such as Cortex-A72 (Raspberry Pi 4)",
    "armv8.1-a": "atomics, RDM",
    "armv8.2-a": "such as Neoverse N1 (Graviton2, Altra), Cortex-A76 (Raspberry Pi 5), Cortex-A78AE (Jetson Orin)",
    "armv8.3-a": "complex numbers (FCMA)",
    "armv8.4-a": "dot products, such as Neoverse V1 (Graviton3)",
    "armv8.5-a": "FRINT, such as Apple M1 in a virtual machine",
    "armv8.6-a": "bfloat16, I8MM",
    "armv8.7-a": "AFP",
    "armv9.0-a": "armv8.5-a with SVE2, such as Neoverse V2 (NVIDIA Grace, Graviton4)",
    "armv9.1-a": "armv8.6-a with SVE2",
    "armv9.2-a": "armv8.7-a with SVE2",
}
"""Levels of the x86-64 psABI, section 3.1.1, and versions of the Arm architecture, with what each is known by."""
LEVELS_OF: Mapping[str, str] = {
    level: "arm64" if level.startswith("arm") else "amd64" for level in LEVELS if level != "any"
}
"""Which architecture's a level is, by Debian's name."""


def hardware_table() -> Table:
    """Return the keys of ``hardware``."""
    short = {level.removeprefix("x86-64-"): level for level in LEVELS if level.startswith("x86-64-")}
    flag = Text(expected="a CPU flag", check=validators.cpu_flag)
    hosts = "the host's, if one is described"
    return Table(
        words={"detect": "everything as on the host described (`--host`), or on this machine"},
        expected="detect, or a mapping with kernel, cpu or gpu",
        elsewhere={
            **{key: f"gpu.{key}" for key in (*GPU_FIELDS, "driver", "exclusive", "devices")},
            "gpus": "gpu",
            "linux": "kernel",
            "isa": "cpu",
            "flags": "cpu-flags",
        },
        fields={
            "kernel": Field(
                kind=Text(expected='a version range such as ">=5.10,<7"', check=validators.kernel_or_any),
                doc="Linux kernels that a run may start on: comparisons joined by commas, or `any`.",
                default=None,
                default_doc="any kernel; not older than the host's, if one is described",
                examples=(">=5.10,<7",),
            ),
            "cpu": Field(
                kind=Graded(field="cpu", kind=Choice(values=LEVELS, short=short)),
                doc="Instruction-set level that the CPU must have at least. "
                + "; ".join(f"`{level}`: {meaning}" for level, meaning in LEVELS.items())
                + ".",
                default=None,
                default_doc=f"`any`; {hosts}",
                examples=("x86-64-v3",),
            ),
            "cpu-flags": Field(
                kind=Graded(field="cpu.flags", kind=Flags(list=ListOf(item=flag, expected="a list of CPU flags"))),
                doc="CPU flags that make libraries choose other code, as /proc/cpuinfo names them.",
                default=None,
                default_doc=f"not compared; {hosts}",
                examples=(["avx2", "fma"], "any"),
            ),
            "fingerprint": Field(
                kind=Flag(),
                doc="Compare the numeric fingerprint at every start (about a second).",
                default=False,
                examples=(True,),
            ),
            "gpu": Field(
                kind=_gpu_table(),
                doc="What the GPUs must be.",
                default=None,
                default_doc="no GPU; with CUDA any GPU whose driver loads it; the host's, if one is described",
                examples=({"model": "NVIDIA H200", "count": 2, "driver": "same branch"}, "detect"),
            ),
        },
    )


_ELSEWHERE = {
    "name": "model",
    "driver-version": "driver",
    "cc": "compute-capability",
    "capability": "compute-capability",
    "arch": "compute-capability",
    "vram": "memory",
    "sm-count": "sms",
    "bios": "vbios",
    "warn": 'a policy in quotes, such as "exact, warn"',
}


def _gpu_table() -> Table:
    devices = Table(
        fields={key: field for key, field in _gpu_fields(alone=False) if key in GPU_FIELDS},
        expected="a mapping with model or count",
        elsewhere={**_ELSEWHERE, "driver": "driver next to devices: all GPUs share it"},
    )
    return Table(
        words={
            "none": "no GPU",
            "optional": "any GPU whose driver loads the locked CUDA; where there is none, a run computes without",
            "detect": "those of the host described (`--host`), or of this machine",
        },
        expected="none, optional, detect, or a mapping with model, count or driver",
        elsewhere=_ELSEWHERE,
        check=_check_gpu,
        fields={
            **dict(_gpu_fields(alone=True)),
            "exclusive": Field(
                kind=Flag(), doc="Refuse when other programs hold a GPU.", default=False, examples=(True,)
            ),
            "devices": Field(
                kind=Devices(table=devices),
                doc="Several kinds of GPU, one mapping each; the keys of one GPU are then given here only.",
                default=None,
                default_doc="all GPUs are alike; the host's, if one is described",
                examples=([{"model": "NVIDIA H200", "count": 2}, {"model": "Tesla T4"}],),
            ),
        },
    )


def _gpu_fields(*, alone: bool) -> Iterator[tuple[str, Field]]:
    """Yield the keys of a GPU; ``alone``: their values may be left to the host description."""
    line = Text(expected="a text", check=validators.line)
    version = Text(expected="a driver version", check=validators.driver, loose=("number",))
    capability = Text(expected="a compute capability", check=validators.capability, loose=("number",))
    mig = Text(
        expected="none or a profile such as 3g.40gb",
        check=validators.mig,
        rules={"pattern": validators.schema_pattern(types.MigProfile)},
    )
    rows: tuple[tuple[str, Kind, str, tuple[Any, ...]], ...] = (
        ("model", line, "Name as nvidia-smi prints it.", ("NVIDIA H200",)),
        ("count", Whole(low=1, high=1024), "How many GPUs.", (2, "at least")),
        ("driver", version, "Version of the driver's kernel module.", ("580.159.04", "same branch")),
        ("compute-capability", capability, "Compute capability.", ("9.0",)),
        ("sms", Whole(low=1, high=4096), "Streaming multiprocessors that a program sees.", (132,)),
        ("mig", mig, "MIG profile; `none` for a whole GPU.", ("3g.40gb",)),
        ("memory", Memory(), "Memory of a GPU or slice; a number is MiB.", ("143771 MiB", 143771)),
        ("ecc", Flag(), "ECC mode.", (True, "any")),
        ("vbios", line, "Version of the GPU's firmware.", ("96.00.D9.00.01",)),
        ("board", line, "Part number of the board.", ("900-21010-0040-000",)),
    )
    for key, kind, doc, examples in rows:
        name = f"gpu.{key}"
        policy = POLICIES[name]
        default = "1; the host's number, if one is described" if key == "count" else "not compared; the host's"
        yield (
            key,
            Field(
                kind=Graded(field=name, kind=kind, alone=alone),
                doc=f"{doc} Policy: `{policy}`.",
                default=None,
                default_doc="the least that loads CUDA; the host's" if key == "driver" else default,
                examples=examples,
            ),
        )


def _check_gpu(values: dict[str, Any], path: str, report: Report) -> None:
    """Refuse a mapping that reports nothing, and the keys of one kind of GPU next to a list of kinds."""
    if not values and not any(problem.path.startswith(path) for problem in report.problems):
        report.add(path, "an empty mapping specifies nothing — write none, detect, or what the GPU must be")
    if "devices" not in values:
        return
    for key in GPU_FIELDS:
        if key in values:
            report.add(f"{path}.{key}", f"is given next to devices — write it into each entry of {path}.devices")
