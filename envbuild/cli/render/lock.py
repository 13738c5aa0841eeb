"""What ``init``, ``lock`` and ``fetch`` did: lines for people, JSON values, Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from envbuild.cli.render.events import Line
from envbuild.core.text import human_bytes, plural
from envbuild.host import values
from envbuild.lockfile.changes import LAYOUT, Change, Kind
from envbuild.lockfile.hardware import POLICIES, Gpu, Hardware
from envbuild.lockfile.model import IN_EVERY_IMAGE, Input, Lock, Os, lock_digest
from envbuild.operations.fetch import FetchedLock
from envbuild.operations.init import StarterSpec
from envbuild.operations.lock import InputsUpdate, LockCheck, LockResult

_SHOWN = 6
"""Imported names that ``init`` prints; all are in the spec."""
_ABSENT = "—"
"""Represents what one of two locks lacks, in Markdown."""
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#!~])")

Fixes = Mapping[str, tuple[str, ...]]
"""CVE numbers by name of the Debian package that fixes them."""


def starter_lines(result: StarterSpec) -> Iterator[Line]:
    """Yield the lines of ``init``."""
    yield Line("wrote", (str(result.path),))
    if result.export:
        yield Line("next", (f"take the pins you have: {result.export}", "and write  requirements: requirements.txt"))
    if result.unknown:
        shown = ", ".join(result.unknown[:_SHOWN]) + (" …" if len(result.unknown) > _SHOWN else "")
        what = "its package" if len(result.unknown) == 1 else "their packages"
        yield Line("next", (f"your code also imports {shown}: add {what} to requirements",))
    if result.unpinned:
        verb = "is" if len(result.unpinned) == 1 else "are"
        yield Line("next", (f"{', '.join(result.unpinned)} {verb} not pinned: uncomment inputs",))
    yield Line("next", ("read it, then: envbuild lock spec.yaml",))


def of_variants(values: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON values of one lock; those of several as the list ``variants`` or, without any, ``platforms``."""
    found = [*values]
    if not {"variant", "platform"} & found[0].keys():
        return found[0]
    fresh = {"fresh": all(each["fresh"] for each in found)} if "fresh" in found[0] else {}
    return {**fresh, "variants" if "variant" in found[0] else "platforms": found}


def lock_lines(result: LockResult, *, last: bool = True) -> Iterator[Line]:
    """Yield the lines of ``lock``: what was locked, where it was written, and what changed; the time with the last."""
    lock = result.lock
    if lock.variant:
        yield Line("variant", (lock.variant,))
    if lock.platform:
        yield Line("platform", (lock.platform,))
    yield _system(lock.os)
    if build := lock.python.build:
        size = human_bytes(build.size)
        yield Line("python", (f"{build.version:<18}", f"{'standalone':<12}", f"{size:<8}", f"build {build.release}"))
    if lock.packages:
        size = human_bytes(sum(package.wheel.size for package in lock.packages))
        wheels = plural(len(lock.packages), "wheel")
        yield Line("python", (f"{lock.python.version:<18}", f"{wheels:<12}", f"{size:<8}", _headline(result)))
    for name, reason in lock.added.items():
        if not reason.startswith(IN_EVERY_IMAGE):
            yield Line("added", (f"{name:<18}", reason))
    pinned = f"{lock.determinism.level}, {plural(lock.determinism.threads, 'thread')}, seed {lock.determinism.seed}"
    yield Line("env", (f"{plural(len(lock.environment), 'variable'):<18}", pinned))
    yield from hardware_lines(lock)
    yield from map(_input, lock.inputs)
    yield from (Line("note", (note,)) for note in result.notes)
    yield Line("wrote", (f"{result.path.name}, {result.dockerfile.name}",), elapsed=last)
    yield from (Line("moved", (line,)) for line in _moved(result))


def lock_json(result: LockResult) -> dict[str, Any]:
    """Return the result of ``lock`` as JSON values."""
    return {
        **_part(result.lock),
        "lock": str(result.path),
        "sha256": lock_digest(result.lock),
        "moved": _moved(result),
        "notes": list(result.notes),
    }


def check_lines(result: LockCheck) -> Iterator[Line]:
    """Yield the line of ``lock --check`` for a lock that is fresh."""
    if not result.reasons:
        yield Line("fresh", (f"{result.path.name} is what {result.spec_path.name} asks for",))


def check_json(result: LockCheck) -> dict[str, Any]:
    """Return the result of ``lock --check`` as JSON values."""
    found = {"lock": str(result.path), "fresh": not result.reasons, "reasons": list(result.reasons)}
    return {**_part(result), **found}


def update_lines(result: InputsUpdate) -> Iterator[Line]:
    """Yield the lines of ``lock --update-inputs``."""
    yield from map(_input, result.lock.inputs)
    yield from (Line("moved", (line,)) for line in result.input_changes)
    yield Line("wrote" if result.lock != result.old else "fresh", (result.path.name,), elapsed=True)


