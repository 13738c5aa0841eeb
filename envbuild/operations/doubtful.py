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
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from envbuild.difference.text import shown
from envbuild.operations.laboratory import LONGEST, Laboratory
from envbuild.operations.verify_session import ignored_lines
from envbuild.record.compare_printed import several_processes
from envbuild.record.measurements import is_measured, kind_of, name_leaves_doubt
from envbuild.record.printed import KEPT_TEXT, STREAMS, kept
from envbuild.verification.clockwork import SHIFT, Span, are_counts, kind_of_numbers, settings
from envbuild.verification.content.snakemake import is_log as is_log_of_jobs
from envbuild.verification.content.snakemake import is_started_by, without_order
from envbuild.verification.doubtful import (
    MEASURED,
    are_far_apart,
    by_midnight,
    exact_numbers,
    is_alone,
    is_exact,
    is_named,
    last_key,
    leaves_doubt,
    memory_leaves_doubt,
    memory_may_be_simulated,
)
from envbuild.verification.files import masks_of
from envbuild.verification.judge import in_one_order
from envbuild.verification.lines import TextDifference, excerpts
from envbuild.verification.masks import PROFILE
from envbuild.verification.measuring import Measuring
from envbuild.verification.printed import rows
from envbuild.verification.tokens import number_of
from envbuild.verification.unmeasured import label_before

if TYPE_CHECKING:
    from envbuild.operations.events import Events
    from envbuild.operations.verify_session import Session
    from envbuild.record.model import Record
    from envbuild.record.printed import Stream
    from envbuild.runs.repeat import Repeated
    from envbuild.runs.request import RunEngine
    from envbuild.verification.clockwork import Setting, When
    from envbuild.verification.content import Content
    from envbuild.verification.doubtful import Number
    from envbuild.verification.printed import Row
    from envbuild.verification.ran import Ran
    from envbuild.verification.verdict import Verdict

_GRACE = 30
"""Seconds that an experiment may take beyond three times as long as a run."""
_FIXED = ("entropy", "addresses", "order")
"""All that can be fixed and makes no measurement the same; figures of the kernel do."""
_SEEDS = ("entropy", "addresses", "clock", "figures")
"""What an order may be drawn from; tasks still race."""
_BUT_ENTROPY = ("addresses", "clock", "figures", "order")
"""With which an order is one that the entropy gives, or always the same."""
_PAIRS = 2
"""Pairs of such runs in which a number has to be the same."""

_FULL = 15
"""Digits of a number that show that it was not rounded to be shown."""
_PLAIN = re.compile(r"\d+(?:\.\d*)?(?:e[-+]?\d{1,3})?|\.\d+", re.IGNORECASE)
_NEAR = 0.01
_MOST = 2000
"""Places of many digits, and of few, of which experiments are made."""
_QUOTED = 3
"""Lines of a stream that are quoted where nothing was decided."""
_NAMES: dict[str, str] = dict(STREAMS.items())
_METRICS = "metrics"

_FOLLOWS = frozenset(("duration", "rate", "reading", "ticks"))
"""What is measured, of the kinds of numbers that follow a clock."""

_ALL = Measuring()
"""What a program can measure of which nothing is known."""

