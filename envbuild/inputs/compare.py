"""Declared data compared with a lock: which files changed, came or went, named where the locked listing is here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.progress import Progress, Silent
from envbuild.core.text import plural
from envbuild.errors import IntegrityError
from envbuild.inputs.diff import TreeDiff, compare_trees
from envbuild.inputs.digest import Tree, seal_inputs, trees
from envbuild.inputs.manifest import ManifestError
from envbuild.inputs.state import FOLDER, State
from envbuild.lockfile.model import Input


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One input that is not as locked.

    Attributes:
        found: None if it is missing or cannot be an input any more.
        message: what differs, one line.
        tree: the names; None if the listing behind the locked digest is not here.
        details: lines that go with the message.
    """

    path: str
    locked: Input
    found: Input | None
    message: str
    tree: TreeDiff | None = None
    details: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Inputs compared with a lock: what differs, in the lock's order, and the seal of what was seen."""

    differences: tuple[Difference, ...] = ()
    seal: str = ""

    def lines(self) -> list[str]:
        """Return all lines, indented by two columns under each input."""
        found = []
        for difference in self.differences:
            found.append(difference.message)
            found += [f"  {line}" for line in difference.details]
        return found


def compare_inputs(base: Path, locked: Sequence[Input], *, progress: Progress | None = None) -> Comparison:
    """Compare inputs with a lock; files that did not change since they were last read are not read again.

    Raises:
        IntegrityError: a file changed while it was read.
    """
    if not locked:
        return Comparison()
    state = State(base)
    with trees(state, base, [entry.path for entry in locked], progress or Silent()) as (found, seal):
        pairs = list(zip(locked, found, strict=True))
        for entry, tree in pairs:
            if not tree.problems.count and tree.draft.digest == entry.blake3:
                state.keep(tree.draft)
        differences = [_difference(state, *pair) for pair in pairs]
    return Comparison(differences=tuple(one for one in differences if one is not None), seal=seal)


def changes_since(base: Path, locked: Sequence[Input], seal: str) -> tuple[str, ...]:
    """Describe what happened to inputs since they were compared and found as locked; nothing if nobody touched them.

    Args:
        seal: what that comparison reported.
    """
    try:
        if not locked or seal_inputs(base, [entry.path for entry in locked]) == seal:
            return ()
        found = compare_inputs(base, locked)
    except IntegrityError as error:
        return (error.message,)
    except OSError as error:
        return (f"inputs could not be looked at again: {error.strerror}",)
    if not found.differences:
        return ("input files were written or replaced meanwhile; their content is as locked again",)
    return tuple(difference.message for difference in found.differences)


def compare_locked(base: Path, old: Input, new: Input) -> Difference | None:
    """Compare two digests of one input by the listings kept of them; None if they are equal."""
    if old.blake3 == new.blake3:
        return None
    state = State(base)
    before, after = state.open_manifest(old.blake3), state.open_manifest(new.blake3)
    tree = None
    if before is not None and after is not None:
        with before, after, suppress(ManifestError):
            tree = compare_trees(before, after)
    return _described(old, new, tree, "removed")


def _difference(state: State, locked: Input, tree: Tree) -> Difference | None:
    if wrong := tree.problems.messages:
        first, *others = wrong
        message = f"{locked.path}: {first}"
        return Difference(path=locked.path, locked=locked, found=None, message=message, details=tuple(others))
    found = tree.input
    if found.blake3 == locked.blake3:
        return None
    listing = None
    if (manifest := state.open_manifest(locked.blake3)) is not None:
        with manifest, suppress(ManifestError):
            listing = compare_trees(manifest, tree.draft.rewound())
    return _described(locked, found, listing, "missing")


def _described(locked: Input, found: Input, tree: TreeDiff | None, removed: str) -> Difference:
    """Put a difference into words."""
    if tree is not None:
        message, details = tree.summary(removed), tuple(tree.lines(removed))
    else:
        message = _counts(locked, found)
        details = (f"no names: {FOLDER}/{locked.blake3} is not here; copy it from where this was locked or run",)
    message = f"{locked.path}: {message}"
    return Difference(path=locked.path, locked=locked, found=found, message=message, tree=tree, details=details)


def _counts(locked: Input, found: Input) -> str:
    if (locked.files, locked.bytes) == (found.files, found.bytes):
        return f"the same number of files ({found.files:,}) and bytes ({found.bytes:,}), other content"
    return f"locked with {_size(locked)}, found {_size(found)}"


def _size(entry: Input) -> str:
    return f"{plural(entry.files, 'file')} of {plural(entry.bytes, 'byte')}"
