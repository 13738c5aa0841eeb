"""What ``verify`` looks at when runs differ: traces, records, sources, and the files themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.digest import sha256_bytes
from envbuild.operations.first_difference import first_difference
from envbuild.verification.causes import Cause, Clues, Operation, TextDifference

if TYPE_CHECKING:
    from envbuild.operations.verify_session import Session
    from envbuild.record.model import Record
    from envbuild.runs.repeat import Repeated
    from envbuild.verification.judge import Verdict

TEXT = 4 << 20
"""Bytes of the largest text that is compared line by line."""
_TEXTS = 20
"""Files that are compared line by line."""


def look_closer(session: Session, verdict: Verdict, in_place: bool) -> tuple[Clues, list[str]]:
    """Compare two runs that differ in all that is known of them.

    Returns:
        What was found, and what could not be looked at, a sentence each.
    """
    one, other = (session.repeated(index) for index in verdict.pair)
    project = session.plan.request.project
    first, notes = first_difference((project, one.record), (project, other.record), asked=True)
    texts = list(_texts(one, other, verdict.differing_files))
    if not verdict.differing_files and first is None and (printed := _printed(one, other)) is not None:
        texts.append(printed)
    mine, theirs = session.runs[verdict.pair[0]], session.runs[verdict.pair[1]]
    clues = Clues(
        a=one.record,
        b=other.record,
        lock=session.plan.request.lock,
        first=first,
        traced=bool(mine.trace and theirs.trace),
        sources=_sources(project, one.record),
        texts=texts,
        found=tuple(_findings(one.record, other.record)),
        operations=_operations(),
        in_place=in_place,
    )
    return clues, [*notes, *_last_words(one, other)]


def keep_outputs(session: Session, verdict: Verdict) -> list[str]:
    """Keep what two runs that differ left, beside their records; returns the folders relative to the project."""
    from envbuild.record import history

    project = session.plan.request.project
    kept = []
    for index in verdict.pair:
        repeated = session.repeated(index)
        target = history.run_folder(project, repeated.record.id) / "outputs"
        if repeated.record.outputs and repeated.keep(target):
            kept.append(target.relative_to(project).as_posix())
    return kept


def _last_words(*pair: Repeated) -> Iterator[str]:
    """Yield what runs that ended badly said last."""
    for each in pair:
        said = each.output.tail.decode("utf-8", "replace").strip().splitlines()
        if each.record.exit_code != 0 and said:
            yield f"run {each.number + 1} ended with: {said[-1].strip()}"


def _findings(a: Record, b: Record) -> Iterator[Cause]:
    """Yield what differs between the records though the runs were started alike."""
    from envbuild.difference.compare import compare

    one, other = (msgspec.structs.replace(r, options=msgspec.structs.replace(r.options, cpuset="")) for r in (a, b))
    for finding in compare(one, other).causes:
        if finding.area != "inputs":  # what touched them meanwhile is told in the records themselves
            yield Cause(weight=min(finding.weight, 95), what=finding.sentence, where="; ".join(finding.details[:2]))


def _sources(project: Path, record: Record) -> dict[str, str]:
    """Return the project's modules as the run read them."""
    found = {}
    files = {each.path: each.sha256 for each in record.modules}
    if record.script is not None:
        files.setdefault(record.script.path, record.script.sha256)
    for path, digest in files.items():
        try:
            data = (project / path).read_bytes()
        except OSError:
            continue
        if sha256_bytes(data) == digest:
            found[path] = data.decode("utf-8", "replace")
    return found


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
    for path in paths[:_TEXTS]:
        found = _compare(path, one.files / path, other.files / path)
        if found is not None:
            yield found


def _printed(one: Repeated, other: Repeated) -> TextDifference | None:
    return _compare("standard output", one.output.path, other.output.path)


def _compare(name: str, before: Path, after: Path) -> TextDifference | None:
    """Return the first line at which two texts differ; None if they are no texts, equal, or too large."""
    try:
        if max(before.stat().st_size, after.stat().st_size) > TEXT or before.is_symlink() or after.is_symlink():
            return None
        lines = [path.read_bytes().decode().splitlines() for path in (before, after)]
    except (OSError, UnicodeDecodeError):
        return None
    for number in range(max(map(len, lines))):
        one, other = (each[number] if number < len(each) else "" for each in lines)
        if one != other:
            return TextDifference(path=name, line=number + 1, before=one, after=other)
    return None
