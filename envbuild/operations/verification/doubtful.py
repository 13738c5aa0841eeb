"""Experiments on what was left out as a measurement by its name or unit: a value that repeats exactly is none.

A name is a guess: ``half-life 3.5123 s`` may be a time that the program took, or what it computed. So where runs are
equal but for such numbers, and the words leave a doubt, the program runs three times with a fixed clock, which begins
days later in the second one and goes faster in the third: a number in a printed line that follows it exactly is
measured. If some do not, it runs with all fixed but the clock: the system's entropy, addresses, the order of tasks.
What a clock measures is another number in each of them; one that differed before, has four digits or more and is the
same in all is a result, and the runs are different. Two runs more, with the entropy alone fixed, show whether it is the
cause. Numbers of fewer digits are judged together, those of one stream or file: they are results if all of them repeat
so, while of the runs as they are all but one differ. The order of lines of several processes is a result if the entropy
decides it, also of tasks that are done one after another; it is luck if lines come in one order then alone.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from envbuild.core.patterns import lazy
from envbuild.difference.text import shown
from envbuild.operations.verification.laboratory import LONGEST, Laboratory
from envbuild.operations.verification.left_out import ALL, METRICS, LeftOut, Place, left_out_of, printed_by
from envbuild.operations.verification.line_orders import (
    drawn_in_turn,
    drawn_orders,
    first_moved,
    in_other_order,
    is_order_of_jobs,
    raced,
)
from envbuild.operations.verification.other_programs import drawing_program
from envbuild.record.printed import STREAMS
from envbuild.verification.dataflow.measuring import Measuring
from envbuild.verification.masking.doubtful import (
    are_far_apart,
    by_midnight,
)
from envbuild.verification.masking.lines import TextDifference, excerpts
from envbuild.verification.measurements.clockwork import SHIFT, Span, are_counts, kind_of_numbers, settings
from envbuild.verification.measurements.tokens import number_of

if TYPE_CHECKING:
    from envbuild.operations.events import Events
    from envbuild.operations.verification.session import Session
    from envbuild.record.model import Record
    from envbuild.record.printed import Stream
    from envbuild.runs.repeat import Repeated
    from envbuild.runs.request import RunEngine
    from envbuild.verification.measurements.clockwork import Setting, When
    from envbuild.verification.ran import Ran
    from envbuild.verification.verdict import Verdict

_GRACE = 30
"""Seconds that an experiment may take beyond three times as long as a run."""
_FIXED = ("entropy", "addresses", "order")
"""All that can be fixed and makes no measurement the same; figures of the kernel do."""
_PAIRS = 2
"""Pairs of such runs in which a number has to be the same."""

_FULL = 15
"""Digits of a number that show that it was not rounded to be shown."""
_PLAIN = lazy(r"\d+(?:\.\d*)?(?:e[-+]?\d{1,3})?|\.\d+", re.IGNORECASE)
_NEAR = 0.01
_MOST = 2000
"""Places of many digits, and of few, of which experiments are made."""
_QUOTED = 3
"""Lines of a stream that are quoted where nothing was decided."""
_NAMES: dict[str, str] = dict(STREAMS.items())

_FOLLOWS = frozenset(("duration", "rate", "reading", "ticks"))
"""What is measured, of the kinds of numbers that follow a clock."""


@dataclass(frozen=True, kw_only=True)
class Refuted:
    """What was taken for measurements and is none.

    Attributes:
        places: what differs, by stream or file.
        groups: runs with equal values, by their place among the runs.
        texts: the first such line of each stream.
        proven: what the values depend on, as in ``Evidence.proven``.
        why: how that is known, a sentence.
    """

    places: Mapping[str, Sequence[str]]
    groups: Sequence[Sequence[int]]
    texts: Sequence[TextDifference]
    proven: Sequence[str]
    why: str = "what looks like a measurement is a result: it was the same number in all runs of an experiment"


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What experiments showed of numbers whose names leave a doubt.

    Attributes:
        refuted: results among them; None if there are none.
        measured: those that are measurements.
        by_luck: streams whose lines come in another order also with the system's entropy fixed: processes race.
        without_result: how many experiments showed nothing, as time was up or the program failed in them.
    """

    refuted: Refuted | None = None
    measured: frozenset[Place] = frozenset()
    by_luck: frozenset[Stream] = frozenset()
    without_result: int = 0