Place = tuple[str, str]
"""A stream or file, and the line and number or the name in it."""


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
    """

    refuted: Refuted | None = None
    measured: frozenset[Place] = frozenset()
    by_luck: frozenset[Stream] = frozenset()


@dataclass(kw_only=True)
class _Left:
    """What runs left out, by place, a value for each run that was looked at.

    Where nothing in the program can measure a time, or memory, no name shows that a number is one.
    """

    session: Session
    measuring: Measuring = _ALL
    streams: list[dict[str, list[Row]]] = field(default_factory=list)
    runs: list[Ran] = field(default_factory=list)

    def take(self, ran: Ran, texts: Mapping[str, bytes]) -> None:
        """Note what a run left."""
        self.runs.append(ran)
        self.streams.append({name: self._rows(ran.record, name, data) for name, data in texts.items()})

    def _rows(self, record: Record, stream: str, data: bytes) -> list[Row]:
        return [*rows(data, masks_of(record, ignored_lines(self.session.ignore, stream)))]

    def values(self, at: int, *, short: bool = False) -> dict[Place, str]:
        """Return the exact numbers in what a run left out; ``short``: those of few digits too."""
        found = {
            (stream, place): number.text
            for stream, lines in self.streams[at].items()
            for row in lines
            for place, number in self._numbers(at, row)
            if short or is_exact(number.text)
        }
        for path, content in self.runs[at].contents.items():
            known = {**content.left_out, **content.numbers}
            found |= {(path, name): known[name] for name in (content.left_out if short else content.exact)}
        found |= {place: text for place, text in self._metrics(at) if short or is_exact(text)}
        return found

    def named(self, at: int) -> Iterator[tuple[Place, str]]:
        """Yield the numbers with names or words before them, of few digits too, in what a run left out."""
        for path, content in self.runs[at].contents.items():
            known = {**content.left_out, **content.numbers}
            names = {*content.short, *self._computed(_plain_times(content)), *self._computed_lines(content)}
            yield from (((path, name), known[name]) for name in names if name in known)
        yield from self._metrics(at)
        for stream, lines in self.streams[at].items():
            for row in lines:
                yield from (
                    ((stream, place), number.text)
                    for place, number in self._numbers(at, row)
                    if row.masked.guessed or is_named(number)
                )

    def doubted(self, at: int) -> Iterator[Place]:
        """Yield the places of a run whose words leave a doubt."""
        masks = masks_of(self.runs[at].record)
        for stream, lines in self.streams[at].items():
            for row in lines:
                # What the line by itself leaves is masked by the head of its column, or of its table.
                shown = "" if row.masked.text == PROFILE else masks.mask(row.text).text
                for place, number in self._numbers(at, row):
                    named = not shown or number.text in shown
                    computed = self._is_computed(label_before(number.before), plain=number.is_plain)
                    alone = row.masked.guessed or is_alone(row.text)
                    if computed or alone or leaves_doubt(number, named=named, cheap=True):
                        yield stream, place
        for path, content in self.runs[at].contents.items():
            yield from ((path, name) for name, doubtful in content.exact.items() if doubtful)
            yield from ((path, name) for name in content.short)
            times = (*_plain_times(content), *_columns(content))
            yield from ((path, name) for name in (*self._computed(times), *self._computed_lines(content)))
        yield from (place for place, _ in self._metrics(at))

    def _metrics(self, at: int) -> Iterator[tuple[Place, str]]:
        """Yield the metrics with one value that are left out by names that results have too."""
        for name, points in self.runs[at].record.metrics.items():
            computed = self._is_computed(label_before(name)) and kind_of(name) in ("time", "rate")
            doubtful = name_leaves_doubt(name) or computed
            if len(points) == 1 and doubtful and is_measured(name, [points[0][1]]):
                yield (_METRICS, name), str(points[0][1])

    def memory(self, at: int) -> Iterator[tuple[Place, str]]:
        """Yield what was left out as memory and may be that of something else: lines and names in files."""
        for stream, lines in self.streams[at].items():
            for row in lines:
                if "memory" in row.masked.kinds and (self._is_amount(at, row) or memory_leaves_doubt(row.text)):
                    yield (stream, f"line {row.number}"), row.text
        for path, content in self.runs[at].contents.items():
            computed = (
                name
                for name in _of_memory(content)
                if not self.measuring.memory or label_before(last_key(name)) in self.measuring.unmeasured
            )
            texts = (
                name
                for name, labels in content.amounts.items()
                if not (self.measuring.memory and self.measuring.unmeasured.isdisjoint(labels))
            )
            names = {*content.memory, *computed, *texts}
            yield from (((path, name), content.left_out[name]) for name in names if name in content.left_out)

    def used(self, at: int) -> Iterator[tuple[Place, str]]:
        """Yield what was left out as memory, and is that of something else if runs are far apart in it."""
        for stream, lines in self.streams[at].items():
            for row in lines:
                if "memory" in row.masked.kinds and memory_may_be_simulated(row.text):
                    yield (stream, f"line {row.number}"), row.text
        for path, content in self.runs[at].contents.items():
            yield from (((path, name), content.numbers[name]) for name in content.used if name in content.numbers)

    def _is_computed(self, label: str, *, plain: bool = True) -> bool:
        """Whether no clock can have given a value behind a word; ``plain``: it is one number."""
        return (plain and not self.measuring.time) or label in self.measuring.unmeasured

    def _computed(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names, of places in files, of values that no clock can have given."""
        yield from (name for name in names if self._is_computed(label_before(last_key(name))))

    def _computed_lines(self, content: Content) -> Iterator[str]:
        """Yield the names of lines of text with a number that no clock can have given."""
        yield from (name for name, labels in content.labels.items() if any(map(self._is_computed, labels)))

    def _is_amount(self, at: int, row: Row) -> bool:
        """Whether nothing that measures memory can have given a number of a line."""
        if not self.measuring.memory:
            return True
        numbers = exact_numbers(row.text, masks_of(self.runs[at].record)) if self.measuring.unmeasured else ()
        return any(label_before(number.before) in self.measuring.unmeasured for number in numbers)

    def difference(self, stream: str, place: str, one: int, other: int) -> TextDifference:
        """Return the line that a place is in, as two runs have it."""
        number = int(place.removeprefix("line ").partition(",")[0])
        before, after = (
            next(row.text for row in self.streams[at][stream] if row.number == number) for at in (one, other)
        )
        return TextDifference(path=stream, line=number, before=before, after=after)

    def _numbers(self, at: int, row: Row) -> Iterator[tuple[str, Number]]:
        """Yield where a number is in a line, and it; lines with more or fewer are other places."""
        if not row.masked.kinds or not row.masked.kinds <= MEASURED:  # memory repeats where addresses do
            return
        for number in exact_numbers(row.text, masks_of(self.runs[at].record)):
            yield f"line {row.number}, number {number.place[0]} of {number.place[1]}", number


