"""OCDBT, TensorStore's database in files, in which Orbax keeps checkpoints of JAX: by keys and values.

A database is ``manifest.ocdbt`` and files of data, which are called by chance (``d/`` and 32 hexadecimal digits). Which
value is in which file, and at which place, depends on which of the library's threads was first, and so does how many
versions there are: each key of the newest version counts with its value, and what earlier versions have besides does.
The database's own identity and the times of its versions do not count. Bytes that no version refers to are no content.
Source: https://google.github.io/tensorstore/kvstore/ocdbt/index.html, "Storage format".
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from envbuild.core.fs import open_regular
from envbuild.core.patterns import lazy
from envbuild.verification.content.archives import unpack
from envbuild.verification.content.canonical import Canonical, TooMuchError, UnreadableError, below
from envbuild.verification.content.cursor import Cursor

Nested = Callable[[Canonical, str, bytes], None]
"""Opens what is in a value."""
NAME = "manifest.ocdbt"
_MANIFEST, _VERSIONS, _NODE = (bytes.fromhex(magic) for magic in ("0cdb3a2a", "0cdb1234", "0cdb20de"))
_HEAD, _SUM = 12, 4
_UUID, _MOMENT = 16, 8
_PLAIN, _ZSTD = 0, 1
_SMALL = 1 << 20
"""Bytes of the largest value in which something is looked for: metadata of arrays. Others are numbers."""
_LARGEST_NODE = 64 << 20
_NODES = 200_000
_BYTES = 64 << 30
"""Bytes of all values together."""
_PIECE = 1 << 20
_HEIGHT = 64
_METADATA = (b".zarray", b".zattrs", b".zgroup", b"zarr.json")
"""Ends of the keys of what is said of arrays."""
_ENTRIES = 4_000_000
_PART = lazy(r"(?:.+/)?d/[0-9a-f]{32}")
"""Files of data that TensorStore named. A database may be made to refer to files of any name: those are results too."""


class _Place(NamedTuple):
    """Bytes of a file of data, which is named relative to the database's folder."""

    path: str
    base: str
    offset: int
    length: int


def is_manifest(data: bytes) -> bool:
    """Whether data are a manifest of that length."""
    return data.startswith(_MANIFEST) and data[4:_HEAD] == len(data).to_bytes(8, "little")


def read_manifest(out: Canonical, folder: Path, data: bytes, nested: Nested) -> frozenset[str]:
    """Read a database and return the paths of its files of data, relative to its folder.

    Args:
        out: collects keys and values.
        folder: that of the manifest.
        data: the manifest.
        nested: opens small values.

    Raises:
        UnreadableError: it is damaged, files are missing or outside its folder, or it is larger than what is opened.
    """
    database = _Database(out, folder)
    out.add("", "a database of TensorStore")
    newest, earlier = database.versions(data)
    pairs: set[tuple[bytes, str]] = set()
    for key, place in sorted(newest.items()):
        digest, content = database.value(place)
        pairs.add((key, digest))
        out.add("", key)
        if content is None or not key.endswith(_METADATA):  # numbers are never a text, whatever they look like
            out.add(_name(key), digest)
        else:
            nested(out, _name(key), content)
    for key, digest in sorted({(key, database.value(place)[0]) for key, place in earlier} - pairs):
        out.add("in an earlier version", key)
        out.add(f"{_name(key)} in an earlier version", digest)
    return frozenset(name for name in database.files if _PART.fullmatch(name))


