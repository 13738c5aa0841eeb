"""Whether programs can run here without an engine: tried out once, with an empty root file system.

What is found is kept for this run of the machine, so that it costs a process only once. Sources: user_namespaces(7);
Ubuntu, "Restricted unprivileged user namespaces"; Linux 5.11 (overlays of users), 5.12 (mount_setattr).
"""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from envbuild.core.digest import sha256_json
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import atomic_write
from envbuild.engine.local import syscall_filter
from envbuild.engine.local.program import SCRIPT, own_folder

_NEEDED = (5, 12)
_PATIENCE = 30.0
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_USERNS = Path("/proc/sys/kernel/unprivileged_userns_clone")
_MOST = Path("/proc/sys/user/max_user_namespaces")


def reason_against(scratch: Path, notes: Path, boot: str) -> tuple[str, str] | None:
    """Return why programs cannot run here, and what to do about it; None if they can.

    Args:
        scratch: folder on the file system where programs would write.
        notes: folder in which what was found is kept.
        boot: name of this run of the machine; empty if it is not known, and nothing is kept.
    """
    key = sha256_json([boot, os.geteuid(), str(scratch), _namespace()])
    note = notes / f"{key}.json"
    if boot:
        with suppress(OSError, ValueError, TypeError, IndexError):
            found = parse_json(note.read_bytes())
            return (str(found[0]), str(found[1])) if found else None
    why = _reason(scratch)
    if boot:
        with suppress(OSError):
            notes.mkdir(parents=True, exist_ok=True)
            atomic_write(note, json.dumps(why).encode())
    return why


def _reason(scratch: Path) -> tuple[str, str] | None:
    """Look at the kernel, then try."""
    release = os.uname().release.split("-")[0].split(".")
    with suppress(ValueError, IndexError):
        if (int(release[0]), int(release[1])) < _NEEDED:
            return f"this kernel is {os.uname().release}, and 5.12 is the oldest that can", "start Docker or podman"
    if os.uname().machine not in syscall_filter.DENIED:
        return f"no filter of system calls is known for {os.uname().machine}", "start Docker or podman"
    try:
        failed, number = _try(scratch)
    except OSError as error:
        return f"cannot write to {scratch}: {error.strerror}", "choose another disk: export ENVBUILD_STORE=FOLDER"
    return None if failed is None else _explained(failed, number, scratch)


def _try(scratch: Path) -> tuple[str | None, int]:
    """Start a program that does not exist in an empty image; that it is missing is all that may go wrong."""
    with own_folder(scratch) as folder:
        layer = folder / "layer"
        layer.mkdir(mode=0o755)
        words = {
            "parent": os.getpid(),
            "unshare": os.geteuid() != 0,
            "mapped": True,
            "network": False,
            "layers": [str(layer)],
            "writable": [],
            **{name: str(folder / name) for name in ("root", "upper", "work")},
            "mounts": [],
            "groups": [],
            "links": {},
            "libraries": [],
            "memory": [],
            "shared": 1 << 20,
            "hostname": "envbuild",
            "files": {},
            "command": ["/nothing"],
            "environment": {},
            "directory": "/",
            "user": os.getuid(),
            "group": os.getgid(),
            "capabilities": [],
            "cpus": [],
            "terminal": False,
            "filter": syscall_filter.program(os.uname().machine).hex(),
        }
        ours, theirs = socket.socketpair()
        with ours, theirs:
            command = [sys.executable, "-I", "-S", "-B", str(SCRIPT), str(theirs.fileno())]
            null = subprocess.DEVNULL
            with subprocess.Popen(
                command, stdin=null, stdout=null, stderr=null, pass_fds=(theirs.fileno(),), cwd="/", env={}
            ) as process:
                theirs.close()
                ours.settimeout(_PATIENCE)
                answer = b""
                with suppress(OSError):
                    ours.sendall(json.dumps(words).encode() + b"\n")
                    while data := ours.recv(1 << 16):
                        answer += data
                process.kill()
    for line in answer.splitlines():
        found = json.loads(line)
        if "failed" in found:
            if str(found["failed"]).startswith("start "):
                return None, 0
            return str(found["failed"]), int(found["reason"])
    return "run a program in namespaces", errno.EPERM


def _explained(failed: str, number: int, scratch: Path) -> tuple[str, str]:
    """Say what was refused, and the administrator's line that allows it."""
    why = f"the kernel does not let this user {failed}: {os.strerror(number)}"
    if failed.startswith("mount overlay") or failed.startswith(f"mount {scratch}"):
        return (
            f"no overlay can be mounted over {scratch}: {os.strerror(number)}",
            "choose a local disk (ext4, xfs, btrfs): export ENVBUILD_STORE=FOLDER",
        )
    if _is(_APPARMOR, "1"):
        return why, "let users have namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    if _is(_USERNS, "0"):
        return why, "let users have namespaces: sudo sysctl kernel.unprivileged_userns_clone=1"
    if _is(_MOST, "0"):
        return why, "let users have namespaces: sudo sysctl user.max_user_namespaces=65536"
    return why, "start Docker or podman; in a container: start it with --privileged"


def _is(path: Path, value: str) -> bool:
    with suppress(OSError):
        return path.read_text().strip() == value
    return False


def _namespace() -> str:
    """Name this process's user namespace and its right to have others."""
    with suppress(OSError):
        limits = [path.read_text().strip() for path in (_APPARMOR, _USERNS, _MOST) if path.exists()]
        return f"{Path('/proc/self/ns/user').readlink()} {limits}"
    return ""
