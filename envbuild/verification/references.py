"""Names of files that were drawn, or hold the time, where they are mentioned: which of the files is meant is a result.

Such files are compared under common names, and texts that mention them without these names. Where one run's list of
checkpoints has its best one third and another run's first, nothing else shows it. Whether that is a result or luck,
such as the order in which drawn names are sorted, is not known: it is quoted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, TypeVar

from envbuild.core.patterns import lazy
from envbuild.record.compare_printed import several_processes
from envbuild.record.shared_names import shortened
from envbuild.verification.channels import file_table, outside_table
from envbuild.verification.content.names import drawn_names, masked_path
from envbuild.verification.files import masks_of

if TYPE_CHECKING:
    from envbuild.record.model import Output, Record
    from envbuild.record.printed import Printed
    from envbuild.verification.files import FileTable
    from envbuild.verification.masking.masks import Masks
    from envbuild.verification.ran import Ran

_Name = TypeVar("_Name", str, bytes)
_STREAMS = {"stdout": "standard output", "stderr": "standard error"}
_DATED = "⟨date⟩"
_DIGIT = lazy(rb"\d")
_DIGITS = 6
"""Of the shortest time in a name, a time of day: ``05h16m03``."""
PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
"""How files of gzip, zip, bzip2, xz and Zstandard begin; in most others names can be read as they are."""
_MOST, _READ = 10_000, 64 << 20
"""Files of a run, and names in one of them, that are looked at; bytes of all that are read."""
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
    known = [_meanings(run, tables, _drawn_parts) for run in runs]
    return tuple(
        phrase
        for place, (names, ordered) in (*_in_streams(runs, ignore), *_in_files(runs, tables))
        if (phrase := _phrase(place, list(map(_meant, known, names)), ordered=ordered))
    )


def other_names_repeated(runs: Sequence[Ran], ignore: Sequence[str]) -> tuple[str, ...]:
    """Return a phrase for the first file or stream of equal runs that has other ones of its run's drawn names again.

    Of three trials with drawn names the best may be the first in one run and the second in another: texts are the same
    but for the names, and nothing else shows it.

    Args:
        runs: those that are compared.
        ignore: as for ``judge``.
    """
    tables = file_table(runs, ignore), outside_table(runs, ignore)
    numbers: list[dict[str, int]] = [{} for _ in runs]
    for place, (names, ordered) in (*_in_streams(runs, ignore), *_in_files(runs, tables)):
        if not ordered or len({len(each) for each in names}) > 1:
            continue
        patterns = [
            [known.setdefault(name, len(known)) for name in each] for known, each in zip(numbers, names, strict=True)
        ]
        first, *others = patterns
        for other in others:
            if other != first:
                one, two = next(pair for pair in zip(first, other, strict=True) if pair[0] != pair[1])
                return (f"which of the drawn names {place} has again: number {one + 1} → number {two + 1}",)
    return ()


def dated_names_in(record: Record, data: Callable[[str | Output], bytes | None]) -> dict[str, tuple[bytes, ...]]:
    """Return which of a run's files and folders whose names hold the time it mentions, by file or stream.

    Nothing is read where it has one alone: that is the one that is meant.

    Args:
        record: of the run.
        data: returns what it wrote to a file or to a stream, ``stdout`` or ``stderr``; None if that is not known.
    """
    masks = masks_of(record)
    outputs = (*record.outputs, *record.outside)
    names = {name for each in outputs[:_MOST] for name in _dated_parts(each.path, masks)}
    if len(names) < 2:
        return {}
    pattern = re.compile(b"(?<![0-9A-Za-z])" + _any_of(sorted(names)) + rb"(?![0-9A-Za-z]|\.\d)")
    found: dict[str, tuple[bytes, ...]] = {}
    left = _READ
    written: list[str | Output] = [*_STREAMS, *outputs]
    for what in written:
        place, size = (what, 0) if isinstance(what, str) else (what.path, what.size)
        text = data(what) if size <= left else None
        if text is not None:
            left -= len(text)
            texts = [text]
            if text.startswith(PACKED):
                from envbuild.verification.content import all_texts

                unpacked = [*all_texts(text)]
                left -= sum(map(len, unpacked))
                texts += unpacked
            found[place] = tuple(name for each in texts for name in _mentioned(each, pattern, names))[:_MOST]
    return found


def _any_of(names: Sequence[bytes], at: int = 0) -> bytes:
    """Return a pattern of names, in their order, that takes the longest one and tries few at each place of a text.

    Args:
        names: all begin with the same letters.
        at: how many of these letters are left out.
    """
    first, last = names[0], names[-1]
    same = at + len(os.path.commonprefix([first[at:], last[at:]]))  # noqa: RUF071 - letters are meant
    if len(names) == 1:
        return re.escape(first[at:])
    longer = names[1:] if len(first) == same else names
    below = b"|".join(_any_of([*each], same) for _, each in groupby(longer, lambda name: name[same]))
    return re.escape(first[at:same]) + b"(?:" + below + (b")?" if longer is not names else b")")


def _mentioned(text: bytes, pattern: re.Pattern[bytes], names: Container[bytes]) -> list[bytes]:
    """Return the names in a text, but for times at the beginning of lines if others of their form are no names."""
    found = [*pattern.finditer(text)]
    heads = {each.start(): each[0] for each in found if _at_beginning(text, each.start())}
    times: set[bytes] = set()
    for form in {_DIGIT.sub(b"0", head) for head in heads.values()}:
        alike = re.compile(rb"(?m)^[ \t\[(]{0,4}(" + re.escape(form).replace(b"0", rb"\d") + rb")(?![0-9A-Za-z/])")
        if any(each[1] not in names for each in alike.finditer(text)):
            times.add(form)
    return [each[0] for each in found if each.start() not in heads or _DIGIT.sub(b"0", each[0]) not in times]


def _at_beginning(text: bytes, at: int) -> bool:
    """Whether only a bracket or spaces are before a place of a text in its line."""
    before = text[max(at - 5, 0) : at].rpartition(b"\n")
    return (bool(before[1]) or at < 5) and not before[2].strip(b" \t[(")


def dated_files_named(
    runs: Sequence[Ran], ignore: Sequence[str], mentioned: Sequence[Mapping[str, Sequence[bytes]]]
) -> tuple[str, ...]:
    """Return the same for files whose names hold the time; ``mentioned``: of each run, as ``dated_names_in`` has it."""
    tables = file_table(runs, ignore), outside_table(runs, ignore)
    known = [_meanings(run, tables, partial(_dated_parts, masks=masks_of(run.record))) for run in runs]
    if not all(mentioned):
        return ()  # a run has one such file alone, or none: that is the one that is meant
    places = [(place, [kind] * len(runs), ordered) for kind, place, ordered in _streams(runs, ignore)]
    for table in tables:
        for name, at in table.in_other_bytes():
            outputs = [table.output(runs[each], name) for each in at]
            ordered = not _in_any_order(table, runs, name)
            places.append((name, [each.path for each in outputs if each is not None], ordered))
    found = []
    for place, paths, ordered in places:
        names = [each.get(path) for each, path in zip(mentioned, paths, strict=False)]
        read = [each for each in names if each is not None]
        if len(read) == len(runs):
            meant = [[table[name] for name in each if name in table] for each, table in zip(read, known, strict=True)]
            found.append(_phrase(place, meant, ordered=ordered))
        elif len(paths) == len(runs):
            found.append(f"which files {place} names: not looked at")
    return tuple(filter(None, found))


def _dated_parts(path: str, masks: Masks) -> Iterator[bytes]:
    """Yield what of a path holds the time: names of folders or of the file, or two in a row, as Hydra has them."""
    parts = path.split("/")
    for part in (*parts, *map("/".join, pairwise(parts))):
        if sum(map(str.isdecimal, part)) < _DIGITS:
            continue
        masked = masked_path(part, masks)
        if _DATED in masked and "/" not in masked:
            yield os.fsencode(part)


def _meanings(run: Ran, tables: Sequence[FileTable], names_of: Callable[[str], Iterable[_Name]]) -> dict[_Name, str]:
    """Return, for each name in the paths of a run's files, the common name of the first of these.

    Args:
        names_of: returns the names in a path that are other ones in each run.
    """
    found: dict[_Name, str] = {}
    for table in tables:
        for common in sorted(table.of(run)):
            output = table.output(run, common)
            for name in names_of(output.path) if output is not None and output.path != common else ():
                found.setdefault(name, common)
    return found


def _drawn_parts(path: str) -> Iterator[str]:
    return map(shortened, drawn_names([path]))


def _streams(runs: Sequence[Ran], ignore: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield the streams that are compared, as options and as messages name them, and whether their order counts."""
    several = several_processes(*(each.record for each in runs))
    for kind, place in _STREAMS.items():
        if not any(fnmatchcase(kind, pattern) for pattern in ignore):
            yield kind, place, not several and not any(_printed(run, kind).threads for run in runs)


def _printed(run: Ran, kind: str) -> Printed:
    return run.stdout if kind == "stdout" else run.stderr


def _in_streams(runs: Sequence[Ran], ignore: Sequence[str]) -> Iterator[tuple[str, _Names]]:
    for kind, place, ordered in _streams(runs, ignore):
        yield place, ([_printed(run, kind).names for run in runs], ordered)


def _in_files(runs: Sequence[Ran], tables: Sequence[FileTable]) -> Iterator[tuple[str, _Names]]:
    for table in tables:
        for name, _ in table.in_other_bytes():
            contents = [table.content(run, name) for run in runs]
            names: list[Sequence[str]] = [each.names if each is not None else () for each in contents]
            yield name, (names, not _in_any_order(table, runs, name))


def _in_any_order(table: FileTable, runs: Sequence[Ran], name: str) -> bool:
    """Whether the parts of a file come in any order, as all readers of it in the runs found."""
    contents = [table.content(run, name) for run in runs]
    return all(each is not None and each.unordered for each in contents)


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
