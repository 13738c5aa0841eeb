"""The channels by which a program leaves results, each with a reader that knows what equal runs have in common there.

Channels are how the program ended, the files it left or deleted, folders, the step trace of its parameters, the metrics
it measured, the files it left outside its project, and what it printed. Files of equal content
(``record.Output.content``) are equal, whatever their bytes: Keras writes the time of saving into every model.
TensorBoard's event files hold the time of each value, and their names too: their metrics are compared in their place,
and what else is in them. Of what is printed, times and the like are masked (``masks``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol

from envbuild.core.digest import sha256_json
from envbuild.core.patterns import lazy
from envbuild.core.text import plural
from envbuild.record.compare_outputs import attributes, different_tensors, folders_and_modes
from envbuild.record.compare_printed import only_order_differs, several_processes
from envbuild.record.measurements import is_measured
from envbuild.record.model import Record
from envbuild.record.printed import STREAMS, Printed
from envbuild.record.shared_names import common_names as shared_names
from envbuild.record.shared_names import shortened
from envbuild.verification.content.canonical import Content, compare
from envbuild.verification.content.names import common_names, drawn_names, numbered_names
from envbuild.verification.files import FileTable, masks_of
from envbuild.verification.ran import Ran
from envbuild.verification.verdict import ChannelKind, some

_METRIC = "metric:"
_NO_FOLDERS = frozenset(("", "keras", "standard output"))
"""Sources of metrics that are no folders."""
_NUMBERED = lazy(r"\d{4}")
"""Names with a time, or drawn for a run, have it."""
_LATER = "a later value"
"""Where two files differ beyond the entries that are kept to be shown."""
_MANY = 100
"""Metrics of one source, or values of one, from which a record may lack some."""
_EVENTS = lazy(r"events\.out\.tfevents\.\d+\..*")
_ROLLED, _NUMBER_OF_LOG = lazy(r"(?:\.(\d{1,4}))?"), lazy(r"\.\d{1,4}\Z")
"""What ``RotatingFileHandler`` puts behind the name of a log that was full, the highest number behind the oldest."""
_TEMPORARY = lazy(r"(?<=/)tmp(?!_[a-z]+_\d+(?:[/.]|\Z))[a-z0-9_]{8}(?=[/.]|\Z)")
"""As Python's ``tempfile`` makes them."""


