"""One program run several times as if each time were the first: in copies of the project, side by side or in turn.

Runs side by side are pinned to CPUs of their own, as many as the lock has threads, so that none takes time from
another and all see the same number. A run alone is not pinned: it is what ``envbuild run`` starts.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

import msgspec

from envbuild.core.fs import folder_below, naming, read_regular
from envbuild.core.process_mark import lives, mark
from envbuild.engine.protocol import ContainerRunner
from envbuild.lockfile.discovery import state_path
from envbuild.lockfile.layout import HOST_NAME, VARIED_HOST
from envbuild.lockfile.model import Lock
from envbuild.record import history
from envbuild.record.model import Record
from envbuild.record.printed import Stream
from envbuild.runs.execute import run
from envbuild.runs.project_copy import Aging, Plan, asks_for, make_copy, remove_copy
from envbuild.runs.request import RunEngine, RunRequest, StreamReader
from envbuild.runs.time_limit import TimeLimit
from envbuild.runs.tracing import trace_variables

TAIL = 8 << 10
"""Bytes of standard error that are kept of each run, to show why it failed."""
PRINTED = 32 << 20
"""Bytes of each stream that are kept, to show where it differs; the digest is of all of it."""
KEPT = 1 << 30
"""Bytes of one run's outputs that are kept when runs differ."""
AGE = 86_413
"""Seconds by which files of a copy are older than those of the copy before, where runs are varied: about a day."""
Variation = Literal[
    "listings", "environment", "times", "inodes", "host", "load", "turns", "order of times", "cpus", "pids", "memory"
]
"""Something that no result may depend on: order of directory listings and of the environment, files' times of change,
host name, which thread begins first, which file is the newest, CPUs in sight, process ids, what is in memory that
nothing wrote."""
FREE: frozenset[Variation] = frozenset(("listings", "environment", "times", "inodes", "host", "load", "turns"))
"""What costs no time to vary; which file is the newest does where tools make again what is older than its sources."""
ALL: frozenset[Variation] = FREE | {"order of times", "cpus", "pids", "memory"}
STRICT = ("process ids", "memory that nothing wrote")
"""What of ``variations`` is always there if all that can be is varied, and never otherwise."""
_IN_PROCESS: tuple[Variation, ...] = ("listings", "environment", "load", "turns", "pids", "memory")
"""What the hook varies (``ENVBUILD_VARY``)."""
_SKIPPED_PIDS = 3
"""Numbers of processes that the program of each further run is later by; as many as the hook skips for children."""
PERTURB = "MALLOC_PERTURB_"
FILLS = (0x3F, 0x40, 0xBF, 0xC0)
"""What memory that nothing wrote is filled with, a byte: numbers that change sums, and that most programs bear.

Repeated, it is 4.8e-4, 32.5, -4.8e-4 or -32.5 in double precision, 0.75, 3, -0.75 or -3 in single precision.
"""
OUTPUTS, OUTSIDE = "outputs", "outside"
"""Folders of files that a run left in its project, and of copies of others."""
_OWNER, _LONGEST_MARK = ".owner", 200
"""File in a verification's folder with the mark of its process."""
_JOB, _LONGEST_NUMBER = ".job", 40
"""File in it with the number of the job whose tasks work there."""
_PATIENCE = 0.25
"""Seconds that interrupted programs have to end by themselves."""


