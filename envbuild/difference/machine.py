"""The machines of two runs: CPU, kernel, GPUs and driver, and the numbers they compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from envbuild.core.text import plain
from envbuild.difference.finding import NOWHERE, Finding, Section, changed
from envbuild.difference.text import digest, flat, pairs, shown
from envbuild.host.facts import GpuFacts, HostFacts, HostGpu
from envbuild.record.model import Record

_KERNELS = "libraries choose other code by it: other bits possible"
_HOST: dict[str, tuple[int, str]] = {
    "machine": (66, "another architecture: other bits"),
    "cpu.level": (59, _KERNELS),
    "cpu.flags": (58, _KERNELS),
    "cpu.model": (46, _KERNELS),
    "cpu.visible": (49, "XLA and others split work by it"),
    "cpu.total": (44, "XLA and others split work by it"),
    "kernel": (15, ""),
    "libc": (0, ""),
    "memory": (0, ""),
}
_GPU: dict[str, tuple[int, str]] = {
    "name": (64, "another GPU: other kernels, other bits"),
    "compute-capability": (63, "other kernels: other bits"),
    "sms": (63, "work is split by it: other bits"),
    "mig": (63, "a slice has fewer SMs: other bits"),
    "memory": (26, "algorithms and batch sizes may follow it"),
    "ecc": (16, ""),
    "vbios": (14, ""),
    "board": (13, ""),
    "persistence": (0, ""),
    "visible": (20, ""),
    "problem": (45, ""),
    "uuid": (11, "another GPU of the kind"),
    "processes": (18, "other programs held it: less memory, other batch sizes or algorithms"),
}
_SHOWN = {"name": "gpu.model"}
_ABSENT = ("processes", "problem", "ecc", "persistence", "visible")
"""Fields of a GPU whose absence is a fact; an empty one of the others is not known."""
_DRIVER: dict[str, tuple[int, str]] = {
    "driver": (48, "it compiles kernels: other bits possible"),
    "libcuda.version": (47, "it compiles kernels: other bits possible"),
    "libcuda.compat": (30, "forward compatibility"),
}
_NCCL: tuple[tuple[Literal["graph", "topology"], int, str], ...] = (
    ("graph", 62, "sums between GPUs are added up in another order: other bits"),
    ("topology", 0, ""),
)


def host(a: Record, b: Record) -> tuple[Section, Section]:
    """Return what differs in the machines, and in their GPUs as the containers saw them."""
    findings = _emulators(a, b)
    if a.host is None or b.host is None:
        if a.host or b.host:
            one, other = (each.host.cpu.model or each.host.machine if each.host else NOWHERE for each in (a, b))
            why = "recorded in one of the runs only"
            findings = (*findings, changed("host", "host", one, other, 10, why=why))
        unknown = ("host",) if not (a.host or b.host) else (f"host (recorded only in {'A' if a.host else 'B'})",)
        return Section("host", findings, compared=False, unknown=unknown), Section("")
    mine, theirs = (dict(flat(_without_gpu(each))) for each in (a.host, b.host))
    machine = Section("host", (*findings, *_machine(mine, theirs)), unknown=_lacking("host", mine, theirs))
    return machine, _gpus(_seen(a, a.host), _seen(b, b.host))


def fingerprint(a: Mapping[str, str], b: Mapping[str, str]) -> Section:
    """Compare what the machines computed before the program started; a part that only one computed reports nothing."""
    both = [name for name in a if name in b]
    why = "the same computation gives other numbers"
    findings = [
        changed("fingerprint", f"fingerprint {plain(name)}", digest(a[name]), digest(b[name]), 67, why=why)
        for name in both
        if a[name] != b[name]
    ]
    return Section("fingerprint" if both else "", tuple(findings))


def nccl(a: Record, b: Record) -> Section:
    """Compare the channels that NCCL made between the GPUs, and the links between them; of bits only those decide."""
    findings = []
    for kind, weight, why in _NCCL:
        one, other = a.nccl.get(kind), b.nccl.get(kind)
        if one and other and one != other:
            findings.append(changed("gpu", f"NCCL's {kind}", digest(one), digest(other), weight, why=why))
    lacking = [kind for kind, _, _ in _NCCL if (kind in a.nccl) != (kind in b.nccl)]
    unknown = (f"NCCL's {', '.join(lacking)} (recorded in one of the runs only)",) if lacking else ()
    return Section("NCCL" if a.nccl and b.nccl else "", tuple(findings), unknown=unknown)


def _emulators(a: Record, b: Record) -> tuple[Finding, ...]:
    """Return that one of two runs was computed by an emulator, or each by another one."""
    if a.emulator == b.emulator:
        return ()
    one, other = (plain(each.emulator).partition(" sha256:")[0] or NOWHERE for each in (a, b))
    return (changed("host", "emulator", one, other, 98, why="an emulator computed, and no CPU: other bits"),)


def _machine(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Finding]:
    for name, before, after in pairs(mine, theirs):
        if _empty(before) or _empty(after):
            continue
        weight, why = _HOST.get(name, (10, ""))
        if name == "cpu.flags":
            one, other = _flags(before, after), _flags(after, before)
        else:
            one, other = shown(before, after)
        yield changed("host", f"host {name}", one, other, weight, why=why)


def _lacking(prefix: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, ...]:
    """Name what only one of two descriptions has: an older one knows less, and nothing may be made of that."""
    names = [name for name, before, after in pairs(mine, theirs) if _empty(before) or _empty(after)]
    return (f"{prefix} {', '.join(names)} (recorded in one of the runs only)",) if names else ()


def _empty(value: Any) -> bool:
    """Whether a description lacks a fact; a switch that is off is one."""
    return not value and value is not False


def _without_gpu(facts: HostFacts) -> dict[str, Any]:
    table = msgspec.to_builtins(facts)
    return {name: part for name, part in table.items() if name not in ("gpu", "containers", "format")}


def _flags(mine: list[str], theirs: list[str]) -> str:
    """Name what only one of two lists has."""
    return " ".join(f"+{flag}" for flag in mine if flag not in theirs) or "none of these"


def _seen(record: Record, facts: HostFacts) -> GpuFacts:
    """Return the GPUs that the container got if the guard looked, else the machine's."""
    if record.verdict is not None and record.verdict.gpu is not None:
        return record.verdict.gpu
    return facts.gpu


