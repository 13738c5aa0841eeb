"""A Packages index, parsed once and kept in a form of which a resolution reads only what it needs.

The cache is a small SQLite file named by the index's SHA-256: bookworm's 63,000 packages take two seconds to parse,
and a closure of a hundred looks at a few hundred of them. A cache file that is damaged is made again.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import msgspec

from envbuild.core.fs import temporary_folder
from envbuild.errors import IntegrityError
from envbuild.resolve.debian.relations import Group, Relation, parse_relations

FORMAT = 1
"""Raise whenever the cached form changes."""

_PRIORITIES = {"required": 1, "important": 2, "standard": 3, "optional": 4, "extra": 5}
# What a record is made of, next to the relations.
_KEPT = r"Package|Version|Architecture|Multi-Arch|Essential|Important|Protected|Priority|Filename|Size|SHA256"
# The relations, in the order in which apt reads them and so hears of names: see ``Record.rank``.
_NAMING = (
    *("Pre-Depends", "Depends", "Conflicts", "Breaks", "Recommends", "Suggests"),
    *("Replaces", "Enhances", "Provides"),
)
_FIELD = re.compile(rf"^({_KEPT}|{'|'.join(_NAMING)}):[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE)
_NAMED = re.compile(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)(?!:any)(?![a-z0-9+.:-])")


class Record(msgspec.Struct, frozen=True, array_like=True):
    """One package version of an index, relations still as text.

    Attributes:
        rank: how early the name turns up in the index, as a package or in a relation. apt prefers, among providers
            that are equal otherwise, the one it heard of last (apt-pkg/depcache.cc, CompareProviders).
    """

    name: str
    version: str
    architecture: str
    multi_arch: str
    essential: bool
    important: bool
    priority: int
    rank: int
    pre_depends: str
    depends: str
    conflicts: str
    breaks: str
    weak: str
    provides: str
    path: str
    size: int
    sha256: str

    def requirements(self) -> tuple[Group, ...]:
        """Pre-Depends, then Depends."""
        return parse_relations(self.pre_depends) + parse_relations(self.depends)

    def conflicting(self) -> tuple[Relation, ...]:
        """Conflicts, then Breaks."""
        return tuple(group[0] for group in parse_relations(self.conflicts) + parse_relations(self.breaks))

    def provided(self) -> tuple[Relation, ...]:
        """Provides: names with ``=`` and a version, or with no version."""
        return tuple(group[0] for group in parse_relations(self.provides) if group[0].op in ("", "="))

    def wishes(self) -> tuple[Group, ...]:
        """Recommends and Suggests: never installed for their own sake."""
        return parse_relations(self.weak)


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Record).decode


class Index:
    """Read access to a parsed index; raises ``sqlite3.DatabaseError`` if its file is damaged."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
        if self._meta("format") != str(FORMAT):
            raise sqlite3.DatabaseError("another format")
        self.essential = tuple(self._meta("essential").split())

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def versions(self, name: str) -> list[Record]:
        """Return every version of a package in this index."""
        rows = self._connection.execute("SELECT data FROM package WHERE name = ? ORDER BY place", (name,))
        return [_DECODE(data) for (data,) in rows]

    def providers(self, name: str) -> list[str]:
        """Return the names of packages of which some version provides ``name``."""
        row = self._connection.execute("SELECT owners FROM provided WHERE name = ?", (name,)).fetchone()
        return row[0].split() if row else []

    def names(self) -> Iterator[str]:
        """Give all package names."""
        return (name for (name,) in self._connection.execute("SELECT DISTINCT name FROM package"))

    def _meta(self, key: str) -> str:
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else ""


def open_index(path: Path) -> Index | None:
    """Open a cached index; None if there is none, or none of use."""
    with suppress(OSError):  # some file systems and sandboxes let nobody set times
        os.utime(path)  # what is used is kept
    with suppress(sqlite3.Error, OSError):
        return Index(path)
    return None


