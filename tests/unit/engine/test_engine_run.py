"""What a run asks of the engine, and how its streams are copied."""

from __future__ import annotations

import errno
import os
import signal
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.engine import streams
from envbuild.engine.docker.attach import copy_output
from envbuild.engine.docker.run import container_config
from envbuild.engine.protocol import ContainerExit, ContainerRun, Mount
from envbuild.engine.streams import SignalRelay, repeated_signals_ignored


class Stream:
    """An attached container that states what it is reported to."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks

    def read(self, limit: int) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""

    def write(self, data: bytes) -> None:
        raise AssertionError

    def end_input(self) -> None:
        raise AssertionError


def frame(number: int, data: bytes) -> bytes:
    """One frame as the engine sends it."""
    return struct.pack(">BxxxL", number, len(data)) + data


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=8), st.integers(1, 50))
def test_frames_are_distinguished_however_they_arrive(frames: list[tuple[int, bytes]], size: int) -> None:
    """Cut anywhere, the two streams arrive complete and in order at descriptors 1 and 2."""
    data = b"".join(frame(number, payload) for number, payload in frames)
    written = {1: b"", 2: b""}

    def write(number: int, part: memoryview) -> int:
        taken = bytes(part[:7])  # a pipe may take less than it is offered
        written[number] += taken
        return len(taken)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams.os, "write", write)
        copy_output(Stream([data[i : i + size] for i in range(0, len(data), size)]), False, lambda: None)
    assert written == {n: b"".join(payload for number, payload in frames if number == n) for n in (1, 2)}


@pytest.mark.parametrize("tty", [False, True])
def test_a_tap_sees_output_after_it_was_written(tty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte in order, also when nobody reads any more, and whoever takes the output instead."""
    order: list[bytes] = []

    def write(number: int, part: memoryview) -> int:
        if order and order[-1] == b"saw b":
            raise BrokenPipeError
        order.append(b"wrote " + bytes(part))
        return len(part)

    def tap(number: int, data: memoryview) -> None:
        order.append((b"saw " if number == 1 else b"heard ") + data)

    monkeypatch.setattr(streams.os, "write", write)
    pieces = [b"a", b"b", b"c"] if tty else [frame(1, b"a"), frame(2, b"x"), frame(1, b"b"), frame(1, b"c")]
    copy_output(Stream(list(pieces)), tty, lambda: None, tap=tap)
    errors = [] if tty else [b"wrote x", b"heard x"]
    assert order == [b"wrote a", b"saw a", *errors, b"wrote b", b"saw b", b"saw c"]
    order.clear()
    copy_output(Stream(list(pieces)), tty, lambda: None, write=lambda number, data: None, tap=tap)
    assert order == [b"saw a", *errors[1:], b"saw b", b"saw c"]


def test_a_reader_that_leaves_ends_the_program_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If nobody reads standard output any more (``| head``), the program gets one signal; errors still arrive."""
    text: list[bytes] = []

    def write(number: int, part: memoryview) -> int:
        if number == 1:
            raise BrokenPipeError
        text.append(bytes(part))
        return len(part)

    monkeypatch.setattr(streams.os, "write", write)
    hung_up: list[bool] = []
    copy_output(Stream([frame(1, b"a"), frame(1, b"b"), frame(2, b"c")]), False, lambda: hung_up.append(True))
    assert hung_up == [True]
    assert text == [b"c"]


@pytest.mark.parametrize(("number", "said"), [(errno.ENOSPC, True), (errno.EPIPE, False), (errno.EIO, False)])
def test_why_output_cannot_be_written_is_said(number: int, said: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log on a disk that is full ends the program: exit code 129 alone would be a riddle."""
    text: list[bytes] = []

    def write(to: int, part: memoryview) -> int:
        if to == 1:
            raise OSError(number, os.strerror(number))
        text.append(bytes(part))
        return len(part)

    monkeypatch.setattr(streams.os, "write", write)
    hung_up: list[bool] = []
    copy_output(Stream([frame(1, b"a"), frame(1, b"b")]), False, lambda: hung_up.append(True))
    line = b"envbuild: cannot write standard output: No space left on device; the program gets SIGHUP\n"
    assert (hung_up, text) == ([True], [line] if said else [])


