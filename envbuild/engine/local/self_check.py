"""Whether programs can run here without an engine: tried out once, with an empty root file system.

What is found is kept for this run of the machine, so that it costs a process only once. Sources: user_namespaces(7);
Ubuntu, "Restricted unprivileged user namespaces"; Linux 5.11 (overlays of users).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from envbuild import __version__
from envbuild.core import quick_json
from envbuild.core.digest import sha256_json
from envbuild.core.fs import NO_SPACE, NOT_WRITABLE, SYSTEM_FOLDERS, atomic_write, no_space
from envbuild.core.limits import ALLOW, FORBIDS, is_filtered
from envbuild.engine.local import syscall_filter
from envbuild.engine.local.helper import starter
from envbuild.engine.local.identities import gives_owners
from envbuild.engine.local.program import own_folder
from envbuild.engine.local.ways import Way, is_own, prefixes, roots
from envbuild.errors import BuildError

_OVERLAY = "mount an overlay"
"""What ``program_process.py`` reports where there is none."""
_ROOM = "make room, or choose another disk: export ENVBUILD_STORE=FOLDER"
_ELSEWHERE = "choose another disk: export ENVBUILD_STORE=FOLDER"
_PROC = "mount /proc"
"""What ``program_process.py`` reports where the kernel refuses a new one (Linux, mount_too_revealing)."""
_UNHIDE = (
    "start the container with --security-opt systempaths=unconfined (podman: unmask=ALL), or with --privileged; or "
    "start Docker or podman"
)
_RIGHTS = ("CapBnd:", "CapEff:", "NoNewPrivs:", "Seccomp:")
_PATIENCE = 30.0
_ODD = 981_173_107
"""A time in seconds that is no multiple of two."""
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_USERNS = Path("/proc/sys/kernel/unprivileged_userns_clone")
_MOST = Path("/proc/sys/user/max_user_namespaces")


def find_way(scratch: Path, notes: Path, boot: str) -> Way | tuple[str, str]:
    """Return how programs can run here; else why they cannot, and what to do about it.

    Args:
        scratch: folder on the store's file system where programs would write.
        notes: folder in which what was found is kept.
        boot: name of this run of the machine; empty if it is not known, and nothing is kept.

    Raises:
        BuildError: the disk is full.
        OSError: the folder may not be written; ``NOT_WRITABLE`` has its number.
    """
    device = 0
    with suppress(OSError):
        device = scratch.stat().st_dev
    folders = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    names = [str(scratch), device, folders, prefixes()]
    key = sha256_json([__version__, boot, os.geteuid(), *names, _namespace(), _confinement()])
    note = notes / f"{key}.json"
    if boot:
        with suppress(OSError, msgspec.MsgspecError):
            kept = msgspec.json.decode(note.read_bytes(), type=_Kept).way
            if kept.scratch == scratch or is_own(kept.scratch):
                return kept
    try:
        if lost := _lost(scratch):  # mounted otherwise it may keep it: nothing is remembered
            return f"the file system of {scratch} does not keep {lost}, which images need", _ELSEWHERE
        way = _find(scratch)
    except OSError as error:  # another time it may be otherwise: nothing is kept
        if error.errno in NO_SPACE:
            raise BuildError(f"{no_space(error.errno, on=' on device')}: {error.filename or scratch}", _ROOM) from error
        name = str(error.filename or scratch)
        if name.startswith(("/dev/", "/proc/")):
            return f"cannot use {name}: {error.strerror}", SYSTEM_FOLDERS
        if error.errno in FORBIDS and is_filtered():
            return f"cannot use {name}: {error.strerror}", ALLOW
        if error.errno in NOT_WRITABLE and Path(name).is_relative_to(scratch):
            raise
        return f"cannot write to {name}: {error.strerror}", _ELSEWHERE
    if boot and isinstance(way, Way):
        with suppress(OSError):
            notes.mkdir(parents=True, exist_ok=True)
            atomic_write(note, msgspec.json.encode(_Kept(way=way)))
    return way


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: a way that works.

    A refusal is not: a filter of system calls, as a container's engine sets one, shows nowhere, and the same store may
    be used outside of it.
    """

    way: Way


def _lost(scratch: Path) -> str:
    """Return what of an image's files the folder's file system does not keep; empty if it keeps all.

    FAT and exFAT keep no links, modes and odd seconds, NTFS (ntfs-3g) no modes, NFS with ``root_squash`` no owners, and
    others take ``A`` and ``a`` for one name.
    """
    with own_folder(scratch) as folder:
        link, file = folder / "link", folder / "file"
        try:
            link.symlink_to("file")
        except OSError as error:
            if error.errno in NO_SPACE:
                raise
            return "symbolic links"
        file.write_bytes(b"")
        if (folder / "FILE").exists():
            return "names that differ in small and capital letters alone"
        with suppress(OSError):
            file.chmod(0o751)
        if stat.S_IMODE(file.stat().st_mode) != 0o751:
            return "modes"
        os.utime(file, (_ODD, _ODD))
        if int(file.stat().st_mtime) != _ODD:
            return "times to the second"
        if gives_owners():
            with suppress(OSError):
                os.chown(file, 1, 2)
            status = file.stat()
            if (status.st_uid, status.st_gid) != (1, 2):
                return "owners that root gives (NFS: root_squash)"
    return ""


