"""A file tree that arrives in any order and leaves in the one order that layers have.

Entries stay in memory, contents go to one unnamed temporary file: memory grows with the number of files, not with
their size, and nothing is left behind by a killed process.
"""

from __future__ import annotations

import dataclasses
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

from envbuild.errors import BuildError
from envbuild.image.tar.layer import BLOCK, Entry, Layer, LayerWriter, header

_CHUNK = 1 << 20


class Tree:
    """Collects entries; a later entry replaces an earlier one of the same path, except that a folder stays a folder.

    Args:
        directory: where the temporary file is, best on the file system of the output.
        label: what is being collected, for error messages.
    """

    def __init__(self, directory: Path, label: str) -> None:
        self._spool = cast(BinaryIO, tempfile.TemporaryFile(dir=directory))  # noqa: SIM115 - closed by __exit__
        self._label = label
        self._entries: dict[str, Entry] = {}
        self._offsets: dict[str, int] = {}
        self._files: dict[str, Path] = {}

    def __enter__(self) -> Tree:
        """Return the tree."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop the temporary file."""
        self._spool.close()

    def __contains__(self, path: str) -> bool:
        """Return whether there is an entry of this path."""
        return path in self._entries

    def add(self, entry: Entry, data: BinaryIO | bytes | Path | None = None) -> None:
        """Take one entry and, of a regular file, its content of ``entry.size`` bytes, or where a file with it is.

        Raises:
            BuildError: the content is shorter than it should be.
        """
        self._files.pop(entry.path, None)
        if isinstance(data, Path):
            self._files[entry.path] = data
        elif entry.kind == "file":
            self._offsets[entry.path] = self._spool.seek(0, io.SEEK_END)
            for chunk in content(entry, io.BytesIO(data) if isinstance(data, bytes) else data, self._label):
                self._spool.write(chunk)
        self._entries[entry.path] = entry

    def add_parents(self, mode: int = 0o755) -> None:
        """Add every folder that is above an entry and is missing, owned by root."""
        for path in list(self._entries):
            parent = path.rpartition("/")[0]
            while parent and parent not in self._entries:
                self._entries[parent] = Entry(path=parent, kind="dir", mode=mode)
                parent = parent.rpartition("/")[0]

    def write(self, output: BinaryIO) -> Layer:
        """Write the tree, sorted, as one layer; of several names of a file the first one holds the content.

        Raises:
            BuildError: as ``LayerWriter.add`` does, or a hard link to nothing.
        """
        entries, sources = self._canonical_links()
        with LayerWriter(output, self._label) as writer:
            for path in sorted(entries, key=lambda path: path.encode("utf-8", "surrogateescape")):
                entry = entries[path]
                writer.add(entry, self._content(entry, sources.get(path, path)) if entry.kind == "file" else None)
        return writer.layer()

    def _content(self, entry: Entry, source: str) -> BinaryIO | bytes | Path:
        if source in self._files:
            return self._files[source]
        offset = self._offsets[source]
        if entry.size <= _CHUNK:
            self._spool.seek(offset)
            return self._spool.read(entry.size)
        return cast(BinaryIO, Slice(self._spool, offset, entry.size))

    def _canonical_links(self) -> tuple[dict[str, Entry], dict[str, str]]:
        """Return the entries with hard links turned so that they name an earlier path, and where contents come from."""
        groups: dict[str, list[str]] = {}
        for path, entry in self._entries.items():
            if entry.kind == "hardlink":
                groups.setdefault(self._final(path), []).append(path)
        entries = dict(self._entries)
        sources: dict[str, str] = {}
        for origin, names in groups.items():
            first, *others = sorted([origin, *names], key=lambda path: path.encode("utf-8", "surrogateescape"))
            entries[first] = dataclasses.replace(self._entries[origin], path=first)
            sources[first] = origin
            for name in others:
                entries[name] = dataclasses.replace(
                    self._entries[origin], path=name, kind="hardlink", target=first, size=0, xattrs={}
                )
        return entries, sources

    def _final(self, path: str) -> str:
        """Follow hard links to the path whose entry holds the content."""
        met = {path}
        while (entry := self._entries.get(path)) is not None and entry.kind == "hardlink":
            path = entry.target
            if path in met:
                break
            met.add(path)
        if entry is None or entry.kind in ("hardlink", "dir"):
            raise BuildError(f"{self._label}: {min(met)!r} is a hard link to {path!r}, which is no file of this tree")
        return path


def content(entry: Entry, data: BinaryIO | None, label: str) -> Iterator[bytes]:
    """Yield a file's content in pieces; raises ``BuildError`` if it is shorter than ``entry.size``."""
    left = entry.size
    while left:
        chunk = data.read(min(_CHUNK, left)) if data is not None else b""
        if not chunk:
            raise BuildError(f"{label}: {entry.path!r}: its content is cut short by {left} bytes")
        left -= len(chunk)
        yield chunk


class Members:
    """Passes entries on to a stream as a tar's members, in the order in which they come, with the folders above them.

    Args:
        output: takes members, of which later ones replace earlier ones of the same path.
        label: what is being written, for error messages.
    """

    def __init__(self, output: BinaryIO, label: str) -> None:
        self._output, self._label = output, label
        self._known: set[str] = set()

    def __contains__(self, path: str) -> bool:
        """Return whether there is an entry of this path."""
        return path in self._known

    def add(self, entry: Entry, data: BinaryIO | bytes | None = None) -> None:
        """Take one entry and, of a regular file, its content of ``entry.size`` bytes.

        Raises:
            BuildError: the content is shorter than it should be, or the entry cannot be in a tar.
        """
        self._add_above(entry.path)
        self._known.add(entry.path)
        self._output.write(header(entry, self._label))
        if entry.kind == "file":
            for chunk in content(entry, io.BytesIO(data) if isinstance(data, bytes) else data, self._label):
                self._output.write(chunk)
            self._output.write(bytes(-entry.size % BLOCK))

    def add_parents(self) -> None:
        """Do nothing: folders above an entry come before it."""

    def _add_above(self, path: str) -> None:
        above = path.rpartition("/")[0]
        if above and above not in self._known:
            self.add(Entry(path=above, kind="dir", mode=0o755))


class Slice:
    """Reads a part of a file that others may read too."""

    def __init__(self, stream: BinaryIO, offset: int, size: int) -> None:
        self._stream = stream
        self._offset = offset
        self._left = size

    def read(self, amount: int) -> bytes:
        """Return up to ``amount`` bytes; empty at the end of the part."""
        self._stream.seek(self._offset)
        chunk = self._stream.read(min(amount, self._left))
        self._offset += len(chunk)
        self._left -= len(chunk)
        return chunk
