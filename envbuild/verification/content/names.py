"""Names of files and folders that are made of the time and of chance: ``runs/20261122-101500_ab12cd/w.npy``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache, partial

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import day
from envbuild.verification.content.members import UUID
from envbuild.verification.masking.masks import Masks, common_host, moment_of

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = lazy(
    r"(?<!\d)(?P<year>20\d\d)(?P<mark>[-_.]?)(?P<month>\d\d)(?P=mark)(?P<day>\d\d)"
    r"(?:[-_T /.]{1,2}\d\d[-_.:h]?\d\d(?:[-_.:m]?\d\d)?(?:[._]\d{3,6}(?![0-9a-z])|\d{6}(?!\d))?s?Z?"
    r"(?![0-9a-zA-Z]))?(?!\d)"
)
_TIME = lazy(r"[-_T /.]{1,2}(?:[01]\d|2[0-4])[-_.:h]?[0-5]\d(?:[-_.:m]?[0-6]\d)?(?:\d{6})?(?![0-9])")
_SHORT = lazy(r"(?i)(?<![a-z])(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?P<day>\d\d)_\d\d-\d\d-\d\d")
_YEARLESS = lazy(r"(?<!\d)(?P<month>[01]\d)(?P<day>[0-3]\d)[-_](?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?(?!\d)")
_OF_DAY = lazy(r"(?<![0-9a-zA-Z])\d\dh\d\dm\d\ds?(?![0-9a-zA-Z])")
_EPOCH = lazy(r"(?<![\d.])(?P<whole>\d{10}(?:\d{3}|\d{6}|\d{9})?)(?:\.\d+)?(?!\d)")
_OF_EVENTS = lazy(r"(?<=tfevents\.)(?P<whole>\d{10})(?=\.)")
_BEHIND = lazy(
    r"(?<=⟩)([-_.])(?:[0-9a-f]{6,40}|(?=[a-z]*\d)(?![a-z]{4,}\d{1,3}(?![0-9a-z]))(?:[0-9a-f]{4,5}|[0-9a-z]{8}))(?![0-9a-z])"
)
"""What is behind a date is drawn for the run, even if it has no digits."""
_DRAWN = lazy(r"(?<![0-9a-zA-Z])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,40}(?![0-9a-zA-Z])")


def masked_path(path: str, masks: Masks) -> str:
    """Return a path without dates about when the run was, and names that were drawn for it."""
    text = UUID.sub("⟨name⟩", common_host(masks.without_names(path)))
    for pattern in (_DATE, _SHORT, _EPOCH, _OF_EVENTS, _YEARLESS):
        text = pattern.sub(partial(_dated, masks), text)
    text = _RUN_OF_SNAPSHOT.sub("⟨name⟩", text)
    text = _EXPERIMENT_OF_MLFLOW.sub("⟨name⟩", text)
    text = _OF_DAY.sub("⟨time⟩", text)
    text = _FOLDER_OF_WANDB.sub(r"\1⟨name⟩", text)
    text = _BEHIND.sub(r"\1⟨name⟩", text)
    text = _TRIAL.sub("⟨name⟩", text)
    text = _OF_MKTEMP.sub("⟨name⟩", _TEMPORARY.sub(r"\1⟨name⟩", text))
    for found in _RUN_OF_WANDB.finditer(path):
        text = re.sub(rf"(?<=[/_-]){found[1]}(?=[/_.-]|$)", "⟨name⟩", text)
    return _DRAWN.sub("⟨name⟩", text)


def behind_dates(path: str, masks: Masks) -> list[str]:
    """Return what of a path is left out for the date before it: names, and digits that are no time of day."""
    text = UUID.sub("⟨name⟩", common_host(masks.without_names(path)))
    found = []
    for pattern in (_DATE, _SHORT, _EPOCH, _OF_EVENTS, _YEARLESS):
        for date in pattern.finditer(text):
            digits = date[0][date.end("day") - date.start() :] if pattern is _DATE else ""
            if digits and _dated(masks, date) == "⟨date⟩" and _TIME.match(digits) is None:
                found.append(digits)
        text = pattern.sub(partial(_dated, masks), text)
    text = _FOLDER_OF_WANDB.sub(r"\1⟨name⟩", _OF_DAY.sub("⟨time⟩", text))
    return found + [name[0] for name in _BEHIND.finditer(text)]


def drawn_names(paths: Iterable[str]) -> frozenset[str]:
    """Return the parts of paths that were drawn for the run: they may stand in its files too."""
    return _drawn_in(tuple(paths))


@lru_cache(maxsize=64)  # each table of files wants them, of the same few runs
def _drawn_in(paths: tuple[str, ...]) -> frozenset[str]:
    found: set[str] = set()
    for path in paths:
        found.update(each[0] for each in UUID.finditer(path))
        found.update(each[0] for each in _DRAWN.finditer(UUID.sub("/", path)))
        found.update(each[0] for each in _RUN_OF_SNAPSHOT.finditer(path))
        found.update(each[0] for each in _EXPERIMENT_OF_MLFLOW.finditer(path))
        found.update(each[1] for each in _RUN_OF_WANDB.finditer(path) if not each[1].isdecimal())
        found.update(each[0] for each in _TRIAL_DATED.finditer(path))
    return frozenset(found)


_RUN_OF_WANDB = lazy(r"(?:^|/)wandb/(?:offline-)?run-\d{8}_\d{6}-([0-9a-z]{8})(?=/|$)")
"""Weights & Biases puts a run's identity behind the date, and into names of the files in the folder."""
CACHE, CACHED = "cache.db", lazy(r"[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{28}\.val")
"""The database of a cache of diskcache, and the names of its files relative to it: drawn, 32 hexadecimal digits."""
_RUN_OF_SNAPSHOT = lazy(r"(?<![^/])\d{15,20}(?=/\d{8}\.shard/\d{8}\.snapshot$)")
"""What ``tf.data`` draws for each time that a dataset is saved: the folder of its files."""
_EXPERIMENT_OF_MLFLOW = lazy(r"(?<![^/])[1-9]\d{17}(?=/(?:meta\.yaml$|[0-9a-f]{32}/))")
"""The first 18 digits of a drawn number: the folder of an experiment in MLflow's store of files."""
_FOLDER_OF_WANDB = lazy(r"((?:^|/)wandb/(?:offline-)?run-⟨date⟩-)[0-9a-z]{8}(?=/|$)")
_TRIAL = lazy(r"(?<=_)[0-9a-f]{5}(?=_\d{5}_\d+_[^/]*⟨date⟩(?:/|$))")
"""What Ray Tune draws for an experiment (``uuid1().hex[:5]``); the number of the trial and its date are behind it."""
_TRIAL_DATED = lazy(r"(?<=_)[0-9a-f]{5}_\d{5}(?=_\d+_[^/]*\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d(?:/|$))")
"""The identity of a trial, which its files have too."""
_UNKNOWN: Mapping[str, int] = {}
_MOST, _SHORTEST = 10_000, 16
"""Files of a run, and letters of a name, by which a file that has it in its bytes is compared."""
_OF_MKTEMP = lazy(r"(?<=\A/tmp/tmp\.)[A-Za-z0-9]{10}(?=/|$)")
_TEMPORARY = lazy(r"(?<![a-z0-9])(tmp)(?=[a-z]*[0-9_])(?!_[a-z]+_\d+(?![a-z0-9_]))[a-z0-9_]{8}(?![a-z0-9_])")


