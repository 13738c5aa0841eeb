"""The results of two runs: how they ended, what they measured, and what they left."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from envbuild.core.text import plain, plural
from envbuild.difference.finding import CERTAIN, NOWHERE, Finding, Outcome, PrintedLine, changed
from envbuild.difference.text import digest, numbers, shown, some
from envbuild.record.compare_outputs import attributes, different_tensors, folders_and_modes, not_looked_at, unread
from envbuild.record.compare_outputs import compare as different_files
from envbuild.record.compare_printed import compare_printed
from envbuild.record.measurements import is_measured
from envbuild.record.model import Output, Point, Record
from envbuild.record.printed import STREAMS, Printed, Stream, measured_in, printed_anything

_WEIGHT = 100
_WITH_TIMES = (
    *(".ipynb", ".pdf", ".xlsx", ".zip", ".gz"),
    *(".json", ".jsonl", ".csv", ".tsv", ".txt", ".log", ".yaml", ".yml", ".xml", ".html", ".md", ".db", ".sqlite"),
    *(".pkl", ".pickle", ".joblib", ".parquet", ".feather", ".arrow"),
)
"""Suffixes of formats that keep when they were written, and of those in which programs note times themselves; records
have digests of such a file's bytes only."""


def results(a: Record, b: Record, lines: Mapping[Stream, PrintedLine] | None = None) -> tuple[Finding, ...]:
    """Return what differs: the end of the runs, metrics, files, printed lines. Runs that never ended have no results.

    Args:
        a, b: the runs.
        lines: the first lines at which streams differ, as far as they are known.
    """
    if not (_ended(a) and _ended(b)):
        return ()
    return (*_ends(a, b), *_metrics(a, b), *_files(a, b), *_printed(a, b, lines or {}))


def outcome(a: Record, b: Record) -> Outcome:
    """Return whether two runs gave the same."""
    if not (_ended(a) and _ended(b)):
        return "unknown"
    if results(a, b):
        return "different"
    lines = compare_printed(a, b)
    if unread(a) or lines.undecided:
        return "unknown"
    if a.outputs or a.outside or a.deleted or a.folders or _measured(a):
        return "equal"
    return "equal" if printed_anything(a.printed) and not lines.unknown else "unknown"


def verdict(a: Record, b: Record, causes: Sequence[Finding]) -> str:
    """Describe in a sentence how the results compare; different ones only where no cause is reason enough."""
    for side, record in (("A", a), ("B", b)):
        if not _ended(record):
            return f"{side} has no results: {_why(record)}"
    sentence = outcome(a, b)
    if sentence == "unknown" and unread(a):
        rest = "all else is equal" if _left_anything(a) or printed_anything(a.printed) else "there is nothing else"
        return f"not known: {some(unread(a))} could not be read in either run; {rest}"
    if sentence == "unknown":
        phrases = compare_printed(a, b).unknown if printed_anything(a.printed) or printed_anything(b.printed) else ()
        if not phrases:
            return "nothing to compare: neither run left outputs or metrics"
        return f"not known: {phrases[0]}" + ("; all else is equal" if _left_anything(a) else "")
    if sentence == "different":
        return "" if any(each.weight >= CERTAIN for each in causes) else _nothing_differs(a, b, causes)
    bytes_a = {output.path: output.sha256 for output in (*a.outputs, *a.outside)}
    files = (*b.outputs, *b.outside)
    other = [output.path for output in files if bytes_a.get(output.path) != output.sha256]
    count = ", ".join(
        part
        for part in (
            plural(len(b.outputs), "output") if b.outputs else "",
            f"{plural(len(b.outside), 'file')} outside the project" if b.outside else "",
            plural(len(_measured(b)), "metric") if _measured(b) else "",
            _lines(a, b),
        )
        if part
    )
    if other:
        known = {output.path: output.tensors for output in files}
        what = "tensors" if all(known.get(path) for path in other) else "content"
        return f"equal {what} ({count}); the files' bytes differ: {some(other)}{_both(b)}"
    rest = plural(len(b.deleted), "deleted file") if b.deleted else plural(len(b.folders), "folder")
    return f"bit-identical ({count or rest}){_both(b)}"