def _plain_times(content: Content) -> Iterator[str]:
    """Yield the names of single numbers that were left out as times or rates."""
    yield from (name for name in content.numbers if kind_of(last_key(name)) in ("time", "rate"))


def _columns(content: Content) -> Iterator[str]:
    """Yield the names of several exact numbers that were left out together, as those of a column are."""
    yield from (
        name for name in content.exact if name not in content.numbers and kind_of(last_key(name)) in ("time", "rate")
    )


def _of_memory(content: Content) -> Iterator[str]:
    yield from (name for name in content.left_out if kind_of(last_key(name)) == "memory")


@dataclass(frozen=True, kw_only=True)
class InDoubt:
    """What differs between runs that are equal but for what was left out.

    Attributes:
        left: what that was.
        known: the values of each run.
        places: those that differ.
        doubtful: the places that may be results by their words.
        short: places of such numbers that have few digits, so that experiments show less.
        memory: places of what was left out as memory; no experiments are made of them.
        orders: streams of several processes whose lines came in another order in each run.
        few: those whose lines came in another order in some runs: luck has few orders to choose from, so that none of
            them is shown to be a result.
    """

    left: _Left
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
            moved, where = _first_moved(self.left, stream), ""
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
                yield f"{path}: {name}"
                continue
            lines.add(line)
            quoted[path] += 1
            if quoted[path] > _QUOTED:
                continue
            other = next(at for at, each in enumerate(self.known) if each[path, name] != self.known[0][path, name])
            found = self.left.difference(path, name, 0, other)
            yield f"{_NAMES[path]}, line {found.line}: {' → '.join(shown(*excerpts(found.before, found.after)))}"

    def lines(self, measured: frozenset[Place]) -> frozenset[tuple[str, int]]:
        """Return the streams and lines whose doubtful numbers are all among those that were ``measured``."""
        of_lines: dict[tuple[str, str], list[Place]] = {}
        for path, name in self.places:
            if path in STREAMS and (path, name) in self.doubtful:
                of_lines.setdefault((path, name.partition(",")[0]), []).append((path, name))
        return frozenset(
            (_NAMES[path], int(line.removeprefix("line ")))
            for (path, line), places in of_lines.items()
            if measured.issuperset(places)
        )


