"""Where run records lie: ``.envbuild/runs/<id>/record.json`` below the project, plain files.

Identities are ULIDs (https://github.com/ulid/spec): 48 bits of time and 80 random ones in Crockford's base 32, so that
names sort by time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from envbuild.core.fs import atomic_file, atomic_write, read_regular
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.record.compare_outputs import compare, same_tensors
from envbuild.record.model import Record, RecordError, dumps, loads

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 26
_NAMED = 5
"""How many runs are named that begin alike."""
_LIMIT = 256 << 20
"""Most bytes of a record."""
_LOOK_BACK = 50
"""How many earlier records are read to find an equal run."""


def new_id(milliseconds: int | None = None) -> str:
    """Make a run identity from a time in milliseconds since 1970 (now by default) and 80 random bits."""
    when = time.time_ns() // 1_000_000 if milliseconds is None else milliseconds
    number = (when & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))


def run_folder(project: Path, identity: str) -> Path:
    """Name the folder of one run."""
    return project / STATE_FOLDER / "runs" / identity


def save(project: Path, record: Record) -> None:
    """Write a record, whole or not at all; git is configured to ignore the folder.

    Only a completed record waits for the disk: before and during a run that would cost the program time.
    """
    ignore = project / STATE_FOLDER / ".gitignore"
    if not ignore.exists():
        atomic_write(ignore, b"*\n")
    path = run_folder(project, record.id) / "record.json"
    with atomic_file(path, mode=0o600, sync=record.state != "running") as stream:  # it holds the command's arguments
        stream.write(dumps(record))


def list_runs(project: Path) -> tuple[Record, ...]:
    """Return the readable records of a project, newest first."""
    return tuple(_records(project))


def find_run(project: Path, prefix: str) -> Record:
    """Return the one record whose identity begins with ``prefix`` (case does not matter).

    Raises:
        RecordError: none or several begin so, or the record is damaged.
    """
    found = [name for name in _identities(project) if name.startswith(prefix.upper())]
    if len(found) != 1:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        listed = f": {', '.join(found[:_NAMED])}{more}" if found else f" in {project}"
        count = len(found) or "no"
        raise RecordError(f"{count} runs begin with {prefix!r}{listed}", "list them: envbuild runs")
    path = run_folder(project, found[0]) / "record.json"
    try:
        return loads(read_regular(path, _LIMIT, follow=False), str(path))
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from None


def compared(project: Path, record: Record) -> dict[str, object]:
    """Compare a finished run with earlier ones of the same recipe; returns the fields to set in the record."""
    if record.exit_code != 0 or not (record.outputs or record.outside):
        return {}
    nearest: dict[str, object] = {}
    for count, earlier in enumerate(_records(project)):
        if count >= _LOOK_BACK:
            break
        if earlier.id >= record.id or earlier.recipe != record.recipe or earlier.exit_code != 0:
            continue
        different = compare(record, earlier)
        if not different:
            return {"same_bits_as": earlier.id, "same_tensors_in": same_tensors(record, earlier)}
        nearest = nearest or {"differs_from": earlier.id, "differs_in": different}
    return nearest


def _records(project: Path) -> Iterator[Record]:
    """Read records, newest first; damaged ones and those of other formats are passed over."""
    for name in _identities(project):
        path = run_folder(project, name) / "record.json"
        try:
            yield loads(read_regular(path, _LIMIT, follow=False), str(path))
        except (OSError, RecordError):
            continue


def _identities(project: Path) -> list[str]:
    """List run identities, newest first."""
    try:
        names = os.listdir(project / STATE_FOLDER / "runs")  # noqa: PTH208 - names are all that is needed
    except OSError:
        return []
    return sorted((name for name in names if len(name) == _LENGTH and set(name) <= set(_ALPHABET)), reverse=True)
