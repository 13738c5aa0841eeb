"""Drawn names of files where they are mentioned: which of the files is meant is a result.

Files whose names were drawn are compared under common names, and texts that mention them without these names. Where
one run's list of checkpoints has its best one third and another run's first, nothing else shows it. Whether that is a
result or luck, such as the order in which drawn names are sorted, is not known: it is quoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from envbuild.record.compare_printed import several_processes
from envbuild.record.shared_names import shortened
from envbuild.verification.content.names import drawn_names
from envbuild.verification.judge import file_table, outside_table

if TYPE_CHECKING:
    from envbuild.verification.files import FileTable
    from envbuild.verification.judge import Ran

_STREAMS = {"stdout": "standard output", "stderr": "standard error"}
_Names = tuple[list[Sequence[str]], bool]
"""The drawn names of a place in each run, shortened, and whether their order counts."""


def other_files_named(runs: Sequence[Ran], ignore: Sequence[str]) -> tuple[str, ...]:
    """Return a phrase for each file or stream of equal runs that mentions files of other common names in two of them.

    Args:
        runs: those that are compared.
        ignore: as for ``judge``.
    """
    tables = file_table(runs, ignore), outside_table(runs, ignore)
    if not any(table.renamed for table in tables):
        return ()
    known = [_meanings(run, tables) for run in runs]
    return tuple(
        phrase
        for place, (names, ordered) in (*_in_streams(runs, ignore), *_in_files(runs, tables))
        if (phrase := _phrase(place, list(map(_meant, known, names)), ordered=ordered))
    )


def _meanings(run: Ran, tables: Sequence[FileTable]) -> dict[str, str]:
    """Return, for each drawn name in the paths of a run's files, shortened, the common name of the first of these."""
    found: dict[str, str] = {}
    for table in tables:
        for common in sorted(table.of(run)):
            output = table.output(run, common)
            for name in drawn_names([output.path]) if output is not None and output.path != common else ():
                found.setdefault(shortened(name), common)
    return found


def _in_streams(runs: Sequence[Ran], ignore: Sequence[str]) -> Iterator[tuple[str, _Names]]:
    several = several_processes(*(each.record for each in runs))
    for kind, place in _STREAMS.items():
        if not any(fnmatchcase(kind, pattern) for pattern in ignore):
            printed = [run.stdout if kind == "stdout" else run.stderr for run in runs]
            yield place, ([each.names for each in printed], not several and not any(each.threads for each in printed))


def _in_files(runs: Sequence[Ran], tables: Sequence[FileTable]) -> Iterator[tuple[str, _Names]]:
    for table in tables:
        for name, _ in table.in_other_bytes():
            contents = [table.content(run, name) for run in runs]
            yield name, ([each.names if each is not None else () for each in contents], True)


def _meant(known: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [known[name] for name in names if name in known]


def _phrase(place: str, meant: Sequence[Sequence[str]], *, ordered: bool) -> str:
    """Return what is said of a place; empty if all runs mention the same files."""
    first, *others = meant if ordered else map(sorted, meant)
    for other in others:
        if other != first:
            pairs = zip([*first, ""], [*other, ""], strict=False)
            one, two = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
            return f"which file {place} names: {one or '(none)'} → {two or '(none)'}"
    return ""
