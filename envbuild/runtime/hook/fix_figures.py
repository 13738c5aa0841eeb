"""Figures of files and of the kernel that are the same in each run of an experiment (fix.py).

Files' times, inode and device numbers as ``os.stat``, its like and entries of ``os.scandir`` return them; how much
room ``os.statvfs`` finds; what files below ``/proc`` hold, with every number but the machine's memory a 1; load, memory
and times of ``os.getloadavg`` and ``resource.getrusage``; numbers of processes and threads; ports that the system
chooses (fix_ports.py). What C or C++ asks for is
not reached.
"""

from __future__ import annotations

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .fix_callers import Callers

_NUMBERS = re.compile(rb"\b(?:0x)?[0-9][0-9a-f]*\b")
_TIME = 1_700_000_000
_KERNEL = ("/proc/uptime", "/proc/stat", "/proc/loadavg", "/proc/meminfo", "/proc/vmstat", "/proc/interrupts")
_TOTAL = b"MemTotal:"
_OWN = ("/proc/self/", "/proc/thread-self/", f"/proc/{os.getpid()}/")
_MAPS = ("/maps", "/smaps")
_NAMES = ("/mounts", "/mountinfo", "/environ", "/cmdline", "/cgroup", "/comm")
"""Ends of files that hold names, in which a number is no figure: ``/usr/lib/python3.11``."""


class Figures:
    """Functions in the place of those that return figures.

    Args:
        callers: notes who asks.
        number: what measures of memory are, below ``/proc`` and as ``getrusage`` gives them; empty for what is usual.
            With one, process numbers stay as they are, and the load is that number: what follows it is a measurement.
    """

    def __init__(self, callers: Callers, number: str = "") -> None:
        self.callers, self.number = callers, number
        self.files: dict[tuple[int, int], int] = {}

    def install(self) -> None:
        """Put them there; there is no way back."""
        for name in ("stat", "lstat", "fstat"):
            self._stat(name)
        self._entries()
        self._open()
        from . import fix_ports

        fix_ports.Ports(int(self.number or 0)).install()
        if self.number:
            self._usage(int(self.number))
            return
        self._room()
        system: Any = os
        self._constant(system, "getloadavg", (1.0, 1.0, 1.0))
        self._constant(system, "getpid", 1, "os.getpid")
        self._constant(system, "getppid", 1, "os.getppid")
        import resource
        import threading

        zero: Any = resource.struct_rusage((0.0, 0.0, *(0,) * 14))
        self._constant(resource, "getrusage", zero)
        self._constant(threading, "get_native_id", 1)

    def _usage(self, number: int) -> None:
        import resource

        self._constant(os, "getloadavg", (float(number),) * 3)
        original: Any = resource.getrusage

        def getrusage(who: int) -> Any:
            found = original(who)
            return type(found)((*found[:2], number, *found[3:])) if found.ru_maxrss else found

        resource.getrusage = getrusage

    def _constant(self, module: Any, name: str, value: Any, call: str = "") -> None:
        """Return a value to the program itself; libraries ask which process a lock or a socket belongs to."""
        original = getattr(module, name)
        call = call or f"{module.__name__}.{name}"

        def replacement(*arguments: Any) -> Any:
            frame, found = sys._getframe(1), original(*arguments)
            own = self.callers.is_project(frame.f_code)
            return found if not own or self.callers.real("figures", call, frame, value=found) else value

        setattr(module, name, replacement)

    def _stat(self, name: str) -> None:
        original = getattr(os, name)

        def replacement(*arguments: Any, **options: Any) -> Any:
            return self.of_file(original(*arguments, **options), f"os.{name}", sys._getframe(1))

        self._replace(name, original, replacement)

    def _replace(self, name: str, original: Any, replacement: Any) -> None:
        replacement.__name__ = name
        for supported in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
            if original in supported:
                supported.add(replacement)
        setattr(os, name, replacement)

    def _room(self) -> None:
        """Find half of each file system free, of blocks and of inodes; ``shutil.disk_usage`` asks here too."""
        for name in ("statvfs", "fstatvfs"):
            original: Any = getattr(os, name)

            def replacement(path: Any, original: Any = original, call: str = f"os.{name}") -> Any:
                found = original(path)
                if self.callers.real("figures", call, sys._getframe(1)):
                    return found
                blocks, files = found.f_blocks // 2, found.f_files // 2
                return type(found)((*found[:3], blocks, blocks, found[5], files, files, *found[8:]))

            self._replace(name, original, replacement)

    def of_file(self, found: os.stat_result, call: str, frame: Any) -> os.stat_result:
        """Return what is the same in each run in the place of what was found of a file, for a call from a frame."""
        number = self.files.setdefault((found.st_dev, found.st_ino), len(self.files) + 1)
        if self.callers.real("figures", call, frame):
            return found
        table = {key: getattr(found, key) for key in dir(found) if key.startswith("st_")}
        table |= dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), float(_TIME))
        table |= dict.fromkeys(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), _TIME * 10**9)
        fields = (found.st_mode, number, 1, found.st_nlink, found.st_uid, found.st_gid, found.st_size)
        return os.stat_result((*fields, _TIME, _TIME, _TIME), table)

    def _entries(self) -> None:
        original = os.scandir

        def replacement(*arguments: Any, **options: Any) -> Any:
            return _Entries(original(*arguments, **options), self)

        self._replace("scandir", original, replacement)

    def _open(self) -> None:
        import builtins
        import io

        original = builtins.open

        def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            path = os.fspath(file) if isinstance(file, (str, os.PathLike)) else ""
            own = isinstance(path, str) and path.startswith(_OWN) and not path.endswith(_NAMES)
            replacement = (own or path in _KERNEL) and "r" in mode
            if not replacement or self.callers.real("figures", f"reading {path}", sys._getframe(1)):
                return original(file, mode, *arguments, **options)
            with original(file, "rb") as stream:
                data = stream.read()
            data = (_placed if str(path).endswith(_MAPS) else _as_one)(data, (self.number or "1").encode())
            return io.BytesIO(data) if "b" in mode else io.StringIO(data.decode("utf-8", "replace"))

        files: Any = builtins
        files.open = io.open = opened


