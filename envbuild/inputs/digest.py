"""Digests of declared input data: every byte, every name, every link, in one pass that reads only what is new.

Folders count, also empty ones: a program that lists class folders sees them. Modes, owners and times do not: they
differ between checkouts and no training reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3

from envbuild.core.progress import Advance, Progress, Silent
from envbuild.errors import Problem, SpecError
from envbuild.inputs.hashing import complete
from envbuild.inputs.manifest import FILE, LINK, PENDING, Draft
from envbuild.inputs.statcache import StatCache, stat_key
from envbuild.inputs.state import State
from envbuild.inputs.walk import Found, Problems, Root, find_roots, walk
from envbuild.lockfile.model import Input


@dataclass(kw_only=True, slots=True)
class Tree:
    """One input as it is: its manifest, and what is wrong with it."""

    root: Root
    problems: Problems
    draft: Draft = field(default_factory=Draft)

    @property
    def input(self) -> Input:
        """What a lock has of it."""
        draft = self.draft
        return Input(path=self.root.path, blake3=draft.digest, files=draft.files, bytes=draft.size)

    def close(self) -> None:
        """Let go of the manifest."""
        self.draft.close()


def digest_inputs(
    base: Path, paths: Sequence[str], *, source: str = "spec.yaml", progress: Progress | None = None
) -> tuple[Input, ...]:
    """Digest input files and folders, and keep their manifests and what unchanged files are known by.

    Args:
        base: folder that the paths are relative to.
        paths: relative POSIX paths.
        source: what messages call the file that declares them.
        progress: receives files looked at, then bytes read.

    Raises:
        SpecError: missing paths, paths and links that lead outside, sockets, devices, unreadable files; all at once.
        IntegrityError: a file changed while it was read.
    """
    state = State(base)
    with trees(state, base, paths, progress or Silent(), source) as (found, _):
        for tree in found:
            state.keep(tree.draft)
        return tuple(tree.input for tree in found)


def seal_inputs(base: Path, paths: Sequence[str]) -> str:
    """Return a digest of the names and ``stat_key`` of all entries: it stays equal if nobody touched them.

    Nothing is read; a seal is worth something on this machine only.
    """
    seal = blake3()
    roots, problems = find_roots(base, paths)
    for root, wrong in zip(roots, problems, strict=True):
        if not wrong.count:
            for batch in walk(root, wrong.add):
                seal.update(_sealed(_seals(batch)))
        seal.update(b"%d problems\0" % wrong.count)
    return seal.hexdigest()


@contextmanager
def trees(
    state: State, base: Path, paths: Sequence[str], progress: Progress, source: str = ""
) -> Iterator[tuple[list[Tree], str]]:
    """Look at inputs and read what is not known; gives them with their seal (see ``seal_inputs``).

    Args:
        source: what messages call the file that declares the paths. If empty, problems are left to the caller, and the
            manifest of an input that has some is not complete.

    Raises:
        SpecError: with ``source``, everything wrong with any input.
        IntegrityError: a file changed while it was read.
    """
    cache = state.stat_cache()
    roots, problems = find_roots(base, paths)
    found = [Tree(root=root, problems=wrong) for root, wrong in zip(roots, problems, strict=True)]
    with ExitStack() as opened:
        seal = blake3()
        with progress.phase("inputs", None, unit="files") as advance:
            for tree in found:
                opened.callback(tree.close)
                if not tree.problems.count:
                    _list(tree, cache, seal, advance)
                seal.update(b"%d problems\0" % tree.problems.count)
        if source:
            _refuse(found, source)
        sound = [tree for tree in found if not tree.problems.count]
        total = sum(tree.draft.pending_size for tree in sound)
        with progress.phase("inputs", total) as advance:
            try:
                for tree in sound:
                    tree.draft = complete(tree.root, tree.draft, cache.add, advance)
            finally:
                cache.save()
        yield found, seal.hexdigest()


def _list(tree: Tree, cache: StatCache, seal: blake3, advance: Advance) -> None:
    """Write an input's draft: what is known is in it, what is not is pending."""
    draft = tree.draft
    for batch in walk(tree.root, tree.problems.add):
        records, sealed = [], _seals(batch)
        for (kind, path, status, target), (_, key) in zip(batch, sealed, strict=True):
            if kind == FILE:
                size = status.st_size
                known = cache.get(key)
                if known is None:
                    draft.pending += 1
                    draft.pending_size += size
                draft.files += 1
                draft.size += size
                records.append(b"file\0%b\0%d\0%b\0" % (path, size, known.hex().encode() if known else PENDING))
            else:
                draft.files += kind == LINK
                records.append(b"%b\0%b\0\0%b\0" % (kind, path, target))
        draft.write(b"".join(records))
        seal.update(_sealed(sealed))
        advance(len(batch))


def _seals(batch: list[Found]) -> list[tuple[bytes, bytes]]:
    """Return of each entry what must not change; a folder's own times do not count, its entries do."""
    return [
        (path, stat_key(status) if kind == FILE else b"%b\0%b" % (kind, target)) for kind, path, status, target in batch
    ]


def _sealed(seals: list[tuple[bytes, bytes]]) -> bytes:
    """Encode so that no two lists give the same bytes: lengths come first."""
    return b"".join([b"%d %d %b%b" % (len(path), len(key), path, key) for path, key in seals])


def _refuse(found: Sequence[Tree], source: str) -> None:
    problems = [
        Problem(path=f"inputs[{index}]", message=message)
        for index, tree in enumerate(found)
        for message in tree.problems.messages
    ]
    if problems:
        raise SpecError(source, problems, "correct the paths, or leave them out of inputs")
