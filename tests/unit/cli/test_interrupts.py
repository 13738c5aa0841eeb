"""A signal ends a command, whoever waits for whom."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_WAITS = """
import sys, time
import envbuild.cli.app as app
from envbuild.cli import entry

def invoke(arguments):
    sys.stdin.readline()
    {what}
    time.sleep(600)

app.invoke = invoke
entry()
"""


@pytest.mark.subprocess
@pytest.mark.parametrize(
    "what",
    ["pass", "print('x' * 1_000_000)", "sys.stdout.write('x')"],
    ids=["nothing printed", "blocked in a print", "something left to print"],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nobody_reads_what_a_command_prints(number: signal.Signals, what: str) -> None:
    """A reader that has stopped, as a pager does, keeps no interrupted command alive: neither output nor message."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while True:
        try:
            os.write(writer, bytes(fcntl.fcntl(writer, 1032)))  # F_GETPIPE_SZ
        except BlockingIOError:
            break
    os.set_blocking(writer, True)
    command = [sys.executable, "-c", _WAITS.format(what=what)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=writer, stderr=writer) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            _wait_for_sleep(process.pid)
            process.send_signal(number)
            assert process.wait(120) == 128 + number
        finally:
            process.kill()
            os.close(reader)
            os.close(writer)


_WORKS = """
import envbuild.cli.app as app
from envbuild.cli import entry

def invoke(arguments):
    try:
        while True:
            pass
    finally:
        print("cleaned", flush=True)

app.invoke = invoke
entry()
"""


def limited(program: str, soft: int, hard: int) -> subprocess.CompletedProcess[str]:
    """Run a program of Python that may use so many seconds of processor time."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (soft, hard)),
    )


@pytest.mark.subprocess
@pytest.mark.parametrize("most", [(2, 2), (1, 3)], ids=["both limits", "the soft one"])
def test_a_command_whose_processor_time_ends_cleans_up_and_names_the_limit(most: tuple[int, int]) -> None:
    """With ``ulimit -t`` the kernel gives no notice: SIGKILL comes at once."""
    done = limited(_WORKS, *most)
    assert (done.returncode, done.stdout) == (14, "cleaned\n")
    assert done.stderr == (
        f"envbuild: out of processor time: the limit is {most[0]} seconds\n"
        "  → raise the limit, then rerun: ulimit -t unlimited\n"
    )


@pytest.mark.subprocess
def test_a_command_that_waits_for_others_as_its_processor_time_ends_names_the_limit() -> None:
    """What is left is removed behind its back, as after an interrupt."""
    program = _WORKS.replace('print("cleaned", flush=True)', "__import__('time').sleep(600)")
    done = limited(program, 2, 2)
    words = "out of processor time: the limit is 2 seconds; what is left is removed in the background"
    assert (done.returncode, done.stderr) == (
        14,
        f"envbuild: {words}\n  → raise the limit, then rerun: ulimit -t unlimited\n",
    )


@pytest.mark.subprocess
def test_a_limit_of_processor_time_that_no_timer_takes_is_none() -> None:
    """``prlimit --cpu`` takes any number of seconds."""
    program = _WORKS.replace("while True:\n            pass", "return 0")
    done = limited(program, 9 * 10**18, 9 * 10**18)
    assert (done.returncode, done.stdout, done.stderr) == (0, "cleaned\n", "")


_REFUSED = """
import os, signal, time
import envbuild.cli as cli
import envbuild.cli.app as app
from envbuild.cli.console import Console
from envbuild.errors import HostMismatchError
from envbuild.operations.events import JobRefused

def invoke(arguments):
    Console().report(JobRefused())
    os.kill(os.getpid(), signal.SIGTERM)
    raise HostMismatchError("the machines do not match", "take others")

app.invoke = invoke
before = cli._print_error
def printed(message, hint):
    os.kill(os.getpid(), signal.SIGTERM)
    before(message, hint)
cli._print_error = printed
cli.entry()
"""


@pytest.mark.subprocess
def test_a_launchers_signal_does_not_change_the_end_of_a_refused_job() -> None:
    """Slurm sends SIGTERM to the ranks that have not ended yet: before the error is raised, and while it is printed."""
    done = subprocess.run([sys.executable, "-c", _REFUSED], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "the machines do not match" in done.stderr) == (78, True), done


def _wait_for_sleep(pid: int) -> None:
    """Wait until the main thread has taken its line and waits: in a sleep, or for the reader."""
    waits = ("hrtimer_nanosleep", "anon_pipe_write", "pipe_write", "poll_schedule_timeout", "do_select")
    while not Path(f"/proc/{pid}/wchan").read_text().startswith(waits):  # the last two: Python 3.10 sleeps in select
        time.sleep(0.01)
