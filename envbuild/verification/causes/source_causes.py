"""Causes that stand in the sources: calls whose outcome no seed decides, operations without a deterministic kernel."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from envbuild.core import package_data
from envbuild.difference.finding import Finding
from envbuild.lockfile.layout import WORKSPACE
from envbuild.verification.causes import sql
from envbuild.verification.causes.branches import unreached
from envbuild.verification.causes.calls import MEANWHILE, TIMEOUT, Call, calls
from envbuild.verification.causes.chains import (
    CONCURRENT,
    STARTED,
    argument_at,
    asked_at,
    attribute_lines,
    begins,
    begun_at,
    interrupts,
    other_readings,
    own_numbers,
    taken_at,
    value_lines,
    waits_in_turns,
)
from envbuild.verification.causes.evidence import (
    ON_DEMAND,
    SHARED_GENERATOR,
    SHOWN,
    SUSPECTS,
    UNWRITTEN,
    Culprit,
    Evidence,
    Operation,
)
from envbuild.verification.causes.meanwhile import read_meanwhile
from envbuild.verification.causes.pools import POOLS, tasks_of, waits_for_each
from envbuild.verification.causes.proofs import BESIDE_PROVEN, PROVEN, REFUTED, tried
from envbuild.verification.causes.queues import has_one_order
from envbuild.verification.causes.routes import inside, of_package, of_project
from envbuild.verification.causes.shared_values import updated_by_several
from envbuild.verification.dataflow.in_threads import run_by_threads
from envbuild.verification.dataflow.uses import Use

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_RELIABLE = frozenset(("entropy", "clock", "host"))
"""Suspects that an experiment reaches wherever Python asks for them: what it refutes is no cause alone."""
_QUEUES = frozenset(
    f"{module}.{kind}" for module in ("queue", "multiprocessing") for kind in ("Queue", "SimpleQueue", "JoinableQueue")
)
"""Queues that give what was put in in that order; from others (``LifoQueue``) it depends on when one takes."""
_FIGURES = {"times": "time", "order of times": "time", "inodes": "ino", "load": "loadavg", "pids": "pid"}
"""What of the names of calls that return figures is about what was varied."""
_OPERATIONS = {"order": 60, "numbers": 45}
_WEIGHTS = {"numbers": 65, "order": 40, "identity": 35, "limit": 30, "time": 25}
_SHORT, _TIGHT = 0.02, 56
"""Seconds of a limit that any load of the machine exceeds, and the weight of such a one: above that of queues."""
_ALONE = 62
"""Weight of a limit of time where the order is proven, and one thing alone was begun: nothing else can be in order."""
_WITHIN = 33
"""Weight of a limit of time that is known and shorter than the runs."""
_DECIDES = 45
"""Weight of a time that ends a loop or becomes a setting: more than rounding alone says of threads."""
_SEEDS = "seeds "
"""How the table describes calls that seed a generator, whatever becomes of the value that they return."""
_ASKED_IN_SQL = {sql.RANDOM: "entropy", sql.TIME: "clock"}
_OF_DATABASES = frozenset(("connect", "execute", "executemany", "executescript", "sql", "query"))
"""Last names of the calls by which databases are opened and asked."""
_KEY, _PORT = ".authkey", "port"
_CHANGED = frozenset(("getmtime", "getctime", "st_mtime", "st_mtime_ns", "st_ctime", "st_ctime_ns"))
"""What shows which of several files was written last, and so in which order tasks ended that wrote them."""
LIMITED = "a limit of time"
"""In place of a suspect, of calls that no experiment has shown anything of: each of several ones may reach them."""
_SHARED_VALUES = frozenset(("multiprocessing.Value", "multiprocessing.RawValue"))
_SHARED_TABLES = frozenset(f"multiprocessing.{kind}" for kind in ("Array", "RawArray", "list", "dict"))
_HANDLER = "signal.signal"
_SHARED = "give each task what it needs as arguments: what workers share or keep depends on which task came before"
_ASYNC_LIMIT = "asyncio.timeout"
_ROTATING, _LOGGED = "logging.handlers.TimedRotatingFileHandler", "logging."
"""What asks for the time on behalf of each line that is logged, and how calls that log begin."""
_NOT_IN_ORDER = 15
"""What a call loses whose order was fixed in vain, and what a limit of time gains then that was not fixed in vain.

