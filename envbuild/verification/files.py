"""Which files of several runs are equal: by bytes, by what the image's reader found, or by content."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from functools import cache
from typing import Protocol

import msgspec

from envbuild.core.patterns import lazy
from envbuild.record.model import Output, Record
from envbuild.verification.content.canonical import Content
from envbuild.verification.content.lance import may_be_parts as may_be_of_lance
from envbuild.verification.content.names import common_names, drawn_names, masked_path, may_be_cached, own_names
from envbuild.verification.content.ocdbt import may_be_parts
from envbuild.verification.content.rolling_logs import fit_one_limit
from envbuild.verification.masking.days import Clocks
from envbuild.verification.masking.masks import Masks

_ZONE = "TZ"
_POSIX = lazy(r"[A-Za-z]{3,}([+-]?\d{1,2})")
"""A time zone of POSIX without a summer time, by the hours that it is behind UTC: ``JST-9``."""
_OTHERS = 64
"""Numbers behind that of the last process of Python that others may have."""


class HasFiles(Protocol):
    """A run and the contents of those of its files that were opened, by path."""

    @property
    def record(self) -> Record:
        """The run's record."""

    @property
    def contents(self) -> Mapping[str, Content]:
        """What was opened."""

    @property
    def written(self) -> Mapping[str, int]:
        """When files were written last, by path, as far as it is known."""


def masks_of(record: Record, ignored: Sequence[str] = (), *, moments: bool = True, days: bool = True) -> Masks:
    """Return what masks the times of a run, and the names that it drew for its files; the rest is as in ``Masks``."""
    start = datetime.fromisoformat(record.start.replace("Z", "+00:00")).timestamp()
    return with_files_of(record, Masks(start, ignored, moments=moments, days=days))


def stream_masks(record: Record, ignored: Sequence[str] = (), clocks: frozenset[int] | None = None) -> Masks:
    """Return what masks a stream of a run, once: the rest is as in ``masks_of``.

    Args:
        record: of the run.
        ignored: lines that are not compared.
        clocks: places of times of day that all runs have in common.
    """
    masks = masks_of(record, ignored)
    masks = masks.with_clocks(Clocks(clocks)) if clocks else masks
    masks.origin = (record, tuple(ignored), clocks or frozenset())
    return masks


def with_files_of(record: Record, masks: Masks) -> Masks:
    """Return masks that know the files of a run: the names that it drew for them, and their digests."""

    @cache
    def digests() -> Mapping[str, str]:
        return {each.sha256: masked_path(each.path, masks) for each in reversed(record.outputs) if each.sha256}

    paths = [output.path for output in (*record.outputs, *record.outside)]

    @cache
    def own() -> Mapping[bytes, bytes]:
        return own_names(paths, masks)

    fixed = _has_fixed_clock(record)
    return masks.with_files(
        drawn_names(paths),
        digests,
        record.duration or 0.0,
        _processes(record),
        on_several_hosts=record.rank is not None,
        strict=record.duration is not None and not fixed,
        own=own,
        own_processes=frozenset(number for each in record.processes for number in (each.pid, each.parent) if number),
        has_fixed_clock=fixed,
        zones=tuple(each for name in zones_of(record) if (each := _ahead(name, record.start)) is not None),
    )


def zones_of(record: Record) -> tuple[str, ...]:
    """Return the time zones that the program has set (``TZ``), each once."""
    values = (each.environment_changed.get(_ZONE) for each in record.processes)
    return tuple(dict.fromkeys(value for value in values if value))


def _ahead(name: str, start: str) -> float | None:
    """Return the seconds by which local time was ahead of UTC when a run began; None of a zone that is not known."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    moment = datetime.fromisoformat(start.replace("Z", "+00:00"))
    found = _POSIX.fullmatch(name)
    if found is not None:
        return -float(found[1]) * 3600
    try:
        offset = moment.astimezone(ZoneInfo(name)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    return offset.total_seconds() if offset is not None else None


def _has_fixed_clock(record: Record) -> bool:
    """Whether a run was an experiment in which a line of it got the time of a fixed clock."""
    return any(
        row.suspect == "clock"
        for each in record.processes
        for row in (each.asked if each.asked is not msgspec.UNSET else ())
    )


def _processes(record: Record) -> range:
    """Return the numbers that a run's processes may have, from the first to the last that is known; none if none is.

    Some are not known, also behind the last: workers that are ended may leave nothing, and programs that are not Python
    never do. Ranks have those of other machines too.
    """
    numbers = [number for each in record.processes for number in (each.pid, each.parent)]
    if record.rank is not None or record.processes_left_out or not all(each.pid for each in record.processes):
        return range(0)
    return range(min(numbers), max(numbers) + _OTHERS) if numbers else range(0)


def parts_of(contents: Mapping[str, Content]) -> Mapping[str, str]:
    """Return the files that count by the content of another one, and that one's path for each."""
    return {
        posixpath.normpath(posixpath.join(posixpath.dirname(path), part)): path
        for path, content in contents.items()
        for part in content.parts
    }


