"""Names that look as if a run had drawn them, but are in what it was given, or in what all runs wrote alike.

A program may print one UUID of a catalogue, another one in each run. That is a result: the catalogue has them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import read_foreign
from envbuild.record.shared_names import names_in
from envbuild.verification.references import PACKED

if TYPE_CHECKING:
    from envbuild.record.model import Record
    from envbuild.runs.repeat import Repeated

_FILE, _ALL = 128 << 20, 256 << 20
"""Bytes of the largest file, and of all files, in which names are looked for: some seconds of a processor."""
_LISTED = 20_000
"""Files of the project and of its declared inputs."""
_MOST = 500_000
"""Names of one file, which take some 50 MB."""
_HEAD = 4096
_PICTURES = (b"\xff\xd8\xff", b"\x89PNG", b"RIFF", b"GIF8")


@dataclass(kw_only=True)
class GivenNames:
    """Looks for names in the files of a project that a program may read, and in those that it wrote alike in all runs.

    Args:
        project: where the files are that it read; its runs had copies.
    """

    project: Path
    _left: int = _ALL
    _files: dict[str, frozenset[str]] = field(default_factory=dict)

    def among(self, wanted: Set[str], record: Record, alike: Iterable[tuple[str, Path]]) -> frozenset[str]:
        """Return those of some names that are in files.

        Args:
            wanted: names, shortened.
            record: of a run, which knows what was read and written.
            alike: digests and places of files that all runs wrote alike.
        """
        found: set[str] = set()
        for digest, place in (*alike, *self._given(record)):
            if len(found) == len(wanted):
                break
            if digest not in self._files:
                self._files[digest] = self._names(digest, place)
            found |= wanted & self._files[digest]
        return frozenset(found)

    def _given(self, record: Record) -> Iterator[tuple[str, Path]]:
        """Yield the digest and the place of each file that a run is known to have read, then of the others it had.

        Files that it wrote are left out. Libraries open files that nobody notes, so that the whole project counts as
        read; a file without a known digest is named by its path.
        """
        written = {each.path for each in record.outputs}
        files = [*record.reads, *record.modules, *record.configs]
        known = {each.path: each.sha256 for each in files if each.sha256 and not each.path.startswith("/")}
        if record.script is not None and record.script.sha256:
            known[record.script.path] = record.script.sha256
        for path, digest in known.items():
            if path not in written:
                yield digest, self.project / path
        listed = 0
        for folder in (*(self.project / path for path in record.inputs), self.project):
            for file in (folder,) if folder.is_file() else _files(folder):
                name = os.path.relpath(file, self.project)
                listed += 1
                if listed > _LISTED:
                    return
                if name not in written and name not in known:
                    yield name, file

    def _names(self, digest: str, place: Path) -> frozenset[str]:
        """Return the names in a file; none if it is not there any more, or too large."""
        data = read_foreign(place, min(_FILE, self._left))
        if data is None or (len(digest) == 64 and place.name != digest and sha256_bytes(data) != digest):
            return frozenset()
        if data.startswith(_PICTURES):
            return frozenset()
        self._left -= len(data)
        found = {*islice(names_in(data), _MOST)}
        if data.startswith(PACKED) or b"\0" in data[:_HEAD]:
            found |= _packed(data)
        return frozenset(found)


def _packed(data: bytes) -> set[str]:
    """Return the names in a file of a format that is opened, as archives, databases and pickles are."""
    from envbuild.verification.content import all_texts

    return {*islice((name for text in all_texts(data) for name in names_in(text)), _MOST)}


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, in order, but for what is hidden: records, git, environments."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names))


def alike_in_all(runs: Iterable[Repeated]) -> Iterator[tuple[str, Path]]:
    """Yield the digest and a place of each file that all runs, two at least, wrote with the same bytes."""
    runs = [*runs]
    tables = [
        {each.path: each.sha256 for each in (*run.record.outputs, *run.record.outside) if each.sha256} for run in runs
    ]
    if len(runs) < 2:
        return
    kept = next(((run, table) for run, table in zip(runs, tables, strict=True) if run.files is not None), None)
    if kept is None:
        return
    run, table = kept
    for path, digest in table.items():
        if run.files is not None and all(each.get(path) == digest for each in tables):
            folder = run.outside if path.startswith("/") else run.files
            yield digest, folder / path.lstrip("/")
