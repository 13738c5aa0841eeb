"""What ``verify`` does about runs that differ: compares all that they left, and runs again to find out more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import dropwhile, islice
from os.path import normpath
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import folder_below, read_regular
from envbuild.core.patterns import lazy
from envbuild.core.removal import remove_tree
from envbuild.lockfile.layout import WORKSPACE
from envbuild.operations.events import Events
from envbuild.operations.traces import first_divergence, read_traces
from envbuild.operations.verification.laboratory import run_again
from envbuild.operations.verification.session import ignored_lines
from envbuild.record.compare_printed import several_processes
from envbuild.record.mounts import host_place
from envbuild.record.printed import KEPT_TEXT, STREAMS, kept
from envbuild.runs.tracing import trace_variables
from envbuild.verification.causes.evidence import Evidence, Operation
from envbuild.verification.channels import event_files
from envbuild.verification.files import masks_of, stream_masks
from envbuild.verification.judge import in_one_order
from envbuild.verification.masking import printed
from envbuild.verification.masking.lines import TextDifference

if TYPE_CHECKING:
    from collections.abc import Callable

    from envbuild.difference.finding import Finding
    from envbuild.operations.verification.session import Session
    from envbuild.record.model import Record
    from envbuild.runs.repeat import Repeated
    from envbuild.runs.request import RunEngine
    from envbuild.trace.divergence import Divergence
    from envbuild.verification.dataflow.measuring import Measuring
    from envbuild.verification.masking.masks import Masks
    from envbuild.verification.ran import Ran
    from envbuild.verification.verdict import Verdict

    _Look = Callable[[str, bytes, bytes, tuple[Masks, Masks]], Iterator[TextDifference]]
    """Yields the lines of a stream that differ in a way, with the masks of two runs."""

TEXT = 4 << 20
"""Bytes of the largest text that is compared line by line."""
_PYTHON, _SWITCH = lazy(r"(?:.*/)?python(?:3(?:\.\d+)?)?"), lazy(r"-[bBdEiIOPqsSuvx]+")
"""A command that is Python's, and its options without a value."""
_TEXTS = 20
"""Files that are compared line by line."""
_SOURCES = 100
"""Sources in C that are looked at for programs that the project builds."""
_MASKED = 20_000
"""Characters of a text's lines that differ in which measurements are looked for."""
_LINES = 3
"""Lines of a stream that are quoted because a unit alone shows that a number is a measurement."""


def look_closer(session: Session, verdict: Verdict, in_place: bool) -> tuple[Evidence, list[str]]:
    """Compare two runs that differ in all that is known of them.

    Returns:
        What was found, and what could not be looked at, a sentence each.
    """
    one, other = (session.repeated(index) for index in verdict.pair)
    project = session.plan.request.project
    first, notes = first_divergence((project, one.record), (project, other.record), asked=True)
    texts = list(_texts(one, other, verdict.differing_files))
    texts += _printed(session, one, other, verdict)
    evidence = replace(known_of(session, verdict, in_place=in_place), divergence=first, texts=texts)
    return evidence, [*notes, *_last_words(one, other)]


def known_of(session: Session, verdict: Verdict, *, in_place: bool) -> Evidence:
    """Return what records and sources say of two runs that differ."""
    one, other = (session.repeated(index).record for index in verdict.pair)
    mine, theirs = (session.runs[index] for index in verdict.pair)
    project = session.plan.request.project
    sources = {**sources_of(project, one), **_notebook(project, one)}
    return Evidence(
        a=one,
        b=other,
        lock=session.plan.request.lock,
        traced=bool(mine.trace and theirs.trace),
        sources=sources,
        scripts=scripts_of(project, sources, one.command),
        found=tuple(_findings(one, other)),
        operations=_operations(),
        in_place=in_place,
    )


