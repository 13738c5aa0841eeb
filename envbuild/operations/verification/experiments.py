"""Experiments on a program whose runs differ: one thing made the same in all runs, or varied alone, and run again.

A cause is proven if runs are equal with it fixed, more of them than luck explains (``verification.odds``), while runs
of the program as it is, made in between, are not: what changes slowly, such as the hour, makes those equal too. Where
lines of the program ask for what was fixed, the one with which runs differ among each other if it alone is left as it
was is named. Two runs with nothing fixed and nothing varied are made first: if those are equal, what was varied between
the runs may be the cause, each thing of it tried alone, in turn with runs in which nothing is.

A program may have several causes. Once one is proven, runs are made with it fixed and all varied that was varied
before: if these are not equal to those with nothing varied, what is varied is a cause too, and each thing of it is
tried alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from envbuild.operations.events import Events
from envbuild.operations.verification.laboratory import LONGEST, VARIATIONS, Laboratory
from envbuild.operations.verification.other_programs import differing_programs
from envbuild.operations.verification.parting import parted
from envbuild.verification.causes.evidence import SUSPECTS, Culprit, Evidence
from envbuild.verification.causes.odds import MOST, Luck, luck_of
from envbuild.verification.causes.partings import acting
from envbuild.verification.causes.proofs import only_imports_list

if TYPE_CHECKING:
    from collections.abc import Callable

    from envbuild.operations.verification.session import Session
    from envbuild.record.model import Record
    from envbuild.record.processes import Asked
    from envbuild.runs.repeat import Variation
    from envbuild.runs.request import RunEngine
    from envbuild.verification.ran import Ran

Proof: TypeAlias = "tuple[Evidence, list[Ran]]"
"""What is known once something is proven, and equal runs with that fixed."""
_GRACE = 30
"""Seconds that an experiment may take beyond three times as long as a run."""
_LINES = 32
"""Lines that are left as they were: the likeliest alone, then two, four … at a time, to find the one of them."""
_ALONE = 2
"""How often runs with addresses fixed and nothing else are made again: the digits of times move objects seldom."""
_TOGETHER = 6
"""Lines that may make runs differ together though none of them does alone: each is left out once."""
_ASIDE = ("time.", "uuid.")
"""Calls by which programs measure how long they take, and that draw what names are made of."""
_MINOR = ("logging.", "genericpath.exists", "genericpath.isfile", "genericpath.isdir")
"""Calls that a line is the cause by only where it has no other: times of logs, and whether a file is there."""
_STARTUP = ("site", "<string>")
"""Module and file of what start-up files (``*.pth``) of the environment execute."""
_BY_LINE = frozenset(("entropy", "clock", "figures", "limits", "memory"))
"""Suspects of which the hook knows which lines ask for them."""
_NOTED = frozenset(("entropy", "clock", "figures"))
"""Those of which it knows all lines: what none of them asks for is not the cause."""
_ENDING = ("Pool(", "Pool as ", ".terminate(", ".kill(", "os._exit(")
"""In sources that end processes before these have written their record."""
_OTHER_FILLS = (0x40, 0xC0, 0x00)
"""What memory is filled with otherwise: other numbers, and nothing, which a truth value is another one by."""
_LOAD = "getloadavg"
"""What asks for the load, also by packages' names for it."""


def with_experiments(
    session: Session, evidence: Evidence, engine: RunEngine, events: Events
) -> tuple[Evidence, list[str]]:
    """Find out by experiments what makes runs differ.

    Returns:
        The evidence with what was proven and refuted, and notes about what was not tried.
    """
    longest = max(run.record.duration or 0.0 for run in session.runs)
    if longest > LONGEST:
        return evidence, [f"a run takes {longest:.0f} s: no experiment was made to prove the cause"]
    groups = session.judge().groups
    # What is varied may make no difference in one way, and one in another: four files have many orders.
    number = groups[1][0] if len(groups) > 1 else 1
    limit = int(3 * longest) + _GRACE
    laboratory = Laboratory(session=session, engine=engine, events=events, limit=limit, number=max(number, 1))
    found, notes = experiment(laboratory, evidence, luck_of([*map(len, groups)]), session.plan.vary)
    refused = laboratory.refused
    if not found.proven or acting(found):
        found = replace(found, parting=parted(laboratory, found))
    if refused:
        end = f"experiments ended after {laboratory.runs_made} runs"
        notes = [*notes, f"{end}: whether something else makes runs differ was not decided"]
    return found, notes


