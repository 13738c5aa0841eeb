"""Datasets of Lance, as LanceDB keeps them: each version's manifest with the files that it names, by what they hold.

The names of files of data and of deleted rows, and of transactions, are drawn; so are identities of transactions. They,
the time of a version, and the place of what is in a manifest do not count. Sources: protos/table.proto and
protos/transaction.proto of https://github.com/lancedb/lance, and "Manifest" in its format specification. Manifests with
indices, other parts, or fields that name files in another way are not opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from envbuild.core.fs import read_foreign
from envbuild.core.patterns import lazy
from envbuild.core.tfrecord import fields_of
from envbuild.verification.content.canonical import FILE, Canonical, UnreadableError, below

_MAGIC, _FOOTER = b"LANC", 16
_FOLDER, _END = "_versions", ".manifest"
_DATA, _NAME = "data", lazy(r"[0-9a-f-]{32,64}\.lance")
_DELETED, _ENDS = "_deletions", {0: "arrow", 1: "bin"}
_TRANSACTIONS, _TRANSACTION = "_transactions", lazy(r"(\d+)-[0-9a-f-]{36}\.txn")
_PART = lazy(
    r"(?:data/[0-9a-f-]{32,64}\.lance|_deletions/\d+-\d+-\d+\.(?:arrow|bin)|_transactions/\d+-[0-9a-f-]{36}\.txn)"
)
_UUID = lazy(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FRAGMENT, _INDICES, _TIME, _OWN_TRANSACTION, _INLINE = 2, 6, 7, 12, 21
"""Fields of a ``Manifest``: parts of the data, the place of indices, the time, file and place of a transaction."""
_IDENTITY = 2
"""The field of a ``Transaction`` that is drawn; those from 100 on are what it does."""
_WITH_FRAGMENTS: Mapping[int, frozenset[int]] = {
    100: frozenset((1,)), 101: frozenset((1,)), 102: frozenset((1,)), 104: frozenset((1, 2)), 105: frozenset((1,)),
    108: frozenset((2, 3)),
}  # fmt: skip
"""What transactions do, with the fields that are parts of the data: append, delete, overwrite, rewrite, merge …"""
_REWRITE, _GROUP = 104, 3
"""A rewrite has groups of parts too, under the same fields."""

_BLOCK, _MARK = 64, b"\xff\xff\xff\xff"
"""Of Arrow's files: bytes to which buffers are padded, what is in front of a message's size."""


def is_manifest(path: Path, data: bytes) -> bool:
    """Whether a file is a manifest of a version, by its place and its end."""
    return path.name.endswith(_END) and path.parent.name == _FOLDER and data[-4:] == _MAGIC


def may_have_files(path: Path) -> bool:
    """Whether a file is a manifest by its name and place alone."""
    return path.name.endswith(_END) and path.parent.name == _FOLDER


def may_be_parts(paths: Iterable[str]) -> frozenset[str]:
    """Return the files of datasets among the files of a run that manifests name, by their names and places alone."""
    names = [*paths]
    folders = {name.rpartition(f"{_FOLDER}/")[0] for name in names if name.endswith(_END) and f"{_FOLDER}/" in name}
    return frozenset(
        name
        for name in names
        for folder in folders
        if name.startswith(folder) and _PART.fullmatch(name[len(folder) :]) is not None
    )


def read_manifest(out: Canonical, folder: Path, data: bytes) -> frozenset[str]:
    """Read a manifest and return the files that it names, relative to the folder in which it is.

    Raises ``UnreadableError`` if it is damaged, or has what is not known.

    Args:
        out: what collects.
        folder: of the manifest.
        data: of its file.
    """
    reader = _Reader(out, folder.parent)
    try:
        reader.read(data)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise UnreadableError(f"a damaged manifest: {error}") from None
    return frozenset(f"../{name}" for name in reader.parts)


class _Reader:
    """Counts what a manifest has.

    Args:
        out: what collects.
        folder: of the dataset.
    """

    def __init__(self, out: Canonical, folder: Path) -> None:
        self._out, self._folder = out, folder
        self.parts: set[str] = set()

    def read(self, data: bytes) -> None:
        """Read a file: a transaction, the manifest behind its size, where it begins, versions of the format."""
        place = int.from_bytes(data[-_FOOTER : 8 - _FOOTER], "little")
        message = _sized(data[place:-_FOOTER])
        fields = [*fields_of(message)]
        known = dict(fields)
        if _INDICES in known or (known.get(_INLINE) is None) != (place == 0):
            raise ValueError("parts of another kind")
        self._out.add("", "a manifest of Lance")
        self._out.add("version of the format", data[8 - _FOOTER : -4])
        if place:
            if known[_INLINE] != 0:
                raise ValueError("parts in another order")
            self._transaction("transaction", _sized(data[:place]))
        for number, value in fields:
            self._field(number, value)

    def _field(self, number: int, value: int | bytes) -> None:
        if number == _TIME:
            self._out.leave_out("time", repr(value), "time", during=True)
        elif number == _FRAGMENT:
            self._fragment("fragment", _bytes(value), files=True)
        elif number == _OWN_TRANSACTION:
            name = _bytes(value).decode()
            found = _TRANSACTION.fullmatch(name)
            if found is None:
                raise ValueError("another name of a transaction")
            self._out.add("its transaction", found[1])
            self._out.leave_out("its transaction", name, "identity")
            if (data := self._take(f"{_TRANSACTIONS}/{name}")) is not None:
                self._transaction("file of the transaction", data)
        else:
            self._plain(f"field {number}", value)

    def _fragment(self, where: str, message: bytes, *, files: bool) -> None:
        """Count a ``DataFragment``: its files by what they hold, if that is not done elsewhere."""
        fields = [*fields_of(message)]
        number = _number(next((value for field, value in fields if field == 1), 0))
        where = f"{where} {number}"
        for field, value in fields:
            if field == 2:
                self._file(where, _bytes(value), files=files)
            elif field == 3:
                self._deleted(where, number, _bytes(value), files=files)
            else:
                self._plain(f"{where}, field {field}", value)

    def _file(self, where: str, message: bytes, *, files: bool) -> None:
        for field, value in fields_of(message):
            if field != 1:
                self._plain(f"{where}, file's field {field}", value)
                continue
            name = _bytes(value).decode()
            if _NAME.fullmatch(name) is None:
                raise ValueError("another name of a file")
            self._out.add(f"{where}, file", f"⟨file {self._out.number_of(name)}⟩")
            self._out.leave_out(f"{where}, file", name, "identity")
            if files:
                if (data := self._take(f"{_DATA}/{name}")) is None:
                    raise ValueError("a file that is not there")
                self._out.add(f"{where}, data", data)

    def _deleted(self, where: str, fragment: int, message: bytes, *, files: bool) -> None:
        known = dict(fields_of(message))
        identity, version, kind = _number(known.pop(3, 0)), _number(known.get(2, 0)), _number(known.get(1, 0))
        for field, value in sorted(known.items()):
            self._plain(f"{where}, deleted rows' field {field}", value)
        self._out.add(f"{where}, deleted rows", f"⟨file {self._out.number_of(f'{fragment} {identity}')}⟩")
        self._out.leave_out(f"{where}, deleted rows", str(identity), "identity")
        if files:
            data = self._take(f"{_DELETED}/{fragment}-{version}-{identity}.{_ENDS[kind]}")
            if data is None:
                raise ValueError("a file that is not there")
            self._out.add(f"{where}, deleted rows", _in_order(data, _number(known.get(4, 0))))

    def _transaction(self, where: str, message: bytes) -> None:
        for number, value in fields_of(message):
            if number == _IDENTITY and _UUID.fullmatch(_bytes(value)) is not None:
                self._out.leave_out(below(where, "identity", " "), _bytes(value).decode(), "identity")
            elif number in _WITH_FRAGMENTS:
                self._operation(where, number, _bytes(value))
            else:
                self._plain(f"{where}, field {number}", value)

    def _operation(self, where: str, number: int, message: bytes, *, group: bool = False) -> None:
        for field, value in fields_of(message):
            if field in _WITH_FRAGMENTS[number]:
                self._fragment(f"{where}, fragment", _bytes(value), files=False)
            elif (number, field) == (_REWRITE, _GROUP) and not group:
                self._out.add(where, "a group")
                self._operation(where, number, _bytes(value), group=True)
            else:
                self._plain(f"{where}, {number}.{field}", value)

    def _plain(self, where: str, value: int | bytes) -> None:
        self._out.add(where, value if isinstance(value, bytes) else str(value))

    def _take(self, name: str) -> bytes | None:
        """Return a file of the dataset; None if it is not there, or a link leads elsewhere."""
        file = self._folder / name
        data = read_foreign(file, FILE) if file.parent.resolve() == (self._folder.resolve() / name).parent else None
        if data is not None:
            self._out.spend(len(data) + 100)
            self.parts.add(name)
        return data


def _in_order(data: bytes, count: int) -> bytes:
    """Return a file of Arrow with numbers of deleted rows in their order; they are a set, which has none.

    It has a schema, then one record batch: a bitmap, then numbers of four bytes, each padded to 64 bytes, behind a mark
    that they are not compressed. Compressed ones are as they are.
    """
    place = _BLOCK
    for _ in range(2):
        if data[place : place + 4] != _MARK:
            return data
        place += 8 + int.from_bytes(data[place + 4 : place + 8], "little")
    values = place + _padded(8 - (-count // 8))
    start, end = values + 8, values + 8 + 4 * count
    if {data[place : place + 8], data[values:start]} != {2 * _MARK}:
        return data
    if data[values + _padded(end - values) :][:8] != _MARK + bytes(4):
        return data
    numbers = sorted(data[at : at + 4] for at in range(start, end, 4))
    return data[:start] + b"".join(numbers) + data[end:]


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _sized(data: bytes) -> bytes:
    """Return what is behind its size of four bytes."""
    size = int.from_bytes(data[:4], "little")
    if len(data) != size + 4:
        raise ValueError("another size")
    return data[4:]


def _number(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise TypeError("a message in the place of a number")
    return value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a number in the place of a message")
    return value