class _Database:
    """A database's tree of nodes.

    Attributes:
        files: the files of data that were read.
    """

    def __init__(self, out: Canonical, folder: Path) -> None:
        self._out, self._folder = out, folder
        self._nodes, self._bytes, self._entries_left = _NODES, _BYTES, _ENTRIES
        self._leaves: dict[tuple[_Place, bytes], dict[bytes, _Place | bytes]] = {}
        self.files: set[str] = set()

    def versions(self, manifest: bytes) -> tuple[dict[bytes, _Place | bytes], set[tuple[bytes, _Place | bytes]]]:
        """Return where the values of the newest version are, and those of all others that are elsewhere."""
        body = _body(self._out, manifest, _MANIFEST)
        body.skip(_UUID)
        if body.varint():  # not in the description: ``ManifestKind`` in format/config.h, 0 for a single file
            raise UnreadableError("manifests in several files")
        self._out.add("", f"inline {body.varint()}, nodes {body.varint()}, arity {body.byte()}")
        method = body.varint()
        self._out.add("", f"compression {method} {body.take(4).hex() if method == _ZSTD else ''}")
        if method not in (_PLAIN, _ZSTD):
            raise UnreadableError("another compression")
        table = body.files("")
        newest_roots = list(self._leaf_versions(body, table))
        above = self._older_versions(body, table, heights=True)
        body.end()
        roots = [root for place, _ in above for root in self._below(place)] + newest_roots
        if not roots:
            raise UnreadableError("a database without a version")
        *older, newest = ({} if place is None else self._keys(place, height, b"") for place, height in roots)
        earlier: set[tuple[bytes, _Place | bytes]] = set()
        for each in older:
            self._take(len(each))
            earlier |= each.items()
        return newest, earlier - newest.items()

    def _below(self, place: _Place, depth: int = 0) -> Iterator[tuple[_Place | None, int]]:
        """Return the roots of a node of the tree of versions."""
        if depth > _HEIGHT:
            raise UnreadableError("a tree of versions without an end")
        body = self._node(place, _VERSIONS)
        body.byte()
        height = body.byte()
        table = body.files(place.base)
        if height:
            children = [child for child, _ in self._older_versions(body, table, heights=False)]
            body.end()
            for child in children:
                yield from self._below(child, depth + 1)
        else:
            roots = list(self._leaf_versions(body, table))
            body.end()
            yield from roots

    @staticmethod
    def _leaf_versions(body: _Body, table: list[tuple[str, str]]) -> Iterator[tuple[_Place | None, int]]:
        count = body.count()
        body.varints(count)  # numbers of generations
        heights = [body.byte() for _ in range(count)]
        places = body.places(count, table)
        body.varints(count)
        body.varints(count)
        body.varints(count)
        body.skip(_MOMENT * count)
        for place, height in zip(places, heights, strict=True):
            yield (place if place.length and place.offset != _NOWHERE else None), height

    @staticmethod
    def _older_versions(body: _Body, table: list[tuple[str, str]], *, heights: bool) -> list[tuple[_Place, int]]:
        count = body.count()
        body.varints(count)
        places = body.places(count, table)
        body.varints(count)
        body.skip(_MOMENT * count)
        found = [body.byte() for _ in range(count)] if heights else [0] * count
        return list(zip(places, found, strict=True))

    def _keys(self, place: _Place, height: int, prefix: bytes) -> dict[bytes, _Place | bytes]:
        """Return where the values of all keys below a node are; those that it holds itself as they are."""
        if (known := self._leaves.get((place, prefix))) is not None:
            return known
        body = self._node(place, _NODE)
        if body.byte() != height or height > _HEIGHT:
            raise UnreadableError("a node of another height")
        table = body.files(place.base)
        found = self._branches(body, table, height, prefix) if height else dict(self._entries(body, table, prefix))
        self._take(len(found))
        self._leaves[place, prefix] = found
        return found

    def _take(self, entries: int) -> None:
        self._entries_left -= entries + 1
        if self._entries_left < 0:
            raise TooMuchError("more entries than are read")

    def _branches(
        self, body: _Body, table: list[tuple[str, str]], height: int, prefix: bytes
    ) -> dict[bytes, _Place | bytes]:
        count = body.count()
        lengths = body.key_lengths(count)
        common = body.varints(count)
        keys = body.keys(lengths)
        places = body.places(count, table)
        for _ in range(3):
            body.varints(count)
        body.end()
        found: dict[bytes, _Place | bytes] = {}
        for key, size, place in zip(keys, common, places, strict=True):
            if size > len(key):
                raise UnreadableError("a key shorter than what is common")
            below_it = self._keys(place, height - 1, prefix + key[:size])
            if not found.keys().isdisjoint(below_it):
                raise UnreadableError("a key twice")
            found |= below_it
        return found

    @staticmethod
    def _entries(body: _Body, table: list[tuple[str, str]], prefix: bytes) -> Iterator[tuple[bytes, _Place | bytes]]:
        count = body.count()
        keys = body.keys(body.key_lengths(count))
        if len({*keys}) != count:
            raise UnreadableError("a key twice")
        lengths = body.varints(count)
        elsewhere = body.varints(count)
        if not {*elsewhere} <= {0, 1}:
            raise UnreadableError("a value of another kind")
        outside = [at for at in range(count) if elsewhere[at]]
        files, offsets = body.varints(len(outside)), body.varints(len(outside))
        places = {
            at: body.place(table, file, offset, lengths[at])
            for at, file, offset in zip(outside, files, offsets, strict=True)
        }
        for at, key in enumerate(keys):
            yield prefix + key, places[at] if at in places else body.take(lengths[at])
        body.end()

    def value(self, place: _Place | bytes) -> tuple[str, bytes | None]:
        """Return the size and digest of a value, and a small value itself."""
        if isinstance(place, bytes):
            return _digest(len(place), hashlib.sha256(place)), place if len(place) <= _SMALL else None
        digest, content = hashlib.sha256(), b""
        small = place.length <= _SMALL
        for piece in self._pieces(place):
            digest.update(piece)
            content = content + piece if small else b""
        return _digest(place.length, digest), content if small else None

    def _node(self, place: _Place, magic: bytes) -> _Body:
        self._nodes -= 1
        if self._nodes < 0 or place.length > _LARGEST_NODE:
            raise TooMuchError("more nodes than are read")
        return _body(self._out, b"".join(self._pieces(place)), magic)

    def _pieces(self, place: _Place) -> Iterator[bytes]:
        """Read bytes of a file; no link leads to it."""
        self._bytes -= place.length
        if self._bytes < 0:
            raise TooMuchError("more bytes than are read")
        file = self._folder / place.path
        try:
            if not file.parent.resolve().is_relative_to(self._folder.resolve()):
                raise UnreadableError("a file of data elsewhere")
            with open_regular(file, follow=False) as stream:
                left = place.length
                os.lseek(stream.fileno(), place.offset, os.SEEK_SET)
                while left:
                    piece = os.read(stream.fileno(), min(_PIECE, left))
                    if not piece:
                        raise UnreadableError("a file of data that ends too early")
                    left -= len(piece)
                    yield piece
        except (OSError, OverflowError, RuntimeError) as error:  # the last: links in a circle
            raise UnreadableError(f"a file of data that cannot be read: {error}") from None
        self.files.add(place.path)