def keep_outputs(session: Session, verdict: Verdict) -> list[str]:
    """Keep what two runs that differ left, next to their records; returns the folders relative to the project."""
    from envbuild.record import history

    project = session.plan.request.project
    kept = []
    for index in verdict.pair:
        repeated = session.repeated(index)
        folders = repeated.keep(history.run_folder(project, repeated.record.id))
        kept += [folder.relative_to(project).as_posix() for folder in folders]
    return kept


def _last_words(*pair: Repeated) -> Iterator[str]:
    """Yield the last output of runs that failed."""
    for each in pair:
        text = each.output.tail.decode("utf-8", "replace").strip().splitlines()
        if each.record.exit_code != 0 and text:
            yield f"run {each.number + 1} ended with: {text[-1].strip()}"


def _findings(a: Record, b: Record) -> Iterator[Finding]:
    """Yield what differs between the records though the runs were started alike."""
    from envbuild.difference.compare import compare

    one, other = (msgspec.structs.replace(r, options=msgspec.structs.replace(r.options, cpuset="")) for r in (a, b))
    # What touched inputs meanwhile is in the records themselves.
    yield from (finding for finding in compare(one, other).causes if finding.area != "inputs")


def sources_of(project: Path, record: Record) -> dict[str, str]:
    """Return the modules of project and mounted folders as the run read them."""
    found: dict[str, str] = {}
    files = {each.path: each.sha256 for each in record.modules}
    if record.script is not None:
        files.setdefault(record.script.path, record.script.sha256)
    for path, digest in files.items():
        place = host_place(record.options.mounts, path, project)
        data = _read(*place) if place is not None else None
        if data is not None and sha256_bytes(data) == digest:
            found[path] = data.decode("utf-8", "replace")
    return found


def _notebook(project: Path, record: Record) -> dict[str, str]:
    """Return the code of the notebook that a run's command names first: what executes it writes the others."""
    from envbuild.core.notebooks import code_of

    below = record.directory.removeprefix(WORKSPACE).lstrip("/")
    for word in record.command:
        path = normpath(f"{below}/{word}") if below else normpath(word)
        if word.endswith(".ipynb") and (data := _read(project, path)) is not None:
            code = code_of(data.decode("utf-8", "replace"))
            return {path: code} if code else {}
    return {}


def _knows_main(record: Record) -> bool:
    """Whether the source is known of what the run executes: a script, also of ``python train.py`` or ``-m train``."""
    if record.script is not None:
        return True
    if not record.command or _PYTHON.fullmatch(record.command[0]) is None:
        return False
    words = [*dropwhile(_SWITCH.fullmatch, record.command[1:])]
    below = PurePosixPath(record.directory.removeprefix(WORKSPACE).lstrip("/"))
    if words[:1] == ["-m"]:
        name = words[1].replace(".", "/") if len(words) > 1 else ""
        wanted = {str(below / f"{name}.py"), str(below / name / "__main__.py")}
    else:
        wanted = {str(below / normpath(words[0]))} if words else set()
    return any(each.path in wanted for each in record.modules)


def shows_durations(project: Path, record: Record) -> bool:
    """Whether the sources of a run show durations that are items of lists and tuples without a name.

    Args:
        project: where the sources are.
        record: of the run.
    """
    from envbuild.verification.measurements import stopwatches

    paths = {each.path for each in record.modules} | ({record.script.path} if record.script is not None else set())
    sources = sources_of(project, record)
    return sources.keys() == paths and _knows_main(record) and stopwatches.shows_durations(sources)


