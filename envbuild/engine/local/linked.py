"""Images as one folder each, for machines on which no overlay can be mounted: the layers' files, linked together.

    <folder>/<image>/tree/        all files of the image: hard links to those of its layers (``trees.py``)
    <folder>/<image>/tree.json    what is known of it, written last: without it there is no tree

A tree is made once and shared by all runs, which see its large folders read-only. Small ones are copied for each run,
so that a program can write there as in a container's own layer. A user's programs write only where everybody may
(``program_process.py``), so they see no difference from an overlay; root's do.

Source for what of two layers is seen: Linux, Documentation/filesystems/overlayfs.rst.
"""

# One system call for each of sixty thousand files counts here, so paths are strings:
# ruff: noqa: PTH102, PTH103, PTH112, PTH114, PTH115, PTH208, PTH211

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from envbuild.core.fs import claimed
from envbuild.engine.local import trees
from envbuild.engine.local.identities import gives_owners
from envbuild.engine.local.trees import Tree
from envbuild.engine.protocol import FileChange
from envbuild.errors import BuildError

KIND = trees.LINKED
_TREE, _NOTE = "tree", "tree.json"
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
_SMALL_BYTES, _SMALL_FILES = 1 << 20, 256
"""A folder with less is copied for each run: it takes milliseconds."""
_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
"""Attributes of root's overlays, and of those in a user namespace."""
_DEPTH = 2
"""How deep folders are that hold copied ones next to shared ones, such as ``/usr`` and ``/opt``."""