@dataclass(kw_only=True)
class Output:
    """What one run prints; a ``Watcher``.

    Attributes:
        stdout, stderr: the files that the streams are written to, as far as they are kept.
        digests: of all of standard output and of all of standard error; the run feeds them (``reader``).
        tail: the end of standard error.
    """

    stdout: Path
    stderr: Path
    digests: tuple[StreamReader, StreamReader]
    tail: bytes = b""
    _left: list[int] = field(default_factory=lambda: [PRINTED, PRINTED])
    _send: Callable[[str], None] | None = None

    def started(self, send: Callable[[str], None]) -> None:
        """Hear how to send signals; see ``Watcher``."""
        self._send = send

    def write(self, number: int, data: memoryview) -> None:
        """Take what the program writes; see ``Watcher``."""
        at = 1 if number == 2 else 0
        if at:
            self.tail = (self.tail + bytes(data))[-TAIL:]
        if self._left[at]:
            with (self.stderr if at else self.stdout).open("ab") as stream:
                stream.write(data[: self._left[at]])
            self._left[at] = max(0, self._left[at] - len(data))

    def reader(self, stream: Stream) -> StreamReader:
        """Return what digests a stream; see ``RunRequest.printed``."""
        return self.digests[stream == "stderr"]

    def send(self, name: str) -> None:
        """Send a signal to the program; before it started nothing happens."""
        if self._send is not None:
            self._send(name)


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """One run.

    Attributes:
        number: from 0, in the order of their start.
        record: its record.
        output: what it printed.
        folder: what it worked in; a copy is in ``project`` below it.
        in_place: it worked in the project itself.
    """

    number: int
    record: Record
    output: Output
    folder: Path
    in_place: bool

    @property
    def files(self) -> Path | None:
        """Where its outputs are; None if the next run may have replaced them."""
        return None if self.in_place else self.folder / "project"

    @property
    def outside(self) -> Path:
        """Where copies of its files outside the project are, each under its path in the container."""
        return self.folder / OUTSIDE

    def discard(self) -> None:
        """Remove the copy and what was printed."""
        remove_copy(self.folder)

    def keep(self, target: Path) -> tuple[Path, ...]:
        """Move the files that the run made to folders below ``target`` and discard the rest.

        Returns:
            The folders: ``outputs`` with those of the project, ``outside`` with copies of others, each under its path
            in the container; only those that got files, and none if they are too large for that.
        """
        if self.files is None or sum(output.size for output in self.record.outputs) > KEPT:
            return ()
        kept = (
            _moved((each.path for each in self.record.outputs), self.files, target / OUTPUTS),
            _moved((each.path.lstrip("/") for each in self.record.outside), self.outside, target / OUTSIDE),
        )
        self.discard()
        return tuple(folder for folder in kept if folder is not None)


