"""Fetch: have every file of a lock in the store, each verified by its SHA-256.

Files come in side by side, largest first; all failures are reported together. A killed or interrupted fetch leaves
parts that the next one goes on with.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from envbuild.core.fs import ELSEWHERE
from envbuild.core.progress import Progress
from envbuild.core.text import human_bytes
from envbuild.errors import EnvbuildError, IntegrityError
from envbuild.lockfile.model import Lock
from envbuild.net.config import NetworkConfig
from envbuild.net.http import Http
from envbuild.store.download import Download, Item, UnavailableError
from envbuild.store.objects import Store

__all__ = ["FetchResult", "Item", "fetch", "lock_items"]

BASE_IMAGE = "base.tar"
"""What messages call a base image's file system; only a vendored folder or the engine has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchResult:
    """What a fetch did.

    Attributes:
        fetched: files brought in.
        bytes: their bytes.
        reused: files the store had already.
        seconds: wall-clock time.
        warnings: sentences about sources that gave wrong bytes while another gave the right ones.
    """

    fetched: int
    bytes: int
    reused: int
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Megabytes (10^6 bytes) per second."""
        return self.bytes / 1e6 / self.seconds if self.seconds > 0 else 0.0


class _StoppedError(Exception):
    """Another file's failure, or the user, ended the fetch."""


def lock_items(lock: Lock, *sources: Mapping[str, Sequence[str]]) -> tuple[Item, ...]:
    """List every file of a lock.

    Args:
        sources: URLs or paths by SHA-256; of several mappings the earlier one's are tried first.
    """
    files = [(package.file, package.size, package.sha256) for package in lock.os.packages]
    if lock.os.image:
        files.append((BASE_IMAGE, lock.os.image_size, lock.os.image_rootfs))
    files += [(package.wheel.name, package.wheel.size, package.wheel.sha256) for package in lock.packages]
    return tuple(
        Item(
            name=name,
            size=size,
            sha256=sha256,
            sources=tuple(dict.fromkeys(source for mapping in sources for source in mapping.get(sha256, ()))),
        )
        for name, size, sha256 in files
    )


def fetch(
    items: Sequence[Item],
    store: Store,
    progress: Progress,
    network: NetworkConfig,
    *,
    jobs: int = 8,
    verify: bool = False,
) -> FetchResult:
    """Have every item in the store.

    Args:
        jobs: how many files come in at the same time.
        verify: also read the files that are there already; a damaged one is removed and fetched again.

    Raises:
        IntegrityError: files could not be had, all of them named with what each source answered; or the store is
            full or refuses to be written. What came in before stays.
    """
    start = time.monotonic()
    wanted = list({item.sha256: item for item in items}.values())
    missing = [item for item in wanted if not store.has(item.sha256, item.size)]
    _check_space(missing, store)
    work = wanted if verify else missing
    if not work:
        return FetchResult(fetched=0, bytes=0, reused=len(wanted), seconds=0.0)
    name, total = ("verify and fetch" if verify else "fetch"), sum(item.size for item in work)
    http = Http(network, jobs)
    try:
        with progress.phase(name, total) as advance:
            team = _Team(store, http, network, advance)
            team.run(sorted(work, key=lambda item: -item.size), jobs)
    finally:
        http.close()
    if team.failures:
        raise _failure(team.failures, len(wanted), network)
    return FetchResult(
        fetched=len(team.fetched),
        bytes=sum(item.size for item in team.fetched),
        reused=len(wanted) - len(team.fetched),
        seconds=time.monotonic() - start,
        warnings=tuple(team.download.warnings),
    )


class _Team:
    """Threads that share a queue. They are daemons: an interrupted command does not wait for a silent server."""

    def __init__(self, store: Store, http: Http, network: NetworkConfig, advance: Callable[[int], None]) -> None:
        self.fetched: list[Item] = []
        self.failures: list[UnavailableError] = []
        self._fatal: list[BaseException] = []
        self._stop = threading.Event()
        self._store, self._advance = store, advance
        self.download = Download(
            store=store, http=http, network=network, check=self._check, wait=self._stop.wait, advance=advance
        )

    def run(self, items: Sequence[Item], jobs: int) -> None:
        """Bring all items in; raises the first error that concerns more than one file, or KeyboardInterrupt."""
        queue = deque(items)
        threads = [threading.Thread(target=self._work, args=(queue,), daemon=True) for _ in items[:jobs]]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive() and not self._fatal:
                    thread.join(0.2)
        finally:
            self._stop.set()
        if self._fatal:
            for thread in threads:
                thread.join(1.0)
            for item in items if isinstance(self._fatal[0], IntegrityError) else ():
                self._drop_part(item)
            raise self._fatal[0]

    def _work(self, queue: deque[Item]) -> None:
        """Take items until there are none; one thread's body."""
        while not self._stop.is_set():
            try:
                item = queue.popleft()
            except IndexError:
                return
            try:
                self._bring(item)
            except UnavailableError as error:
                self.failures.append(error)
            except _StoppedError:
                return
            except BaseException as error:
                self._fatal.append(error)
                self._stop.set()
                return

    def _bring(self, item: Item) -> None:
        if self._store.has(item.sha256, item.size) and self._store.verify(item.sha256):
            self._advance(item.size)
        elif self.download.bring(item):
            self.fetched.append(item)

    def _check(self) -> None:
        if self._stop.is_set():
            raise _StoppedError

    def _drop_part(self, item: Item) -> None:
        """Give the space of an unfinished part back, unless someone is at work on it."""

        def busy() -> None:
            raise _StoppedError

        with suppress(_StoppedError, EnvbuildError, OSError), self._store.claim(item.sha256, busy) as part:
            part.restart()


def _check_space(missing: Sequence[Item], store: Store) -> None:
    """Refuse before the first byte if the store's file system cannot take what is missing."""
    need = sum(item.size for item in missing) - sum(store.part_size(item.sha256) for item in missing)
    free = store.free_bytes() if need > 0 else None
    if free is not None and need > free:
        raise IntegrityError(
            f"the store {store.root} has too little space: {len(missing)} files need {human_bytes(need)}, "
            f"{human_bytes(free)} are free",
            ELSEWHERE,
        )


def _failure(failures: Sequence[UnavailableError], total: int, network: NetworkConfig) -> IntegrityError:
    """Put all failures into one error."""
    failures = sorted(failures, key=lambda failure: failure.item.name)
    if network.offline:
        lines = [f"{len(failures)} of {total} files are not in the store, and the network is off"]
        lines += [f"  {failure.item.name} ({human_bytes(failure.item.size)})" for failure in failures]
        return IntegrityError("\n".join(lines), "fetch them once with the network on: envbuild fetch")
    lines = [f"{len(failures)} of {total} files could not be fetched"]
    for failure in failures:
        lines.append(f"  {failure.item.name} ({human_bytes(failure.item.size)})")
        lines += [f"    {source}: {reason}" for source, reason in failure.reasons]
        if not failure.reasons:
            lines.append("    no source is known: no index, mirror or folder in use offers it")
    return IntegrityError("\n".join(lines), "what came in is kept: try again later, or lock again: envbuild lock")
