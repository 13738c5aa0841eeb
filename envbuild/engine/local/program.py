"""Run one program of an image in namespaces, in the foreground: start, copy streams, signals, time limit, remove.

What it writes outside its mounts goes to a folder of its own, which is there until its end was looked at. If this
process is killed, the kernel ends the program, and the next run removes the folder.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from envbuild.core.leftovers import registered
from envbuild.engine.local import syscall_filter
from envbuild.engine.local.gpus import Handed
from envbuild.engine.local.images import FoundImage
from envbuild.engine.local.limits import Group, Limits
from envbuild.engine.local.trees import remove
from envbuild.engine.overlay import layer_changes
from envbuild.engine.protocol import ContainerExit, ContainerRun, FileChange, Mount
from envbuild.engine.streams import CHUNK, SignalRelay, Sink, Write, copied_input, raw_terminal, resized, tapped
from envbuild.engine.watchdog import Watchdog
from envbuild.errors import EngineError

SCRIPT = Path(__file__).with_name("program_process.py")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_CHOWN, _DAC_OVERRIDE, _FOWNER = 0, 1, 3
_ROOT_KEEPS = (_CHOWN, _DAC_OVERRIDE, _FOWNER)
"""As with Docker (``engine/docker/run.py``): a caller who is root finds files of any owner in the project."""
_DEBUGGING = ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp")
"""Calls that Docker's profile leaves to programs, and that MPI uses between processes of one user."""
_HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_WHOLE_RANGE = ["0", "0", "4294967295"]


