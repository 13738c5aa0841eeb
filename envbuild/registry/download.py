"""Downloads: blobs in parallel into files that remember where they stopped, checked before they get their names."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from envbuild.core.blob import Blob
from envbuild.core.progress import Advance, Progress
from envbuild.errors import IntegrityError
from envbuild.net.http import HttpError, explain
from envbuild.registry.errors import AnswerError
from envbuild.registry.parallel import StoppedError, run_all
from envbuild.registry.repository import Repository

if TYPE_CHECKING:
    import urllib3

_CHUNK = 1 << 18
_THREADS = 3
_RANGE = re.compile(r"bytes ([0-9]+)-[0-9]+/([0-9]+|\*)")


class Target(Protocol):
    """A file on its way in, as the store has it: what was written so far, and its running SHA-256."""

    size: int

    @property
    def sha256(self) -> str:
        """SHA-256 of what was written so far."""

    def resume(self) -> int:
        """Take over what an earlier command left; returns its size in bytes."""

    def restart(self) -> None:
        """Drop what was written so far."""

    def write(self, data: bytes) -> None:
        """Append; raises ``OSError``."""


P = TypeVar("P", bound=Target)


class Shelf(Protocol[P]):
    """Where blobs go; ``store.Store`` is one."""

    def has(self, sha256: str, size: int | None = None) -> bool:
        """Whether the blob is there."""

    def claim(self, sha256: str, check: Callable[[], None] = ...) -> AbstractContextManager[P]:
        """Give the exclusive right to bring a blob in."""

    def publish(self, part: P, sha256: str, size: int | None = None, *, name: str = "") -> None:
        """Turn what is claimed into the blob, checked."""


def pull_blobs(repository: Repository, blobs: Sequence[Blob], shelf: Shelf[P], progress: Progress) -> int:
    """Bring blobs to a shelf, several at once; returns the bytes that came over the wire.

    Raises:
        RegistryError: the registry does not answer or refuses.
        IntegrityError: it gave other bytes than the digests say, or the shelf takes no more. What had come in stays,
            and the next call goes on with it.
    """
    wanted = list({blob.digest: blob for blob in blobs if not shelf.has(blob.digest, blob.size)}.values())
    if not wanted:
        return 0
    stop = threading.Event()
    with progress.phase("pull", sum(blob.size for blob in wanted)) as advance:
        jobs = [_Download(repository, blob, shelf, advance, stop).run for blob in wanted]
        return sum(run_all(jobs, stop, _THREADS))


class _Download(Generic[P]):
    """One blob on its way in."""

    def __init__(
        self, repository: Repository, blob: Blob, shelf: Shelf[P], advance: Advance, stop: threading.Event
    ) -> None:
        self._repository, self._blob, self._shelf, self._stop = repository, blob, shelf, stop
        self._advance = advance
        self._shown = 0
        self._came = 0

    def run(self) -> int:
        """Bring it in; returns the bytes that came over the wire."""
        name = f"sha256:{self._blob.digest[:12]}… of {self._repository.reference.name}"
        with self._shelf.claim(self._blob.digest, self._check) as part:
            if self._shelf.has(self._blob.digest, self._blob.size):
                self._advance(self._blob.size)
                return 0
            if part.resume() > self._blob.size:
                part.restart()
            inherited = part.size > 0
            self._show(part)
            with self._repository.explained(f"pull {name}"):
                self._fetch(part)
                if inherited and part.sha256 != self._blob.digest:
                    part.restart()  # what was there before may be the culprit
                    self._fetch(part)
            self._shelf.publish(part, self._blob.digest, self._blob.size, name=name)
        return self._came

    def _check(self) -> None:
        if self._stop.is_set():
            raise StoppedError

    def _fetch(self, part: Target) -> None:
        """Fill the part, going on after broken connections as long as it gets further now and then."""
        network = self._repository.network
        failures = 0
        while part.size < self._blob.size:
            before = part.size
            try:
                self._stream(part)
            except (HttpError, AnswerError) as error:
                failures = 0 if part.size > before else failures + 1
                if not error.transient or failures >= network.attempts:
                    raise
                if self._stop.wait(error.delay or network.backoff * 2 ** max(failures - 1, 0)):
                    raise StoppedError from None

    def _stream(self, part: Target) -> None:
        """Make one request for what is missing and append its answer."""
        response = self._repository.open_blob(self._blob.digest, part.size)
        try:
            self._agree(part, response)
            self._drain(part, response)
        except BaseException:
            response.close()
            raise
        response.release_conn()

    def _agree(self, part: Target, response: urllib3.BaseHTTPResponse) -> None:
        """Make the part begin where the answer begins."""
        if response.status == 206:
            match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if not match or int(match[1]) != part.size:
                part.restart()
                raise HttpError("the registry sent another range than asked for", transient=True)
        else:
            part.restart()

    def _drain(self, part: Target, response: urllib3.BaseHTTPResponse) -> None:
        """Append the body; never more than the blob's size, whatever the registry sends."""
        import urllib3

        while part.size < self._blob.size:
            self._check()
            try:
                chunk = response.read(_CHUNK, decode_content=False)
            except urllib3.exceptions.HTTPError as error:
                raise explain(error) from error
            if not chunk:
                raise HttpError(f"the answer ended after {part.size} of {self._blob.size} bytes", transient=True)
            if len(chunk) > self._blob.size - part.size:
                raise IntegrityError(
                    f"{self._repository.reference.name} gave more bytes for sha256:{self._blob.digest} than promised"
                )
            part.write(chunk)
            self._came += len(chunk)
            self._show(part)

    def _show(self, part: Target) -> None:
        if part.size > self._shown:
            self._advance(part.size - self._shown)
            self._shown = part.size