def experiment(
    laboratory: Laboratory, evidence: Evidence, luck: Luck, varied: Collection[Variation]
) -> tuple[Evidence, list[str]]:
    """Find out what makes runs differ.

    Args:
        laboratory: makes the runs.
        evidence: what is known.
        luck: of the runs that differ.
        varied: what was another one in each of those.

    Returns:
        As ``with_experiments``.
    """
    plain = Plain(laboratory, luck)
    differs, same = differing_programs(plain.runs)
    alike = laboratory.equal(plain.runs)
    evidence = replace(evidence, programs=differs, same_output=() if alike else same)
    if laboratory.equal(plain.runs):
        found, note = _of_variations(laboratory, evidence, plain, varied)
        if note is None:
            return found, []
        if laboratory.equal(plain.runs):
            return found, [note]
    if plain.runs:  # which differ though the name of the host is one
        evidence = replace(evidence, refuted=("host",))
    found, runs = _of_suspects(laboratory, evidence, plain)
    return _with_others(laboratory, found, runs, _may_be_varied(laboratory, evidence, varied)), []


class Plain:
    """Runs of the program as it is, with nothing varied between them; the first two are made at once.

    Args:
        laboratory: makes them.
        luck: of the runs that were made before, which are not compared with these.
    """

    def __init__(self, laboratory: Laboratory, luck: Luck) -> None:
        self._laboratory, self.before = laboratory, luck
        self.runs = laboratory.pair()

    def more(self) -> bool:
        """Make two more; False if a run fails or time is up."""
        pair = self._laboratory.pair(again=_again(len(self.runs)))
        self.runs += pair
        return bool(pair)

    @property
    def luck(self) -> Luck:
        """Return how often two runs are equal, as far as it is known."""
        return self.before + luck_of(self._laboratory.sizes(self.runs))


def _again(made: int) -> str:
    return ", again" if made else ""


def _of_variations(
    laboratory: Laboratory, evidence: Evidence, plain: Plain, varied: Collection[Variation]
) -> tuple[Evidence, str | None]:
    """Vary one thing at a time; with nothing varied, runs were equal so far. Returns a note where nothing is proven.

    What is varied moves objects in memory too, another order of the environment above all. So that is tried before, and
    first of all where the sources suggest it.
    """
    from envbuild.verification.causes.source_causes import suspects

    possible = _may_be_varied(laboratory, evidence, varied)
    if "memory" in suspects(evidence):
        possible.sort(key=lambda each: each != "memory")
    things: list[tuple[str, Callable[[str], list[Ran]]]] = [
        (variation, partial(laboratory.pair, (), (variation,))) for variation in possible
    ]
    names = [name for name, _ in things]
    at = 0 if "addresses" in suspects(evidence) else names.index("environment") if "environment" in names else None
    if at is not None:
        things.insert(at, ("layout", partial(laboratory.moved, ())))
    for name, make in things:
        if _makes_the_difference(laboratory, plain, make):
            if name == "environment" and at == 0 and (fixed := _by_addresses(laboratory)):
                found, others = replace(evidence, proven=("addresses",)), [each for each in possible if each != name]
                return _with_others(laboratory, found, fixed, others), None
            found = replace(evidence, proven=(name,))
            if _may_be_memory(evidence, name) and (fixed := _by_memory(laboratory, name)):
                found = replace(evidence, proven=("memory",))
                found = _with_culprits(laboratory, found, fixed, plain.luck)
                return _with_others(laboratory, found, fixed, [each for each in possible if each != name]), None
            if "collection" in suspects(evidence) and (fixed := _by_way_of(laboratory, name, "collection")):
                found, others = replace(evidence, proven=("collection",)), [each for each in possible if each != name]
                return _with_others(laboratory, found, fixed, others), None
            # What moves objects in memory is among the others: the order of the environment.
            others = [each for each in possible if each != name and (name != "layout" or each != "environment")]
            return _with_others(laboratory, found, plain.runs, others), None
        if not laboratory.equal(plain.runs):
            break
    return (
        evidence,
        "more runs with nothing varied between them were equal: runs differ seldom, and no cause was proven",
    )


