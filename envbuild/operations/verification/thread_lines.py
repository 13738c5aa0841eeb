"""Shows by experiments that lines came in another order as threads took turns: each line says who wrote it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from envbuild.operations.verification.laboratory import LONGEST, Laboratory
from envbuild.operations.verification.session import ignored_lines
from envbuild.record import history
from envbuild.record.compare_printed import several_processes
from envbuild.record.printed import ANY_ORDER, KEPT_TEXT, STREAMS, kept
from envbuild.verification.channels import file_table
from envbuild.verification.dataflow.pool_names import pool_names
from envbuild.verification.files import masks_of, stream_masks
from envbuild.verification.masking.ordinals import MARK
from envbuild.verification.masking.printed import rows
from envbuild.verification.masking.thread_lines import (
    FIRST,
    ORDER,
    OwnedLine,
    differ_by_turns_alone,
    owners,
    without_ordinals,
)

if TYPE_CHECKING:
    from envbuild.operations.events import Events
    from envbuild.operations.verification.session import Session
    from envbuild.record.model import Output
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
_FILES = 8
"""Logs that are looked at."""
_LINE = "line "
_UTF = ("utf-8", "surrogatepass")


def settle(session: Session, verdict: Verdict, engine: RunEngine, events: Events) -> bool:
    """Take the order of lines for no result where it is shown that threads took turns; return whether that was so.

    Of what the program printed, and of files that Python's logging wrote, if nothing else differs. What the first
    thread writes keeps its order, and so does what each other thread, or task of a pool, writes by itself
    (``masking.thread_lines``). Done one after another, tasks write in one order.

    Args:
        session: runs that differ; what was found is noted in them.
        verdict: on these.
        engine: runs the containers.
        events: receives ``MoreRuns``.
    """
    streams = [stream for stream in STREAMS if _may_be_reordered([_printed(run, stream) for run in session.runs])]
    files = verdict.channel("files")
    names = files.names if files is not None and files.differs else ()
    longest = max(run.record.duration or 0.0 for run in session.runs)
    if {each.kind for each in verdict.channels if each.differs} != {*streams, *(("files",) if names else ())}:
        return False
    from envbuild.operations.verification.divergence import sources_of

    if longest > LONGEST or len(names) > _FILES or several_processes(*(run.record for run in session.runs)):
        return False
    project = session.plan.request.project
    workers = pool_names(sources_of(project, session.runs[0].record).values()) if names else None
    plain = _of_runs(session, streams, names, workers)
    if plain is None or any(sorted(each) != sorted(lines[0]) for lines in plain.values() for each in lines[1:]):
        return False
    limit = int(3 * longest) + _GRACE
    laboratory = Laboratory(session=session, engine=engine, events=events, limit=limit)
    bench = _Bench(session=session, laboratory=laboratory, streams=streams, names=names, workers=workers)
    owned = bench.runs(_RUNS, _PURPOSE, "lines", of_threads=True)
    if owned is None:
        return False
    for place in owned[0]:
        if not differ_by_turns_alone(plain[place], [each[place] for each in owned]):
            return False
    # Who draws in which order things are done has its tasks take other turns, too.
    several = min(len({line.owner for line in lines} - {FIRST}) for lines in owned[0].values())
    in_turn = bench.runs(_IN_TURN.get(several, _RUNS), "tasks in order", "order", varied=True)
    if in_turn is None or any(each != in_turn[0] for each in in_turn[1:]):
        return False
    table = file_table(session.runs, session.ignore)
    digests = {name: _digest(plain[name][0]) for name in names}
    numbered = {stream for stream in streams if len({_printed(run, stream).unordered for run in session.runs}) > 1}
    lines = {stream: _digest(plain[stream][0]) for stream in numbered}
    changed = []
    for run in session.runs:
        outputs = {name: table.output(run, name) for name in names}
        of_run = {each.path: digests[name] for name, each in outputs.items() if each is not None}
        changed.append(_in_any_order(session, run, streams, lines, of_run))
    session.ran.update(zip(sorted(session.ran), changed, strict=True))
    return True


@dataclass(frozen=True, kw_only=True)
class _Bench:
    """Makes experiments, and reads what they print and log.

    Attributes:
        streams, names: whose lines are looked at; files by the names that they have in all runs.
        workers: names of threads that lines of files may have.
    """

    session: Session
    laboratory: Laboratory
    streams: Sequence[Stream]
    names: Sequence[str]
    workers: re.Pattern[str] | None

    def runs(
        self, count: int, purpose: str, fixed: str, *, of_threads: bool = False, varied: bool = False
    ) -> list[Mapping[str, Sequence[OwnedLine]]] | None:
        """Return the lines of some runs by stream or file; None if one shows nothing, or no line ``of_threads``.

        ``varied``: in every second of them what a further run of the program has otherwise, such as listings.
        """
        made: list[Mapping[str, Sequence[OwnedLine]]] = []

        def look(found: Repeated, ran: Ran) -> None:
            lines: dict[str, Sequence[OwnedLine]] = {}
            printed = {"stdout": found.output.stdout, "stderr": found.output.stderr}
            for stream in self.streams:
                data = printed[stream].read_bytes() if printed[stream].is_file() else b""
                ignored = ignored_lines(self.session.ignore, stream)
                text, names = owners(data)
                found_rows = [*rows(text, stream_masks(ran.record, ignored))] if b"\x1b[" not in text else []
                if len(found_rows) in (len(names), len(names) - (not names[-1])):
                    texts = without_ordinals(row.masked.text for row in found_rows)
                    pairs = zip(names, found_rows, texts, strict=False)
                    lines[stream] = [OwnedLine(name, text) for name, row, text in pairs if not row.masked.left_out]
            table = file_table([*self.session.runs, ran], self.session.ignore)
            for name in self.names:
                output = table.output(ran, name)
                owned = _owned_in(found, ran, output, self.workers) if output is not None else None
                if owned is not None:
                    lines[name] = owned
            made.extend([lines] if len(lines) == len(self.streams) + len(self.names) else [])

        for number in range(1, count + 1):
            others = sorted(self.session.plan.vary) if varied and number % 2 == 0 else ()
            if not self.laboratory.looked_at(1, purpose, (fixed,), look, others) or len(made) < number:
                return None
            if of_threads and any(map(_of_first, made[0].values())):
                return None
        return made


def _of_first(lines: Sequence[OwnedLine]) -> bool:
    """Whether the first thread wrote all lines, and none of them says its place."""
    return all(line.owner == FIRST and MARK not in line.text for line in lines)


def _may_be_reordered(printed: Sequence[Printed]) -> bool:
    """Whether streams differ, and have as many lines: which these are is compared without numbers of their places."""
    return len({each.digest for each in printed}) > 1 and len({(each.lines, each.rest) for each in printed}) == 1


def _printed(run: Ran, stream: Stream) -> Printed:
    return run.stdout if stream == "stdout" else run.stderr


def _of_runs(
    session: Session, streams: Sequence[Stream], names: Sequence[str], workers: re.Pattern[str] | None
) -> dict[str, list[list[str]]] | None:
    """Return the lines of each run as they are compared, by stream or file; None if not all are there."""
    found: dict[str, list[list[str]]] = {}
    for stream in streams:
        texts = [kept(session.plan.request.project, run.record.id, stream) for run in session.runs]
        if any(text is None or len(text) >= KEPT_TEXT for text in texts):
            return None
        ignored = ignored_lines(session.ignore, stream)
        masks = [stream_masks(run.record, ignored, run.clocks.get(stream)) for run in session.runs]
        found[stream] = [
            without_ordinals(row.masked.text for row in rows(text or b"", each) if not row.masked.left_out)
            for text, each in zip(texts, masks, strict=True)
        ]
    table, known = file_table(session.runs, session.ignore), dict[tuple[str, str | None], list[str]]()
    for name in names:
        lines: list[list[str]] = []
        for at, run in enumerate(session.runs):
            output = table.output(run, name)
            if output is None:
                return None
            owned = _owned_in(session.repeated(at), run, output, workers)
            if owned is not None:
                known[name, output.sha256] = [line.text for line in owned]
            if (name, output.sha256) not in known:
                return None
            lines.append(known[name, output.sha256])  # of a run with the same bytes, where this one's are gone
        found[name] = lines
    return found


def _owned_in(found: Repeated, run: Ran, output: Output, workers: re.Pattern[str] | None) -> list[OwnedLine] | None:
    """Return the lines of a file of a run, each with its owner; None if it is gone, or is no text of lines.

    ``workers``: names of threads, of which lines have a mark then.
    """
    from envbuild.operations.contents import file_of
    from envbuild.verification.content import leaves

    data = file_of(found, output) if found.files is not None else None
    if data is None or len(data) >= KEPT_TEXT:
        return None
    text, names = owners(data)
    texts: dict[str, str] = {}
    for place, value in leaves(text, masks_of(run.record)):
        if not isinstance(value, str) or not place.startswith(_LINE):
            return None
        texts[place] = texts.get(place, "") + value
    numbers = [*range(1, len(names) + bool(names[-1]))]
    if [*texts] != [f"{_LINE}{number}" for number in numbers]:
        return None
    lines = texts.values() if workers is None else [workers.sub("⟨worker⟩", each) for each in texts.values()]
    return [OwnedLine(name, each) for name, each in zip(names, without_ordinals(lines), strict=False)]


def _digest(lines: Sequence[str]) -> str:
    """Return a digest that does not depend on the order of lines."""
    return hashlib.sha256("\n".join(sorted(lines)).encode(*_UTF)).hexdigest()


def _in_any_order(
    session: Session, run: Ran, streams: Sequence[Stream], lines: Mapping[Stream, str], digests: Mapping[str, str]
) -> Ran:
    """Note in a run and its record that the order of lines is no result.

    Args:
        session: the verification.
        run: one of its runs.
        streams: whose lines came in any order.
        lines: digests of those that say their own places, without these.
        digests: of files' lines, by path.
    """

    def settled(stream: Stream, each: Printed) -> Printed:
        return msgspec.structs.replace(each, threads=ANY_ORDER, unordered=lines.get(stream, each.unordered))

    changed = {stream: settled(stream, _printed(run, stream)) for stream in streams}
    printed = {
        stream: settled(stream, each) if stream in changed else each
        for stream, each in (run.record.printed or {}).items()
    }
    record = msgspec.structs.replace(run.record, printed=printed or run.record.printed)
    history.save(session.plan.request.project, record)
    contents = dict(run.contents)
    for path, digest in digests.items():
        content = run.contents[path]
        contents[path] = msgspec.structs.replace(
            content, digest=digest, left_out={ORDER: content.digest, **content.left_out}
        )
    return replace(run, record=record, contents=contents, **changed)  # type: ignore[arg-type] # streams by their fields