def find_doubts(
    session: Session, verdict: Verdict, *, strict: bool = False, measuring: Measuring = _ALL
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
    left = _of_runs(session, verdict, measuring)
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
    memory = [{**few, **sure} for few, sure in zip(used, memory, strict=True)]
    orders = [stream for stream in STREAMS if _in_other_order(left.runs, stream)]
    orders = [stream for stream in orders if not _is_order_of_jobs(left, stream)]
    few = [stream for stream in STREAMS if stream not in orders and _in_other_order(left.runs, stream, few=True)]
    few = [stream for stream in few if not _is_order_of_jobs(left, stream)]
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
    by_luck: frozenset[Stream] = frozenset()
    if doubts.orders:
        refuted, by_luck = _by_entropy(laboratory, doubts)
        if refuted is not None:
            return Decided(refuted=refuted)
        by_luck = _raced(laboratory, by_luck)
    if doubts.few:
        by_luck |= _raced(laboratory, frozenset(doubts.few), pairs=_PAIRS)
    if not doubts.places and not doubts.short:
        return Decided(by_luck=by_luck)
    # What is behind so many stays undecided, and is quoted.
    doubts = replace(doubts, places=doubts.places[:_MOST], short=doubts.short[:_MOST])
    measured, of_clock = _by_fixed_clock(laboratory, doubts)
    if of_clock:
        return Decided(refuted=_refuted(doubts.left, doubts.known, of_clock, ("clock",)), measured=measured)
    differing = [place for place in (*doubts.places, *doubts.short) if place not in measured]
    refuted = _refute(laboratory, doubts, differing) if differing else None
    return Decided(refuted=refuted, measured=measured, by_luck=by_luck)


def _in_other_order(runs: Sequence[Ran], stream: Stream, *, few: bool = False) -> bool:
    """Whether each run has the same lines of a stream in an order of its own: luck has few to choose from otherwise.

    ``few``: some runs have the same order.
    """
    printed = [run.stdout if stream == "stdout" else run.stderr for run in runs]
    if not several_processes(*(run.record for run in runs)) or len({each.unordered for each in printed}) > 1:
        return False
    orders = len({each.sha256 for each in printed})
    return orders > 1 and (few or orders == len(runs))


def _is_order_of_jobs(left: _Left, stream: Stream) -> bool:
    """Whether nothing but lines of Snakemake's jobs came in another order, in runs that started it and left its log.

    Which of the jobs that are ready begins first is drawn (snakemake/scheduling), and which ends first is luck. It
    prints that on standard error; what is on the other stream is the jobs' own.
    """
    if stream != "stderr":
        return False
    project, ignored = left.session.plan.request.project, ignored_lines(left.session.ignore, stream)
    found = []
    for run in left.runs:
        text = kept(project, run.record.id, stream) or b""
        logs = any(is_log_of_jobs(PurePosixPath(output.path)) for output in run.record.outputs)
        runs_jobs = any(is_started_by(process.arguments) for process in run.record.processes)
        if not logs or not runs_jobs or len(text) >= KEPT_TEXT:
            return False
        blocks = without_order(rows(text, masks_of(run.record, ignored)))
        found.append([(row.masked.text, row.blanks) for block in blocks for row in block])
    return all(each == found[0] for each in found)


def _by_entropy(laboratory: Laboratory, doubts: InDoubt) -> tuple[Refuted | None, frozenset[Stream]]:
    """Find streams whose lines come in one order once the system's entropy is fixed: that was no luck of processes.

    A ranking that the first process prints has an order too. What is so in four runs, while it was another one in each
    run before, and still is in two with nothing fixed, depends on what is drawn. Of a few lines these two may have one
    order by chance, so that there are two more then.

    Also return the streams that have several orders with the entropy fixed. Of others, and where a run fails or time is
    up, nothing is known.
    """
    fixed, plain = _Left(session=laboratory.session), _Left(session=laboratory.session)
    orders = [*doubts.orders]
    by_luck: frozenset[Stream] = frozenset()
    for number in range(_PAIRS):
        if not _look(laboratory, fixed, "entropy fixed", ("entropy",), number):
            return None, by_luck
        by_luck = frozenset(stream for stream in doubts.orders if not in_one_order(fixed.runs, stream))
        orders = [stream for stream in orders if stream not in by_luck]
        if not orders:
            return None, by_luck
    for number in range(_PAIRS):
        if not _look(laboratory, plain, "nothing varied", (), number):
            return None, by_luck
        if found := [stream for stream in orders if not in_one_order(plain.runs, stream)]:
            found = _drawn(laboratory, found)
            return _of_orders(doubts, found) if found else None, by_luck
    return None, by_luck


def _drawn(laboratory: Laboratory, orders: Sequence[Stream]) -> list[Stream]:
    """Return the streams whose lines come in several orders though nothing but the entropy is left to decide them."""
    left = _Left(session=laboratory.session)
    for number in range(_PAIRS):
        if not _look(laboratory, left, "all fixed but entropy", _BUT_ENTROPY, number):
            return []
        if found := [stream for stream in orders if not in_one_order(left.runs, stream)]:
            return found
    return []


def _raced(laboratory: Laboratory, streams: frozenset[Stream], pairs: int = 1) -> frozenset[Stream]:
    """Return those whose order is luck of tasks that race, and of nothing else.

    They have several orders with all fixed that a generator may be seeded with, and one order once tasks are done one
    after another as well. A generator may have a seed that nothing fixes, such as the number of a port.

    Args:
        laboratory: makes the runs.
        streams: those to look at.
        pairs: how many pairs of runs are made at most.
    """
    left, in_turn = _Left(session=laboratory.session), _Left(session=laboratory.session)
    found: frozenset[Stream] = frozenset()
    for number in range(pairs):
        if found == streams or not _look(laboratory, left, "all fixed but the order of tasks", _SEEDS, number):
            break
        found = frozenset(stream for stream in streams if not in_one_order(left.runs, stream))
    for number in range(_PAIRS):
        if not found or not _look(laboratory, in_turn, "all fixed", (*_SEEDS, "order"), number):
            return frozenset()
        found = frozenset(stream for stream in found if in_one_order(in_turn.runs, stream))
    return found


def _of_orders(doubts: InDoubt, orders: Sequence[Stream]) -> Refuted:
    """Return that the order of lines is a result."""
    return Refuted(
        places=dict.fromkeys(orders, ("order of lines",)),
        groups=[[at] for at in range(len(doubts.left.runs))],
        texts=[text for stream in orders for text in [_first_moved(doubts.left, stream)] if text is not None],
        proven=("entropy",),
        why="the order of lines is a result: they come in one order when the system's entropy is fixed",
    )


def _first_moved(left: _Left, stream: Stream) -> TextDifference | None:
    """Return the first line of a stream that is another one in the first run that has another order."""
    project, ignored = left.session.plan.request.project, ignored_lines(left.session.ignore, stream)
    first, *others = left.runs
    other = next((run for run in others if not in_one_order((first, run), stream)), others[0])
    before, after = (
        [*rows(kept(project, run.record.id, stream) or b"", masks_of(run.record, ignored))] for run in (first, other)
    )
    return next(
        (
            TextDifference(path=stream, line=one.number, before=one.text, after=other.text)
            for one, other in zip(before, after, strict=False)
            if one.masked.text != other.masked.text
        ),
        None,
    )


def _by_fixed_clock(laboratory: Laboratory, doubts: InDoubt) -> tuple[frozenset[Place], list[Place]]:
    """Return the places that follow a fixed clock exactly: when it begins days later, and goes faster.

    They are in printed lines, and in files that are equal but for what was left out, if they are one plain number.

    What is drawn, or left to luck, is another number in each of these runs, and so is what depends on the date, or on
    how much is done in a time.

    Numbers of few digits are measured if the same clock gives the same ones, wherever it begins, and a fast one gives
    those that are as much larger, or smaller.

    Also return places of numbers that a fixed clock repeats, and that depend on when it begins though they are no date:
    of a generator that the time seeds. How long something takes does not depend on that.
    """
    places = [place for place in doubts.places if place[0] in STREAMS or _is_plain(doubts.known[0][place])]
    places += doubts.short
    left = _Left(session=laboratory.session)
    clocks: list[When] = []

    def look(found: Repeated, ran: Ran, clock: Setting | None) -> None:
        left.take(ran, _printed(found))
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
    begun = [place for place, kind in kinds.items() if kind == "" and _far(values[0][place], values[1][place])]
    follow = [
        at for at in short if values[0][at] == values[1][at] and _goes_faster(values[0][at], values[2][at], now, faster)
    ]
    if not begun and not follow:
        return measured, []
    laboratory.observed(1, "the clock fixed, again", now, look)
    if len(left.runs) != len(clocks) or clocks[-1] != now or not left.runs[-1].ended_well:
        return measured, []
    again = left.values(len(clocks) - 1, short=True)
    measured |= {place for place in follow if again.get(place) == values[0][place]}
    return measured, [place for place in begun if again.get(place) == values[0][place]]


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


def _same_elsewhere(left: _Left, before: _Left, stream: str) -> bool:
    """Whether the last run printed the same lines, or left the same file, but for what is masked and left out."""
    if stream == _METRICS:
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
    repeated, plain = _Left(session=laboratory.session), _Left(session=laboratory.session)
    for number in range(_PAIRS):
        if not _look(laboratory, repeated, "all fixed but the clock", _FIXED, number):
            return None
        differing = _equal_in(repeated, differing)
        if not differing:
            return None
    drawn = _Left(session=laboratory.session)
    by_entropy = _look(laboratory, drawn, "entropy fixed", ("entropy",), 0) and _equal_in(drawn, differing) == differing
    few = {*doubts.short}.intersection(differing)
    if by_entropy or few:
        plain_ran = _look(laboratory, plain, "nothing varied", (), 0)
        still = {*_equal_in(plain, differing)} if plain_ran else {*differing}
        varied = _varied(doubts, plain, few) if plain_ran else frozenset[str]()
        differing = [place for place in differing if place not in few or place[0] in varied]
        by_entropy = by_entropy and bool({*differing} - still)
    if not differing:
        return None
    return _refuted(doubts.left, doubts.known, differing, ("entropy",) if by_entropy else ())


def _varied(doubts: InDoubt, plain: _Left, places: Set[Place]) -> frozenset[str]:
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


def _of_runs(session: Session, verdict: Verdict, measuring: Measuring) -> _Left:
    """Return what the runs that were compared left out, as far as what they printed was kept."""
    left, project = _Left(session=session, measuring=measuring), session.plan.request.project
    for run in session.runs:
        texts: dict[str, bytes] = {}
        for stream in STREAMS:
            channel = verdict.channel(stream)
            if channel is not None and channel.masked and not _only_moved(session.runs, stream):
                text = kept(project, run.record.id, stream) or b""
                texts[stream] = text[: text.rfind(b"\n") + 1] if len(text) >= KEPT_TEXT else text
        left.take(run, texts)
    for stream in STREAMS:
        if several_processes(*(run.record for run in session.runs)) and not in_one_order(session.runs, stream):
            _drop_moved(left, stream)
    return left


def _drop_moved(left: _Left, stream: Stream) -> None:
    """Leave a stream out if a line of one run is elsewhere in another: only settled ones differ at their places."""
    first, *others = ([row.masked.text for row in each.get(stream, [])] for each in left.streams)
    if any(_have_moved(first, other) for other in others):
        for each in left.streams:
            each.pop(stream, None)


def _have_moved(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether a line is in two texts at different places, or one has more lines."""
    if len(one) != len(other):
        return True
    mine, theirs = {*one}, {*other}
    return any(a != b and (a in theirs or b in mine) for a, b in zip(one, other, strict=True))


def _only_moved(runs: Sequence[Ran], stream: Stream) -> bool:
    """Whether runs have lines of a stream in another order, so that a line's number says nothing.

    Where experiments with clocks have shown that what else differs is measured, lines differ and have their places:
    what was left out in the others is still in doubt. Those of several processes may have moved; see ``_drop_moved``.
    """
    printed = [run.stdout if stream == "stdout" else run.stderr for run in runs]
    if in_one_order(runs, stream):
        return False
    return len({each.unordered for each in printed}) == 1


def _look(laboratory: Laboratory, left: _Left, purpose: str, fixed: Sequence[str], number: int) -> bool:
    """Run twice more and note what is left out; False if a run fails or time is up."""

    def look(found: Repeated, ran: Ran) -> None:
        left.take(ran, _printed(found))

    return bool(laboratory.looked_at(2, purpose + (", again" if number else ""), fixed, look))


def _printed(found: Repeated) -> dict[str, bytes]:
    paths = {"stdout": found.output.stdout, "stderr": found.output.stderr}
    return {name: path.read_bytes() if path.is_file() else b"" for name, path in paths.items()}


def _differ(values: Sequence[str]) -> bool:
    """Whether values differ, and not by a midnight between two runs."""
    return any(value != values[0] and not by_midnight(value, values[0]) for value in values)


def _common(values: Sequence[Mapping[Place, str]]) -> Iterable[Place]:
    """Return the places that all runs have."""
    return [place for place in values[0] if all(place in each for each in values[1:])]


def _equal_in(left: _Left, places: Iterable[Place]) -> list[Place]:
    """Return the places that have the same value in all runs that were looked at."""
    values = [left.values(at, short=True) for at in range(len(left.runs))]
    return [place for place in places if len({each.get(place) for each in values}) == 1 and place in values[0]]


def _refuted(
    left: _Left, known: Sequence[Mapping[Place, str]], places: Sequence[Place], proven: Sequence[str]
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
