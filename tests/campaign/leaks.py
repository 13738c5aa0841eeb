"""What commands left behind: processes, mounts, containers, files; and whether the bytes of a store are right.

Written apart from envbuild's own checks, so that a fault in those is no excuse.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

_PATIENCE = 300.0
"""Seconds in which a process that ends by itself may do so; waited for only as long as there is one."""
_GENERATED = re.compile(r"pylock\.[a-z0-9]+\.(toml|image\.json|published\.json|verified\.json)")
_KEPT = {"spec.yaml", "train.py", "Dockerfile", ".envbuild", "out", "out.tar"}
_HIDDEN = {".sums.json", ".boot"}


def processes(mark: str, project: Path | None = None) -> list[str]:
    """Return the command lines of processes that commands have left, after some patience.

    Args:
        mark: is in the environment of the commands and of what they start.
        project: is mounted where programs of the project run, whose environment is another one.
    """
    deadline = time.monotonic() + _PATIENCE
    while (found := _processes(mark.encode(), project)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def running(mark: str) -> list[str]:
    """Return the command lines of processes that have a mark in their environment, as they are now."""
    return _processes(mark.encode(), None)


def _processes(mark: bytes, project: Path | None) -> list[str]:
    found = []
    own = Path("/proc/self/ns/mnt").readlink()
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if not folder.name.isdecimal():
                continue
            inside = project is not None and (folder / "ns/mnt").readlink() != own
            if mark in (folder / "environ").read_bytes() or (
                inside and f" {project} " in (folder / "mountinfo").read_text()
            ):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def mounts(root: Path) -> list[str]:
    """Return the mount points at or below a folder."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if Path(point).is_relative_to(root)]


def containers(pids: Iterable[int], address: str = "") -> list[str]:
    """Return the containers that these processes made, after some patience: an engine removes one in its own time.

    Args:
        address: of the engine; empty for the machine's Docker.
    """
    numbers = {str(pid) for pid in pids}
    deadline = time.monotonic() + _PATIENCE
    while (found := _containers(numbers, address)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _containers(numbers: Collection[str], address: str) -> list[str]:
    options = ["--filter", "label=envbuild.owner", "--format", '{{.ID}} {{.Label "envbuild.owner"}}']
    command = ["docker", *(["--host", address] if address else []), "ps", "-a", *options]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in shown.splitlines() if numbers.intersection(line.split()[1:])]


def strays(project: Path) -> list[str]:
    """Return the names in a project that no command leaves there."""
    names = (path.name for path in project.iterdir())
    return sorted(name for name in names if name not in _KEPT and not _GENERATED.fullmatch(name))


def temporary(folder: Path) -> list[str]:
    """Return what is in the folder for temporary files, after some patience."""
    deadline = time.monotonic() + _PATIENCE
    while (found := sorted(path.name for path in folder.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def leftovers(store: Path) -> list[str]:
    """Return what a store holds of commands that have ended; nothing may be at work in it."""
    trees = (store / "derived/trees").glob("*/tree")  # an image's own files may have such names
    own = tuple(f"{tree}/" for tree in trees)
    hidden = [path for path in store.rglob(".*") if path.name not in _HIDDEN and not str(path).startswith(own)]
    parts = list((store / "part").iterdir()) if (store / "part").is_dir() else []
    leases = list((store / "leases").glob("*-*"))
    trash = [store / "trash"] if (store / "trash").exists() else []
    return sorted(str(path.relative_to(store)) for path in (*hidden, *parts, *leases, *trash))


Stamp = tuple[str, int, int, int, str]
"""Path, inode, size, time of the last change in ns, and the digest that a file had then: no byte changes without it."""


def wrong_bytes(store: Path, known: set[Stamp] | None = None) -> list[str]:
    """Return the objects and layers of a store whose bytes are not those of their digest.

    Args:
        known: files that were right and are not read again before they change; gets what is found right.
    """
    known = set() if known is None else known
    objects = store.glob("sha256/??/*")
    wrong = [str(path) for path in objects if _differs(path, lambda path: path.parent.name + path.name, known)]
    layers = (path for path in store.glob("derived/layers/*/layer.tar") if not path.parent.name.startswith("."))
    return wrong + [str(path) for path in layers if _differs(path, _noted, known)]


def _differs(path: Path, promised: Callable[[Path], str], known: set[Stamp]) -> bool:
    """Whether a file has other bytes than promised; one that is removed meanwhile has none."""
    with suppress(FileNotFoundError), path.open("rb") as stream:
        status, expected = os.fstat(stream.fileno()), promised(path)
        stamp = (str(path), status.st_ino, status.st_size, status.st_ctime_ns, expected)
        if stamp in known:
            return False
        digest = hashlib.sha256()
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
        if digest.hexdigest() != expected:
            return True
        known.add(stamp)
    return False


def _noted(path: Path) -> str:
    return str(json.loads((path.parent / "layer.json").read_bytes())["diff_id"])


def records(project: Path) -> dict[str, str]:
    """Return the digest of each finished run's record."""
    found = {}
    for path in project.glob(".envbuild/runs/*/record.json"):
        data = path.read_bytes()
        if json.loads(data).get("state") != "running":
            found[path.parent.name] = hashlib.sha256(data).hexdigest()
    return found