class Reader(Protocol):
    """Knows one kind of result."""

    kind: ChannelKind

    def value(self, run: Ran) -> Any:
        """Return what equal runs have in common, as JSON values."""

    def compared(self, run: Ran) -> tuple[int, str]:
        """Return how many results a run left, and them in a phrase."""

    def masked(self, run: Ran) -> tuple[str, ...]:
        """Return what of a run is not compared, a phrase each."""

    def differences(self, one: Ran, other: Ran) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what differs between two runs: a phrase each, and names."""


def readers(runs: Sequence[Ran], ignore: Sequence[str], files: FileTable, outside: FileTable) -> list[Reader]:
    """Return a reader for each channel.

    Args:
        runs: all that are compared.
        ignore: as for ``judge``.
        files, outside: the files that are compared.
    """
    found: list[Reader] = [_End(), _Files(files), _Deleted(ignore), _Folders(runs, ignore)]
    return [*found, _Steps(), _Metrics(ignore), _Events(ignore), _Outside(outside), *_streams(runs, ignore)]


def agree_elsewhere(runs: Sequence[Ran], ignore: Sequence[str]) -> bool:
    """Whether runs agree in all but what is in files, printed and measured: end, steps, folders."""
    found: list[Reader] = [_End(), _Deleted(ignore), _Folders(runs, ignore), _Steps()]
    return all(len({sha256_json(reader.value(each)) for each in runs}) == 1 for reader in found)


def agree_outside(runs: Sequence[Ran], ignore: Sequence[str]) -> bool:
    """Whether runs left equal files outside their project; ``ignore`` as for ``judge``."""
    reader = _Outside(outside_table(runs, ignore))
    return len({sha256_json(reader.value(each)) for each in runs}) == 1


def metrics_of(run: Ran, ignore: Sequence[str]) -> dict[str, Any]:
    """Return what a run measured, but for times by their names; ``ignore`` as for ``judge``.

    Where its record may lack some, as there are so many, the digest of all is there too.
    """
    reader = _Metrics(ignore)
    found = reader.of_record(run.record)
    if _may_lack(run.record):
        found["TensorBoard's numbers"] = [[0, each] for each in reader.of_files(run)]
    return found


def known_names(runs: Sequence[Ran], ignore: Sequence[str], files: FileTable) -> list[Sequence[Any]]:
    """Return the names that look drawn and are data (``Ran.known``): of paths, event files and streams, by run."""
    events = _Events(ignore)
    return [
        [[*_known_in_paths(run), *_known_in_renamed(run, files)] for run in runs],
        [sorted(names for _, names in events.named(run)) for run in runs],
        *([stream.names_of(run) for run in runs] for stream in _streams(runs, ignore)),
    ]


def _streams(runs: Sequence[Ran], ignore: Sequence[str]) -> list[_Stream]:
    several = several_processes(*(each.record for each in runs))
    return [_Stream(kind, runs, several=several) for kind in STREAMS if not is_ignored(kind, ignore)]


class _End:
    """How the program ended."""

    kind: ChannelKind = "end"

    def value(self, run: Ran) -> Any:
        return [run.record.state, run.record.exit_code, run.record.timed_out is not None]

    def compared(self, run: Ran) -> tuple[int, str]:
        return 1, ""

    def masked(self, run: Ran) -> tuple[str, ...]:
        return ()

    def differences(self, one: Ran, other: Ran) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.value(one) == self.value(other):
            return (), ()
        return (f"{_ended(one.record)} in one run, {_ended(other.record)} in another",), ()


class _Files:
    """Files that the program left, by their content.

    Args:
        table: those that are compared.
    """

    kind: ChannelKind = "files"

    def __init__(self, table: FileTable) -> None:
        self._table = table

    def value(self, run: Ran) -> Any:
        found = sorted(self._table.of(run).items())
        names = [*_known_in_paths(run), *_known_in_renamed(run, self._table)]
        return [found, names] if names else found

    def compared(self, run: Ran) -> tuple[int, str]:
        count = len([name for name in self._table.of(run).values() if name is not None])
        return count, plural(count, "file") if count else ""

    def masked(self, run: Ran) -> tuple[str, ...]:
        closed = [path for path, name in self._table.of(run).items() if name is None]
        return (f"{some(closed)} could not be read",) if closed else ()

    def differences(self, one: Ran, other: Ran) -> tuple[tuple[str, ...], tuple[str, ...]]:
        mine, theirs = self._table.of(one), self._table.of(other)
        names = tuple(path for path in sorted({*mine, *theirs}) if mine.get(path, "") != theirs.get(path, ""))
        if not names:
            one_of, other_of = ({*_paths_with_known(run)} for run in (one, other))
            paths = some(sorted(one_of ^ other_of))
            return ((f"names of files: {paths}",), ()) if one_of != other_of else ((), ())
        phrase = some([_with_reason(path, self._table, one, other) for path in names])
        return (f"{phrase}{_of_rolling_log(names, self._table, one, other)}",), names


def _of_rolling_log(names: Sequence[str], table: FileTable, one: Ran, other: Ran) -> str:
    """Return why files differ that are one log of the same lines, which begins a new file when one is full."""
    for base in dict.fromkeys(_NUMBER_OF_LOG.sub("", name) for name in names):
        paths = [path for path in table.of(one) if _ROLLED.fullmatch(path.removeprefix(base)) is not None]
        if len(paths) < 2:
            continue
        lines = [_lines_of_log(base, table, run) for run in (one, other)]
        if lines[0] and lines[0] == lines[1]:
            return f"; {base} has the same lines, and rolls over by its size, which times in it change"
    return ""


def _lines_of_log(base: str, table: FileTable, run: Ran) -> list[str]:
    """Return the lines that count in the files of a log, the oldest first; none if one of them is not known."""
    found: list[tuple[int, str]] = []
    for path in table.of(run):
        rolled = _ROLLED.fullmatch(path.removeprefix(base)) if path.startswith(base) else None
        if rolled is not None:
            found.append((-int(rolled[1] or 0), path))
    contents = [table.content(run, path) for _, path in sorted(found)]
    if any(each is None for each in contents):
        return []
    return [value for each in contents if each is not None for _, value in each.entries if value]


def _known_in_paths(run: Ran) -> list[str]:
    """Return the names in the paths of a run's files that look drawn and are data."""
    found = drawn_names(each.path for each in run.record.outputs) if run.known else ()
    return sorted(name for name in found if shortened(name) in run.known)