def measuring_of(project: Path, record: Record, verdict: Verdict) -> Measuring:
    """Return what a run can measure, as far as the sources of all that it read of its project show.

    Args:
        project: where the sources are.
        record: of the run.
        verdict: where nothing was left out, words of measurements are of no interest.
    """
    from envbuild.verification.dataflow.measuring import Measuring, measuring

    paths = {each.path for each in record.modules} | ({record.script.path} if record.script is not None else set())
    sources = sources_of(project, record)
    follow = bool(verdict.same_content) or any(channel.masked for channel in verdict.channels)
    if sources.keys() != paths:
        return Measuring()
    found = measuring(sources, follow=follow)
    if _knows_main(record):
        return found
    # What else there is, as a launcher or a shell, may measure anything, but not what these sources print.
    return Measuring(
        unmeasured=found.unmeasured,
        shifted=found.shifted,
        glued=found.glued,
        paused=found.paused,
        draws=found.draws,
    )


def _read(folder_path: Path, path: str) -> bytes | None:
    """Return a file of a folder; None if it is too large or not there."""
    try:
        *above, name = path.split("/")
        with folder_below(folder_path, *above) as folder:
            return read_regular(folder / name, TEXT, follow=False)
    except (OSError, ValueError):
        return None


def scripts_of(project: Path, sources: Mapping[str, str], command: Sequence[str]) -> dict[str, str]:
    """Return the texts of files that sources, or a command, start, and of those that these start.

    With them come sources in C that show chance, for programs that are built of them, and files with SQL.
    """
    from envbuild.verification.causes.compiled import SUFFIXES, shows_chance
    from envbuild.verification.causes.foreign import MAKEFILES, scripts_named, scripts_of_command, scripts_of_shell
    from envbuild.verification.causes.sql import SUFFIX

    found = dict(_queries(project)) if any(SUFFIX in source for source in sources.values()) else {}
    left = [*scripts_of_command(command), *(name for source in sources.values() for name in scripts_named(source))]
    if not left and "make" not in command:
        return found
    left += MAKEFILES
    while left and len(found) < _TEXTS:
        path = left.pop(0)
        data = _read(project, path) if path not in found else None
        if data is not None and b"\0" not in data:
            found[path] = data.decode("utf-8", "replace")
            left += scripts_of_shell(found[path])
    built = sorted(each for depth in ("*", "*/*") for each in project.glob(depth) if each.suffix in SUFFIXES)
    for source in built[:_SOURCES]:
        path = source.relative_to(project).as_posix()
        data = _read(project, path) if path not in found else None
        if data is not None and shows_chance(text := data.decode("utf-8", "replace")):
            found[path] = text
    return found


def _queries(project: Path) -> Iterator[tuple[str, str]]:
    """Yield the files with SQL of a project, with their texts."""
    from envbuild.verification.causes.sql import SUFFIX

    found = sorted(each for depth in ("*", "*/*") for each in project.glob(f"{depth}{SUFFIX}"))
    for path in (each.relative_to(project).as_posix() for each in found[:_SOURCES]):
        if (data := _read(project, path)) is not None:
            yield path, data.decode("utf-8", "replace")


def _operations() -> tuple[Operation, ...]:
    """Return the table of operations that differ from run to run."""
    from envbuild.determinism.operations import table

    return tuple(
        Operation(
            name=row.name,
            framework=row.framework,
            device=row.device,
            refused=row.refused,
            why=row.why,
            calls=row.calls,
            ways=row.ways,
            settled=row.settled,
            also=row.also,
            kind=row.kind,
        )
        for row in table()
    )


def _texts(one: Repeated, other: Repeated, paths: Sequence[str]) -> Iterator[TextDifference]:
    """Compare text files that both runs left."""
    if one.files is None or other.files is None:
        return
    masks = masks_of(one.record), masks_of(other.record)
    for path in paths[:_TEXTS]:
        found = _compare(path, (one.files / path, other.files / path), masks)
        if found is not None:
            yield found


