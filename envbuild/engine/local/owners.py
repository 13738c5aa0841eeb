"""Owners of files, noted instead of given, for a user who has one identity only: as fakeroot does, but no library.

A filter of system calls hands every change of an owner to a process of envbuild's, which notes it and lets the call
succeed (seccomp_unotify(2)); what is noted goes into the tar of the result. A program that becomes another user cannot
be served so: the files it made would be root's. That is noted too, and the step then fails.

Programs see no change: to them a file whose owner was noted is root's. A script that copies owners (``cp -a``)
of such files gives other bits than as root; the digest that is recorded next to the lock then differs.

Only owners other than root are noted, by inode, and each such inode is held open, so that its number stays its own.
Run by ``namespace_step`` under the host's interpreter: standard library only.
"""

# Paths here are those of system calls:

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
from contextlib import suppress

CALLS = {
    "x86_64": {
        "chown": 92, "fchown": 93, "lchown": 94, "setuid": 105, "setgid": 106, "setreuid": 113, "setregid": 114,
        "setgroups": 116, "setresuid": 117, "setresgid": 119, "setfsuid": 122, "setfsgid": 123, "fchownat": 260,
    },
    "aarch64": {
        "fchownat": 54, "fchown": 55, "setregid": 143, "setgid": 144, "setreuid": 145, "setuid": 146, "setresuid": 147,
        "setresgid": 149, "setfsuid": 151, "setfsgid": 152, "setgroups": 159,
    },
}  # fmt: skip
"""Number by name of what is handed over, for each machine as ``uname -m`` names it."""
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _NEW_LISTENER = 1, 8
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTICE = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_SAME = 0xFFFFFFFF
_HERE, _NO_FOLLOW, _EMPTY = -100, 0x100, 0x1000
_PATH = 4096
_LIBC = ctypes.CDLL(None, use_errno=True)