def update_json(result: InputsUpdate) -> dict[str, Any]:
    """Return the result of ``lock --update-inputs`` as JSON values."""
    found = {"lock": str(result.path), "sha256": lock_digest(result.lock), "moved": list(result.input_changes)}
    return {**_part(result.lock), **found}


def _part(of: Lock | LockCheck) -> dict[str, str]:
    """Return which variant and platform a lock is of, if the spec has any."""
    return {key: name for key, name in (("variant", of.variant), ("platform", of.platform)) if name}


def fetched_lines(result: FetchedLock) -> Iterator[Line]:
    """Yield the line that shows where files were also written."""
    if result.vendored is not None:
        yield Line("vendor", (str(result.vendor), plural(result.vendored.written + result.vendored.kept, "file")))


def fetched_json(result: FetchedLock) -> dict[str, Any]:
    """Return the result of ``fetch`` as JSON values."""
    return {
        "lock": result.loaded.lock.file_name,
        "store": str(result.store),
        "vendor": str(result.vendor) if result.vendor else None,
    }


def hardware_lines(lock: Lock) -> Iterator[Line]:
    """Yield the lines that show what a host must be, and which CUDA libraries were locked."""
    yield Line("hardware", ("; ".join(_hardware(lock.hardware)),))
    if lock.cuda is None:
        return
    named = {"CUDA": lock.cuda.version, "cuDNN": lock.cuda.cudnn, "cuBLAS": lock.cuda.cublas, "NCCL": lock.cuda.nccl}
    libraries = ", ".join(f"{name} {version}" for name, version in named.items() if version)
    yield Line("cuda", (f"{libraries}; driver ≥ {lock.cuda.driver}",))


def change_lines(changes: Iterable[Change]) -> list[str]:
    """Return a line for each package, hardware field and CUDA library with another version or value."""
    rows = [(_listed(change), change) for change in changes if _is_listed(change)]
    rows.sort(key=lambda row: (row[1].kind == "hardware", row[0]))
    width = max(29, *(len(name) for name, _ in rows)) if rows else 0
    return [
        f"{name:<{width}} {_or_absent(change, change.before)} → {_or_absent(change, change.after)}"
        for name, change in rows
    ]


def markdown(lock: str, changes: Sequence[Change] | None, fixes: Fixes | None = None) -> str:
    """Return what changed as Markdown for a pull request, ending in a newline.

    Args:
        lock: the lock's file name.
        changes: what changed; None for a lock that replaces none.
        fixes: CVE numbers that changelogs name; None if they could not be read.
    """
    if changes is None:
        return f"## {lock} is new\n\n"
    if not changes:
        return f"## {_text(lock)}: nothing moved\n"
    by_kind: dict[Kind, list[Change]] = {}
    for change in changes:
        by_kind.setdefault("other" if change.kind == "hardware" else change.kind, []).append(change)
    lines = [f"## {_text(lock)}: {_counted(by_kind)}", ""]
    if effect := _effect(by_kind):
        lines += [effect, ""]
    lines += _security(changes, fixes)
    kinds: tuple[Kind, ...] = ("framework", "numeric", "python", "other", "environment")
    if shown := [change for kind in kinds for change in by_kind.get(kind, ())]:
        lines += ["| what | from | to |", "|---|---|---|", *map(_row, shown), ""]
    if system := by_kind.get("os"):
        lines += [f"<details><summary>{plural(len(system), 'other Debian package')}</summary>", ""]
        lines += ["| package | from | to |", "|---|---|---|", *map(_row, system), "", "</details>", ""]
    return "\n".join(lines)


def _moved(result: LockResult) -> list[str]:
    return [*change_lines(result.changes), *result.input_changes]


def _system(system: Os) -> Line:
    """Return the line that shows which packages or which base image were locked."""
    if system.image:
        name, _, digest = system.image.partition("@")
        size = human_bytes(system.image_size)
        return Line("os", (f"{system.release:<18}", "base image  ", f"{size:<8}", f"{name}@{digest[:19]}…"))
    size = human_bytes(sum(package.size for package in system.packages))
    packages = plural(len(system.packages), "package")
    distribution, _, release = system.release.rpartition("-")
    signed = f"signatures verified ({distribution.title()} {release} archive keys)"
    if system.archives:
        signed = f"{signed[:-1]}; {', '.join(f'{found.name}: {_short(found.keys)}' for found in system.archives)})"
    origin = f"snapshot {system.snapshot}" if system.snapshot else ""
    return Line("os", (f"{system.release:<18}", f"{packages:<12}", f"{size:<8}", signed, origin))


def _short(fingerprints: Sequence[str]) -> str:
    """Return the ends of fingerprints, as key servers show them."""
    return " or ".join(f"…{fingerprint[-16:]}" for fingerprint in fingerprints)


def _input(entry: Input) -> Line:
    return Line("input", (f"{entry.path:<18}", plural(entry.files, "file"), human_bytes(entry.bytes)))


