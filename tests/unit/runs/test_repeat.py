"""One program several times: where, on which CPUs, what is kept of each run, and how it ends early."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.process_mark import mark
from envbuild.engine.protocol import ContainerExit, ContainerRun, GpuSupport
from envbuild.errors import EngineError
from envbuild.lockfile import model as locks
from envbuild.lockfile.hardware import Gpu, GpuDevice
from envbuild.lockfile.model import Determinism, Hardware, Lock
from envbuild.record import history
from envbuild.record.printed import Printed
from envbuild.runs.project_copy import plan_copy
from envbuild.runs.repeat import (
    ALL,
    FREE,
    STRICT,
    Output,
    Pace,
    Repeat,
    Repeated,
    clear,
    forget_values,
    keep_for_job,
    make_scratch_folder,
    repeat,
    scratch_folder,
    slots_for,
    variations,
)
from envbuild.runs.request import RunRequest
from envbuild.runtime.hook.vary import SKIPPED_PIDS
from tests.support.marks import mark_of_ended
from tests.support.runtime import make_lock


class Pieces:
    """Keeps a stream as it comes."""

    def __init__(self) -> None:
        self.data = b""

    def feed(self, data: memoryview) -> None:
        self.data += bytes(data)

    def result(self) -> Printed:
        return Printed(lines=self.data.count(b"\n"), sha256=hashlib.sha256(self.data).hexdigest())


Action = Callable[[ContainerRun, Path], int]


class Engine:
    """Does ``action`` with each request and its workspace instead of running a container."""

    def __init__(self, action: Action) -> None:
        self.action = action
        self.asked: list[ContainerRun] = []
        self.busy = self.most = 0
        self.turn = threading.Lock()

    def run_container(self, request: ContainerRun) -> ContainerExit:
        with self.turn:
            self.asked.append(request)
            self.busy += 1
            self.most = max(self.most, self.busy)
        try:
            folder = next(mount.source for mount in request.mounts if mount.target == "/workspace")
            return ContainerExit(self.action(request, folder))
        finally:
            with self.turn:
                self.busy -= 1

    def gpu_support(self) -> GpuSupport:
        return ""

    def is_local(self) -> bool:
        return True

    def machine(self) -> str:
        return "x86_64"

    def describe(self) -> Mapping[str, str]:
        return {}


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git is another process; its facts have their own test."""
    monkeypatch.setattr("envbuild.record.git.git_state", lambda project: None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a script and an input."""
    (tmp_path / "data").mkdir()
    (tmp_path / "train.py").write_text("print()")
    return tmp_path


def a_plan(project: Path, slots: tuple[str, ...] = ("",), in_place: bool = False, **changes: Any) -> Repeat:
    """A plan for the project's script."""
    lock = make_lock(inputs=(locks.Input(path="data", blake3="0" * 64, files=0, bytes=0),), packages=())
    path = project / lock.file_name
    path.write_bytes(locks.dumps(lock))
    request = RunRequest(
        lock_path=path, lock=lock, image="t:1", config="ab" * 32, arguments=("train.py",), directory=project,
        verification="V", tensors=False,
    )  # fmt: skip
    copy = None if in_place else plan_copy(project, ["data"])
    return Repeat(
        request=request,
        slots=slots,
        copy=copy,
        folder=scratch_folder(project, "V"),
        digest=lambda stream: Pieces(),
        **changes,
    )


def collect(plan: Repeat, count: int, engine: Engine) -> list[Repeated]:
    """Run, and return what ended."""
    found: list[Repeated] = []
    repeat(plan, count, engine, found.append)
    return sorted(found, key=lambda each: each.number)


# Where


def test_each_run_finds_the_project_as_it_was(project: Path) -> None:
    """A file that one run leaves is not there for the next, and never comes into the project; its record does."""

    def work(request: ContainerRun, folder: Path) -> int:
        assert not (folder / "out.txt").exists()
        (folder / "out.txt").write_text("x")
        (folder / "train.py").write_text("overwritten")
        return 0

    found = collect(a_plan(project), 3, Engine(work))
    assert [each.number for each in found] == [0, 1, 2]
    assert (project / "train.py").read_text() == "print()"
    assert not (project / "out.txt").exists()
    for each in found:
        assert [(output.path, output.change) for output in each.record.outputs] == [
            ("out.txt", "created"), ("train.py", "changed"),
        ]  # fmt: skip
        assert each.record.options.verification == "V"
    assert {record.id for record in history.list_runs(project)} == {each.record.id for each in found}
    assert len({each.record.recipe for each in found}) == 1


def test_inputs_come_from_the_project_itself(project: Path) -> None:
    """Data is mounted from where it is, read-only, over the copy."""
    engine = Engine(lambda request, folder: 0)
    collect(a_plan(project), 1, engine)
    (data,) = [mount for mount in engine.asked[0].mounts if mount.target == "/workspace/data"]
    assert (data.source, data.read_only) == (project / "data", True)


def test_in_place_the_project_is_mounted(project: Path) -> None:
    """Without copies the runs work in the project, and each finds what the one before left."""
    seen = []

    def work(request: ContainerRun, folder: Path) -> int:
        seen.append((folder, (folder / "out.txt").exists()))
        (folder / "out.txt").write_text("x")
        return 0

    found = collect(a_plan(project, in_place=True), 2, Engine(work))
    assert seen == [(project, False), (project, True)]
    assert [each.files for each in found] == [None, None]


def test_traces_and_values_are_asked_for(project: Path) -> None:
    """Every run reads the same, as a profiler in the program sees that; none of this is in the record or the recipe."""
    engine = Engine(lambda request, folder: 0)
    found = collect(a_plan(project, values=1000), 3, engine)
    traces = [request.environment.get("ENVBUILD_TRACE") for request in engine.asked]
    values = [request.environment.get("ENVBUILD_TRACE_VALUES") for request in engine.asked]
    assert (traces, values) == (["1"] * 3, ["1000"] * 3)
    assert not any(name.startswith("ENVBUILD") for each in found for name in each.record.environment)
    assert len({each.record.recipe for each in found}) == 1
    clear(scratch_folder(project, "V"))
    engine = Engine(lambda request, folder: 0)
    collect(a_plan(project, trace=False), 1, engine)
    assert "ENVBUILD_TRACE" not in engine.asked[0].environment


# On which CPUs


@pytest.mark.parametrize(
    ("threads", "runs", "jobs", "cpus", "slots"),
    [
        (1, 3, None, range(2), ("0", "1")),
        (2, 3, None, range(8), ("0,1", "2,3", "4,5")),
        (2, 9, None, (1, 3, 5, 7, 9), ("1,3", "5,7")),
        (4, 3, None, range(2), ("",)),
        (2, 3, 1, range(8), ("",)),
        (2, 3, 2, range(8), ("0,1", "2,3")),
        (2, 3, 3, range(4), ("", "", "")),
        (1, 2, 9, range(64), ("0", "1")),
    ],
)
def test_runs_side_by_side_have_cpus_of_their_own(
    threads: int, runs: int, jobs: int | None, cpus: range, slots: tuple[str, ...]
) -> None:
    """As many as fit, each with as many CPUs as the lock has threads; one alone, or more than fit, are not pinned."""
    lock = make_lock(determinism=Determinism(level="ops", seed=1, threads=threads))
    assert slots_for(lock, runs, jobs, cpus) == slots


def test_runs_with_gpus_go_in_turn() -> None:
    """Two runs on one GPU would take its memory from each other."""
    lock: Lock = make_lock(hardware=Hardware(gpu=Gpu(devices=(GpuDevice(),))))
    assert slots_for(lock, 3, None, range(64)) == ("",)
    assert len(slots_for(lock, 3, 2, range(64))) == 2


def test_no_more_run_at_once_than_there_are_slots(project: Path) -> None:
    """Each slot has one run at a time, on its CPUs; which CPUs does not change the recipe."""

    both = threading.Barrier(2)

    def work(request: ContainerRun, folder: Path) -> int:
        if len(engine.asked) <= 2:
            both.wait(60)  # the first run continues only with the second
        time.sleep(0.05)
        return 0

    engine = Engine(work)
    found = collect(a_plan(project, slots=("0", "1")), 5, engine)
    assert engine.most == 2
    assert {request.cpuset for request in engine.asked} == {"0", "1"}
    assert len({each.record.recipe for each in found}) == 1


# What is kept


def test_both_streams_are_digested_and_kept_in_part(tmp_path: Path) -> None:
    """All of a stream is in its digest, the beginning of it in a file; of standard error the end is available too."""
    out, err = Pieces(), Pieces()
    output = Output(stdout=tmp_path / "out", stderr=tmp_path / "err", digests=(out, err), _left=[6, 1 << 20])
    for piece in (b"one", b"\ntwo\n", b"", b"three"):
        output.write(1, memoryview(piece))
        output.reader("stdout").feed(memoryview(piece))
    output.write(2, memoryview(b"x" * 9000 + b"end"))
    output.reader("stderr").feed(memoryview(b"x" * 9000 + b"end"))
    assert out.data == b"one\ntwo\nthree"
    assert output.stdout.read_bytes() == b"one\ntw"
    assert err.data == output.stderr.read_bytes() == b"x" * 9000 + b"end"
    assert (len(output.tail), output.tail[-3:]) == (8192, b"end")


def test_outputs_can_be_kept(project: Path, tmp_path: Path) -> None:
    """What a run left is moved where it is asked to, and the copy goes; too much is not kept."""

    def work(request: ContainerRun, folder: Path) -> int:
        (folder / "a").mkdir()
        (folder / "a/out.txt").write_text("x")
        return 0

    (found,) = collect(a_plan(project), 1, Engine(work))
    assert found.keep(project / "kept") == (project / "kept/outputs",)
    assert [path.name for path in (project / "kept").rglob("*")] == ["outputs", "a", "out.txt"]
    assert not found.folder.exists()
    clear(scratch_folder(project, "V"))
    assert not (project / ".envbuild/verify").exists()


def test_traces_of_equal_runs_are_kept_once(project: Path) -> None:
    """Large traces of all runs but the first are removed; small ones stay."""
    found = collect(a_plan(project), 3, Engine(lambda request, folder: 0))
    paths = [history.run_folder(project, each.record.id) / "process" / "trace-main.bin" for each in found]
    for path, size in zip(paths, (100, 100, 10), strict=True):
        path.write_bytes(b"x" * size)
    forget_values(project, [each.record for each in found], 50)
    assert [path.exists() for path in paths] == [True, False, True]


# How it ends early


def test_a_failing_program_is_not_run_again(project: Path) -> None:
    """Once a run failed nothing more is started."""
    engine = Engine(lambda request, folder: 3)
    found = collect(a_plan(project), 5, engine)
    assert [each.record.exit_code for each in found] == [3]
    assert len(engine.asked) == 1


def test_an_engine_that_fails_ends_it(project: Path) -> None:
    """The engine's error comes through, nothing more is started, and no copy stays."""

    def work(request: ContainerRun, folder: Path) -> int:
        raise EngineError("it broke")

    engine = Engine(work)
    with pytest.raises(EngineError, match="it broke"):
        collect(a_plan(project), 5, engine)
    assert len(engine.asked) == 1
    assert list(scratch_folder(project, "V").iterdir()) == []


def test_interrupted_programs_are_reported(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches every program that runs, as a signal; the exception comes through once they have ended."""
    monkeypatch.setattr("envbuild.runs.repeat._PATIENCE", 600)  # one that ends is not killed, however busy the machine
    signals: list[str] = []
    begun = threading.Event()

    def work(request: ContainerRun, folder: Path) -> int:
        reported = threading.Event()

        def send(name: str) -> None:
            signals.append(name)
            reported.set()

        assert request.watcher is not None
        request.watcher.started(send)
        if len(engine.asked) == 1:
            return 0
        begun.set()
        assert reported.wait(60)
        return 130

    engine = Engine(work)

    def interrupt(found: Repeated) -> None:
        assert begun.wait(60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repeat(a_plan(project), 3, engine, interrupt)
    assert signals == ["SIGINT"]
    assert len(engine.asked) == 2
    assert [record.exit_code for record in history.list_runs(project)] == [130, 0]


def test_each_run_but_the_first_is_varied(project: Path) -> None:
    """Listings, times of change, and in the strict way also the host name and the CPUs in sight."""
    times = []

    def work(request: ContainerRun, folder: Path) -> int:
        times.append((folder / "train.py").stat().st_mtime)
        return 0

    engine = Engine(work)
    plan = a_plan(project, slots=("0",), vary=ALL)
    collect(plan, 3, engine)
    assert [request.environment.get("ENVBUILD_VARY") for request in engine.asked] == [
        *(f"{number}:listings,environment,load,turns,pids,memory" for number in (0, 1, 2)),
    ]
    assert [request.environment.get("MALLOC_PERTURB_") for request in engine.asked] == ["0", "192", "191"]
    assert [request.hostname for request in engine.asked] == ["envbuild", "envbu001", "envbu002"]
    assert [request.cpuset for request in engine.asked] == ["", "0", ""]
    assert [request.skipped_pids for request in engine.asked] == [number * SKIPPED_PIDS for number in (0, 1, 2)]
    assert len(set(times)) == 3
    assert {
        *STRICT,
        "number of visible CPUs",
        "host name",
        "order of inode numbers",
        "which thread begins first",
    } < set(variations(plan))
    free = a_plan(project, vary=FREE)
    assert "host name" in variations(free)
    assert {*STRICT}.isdisjoint(variations(free))
    assert variations(free)[0] == "order of directory listings"
    assert variations(a_plan(project)) == ()


def test_runs_do_not_start_together() -> None:
    """Runs that are ready at once start one after another, so that none reads the same second as another."""
    pace = Pace(apart=1.5)
    assert [pace.delay(10.0), pace.delay(10.0), pace.delay(12.0), pace.delay(20.0)] == [0.0, 1.5, 1.0, 0.0]
    assert [Pace(apart=0.0).delay(10.0) for _ in range(2)] == [0.0, 0.0]


@pytest.mark.subprocess
def test_the_folder_of_a_killed_verification_goes(tmp_path: Path) -> None:
    """The next one removes it; that of one that goes on, here or on another machine, stays."""
    ended = mark_of_ended()
    marks = {"killed": ended, "alive": mark(), "elsewhere": f"x {ended}", "unknown": "", "binary": "\udcff"}
    for name, text in marks.items():
        copy = scratch_folder(tmp_path, name) / "0" / "project"
        copy.mkdir(parents=True)
        (copy / "t.py").touch()
        if text:
            (copy.parents[1] / ".owner").write_bytes(os.fsencode(text))
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / ".owner").write_text(ended)
    scratch_folder(tmp_path, "link").symlink_to(tmp_path / "target")
    make_scratch_folder(scratch_folder(tmp_path, "own"))
    found = sorted(path.name for path in (tmp_path / ".envbuild" / "verify").iterdir())
    assert found == ["alive", "binary", "elsewhere", "link", "own", "unknown"]
    assert (tmp_path / "target" / ".owner").exists()


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("answer", "stays"),
    [
        ("echo 7_1", True),
        ("true", False),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", False),
        ("echo 'Unable to contact slurm controller' >&2; exit 1", True),
        (None, True),
    ],
    ids=["goes on", "has ended", "forgotten", "no answer", "no squeue"],
)
def test_the_folder_of_a_killed_verification_stays_while_its_job_works_there(
    answer: str | None, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has submitted it may be gone; where nobody can say whether it goes on, nothing is removed."""
    tools = tmp_path / "tools"
    tools.mkdir()
    if answer is not None:
        text = f'#!/bin/sh\n[ "$*" = "--noheader --jobs 7 --format %i" ] || exit 9\n{answer}\n'
        (tools / "squeue").write_text(text)
        (tools / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    folder = scratch_folder(tmp_path, "killed")
    make_scratch_folder(folder)
    (folder / ".owner").write_text(mark_of_ended())
    keep_for_job(folder, "7")
    make_scratch_folder(scratch_folder(tmp_path, "own"))
    assert folder.exists() == stays