def _left_anything(record: Record) -> bool:
    """Whether a run has results that could be read."""
    files = len(record.outputs) + len(record.outside) - len(unread(record))
    return bool(files or record.deleted or _measured(record))


def _both(record: Record) -> str:
    """Add how two runs of equal results ended, if that was not well: what they left may be all that they got to."""
    end = _end(record)
    rest = "".join(f"; not compared: {plain(each)}" for each in not_looked_at(record)[:1])
    return rest if end == "ok" else f"; but both runs failed: {end}{rest}"


def _nothing_differs(a: Record, b: Record, causes: Sequence[Finding]) -> str:
    """Describe what is left where records are equal and results are not; what verify cannot show comes first."""
    lead = "nothing recorded is reason enough" if causes else "nothing recorded differs"
    before = {output.path: output.sha256 for output in a.outputs}
    kept = [
        output.path
        for output in b.outputs
        if output.path.endswith(_WITH_TIMES) and before.get(output.path, output.sha256) != output.sha256
    ]
    if kept:
        lead += f": times that {some(kept)} may hold, which envbuild verify leaves out; or"
    else:
        lead += ":"
    if a.inputs or b.inputs:
        return f"{lead} a nondeterministic operation, or what no record holds, see envbuild verify"
    return (
        f"{lead} other data, which is not recorded since no inputs are declared "
        "(inputs: [data] in the spec), or a nondeterministic operation, see envbuild verify"
    )


def _ended(record: Record) -> bool:
    return record.state == "finished"


def _why(record: Record) -> str:
    words = {
        "running": "it has not ended, or envbuild was killed",
        "lost": "envbuild was killed, so that it has no result",
        "refused": "the guard refused it, nothing was run",
        "interrupted": "it was interrupted before the program started",
        "failed": f"the engine could not run it: {plain(record.problem)}",
    }
    return words.get(record.state, record.state)


def _ends(a: Record, b: Record) -> Iterator[Finding]:
    one, other = _end(a), _end(b)
    if one != other:
        yield changed("results", "the program", one, other, _WEIGHT)


def _end(record: Record) -> str:
    if record.out_of_memory:
        return "out of memory"
    if record.timed_out is not None:
        return f"ended after {record.timed_out:g} s, its time limit"
    return "ok" if record.exit_code == 0 else f"exit {record.exit_code}"


def _measured(record: Record) -> dict[str, tuple[Point, ...]]:
    return {
        name: points for name, points in record.metrics.items() if not is_measured(name, (value for _, value in points))
    }


def _metrics(a: Record, b: Record) -> Iterator[Finding]:
    """Yield metrics by their last values, those of validation and tests first."""
    mine, theirs = _measured(a), _measured(b)
    names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    for name in sorted(names, key=lambda name: (not re.search(r"val|test|eval", name), "acc" not in name)):
        epochs = "keras" in (a.metric_sources.get(name), b.metric_sources.get(name))
        yield _metric(name, mine.get(name, ()), theirs.get(name, ()), epochs=epochs)


def _metric(name: str, before: tuple[Point, ...], after: tuple[Point, ...], *, epochs: bool) -> Finding:
    first = next((x for x, y in zip(before, after, strict=False) if x != y), None)
    details: tuple[str, ...] = ()
    if first is not None and len(before) > 1:
        # Keras counts epochs from 0 in its history and from 1 in all that people see of it.
        details = (f"first differs at {f'epoch {first[0] + 1:,}' if epochs else f'step {first[0]:,}'}",)
    if len(before) != len(after) and before and after:
        details += (f"{plural(len(before), 'value')} → {plural(len(after), 'value')}",)
    one, other = NOWHERE, NOWHERE
    if before and after and before[-1][1] != after[-1][1]:
        one, other = numbers(float(before[-1][1]), float(after[-1][1]))
    elif before and after:
        sentence = f"{float(after[-1][1]):.4g} at the end of both, other values on the way"
        return Finding(
            area="results", what=plain(name), before="", after="", change=sentence, weight=_WEIGHT, details=details
        )
    elif before:
        one = f"{float(before[-1][1]):.4g}"
    else:
        other = f"{float(after[-1][1]):.4g}"
    return changed("results", plain(name), one, other, _WEIGHT, details=details)


