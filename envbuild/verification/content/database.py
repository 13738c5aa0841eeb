"""SQLite databases as their schema and rows: pages, free space and counters of changes are no content."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from envbuild.core.fs import temporary_folder
from envbuild.core.patterns import lazy
from envbuild.record.measurements import names_result
from envbuild.verification.content import values
from envbuild.verification.content.canonical import Canonical, TooMuchError, UnreadableError, below
from envbuild.verification.content.documents import JSON
from envbuild.verification.content.json_texts import parsed
from envbuild.verification.content.mlflow import Table, numbers_of_runs, ranks_of_candidates
from envbuild.verification.masking.masks import moment_of

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
Files = Callable[[Canonical, str, str], bool]
"""Counts the file that a value names in its place; False if it names none."""
_OF_CACHE = frozenset(("key", "raw", "store_time", "access_count", "mode", "filename", "value"))
"""Columns of the table of a cache of diskcache, which has large values in files next to it: core.py, ``Cache``."""
_INDEX = 3007000
"""The version that an index of a write-ahead log begins with."""
_NUMBERS = ("user_version", "application_id")
"""Numbers in its head that are the program's: sqlite.org/fileformat2.html#the_database_header."""
_STEPS = 1000
_TURNS = 200_000
_ALLOWED = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ))
_LONGEST = 64 << 20
_ROOM, _SPARE = 2, 16 << 20
"""How much larger values may be than their file, and bytes besides: texts in UTF-16 have fewer bytes there than in
UTF-8, and what a column is by default is in no row that is older than the column."""
_NOW = lazy(r"(?i)'now'|\bcurrent_(?:timestamp|date|time)\b|\bunixepoch\(\s*\)")
"""In a column's default: the database itself writes the time there."""
_ENDS = frozenset(("source_id", "destination_id"))
_INPUTS = _ENDS | {"input_uuid", "source_type", "destination_type"}
"""MLflow's table of what a run had and made, whose ends are runs, among others (``SqlInput``)."""
_FRACTION = lazy(r"\d{1,18}\.\d{1,20}(?:e[+-]?\d{1,3})?|\d{1,18}e-\d{1,3}", re.ASCII)
_TABLE = lazy(r"(?i)CREATE TABLE [^(]*\(")
_COMMENT = lazy(r"--|/\*")
_PART = lazy(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^]]*\]|[(),]""")
_CHECK = lazy(r"""(?i)(?:CONSTRAINT\s+(?:\w+|"[^"]*")\s+)?CHECK\s*\(""")
"""A constraint of a table, not of a column."""


def is_log(data: bytes) -> bool:
    """Whether data begin like a write-ahead log: sqlite.org/fileformat2.html#the_write_ahead_log."""
    return data[:4] in (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


def is_index_of_log(data: bytes) -> bool:
    """Whether data begin like the index of a write-ahead log, which SQLite makes anew: sqlite.org/walformat.html."""
    return len(data) % 32768 == 0 and data[:4] in (_INDEX.to_bytes(4, "little"), _INDEX.to_bytes(4, "big"))


def read_database(
    out: Canonical, path: str, data: bytes, nested: Nested, log: bytes = b"", files: Files | None = None
) -> None:
    """Read a database from a private copy: read-only, nothing of its own is run, within a number of steps.

    Args:
        out: what collects.
        path: where it is.
        data: of its file.
        nested: opens what is in a value.
        log: its write-ahead log, with what was committed and is not in the file yet.
        files: counts the files that the rows of a cache name.
    """
    with temporary_folder("envbuild-content-") as folder:
        copy = folder / "copy.db"
        copy.write_bytes(data)
        if log:
            (folder / "copy.db-wal").write_bytes(log)
        # The log's index has to be made anew, in this folder.
        connection = sqlite3.connect(f"file:{copy}?{'mode=rw' if log else 'mode=ro&immutable=1'}", uri=True)
        try:
            _dump(out, path, connection, nested, files, _Room(_SPARE + _ROOM * (len(data) + len(log))))
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError, MemoryError) as error:
            raise UnreadableError(f"a damaged database: {error}") from None
        finally:
            connection.close()