def _without(paths: Sequence[str], parts: Set[str]) -> Sequence[str]:
    return [path for path in paths if path not in parts] if parts else paths


class FileTable:
    """The files of several runs under common names; those that count by the content of another one are not there.

    Args:
        runs: each with its record and the contents of the files that were opened.
        compared: the paths of each that are compared.
        outside: they are those outside the project.
    """

    def __init__(self, runs: Sequence[HasFiles], compared: Sequence[Sequence[str]], *, outside: bool = False) -> None:
        self.runs = runs
        masks = [masks_of(run.record) for run in runs]
        parts = [parts_of(run.contents).keys() for run in runs]
        named = [
            _without(paths, may_be_parts(paths) | may_be_cached(paths) | may_be_of_lance(paths) | known)
            for paths, known in zip(compared, parts, strict=True)
        ]
        self._names = common_names(list(zip(named, masks, strict=True)), [run.written for run in runs])
        wanted = [{*paths} - known for paths, known in zip(compared, parts, strict=True)]
        self._outputs: list[dict[str, Output]] = [
            {
                names.get(each.path, each.path): each
                for each in (run.record.outside if outside else run.record.outputs)
                if each.path in paths
            }
            for run, names, paths in zip(runs, self._names, wanted, strict=True)
        ]
        self._classes = [dict[str, str | None]() for _ in runs]
        for name in sorted({name for table in self._outputs for name in table}):
            self._classify(name)

    @property
    def renamed(self) -> tuple[str, ...]:
        """The common names of files that are equal, and whose own names differ between runs."""
        names = sorted({*self._names[0].values()}) if self._names else []
        return tuple(name for name in names if len({classes.get(name) for classes in self._classes}) == 1)

    def of(self, run: HasFiles) -> Mapping[str, str | None]:
        """Return a name for the content of each file of a run, equal for equal content; None for unreadable files."""
        return self._classes[self._place(run)]

    def output(self, run: HasFiles, name: str) -> Output | None:
        """Return a file of a run by its common name."""
        return self._outputs[self._place(run)].get(name)

    def content(self, run: HasFiles, name: str) -> Content | None:
        """Return what was found in a file of a run; None if it was not opened."""
        output = self.output(run, name)
        return run.contents.get(output.path) if output is not None else None

    def in_other_bytes(self) -> list[tuple[str, list[int]]]:
        """Return the names of files whose bytes differ, with the runs that have them, by their place."""
        found = []
        for name in sorted({name for table in self._outputs for name in table}):
            places = [at for at, table in enumerate(self._outputs) if name in table]
            if len({self._outputs[at][name].sha256 for at in places}) > 1:
                found.append((name, places))
        return found

    def in_doubt(self) -> list[tuple[int, str]]:
        """Return the files to open, by the place of their run: other bytes, and no reader found them to be equal."""
        return [
            (at, self._outputs[at][name].path)
            for name, places in self.in_other_bytes()
            if len({self._classes[at][name] for at in places}) > 1
            for at in places
        ]

    def is_one_log(self, name: str) -> bool:
        """Whether a log that begins new files when one is full does so by one limit in all runs."""
        outputs = [(at, table[name]) for at, table in enumerate(self._outputs) if name in table]
        found = [(self.runs[at].contents.get(output.path), output.size) for at, output in outputs]
        return not any(each is not None and each.rolls for each, _ in found) or fit_one_limit(found)

    def _parts(self, at: int, path: str) -> Iterator[tuple[str, str]]:
        """Yield name and digest of a file of a run, and of those that count by its content."""
        record, parts = self.runs[at].record, parts_of(self.runs[at].contents)
        for each in (*record.outputs, *record.outside):
            if path in (each.path, parts.get(each.path)):
                yield each.path, str(each.sha256)

    def _place(self, run: HasFiles) -> int:
        return next(at for at, each in enumerate(self.runs) if each is run)

    def _classify(self, name: str) -> None:
        """Put the runs that have a file into classes of equal content."""
        classes: dict[tuple[str, str], str] = {}
        one_log = self.is_one_log(name)
        for at, table in enumerate(self._outputs):
            if name not in table:
                continue
            output = table[name]
            if output.sha256 is None:
                self._classes[at][name] = None
                continue
            opened = self.runs[at].contents.get(output.path)
            digest = opened.digest if opened else ""
            if opened and opened.rolls and not one_log:
                digest += f" {sorted(self._parts(at, output.path))}"
            # What counts by several files is not known by the bytes of one.
            of_bytes = "" if opened and opened.parts else output.sha256
            keys = [
                (kind, value)
                for kind, value in (("bytes", of_bytes), ("tensors", output.content), ("content", digest))
                if value
            ]
            known = {classes[key] for key in keys if key in classes}
            chosen = min(known) if known else output.content or of_bytes or digest
            for key, value in classes.items():
                if value in known:
                    classes[key] = chosen
            for earlier in self._classes[:at]:
                if earlier.get(name) in known:
                    earlier[name] = chosen
            classes |= dict.fromkeys(keys, chosen)
            self._classes[at][name] = chosen