def run_program(
    request: ContainerRun,
    image: FoundImage,
    scratch: Path,
    gpus: Handed,
) -> ContainerExit:
    """Implement ``ContainerRunner.run_container``.

    Args:
        request: what to run.
        image: the image that it names.
        scratch: folder for what programs write, on a file system that can be an overlay's upper one.
        gpus: what it gets for its GPUs.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder(scratch))
        group = stack.enter_context(Group(Limits(cpus=request.cpus, memory=request.memory)))
        program = _Program(request)
        code = program.run(_words(request, image, folder, gpus) | {"groups": group.doors()})
        if request.ended is not None:
            request.ended(EndedProgram(folder / "upper", [str(tree.path) for tree in image.trees]))
        out_of_memory = code != 0 and group.out_of_memory()
    return ContainerExit(code, out_of_memory=out_of_memory, timed_out=program.exceeded)


class EndedProgram:
    """Implements ``OwnFiles`` for an overlay's upper folder.

    Args:
        upper: the folder.
        lowers: those below it.
    """

    def __init__(self, upper: Path, lowers: Sequence[str]) -> None:
        self._upper, self._lowers = upper, lowers

    def changes(self) -> Mapping[str, FileChange]:
        """List what the program wrote; see ``OwnFiles``."""
        try:
            return layer_changes(str(self._upper), self._lowers)
        except OSError as error:
            raise EngineError(f"cannot list what the program wrote: {error.strerror}") from error

    @contextmanager
    def archive(self, path: str) -> Iterator[BinaryIO]:
        """Give a file or folder as tar; see ``OwnFiles``."""
        source = self._upper / path.lstrip("/")
        if not os.path.lexists(source):
            raise EngineError(f"cannot read {path} in the container: there is no such file")
        reader, writer = os.pipe()
        thread = threading.Thread(target=_write_tar, args=(source, writer), name="archive", daemon=True)
        thread.start()
        try:
            with open(reader, "rb") as stream:
                yield stream
        finally:
            thread.join()


def _write_tar(source: Path, writer: int) -> None:
    """Write a file or folder as tar to a pipe; what cannot be read is left out, an early end is the reader's wish."""
    with (
        suppress(OSError, tarfile.TarError),
        open(writer, "wb") as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.add(source, arcname=source.name, filter=_readable)


def _readable(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave devices out: in an overlay they stand for removed files."""
    return None if member.isdev() else member


class _Program:
    """One program from its start to its end."""

    def __init__(self, request: ContainerRun) -> None:
        self._request = request
        self._answers = _Answers()
        self.exceeded: float | None = None

    def run(self, words: Mapping[str, Any]) -> int:
        """Run it; returns its exit code.

        Raises:
            EngineError: it could not be started.
        """
        request = self._request
        ours, theirs = socket.socketpair()
        with ExitStack() as stack:
            stack.enter_context(ours)
            feed = stack.enter_context(_input(request))
            outputs = {} if request.tty else {_STDOUT: os.pipe(), _STDERR: os.pipe()}
            process = self._start(theirs, feed.theirs, outputs)
            stack.callback(_end, process)
            theirs.close()
            feed.started()
            for _, writer in outputs.values():
                os.close(writer)
            relay = stack.enter_context(SignalRelay(partial(_send, ours)))
            watchdog = None
            if request.limit is not None:
                stacks = partial(_send_all, ours, request.stacks) if request.stacks else None
                watchdog = stack.enter_context(Watchdog(request.limit, partial(_send, ours), stacks))
            with suppress(BrokenPipeError):
                ours.sendall(json.dumps(words).encode() + b"\n")
            write: Write = request.watcher.write if request.watcher else Sink(lambda: relay.send("SIGHUP")).write
            if request.tap:
                write = tapped(write, request.tap)

            def started() -> None:
                relay.open()
                if request.watcher:
                    request.watcher.started(relay.send)
                if request.tty:
                    stack.enter_context(raw_terminal())
                    stack.enter_context(resized(partial(_resize, self._answers)))
                if request.interactive:
                    stack.enter_context(feed.copied(self._answers))

            readers = {reader: number for number, (reader, _) in outputs.items()}
            _copy(ours, readers, self._answers, write, started)
            process.wait()
        self._answers.close()
        self.exceeded = watchdog.exceeded if watchdog else None
        return self._answers.code()

    def _start(
        self, theirs: socket.socket, stdin: int, outputs: Mapping[int, tuple[int, int]]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(SCRIPT), str(theirs.fileno())],
            stdin=stdin if stdin >= 0 else subprocess.DEVNULL,
            stdout=outputs[_STDOUT][1] if outputs else subprocess.DEVNULL,
            stderr=outputs[_STDERR][1] if outputs else subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            cwd="/",
            env={},
        )


class _Answers:
    """What the program's processes report, and the terminal they give."""

    def __init__(self) -> None:
        self._rest = b""
        self._table: dict[str, Any] = {}
        self.terminal = -1

    def take(self, channel: socket.socket) -> bool:
        """Read what there is; False at the end."""
        try:
            data, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 1)
        except OSError:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
            self.terminal = descriptor
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._table = {**json.loads(line), **self._table}  # the first of each word: a program has no say
        return bool(data)

    @property
    def started(self) -> bool:
        """Whether the program has started."""
        return bool(self._table.get("started"))

    def code(self) -> int:
        """Return the exit code.

        Raises:
            EngineError: the program was not started.
        """
        if "failed" in self._table:
            raise _refused(str(self._table["failed"]), int(self._table["reason"]))
        if "code" not in self._table:
            raise EngineError("the program's process ended before the program did", "run it again")
        return int(self._table["code"])

    def close(self) -> None:
        """Close the terminal."""
        if self.terminal >= 0:
            os.close(self.terminal)
            self.terminal = -1


class _Terminal:
    """A terminal's other side, as ``copied_input`` writes to it."""

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers

    def read(self, limit: int) -> bytes:
        """Return nothing: reading is done elsewhere."""
        return b""

    def write(self, data: bytes) -> None:
        """Write all of it."""
        while data:
            data = data[os.write(self._answers.terminal, data) :]

    def end_input(self) -> None:
        """Send what a terminal sends at the end of input."""
        self.write(b"\x04")


class _Input:
    """The program's standard input: nothing, this process's own, or a pipe where that one is a terminal."""

    def __init__(self, request: ContainerRun) -> None:
        self._tty = request.tty
        self._writer = -1
        self.theirs = -1
        if request.interactive and not request.tty:
            if _is_terminal(_STDIN):
                self.theirs, self._writer = os.pipe()
            elif _is_open(_STDIN):
                self.theirs = os.dup(_STDIN)

    def started(self) -> None:
        """Close what only the program needs."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    @contextmanager
    def copied(self, answers: _Answers) -> Iterator[None]:
        """Copy this process's input while the block runs, where that is needed."""
        if self._tty:
            with copied_input(_Terminal(answers)):
                yield
        elif self._writer >= 0:
            with copied_input(self):
                yield
        else:
            yield

    def read(self, limit: int) -> bytes:
        """Return nothing."""
        return b""

    def write(self, data: bytes) -> None:
        """Write all of it to the program."""
        while data:
            data = data[os.write(self._writer, data) :]

    def end_input(self) -> None:
        """Close the program's input."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1


@contextmanager
def _input(request: ContainerRun) -> Iterator[_Input]:
    made = _Input(request)
    try:
        yield made
    finally:
        made.started()
        with suppress(OSError):
            made.end_input()


def _copy(
    channel: socket.socket,
    readers: Mapping[int, int],
    answers: _Answers,
    write: Write,
    started: Callable[[], None],
) -> None:
    """Pass output on until the program's processes have ended."""
    told = False
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if key.fileobj is channel:
                    if not answers.take(channel):
                        selector.unregister(channel)
                    elif answers.terminal >= 0 and answers.terminal not in {*selector.get_map()}:
                        selector.register(answers.terminal, selectors.EVENT_READ)
                    if answers.started and not told:
                        told = True
                        started()
                    continue
                data = _read(key.fd)
                if data:
                    write(readers.get(key.fd, _STDOUT), memoryview(data))
                else:
                    selector.unregister(key.fd)
                    if key.fd != answers.terminal:
                        os.close(key.fd)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK)
    except OSError as error:
        if error.errno == errno.EIO:  # a terminal whose program has ended
            return b""
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """Make sure that the program's processes have ended."""
    if process.poll() is None:
        process.kill()
        process.wait()


