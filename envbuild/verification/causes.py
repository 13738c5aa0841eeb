"""Why runs that should be equal may differ: what the records, the trace and the sources show, most likely first.

Each cause rests on something that was found; nothing is guessed from a difference alone. Two facts sharpen the order:
values that are equal but for rounding were computed in another order, and values that are not were drawn, or read,
otherwise; parameters that differ before the first step were drawn before it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from shlex import quote
from typing import Any

import msgspec
from msgspec import UNSET

from envbuild.core import package_data
from envbuild.difference.finding import Finding
from envbuild.lockfile.layout import WORKSPACE
from envbuild.lockfile.model import Lock
from envbuild.record.model import Record
from envbuild.record.processes import ProcessRecord
from envbuild.trace.divergence import Divergence
from envbuild.verification.calls import Call, calls
from envbuild.verification.lines import TextDifference as TextDifference
from envbuild.verification.lines import difference_of, short
from envbuild.verification.uses import Use

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LEVEL = "set determinism: {level: ops} in spec.yaml, then: envbuild lock && envbuild build"
_SHOWN = 3
"""Lines that are named of one call."""

_LIKELY_USED = 30
"""A proven cause below this weight stands after others of its suspect: it is a weak one, such as a printed time."""
_SUSPICIOUS = 40
"""A cause of this weight makes experiments needless that no call in the sources suggests."""
_CONSEQUENCE = 24
"""Weight of what follows from another cause, in case that no other is found."""
_PROVEN, _BESIDE_PROVEN, _REFUTED = 97, 30, 18
"""Weights of a cause whose fixing made runs equal, and at most of all others then; of one whose fixing did not."""
_FIXED = {
    "listings": "folders are listed in the same order",
    "entropy": "the system's entropy is fixed",
    "clock": "the clock is fixed",
}
_OPERATIONS = {"order": 60, "numbers": 45}
_WEIGHTS = {"numbers": 65, "order": 40, "identity": 35, "time": 25}
_SHARPER: dict[str, dict[str, int]] = {
    "rounding": {"numbers": -25, "order": 20, "identity": -20, "time": -20},
    "other numbers": {"numbers": 15, "order": -5},
    "before the first step": {"numbers": 5, "order": -20},
    "not in training": {"numbers": -20, "order": -10, "identity": 20, "time": 30},
}
"""What a fact about the first difference adds to a kind of call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A row of the table of operations that differ from run to run; explained in ``data/nondeterministic.toml``."""

    name: str
    framework: str
    device: str
    refused: bool
    why: str
    calls: Sequence[str]
    ways: Sequence[str]
    settled: bool = False
    also: Sequence[str] = ()
    kind: str = "order"


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What is known of two runs that differ.

    Attributes:
        a, b: their records.
        lock: what both should have kept to.
        divergence: where their parameters first differ; None if they do not, or there is no trace.
        traced: both left a step trace.
        sources: sources of the project's own modules by path.
        texts: differences of text files.
        found: causes that others found, such as differences between the records.
        operations: the table of operations that differ from run to run.
        in_place: the runs shared the project's folder.
        proven: suspects whose fixing made runs equal: ``listings``, ``entropy``, ``clock``.
        refuted: suspects whose fixing left runs different.
    """

    a: Record
    b: Record
    lock: Lock
    divergence: Divergence | None = None
    traced: bool = False
    sources: Mapping[str, str] | None = None
    texts: Sequence[TextDifference] = ()
    found: Sequence[Finding] = ()
    operations: Sequence[Operation] = ()
    in_place: bool = False
    proven: Sequence[str] = ()
    refuted: Sequence[str] = ()


def rank_causes(evidence: Evidence) -> tuple[Finding, ...]:
    """Return what may have made two runs differ, most likely first; none if nothing is found that could."""
    causes = [
        *evidence.found,
        *_of_the_run(evidence),
        *_of_processes(evidence),
        *_of_texts(evidence.texts),
        *_of_sources(evidence),
        *_of_operations(evidence),
        *_of_the_lock(evidence),
    ]
    causes = [*_of_experiments(evidence, causes), *map(_demoted, causes)]
    if evidence.proven:
        causes = [
            each
            if each.weight >= _PROVEN - 1 or each.weight <= _BESIDE_PROVEN
            else msgspec.structs.replace(each, weight=_BESIDE_PROVEN)
            for each in causes
        ]
    return tuple(sorted(causes, key=lambda cause: -cause.weight))


