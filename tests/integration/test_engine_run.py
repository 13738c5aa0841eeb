"""Running programs on each real engine: as close to running the program itself as it gets."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tarfile
import termios
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from envbuild.core.progress import Silent
from envbuild.engine.docker.adapter import DockerEngine
from envbuild.engine.local.engine import LocalEngine
from envbuild.engine.local.limits import own_group
from envbuild.engine.protocol import ContainerRun, Engine, OwnFiles
from envbuild.errors import EngineError
from envbuild.operations.engines import connect
from envbuild.runs.outside import is_noise
from envbuild.store.objects import Store
from tests.support.parcels import parts
from tests.support.rootfs import write_rootfs

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
DEADLINE = 180.0
"""Seconds after which something is taken to hang; nothing is measured by it."""


@pytest.fixture(scope="module", params=["docker", "local"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A real engine; the local one has a store of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENVBUILD_ENGINE", request.param)
        patch.setenv("ENVBUILD_STORE", str(tmp_path_factory.mktemp("engine") / "store"))
        yield connect()


@pytest.fixture(scope="module")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A tiny image of this machine's programs, removed afterwards."""
    from envbuild.engine.docker.images import import_tar

    tar = tmp_path_factory.mktemp("rootfs") / "rootfs.tar"
    write_rootfs(tar)
    if isinstance(engine, LocalEngine):
        engine.deliver(parts([tar], "envbuild-test:local"), "envbuild-test:local", Silent())
        yield "envbuild-test:local"
        return
    assert isinstance(engine, DockerEngine)
    sdk, tag = engine._sdk_client(), uuid.uuid4().hex
    with tar.open("rb") as stream:
        import_tar(sdk, stream, "envbuild-test", tag, {})
    yield f"envbuild-test:{tag}"
    sdk.remove_image(f"envbuild-test:{tag}", force=True)


@pytest.fixture
def label(engine: Engine) -> Iterator[str]:
    """A label value of this test's own; what a failed test left behind is removed."""
    label = uuid.uuid4().hex
    yield label
    for container in containers(engine, label) if isinstance(engine, DockerEngine) else ():
        with suppress(docker.errors.APIError):  # it may be going by itself
            engine._sdk_client().remove_container(container, force=True)


@pytest.fixture
def start(image: str, label: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start ``sh -c SCRIPT`` in a container, by a separate process with pipes."""
    processes = []

    def start(script: str, **fields: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            arguments(image, label, script, **fields),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def arguments(image: str, label: str, script: str, **fields: Any) -> list[str]:
    """The command line that runs a shell script in a container."""
    request = {
        "image": image,
        "command": ["sh", "-c", script],
        "environment": {"PATH": "/bin"},
        "interactive": True,
        "labels": {"envbuild-test": label},
        **fields,
    }
    return [sys.executable, "-m", "tests.support.engine_program", "run", json.dumps(request)]


def containers(engine: Engine, label: str) -> list[str]:
    """The containers that bear this test's label, in any state; of the local engine the folders of programs."""
    if isinstance(engine, LocalEngine):
        return [str(folder) for folder in Store().cache_dir("runs").iterdir()]
    assert isinstance(engine, DockerEngine)
    found: list[str] = engine._sdk_client().containers(
        all=True, quiet=True, filters={"label": f"envbuild-test={label}"}
    )
    return found


def read_until(descriptor: int, text: bytes) -> bytes:
    """Read until a text has come; fails after the deadline."""
    seen, end = b"", time.monotonic() + DEADLINE
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"no {text!r} in {seen!r}"
        data = os.read(descriptor, 4096)
        assert data, f"no {text!r} in {seen!r}"
        seen += data
    return seen


def set_size(terminal: int, lines: int, columns: int) -> None:
    """Give a terminal a size; the termios module can only from Python 3.11 on."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("exit 125", 125)])
def test_exit_codes_pass_through(start: Callable[..., subprocess.Popen[bytes]], script: str, code: int) -> None:
    """The program's exit code is the caller's, 128 + signal if it was killed."""
    assert start(script).wait(DEADLINE) == code


def test_output_and_errors_stay_apart_and_leave_nothing(
    engine: Engine, start: Callable[..., subprocess.Popen[bytes]], label: str
) -> None:
    """Both streams arrive whole on their own descriptor, and the container is gone when the run returns."""
    out, err = start("head -c 300000 /dev/zero; echo bad >&2").communicate(timeout=DEADLINE)
    assert (len(out), err) == (300_000, b"bad\n")
    assert containers(engine, label) == []


def test_input_is_passed_on_to_its_end(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A megabyte goes in and comes out unchanged, without either side waiting for the other for ever."""
    data = os.urandom(1 << 20)
    out, _ = start("cat; echo end").communicate(data, timeout=DEADLINE)
    assert out == data + b"end\n"


def test_streams_are_not_buffered(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """What the program writes is there before it ends, and so is what it is sent: a dialogue proves it."""
    process = start("echo name?; read name; printf 'hello %s' $name; read bye")
    assert process.stdin is not None
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"name?\n")
    process.stdin.write(b"you\n")
    process.stdin.flush()
    read_until(process.stdout.fileno(), b"hello you")


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "USR1"])
def test_signals_reach_the_program(
    engine: Engine, start: Callable[..., subprocess.Popen[bytes]], label: str, name: str
) -> None:
    """A signal sent to envbuild is the program's to handle; its exit code counts and nothing stays behind."""
    process = start(f"trap 'echo caught; exit 5' {name}; echo ready; while :; do sleep 0.05; done")
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    process.send_signal(getattr(signal, f"SIG{name}"))
    out, _ = process.communicate(timeout=DEADLINE)
    assert (out, process.returncode) == (b"caught\n", 5)
    assert containers(engine, label) == []


