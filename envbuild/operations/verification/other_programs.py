"""Programs that are no Python and that a run starts: which of them give another output, and what their words show."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from envbuild.verification.causes.evidence import Culprit

if TYPE_CHECKING:
    from envbuild.operations.verification.laboratory import Laboratory
    from envbuild.operations.verification.session import Session
    from envbuild.verification.ran import Ran

_EMPTY = tuple(f"{crc32(empty):08x}" for empty in (b"", b"''"))
"""How the hook digests an output of nothing, of bytes and of text (``runtime/hook/fix_callers.py``)."""


def differing_programs(runs: Sequence[Ran]) -> tuple[tuple[Culprit, ...], tuple[str, ...]]:
    """Return the lines that start programs whose output is another one in two runs though they were given the same.

    And those whose output is known, and is the same in both; an empty output says nothing of what a program does.
    """
    tables = [
        {
            (each.place, each.call, number): each
            for number, process in enumerate(run.record.processes)
            for each in process.asked or ()
            if each.suspect == "programs"
        }
        for run in runs[:2]
    ]
    if len(tables) < 2:
        return (), ()
    one, other = tables
    both = [(each, other[key]) for key, each in one.items() if key in other]
    found = [mine for mine, theirs in both if mine.given == theirs.given and mine.values != theirs.values]
    places = {each.place for each in found}
    same = {mine.place for mine, theirs in both if mine.values == theirs.values not in _EMPTY} - places
    return (
        tuple(
            Culprit(
                suspect="programs", call=each.call, module=each.module, place=each.place, file=each.file, line=each.line
            )
            for each in found
        ),
        tuple(sorted(same)),
    )


def drawing_program(laboratory: Laboratory) -> str:
    """Return the words of a program that draws without a seed and gave another output for the same input in two runs.

    Empty if there is none, or two runs more cannot be made.
    """
    from envbuild.operations.verification.divergence import scripts_of
    from envbuild.verification.causes.foreign import of_command

    project = laboratory.session.plan.request.project
    for culprit in differing_programs(laboratory.pair())[0]:
        try:
            words = shlex.split(culprit.call)
        except ValueError:
            continue
        if any(each.draws for each in of_command(words, scripts_of(project, {}, words))):
            return culprit.call
    return ""


def never_varied(session: Session, sources: Mapping[str, str]) -> Iterator[str]:
    """Quote what programs that are no Python do by something that was the same in all runs of this machine.

    Which of several comes first that are started at once; the order of the files of a folder; the date.
    """
    from envbuild.operations.verification.divergence import scripts_of
    from envbuild.verification.causes.foreign import begun_at_once
    from envbuild.verification.causes.foreign_dates import dated_by_programs
    from envbuild.verification.causes.foreign_listings import listed_by_programs, timed_by_programs

    project, command = session.plan.request.project, session.runs[0].record.command
    scripts = scripts_of(project, sources, command)
    for words, where in dict.fromkeys(begun_at_once(sources, scripts, command)):
        yield f"which of the programs comes first that {words!r} starts at once{_at(where)}: no run varied that"
    for words, where in dict.fromkeys(listed_by_programs(sources, scripts, command)):
        place = _at(where)
        yield f"in which order {words!r} takes the files of a folder{place}: the file system's, which no run varied"
    for words, where in dict.fromkeys(timed_by_programs(sources, scripts, command)):
        yield f"which files are newer, by which {words!r} goes{_at(where)}: the same in all runs but for --strict"
    for words, where in dict.fromkeys(dated_by_programs(sources, scripts, command)):
        yield f"the date that {words!r} asks for{_at(where)}: no run had another one"


def _at(where: str) -> str:
    return f" ({where})" if where else ""