def _known_in_renamed(run: Ran, files: FileTable) -> list[str]:
    """Return the same of files that are compared under another name: in which of them each is."""
    found: list[str] = []
    for common in sorted(files.of(run)) if run.known else ():
        path = output.path if (output := files.output(run, common)) is not None else common
        if path != common:
            names = sorted(drawn_names([path]), key=path.find)
            found += [f"{common}: {name}" for name in names if shortened(name) in run.known]
    return found


def _paths_with_known(run: Ran) -> Iterator[str]:
    names = _known_in_paths(run)
    yield from (each.path for each in run.record.outputs if any(name in each.path for name in names))


class _Outside:
    """Files that the program left outside its project, by their content.

    Names that are made for the moment (``tempfile``) are not compared, what is in such files is.

    Args:
        table: those that are compared.
    """

    kind: ChannelKind = "outside"

    def __init__(self, table: FileTable) -> None:
        self._table = table

    def value(self, run: Ran) -> Any:
        found = sorted((path, str(content)) for path, content in self._found(run))
        return [found, names] if (names := _known_in_renamed(run, self._table)) else found

    def compared(self, run: Ran) -> tuple[int, str]:
        count = len([path for path, content in self._found(run) if content is not None])
        return count, f"{plural(count, 'file')} outside the project" if count else ""

    def masked(self, run: Ran) -> tuple[str, ...]:
        return run.record.outside_left_out

    def differences(self, one: Ran, other: Ran) -> tuple[tuple[str, ...], tuple[str, ...]]:
        mine, theirs = Counter(self._found(one)), Counter(self._found(other))
        names = tuple(sorted({path for path, _ in (mine - theirs) + (theirs - mine)}))
        if not names and (known := {*_known_in_renamed(one, self._table)} ^ {*_known_in_renamed(other, self._table)}):
            return (f"outside the project: names of files: {some(sorted(known))}",), ()
        own = {_TEMPORARY.sub("tmp*", name): name for run in (one, other) for name in self._table.of(run)}
        reasons = [path + _with_reason(own[path], self._table, one, other).removeprefix(own[path]) for path in names]
        return ((f"outside the project: {some(reasons)}",) if names else ()), names

    def _found(self, run: Ran) -> list[tuple[str, str | None]]:
        return [(_TEMPORARY.sub("tmp*", path), content) for path, content in self._table.of(run).items()]


class _Deleted:
    """Files of the project that the program removed; ``ignore`` as for files."""

    kind: ChannelKind = "deleted"

    def __init__(self, ignore: Sequence[str]) -> None:
        self._ignore = ignore

    def value(self, run: Ran) -> Any:
        return [path for path in run.record.deleted if not is_ignored(path, self._ignore)]

    def compared(self, run: Ran) -> tuple[int, str]:
        return len(self.value(run)), ""

    def masked(self, run: Ran) -> tuple[str, ...]:
        return ()

    def differences(self, one: Ran, other: Ran) -> tuple[tuple[str, ...], tuple[str, ...]]:
        names = tuple(sorted({*self.value(one)} ^ {*self.value(other)}))
        return ((f"deleted: {some(names)}",) if names else ()), names


class _Folders:
    """Empty folders; permissions and extended attributes of files and folders that all runs have.

    ``ignore`` as for files.

    Names are common ones, as for files; folders with files in them are there because of those.
    """

    kind: ChannelKind = "folders"

    def __init__(self, runs: Sequence[Ran], ignore: Sequence[str]) -> None:
        found = [(*folders_and_modes(run.record), attributes(run.record)) for run in runs]
        wanted = [
            [path for path in sorted({*empty, *modes}) if not is_ignored(path, ignore) and not is_event_file(path)]
            for empty, modes, _ in found
        ]
        written = [_written_near(paths, run.written) for paths, run in zip(wanted, runs, strict=True)]
        names = common_names([(paths, masks_of(run.record)) for paths, run in zip(wanted, runs, strict=True)], written)
        self._tables: list[tuple[int, dict[str, str]]] = []
        for run, paths, (empty, modes, extended), table in zip(runs, wanted, found, names, strict=True):
            named = {
                table.get(path, path): f"{'empty ' * (path in empty)}{modes.get(path, '')} {extended.get(path, '')}"
                for path in paths
            }
            self._tables.append((id(run), named))
        everywhere = set.intersection(*({*table} for _, table in self._tables)) if self._tables else set()
        # What only some have and is not empty differs by the files in it.
        for _, table in self._tables:
            for name in [each for each, text in table.items() if each not in everywhere and "empty" not in text]:
                del table[name]

    def value(self, run: Ran) -> Any:
        return sorted(self._of(run).items())

    def compared(self, run: Ran) -> tuple[int, str]:
        return len(self._of(run)), ""

    def masked(self, run: Ran) -> tuple[str, ...]:
        return ()

    def differences(self, one: Ran, other: Ran) -> tuple[tuple[str, ...], tuple[str, ...]]:
        mine, theirs = self._of(one), self._of(other)
        names = tuple(name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name))
        phrases = [_of_folders(name, mine.get(name, ""), theirs.get(name, "")) for name in names]
        return ((some(phrases),) if names else ()), names

    def _of(self, run: Ran) -> dict[str, str]:
        return next(table for each, table in self._tables if each == id(run))


