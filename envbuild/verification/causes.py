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
from envbuild.difference.finding import NOWHERE, Finding
from envbuild.lockfile.layout import WORKSPACE
from envbuild.lockfile.model import Lock
from envbuild.record.model import Record
from envbuild.record.processes import ProcessRecord
from envbuild.trace.divergence import Divergence
from envbuild.verification.calls import Call, calls
from envbuild.verification.lines import TextDifference as TextDifference
from envbuild.verification.lines import difference_of, short
from envbuild.verification.routes import of_project, route_between
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
PROVEN, _BESIDE_PROVEN, _REFUTED = 97, 30, 18
"""Weights of a cause whose fixing made runs equal, and at most of all others then; of one whose fixing did not."""
SUSPECTS = ("entropy", "clock", "addresses", "figures", "order", "memory")
"""What experiments can fix (``runtime/hook/fix.py``)."""
_FIXED = {
    "listings": "folders are listed in the same order",
    "host": "the host has the same name",
    "times": "files have the same times of change",
    "order of times": "the same file is the newest",
    "environment": "variables of the environment have the same order",
    "layout": "nothing moves objects in memory, such as the size of the environment",
    "pids": "children have the same process ids",
    "cpus": "the same number of CPUs is in sight",
    "entropy": "the system's entropy is fixed",
    "clock": "the clock is fixed",
    "addresses": "objects have the same addresses",
    "figures": "figures of files and of the kernel are fixed",
    "order": "tasks are done one after another",
    "memory": "memory is filled before the program gets it",
}
"""What is the case when runs are equal, by what was proven to be the cause."""
_THINGS = {
    "host": "the result depends on the name of the host",
    "times": "the result depends on the times of change of files",
    "order of times": "the result depends on which file is the newest",
    "environment": "the result depends on the order of the environment's variables",
    "layout": "the result depends on addresses of objects: through hash(), id(), the order of sets, or repr()",
    "pids": "the result depends on the process ids of children",
    "cpus": "the result depends on the number of visible CPUs",
    "entropy": "the program, or a package that it uses, takes values from the system's entropy, which no seed reaches",
    "clock": "the program, or a package that it uses, takes values from the time, which is never the same",
    "addresses": "the result depends on addresses of objects: through hash(), id(), the order of sets, or repr()",
    "figures": "the result depends on figures of files or of the kernel: inode numbers, times, load, process ids",
    "order": "the result depends on the order in which threads, processes or tasks are done",
    "memory": "the program, or a package that it uses, reads memory that nothing wrote",
}
"""What to report where no line is known."""
_ATTEMPTS = {
    "entropy": "look for a seed among the options of the packages",
    "clock": "leave the time out of seeds, decisions and results",
    "addresses": "give classes a __hash__ or a __repr__ of their own, sort by a name or a number",
    "order": "combine results in the order in which tasks were begun",
    "memory": "zeros in the place of empty, or write all of it before it is read",
}
_DRAWN = {
    "entropy": "draws from the system's entropy, which no seed reaches",
    "clock": "returns the time, which is never the same",
    "figures": "returns a figure that is another one in each run",
}
"""What a line does that asks for a suspect, where the table knows nothing of the call."""
_RELIABLE = frozenset(("entropy", "clock"))
"""Suspects that an experiment reaches wherever Python asks for them: what it refutes is no cause alone."""
_TIMES_OF_FILES = frozenset(("times", "order of times"))
UNWRITTEN = "a tensor that nothing was written to"
"""The operation's name in ``data/nondeterministic.toml``; what experiments and diagnosis find out is ``memory``."""
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
class Culprit:
    """A line that makes runs differ, as an experiment showed: what it called, and the line of the project before it.

    Attributes:
        suspect, call, module: as the hook recorded them (``record.processes.Asked``); no call if it could not.
        place: file and line in the container; ``file`` and ``line`` are of the caller, which may be a package.
    """

    suspect: str
    place: str
    call: str = ""
    module: str = ""
    file: str = ""
    line: int = 0


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
        proven: suspects whose fixing made runs equal (``SUSPECTS``), or what alone was varied and made them differ.
        refuted: suspects whose fixing left runs different.
        culprits: what the line called that alone makes runs differ, of those that ask for what is proven.
        cleared: lines, as in ``Culprit``, that ask for it too and make no difference.
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
    culprits: Sequence[Culprit] = ()
    cleared: Sequence[str] = ()


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
    if any(cause.area == "memory" for cause in causes):  # the same, found in the sources
        causes = [cause for cause in causes if not cause.what.startswith(f"{UNWRITTEN}:")]
    shown = list(_of_experiments(evidence, causes))
    said = {each.where for each in shown if " → " in each.where}
    causes = [*shown, *(_demoted(each) for each in causes if each.where not in said)]
    if evidence.proven:
        causes = [
            each
            if each.weight >= PROVEN - 1 or each.weight <= _BESIDE_PROVEN
            else msgspec.structs.replace(each, weight=_BESIDE_PROVEN)
            for each in causes
        ]
    return tuple(sorted(causes, key=lambda cause: -cause.weight))


