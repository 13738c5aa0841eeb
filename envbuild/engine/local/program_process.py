"""One program in namespaces of the kernel: the part that runs in separate processes and enters them.

It runs under envbuild's own interpreter (``ways.starter``), and every run waits for it: modules written in C are used
directly, and nothing imports ``json``, ``re``, ``enum`` or ``typing``. All that it needs is imported before the root
changes. DESCRIPTOR is one end of a stream socket: it gives one line of JSON, the request, with the descriptors that
become 0, 1 and 2, the program's, and later ``{"signal": number, "all": truth}`` for signals to the program, or to all
its processes. It takes ``{"terminal": true}`` with the descriptor of a terminal's other side, ``{"started": true}``
just before the program starts, ``{"failed": what, "reason": errno}`` when the kernel refused, ``{"code": number}`` at
the program's end, ``{"over": true}`` at that of all its processes. A request may be ``held`` (``early.py``): then the
image's guard looks at the container, and waits with everything else for ``{"go": true}``.

Three processes: the first waits in the old process namespace; the second is process 1 of the new one, builds the root
file system, passes signals on and reaps; the third becomes the program. When the caller ends, the kernel ends the first
one, then process 1, and with it everything in its namespace.

A root file system is an overlay of the image's layers, read-only, under a folder of the run's own. Where there is no
overlay, it is a folder of the run's own, in which folders of the image are mounted read-only (``linked.py``). What is
mounted is opened before the root changes and put into place afterwards, so that links in the image lead nowhere but
into the image. ``mount`` alone is used, not the calls of Linux 5.2 to 5.12 for the same.

Sources: unshare(2), user_namespaces(7), pivot_root(2), capabilities(7), ioctl_tty(2); Linux,
Documentation/filesystems/overlayfs.rst; mount(2); moby, oci/defaults.go.
"""

# Paths here are those of system calls, most of them below another root:
# ruff: noqa: PTH101, PTH102, PTH103, PTH110, PTH112, PTH114, PTH115, PTH120, PTH211

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # signal itself makes enumerations of its numbers: 5 ms
import _socket as socket
import ctypes
import errno
import fcntl
import os
import resource
import select
import struct
import sys
import warnings  # noqa: F401 - os.execvpe imports it, when the root has changed

from envbuild.runtime.fastjson import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_KEPT_FLAGS = _RDONLY | _NOSUID | _NODEV | _NOEXEC
"""Flags that a mount keeps when it gets others: the kernel lets no user take them away."""
_CLOSE_RANGE = 436
_DEATH_SIGNAL, _DROP_BOUND, _NO_NEW_PRIVILEGES = 1, 24, 38
_SECCOMP, _FILTER = 22, 2
_CAPABILITIES_3 = 0x20080522
_KILL = 5
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_HIDDEN = ("kcore", "keys", "latency_stats", "timer_list", "timer_stats", "acpi", "scsi", "sched_debug", "interrupts")
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_OPENED: list[str] = []
"""Folders that ``_open_up`` put something over."""
_SPARE: list[int] = []
"""The folder in which it makes what it puts there, opened; none where it does nothing."""
_FILES = 1 << 20
"""Open files of a process, as engines have it, or as many as this user may have."""
_IN_TURN, _TURN = 20, 0.05
"""Processes that are signalled one after another, and the seconds between them: the watchdog waits two in all."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_HELD = "ENVBUILD_HELD"
"""Known to ``envbuild/runtime/guard/gate.py`` too."""
_EMULATE = "have the kernel start programs through the emulator"
_EMULATED = {"aarch64": 0xB7, "x86_64": 0x3E}
"""Machines that can be emulated, with their number in ELF's ``e_machine``; 64 bits, little-endian."""


class _RefusedError(Exception):
    """The kernel refused a call; the arguments are what it was for and the error's number."""