def _find(scratch: Path) -> Way | tuple[str, str]:
    """Look at the machine, then try; raises ``OSError`` where the folder cannot be written."""
    if os.uname().machine not in syscall_filter.DENIED:
        return f"no filter of system calls is known for {os.uname().machine}", "start Docker or podman"
    refused: tuple[str, int] | None = None
    for prefix in prefixes():
        why = ""
        for root, folder in roots(scratch):
            way = Way(root=root, folder=str(folder), prefix=prefix, why=why)
            failed, number = _try(scratch, way)
            if failed is None:
                return way
            if number in NO_SPACE and "namespace" not in failed:  # where namespaces are counted, it is their limit
                raise OSError(number, os.strerror(number), str(way.scratch))
            if failed != _OVERLAY:
                refused = refused or (failed, number)
                break
            why = why or os.strerror(number)
    return _explained(*(refused or ("run a program in namespaces", errno.EPERM)))


def _try(scratch: Path, way: Way) -> tuple[str | None, int]:
    """Start a program that does not exist in an empty image; that it is missing is all that may go wrong."""
    with own_folder(scratch) as below, own_folder(way.scratch) as folder:
        layer = below / "layer"
        layer.mkdir(mode=0o755)
        words = {
            "parent": 0 if way.prefix else os.getpid(),
            "unshare": os.geteuid() != 0,
            "entered": bool(way.prefix),
            "mapped": True,
            "network": False,
            "layers": [str(layer)],
            "tree": {"path": str(layer), "shared": [], "private": []} if way.root == "linked" else {},
            "writable": [],
            **{name: str(folder / name) for name in ("root", "upper", "work")},
            "mounts": [],
            "groups": [],
            "limited": False,
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
            "additional": [],
            "capabilities": [],
            "cpus": [],
            "terminal": False,
            "held": False,
            "skipped": 0,
            "filter": syscall_filter.program(os.uname().machine).hex(),
        }
        answer = _asked(way.prefix, words)
    for line in answer.splitlines():
        found = quick_json.loads(line)
        if "failed" in found:
            if str(found["failed"]).startswith("start "):
                return None, 0
            return str(found["failed"]), int(found["reason"])
    return "run a program in namespaces", errno.EPERM


def _asked(prefix: Sequence[str], words: Mapping[str, object]) -> bytes:
    """Start the script, and return what it reports."""
    import socket
    import subprocess

    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = starter(prefix, theirs.fileno())
        null = subprocess.DEVNULL
        with subprocess.Popen(
            command, stdin=null, stdout=null, stderr=null, pass_fds=(theirs.fileno(),), cwd="/", env={}
        ) as process:
            theirs.close()
            ours.settimeout(_PATIENCE)
            answer = b""
            with suppress(OSError):
                ours.sendall(quick_json.dumps(words).encode() + b"\n")
                while data := ours.recv(1 << 16):
                    answer += data
            process.kill()
    return answer


def _explained(failed: str, number: int) -> tuple[str, str]:
    """Say what was refused, and the administrator's line that allows it."""
    why = f"the kernel does not let this user {failed}: {os.strerror(number)}"
    if failed.startswith("use /proc/"):
        return f"cannot {failed}: {os.strerror(number)}", SYSTEM_FOLDERS
    if _is(_APPARMOR, "1"):
        return why, "let users have namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    if _is(_USERNS, "0"):
        return why, "let users have namespaces: sudo sysctl kernel.unprivileged_userns_clone=1"
    if _is(_MOST, "0"):
        return why, "let users have namespaces: sudo sysctl user.max_user_namespaces=65536"
    if failed == _PROC and (hidden := _hidden()):
        return f"{why}, since parts of this container's own /proc are hidden ({hidden[0]})", _UNHIDE
    return why, "start Docker or podman; in a container: start it with --privileged"


def _is(path: Path, value: str) -> bool:
    with suppress(OSError):
        return path.read_text().strip() == value
    return False


def _confinement() -> list[str]:
    """Name what of a container decides too: rights, whether there is a filter of system calls, what of /proc is hidden.

    Containers of one machine and one user may share a store, and differ in these.
    """
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return [line for line in lines if line.startswith(_RIGHTS)] + _hidden()
    return []


def _hidden() -> list[str]:
    """Return the places in /proc that something else is mounted over: no other /proc can be mounted then."""
    with suppress(OSError):
        mounts = [line.split(" ", 5)[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return sorted(place for place in mounts if place.startswith("/proc/"))
    return []


def _namespace() -> str:
    """Name this process's user namespace and its right to have others."""
    with suppress(OSError):
        limits = [path.read_text().strip() for path in (_APPARMOR, _USERNS, _MOST) if path.exists()]
        return f"{Path('/proc/self/ns/user').readlink()} {limits}"
    return ""
