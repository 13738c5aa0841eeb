"""What runs left out as measurements by its name or unit: numbers in printed lines, files and metrics, by place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envbuild.core.patterns import lazy
from envbuild.operations.verification.session import ignored_lines
from envbuild.record.compare_printed import several_processes
from envbuild.record.measurements import is_measured, kind_of, name_leaves_doubt
from envbuild.record.printed import KEPT_TEXT, STREAMS, kept
from envbuild.verification.dataflow.measuring import Measuring
from envbuild.verification.dataflow.pauses import are_of_pauses
from envbuild.verification.dataflow.unmeasured import label_before, labels_of_moment, pair_before
from envbuild.verification.files import masks_of, stream_masks
from envbuild.verification.judge import in_one_order
from envbuild.verification.masking.doubtful import (
    MEASURED,
    all_numbers,
    exact_numbers,
    is_alone,
    is_dated,
    is_exact,
    is_named,
    last_key,
    leaves_doubt,
    memory_leaves_doubt,
    memory_may_be_simulated,
)
from envbuild.verification.masking.lines import TextDifference
from envbuild.verification.masking.masks import PROFILE
from envbuild.verification.masking.printed import rows
from envbuild.verification.masking.screen import is_in_bar

if TYPE_CHECKING:
    from envbuild.operations.verification.laboratory import Laboratory
    from envbuild.operations.verification.session import Session
    from envbuild.record.printed import Stream
    from envbuild.runs.repeat import Repeated
    from envbuild.verification.content import Content
    from envbuild.verification.masking.doubtful import Number
    from envbuild.verification.masking.masks import Masks
    from envbuild.verification.masking.printed import Row
    from envbuild.verification.ran import Ran
    from envbuild.verification.verdict import Verdict

_FRACTION = lazy(r"\d\d:\d\d:\d\d[.,]\d{3,}")
"""A time of day with what may be a part of a second."""
_BY_OTHERS = frozenset(("t", "dur", "ups", "speed", "pred_time"))
"""Names of times and rates by those next to them (``content.values``)."""
METRICS = "metrics"
"""Represents metrics among the names of streams and files."""
ALL = Measuring()
"""What a program can measure of which nothing is known."""

Place = tuple[str, str]
"""A stream or file, and the line and number or the name in it."""


@dataclass(kw_only=True)
class LeftOut:
    """What runs left out, by place, a value for each run that was looked at.

    Where nothing in the program can measure a time, or memory, no name shows that a number is one.
    """

    session: Session
    measuring: Measuring = ALL
    streams: list[dict[str, list[Row]]] = field(default_factory=list)
    runs: list[Ran] = field(default_factory=list)
    _masks: dict[int, Masks] = field(default_factory=dict)

    def take(self, ran: Ran, texts: Mapping[str, bytes]) -> None:
        """Note what a run left."""
        self.runs.append(ran)
        self.streams.append({name: self._rows(ran, name, data) for name, data in texts.items()})

    def look(self, laboratory: Laboratory, purpose: str, fixed: Sequence[str], number: int) -> bool:
        """Run twice more and note what is left out; False if a run fails or time is up."""

        def note(found: Repeated, ran: Ran) -> None:
            self.take(ran, printed_by(found))

        return bool(laboratory.looked_at(2, purpose + (", again" if number else ""), fixed, note))

    def _rows(self, ran: Ran, stream: str, data: bytes) -> list[Row]:
        ignored = ignored_lines(self.session.ignore, stream)
        return [*rows(data, stream_masks(ran.record, ignored, ran.clocks.get(stream)))]

    def _masks_of(self, at: int) -> Masks:
        """Return the masks of a run, made once: they know its files, of which there may be thousands."""
        if at not in self._masks:
            self._masks[at] = masks_of(self.runs[at].record)
        return self._masks[at]

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
            known = {**content.left_out, **content.series, **content.numbers}
            found |= {(path, name): known[name] for name in (content.left_out if short else content.exact)}
        found |= {place: text for place, text in self._metrics(at) if short or any(map(is_exact, text.split(" ")))}
        return found

    def named(self, at: int) -> Iterator[tuple[Place, str]]:
        """Yield the numbers with names or words before them, of few digits too, in what a run left out."""
        for path, content in self.runs[at].contents.items():
            known = {**content.left_out, **content.series, **content.numbers}
            times = (*_plain_times(content), *_short_columns(content))
            names = {*content.short, *self._computed(times), *self._computed_lines(content)}
            yield from (((path, name), known[name]) for name in names if name in known)
        yield from self._metrics(at)
        for stream, lines in self.streams[at].items():
            for row in lines:
                yield from (
                    ((stream, place), number.text)
                    for place, number in self._numbers(at, row)
                    if row.masked.guessed
                    or is_named(number)
                    or self._is_computed(*self._labels(number), plain=number.is_plain)
                )

    def doubted(self, at: int) -> Iterator[Place]:
        """Yield the places of a run whose words leave a doubt."""
        masks = self._masks_of(at)
        for stream, lines in self.streams[at].items():
            for row in lines:
                # What the line by itself leaves is masked by the head of its column, or of its table.
                shown = "" if row.masked.text == PROFILE else masks.mask(row.text).text
                for place, number in self._numbers(at, row):
                    if self._is_pause(number):
                        continue
                    named = not shown or number.text in shown
                    computed = self._is_computed(*self._labels(number), plain=number.is_plain)
                    alone = row.masked.guessed or is_alone(row.text)
                    if computed or alone or leaves_doubt(number, named=named, cheap=True):
                        yield stream, place
        for path, content in self.runs[at].contents.items():
            times = (*_plain_times(content), *_columns(content), *_short_columns(content))
            exact = (name for name, doubtful in content.exact.items() if doubtful)
            names = (*exact, *content.short, *self._computed(times), *self._computed_lines(content))
            yield from ((path, name) for name in names if not self._are_pauses(content, name))
        yield from (place for place, _ in self._metrics(at))

    def _metrics(self, at: int) -> Iterator[tuple[Place, str]]:
        """Yield the metrics that are left out by names that results have too: with one value, or that no clock gave."""
        for name, points in self.runs[at].record.metrics.items():
            computed = self._is_computed(label_before(name)) and kind_of(name) in ("time", "rate")
            doubtful = computed or (len(points) == 1 and name_leaves_doubt(name))
            if doubtful and is_measured(name, [value for _, value in points]):
                yield (METRICS, name), " ".join(str(value) for _, value in points)

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
                if self._any_amount or label_before(last_key(name)) in self.measuring.unmeasured
            )
            texts = (
                name
                for name, labels in content.amounts.items()
                if self._any_amount or not self.measuring.unmeasured.isdisjoint(labels)
            )
            names = {*content.memory, *computed, *texts}
            yield from (((path, name), content.left_out[name]) for name in names if name in content.left_out)

    def moments(self, at: int) -> Iterator[tuple[Place, str]]:
        """Yield the moments that were left out and have something drawn in them: numbers in lines, and names in files.

        Of durations and rates experiments are made, where their names leave a doubt.
        """
        if not self.measuring.shifted and not self.measuring.glued:
            return
        masks = self._masks_of(at)
        for stream, lines in self.streams[at].items():
            for row in lines:
                for number, (before, text) in enumerate(all_numbers(row.text) if "times" in row.masked.kinds else ()):
                    if not labels_of_moment(before).isdisjoint(self.measuring.shifted) and is_dated(text, masks):
                        yield (stream, f"line {row.number}, value {number}"), text
                if self.measuring.glued and "times" in row.masked.kinds:
                    for number, found in enumerate(_FRACTION.finditer(row.text)):
                        yield (stream, f"line {row.number}, fraction {number}"), found[0]
        for path, content in self.runs[at].contents.items():
            for name, digest in content.left_out.items():
                dated = content.dated.get(name, frozenset())
                if (dated and self.measuring.glued) or not dated.isdisjoint(self.measuring.shifted):
                    yield (path, name), digest
                elif (key := label_before(last_key(name))) in self.measuring.shifted and (key or not dated):
                    plain = content.numbers.get(name)  # a date in words has its digest alone
                    if plain is None or is_dated(plain, masks):
                        yield (path, name), plain or digest

    def pauses(self, at: int) -> Iterator[tuple[Place, str]]:
        """Yield the pauses that were left out: lines with numbers that are slept and printed, and nothing else."""
        if not self.measuring.paused:
            return
        for stream, lines in self.streams[at].items():
            for row in lines:
                yield from (
                    ((stream, place), number.text) for place, number in self._numbers(at, row) if self._is_pause(number)
                )
        for path, content in self.runs[at].contents.items():
            names = (name for name in content.labels if self._are_pauses(content, name))
            yield from (((path, name), content.left_out[name]) for name in names if name in content.left_out)

    def _is_pause(self, number: Number) -> bool:
        """Whether the sources show that a number is a pause by the words before it."""
        labels = label_before(number.before), pair_before(number.before)
        return number.is_plain and are_of_pauses(labels, self.measuring.paused)

    def _are_pauses(self, content: Content, name: str) -> bool:
        """Whether all numbers that were left out of a line of a file are pauses."""
        return are_of_pauses(content.labels.get(name, ()), self.measuring.paused)

    def used(self, at: int) -> Iterator[tuple[Place, str]]:
        """Yield what was left out as memory, and is that of something else if runs are far apart in it."""
        for stream, lines in self.streams[at].items():
            for row in lines:
                if "memory" in row.masked.kinds and memory_may_be_simulated(row.text):
                    yield (stream, f"line {row.number}"), row.text
        for path, content in self.runs[at].contents.items():
            yield from (((path, name), content.numbers[name]) for name in content.used if name in content.numbers)

    def _labels(self, number: Number) -> tuple[str, str]:
        """Return the word that names a number, and the two words; those of a tqdm bar name what is counted."""
        row, place = number.before + number.text + number.behind, len(number.before)
        if not self.measuring.draws_bars and is_in_bar(row, place):
            return "", ""
        return label_before(number.before), pair_before(number.before)

    def _is_computed(self, label: str, pair: str = "", *, plain: bool = True) -> bool:
        """Whether no clock can have given a value behind a word, or two; ``plain``: it is one number.

        Where a generator has no seed, it may have given any number behind a word: names are followed by their letters.
        """
        drawn = self.measuring.draws and bool(label)
        if plain and (drawn or not self.measuring.time):
            return True
        return not {label, pair}.isdisjoint(self.measuring.unmeasured)

    @property
    def _any_amount(self) -> bool:
        """Whether any amount of memory may be a result: nothing asks for it, or a generator has no seed."""
        return self.measuring.draws or not self.measuring.memory

    def _computed(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names, of places in files, of values that no clock can have given."""
        yield from (name for name in names if self._is_computed(label_before(last_key(name))))

    def _computed_lines(self, content: Content) -> Iterator[str]:
        """Yield the names of lines of text with a number that no clock can have given."""
        yield from (name for name, labels in content.labels.items() if any(map(self._is_computed, labels)))

    def _is_amount(self, at: int, row: Row) -> bool:
        """Whether nothing that measures memory can have given a number of a line."""
        if self._any_amount:
            return True
        numbers = exact_numbers(row.text, self._masks_of(at)) if self.measuring.unmeasured else ()
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
        for number in exact_numbers(row.text, self._masks_of(at)):
            yield f"line {row.number}, number {number.place[0]} of {number.place[1]}", number


