"""One build step in namespaces of the kernel: the part that runs in a separate process and enters them.

Standard library only: it runs as a script (``python -I -S -B namespace_step.py``) under envbuild's own interpreter,
which it has left behind once it has gone into the step's root file system.

Descriptor 0 gives one line of JSON, the request; with ``user`` "needed" or "wanted" then a line as soon as this
process's identities are mapped: "wanted" goes on without a user namespace where the kernel refuses one. With "entered"
this process is root of one already. Descriptor 2
takes lines of JSON: ``{"map": true}`` asks for the mapping; ``{"failed": what, "reason": errno}`` states that the
kernel refused; ``{"code": number, "output": text, "missing": truth}`` that the command has ended and
whether it left no result. After code 0 the result follows on descriptor 1 as a tar stream. SIGKILL ends all of it.

With ``streamed`` the root file system comes on descriptor 0 as members of tars, after ``{"fill": true}`` has asked for
it; the last one is named ``WHOLE``, without which no command starts. The result then stays in its folder, and what
follows on descriptor 1 is a line of JSON for each entry: the fields of ``engine.protocol.FoundEntry``, a capability in
hexadecimal. With ``hand_over`` all of it becomes this user's root's, to be read and moved, once it is listed.

With ``in_memory`` the root file system is a tmpfs, and only its result is in the step's folder.

With ``base``, a folder of the host, its folders are mounted in the root file system, read-only, before anything comes.

With ``emulated``, the name of another machine, its programs are started by the program ``EMULATOR`` in the step's
folder: by an instance of binfmt_misc that is the user namespace's own, and gone with it.

What the command may do is what Docker lets it by default: the same capabilities, a filter of system calls
(``syscall_filter.py``; its bytes come with the request), ``/proc/sys`` and its like read-only,
no network but a loopback device, no device but null, zero, full, random, urandom and tty. It sees no ``/sys``.
Sources: unshare(2), user_namespaces(7), pivot_root(2), capabilities(7); moby, oci/caps/defaults.go and
oci/defaults.go; Documentation/admin-guide/binfmt-misc.rst and fs/binfmt_misc.c of Linux (since 6.7 each user namespace
may have an instance), Debian's rule usr/lib/binfmt.d/qemu-aarch64.conf.
"""

# Paths here are those of system calls, most of them below another root:
# ruff: noqa: PTH101, PTH102, PTH103, PTH108, PTH110, PTH112, PTH114, PTH115, PTH119, PTH120, PTH208, PTH211

from __future__ import annotations

import ctypes
import errno
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import socket
import stat
import struct
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

_CLONE_MOUNTS = 0x00020000
_CLONE = _CLONE_MOUNTS | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
"""Mounts, host name, System V objects, processes, network."""
_CLONE_NEWUSER = 0x10000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_DEATH_SIGNAL, _DROP_BOUND, _NO_NEW_PRIVILEGES = 1, 24, 38
_SECCOMP, _FILTER = 22, 2
_KEPT = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31)
"""Docker's capabilities without CAP_MKNOD: ownership, modes, signals, identities, ports, raw sockets, chroot, audit."""
_CAPABILITIES_3 = 0x20080522
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_HIDDEN = ("kcore", "keys", "timer_list", "acpi", "scsi", "sched_debug")
_ENGINES = ("dev", "proc", "sys")
"""Folders of the root file system whose content is no part of a result."""
_TAIL, _LINE = 16 << 10, 1 << 10
_FULL = (b"no space left on device", b"disk quota exceeded")
_LIBC = ctypes.CDLL(None, use_errno=True)
_STATUS = 2
_XATTR = "SCHILY.xattr."
_CAPABILITY = "security.capability"
"""The one attribute that engines give back with a result."""


EMULATOR = "emulator"
"""Name of the program in the step's folder that starts those of another machine."""
EMULATE = "have the kernel start programs through the emulator"
START = "start programs in the store's folder, which is mounted noexec"
_EMULATED = {"aarch64": 0xB7}
"""Machines that can be emulated, with their number in ELF's ``e_machine``; 64 bits, little-endian."""
WHOLE = "dev/.whole"
"""Name of the member that ends a root file system in a stream."""
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
}


class _RefusedError(Exception):
    """The kernel refused a call; the arguments are what it was for and the error's number."""