def _headline(result: LockResult) -> str:
    """Name what the spec asks for, the frameworks and what files ask for, with versions, as much as fits a line."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lock = result.lock
    asked, included = (
        [canonicalize_name(Requirement(line).name) for line in lines]
        for lines in (result.spec.requirements, result.included)
    )
    versions = {package.name: package.version for package in lock.packages}
    names = [name for name in dict.fromkeys([*asked, *lock.frameworks, *included]) if name in versions][:4]
    more = " …" if len(versions) > len(names) else ""
    return ", ".join(f"{name} {versions[name]}" for name in names) + more


def _hardware(hardware: Hardware) -> Iterator[str]:
    """Yield as text what a host must be."""
    from envbuild.runtime.guard import ranges

    yield _gpu(hardware.gpu, hardware) if hardware.gpu else "no GPU"
    yield f"kernel {ranges.show(hardware.kernel)}"
    word, comma, warn = hardware.policy_of("cpu").partition(",")
    shown = {"exact": " exact", "any": " not compared"}.get(word, "")
    flags = f" with {plural(len(hardware.cpu_flags), 'flag')}" if hardware.cpu_flags else ""
    yield (f"CPU {hardware.cpu}{shown}{comma}{warn}" if hardware.cpu != "any" else "CPU any") + flags
    if hardware.fingerprint:
        yield "numeric fingerprint"


def _gpu(gpu: Gpu, hardware: Hardware) -> str:
    """Return as text what the GPUs must be: ``2 × NVIDIA H200, driver 580.159.04 exact``."""
    word = hardware.policy_of("gpu.count").partition(",")[0]
    words = {"at least": "at least ", "any": "any number of "}.get(word, "") + values.many(gpu.devices)
    word, comma, warn = hardware.policy_of("gpu.driver").partition(",")
    if gpu.driver and word == "at least":
        words += f", driver ≥ {gpu.driver}{comma}{warn}"
    elif gpu.driver:
        words += f", driver {gpu.driver} {'not compared' if word == 'any' else word}{comma}{warn}"
    return words + (", exclusive" if gpu.exclusive else "") + (", or none" if hardware.gpu_optional else "")


def _is_listed(change: Change) -> bool:
    return change.kind == "hardware" or change.name == LAYOUT or (change.is_package and change.before != change.after)


def _listed(change: Change) -> str:
    return f"{change.name} (os)" if change.kind in ("numeric", "os") else change.name


def _or_absent(change: Change, value: str | None) -> str:
    """Return a value; for one that a lock lacks, what that means."""
    if value is not None:
        return value
    if change.kind != "hardware":
        return "none"
    field = change.name.removeprefix("hardware.").removesuffix(" policy")
    return POLICIES[field] if change.name.endswith(" policy") else "(not locked)"


def _row(change: Change) -> str:
    bold = "**" if change.kind == "framework" else ""
    cells = [_ABSENT if value is None else value for value in (change.before, change.after)]
    if change.is_package and change.before == change.after:
        cells = [f"{value} ({file})" for value, file in zip(cells, change.files, strict=True)]
    return f"| {bold}{_text(change.name)}{bold} | {_text(cells[0])} | {_text(cells[1])} |"


def _counted(by_kind: Mapping[Kind, Sequence[Change]]) -> str:
    wheels = len(by_kind.get("framework", ())) + len(by_kind.get("python", ()))
    debs = len(by_kind.get("numeric", ())) + len(by_kind.get("os", ()))
    rest = len(by_kind.get("environment", ())) + len(by_kind.get("other", ()))
    parts = [
        plural(wheels, "wheel") if wheels else "",
        plural(debs, "Debian package") if debs else "",
        plural(rest, "setting") if rest else "",
    ]
    return ", ".join(part for part in parts if part) + " moved"


def _effect(by_kind: Mapping[Kind, Sequence[Change]]) -> str:
    """Return what to expect of results."""
    if frameworks := by_kind.get("framework"):
        names = ", ".join(_text(change.name) for change in frameworks)
        return f"**Results will change**: {names} computes them. Compare before merging: `envbuild verify`."
    if by_kind.get("numeric") or by_kind.get("python") or by_kind.get("other") or by_kind.get("environment"):
        return "Results may change: packages changed that can affect them. Compare before merging: `envbuild verify`."
    return "Results should stay: only packages changed that do not affect them."


def _security(changes: Sequence[Change], fixes: Fixes | None) -> list[str]:
    if fixes is None:
        return ["Security: the changelogs of the moved Debian packages could not be read.", ""]
    lines = [
        f"- **{_text(change.name)}** fixes {', '.join(fixes[change.name])}"
        for change in changes
        if change.kind in ("numeric", "os") and fixes.get(change.name)
    ]
    return ["Security, by the changelogs of the Debian packages:", "", *lines, ""] if lines else []


def _text(text: str) -> str:
    """Return text with what Markdown would take for markup escaped."""
    return _MARKUP.sub(r"\\\1", text)
