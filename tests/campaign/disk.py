"""Full disks: commands meet a store whose disk, or whose table of files, is full at a random moment.

The store is on a small file system in memory, mounted where nobody else sees it. It has room for so many bytes or files
more as a random number says; or a command is well under way when somebody else fills it. The command must end with a
sentence about space, or succeed; with room again it must succeed, and the store must hold no wrong byte.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign import leaks
from tests.campaign.workshop import Subject
from tests.support.cli import Project

_ROOM = 2 << 30
_INODES = 200_000
_COMMANDS: dict[str, tuple[str, ...]] = {
    "lock": ("lock", "--upgrade"),
    "fetch": ("fetch",),
    "build": ("build",),
    "output": ("build", "--output", "docker-archive:out.tar"),
}
_CODES = frozenset({0, 13, 14})
"""Success; a file could not be stored; an image could not be made."""
INSIDE = "ENVBUILD_CAMPAIGN_MOUNTS"


@dataclass(kw_only=True)
class Tally:
    """What was found."""

    rounds: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def campaign(
    subject: Subject, root: Path, seed: int, count: int, report: Callable[[str], None], minutes: float = math.inf
) -> Tally:
    """Fill the disk ``count`` times, or so many ``minutes`` long.

    This process must be in a mount namespace of its own (``INSIDE``).
    """
    tally, rng = Tally(), random.Random(seed)
    deadline = time.monotonic() + 60 * minutes
    disk = root / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=True)
    try:
        for number in range(count):
            if time.monotonic() > deadline:
                break
            known = len(tally.faults)
            _round(subject, root, disk, rng, tally)
            for fault in tally.faults[known:]:
                report(fault)
            report(f"{number + 1:4} of {count}  {sum(tally.refused.values())} refused, {len(tally.faults)} faults")
    finally:
        subprocess.run(["umount", disk], check=True)
    return tally


def _round(subject: Subject, root: Path, disk: Path, rng: random.Random, tally: Tally) -> None:
    name = rng.choice(list(_COMMANDS))
    way = rng.choice(("bytes", "files", "filled"))
    project = Project(folder=subject.project.folder, store=disk / "store", environ=_environ(subject.project, disk))
    _limit(disk, _ROOM, _INODES)
    shutil.rmtree(disk / "store", ignore_errors=True)
    _begin(subject, root / "quiet", disk / "store", rng)
    (disk / "tmp").mkdir(exist_ok=True)
    used = os.statvfs(disk)
    if way == "bytes":
        _limit(disk, (used.f_blocks - used.f_bfree) * used.f_frsize + int(2 ** rng.uniform(12, 27)), _INODES)
    elif way == "files":
        _limit(disk, _ROOM, used.f_files - used.f_ffree + int(2 ** rng.uniform(1, 11)))
    environ = {"ENVBUILD_ENGINE": "docker" if name == "build" and rng.random() < 0.3 else "local"}
    label = f"{name}, {way}"
    tally.rounds[label] += 1
    filling = threading.Timer(rng.uniform(0.2, 4.0), _fill, [disk]) if way == "filled" else None
    if filling is not None:
        filling.start()
    done = project(*_COMMANDS[name], **environ)
    if filling is not None:
        filling.cancel()
        filling.join()
    if done.code:
        tally.refused[label] += 1
    if done.code not in _CODES or "Traceback" in done.err or (done.code and "space" not in done.err):
        tally.faults.append(f"{label}: exit {done.code}\n{done.err[-2000:]}")
    if wrong := leaks.wrong_bytes(project.store):
        tally.faults.append(f"{label}: wrong bytes: {wrong}")
    (disk / "full").unlink(missing_ok=True)
    _limit(disk, _ROOM, _INODES)
    _recover(subject, project, name, environ, label, tally)


def _recover(subject: Subject, project: Project, name: str, environ: dict[str, str], label: str, tally: Tally) -> None:
    """With room again: the same command, and all that leads to a run of the right image."""
    for command in (_COMMANDS[name], ("build", "--output", "docker-archive:out.tar"), ("store", "gc")):
        done = project(*command, **(environ if command == _COMMANDS[name] else {}))
        if done.code:
            tally.faults.append(f"{label}: with room again: {' '.join(command)}: exit {done.code}\n{done.err[-2000:]}")
            return
    found = {
        "another lock": subject.lock.read_bytes() != subject.reference.lock,
        "another image": subject.record.read_bytes() != subject.reference.record,
        "wrong bytes": leaks.wrong_bytes(project.store),
        "files are left in the store": leaks.leftovers(project.store),
        "files are left in the project": leaks.strays(project.folder),
        "files are left in TMPDIR": leaks.temporary(Path(project.environ["TMPDIR"])),
        "damage": project.must("store", "verify", "--json").json.get("damaged"),
    }
    for what, details in found.items():
        if details:
            tally.faults.append(f"{label}: with room again: {what}: {details}")


def _environ(project: Project, disk: Path) -> dict[str, str]:
    return {**project.environ, "TMPDIR": str(disk / "tmp")}


def _begin(subject: Subject, quiet: Path, store: Path, rng: random.Random) -> None:
    """Lay a store that lacks some of what the project needs: at times all layers, at times only its own."""
    everything = rng.random() < 0.4
    skipped = {"locks", "leases"} | ({"derived"} if everything else set())
    shutil.copytree(quiet, store, ignore=shutil.ignore_patterns(*skipped))
    wheels = list((subject.project.folder.parent / "index/files").iterdir())
    sizes = {path.stat().st_size for path in wheels}
    for path in store.glob("sha256/??/*"):
        if path.stat().st_size in sizes and rng.random() < 0.7:
            path.unlink()
    for path in store.glob("derived/layers/*"):
        if (path / "layer.tar").stat().st_size < 50_000_000:
            shutil.rmtree(path)
    subject.change(subject.state)


def _limit(disk: Path, size: int, inodes: int) -> None:
    """Set the room of the file system, in bytes and files."""
    subprocess.run(["mount", "-o", f"remount,size={size},nr_inodes={inodes}", disk], check=True)


def _fill(disk: Path) -> None:
    """Take all room there is."""
    with suppress(OSError), (disk / "full").open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(1 << 20))


def figures(tally: Tally) -> list[str]:
    """Return the lines that state what was done."""
    lines = ["command, what is full  rounds  refused"]
    lines += [f"{label:<21}  {tally.rounds[label]:>6}  {tally.refused[label]:>7}" for label in sorted(tally.rounds)]
    return [*lines, f"{tally.rounds.total()} rounds, {tally.refused.total()} refused, {len(tally.faults)} faults"]
