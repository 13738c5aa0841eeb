"""Layers unpacked into folders: each once for all images that have it, checked while it is written.

    <folder>/<diff ID>/tree/      the layer's files
    <folder>/<diff ID>/headers    what its tar has besides their content, compressed: with both, the same tar comes back
    <folder>/<diff ID>/tree.json  what is known of it, written last: without it there is no tree

A layer comes as a tar in a file (``make``), or as the bytes of one while they are made (``writer``): then there is no
file, and each byte is written once.

Trees are not synced to the disk when they are made. One of an earlier run of the machine may have been damaged by a
power cut: it is read and compared before it is used again (``holds``), or unpacked again (``make``). One whose files
somebody has touched since is read before it is relied on for a proof (``remove_changed``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core import quick_json
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import atomic_write, claimed, way_out
from envbuild.core.removal import remove_tree
from envbuild.engine.local.identities import gives_owners
from envbuild.errors import BuildError, IntegrityError, UsageError

if TYPE_CHECKING:
    from envbuild.engine.local.tree_files import TreeWriter

LINKED = "linked"
"""Kind of derived things, next to the trees: see ``linked.py``."""
_NOTE = "tree.json"
_OWNERS = "owners"
"""Key of the note that is there, and false, where all files belong to who made the tree."""
_STATE = "state"
"""Key of the note for what the file system knew of the files when they were whole (``tree_files.state``)."""
_TREE = "tree"
"""As ``tree_files`` names it, which is imported where a tree is made or read: a short run does neither."""


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A layer as a folder.

    Attributes:
        path: the folder.
        writable: folders in it that everybody may write to, absolute as the program sees them.
        state: what the file system knew of the files when they were whole; empty for a tree of an older envbuild.
    """

    path: Path
    writable: tuple[str, ...] = ()
    state: str = ""


