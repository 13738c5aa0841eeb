"""Where run records are stored: ``.envbuild/runs/<id>/record.json`` below the project, plain files.

Identities are ULIDs (https://github.com/ulid/spec): 48 bits of time and 80 random ones in Crockford's base 32, so that
names sort by time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from envbuild.core.fs import atomic_file, atomic_write, folder_below, read_regular
from envbuild.lockfile.discovery import STATE_FOLDER, state_path
from envbuild.record.compare_outputs import compare, same_tensors
from envbuild.record.model import Record, RecordError, dumps, loads

PROCESS = "process"
"""Folder of a run that is mounted at ``/run/envbuild``."""
_NAME = "record.json"
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 26
_NAMED = 5
"""How many runs are named that begin alike."""
LIMIT = 256 << 20
"""Most bytes of a record."""
_LOOK_BACK = 50
"""How many earlier records are read to find an equal run."""


def new_id(milliseconds: int | None = None) -> str:
    """Make a run identity from a time in milliseconds since 1970 (now by default) and 80 random bits."""
    when = time.time_ns() // 1_000_000 if milliseconds is None else milliseconds
    number = (when & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))


def run_folder(project: Path, identity: str) -> Path:
    """Name the folder of one run; raises ``UsageError`` if it, or a folder in its path, is a link."""
    return state_path(project, "runs", identity, PROCESS).parent


def process_folder(project: Path, identity: str) -> Path:
    """Name the folder that guard and hook of one run write to: all that is in it may be the program's own word."""
    return run_folder(project, identity) / PROCESS


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
    try:
        return _load(project, found[0])
    except OSError as error:
        raise RecordError(f"cannot read {error.filename}: {error.strerror}") from None


def compared(project: Path, record: Record) -> dict[str, object]:
    """Compare a finished run with earlier ones of the same recipe; returns the fields to set in the record."""
    if record.exit_code != 0 or record.timed_out is not None or not (record.outputs or record.outside):
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
        try:
            yield _load(project, name)
        except (OSError, RecordError):
            continue


def _load(project: Path, identity: str) -> Record:
    """Read one record; raises ``OSError``, and ``RecordError`` for one that is damaged or another run's."""
    with folder_below(project, STATE_FOLDER, "runs", identity) as folder:
        data = read_regular(folder / _NAME, LIMIT, follow=False)
    path = project / STATE_FOLDER / "runs" / identity / _NAME
    record = loads(data, str(path))
    if record.id != identity:
        raise RecordError(f"{path}: id: expected {identity}, found {record.id}")
    return record


def _identities(project: Path) -> list[str]:
    """List run identities, newest first."""
    try:
        with folder_below(project, STATE_FOLDER, "runs") as folder:
            names = os.listdir(folder)  # noqa: PTH208 - names are all that is needed
    except OSError:
        return []
    return sorted((name for name in names if len(name) == _LENGTH and set(name) <= set(_ALPHABET)), reverse=True)