def main() -> None:
    """Run the step that descriptor 0 describes; see the module's description."""
    request = json.loads(sys.stdin.buffer.readline())
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a thread that blocks signals hands that on to what it starts
    try:
        with ExitStack() as stack:
            tars = [stack.enter_context(open(path, "rb")) for path in request.get("tars", ())]
            if folder := request.get("folder"):
                os.chdir(folder)  # root of a user namespace may not pass the folders above it
            early = request["user"] in ("none", "wanted") and _take_base(request)  # nor those above the base
            own = _become_root(request["user"])
            _call("end with envbuild", _LIBC.prctl, _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if remove := request.get("remove"):
                shutil.rmtree(remove)
            else:
                _run(request, tars, own_user_namespace=own, has_base=early)
    except _RefusedError as refused:
        _send(failed=refused.args[0], reason=refused.args[1])
    except OSError as error:
        _send(failed=f"use {error.filename}" if error.filename else "prepare the step", reason=error.errno or 0)


def _become_root(user: str) -> bool:
    """Become root of a user namespace of this process's own; returns whether it has one.

    Args:
        user: "needed", "wanted", "entered" or "none".
    """
    if user in ("none", "entered"):
        return user == "entered"
    if _LIBC.unshare(_CLONE_NEWUSER) != 0:
        if user == "wanted":
            return False
        raise _RefusedError("make a user namespace", ctypes.get_errno())
    _send(map=True)
    sys.stdin.buffer.readline()
    if user == "wanted":  # the host's root is nobody here; a user is root already
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    return True


def _run(request: dict[str, Any], tars: list[Any], *, own_user_namespace: bool, has_base: bool) -> None:
    """Enter, unpack, run, give the result, clean up. The step's root is ``root`` in the working directory."""
    _call("make namespaces", _LIBC.unshare, _CLONE)
    if own_user_namespace:
        _forbid_user_namespaces()
    _mount(None, "/", None, _REC | _PRIVATE)
    if not has_base:
        has_base = _take_base(request)
    if machine := request["emulated"]:
        _emulate(machine, own_user_namespace=own_user_namespace)
    if request.get("in_memory"):
        _make_in_memory(request["result"])
    else:
        _mount("root", "root", None, _BIND)
        _remount("root", _NODEV)
        os.chdir("root")
    if os.statvfs(".").f_flag & _NOEXEC:
        raise _RefusedError(START, errno.EACCES)
    if has_base:
        _lay("../base")
    if shown := request.get("shown"):
        _show(shown.strip("/"))
    owners = _recorder() if request["record"] else None
    calls, alone = bytes.fromhex(request["filter"]), request.get("one_processor", False)
    command = _Command(request["command"], request["environment"], calls, owners, one_processor=alone)
    _enter()
    for tar in tars:
        _unpack(tar, strict=request["owners"], owners=owners)
    if request.get("streamed"):
        _send(fill=True)
        if not _unpack(sys.stdin.buffer, strict=request["owners"], owners=owners, streamed=True):
            raise _RefusedError("read the root file system", errno.EPIPE)
    code, output = command.run()
    if shown:
        _LIBC.umount2(shown.encode(), _DETACH)
    missing = not os.path.lexists(request["result"])
    _send(code=code, output=output, missing=missing, others=owners.others if owners else [])
    if code == 0 and not missing and request.get("streamed"):
        with open(1, "wb", buffering=1 << 20, closefd=False) as stream:
            _list(request["result"], stream, owners, hand_over=request["hand_over"])
        return
    if code == 0 and not missing:
        with open(1, "wb", buffering=1 << 20, closefd=False) as stream:
            _pack(request["result"], stream, owners)
        os.close(1)
    for folder in (b"/proc", b"/dev"):
        _LIBC.umount2(folder, _DETACH)
    for entry in list(os.scandir("/")):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def _make_in_memory(result: str) -> None:
    """Make a root file system in memory, and go there; the result alone is in the folder ``root``, on the disk."""
    place = result.strip("/")
    os.makedirs(f"root/{place}")
    os.mkdir("memory")
    _mount("tmpfs", "memory", "tmpfs", _NODEV, "mode=755,nr_inodes=0")
    os.makedirs(f"memory/{place}")
    _mount(f"root/{place}", f"memory/{place}", None, _BIND)
    _remount(f"memory/{place}", _NODEV)
    os.chdir("memory")


def _take_base(request: dict[str, Any]) -> bool:
    """Mount the request's base at ``base`` in the working directory, read-only; returns whether it has one."""
    if not request.get("base"):
        return False
    _call("make namespaces", _LIBC.unshare, _CLONE_MOUNTS)
    _mount(None, "/", None, _REC | _PRIVATE)
    _mount(request["base"], "base", None, _BIND)
    _restrict("base")
    return True


def _restrict(place: str) -> None:
    """Let nobody write to a mount, nor use devices in it."""
    _remount(place, _RDONLY | _NODEV)


def _lay(base: str) -> None:
    """Mount a root file system's folders in the working directory, read-only; its links are made anew."""
    for name in sorted(os.listdir(base)):
        source = f"{base}/{name}"
        if os.path.islink(source):
            os.symlink(os.readlink(source), name)
        elif os.path.isdir(source) and name not in _ENGINES:
            os.mkdir(name)
            _mount(source, name, None, _BIND)
            _restrict(name)


def _emulate(machine: str, *, own_user_namespace: bool) -> None:
    """Have the kernel start another machine's programs through the emulator, within this process's user namespace.

    The rule is Debian's: files that begin as programs and shared objects of the machine do. ``F`` opens the emulator
    now, so that no root file system needs it; ``P`` passes the name on that a program was started by. The rules are
    there as long as their file system, which a descriptor of this process holds.
    """
    if not own_user_namespace or machine not in _EMULATED:  # it would be a rule for the whole machine
        raise _RefusedError(EMULATE, errno.EPERM)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, _EMULATED[machine])
    mask = b"\xff" * 7 + b"\x00" + b"\xff" * 8 + b"\xfe" + b"\xff" * 3
    magic, masked = ("".join(f"\\x{byte:02x}" for byte in data) for data in (head, mask))
    os.mkdir("binfmt")
    try:
        _mount("binfmt_misc", "binfmt", "binfmt_misc", _NOSUID | _NODEV | _NOEXEC)
        os.open("binfmt", os.O_RDONLY | os.O_DIRECTORY)
        with open("binfmt/register", "wb", buffering=0) as rules:
            rules.write(f":{machine}:M:0:{magic}:{masked}:{EMULATOR}:PF".encode())
    except _RefusedError as refused:
        raise _RefusedError(EMULATE, refused.args[1]) from None
    except OSError as error:
        raise _RefusedError(EMULATE, error.errno or 0) from None
    _LIBC.umount2(b"binfmt", _DETACH)