def _of_experiments(evidence: Evidence, causes: Sequence[Finding]) -> Iterator[Finding]:
    """Yield what was proven and has no line of the project's among the causes."""
    if "listings" in evidence.proven:
        yield from _of_listings(evidence)
    elif evidence.proven and not any(each.weight >= _PROVEN - 1 for each in causes):
        things = {
            "entropy": "the system's entropy, which no seed reaches",
            "clock": "the time, which is never the same",
        }
        what = " and ".join(things[name] for name in evidence.proven)
        yield Finding(
            area="entropy",
            weight=_PROVEN,
            what=f"the program, or a package that it uses, takes values from {what}; {_proof(evidence.proven)}",
            attempt="look for a seed among the options of the packages",
        )


def _of_listings(evidence: Evidence) -> Iterator[Finding]:
    """Yield the lines that listed folders in a varied order, those that sort what they get left out."""
    harmless = {
        f"{path}:{call.line}"
        for path, source in (evidence.sources or {}).items()
        for call in calls(source)
        if call.ordered
    }
    said = set()
    for process in (*evidence.a.processes, *evidence.b.processes):
        for listing in process.listings or ():
            place = f"{listing.file.removeprefix(WORKSPACE + '/')}:{listing.line}"
            if place in said or place in harmless or listing.module == "shutil":
                continue
            said.add(place)
            by = f" (by {listing.module})" if "." in listing.module else ""
            yield Finding(
                area="sources",
                weight=_PROVEN,
                what=f"{listing.call}() lists {listing.folder or 'a folder'} in the order of the file system{by}, "
                f"and the result depends on it; {_proof(('listings',))}",
                where=place,
                attempt=f"sorted({listing.call}(…))",
            )


def _demoted(cause: Finding) -> Finding:
    """Lower what is known to follow from another cause: runs that began alike have other seeds at their end."""
    follows = cause.area in ("seeds", "switches") and "(at exit)" in cause.what
    return msgspec.structs.replace(cause, weight=min(cause.weight, _CONSEQUENCE)) if follows else cause


def suspects(evidence: Evidence, causes: Sequence[Finding]) -> tuple[str, ...]:
    """Return what experiments may prove, the likeliest first: suspects that the sources call, else all."""
    found: dict[str, int] = {}
    for source in (evidence.sources or {}).values():
        for call in calls(source):
            row = _row(call)
            if row is not None and "fixed" in row and call.use not in ("waited", "unused"):
                weight = _WEIGHTS["numbers"] if call.use == "seed" else _WEIGHTS[row["kind"]]
                found[row["fixed"]] = max(found.get(row["fixed"], 0), weight - 20 * (call.use == "printed"))
    if not found and not (causes and causes[0].weight >= _SUSPICIOUS):
        return ("entropy", "clock")
    return tuple(sorted(found, key=lambda name: -found[name]))