def _dated(masks: Masks, found: re.Match[str]) -> str:
    parts = found.groupdict()
    if "whole" in parts:
        moment: float | None = moment_of(float(parts["whole"]))
    else:
        year = int(parts["year"]) if "year" in parts else datetime.now(timezone.utc).year
        month = parts["month"].lower()
        moment = day(year, _MONTHS.index(month) + 1 if month in _MONTHS else int(month), int(parts["day"]))
    return "⟨date⟩" if moment is not None and masks.is_moment(moment) else found[0]


def common_names(
    runs: Sequence[tuple[Sequence[str], Masks]], written: Sequence[Mapping[str, int]] = ()
) -> list[Mapping[str, str]]:
    """Return, for each run, the name under which each of its files is compared.

    Where all runs have the same names, they keep them. Else files without times in their names keep these if all runs
    have them, and all others are compared under masked names, if these match one to one in all runs: one run's second
    folder may have the name of another one's first. Where they do not, runs differ, and those are compared under masked
    names that each run has for one file alone. Those of one masked name are numbered in the order of their times,
    folder by folder; those without a time in their names in the order in which they were written, if that is known.

    Args:
        runs: the paths of each, and what masks its times.
        written: when each file was written last, for each run; none if it is not known.
    """
    everywhere = set.intersection(*({*paths} for paths, _ in runs)) if runs else set()
    if all({*paths} == everywhere for paths, _ in runs):
        return [{} for _ in runs]
    common = {path for path in everywhere if not all(map(_is_dated, (masked_path(path, masks) for _, masks in runs)))}
    moments = written or [{} for _ in runs]
    tables = [
        numbered_names([path for path in paths if path not in common], masks, when)
        for (paths, masks), when in zip(runs, moments, strict=True)
    ]
    first = {*tables[0].values()} if tables else set()
    alike = all(len({*table.values()}) == len(table) and {*table.values()} == first for table in tables)
    if not alike or first & common:
        return _those_of_all(tables, common)
    return [dict(table) for table in tables]