def _written_near(paths: Sequence[str], written: Mapping[str, int]) -> dict[str, int]:
    """Return when the first file was written in each folder, or, of one without files, in the next one above it."""
    near: dict[str, int | None] = {"": None}
    for path, first in sorted(written.items(), key=lambda each: each[1]):
        near.update(dict.fromkeys(_up_to(path, near), first))  # those above one that is known are known, and earlier
    for path in paths:
        if way := _up_to(path, near):
            near.update(dict.fromkeys(way, near[_above(way[-1])]))
    return {path: moment for path in paths if (moment := near[path]) is not None}


def _up_to(path: str, known: Container[str]) -> list[str]:
    """Return a path and the folders above it, up to the first that is known."""
    way = []
    while path not in known:
        way.append(path)
        path = _above(path)
    return way


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _of_folders(name: str, before: str, after: str) -> str:
    """Describe what differs of a folder or a file: there and empty, permissions, extended attributes."""
    (one, extended), (other, changed) = (text.rpartition(" ")[::2] for text in (before, after))
    if one and other and one.split()[-1:] != other.split()[-1:]:
        return f"permissions of {name} ({one.split()[-1]} → {other.split()[-1]})"
    return f"extended attributes of {name}" if extended != changed else f"the empty folder {name}"


class _Steps:
    """The parameters after each step of an optimiser, from the step traces."""

    kind: ChannelKind = "steps"

    def value(self, run: Ran) -> Any:
        return run.trace

    def compared(self, run: Ran) -> tuple[int, str]:
        return run.steps, f"{plural(run.steps, 'step')} of {plural(run.tensors, 'tensor')}" if run.steps else ""

    def masked(self, run: Ran) -> tuple[str, ...]:
        return ()

    def differences(self, one: Ran, other: Ran) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (("the parameters in training",) if one.trace != other.trace else ()), ()


class _Metrics:
    """What the program measured, but for times; ``ignore`` as for files."""

    kind: ChannelKind = "metrics"

    def __init__(self, ignore: Sequence[str]) -> None:
        self._files = ignore
        self._ignore = [each.removeprefix(_METRIC) for each in ignore if each.startswith(_METRIC)]

    def value(self, run: Ran) -> Any:
        return [self.of_record(run.record), self.of_files(run)]

    def of_record(self, record: Record) -> dict[str, Any]:
        """Return what the record has: the first of very many, and of very many values of one every second, or fewer."""
        found = _metrics(record)
        return {name: found[name] for name in found if not _matches(name, self._ignore)}

    def of_files(self, run: Ran) -> list[str]:
        """Return digests of all that is in TensorBoard's files; none if some of it shall not be compared."""
        return [] if self._ignore else sorted(each.scalars for each in _opened_events(run, self._files) if each.scalars)

    def compared(self, run: Ran) -> tuple[int, str]:
        count = len(self.of_record(run.record))
        return count, plural(count, "metric") if count else ""

    def masked(self, run: Ran) -> tuple[str, ...]:
        names = run.record.metrics.keys() - self.of_record(run.record).keys()
        beyond = ("metrics beyond those of the record",) if self._ignore and _may_lack(run.record) else ()
        return (*sorted(names), *beyond)

    def differences(self, one: Ran, other: Ran) -> tuple[tuple[str, ...], tuple[str, ...]]:
        mine, theirs = self.of_record(one.record), self.of_record(other.record)
        names = tuple(name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name))
        phrase = f"metrics: {some([_with_values(name, mine, theirs) for name in names])}"
        if not names and self.of_files(one) != self.of_files(other):
            pair = ([each for each in _opened_events(run, self._files) if each.scalars] for run in (one, other))
            reasons = [compare(a, b).why or _LATER for a, b in zip(*pair, strict=False) if a.scalars != b.scalars]
            phrase, names = f"metrics: {'; '.join(reasons[:2]) or 'event files of other number'}", ("event files",)
        return ((phrase,) if names else ()), names


