"""Shows by experiments that runs differ in measurements only: what follows a clock exactly is one.

Runs with the clock fixed have the same results; with the fixed clock at another start, with another tick, and with
both, what was printed and written changes exactly as dates, durations and rates do, and nothing else changes. There
are as many such runs as luck does not explain (``verification.odds``), with runs of the program as it is in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from envbuild.operations.contents import file_of
from envbuild.operations.verification.laboratory import LONGEST, Laboratory
from envbuild.operations.verification.undrawn_names import drawn_by
from envbuild.record.compare_printed import several_processes
from envbuild.verification.measurements.clockwork import SMALL_RATIO, Setting, Span, When, settings
from envbuild.verification.measurements.measured import (
    Seen,
    may_be_drawn,
    may_be_measured,
    measured,
    same_places,
    unchanged,
    with_processes,
)
from envbuild.verification.measurements.tokens import in_order

if TYPE_CHECKING:
    from envbuild.operations.events import Events
    from envbuild.operations.verification.session import Session
    from envbuild.record.model import Output
    from envbuild.runs.repeat import Repeated
    from envbuild.runs.request import RunEngine
    from envbuild.verification.files import FileTable
    from envbuild.verification.masking.masks import Masks
    from envbuild.verification.measurements.measured import Place
    from envbuild.verification.ran import Ran
    from envbuild.verification.verdict import Measured, Verdict

_GRACE = 30
"""Seconds that an experiment may take beyond three times as long as a run."""
_FILES = 200
_OPENED, _PLACE = 256 << 20, 200
"""Characters of the places of files that are kept between experiments, and how many a place counts besides."""
_NAMES = ("the clock fixed", "the clock fixed, later", "the clock fixed, faster", "the clock fixed, later and faster")
_NAMED = 3
"""Names of what differs in the note that says how to leave it out."""
_PAIR = 2
"""Runs with the first clock, before others are tried."""
_KINDS = frozenset(("files", "outside", "metrics", "stdout", "stderr"))


@dataclass(kw_only=True)
class _Bench:
    """The runs so far and what they left.

    Attributes:
        found: each run with its files; None if they are not there any more.
        copies: files of such runs by path, as far as they differ from those of the first one.
        streams: what each run printed.
        clocks: which clock each had.
        known: the fixed clocks.
        slower: those of which the fast ones are not as fast, the others the same; none if they are in use.
        moments: dates are masked where it is known what they are, as usual. A reading of ``perf_counter`` is none with
            the real clock and looks like one with a fixed one: then nothing is masked, and all dates have to be proven.
        days: the same of times of day, with which a number next to them may go.
        alone: by the sources durations are items without a name.
    """

    session: Session
    laboratory: Laboratory
    known: tuple[Setting, ...]
    slower: tuple[Setting, ...] = ()
    alone: bool = False
    ran: list[Ran] = field(default_factory=list)
    found: list[Repeated | None] = field(default_factory=list)
    copies: list[dict[str, bytes]] = field(default_factory=list)
    streams: list[dict[str, bytes]] = field(default_factory=list)
    clocks: list[When] = field(default_factory=list)
    moments: bool = True
    days: bool = True
    _opened: dict[tuple[int, str, bool, bool], Sequence[Place]] = field(default_factory=dict)
    _size: int = 0

    @property
    def fixed(self) -> int:
        """How many runs had a fixed clock."""
        return sum(isinstance(each, Setting) for each in self.clocks)

    def take(self, found: Repeated, ran: Ran, clock: Setting | None, *, stays: bool = False) -> None:
        """Note what a run left; ``stays``: its files do."""
        start = datetime.fromisoformat(ran.record.start.replace("Z", "+00:00")).timestamp()
        names = (("stdout", found.output.stdout), ("stderr", found.output.stderr))
        first = {each.path: each.sha256 for each in _outputs(self.ran[0])} if self.ran else {}
        self.ran.append(ran)
        self.found.append(found if stays else None)
        self.streams.append({name: path.read_bytes() if path.is_file() else b"" for name, path in names})
        self.clocks.append(clock or Span(start, start + (ran.record.duration or 0.0), time.monotonic()))
        changed = [each for each in _outputs(ran) if first.get(each.path) != each.sha256]
        copies = {} if stays else {each.path: file_of(found, each) for each in changed[:_FILES]}
        self.copies.append({path: data for path, data in copies.items() if data is not None})

    def go_slower(self) -> tuple[Setting, ...]:
        """Forget the last run, with which the program failed, and take the clocks that are not as fast; return them."""
        for each in (self.ran, self.found, self.copies, self.streams, self.clocks):
            each.pop()
        self._opened = {key: places for key, places in self._opened.items() if key[0] < len(self.ran)}
        self.known, self.slower = self.slower, ()
        return self.known

    def data(self, at: int, output: Output) -> bytes | None:
        """Return a file of a run, by the run's place; None if it was not read. Of a log it is all files, as one."""
        from envbuild.verification.content.rolling_logs import in_order
        from envbuild.verification.files import parts_of

        content = self.ran[at].contents.get(output.path)
        parts = parts_of({output.path: content}) if content is not None and content.rolls else {}
        older = in_order(each for each in _outputs(self.ran[at]) if each.path in parts)
        if len(older) < len(parts):
            return None
        found = [self._data_of_file(at, each) for each in (*older, output)]
        return b"".join(each for each in found if each is not None) if None not in found else None

    def _data_of_file(self, at: int, output: Output) -> bytes | None:
        if output.path in self.copies[at]:
            return self.copies[at][output.path]
        found = self.found[at]
        if found is not None:
            return file_of(found, output)
        same = [e for e in _outputs(self.ran[0]) if (e.path, e.sha256) == (output.path, output.sha256)]
        return self._data_of_file(0, same[0]) if same else None

    def opened(self, at: int, output: Output, masks: Masks) -> Sequence[Place] | None:
        """Return the places of a file of a run; None if it was not read. A file is opened once if there is space."""
        key = at, output.path, self.moments, self.days
        if key not in self._opened:
            from envbuild.verification.content import leaves

            data = self.data(at, output)
            if data is None:
                return None
            places = leaves(data, masks)
            self._size += sum(len(value) + _PLACE for _, value in places)
            if self._size > _OPENED:
                return places
            self._opened[key] = places
        return self._opened[key]


