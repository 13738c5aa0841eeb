"""``envbuild probe``: this machine for people, as JSON, or as a file to lock for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from envbuild.cli.console import Console
from envbuild.core.fs import atomic_write
from envbuild.core.text import human_bytes, plural
from envbuild.host import file
from envbuild.host.diagnose import troubles
from envbuild.host.facts import GpuFacts, HostFacts, HostGpu
from envbuild.host.probe import probe_host
from envbuild.runtime.guard.check import plain

_HEADINGS = ("GPU", "NAME", "CAPABILITY", "SMS", "MEMORY", "FREE", "MIG", "ECC", "FOR CUDA")
_MORE = ("GPU", "UUID", "VBIOS", "BOARD", "AWAKE", "PROGRAMS")
_UNKNOWN = "-"


def probe(output: Path | None, console: Console) -> None:
    """Describe this machine.

    Args:
        output: the file to write the description to, if any.
        console: prints the tables, or the description as JSON.
    """
    host = probe_host()
    if output is not None:  # first: whoever reads the rest may stop reading
        atomic_write(output, file.dumps(host).encode())
    console.result(msgspec.to_builtins(host))
    if not console.as_json:
        for label, *columns in describe(host):
            console.line(label, *map(plain, columns))
    if output is not None:
        console.line("wrote", str(output), f"lock for this host anywhere: envbuild lock --host {output}")


def describe(host: HostFacts) -> Iterator[Sequence[str]]:
    """Yield label and columns of each line that tells a person about a machine."""
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
    for trouble in troubles(host, os.environ):
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
    """Yield the tables: what decides bits, then what tells GPUs apart."""
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