def _by_addresses(laboratory: Laboratory) -> list[Ran]:
    """Return equal runs with addresses fixed, if another order of the environment makes no difference then.

    It moves in memory what a larger environment does not, such as the stacks of threads.
    """
    fixed = laboratory.pair(("addresses",))
    return fixed if laboratory.equal(fixed, laboratory.pair(("addresses",), ("environment",))) else []


def _may_be_memory(evidence: Evidence, name: str) -> bool:
    """Whether memory that nothing wrote may be the cause where what was varied made a difference.

    Arrays have it, also those of packages. Where the sources show what follows addresses, that comes first.
    """
    from envbuild.verification.causes.source_causes import suspects

    known = suspects(evidence)
    moves = name in ("layout", "environment") and _has_arrays(evidence) and "addresses" not in known
    return name == "memory" or "memory" in known or moves


def _has_arrays(evidence: Evidence) -> bool:
    """Whether a library that makes arrays was loaded."""
    return any(process.frameworks for process in evidence.a.processes)


def _is_read(laboratory: Laboratory, runs: Sequence[Ran], fixed: Sequence[str]) -> bool:
    """Whether other numbers in filled memory give other results; ``runs`` are equal ones, with it filled.

    If not, runs are equal by what filling does besides: it takes time, and moves objects. A run that fails with such
    numbers reads them; one that was not made shows nothing.
    """
    for byte in _OTHER_FILLS:
        other = laboratory.filled_with(byte, fixed)
        if not other or not laboratory.equal(runs, other):
            return bool(other) or not laboratory.refused
    return False


def _by_memory(laboratory: Laboratory, name: str) -> list[Ran]:
    """Return equal runs with memory filled, if what was varied makes no difference then, or is that itself.

    What is varied puts other things into memory that nothing wrote later: an address, a name.
    """
    if name == "memory":
        fixed = laboratory.pair(("memory",))
        return fixed if laboratory.equal(fixed) else []
    fixed = _by_way_of(laboratory, name, "memory")
    return fixed if fixed and _is_read(laboratory, fixed, ("memory",)) else []


def _by_way_of(laboratory: Laboratory, name: str, suspect: str) -> list[Ran]:
    """Return equal runs with a suspect fixed, if what was varied makes no difference then: it acts through that.

    One variable more makes a few objects more, and garbage is collected after so many.
    """
    fixed = laboratory.pair((suspect,))
    if not laboratory.equal(fixed):
        return []
    varied = [each for each in VARIATIONS if each == name]
    moved = laboratory.moved((suspect,)) if name == "layout" else laboratory.pair((suspect,), varied)
    return fixed if laboratory.equal(fixed, moved) else []


def _may_be_varied(laboratory: Laboratory, evidence: Evidence, varied: Collection[Variation]) -> list[Variation]:
    """Return what was another one in each run, without what the program does not ask for.

    That is listings if it made none, and the load if its sources do not name it: to vary these moves objects too.
    """
    unasked: set[Variation] = set()
    if not any(each.listings for run in laboratory.runs_before for each in run.record.processes):
        unasked.add("listings")
    if not any(_LOAD in text for text in (evidence.sources or {}).values()):
        unasked.add("load")
    return [each for each in VARIATIONS if each in varied and each not in unasked]


def _with_others(
    laboratory: Laboratory, evidence: Evidence, runs: Sequence[Ran], varied: Sequence[Variation]
) -> Evidence:
    """Find what else makes runs differ, of what was varied, where something is proven.

    Args:
        laboratory: makes the runs.
        evidence: what is proven.
        runs: equal ones, with suspects that are proven fixed and nothing varied.
        varied: what may be a cause besides.
    """
    fixed = tuple(each for each in evidence.proven if each in SUSPECTS)
    varied = [each for each in varied if each not in fixed]  # memory may be either
    if not runs or not varied or not evidence.proven:
        return evidence
    together = laboratory.pair(fixed, varied)
    if not together or laboratory.equal(runs, together):
        return evidence
    proven = list(evidence.proven)
    for name in varied:
        if name == "environment" and _differ(laboratory, fixed, runs, partial(laboratory.moved, fixed)):
            proven.append("layout")
        elif name == "environment" and "addresses" in fixed:
            continue  # other places are left for small objects then, which have the same addresses no more
        elif _differ(laboratory, fixed, runs, partial(laboratory.pair, fixed, (name,))):
            proven.append(name)
    if "layout" in proven and "listings" in proven and only_imports_list(run.record for run in together):
        proven.remove("listings")  # what is listed in another order is put elsewhere in memory
    if "load" in proven and not {"layout", "addresses"}.isdisjoint(proven):
        proven.remove("load")  # so is what follows where another load is found
    return replace(evidence, proven=tuple(proven))