class _Events:
    """Histograms, images and texts in TensorBoard's event files; ``ignore`` as for files.

    Files have the time, the host and the process in their names, so they are compared in any order.
    """

    kind: ChannelKind = "events"

    def __init__(self, ignore: Sequence[str]) -> None:
        self._ignore = ignore

    def value(self, run: Ran) -> Any:
        return sorted(content.others + names for content, names in self.named(run))

    def compared(self, run: Ran) -> tuple[int, str]:
        count = sum(content.count for content in self._of(run))
        return count, f"{plural(count, 'other value')} of TensorBoard" if count else ""

    def masked(self, run: Ran) -> tuple[str, ...]:
        closed = [path for path in event_files(run, self._ignore) if path not in run.contents]
        return (f"{some(closed)}: all but scalars",) if closed else ()

    def differences(self, one: Ran, other: Ran) -> tuple[tuple[str, ...], tuple[str, ...]]:
        mine, theirs = ({each.others + names: each for each, names in self.named(run)} for run in (one, other))
        pairs = list(zip([*mine], [*theirs], strict=False))
        reasons = [compare(mine[a], theirs[b]).why or _LATER for a, b in pairs if a != b]
        if self.value(one) == self.value(other):
            return (), ()
        return (f"TensorBoard's event files ({'; '.join(reasons[:2]) or 'of other number'})",), ()

    def named(self, run: Ran) -> Iterator[tuple[Content, str]]:
        """Yield what is in the files, and the names in each that look drawn and are data."""
        for content in self._of(run):
            yield content, "".join(f" {name}" for name in content.names if name in run.known)

    def _of(self, run: Ran) -> list[Content]:
        """Return what is in the files that hold more than scalars."""
        return [content for content in _opened_events(run, self._ignore) if content.others]


class _Stream:
    """What the program printed to one of its two streams, measurements and names of the moment masked.

    Args:
        kind: which.
        runs: all that are compared.
        several: it had several processes, whose lines come in any order.
    """

    def __init__(self, kind: Literal["stdout", "stderr"], runs: Sequence[Ran], *, several: bool) -> None:
        self.kind: ChannelKind = kind
        self._name = STREAMS[kind]
        self._several = several
        ordered = not several and not any(self._of(run).threads for run in runs)
        known = frozenset(name for run in runs for name in run.known)
        names = shared_names([self._of(run).names for run in runs], ordered=ordered, known=known)
        self._names = {id(run): each for run, each in zip(runs, names, strict=True)}
        shuffled = len({self._of(run).sha256 for run in runs}) > len({str(self.value(run)) for run in runs})
        self._shuffled = f"several {'processes' if several else 'threads'} printed" if shuffled else ""

    def names_of(self, run: Ran) -> list[str]:
        """Return the names of a run that look drawn and are data, and of others which are the same."""
        return self._names[id(run)]

    def value(self, run: Ran) -> Any:
        printed = self._of(run)
        digest = printed.unordered if self._several else printed.digest
        return [digest, names] if (names := self._names.get(id(run))) else digest

    def compared(self, run: Ran) -> tuple[int, str]:
        printed = self._of(run)
        if not printed.lines:
            return 0, ""
        order = f", which came in another order ({self._shuffled})" if self._shuffled else ""
        return printed.lines, f"{printed.phrase(self._name)}{order}"

    def masked(self, run: Ran) -> tuple[str, ...]:
        masked = self._of(run).masked
        order = (f"order, as {self._shuffled}",) if self._shuffled else ()
        return (*(f"{plural(count, 'line')} with {kind}" for kind, count in masked.items()), *order)

    def differences(self, one: Ran, other: Ran) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.value(one) == self.value(other):
            return (), ()
        reordered = only_order_differs(self._of(one), self._of(other))
        return (f"{self._name}{' (the same lines in another order)' if reordered else ''}",), ()

    def _of(self, run: Ran) -> Printed:
        return run.stdout if self.kind == "stdout" else run.stderr


