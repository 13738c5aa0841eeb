"""Power cuts: what the store's commands do to files is recorded, and the disk is put together as a cut could leave it.

strace records every operation below the store. A state is a moment in that record, with what a file system may have
made of it by then. Of a file's data only what was synced is sure: the rest may be missing, cut short, or zeros of the
right length. Of names either the first so many operations are there, in their order, as a journal keeps them, or any
of them, as POSIX allows. Whatever the state, the store must take no wrong byte for a right one.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from envbuild.image.layer_cache import KIND, Layers, is_sound
from envbuild.store import leases
from envbuild.store.fsck import check
from envbuild.store.inventory import inventory
from envbuild.store.objects import Store
from tests.campaign.workshop import Subject
from tests.support.cli import Project

_CALLS = (
    "openat,open,creat,write,pwrite64,writev,copy_file_range,sendfile,ftruncate,fsync,fdatasync,rename,renameat,"
    "renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat"
)
_LINE = re.compile(r"^\d+ +(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)")
_UNFINISHED = re.compile(r"^(?P<pid>\d+) +(?P<start>\w+\(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. \w+ resumed>(?P<rest>.*)$")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OPEN = re.compile(r"\d+<([^<>]*)>")
_NOTES = frozenset({"boot", ".boot"})
"""Files that state at which start of the machine the others were read."""
_KINDS = ("compiled", "interpreters", "checks", "bytecode", KIND)


_MEMORY = Path("/dev/shm")
"""Where states are laid, if there is such a folder: each has hundreds of folders."""
_ANOTHER = "another start of the machine"
COMMANDS = (("lock",), ("fetch",), ("build", "--output", "docker-archive:out.tar"))


def start_over(subject: Subject) -> None:
    """Leave of a store the Debian packages and the operating system's layer: the rest is made under observation."""
    for entry in inventory(Store(subject.project.store), {}):
        kept = entry.kind in ("os packages", "indexes") or (entry.kind == KIND and entry.size > 50_000_000)
        if not kept:
            path = Path(entry.path)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    subject.change(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One operation on the store.

    Attributes:
        what: ``make``, ``write``, ``cut``, ``sync``, ``name``, ``link``, ``drop``, ``folder``, ``drop folder``.
        path: of the file, relative to the store; ``target`` the new name.
        size: bytes written, or left after a cut.
    """

    what: str
    path: str
    target: str = ""
    size: int = 0


@dataclass(kw_only=True)
class Tally:
    """What was found."""

    states: int = 0
    operations: int = 0
    damaged: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def campaign(project: Project, words: Iterable[tuple[str, ...]], seed: int, count: int, scratch: Path) -> Tally:
    """Record commands on a project's store, and check ``count`` states that power cuts could leave."""
    before = scratch / "before"
    shutil.copytree(project.store, before, copy_function=os.link)
    operations = [each for command in words for each in record(project, command, scratch / "strace")]
    tally = Tally(operations=len(operations))
    _lighten(before, operations)
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else scratch) as name:
        shutil.copytree(before, memory := Path(name, "before"))
        _cut(Contents.follow(memory, operations, project.store), project.store, tally, random.Random(seed), count)
    return tally


def _cut(final: Contents, after: Path, tally: Tally, rng: random.Random, count: int) -> None:
    """Lay one state after the other, and examine it."""
    state = final.before.with_name("state")
    for _ in range(count):
        shutil.rmtree(state, ignore_errors=True)
        final.lay(state, rng, ordered=rng.random() < 0.5)
        examine(state, after, tally)


def _lighten(before: Path, operations: Iterable[Operation]) -> None:
    """Remove objects and layers that no operation named: no power cut harms them, and each state reads them all."""
    touched = {path for each in operations for path in (each.path, each.target)}
    for path in (*before.glob("sha256/??/*"), *before.glob("derived/*/*"), *before.glob("sha256/??")):
        name = str(path.relative_to(before))
        if not any(each == name or each.startswith(f"{name}/") for each in touched):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def record(project: Project, command: tuple[str, ...], log: Path) -> Iterator[Operation]:
    """Run a command and yield what it does below the store, in its order."""
    project.must(*command, prefix=("strace", "-f", "-y", "-s", "4096", "-e", f"trace={_CALLS}", "-o", str(log)))
    waiting: dict[str, str] = {}
    for line in log.read_text(errors="surrogateescape").splitlines():
        if found := _UNFINISHED.match(line):
            waiting[found["pid"]] = found["start"]
            continue
        if (found := _RESUMED.match(line)) and found["pid"] in waiting:
            line = f"{found['pid']} {waiting.pop(found['pid'])}{found['rest']}"
        if (call := _LINE.match(line)) and int(call["result"]) >= 0:
            yield from _operation(call["name"], call["arguments"], int(call["result"]), str(project.store))


