"""Ctrl-C, SIGTERM and SIGHUP end a command soon, wherever they come; what a killed one left, the next one removes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.cli import Project, finish, listens, until

AT_MOST = 600.0
"""Seconds after which a command is taken to hang: it ends within 1 by itself, on a machine without other work."""

MOMENTS = 5
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.fixture(name="own")
def _own(made: Project, tmp_path: Path) -> Project:
    return made.copy(tmp_path, own_store=True)


LOCAL = os.environ.get("ENVBUILD_ENGINE") == "local"


def _containers(project: Project, run: str) -> list[str]:
    """What the engine holds of a run; of the local one all runs in the store, which is the test's own."""
    if LOCAL:
        return [path.name for path in (project.store / "derived/runs").glob("run-*")]
    command = ["docker", "ps", "-aq", "--filter", f"label=envbuild.run={run}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def _interrupted(project: Project, command: list[str], number: signal.Signals, delay: float) -> tuple[int, str, float]:
    """Send a signal some time after envbuild has its handlers; returns exit code, standard error, seconds.

    The interpreter that starts has none yet: a Ctrl-C in the middle of that is Python's own, with a traceback.
    """
    process = project.start(*command)
    until(lambda: listens(process.pid) or process.poll() is not None)
    with suppress(subprocess.TimeoutExpired):
        process.wait(delay)
    began = time.monotonic()
    if process.poll() is None:
        process.send_signal(number)
    done = finish(process, timeout=AT_MOST)
    return done.code, done.err, time.monotonic() - began


@pytest.mark.parametrize("command", ["build", "build --output", "fetch", "lock"])
def test_a_signal_at_any_moment_ends_the_command(own: Project, command: str) -> None:
    """Each signal gives its own exit code at every moment, without a traceback; the command after it succeeds."""
    spread = random.Random(command)
    words = command.split()
    output = [f"oci:{own.folder / 'image.tar'}"] if "--output" in words else []
    slowest = 0.0
    for number, code in SIGNALS:
        for at in range(MOMENTS):
            shutil.rmtree(own.store / "derived", ignore_errors=True)
            (own.folder / "pylock.clitest.image.json").unlink(missing_ok=True)
            delay = 0.05 + 3.0 * (at + spread.random()) / MOMENTS
            found, sentence, seconds = _interrupted(own, [*words, *output], number, delay)
            assert found in (0, code), sentence
            assert "Traceback" not in sentence
            slowest = max(slowest, seconds)
    print(f"{command}: the slowest end took {slowest:.2f} s")
    own.must(*words, *output)


@pytest.mark.both_engines
def test_a_killed_run_leaves_no_container_for_long(own: Project) -> None:
    """SIGKILL of ``run`` leaves its container; the next command that asks the engine removes it, or the next run.

    Its record has ``running`` for ever, and is shown as ``lost``.
    """
    own.write("t.py", "import time\nopen('/run/envbuild/up', 'w').close()\ntime.sleep(600)\n")
    process = own.start("run", "t.py")
    deadline = time.monotonic() + 300
    while not (up := list((own.folder / ".envbuild").glob("runs/*/process/up"))):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    run = up[0].parents[1].name
    assert len(_containers(own, run)) == 1  # once its process is gone, another worker's command may remove it too
    assert [record["state"] for record in own.must("runs", "--json").json] == ["running"]
    process.kill()
    process.communicate()
    assert [record["state"] for record in own.must("runs", "--json").json] == ["lost"]
    own.write("t.py", "print('here')\n")
    own.must(*(("run", "t.py") if LOCAL else ("build",)))
    until(lambda: _containers(own, run) == [])  # at once, unless that other command is still about it


@pytest.mark.both_engines
def test_an_interrupted_verify_leaves_nothing(own: Project) -> None:
    """Even programs that do not hear Ctrl-C are gone soon after it, with their containers and copies."""
    own.write(
        "t.py",
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "open('/run/envbuild/up', 'w').close()\ntime.sleep(600)\n",
    )
    process = own.start("verify", "-n", "2", "t.py")
    deadline = time.monotonic() + 300
    while not (up := list((own.folder / ".envbuild").glob("runs/*/process/up"))):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    done = finish(process, timeout=AT_MOST)
    print(f"verify: {time.monotonic() - began:.2f} s")
    assert done.code == 130, done.err
    deadline = time.monotonic() + 300
    while _containers(own, up[0].parents[1].name) or (own.folder / ".envbuild/verify").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.both_engines
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_program_that_somebody_stopped_ends_with_the_run(own: Project, number: signal.Signals, code: int) -> None:
    """A signal waits for a stopped process to go on: ``timeout`` and systemd have it go on, and so does a run."""
    own.write("t.py", "import os, time\nos.kill(os.getpid(), 19)\nprint('on')\ntime.sleep(600)\n")
    process = own.start("run", "t.py")
    until(lambda: listens(process.pid) and bool(_stopped_below(process.pid)))
    process.send_signal(number)
    done = finish(process, timeout=AT_MOST)
    assert (done.code, done.out) == (code, ""), done.err


def _stopped_below(process: int) -> list[int]:
    """The processes of this machine that are stopped in the middle of a run's script."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state = stat.read_text().rpartition(")")[2].split()[0]
            if state == "T" and b"t.py" in (stat.parent / "cmdline").read_bytes():
                found.append(int(stat.parent.name))
        except OSError:
            continue
    return found


def test_a_closed_terminal_is_no_fault(own: Project) -> None:
    """A command whose terminal goes away ends with 129 and without a traceback."""
    ours, theirs = os.openpty()
    status = own.folder / "status"
    script = f"trap '' HUP; envbuild store verify; echo $? > {status}"
    process = subprocess.Popen(
        ["sh", "-c", script], cwd=own.folder, env=own.environ, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    os.close(ours)
    process.wait(timeout=300)
    assert status.read_text() == "129\n"


def test_temporary_folders_of_killed_processes_go(own: Project, tmp_path: Path) -> None:
    """What a killed ``lock`` left in the temporary folder is removed by the next one; another's folder is not."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    dead, other = folder / "envbuild-uv-dead", folder / "envbuild-uv-other"
    for path in (dead, other):
        path.mkdir()
    (dead / ".owned").touch()
    own.must("lock", "--upgrade", TMPDIR=str(folder))
    assert [path.name for path in folder.iterdir()] == ["envbuild-uv-other"]


def test_the_mark_of_a_container_is_its_process(own: Project) -> None:
    """Containers of processes that live stay, whoever asks the engine."""
    own.write("t.py", "import time\nopen('/run/envbuild/up', 'w').close()\ntime.sleep(600)\n")
    process = own.start("run", "t.py")
    try:
        deadline = time.monotonic() + 300
        while not (up := list((own.folder / ".envbuild").glob("runs/*/process/up"))):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        own.must("build")
        (name,) = _containers(own, up[0].parents[1].name)
        shown = subprocess.run(["docker", "inspect", name], check=True, capture_output=True).stdout
        assert str(process.pid) in json.loads(shown)[0]["Config"]["Labels"]["envbuild.owner"].split()
    finally:
        process.send_signal(signal.SIGTERM)
        finish(process, timeout=300)
