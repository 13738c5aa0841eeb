"""What differs between two manifests, read side by side: names of the first, counts of all, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from envbuild.core.text import plain, plural
from envbuild.inputs.manifest import DIR, FILE, Entry, entries, order

NAMES = 5
"""So many names of each kind are kept by default."""

_ITSELF = "the input itself"
_KINDS = {FILE: "a file", DIR: "a folder", b"link": "a link"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Entries of one kind of difference.

    Attributes:
        files: files and links.
        folders: folders with nothing in them; others are implied by what they hold.
        bytes: of the files; of those that changed, as they are now.
        names: the first of them, printable, folders with a ``/`` at the end.
    """

    files: int = 0
    folders: int = 0
    bytes: int = 0
    names: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """All entries."""
        return self.files + self.folders

    @property
    def more(self) -> int:
        """How many are not named."""
        return self.count - len(self.names)


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeDiff:
    """What the second of two trees has more, has no more, and has otherwise; false if they are equal."""

    added: Part = Part()
    removed: Part = Part()
    changed: Part = Part()

    def __bool__(self) -> bool:
        """Whether there is any difference."""
        return bool(self.added.count or self.removed.count or self.changed.count)

    @property
    def of_one_file(self) -> bool:
        """Whether both trees are one file each: the input is no folder, and has other content."""
        return self.changed.names == (_ITSELF,) and not self.added.count and not self.removed.count

    def summary(self, removed: str = "removed") -> str:
        """Describe in one line how much of what; ``removed`` is the word for what the second tree lacks."""
        if self.of_one_file:
            return "another content"
        parts = [
            _counted(self.added, "added"),
            _counted(self.changed, "changed", weighed=False),
            _counted(self.removed, removed),
        ]
        return ", ".join(part for part in parts if part) or "no differences"

    def lines(self, removed: str = "removed") -> list[str]:
        """Name the first of each kind, a line each, the kind before its first, and how many more there are."""
        found: list[str] = []
        if self.of_one_file:
            return found
        for word, part in (("added", self.added), ("changed", self.changed), (removed, self.removed)):
            sentence = [*part.names, *([f"and {part.more:,} more"] if part.more else [])]
            found += [f"{word if number == 0 else '':<9}{name}" for number, name in enumerate(sentence)]
        return found


def compare_trees(a: IO[bytes], b: IO[bytes], *, names: int = NAMES) -> TreeDiff:
    """Compare two manifests.

    Args:
        a, b: manifests, at their beginning.
        names: how many of each kind of difference to name.

    Raises:
        ManifestError: one of them is damaged.
    """
    added, removed, changed = _Gathered(names), _Gathered(names), _Gathered(names)
    left, right = _with_leaves(a), _with_leaves(b)
    old, new = next(left, None), next(right, None)
    while old and new:
        before, after = order(old[0].path), order(new[0].path)
        if before < after:
            removed.add(*old)
        elif after < before:
            added.add(*new)
        elif old[0] != new[0]:
            changed.add(new[0], True, _note(old[0].kind, new[0].kind))
        old, new = (next(left, None) if before <= after else old), (next(right, None) if after <= before else new)
    while old:
        removed.add(*old)
        old = next(left, None)
    while new:
        added.add(*new)
        new = next(right, None)
    return TreeDiff(added=added.part(), removed=removed.part(), changed=changed.part())


def _note(was: bytes, now: bytes) -> str:
    return "" if was == now else f" (was {_KINDS[was]}, is {_KINDS[now]})"


def printable(path: bytes) -> str:
    """Return a path as text that stays on its line: other bytes than printable UTF-8 are escaped as in Python."""
    return plain(path.decode("utf-8", "backslashreplace"))


@dataclass(slots=True)
class _Gathered:
    """A ``Part`` that grows."""

    limit: int
    files: int = 0
    folders: int = 0
    bytes: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, entry: Entry, counts: bool, note: str = "") -> None:
        if not counts:
            return
        folder = entry.kind == DIR
        self.folders += folder and not note
        self.files += not folder or bool(note)
        self.bytes += entry.size
        if len(self.names) < self.limit:
            name = printable(entry.path) + ("/" if folder and entry.path else "")
            self.names.append((name or _ITSELF) + note)

    def part(self) -> Part:
        return Part(files=self.files, folders=self.folders, bytes=self.bytes, names=tuple(self.names))


def _with_leaves(stream: IO[bytes]) -> Iterator[tuple[Entry, bool]]:
    """Yield records, and whether each counts for itself: a folder does if nothing is in it."""
    before: Entry | None = None
    for entry in entries(stream):
        if before is not None:
            yield before, before.kind != DIR or not _inside(entry, before)
        before = entry
    if before is not None:
        yield before, True


def _inside(entry: Entry, folder: Entry) -> bool:
    return not folder.path or entry.path.startswith(folder.path + b"/")


def _counted(part: Part, verb: str, *, weighed: bool = True) -> str:
    nouns = [plural(part.files, "file")] if part.files else []
    nouns += [plural(part.folders, "empty folder")] if part.folders else []
    size = f" ({plural(part.bytes, 'byte')})" if weighed and part.bytes else ""
    return f"{' and '.join(nouns)} {verb}{size}" if nouns else ""