Not all that runs concurrently can be put in order, and not all that has a limit ends without it.
"""
_SHARPER: dict[str, dict[str, int]] = {
    "rounding": {"numbers": -25, "order": 20, "identity": -20, "time": -20},
    "other numbers": {"numbers": 15, "order": -5},
    "before the first step": {"numbers": 5, "order": -20},
    "not in training": {"numbers": -20, "order": -10, "identity": 20, "time": 30},
}
"""What a fact about the first difference adds to a kind of call."""


def suspects(evidence: Evidence) -> tuple[str, ...]:
    """Return what experiments may prove, the likeliest first: suspects that the sources call."""
    found: dict[str, int] = {}
    for _, call, row in _known_calls(evidence):
        if row.get("weak") or _out_of_reach(evidence, call):
            continue
        if row.get("limits"):
            found["limits"] = max(found.get("limits", 0), _likely(call, row))
        counts = call.use not in ("waited", "unused") and (row.get("fixed") != "threads" or _has_threads(evidence))
        if row.get("fixed") in SUSPECTS and counts:
            found[row["fixed"]] = max(found.get(row["fixed"], 0), _likely(call, row))
    if "limits" in found:  # with tasks in order, or loops with a time of their own, no limit is reached either
        found["limits"] = max(found["limits"], *(1 + found.get(each, 0) for each in ("order", "clock")))
    if any(cause.what.startswith(f"{UNWRITTEN}:") for cause in of_operations(evidence)):
        found.setdefault("memory", _OPERATIONS["order"])
    return tuple(sorted(found, key=lambda name: -found[name]))


def may_be_tried(evidence: Evidence) -> tuple[str, ...]:
    """Return the suspects that experiments may fix in this program, whatever its sources call."""
    loaded = any(process.frameworks for process in evidence.a.processes)
    threads = ("threads",) if loaded and _has_threads(evidence) else ()
    return (*(each for each in SUSPECTS if each not in ON_DEMAND), *threads)


def _has_threads(evidence: Evidence) -> bool:
    """Whether libraries may have several threads by the lock."""
    return evidence.lock.determinism.threads > 1


def in_likely_order(evidence: Evidence, places: Sequence[str]) -> list[str]:
    """Return lines, as in ``Culprit``, the likeliest first: by what is done with the value; those of packages last."""
    known: dict[str, int] = {}
    for path, call, row in _known_calls(evidence):
        place = f"{WORKSPACE}/{path}:{call.line}"
        known[place] = max(known.get(place, 0), _likely(call, row))
    return sorted(places, key=lambda place: (-known.get(place, 0), of_package(place)))


def known_places(evidence: Evidence) -> list[str]:
    """Return the lines, as in ``Culprit``, that ask for what is proven as far as the sources show."""
    return [
        f"{WORKSPACE}/{path}:{call.line}"
        for path, call, row in _known_calls(evidence)
        if any(each in evidence.proven for each in _suspects_of(row))
    ]


def _suspects_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the suspects by which experiments may prove a call to be the cause; the one that is fixed first."""
    fixed = str(row.get("fixed", ""))
    return (*([fixed] if fixed else []), *(["limits"] if row.get("limits") else []))


def _suspect_of(evidence: Evidence, row: Mapping[str, Any]) -> str:
    """Return the suspect that a call is judged by: of two, the one that is proven."""
    found = _suspects_of(row)
    return next((each for each in found if each in evidence.proven), found[0] if found else "")


def _likely(call: Call, row: Mapping[str, Any]) -> int:
    weight = _WEIGHTS["numbers"] if call.use == "seed" else int(row.get("weight", _WEIGHTS[row["kind"]]))
    if call.use == "decides" and row["kind"] == "time":
        weight = max(weight, _DECIDES)
    return weight - 20 * (call.use == "printed")