def _differ(
    laboratory: Laboratory, fixed: Sequence[str], runs: Sequence[Ran], make: Callable[[str], list[Ran]]
) -> bool:
    """Whether runs with one thing varied, made twice, are equal to each other, and never to those without.

    Those without are made once more too: where a rest of luck has few outcomes, pairs are equal by chance.
    """
    pair = make("")
    if not laboratory.equal(pair) or laboratory.equal(runs, pair) or not laboratory.equal(pair, make(", again")):
        return False
    more = laboratory.pair(fixed, (), ", again")
    return bool(more) and laboratory.equal(runs, more)


def _makes_the_difference(laboratory: Laboratory, plain: Plain, make: Callable[[str], list[Ran]]) -> bool:
    """Whether runs with one thing varied are equal to each other, and never to those with nothing varied."""
    runs = make("")
    if not laboratory.equal(runs) or laboratory.equal(runs, plain.runs):
        return False
    laboratory.take_time()
    wanted = plain.before.runs_that_prove() + 2  # of both together: a first run of either may be anything
    turns = 0
    while turns < 1 or len(runs) + len(plain.runs) < wanted:
        if wanted > MOST or not plain.more() or not laboratory.equal(plain.runs):
            return False
        pair = make(", again")
        runs += pair
        if not pair or not laboratory.equal(runs) or laboratory.equal(runs, plain.runs):
            return False
        turns += 1
    return True


def _of_suspects(laboratory: Laboratory, evidence: Evidence, plain: Plain) -> tuple[Evidence, list[Ran]]:
    """Fix one suspect at a time: those that the sources call, then, if all together make runs equal, the others.

    Returns:
        What is known then, and equal runs with what is proven fixed; none if nothing is.
    """
    from envbuild.verification.causes.source_causes import may_be_tried, suspects

    wanted = suspects(evidence)
    others = tuple(each for each in may_be_tried(evidence) if each not in wanted)
    refuted: list[str] = [*evidence.refuted]

    def tried(fixed: Sequence[str], pair: list[Ran]) -> Proof | None:
        runs = _equal_beyond_luck(laboratory, plain, fixed, pair)
        if runs and "memory" in fixed and not _is_read(laboratory, runs, fixed):
            runs = []
        if not runs:
            refuted.extend(each for each in fixed if pair and len(fixed) == 1 and not _is_reached(each, pair))
            return None
        left = tuple(each for each in refuted if each not in fixed)
        found = replace(evidence, proven=tuple(fixed), refuted=left)
        found = _with_culprits(laboratory, found, runs, plain.luck)
        if "order" in found.proven:
            begun = _asked(runs[0].record, ("order",))
            places = dict.fromkeys(each.place for each in begun)
            found = replace(found, places=tuple(places), begun=sum(each.count for each in begun))
        if not found.proven:
            refuted.extend(fixed)
            return None
        return found, runs

    fix = _Fixed(laboratory)
    for each in wanted:
        if (found := tried((each,), fix(each))) is not None:
            return found
    few = plain.luck.equal > 0  # of few results halves may be equal by luck: each suspect is tried, and left out, alone
    if len(wanted) > 1 and laboratory.equal(fix(*wanted)):
        needed = _each_needed(laboratory, wanted) if few else _needed(fix, wanted)
        if (found := tried(needed, laboratory.pair(needed) if few else fix(*needed))) is not None:
            return found
    everything = fix(*wanted, *others) if others else []
    if laboratory.equal(everything):
        for each in others if few else ():
            if (found := tried((each,), fix(each))) is not None:
                return found
        needed = _each_needed(laboratory, (*wanted, *others)) if few else _needed(fix, (*wanted, *others))
        if not few and (found := _by_addresses_alone(laboratory, needed, tried)) is not None:
            return found
        # Addresses and times lie in memory that nothing wrote: where filling it is enough, that is the nearer cause.
        nearer = "addresses" in needed and "memory" in others and _has_arrays(evidence)
        if nearer and (found := tried(("memory",), fix("memory"))) is not None:
            return found
        pair = laboratory.pair(needed) if few else fix(*needed)
        refuted.extend(each for each in fix.in_vain() if each != "limits" and each not in (*needed, *refuted))
        if (len(needed) > 1 or not few) and (found := tried(needed, pair)) is not None:
            return found
    elif everything:  # all at once changed nothing: no single one of them would
        refuted.extend(each for each in others if not _is_reached(each, everything))
    return replace(evidence, refuted=tuple(refuted)), []