def _send(channel: socket.socket, name: str) -> None:
    """Send the program a signal; one that has just ended needs none."""
    with suppress(OSError):
        channel.sendall(json.dumps({"signal": int(signal.Signals[name]), "all": False}).encode() + b"\n")


def _send_all(channel: socket.socket, number: int) -> None:
    """Send all its processes a signal."""
    with suppress(OSError):
        channel.sendall(json.dumps({"signal": number, "all": True}).encode() + b"\n")


def _resize(answers: _Answers, columns: int, lines: int) -> None:
    with suppress(OSError):
        fcntl.ioctl(answers.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def _words(
    request: ContainerRun,
    image: FoundImage,
    folder: Path,
    gpus: Handed,
) -> dict[str, Any]:
    """Describe the program for ``program_process.py``."""
    stored = image.image
    user, _, group = request.user.partition(":")
    root = os.geteuid() == 0
    user_id = int(user or 0) if root else os.getuid()
    entrypoint = stored.entrypoint if request.entrypoint is None else request.entrypoint
    command = request.command or (stored.command if request.entrypoint is None else ())
    kept = _ROOT_KEEPS if root and user_id == 0 else ()
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return {
        "parent": os.getpid(),
        "unshare": not root,
        "mapped": not root or _is_mapped(),
        "network": _network(request.network),
        "layers": [str(tree.path) for tree in reversed(image.trees)],
        "writable": sorted({path for tree in image.trees for path in tree.writable}),
        "root": str(folder / "root"),
        "upper": str(folder / "upper"),
        "work": str(folder / "work"),
        "mounts": [*map(_mount_words, request.mounts), *gpus.mounts],
        "links": dict(gpus.links),
        "libraries": list(gpus.folders),
        "memory": list(request.scratch),
        "shared": half,
        "hostname": request.hostname,
        "files": _name_files(request),
        "command": [*entrypoint, *command],
        "environment": {
            "PATH": _PATH,
            "HOSTNAME": request.hostname,
            **({"TERM": "xterm"} if request.tty else {}),
            **stored.environment,
            **gpus.variables,
            **request.environment,
        },
        "directory": request.workdir or stored.directory or "/",
        "user": user_id,
        "group": int(group or 0) if root else os.getgid(),
        "capabilities": list(kept),
        "cpus": _cpus(request.cpuset),
        "terminal": request.tty,
        "filter": syscall_filter.program(os.uname().machine, allowed=_DEBUGGING).hex(),
    }


def _mount_words(mount: Mount) -> dict[str, Any]:
    return {
        "source": str(mount.source.resolve()),
        "target": mount.target,
        "read_only": mount.read_only,
        "file": not mount.source.is_dir(),
    }


def _network(name: str) -> bool:
    """Whether the program shares the host's network; raises ``EngineError`` for a network of an engine."""
    if name in ("none", "host", "bridge"):
        return name != "none"
    raise EngineError(
        f"the local engine has no network {name}",
        "use one of: none, host (bridge is the host's too); or an engine that has it: ENVBUILD_ENGINE=docker",
    )


def _name_files(request: ContainerRun) -> dict[str, str]:
    """Return the files in which programs look names up."""
    files = {"/etc/hostname": f"{request.hostname}\n", "/etc/hosts": f"{_HOSTS}127.0.0.1\t{request.hostname}\n"}
    files["/etc/resolv.conf"] = ""
    if request.network != "none":
        with suppress(OSError):
            files["/etc/resolv.conf"] = Path("/etc/resolv.conf").read_text()
    return files


def _cpus(text: str) -> list[int]:
    """Read a CPU list such as ``0-1,4``; raises ``EngineError`` for one that is none."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        try:
            found += range(int(first), int(last or first) + 1)
        except ValueError:
            raise EngineError(f"{text!r} is no list of processors", "write it like this: 0-3,8") from None
    return found


def _is_mapped() -> bool:
    """Whether this process is in a user namespace."""
    with suppress(OSError):
        return Path("/proc/self/uid_map").read_text().split() != _WHOLE_RANGE
    return False


def _is_terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@contextmanager
def own_folder(scratch: Path) -> Iterator[Path]:
    """Make a run's folder; those of killed runs are removed."""
    scratch.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # a folder that has no lock yet is like one of a killed run
        sweep(scratch)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=scratch))
        lock = os.open(folder / "lock", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)
    try:
        with registered(folder):
            folder.chmod(0o711)  # the program's user passes through
            for name in ("root", "upper", "work"):
                (folder / name).mkdir(mode=0o755)
            yield folder
    finally:
        remove(folder)
        os.close(lock)


def sweep(scratch: Path) -> None:
    """Remove the folders of runs whose process was killed."""
    for left in scratch.glob("run-*"):
        with suppress(OSError), (left / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(left)


def _refused(what: str, reason: int) -> EngineError:
    """Describe what the kernel refused."""
    message = f"the local engine cannot {what}: {os.strerror(reason)}"
    if what.startswith("start "):
        message = f"cannot {what}: {os.strerror(reason)}"
        return EngineError(message)
    return EngineError(message, "use another engine: ENVBUILD_ENGINE=docker envbuild run …")