def test_a_terminal_has_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a terminal there are no frames."""
    text: list[tuple[int, bytes]] = []
    monkeypatch.setattr(streams.os, "write", lambda number, part: text.append((number, bytes(part))) or len(part))
    copy_output(Stream([b"\x01\x00", b"x"]), True, lambda: None)
    assert text == [(1, b"\x01\x00"), (1, b"x")]


def test_signals_are_kept_until_the_program_runs() -> None:
    """A signal before the start is delivered after it; the second interrupt kills; handlers are given back."""
    sent: list[str] = []
    before = signal.getsignal(signal.SIGUSR1)
    with repeated_signals_ignored(), SignalRelay(sent.append) as relay:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert sent == []
        relay.open()
        assert sent == ["SIGUSR1"]
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGINT):
            os.kill(os.getpid(), number)
    ends = [each for name in ("SIGTERM", "SIGHUP", "SIGINT") for each in (name, "SIGCONT")]
    assert sent == ["SIGUSR1", *ends, "SIGKILL"]
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_launchers_signal_that_comes_again_ends_nothing() -> None:
    """The program has had it: its end is still recorded; another signal, and one that was not relayed, are as ever."""
    heard: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.signal(number, lambda number, frame: heard.append(number)) for number in numbers}
    sent: list[str] = []
    try:
        with repeated_signals_ignored():
            with SignalRelay(sent.append) as relay:
                relay.open()
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGINT)
            for number in numbers:
                os.kill(os.getpid(), number)
            assert (sent, heard) == (["SIGTERM", "SIGCONT", "SIGINT", "SIGCONT"], [signal.SIGHUP, signal.SIGINT])
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard[2:] == [signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_launchers_signal_that_reaches_the_program_first_ends_nothing() -> None:
    """Slurm signals each process of a task: the program may have ended by it before envbuild hears of it."""
    heard: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: heard.append(number)) for number in (15, 1)}
    try:
        with repeated_signals_ignored():
            with SignalRelay(lambda name: None) as relay:
                relay.open()
                relay.ended(128 + signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
        assert heard == [signal.SIGHUP]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_create_call_holds_all_that_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field of a request reaches the engine in its own words, and nothing is asked that was not."""
    request = ContainerRun(
        image="t:1", command=("python", "x"), environment={"A": "1"}, user="7:8", network="none", cpus=1.5,
        cpuset="0-1", memory=9, interactive=True, tty=True, scratch=("/tmp/home",), labels={"l": "v"},
        mounts=(Mount(source=Path("/a:b"), target="/w", read_only=True),), workdir="/w",
    )  # fmt: skip
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((80, 25)))
    config = container_config(request, init=True, rootless=False, shm_size=5)
    host = config.pop("HostConfig")
    assert host.pop("Mounts") == [{"Type": "bind", "Source": "/a:b", "Target": "/w", "ReadOnly": True}]
    assert host == {
        "AutoRemove": True, "Init": True, "NetworkMode": "none", "LogConfig": {"Type": "none"}, "ShmSize": 5,
        "SecurityOpt": ["label=disable", "no-new-privileges"], "CapDrop": ["ALL"], "PidsLimit": 32_768,
        "Tmpfs": {"/tmp/home": "rw,exec,nosuid,nodev,mode=1777"}, "ExtraHosts": ["envbuild:127.0.0.1"],
        "NanoCpus": 1_500_000_000, "CpusetCpus": "0-1", "Memory": 9, "ConsoleSize": [25, 80],
    }  # fmt: skip
    assert config == {
        "Image": "t:1", "Cmd": ["python", "x"], "Env": ["NVIDIA_VISIBLE_DEVICES=void", "A=1"], "User": "7:8",
        "Hostname": "envbuild", "WorkingDir": "/w", "Labels": {"l": "v"}, "Tty": True, "OpenStdin": True,
        "StdinOnce": True, "AttachStdin": True, "AttachStdout": True, "AttachStderr": True,
    }  # fmt: skip
    assert container_config(request, init=True, rootless=True, shm_size=5)["User"] == "0:0"
    bare = container_config(ContainerRun(image="t"), init=False, rootless=True, shm_size=5)
    assert "Cmd" not in bare
    assert "Entrypoint" not in bare
    assert bare["User"] == ""
    assert "Memory" not in bare["HostConfig"]
    bridged = container_config(ContainerRun(image="t", network="bridge"), init=True, rootless=False, shm_size=5)
    assert "ExtraHosts" not in bridged["HostConfig"]
    job = ContainerRun(image="t", network="host", address="10.1.0.2")
    named = container_config(job, init=True, rootless=False, shm_size=5)
    assert named["HostConfig"]["ExtraHosts"] == ["envbuild:10.1.0.2"]
    seen = container_config(ContainerRun(image="t", ended=print), init=True, rootless=False, shm_size=5)
    assert not seen["HostConfig"]["AutoRemove"]


@pytest.mark.parametrize(
    ("user", "rootless", "kept"), [("0:0", False, True), ("7:8", True, True), ("7:8", False, False)]
)
def test_capabilities_are_dropped_but_for_what_root_needs_for_files(user: str, rootless: bool, kept: bool) -> None:
    """A program has no capability; as root, also a rootless engine's, it may handle files of any owner."""
    host = container_config(ContainerRun(image="t", user=user), init=True, rootless=rootless, shm_size=1)["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert host.get("CapAdd") == (["CHOWN", "DAC_OVERRIDE", "FOWNER"] if kept else None)
    assert "no-new-privileges" in host["SecurityOpt"]
    assert ("PidsLimit" in host) is not rootless


def test_an_exit_is_a_number_with_a_reason() -> None:
    """A user who wants only the code gets an int."""
    code = ContainerExit(137, out_of_memory=True)
    assert code == 137
    assert code.out_of_memory
    assert not ContainerExit(0).out_of_memory
