"""A mark of a process by which anybody on its machine finds out later whether it still runs.

Process ids come again; so a mark has the boot, the process namespace, the process id and when the process started.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_STARTED = 19
"""Place of ``starttime`` behind the program's name in ``/proc/PID/stat``, see ``proc_pid_stat(5)``."""


def mark() -> str:
    """Return the mark of this process; empty where the kernel reports nothing."""
    try:
        return f"{_world()} {os.getpid()} {_started(os.getpid())}"
    except (OSError, IndexError):
        return ""


def lives(text: str) -> bool | None:
    """Whether a mark's process runs; None if that cannot be known.

    Another host or namespace may have marked it, ``/proc`` may not be there (in a chroot), or hide the processes of
    others (``hidepid``): what is not seen there has ended only if there is nothing to send a signal to either.
    """
    boot, _, rest = text.partition(" ")
    namespace, _, rest = rest.partition(" ")
    number, _, started = rest.partition(" ")
    try:
        if f"{boot} {namespace}" != _world() or _NUMBER.fullmatch(number) is None:
            return None
    except OSError:
        return None
    try:
        return _started(int(number)) == started
    except FileNotFoundError:
        return None if _exists(int(number)) else False
    except (OSError, IndexError):
        return None


def _exists(number: int) -> bool:
    """Whether the kernel knows a process, its own user's or not."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _world() -> str:
    """Name the boot and the process namespace; raises ``OSError`` where ``/proc`` is another namespace's."""
    if str(Path("/proc/self").readlink()) != str(os.getpid()):
        raise OSError(errno.EXDEV, "numbers in /proc are of another namespace")
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"


def _started(number: int) -> str:
    """Clock ticks after boot; empty for a process that has ended and is not yet waited for."""
    # A program's name is any bytes, and is cut to 15 of them.
    state, *fields = Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].decode("ascii").split()
    return "" if state in "ZX" else fields[_STARTED - 1]