class _Room:
    """Counts down the bytes that values may still have: what generated columns compute is in no page of the file."""

    def __init__(self, size: int) -> None:
        self._left = size

    def within(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Yield rows; raises ``TooMuchError`` if all texts and bytes are larger than the file can have them."""
        for row in rows:
            self._left -= sum(len(value) for value in row if isinstance(value, str | bytes))
            if self._left < 0:
                raise TooMuchError("larger values than the file has room for")
            yield row


def _dump(
    out: Canonical, path: str, connection: sqlite3.Connection, nested: Nested, files: Files | None, room: _Room
) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    left = [_TURNS]

    def turn() -> int:
        left[0] -= 1
        return 1 if left[0] < 0 else 0

    connection.set_progress_handler(turn, _STEPS)
    connection.set_authorizer(_permission)
    for pragma in _NUMBERS:
        ((number,),) = connection.execute(f"PRAGMA {pragma}").fetchall()
        if number:
            out.add(f"{path} {pragma}".strip(), str(number))
    version = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    ranks = ranks_of_candidates(connection)
    runs = numbers_of_runs(connection, ranks)
    for kind, name, table, text in version:
        if not isinstance(name, str) or not isinstance(table, str):
            raise UnreadableError("a table without a name")
        if str(text or "").upper().startswith("CREATE VIRTUAL"):
            raise UnreadableError("a table that a module keeps")
        out.add(f"{path} {kind} {name}".strip(), f"{table} {sorted_checks(str(text))}")
        if kind == "table":
            _rows(out, f"{path} {name}".strip(), connection, name, nested, files, room, ranks, runs)


def sorted_checks(text: str) -> str:
    """Return the text that makes a table with its CHECK constraints in the order of their texts, which has no meaning.

    SQLAlchemy has them in a set where it copies a table, as migrations of MLflow's do.
    """
    head = _TABLE.match(text)
    if head is None or _COMMENT.search(text) is not None:
        return text
    parts, depth, start = [], 0, head.end()
    for found in _PART.finditer(text, head.end()):
        if found[0] == "(":
            depth += 1
        elif found[0] == ")" and depth:
            depth -= 1
        elif not depth and found[0] in (",", ")"):
            parts.append(text[start : found.start()].strip())
            start = found.end()
            if found[0] == ")":
                break
    else:
        return text
    checks = [at for at, part in enumerate(parts) if _CHECK.match(part) is not None]
    if len(checks) < 2:
        return text
    for at, part in zip(checks, sorted(parts[at] for at in checks), strict=True):
        parts[at] = part
    return f"{head[0]}{', '.join(parts)}){text[start:]}"


def _permission(action: int, first: str | None, *_: object) -> int:
    reads = action in _ALLOWED or (action == sqlite3.SQLITE_PRAGMA and first in ("table_info", *_NUMBERS))
    return sqlite3.SQLITE_OK if reads else sqlite3.SQLITE_DENY


def _rows(
    out: Canonical,
    path: str,
    connection: sqlite3.Connection,
    table: str,
    nested: Nested,
    files: Files | None,
    room: _Room,
    ranks: Mapping[str, str],
    runs: Mapping[str, int],
) -> None:
    quoted = table.replace('"', '""')
    columns = connection.execute(f'PRAGMA table_info("{quoted}")').fetchall()
    number = _number_of_row(connection, quoted, {str(name).lower() for _, name, *_ in columns})
    found = connection.execute(f'SELECT {number}, * FROM "{quoted}"')  # noqa: S608 - quoted, from the schema
    names = [str(column[0]) for column in found.description[1:]]
    expected = 1
    ends = _ENDS if {*names} >= _INPUTS else frozenset()
    timed = {str(name) for _, name, _, _, default, _ in columns if _NOW.search(str(default or "")) is not None}
    if not {*names} >= _OF_CACHE:
        files = None
    of_runs = Table(names, ranks)
    for at, *row in of_runs.in_order(room.within(found)):
        if at != expected and number != "NULL":
            out.add(f"{path} row", str(at))
        expected = at + 1 if isinstance(at, int) else 1
        for name, value in zip(names, row, strict=True):
            where = f"{path}.{name}"
            if isinstance(value, str) and value in runs:
                out.add(f"{where} of run", str(runs[value]))
            if isinstance(value, str) and name == "filename" and files is not None and files(out, where, value):
                continue
            if isinstance(value, str) and (
                (name in ends and values.is_drawn(value)) or of_runs.is_parent(row, name, value)
            ):
                out.leave_out(where, value, "identity")
            elif isinstance(value, str) and of_runs.is_drawn(row, name, value):
                out.leave_out(where, value, "names")
            elif (measured := of_runs.measurement(row, name)) and (found_number := _number(value)) is not None:
                out.add(where, type(value).__name__)
                values.number(out, f"{where}[{at}] {measured}", measured, found_number, str(value))
            elif isinstance(value, str) and _is_json(name, value):
                out.add(where, "JSON")
                nested(out, where, value.encode())
            elif isinstance(value, str):
                values.string(out, where, name, value, typed=True)
            elif isinstance(value, int | float) and _is_time(out, value, timed=name in timed, name=name):
                out.leave_out(where, repr(value), "time")
                julian = values.of_julian_day(value)
                out.note_moment(where, repr(value), julian if out.is_moment(julian) else moment_of(value))
            elif isinstance(value, float) and (metric := of_runs.metric(row, name)):
                values.number(out, below(where, metric, " "), metric, value, repr(value))
            elif isinstance(value, int | float):
                values.number(out, where, name, float(value), repr(value), names)
            elif isinstance(value, bytes):
                out.add(where, "bytes")
                if names_result(name):
                    out.add(where, value)
                else:
                    nested(out, where, value)
            else:
                out.add(where, "NULL")


def _number(value: object) -> float | None:
    """Return a number with a fraction, which may be written as text in JSON; None for all else, such as counts."""
    if isinstance(value, str):
        value = float(value) if _FRACTION.fullmatch(value) is not None else None
    return value if isinstance(value, float) else None


def _is_json(name: str, value: str) -> bool:
    """Whether a text is a list or a table in JSON, as far as it is read; under the name of a result a text counts."""
    if value[:1] not in ("{", "[") or len(value) > JSON or names_result(name):
        return False
    try:
        value.encode()
        return parsed(value) is not None
    except (UnreadableError, UnicodeEncodeError):
        return False


def _number_of_row(connection: sqlite3.Connection, quoted: str, columns: set[str]) -> str:
    """Return the word for the number of a row of a table, which may be a program's own; NULL if there is none."""
    for word in ("rowid", "_rowid_", "oid"):
        if word not in columns:
            with suppress(sqlite3.OperationalError):  # WITHOUT ROWID
                connection.execute(f'SELECT {word} FROM "{quoted}" LIMIT 0')  # noqa: S608 - quoted, from the schema
                return word
            break
    return "NULL"


def _is_time(out: Canonical, value: float, *, timed: bool, name: str) -> bool:
    """Whether a number is the time of the run: a Julian day by its name, any by the default of its column."""
    if out.is_moment(values.of_julian_day(value)):
        return timed or (isinstance(value, float) and values.names_moment(name))
    return timed and out.is_moment(moment_of(value))