def _operation(name: str, arguments: str, result: int, root: str) -> Iterator[Operation]:
    """Turn a call into operations; none if it is not about the store."""
    quoted: list[str] = _QUOTED.findall(arguments)
    opened = [path.removesuffix(" (deleted)") for path in _OPEN.findall(arguments)]
    paths = [path if path.startswith("/") else f"{opened[0] if opened else ''}/{path}" for path in quoted]
    inside = [path[len(root) + 1 :] for path in paths if path.startswith(f"{root}/")]
    handle = next((path[len(root) + 1 :] for path in opened if path.startswith(f"{root}/")), "")
    match name:
        case "open" | "openat" | "creat" if inside and ("O_CREAT" in arguments or "O_TRUNC" in arguments):
            yield Operation(what="make", path=inside[0], size=0 if "O_TRUNC" in arguments else -1)
        case "write" | "pwrite64" | "writev" if arguments.partition("<")[2].startswith(f"{root}/"):
            yield Operation(what="write", path=handle, size=result)
        case "copy_file_range" | "sendfile":
            # The target is the third argument of the one, the first of the other.
            target = opened[-1] if name == "copy_file_range" else opened[0]
            if target.startswith(f"{root}/"):
                yield Operation(what="write", path=target[len(root) + 1 :], size=result)
        case "ftruncate" if handle:
            yield Operation(what="cut", path=handle, size=int(arguments.rpartition(",")[2]))
        case "fsync" | "fdatasync" if handle:
            yield Operation(what="sync", path=handle)
        case "rename" | "renameat" | "renameat2" if len(inside) == 2:
            yield Operation(what="name", path=inside[0], target=inside[1])
        case "link" | "linkat" if len(inside) == 2:
            yield Operation(what="link", path=inside[0], target=inside[1])
        case "unlink" | "unlinkat" | "rmdir" if inside:
            folder = name == "rmdir" or "AT_REMOVEDIR" in arguments
            yield Operation(what="drop folder" if folder else "drop", path=inside[0])
        case "mkdir" | "mkdirat" if inside:
            yield Operation(what="folder", path=inside[0])


@dataclass(kw_only=True)
class _File:
    """A file's data: how many bytes it had at which moment, and at which ones it was synced."""

    data: bytes = b""
    lasting: bool = False
    sizes: list[tuple[int, int]] = field(default_factory=list)
    synced: list[int] = field(default_factory=list)

    def size(self, moment: int) -> int:
        """Bytes it had."""
        return next((size for at, size in reversed(self.sizes) if at <= moment), 0)


@dataclass(kw_only=True)
class Contents:
    """All files that there have been, and what was done to their names."""

    before: Path
    names: list[tuple[int, Operation, _File | None]]
    files: list[_File]
    moments: int

    @staticmethod
    def follow(before: Path, operations: list[Operation], after: Path) -> Contents:
        """Follow the operations; the bytes of a file are those that it has in the end under its last name."""
        known: dict[str, _File] = {}
        for path in before.rglob("*"):
            if path.is_file():
                known[str(path.relative_to(before))] = _File(lasting=True)
        names: list[tuple[int, Operation, _File | None]] = []
        files: list[_File] = []
        for moment, operation in enumerate(operations):
            file = known.get(operation.path)
            match operation.what:
                case "make":
                    if file is None:
                        file = known[operation.path] = _File()
                        files.append(file)
                        names.append((moment, operation, file))
                    elif operation.size == 0:
                        file.sizes.append((moment, 0))
                case "write" if file is not None:
                    file.sizes.append((moment, file.size(moment) + operation.size))
                case "cut" if file is not None:
                    file.sizes.append((moment, operation.size))
                case "sync" if file is not None:
                    file.synced.append(moment)
                case "name" | "link" | "drop" | "folder" | "drop folder":
                    names.append((moment, operation, file))
                    _renamed(known, operation)
        for path, file in known.items():
            if (after / path).is_file():
                file.data = (after / path).read_bytes()
        return Contents(before=before, names=names, files=files, moments=len(operations))

    def lay(self, state: Path, rng: random.Random, *, ordered: bool) -> None:
        """Put together what the disk could hold after a cut at a random moment."""
        shutil.copytree(self.before, state, copy_function=os.link)
        cut = rng.randrange(self.moments + 1)
        journal = max((moment for file in self.files for moment in file.synced if moment <= cut), default=0)
        last = rng.randint(journal, cut)
        kept = 1.0 if rng.random() < 0.3 else rng.random()
        for moment, operation, file in self.names:
            there = moment <= last if ordered else moment <= cut and rng.random() < kept
            if there or (moment <= cut and operation.what == "folder"):
                _apply(state, operation, file, cut, rng)