def _known_calls(evidence: Evidence) -> Iterator[tuple[str, Call, Mapping[str, Any]]]:
    """Yield the calls of the sources that the table knows, with their file and their row; none that did not run."""
    idle = unreached(evidence)
    alone = len(evidence.sources or {}) == 1  # another module may put something into a queue, too
    for path, source in (evidence.sources or {}).items():
        for call in calls(source):
            row = _row(call)
            if row is None or call.line in idle.get(path, ()):
                continue
            if evidence.lock.environment.get(str(row.get("variable", ""))) == "1":
                continue  # it has one thread in each run
            in_order = call.name in _QUEUES and has_one_order(source, call.line)
            if not (alone and (in_order or (call.name.rpartition(".")[2] in POOLS and waits_for_each(source)))):
                yield path, call, row
    for path, text in (evidence.scripts or {}).items():
        for name, below in sql.asked_in(text, seeded=sql.sets_seed(text)) if path.endswith(sql.SUFFIX) else ():
            if (row := _row(call := Call(name=name, line=below + 1))) is not None:
                yield path, call, row


def of_sources(evidence: Evidence) -> Iterator[tuple[Finding, str]]:
    """Yield calls whose outcome no seed and no switch decides, each with the suspect of experiments; empty for none."""
    found: dict[tuple[str, Use, str], list[str]] = {}
    tight, in_order = dict[tuple[str, Use, str], int](), dict[tuple[str, Use, str], bool]()
    alone = len(evidence.sources or {}) == 1
    rows: dict[tuple[str, Use, str], Mapping[str, Any]] = {}
    for path, call, row in _known_calls(evidence):
        # What is printed and nothing else makes no parameter another one; a name may be read by another module.
        idle = call.use == "waited" or (call.use == "unused" and alone)
        shown = _shown_to_be(evidence, call, row, f"{WORKSPACE}/{path}:{call.line}")
        if (row.get("weak") and shown not in ("culprit", "proven")) or _out_of_reach(evidence, call):
            continue
        printed = call.use == "printed" and evidence.divergence is not None and shown != "proven"
        if shown == "culprit" or not (idle or (printed and not str(row["why"]).startswith(_SEEDS))):
            key = (call.name, call.use if row["kind"] in ("time", "identity") else "", shown)
            rows[key] = row
            if call.name in (TIMEOUT, _ASYNC_LIMIT) and shown == "proven":
                tight[key] = _ALONE
            elif call.name == TIMEOUT and call.seconds is not None:
                tight[key] = max(tight.get(key, 0), _TIGHT if call.seconds <= _SHORT else _WITHIN)
            lines = [call.made, call.line] if call.made else [call.line]
            source = (evidence.sources or {}).get(path, "")
            if call.name.rpartition(".")[2] in POOLS:
                given = tasks_of(source, call.line)
                lines += [line for line, _ in given[:SHOWN]]
                lines += updated_by_several(source)[: SHOWN - 1]
                in_order[key] = in_order.get(key, True) and bool(given) and all(kept for _, kept in given)
            lines += _further_lines(source, call, row, shown)[: SHOWN + 1]
            named = [f"{path}:{line}" for line in lines]
            if shown == "proven" and row.get("fixed") == "order":  # what is done at once was begun there
                named += [inside(place) for place in evidence.places if of_project(place)][:SHOWN]
            if shown == "culprit" and path.endswith(sql.SUFFIX):  # with the line that has a database execute it
                named += [inside(each.place) for each in evidence.culprits if _draws_for(evidence, each, call)][:SHOWN]
            found.setdefault(key, []).append(", ".join(dict.fromkeys(named)))
    for name, place, row in _given_nothing(evidence):
        if not any(shown == "culprit" for _, _, shown in rows):
            rows[name, "", "culprit"] = row
            found[name, "", "culprit"] = [place]
    for key, places in found.items():
        if key[2] == "culprit" and rows[key]["kind"] == "time":  # with the other reading of the clock
            for other in [each for each in found if each[0] == key[0] and each[2] != "culprit"]:
                said = {line for place in places for line in place.split(", ")}
                found[other] = [place for place in found[other] if place not in said]
    rows = {key: row for key, row in rows.items() if found[key]}
    facts, causes, names, ranks = list(_facts(evidence)), list[Finding](), list[str](), list[int]()
    kinds = list[str]()
    for (name, use, shown), row in rows.items():
        places = list(dict.fromkeys(found[name, use, shown]))
        lines_of = dict.fromkeys(line for place in places[:SHOWN] for line in place.split(", "))
        where = ", ".join(lines_of) + (" …" if len(places) > SHOWN else "")
        called = _called(name, row)
        weight, why = row.get("weight", _WEIGHTS[row["kind"]]), row["why"]
        weight = tight.get((name, use, shown), weight)
        if "order" in evidence.refuted and not shown:  # what is not reached is a program that never ends, perhaps
            reached = name == TIMEOUT and "limits" not in evidence.refuted
            weight += _NOT_IN_ORDER * (reached - (row.get("fixed") == "order"))
        if use == "seed" and not row.get("weak"):
            weight, why = _sharpened("numbers", _WEIGHTS["numbers"], facts), f"{why}, and becomes a seed"
        elif use == "decides" and row["kind"] == "time":
            weight, why = max(weight, _DECIDES), f"{why}, and decides what the program does"
        else:
            weight = _sharpened(row["kind"], weight, facts)
        if (
            row.get("weight", _WEIGHTS[row["kind"]]) > REFUTED
        ):  # what an experiment did not reach is no phantom for that
            weight = max(weight, REFUTED + 1)
        weight_alone = weight
        weight, why = tried(evidence, shown, weight, why)
        attempt = _SHARED if in_order.get((name, use, shown)) else str(row["attempt"])
        causes.append(Finding(area="sources", weight=weight, what=f"{called} {why}", where=where, attempt=attempt))
        names.append(called)
        ranks.append(0 if shown == "culprit" else weight_alone)
        if name in (TIMEOUT, _ASYNC_LIMIT) and shown == "proven" and "limits" not in evidence.proven:
            kinds.append("order")
        else:  # with tasks in order, or with a fixed clock, a limit of time is not reached: no suspect stands for it
            kinds.append(LIMITED if row["kind"] == "limit" and not shown else _suspect_of(evidence, row))
    yield from _merged(_best_proven(causes, ranks, kinds), names, kinds)