def _moved(paths: Iterable[str], source: Path, target: Path) -> Path | None:
    """Move regular files to another folder of the same file system; return it, or None if there were none."""
    found = False
    for path in paths:
        *above, name = path.split("/")
        with suppress(OSError), folder_below(source, *above) as one:
            if stat.S_ISREG((one / name).lstat().st_mode):
                target.mkdir(parents=True, exist_ok=True)
                with folder_below(target, *above, make=True) as two:
                    (one / name).rename(two / name)
                    found = True
    return target if found else None


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """What to repeat and how.

    Attributes:
        request: the run; what differs from run to run is added.
        slots: the CPUs of each run that may continue at once, as ``cpuset`` takes them; empty for all CPUs.
        copy: what a copy of the project holds; None to work in the project itself.
        folder: for copies and logs; on the project's file system.
        digest: makes what takes a stream, ``stdout`` or ``stderr``, of a run that starts now.
        values: bytes of parameter values that traces keep, of all runs: profilers see that they are read.
        trace: leave a step trace.
        limit: how long a run may take; the first one that ends well sets it unless it was asked for.
        vary: what each run but the first gets otherwise; see ``variations``.
        number: each run is varied as the one of this number would be; None for its own.
        apart: seconds between the starts of two runs at least.
    """

    request: RunRequest
    slots: tuple[str, ...]
    copy: Plan | None
    folder: Path
    digest: Callable[[str], StreamReader]
    values: int = 0
    trace: bool = True
    vary: frozenset[Variation] = frozenset()
    number: int | None = None
    apart: float = 0.0
    limit: TimeLimit = field(default_factory=TimeLimit)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Paths of declared inputs."""
        return tuple(entry.path.strip("/") for entry in self.request.lock.inputs)


APART = 1.1
"""Seconds: runs that start together read the same second, load and free memory, and are equal by luck."""


@dataclass(kw_only=True)
class Pace:
    """Keeps the starts of runs apart.

    Attributes:
        apart: seconds.
    """

    apart: float
    _next: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def delay(self, now: float) -> float:
        """Return the seconds after which a run may start that is ready now, and keep that moment for it."""
        with self._lock:
            start = max(now, self._next)
            self._next = start + self.apart
        return start - now


def slots_for(lock: Lock, runs: int, jobs: int | None, cpus: Collection[int]) -> tuple[str, ...]:
    """Choose how many runs continue at once, and on which CPUs.

    Args:
        lock: its threads are the CPUs that one run gets.
        runs: how many there are.
        jobs: how many at once, as asked; None for as many as fit. Runs with GPUs then go in turn.
        cpus: numbers of the CPUs there are.
    """
    threads, numbers = lock.determinism.threads, sorted(cpus)
    fitting = max(1, len(numbers) // threads)
    if jobs is None:
        jobs = 1 if lock.hardware.gpu is not None else fitting
    jobs = min(jobs, runs)
    if jobs == 1:
        return ("",)
    if jobs > fitting:  # more than fit, as asked: all share all CPUs
        return ("",) * jobs
    return tuple(",".join(map(str, numbers[at * threads : (at + 1) * threads])) for at in range(jobs))


def visible_cpus(engine: ContainerRunner) -> tuple[int, ...]:
    """Return the CPUs that containers may be pinned to; one unknown CPU for an engine elsewhere."""
    return tuple(sorted(os.sched_getaffinity(0))) if engine.is_local() else (0,)


def repeat(plan: Repeat, count: int, engine: RunEngine, each: Callable[[Repeated], None]) -> None:
    """Run ``count`` times, or until the program fails: what continues then is ended well, nothing more is started.

    Args:
        plan: what and how.
        count: how many times.
        engine: runs the containers.
        each: called in this thread with each run that ended, in the order of their ends.

    Raises:
        EngineError: the engine could not run the container.
        UsageError: what is to run does not exist.
        KeyboardInterrupt: interrupted; the programs were signalled, and given time to end.
    """
    free: SimpleQueue[str] = SimpleQueue()
    for cpuset in plan.slots:
        free.put(cpuset)
    active: dict[int, Output] = {}
    stop = threading.Event()
    pace = Pace(apart=plan.apart)
    pool = ThreadPoolExecutor(len(plan.slots), thread_name_prefix="run")
    left = {pool.submit(_one, plan, number, engine, free, active, stop, pace) for number in range(count)}
    try:
        for future in _as_they_end(left):
            found = future.result()
            if found is not None:
                each(found)
    except BaseException:
        stop.set()
        _end(left, active)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _as_they_end(left: set[Future[Repeated | None]]) -> Iterator[Future[Repeated | None]]:
    """Yield runs as they end. Waiting is in short pieces, between which signals are heard."""
    while left:
        done, _ = wait(left, timeout=0.2, return_when=FIRST_COMPLETED)
        for future in done:
            left.remove(future)
            yield future


def _one(
    plan: Repeat,
    number: int,
    engine: RunEngine,
    free: SimpleQueue[str],
    active: dict[int, Output],
    stop: threading.Event,
    pace: Pace,
) -> Repeated | None:
    """Make a copy and run once; None if no more runs are wanted."""
    cpuset = free.get()
    folder = plan.folder / str(number)
    try:
        if stop.is_set():
            return None
        folder.mkdir(parents=True)
        output = active[number] = Output(
            stdout=folder / "stdout",
            stderr=folder / "stderr",
            digests=(plan.digest("stdout"), plan.digest("stderr")),
        )
        request = _request(plan, number, folder, cpuset, output)
        stop.wait(pace.delay(time.monotonic()))
        if stop.is_set():
            remove_copy(folder)
            return None
        record = run(request, engine)
        if record.exit_code != 0 or record.timed_out is not None:
            stop.set()
        elif record.duration is not None:
            plan.limit.learn(record.duration)
    except BaseException:
        stop.set()
        remove_copy(folder)
        raise
    finally:
        active.pop(number, None)
        free.put(cpuset)
    return Repeated(number=number, record=record, output=output, folder=folder, in_place=plan.copy is None)


def _request(plan: Repeat, number: int, folder: Path, cpuset: str, output: Output) -> RunRequest:
    """Return the request of one run, in a copy of its own."""
    copy_project(plan, number, folder)
    return varied_request(plan, number, folder, cpuset, output)


def copy_project(plan: Repeat, number: int, folder: Path) -> None:
    """Make the copy of the project that one run works in: ``project`` below its folder. Nothing for runs in place."""
    if plan.copy is not None:
        varied = _varied(plan, number)
        backwards = "inodes" in plan.vary and varied % 2 == 1
        make_copy(plan.copy, folder / "project", plan.inputs, _aging(plan.vary, varied), backwards=backwards)


def varied_request(plan: Repeat, number: int, folder: Path, cpuset: str, output: Output) -> RunRequest:
    """Return the request of one run in its copy of the project, with what differs from run to run.

    Args:
        plan: what is repeated.
        number: of the run, from 0.
        folder: the run's; see ``copy_project``.
        cpuset: CPUs of this run; empty for those of the plan.
        output: takes what it prints.
    """
    request = msgspec.structs.replace(
        plan.request,
        watcher=output,
        printed=output.reader,
        cpuset=cpuset or plan.request.cpuset,
        copies=folder / OUTSIDE,
        limit=plan.limit,
    )
    varied = _varied(plan, number)
    if plan.copy is not None:
        mounts = (*plan.copy.mounts, *request.mounts)
        request = msgspec.structs.replace(request, workspace=folder / "project", mounts=mounts)
    variables = dict(request.own_variables)
    if plan.trace:
        variables |= trace_variables(plan.values)
    inside = ",".join(each for each in _IN_PROCESS if each in plan.vary)
    if inside:  # the first run too, in which it varies nothing: so all have the same variables
        variables["ENVBUILD_VARY"] = f"{varied}:{inside}"
        if "memory" in plan.vary:
            variables |= filled(FILLS[(varied - 1) % len(FILLS)]) if varied else {PERTURB: "0"}
    if "pids" in plan.vary:
        request = msgspec.structs.replace(request, skipped_pids=varied * _SKIPPED_PIDS)
    if "host" in plan.vary and varied:
        digits = len(HOST_NAME) - len(VARIED_HOST)
        name = f"{VARIED_HOST}{varied % 10**digits:0{digits}}"
        request = msgspec.structs.replace(request, hostname=name)
    if "cpus" in plan.vary and not varied % 2:
        # the others have as many CPUs as the lock has threads
        request = msgspec.structs.replace(request, cpuset=plan.request.cpuset)
    return msgspec.structs.replace(request, own_variables=variables)


def filled(byte: int) -> dict[str, str]:
    """Return the variables by which the C library fills memory that it gives; it writes the complement (mallopt(3))."""
    return {PERTURB: f"{byte ^ 0xFF}"}


def _varied(plan: Repeat, number: int) -> int:
    return number if plan.number is None else plan.number


def _aging(vary: frozenset[Variation], number: int) -> Aging:
    """Return how modification times are set in the copy of one run."""
    return Aging(seconds=AGE * number if "times" in vary else 0, reverse="order of times" in vary and number % 2 == 1)


def varied(copy: Plan | None, *, strict: bool) -> frozenset[Variation]:
    """Return what is varied between runs; without ``strict``, some things only if sources ask for them."""
    if strict:
        return ALL
    return FREE | asks_for(copy) if copy is not None else FREE


def variations(plan: Repeat) -> tuple[str, ...]:
    """Return what is another one in each run, a phrase each; varied by us or by what every start brings."""
    if not plan.vary:
        return ()
    return (
        "order of directory listings",
        *(("times of change", "order of inode numbers", "folder on the host") if plan.copy is not None else ()),
        *(("order of times of change",) if "order of times" in plan.vary and plan.copy is not None else ()),
        *(("number of visible CPUs",) if "cpus" in plan.vary and any(plan.slots) else ()),
        *(name for name, each in zip(STRICT, ("pids", "memory"), strict=True) if each in plan.vary),
        "host name", "load that is reported", "order of the environment", "which thread begins first",
        "address layout", "start time",
    )  # fmt: skip


def _end(left: Collection[Future[Repeated | None]], active: dict[int, Output]) -> None:
    """End the programs that still run: by a signal first, killed if they continue."""
    for signal in ("SIGINT", "SIGKILL"):
        for output in list(active.values()):
            with suppress(Exception):  # the container may just be gone
                output.send(signal)
        _, going_on = wait(left, timeout=_PATIENCE)
        if not going_on:
            return


def scratch_folder(project: Path, identity: str) -> Path:
    """Name the folder for copies and logs of one verification; raises ``UsageError`` if a link is in its path."""
    return state_path(project, "verify", identity)


def make_scratch_folder(folder: Path) -> None:
    """Make the folder that ``scratch_folder`` has named, and remove those of verifications that were killed.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(parents=True)
    with naming(folder / _OWNER):
        (folder / _OWNER).write_text(mark(), encoding="ascii")
    with suppress(OSError):  # another user's, or being removed
        for other in folder.parent.iterdir():
            if other != folder and not other.is_symlink() and _was_killed(other):
                remove_copy(other)


