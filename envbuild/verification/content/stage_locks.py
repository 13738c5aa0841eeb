"""Lists of digests (``MD5SUMS``), and locks of pipelines with the MD5 of what each stage read and wrote: ``dvc.lock``.

A file with a measurement in it has another digest in each run. It is compared itself: where the lock has the digest of
a file as the run left it, the file's name counts in its place. A digest of anything else counts as it is.

Sources: dvc/stage/serialize.py (``to_single_stage_lockfile``), weasel/cli/run.py (``get_lock_entry``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import read_foreign
from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import FILE, Canonical
from envbuild.verification.content.names import masked_path

_NAMES = frozenset(("dvc.lock", "project.lock"))
_ENTRY = lazy(
    r"(?m)^(?P<head>(?P<indent> *)- path: (?P<quote>'?)(?P<path>[^'\"\n]+)(?P=quote)\n"
    r"(?:(?P=indent)  hash: md5\n)?(?P=indent)  md5: )(?P<md5>[0-9a-f]{32})\n"
    r"(?:(?P<of_size>(?P=indent)  size: )(?P<size>\d{1,18})\n)?"
)
_LISTS = lazy(r"(?:.*[._-])?(?:(?:md5|sha1|sha384|sha512|b2)(?:sums?)?|checksums?)(?:\.txt)?", re.IGNORECASE)
"""Names of lists of digests, as ``md5sum`` and its like print them; masks know SHA-256 wherever it is."""
_LINE = lazy(r"(?m)^(?P<digest>[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{96}|[0-9a-f]{128}) (?P<mode>[ *])(?P<path>[^\n]+)$")
_KINDS = {32: ("md5",), 40: ("sha1",), 96: ("sha384",), 128: ("sha512", "blake2b")}
"""Digests by how many digits they have."""


def is_stage_lock(path: Path) -> bool:
    """Whether a file may be such a lock, or a list of digests, by its name."""
    return path.name in _NAMES or _LISTS.fullmatch(path.name) is not None


def without_digests(out: Canonical, folder: Path, data: bytes) -> bytes:
    """Return a lock with names in the place of the digests and sizes of files that the run left.

    Args:
        out: collects what is left out.
        folder: which the lock is in; paths in it are relative to that.
        data: of the lock.
    """
    return "".join(_lines(out, folder, "".join(_parts(out, folder, data.decode())))).encode()


def _parts(out: Canonical, folder: Path, text: str) -> Iterator[str]:
    end = 0
    for found in _ENTRY.finditer(text):
        file = _file(folder, found["path"])
        if file is None or not _is_of(found, file) or out.masks.file_with(sha256_bytes(file)) is None:
            continue
        name = masked_path(found["path"], out.masks)
        out.leave_out(f"digest of {name}", found["md5"], "digests")
        yield f"{text[end : found.start()]}{found['head']}⟨digest of {name}⟩\n"
        if found["size"]:
            yield f"{found['of_size']}⟨size of {name}⟩\n"
        end = found.end()
    yield text[end:]


def _lines(out: Canonical, folder: Path, text: str) -> Iterator[str]:
    """Yield a list of digests with names in the place of those of files that the run left."""
    end = 0
    for found in _LINE.finditer(text):
        file, digest = _file(folder, found["path"]), found["digest"]
        if file is None or out.masks.file_with(sha256_bytes(file)) is None:
            continue
        if digest not in (hashlib.new(kind, file, usedforsecurity=False).hexdigest() for kind in _KINDS[len(digest)]):
            continue
        name = masked_path(found["path"], out.masks)
        out.leave_out(f"digest of {name}", digest, "digests")
        yield f"{text[end : found.start()]}⟨digest of {name}⟩ {found['mode']}{name}"
        end = found.end()
    yield text[end:]


def _is_of(found: re.Match[str], file: bytes) -> bool:
    """Whether an entry has the digest, and the size if it has one, of a file."""
    digest = hashlib.md5(file, usedforsecurity=False).hexdigest()
    return digest == found["md5"] and (found["size"] is None or int(found["size"]) == len(file))


def _file(folder: Path, path: str) -> bytes | None:
    """Return a file by its path below a folder; None if it is elsewhere, no plain file, or too large."""
    file = folder / path
    if file.is_symlink() or folder.resolve() not in file.resolve().parents:
        return None
    return read_foreign(file, FILE)