def _of_experiments(evidence: Evidence, causes: Sequence[Finding]) -> Iterator[Finding]:
    """Yield what was proven and has no line of the project's among the causes."""
    if "listings" in evidence.proven:
        yield from _of_listings(evidence)
    elif evidence.proven and not any(each.weight >= PROVEN - 1 for each in causes):
        yield from _of_culprits(evidence) if evidence.culprits else _of_things(evidence)


def _of_culprits(evidence: Evidence) -> Iterator[Finding]:
    """Yield what the line called that makes runs differ: the table knows nothing of it."""
    draws = [draw for process in (*evidence.a.processes, *evidence.b.processes) for draw in process.entropy or ()]
    for culprit in evidence.culprits[:_SHOWN]:
        own = of_project(culprit.file) or culprit.module == "__main__"
        by = "" if own else f", and the package {culprit.module.partition('.')[0]} calls it"
        call = culprit.call if " " in culprit.call or not culprit.call else f"{culprit.call}()"
        yield Finding(
            area="entropy",
            weight=PROVEN,
            what=f"{call or 'this line'} {_DRAWN[culprit.suspect]}{by}; {_proof(evidence.proven, line=True)}",
            where=route_between(culprit.place, "" if own else culprit.file, culprit.line, draws),
            attempt=_ATTEMPTS.get(culprit.suspect, "leave it out of seeds and results"),
        )