def _of_the_run(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is in the records of the runs themselves."""
    options = evidence.a.options
    for record in (evidence.a, evidence.b):
        for change in record.input_changes:
            yield Finding(
                area="inputs",
                weight=95,
                what=f"input data changed during a run: {change}",
                attempt="leave it alone meanwhile",
            )
    if not options.controls:
        what = "the controls were off: no seeds, no deterministic operations"
        yield Finding(area="options", weight=90, what=what, attempt="leave out --no-controls")
    if evidence.a.out_of_memory != evidence.b.out_of_memory:
        yield Finding(
            area="results", weight=95, what="one run ran out of memory", attempt="run one at a time: --jobs 1"
        )
    if evidence.in_place and (files := [output.path for output in evidence.a.outputs]):
        what = f"the runs shared one folder: each found the files of the run before ({', '.join(files[:2])})"
        yield Finding(
            area="options", weight=50, what=what, attempt="leave out --in-place, or have the script start from nothing"
        )
    if options.network != "none":
        what = f"the network was on ({options.network}): what is fetched may change"
        yield Finding(
            area="options",
            weight=20,
            what=what,
            attempt="declare what it fetches as inputs, and run with --network none",
        )


def _of_processes(evidence: Evidence) -> Iterator[Finding]:
    """Yield what the hook found in the processes."""
    sentence: set[str] = set()
    for process in (*evidence.a.processes, *evidence.b.processes):
        for cause in _of_process(process, controlled=evidence.a.options.controls):
            if cause.what not in sentence:
                sentence.add(cause.what)
                yield cause


def _of_process(process: ProcessRecord, *, controlled: bool) -> Iterator[Finding]:
    """Yield switches that are not as they should be."""
    leave = "let the script leave it alone, or set determinism.strict: true to have it refused"
    for switch in process.switches:
        name, wanted = switch.name, switch.wanted
        if not switch.ok:
            what = f"{name} did not take effect: wanted {wanted}, found {switch.found}"
            yield Finding(
                area="switches", weight=85, what=what, attempt="see the warnings of the run: envbuild show RUN"
            )
        elif switch.at_exit is not UNSET and "seed" not in name:
            what = f"the program changed {name}: {wanted} at the start, {switch.at_exit} at the end"
            yield Finding(area="switches", weight=75, what=what, attempt=leave)
    for name, value in process.environment_changed.items() if controlled else ():
        shown = "removed it" if value is None else f"set it to {value}"
        yield Finding(area="environment", weight=45, what=f"{name} is locked, and the program {shown}", attempt=leave)


def _of_texts(texts: Sequence[TextDifference]) -> Iterator[Finding]:
    """Yield files that differ only by what is different in every run."""
    for text in texts:
        kind = difference_of(text.before, text.after)
        if kind:
            yield Finding(
                area="results",
                weight=60,
                what=f"{text.path} holds {kind}: {short(text.before)!r} → {short(text.after)!r}",
                where=f"{text.path}:{text.line}",
                attempt=f"leave it out of the file, or out of the comparison: --ignore {quote(text.path)}",
            )


def _of_sources(evidence: Evidence) -> Iterator[Finding]:
    """Yield calls whose outcome no seed and no switch decides."""
    found: dict[tuple[str, Use], list[str]] = {}
    alone = len(evidence.sources or {}) == 1
    rows: dict[tuple[str, Use], Mapping[str, Any]] = {}
    for path, source in (evidence.sources or {}).items():
        for call in calls(source):
            row = _row(call)
            # What is printed and nothing else makes no parameter another one; a name may be read by another module.
            idle = call.use == "waited" or (call.use == "unused" and alone)
            if row is not None and not idle and not (call.use == "printed" and evidence.divergence is not None):
                key = (call.name, call.use if row["kind"] in ("time", "identity") else "")
                rows[key] = row
                found.setdefault(key, []).append(
                    f"{path}:{call.made}, {path}:{call.line}" if call.made else f"{path}:{call.line}"
                )
    facts, causes, names = list(_facts(evidence)), list[Finding](), list[str]()
    for (name, use), row in rows.items():
        where = ", ".join(found[name, use][:_SHOWN]) + (" …" if len(found[name, use]) > _SHOWN else "")
        called = row.get("shown") or f"{name.lstrip('.')}(){'' if not row.get('bare') else ' without a seed'}"
        weight, why = row.get("weight", _WEIGHTS[row["kind"]]), row["why"]
        if use == "seed":
            weight, why = _sharpened("numbers", _WEIGHTS["numbers"], facts), f"{why}, and becomes a seed"
        else:
            weight = _sharpened(row["kind"], weight, facts)
        weight, why = _tried(evidence, row, weight, why)
        causes.append(
            Finding(area="sources", weight=weight, what=f"{called} {why}", where=where, attempt=str(row["attempt"]))
        )
        names.append(called)
    yield from _merged(causes, names)


def _merged(causes: Sequence[Finding], names: Sequence[str]) -> Iterator[Finding]:
    """Yield causes, those on the same lines as one: which of them it is, nobody can tell from the lines."""
    by_place: dict[str, list[int]] = {}
    for number in sorted(range(len(causes)), key=lambda number: -causes[number].weight):
        by_place.setdefault(causes[number].where, []).append(number)
    for first, *others in by_place.values():
        cause = causes[first]
        beside = [names[number] for number in others if names[number] != names[first]]
        what = f"{cause.what}; on the same line: {', '.join(beside)}" if beside else cause.what
        yield msgspec.structs.replace(cause, what=what)


def _tried(evidence: Evidence, row: Mapping[str, Any], weight: int, why: str) -> tuple[int, str]:
    """Return weight and sentence of a cause in the light of the experiments that were made."""
    suspect = row.get("fixed")
    if suspect in evidence.proven:
        return _PROVEN - (weight < _LIKELY_USED), f"{why}; {_proof(evidence.proven)}"
    # A file may be read by a program that is no Python, which no experiment reaches.
    if suspect in evidence.refuted and not row["call"].startswith("/"):
        return min(weight, _REFUTED), why
    return weight, why


def _proof(proven: Sequence[str]) -> str:
    return f"proven: runs are equal when {' and '.join(_FIXED[name] for name in proven)}"


def _sharpened(kind: str, weight: int, facts: Sequence[str]) -> int:
    return weight + sum(_SHARPER[fact].get(kind, 0) for fact in facts)


def _of_operations(evidence: Evidence) -> Iterator[Finding]:
    """Yield operations of the loaded frameworks that have no deterministic kernel here, by the sources.

    One that is refused at level ``ops``, or repeats there, cannot be it.
    """
    loaded = {name.partition(".")[0] for each in evidence.a.processes for name in each.frameworks}
    loaded |= {"tensorflow"} if "keras" in loaded else set()
    strict = evidence.lock.determinism.level != "seeds" and evidence.a.options.controls
    for row in evidence.operations:
        elsewhere = row.device == "gpu" and not evidence.a.gpus
        if row.framework not in loaded - {"python"} or elsewhere or ((row.refused or row.settled) and strict):
            continue
        sources = {
            path: text
            for path, text in (evidence.sources or {}).items()
            if not row.also or any(part in text for part in row.also)
        }
        if where := places(row.calls, sources):
            weight = _sharpened(row.kind, _OPERATIONS[row.kind], list(_facts(evidence)))
            yield Finding(
                area="operations",
                weight=weight,
                what=f"{row.name}: {row.why}",
                where=where,
                attempt="; or ".join(row.ways[:2]),
            )


def places(fragments: Sequence[str], sources: Mapping[str, str]) -> str:
    """Name the lines of the sources that hold one of the fragments, comments left out."""
    found = [
        f"{path}:{number}"
        for path, source in sources.items()
        for number, line in enumerate(source.splitlines(), 1)
        if any(fragment in line.partition("#")[0] for fragment in fragments)
    ]
    return ", ".join(found[:_SHOWN]) + (" …" if len(found) > _SHOWN else "")


def _of_the_lock(evidence: Evidence) -> Iterator[Finding]:
    """Yield what the lock leaves open."""
    determinism, divergence = evidence.lock.determinism, evidence.divergence
    computed = any(process.frameworks for process in evidence.a.processes)
    rounding = divergence is not None and divergence.rounding is True
    if determinism.level == "seeds" and computed:
        what = "deterministic operations are off in this lock (level: seeds)"
        yield Finding(area="lock", weight=80 if rounding else 35, what=what, attempt=_LEVEL)
    if determinism.threads > 1 and rounding:
        what = f"the runs differ by rounding alone, and sums run on {determinism.threads} threads"
        attempt = "set determinism: {threads: 1} to see whether it is the threads"
        yield Finding(area="lock", weight=40, what=what, attempt=attempt)


def _facts(evidence: Evidence) -> Iterator[str]:
    """Name what is known about the first difference."""
    if evidence.divergence is None:
        if evidence.traced:
            yield "not in training"
        return
    if evidence.divergence.rounding is not None:
        yield "rounding" if evidence.divergence.rounding else "other numbers"
    if evidence.divergence.kind == "start":
        yield "before the first step"


@cache
def _rows() -> tuple[Mapping[str, Any], ...]:
    return tuple(tomllib.loads(package_data.data("entropy.toml").decode())["call"])


def _row(call: Call) -> Mapping[str, Any] | None:
    """Return what is known of a call that seeds do not reach."""
    for row in _rows():
        name = row["call"]
        named = call.name.startswith(name) if name.endswith(".") or row.get("prefix") else call.name == name
        if named and not (row.get("bare") and not call.bare) and not (row.get("ordered") and call.ordered):
            return row
    return None
