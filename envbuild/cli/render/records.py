"""Records of runs, as a list, as lines about one of them, or as JSON values."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from envbuild.cluster.rank import Rank
from envbuild.core.process_mark import lives
from envbuild.core.text import human_bytes, plain, plural
from envbuild.host.facts import HostFacts
from envbuild.record.consistency import contradictions
from envbuild.record.model import GuardVerdict, Options, Output, Record
from envbuild.record.printed import STREAMS
from envbuild.record.processes import Parameter, ParameterSet, ProcessRecord, ReadFile, effective
from envbuild.record.summary import doubt

SHORT = 10
"""How many characters of an identity are shown: its time in milliseconds."""
_LINES = 40
"""How many parameters or files are shown; the record has all of them."""
_WIDTH = 60
"""Longest value shown."""
_METRICS = 40
"""How many metrics are shown."""


def as_json(found: Record | Sequence[Record]) -> Any:
    """Return a record, or several, as JSON values."""
    return msgspec.to_builtins(found)


def lines(record: Record) -> Iterator[tuple[str, ...]]:
    """Yield label and columns of each line that describes a run."""
    yield "run", record.id, result(record)
    yield "command", command(record), f"in {record.directory}"
    yield "started", local(record.start), f"took {took(record.duration)}" if record.duration is not None else ""
    yield from facts(record)


def facts(record: Record, *, of_job: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield the lines about what was chosen, found and measured.

    Args:
        record: of the run.
        of_job: leave out what is another thing in each rank of a job: its place, the guard's time, process numbers.
    """
    if record.problem:
        yield "problem", record.problem
    for each in contradictions(record):
        yield "edited", f"the record contradicts itself: {each}"
    yield "options", *_options(record.options)
    if record.rank and not of_job:
        yield "rank", *_rank(record.rank)
    if record.gpus:
        yield "gpus", record.gpus, *_visible_gpus(record.verdict)
    yield "lock", record.lock.file, _digest(record.lock.sha256)
    index = f"of index {_digest(record.image_index)}" if record.image_index else ""
    yield "image", _digest(record.image), index, f"files {record.layers}" if record.layers else ""
    if record.script:
        yield "script", record.script.path, _digest(record.script.sha256)
    for path, digest in record.inputs.items():
        yield "input", plain(path), f"blake3:{digest[:12]}…"
    for change in record.input_changes:
        yield "", f"during the run: {plain(change)}"
    if record.git:
        dirty = f"with changes {_digest(record.git.diff_sha256)}" if record.git.dirty else ""
        untracked = f"{record.git.untracked} untracked" if record.git.untracked else ""
        yield "git", record.git.commit[:12], record.git.branch, dirty, untracked
    if record.host:
        yield "host", *_host(record.host)
    if record.emulator:
        yield "emulated", plain(record.emulator).partition(" sha256:")[0], "an emulator computed, and no CPU"
    if record.engine:
        yield "engine", *(record.engine[name] for name in ("name", "version", "storage") if name in record.engine)
    yield from _verdict(record, timed=not of_job)
    for process in record.processes:
        yield "process", *_process(process, numbered=not of_job)
        yield from _refused(process)
    yield from files(record.parameters, record.configs, record.modules, record.objects)
    yield from _results(record)
    if not of_job:
        yield from _bits(record)


def _options(options: Options) -> Iterator[str]:
    yield f"network {options.network}"
    yield f"workspace {options.workspace}"
    yield "" if options.controls else "controls off"
    yield "" if options.guard else "guard off"
    yield f"allow {', '.join(options.allow)}" if options.allow else ""
    yield f"gpus {options.gpus}" if options.gpus else ""
    yield f"{options.cpus:g} CPUs" if options.cpus is not None else ""
    yield f"CPUs {options.cpuset}" if options.cpuset else ""
    yield f"memory {human_bytes(options.memory)}" if options.memory is not None else ""
    yield f"signed by {plain(options.signer)}" if options.signer else ""
    yield "by verify" if options.verification else ""
    for mount in options.mounts:
        yield plain(mount)