@dataclass(frozen=True, kw_only=True)
class InDoubt:
    """What differs between runs that are equal but for what was left out.

    Attributes:
        left: what that was.
        known: the values of each run.
        places: those that differ.
        doubtful: the places that may be results by their words.
        short: places of such numbers that have few digits, so that experiments show less.
        memory: places of what was left out as memory, as a pause, or as a moment of the run with something drawn in it;
            no experiments are made of them.
        orders: streams of several processes whose lines came in another order in each run.
        few: those whose lines came in another order in some runs: luck has few orders to choose from, so that none of
            them is shown to be a result.
    """

    left: LeftOut
    known: Sequence[Mapping[Place, str]]
    places: Sequence[Place]
    doubtful: frozenset[Place]
    short: Sequence[Place] = ()
    memory: Sequence[Place] = ()
    orders: Sequence[Stream] = ()
    few: Sequence[Stream] = ()

    def phrases(self, decided: Decided) -> Iterator[str]:
        """Yield what may be results: the first such lines of each stream with both values, and names in files.

        An order of lines is one too unless it was shown to be luck.

        Args:
            decided: what experiments showed.
        """
        for stream in (*self.orders, *self.few):
            if stream in decided.by_luck:
                continue
            moved, where = first_moved(self.left, stream), ""
            if moved is not None:
                where = f", line {moved.line}: {' → '.join(shown(*excerpts(moved.before, moved.after)))}"
            yield f"the order of lines of {_NAMES[stream]}{where}"
        measured = decided.measured
        lines: set[Place] = set()
        quoted = Counter[str]()
        may_be = self.doubtful | {*self.memory}
        for path, name in (*self.places, *self.short, *self.memory):
            line = path, name.partition(",")[0]
            if (path, name) not in may_be or (path, name) in measured or line in lines:
                continue
            if path not in STREAMS:
                yield f"{path}: {name}{self._change(path, name)}"
                continue
            lines.add(line)
            quoted[path] += 1
            if quoted[path] > _QUOTED:
                continue
            other = next(at for at, each in enumerate(self.known) if each[path, name] != self.known[0][path, name])
            found = self.left.difference(path, name, 0, other)
            yield f"{_NAMES[path]}, line {found.line}: {' → '.join(shown(*excerpts(found.before, found.after)))}"

    def _change(self, path: str, name: str) -> str:
        """Return the numbers of two runs, as they are quoted behind a place in a file; empty if they are none."""
        first, *others = (each[path, name] for each in self.known)
        other = next((each for each in others if each != first), first)
        return f": {first} → {other}" if _is_plain(first) and _is_plain(other) else ""

    def lines(self, measured: frozenset[Place]) -> frozenset[tuple[str, int]]:
        """Return the streams and lines whose doubtful numbers are all among those that were ``measured``."""
        of_lines: dict[tuple[str, str], list[Place]] = {}
        for path, name in (*self.places, *self.short):
            if path in STREAMS and (path, name) in self.doubtful:
                of_lines.setdefault((path, name.partition(",")[0]), []).append((path, name))
        return frozenset(
            (_NAMES[path], int(line.removeprefix("line ")))
            for (path, line), places in of_lines.items()
            if measured.issuperset(places)
        )


