"""One program in namespaces of the kernel: the part that runs in separate processes and enters them.

Standard library only: it runs as a script (``python -I -S -B program_process.py DESCRIPTOR``) under envbuild's own
interpreter. Descriptors 0, 1 and 2 are the program's. DESCRIPTOR is one end of a stream socket: it gives one line of
JSON, the request, and later ``{"signal": number, "all": truth}`` for signals to the program, or to all its processes.
It takes ``{"terminal": true}`` with the descriptor of a terminal's other side, ``{"started": true}`` just before the
program starts, ``{"failed": what, "reason": errno}`` when the kernel refused, ``{"code": number}`` at the end.

Three processes: the first waits in the old process namespace; the second is process 1 of the new one, builds the root
file system, passes signals on and reaps; the third becomes the program. When the caller ends, the kernel ends the first
one, then process 1, and with it everything in its namespace.

A root file system is an overlay of the image's layers, read-only, under a folder of the run's own. What is mounted is
taken hold of before the root changes (``open_tree``) and put into place afterwards (``move_mount``), so that links in
the image lead nowhere but into the image.

Sources: unshare(2), user_namespaces(7), pivot_root(2), capabilities(7), ioctl_tty(2); Linux,
Documentation/filesystems/overlayfs.rst and mount_api; moby, oci/defaults.go.
"""

# Paths here are those of system calls, most of them below another root:
# ruff: noqa: PTH102, PTH103, PTH110, PTH112, PTH114, PTH120, PTH211

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import termios
from contextlib import suppress
from typing import Any

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR, _CLOSE_RANGE = 428, 429, 442, 436
_HERE, _EMPTY_PATH, _RECURSIVE, _CLONE, _CLOEXEC = -100, 0x1000, 0x8000, 1, 0o2000000
_FROM_EMPTY_PATH = 4
_DEATH_SIGNAL, _DROP_BOUND, _NO_NEW_PRIVILEGES = 1, 24, 38
_SECCOMP, _FILTER = 22, 2
_CAPABILITIES_3 = 0x20080522
_KILL = 5
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_HIDDEN = ("kcore", "keys", "latency_stats", "timer_list", "timer_stats", "acpi", "scsi", "sched_debug", "interrupts")
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_FILES = 1 << 20
"""Open files of a process, as engines have it, or as many as this user may have."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class _RefusedError(Exception):
    """The kernel refused a call; the arguments are what it was for and the error's number."""


class _Channel:
    """This side of the socket to envbuild."""

    def __init__(self, descriptor: int) -> None:
        self.socket = socket.socket(fileno=descriptor)
        self._rest = b""

    def request(self) -> dict[str, Any]:
        """Return the first line; an empty one if envbuild has ended."""
        while b"\n" not in self._rest:
            data = self.socket.recv(1 << 16)
            if not data:
                os._exit(1)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return dict(json.loads(line))

    def orders(self) -> list[dict[str, Any]] | None:
        """Return the lines that have come; None at the end."""
        try:
            data = self.socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def send(self, **fields: Any) -> None:
        """Send a line."""
        with suppress(OSError):
            self.socket.sendall(json.dumps(fields).encode() + b"\n")

    def send_terminal(self, descriptor: int) -> None:
        """Send a descriptor with its line."""
        socket.send_fds(self.socket, [b'{"terminal": true}\n'], [descriptor])