class _Entries:
    """What ``os.scandir`` returns, with entries of ours."""

    def __init__(self, found: Any, figures: Figures) -> None:
        self.found, self.figures = found, figures
        self.close = found.close

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> _Entry:
        return _Entry(next(self.found), self.figures)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Entry:
    """An ``os.DirEntry`` whose figures are the same in each run."""

    def __init__(self, entry: os.DirEntry[Any], figures: Figures) -> None:
        self._entry, self._figures = entry, figures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __fspath__(self) -> Any:
        return self._entry.path

    def __repr__(self) -> str:
        return repr(self._entry)

    def inode(self) -> int:
        found = self._entry.stat(follow_symlinks=False)
        return self._figures.of_file(found, "os.DirEntry.inode", sys._getframe(1)).st_ino

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        found = self._entry.stat(follow_symlinks=follow_symlinks)
        return self._figures.of_file(found, "os.DirEntry.stat", sys._getframe(1))


def _as_one(data: bytes, number: bytes) -> bytes:
    """Put one number in the place of every other one, but for how much memory the machine has, which does not vary.

    Programs give each worker a part of that, and read into buffers of a part of it.
    """
    total, end, rest = data.partition(b"kB\n") if data.startswith(_TOTAL) else (b"", b"", data)
    return total + end + _NUMBERS.sub(number, rest)


def _placed(data: bytes, number: bytes) -> bytes:
    """Put a 1 in the place of what depends on where files are mapped; their names stay: proc_pid_maps(5).

    Other lines, of smaps, hold measures of memory.
    """
    mapped = re.compile(rb"[0-9a-f]+-[0-9a-f]+ (\S{4}) [0-9a-f]+ \S+ +[0-9]+")
    lines = data.splitlines(keepends=True)
    return b"".join(
        mapped.sub(rb"1-1 \1 1 1:1 1", each) if mapped.match(each) else _as_one(each, number) for each in lines
    )