def find_doubts(
    session: Session, verdict: Verdict, *, strict: bool = False, measuring: Measuring = ALL
) -> InDoubt | None:
    """Return the numbers that were left out as times or rates and differ; None if there are none.

    Args:
        session: runs that are equal but for what was left out.
        verdict: on these.
        strict: all of them, not those alone whose names leave a doubt.
        measuring: what the program can measure; where it can measure no time, all names leave one.
    """
    if not verdict.same_content and not any(channel.masked for channel in verdict.channels):
        return None
    left = left_out_of(session, verdict, measuring)
    known = [left.values(at) for at in range(len(left.runs))]
    doubtful = frozenset(left.doubted(0))
    wanted = known[0].keys() if strict else doubtful
    places = [place for place in _common(known) if place in wanted and _differ([each[place] for each in known])]
    listed = {*places}
    printed = [dict(left.named(at)) for at in range(len(left.runs))]
    short = [
        place
        for place in _common(printed)
        if place in doubtful and place not in listed and _differ([each[place] for each in printed])
    ]
    memory = [dict(left.memory(at)) for at in range(len(left.runs))]
    changing = [place for place in _common(memory) if _differ([each[place] for each in memory])]
    used = [dict(left.used(at)) for at in range(len(left.runs))]
    changing += [place for place in _common(used) if are_far_apart([each[place] for each in used])]
    moments = [dict(left.moments(at)) for at in range(len(left.runs))]
    changing += [place for place in _common(moments) if _differ([each[place] for each in moments])]
    pauses = [dict(left.pauses(at)) for at in range(len(left.runs))]
    changing += [place for place in _common(pauses) if _differ([each[place] for each in pauses])]
    memory = [
        {**few, **sure, **moved, **slept} for few, sure, moved, slept in zip(used, memory, moments, pauses, strict=True)
    ]
    orders = [stream for stream in STREAMS if in_other_order(left.runs, stream)]
    orders = [stream for stream in orders if not is_order_of_jobs(left, stream)]
    few = [stream for stream in STREAMS if stream not in orders and in_other_order(left.runs, stream, few=True)]
    few = [stream for stream in few if not is_order_of_jobs(left, stream)]
    if not places and not short and not changing and not orders and not few:
        return None
    every = [{**of_memory, **few, **exact} for of_memory, few, exact in zip(memory, printed, known, strict=True)]
    return InDoubt(
        left=left, known=every, places=places, doubtful=doubtful, short=short, memory=changing, orders=orders, few=few
    )


def decide(doubts: InDoubt, session: Session, engine: RunEngine, events: Events) -> Decided:
    """Find out by experiments which values that were left out as measurements are some, and which are none.

    Args:
        doubts: on these runs.
        session: runs that are equal but for what was left out.
        engine: runs the containers.
        events: receives ``MoreRuns``.
    """
    longest = max(run.record.duration or 0.0 for run in session.runs)
    if longest > LONGEST or not (doubts.places or doubts.short or doubts.orders or doubts.few):
        return Decided()
    laboratory = Laboratory(session=session, engine=engine, events=events, limit=int(3 * longest) + _GRACE)
    return replace(_decided(laboratory, doubts), without_result=laboratory.without_result)


def _decided(laboratory: Laboratory, doubts: InDoubt) -> Decided:
    by_luck: frozenset[Stream] = frozenset()
    if doubts.orders:
        drawn, by_luck = drawn_orders(laboratory, doubts.orders)
        if drawn:
            return Decided(refuted=_of_orders(doubts, drawn))
        by_luck = raced(laboratory, by_luck)
    if doubts.few:
        by_luck |= raced(laboratory, frozenset(doubts.few), pairs=_PAIRS)
    if doubts.orders or doubts.few:
        drawn, sure = drawn_in_turn(laboratory, doubts.left, (*doubts.orders, *doubts.few))
        if drawn:
            return Decided(refuted=_of_orders(doubts, drawn, raced=True))
        by_luck = by_luck if sure else frozenset()
    if not doubts.places and not doubts.short:
        return Decided(by_luck=by_luck)
    # What is behind so many stays undecided, and is quoted.
    doubts = replace(doubts, places=doubts.places[:_MOST], short=doubts.short[:_MOST])
    measured, of_clock = _by_fixed_clock(laboratory, doubts)
    if of_clock:
        return Decided(refuted=_refuted(doubts.left, doubts.known, of_clock, ("clock",)), measured=measured)
    differing = [place for place in (*doubts.places, *doubts.short) if place not in measured]
    refuted = _refute(laboratory, doubts, differing) or _drawn_elsewhere(laboratory, doubts, differing)
    return Decided(refuted=refuted, measured=measured, by_luck=by_luck)


