"""What is known of each run, side by side: the run itself, its environment, its host, and what it was given."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envbuild.core.redact import mask_arguments, mask_environment
from envbuild.core.text import human_bytes
from envbuild.lockfile.model import Lock
from envbuild.record.jobs import JobRecord, host_of, rank_of, ranks_text
from envbuild.record.model import Options, Record
from envbuild.record.processes import ReadFile, effective
from envbuild.record.summary import doubt
from envbuild.reports.values import Run
from envbuild.reports.words import duration, time

ABSENT = "–"
_WIDTH = 300
"""Longest value shown; the record has all of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One fact: what it is, and a cell for each run; ``same`` if all are equal. ``code``: digests and file names."""

    label: str
    cells: tuple[str, ...]
    code: bool = False

    @property
    def same(self) -> bool:
        """Whether all runs are equal in it."""
        return len(set(self.cells)) == 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Facts that belong together.

    Attributes:
        folded: they are many, and shown on demand.
        named: their labels are names of variables, files and the like.
    """

    title: str
    rows: tuple[Row, ...]
    folded: bool = False
    named: bool = False

    @property
    def differing(self) -> int:
        """How many rows are not the same in all runs."""
        return sum(not row.same for row in self.rows)


def tables(runs: Sequence[Run]) -> list[Table]:
    """Return all facts; a row that no run has a value for is left out."""
    records = [run.record for run in runs]
    found = [
        _table("Run", runs, {"Result": result, **_RUN}, code={"Command", "Script"}),
        _many("Ranks", [_ranks(run) for run in runs], folded=False),
        _table("Host", runs, _HOST),
        Table(title="Environment", rows=tuple(_environment(runs))),
        _many("Parameters", [_parameters(record) for record in records], folded=False),
        _many("Input data", [{path: _digest(value, "blake3") for path, value in r.inputs.items()} for r in records]),
        _many("Environment variables", [mask_environment(record.environment) for record in records]),
        _many("Switches read back", [_switches(record) for record in records]),
        _many("Files read", [_files((*record.configs, *record.modules, *record.objects)) for record in records]),
    ]
    return [table for table in found if table.rows]


def result(record: Record) -> str:
    """Describe how a run ended."""
    if record.state != "finished":
        return record.state
    ended = "ok" if record.exit_code == 0 else f"exit {record.exit_code}"
    return "out of memory" if record.out_of_memory else ended


def command(record: Record) -> str:
    """Write the command as a shell takes it, secrets masked."""
    return shlex.join(mask_arguments(record.command))


def _table(
    title: str, runs: Sequence[Run], facts: Mapping[str, Callable[[Record], str]], code: set[str] | None = None
) -> Table:
    rows = (_row(label, [_of(run, fact) for run in runs], label in (code or ())) for label, fact in facts.items())
    return Table(title=title, rows=tuple(row for row in rows if row))


def _of(run: Run, fact: Callable[[Record], str]) -> str:
    """Return a fact of a run; of a job what its ranks have in common, else each value with its ranks."""
    values = dict.fromkeys(fact(record) for record in run.ranks)
    if len(values) < 2 or fact in (result, _started, _took):
        return fact(run.record)
    job = JobRecord(ranks=run.ranks)
    by = {value: [rank for rank, record in job.by_rank.items() if fact(record) == value] for value in values}
    return "; ".join(f"{value or ABSENT} ({ranks_text(job, ranks)})" for value, ranks in by.items())


def _ranks(run: Run) -> dict[str, str]:
    """Return a line for each rank of a job: where it ran, how it ended, its seed."""
    found = {}
    for record in run.ranks:
        seed = next(iter(_seeds(record)), "")
        words = (host_of(record), result(record), f"seed {seed}" if seed else "")
        found[f"rank {rank_of(record)}"] = " · ".join(word for word in words if word)
    return found


def _many(title: str, found: Sequence[Mapping[str, str]], *, folded: bool = True) -> Table:
    """Make a table of what each run has by name; names that differ come first."""
    names = list(dict.fromkeys(name for each in found for name in each))
    rows = [_row(name, [each.get(name, "") for each in found], code=True) for name in names]
    return Table(
        title=title,
        rows=tuple(sorted((row for row in rows if row), key=lambda row: row.same)),
        folded=folded,
        named=True,
    )


def _row(label: str, cells: Sequence[str], code: bool = False) -> Row | None:
    """Make a row; None if no run has a value."""
    if not any(cells):
        return None
    short = tuple(cell if len(cell) <= _WIDTH else f"{cell[:_WIDTH]}…" for cell in cells)
    return Row(label=label, cells=tuple(cell or ABSENT for cell in short), code=code)


def _guard(record: Record) -> str:
    if sentence := doubt(record):
        return sentence
    return {"yes": "the host matches the lock", "refused": "refused"}.get(record.verified, "")


