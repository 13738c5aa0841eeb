"""Uploads: blobs in parallel, only those that are missing, each continuing where a broken connection left it.

A blob is sent as one PUT, as containerd does. If the connection breaks, the registry is asked how much it has, and gets
the rest; one that has thrown the piece away (CNCF Distribution does, up to 2.8 at least) gets the blob anew.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

from envbuild.core.blob import OCTETS, Blob
from envbuild.core.progress import Advance, Progress
from envbuild.errors import BuildError
from envbuild.net.http import HttpError
from envbuild.net.pool import StoppedError, run_all
from envbuild.registry.errors import AnswerError
from envbuild.registry.repository import Manifest, Repository

_CHUNK = 1 << 20
_THREADS = 4
_RANGE = re.compile(r"(?:bytes=)?0-([0-9]+)")
_OCTETS = {"Content-Type": OCTETS}


@dataclass(kw_only=True)
class Pushed:
    """What an upload moved; ``sent`` counts the bytes of blobs that went over the wire, repeated ones too."""

    uploaded: int = 0
    mounted: int = 0
    held: int = 0
    sent: int = 0
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def count(self, *, uploaded: int = 0, mounted: int = 0, held: int = 0, sent: int = 0) -> None:
        """Add; safe from any thread."""
        with self._lock:
            self.uploaded += uploaded
            self.mounted += mounted
            self.held += held
            self.sent += sent


def push(
    repository: Repository,
    blobs: Iterable[Blob],
    manifest: Manifest,
    progress: Progress,
    *,
    tag: str = "",
    mounts: Callable[[str], Sequence[str]] = lambda digest: (),
) -> Pushed:
    """Upload what is missing of an image or artifact, then its manifest: nobody ever sees half of it.

    Args:
        blobs: configuration and layers.
        tag: besides the digest; the last push wins.
        mounts: other repositories of the registry that may hold a blob (by digest), to be linked instead of sent.

    Raises:
        RegistryError: the registry does not answer or refuses.
        BuildError: a blob's file is not as it was made.
    """
    began = time.monotonic()
    pushed = Pushed()
    there = repository.manifest_digest(f"sha256:{manifest.digest}") == manifest.digest
    wanted = list({blob.digest: blob for blob in blobs}.values())
    if there:
        pushed.count(held=len(wanted))
    else:
        push_blobs(repository, wanted, progress, pushed, mounts)
    if not there or (tag and repository.manifest_digest(tag) != manifest.digest):
        repository.put_manifest(manifest, tag)
    pushed.seconds = time.monotonic() - began
    return pushed


def push_blobs(
    repository: Repository,
    blobs: Sequence[Blob],
    progress: Progress,
    pushed: Pushed,
    mounts: Callable[[str], Sequence[str]] = lambda digest: (),
) -> None:
    """Upload those blobs that the repository lacks, several at once; arguments and errors as for ``push``."""
    stop = threading.Event()
    scope = repository.push_scope
    sizes = run_all([partial(repository.blob_size, blob.digest, scope=scope) for blob in blobs], stop, _THREADS)
    missing = [blob for blob, size in zip(blobs, sizes, strict=True) if size is None]
    pushed.count(held=len(blobs) - len(missing))
    if missing:
        missing.sort(key=lambda blob: -blob.size)
        with progress.phase("push", sum(blob.size for blob in missing)) as advance:
            uploads = [
                partial(_Upload(repository, blob, advance, stop, pushed).run, mounts(blob.digest)) for blob in missing
            ]
            run_all(uploads, stop, _THREADS)


class _Upload:
    """One blob on its way."""

    def __init__(
        self, repository: Repository, blob: Blob, advance: Advance, stop: threading.Event, pushed: Pushed
    ) -> None:
        self._repository, self._blob, self._stop, self._pushed = repository, blob, stop, pushed
        self._advance = advance
        self._shown = 0
        self._furthest = 0

    def run(self, mounts: Sequence[str]) -> None:
        """Upload or mount it."""
        repository = self._repository
        doing = f"push sha256:{self._blob.digest[:12]}… to {repository.reference.name}"
        for other in mounts:
            if repository.trying(lambda: self._mount(other), doing):  # noqa: B023
                self._pushed.count(mounted=1)
                self._show(self._blob.size)
                return
        with repository.explained(doing):
            self._send()
        self._pushed.count(uploaded=1)
        self._show(self._blob.size)

    def _mount(self, other: str) -> bool:
        """Ask to link the blob from another repository; False if the registry would rather have it sent."""
        repository = self._repository
        query = f"?mount={quote(f'sha256:{self._blob.digest}')}&from={quote(other, safe='')}"
        scope = f"{repository.push_scope} repository:{other}:pull"
        try:
            answer = repository.transport.call(
                "POST", f"{repository.path}/blobs/uploads/{query}", scope=scope, accept=(201, 202)
            )
        except AnswerError as error:
            if error.transient:
                raise
            return False  # not ours to read, or the registry mounts nothing
        if answer.status == 202 and (location := answer.headers.get("location")):
            self._cancel(location)
        return answer.status == 201

    def _send(self) -> None:
        """Send the blob, continuing after broken connections as long as it gets further now and then."""
        network = self._repository.network
        location, offset, failures = "", 0, 0
        while True:
            before = self._furthest
            try:
                if not location:
                    location, offset = self._begin(), 0
                self._complete(location, offset)
                return
            except HttpError as error:
                if isinstance(error, AnswerError) and "DIGEST_INVALID" in error.codes and self._blob.path is not None:
                    raise _damaged(self._blob.path, self._blob.digest) from None
                failures = 0 if self._furthest > before else failures + 1
                gone = isinstance(error, AnswerError) and error.status in (404, 416) and failures == 1
                if failures >= network.attempts or not (error.transient or gone):
                    raise
                if self._stop.wait(error.delay or network.backoff * 2 ** max(failures - 1, 0)):
                    raise StoppedError from None
                location, offset = self._ask(location)
                if self._repository.blob_size(self._blob.digest, scope=self._repository.push_scope) is not None:
                    return  # the answer was lost, not the blob

    def _begin(self) -> str:
        """Open an upload; returns its address."""
        repository = self._repository
        answer = repository.transport.call(
            "POST", f"{repository.path}/blobs/uploads/", scope=repository.push_scope, accept=(202,)
        )
        return self._location(answer.headers.get("location", ""))

    def _location(self, text: str) -> str:
        if not text:
            raise HttpError("the registry gave no address to upload to", transient=False)
        return self._repository.transport.address(text)

    def _ask(self, location: str) -> tuple[str, int]:
        """Ask how much of an upload has arrived; no address if it is gone or nothing of it has."""
        if not location:
            return "", 0
        try:
            answer = self._repository.transport.call(
                "GET", location, scope=self._repository.push_scope, accept=(204, 202, 200)
            )
        except HttpError:
            return "", 0
        match = _RANGE.fullmatch(answer.headers.get("range", ""))
        arrived = int(match[1]) + 1 if match else 0
        # "0-0" is also what some registries answer for an empty upload, so that one byte counts as none.
        if not 1 < arrived <= self._blob.size:
            return "", 0
        return self._location(answer.headers.get("location", "") or location), arrived

    def _complete(self, location: str, offset: int) -> None:
        """Send everything from ``offset`` on and close the upload."""
        transport, scope = self._repository.transport, self._repository.push_scope
        left = self._blob.size - offset
        if offset and left:
            span = {"Content-Range": f"{offset}-{self._blob.size - 1}", **_OCTETS}
            response = transport.open(
                "PATCH", location, scope=scope, headers=span, body=lambda: self._body(offset), length=left,
                accept=(202, 204),
            )  # fmt: skip
            location = self._location(response.headers.get("Location", "") or location)
            response.drain_conn()
            response.release_conn()
            left = 0
        mark = "&" if urlsplit(location).query else "?"
        response = transport.open(
            "PUT",
            f"{location}{mark}digest={quote(f'sha256:{self._blob.digest}')}",
            scope=scope,
            headers=_OCTETS,
            body=(lambda: self._body(offset)) if left else None,
            length=left,
            accept=(201, 204),
        )
        response.drain_conn()
        response.release_conn()

    def _body(self, offset: int) -> Iterator[memoryview]:
        """Read the blob in pieces; never more than its size."""
        place, buffer = offset, memoryview(bytearray(_CHUNK))
        try:
            with self._blob.open() as stream:
                stream.seek(offset)
                while place < self._blob.size:
                    if self._stop.is_set():
                        raise StoppedError
                    count = stream.readinto(buffer[: min(_CHUNK, self._blob.size - place)])  # type: ignore[attr-defined]
                    if not count:
                        break
                    yield buffer[:count]
                    place += count
                    self._pushed.count(sent=count)
                    self._show(place)
        except OSError as error:
            raise BuildError(f"cannot read {self._blob.path}: {error.strerror}", "build it again") from None
        if place < self._blob.size and self._blob.path is not None:
            raise _damaged(self._blob.path, self._blob.digest)

    def _show(self, place: int) -> None:
        """Describe how far it has got; what is sent again is not counted again."""
        self._furthest = max(self._furthest, place)
        if place > self._shown:
            self._advance(place - self._shown)
            self._shown = place

    def _cancel(self, location: str) -> None:
        """Close an upload that is not needed; a registry that does not care drops it in time."""
        try:
            self._repository.transport.call(
                "DELETE", self._location(location), scope=self._repository.push_scope, accept=(202, 204, 404, 405)
            )
        except HttpError:
            return


def _damaged(path: Path, digest: str) -> BuildError:
    return BuildError(
        f"{path} is not as it was made: expected sha256 {digest}",
        "find what else is damaged, and remove it: envbuild store verify; then run the same command",
    )