def _of_orders(doubts: InDoubt, orders: Sequence[Stream], *, raced: bool = False) -> Refuted:
    """Return that the order of lines is a result; ``raced``: tasks had to be done one after another to see that."""
    return Refuted(
        places=dict.fromkeys(orders, ("order of lines",)),
        groups=[[at] for at in range(len(doubts.left.runs))],
        texts=[text for stream in orders for text in [first_moved(doubts.left, stream)] if text is not None],
        proven=("entropy", *(("order",) if raced else ())),
        why="the order of lines is a result: they come in one order when the system's entropy is fixed"
        + (" and tasks are done one after another, and not if that is so alone" if raced else ""),
    )


def _by_fixed_clock(laboratory: Laboratory, doubts: InDoubt) -> tuple[frozenset[Place], list[Place]]:
    """Return the places that follow a fixed clock exactly: when it begins days later, and goes faster.

    They are in printed lines, and in files that are equal but for what was left out, if they are plain numbers. Of a
    place with several numbers, such as a column, each follows the clock, or is the same in all runs.

    What is drawn, or left to luck, is another number in each of these runs, and so is what depends on the date, or on
    how much is done in a time.

    Numbers of few digits are measured if the same clock gives the same ones, wherever it begins, and a fast one gives
    those that are as much larger, or smaller.

    Also return places of numbers that a fixed clock repeats, and that depend on when it begins though they are no date:
    of a generator that the time seeds. How long something takes does not depend on that.
    """
    places = [place for place in doubts.places if place[0] in STREAMS or _are_plain(doubts.known[0][place])]
    places += doubts.short
    left = of_same_program(doubts)
    clocks: list[When] = []

    def look(found: Repeated, ran: Ran, clock: Setting | None) -> None:
        left.take(ran, printed_by(found))
        clocks.extend([clock] if clock is not None else [])

    now, later, faster, _ = settings(int(time.time()))
    known = ((now, "the clock fixed"), (later, "the clock fixed, later"), (faster, "the clock fixed, faster"))
    for clock, purpose in known if places else ():
        laboratory.observed(1, purpose, clock, look)
        if len(left.runs) != len(clocks) or not clocks or clocks[-1] != clock or not left.runs[-1].ended_well:
            return frozenset(), []
        same = {path: _same_elsewhere(left, doubts.left, path) for path in {path for path, _ in places}}
        places = [place for place in places if same[place[0]]]
        if not places:
            return frozenset(), []
    values = [left.values(at, short=True) for at in range(len(clocks))]
    few = {*doubts.short}
    short = {place for place in places if place in few and all(place in each for each in values)}
    span = _span(doubts.left.runs[0].record)
    seen = {
        place: [(span, doubts.known[0][place]), *zip(clocks, (each[place] for each in values), strict=True)]
        for place in places
        if place not in few and all(place in each for each in values)
    }
    kinds = {place: _kind(each) for place, each in seen.items()}
    measured = frozenset(place for place, kind in kinds.items() if kind in _FOLLOWS)
    several = {
        place: differing
        for place in places
        if all(place in each for each in values)
        and (differing := _several([each[place] for each in doubts.known], [each[place] for each in values]))
    }
    measured |= {
        place
        for place, differing in several.items()
        if all(_kind([(span, real), *zip(clocks, fixed, strict=True)]) in _FOLLOWS for real, fixed in differing)
    }
    begun = [place for place, kind in kinds.items() if kind == "" and _far(values[0][place], values[1][place])]
    follow = [
        at
        for at in short - measured
        if values[0][at] == values[1][at]
        and all(
            _goes_faster(slow, fast, now, faster)
            for slow, fast in ((fixed[0], fixed[2]) for _, fixed in several.get(at, ()))
        )
        and (at in several or _goes_faster(values[0][at], values[2][at], now, faster))
    ]
    if not begun and not follow:
        return measured, []
    laboratory.observed(1, "the clock fixed, again", now, look)
    if len(left.runs) != len(clocks) or clocks[-1] != now or not left.runs[-1].ended_well:
        return measured, []
    again = left.values(len(clocks) - 1, short=True)
    measured |= {place for place in follow if again.get(place) == values[0][place]}
    return measured, [place for place in begun if again.get(place) == values[0][place]]