def settle(session: Session, verdict: Verdict, engine: RunEngine, events: Events) -> tuple[Verdict | None, str]:
    """Return the verdict that runs are identical but for measurements; None if that is not proven.

    If it is not, a sentence names the files that are the same with another clock too; empty if that was not seen.

    Args:
        session: runs that differ, with the copies of those that gave each result.
        verdict: on these.
        engine: runs the containers.
        events: receives ``MoreRuns``.
    """
    from envbuild.operations.verification.divergence import shows_durations
    from envbuild.verification.judge import agree_in_names
    from envbuild.verification.verdict import settled

    note = ""
    if not agree_in_names(session.runs, session.ignore, session.given):
        return None, note
    longest = max(run.record.duration or 0.0 for run in session.runs)
    if longest > LONGEST or any(each.differs for each in verdict.channels if each.kind not in _KINDS):
        return None, note
    laboratory = Laboratory(session=session, engine=engine, events=events, limit=int(3 * longest) + _GRACE)
    alone = shows_durations(session.plan.request.project, session.runs[0].record)
    for all_known in (False, True):
        now = int(time.time())
        known = settings(now, all_known=all_known)
        slower = settings(now, all_known=all_known, ratio=SMALL_RATIO)
        bench = _Bench(session=session, laboratory=laboratory, known=known, slower=slower, alone=alone)
        for group in verdict.groups:
            found = session.repeated(group[0])
            if found.files is None or not found.files.is_dir():
                return None, note
            bench.take(found, session.runs[group[0]], None, stays=True)
        if _view(bench, may_be_measured) is None:
            return None, note
        if places := _experiments(bench):
            return settled(verdict, places, bench.fixed), ""
        note = note or _same_with_other_clock(bench, verdict)
        if bench.fixed > _PAIR + 1 or not _agree(bench) or _view(bench, _may_be_drawn) is None:
            return None, note
    return None, note


def _same_with_other_clock(bench: _Bench, verdict: Verdict) -> str:
    """Say which files are the same with a clock that goes much faster, where others differ; empty if none is known."""
    from envbuild.core.text import plural
    from envbuild.verification.channels import file_table
    from envbuild.verification.masking.ignoring import ignoring

    first, _, faster, _ = bench.known
    if not {first, faster} <= {*bench.clocks} or not _agree(bench):
        return ""
    table = file_table(bench.ran, bench.session.ignore)
    classes = [table.of(run) for run in bench.ran]
    same = [
        name
        for name, kind in classes[0].items()
        if kind is not None and all(each.get(name) == kind for each in classes[1:])
    ]
    others = [(name, each.kind) for each in verdict.channels if each.differs for name in each.names or (each.kind,)]
    if not same or not {name for name, _ in others}.isdisjoint(same):
        return ""
    what = same[0] if len(same) == 1 else plural(len(same), "file")
    ignore = " ".join(ignoring(name, metric=kind == "metrics") for name, kind in others[:_NAMED])
    return (
        f"{what} {'is' if len(same) == 1 else 'are'} the same with a clock that goes {faster.scale:,} times as fast, "
        f"so that no result there depends on the time; if what differs is none, leave it out: {ignore}"
    )