def _called(name: str, row: Mapping[str, Any]) -> str:
    """Return what the sentence about a call begins with."""
    if name.startswith("/proc/"):
        return f"reading {name}"
    return str(row.get("shown") or f"{name.lstrip('.')}(){'' if not row.get('bare') else ' without a seed'}")


def _given_nothing(evidence: Evidence) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield name, place and row of lines that experiments found and whose source has an argument: ``seed(None)``."""
    bare = {row["call"]: row for row in _rows() if row.get("bare")}
    for culprit in evidence.culprits:
        row = bare.get(culprit.call)
        if row is not None and row.get("fixed") == culprit.suspect and of_project(culprit.file):
            yield culprit.call, culprit.place.removeprefix(f"{WORKSPACE}/"), row


def _out_of_reach(evidence: Evidence, call: Call) -> bool:
    """Whether a call is given a limit of time that is none, or longer than the runs took."""
    longest = max((each.duration for each in (evidence.a, evidence.b) if each.duration is not None), default=None)
    return call.seconds is not None and (call.seconds <= 0 or (longest is not None and call.seconds > longest))


def _best_proven(causes: Sequence[Finding], ranks: Sequence[int], kinds: Sequence[str]) -> list[Finding]:
    """Leave of several calls of what is proven the likeliest as proven, where nothing shows which of them it is.

    Args:
        causes: all of them.
        ranks: their weights without experiments; 0 for those that an experiment showed.
        kinds: their suspects: of each that is proven, one is left.
    """
    proven = [at for at, cause in enumerate(causes) if cause.weight >= PROVEN - 1 and ranks[at]]
    best = {
        max((at for at in proven if kinds[at] == kind), key=lambda at: ranks[at])
        for kind in {kinds[at] for at in proven}
    }
    return [
        msgspec.structs.replace(cause, weight=BESIDE_PROVEN, what=cause.what.partition("; proven:")[0])
        if at in proven and at not in best
        else cause
        for at, cause in enumerate(causes)
    ]


def _merged(causes: Sequence[Finding], names: Sequence[str], kinds: Sequence[str]) -> Iterator[tuple[Finding, str]]:
    """Yield causes, those on the same lines as one: which of them it is, nobody can tell from the lines."""
    by_place: dict[str, list[int]] = {}
    for number in sorted(range(len(causes)), key=lambda number: -causes[number].weight):
        by_place.setdefault(causes[number].where, []).append(number)
    for first, *others in by_place.values():
        cause = causes[first]
        beside = [names[number] for number in others if names[number] != names[first]]
        what = f"{cause.what}; on the same line: {', '.join(beside)}" if beside else cause.what
        yield msgspec.structs.replace(cause, what=what), kinds[first]


def _further_lines(source: str, call: Call, row: Mapping[str, Any], shown: str) -> tuple[int, ...]:
    """Return further lines of a cause: what begins a thread, waits, asks a clock again, gives an argument."""
    if asked := asked_at(source, call.line):
        return asked
    if call.name.startswith("/proc/"):
        return taken_at(source, call.line)
    if row["kind"] == "time":
        return other_readings(source, call.line) if shown == "culprit" else ()
    if call.name.rpartition(".")[2] in CONCURRENT:
        begun = begun_at(source, call.line) if call.name.rpartition(".")[2] in STARTED else ()
        seen = (*updated_by_several(source)[: SHOWN - 1], *read_meanwhile(source)[: SHOWN - 1])
        seen += (*interrupts(source), *waits_in_turns(source))
        seen += attribute_lines(source, _CHANGED)
        return (*begun[: SHOWN - 1], *seen)
    if call.name == MEANWHILE:
        return begins(source)
    if call.name in _SHARED_TABLES:
        return updated_by_several(source)[: SHOWN - 1]
    if call.name == _HANDLER:
        return own_numbers(source)
    if call.name in _SHARED_VALUES:
        return (*value_lines(source)[: SHOWN - 1], *(line for line, _ in tasks_of(source)))
    words = [each.partition("=")[0] for each in (*row.get("only", ()), *row.get("but", ()))]
    words += call.given if call.name == TIMEOUT else ()
    return argument_at(source, call.line, words) if words else ()


def _shown_to_be(evidence: Evidence, call: Call, row: Mapping[str, Any], place: str) -> str:
    """Return what experiments showed of a call: ``culprit``, ``proven``, ``refuted``; empty for nothing."""
    suspect = _suspect_of(evidence, row)
    if call.name == TIMEOUT and "order" in evidence.proven and (evidence.begun == 1 or _waits_alone(evidence)):
        return "proven"
    if call.name == _ASYNC_LIMIT and call.seconds is not None and "order" in evidence.proven:
        return "proven"  # with tasks in order a loop's time goes on when all of them wait
    if any(
        _is_culprit(each, call, row, place)
        or _is_factory(evidence, each, call, place)
        or _draws_for(evidence, each, call)
        or (call.name == _ROTATING and each.suspect == "clock" and each.call.startswith(_LOGGED))
        for each in evidence.culprits
    ):
        return "culprit"
    if suspect in evidence.proven or (suspect == "addresses" and "layout" in evidence.proven):
        if not any(each.suspect == suspect for each in evidence.culprits):
            # A line that asks for other figures too was tried with these: ports are the same in all of these runs.
            return "refuted" if place in evidence.cleared and _PORT not in row.get("why", "") else "proven"
        return "refuted" if place in evidence.cleared else "beside"
    if suspect == "figures" and not _FIGURES.keys().isdisjoint(evidence.proven):
        return "proven" if any(_FIGURES[each] in row["call"] for each in evidence.proven if each in _FIGURES) else ""
    # A file may be read by a program that is no Python, which no experiment reaches.
    beyond = row["call"][0] == "/" or row.get("beyond")
    return "refuted" if suspect in _RELIABLE.intersection(evidence.refuted) and not beyond else ""


def _waits_alone(evidence: Evidence) -> bool:
    """Whether limits of time are all that the sources have of what tasks in order take away."""
    return not any(row.get("fixed") == "order" and not row.get("weak") for _, _, row in _known_calls(evidence))


def _is_culprit(culprit: Culprit, call: Call, row: Mapping[str, Any], place: str) -> bool:
    """Whether a call is the one that an experiment found.

    It may have made the object that draws elsewhere (``random.SystemRandom``), or be part of a program given as a text.
    """
    if culprit.suspect not in _suspects_of(row):
        return False
    if row["call"] == _KEY:  # which is drawn when the module is imported
        return culprit.call.startswith("multiprocessing.")
    made = culprit.call.startswith(f"{row['call']}.")
    return place == culprit.place or made or (culprit.place.startswith("<") and call.name == culprit.call)


def _is_factory(evidence: Evidence, culprit: Culprit, call: Call, place: str) -> bool:
    """Whether generated code calls a function for the line that an experiment found: ``default_factory=time.time``.

    It is the function that a class of the same module was given, if the sources name it once.
    """
    generated = culprit.file.startswith("<") and culprit.place and not culprit.place.startswith("<")
    if not generated or culprit.call not in (call.name, f"{call.name}.__init__"):
        return False
    module = place.rpartition(":")[0].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if culprit.module != "__main__" and not module.endswith(f".{culprit.module}"):
        return False
    return sum(each.name == call.name for source in (evidence.sources or {}).values() for each in calls(source)) == 1


def _draws_for(evidence: Evidence, culprit: Culprit, call: Call) -> bool:
    """Whether a draw in SQL is from the generator that a database seeds at the line that an experiment found.

    Or a time in SQL, as the default of a column is, is asked for there. Code in C asks the system, and the line does
    what databases are asked by: it connects, or has them execute something (PEP 249, and what DuckDB adds).
    """
    native = culprit.suspect == _ASKED_IN_SQL.get(call.name) and " " in culprit.call
    if not native or not of_project(culprit.place):
        return False
    path, _, line = culprit.place.removeprefix(f"{WORKSPACE}/").rpartition(":")
    here = (each for each in calls((evidence.sources or {}).get(path, "")) if str(each.line) == line)
    return any(each.name.rpartition(".")[2] in _OF_DATABASES for each in here)


def of_operations(evidence: Evidence) -> Iterator[Finding]:
    """Yield operations of the loaded frameworks that have no deterministic kernel here, by the sources.

    One that is refused at level ``ops``, or repeats there, cannot be it.
    """
    loaded = {name.partition(".")[0] for each in evidence.a.processes for name in each.frameworks}
    loaded |= {"tensorflow"} if "keras" in loaded else set()
    strict = evidence.lock.determinism.level != "seeds" and evidence.a.options.controls
    reached = _reached(evidence)
    for row in evidence.operations:
        elsewhere = row.device == "gpu" and not evidence.a.gpus
        if row.framework not in loaded - {"python"} or elsewhere or ((row.refused or row.settled) and strict):
            continue
        sources = {path: text for path, text in reached.items() if _has_more(row, text)}
        if where := places(row.calls, sources):
            weight, why = _sharpened(row.kind, _OPERATIONS[row.kind], list(_facts(evidence))), row.why
            if row.name == UNWRITTEN:
                weight, why = tried(evidence, "proven" if "memory" in evidence.proven else "", weight, why)
            yield Finding(
                area="operations",
                weight=weight,
                what=f"{row.name}: {why}",
                where=where,
                attempt="; or ".join(row.ways[:2]),
            )


def _has_more(row: Operation, source: str) -> bool:
    """Whether a source has what a row needs besides its calls; of a generator that is shared, what threads run."""
    text = run_by_threads(source) if row.also and row.name == SHARED_GENERATOR else None
    return not row.also or any(part in (source if text is None else text) for part in row.also)


def _reached(evidence: Evidence) -> dict[str, str]:
    """Return the sources with lines that did not run left empty."""
    idle = unreached(evidence)
    return {
        path: "\n".join(
            "" if number in idle.get(path, ()) else line for number, line in enumerate(source.splitlines(), 1)
        )
        for path, source in (evidence.sources or {}).items()
    }


def places(fragments: Sequence[str], sources: Mapping[str, str]) -> str:
    """Name the lines of the sources that hold one of the fragments, comments left out."""
    found = [
        f"{path}:{number}"
        for path, source in sources.items()
        for number, line in enumerate(source.splitlines(), 1)
        if any(fragment in line.partition("#")[0] for fragment in fragments)
    ]
    return ", ".join(found[:SHOWN]) + (" …" if len(found) > SHOWN else "")


def _sharpened(kind: str, weight: int, facts: Sequence[str]) -> int:
    return weight + sum(_SHARPER[fact].get(kind, 0) for fact in facts)


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
        fits = call.given.issuperset(row.get("only", ())) and call.given.isdisjoint(row.get("but", ()))
        if named and fits and not (row.get("bare") and not call.bare) and not (row.get("ordered") and call.ordered):
            return row
    return None
