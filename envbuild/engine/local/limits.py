"""Limits of a run through control groups: version 2, or version 1 where that is what there is.

As root below the topmost group; as another user below its own, where systemd has delegated that (``systemd-run --user
--scope``, ``Delegate=yes``). A limit that cannot be had is refused.
Sources: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/; systemd.resource-control(5).
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from envbuild.core.patterns import lazy
from envbuild.errors import EngineError

_PERIOD = 100_000
"""Microseconds in which a program may use its share of processors."""
_MOUNTS = Path("/proc/self/mountinfo")
_GROUPS = Path("/proc/self/cgroup")
_NAME = lazy(r"envbuild-[0-9]+-[0-9a-f]{8}")
_CALLER = "envbuild-caller"
"""Group below the one that this process was started in, which it moves to; the run's is next to it."""
_ROUNDS = 5
"""How often the processes of a group are asked for: while they are moved another one may start."""
PIDS = 32_768
"""Processes and threads of a run, as with Docker."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may use at most: processors (may be fractional), bytes of memory; None for no limit."""

    cpus: float | None = None
    memory: int | None = None


class Group:
    """The control group of one run, or several of version 1; a context manager that removes it at the end.

    Each is held by a lock that ends with this process; those that nobody holds are of killed runs, and go first.

    Args:
        limits: what is asked for; the number of processes is limited too where it can be.
        made: a group that was made for this run, and the descriptor that holds it; empty for none.

    Raises:
        EngineError: a limit that was asked for cannot be had here.
    """

    def __init__(self, limits: Limits, made: tuple[str, int] = ("", -1)) -> None:
        self._limits = limits
        self._early = made
        self._folders: dict[Path, int] = {}
        self._locks: list[int] = []
        self._memory: Path | None = None

    def __enter__(self) -> Group:
        """Make it, without any process."""
        try:
            wanted = {"memory": self._limits.memory, "cpu": self._limits.cpus, "pids": PIDS}
            for controller, value in wanted.items():
                if value is not None:
                    self._limit(controller, value, needed=controller != "pids")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Remove it; its processes have ended, or end in a moment."""
        for folder in self._folders:
            for _ in range(50):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)
        while self._locks:
            os.close(self._locks.pop())

    def doors(self) -> list[str]:
        """Return the files to which a process of one thread writes ``0`` to enter; the program's alone does."""
        return [str(folder / _door(version)) for folder, version in self._folders.items()]

    def is_needed(self) -> bool:
        """Return whether a run may not start without having entered: a limit was asked for."""
        return self._limits.memory is not None or self._limits.cpus is not None

    def out_of_memory(self) -> bool:
        """Return whether the kernel has ended one of its processes for want of memory."""
        if self._memory is None:
            return False
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError, ValueError):
                for line in (self._memory / name).read_text().splitlines():
                    key, _, value = line.partition(" ")
                    if key == "oom_kill" and int(value):
                        return True
        return False

    def _limit(self, controller: str, value: float, *, needed: bool) -> None:
        """Make a group below this process's own for a controller, and set the limit."""
        try:
            folder, version = self._folder(controller)
            if controller == "memory":
                self._memory = folder
            for name, text in _settings(controller, value, version).items():
                if name == "memory.memsw.limit_in_bytes" and not (folder / name).exists():
                    continue
                (folder / name).write_text(text)
        except OSError as error:
            if needed:
                what = {"memory": "--memory", "cpu": "--cpus"}[controller]
                raise EngineError(f"{what} cannot be had here: {error.strerror or error}", _HINT) from error

    def _folder(self, controller: str) -> tuple[Path, int]:
        own = own_group(controller)
        if own is None:
            raise OSError(f"no control group of this process has the controller {controller!r}")
        parent, version = own
        if version == 2:
            _delegate(parent, controller)
        for folder in self._folders:
            if folder.parent == parent:
                return folder, version
        sweep(parent)
        made = self._made(parent)
        self._folders[made] = version
        return made, version

    def _made(self, parent: Path) -> Path:
        """Make a group and hold it; until it is held others may take it for one of a killed run."""
        path, lock = self._early
        if path and Path(path).parent == parent:
            self._early = ("", -1)
            self._locks.append(lock)
            return Path(path)
        while True:
            made = parent / f"envbuild-{os.getpid()}-{os.urandom(4).hex()}"
            made.mkdir()
            with suppress(FileNotFoundError):
                lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self._locks.append(lock)
                fcntl.flock(lock, fcntl.LOCK_EX)
                if made.is_dir():
                    return made