def _renamed(known: dict[str, _File], operation: Operation) -> None:
    """Move names, those of everything below a folder too."""
    match operation.what:
        case "name":
            for path in [path for path in known if path == operation.path or path.startswith(f"{operation.path}/")]:
                known[operation.target + path[len(operation.path) :]] = known.pop(path)
        case "link" if operation.path in known:
            known[operation.target] = known[operation.path]
        case "drop":
            known.pop(operation.path, None)


def _apply(state: Path, operation: Operation, file: _File | None, cut: int, rng: random.Random) -> None:
    """Do one operation on names; one whose file is not there, since an earlier one was lost, does nothing."""
    path, target = state / operation.path, state / operation.target
    try:
        match operation.what:
            case "make" if file is not None:
                path.unlink(missing_ok=True)  # it shares its bytes with the recorded store
                path.write_bytes(_data(file, cut, rng))
            case "name":
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
            case "link":
                os.link(path, target)
            case "drop":
                path.unlink()
            case "folder":
                path.mkdir(parents=True)
            case "drop folder":
                path.rmdir()
    except OSError:
        return


def _data(file: _File, cut: int, rng: random.Random) -> bytes:
    """Return the data that a file could have after a cut."""
    size = file.size(cut)
    sure = file.size(max((moment for moment in file.synced if moment <= cut), default=-1))
    whole = file.data[:size].ljust(size, b"\0")
    if sure == size and size:
        return whole
    match rng.randrange(5):
        case 0:
            return whole[:sure]
        case 1:
            return whole
        case 2:
            return whole[:sure].ljust(size, b"\0")
        case 3:
            return whole[: rng.randint(min(sure, size), size)]
        case _:
            hole = rng.randint(min(sure, size), size) & ~4095
            return (whole[:hole] + bytes(4096) + whole[hole + 4096 :])[:size] if hole >= sure else whole


def examine(state: Path, after: Path, tally: Tally) -> None:
    """Ask the store for everything in a state, as after a new start of the machine; then have it checked."""
    tally.states += 1
    with mock.patch("envbuild.store.objects.boot_id", return_value=_ANOTHER):
        _examine(state, after, tally)


def _examine(state: Path, after: Path, tally: Tally) -> None:
    store = Store(state)
    for path in sorted(after.glob("sha256/??/*")):
        name = path.parent.name + path.name
        if store.has(name, path.stat().st_size) and not _same(path, store.path(name)):
            tally.faults.append(f"an object with wrong bytes counts as there: {name}")
    for kind in _KINDS:
        for folder in sorted((after / "derived" / kind).glob("[0-9a-f]*")):
            found = _taken(store, kind, folder.name)
            if found is not None and (wrong := _different(folder, found)):
                tally.faults.append(f"a {kind} folder with wrong bytes is taken: {wrong}")
    shutil.copytree(state, state.with_name("checked"), copy_function=os.link)
    checked = Store(state.with_name("checked"))
    try:
        entries = inventory(checked, {})
        gone = check(checked, entries, {"layers": is_sound}, lambda amount: None, jobs=1)
        for entry in gone:
            tally.damaged[entry.kind] += 1
        for entry in entries:
            original = after / Path(entry.path).relative_to(checked.root)
            both = Path(entry.path).is_dir() and original.is_dir()
            if both and (wrong := _different(original, Path(entry.path))):
                tally.faults.append(f"store verify accepts {entry.kind} with wrong bytes: {wrong}")
        for path in checked.root.glob("sha256/??/*"):
            if (after / path.relative_to(checked.root)).exists() and not _same(
                after / path.relative_to(checked.root), path
            ):
                tally.faults.append(f"store verify accepts an object with wrong bytes: {path.name}")
    finally:
        leases.end(store.root)
        leases.end(checked.root)
        shutil.rmtree(checked.root)


def _taken(store: Store, kind: str, key: str) -> Path | None:
    """Ask as a build does; the machine has been started anew."""
    if kind != KIND:
        return store.derived(kind, key)
    layer = Layers(store, _ANOTHER).find(key)
    return layer.path.parent if layer is not None else None


def _different(right: Path, found: Path) -> str:
    """Return the first file of a folder whose bytes are not the right ones; empty if there is none."""
    for path in sorted(right.rglob("*")):
        name = path.relative_to(right)
        if (
            path.is_file()
            and name.name not in ("boot", ".sums.json", ".sizes.json", ".boot")
            and not _same(path, found / name)
        ):
            return str(name)
    return ""


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and (one.samefile(other) or one.read_bytes() == other.read_bytes())


def figures(tally: Tally) -> list[str]:
    """Return the lines that state what was done."""
    damaged = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.damaged.items())) or "nothing"
    return [
        f"{tally.operations} operations recorded, {tally.states} states after a power cut",
        f"found damaged and removed by store verify: {damaged}; {len(tally.faults)} faults",
    ]