def is_event_file(path: str) -> bool:
    """Whether a file is TensorBoard's: its name and its bytes hold the time."""
    return _EVENTS.fullmatch(path.rpartition("/")[2]) is not None


def event_files(run: Ran, ignore: Sequence[str]) -> list[str]:
    """Return the paths of a run's event files that are compared; ``ignore`` as for ``judge``."""
    paths = (each.path for each in run.record.outputs if each.sha256 is not None)
    return [path for path in paths if is_event_file(path) and not is_ignored(path, ignore)]


def _opened_events(run: Ran, ignore: Sequence[str]) -> list[Content]:
    """Return what is in a run's event files that were opened; ``ignore`` as for ``judge``."""
    found = (run.contents.get(path) for path in event_files(run, ignore))
    return [content for content in found if content is not None]


def file_table(runs: Sequence[Ran], ignore: Sequence[str]) -> FileTable:
    """Return the files that are compared; ``ignore`` as for ``judge``."""
    compared = [
        [
            path
            for path in (each.path for each in run.record.outputs)
            if not is_ignored(path, ignore) and not is_event_file(path)
        ]
        for run in runs
    ]
    return FileTable(runs, compared)


def outside_table(runs: Sequence[Ran], ignore: Sequence[str]) -> FileTable:
    """Return the files outside the project that are compared; ``ignore`` as for ``judge``."""
    paths = [[each.path for each in run.record.outside if not is_ignored(each.path, ignore)] for run in runs]
    return FileTable(runs, paths, outside=True)


def _metrics(record: Record) -> dict[str, Any]:
    """Return what was measured, but for times.

    PyTorch's and tensorboardX's ``add_hparams`` put metrics into a folder that is called by the time: what is called by
    its folder is masked as the names of files are, if that leaves it a name of its own.
    """
    found = {
        name: [list(point) for point in points]
        for name, points in record.metrics.items()
        if not is_measured(name, (value for _, value in points))
    }
    folders = {name: _folder(name, record.metric_sources.get(name, "")) for name in found}
    below = sorted({each for each in folders.values() if _NUMBERED.search(each) is not None})
    masked = numbered_names(below, masks_of(record)) if below else {}
    names = {name: f"{masked[each]}{name[len(each) :]}" for name, each in folders.items() if each in masked}
    if len({*names.values(), *(found.keys() - names.keys())}) < len(found):
        return found
    return {names.get(name, name): points for name, points in found.items()}


def _folder(name: str, source: str) -> str:
    """Return the end of the folder of an event file that a metric's name begins with; empty if it does not."""
    parts = source.split("/") if source not in _NO_FOLDERS else []
    ends = ("/".join(parts[at:]) for at in range(len(parts)))
    return next((end for end in ends if name.startswith(f"{end}/")), "")


def _may_lack(record: Record) -> bool:
    """Whether there are so many metrics, or values of one, that a record may not have them all."""
    sources = Counter(record.metric_sources.values())
    return max([*sources.values(), *map(len, record.metrics.values())], default=0) >= _MANY


def is_ignored(path: str, ignore: Sequence[str]) -> bool:
    """Whether a file or a stream is not compared, as it or a folder above it was named; ``ignore`` as for ``judge``."""
    return _matches(path, ignore) or any(path.startswith(f"{pattern.rstrip('/')}/") for pattern in ignore)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _with_reason(path: str, files: FileTable, one: Ran, other: Ran) -> str:
    """Name a file, of a saved model the tensors that differ, and of one that was opened what in it differs first."""
    pair = files.output(one, path), files.output(other, path)
    if pair[0] is None or pair[1] is None:
        return path
    names = different_tensors(pair[0], pair[1]) if pair[0].tensors and pair[1].tensors else ()
    if names:
        return f"{path} ({len(names):,} of {plural(len(pair[0].tensors), 'tensor')}: {some(names, 2)})"
    mine, theirs = files.content(one, path), files.content(other, path)
    why = compare(mine, theirs).why if mine is not None and theirs is not None else ""
    return f"{path} ({why})" if why else path


def _with_values(name: str, mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Name a metric with the last value of both runs, if these differ."""
    last = [table[name][-1][1] if table.get(name) else None for table in (mine, theirs)]
    return f"{name} {last[0]} → {last[1]}" if None not in last and last[0] != last[1] else name


def _ended(record: Record) -> str:
    if record.timed_out is not None:
        return f"ended after {record.timed_out:.0f} s, its time limit,"
    return f"exit {record.exit_code}" if record.state == "finished" else record.state