def _is_reached(suspect: str, runs: Sequence[Ran]) -> bool:
    """Whether runs show nothing of limits of time, since one was reached nevertheless, however late."""
    return suspect == "limits" and any(_asked(run.record, ("reached",)) for run in runs)


class _Fixed:
    """Makes pairs of runs with suspects fixed, each once.

    Args:
        laboratory: makes them.
    """

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._known: dict[frozenset[str], list[Ran]] = {}

    def __call__(self, *fixed: str) -> list[Ran]:
        """Return two runs; none if one fails or time is up."""
        key = frozenset(fixed)
        if key not in self._known:
            pair = self._laboratory.pair(fixed)
            shared = "clock" in key and not self._laboratory.clock_of_lines
            if shared and _ran_apart(pair) and not self._laboratory.equal(pair):
                self._laboratory.clock_of_lines = True  # such runs are compared with each other alone
                self._known = {names: runs for names, runs in self._known.items() if "clock" not in names}
                pair = self._laboratory.pair(fixed, again=", a clock for each line")
            self._known[key] = pair
        return self._known[key]

    def in_vain(self) -> list[str]:
        """Return the suspects that were fixed while runs still differed."""
        tried = (fixed for fixed, runs in self._known.items() if runs and not self._laboratory.equal(runs))
        return sorted(frozenset[str]().union(*tried))

    def makes_equal(self, fixed: Sequence[str]) -> bool:
        """Whether runs are equal with suspects fixed; with none they are not."""
        return bool(fixed) and self._laboratory.equal(self(*fixed))


def _ran_apart(runs: Sequence[Ran]) -> bool:
    """Whether lines asked for a fixed clock more often in one run than in another.

    Threads that look now and then whether something has come move the time of all others then.
    """
    counts = [
        {(number, each.place, each.call): each.count for number, each in _numbered(run.record, ("clock",))}
        for run in runs
    ]
    return any(each != counts[0] for each in counts[1:])


def _by_addresses_alone(
    laboratory: Laboratory, needed: Sequence[str], tried: Callable[[Sequence[str], list[Ran]], Proof | None]
) -> Proof | None:
    """Return what is known if fixed addresses make runs equal mostly, where they seemed to need something else besides.

    Times and what is drawn move objects now and then, by the digits that they have. What is a cause of its own makes
    runs differ nearly each time.
    """
    if "addresses" not in needed or len(needed) == 1:
        return None
    for _ in range(_ALONE):
        pair = laboratory.pair(("addresses",), again=", again")
        if laboratory.equal(pair) and (found := tried(("addresses",), pair)) is not None:
            return found
    return None


def _each_needed(laboratory: Laboratory, fixed: Sequence[str]) -> tuple[str, ...]:
    """Leave out of suspects that make runs equal together those without which the others do so too, one at a time."""
    needed = tuple(fixed)
    for each in fixed:
        less = tuple(other for other in needed if other != each)
        if less and laboratory.equal(laboratory.pair(less)):
            needed = less
    return needed


def _needed(fix: _Fixed, fixed: Sequence[str]) -> tuple[str, ...]:
    """Return the same, for a program whose runs are never equal by luck.

    Halves of them are left out at once: of seven, one is found by three or four pairs of runs. Those in front are
    preferred where either of two would do. (U. Junker, QuickXplain, AAAI 2004.)
    """
    return _explain(fix, (), fixed, changed=False)


def _explain(fix: _Fixed, kept: Sequence[str], of: Sequence[str], *, changed: bool) -> tuple[str, ...]:
    """Return which of some suspects are needed in addition to those that are ``kept``.

    Args:
        fix: makes the pairs of runs.
        kept: are fixed in each of them.
        of: those to choose from.
        changed: more are kept than when this was last tried.
    """
    if changed and fix.makes_equal(kept):
        return ()
    if len(of) == 1:
        return tuple(of)
    middle = len(of) // 2
    front, behind = of[:middle], of[middle:]
    of_behind = _explain(fix, (*kept, *front), behind, changed=bool(front))
    of_front = _explain(fix, (*kept, *of_behind), front, changed=bool(of_behind))
    return (*of_front, *of_behind)


