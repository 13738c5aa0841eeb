"""Whose a container is: a mark of the process that made it, and whether that process lives.

A command that is killed leaves its containers behind. Nobody but the kernel knows that it is gone, and process ids
come again; so the mark holds the boot, the process namespace, the process id and when the process started.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from envbuild.engine.docker.http import ApiError, EngineClient
from envbuild.errors import EngineError

LABEL = "envbuild.owner"
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
        if f"{boot} {namespace}" != _world() or not number.isdecimal():
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


def remove_dead(client: EngineClient) -> None:
    """Remove the containers of processes that are gone: those of a command that was killed."""
    with suppress(ApiError, EngineError):
        query = {"all": 1, "filters": json.dumps({"label": [LABEL]})}
        for container in client.call("GET", "/containers/json", query) or ():
            if lives(str((container.get("Labels") or {}).get(LABEL, ""))) is False:
                with suppress(ApiError):
                    client.call("DELETE", f"/containers/{container['Id']}", {"force": 1, "v": 1})


def _world() -> str:
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"


def _started(number: int) -> str:
    """Clock ticks after boot; empty for a process that has ended and is not yet waited for."""
    state, *fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return "" if state in "ZX" else fields[_STARTED - 1]