def _door(version: int) -> str:
    """Return the file that takes a thread in, where there is one: Linux waits 10 ms before it moves a whole process.

    Version 2 moves single threads only within one group of processes. Linux, kernel/cgroup/cgroup.c:
    ``cgroup_procs_write_start``.
    """
    return "tasks" if version == 1 else "cgroup.procs"


def sweep(parent: Path) -> None:
    """Remove the groups of runs whose process was killed."""
    with suppress(OSError), os.scandir(parent) as entries:
        for left in [entry.path for entry in entries if _NAME.fullmatch(entry.name)]:
            with suppress(OSError):
                lock = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    Path(left).rmdir()  # refused while it has processes
                finally:
                    os.close(lock)


_HINT = (
    "run as root, or in a delegated scope: systemd-run --user --scope -p Delegate=yes envbuild run …; "
    "or choose an engine that can: ENVBUILD_ENGINE=docker"
)


def own_group(controller: str) -> tuple[Path, int] | None:
    """Return the folder of this process's group with a controller, and the version; None if there is none."""
    places: dict[str, Path] = {}
    with suppress(OSError):
        for line in _MOUNTS.read_text().splitlines():
            fields = line.split()
            kind, options = fields[fields.index("-") + 1], fields[-1]
            if kind == "cgroup2":
                places.setdefault("", Path(fields[4]))
            elif kind == "cgroup":
                for each in options.split(","):
                    places.setdefault(each, Path(fields[4]))
    with suppress(OSError):
        for line in _GROUPS.read_text().splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(",") and controller in places:
                return _existing(places[controller], path), 1
            if not names and "" in places and controller not in places:
                folder = _existing(places[""], path)
                with suppress(OSError):
                    if controller in (folder / "cgroup.controllers").read_text().split():
                        return folder, 2
    return None


def _existing(mount: Path, path: str) -> Path:
    """Return a group's folder; root's is the topmost, whose controllers may be handed on while processes are in it.

    In a container the path may be that of the host, and the mount is its own group.
    """
    above, _, last = path.lstrip("/").rpartition("/")
    folder = mount if os.geteuid() == 0 else mount / above / ("" if last == _CALLER else last)
    return folder if folder.is_dir() else mount


def _delegate(parent: Path, controller: str) -> None:
    """Let groups below have a controller. A group with processes may not: ours move to a group of their own first.

    The topmost group may. In any other one the kernel refuses some controllers (EBUSY); for the rest, such as the
    number of processes, it makes the group one of threads, below which nobody can have memory limited any more
    (EOPNOTSUPP): cgroup-v2.rst, "Threads".

    Raises:
        OSError: refused; or other processes are in the group, which are not ours to move.
    """
    control = parent / "cgroup.subtree_control"
    if controller in control.read_text().split():
        return
    if (parent / "cgroup.type").exists():  # the topmost has none
        _leave(parent)
    control.write_text(f"+{controller}")


def _leave(group: Path) -> None:
    """Move this process and those that it started out of a group, into one below.

    Raises:
        OSError: refused; or others are in it.
    """
    members = group / "cgroup.procs"
    for _ in range(_ROUNDS):
        found = [int(number) for number in members.read_text().split()]
        if not found:
            return
        if not all(map(_is_ours, found)):
            break
        (group / _CALLER).mkdir(exist_ok=True)
        for number in found:
            with suppress(ProcessLookupError):
                _move(number, group / _CALLER)
    raise OSError("there are other processes in this one's control group")


def _move(process: int, group: Path) -> None:
    (group / "cgroup.procs").write_text(str(process))


def _is_ours(process: int) -> bool:
    """Whether a process is this one, or one that it started; those that have just ended are no matter."""
    while process:
        if process == os.getpid():
            return True
        if process == 1:
            return False
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            return True
        process = int(status.partition("\nPPid:")[2].split(maxsplit=1)[0])
    return False


def _settings(controller: str, value: float, version: int) -> dict[str, str]:
    """Return the files to write, in order."""
    number = str(int(value))
    quota = str(max(1000, round(value * _PERIOD)))
    if controller == "pids":
        return {"pids.max": number}
    if controller == "memory":  # swap would only delay the end, and Docker's default is another half of it
        if version == 2:
            return {"memory.max": number, "memory.swap.max": "0"}
        return {"memory.limit_in_bytes": number, "memory.memsw.limit_in_bytes": number}
    if version == 2:
        return {"cpu.max": f"{quota} {_PERIOD}"}
    return {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": quota}