def main() -> None:
    """Run the program that the request describes; see the module's description."""
    channel = _Channel(int(sys.argv[1]))
    for each in _FORWARDED:  # a launcher that ends a job signals all its processes; envbuild passes it on
        signal.signal(each, signal.SIG_IGN)
    request = channel.request()
    os.umask(0o022)
    code = 1
    try:
        _call("end with envbuild", _LIBC.prctl, _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != request["parent"]:
            os._exit(1)
        _separate(request)
        child = os.fork()
        if child == 0:
            _first(request, channel)
        for number in (0, 1, 2):  # the program's: it alone keeps them open
            os.close(number)
        status = os.waitpid(child, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        if code < 0:  # process 1 was killed: nobody else can report it
            channel.send(code=128 - code)
    except _RefusedError as refused:
        channel.send(failed=refused.args[0], reason=refused.args[1])
    except OSError as error:
        channel.send(failed=f"{error.strerror} {error.filename or ''}".strip(), reason=error.errno or 0)
    os._exit(0 if code == 0 else 1)


def _separate(request: dict[str, Any]) -> None:
    """Make the namespaces, and map this user to itself in a new user namespace where that is asked for."""
    user, group = os.getuid(), os.getgid()
    if request["unshare"]:
        _call("make a user namespace", _LIBC.unshare, _NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                stream.write(text)
    flags = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWCGROUP | (0 if request["network"] else _NEWNET)
    _call("make namespaces", _LIBC.unshare, flags)


def _first(request: dict[str, Any], channel: _Channel) -> None:
    """Be process 1: prepare the root file system, start the program, and stay until it has ended."""
    code = 255
    try:
        _call("end with envbuild", _LIBC.prctl, _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        groups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in request["groups"]]
        _enter(request)
        terminal = _terminal(channel) if request["terminal"] else -1
        _limit_root(request)
        code = _Init(request, channel, terminal, groups).run()
        channel.send(code=code)
    except _RefusedError as refused:
        channel.send(failed=refused.args[0], reason=refused.args[1])
    except OSError as error:
        channel.send(failed=f"{error.strerror} {error.filename or ''}".strip(), reason=error.errno or 0)
    finally:
        os._exit(code if code < 255 else 1)


def _enter(request: dict[str, Any]) -> None:
    """Make the image's file system this process's root, with everything that is mounted in it."""
    _mount(None, "/", None, _REC | _PRIVATE)
    trees = [
        (mount, _taken(mount["source"], read_only=mount["read_only"], devices=mount.get("devices", False)))
        for mount in request["mounts"]
    ]
    devices = [(name, _taken(f"/dev/{name}", devices=True)) for name in _DEVICES if os.path.exists(f"/dev/{name}")]
    system = _taken("/sys", read_only=True) if request["network"] and os.path.isdir("/sys") else -1
    _mount_root(request)
    os.chdir(request["root"])
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise _RefusedError(f"change the root on {os.uname().machine}", errno.ENOSYS)
    _call("change the root", _LIBC.syscall, number, b".", b".")
    for name in ("proc", "sys", "dev"):
        _folder(f"/{name}")
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    _system(system)
    _devices(devices, request)
    _call("leave the old root", _LIBC.umount2, b".", _DETACH)
    os.chdir("/")
    _protect_proc()
    _names(request)
    for path in request["memory"]:
        _folder(path)
        _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, "mode=1777")
    for mount, tree in trees:
        _place(tree, mount["target"], file=mount["file"])
    _libraries(request)
    with suppress(OSError):
        os.makedirs(request["directory"], exist_ok=True)
    if not request["network"]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control, suppress(OSError):
            fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP


def _mount_root(request: dict[str, Any]) -> None:
    """Mount the layers, uppermost first, under the run's own folder; by descriptors, since options have one page."""
    layers = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in request["layers"]]
    lower = ":".join(f"/proc/self/fd/{number}" for number in layers)
    own = f"upperdir={request['upper']},workdir={request['work']}"
    how = "userxattr" if request["mapped"] else "redirect_dir=off,metacopy=off,index=off"
    _mount("overlay", request["root"], "overlay", _NODEV, f"lowerdir={lower},{own},{how},volatile")
    for number in layers:
        os.close(number)


def _taken(path: str, *, read_only: bool = False, devices: bool = False) -> int:
    """Take hold of a file or folder of the host, with what is mounted below; returns a descriptor."""
    tree = _LIBC.syscall(_OPEN_TREE, _HERE, path.encode("utf-8", "surrogateescape"), _CLONE | _CLOEXEC | _RECURSIVE)
    if tree < 0:
        raise _RefusedError(f"mount {path}", ctypes.get_errno())
    flags = _NOSUID | (_RDONLY if read_only else 0) | (0 if devices else _NODEV)
    words = struct.pack("=4Q", flags, 0, 0, 0)
    _call(f"mount {path}", _LIBC.syscall, _MOUNT_SETATTR, tree, b"", _EMPTY_PATH | _RECURSIVE, words, len(words))
    return int(tree)


def _place(tree: int, target: str, *, file: bool) -> None:
    """Put what was taken to where the program sees it; missing folders are made."""
    if file and not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    elif not file:
        os.makedirs(target, exist_ok=True)
    path = target.encode("utf-8", "surrogateescape")
    _call(f"mount {target}", _LIBC.syscall, _MOVE_MOUNT, tree, b"", _HERE, path, _FROM_EMPTY_PATH)
    os.close(tree)


def _libraries(request: dict[str, Any]) -> None:
    """Make links, and the loader's cache where libraries came in; its program is the image's, and may do no more."""
    for path, target in request["links"].items():
        with suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
    if not request["libraries"]:
        return
    child = os.fork()
    if child == 0:
        with suppress(OSError, _RefusedError):
            _give_up(())
            _filter_calls(request)
            os.execve("/sbin/ldconfig", ["/sbin/ldconfig", *request["libraries"]], {})  # noqa: S606
        os._exit(127)
    os.waitpid(child, 0)


def _folder(path: str) -> None:
    """Make a folder unless there is one."""
    os.makedirs(path, exist_ok=True)


def _system(tree: int) -> None:
    """Mount ``/sys`` read-only: a new one where the network is the namespace's own, else the host's."""
    if tree >= 0:
        _place(tree, "/sys", file=False)
    else:
        try:
            _mount("sysfs", "/sys", "sysfs", _NOSUID | _NODEV | _NOEXEC | _RDONLY)
        except _RefusedError:
            return  # programs then find no hardware there, as where an engine hides it
    for name in ("firmware", "devices/virtual/powercap", "kernel/security"):
        if os.path.isdir(f"/sys/{name}"):
            with suppress(_RefusedError):
                _mount("tmpfs", f"/sys/{name}", "tmpfs", _RDONLY)


def _devices(devices: list[tuple[str, int]], request: dict[str, Any]) -> None:
    """Make ``/dev``: few devices of the host, terminals and shared memory of the program's own."""
    _mount("tmpfs", "/dev", "tmpfs", _NOSUID | _NOEXEC, "mode=755,size=65536k")
    for name, tree in devices:
        _place(tree, f"/dev/{name}", file=True)
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/pts")
    _mount("devpts", "/dev/pts", "devpts", _NOSUID | _NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    os.symlink("pts/ptmx", "/dev/ptmx")
    os.mkdir("/dev/shm")  # noqa: S108 - the container's
    _mount("tmpfs", "/dev/shm", "tmpfs", _NOSUID | _NODEV | _NOEXEC, f"mode=1777,size={request['shared']}")  # noqa: S108
    os.mkdir("/dev/mqueue")
    with suppress(_RefusedError):
        _mount("mqueue", "/dev/mqueue", "mqueue", _NOSUID | _NODEV | _NOEXEC)


def _protect_proc() -> None:
    """Make what concerns the whole machine read-only, or hide it."""
    for path in (f"/proc/{name}" for name in _READ_ONLY if os.path.exists(f"/proc/{name}")):
        _mount(path, path, None, _BIND | _REC)
        _mount(None, path, None, _BIND | _REMOUNT | _RDONLY | _NOSUID | _NODEV | _NOEXEC)
    for path in (f"/proc/{name}" for name in _HIDDEN):
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", _RDONLY)
        elif os.path.exists(path):
            _mount("/dev/null", path, None, _BIND)


def _names(request: dict[str, Any]) -> None:
    """Set the host's name and write the files that programs look names up in."""
    name = request["hostname"].encode()
    _call("set the host name", _LIBC.sethostname, name, len(name))
    for path, text in request["files"].items():
        with suppress(OSError):  # links in an image may lead anywhere within it
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)


def _limit_root(request: dict[str, Any]) -> None:
    """Let a user who is not root write only where everybody may, as its identity alone would have it.

    The image's files belong to this user here, since no other one is mapped.
    """
    if not request["unshare"]:
        return
    places = [path for path in request["writable"] if os.path.isdir(path) and not os.path.islink(path)]
    trees = [(path, _LIBC.syscall(_OPEN_TREE, _HERE, path.encode(), _CLONE | _CLOEXEC | _RECURSIVE)) for path in places]
    _mount(None, "/", None, _BIND | _REMOUNT | _RDONLY | _NODEV)
    for path, tree in trees:
        if tree >= 0 and not os.path.ismount(path):
            _call(f"mount {path}", _LIBC.syscall, _MOVE_MOUNT, tree, b"", _HERE, path.encode(), _FROM_EMPTY_PATH)
        if tree >= 0:
            os.close(tree)


def _terminal(channel: _Channel) -> int:
    """Make a terminal in the container; its other side goes to envbuild. Returns the program's side."""
    master = os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(master, 0x40045431, struct.pack("i", 0))  # TIOCSPTLCK: unlock
    (number,) = struct.unpack("I", fcntl.ioctl(master, 0x80045430, bytes(4)))  # TIOCGPTN
    slave = os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    with suppress(_RefusedError, OSError):
        os.close(os.open("/dev/console", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        _mount(f"/dev/pts/{number}", "/dev/console", None, _BIND)
    channel.send_terminal(master)
    os.close(master)
    return slave


class _Init:
    """Process 1 once the root is ready: starts the program, passes on what it is sent, reaps.

    Args:
        terminal: descriptor of the program's terminal; -1 for none.
        groups: descriptors of the control groups that the program enters.
    """

    def __init__(self, request: dict[str, Any], channel: _Channel, terminal: int, groups: list[int]) -> None:
        self._request, self._channel = request, channel
        self._wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in _FORWARDED:
            signal.signal(number, signal.SIG_IGN)
        if terminal >= 0 and request["user"]:
            os.fchown(terminal, request["user"], -1)
        self._fault, fault = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            signal.set_wakeup_fd(-1)
            self._become(fault, terminal, groups)
        os.close(fault)
        if terminal >= 0:
            os.close(terminal)

    def run(self) -> int:
        """Stay until the program has ended; returns its exit code."""
        message = os.read(self._fault, 1 << 12)
        if message:
            raise _RefusedError(*json.loads(message))
        for number in (0, 1, 2):  # the program's: it alone keeps them open
            os.close(number)
        _give_up((_KILL,))
        while True:
            ready = select.select([self._wake, self._channel.socket.fileno()], [], [])[0]
            if self._wake in ready:
                os.read(self._wake, 1 << 12)
                code = self._reap()
                if code is not None:
                    return code
            if self._channel.socket.fileno() in ready:
                orders = self._channel.orders()
                if orders is None:
                    os._exit(1)
                for order in orders:
                    self._pass_on(order)

    def _pass_on(self, order: dict[str, Any]) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if order["all"] or order["signal"] == signal.SIGKILL:
                os.kill(-1, order["signal"])
            else:
                os.kill(self._child, order["signal"])

    def _reap(self) -> int | None:
        """Wait for those that have ended; returns the program's exit code if it is among them."""
        found = None
        with suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    break
                if process == self._child:
                    code = os.waitstatus_to_exitcode(status)
                    found = code if code >= 0 else 128 - code
        return found

    def _become(self, fault: int, terminal: int, groups: list[int]) -> None:
        """Turn this process into the program."""
        request = self._request
        try:
            os.setsid()
            for group in groups:
                os.write(group, b"0")  # this process
            if terminal >= 0:
                fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
                for number in (0, 1, 2):
                    os.dup2(terminal, number)
            if request["cpus"]:
                os.sched_setaffinity(0, request["cpus"])
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most if 0 <= most < _FILES else _FILES, most))
            for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                with suppress(OSError, ValueError):
                    signal.signal(each, signal.SIG_DFL)
            with suppress(PermissionError):  # one identity alone: there are no other groups to leave
                os.setgroups([])
            if not request["unshare"]:
                os.setgid(request["group"])
            _give_up(tuple(request["capabilities"]), user=None if request["unshare"] else request["user"])
            os.chdir(request["directory"])
            _filter_calls(request)
            self._channel.send(started=True)
            _LIBC.syscall(_CLOSE_RANGE, 3, 0xFFFFFFFF, 4)  # when the program starts; CLOSE_RANGE_CLOEXEC
            os.execvpe(request["command"][0], request["command"], request["environment"])  # noqa: S606 - asked for
        except _RefusedError as refused:
            os.write(fault, json.dumps(refused.args).encode())
        except OSError as error:
            what = f"start {request['command'][0]} in {request['directory']}"
            os.write(fault, json.dumps([what, error.errno or 0]).encode())
        finally:
            os._exit(127)


def _give_up(kept: tuple[int, ...], user: int | None = None) -> None:
    """Keep these capabilities at most, for good; become another user in between, who then has none."""
    for number in range(64):
        if number not in kept:
            _LIBC.prctl(_DROP_BOUND, number, 0, 0, 0)  # the last ones do not exist
    if user:
        os.setuid(user)
        kept = ()
    _call("give up privileges", _LIBC.prctl, _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    mask = sum(1 << number for number in kept)
    head = struct.pack("Ii", _CAPABILITIES_3, 0)
    _call("give up capabilities", _LIBC.capset, head, struct.pack("6I", mask, mask, 0, 0, 0, 0))


def _filter_calls(request: dict[str, Any]) -> None:
    """Put the filter of system calls on this process, for good."""
    code = bytes.fromhex(request["filter"])
    text = ctypes.create_string_buffer(code, len(code))
    words = struct.pack("@HP", len(code) // 8, ctypes.addressof(text))
    _call("filter system calls", _LIBC.prctl, _SECCOMP, _FILTER, words, 0, 0)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [word.encode("utf-8", "surrogateescape") if word is not None else None for word in (source, target, kind)]
    text = data.encode("utf-8", "surrogateescape") if data else None
    _call(f"mount {target}", _LIBC.mount, *words, ctypes.c_ulong(flags), text)


def _call(what: str, function: Any, *arguments: Any) -> None:
    if function(*arguments) != 0:
        raise _RefusedError(what, ctypes.get_errno())


if __name__ == "__main__":
    main()