def keep_for_job(folder: Path, number: str) -> None:
    """Keep a verification's folder as long as a job goes on, whatever becomes of this process: its tasks work there."""
    (folder / _JOB).write_text(number, encoding="ascii")


def _was_killed(folder: Path) -> bool:
    """Whether the process that has made a verification's folder is known to be gone; another machine's may go on.

    And with it the job whose tasks use it.
    """
    with suppress(OSError, UnicodeDecodeError):
        if lives(read_regular(folder / _OWNER, _LONGEST_MARK, follow=False).decode("ascii")) is False:
            return not _job_goes_on(folder)
    return False


def _job_goes_on(folder: Path) -> bool:
    try:
        number = read_regular(folder / _JOB, _LONGEST_NUMBER, follow=False).decode("ascii")
    except FileNotFoundError:
        return False
    from envbuild.cluster.queue import goes_on

    return goes_on(number)


def forget_values(project: Path, records: Sequence[Record], limit: int) -> None:
    """Remove the step traces of all runs but the first, if they are larger than ``limit`` bytes: they are equal."""
    for record in records[1:]:
        for path in (history.process_folder(project, record.id)).glob("trace-*.bin"):
            if path.lstat().st_size > limit:
                path.unlink()


def clear(folder: Path) -> None:
    """Remove the folder of a verification, and the one above it if nothing else is in it."""
    if folder.is_dir():
        remove_copy(folder)
    with suppress(OSError):
        folder.parent.rmdir()