def write_index(path: Path, data: bytes, source: str) -> None:
    """Parse a Packages file and write its cached form to ``path``, whole or not at all.

    Args:
        data: the file, already checked against its SHA-256.
        source: its name, for messages.

    Raises:
        IntegrityError: a stanza lacks a mandatory field or holds an unreadable value.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(".index-", path.parent) as folder:
        made = folder / "index"
        with closing(sqlite3.connect(made)) as connection:
            connection.executescript(_SCHEMA)
            with connection:
                _fill(connection, data, source)
        made.replace(path)


_SCHEMA = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA page_size = 8192;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE package (name TEXT, place INTEGER, data BLOB, PRIMARY KEY (name, place)) WITHOUT ROWID;
CREATE TABLE provided (name TEXT PRIMARY KEY, owners TEXT) WITHOUT ROWID;
"""


def _fill(connection: sqlite3.Connection, data: bytes, source: str) -> None:
    """Insert everything; records go straight to the file, so that memory stays small."""
    provided: dict[str, list[str]] = {}
    essential: set[str] = set()

    def rows() -> Iterator[tuple[str, int, bytes]]:
        for place, record in enumerate(_parse(data, source)):
            if record.essential:
                essential.add(record.name)
            for word in _NAMED.findall(record.provides):
                owners = provided.setdefault(word, [])
                if record.name not in owners:
                    owners.append(record.name)
            yield record.name, place, _ENCODE(record)

    connection.executemany("INSERT INTO package VALUES (?, ?, ?)", rows())
    connection.executemany(
        "INSERT INTO provided VALUES (?, ?)", ((name, " ".join(provided[name])) for name in sorted(provided))
    )
    meta = (("format", str(FORMAT)), ("essential", " ".join(sorted(essential))))
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta)


def _parse(data: bytes, source: str) -> Iterator[Record]:
    """Give the record of each stanza; raises ``IntegrityError``."""
    ranks: dict[str, int] = {}
    for stanza in _stanzas(data):
        fields = dict(_FIELD.findall(stanza))
        if not fields:
            continue
        name = fields.get("Package", "").strip()
        for word in (name, *_named(fields)):
            if word not in ranks:
                ranks[word] = len(ranks)
        try:
            yield _record(fields, ranks[name])
        except (KeyError, ValueError) as error:
            raise IntegrityError(
                f"{source}: package {name or '(without a name)'}: expected a complete entry, found a bad field: {error}"
            ) from None


def _stanzas(data: bytes) -> Iterator[str]:
    start = 0
    while start < len(data):
        end = data.find(b"\n\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end].decode("utf-8", "replace")
        start = end + 2


def _named(fields: dict[str, str]) -> Iterator[str]:
    for field in _NAMING:
        if field in fields:
            yield from _NAMED.findall(fields[field])


def _record(fields: dict[str, str], rank: int) -> Record:
    """Build a record; raises ``KeyError`` or ``ValueError`` for a missing or unreadable field."""
    size = fields["Size"].strip()
    if not size.isascii() or not size.isdecimal():
        raise ValueError(f"Size: {size!r}")
    if not re.fullmatch(r"[0-9a-f]{64}", fields["SHA256"].strip()):
        raise ValueError(f"SHA256: {fields['SHA256']!r}")
    get = fields.get
    return Record(
        fields["Package"].strip(),
        fields["Version"].strip(),
        fields["Architecture"].strip(),
        get("Multi-Arch", "no").strip(),
        get("Essential", "").strip() == "yes",
        "yes" in (get("Important", "").strip(), get("Protected", "").strip()),
        _PRIORITIES.get(get("Priority", "").strip(), 5 if "Priority" in fields else 0),
        rank,
        get("Pre-Depends", ""),
        get("Depends", ""),
        get("Conflicts", ""),
        get("Breaks", ""),
        ", ".join(value for field in ("Recommends", "Suggests") if (value := get(field, ""))),
        get("Provides", ""),
        fields["Filename"].strip().removeprefix("./"),
        int(size),
        fields["SHA256"].strip(),
    )
