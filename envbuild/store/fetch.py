"""Fetch: have every file of a lock in the store, each verified by its SHA-256.

Files come in side by side, largest first; all failures are reported together. A killed or interrupted fetch leaves
parts that the next one continues with.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from envbuild.core.fs import ELSEWHERE
from envbuild.core.progress import Advance, Progress
from envbuild.core.text import human_bytes
from envbuild.errors import EnvbuildError, IntegrityError
from envbuild.lockfile.model import Lock
from envbuild.net.config import NetworkConfig
from envbuild.net.http import Http
from envbuild.net.pool import StoppedError, run_all
from envbuild.net.transfer import Control
from envbuild.store.download import Download, Item, UnavailableError
from envbuild.store.objects import Store, StoreFullError, StoreWriteError

__all__ = ["FetchResult", "Item", "fetch", "lock_items"]

_MOST_NAMED = 12
"""For so many files an error has what each source answered."""
_WAYS = "what came in is kept: try again later, or lock again: envbuild lock"
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


def lock_items(lock: Lock, *sources: Mapping[str, Sequence[str]]) -> tuple[Item, ...]:
    """List every file of a lock.

    Args:
        sources: URLs or paths by SHA-256; of several mappings the earlier one's are tried first.
    """
    debs = (*lock.os.packages, *lock.emulators)
    files = [(package.file, package.size, package.sha256) for package in debs]
    if lock.os.image:
        files.append((BASE_IMAGE, lock.os.image_size, lock.os.image_rootfs))
    if build := lock.python.build:
        files.append((build.file, build.size, build.sha256))
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
    ways: str = _WAYS,
) -> FetchResult:
    """Have every item in the store.

    Args:
        jobs: how many files come in at the same time.
        verify: also read the files that are there already; a damaged one is removed and fetched again.
        ways: what to do about files that no source has, for the error.

    Raises:
        IntegrityError: files could not be had, all of them named with what each source answered. What came in
            before stays.
        StoreWriteError: the store cannot be written or is full.
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
            download, outcomes = _bring_all(work, store, http, network, advance, jobs)
    finally:
        http.close()
    failures = [outcome for outcome in outcomes if isinstance(outcome, UnavailableError)]
    if failures:
        raise _failure(failures, len(wanted), network, ways)
    fetched = [outcome for outcome in outcomes if isinstance(outcome, Item)]
    return FetchResult(
        fetched=len(fetched),
        bytes=sum(item.size for item in fetched),
        reused=len(wanted) - len(fetched),
        seconds=time.monotonic() - start,
        warnings=tuple(download.warnings),
    )


def _bring_all(
    items: Sequence[Item], store: Store, http: Http, network: NetworkConfig, advance: Advance, jobs: int
) -> tuple[Download, list[Item | UnavailableError | None]]:
    """Bring all items in, largest first; what no source has is an outcome, so that all of them can be named.

    Raises:
        StoreWriteError: the store cannot be written or is full.
    """
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise StoppedError

    control = Control(network=network, check=check, wait=stop.wait, advance=advance)
    download = Download(store=store, http=http, control=control)

    def bring(item: Item) -> Item | UnavailableError | None:
        try:
            if store.has(item.sha256, item.size) and store.verify(item.sha256):
                advance(item.size)
                return None
            return item if download.bring(item) else None
        except UnavailableError as error:
            return error

    ordered = sorted(items, key=lambda item: -item.size)
    try:
        return download, run_all([partial(bring, item) for item in ordered], stop, jobs)
    except StoreWriteError:
        for item in items:
            _drop_part(store, item)
        raise


def _drop_part(store: Store, item: Item) -> None:
    """Give the space of an unfinished part back, unless someone is at work on it."""

    def busy() -> None:
        raise StoppedError

    with suppress(StoppedError, EnvbuildError, OSError), store.claim(item.sha256, busy) as part:
        part.restart()


def _check_space(missing: Sequence[Item], store: Store) -> None:
    """Refuse before the first byte if the store's file system cannot take what is missing."""
    need = sum(item.size for item in missing) - sum(store.part_size(item.sha256) for item in missing)
    free = store.free_bytes() if need > 0 else None
    if free is not None and need > free:
        raise StoreFullError(
            f"the store {store.root} has too little space: {len(missing)} files need {human_bytes(need)}, "
            f"{human_bytes(free)} are free",
            ELSEWHERE,
        )


def _failure(failures: Sequence[UnavailableError], total: int, network: NetworkConfig, ways: str) -> IntegrityError:
    """Put all failures into one error."""
    failures = sorted(failures, key=lambda failure: failure.item.name)
    if network.offline:
        lines = [f"{len(failures)} of {total} files are not in the store, and the network is off"]
        lines += [f"  {failure.item.name} ({human_bytes(failure.item.size)})" for failure in failures]
        return IntegrityError("\n".join(lines), "fetch them once with the network on: envbuild fetch")
    lines = [f"{len(failures)} of {total} files could not be fetched"]
    for failure in failures[:_MOST_NAMED]:
        lines.append(f"  {failure.item.name} ({human_bytes(failure.item.size)})")
        lines += [f"    {source}: {reason}" for source, reason in failure.reasons]
        if not failure.reasons:
            lines.append("    no source is known: no index, mirror or folder in use offers it")
    if further := [failure.item.name for failure in failures[_MOST_NAMED:]]:
        lines.append(f"  and {len(further)} more: {', '.join(further)}")
    return IntegrityError("\n".join(lines), ways)