_T = TypeVar("_T")
_MASKED = ((True, True), (False, True), (False, False))
"""Whether dates are masked, and times of day, as it is tried."""


def _view(bench: _Bench, judge: Callable[[Sequence[Seen]], _T | None]) -> _T | None:
    """Judge what the runs left with dates masked, and if that fails, from now on without; then also times of day."""
    for moments, days in _MASKED[_MASKED.index((bench.moments, bench.days)) :]:
        bench.moments, bench.days = moments, days
        runs = _seen(bench)
        if runs is not None and (judged := judge(runs)):
            return judged
    return None


def _experiments(bench: _Bench) -> list[Measured] | None:
    """Make the runs; None as soon as one shows that something differs that is no measurement."""
    from envbuild.verification.causes.odds import MOST

    first, later, faster, both = bench.known
    plan: list[tuple[Setting | None, int]] = [(first, _PAIR), (faster, 1), (None, 1), (later, 1), (both, 1)]
    judge = partial(measured, trained=all(run.steps for run in bench.ran), alone=bench.alone)
    while plan:
        clock, count = plan.pop(0)
        purpose = "nothing fixed" if clock is None else _NAMES[bench.known.index(clock)]
        purpose += ", with entropy and figures" if clock is not None and clock.stream else ""
        before = len(bench.ran)
        bench.laboratory.observed(count, purpose, clock, bench.take)
        if clock == faster and bench.slower and len(bench.ran) == before + count and not bench.ran[-1].ended_well:
            first, later, faster, both = bench.go_slower()
            plan = [(faster, 1), (None, 1), (later, 1), (both, 1)]
            continue
        if len(bench.ran) < before + count or not _agree(bench) or _view(bench, _still_possible) is None:
            return None
        if clock == faster and _view(bench, partial(judge, least=2)) is None:  # the others would not change that
            return None
        if not plan and bench.fixed < (wanted := _wanted(bench)):
            if wanted > MOST:
                return None
            bench.laboratory.take_time()
            plan = [(None, 1), (first, 1), (both, 1)]
    return _view(bench, judge)


def _wanted(bench: _Bench) -> int:
    """Return how many runs with fixed clocks luck does not explain, as far as runs of the program as it is show it."""
    from envbuild.verification.causes.odds import luck_of

    real = [run for run, clock in zip(bench.ran, bench.clocks, strict=True) if isinstance(clock, Span)]
    return luck_of(bench.laboratory.sizes(real)).runs_that_prove()


def _agree(bench: _Bench) -> bool:
    """Whether all runs ended well and are equal in what is no measurement in any case."""
    from envbuild.verification.channels import agree_elsewhere

    return all(each.ended_well for each in bench.ran) and agree_elsewhere(bench.ran, bench.session.ignore)


def _still_possible(runs: Sequence[Seen]) -> bool:
    """Whether all runs have the same places, and those with the same fixed clock are equal."""
    runs, _ = with_processes(runs)
    fixed = [run for run in runs if isinstance(run.when, Setting)]
    equal = all(unchanged(run, next(each for each in fixed if each.when == run.when)) for run in fixed)
    return equal and same_places(runs)


def _may_be_drawn(runs: Sequence[Seen]) -> bool:
    """Whether what differs may be something else than times that can be known too."""
    return may_be_drawn(runs)


def _seen(bench: _Bench) -> list[Seen] | None:
    """Return the places of all runs; None if some file is not in all of them, or was not read."""
    from envbuild.runs.repeat import PRINTED

    tables = _files(bench)
    if tables is None or any(len(data) >= PRINTED for each in bench.streams for data in each.values()):
        return None
    several = several_processes(*(each.record for each in bench.ran))
    for name in ("stdout", "stderr"):
        if name not in bench.session.ignore:
            lines = [_lines(bench, at, name) for at in range(len(tables))]
            if several:  # they may come in any order
                lines = in_order([*zip(bench.clocks, lines, strict=True)])
            for sources, each in zip(tables, lines, strict=True):
                sources[name] = [(f"line {number}", text) for number, text in enumerate(each, 1)]
    found = []
    for at, sources in enumerate(tables):
        sources["metrics"] = [*_metrics(bench, at)]
        whole = partial(_whole, bench, at, frozenset(sources))
        found.append(Seen(when=bench.clocks[at], sources=sources, drawn=drawn_by(bench.ran[at]), whole=whole))
    return found


