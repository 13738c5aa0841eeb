"""What the hook did in the Python processes of two runs: seeds, switches read back, versions, libraries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from envbuild.core.text import plain, plural
from envbuild.difference.finding import NOWHERE, Area, Finding, Section, changed
from envbuild.difference.text import digest, flat, pairs, shown
from envbuild.record.model import Record
from envbuild.record.processes import ForeignPackage, ProcessRecord

Table = Mapping[str, Any]

_IGNORED = frozenset(("format", "pid", "parent", "arguments", "path", "left_out", "entropy", "listings", "asked"))
"""Different in any two runs, or reported elsewhere."""
_WEIGHTS: dict[str, tuple[Area, int]] = {
    "seed": ("seeds", 80),
    "generators": ("seeds", 79),
    "level": ("switches", 75),
    "switches": ("switches", 74),
    "parallel": ("options", 60),
    "packages": ("packages", 69),
    "frameworks": ("packages", 68),
    "python": ("packages", 64),
    "libraries": ("libraries", 61),
    "environment_changed": ("environment", 62),
    "warnings": ("processes", 29),
    "refused_ops": ("switches", 60),
}
_BUCKETS = 97
"""Before all that a program may have been given: the order of sums over ranks certainly is another one."""
_CAP = "bucket_cap_bytes"
_REBUILT = ("rebuilt_bucket_sizes", "rebuilt_per_bucket_param_indices")
"""Known once a wrapper has gone, or at the end of a process: one that was killed has none."""
_DIVISION = ("bucket_sizes", *_REBUILT)
_SUMS = ("bytes_per_pack", "implementation", "collectives on CPUs", "fusion threshold")
"""What decides in TensorFlow, JAX and Horovod how values are summed over ranks; DeepSpeed's begin with ``zero.``."""
_MISSING = 19
"""A pool may start as many workers as it finds busy."""
_OTHER = 21
_HELPER = "worker"
"""The place of a process of ``multiprocessing`` without a number: its tracker of resources, a fork server, a worker
that was killed before it had a task. They end after the program, and write a record if there is time."""


def processes(a: Record, b: Record) -> tuple[Section, Section]:
    """Return what differs in seeds, and in all else that processes recorded."""
    if not (a.processes and b.processes):
        sides = " and ".join(side for side, each in (("A", a), ("B", b)) if not each.processes)
        unknown = (f"seeds and switches (no Python process is recorded in {sides})",)
        return Section("seeds", _one_sided(a, b), compared=False, unknown=unknown), Section("")
    found: dict[tuple[str, str, str], Finding] = {}
    mine, theirs = _by_path(a.processes), _by_path(b.processes)
    seeded = False
    for path in {**mine, **theirs}:
        ones, others = mine.get(path, []), theirs.get(path, [])
        for before, after in zip(ones, others, strict=False):
            for finding in _process(before, after, path, seeded):
                seeded = seeded or finding.area == "seeds"
                found.setdefault((finding.what.partition(" in ")[0], finding.before, finding.after), finding)
        if len(ones) != len(others) and path.rpartition("/")[2] != _HELPER:
            finding = changed("processes", _place(path), _count(ones), _count(others), _MISSING)
            found[finding.what, "", ""] = finding
    seeds = tuple(each for each in found.values() if each.area == "seeds")
    rest = tuple(each for each in found.values() if each.area != "seeds")
    switches = "switches" if any(process.switches for process in a.processes) else ""
    return Section("seeds", seeds), Section(switches, rest)


def _one_sided(a: Record, b: Record) -> tuple[Finding, ...]:
    if bool(a.processes) == bool(b.processes):
        return ()
    return (changed("processes", "Python processes", _count(a.processes), _count(b.processes), _MISSING),)


def _process(before: ProcessRecord, after: ProcessRecord, path: str, seeded: bool) -> Iterator[Finding]:
    """Compare two processes of one place; once a seed differs, other seeds follow from it."""
    mine, theirs = dict(_facts(before)), dict(_facts(after))
    where = "" if not path else f" in {_place(path)}"
    # A process that is killed, as kernels of notebooks are, may have listed no packages yet.
    known = not path or (before.packages and after.packages)
    packages = _packages(before.packages, after.packages) if known else ()
    for name, one, other in chain(pairs(mine, theirs), packages):
        if name.startswith("parallel."):
            if not name.endswith(_REBUILT) or None not in (one, other):
                yield _parallel(name, one, other, where, mine, theirs)
            continue
        area, weight = _WEIGHTS.get(name.partition(".")[0], ("processes", _OTHER))
        what = name.partition(".")[2] if area in ("switches", "packages", "libraries") and "." in name else name
        follows = ""
        if seeded and (area == "seeds" or "seed" in name):
            follows = "seed"
        seeded = seeded or area == "seeds"
        yield changed(area, f"{plain(what)}{where}", *shown(one, other), weight, follows=follows)


