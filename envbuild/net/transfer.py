"""One file over HTTP into a part that remembers how far it is: try, resume, try again.

A part needs no memory of where its bytes came from: it is judged by its SHA-256 alone, so a transfer may continue where
another server, or another command that was killed, left off. Bytes blamed on a server came from it alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from envbuild.net.config import NetworkConfig
from envbuild.net.http import HttpError, explain

if TYPE_CHECKING:
    import urllib3

_CHUNK = 1 << 16
_RANGE = re.compile(r"bytes ([0-9]+)-[0-9]+/([0-9]+|\*)")

Request = Callable[[int], "urllib3.BaseHTTPResponse"]
"""Asks once for the file from an offset on; raises ``HttpError``."""


class ContentMismatch(Exception):  # noqa: N818 - it states what it is
    """A server has other bytes than promised."""


class Part(Protocol):
    """A file on its way in: what was written so far, and its running SHA-256."""

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


P = TypeVar("P", bound=Part)


class Destination(Protocol[P]):
    """Where files go; ``store.objects.Store`` is one."""

    def has(self, sha256: str, size: int | None = None) -> bool:
        """Whether the file is there."""

    def claim(self, sha256: str, check: Callable[[], None] = ...) -> AbstractContextManager[P]:
        """Give the exclusive right to bring a file in."""

    def publish(self, part: P, sha256: str, size: int | None = None, *, name: str = "") -> None:
        """Turn what is claimed into the file, checked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """How a transfer is watched and stopped; serves all threads of a command.

    Attributes:
        network: how often and after how long a wait to try again.
        check: called all the time; raises to stop.
        wait: sleeps that many seconds, or less if everything is to stop.
        advance: called with the number of bytes gained.
    """

    network: NetworkConfig
    check: Callable[[], None]
    wait: Callable[[float], object]
    advance: Callable[[int], None]


class Transfer:
    """The work on one part.

    Args:
        size: exact number of bytes the file has.
        sha256: the digest it has.

    Attributes:
        received: bytes that came over the wire, repeated ones too.
    """

    def __init__(self, part: Part, size: int, sha256: str, control: Control) -> None:
        self._part, self._size, self._sha256, self._control = part, size, sha256, control
        self._shown = 0
        self.received = 0
        if part.resume() > size:
            part.restart()
        self.show()

    def fetch(self, request: Request) -> None:
        """Fill the part, trying again as long as it gets further now and then.

        Raises:
            HttpError: no more tries, or another one is of no use.
            ContentMismatch: the server has a file of another size.
            OSError: the part could not be written.
        """
        failures, furthest = 0, self._part.size
        while True:
            inherited = self._part.size > 0
            try:
                self._stream(request)
                if not inherited or self._part.sha256 == self._sha256:
                    return
                self._part.restart()  # what was there before may be the culprit: this server alone, from the start
            except HttpError as error:
                failures = 0 if self._part.size > furthest else failures + 1
                furthest = max(furthest, self._part.size)
                if not error.transient or failures >= self._control.network.attempts:
                    raise
                self._control.wait(error.delay or self._control.network.backoff * 2 ** max(failures - 1, 0))
                self._control.check()

    def show(self) -> None:
        """Report bytes beyond what was ever reported for this file, so that a restart does not count twice."""
        if self._part.size > self._shown:
            self._control.advance(min(self._part.size, self._size) - self._shown)
            self._shown = self._part.size

    def _stream(self, request: Request) -> None:
        """Make one request for what is missing and append its answer; a part already whole needs none."""
        if self._part.size == self._size and self._part.sha256 == self._sha256:
            return
        if self._part.size >= self._size:
            self._part.restart()
        response = request(self._part.size)
        try:
            self._agree(response)
            self._drain(response)
        except BaseException:
            response.close()
            raise
        if self._part.size > self._size:
            response.close()  # more to come: no use to the next request
        response.release_conn()

    def _agree(self, response: urllib3.BaseHTTPResponse) -> None:
        """Make the part begin where the answer begins, and refuse an answer of the wrong length early."""
        if response.status == 206:
            match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if not match or int(match[1]) != self._part.size or match[2] not in ("*", str(self._size)):
                self._part.restart()
                raise HttpError("the server sent another range than asked for", transient=True)
            return
        self._part.restart()
        length = response.headers.get("Content-Length", "")
        if length.isascii() and length.isdigit() and int(length) != self._size:
            raise ContentMismatch(f"wrong size: expected {self._size} bytes, found {length}")

    def _drain(self, response: urllib3.BaseHTTPResponse) -> None:
        """Append the body; never more than the file's size and one byte, whatever the server sends."""
        import urllib3

        while self._part.size <= self._size:
            self._control.check()
            try:
                chunk = response.read(_CHUNK, decode_content=False)
            except urllib3.exceptions.HTTPError as error:
                raise explain(error) from error
            if not chunk:
                break
            self.received += len(chunk)
            self._part.write(chunk[: self._size + 1 - self._part.size])
            self.show()
        if self._part.size < self._size:
            raise HttpError(f"the answer ended after {self._part.size} of {self._size} bytes", transient=True)