def _is_timed(name: str) -> bool:
    """Whether a place has the name of a time or a rate: one for itself, or next to those of ``values.number``."""
    key = last_key(name)
    return kind_of(key) in ("time", "rate") or key in _BY_OTHERS


def _plain_times(content: Content) -> Iterator[str]:
    """Yield the names of single numbers that were left out as times or rates."""
    yield from (name for name in content.numbers if _is_timed(name))


def _columns(content: Content) -> Iterator[str]:
    """Yield the names of several exact numbers that were left out together, as those of a column are."""
    yield from (name for name in content.exact if name not in content.numbers and _is_timed(name))


def _short_columns(content: Content) -> Iterator[str]:
    """Yield the names of several numbers of few digits in all that were left out together."""
    yield from (name for name in content.series if name not in content.exact and _is_timed(name))


def _of_memory(content: Content) -> Iterator[str]:
    yield from (name for name in content.left_out if kind_of(last_key(name)) == "memory")


def left_out_of(session: Session, verdict: Verdict, measuring: Measuring) -> LeftOut:
    """Return what the runs that were compared left out, as far as what they printed was kept."""
    left, project = LeftOut(session=session, measuring=measuring), session.plan.request.project
    for run in session.runs:
        texts: dict[str, bytes] = {}
        for stream in STREAMS:
            channel = verdict.channel(stream)
            if channel is not None and channel.masked and not only_moved(session.runs, stream):
                text = kept(project, run.record.id, stream) or b""
                texts[stream] = text[: text.rfind(b"\n") + 1] if len(text) >= KEPT_TEXT else text
        left.take(run, texts)
    for stream in STREAMS:
        if several_processes(*(run.record for run in session.runs)) and not in_one_order(session.runs, stream):
            drop_moved(left, stream)
    return left


def drop_moved(left: LeftOut, stream: Stream) -> None:
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


def only_moved(runs: Sequence[Ran], stream: Stream) -> bool:
    """Whether runs have lines of a stream in another order, so that a line's number says nothing.

    Where experiments with clocks have shown that what else differs is measured, lines differ and have their places:
    what was left out in the others is still in doubt. Those of several processes may have moved; see ``drop_moved``.
    """
    printed = [run.stdout if stream == "stdout" else run.stderr for run in runs]
    if in_one_order(runs, stream):
        return False
    return len({each.unordered for each in printed}) == 1


def printed_by(found: Repeated) -> dict[str, bytes]:
    """Return what a run of an experiment printed, by stream."""
    paths = {"stdout": found.output.stdout, "stderr": found.output.stderr}
    return {name: path.read_bytes() if path.is_file() else b"" for name, path in paths.items()}
