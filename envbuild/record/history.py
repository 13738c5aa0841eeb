"""Where run records are stored: ``.envbuild/runs/<id>/record.json`` below the project, plain files.

Names sort by time: see ``envbuild.core.identity``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import msgspec

from envbuild.cluster.rank import RECORD
from envbuild.core.fs import atomic_file, atomic_write, folder_below, read_regular
from envbuild.core.identity import ALPHABET, LENGTH
from envbuild.core.process_mark import lives
from envbuild.lockfile.discovery import STATE_FOLDER, state_path
from envbuild.record.model import Record, RecordError, dumps, loads
from envbuild.record.printed import STREAMS, printed_anything

if TYPE_CHECKING:
    from envbuild.record.jobs import JobRecord

PROCESS = "process"
"""Folder of a run that is mounted at ``/run/envbuild``."""
_NAME = RECORD
_DIGITS = 7
_NAMED = 5
"""How many runs are named that begin alike."""
LIMIT = 256 << 20
"""Most bytes of a record."""
_LOOK_BACK = 50
"""How many earlier records are read to find an equal run."""


_RUNNING, _FAILED = b'"state": "running"', b'"state": "failed" '
"""As a record has them, of one length."""


def run_folder(project: Path, identity: str) -> Path:
    """Name the folder of one run; raises ``UsageError`` if it, or a folder in its path, is a link."""
    return state_path(project, "runs", identity, PROCESS).parent


def process_folder(project: Path, identity: str) -> Path:
    """Name the folder that guard and hook of one run write to: all that is in it may be the program's own word."""
    return run_folder(project, identity) / PROCESS


def outside_folder(project: Path, identity: str) -> Path:
    """Name the folder with copies of files that one run left outside the project, each below its path there."""
    return run_folder(project, identity) / "outside"


def save(project: Path, record: Record) -> None:
    """Write a record, whole or not at all; git is configured to ignore the folder.

    Only a completed record waits for the disk: before and during a run that would cost the program time.
    """
    with folder_below(project, STATE_FOLDER, make=True) as folder:
        if not os.path.lexists(folder / ".gitignore"):
            atomic_write(folder / ".gitignore", b"*\n")
    # It holds the command's arguments.
    with (
        folder_below(project, STATE_FOLDER, "runs", record.id, make=True) as folder,
        atomic_file(folder / _NAME, mode=0o600, sync=record.state != "running", hand_over=True) as stream,
    ):
        stream.write(dumps(record))


def mark_failed(project: Path, identity: str) -> None:
    """Turn the record of a run that has begun into one of a run that failed, in place: a full disk takes no new file.

    Raises:
        OSError: there is none, or it cannot be written.
    """
    with folder_below(project, STATE_FOLDER, "runs", identity) as folder:
        descriptor = os.open(folder / _NAME, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "r+b", buffering=0) as stream:
            place = stream.read(LIMIT).find(_RUNNING)
            if place >= 0:
                stream.seek(place)
                stream.write(_FAILED)


def list_runs(project: Path) -> tuple[Record, ...]:
    """Return the readable records of a project, newest first.

    Raises:
        RecordError: the folder of the records is there and cannot be read.
    """
    return tuple(_records(project, _require_identities(project)))


def unreadable_runs(project: Path, known: Sequence[Record]) -> tuple[str, ...]:
    """Return the identities of runs that have a record, and none that ``list_runs`` found; newest first."""
    found = {record.id for record in known}
    folder = project / STATE_FOLDER / "runs"
    names = (name for name in _identities(project) if name not in found)
    return tuple(name for name in names if os.path.lexists(folder / name / _NAME))


def find_run(project: Path, prefix: str) -> Record:
    """Return the one record whose identity begins with ``prefix`` (case does not matter).

    Raises:
        RecordError: none or several begin so, or the record is damaged.
    """
    found = [name for name in _require_identities(project) if name.startswith(prefix.upper())]
    if len(found) != 1:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        listed = f": {', '.join(found[:_NAMED])}{more}" if found else f" in {project}"
        count = len(found) or "no"
        raise RecordError(f"{count} runs begin with {prefix!r}{listed}", "list them: envbuild runs")
    try:
        return _load(project, found[0])
    except OSError as error:
        hint = "check what it is and who may read it, or remove its folder"
        raise RecordError(f"cannot read {error.filename}: {error.strerror}", hint) from None


def find_job(project: Path, name: str) -> JobRecord:
    """Return the run whose identity begins with ``name``: all ranks of its job, if it is one rank's.

    Args:
        project: the folder that holds the lock.
        name: the beginning of an identity; ``NAME:1`` for rank 1 of the job alone.

    Raises:
        RecordError: none or several begin so, the record is damaged, or the job has no record of that rank.
    """
    from envbuild.record.jobs import JobRecord, join, ranks_text, start_of

    prefix, colon, number = name.partition(":")
    named = _named(project, prefix)
    job = join((named[0], *named[1:], *_others(project, named))) if start_of(named[0]) else join(named[:1])
    if not colon:
        return job
    record = job.by_rank.get(int(number)) if number.isascii() and number.isdigit() and len(number) < _DIGITS else None
    if record is None:
        there = ranks_text(job, job.by_rank)
        raise RecordError(f"run {job.first.id[:10]} has no record of rank {number!r}", f"there is {there}")
    return JobRecord(ranks=(record,), alone=True)