def test_a_second_interrupt_kills(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A program that ignores Ctrl-C can still be ended from the keyboard."""
    process = start("trap 'echo no' INT; echo ready; while :; do sleep 0.05; done")
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    process.send_signal(signal.SIGINT)
    read_until(process.stdout.fileno(), b"no\n")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 137


def test_a_terminal_stays_a_terminal(image: str, label: str) -> None:
    """The program sees a terminal of our size, hears of a new size, gets Ctrl-C as a key, and ours is restored."""
    master, slave = pty.openpty()
    set_size(slave, 33, 101)
    before = termios.tcgetattr(slave)
    script = (
        # An old engine learns the size just after the start: what it sends for that must not disturb what follows.
        "until [ \"$(stty size)\" = '33 101' ]; do sleep 0.05; done;"
        "trap 'stty size' WINCH; trap 'echo keyed; exit 4' INT; echo ready; read go;"
        "test -t 0 && test -t 1 && stty size; while :; do sleep 0.05; done"
    )
    command = arguments(image, label, script, tty=True)
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True)
    try:
        read_until(master, b"ready\r\n")
        os.write(master, b"go\r")
        read_until(master, b"33 101\r\n")
        set_size(slave, 44, 55)
        process.send_signal(signal.SIGWINCH)
        read_until(master, b"44 55\r\n")
        os.write(master, b"\x03")
        read_until(master, b"keyed\r\n")
        assert process.wait(DEADLINE) == 4
        assert termios.tcgetattr(slave) == before
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)


def test_a_closed_pipe_ends_the_program(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """As with ``| head``: when nobody reads any more, the program does not run on for nothing."""
    process = start("while :; do echo line; sleep 0.01; done")
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"line\n")
    process.stdout.close()
    assert process.wait(DEADLINE) == 129


def test_a_killed_envbuild_leaves_no_container(
    engine: Engine, image: str, start: Callable[..., subprocess.Popen[bytes]], label: str
) -> None:
    """After kill -9 the engine removes the container as soon as the program ends, here by the end of its input."""
    process = start("echo ready; read line")
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"ready\n")
    assert len(containers(engine, label)) == 1
    process.kill()
    process.communicate()
    if isinstance(engine, LocalEngine):  # the program ends at once, and the next run removes what it leaves
        assert engine.run_container(ContainerRun(image=image, command=("true",), environment={"PATH": "/bin"})) == 0
    end = time.monotonic() + DEADLINE
    while containers(engine, label):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_killed_envbuild_leaves_no_control_group(
    engine: Engine, image: str, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """The next run removes the groups of killed ones, but none that another process holds."""
    group = own_group("pids")
    if not isinstance(engine, LocalEngine) or group is None or not os.access(group[0], os.W_OK):
        pytest.skip("no control groups of ours")
    killed, other = start("echo ready; read line"), start("echo ready; read line")
    for process in (killed, other):
        assert process.stdout is not None
        read_until(process.stdout.fileno(), b"ready\n")
    names = {process.pid: f"envbuild-{process.pid}-*" for process in (killed, other)}
    assert all(len(list(group[0].glob(name))) == 1 for name in names.values())
    killed.kill()
    killed.communicate()
    end = time.monotonic() + DEADLINE
    while list(group[0].glob(names[killed.pid])):  # its last process may not have ended yet
        assert time.monotonic() < end
        assert engine.run_container(ContainerRun(image=image, command=("true",), environment={"PATH": "/bin"})) == 0
    assert len(list(group[0].glob(names[other.pid]))) == 1


def test_a_containers_own_files_are_seen_after_its_end(engine: Engine, image: str, label: str) -> None:
    """What it made and changed is listed and given as tar before it is removed, whatever its exit code."""
    seen: dict[str, Any] = {}

    def look(files: OwnFiles) -> None:
        seen["changes"] = files.changes()
        with files.archive("/made") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            seen["names"] = [member.name for member in archive]
        with pytest.raises(EngineError, match=r"^cannot read /nothing in the container: "), files.archive("/nothing"):
            pass

    script = "echo 1 > /made; exit 3"
    request = ContainerRun(
        image=image, command=("sh", "-c", script), environment={"PATH": "/bin"}, labels={"envbuild-test": label},
        ended=look,
    )  # fmt: skip
    assert engine.run_container(request) == 3
    assert seen["changes"]["/made"] == "created"
    assert seen["names"] == ["made"]
    assert containers(engine, label) == []


def test_a_program_that_writes_nothing_leaves_nothing(engine: Engine, image: str) -> None:
    """What the engine itself puts into a container is no result."""
    seen: list[str] = []
    request = ContainerRun(
        image=image, command=("true",), environment={"PATH": "/bin"}, scratch=("/tmp/home",),
        ended=lambda files: seen.extend(files.changes()),
    )  # fmt: skip
    assert engine.run_container(request) == 0
    folders = {str(above) for path in seen for above in Path(path).parents}
    assert [path for path in seen if path not in folders and not is_noise(path)] == []


def test_a_container_whose_files_cannot_be_looked_at_is_removed(engine: Engine, image: str, label: str) -> None:
    """An interruption in between leaves nothing behind."""

    def fail(files: OwnFiles) -> None:
        raise KeyboardInterrupt

    request = ContainerRun(image=image, command=("true",), labels={"envbuild-test": label}, ended=fail,
                           environment={"PATH": "/bin"})  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        engine.run_container(request)
    assert containers(engine, label) == []


def test_its_own_name_leads_to_the_loopback(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Launchers such as torchrun look up the host they are on, which has no other interface."""
    out, _ = start("cat /etc/hosts").communicate(timeout=DEADLINE)
    assert [b"127.0.0.1", b"envbuild"] in [line.split() for line in out.splitlines()]


def test_files_belong_to_the_user_asked_for(start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """A mounted folder receives files owned by the run's user and group, and links work."""
    tmp_path.chmod(0o777)
    process = start("touch file; id", user="12345:54321", mounts=[(str(tmp_path), "/workspace")], workdir="/workspace")
    out, _ = process.communicate(timeout=DEADLINE)
    assert out.startswith(b"uid=12345 gid=54321")
    status = (tmp_path / "file").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


def test_there_is_no_network(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Only the loopback interface exists."""
    out, _ = start("tail -n +3 /proc/net/dev").communicate(timeout=DEADLINE)
    assert [line.split(b":")[0].strip() for line in out.splitlines()] == [b"lo"]


def test_limits_and_scratch_space_hold(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A scratch folder is writable for a user without a home; the host name is constant."""
    script = "touch /tmp/home/x && cat /proc/sys/kernel/hostname"
    out, _ = start(script, user="12345:12345", scratch=["/tmp/home"]).communicate(timeout=DEADLINE)
    assert out == b"envbuild\n"


def test_want_of_memory_is_reported(start: Callable[..., subprocess.Popen[bytes]], engine: Engine) -> None:
    """A program killed at its memory limit is distinguished from one that was killed by somebody.

    Docker on control groups v1 loses the kernel's word if the container is over at once: 1 of 24 on a busy machine.
    """
    attempts = [start("tail /dev/zero", memory=16 << 20).communicate(timeout=DEADLINE)[1] for _ in range(4)]
    heard = [b"out of memory\n" in err for err in attempts]
    assert all(heard) if isinstance(engine, LocalEngine) else any(heard), attempts
    _, err = start("kill -9 $$").communicate(timeout=DEADLINE)
    assert err == b""


def test_two_runs_at_once_do_not_meet(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Two runs of one image keep their streams and exit codes."""
    first, second = start("read x; echo first $x; exit 1"), start("read x; echo second $x; exit 2")
    assert second.communicate(b"b\n", timeout=DEADLINE)[0] == b"second b\n"
    assert first.communicate(b"a\n", timeout=DEADLINE)[0] == b"first a\n"
    assert (first.returncode, second.returncode) == (1, 2)


def test_an_image_the_engine_lacks_is_named(engine: Engine) -> None:
    """The message names the image and the next command."""
    with pytest.raises(EngineError) as caught:
        engine.run_container(ContainerRun(image="envbuild-test:none"))
    assert caught.value.message == "the engine has no image envbuild-test:none"
    assert caught.value.hint == "build it: envbuild build"


def test_a_container_that_cannot_start_is_removed(engine: Engine, image: str, label: str) -> None:
    """An unknown network is the engine's refusal, in its words; what was created is gone."""
    request = ContainerRun(image=image, command=("true",), network="envbuild-none", labels={"envbuild-test": label})
    refusal = r"^(cannot (create|start) the container: |the local engine has no network ).*envbuild-none"
    with pytest.raises(EngineError, match=refusal):
        engine.run_container(request)
    assert containers(engine, label) == []
