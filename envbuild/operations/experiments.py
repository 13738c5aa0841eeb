"""Experiments on a program whose runs differ: one thing made the same in all runs, or varied alone, and run again.

A cause is proven if two runs are equal with it fixed that differ otherwise, and, where several lines of the program ask
for what was fixed, if they differ again with one line alone left as it was. Since runs may be equal by luck, two runs
with nothing fixed and nothing varied are made first: if those are equal, what was varied between the runs is the cause,
each thing of it tried alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from envbuild.core.removal import remove_tree
from envbuild.lockfile.layout import WORKSPACE
from envbuild.operations.events import Events, MoreRuns
from envbuild.verification.causes import SUSPECTS, Culprit, Evidence

if TYPE_CHECKING:
    from collections.abc import Callable

    from envbuild.operations.verify_session import Session
    from envbuild.record.model import Record
    from envbuild.record.processes import Asked
    from envbuild.runs.repeat import Repeated, Variation
    from envbuild.runs.request import RunEngine
    from envbuild.verification.judge import Ran

LONGEST = 600.0
"""Seconds of the longest run of which experiments are made, and that all of them may take, one under way finished."""
_GRACE = 30
"""Seconds that an experiment may take beyond three times as long as a run."""
_LINES = 8
"""Lines that are left as they were, one at a time."""
_BY_LINE = frozenset(("entropy", "clock", "figures"))
"""Suspects of which the hook knows which lines ask for them."""
_SHIFT = 300
"""Characters of a variable that nobody reads."""
_FILLED = {"MALLOC_PERTURB_": "165"}
"""Has the C library fill memory that it gives."""
_VARIATIONS: tuple[Variation, ...] = ("listings", "host", "times", "environment", "order of times", "pids", "cpus")


@dataclass(kw_only=True)
class Laboratory:
    """Makes experiments of one verification.

    Attributes:
        limit: seconds after which a process of an experiment is ended.
        ends: when no further one is begun.
    """

    session: Session
    engine: RunEngine
    events: Events
    limit: int
    ends: float = field(default_factory=lambda: time.monotonic() + LONGEST)

    def pair(self, fixed: Sequence[str] = (), varied: Variation | None = None, again: str = "") -> list[Ran]:
        """Run twice with suspects fixed, or one thing varied in both alike; none if a run fails or time is up."""
        purpose = f"{', '.join(fixed)} fixed" if fixed else f"{varied} varied" if varied else "nothing varied"
        return self._runs(2, purpose + again, self._variables(fixed), varied)

    def moved(self) -> list[Ran]:
        """Run twice with a larger environment, which moves objects in memory and should have no other effect."""
        return self._runs(2, "moved in memory", {"ENVBUILD_SHIFT": "x" * _SHIFT})

    def with_real(self, fixed: Sequence[str], place: str, again: str = "") -> list[Ran]:
        """Run once with suspects fixed but for one line."""
        variables = self._variables(fixed)
        variables["ENVBUILD_FIX"] += f"!{place}"
        return self._runs(1, f"one line not fixed: {place.removeprefix(f'{WORKSPACE}/')}{again}", variables)

    def equal(self, *groups: Sequence[Ran]) -> bool:
        """Whether there are runs, and all of them are equal."""
        from envbuild.verification.judge import judge

        runs = [each for group in groups for each in group]
        if not all(groups):
            return False
        return judge(runs, len(runs), self.session.ignore).outcome == "identical"

    def _variables(self, fixed: Sequence[str]) -> dict[str, str]:
        inside = [each for each in fixed if each != "memory"]
        variables = {"ENVBUILD_FIX": f"{','.join(inside)}@{self.limit}"} if fixed else {}
        return variables | (_FILLED if "memory" in fixed else {})

    def _runs(
        self, count: int, purpose: str, variables: Mapping[str, str], varied: Variation | None = None
    ) -> list[Ran]:
        from envbuild.operations.verify_session import ran_of
        from envbuild.record import history

        if time.monotonic() > self.ends:
            return []
        project = self.session.plan.request.project
        ran: list[Ran] = []
        made = run_again(
            self.session,
            count,
            variables,
            self.engine,
            self.events,
            purpose,
            lambda found: ran.append(opened(found, ran_of(found, project))),
            trace=True,
            vary=frozenset([varied] if varied else ()),
        )
        for each in made:  # they are no runs of the program as it is
            remove_tree(history.run_folder(project, each.record.id))
        return ran if len(made) == count and all(each.ended_well for each in ran) else []


def opened(found: Repeated, ran: Ran) -> Ran:
    """Open the files of a run whose format is known: their bytes may differ where what they hold does not."""
    from envbuild.operations.contents import content_of
    from envbuild.verification.files import masks_of

    if found.files is None:
        return ran
    contents = {
        output.path: content
        for output in ran.record.outputs
        if (content := content_of(found.files, output.path, masks_of(ran.record))) is not None
    }
    return replace(ran, contents=contents)


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
    laboratory = Laboratory(session=session, engine=engine, events=events, limit=int(3 * longest) + _GRACE)
    plain = laboratory.pair()
    if laboratory.equal(plain):
        return _of_variations(laboratory, evidence, plain)
    # Where some of the runs were equal, two that are so prove little.
    lucky = len(session.judge().groups) < len(session.runs)
    return _of_suspects(laboratory, evidence, lucky)


def _of_variations(laboratory: Laboratory, evidence: Evidence, plain: Sequence[Ran]) -> tuple[Evidence, list[str]]:
    """Vary one thing at a time; ``plain`` are two equal runs with nothing varied.

    What is varied moves objects in memory too, so that is tried first where the sources suggest it.
    """
    from envbuild.verification.causes import suspects

    varied = laboratory.session.plan.vary
    if "addresses" in suspects(evidence):
        pair = laboratory.moved()
        if laboratory.equal(pair) and not laboratory.equal(pair, plain):
            return replace(evidence, proven=("layout",)), []
    listed = any(each.listings for run in laboratory.session.runs for each in run.record.processes)
    for variation in _VARIATIONS:
        if variation not in varied or (variation == "listings" and not listed):
            continue
        pair = laboratory.pair(varied=variation)
        if laboratory.equal(pair) and not laboratory.equal(pair, plain):
            return replace(evidence, proven=(variation,)), []
    note = "two more runs with nothing varied between them were equal: runs differ seldom, and no cause was proven"
    return evidence, [note]


def _of_suspects(laboratory: Laboratory, evidence: Evidence, lucky: bool) -> tuple[Evidence, list[str]]:
    """Fix one suspect at a time: those that the sources call, then, if all together make runs equal, the others."""
    from envbuild.verification.causes import suspects

    wanted = suspects(evidence)
    others = tuple(each for each in SUSPECTS if each not in wanted)
    refuted: list[str] = []

    def tried(fixed: Sequence[str]) -> Evidence | None:
        pair = laboratory.pair(fixed)
        if not laboratory.equal(pair):
            refuted.extend(each for each in fixed if pair and len(fixed) == 1)
            return None
        if lucky and not laboratory.equal(pair, laboratory.pair(fixed, again=", again")):
            return None
        found = replace(evidence, proven=tuple(fixed), refuted=tuple(refuted))
        return _with_culprits(laboratory, found, pair)

    for each in wanted:
        if (found := tried((each,))) is not None:
            return found, []
    if len(wanted) > 1 and (found := tried(wanted)) is not None:
        return found, []
    everything = laboratory.pair((*wanted, *others)) if others else []
    if laboratory.equal(everything):
        for each in others:
            if (found := tried((each,))) is not None:
                return found, []
    elif everything:  # all at once changed nothing: no single one of them would
        refuted.extend(others)
    return replace(evidence, refuted=tuple(refuted)), []


def _with_culprits(laboratory: Laboratory, evidence: Evidence, pair: Sequence[Ran]) -> Evidence:
    """Find the line that makes runs differ, of those that ask for what was fixed; ``pair`` are the equal runs."""
    from envbuild.verification.causes import in_likely_order, known_places

    if _BY_LINE.isdisjoint(evidence.proven):
        return evidence
    asked = _asked(pair[0].record, evidence.proven)
    # Workers of pools that are killed leave no record: what the sources show may be asked there.
    places = [*dict.fromkeys((*(each.place for each in asked), *known_places(evidence)))]
    cleared: list[str] = []
    for place in in_likely_order(evidence, places)[:_LINES]:
        one = laboratory.with_real(evidence.proven, place)
        if one and not laboratory.equal(pair, one):
            # Two runs that are equal to each other but not to the others: the line matters, but does not vary.
            other = laboratory.with_real(evidence.proven, place, ", again")
            if not other or laboratory.equal(one, other):
                continue
            culprits = _culprits(asked, place) or (Culprit(suspect=evidence.proven[0], place=place),)
            return replace(evidence, culprits=culprits, cleared=tuple(cleared))
        if one:
            cleared.append(place)
    return replace(evidence, cleared=() if len(cleared) == len(places) else tuple(cleared))


def _asked(record: Record, proven: Sequence[str]) -> list[Asked]:
    return [each for process in record.processes for each in process.asked or () if each.suspect in proven]


def _culprits(asked: Sequence[Asked], place: str) -> tuple[Culprit, ...]:
    return tuple(
        Culprit(suspect=each.suspect, call=each.call, module=each.module, place=place, file=each.file, line=each.line)
        for each in asked
        if each.place == place
    )


def run_again(
    session: Session,
    count: int,
    variables: Mapping[str, str],
    engine: RunEngine,
    events: Events,
    label: str,
    look: Callable[[Repeated], None] = lambda found: None,
    *,
    trace: bool = False,
    vary: frozenset[Variation] = frozenset(),
) -> list[Repeated]:
    """Run again in copies that are thrown away.

    Args:
        session: the verification.
        count: how many times.
        variables: for these runs alone.
        engine: runs the containers.
        events: receives ``MoreRuns``.
        label: what for.
        look: called with each run while its copy is still there.
        trace: leave step traces.
        vary: what all of them get otherwise than a first run does.
    """
    from envbuild.runs.repeat import repeat

    plan = session.plan
    request = replace(plan.request, own_variables={**plan.request.own_variables, **variables})
    again = replace(
        plan,
        request=request,
        slots=plan.slots[:count],
        folder=plan.folder / "again",
        values=0,
        trace=trace,
        vary=vary,
        number=1 if vary else 0,
    )
    made: dict[int, Repeated] = {}
    with events.phase(label, total=count, unit="runs") as advance:

        def each(found: Repeated) -> None:
            made[found.number] = found
            look(found)
            found.discard()
            advance(1)

        repeat(again, count, engine, each)
    events.report(MoreRuns(purpose=label, count=count))
    return [made[number] for number in sorted(made)]