def _named(project: Path, prefix: str) -> list[Record]:
    """Return the record that a beginning names; several if all are of one job, whose ranks start in one millisecond."""
    from envbuild.record.jobs import job_size, start_of

    first, *others = [name for name in _identities(project) if name.startswith(prefix.upper())] or [""]
    found = list(_records(project, [first])) if others else []
    if found and start_of(found[0]) and len(others) < job_size(found[0]):
        found += _records(project, others)
        if len(found) == len(others) + 1 and len({start_of(record) for record in found}) == 1:
            return found
    return [find_run(project, prefix)]


def _others(project: Path, named: Sequence[Record]) -> Iterator[Record]:
    """Yield the other records of a job, those written at about the same time first, until there are all."""
    from envbuild.record.jobs import job_size, start_of

    start, left = start_of(named[0]), job_size(named[0]) - len(named)
    places = {name: place for place, name in enumerate(_identities(project))}
    here = places.get(named[0].id, 0)
    known = {record.id for record in named}
    for name in sorted(places, key=lambda name: abs(places[name] - here)):
        if left <= 0:
            return
        if name in known or start.encode() not in _content(project, name):
            continue
        with suppress(OSError, RecordError):
            record = _load(project, name)
            if start_of(record) == start:
                left -= 1
                yield record


def _content(project: Path, identity: str) -> bytes:
    """Return the bytes of a record, to see whether it is worth decoding; empty if it cannot be read."""
    with suppress(OSError), folder_below(project, STATE_FOLDER, "runs", identity) as folder:
        return read_regular(folder / _NAME, LIMIT, follow=False)
    return b""


def compared(project: Path, record: Record) -> dict[str, object]:
    """Compare a finished run with earlier ones of the same recipe; returns the fields to set in the record."""
    files = bool(record.outputs or record.outside)
    if record.exit_code != 0 or record.timed_out is not None or not (files or printed_anything(record.printed)):
        return {}
    from envbuild.record import compare_outputs as outputs
    from envbuild.record.compare_printed import compare_printed

    nearest: dict[str, object] = {}
    for count, earlier in enumerate(_records(project)):
        if count >= _LOOK_BACK:
            break
        if earlier.id >= record.id or earlier.recipe != record.recipe or earlier.exit_code != 0:
            continue
        if earlier.layers == "changed":
            continue
        lines = compare_printed(record, earlier)
        files_differ = dict.fromkeys((*outputs.compare(record, earlier), *outputs.other_properties(record, earlier)))
        different = (
            *files_differ,
            *outputs.other_metrics(record, earlier),
            *(STREAMS[stream] for stream in lines.differing),
        )
        if not different and (outputs.unread(record) or (lines.unknown and not files)):
            return {}  # what is known of both is equal, and that is not all, or it is nothing
        if not different:
            same = outputs.same_tensors(record, earlier)
            unknown = (*lines.unknown, *outputs.not_looked_at(record))
            return {"same_bits_as": earlier.id, "same_tensors_in": same, "not_compared": unknown}
        nearest = nearest or {"differs_from": earlier.id, "differs_in": different}
    return nearest


def _records(project: Path, names: Sequence[str] | None = None) -> Iterator[Record]:
    """Read records, newest first or as named; damaged ones and those of other formats are passed over."""
    for name in _identities(project) if names is None else names:
        try:
            yield _load(project, name)
        except (OSError, RecordError):
            continue


def _load(project: Path, identity: str) -> Record:
    """Read one record; raises ``OSError``, and ``RecordError`` for one that is damaged or another run's.

    The record of a run whose envbuild was killed has ``running`` for ever: such a run is ``lost``. What another
    machine, or this one before it was restarted, has begun may still run.
    """
    record = _read(project, identity)
    if record.state == "running" and lives(record.supervisor) is False:
        record = _read(project, identity)  # it may have ended meanwhile, in the order of things
        if record.state == "running":
            record = msgspec.structs.replace(record, state="lost")
    return record


def _read(project: Path, identity: str) -> Record:
    with folder_below(project, STATE_FOLDER, "runs", identity) as folder:
        data = read_regular(folder / _NAME, LIMIT, follow=False)
    path = project / STATE_FOLDER / "runs" / identity / _NAME
    record = loads(data, str(path))
    if record.id != identity:
        raise RecordError(
            f"{path}: id: expected {identity}, found {record.id}", f"name the folder as the record: {record.id}"
        )
    return record


def _require_identities(project: Path) -> list[str]:
    """List run identities, newest first; raises ``RecordError`` if their folder is there and cannot be read."""
    try:
        return _list_identities(project)
    except FileNotFoundError:
        return []
    except OSError as error:
        link = error.errno in (errno.ELOOP, errno.ENOTDIR)
        found = "a file or a link" if link else (error.strerror or "an error")
        hint = f"move it away: mv {quote(str(error.filename))} ELSEWHERE" if link else "check who may read it"
        raise RecordError(f"{error.filename}: expected a folder with records of runs, found {found}", hint) from None


def _identities(project: Path) -> list[str]:
    """List run identities, newest first; none if their folder cannot be read."""
    with suppress(OSError):
        return _list_identities(project)
    return []


def _list_identities(project: Path) -> list[str]:
    with folder_below(project, STATE_FOLDER, "runs") as folder:
        names = os.listdir(folder)  # noqa: PTH208 - names are all that is needed
    return sorted((name for name in names if len(name) == LENGTH and set(name) <= set(ALPHABET)), reverse=True)
