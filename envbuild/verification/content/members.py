"""Names in files, of members of archives and of entries of tables: without moments of the run, and names of its files.

A date counts unless it has the time of day, and is a moment of the run itself to the second or the minute: one of
another day, or of another hour, may be data. A part of a path that is the name of a file or folder of the run counts as
the one under which that is compared; what is in such a name, experiments and quotes decide there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import partial

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import Canonical
from envbuild.verification.masking.masks import Masks, common_host, moment_of

_DATE = lazy(
    r"(?<![0-9])(?P<year>20\d\d)(?P<mark>[-_.]?)(?P<month>[01]\d)(?P=mark)(?P<day>[0-3]\d)[-_T .]{0,2}"
    r"(?P<hour>[012]\d)(?P<sign>[-_.:h]?)(?P<minute>[0-5]\d)(?:(?:(?P=sign)|m)(?P<second>[0-5]\d)s?Z?)?(?![0-9])"
)
_SHORT = lazy(
    r"(?<![A-Za-z])(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?P<day>\d\d)_(?P<hour>\d\d)-"
    r"(?P<minute>\d\d)-(?P<second>\d\d)(?!\d)"
)
"""As TensorBoard's writer for PyTorch names its folders."""
_EPOCH = lazy(r"(?<![\d.])(?P<whole>\d{10}(?:\d{3}|\d{6}|\d{9})?)(?![\d.]*\d)")
_EACH = (_DATE, _SHORT, _EPOCH)
_FRACTION = r"(?:[._]\d{3,6}(?![0-9a-z]))?"
_PLACES = tuple(lazy(f"{each.pattern}{_FRACTION}") for each in _EACH)
UUID = lazy(
    r"(?:(?<![0-9a-fA-F])[0-9a-f]{8}-[0-9a-f]{4}-[12467][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    r"|(?<![0-9])[0-9A-F]{8}-[0-9A-F]{4}-[12467][0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12})(?![0-9a-zA-Z])"
)
"""One that is no digest, by its version; also in capitals, and glued to a word."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MINUTE = 60.0


def counted_name(
    out: Canonical, path: str, name: str, what: str = "names of members", *, without_uuids: bool = False
) -> str:
    """Return the name of a member as it counts, and note what is left out of it.

    Args:
        out: what collects.
        path: of the archive, or of the table.
        name: of the member, or of an entry.
        what: such names are, in the plural.
        without_uuids: those that are drawn, by their version, do not count where other runs have other ones, as in
            texts: under a drawn name Optuna keeps a study.
    """
    masks, own = out.masks, out.masks.own_names()
    parts: list[str] = []
    for part in name.split("/"):
        common = own.get(part.encode("utf-8", "surrogateescape"))
        if common is None:
            parts.append(_without_moments(masks.without_names(common_host(part)), masks))
        else:
            parts.append(_below("/".join(parts), common.decode("utf-8", "surrogateescape")))
    counted = "/".join(parts)
    if without_uuids and (drawn := [found[0] for found in UUID.finditer(counted)]):
        out.note_names([each for each in drawn if each != name])  # a whole name is noted below
        counted = UUID.sub("⟨name⟩", counted)
    if counted != name:
        place = f"{path}: {what}" if path else what
        out.leave_out(place, name, "identity")
        out.note_dated(place, (name[: found.start()] for pattern in _EACH for found in pattern.finditer(name)))
    return counted


def _below(above: str, path: str) -> str:
    """Return the path of a file of the run, or only its name where its folder's path is already there."""
    folder, _, name = path.rpartition("/")
    return name if folder and f"/{above}".endswith(f"/{folder}") else path


def place_of(name: str) -> str:
    """Return the name of a member as the name of a place, which all runs have in common: without any dates."""
    for pattern in _PLACES:
        name = pattern.sub("⟨date⟩", name)
    return name


def _without_moments(name: str, masks: Masks) -> str:
    for pattern in _EACH:
        name = pattern.sub(partial(_dated, masks), name)
    return name


def _dated(masks: Masks, found: re.Match[str]) -> str:
    parts = found.groupdict()
    moment = moment_of(float(parts["whole"])) if "whole" in parts else _moment(parts, masks)
    exact = "whole" in parts or parts["second"] is not None
    known = moment is not None and masks.is_moment(moment) and not masks.is_strange(moment, 0.0 if exact else _MINUTE)
    return "⟨date⟩" if known else found[0]


def _moment(parts: Mapping[str, str | None], masks: Masks) -> float | None:
    """Return a date with its time of day, by UTC, in seconds since 1970; None if there is no such one."""
    year, name = parts.get("year"), parts.get("name")
    month = _MONTHS.index(name) + 1 if name is not None else int(parts["month"] or 0)
    day, hour, minute, second = (int(parts[each] or 0) for each in ("day", "hour", "minute", "second"))
    try:
        moment = datetime(int(year or masks.year), month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        return None
    return moment.timestamp()