def _options(options: Options) -> str:
    return ", ".join(
        word
        for word in (
            f"network {options.network}",
            f"workspace {options.workspace}",
            "" if options.controls else "controls off",
            "" if options.guard else "guard off",
            f"{options.cpus:g} CPUs" if options.cpus is not None else "",
            f"CPUs {options.cpuset}" if options.cpuset else "",
            f"memory {human_bytes(options.memory)}" if options.memory is not None else "",
            f"GPUs {options.gpus}" if options.gpus else "",
            *options.mounts,
        )
        if word
    )


def _git(record: Record) -> str:
    git = record.git
    if git is None:
        return ""
    parts = (
        git.commit[:12],
        git.branch,
        f"changed ({git.diff_sha256[:12]})" if git.dirty else "",
        f"{git.untracked} untracked" if git.untracked else "",
    )
    return " · ".join(part for part in parts if part)


def _script(record: Record) -> str:
    return f"{record.script.path} · {_digest(record.script.sha256)}" if record.script else ""


def _gpus(record: Record) -> str:
    names = [device.name or device.uuid for device in record.host.gpu.devices] if record.host else []
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def _host(fact: Callable[[Any], str]) -> Callable[[Record], str]:
    return lambda record: fact(record.host) if record.host else ""


def _started(record: Record) -> str:
    return time(record.start)


def _took(record: Record) -> str:
    return duration(record.duration)


_RUN: dict[str, Callable[[Record], str]] = {
    "Problem": lambda record: record.problem,
    "Started": _started,
    "Took": _took,
    "Command": command,
    "Script": _script,
    "Git": _git,
    "Guard": _guard,
    "Options": lambda record: _options(record.options),
    "Image's files": lambda record: record.layers,
    "During the run": lambda record: "; ".join(record.input_changes),
}
_HOST: dict[str, Callable[[Record], str]] = {
    "CPU": _host(lambda host: " · ".join(part for part in (host.cpu.model, host.cpu.level) if part)),
    "CPUs": _host(lambda host: f"{host.cpu.visible or host.cpu.total} of {host.cpu.total}"),
    "Memory": _host(lambda host: human_bytes(host.memory)),
    "Kernel": _host(lambda host: f"{host.kernel} · {host.machine}"),
    "C library": _host(lambda host: host.libc),
    "GPUs": _gpus,
    "Driver": _host(lambda host: host.gpu.driver),
    "libcuda": _host(lambda host: host.gpu.libcuda.version),
}


def _environment(runs: Sequence[Run]) -> Iterator[Row]:
    """Yield what the programs ran in: from the record, and more of it where the lock was kept."""
    records = [run.record for run in runs]
    table: dict[str, list[str]] = {
        "Lock": [f"{record.lock.file} · {_digest(record.lock.sha256)}" for record in records],
        "Image": [_digest(record.image) for record in records],
        "Engine": [_of(run, _engine) for run in runs],
    }
    locked = [_locked(run.lock) for run in runs]
    found = [_frameworks(record) for record in records]
    for facts in (locked, found):
        for label in dict.fromkeys(label for each in facts for label in each):
            table.setdefault(label, [each.get(label, "") for each in facts])
    table["Seed"] = [", ".join(_seeds(record)) for record in records]
    for label, cells in table.items():
        row = _row(label, cells, code=label in ("Lock", "Image"))
        if row:
            yield row


def _engine(record: Record) -> str:
    return " ".join(record.engine.get(key, "") for key in ("name", "version")).strip()


def _locked(lock: Lock | None) -> dict[str, str]:
    if lock is None:
        return {}
    return {
        "OS": f"{lock.os.release} · {len(lock.os.packages)} packages",
        "Python": f"{lock.python.release} · {len(lock.packages)} packages",
        "CUDA": lock.cuda.version if lock.cuda else "",
        **lock.frameworks,
    }


def _frameworks(record: Record) -> dict[str, str]:
    found: dict[str, str] = {}
    for process in record.processes:
        for name, version in process.frameworks.items():
            found.setdefault(name, version)
    return found


def _seeds(record: Record) -> list[str]:
    return list(dict.fromkeys(str(process.seed) for process in record.processes if process.seed is not None))


def _switches(record: Record) -> dict[str, str]:
    found: dict[str, str] = {}
    for process in record.processes:
        for switch in process.switches:
            value = _json(switch.found) if switch.found not in (None, "") else ""
            state = "as set" if switch.ok else "not as set"
            found.setdefault(switch.name, f"{value} ({state})" if value else state)
    return found


def _parameters(record: Record) -> dict[str, str]:
    return {name: f"{_json(each.value)} ({each.source})" for name, each in effective(record.parameters).items()}


def _files(files: Sequence[ReadFile]) -> dict[str, str]:
    return {file.path: _digest(file.sha256) if file.sha256 else "no digest" for file in files}


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _digest(value: str, kind: str = "sha256") -> str:
    return f"{kind}:{value[:12]}…"
