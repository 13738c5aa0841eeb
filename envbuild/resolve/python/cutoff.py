"""A limit in time: only files that were uploaded to an index before a moment are chosen from.

uv does it (``exclude-newer``) with the times of upload that indexes state, PEP 700. A file without one counts as newer;
wheels of the spec's own folders have none and are exempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from envbuild.core.text import plural
from envbuild.resolve.python.indexes import Indexes
from envbuild.resolve.python.newest import File

VARIABLE = "UV_EXCLUDE_NEWER"
_UNDATED = " is missing an upload date, but user provided: "


def moment(stamp: str) -> str:
    """Return a time such as ``20260711T000000Z`` as RFC 3339 has it."""
    date, time = stamp.rstrip("Z").split("T")
    return f"{date[:4]}-{date[4:6]}-{date[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}Z"


def limited(places: Indexes, stamp: str, own: Iterable[str], environ: Mapping[str, str]) -> Indexes:
    """Return places with a limit for all names but some.

    Args:
        stamp: such as ``20260711T000000Z``; empty: no limit but that of the user's own settings, which is noted.
        own: normalised names that the spec's folders have.
    """
    if not stamp:
        there = environ.get(VARIABLE, "")
        note = f"{VARIABLE} leaves out what was uploaded after {there}, here only: write  exclude-newer  in the spec"
        return replace(places, notes=(*places.notes, note)) if there else places
    exempt = (f"--exclude-newer-package={name}=false" for name in sorted(own))
    environment = {**places.environment, VARIABLE: moment(stamp)}
    return replace(places, arguments=(*places.arguments, *exempt), environment=environment)


def summed_up(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return uv's warnings, with one for all files whose time of upload an index does not state."""
    undated = [warning.partition("`")[2].partition("`")[0] for warning in warnings if _UNDATED in warning]
    left = tuple(warning for warning in warnings if _UNDATED not in warning)
    if not undated:
        return left
    shown = ", ".join(undated[:3]) + (" …" if len(undated) > 3 else "")
    return (*left, f"left out {plural(len(undated), 'file')} whose index states no time of upload: {shown}")


def before(pages: Mapping[str, Sequence[Sequence[File]]], stamp: str) -> dict[str, list[list[File]]]:
    """Return the files of pages that were uploaded before a moment."""
    end = moment(stamp)  # RFC 3339 in UTC, as PEP 700 has it, sorts as text
    return {
        name: [[file for file in files if file.uploaded and file.uploaded < end] for files in found]
        for name, found in pages.items()
    }