def of_same_program(doubts: InDoubt) -> LeftOut:
    """Return what takes further runs of the same program: its sources show of them what they show of the first ones."""
    return LeftOut(session=doubts.left.session, measuring=doubts.left.measuring)


def _are_ticks(values: Sequence[tuple[When, str]]) -> bool:
    """Whether a number is whole ticks of each clock, though not equally many.

    It is measured while something else is waited for, such as a progress bar, which asks the clock as often as it can.
    Unrelated numbers are all three whole ticks once in a million times.
    """
    return are_counts([(when, number_of(text.replace(",", ""))) for when, text in values])


def _goes_faster(slow: str, fast: str, now: Setting, faster: Setting) -> bool:
    """Whether two numbers with few digits are as one duration, or one rate, with a slow and with a fast clock."""
    if slow == fast or not _is_plain(slow) or not _is_plain(fast):
        return False
    one, other = (number_of(text.replace(",", "")) for text in (slow, fast))
    ratio = Fraction(faster.tick, now.tick)
    duration = abs(other.value / ratio - one.value) <= one.off + other.off / ratio
    rate = abs(one.value / ratio - other.value) <= other.off + one.off / ratio
    return duration or rate


def _same_elsewhere(left: LeftOut, before: LeftOut, stream: str) -> bool:
    """Whether the last run printed the same lines, or left the same file, but for what is masked and left out."""
    if stream == METRICS:
        return True
    if stream not in STREAMS:
        contents = left.runs[-1].contents.get(stream), before.runs[0].contents.get(stream)
        return len({each.base or each.digest if each is not None else None for each in contents}) == 1
    # Lines that differ in the runs that were compared are measured: clocks have shown that.
    mine, *theirs = ([row.masked.text for row in each.get(stream, [])] for each in (left.streams[-1], *before.streams))
    if {len(mine)} != {len(each) for each in theirs}:
        return False
    return all(line in each or len({*each}) > 1 for line, *each in zip(mine, *theirs, strict=True))


def _is_plain(text: str) -> bool:
    """Whether a value is one number; of other values in files digests are known."""
    return _PLAIN.fullmatch(text.replace(",", "")) is not None


def _are_plain(text: str) -> bool:
    """Whether a value is one number or several."""
    return all(map(_is_plain, text.split(" ")))


