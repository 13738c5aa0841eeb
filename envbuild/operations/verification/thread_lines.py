"""Shows by experiments that lines came in another order as threads took turns: each line says who printed it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from envbuild.operations.verification.laboratory import LONGEST, Laboratory
from envbuild.operations.verification.session import ignored_lines
from envbuild.record import history
from envbuild.record.compare_printed import only_order_differs, several_processes
from envbuild.record.printed import ANY_ORDER, KEPT_TEXT, STREAMS, kept
from envbuild.verification.files import stream_masks
from envbuild.verification.masking.printed import rows
from envbuild.verification.masking.thread_lines import FIRST, OwnedLine, differ_by_turns_alone, owners

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from envbuild.operations.events import Events
    from envbuild.operations.verification.session import Session
    from envbuild.record.printed import Printed, Stream
    from envbuild.runs.repeat import Repeated
    from envbuild.runs.request import RunEngine
    from envbuild.verification.ran import Ran
    from envbuild.verification.verdict import Verdict

_RUNS = 3
"""Experiments: a line that any of several threads prints has another owner in one of them, nearly always."""
_IN_TURN = {0: 8, 1: 8, 2: 8, 3: 4}
"""Experiments in which nothing but luck is taken away, by how many threads or tasks print: an order that is drawn is
the same in all of these in less than one case of 100."""
_GRACE = 30
"""Seconds that an experiment may take beyond three times as long as a run."""
_PURPOSE = "which thread prints what"


def settle(session: Session, verdict: Verdict, engine: RunEngine, events: Events) -> bool:
    """Take the order of lines for no result where it is shown that threads took turns; return whether that was so.

    Only if nothing else differs. What the first thread prints keeps its order, and so does what each other thread, or
    task of a pool, prints by itself (``masking.thread_lines``). Done one after another, tasks print in one order.

    Args:
        session: runs that differ; what was found is noted in them.
        verdict: on these.
        engine: runs the containers.
        events: receives ``MoreRuns``.
    """
    streams = [stream for stream in STREAMS if _reordered([_printed(run, stream) for run in session.runs])]
    longest = max(run.record.duration or 0.0 for run in session.runs)
    if {channel.kind for channel in verdict.channels if channel.differs} != {*streams} or longest > LONGEST:
        return False
    if several_processes(*(run.record for run in session.runs)):
        return False
    plain = {stream: [_lines(session, run, stream) for run in session.runs] for stream in streams}
    if any(each is None for found in plain.values() for each in found):
        return False
    limit = int(3 * longest) + _GRACE
    bench = _Bench(session, Laboratory(session=session, engine=engine, events=events, limit=limit), streams)
    owned = bench.runs(_RUNS, _PURPOSE, "lines", of_threads=True)
    if owned is None:
        return False
    for stream in streams:
        texts = [each for each in plain[stream] if each is not None]
        if not differ_by_turns_alone(texts, [each[stream] for each in owned]):
            return False
    # Who draws in which order things are done has its tasks take other turns, too.
    several = min(len({line.owner for line in lines} - {FIRST}) for lines in owned[0].values())
    in_turn = bench.runs(_IN_TURN.get(several, _RUNS), "tasks in order", "order")
    if in_turn is None or any(each != in_turn[0] for each in in_turn[1:]):
        return False
    for number, run in session.ran.items():
        session.ran[number] = _in_any_order(session, run, streams)
    return True


class _Bench(NamedTuple):
    """Makes experiments, and reads what they print."""

    session: Session
    laboratory: Laboratory
    streams: Sequence[Stream]

    def runs(
        self, count: int, purpose: str, fixed: str, *, of_threads: bool = False
    ) -> list[Mapping[Stream, Sequence[OwnedLine]]] | None:
        """Return the lines of each stream of some runs; None if one shows nothing, or no line ``of_threads``."""
        made: list[Mapping[Stream, Sequence[OwnedLine]]] = []

        def look(found: Repeated, ran: Ran) -> None:
            files = {"stdout": found.output.stdout, "stderr": found.output.stderr}
            data = {each: files[each].read_bytes() if files[each].is_file() else b"" for each in self.streams}
            lines: dict[Stream, Sequence[OwnedLine]] = {}
            for stream, text in data.items():
                if (owned := _owned(self.session, ran, stream, text)) is not None:
                    lines[stream] = owned
            made.extend([lines] if len(lines) == len(data) else [])

        for number in range(1, count + 1):
            if not self.laboratory.looked_at(1, purpose, (fixed,), look) or len(made) < number:
                return None
            if of_threads and any(all(line.owner == FIRST for line in lines) for lines in made[0].values()):
                return None
        return made


def _reordered(printed: Sequence[Printed]) -> bool:
    first, *others = printed
    different = [each for each in others if each.digest != first.digest]
    return bool(different) and all(only_order_differs(first, each) for each in different)


def _printed(run: Ran, stream: Stream) -> Printed:
    return run.stdout if stream == "stdout" else run.stderr


def _lines(session: Session, run: Ran, stream: Stream) -> list[str] | None:
    """Return the lines of a run as they are compared; None if not all are kept."""
    text = kept(session.plan.request.project, run.record.id, stream)
    if text is None or len(text) >= KEPT_TEXT:
        return None
    masks = stream_masks(run.record, ignored_lines(session.ignore, stream), run.clocks.get(stream))
    return [row.masked.text for row in rows(text, masks) if not row.masked.left_out]


def _owned(session: Session, run: Ran, stream: str, data: bytes) -> list[OwnedLine] | None:
    """Return the lines of an experiment with their owners; None if a line is none of the screen's."""
    text, names = owners(data)
    if b"\x1b[" in text or len(text) >= KEPT_TEXT:  # a cursor that goes up, and the like
        return None
    found = [*rows(text, stream_masks(run.record, ignored_lines(session.ignore, stream)))]
    if len(found) not in (len(names), len(names) - (not names[-1])):
        return None
    pairs = zip(found, names, strict=False)
    return [OwnedLine(owner, row.masked.text) for row, owner in pairs if not row.masked.left_out]


def _in_any_order(session: Session, run: Ran, streams: Sequence[Stream]) -> Ran:
    """Note in a run and its record that the order of lines is no result."""
    changed = {stream: msgspec.structs.replace(_printed(run, stream), threads=ANY_ORDER) for stream in streams}
    printed = {
        stream: msgspec.structs.replace(each, threads=ANY_ORDER) if stream in changed else each
        for stream, each in (run.record.printed or {}).items()
    }
    record = msgspec.structs.replace(run.record, printed=printed or run.record.printed)
    history.save(session.plan.request.project, record)
    return replace(run, record=record, **changed)  # type: ignore[arg-type] # streams are called by their fields