class suppress:  # noqa: N801 - contextlib's, whose import costs 4 ms
    """Lets exceptions of these kinds end the block, and nothing else."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        """Whether the exception ends here."""
        return kind is not None and issubclass(kind, self._kinds)


class _Channel:
    """This side of the socket to envbuild."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self.socket = socket.socket(fileno=descriptor)
        self._rest = b""

    def request(self) -> dict[str, Any]:
        """Return the first line; an empty one if envbuild has ended."""
        streams: list[int] = []
        while b"\n" not in self._rest:
            data, rights, _, _ = self.socket.recvmsg(1 << 16, socket.CMSG_SPACE(3 * struct.calcsize("i")))
            if not data:
                os._exit(1)
            self._rest += data
            for _, _, numbers in rights:
                streams += struct.unpack(f"{len(numbers) // struct.calcsize('i')}i", numbers)
        line, _, self._rest = self._rest.partition(b"\n")
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return dict(loads(line.decode()))

    def orders(self) -> list[dict[str, Any]] | None:
        """Return the lines that have come; None at the end."""
        try:
            data = self.socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            return None
        self._rest += data
        return self.read_orders()

    def read_orders(self) -> list[dict[str, Any]]:
        """Return those lines that were read with another one."""
        *lines, self._rest = self._rest.split(b"\n")
        return [loads(line.decode()) for line in lines]

    def send(self, **fields: Any) -> None:
        """Send a line."""
        with suppress(OSError):
            self.socket.sendall(dumps(fields).encode() + b"\n")

    def send_terminal(self, descriptor: int) -> None:
        """Send a descriptor with its line."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", descriptor))]
        self.socket.sendmsg([b'{"terminal": true}\n'], rights)


def main() -> None:
    """Run the program that the request describes; see the module's description."""
    os.chdir("/")
    with suppress(PermissionError):  # it leads a session already
        os.setsid()
    os.closerange(max(int(sys.argv[1]), 2) + 1, _FILES)  # what envbuild itself was started with
    channel = _Channel(int(sys.argv[1]))
    for each in _FORWARDED:  # a launcher that ends a job signals all its processes; envbuild passes it on
        signal.signal(each, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a thread that blocks signals hands that on to what it starts
    loads("0")  # imports what it needs while the request is being made
    request = channel.request()
    os.umask(0o022)
    code = 1
    try:
        _call("end with envbuild", _LIBC.prctl, _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if request["parent"] and os.getppid() != request["parent"]:
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
        channel.send(over=True)  # this process's end takes 5 ms more: the kernel takes the mounts apart
    except _RefusedError as refused:
        channel.send(failed=refused.args[0], reason=refused.args[1])
    except OSError as error:
        channel.send(failed=_failed(error), reason=error.errno or 0)
    os._exit(0 if code == 0 else 1)


def _failed(error: OSError) -> str:
    """Return what could not be done, as ``_RefusedError`` has it."""
    if error.filename:
        return f"use {error.filename}"
    return "start a process" if error.errno == errno.EAGAIN else "prepare the run"


def _separate(request: dict[str, Any]) -> None:
    """Make the namespaces, and map this user to itself in a new user namespace where that is asked for."""
    user, group = os.getuid(), os.getgid()
    emulated = request.get("emulated")
    if request["unshare"] and emulated:
        _user_namespace(f"0 {user} 1", f"0 {group} 1")  # who writes rules of binfmt_misc has to be their owner, root
        _call("make namespaces", _LIBC.unshare, _NEWNS)
        _mount(None, "/", None, _REC | _PRIVATE)
        _emulate(emulated)
        _user_namespace(f"{user} 0 1", f"{group} 0 1")
    elif request["unshare"] and not request["entered"]:
        _user_namespace(f"{user} {user} 1", f"{group} {group} 1")
    elif emulated:
        _same_user_namespace()
    flags = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | (0 if request["network"] else _NEWNET)
    _call("make namespaces", _LIBC.unshare, flags)


def _user_namespace(users: str, groups: str) -> None:
    """Make a user namespace with these identities."""
    _call("make a user namespace", _LIBC.unshare, _NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", users), ("gid_map", groups)):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
            stream.write(text)


def _same_user_namespace() -> None:
    """Make a user namespace in which all identities are as they were, root's too: rules of binfmt_misc belong to one.

    A process that is still outside maps them, since the kernel lets nobody map more than himself from within.
    """
    with open("/proc/self/uid_map", encoding="ascii") as stream:
        users = stream.read()
    with open("/proc/self/gid_map", encoding="ascii") as stream:
        groups = stream.read()
    process = os.getpid()
    ready, made = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(made)
        code = 1
        with suppress(OSError):
            if os.read(ready, 1):
                for name, text in (("uid_map", users), ("gid_map", groups)):
                    with open(f"/proc/{process}/{name}", "w", encoding="ascii") as stream:
                        stream.write(_as_they_are(text))
                code = 0
        os._exit(code)
    _call("make a user namespace", _LIBC.unshare, _NEWUSER)
    _call("end with envbuild", _LIBC.prctl, _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)  # other rights forget it
    os.write(made, b"x")
    os.close(made)
    os.close(ready)
    if os.waitpid(helper, 0)[1] != 0:
        raise _RefusedError("map identities", errno.EPERM)


def _as_they_are(table: str) -> str:
    """Return the map of a user namespace's identities to themselves, of the table that it has (user_namespaces(7))."""
    return "".join(f"{inside} {inside} {count}\n" for inside, _, count in (line.split() for line in table.splitlines()))


def _emulate(emulated: dict[str, str]) -> None:
    """Have the kernel start another machine's programs through the emulator, as ``namespace_step.py`` does.

    The rules are there as long as their file system, which a descriptor of this process holds, and hold in user
    namespaces below too. An emulator of this very machine has a mark, by which no rule has it start itself
    (``image.emulator``); systems are numbered below 128: elf(5).
    """
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, _EMULATED[emulated["machine"]])
    mask = b"\xff" * 7 + b"\x80" + b"\xff" * 8 + b"\xfe" + b"\xff" * 3
    magic, masked = ("".join(f"\\x{byte:02x}" for byte in data) for data in (head, mask))
    place = emulated["place"]
    try:
        os.chdir(emulated["folder"])
        os.mkdir(place)
        _mount("binfmt_misc", place, "binfmt_misc", _NOSUID | _NODEV | _NOEXEC)
        os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with open(f"{place}/register", "wb", buffering=0) as rules:
            rules.write(f":{emulated['machine']}:M:0:{magic}:{masked}:{emulated['name']}:PF".encode())
    except _RefusedError as refused:
        raise _RefusedError(_EMULATE, refused.args[1]) from None
    except OSError as error:
        raise _RefusedError(_EMULATE, error.errno or 0) from None
    _LIBC.umount2(place.encode(), _DETACH)
    os.chdir("/")


def _first(request: dict[str, Any], channel: _Channel) -> None:
    """Be process 1: prepare the root file system, start the program, and stay until it has ended."""
    code = 255
    try:
        _call("end with envbuild", _LIBC.prctl, _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        groups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in request["groups"]]
        init = _Init(request, channel, groups)
        _enter(request)
        terminal = _terminal(channel) if request["terminal"] else -1
        _limit_root(request)
        init.start(terminal)
        code = init.run()
        channel.send(code=code)
    except _RefusedError as refused:
        channel.send(failed=refused.args[0], reason=refused.args[1])
    except OSError as error:
        channel.send(failed=_failed(error), reason=error.errno or 0)
    finally:
        os._exit(code if code < 255 else 1)


def _enter(request: dict[str, Any]) -> None:
    """Make the image's file system this process's root, with everything that is mounted in it."""
    _mount(None, "/", None, _REC | _PRIVATE)
    if request.get("emulated") and not request["unshare"]:
        _emulate(request["emulated"])
    table = _mounted()
    trees = [
        (mount, _Taken(mount["source"], table, read_only=mount["read_only"], devices=mount.get("devices", False)))
        for mount in request["mounts"]
    ]
    names = [name for name in _DEVICES if os.path.exists(f"/dev/{name}")]
    devices = [(name, _Taken(f"/dev/{name}", [], devices=True)) for name in names]
    shown = request["network"] and os.path.isdir("/sys")
    system = _Taken("/sys", table, read_only=True) if shown else None
    _mount_root(request)
    os.chdir(request["root"])
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise _RefusedError(f"change the root on {os.uname().machine}", errno.ENOSYS)
    _call("change the root", _LIBC.syscall, number, b".", b".")
    sys.meta_path.clear()  # no file of the image becomes a module here
    for name in ("proc", "sys", "dev"):
        _folder(f"/{name}")
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    _system(system)
    _devices(devices, request)
    for path in request["memory"]:
        _mount_point(path)
        _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, "mode=1777")
    for mount, tree in trees:
        tree.place(mount["target"], file=mount["file"])
    for path, target in request["links"].items():
        with suppress(OSError):
            _link(path, target)
    with suppress(OSError):
        _mount_point(request["directory"])
    _close_up()
    _call("leave the old root", _LIBC.umount2, b".", _DETACH)
    os.chdir("/")
    _protect_proc()
    _names(request)
    _libraries(request)
    if not request["network"]:
        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with suppress(OSError):
            fcntl.ioctl(control.fileno(), 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
        control.close()


def _mount_root(request: dict[str, Any]) -> None:
    """Mount the image under the run's own folder."""
    if request["tree"]:
        _mount_linked(request)
        return
    # by descriptors, since options have one page, and end at a comma, a colon or a backslash of a path
    paths = (*request["layers"], request["upper"], request["work"])
    opened = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in paths]
    *layers, upper, work = (f"/proc/self/fd/{number}" for number in opened)
    lower, own = ":".join(layers), f"upperdir={upper},workdir={work}"
    how = "userxattr" if request["mapped"] else "redirect_dir=off,metacopy=off,index=off"
    try:
        _mount("overlay", request["root"], "overlay", _NODEV, f"lowerdir={lower},{own},{how},volatile")
    except _RefusedError as refused:
        raise _RefusedError("mount an overlay", refused.args[1]) from None
    for number in opened:
        os.close(number)


def _mount_linked(request: dict[str, Any]) -> None:
    """Mount the run's own folder with folders of the image in it, read-only, and of the run's in these."""
    root, own, tree = request["root"], request["upper"], request["tree"]
    _SPARE.append(os.open(request["work"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    _mount(own, root, None, _BIND)
    _mount(None, root, None, _BIND | _REMOUNT | _NODEV | (os.statvfs(root).f_flag & _KEPT_FLAGS))
    for path in tree["shared"]:
        _mount(f"{tree['path']}{path}", f"{root}{path}", None, _BIND)
        flags = os.statvfs(f"{root}{path}").f_flag & _KEPT_FLAGS
        _mount(None, f"{root}{path}", None, _BIND | _REMOUNT | _RDONLY | _NODEV | flags)
    for path in tree["private"]:
        _mount(f"{own}{path}", f"{root}{path}", None, _BIND)
        flags = os.statvfs(f"{root}{path}").f_flag & _KEPT_FLAGS
        _mount(None, f"{root}{path}", None, _BIND | _REMOUNT | _NODEV | flags)


def _mounted() -> list[str]:
    """Return where something is mounted."""
    with open("/proc/self/mountinfo", "rb") as table:
        places = [line.split()[4] for line in table]
    return [os.fsdecode(_unescaped(place)) for place in places]


def _unescaped(place: bytes) -> bytes:
    """Return a path whose blanks, line ends and backslashes the kernel wrote as octal numbers (proc(5))."""
    first, *others = place.split(b"\\")
    return first + b"".join(bytes([int(other[:3], 8)]) + other[3:] for other in others)


class _Taken:
    """A file or folder of the host, with what is mounted below, until it is put to where the program sees it.

    Args:
        table: where something is mounted on the host.
    """

    def __init__(self, path: str, table: list[str], *, read_only: bool = False, devices: bool = False) -> None:
        try:
            self._number = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise _RefusedError(f"mount {path}", error.errno or 0) from None
        real = os.path.realpath(path).rstrip("/")
        self._below = sorted({place[len(real) :] for place in table if place.startswith(f"{real}/")})
        self._flags = _NOSUID | (_RDONLY if read_only else 0) | (0 if devices else _NODEV)

    def place(self, target: str, *, file: bool) -> None:
        """Mount it; what is missing of the way there is made."""
        _mount_point(target, file=file)
        try:
            _mount(f"/proc/self/fd/{self._number}", target, None, _BIND | _REC)
            self._restrict(target)
            for below in self._below:
                if os.path.ismount(f"{target}{below}"):  # another one may hide it
                    self._restrict(f"{target}{below}")
        except _RefusedError as refused:
            raise _RefusedError(f"mount {target}", refused.args[1]) from None
        os.close(self._number)

    def _restrict(self, path: str) -> None:
        """Set its flags."""
        flags = os.statvfs(path).f_flag & _KEPT_FLAGS
        _mount(None, path, None, _BIND | _REMOUNT | self._flags | flags)


def _mount_point(path: str, *, file: bool = False) -> None:
    """Make a file or folder on which something can be mounted, unless there is one."""
    if file and os.path.lexists(path):
        return
    above = os.path.dirname(path) if file else path
    try:
        os.makedirs(above, exist_ok=True)
        if file:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    except OSError as error:
        if error.errno != errno.EROFS or not _open_up(above):
            raise
        _mount_point(path, file=file)


def _open_up(path: str) -> bool:
    """Put a folder of the run's own over the last one on the way to ``path`` that exists, with the same content.

    Mount points can then be made in it. Returns False if that cannot be.
    """
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    path = os.path.realpath(path)
    if path in _OPENED or not _SPARE:
        return False
    _OPENED.append(path)
    number = f"{len(_OPENED)}"
    below = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    with os.scandir(path) as found:
        entries = [(entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in found]
    os.mkdir(number, dir_fd=_SPARE[0])
    _mount(f"/proc/self/fd/{_SPARE[0]}/{number}", path, None, _BIND)
    os.chmod(path, os.fstat(below).st_mode & 0o7777)
    for name, is_link, is_folder in entries:
        source, target = f"/proc/self/fd/{below}/{name}", f"{path}/{name}"
        if is_link:
            os.symlink(os.readlink(source), target)
            continue
        if is_folder:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        _mount(source, target, None, _BIND | _REC)
    os.close(below)
    return True


def _close_up() -> None:
    """Let nobody write to the folders that were opened, nor open another one."""
    while _SPARE:
        os.close(_SPARE.pop())
    for path in _OPENED:
        flags = os.statvfs(path).f_flag & _KEPT_FLAGS
        _mount(None, path, None, _BIND | _REMOUNT | _RDONLY | _NOSUID | _NODEV | flags)


def _libraries(request: dict[str, Any]) -> None:
    """Make the loader's cache where libraries came in; its program is the image's, and may do no more."""
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


def _link(path: str, target: str) -> None:
    """Make a symbolic link and the folders above it."""
    _mount_point(os.path.dirname(path))
    try:
        os.symlink(target, path)
    except OSError as error:
        if error.errno != errno.EROFS or not _open_up(os.path.dirname(path)):
            raise
        os.symlink(target, path)


def _folder(path: str) -> None:
    """Make a folder unless there is one."""
    os.makedirs(path, exist_ok=True)


def _system(tree: _Taken | None) -> None:
    """Mount ``/sys`` read-only: a new one where the network is the namespace's own, else the host's."""
    if tree is not None:
        tree.place("/sys", file=False)
    else:
        try:
            _mount("sysfs", "/sys", "sysfs", _NOSUID | _NODEV | _NOEXEC | _RDONLY)
        except _RefusedError:
            return  # programs then find no hardware there, as where an engine hides it
    for name in ("firmware", "devices/virtual/powercap", "kernel/security"):
        if os.path.isdir(f"/sys/{name}"):
            with suppress(_RefusedError):
                _mount("tmpfs", f"/sys/{name}", "tmpfs", _RDONLY)


def _devices(devices: list[tuple[str, _Taken]], request: dict[str, Any]) -> None:
    """Make ``/dev``: few devices of the host, terminals and shared memory of the program's own."""
    _mount("tmpfs", "/dev", "tmpfs", _NOSUID | _NOEXEC, "mode=755,size=65536k")
    for name, tree in devices:
        tree.place(f"/dev/{name}", file=True)
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
    for path in request["writable"]:
        if os.path.isdir(path) and not os.path.islink(path) and not os.path.ismount(path):
            _mount(path, path, None, _BIND)
            _mount(None, path, None, _BIND | _REMOUNT | _NODEV | (os.statvfs(path).f_flag & _KEPT_FLAGS))
    _mount(None, "/", None, _BIND | _REMOUNT | _RDONLY | _NODEV | (os.statvfs("/").f_flag & _KEPT_FLAGS))


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
    """Process 1: starts the program's process, has it become the program once the root is ready, passes on, reaps.

    The process is there before the root is, and enters its control groups while that is made: the kernel waits 10 ms
    and more before it moves a process. Its root changes with that of process 1 (pivot_root(2)).

    Args:
        groups: descriptors of the control groups that the program enters.
    """

    def __init__(self, request: dict[str, Any], channel: _Channel, groups: list[int]) -> None:
        self._request, self._channel = request, channel
        self._wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in _FORWARDED:
            signal.signal(number, signal.SIG_IGN)
        self._fault, fault = os.pipe()
        self._gate, gate = socket.socketpair()
        for _ in range(request["skipped"]):
            skipped = os.fork()
            if skipped == 0:
                os._exit(0)
            os.waitpid(skipped, 0)
        self._child = os.fork()
        if self._child == 0:
            signal.set_wakeup_fd(-1)
            self._gate.close()
            self._become(fault, gate, groups)
        gate.close()
        os.close(fault)

    def start(self, terminal: int) -> None:
        """Have the process become the program.

        Args:
            terminal: descriptor of the program's terminal; -1 for none.
        """
        if terminal >= 0 and self._request["user"]:
            os.fchown(terminal, self._request["user"], -1)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", terminal))] if terminal >= 0 else []
        with suppress(OSError):  # it has ended, and said why
            self._gate.sendmsg([b"start"], rights)
        if not self._request["held"]:
            self._gate.close()
        if terminal >= 0:
            os.close(terminal)

    def run(self) -> int:
        """Stay until the program has ended; returns its exit code."""
        message = os.read(self._fault, 1 << 12)
        if message:
            raise _RefusedError(*loads(message.decode()))
        for number in (0, 1, 2):  # the program's: it alone keeps them open
            os.close(number)
        _give_up((_KILL,))
        for order in self._channel.read_orders():
            self._follow(order)
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
                    self._follow(order)

    def _follow(self, order: dict[str, Any]) -> None:
        if "go" in order:
            with suppress(OSError):  # it has ended
                self._gate.send(b"g")
            self._gate.close()
            return
        with suppress(ProcessLookupError, PermissionError):
            if order["signal"] == signal.SIGKILL:
                os.kill(-1, order["signal"])
            elif order["all"]:
                _signal_in_turn(order["signal"])
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

    def _become(self, fault: int, gate: Any, groups: list[int]) -> None:
        """Turn this process into the program."""
        request = self._request
        try:
            os.setsid()
            sys.meta_path.clear()  # no file of the image becomes a module here
            _enter_groups(groups, needed=request["limited"])
            _take_terminal(gate)
            if request["cpus"]:
                os.sched_setaffinity(0, request["cpus"])
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most if 0 <= most < _FILES else _FILES, most))
            for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                with suppress(OSError, ValueError):
                    signal.signal(each, signal.SIG_DFL)
            with suppress(PermissionError):  # one identity alone: there are no other groups to leave
                os.setgroups(request["additional"])
            if not request["unshare"]:
                os.setgid(request["group"])
            _give_up(tuple(request["capabilities"]), user=None if request["unshare"] else request["user"])
            os.chdir(request["directory"])
            _filter_calls(request)
            self._channel.send(started=True)
            _LIBC.syscall(_CLOSE_RANGE, 3, 0xFFFFFFFF, 4)  # when the program starts; CLOSE_RANGE_CLOEXEC
            variables = request["environment"]
            if request["held"]:
                os.set_inheritable(gate.fileno(), True)
                variables[_HELD] = str(gate.fileno())
            os.execvpe(request["command"][0], request["command"], variables)  # noqa: S606 - asked for
        except _RefusedError as refused:
            os.write(fault, dumps(refused.args).encode())
        except OSError as error:
            what = f"start {request['command'][0]} in {request['directory']}"
            os.write(fault, dumps([what, error.errno or 0]).encode())
        finally:
            os._exit(127)


def _enter_groups(groups: list[int], *, needed: bool) -> None:
    """Move this process into its control groups, of which it then sees nothing above.

    The namespace comes last: where the groups are mounted with ``nsdelegate``, as systemd has them, the kernel lets
    nobody enter a group outside his own namespace, and answers ENOENT (Linux, kernel/cgroup/cgroup.c,
    cgroup_procs_write_permission).
    """
    try:
        for group in groups:
            os.write(group, b"0")  # this process
    except OSError as error:
        if needed:
            raise _RefusedError("enter the run's control group", error.errno or 0) from None
    _call("make namespaces", _LIBC.unshare, _NEWCGROUP)


def _take_terminal(gate: Any) -> None:
    """Wait until the root is ready, and take the terminal that comes with the word."""
    word, rights, _, _ = gate.recvmsg(16, socket.CMSG_SPACE(struct.calcsize("i")))
    if not word:
        os._exit(127)  # process 1 has failed, and said so
    for _, _, data in rights:
        terminal = struct.unpack("i", data)[0]
        fcntl.ioctl(terminal, 0x540E, 0)  # TIOCSCTTY
        for number in (0, 1, 2):
            os.dup2(terminal, number)


def _signal_in_turn(number: int) -> None:
    """Signal each process but this one, with pauses: two that print their stacks at once mix their lines."""
    names = os.listdir("/proc")  # noqa: PTH208 - pathlib is not imported here
    others = sorted(int(name) for name in names if name.isdigit() and int(name) != os.getpid())
    for place, process in enumerate(others):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)
        if place < _IN_TURN:
            select.select([], [], [], _TURN)


def _give_up(kept: tuple[int, ...], user: int | None = None) -> None:
    """Keep these capabilities at most, for good; become another user in between, who then has none."""
    for number in range(64):
        if number not in kept:
            _LIBC.prctl(_DROP_BOUND, number, 0, 0, 0)  # the last ones do not exist
    if user:
        os.setuid(user)
        kept = ()
    _call("give up privileges", _LIBC.prctl, _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    head = struct.pack("Ii", _CAPABILITIES_3, 0)
    mask = sum(1 << number for number in kept) & _permitted(head)
    _call("give up capabilities", _LIBC.capset, head, struct.pack("6I", mask, mask, 0, 0, 0, 0))


def _permitted(head: bytes) -> int:
    """Return the first 32 capabilities that this process has: root of a container may lack some, and gets no others."""
    found = ctypes.create_string_buffer(24)
    _call("look up capabilities", _LIBC.capget, head, found)
    return int(struct.unpack("6I", found.raw)[1])


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