def _rank(rank: Rank) -> Iterator[str]:
    """Yield the place of a run among the ranks of its job."""
    yield f"{rank.rank} of {rank.world}"
    yield f"by {rank.launcher}" + (f", job {plain(rank.job)}" if rank.job else "")
    yield f"started again, {plural(rank.restarts, 'time')} before" if rank.restarts else ""
    yield f"on {plain(rank.host)}" + (
        f", number {rank.local} of {rank.local_world} there" if rank.local is not None and rank.local_world else ""
    )
    if rank.world > 1:
        yield "machines compared" if rank.start else "machines not compared"
    yield f"allowed: {plain(', '.join(rank.allowed))}" if rank.allowed else ""
    yield failed_ranks(rank)


def failed_ranks(rank: Rank) -> str:
    """Name the other ranks that had ended with an error, with machine and exit code; empty if there are none."""
    found = []
    for number, code in rank.codes.items():
        if code and number != rank.rank:
            host = rank.hosts[number] if number < len(rank.hosts) else ""
            found.append(f"rank {number}{f' on {plain(host)}' if host else ''} ended with exit {code}")
    return ", ".join(found[:5])


def _verdict(record: Record, *, timed: bool) -> Iterator[tuple[str, ...]]:
    """Yield the guard's word, and each check that failed."""
    verdict = record.verdict
    if verdict is None:
        known = record.state not in ("running", "lost")
        yield "guard", "left no verdict" if known else "no verdict recorded", doubt(record)
        return
    host = doubt(record) or ("the host matches the lock" if verdict.ok else "refused")
    origin = ("as the program left it in a file",) if record.verdict_source == "file" else ()
    duration = (f"{verdict.duration_ms:.0f} ms",) if timed else ()
    yield "guard", host, plural(len(verdict.checks), "check"), *duration, *origin
    for check in verdict.checks:
        if not check.ok:
            allowed = "allowed: " if check.allowed else ""
            yield "", f"{allowed}{plain(check.field)}: locked {plain(check.locked)}, found {plain(check.found)}"


def _visible_gpus(verdict: GuardVerdict | None) -> Iterator[str]:
    """Yield the GPUs that the guard saw in the container."""
    for device in verdict.gpu.devices if verdict and verdict.gpu else ():
        yield plain(" ".join((device.name, device.mig, device.uuid)).replace(" none ", " "))


def _process(process: ProcessRecord, *, numbered: bool) -> Iterator[str]:
    """Yield what the hook did in one Python process."""
    switches = process.switches
    unset = [switch.name for switch in switches if not switch.ok]
    if numbered:
        yield str(process.pid)
    yield ", ".join(f"{name} {version}" for name, version in process.frameworks.items())
    yield f"seed {process.seed}" if process.seed is not None and numbered else ""
    yield f"{len(switches) - len(unset)} of {len(switches)} switches read back as set" if switches else ""
    yield f"not {', '.join(unset)}" if unset else ""


def _refused(process: ProcessRecord) -> Iterator[tuple[str, ...]]:
    """Yield the operations that a framework refused, and the first way out of each."""
    for found in process.refused_ops:
        place = f"{found.file}:{found.line}" if found.file else ""
        yield "refused", plain(found.op), plain(place), plain(found.why)
        for way in found.ways[:1]:
            yield "", f"try: {plain(way)}"


def _host(host: HostFacts) -> Iterator[str]:
    yield host.cpu.model or host.machine
    yield f"{host.cpu.total} CPUs"
    yield human_bytes(host.memory)
    yield f"kernel {host.kernel}"
    for gpu in host.gpu.devices:
        yield f"{gpu.name} (driver {host.gpu.driver})"


def result(record: Record) -> str:
    """Describe how a run ended, and if the guard did not find all as locked."""
    if record.state == "lost":
        return "lost: envbuild was killed"
    if record.state == "running" and record.supervisor and lives(record.supervisor) is None:
        return "running elsewhere, or lost in a restart"
    if record.state != "finished":
        return record.state
    ended = "ok" if record.exit_code == 0 else f"exit {record.exit_code}"
    words = ("out of memory" if record.out_of_memory else ended, doubt(record))
    return ", ".join(word for word in words if word)


def took(seconds: float | None) -> str:
    """Write a duration in at most two units; empty for an unknown one."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds) // 60
    return f"{minutes} min {int(seconds) % 60} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def command(record: Record) -> str:
    """Write the command as a shell takes it."""
    return plain(shlex.join(record.command))


def _digest(sha256: str) -> str:
    return f"sha256:{sha256[:12]}…"


def local(time: str) -> str:
    """Write a recorded time as the caller's clock shows it."""
    return f"{datetime.fromisoformat(time.replace('Z', '+00:00')).astimezone():%Y-%m-%d %H:%M:%S}"