def _printed(session: Session, one: Repeated, other: Repeated, verdict: Verdict) -> Iterator[TextDifference]:
    """Yield the first line at which each stream of two runs differs, as far as it was kept."""
    for kind in ("stdout", "stderr"):
        channel = verdict.channel(kind)
        if channel is None or not channel.differs:
            continue
        paths = [each.output.stdout if kind == "stdout" else each.output.stderr for each in (one, other)]
        before, after = (path.read_bytes() if path.is_file() else b"" for path in paths)
        ordered = not several_processes(one.record, other.record)
        masks = [
            stream_masks(each.record, ignored_lines(session.ignore, kind), session.ran[each.number].clocks.get(kind))
            for each in (one, other)
        ]
        found = printed.first_difference(
            kind, before, after, (masks[0], masks[1]), ordered=ordered, known=session.known_names
        )
        if found is not None:
            yield found


def beyond(session: Session, verdict: Verdict) -> Iterator[str]:
    """Yield what was not looked at: event files, and what is behind the beginning of streams with measurements."""
    project, first = session.plan.request.project, session.runs[0]
    for stream, name in STREAMS.items():
        channel, printed = verdict.channel(stream), first.stdout if stream == "stdout" else first.stderr
        if channel is None or {"times", "rates", "memory"}.isdisjoint(printed.masked):
            continue
        if len(kept(project, first.record.id, stream) or b"") >= KEPT_TEXT:
            yield f"{name}: lines behind the first {KEPT_TEXT >> 20} MiB"
    for path in event_files(first, session.ignore):
        if path not in first.contents:  # too large to be opened; its bytes have the time
            yield f"{path}: all but its scalars"


def undecided(project: Path, one: Ran, other: Ran, verdict: Verdict, ignore: Sequence[str]) -> list[TextDifference]:
    """Return the first lines of two equal runs that differ in what its unit alone shows to be a measurement."""
    found: list[TextDifference] = []
    for stream, name in STREAMS.items():
        channel = verdict.channel(stream)
        if channel is None or not channel.masked or not in_one_order((one, other), stream):
            continue
        before, after = (_whole_lines(kept(project, each.record.id, stream) or b"") for each in (one, other))
        mine, theirs = (
            stream_masks(each.record, ignored_lines(ignore, stream), each.clocks.get(stream)) for each in (one, other)
        )
        found += islice(printed.guessed(name, before, after, (mine, theirs)), _LINES)
    return found


def strange(project: Path, runs: Sequence[Ran], verdict: Verdict, ignore: Sequence[str]) -> Iterator[TextDifference]:
    """Yield the first lines of each stream with something masked that need be none of the run: ``printed.strange``."""
    yield from _in_streams(project, runs, verdict, ignore, printed.strange, clocks=True)


def written_over(
    project: Path, runs: Sequence[Ran], verdict: Verdict, ignore: Sequence[str]
) -> Iterator[TextDifference]:
    """Yield the first lines of each stream that showed other numbers before they were written over, in two runs."""
    from envbuild.verification.masking.overwritten import other_states

    yield from _in_streams(project, runs, verdict, ignore, other_states)


def coloured(project: Path, runs: Sequence[Ran], verdict: Verdict, ignore: Sequence[str]) -> Iterator[TextDifference]:
    """Yield the first lines of each stream that are equal but for colours and the like, in two runs."""
    from envbuild.verification.masking.controls import other_controls

    yield from _in_streams(project, runs, verdict, ignore, other_controls)


def _in_streams(
    project: Path, runs: Sequence[Ran], verdict: Verdict, ignore: Sequence[str], look: _Look, *, clocks: bool = False
) -> Iterator[TextDifference]:
    """Look at the streams of the first run and each other one; ``clocks``: each line is masked once, in its order."""
    first, *others = runs
    for stream, name in STREAMS.items():
        if verdict.channel(stream) is None or any(fnmatchcase(stream, pattern) for pattern in ignore):
            continue
        before = kept(project, first.record.id, stream) or b""
        for other in others:
            after = kept(project, other.record.id, stream) or b""
            ignored = ignored_lines(ignore, stream)
            masks = (
                stream_masks(first.record, ignored, first.clocks.get(stream) if clocks else None),
                stream_masks(other.record, ignored, other.clocks.get(stream) if clocks else None),
            )
            if found := [*islice(look(name, _whole_lines(before), _whole_lines(after), masks), _LINES)]:
                yield from found
                break