def _files(a: Record, b: Record) -> Iterator[Finding]:
    mine, theirs = ({each.path: each for each in (*run.outputs, *run.outside)} for run in (a, b))
    for path in different_files(b, a):
        yield _file(path, mine.get(path), theirs.get(path))
    for path in sorted({*a.deleted} ^ {*b.deleted}):
        one, other = ("deleted", "kept") if path in a.deleted else ("kept", "deleted")
        yield changed("results", plain(path), one, other, _WEIGHT)
    yield from _folders_and_modes(a, b)


def _printed(a: Record, b: Record, lines: Mapping[Stream, PrintedLine]) -> Iterator[Finding]:
    """Yield the streams that differ, with the first such line where it is known."""
    for stream in compare_printed(a, b).differing:
        name, line = STREAMS[stream], lines.get(stream)
        if line is not None:
            one, other = shown(line.before or None, line.after or None)
            yield changed("results", f"{name}, line {line.number:,}", one, other, _WEIGHT)
            continue
        counts = [(record.printed or {}).get(stream, Printed()).lines for record in (a, b)]
        one, other = (plural(count, "line") if count else NOWHERE for count in counts)
        sentence = f"{one} → {other}" if one != other else f"{one} in both runs, not all of them equal"
        yield Finding(area="results", what=name, before=one, after=other, change=sentence, weight=_WEIGHT)


def _lines(a: Record, b: Record) -> str:
    """Count the printed lines that are equal; empty if not all are known to be, or there are none."""
    count = sum(each.lines for each in (b.printed or {}).values())
    if not count or compare_printed(a, b).unknown:
        return ""
    kinds = measured_in(b.printed)
    return plural(count, "printed line") + (f" with {kinds} masked" if kinds else "")


def _folders_and_modes(a: Record, b: Record) -> Iterator[Finding]:
    """Yield empty folders that one run left, and permissions of files and folders that both left."""
    left, modes = zip(*map(folders_and_modes, (a, b)), strict=True)
    for path in sorted(left[0] ^ left[1]):
        one, other = (("an empty folder" if path in each else NOWHERE) for each in left)
        yield changed("results", plain(path), one, other, _WEIGHT)
    for path in sorted(modes[0].keys() & modes[1].keys()):
        if modes[0][path] != modes[1][path]:
            what = f"permissions of {plain(path)}"
            yield changed("results", what, modes[0][path], modes[1][path], _WEIGHT)
    extended = attributes(a), attributes(b)
    for path in sorted(modes[0].keys() & modes[1].keys()):
        one, other = (each.get(path, "") for each in extended)
        if one != other:
            what = f"extended attributes of {plain(path)}"
            yield changed(
                "results", what, digest(one) if one else NOWHERE, digest(other) if other else NOWHERE, _WEIGHT
            )


def _file(path: str, before: Output | None, after: Output | None) -> Finding:
    """Describe a file of other content by its tensors where they are known, else by its size and digest."""
    one, other = (digest(each.sha256) if each else NOWHERE for each in (before, after))
    if before is None or after is None:
        sentence = f"only in {'B' if before is None else 'A'}"
        return _finding(path, one, other, sentence)
    if before.sha256 is None or after.sha256 is None:
        return _finding(path, one, other, "could not be read in one of the runs")
    if names := different_tensors(after, before):
        total = len({*before.tensors, *after.tensors})
        sentence = f"{len(names):,} of {plural(total, 'tensor')} {'differs' if len(names) == 1 else 'differ'}: "
        return _finding(path, one, other, sentence + some(names))
    size = f"{before.size:,} → {after.size:,} bytes" if before.size != after.size else f"{after.size:,} other bytes"
    return _finding(path, one, other, f"sha256 {one} → {other}, {size if before.size != after.size else 'same size'}")


def _finding(path: str, before: str, after: str, sentence: str) -> Finding:
    return Finding(area="results", what=plain(path), before=before, after=after, change=sentence, weight=_WEIGHT)