def _equal_beyond_luck(laboratory: Laboratory, plain: Plain, fixed: Sequence[str], pair: list[Ran]) -> list[Ran]:
    """Return equal runs with suspects fixed, as many as luck does not explain; none if they are not equal.

    Runs with nothing fixed are made in between: were those equal too, something else would be.

    Args:
        laboratory: makes them.
        plain: the runs with nothing fixed.
        fixed: the suspects.
        pair: the first two.
    """
    runs = list(pair)
    turns = 0
    if laboratory.equal(runs):
        laboratory.take_time()
    while laboratory.equal(runs):
        wanted = plain.luck.runs_that_prove()
        if turns and len(runs) >= wanted:
            return runs
        if wanted > MOST or not plain.more():
            return []
        more = laboratory.pair(fixed, again=_again(len(runs)))
        if not more:
            return []
        runs += more
        turns += 1
    return []


def _with_culprits(laboratory: Laboratory, evidence: Evidence, runs: Sequence[Ran], luck: Luck) -> Evidence:
    """Find the line that makes runs differ, of those that ask for what was fixed; ``runs`` are the equal ones.

    A figure that is the same in all runs makes none differ. If only lines that get such figures are left, it was not
    the figure but what the fixed one did elsewhere, as a signal to a process of another number: nothing is proven then.
    Where more than one thing had to be fixed, lines that draw a UUID or ask for the time are the last to be named: they
    make names and measurements, which differ besides.
    """
    from envbuild.verification.causes.source_causes import in_likely_order, known_places

    by_line = tuple(each for each in evidence.proven if each in _BY_LINE)
    if not by_line:
        return evidence
    asked = _asked(runs[0].record, by_line)
    # Workers of pools that are killed leave no record: what the sources show may be asked there.
    # Of memory the hook knows some functions alone: the others' lines would be cleared though they stay fixed.
    known = known_places(replace(evidence, proven=tuple(each for each in by_line if each != "memory")))
    places = [*dict.fromkeys((*(each.place for each in asked if each.place), *known))]
    cleared: list[str] = []
    steady: list[str] = []
    aside: list[Evidence | None] = [None] * len(_ASIDE)
    unknown = False
    partly: Evidence | None = None
    all_that_differs = laboratory.differing(laboratory.runs_before)
    unvarying = _unvarying(runs, by_line)
    if "clock" in by_line and len(places) > 1:  # fix_clock.py: times of lines, where one of them gets what is real
        runs = laboratory.with_real(evidence.proven, ()) or runs
    groups = _growing([each for each in in_likely_order(evidence, places) if each not in unvarying][:_LINES])
    while groups:
        group = groups.pop(0)
        place = group[0]
        real: list[Ran] = []
        while laboratory.equal(real) or not real:
            # Two runs that are equal to each other but not to the others: the line matters, but does not vary.
            if len(real) >= max(luck.runs_that_clear(), 1 if laboratory.equal(runs, real) else 2):
                break
            if real and "clock" in by_line and not laboratory.equal(runs, real):
                laboratory.later()
            one = laboratory.with_real(evidence.proven, group, _again(len(real)))
            if not one:
                break
            real += one
        if len(group) > 1 and laboratory.equal(runs, real) and one:
            cleared += group
        elif len(group) > 1:
            middle = len(group) // 2
            groups[:0] = [group[:middle], group[middle:]]
        elif not one:  # with one real clock and others fixed, a loop may have no end
            unknown = True
        elif not laboratory.equal(real):
            culprits = _culprits(asked, place) or (Culprit(suspect=by_line[0], place=place),)
            found = replace(evidence, culprits=culprits, cleared=tuple(cleared))
            kinds = {_kind_aside(each) for each in culprits}
            if len(evidence.proven) == 1 or None in kinds:
                if all_that_differs <= laboratory.differing(real):
                    return found
                partly = partly or found  # of several results that differ it makes some alone
                cleared.append(place)
                continue
            first = min(kind for kind in kinds if kind is not None)
            aside[first] = aside[first] or found
            cleared.append(place)
        elif laboratory.equal(runs, real):
            cleared.append(place)
        else:
            steady.append(place)
    if partly is not None:
        return partly
    if together := _that_differ_together(laboratory, evidence, steady):
        culprits = tuple(each for place in together for each in _culprits(asked, place))
        return replace(evidence, culprits=culprits, cleared=tuple(cleared))
    least = next((each for each in aside if each is not None), None)
    if least is not None and _BY_LINE.issuperset(evidence.proven) and not unknown:
        return least
    # All that asked may have what is real, and runs stay equal: it was what an experiment does besides, such as to take
    # time, so that somebody comes first who did not always.
    complete = not unknown and not laboratory.refused and not _may_lack_records(evidence)
    noted = bool(asked) and all(each.place for each in asked) and complete and _NOTED.issuperset(evidence.proven)
    if places and {*places} == {*unvarying, *cleared} and (unvarying or noted):
        return replace(evidence, proven=(), cleared=tuple(cleared))
    return replace(evidence, cleared=tuple(cleared))