_NOWHERE = (1 << 64) - 1
"""The offset of what is not there."""


class _Body(Cursor):
    """What is in a node or in the manifest, unpacked."""

    _keys_left = 64 << 20
    """Bytes of all keys of a node."""

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        return self._take(size)

    def skip(self, size: int) -> None:
        """Leave bytes out."""
        self._take(size)

    def byte(self) -> int:
        """Return the next byte."""
        return self._take(1)[0]

    def varint(self) -> int:
        """Return a number of seven bits a byte, the lowest first."""
        number = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            number |= (byte & 127) << shift
            if byte < 128:
                if number > _NOWHERE:
                    break
                return number
        raise UnreadableError("a number of more than 64 bits")

    def varints(self, count: int) -> list[int]:
        """Return so many numbers."""
        return [self.varint() for _ in range(count)]

    def count(self) -> int:
        """Return how many entries follow, each of at least a byte."""
        count = self.varint()
        if count > len(self._data) - self._at:
            raise UnreadableError("more entries than bytes")
        return count

    def files(self, base: str) -> list[tuple[str, str]]:
        """Return the paths of files of data, each with the part of it that nodes in that file take for their own.

        Args:
            base: that part of the file that this is in.
        """
        count = self.count()
        lengths = self.key_lengths(count)
        bases = self.varints(count)
        found: list[tuple[str, str]] = []
        for path, size in zip(self.keys(lengths), bases, strict=True):
            text = base.encode() + path
            if size > len(path) or not text.isascii() or not text.decode().isprintable():
                raise UnreadableError("a file of data of another name")
            name = text.decode()
            if name and any(part in ("", ".", "..") for part in name.split("/")):  # that of what is not there is empty
                raise UnreadableError("a file of data elsewhere")
            found.append((name, name[: len(base) + size]))
        return found

    def key_lengths(self, count: int) -> list[tuple[int, int]]:
        """Return how long keys are: what each has of the one before, and what is its own."""
        if not count:
            return []
        common = [0, *self.varints(count - 1)]
        return list(zip(common, self.varints(count), strict=True))

    def keys(self, lengths: list[tuple[int, int]]) -> list[bytes]:
        """Return keys by what is their own of each."""
        found: list[bytes] = []
        before = b""
        for common, own in lengths:
            if common > len(before):
                raise UnreadableError("a key shorter than what is common")
            before = before[:common] + self._take(own)
            self._keys_left -= len(before) + 1
            if self._keys_left < 0:
                raise TooMuchError("longer keys than are read")
            found.append(before)
        return found

    def places(self, count: int, table: list[tuple[str, str]]) -> list[_Place]:
        """Return where so many nodes are."""
        files, offsets, lengths = self.varints(count), self.varints(count), self.varints(count)
        return [self.place(table, *each) for each in zip(files, offsets, lengths, strict=True)]

    @staticmethod
    def place(table: list[tuple[str, str]], file: int, offset: int, length: int) -> _Place:
        """Return a place in a file by its number in a table."""
        if file >= len(table):
            if offset == _NOWHERE:
                return _Place("", "", offset, 0)
            raise UnreadableError("a file of data that is not in the table")
        return _Place(*table[file], offset, length)

    def end(self) -> None:
        """Make sure that nothing follows."""
        if self._at != len(self._data):
            raise UnreadableError("something behind the end of a node")