class Owners:
    """Owners by inode; root's are not noted."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        self._held: dict[tuple[int, int], int] = {}
        self.others: list[str] = []
        """What programs have done that cannot be served, such as ``setuid 33``."""

    def of(self, status: os.stat_result) -> tuple[int, int]:
        """Return the owner and the group of a file."""
        return self._known.get((status.st_dev, status.st_ino), (0, 0))

    def give(self, path: str, user: int, group: int, *, follow: bool = False) -> None:
        """Note an owner, -1 for the one it has; raises ``OSError`` if there is no such file.

        What the kernel does to a file that is given away is done: it loses set-user-ID, set-group-ID and capabilities.
        """
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
        try:
            status = os.fstat(descriptor)
            if _is_plain(status):
                os.chown(path, os.getuid(), os.getgid())
            key = (status.st_dev, status.st_ino)
            before = self._known.get(key, (0, 0))
            found = (before[0] if user == -1 else user, before[1] if group == -1 else group)
            if found == (0, 0):
                self._known.pop(key, None)
                if (held := self._held.pop(key, None)) is not None:
                    os.close(held)
                return
            self._known[key] = found
            if key not in self._held:
                self._held[key], descriptor = descriptor, -1
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def dump(self) -> str:
        """Write what is noted as a line of JSON."""
        return json.dumps([[*key, *owner] for key, owner in self._known.items()])

    def load(self, text: str) -> None:
        """Take what another process has noted, which goes on holding the inodes."""
        self._known = {(device, inode): (user, group) for device, inode, user, group in json.loads(text)}


def _is_plain(status: os.stat_result) -> bool:
    return (status.st_mode & 0o170000) == 0o100000


def install(code: bytes) -> int:
    """Give this process a filter; returns the descriptor at which its notices arrive. Raises ``OSError``."""
    text = ctypes.create_string_buffer(code, len(code))
    words = struct.pack("@HP", len(code) // 8, ctypes.addressof(text))
    number = _SECCOMP[os.uname().machine]
    descriptor = _LIBC.syscall(number, _SET_FILTER, _NEW_LISTENER, words)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "filter system calls")
    return int(descriptor)


class Supervisor:
    """Answers the notices of one program and its children.

    Args:
        listener: where they arrive.
        owners: takes what is noted.
    """

    def __init__(self, listener: int, owners: Owners) -> None:
        self._listener, self._owners = listener, owners
        self._names = {number: name for name, number in CALLS[os.uname().machine].items()}

    def answer(self) -> None:
        """Take one notice and answer it."""
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, notice)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):  # the process has ended meanwhile
                return
            raise
        identity, process, _, number, _, _, *arguments = _NOTICE.unpack(notice)
        reason = 0
        try:
            self._do(process, self._names[number], arguments)
        except OSError as error:
            reason = error.errno or errno.EPERM
        with suppress(OSError):
            fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(identity, 0, -reason, 0))

    def _do(self, process: int, name: str, arguments: list[int]) -> None:
        first, second, third, fourth, fifth = arguments[:5]
        if name == "fchown":
            self._give(f"/proc/{process}/fd/{first & _SAME}", second, third, follow=True)
        elif name in ("chown", "lchown"):
            path, _ = self._path(process, _HERE, first)
            self._give(path, second, third, follow=name == "chown")
        elif name == "fchownat":
            folder = ctypes.c_int32(first & _SAME).value
            path, named = self._path(process, folder, second, empty=bool(fifth & _EMPTY))
            self._give(path, third, fourth, follow=not (named and fifth & _NO_FOLLOW))
        elif name == "setgroups":
            groups = self._read(process, second, 4 * min(first, 64)) if first else b""
            if any(groups):
                self._refuse("setgroups")
        else:
            count = 3 if "res" in name else 2 if "re" in name else 1
            if any(value & _SAME not in (0, _SAME) for value in arguments[:count]):
                self._refuse(f"{name} {arguments[0] & _SAME}")

    def _give(self, path: str, user: int, group: int, *, follow: bool) -> None:
        numbers = [-1 if each & _SAME == _SAME else each & _SAME for each in (user, group)]
        self._owners.give(path, *numbers, follow=follow)

    def _refuse(self, what: str) -> None:
        self._owners.others.append(what)
        raise OSError(errno.EPERM, what)

    def _path(self, process: int, folder: int, address: int, *, empty: bool = False) -> tuple[str, bool]:
        """Return a path of the program's as this process can use it, and whether it is more than a descriptor."""
        text = self._read(process, address, _PATH).partition(b"\0")[0]
        above = f"/proc/{process}/cwd" if folder == _HERE else f"/proc/{process}/fd/{folder}"
        if not text:
            if empty:
                return above, False
            raise OSError(errno.ENOENT, "no path")
        name = os.fsdecode(text)
        return (f"/proc/{process}/root{name}" if name.startswith("/") else f"{above}/{name}"), True

    def _read(self, process: int, address: int, size: int) -> bytes:
        """Read a program's memory; a page that is not there ends it."""
        with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
            try:
                memory.seek(address)
                return memory.read(size) or b""
            except (OSError, OverflowError):
                return b""


def supervise(program: int, door: socket.socket, owners: Owners) -> int:
    """Answer a child's notices until it has ended; returns its wait status. Reaps all others.

    Args:
        program: the child; it sends the listener through ``door``, or nothing if it fails before.
        owners: takes what is noted.
    """
    _, descriptors, _, _ = socket.recv_fds(door, 1, 1)
    door.close()
    supervisor = Supervisor(descriptors[0], owners) if descriptors else None
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker)
    poller = select.poll()
    poller.register(wake, select.POLLIN)
    if supervisor is not None:
        poller.register(descriptors[0], select.POLLIN)
    while True:
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == program:
                    return found[1]
        for descriptor, events in poller.poll(1000):
            if descriptor == wake:
                os.read(wake, 4096)
            elif events & select.POLLIN and supervisor is not None:
                supervisor.answer()
            else:
                poller.unregister(descriptor)
