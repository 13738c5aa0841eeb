"""A machine and its data: ``probe``'s description, the guard's verdict on it and on declared data (``check``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from envbuild.core.text import human_bytes, plural
from envbuild.host.diagnose import troubles
from envbuild.host.facts import GpuFacts, HostFacts, HostGpu
from envbuild.operations.check import CheckResult, Verdict
from envbuild.runtime.guard import table
from envbuild.runtime.guard.check import plain

if TYPE_CHECKING:
    from envbuild.inputs.compare import Comparison
    from envbuild.lockfile.model import Lock

_HEADINGS = ("GPU", "NAME", "CAPABILITY", "SMS", "MEMORY", "FREE", "MIG", "ECC", "FOR CUDA")
_MORE = ("GPU", "UUID", "VBIOS", "BOARD", "AWAKE", "PROGRAMS")
_UNKNOWN = "-"


def check_text(verdict: Verdict, *, data_differs: bool = False) -> str:
    """Return the verdict for people: one line per field that holds, or the guard's table of those that do not.

    The text ends with a newline; soft differences are shown as warnings below.

    Args:
        data_differs: declared data is not as locked, so that a host which matches is not all that matters.
    """
    if not verdict.ok:
        return table.render(verdict.checks, verdict.lock, "")
    lines = [f"this host matches {verdict.lock}" + (", but its input data differs" if data_differs else "")]
    width = max(len(check.field) for check in verdict.checks)
    wide = max(len(check.locked) for check in verdict.checks)
    for check in verdict.checks:
        lines.append(plain(f"  {check.field.ljust(width)}   {check.locked.ljust(wide)}   {check.found}"))
    return "\n".join(lines) + "\n" + table.warnings(verdict.checks)


def check_json(found: CheckResult) -> dict[str, Any]:
    """Return the verdict on a host and its data as JSON values."""
    verdict = {**found.verdict.as_dict(), "ok": found.ok, "verified": found.verified}
    return {**verdict, "inputs": comparison_json(found.inputs)}


def description(host: HostFacts, environ: Mapping[str, str]) -> Iterator[Sequence[str]]:
    """Yield label and columns of each line that describes a machine to a person.

    Args:
        host: the machine.
        environ: the environment that it was described in.
    """
    for label, *columns in _description(host, environ):
        yield label, *map(plain, columns)


def _description(host: HostFacts, environ: Mapping[str, str]) -> Iterator[Sequence[str]]:
    yield "host", f"kernel {host.kernel}", host.machine, host.libc, f"{human_bytes(host.memory)} memory"
    cpu = host.cpu
    visible = plural(cpu.visible, "CPU") if cpu.visible == cpu.total else f"{cpu.visible} of {cpu.total} CPUs"
    yield "cpu", cpu.model or host.machine, cpu.level if cpu.level != "any" else "", visible
    yield from (("", line) for line in _wrapped(cpu.flags))
    yield from _driver(host.gpu)
    yield from _gpus(host.gpu.devices)
    containers = host.containers
    engine = f"{containers.engine} {containers.version}".rstrip() or "none found"
    nvidia = {"cdi": "GPUs by CDI", "legacy": "GPUs by NVIDIA's runtime"}.get(containers.nvidia, "")
    toolkit = f"NVIDIA container toolkit {containers.toolkit}" if containers.toolkit else ""
    yield "engine", engine, nvidia, toolkit
    for trouble in troubles(host, environ):
        yield "problem", trouble.what
        yield "", f"→ {trouble.fix}"


def _driver(gpu: GpuFacts) -> Iterator[Sequence[str]]:
    if not gpu.driver and not gpu.nvml and not gpu.libcuda.path:
        yield "driver", "none of NVIDIA's" if gpu.problem is None else "unknown"
        return
    source = "kernel module" if gpu.driver_source.startswith("/") else f"according to {gpu.driver_source}"
    libraries = f"libraries {gpu.nvml}" if gpu.nvml and source == "kernel module" else ""
    yield "driver", f"{gpu.driver} ({source})" if gpu.driver else "unknown", libraries
    cuda = gpu.libcuda
    if cuda.path:
        compat = "compatibility package" if cuda.compat else ""
        yield "libcuda", cuda.version, f"CUDA {cuda.api}" if cuda.api else "", cuda.path, compat


def _gpus(devices: Sequence[HostGpu]) -> Iterator[Sequence[str]]:
    """Yield the tables: what decides bits, then what distinguishes GPUs."""
    yield "gpus", str(len(devices)) if devices else "none"
    if not devices:
        return
    for line in _table([_HEADINGS, *(_row(index, device) for index, device in enumerate(devices))]):
        yield "", line
    for line in _table([_MORE, *(_more(index, device) for index, device in enumerate(devices))]):
        yield "", line


def _row(index: int, device: HostGpu) -> tuple[str, ...]:
    return (
        str(index),
        plain(device.name) or _UNKNOWN,
        device.compute_capability or _UNKNOWN,
        str(device.sms or _UNKNOWN),
        f"{device.memory} MiB" if device.memory else _UNKNOWN,
        f"{device.free} MiB" if device.memory else _UNKNOWN,
        device.mig or _UNKNOWN,
        _mode(device.ecc),
        {True: "visible", False: "hidden", None: _UNKNOWN}[device.visible],
    )


def _more(index: int, device: HostGpu) -> tuple[str, ...]:
    programs = [
        " ".join(word for word in (plain(each.name) or f"process {each.pid}", _memory(each.memory)) if word)
        for each in device.processes
    ]
    return (
        str(index),
        plain(device.uuid) or _UNKNOWN,
        plain(device.vbios) or _UNKNOWN,
        plain(device.board) or _UNKNOWN,
        {True: "always", False: "when used", None: _UNKNOWN}[device.persistence],
        ", ".join(programs) or "none",
    )


def _memory(mib: int) -> str:
    return f"({mib} MiB)" if mib else ""


def _mode(value: bool | None) -> str:
    return {True: "on", False: "off", None: _UNKNOWN}[value]


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _wrapped(words: Sequence[str], width: int = 100) -> Iterator[str]:
    """Join words to lines of at most so many characters."""
    line = ""
    for word in words:
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = ""
        line = f"{line} {word}".lstrip()
    if line:
        yield line


def locked_inputs_lines(lock: Lock) -> Iterator[str]:
    """Yield a line for each input that is as locked."""
    for entry in lock.inputs:
        yield f"  input    {entry.path}: as locked, {plural(entry.files, 'file')}, {human_bytes(entry.bytes)}"


def comparison_json(found: Comparison) -> list[dict[str, Any]]:
    """Return differences as JSON values."""
    return [
        {
            "path": one.path,
            "message": one.message,
            "locked": msgspec.to_builtins(one.locked),
            "found": msgspec.to_builtins(one.found),
            "changes": asdict(one.tree) if one.tree is not None else None,
        }
        for one in found.differences
    ]