_AS_NUMBERED = lazy(r"\(\d+\)")


def _those_of_all(tables: Sequence[Mapping[str, str]], common: Container[str]) -> list[Mapping[str, str]]:
    """Return the masked names, without a number, that each run has for one file: runs differ, but perhaps not in these.

    Which of several is meant by a number is not known where one run has more of them.
    """
    once = [{name for name, count in Counter(table.values()).items() if count == 1} for table in tables]
    shared = {name for name in set.intersection(*once) if name not in common and _AS_NUMBERED.search(name) is None}
    return [{path: name for path, name in table.items() if name in shared} for table in tables]


def own_names(paths: Iterable[str], masks: Masks) -> dict[bytes, bytes]:
    """Return the names of files and folders that other runs have under other ones, each with its masked name.

    Those of few letters, those that two files or folders have, and those whose masked name another one has too are left
    out: who has such a name does not know which is meant.
    """
    files = {*paths}
    if len(files) > _MOST:
        return {}
    above = {path[:at] for path in files for at, mark in enumerate(path) if mark == "/" and at}
    masked = numbered_names(sorted(files | above), masks)
    found: dict[str, set[str]] = {}
    for path, common in masked.items():
        name = path.rpartition("/")[2]
        if len(name) >= _SHORTEST and masked_path(name, masks) != name:
            found.setdefault(name, set()).add(common)
    users = Counter(common for commons in found.values() for common in commons)
    return {
        name.encode("utf-8", "surrogateescape"): common.encode("utf-8", "surrogateescape")
        for name, (common, *others) in found.items()
        if not others and users[common] == 1
    }


def may_be_cached(paths: Iterable[str]) -> frozenset[str]:
    """Return the files of caches of diskcache among the files of a run, by their names and places alone."""
    names = [*paths]
    folders = {name[: -len(CACHE)] for name in names if name == CACHE or name.endswith(f"/{CACHE}")}
    length = len("ab/cd/.val") + 28
    return frozenset(
        name for name in names if name[:-length] in folders and CACHED.fullmatch(name[-length:]) is not None
    )


def _is_dated(path: str) -> bool:
    return "⟨date⟩" in path or "⟨time⟩" in path


def _in_order(masked: str) -> bool:
    """Whether the names of files and folders that have one masked name are in the order of their times."""
    date, drawn = masked.rfind("⟨date⟩"), masked.rfind("⟨name⟩")
    return date >= 0 and (drawn < 0 or masked.rfind("/") < date < drawn)


def _by_writing(parts: Mapping[str, Sequence[str]], names: list[str], written: Mapping[str, int]) -> list[str]:
    """Return names in the order in which the first file of each was written; none if that is not known of all."""
    first = {name: min((written.get(path, 0) for path in parts[name]), default=0) for name in names}
    known = all(first.values()) and len({*first.values()}) == len(names)
    return sorted(names, key=lambda name: first[name]) if known else []


def numbered_names(paths: Sequence[str], masks: Masks, written: Mapping[str, int] = _UNKNOWN) -> dict[str, str]:
    """Return the masked names of paths, with numbers where files or folders would get one name, in their order.

    Args:
        paths: of files and folders.
        masks: of the run that has them.
        written: when each file was written last, for the order of names without a time.
    """
    found: dict[str, str] = {}
    left: list[tuple[str, str, Sequence[str]]] = [("", "", paths)]
    while left:
        above, numbers, members = left.pop()
        parts: dict[str, list[str]] = {}
        for path in members:
            parts.setdefault(path[len(above) :].partition("/")[0], []).append(path)
        alike: dict[str, list[str]] = {}
        for part in sorted(parts):
            alike.setdefault(masked_path(f"{above}{part}", masks), []).append(part)
        for masked, names in alike.items():
            ordered = names if _in_order(masked) else _by_writing(parts, names, written)
            for number, part in enumerate(ordered or names, 1):
                suffix = f"{numbers} ({number})" if len(names) > 1 and ordered else numbers
                here = f"{above}{part}"
                if here in parts[part]:
                    found[here] = f"{masked}{suffix}"
                if below := [path for path in parts[part] if path != here]:
                    left.append((f"{here}/", suffix, below))
    return found