def _whole(bench: _Bench, at: int, sources: frozenset[str]) -> dict[str, Sequence[Place]]:
    """Return the places of a run in streams, and in files that differ, with nothing masked in them."""
    from envbuild.verification.content import wholes
    from envbuild.verification.files import masks_of

    found: dict[str, Sequence[Place]] = {
        name: [(f"line {number}", text) for number, text in enumerate(data.decode("utf-8", "replace").split("\n"), 1)]
        for name, data in bench.streams[at].items()
        if name in sources
    }
    masks = masks_of(bench.ran[at].record, moments=bench.moments, days=bench.days)
    for output in _outputs(bench.ran[at]):
        data = bench.data(at, output) if output.path in sources else None
        if data is not None:
            found[output.path] = wholes(data, masks)
    return found


def _files(bench: _Bench) -> list[dict[str, Sequence[Place]]] | None:
    """Return the places in the files that are not known to be equal, of each run."""
    from envbuild.verification.channels import agree_outside, file_table, outside_table

    ran, ignore = bench.ran, bench.session.ignore
    tables = [file_table(ran, ignore), *([] if agree_outside(ran, ignore) else [outside_table(ran, ignore)])]
    found: list[dict[str, Sequence[Place]]] = [{} for _ in ran]
    for table in tables:
        places = _files_in(bench, table)
        if places is None:
            return None
        for each, more in zip(found, places, strict=True):
            each |= more
    return found


def _files_in(bench: _Bench, table: FileTable) -> list[dict[str, Sequence[Place]]] | None:
    from envbuild.verification.content import leaves_noted
    from envbuild.verification.files import masks_of

    names = [{*table.of(run)} for run in bench.ran]
    in_doubt = dict.fromkeys(path for _, path in table.in_doubt())
    wanted = [name for name in names[0] if _path(table, bench.ran[0], name) in in_doubt]
    if any(each != names[0] for each in names) or len(wanted) > _FILES or not _only_lists(bench, table, wanted):
        return None
    found: list[dict[str, Sequence[Place]]] = [{} for _ in bench.ran]
    for name in wanted:
        outputs = [table.output(run, name) for run in bench.ran]
        contents = (table.content(run, name) for run in bench.ran)
        if not table.is_one_log(name) or any(each is not None and each.parts and not each.rolls for each in contents):
            return None  # what is in other files is not among the places
        bare = {output.bare if output is not None else "" for output in outputs}
        for at, (run, output) in enumerate(zip(bench.ran, outputs, strict=True)):
            masks = masks_of(run.record, moments=bench.moments, days=bench.days)
            if output is not None and output.bare and len(bare) == 1:
                found[at][name] = leaves_noted(output.bare, output.notes, masks)
                continue
            opened = bench.opened(at, output, masks) if output is not None else None
            if opened is None:
                return None
            found[at][name] = opened
    return found


def _path(table: FileTable, run: Ran, name: str) -> str:
    output = table.output(run, name)
    return output.path if output is not None else ""


def _only_lists(bench: _Bench, table: FileTable, names: Sequence[str]) -> bool:
    """Whether the arrays of saved models that differ have one dimension at most: others are no measurements."""
    from envbuild.record.compare_outputs import different_tensors

    for name in names:
        first, *others = (output for run in bench.ran if (output := table.output(run, name)) is not None)
        for other in others:
            for tensor in different_tensors(first, other):
                shapes = [each.tensors[tensor].shape for each in (first, other) if tensor in each.tensors]
                if len(shapes) < 2 or any(len(shape) > 1 for shape in shapes):
                    return False
    return True


def _lines(bench: _Bench, at: int, name: str) -> list[str]:
    """Return the lines of a stream, what is masked in them left out."""
    from envbuild.operations.verification.session import ignored_lines
    from envbuild.verification.files import masks_of
    from envbuild.verification.masking.printed import rows

    ignored = ignored_lines(bench.session.ignore, name)
    masks = masks_of(bench.ran[at].record, ignored, moments=bench.moments, days=bench.days)
    return [row.masked.text for row in rows(bench.streams[at][name], masks) if not row.masked.left_out]


def _metrics(bench: _Bench, at: int) -> Iterator[Place]:
    """Yield what a run measured, value by value."""
    from envbuild.verification.channels import metrics_of

    for name, points in sorted(metrics_of(bench.ran[at], bench.session.ignore).items()):
        for number, point in enumerate(points):
            yield f"{name}[{number}] step", repr(point[0])
            yield name, repr(point[1])


def _outputs(run: Ran) -> tuple[Output, ...]:
    return *run.record.outputs, *run.record.outside
