"""BLAKE3 of files, on all cores, in constant memory.

Small files are read by a few threads, many at a time. A large file is read piece by piece while the piece before is
hashed by all cores. Files are not mapped into memory, though that is BLAKE3's own way: a mapped file that another
process truncates ends this one with SIGBUS.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from blake3 import blake3

from envbuild.core.progress import Advance
from envbuild.errors import IntegrityError
from envbuild.inputs.manifest import FILE, PENDING, Draft, Entry, entries
from envbuild.inputs.statcache import stat_key
from envbuild.inputs.walk import Root

LARGE = 32 << 20
"""Files of so many bytes are hashed one at a time, each by all cores."""

_BATCH_BYTES = 8 << 20
_BATCH_FILES = 512
_PIECE = 1 << 20
_LARGE_PIECE = 4 << 20
"""Small enough to be hashed while still in the processor's cache, large enough to be worth several threads."""
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Hashed(NamedTuple):
    """A file that was read: how the stat cache knows it, and its digest."""

    key: bytes
    digest: bytes


Remember = Callable[[list[Hashed]], None]


def complete(root: Root, draft: Draft, remember: Remember, advance: Advance) -> Draft:
    """Return a draft with every content digest filled in, and close the one that lacked some.

    Args:
        root: the input that the draft was made of.
        draft: its manifest.
        remember: receives what was read.
        advance: receives the bytes read.

    Raises:
        IntegrityError: a file vanished, changed, or cannot be read.
    """
    if not draft.pending:
        return draft
    full = Draft()
    full.files, full.size = draft.files, draft.size
    folder = os.open(root.real if root.real.is_dir() else root.real.parent, os.O_RDONLY | os.O_CLOEXEC)
    reader = _Reader(root, folder, advance)
    workers = len(os.sched_getaffinity(0))
    waiting: deque[Future[tuple[bytes, list[Hashed]]]] = deque()
    try:
        with ThreadPoolExecutor(workers, "inputs") as pool:
            try:
                for batch in _batches(entries(draft.rewound())):
                    waiting.append(_submitted(pool, reader, batch))
                    while len(waiting) > 4 * workers or (waiting and waiting[0].done()):
                        _take(waiting, full, remember)
                while waiting:
                    _take(waiting, full, remember)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    except BaseException:
        full.close()
        raise
    finally:
        os.close(folder)
        draft.close()
    return full


def _submitted(pool: ThreadPoolExecutor, reader: _Reader, batch: list[Entry]) -> Future[tuple[bytes, list[Hashed]]]:
    """Have a batch hashed by the pool; a large file, alone in its batch, here and now by all cores."""
    if len(batch) > 1 or batch[0].size < LARGE:
        return pool.submit(reader.batch, batch)
    future: Future[tuple[bytes, list[Hashed]]] = Future()
    future.set_result(reader.batch(batch))
    return future


def _take(waiting: deque[Future[tuple[bytes, list[Hashed]]]], full: Draft, remember: Remember) -> None:
    """Write the oldest batch; records keep their order."""
    records, hashed = waiting.popleft().result()
    full.write(records)
    remember(hashed)


def _batches(records: Iterator[Entry]) -> Iterator[list[Entry]]:
    """Group records, in order; a task per file would cost more than its hash."""
    batch: list[Entry] = []
    size = 0
    for record in records:
        if batch and (size + record.size > _BATCH_BYTES or len(batch) >= _BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += record.size
    if batch:
        yield batch


class _Reader:
    """Reads files of one input, relative to an open folder."""

    def __init__(self, root: Root, folder: int, advance: Advance) -> None:
        self._root = root
        self._folder = folder
        self._advance = advance

    def batch(self, batch: list[Entry]) -> tuple[bytes, list[Hashed]]:
        """Return records with their digests, and what was read for them."""
        records, hashed = [], []
        for entry in batch:
            if entry.kind == FILE and entry.value == PENDING:
                one = self._file(entry)
                hashed.append(one)
                entry = entry._replace(value=one.digest.hex().encode())
                if entry.size < LARGE:
                    self._advance(entry.size)
            records.append(entry.encoded())
        return b"".join(records), hashed

    def _file(self, entry: Entry) -> Hashed:
        """Digest one file, which must not change meanwhile."""
        try:
            descriptor = os.open(entry.path or self._root.real, _FLAGS, dir_fd=self._folder)
            try:
                before = os.fstat(descriptor)
                digest, size = _content(descriptor, entry.size, self._advance)
                key = stat_key(os.fstat(descriptor))
            finally:
                os.close(descriptor)
        except OSError as error:
            place = self._root.place(entry.path)
            raise IntegrityError(f"cannot read {place}: {error.strerror}", "check the disk and permissions") from None
        if size != entry.size or key != stat_key(before):
            place = self._root.place(entry.path)
            raise IntegrityError(f"{place} changed while it was read", "stop what writes to it, then try again")
        return Hashed(key, digest)


def _content(descriptor: int, size: int, advance: Advance) -> tuple[bytes, int]:
    """Return the digest of what a file holds, and how many bytes that is; ``size`` is what is expected.

    Of a large file each piece is reported: it may take hours.
    """
    if size >= LARGE:
        return _large(descriptor, advance)
    if size < _PIECE:
        content = os.read(descriptor, size + 1)
        return blake3(content).digest(), len(content)
    hasher = blake3()
    buffer = memoryview(bytearray(_PIECE))
    total = 0
    while count := os.readv(descriptor, [buffer]):
        hasher.update(buffer[:count])
        total += count
    return hasher.digest(), total


def _large(descriptor: int, advance: Advance) -> tuple[bytes, int]:
    """Digest a large file: one piece is read while the one before is hashed.

    Holes are read as all else is, though SEEK_DATA would skip them four times as fast: file systems have taken data
    that was just written for a hole (OpenZFS 2.2, issue 15526), and the digest would be another file's.
    """
    hasher = blake3(max_threads=blake3.AUTO)
    buffers = [memoryview(bytearray(_LARGE_PIECE)) for _ in range(2)]
    total = 0
    with ThreadPoolExecutor(1, "inputs-read") as ahead:
        coming = ahead.submit(os.preadv, descriptor, buffers[:1], 0)
        while count := coming.result():
            total += count
            done = buffers[0][:count]
            buffers.reverse()
            coming = ahead.submit(os.preadv, descriptor, buffers[:1], total)
            hasher.update(done)
            advance(count)
    return hasher.digest(), total