def _that_differ_together(laboratory: Laboratory, evidence: Evidence, places: Sequence[str]) -> Sequence[str]:
    """Return lines if runs differ with what is real for all of them, though with one of them alone they do not.

    Of two readings of a clock one says when something was put into a cache, the other how old it is.
    """

    def differ(real: Sequence[str]) -> bool:
        runs = laboratory.with_real(evidence.proven, real)
        runs += laboratory.with_real(evidence.proven, real, _again(len(runs)))
        return len(runs) > 1 and not laboratory.equal(runs)

    if not 1 < len(places) <= _TOGETHER or not differ(places):
        return ()
    needed = [*places]
    for place in places:
        less = [each for each in needed if each != place]
        if len(less) > 1 and differ(less):
            needed = less
    return needed


def _may_lack_records(evidence: Evidence) -> bool:
    """Whether processes may have been ended by others, so that nobody knows what they asked for."""
    return any(part in text for text in (evidence.sources or {}).values() for part in _ENDING)


def _growing(places: Sequence[str]) -> list[Sequence[str]]:
    """Divide lines: the first ones alone, then two, four and so on."""
    groups: list[Sequence[str]] = []
    at, size = 0, 1
    while at < len(places):
        groups.append(places[at : at + size])
        at += size
        size *= 1 + (at > 1)
    return groups


def _kind_aside(culprit: Culprit) -> int | None:
    """Return the place of a call among those that are named last; None if it is no such."""
    if not culprit.call and culprit.suspect == "clock":  # a line of a worker that left no record
        return 0
    return next((at for at, kind in enumerate(_ASIDE) if culprit.call.startswith(kind)), None)


def _unvarying(runs: Sequence[Ran], suspects: Sequence[str]) -> frozenset[str]:
    """Return the lines that asked for figures alone, and would have got the same ones in all runs."""
    if {*suspects} != {"figures"}:
        return frozenset()
    tables: list[dict[str, list[str]]] = []
    for run in runs:
        tables.append({})
        for each in _asked(run.record, suspects):
            tables[-1].setdefault(each.place, []).append(each.values)
    return frozenset(
        place for place, values in tables[0].items() if all(values) and all(t.get(place) == values for t in tables)
    )


def _asked(record: Record, proven: Sequence[str]) -> list[Asked]:
    """Return what lines asked for; not what start-up files did, which is no line of the program.

    The hook itself is one (``image/runtime/files.py``): with a fixed clock it imports asyncio, which imports logging,
    and that asks for the time.
    """
    asked = (each for process in record.processes for each in process.asked or () if each.suspect in proven)
    return [each for each in asked if (each.module, each.file) != _STARTUP]


def _numbered(record: Record, suspects: Sequence[str]) -> list[tuple[int, Asked]]:
    """Return what lines asked for, with the number of their process."""
    return [
        (number, each)
        for number, process in enumerate(record.processes)
        for each in process.asked or ()
        if each.suspect in suspects
    ]


def _culprits(asked: Sequence[Asked], place: str) -> tuple[Culprit, ...]:
    """Return what a line asked for; minor calls only where there is nothing else.

    The time of a log reaches the log, where it is masked: a line that calls a package which logs and writes archives is
    the cause by what it writes.
    """
    here = [each for each in asked if each.place == place]
    chosen = [each for each in here if not each.call.startswith(_MINOR)] or here
    return tuple(
        Culprit(suspect=each.suspect, call=each.call, module=each.module, place=place, file=each.file, line=each.line)
        for each in chosen
    )