def _several(known: Sequence[str], fixed: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """Return the numbers of a place with several that are not the same in all runs: of the first run, and the others.

    Args:
        known: the place's value in the runs that were compared.
        fixed: in those with a fixed clock.

    Returns:
        Nothing if it has one number, if it is no row of numbers in all runs, or if some have more than others.
    """
    rows = [text.split(" ") for text in (*known, *fixed)]
    count = len(rows[0])
    if count < 2 or any(len(row) != count or not all(map(_is_plain, row)) for row in rows):
        return []
    columns = [*zip(*rows, strict=True)]
    return [(column[0], column[len(known) :]) for column in columns if len({*column}) > 1]


def _kind(values: Sequence[tuple[When, str]]) -> str:
    """Return what numbers are by the clock of each run; empty if nothing, ``text`` for dates and times of day.

    And ``ticks`` for durations of what waits for something else.
    """
    if not all(_is_plain(text) for _, text in values):
        return "text"
    numbers = [text.replace(",", "") for _, text in values]
    exact = max(len(text.lower().partition("e")[0].replace(".", "").lstrip("0")) for text in numbers) >= _FULL
    clocks = (when for when, _ in values)
    kind = kind_of_numbers([(at, number_of(text, exact=exact)) for at, text in zip(clocks, numbers, strict=True)])
    return kind or ("ticks" if _are_ticks(values) else "")


def _far(one: str, other: str) -> bool:
    """Whether two numbers differ by more than the rounding of seconds since 1970 leaves in short times.

    Nor by the difference between the starts of the two clocks: that is an age.
    """
    mine, theirs = (float(text.replace(",", "")) for text in (one, other))
    between = abs(mine - theirs)
    ages = (SHIFT / 1e9 * each for each in (1, 1e3, 1 / 60, 1 / 3600, 1 / 86400))
    return between > _NEAR * max(abs(mine), abs(theirs)) and not any(abs(between / age - 1) < _NEAR for age in ages)


def _span(record: Record) -> Span:
    start = datetime.fromisoformat(record.start.replace("Z", "+00:00")).timestamp()
    return Span(start, start + (record.duration or 0.0))


def _refute(laboratory: Laboratory, doubts: InDoubt, differing: list[Place]) -> Refuted | None:
    """Find values that are the same once all but the clock is fixed; None if there are none."""
    if not differing:
        return None
    repeated, plain = of_same_program(doubts), of_same_program(doubts)
    for number in range(_PAIRS):
        if not repeated.look(laboratory, "all fixed but the clock", _FIXED, number):
            return None
        differing = _equal_in(repeated, differing)
        if not differing:
            return None
    drawn = of_same_program(doubts)
    by_entropy = drawn.look(laboratory, "entropy fixed", ("entropy",), 0) and _equal_in(drawn, differing) == differing
    few = {*doubts.short}.intersection(differing)
    if by_entropy or few:
        plain_ran = plain.look(laboratory, "nothing varied", (), 0)
        still = {*_equal_in(plain, differing)} if plain_ran else {*differing}
        varied = _varied(doubts, plain, few) if plain_ran else frozenset[str]()
        differing = [place for place in differing if place not in few or place[0] in varied]
        by_entropy = by_entropy and bool({*differing} - still)
    if not differing:
        return None
    return _refuted(doubts.left, doubts.known, differing, ("entropy",) if by_entropy else ())


def _drawn_elsewhere(laboratory: Laboratory, doubts: InDoubt, differing: list[Place]) -> Refuted | None:
    """Find values that follow no clock, where a program that no experiment reaches draws without a seed."""
    if not differing or not (program := drawing_program(laboratory)):
        return None
    found = _refuted(doubts.left, doubts.known, differing, ())
    why = f"what looks like a measurement follows no clock, and the program {program!r} draws random numbers"
    return replace(found, why=why)


def _varied(doubts: InDoubt, plain: LeftOut, places: Set[Place]) -> frozenset[str]:
    """Return the streams and files of which nearly every run as it is had other numbers of few digits.

    What rounding alone makes another number now and then may be the same in four runs by chance. All numbers of a file
    that may be results are looked at together, and all but one of the runs have to differ.
    """
    found = set()
    for path in {path for path, _ in places}:
        own = [place for place in doubts.short if place[0] == path]
        runs = [*doubts.known, *(plain.values(at, short=True) for at in range(len(plain.runs)))]
        seen = {tuple(values.get(place) for place in own) for values in runs}
        if {*own} <= places and len(seen) >= len(runs) - 1:
            found.add(path)
    return frozenset(found)


def _differ(values: Sequence[str]) -> bool:
    """Whether values differ, and not by a midnight between two runs."""
    return any(value != values[0] and not by_midnight(value, values[0]) for value in values)


def _common(values: Sequence[Mapping[Place, str]]) -> Iterable[Place]:
    """Return the places that all runs have."""
    return [place for place in values[0] if all(place in each for each in values[1:])]


def _equal_in(left: LeftOut, places: Iterable[Place]) -> list[Place]:
    """Return the places that have the same value in all runs that were looked at."""
    values = [left.values(at, short=True) for at in range(len(left.runs))]
    return [place for place in places if len({each.get(place) for each in values}) == 1 and place in values[0]]


def _refuted(
    left: LeftOut, known: Sequence[Mapping[Place, str]], places: Sequence[Place], proven: Sequence[str]
) -> Refuted:
    groups: dict[tuple[str, ...], list[int]] = {}
    for at, values in enumerate(known):
        groups.setdefault(tuple(values[place] for place in places), []).append(at)
    (one, *_), (other, *_), *_ = groups.values()
    named: dict[str, list[str]] = {}
    texts: dict[str, TextDifference] = {}
    for path, name in places:
        if known[one][path, name] == known[other][path, name]:
            continue
        named.setdefault(path, []).append(name)
        if path in STREAMS and path not in texts:
            texts[path] = left.difference(path, name, one, other)
    return Refuted(places=named, groups=[*groups.values()], texts=[*texts.values()], proven=proven)