def _forbid_user_namespaces() -> None:
    """Let nobody in this process's user namespace make another one: a limit of this namespace alone.

    The filter of system calls denies the same; where ``/proc/sys`` is read-only, as in a container, it does so alone.
    """
    with suppress(OSError), open("/proc/sys/user/max_user_namespaces", "w") as limit:
        limit.write("0")


def _enter() -> None:
    """Make the working directory this process's root file system, with devices, a host name and a loopback device."""
    os.mkdir("dev")
    _mount("tmpfs", "dev", "tmpfs", _NOSUID | _NOEXEC, "mode=755")
    for name in _DEVICES:
        os.close(os.open(f"dev/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        _mount(f"/dev/{name}", f"dev/{name}", None, _BIND)
    for name, target in _LINKS.items():
        os.symlink(target, f"dev/{name}")
    os.mkdir("dev/shm")
    os.chmod("dev/shm", 0o1777)  # noqa: S103 - as everywhere
    _call("set the host name", _LIBC.sethostname, b"envbuild", 8)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control, suppress(OSError):
        fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise _RefusedError(f"change the root on {os.uname().machine}", errno.ENOSYS)
    _call("change the root", _LIBC.syscall, number, b".", b".")
    _call("leave the old root", _LIBC.umount2, b".", _DETACH)
    os.chdir("/")


def _recorder() -> Any:
    """Load the module next to this script, and return what notes owners that cannot be given."""
    where = f"{os.path.dirname(__file__)}/owners.py"
    spec = importlib.util.spec_from_file_location("owners", where)
    assert spec is not None  # noqa: S101 - it is a file
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules["owners"] = module
    spec.loader.exec_module(module)
    return module.Owners()


def _show(place: str) -> None:
    """Let the command see the folder ``shown`` at a place in the working directory, read-only."""
    for end in [at for at, each in enumerate(f"{place}/") if each == "/"]:
        if not os.path.isdir(place[:end]):
            os.mkdir(place[:end])
    _mount("../shown", place, None, _BIND)
    _remount(place, _RDONLY | _NOSUID | _NODEV | _NOEXEC)


def _unpack(stream: Any, *, strict: bool, owners: Any, streamed: bool = False) -> bool:
    """Unpack a tar over ``/``; unless ``strict``, owners that are not mapped do not matter.

    Args:
        owners: notes owners instead; None to give them.
        streamed: the stream has the members of several tars, and cannot go back.

    Returns:
        Whether the last member of a stream was met.
    """
    late, whole = [], not streamed
    with tarfile.open(fileobj=stream, mode="r|" if streamed else "r:", bufsize=1 << 20, ignore_zeros=streamed) as tar:
        for member in tar:
            if streamed and member.name == WHOLE:
                whole = True
                break
            path = "/" + member.name.strip("/").removeprefix("./")
            if path in ("/", "/.") or path.split("/")[1] in _ENGINES:
                continue
            if member.isdir() and os.path.isdir(path) and not os.path.islink(path):
                pass
            elif member.isdir():
                os.mkdir(path)
            else:
                if os.path.lexists(path):
                    os.unlink(path)
                _make(tar, member, path)
            if member.islnk():
                continue
            try:
                if owners is None:
                    os.chown(path, member.uid, member.gid, follow_symlinks=False)
                else:
                    owners.give(path, member.uid, member.gid)
            except OSError as error:
                if strict or error.errno != errno.EINVAL:
                    raise _RefusedError(f"give {path} to {member.uid}:{member.gid}", error.errno) from None
            if not member.issym():
                os.chmod(path, member.mode)
                for key, value in member.pax_headers.items():
                    if key.startswith(_XATTR):
                        os.setxattr(path, key[len(_XATTR) :], value.encode("utf-8", "surrogateescape"))
            if member.isdir():
                late.append((path, member.mtime))
            else:
                os.utime(path, (member.mtime, member.mtime), follow_symlinks=False)
    for path, time in reversed(late):
        os.utime(path, (time, time))
    return whole


def _make(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    """Make what is no folder, without owner and mode."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if member.issym():
        os.symlink(member.linkname, path)
    elif member.islnk():
        os.link("/" + member.linkname.strip("/").removeprefix("./"), path, follow_symlinks=False)
    elif member.isfifo():
        os.mkfifo(path)
    elif member.isreg():
        content = tar.extractfile(member)
        assert content is not None  # noqa: S101 - of a regular file
        with open(path, "xb", buffering=0) as target:
            shutil.copyfileobj(content, target, 1 << 20)
    else:
        raise _RefusedError(f"make the device {path}", errno.EPERM)


class _Command:
    """The command, as process 1 of a new process namespace, which waits to be run.

    It exists before the root changes: the kernel gives a user namespace a new ``/proc`` only where an old one is seen.
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        calls: bytes,
        owners: Any = None,
        *,
        one_processor: bool = False,
    ) -> None:
        self._owners = owners
        self._output, writer = os.pipe()
        self._fault, fault = os.pipe()
        waiting, self._go = os.pipe()
        self._noted, noted = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            try:
                # also of one that answers for the command in place of becoming it
                _call("end with envbuild", _LIBC.prctl, _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
                os.close(self._go)
                _mount_proc("proc")
                os.write(fault, b"\n")
                if (word := os.read(waiting, 1 << 20)) and owners is not None:
                    _supervised(word, waiting, writer, noted, owners)
                if word:
                    if one_processor:
                        _stay_on_this_processor()
                    _become(writer, calls, owners)
                    os.execve(command[0], command, environment)  # noqa: S606 - the step's command
            except _RefusedError as refused:
                os.write(fault, json.dumps(refused.args).encode() + b"\n")
            except OSError as error:
                os.write(fault, json.dumps([f"start {command[0]}", error.errno or 0]).encode() + b"\n")
            finally:
                os._exit(127)
        for descriptor in (writer, fault, waiting, noted):
            os.close(descriptor)
        self._check(os.read(self._fault, 1 << 12))

    def run(self) -> tuple[int, str]:
        """Run it to its end; returns its exit code and the end of what it printed."""
        text = b"" if self._owners is None else self._owners.dump().encode()
        with open(self._go, "wb") as go:
            go.write(text + b"\n")
        tail = full = b""
        while chunk := os.read(self._output, 1 << 16):
            full = full or _line_with(_FULL, tail[-_LINE:] + chunk)
            tail = (tail + chunk)[-_TAIL:]
        if not _line_with(_FULL, tail):
            tail += full  # dpkg goes on, and prints more than is kept
        code = os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
        self._check(os.read(self._fault, 1 << 12))
        if self._owners is not None:
            with open(self._noted, "rb") as noted:
                found = json.loads(noted.read() or b"[[], []]")
            self._owners.load(json.dumps(found[0]))
            self._owners.others += found[1]
        return (code if code >= 0 else 128 - code), tail.decode(errors="replace")

    def _check(self, message: bytes) -> None:
        if message.strip():
            raise _RefusedError(*json.loads(message))


def _line_with(words: tuple[bytes, ...], text: bytes) -> bytes:
    """Return the first line with one of the words in small letters, and a line break before it; empty without any."""
    return next((b"\n" + line for line in text.splitlines() if any(word in line.lower() for word in words)), b"")


def _supervised(word: bytes, waiting: int, writer: int, noted: int, owners: Any) -> None:
    """Leave the command to a child, and answer for it; returns in the child alone.

    Args:
        word: beginning of what the unpacking process has noted; ``waiting`` has the rest.
        noted: takes what is noted at the end.
    """
    while not word.endswith(b"\n"):
        word += os.read(waiting, 1 << 20)
    owners.load(word.decode())
    door, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        door.close()
        owners.door = theirs
        return
    theirs.close()
    os.close(writer)
    status = sys.modules["owners"].supervise(child, door, owners)
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # as the end of process 1 does
    with open(noted, "wb") as stream:
        stream.write(json.dumps([json.loads(owners.dump()), owners.others]).encode())
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _stay_on_this_processor() -> None:
    """Keep this process and its descendants where the scheduler has placed it."""
    if (processor := _LIBC.sched_getcpu()) >= 0:
        with suppress(OSError):  # a cpuset that has just lost it
            os.sched_setaffinity(0, {processor})


def _mount_proc(place: str) -> None:
    """Mount the process namespace's ``/proc``; what concerns the whole machine is read-only or hidden."""
    os.mkdir(place)
    _mount("proc", place, "proc", _NOSUID | _NODEV | _NOEXEC)
    for path in (f"{place}/{name}" for name in _READ_ONLY if os.path.exists(f"{place}/{name}")):
        _mount(path, path, None, _BIND | _REC)
        _remount(path, _RDONLY | _NOSUID | _NODEV | _NOEXEC)
    for path in (f"{place}/{name}" for name in _HIDDEN):
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", _RDONLY)
        elif os.path.exists(path):
            _mount("/dev/null", path, None, _BIND)


def _become(writer: int, calls: bytes, owners: Any) -> None:
    """Turn the child into what the command may be; ``calls`` is the filter of its system calls."""
    _call("end with envbuild", _LIBC.prctl, _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    os.setsid()
    null = os.open("/dev/null", os.O_RDONLY)
    for number, source in enumerate((null, writer, writer)):
        os.dup2(source, number)
    with suppress(PermissionError):  # one identity alone: there are no other groups to leave
        os.setgroups([])
    for number in range(64):
        if number not in _KEPT:
            _LIBC.prctl(_DROP_BOUND, number, 0, 0, 0)  # the last ones do not exist
    _call("give up privileges", _LIBC.prctl, _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    head = struct.pack("Ii", _CAPABILITIES_3, 0)
    found = ctypes.create_string_buffer(24)
    _call("look up capabilities", _LIBC.capget, head, found)
    permitted = struct.unpack("6I", found.raw)[1]  # root of a container may lack some, and gets no others
    kept = sum(1 << number for number in _KEPT) & permitted
    _call("give up capabilities", _LIBC.capset, head, struct.pack("6I", kept, kept, 0, 0, 0, 0))
    for signal_number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
        signal.signal(signal_number, signal.SIG_DFL)
    os.chdir("/")
    if owners is not None:
        listener = sys.modules["owners"].install(calls)
        socket.send_fds(owners.door, [b"x"], [listener])
        os.close(listener)
        owners.door.close()
        return
    code = ctypes.create_string_buffer(calls, len(calls))
    filtered = struct.pack("@HP", len(calls) // 8, ctypes.addressof(code))
    _call("filter system calls", _LIBC.prctl, _SECCOMP, _FILTER, filtered, 0, 0)


def _pack(result: str, stream: Any, owners: Any) -> None:
    """Write the result's tree as a tar, as the engine protocol has it; ``owners`` has those that were noted."""
    links: dict[tuple[int, int], str] = {}
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path, name in _walk(result):
            status = os.lstat(path)
            if stat.S_ISSOCK(status.st_mode):
                continue
            member = tar.gettarinfo(path, name)
            if stat.S_ISREG(status.st_mode):
                first = links.setdefault((status.st_dev, status.st_ino), name)
                member.type = tarfile.REGTYPE if first == name else tarfile.LNKTYPE
                member.linkname, member.size = ("", status.st_size) if first == name else (first, 0)
            attributes: dict[str, str] = {}
            with suppress(OSError):  # there is none
                value = os.getxattr(path, _CAPABILITY, follow_symlinks=False)
                attributes[_XATTR + _CAPABILITY] = value.decode("utf-8", "surrogateescape")
            member.pax_headers = attributes
            if owners is not None:
                member.uid, member.gid = owners.of(status)
            member.uname = member.gname = ""
            if member.isreg():
                with open(path, "rb", buffering=0) as content:
                    tar.addfile(member, content)
            else:
                tar.addfile(member)
            tar.members = []  # type: ignore[attr-defined]  # tarfile keeps all it met


def _list(result: str, stream: Any, owners: Any, *, hand_over: bool) -> None:
    """Write a line for each entry of the result's tree, as the module's description has it."""
    links: dict[tuple[int, int], str] = {}
    listed = []
    for path, _ in _walk(result):
        status = os.lstat(path)
        kind = _KINDS.get(stat.S_IFMT(status.st_mode))
        if kind is None:  # a socket
            continue
        user, group = owners.of(status) if owners is not None else (status.st_uid, status.st_gid)
        name = path.lstrip("/")
        entry: dict[str, Any] = {"path": name, "kind": kind, "mode": stat.S_IMODE(status.st_mode)}
        entry |= {"uid": user, "gid": group}
        if kind == "symlink":
            entry["target"] = os.readlink(path)
        elif kind == "file":
            first = links.setdefault((status.st_dev, status.st_ino), name)
            entry |= {"size": status.st_size} if first == name else {"kind": "hardlink", "target": first}
            with suppress(OSError):  # there is none
                entry["capability"] = os.getxattr(path, _CAPABILITY, follow_symlinks=False).hex()
        elif kind in ("char", "block"):
            entry["device"] = os.major(status.st_rdev), os.minor(status.st_rdev)
        stream.write(json.dumps(entry).encode() + b"\n")
        if hand_over and name not in _ENGINES:  # those are file systems of the step's own
            listed.append((path, str(entry["kind"])))
    for path, kind in reversed(listed):
        if owners is None:
            os.chown(path, 0, 0, follow_symlinks=False)
        if kind in ("file", "dir"):
            os.chmod(path, 0o700 if kind == "dir" else 0o600)


def _walk(result: str) -> Iterator[tuple[str, str]]:
    """Give every path of the result with its name in the tar, folders before what they hold."""
    top = "" if result == "/" else os.path.basename(result.rstrip("/"))
    waiting = [(result.rstrip("/") or "/", top)]
    while waiting:
        path, name = waiting.pop()
        if name:
            yield path, name
        if os.path.isdir(path) and not os.path.islink(path) and not (not top and name in _ENGINES):
            below = sorted(os.listdir(path), reverse=True)
            waiting += [(f"{path.rstrip('/')}/{entry}", f"{name}/{entry}" if name else entry) for entry in below]


def _remount(place: str, flags: int) -> None:
    """Set flags of a mount. It keeps those that it has: in a user namespace nobody may take them away (EPERM)."""
    kept = os.statvfs(place).f_flag & (_RDONLY | _NOSUID | _NODEV | _NOEXEC)
    _mount(None, place, None, _BIND | _REMOUNT | flags | kept)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [word.encode() if word is not None else None for word in (source, target, kind)]
    _call(f"mount {target}", _LIBC.mount, *words, ctypes.c_ulong(flags), data.encode() if data else None)


def _call(what: str, function: Any, *arguments: Any) -> None:
    if function(*arguments) != 0:
        raise _RefusedError(what, ctypes.get_errno())


def _send(**fields: Any) -> None:
    os.write(_STATUS, json.dumps(fields).encode() + b"\n")


if __name__ == "__main__":
    main()
