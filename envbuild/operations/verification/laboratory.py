"""Makes the runs of experiments: with something fixed, varied or moved, in copies that are thrown away."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.patterns import lazy
from envbuild.core.removal import remove_tree
from envbuild.lockfile.layout import WORKSPACE
from envbuild.operations.events import Events, MoreRuns
from envbuild.record.printed import STREAMS, kept
from envbuild.runs.repeat import FILLS, filled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from envbuild.operations.verification.session import Session
    from envbuild.record.printed import Stream
    from envbuild.runs.repeat import Repeated, Variation
    from envbuild.runs.request import RunEngine, RunRequest
    from envbuild.verification.content import Content
    from envbuild.verification.measurements.clockwork import Setting
    from envbuild.verification.ran import Ran

LONGEST = 600.0
"""Seconds of the longest run of which experiments are made, and that all of them may take, one under way finished."""
RUNS = 40
"""Of all experiments that look for a cause, and as many again to prove it."""
_SECOND = 1.1
"""Seconds after which whole ones are others for certain."""
_RESULTS = frozenset(("files", "outside", "metrics", "stdout", "stderr"))
_NO_LINE = "-"
"""In the place of a line (fix.py): no line gets what is real."""
_SHIFT = 300
"""Characters of a variable that nobody reads."""
_TICK = 1_000_000
"""Nanoseconds between two readings of a clock that is fixed, as the hook has it where it is given none."""
_OF_DAY = 60.0
"""Seconds for which a fixed clock has times of day; who asks it more often has those in common in both runs."""
_TEXT = 1 << 18
"""Bytes of a stream that are kept of each run for that."""
_OF_THREADS = lazy(r"_(?:NUM|MAX|MAXIMUM)_(?:\w+_)?THREADS\Z|\ANPROC\Z|\APJRT_NPROC\Z")
"""Variables that say how many threads a library has."""
_SWITCHES = (
    "torch.set_num_threads",
    "torch.set_num_interop_threads",
    "tf.config.threading.set_intra_op_parallelism_threads",
    "tf.config.threading.set_inter_op_parallelism_threads",
)
"""Switches that would set the locked number again."""
_BESIDE_OTHERS = ("-wal", "-shm")
"""Ends of the names of files that mean another file, whatever their own bytes."""
VARIATIONS: tuple[Variation, ...] = (
    "listings", "host", "load", "times", "inodes", "environment", "order of times", "pids", "cpus", "memory",
)  # fmt: skip
"""What is varied between runs and may be varied alone."""
_ONE_BY_ONE = "RAYON_NUM_THREADS"
"""How many threads pools of packages in Rust have (rayon, ThreadPoolBuilder::num_threads)."""


@dataclass(kw_only=True)
class Laboratory:
    """Makes experiments of one verification.

    Attributes:
        limit: seconds after which a process of an experiment is ended.
        ends: when no further one is begun.
        runs_left: how many further ones may be made; ``runs_made``: how many were.
        refused: one was not made, since there are enough or time is up.
        without_result: how many showed nothing: not made, ended by their limit, or the program failed in them.
        now: seconds since 1970 at which fixed clocks begin: with one of long ago, ages of recent data are negative.
        number: of the run of the program whose variation is that of runs with something varied: one that differs.
        clock_of_lines: fixed clocks have a time for each line, which others that ask too do not move.
    """

    session: Session
    engine: RunEngine
    events: Events
    limit: int
    number: int = 1
    ends: float = field(default_factory=lambda: time.monotonic() + LONGEST)
    now: int = field(default_factory=lambda: int(time.time()))
    runs_left: int = RUNS
    runs_made: int = 0
    refused: bool = False
    without_result: int = 0
    _took_time: bool = False
    clock_of_lines: bool = False
    _filled: int = FILLS[0]
    _bears: bool = False
    _opened: dict[tuple[str, str], Content] = field(default_factory=dict)
    _printed: dict[str, Mapping[Stream, bytes]] = field(default_factory=dict)
    _opened_by_days: dict[tuple[str, str], Content] = field(default_factory=dict)

    @property
    def runs_before(self) -> Sequence[Ran]:
        """The runs that differ."""
        return self.session.runs

    def take_time(self) -> None:
        """Allow as much time again, once: what looks like the cause is to be proven."""
        if not self._took_time:
            self.ends += LONGEST
            self.runs_left += RUNS
            self._took_time = True

    def pair(self, fixed: Sequence[str] = (), varied: Sequence[Variation] = (), again: str = "") -> list[Ran]:
        """Run twice with suspects fixed, and things varied in both alike; none if a run fails or time is up."""
        parts = [f"{', '.join(each)} {what}" for each, what in ((fixed, "fixed"), (varied, "varied")) if each]
        purpose = ", ".join(parts) or "nothing varied"
        days = self._days(fixed)
        made = self._runs(2, purpose + again, self._variables(fixed), varied, days=days)
        if "memory" not in fixed or not self._filled or self.refused:
            return made
        if made or self._bears:  # of runs that are compared, all are filled with the same
            self._bears = True
            return made
        self._filled = 0  # a program that fails with other numbers, as indices above all, may bear zeros
        return self._runs(2, f"{purpose} with zeros{again}", self._variables(fixed), varied, days=days)

    def moved(self, fixed: Sequence[str] = (), again: str = "") -> list[Ran]:
        """Run twice with a larger environment, which moves objects in memory and should have no other effect."""
        variables = {**self._variables(fixed), "ENVBUILD_SHIFT": "x" * _SHIFT}
        return self._runs(2, f"moved in memory{again}", variables, days=self._days(fixed))

    def filled_with(self, byte: int, fixed: Sequence[str]) -> list[Ran]:
        """Run once with memory filled with another byte than all other runs have it; none if the run fails."""
        variables = self._variables(fixed) | filled(byte)
        return self._runs(1, f"memory filled with {byte:#04x}", variables, days=self._days(fixed))

    def with_real(self, fixed: Sequence[str], places: Sequence[str], again: str = "") -> list[Ran]:
        """Run once with suspects fixed but for some lines; without any, all that such runs are compared with."""
        variables = self._variables(fixed, places or [_NO_LINE])
        shown = places[0].removeprefix(f"{WORKSPACE}/") if places else ""
        what = f"one line not fixed: {shown}" if len(places) == 1 else f"{len(places)} lines not fixed: {shown} …"
        what = what if places else "a fixed clock for each line"
        return self._runs(1, f"{what}{again}", variables)

    def later(self) -> None:
        """Wait until a clock of whole seconds shows another one than in the last run."""
        time.sleep(_SECOND)

    def observed(
        self, count: int, purpose: str, clock: Setting | None, look: Callable[[Repeated, Ran, Setting | None], None]
    ) -> None:
        """Run with a fixed clock of a setting, or with the real one for None; nothing is done if time is up.

        Args:
            count: how many times.
            purpose: what for.
            clock: the setting.
            look: called with each run while its copy is still there.
        """
        variables = {"ENVBUILD_FIX": f"{clock.fixes}@{self.limit}"} if clock is not None else {}
        self._runs(count, purpose, variables, look=lambda found, ran: look(found, ran, clock))

    def looked_at(
        self,
        count: int,
        purpose: str,
        fixed: Sequence[str],
        look: Callable[[Repeated, Ran], None],
        varied: Sequence[Variation] = (),
    ) -> list[Ran]:
        """Run with suspects fixed and things varied; ``look`` is called with each run while its copy is still there.

        Returns none if a run fails or time is up.
        """
        return self._runs(count, purpose, self._variables(fixed), varied, look=look)

    def followed(
        self, fixed: Sequence[str], again: str, look: Callable[[Repeated, Ran], None], changed: str
    ) -> list[Ran]:
        """Run twice with suspects fixed, line by line; ``look`` is called with each run while its record is there.

        Args:
            fixed: suspects.
            again: what is added to the words for what they are made: that this is not the first pair, say.
            look: see above.
            changed: what the second run alone has otherwise: ``layout``, for objects in other places of memory, or a
                variation; nothing if it is none of these.
        """
        purpose = f"where runs part{again}"
        variables = self._variables((*fixed, "path"))
        varied = [each for each in VARIATIONS if each == changed]
        if changed != "layout" and not varied:
            return self._runs(2, purpose, variables, look=look)
        other = variables if varied else {**variables, "ENVBUILD_SHIFT": "x" * _SHIFT}
        return [*self._runs(1, purpose, variables, look=look), *self._runs(1, purpose, other, varied, look=look)]

    def equal(self, *groups: Sequence[Ran]) -> bool:
        """Whether there are runs, and all of them are equal."""
        from envbuild.verification.judge import judge

        runs = [each for group in groups for each in group]
        if not all(groups):
            return False
        runs = self._with_common_clocks(runs)
        return judge(runs, len(runs), self.session.ignore, self.session.given_to(runs)).outcome == "identical"

    def differing(self, runs: Sequence[Ran]) -> frozenset[tuple[str, str]]:
        """Return what differs between the first two results of runs: kinds of channels, and names in these."""
        from envbuild.verification.judge import judge

        if not runs:
            return frozenset()
        runs = self._with_common_clocks(runs)
        verdict = judge(runs, len(runs), self.session.ignore, self.session.given_to(runs))
        return frozenset(
            (channel.kind, name)
            for channel in verdict.channels
            if channel.differs and channel.kind in _RESULTS
            for name in channel.names or ("",)
        )

    def sizes(self, runs: Sequence[Ran]) -> list[int]:
        """Return how many runs gave each result."""
        from envbuild.verification.judge import judge

        if not runs:
            return []
        runs = self._with_common_clocks(runs)
        return [len(group) for group in judge(runs, len(runs), self.session.ignore, self.session.given_to(runs)).groups]

    def _with_common_clocks(self, runs: Sequence[Ran]) -> list[Ran]:
        """Return runs without the times of day that all of them have in the same place, as ``Session`` has them."""
        from envbuild.operations.verification.common_clocks import with_common_clocks

        return with_common_clocks(
            runs, lambda run, stream: self._printed.get(run.record.id, {}).get(stream), self.session.ignore
        )

    def _days(self, fixed: Sequence[str]) -> tuple[float, float] | None:
        """Return the times of day of a fixed clock; all such runs have it, so that what is none of them is a result."""
        return (float(self.now), _OF_DAY) if "clock" in fixed else None

    def _variables(self, fixed: Sequence[str], real: Sequence[str] = ()) -> dict[str, str]:
        if "clock" in fixed and self.clock_of_lines:
            real = real or [_NO_LINE]
        # With nothing fixed the record has what other programs gave back.
        clock = f"clock={self.now * 10**9}/{_TICK}/1"
        what = ",".join(clock if each == "clock" else each for each in fixed) or "programs"
        variables = {"ENVBUILD_FIX": f"{what}@{self.limit}{'!' if real else ''}{';'.join(real)}"}
        return variables | (filled(self._filled) if "memory" in fixed else {})

    def _runs(
        self,
        count: int,
        purpose: str,
        variables: Mapping[str, str],
        varied: Sequence[Variation] = (),
        look: Callable[[Repeated, Ran], None] = lambda found, ran: None,
        days: tuple[float, float] | None = None,
    ) -> list[Ran]:
        from envbuild.operations.verification.session import ran_of
        from envbuild.record import history

        if self.runs_left <= 0 or time.monotonic() > self.ends:
            self.refused = True
            self.without_result += 1
            return []
        self.runs_left -= count
        self.runs_made += count
        project = self.session.plan.request.project
        ran: list[Ran] = []

        def taken(found: Repeated) -> None:
            known = self._opened_by_days if days is not None else self._opened
            ran.append(opened(found, ran_of(found, project, days) if days else ran_of(found, project), known, days))
            look(found, ran[-1])

        fixed = variables.get("ENVBUILD_FIX", "").partition("@")[0].split(",")
        made = run_again(
            self.session,
            count,
            {**variables, **(_one_by_one(self.session.plan.request) if "order" in fixed else {})},
            self.engine,
            self.events,
            purpose,
            taken,
            trace=True,
            vary=frozenset(varied),
            number=self.number,
            one_thread="threads" in fixed,
        )
        if "clock" not in fixed:
            self._printed |= {each.record.id: _printed_by(project, each) for each in ran}
        for each in made:  # they are no runs of the program as it is
            remove_tree(history.run_folder(project, each.record.id))
        if len(made) == count and all(each.ended_well for each in ran):
            return ran
        self.without_result += 1
        return []


def _one_by_one(request: RunRequest) -> dict[str, str]:
    """Return what has pools of packages in Rust do one task after another, unless the lock says how many they do."""
    return {} if _ONE_BY_ONE in request.lock.environment else {_ONE_BY_ONE: "1"}


def with_one_thread(request: RunRequest) -> RunRequest:
    """Return a request by which libraries have one thread: by the locked variables, and without switches for that."""
    names = [name for name in request.lock.environment if _OF_THREADS.search(name) is not None]
    return msgspec.structs.replace(
        request,
        own_variables={**request.own_variables, **dict.fromkeys(names, "1")},
        allow=(*request.allow, *(f"environment.{name}" for name in names)),
        without=(*request.without, *_SWITCHES),
    )


def _printed_by(project: Path, ran: Ran) -> Mapping[Stream, bytes]:
    """Return what a run printed, to be compared with others when its record is gone; not what is long."""
    texts = {stream: kept(project, ran.record.id, stream) for stream in STREAMS}
    return {stream: text for stream, text in texts.items() if text is not None and len(text) <= _TEXT}


def opened(
    found: Repeated,
    ran: Ran,
    known: dict[tuple[str, str], Content] | None = None,
    days: tuple[float, float] | None = None,
) -> Ran:
    """Open the files of a run whose format is known: their bytes may differ where what they hold does not.

    Args:
        found: the run with its files.
        ran: what it left.
        known: contents of files of other runs by path and digest, to which these are added: where a run leaves the same
            bytes again, they are not read again.
        days: as for ``ran_of``.
    """
    from envbuild.operations.contents import content_in
    from envbuild.verification.files import masks_of

    known = {} if known is None else known
    masks = masks_of(ran.record)
    masks = masks.with_days(*days) if days is not None else masks
    contents: dict[str, Content] = {}
    for output in (*ran.record.outputs, *ran.record.outside):
        key = output.path, output.sha256 or ""
        content = known.get(key) or content_in(found, output, masks)
        if content is None:
            continue
        contents[output.path] = content
        if output.sha256 and not content.parts and not output.path.endswith(_BESIDE_OTHERS):
            known[key] = content
    return replace(ran, contents=contents)


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
    number: int = 1,
    one_thread: bool = False,
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
        vary: what all of them get otherwise than a first run does. Which thread begins first is another one in each of
            them, unless more is varied: nothing keeps threads in order but what an experiment fixes.
        number: of the run of the program that got ``vary`` in the same way.
        one_thread: libraries have one thread, whatever the lock has; the guard reports that and lets it be.
    """
    from envbuild.runs.repeat import repeat

    plan = session.plan
    request = msgspec.structs.replace(plan.request, own_variables={**plan.request.own_variables, **variables})
    if one_thread:
        request = with_one_thread(request)
    turns: frozenset[Variation] = plan.vary & {"turns"}
    again = replace(
        plan,
        request=request,
        slots=plan.slots[:count],
        folder=plan.folder / "again",
        values=plan.values if trace else 0,
        trace=trace,
        vary=vary | turns,
        number=number if vary else None if turns else 0,
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