def files(
    sets: Sequence[ParameterSet], configs: Sequence[ReadFile], modules: Sequence[ReadFile], objects: Sequence[ReadFile]
) -> Iterator[tuple[str, ...]]:
    """Yield label and columns of each line: parameters, those that were given first, then files."""
    yield from _parameters(effective(sets))
    yield from _files("config", configs)
    if modules:
        yield "modules", plural(len(modules), "file"), *_some(modules)
    yield from _files("object", objects)


def _parameters(found: dict[str, Parameter]) -> Iterator[tuple[str, ...]]:
    rows = [(plain(name), _value(each), each.source) for name, each in found.items()]
    rows.sort(key=lambda row: row[2] == "default")
    shown = rows[:_LINES]
    widths = [max((len(row[column]) for row in shown), default=0) for column in (0, 1)]
    for name, value, source in shown:
        yield "parameter", f"{name:<{widths[0]}}", f"{value:<{widths[1]}}", source
    if len(rows) > len(shown):
        yield "", f"{len(rows) - len(shown)} more: envbuild show RUN --json"


def _files(label: str, files: Sequence[ReadFile]) -> Iterator[tuple[str, ...]]:
    width = max((len(plain(file.path)) for file in files[:_LINES]), default=0)
    for file in files[:_LINES]:
        yield label, f"{plain(file.path):<{width}}", f"sha256:{file.sha256[:12]}…" if file.sha256 else "no digest"
    if len(files) > _LINES:
        yield "", f"{len(files) - _LINES} more: envbuild show RUN --json"


def _some(files: Sequence[ReadFile]) -> Iterator[str]:
    yield ", ".join(plain(file.path) for file in files[:5]) + (", …" if len(files) > 5 else "")


def _value(parameter: Parameter) -> str:
    value = parameter.value
    text = plain(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _results(record: Record) -> Iterator[tuple[str, ...]]:
    """Yield results: metrics and outputs."""
    yield from _metrics(record)
    width = max((len(plain(output.path)) for output in record.outputs), default=0)
    for output in record.outputs:
        digest = f"sha256:{output.sha256[:12]}…" if output.sha256 else "unreadable"
        size = f"{human_bytes(output.size):>7}"
        yield "output", f"{plain(output.path):<{width}}", output.change, size, digest, _tensors(output)
    for path in record.deleted:
        yield "deleted", plain(path)
    for stream, found in (record.printed or {}).items():
        yield "printed", plain(found.phrase(STREAMS[stream]))


def _bits(record: Record) -> Iterator[tuple[str, ...]]:
    """Yield how a run agrees with an earlier one."""
    if record.same_bits_as:
        yield "files" if record.not_compared else "bits", f"same as run {record.same_bits_as}"
    for phrase in record.not_compared:
        yield "", f"not compared: {plain(phrase)}"
    if record.same_tensors_in:
        yield "", f"same tensors in other bytes: {plain(', '.join(record.same_tensors_in))}"
    if record.differs_from:
        yield "bits", f"differ from run {record.differs_from} in: {plain(', '.join(record.differs_in))}"
    if record.judged:
        yield "verify", f"found its runs {record.judged}"


def _tensors(output: Output) -> str:
    """Describe how many tensors a saved model has, or why they are not known."""
    if output.unread:
        return f"tensors not read: {plain(output.unread)}"
    return plural(len(output.tensors), "tensor") if output.tensors else ""


def _metrics(record: Record) -> Iterator[tuple[str, ...]]:
    """Yield the last value of each metric."""
    shown = [(plain(name), points) for name, points in record.metrics.items() if points][:_METRICS]
    width = max((len(name) for name, _ in shown), default=0)
    values = [str(points[-1][1]) for _, points in shown]
    wide = max(map(len, values), default=0)
    for (name, points), value in zip(shown, values, strict=True):
        yield "metric", f"{name:<{width}}", f"{value:<{wide}}", f"step {points[-1][0]}", plural(len(points), "value")
    if len(record.metrics) > len(shown):
        yield "", f"{len(record.metrics) - len(shown)} more: envbuild show RUN --json"