def _gpus(a: GpuFacts, b: GpuFacts) -> Section:
    """Compare GPUs pairwise in their order, and driver and CUDA library."""
    findings = []
    mine, theirs = (dict(flat(_without_devices(each))) for each in (a, b))
    for name, before, after in pairs(mine, theirs):
        if not (_empty(before) or _empty(after)):
            weight, why = _DRIVER.get(name, (0, ""))
            what = f"gpu.{name}" if name == "driver" else name
            findings.append(changed("gpu", what, *shown(before, after), weight, why=why))
    if len(a.devices) != len(b.devices):
        one, other = _kinds(a.devices), _kinds(b.devices)
        findings.append(changed("gpu", "gpus", one, other, 65, why="batches and sums are split by it: other bits"))
        return Section("GPU", tuple(findings))
    unknown: dict[str, None] = {}
    findings += _devices(a.devices, b.devices, unknown)
    any_gpu = a.devices or b.devices or a.driver or b.driver
    lacking = (f"gpu {', '.join(unknown)} (recorded in one of the runs only)",) if unknown else ()
    return Section("GPU" if any_gpu else "", tuple(findings), unknown=lacking)


def _devices(a: tuple[HostGpu, ...], b: tuple[HostGpu, ...], unknown: dict[str, None]) -> list[Finding]:
    """Compare GPU by GPU; what differs alike in several of them is reported once."""
    found: dict[tuple[str, str, str], Finding] = {}
    for before, after in zip(a, b, strict=True):
        for name, one, other in pairs(_device(before), _device(after)):
            if name not in _ABSENT and (_empty(one) or _empty(other)):
                unknown[name] = None
                continue
            weight, why = _GPU.get(name, (10, ""))
            texts = shown(one, other)
            what = _SHOWN.get(name, f"gpu.{name}")
            found.setdefault((name, *texts), changed("gpu", what, *texts, weight, why=why))
    return list(found.values())


def _device(gpu: HostGpu) -> dict[str, Any]:
    """Return the fields to compare: free memory is never equal."""
    table: dict[str, Any] = msgspec.to_builtins(gpu)
    del table["free"]
    programs = Counter(process.name or "(another container's)" for process in gpu.processes)
    return table | {"processes": ", ".join(sorted(programs)) or None, "problem": gpu.problem and gpu.problem.message}


def _without_devices(facts: GpuFacts) -> dict[str, Any]:
    table: dict[str, Any] = msgspec.to_builtins(facts)
    del table["devices"]
    return {name: part for name, part in table.items() if part is not None}


def _kinds(devices: tuple[HostGpu, ...]) -> str:
    names = Counter(device.name or "unknown" for device in devices)
    return ", ".join(f"{count} × {plain(name)}" for name, count in names.items()) or "none"
