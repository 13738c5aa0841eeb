"""How a job of Slurm ended, read from what scontrol prints (lines as 22.05 prints them)."""

from __future__ import annotations

import os
import select
import signal
import threading
from pathlib import Path

import pytest

from envbuild.operations import follow_job
from envbuild.operations.follow_job import Ended, follow

LINE = (
    "JobId={number} JobName=digits UserId=u(1000) GroupId=u(1000) MCS_label=N/A Priority=1 Account=(null) QOS=(null) "
    "JobState={state} Reason=None Dependency=(null) Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode={code} "
    "RunTime=00:00:02 TimeLimit=UNLIMITED Command=(null) WorkDir=/tmp/JobState=FAILED ExitCode=9:9 x\n"
)


def line(state: str, code: str = "0:0", number: int = 7) -> str:
    return LINE.format(state=state, code=code, number=number)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (line("RUNNING"), None),
        (line("COMPLETING"), None),
        (line("A_STATE_OF_THE_FUTURE"), None),
        ("", None),
        (line("COMPLETED"), Ended(states=("COMPLETED",), code=0)),
        (line("FAILED", "78:0"), Ended(states=("FAILED",), code=78)),
        (line("CANCELLED", "0:15"), Ended(states=("CANCELLED",), code=143)),
        (line("OUT_OF_MEMORY", "0:9"), Ended(states=("OUT_OF_MEMORY",), code=137)),
        (line("TIMEOUT"), Ended(states=("TIMEOUT",), code=143)),
        (line("NODE_FAIL"), Ended(states=("NODE_FAIL",), code=143)),
        (line("COMPLETED", number=8) + line("PENDING"), None),
        (line("COMPLETED", number=8) + line("FAILED", "3:0"), Ended(states=("COMPLETED", "FAILED"), code=3)),
    ],
)
def test_the_end_of_a_job(answer: str, expected: Ended | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A code as shells have it; never 0 unless all tasks completed; no word of a folder's name is taken for a state."""
    answers = iter([answer, line("CANCELLED", "1:0")])
    monkeypatch.setattr(follow_job, "_answer", lambda job: next(answers))
    found = follow("7", None, lambda chunk: None)
    assert found == (expected or Ended(states=("CANCELLED",), code=1))


def test_all_that_a_job_wrote_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also what it wrote between the last look and its end; a file that comes late is waited for."""
    output, shown = tmp_path / "7.out", bytearray()
    steps = iter([("RUNNING", b""), ("RUNNING", b"first\n"), ("COMPLETED", b"last\n" * 50_000)])

    def answer(job: str) -> str:
        state, text = next(steps)
        if text:
            with output.open("ab") as stream:
                stream.write(text)
        return line(state)

    monkeypatch.setattr(follow_job, "_answer", answer)
    assert follow("7", output, shown.extend).code == 0
    assert bytes(shown) == b"first\n" + b"last\n" * 50_000


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_only_a_regular_file_is_read(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A link or a pipe in the place of the output is not opened, and does not hang."""
    output, shown = tmp_path / "7.out", bytearray()
    (tmp_path / "secret").write_text("secret")
    if kind == "link":
        output.symlink_to("secret")
    else:
        os.mkfifo(output)
    monkeypatch.setattr(follow_job, "_answer", lambda job: line("COMPLETED"))
    assert follow("7", output, shown.extend).code == 0
    assert shown == b""


@pytest.mark.subprocess
def test_a_second_interrupt_does_not_keep_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``timeout`` sends its signal twice: scancel, once begun, goes on to its end."""
    for name in ("begun", "go", "done"):
        os.mkfifo(tmp_path / name)
    scancel = tmp_path / "scancel"
    scancel.write_text(f'#!/bin/sh\ncd {tmp_path}\necho "$1" >begun\nread line <go\necho "$line" >done\n')
    scancel.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def interrupt() -> None:
        (tmp_path / "begun").read_text()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        follow_job.cancel("7")
    thread.join()
    # Opened for both: a scancel that was killed would otherwise leave this test waiting for a reader.
    pipes = [os.open(tmp_path / name, os.O_RDWR) for name in ("go", "done")]
    with open(pipes[0], "w") as go, open(pipes[1], "rb") as done:
        go.write("cancelled\n")
        go.flush()
        assert select.select([done], [], [], 60)[0], "it was killed"
        assert done.readline() == b"cancelled\n"