class LinkedTree(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an image's tree; paths are absolute, as the program sees them.

    Attributes:
        boot: name of the machine's run in which it was made.
        layers: diff IDs, bottom first.
        copied: files and folders that each run has of its own.
        shared: folders and files that runs see read-only.
        private: folders in shared ones that everybody may write to: each run has its own.
    """

    boot: str
    layers: tuple[str, ...]
    copied: tuple[str, ...]
    shared: tuple[str, ...]
    private: tuple[str, ...]


class FoundTree(msgspec.Struct, frozen=True, kw_only=True):
    """A tree with its folder."""

    path: Path
    known: LinkedTree


class LinkedTrees:
    """The linked trees of a store.

    Args:
        folder: where they are, on the disk of the layers' trees.
        use: called with an image's digest before its tree is looked for, so that no collection takes it.
        boot: name of this run of the machine; empty if it is not known, and trees are then believed.
    """

    def __init__(self, folder: Path, use: Callable[[str], None], boot: str) -> None:
        self._folder, self._use, self._boot = folder, use, boot

    def make(self, image: str, layers: Sequence[str], found: Sequence[Tree]) -> FoundTree:
        """Return an image's tree, made if need be; others that want it wait.

        Args:
            image: SHA-256 of its configuration.
            layers: diff IDs, bottom first.
            found: their trees.

        Raises:
            BuildError: it cannot be written.
        """
        self._use(image)
        if there := self._find(image):
            return there
        folder, fresh = self._folder / image, self._folder / f".{image}.tmp"
        with claimed(self._folder / f".{image}.lock"):
            try:
                if (there := self._find(image)) is None:
                    trees.remove(folder)
                    trees.remove(fresh)
                    fresh.mkdir(mode=0o755)
                    _merge([str(tree.path) for tree in reversed(found)], f"{fresh}/{_TREE}")
                    writable = sorted({path for tree in found for path in tree.writable})
                    known = _planned(fresh / _TREE, LinkedTree(
                        boot=self._boot, layers=tuple(layers), copied=(), shared=(), private=tuple(writable)
                    ))  # fmt: skip
                    (fresh / _NOTE).write_bytes(msgspec.json.encode(known))
                    fresh.rename(folder)
                    there = FoundTree(path=folder / _TREE, known=known)
            except OSError as error:
                raise BuildError(
                    f"cannot link the layers of {image[:12]}… into {self._folder}: {error.strerror}",
                    "make room, or choose another disk: export ENVBUILD_STORE=FOLDER",
                ) from error
            finally:
                trees.remove(fresh)
                (self._folder / f".{image}.lock").unlink(missing_ok=True)
        return there

    def _find(self, image: str) -> FoundTree | None:
        known = _known(self._folder / image)
        if known is None or known.boot != self._boot:
            return None
        with suppress(OSError):
            os.utime(self._folder / image)
        return FoundTree(path=self._folder / image / _TREE, known=known)


def is_sound(folder: Path, advance: Callable[[int], None] = lambda amount: None) -> bool:
    """Compare a linked tree's folder with its layers, which are read too; one whose layers are gone is not sound.

    Args:
        advance: receives the number of bytes read.
    """
    known = _known(folder)
    if known is None:
        return False
    from envbuild.engine.local import tree_files

    layers = [folder.parent.with_name("trees") / layer for layer in reversed(known.layers)]
    if not all(tree_files.is_sound(layer, advance) for layer in layers):
        return False
    try:
        return _is_merged([f"{layer}/{_TREE}" for layer in layers], f"{folder}/{_TREE}")
    except OSError:
        return False


def is_changed(folder: Path) -> bool:
    """Whether somebody has changed a linked tree's folder, its layers being as they were made.

    Only files that are none of its layers' are read: those of a layer that was made again since, and copies.
    """
    known = _known(folder)
    if known is None:
        return False
    layers = [folder.parent.with_name("trees") / layer for layer in reversed(known.layers)]
    try:
        return not _is_merged([f"{layer}/{_TREE}" for layer in layers], f"{folder}/{_TREE}")
    except FileNotFoundError:
        return True
    except OSError:  # another user's store, which nobody else changes
        return False


def prepare(tree: FoundTree, own: Path) -> None:
    """Fill a run's own folder: what it has copies of, and places for what it shares.

    Raises:
        OSError: the disk is full, or a file cannot be read.
    """
    above = {
        path[:end]
        for path in (*tree.known.copied, *tree.known.shared, *tree.known.private)
        for end, letter in enumerate(path)
        if letter == "/"
    }
    for path in sorted(above):
        os.makedirs(f"{own}{path}", 0o700, exist_ok=True)
    for path in tree.known.shared:
        if not os.path.isdir(f"{tree.path}{path}"):
            Path(f"{own}{path}").touch()
        elif path not in above:
            os.mkdir(f"{own}{path}", 0o700)
    for path in (*tree.known.copied, *tree.known.private):
        _copy(f"{tree.path}{path}", f"{own}{path}")
    for path in sorted(above, reverse=True):
        _copy_status(f"{tree.path}{path}", f"{own}{path}")


def changes(tree: FoundTree, own: Path, unlisted: Callable[[OSError], None] | None = None) -> dict[str, FileChange]:
    """Return what a run has of its own and its image has not, by absolute path; arguments as for ``layer_changes``."""
    from envbuild.engine.overlay import listed

    shared = {*tree.known.shared}
    found: dict[str, FileChange] = {}
    left = [(path, True) for path in ("", *tree.known.private)]
    while left:
        folder, known = left.pop()
        gone = set(os.listdir(f"{tree.path}{folder}")) if known else set()
        missed: list[OSError] = []
        for entry in listed(f"{own}{folder}", missed.append if unlisted and folder else None):
            path = f"{folder}/{entry.name}"
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed meanwhile, by a process that is being ended
                continue
            except OSError as error:  # in a folder that may be listed and not searched
                if unlisted is None:
                    raise
                unlisted(error)
                gone.discard(entry.name)
                found[path] = "created"
                continue
            if stat.S_ISSOCK(status.st_mode):
                gone.discard(entry.name)
                continue
            if path in shared:
                gone.discard(entry.name)
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name not in gone:
                found[path] = "created"
            elif not _is_equal(entry.path, f"{tree.path}{path}"):
                found[path] = "changed"
            if is_folder:
                left.append((path, entry.name in gone and stat.S_ISDIR(os.lstat(f"{tree.path}{path}").st_mode)))
            gone.discard(entry.name)
        if missed and unlisted:
            unlisted(missed[0])
            continue
        for name in gone:
            found[f"{folder}/{name}"] = "deleted"
    return found


def _known(folder: Path) -> LinkedTree | None:
    with suppress(OSError, msgspec.MsgspecError):
        if not folder.is_symlink():
            return msgspec.json.decode((folder / _NOTE).read_bytes(), type=LinkedTree)
    return None


def _seen(sources: Sequence[str]) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Yield each name in folders, uppermost first, with the entries that are seen: one, or several folders."""
    found: dict[str, list[os.DirEntry[str]]] = {}
    for source in sources:
        with os.scandir(source) as entries:
            for entry in entries:
                found.setdefault(entry.name, []).append(entry)
    for name, entries_of in found.items():
        if not _is_whiteout(entries_of[0]):
            yield name, _merged_folders(entries_of) or entries_of[:1]


def _merged_folders(entries: Sequence[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    """Return the folders that are seen as one, uppermost first; none if the uppermost entry is no folder."""
    found: list[os.DirEntry[str]] = []
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False) or (found and _is_opaque(found[-1].path)):
            break
        found.append(entry)
    return found


def _is_opaque(folder: str) -> bool:
    """Whether a folder hides what is below it, as overlays mark one that took the place of another."""
    for attribute in _OPAQUE:
        with suppress(OSError):
            if os.getxattr(folder, attribute) == b"y":
                return True
    return False


def _is_whiteout(entry: os.DirEntry[str]) -> bool:
    """Whether it removes what is below, as overlays have it: a device 0:0. No layer of envbuild's has one."""
    if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
        return False
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _merge(sources: Sequence[str], target: str) -> None:
    """Make a folder of what is seen of several, uppermost first; its mode, owner and time are the uppermost one's."""
    os.mkdir(target, 0o700)
    for name, entries in _seen(sources):
        if entries[0].is_dir(follow_symlinks=False):
            _merge([entry.path for entry in entries], f"{target}/{name}")
        else:
            _link(entries[0].path, f"{target}/{name}")
    _copy_status(sources[0], target)


def _is_merged(sources: Sequence[str], target: str) -> bool:
    """Whether a folder is what ``_merge`` makes."""
    names = set(os.listdir(target))
    for name, entries in _seen(sources):
        path = f"{target}/{name}"
        if name not in names or not _is_equal(path, entries[0].path):
            return False
        names.discard(name)
        folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        if folders and not _is_merged(folders, path):
            return False
    return not names


def _link(source: str, target: str) -> None:
    """Link what is no folder; copy it where the file system has no hard links, or no more of them."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _copy(source, target)


def _copy(source: str, target: str) -> None:
    """Copy a file, or a folder with all that is in it: content, modes, times, attributes; as root owners too."""
    mode = os.lstat(source).st_mode
    if stat.S_ISDIR(mode):
        with suppress(FileExistsError):
            os.mkdir(target, 0o700)
        for name in os.listdir(source):
            _copy(f"{source}/{name}", f"{target}/{name}")
    elif stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISFIFO(mode):
        os.mkfifo(target)
    else:
        import shutil

        shutil.copyfile(source, target)
    _copy_status(source, target)


def _copy_status(source: str, target: str) -> None:
    if gives_owners():
        status = os.lstat(source)
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    import shutil

    shutil.copystat(source, target, follow_symlinks=False)


def _is_equal(path: str, other: str) -> bool:
    """Whether two files have the same kind, mode and content; of folders the mode alone counts."""
    mine, theirs = os.lstat(path), os.lstat(other)
    if os.path.samestat(mine, theirs):
        return True
    if mine.st_mode != theirs.st_mode or (mine.st_uid, mine.st_gid) != (theirs.st_uid, theirs.st_gid):
        return False
    if stat.S_ISLNK(mine.st_mode):
        return os.readlink(path) == os.readlink(other)
    if stat.S_ISREG(mine.st_mode):
        import filecmp

        return mine.st_size == theirs.st_size and filecmp.cmp(path, other, shallow=False)
    return True


def _planned(tree: Path, known: LinkedTree) -> LinkedTree:
    """Decide which parts of a tree runs copy, and which they share."""
    copied: list[str] = []
    shared: list[str] = []
    left = [("", 1)]
    while left:
        folder, depth = left.pop()
        for entry in sorted(os.scandir(f"{tree}{folder}"), key=lambda each: each.name):
            path = f"{folder}/{entry.name}"
            if _is_small(entry):
                copied.append(path)
            elif entry.is_dir(follow_symlinks=False) and depth < _DEPTH:
                left.append((path, depth + 1))
            else:
                shared.append(path)
    private = [path for path in known.private if _is_folder_in(f"{tree}{path}", [f"{tree}{each}" for each in shared])]
    return msgspec.structs.replace(known, copied=tuple(copied), shared=tuple(shared), private=tuple(private))


def _is_folder_in(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is a folder, and one of some folders or in one."""
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _is_small(entry: os.DirEntry[str]) -> bool:
    """Whether a file or folder is copied in milliseconds."""
    size = files = 0
    left = [entry.path] if entry.is_dir(follow_symlinks=False) else []
    if not left:
        return entry.stat(follow_symlinks=False).st_size <= _SMALL_BYTES
    while left:
        for each in os.scandir(left.pop()):
            files += 1
            if each.is_dir(follow_symlinks=False):
                left.append(each.path)
            else:
                size += each.stat(follow_symlinks=False).st_size
            if size > _SMALL_BYTES or files > _SMALL_FILES:
                return False
    return True