def _whole_lines(text: bytes) -> bytes:
    """Return a text without its last line if it was cut there."""
    return text[: text.rfind(b"\n") + 1] if len(text) >= KEPT_TEXT else text


def _compare(name: str, paths: tuple[Path, Path], masks: tuple[Masks, Masks]) -> TextDifference | None:
    """Return the first line at which two texts differ in more than measurements, or else in these.

    None if they are no texts, equal, or too large.
    """
    try:
        lines = [read_regular(path, TEXT, follow=False).decode().splitlines() for path in paths]
    except (OSError, UnicodeDecodeError):
        return None
    measured, left = None, _MASKED
    for number in range(max(map(len, lines))):
        one, other = (each[number] if number < len(each) else "" for each in lines)
        if one == other:
            continue
        found = TextDifference(path=name, line=number + 1, before=one, after=other)
        left -= len(one) + len(other)
        if left < 0 or masks[0].mask(one).text != masks[1].mask(other).text:
            return found
        measured = measured or found
    return measured


def with_values(
    session: Session, evidence: Evidence, values: int, engine: RunEngine, events: Events
) -> tuple[Evidence, list[str]]:
    """Run twice more, keeping values from the step on where the runs diverge, if the first traces had no room for them.

    Returns:
        The evidence with values, or as they were with a note why not.
    """
    found = evidence.divergence
    tensor = found.leading if found is not None else None
    if not values or found is None or found.kind not in ("start", "step"):
        return evidence, []
    if tensor is None or tensor.values is not None or not tensor.size:
        return evidence, []
    pair = run_again(session, 2, trace_variables(values, found.step), engine, events, "values")
    if len(pair) < 2:
        return evidence, []
    project = session.plan.request.project
    again, _ = first_divergence((project, pair[0].record), (project, pair[1].record), asked=True)
    if again is None:
        return evidence, ["two more runs, to have values, were equal: the runs do not part each time"]
    if again.leading is None or (again.process, again.step, again.leading.name) != (
        found.process,
        found.step,
        tensor.name,
    ):
        return evidence, [f"two more runs, to have values, part elsewhere: {again.sentence}"]
    return replace(evidence, divergence=_with_values_of(found, again)), []


def with_diagnosis(
    session: Session, evidence: Evidence, engine: RunEngine, events: Events
) -> tuple[Evidence, list[str]]:
    """Run once more, memory filled and draws of entropy watched, where that may show more than is known."""
    from envbuild.errors import EnvbuildError
    from envbuild.record import history
    from envbuild.verification.causes.diagnosis import diagnosed, worthwhile
    from envbuild.verification.causes.ranking import rank_causes

    if not worthwhile(evidence, rank_causes(evidence)):
        return evidence, []
    project = session.plan.request.project
    made = run_again(session, 1, {**trace_variables(), "ENVBUILD_DIAGNOSE": "1"}, engine, events, "diagnose")
    if not made:
        return evidence, []
    record = made[0].record
    try:
        found = diagnosed(evidence, record, read_traces(project, record), read_traces(project, evidence.a))
    except EnvbuildError:
        found = diagnosed(evidence, record)
    # It is no run of the program as it is: nothing is to be compared with it later.
    remove_tree(history.run_folder(project, record.id))
    notes = []
    if record.exit_code != evidence.a.exit_code:
        notes.append(f"a run with memory filled, to diagnose, ended with exit {record.exit_code}")
    return replace(evidence, found=(*evidence.found, *found)), notes


def _with_values_of(found: Divergence, again: Divergence) -> Divergence:
    """Return a divergence with the values of another pair of runs that diverge at the same place."""
    return replace(found, tensors=(again.tensors[0], *found.tensors[1:]), sentence=again.sentence)
