"""The checker is checked: a difference of one bit in each channel, planted into runs of a stand-in engine, is seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from envbuild.cli.render.verify import proved
from envbuild.engine.protocol import ContainerExit, ContainerRun, GpuSupport
from envbuild.lockfile import model as locks
from envbuild.operations.events import Silent
from envbuild.operations.verification.verify import Verification, VerifyOptions, verify
from envbuild.runs.request import RunRequest
from tests.support.runtime import make_lock
from tests.support.traces import make_trace

Program = Callable[["Container", int], int]
"""What a run does, given its number from 0; returns the exit code."""


class Container:
    """A run's project, its folder for the hook, and its streams."""

    def __init__(self, request: ContainerRun) -> None:
        places = {mount.target: mount.source for mount in request.mounts}
        self.project, self.process = places["/workspace"], places["/run/envbuild"]
        self._watcher, self._tap = request.watcher, request.tap

    def say(self, text: str, stream: int = 1) -> None:
        """Print."""
        assert self._watcher is not None
        self._watcher.write(stream, memoryview(text.encode()))
        if self._tap is not None:
            self._tap(stream, memoryview(text.encode()))


class Engine:
    """Runs ``program`` instead of a container."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.count = 0

    def run_container(self, request: ContainerRun) -> ContainerExit:
        number, self.count = self.count, self.count + 1
        return ContainerExit(self.program(Container(request), number))

    def gpu_support(self) -> GpuSupport:
        return ""

    def is_local(self) -> bool:
        return True

    def machine(self) -> str:
        return "x86_64"

    def describe(self) -> Mapping[str, str]:
        return {}


def verified(
    project: Path, program: Program, *, source: str = "import time, tracemalloc\n\ntime.time()", **options: object
) -> Verification:
    """Verify a program with two runs, one after the other; by default one that may measure times."""
    lock = make_lock(inputs=(), packages=())
    path = project / lock.file_name
    path.write_bytes(locks.dumps(lock))
    (project / "train.py").write_text(source)
    (project / "old.txt").write_text("left by nobody")
    request = RunRequest(
        lock_path=path, lock=lock, image="t:1", config="ab" * 32, arguments=("train.py",), directory=project,
        tensors=False,
    )  # fmt: skip
    chosen = VerifyOptions(**{"count": 2, "jobs": 1, "diagnose": False, **options})  # type: ignore[arg-type]
    return verify(request, Engine(program), chosen, Silent())


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git is another process; its facts have their own test."""
    monkeypatch.setattr("envbuild.record.git.git_state", lambda project: None)


def whole(run: Container, flip: str = "") -> int:
    """Leave something in every channel; ``flip`` names the one that has another bit."""
    (run.project / "model.bin").write_bytes(bytes([0, 1 if flip == "files" else 0]) * 1000)
    if flip == "deleted":
        (run.project / "old.txt").unlink()
    make_trace(run.process, [{"w": [1.0, 2.0]}, {"w": [1.0, 3.0000002 if flip == "steps" else 3.0]}])
    found = [{"path": "/dev/shm/w.bin", "size": 1, "sha256": ("1" if flip == "outside" else "0") * 64}]
    (run.process / "memory.json").write_text(json.dumps({"files": found, "left_out": 0}))
    run.say('{"step": 1, "loss": ' + ("0.5000001" if flip == "metrics" else "0.5") + "}\n")
    run.say("test accuracy = 0.906" + ("7" if flip == "stdout" else "3") + "\n")
    run.say("took 3.1 s\nwarning " + ("b" if flip == "stderr" else "a") + "\n", stream=2)
    return 3 if flip == "end" else 0


def test_results_that_the_program_found_are_no_proof_of_what_makes_them(tmp_path: Path) -> None:
    """Make, DVC and the like leave out what is done; the user is informed of it."""

    def fit(run: Container, number: int) -> int:
        if not (run.project / "model.bin").exists():
            (run.project / "model.bin").write_bytes(b"weights")
        run.say("done\n")
        return 0

    first = verified(tmp_path, fit)
    assert first.doubts is not None  # nobody compared the host
    assert first.doubts.done is None
    (tmp_path / "model.bin").write_bytes(b"weights")  # as ``envbuild run`` leaves it
    second = verified(tmp_path, fit)
    assert second.doubts is not None
    assert second.doubts.done is not None
    assert second.doubts.done.files == ("model.bin",)
    (line,) = [" ".join(line) for line in proved(second) if "not made again" in " ".join(line)]
    assert "not made again: model.bin, which run " in line


@pytest.mark.parametrize("channel", ["end", "files", "deleted", "steps", "metrics", "outside", "stdout", "stderr"])
def test_one_bit_in_each_channel_is_seen(channel: str, tmp_path: Path) -> None:
    """The runs differ, and the channel reports it; no attestation is written."""
    found = verified(tmp_path, lambda run, number: whole(run, channel if number else ""))
    assert found.verdict.outcome == "different"
    differing = {each.kind for each in found.verdict.channels if each.differs}
    assert channel in differing
    assert differing <= {channel, "stdout"}  # metrics are read from what is printed
    assert not (tmp_path / "pylock.digits.verified.json").exists()


def test_runs_without_a_plant_are_equal(tmp_path: Path) -> None:
    """All channels are compared and none differs; the attestation names them."""
    found = verified(tmp_path, lambda run, number: whole(run))
    assert found.verdict.outcome == "identical"
    assert found.verdict.compared == (
        "1 file", "2 steps of 1 tensor", "1 metric", "1 file outside the project", "2 lines of standard output",
        "2 lines of standard error (1 with times masked)",
    )  # fmt: skip
    assert found.attestation == tmp_path / "pylock.digits.verified.json"


def test_a_constant_file_hides_nothing(tmp_path: Path) -> None:
    """What is printed counts although there is a file; the line is quoted, and what agrees is named."""

    def program(run: Container, number: int) -> int:
        (run.project / "vocab.txt").write_text("constant")
        run.say(f"started\ntest accuracy = 0.906{3 + 4 * number}\n")
        return 0

    found = verified(tmp_path, program)
    assert (found.verdict.differs, found.verdict.agrees) == (("standard output",), ("1 file",))
    assert [(text.path, text.line, text.before, text.after) for text in found.printed] == [
        ("stdout", 2, "test accuracy = 0.9063", "test accuracy = 0.9067")
    ]
    assert verified(tmp_path, program, ignore=("stdout",)).verdict.outcome == "identical"