def _body(out: Canonical, data: bytes, magic: bytes) -> _Body:
    """Return what is between the head and the sum of a node or of the manifest."""
    if data[:4] != magic or data[4:_HEAD] != len(data).to_bytes(8, "little") or len(data) < _HEAD + 2 + _SUM:
        raise UnreadableError("a node of another kind")
    if data[_HEAD] != 0 or data[_HEAD + 1] not in (_PLAIN, _ZSTD):
        raise UnreadableError("a node of another version")
    body = data[_HEAD + 2 : -_SUM]
    return _Body(unpack(out, body, "zst") if data[_HEAD + 1] == _ZSTD else body, 0)


def _digest(size: int, digest: hashlib._Hash) -> str:
    return f"{size:,} bytes, sha256 {digest.hexdigest()}"


def _name(key: bytes) -> str:
    return below("", key.decode("utf-8", "backslashreplace"), "")


def may_be_parts(paths: Iterable[str]) -> frozenset[str]:
    """Return the files of data of databases among the files of a run, by their names and places alone."""
    names = [*paths]
    folders = {name[: -len(NAME)] for name in names if name == NAME or name.endswith(f"/{NAME}")}
    return frozenset(
        name
        for name in names
        if _PART.fullmatch(name) is not None and any(name.startswith(folder) for folder in folders)
    )