def _parallel(name: str, one: Any, other: Any, where: str, mine: Table, theirs: Table) -> Finding:
    """Describe a setting of what adds gradients up over ranks; a limit counts for what it makes of the buckets."""
    area, weight = _WEIGHTS["parallel"]
    what, setting = name.removeprefix("parallel.").rsplit(": ", 1)
    why = follows = ""
    if setting in (_CAP, *_DIVISION):
        pieces = [f"parallel.{what}: {each}" for each in _DIVISION]
        others = any(mine.get(each) != theirs.get(each) for each in pieces if mine.get(each) and theirs.get(each))
        weight, why = (_BUCKETS, "gradients are summed in other pieces: other bits") if others else (_OTHER, "")
        cap = f"parallel.{what}: {_CAP}"
        follows = _CAP if setting != _CAP and mine.get(cap) != theirs.get(cap) else ""
    elif setting in _SUMS or setting.startswith("zero."):
        weight, why = _BUCKETS, "values of all ranks are summed in another way: other bits"
    return changed(area, f"{plain(what)}: {setting}{where}", *shown(one, other), weight, why=why, follows=follows)


def _facts(process: ProcessRecord) -> Iterator[tuple[str, Any]]:
    """Yield what to compare by name; switches and libraries by theirs, and what was read back of a switch."""
    yield "seed", process.seed
    for key, part in msgspec.to_builtins(process).items():
        if key in _IGNORED or key in ("seed", "packages"):
            continue
        if key == "switches":
            yield from _switches(part)
        elif key == "libraries":
            yield from _libraries(part)
        elif key == "parallel":
            yield from _settings(part)
        elif isinstance(part, Mapping):
            yield from flat(part, f"{key}.")
        else:
            yield key, part or None if isinstance(part, (list, tuple)) else part


def _switches(found: Iterable[Table]) -> Iterator[tuple[str, Any]]:
    for switch in found:
        name = f"switches.{switch['name']}"
        yield name, switch["found"]
        for key, part in switch.items():
            if key not in ("name", "found", "wanted", "ok"):
                yield f"{name} ({key.replace('_', ' ')})", part
        if not switch["ok"]:
            yield f"{name} (wanted)", switch["wanted"]


def _libraries(found: Iterable[Table]) -> Iterator[tuple[str, Any]]:
    for library in found:
        yield f"libraries.{library['name']}", library["version"] or None
        yield f"libraries.{library['name']} (path)", library["path"]
        yield f"libraries.{library['name']} (problem)", library["problem"] or None


def _packages(
    before: Iterable[ForeignPackage], after: Iterable[ForeignPackage]
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield packages from outside the image that differ in version, or in a file that both processes imported."""
    mine, theirs = ({each.name: each for each in found} for found in (before, after))
    for name in {**mine, **theirs}:
        one, other = mine.get(name), theirs.get(name)
        files: list[str] = []
        if one and other:
            both = [file for file in one.files if one.files[file] and other.files.get(file)]
            files = [file for file in both if one.files[file] != other.files[file]]
            if one.version == other.version and not files and (both or one.path == other.path):
                continue
        yield f"packages.{name} (not in the image)", _package(one, files), _package(other, files)


def _package(package: ForeignPackage | None, files: list[str]) -> str | None:
    """Describe a package by its version and the first of the files that differ, or by its folder."""
    if package is None:
        return None
    more = f" and {plural(len(files) - 1, 'other')}" if len(files) > 1 else ""
    place = f"{files[0]} {digest(package.files[files[0]])}{more}" if files else package.path
    return f"{package.version or 'no version'} ({place})"


def _settings(found: Iterable[Table]) -> Iterator[tuple[str, Any]]:
    """Yield the settings of each model; of several of one kind the later ones have a number."""
    counts: dict[str, int] = {}
    for model in found:
        number = counts[model["kind"]] = counts.get(model["kind"], 0) + 1
        for name, value in model["settings"].items():
            yield f"parallel.{model['kind']}{f' {number}' if number > 1 else ''}: {name}", value


def _by_path(found: Iterable[ProcessRecord]) -> dict[str, list[ProcessRecord]]:
    places: dict[str, list[ProcessRecord]] = {}
    for process in found:
        places.setdefault(process.path, []).append(process)
    return places


def _place(path: str) -> str:
    return f"process {plain(path)}" if path else "the main process"


def _count(found: Any) -> str:
    return str(len(found)) if found else NOWHERE