class Trees:
    """The trees of a store.

    Args:
        folder: where they are, on a file system that overlays can have below them.
        use: called with a diff ID before its tree is looked for, so that no collection takes it.
        boot: name of this run of the machine; empty if it is not known, and trees are then believed.
    """

    def __init__(self, folder: Path, use: Callable[[str], None], boot: str) -> None:
        self._folder, self._use, self._boot = folder, use, boot

    def find(self, diff_id: str) -> Tree | None:
        """Return a layer's tree; None if there is none that can be relied on without reading it."""
        self._use(diff_id)
        folder = self._folder / diff_id
        try:
            note = parse_json((folder / _NOTE).read_bytes())
            if folder.is_symlink() or note["boot"] != self._boot:
                return None
            if not note.get(_OWNERS, True) and gives_owners():
                return None  # made by root of a namespace with one identity, as is whoever calls unshare -r
            with suppress(OSError):
                os.utime(folder)
            writable = tuple(map(str, note["writable"]))
            return Tree(path=folder / _TREE, writable=writable, state=str(note.get(_STATE, "")))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def holds(self, diff_id: str) -> bool:
        """Whether there is a layer's tree; one of an earlier run of the machine is read, and removed if it is damaged.

        Raises:
            OSError: it cannot be marked as read.
        """
        if self.find(diff_id) is not None:
            return True
        folder = self._folder / diff_id
        if not folder.is_dir():
            return False
        with self._claimed(diff_id):
            if self.find(diff_id) is None:
                try:
                    note = parse_json((folder / _NOTE).read_bytes())
                    writable, owners = note["writable"], bool(note.get(_OWNERS, True)) or gives_owners()
                except (OSError, ValueError, KeyError, TypeError):
                    return False
                from envbuild.engine.local.tree_files import is_sound, state

                found = state(folder)
                if not is_sound(folder):
                    remove(folder)
                    return False
                atomic_write(folder / _NOTE, self._note(writable, found, owners=owners), sync=False)
        return self.find(diff_id) is not None

    def remove_changed(self, diff_id: str) -> bool:
        """Remove a layer's tree if somebody has changed it since it was made or last read; returns whether it went.

        It is read only where the file system knows something else of its files than then.

        Raises:
            IntegrityError: it is damaged, and cannot be removed.
        """
        from envbuild.engine.local.tree_files import is_sound, state

        folder = self._folder / diff_id
        try:
            before, note = folder.stat(), parse_json((folder / _NOTE).read_bytes())
            found = state(folder)
            if note["boot"] != self._boot or note.get(_STATE) == found:
                return False
        except (OSError, ValueError, KeyError, TypeError):
            return False  # there is none that a run would take
        sound = is_sound(folder)
        try:
            with self._claimed(diff_id):
                if not os.path.samestat(before, folder.stat()):
                    return not sound  # another command has made it again
                if sound:
                    atomic_write(folder / _NOTE, quick_json.dumps({**note, _STATE: found}).encode(), sync=False)
                else:
                    remove(folder)
        except FileNotFoundError:
            return not sound
        except OSError as error:
            if not sound:
                message = f"{folder} is damaged, and cannot be removed: {error.strerror}"
                raise IntegrityError(message, way_out(error.errno)) from error
        return not sound

    def was_changed(self, tree: Tree, since: int | None) -> bool:
        """Return whether somebody has changed a tree that ``find`` returned, by now or in between; removes nothing.

        Times of change only grow: files of which the file system still knows what it knew when they were whole have
        been the layer's all the time. Those that were touched are read; who put back what it had changed shows too.

        Args:
            since: nanoseconds since 1970 from which on the tree was in use: files that are whole by now, and were
                touched later than that, may have been others meanwhile. None: what is whole by now has not changed.
        """
        from envbuild.engine.local.tree_files import is_sound, state_and_last_change

        folder = tree.path.parent
        try:
            found, last = state_and_last_change(folder)
            if found == tree.state:
                return False
            if not is_sound(folder) or (since is not None and last >= since):
                return True
            with suppress(OSError), self._claimed(folder.name):
                note = parse_json((folder / _NOTE).read_bytes())
                if str(note.get(_STATE, "")) == tree.state:  # read once, as far as the store can be written
                    atomic_write(folder / _NOTE, quick_json.dumps({**note, _STATE: found}).encode(), sync=False)
        except (OSError, ValueError, AttributeError):
            return True  # it is gone, or its note: nobody knows what it was
        return False

    def make(self, diff_id: str, tar: Path, advance: Callable[[int], None]) -> Tree:
        """Return a layer's tree, unpacked from its tar if need be; others that want it wait.

        Args:
            advance: receives bytes of the tar; what it raises ends the work, and nothing is left.

        Raises:
            BuildError: the tar is not the layer, holds what no layer of envbuild has, or the disk is full.
        """
        if found := self.find(diff_id):
            return found
        from envbuild.engine.local.tree_files import unpack

        fresh = self._folder / f".{diff_id}.tmp"
        with self._claimed(diff_id, lambda: advance(0)):
            try:
                if self.find(diff_id) is None:
                    remove(fresh)
                    with self._explained():
                        fresh.mkdir(mode=0o755)
                        writable = unpack(tar, diff_id, fresh, advance)
                        self._settle(fresh, diff_id, writable)
            finally:
                remove(fresh)
        made = self.find(diff_id)
        if made is None:
            raise BuildError(f"the layer {diff_id[:12]} disappeared while it was unpacked", "run the command again")
        return made

    @contextmanager
    def writer(self, key: str) -> Iterator[TreeOutput]:
        """Give what unpacks a layer from the bytes of its tar while they are made; ``keep`` makes it the layer's tree.

        Nothing is left of what is not kept.

        Args:
            key: 64 hexadecimal digits that name the work; others that do the same wait.

        Raises:
            OSError: the disk is full.
        """
        from envbuild.engine.local.tree_files import TreeWriter

        fresh = self._folder / f".{key}.tmp"
        with self._claimed(key):
            remove(fresh)
            try:
                fresh.mkdir(mode=0o755)
                output = TreeOutput(TreeWriter(fresh), lambda diff_id, writable: self._keep(fresh, diff_id, writable))
                try:
                    yield output
                finally:
                    output.close()
            finally:
                remove(fresh)

    def tar_of(self, diff_id: str) -> Iterator[bytes]:
        """Yield the tar of a layer whose tree is there.

        Raises:
            OSError, ValueError, zlib.error, BuildError: it is damaged.
        """
        from envbuild.engine.local.tree_files import tar_of

        return tar_of(self._folder / diff_id)

    def file_names(self, diff_id: str) -> Iterator[str]:
        """Yield the paths of all entries that are no folders; raises as ``tar_of`` does."""
        from envbuild.engine.local.tree_files import file_names

        return file_names(self._folder / diff_id)

    def path(self, diff_id: str) -> Path:
        """Return the folder with a layer's files."""
        return self._folder / diff_id / _TREE

    def forget(self, diff_id: str) -> None:
        """Remove a layer's tree."""
        remove(self._folder / diff_id)

    @contextmanager
    def _claimed(self, key: str, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._folder / f".{key}.lock"
        with claimed(lock, check):
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = "make room, or choose another disk: export ENVBUILD_STORE=FOLDER"
            raise BuildError(f"cannot unpack a layer into {self._folder}: {error.strerror}", hint) from error

    def _keep(self, fresh: Path, diff_id: str, writable: list[str]) -> None:
        """Make a fresh folder the tree of a layer, unless it has one."""
        with self._claimed(diff_id):
            if self.find(diff_id) is None:
                self._settle(fresh, diff_id, writable)

    def _settle(self, fresh: Path, diff_id: str, writable: list[str]) -> None:
        from envbuild.engine.local.tree_files import state

        (fresh / _NOTE).write_bytes(self._note(writable, state(fresh), owners=gives_owners()))
        target = self._folder / diff_id
        remove(target)
        if os.path.lexists(target):  # such as files with the attribute "immutable", or another user's
            raise UsageError(
                f"{target} is damaged, and cannot be removed",
                "see what its files are: lsattr -R, ls -lR; or choose another folder: export ENVBUILD_STORE=FOLDER",
            )
        fresh.rename(target)

    def _note(self, writable: list[str], found: str, *, owners: bool) -> bytes:
        """Describe a tree of this state whose files have the layer's owners, or all belong to one user."""
        known = {"boot": self._boot, "writable": writable, _STATE: found}
        return quick_json.dumps(known if owners else {**known, _OWNERS: False}).encode()


class TreeOutput:
    """Takes a layer's tar and keeps what it holds as the layer's tree."""

    def __init__(self, writer: TreeWriter, keep: Callable[[str, list[str]], None]) -> None:
        self._writer, self._keep = writer, keep

    def write(self, piece: bytes | bytearray | memoryview) -> int:
        """Take the next bytes; raises as ``TreeWriter`` does."""
        return self._writer.write(piece)

    def adopt(self, head: bytes, path: str) -> None:
        """Take a file as it is; see ``TreeWriter.adopt``."""
        self._writer.adopt(head, path)

    def keep(self, diff_id: str) -> None:
        """Make it the tree of the layer whose tar has this SHA-256, as whoever wrote it has found.

        Raises:
            BuildError: the tar has not come to its end.
            OSError: the disk is full.
        """
        self._keep(diff_id, self._writer.finish())

    def close(self) -> None:
        """Close what is open."""
        self._writer.close()


def remove(folder: Path) -> None:
    """Remove a folder whatever the modes in it are; nothing happens if it is not there."""
    remove_tree(folder)