def _of_things(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is proven though no line is known."""
    for name in evidence.proven:
        yield Finding(
            area="entropy",
            weight=PROVEN,
            what=f"{_THINGS[name]}; {_proof(evidence.proven)}",
            attempt=_ATTEMPTS.get(name, "leave it out of seeds and results"),
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
                weight=PROVEN,
                what=f"{listing.call}() lists {listing.folder or 'a folder'} in the order of the file system{by}, "
                f"and the result depends on it; {_proof(('listings',))}",
                where=place,
                attempt=f"sorted({listing.call}(…))",
            )


def _demoted(cause: Finding) -> Finding:
    """Lower what follows from another cause, as far as that is known: runs that began alike end with other seeds."""
    follows = cause.area in ("seeds", "switches") and "(at exit)" in cause.what
    # A worker that its pool killed leaves no record: which one, nobody decides.
    follows = follows or (cause.area == "processes" and NOWHERE in (cause.before, cause.after))
    return msgspec.structs.replace(cause, weight=min(cause.weight, _CONSEQUENCE)) if follows else cause


def suspects(evidence: Evidence) -> tuple[str, ...]:
    """Return what experiments may prove, the likeliest first: suspects that the sources call."""
    found: dict[str, int] = {}
    for _, call, row in _known_calls(evidence):
        if row.get("fixed") in SUSPECTS and not row.get("weak") and call.use not in ("waited", "unused"):
            found[row["fixed"]] = max(found.get(row["fixed"], 0), _likely(call, row))
    if any(cause.what.startswith(f"{UNWRITTEN}:") for cause in _of_operations(evidence)):
        found.setdefault("memory", _OPERATIONS["order"])
    return tuple(sorted(found, key=lambda name: -found[name]))


def in_likely_order(evidence: Evidence, places: Sequence[str]) -> list[str]:
    """Return lines, as in ``Culprit``, the likeliest first: by what is done with the value."""
    known: dict[str, int] = {}
    for path, call, row in _known_calls(evidence):
        place = f"{WORKSPACE}/{path}:{call.line}"
        known[place] = max(known.get(place, 0), _likely(call, row))
    return sorted(places, key=lambda place: -known.get(place, 0))


def known_places(evidence: Evidence) -> list[str]:
    """Return the lines, as in ``Culprit``, that ask for what is proven as far as the sources show."""
    return [
        f"{WORKSPACE}/{path}:{call.line}"
        for path, call, row in _known_calls(evidence)
        if row.get("fixed") in evidence.proven
    ]


def _likely(call: Call, row: Mapping[str, Any]) -> int:
    weight = _WEIGHTS["numbers"] if call.use == "seed" else int(row.get("weight", _WEIGHTS[row["kind"]]))
    return weight - 20 * (call.use == "printed")


def _known_calls(evidence: Evidence) -> Iterator[tuple[str, Call, Mapping[str, Any]]]:
    """Yield the calls of the sources that the table knows, with their file and their row."""
    for path, source in (evidence.sources or {}).items():
        for call in calls(source):
            row = _row(call)
            if row is not None:
                yield path, call, row


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
    found: dict[tuple[str, Use, str], list[str]] = {}
    alone = len(evidence.sources or {}) == 1
    rows: dict[tuple[str, Use, str], Mapping[str, Any]] = {}
    for path, call, row in _known_calls(evidence):
        # What is printed and nothing else makes no parameter another one; a name may be read by another module.
        idle = call.use == "waited" or (call.use == "unused" and alone)
        shown = _shown_to_be(evidence, call, row, f"{WORKSPACE}/{path}:{call.line}")
        if row.get("weak") and shown not in ("culprit", "proven"):
            continue
        if shown == "culprit" or (
            not idle and not (call.use == "printed" and evidence.divergence is not None and shown != "proven")
        ):
            key = (call.name, call.use if row["kind"] in ("time", "identity") else "", shown)
            rows[key] = row
            found.setdefault(key, []).append(
                f"{path}:{call.made}, {path}:{call.line}" if call.made else f"{path}:{call.line}"
            )
    facts, causes, names, ranks = list(_facts(evidence)), list[Finding](), list[str](), list[int]()
    for (name, use, shown), row in rows.items():
        places = list(dict.fromkeys(found[name, use, shown]))
        where = ", ".join(places[:_SHOWN]) + (" …" if len(places) > _SHOWN else "")
        called = row.get("shown") or f"{name.lstrip('.')}(){'' if not row.get('bare') else ' without a seed'}"
        weight, why = row.get("weight", _WEIGHTS[row["kind"]]), row["why"]
        if use == "seed" and not row.get("weak"):
            weight, why = _sharpened("numbers", _WEIGHTS["numbers"], facts), f"{why}, and becomes a seed"
        else:
            weight = _sharpened(row["kind"], weight, facts)
        weight_alone = weight
        weight, why = _tried(evidence, shown, weight, why)
        causes.append(
            Finding(area="sources", weight=weight, what=f"{called} {why}", where=where, attempt=str(row["attempt"]))
        )
        names.append(called)
        ranks.append(0 if shown == "culprit" else weight_alone)
    yield from _merged(_best_proven(causes, ranks), names)


def _best_proven(causes: Sequence[Finding], ranks: Sequence[int]) -> list[Finding]:
    """Leave of several calls of what is proven the likeliest as proven, where nothing shows which of them it is.

    Args:
        causes: all of them.
        ranks: their weights without experiments; 0 for those that an experiment showed.
    """
    proven = [at for at, cause in enumerate(causes) if cause.weight >= PROVEN - 1 and ranks[at]]
    best = max(proven, key=lambda at: ranks[at], default=None)
    return [
        msgspec.structs.replace(cause, weight=_BESIDE_PROVEN, what=cause.what.partition("; proven:")[0])
        if at in proven and at != best
        else cause
        for at, cause in enumerate(causes)
    ]


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


def _shown_to_be(evidence: Evidence, call: Call, row: Mapping[str, Any], place: str) -> str:
    """Return what experiments showed of a call: ``culprit``, ``proven``, ``refuted``; empty for nothing."""
    suspect = row.get("fixed")
    if any(_is_culprit(each, call, row, place) for each in evidence.culprits):
        return "culprit"
    if suspect in evidence.proven or (suspect == "addresses" and "layout" in evidence.proven):
        if not evidence.culprits:
            return "refuted" if place in evidence.cleared else "proven"
        return "refuted" if place in evidence.cleared else "beside"
    if suspect == "figures" and not _TIMES_OF_FILES.isdisjoint(evidence.proven):
        return "proven" if "time" in row["call"] else ""
    # A file may be read by a program that is no Python, which no experiment reaches.
    return "refuted" if suspect in _RELIABLE.intersection(evidence.refuted) and row["call"][0] != "/" else ""


def _is_culprit(culprit: Culprit, call: Call, row: Mapping[str, Any], place: str) -> bool:
    """Whether a call is the one that an experiment found.

    It may have made the object that draws elsewhere (``random.SystemRandom``), or be part of a program given as a text.
    """
    if row.get("fixed") != culprit.suspect:
        return False
    made = culprit.call.startswith(f"{row['call']}.")
    return place == culprit.place or made or (culprit.place.startswith("<") and call.name == culprit.call)


def _tried(evidence: Evidence, shown: str, weight: int, why: str) -> tuple[int, str]:
    """Return weight and sentence of a cause in the light of the experiments that were made."""
    if shown == "culprit":
        return PROVEN, f"{why}; {_proof(evidence.proven, line=True)}"
    if shown == "proven":
        return PROVEN - (weight < _LIKELY_USED), f"{why}; {_proof(evidence.proven)}"
    return (min(weight, {"refuted": _REFUTED, "beside": _BESIDE_PROVEN}.get(shown, weight)), why)


def _proof(proven: Sequence[str], *, line: bool = False) -> str:
    text = f"proven: runs are equal when {' and '.join(_FIXED[name] for name in proven)}"
    return f"{text}, and differ if that is so but for this line" if line else text


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
            weight, why = _sharpened(row.kind, _OPERATIONS[row.kind], list(_facts(evidence))), row.why
            if row.name == UNWRITTEN:
                weight, why = _tried(evidence, "proven" if "memory" in evidence.proven else "", weight, why)
            yield Finding(
                area="operations",
                weight=weight,
                what=f"{row.name}: {why}",
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
