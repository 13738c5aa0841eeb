"""Bring one file from its sources into the store: try, resume, try again, go on to the next source.

A part needs no memory of where it came from: whatever it holds is judged by its SHA-256 alone, so a download may go
on where another server, or another command that was killed, left off. Bytes blamed on a source came from it alone.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from envbuild.core.fs import ELSEWHERE
from envbuild.errors import IntegrityError
from envbuild.net.config import NetworkConfig, redacted
from envbuild.net.http import Http, HttpError, explain
from envbuild.store.objects import NO_SPACE, Store, WrongBytesError
from envbuild.store.partial import Part, copy_into

if TYPE_CHECKING:
    import urllib3

_CHUNK = 1 << 16
_RANGE = re.compile(r"bytes ([0-9]+)-[0-9]+/([0-9]+|\*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A file to have.

    Attributes:
        name: what to call it in messages; never used as a path.
        size: exact number of bytes.
        sha256: lower-case hexadecimal digest.
        sources: URLs (http, https, file) or absolute paths, best first.
    """

    name: str
    size: int
    sha256: str
    sources: tuple[str, ...]


class UnavailableError(Exception):
    """No source had the file; ``reasons`` pairs each source with what was wrong with it."""

    def __init__(self, item: Item, reasons: list[tuple[str, str]]) -> None:
        super().__init__(item.name)
        self.item = item
        self.reasons = reasons


class _LieError(Exception):
    """A source gave other bytes than promised."""


@dataclass(kw_only=True)
class Download:
    """Brings files in; one instance serves all threads of a fetch.

    Attributes:
        check: called all the time; raises to stop.
        wait: sleeps that many seconds, or less if everything is to stop.
        advance: told of bytes gained.
    """

    store: Store
    http: Http
    network: NetworkConfig
    check: Callable[[], None]
    wait: Callable[[float], object]
    advance: Callable[[int], None]
    warnings: list[str] = field(default_factory=list)
    unreachable: dict[str, HttpError] = field(default_factory=dict)
    """Servers (scheme and host) that no connection could be made to, so that the next file does not wait again."""

    def bring(self, item: Item) -> bool:
        """Have the file in the store; False if another command brought it meanwhile.

        Raises:
            UnavailableError: no source had it.
            IntegrityError: the store cannot be written or is full.
        """
        with self.store.claim(item.sha256, self.check) as part:
            if self.store.has(item.sha256, item.size):
                self.advance(item.size)
                return False
            if part.resume() > item.size:
                part.restart()
            effort = _Effort(self, item, part)
            reasons: list[tuple[str, str]] = []
            for source in self._usable(item):
                try:
                    effort.draw(source)
                except (HttpError, _LieError) as error:
                    reasons.append((redacted(source), str(error)))
                    if isinstance(error, _LieError):
                        part.restart()
                    continue
                except OSError as error:
                    raise self._refused(item, part, error) from error
                self.warnings += [f"{item.name}: {reason} ({source})" for source, reason in _lies(reasons)]
                return True
            raise UnavailableError(item, reasons)

    def _usable(self, item: Item) -> list[str]:
        """Sources to try in their order; without the network only those of this machine."""
        return [source for source in item.sources if not self.network.offline or local_path(source) is not None]

    def _refused(self, item: Item, part: Part, error: OSError) -> IntegrityError:
        """Explain why the store did not take the bytes; what it took is given back to a full disk."""
        missing = item.size - part.size
        if error.errno in NO_SPACE:
            part.restart()
            reason = f"has no space left: {item.name} needs {missing} bytes more"
        else:
            reason = f"cannot be written: {error.strerror}"
        return IntegrityError(f"the store {self.store.root} {reason}", ELSEWHERE)


class _Effort:
    """The work on one part: which source it is at, and how far it has ever been."""

    def __init__(self, download: Download, item: Item, part: Part) -> None:
        self._all, self._item, self._part = download, item, part
        self._shown = 0
        self._show()

    def draw(self, source: str) -> None:
        """Complete and publish the part from one source.

        Raises:
            HttpError: the source failed.
            _LieError: it gave other bytes.
            OSError: the store could not be written.
        """
        path = local_path(source)
        if path is not None:
            self._copy(path)
        else:
            self._fetch(source)
        try:
            self._all.store.publish(self._part, self._item.sha256, self._item.size, name=self._item.name)
        except WrongBytesError as error:
            raise _LieError(f"wrong bytes: {str(error).partition(': ')[2]}") from None

    def _copy(self, path: Path) -> None:
        """Fill the part from a file of this machine."""
        self._part.restart()
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise HttpError("not a regular file", transient=False)
            if found.st_size != self._item.size:
                raise _LieError(f"wrong size: expected {self._item.size} bytes, found {found.st_size}")
            source = path.open("rb", buffering=0)
        except OSError as error:
            raise HttpError(error.strerror or str(error), transient=False) from None
        with source:
            copy_into(self._part, source, lambda amount: self._show())
        self._show()

    def _fetch(self, url: str) -> None:
        """Fill the part over HTTP, trying again as long as it gets further now and then."""
        failures, furthest = 0, self._part.size
        server = "//".join(urlsplit(url)[:2])
        if server in self._all.unreachable:
            raise self._all.unreachable[server]
        while True:
            inherited = self._part.size > 0
            try:
                self._stream(url)
                if not inherited or self._part.sha256 == self._item.sha256:
                    return
                self._part.restart()  # what was there before may be the culprit: this source alone, from the start
            except HttpError as error:
                failures = 0 if self._part.size > furthest else failures + 1
                furthest = max(furthest, self._part.size)
                if not error.transient or failures >= self._all.network.attempts:
                    if not error.connected:
                        self._all.unreachable[server] = error
                    raise
                self._all.wait(error.delay or self._all.network.backoff * 2 ** max(failures - 1, 0))
                self._all.check()

    def _stream(self, url: str) -> None:
        """Make one request for what is missing and append its answer; a part already whole needs none."""
        if self._part.size == self._item.size and self._part.sha256 == self._item.sha256:
            return
        if self._part.size >= self._item.size:
            self._part.restart()
        response = self._all.http.open(url, self._part.size)
        try:
            self._agree(response)
            self._drain(response)
        except BaseException:
            response.close()
            raise
        if self._part.size > self._item.size:
            response.close()  # more to come: no use to the next request
        response.release_conn()

    def _agree(self, response: urllib3.BaseHTTPResponse) -> None:
        """Make the part begin where the answer begins, and refuse an answer of the wrong length early."""
        if response.status == 206:
            match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if not match or int(match[1]) != self._part.size or match[2] not in ("*", str(self._item.size)):
                self._part.restart()
                raise HttpError("the server sent another range than asked for", transient=True)
            return
        self._part.restart()
        length = response.headers.get("Content-Length", "")
        if length.isascii() and length.isdigit() and int(length) != self._item.size:
            raise _LieError(f"wrong size: expected {self._item.size} bytes, found {length}")

    def _drain(self, response: urllib3.BaseHTTPResponse) -> None:
        """Append the body; never more than the file's size, whatever the server sends."""
        import urllib3

        while self._part.size <= self._item.size:
            self._all.check()
            try:
                chunk = response.read(_CHUNK, decode_content=False)
            except urllib3.exceptions.HTTPError as error:
                raise explain(error) from error
            if not chunk:
                break
            self._part.write(chunk[: self._item.size + 1 - self._part.size])
            self._show()
        if self._part.size < self._item.size:
            raise HttpError(f"the answer ended after {self._part.size} of {self._item.size} bytes", transient=True)

    def _show(self) -> None:
        """Report bytes beyond what was ever reported for this file, so that a restart does not count twice."""
        if self._part.size > self._shown:
            self._all.advance(min(self._part.size, self._item.size) - self._shown)
            self._shown = self._part.size


def local_path(source: str) -> Path | None:
    """Return the path of a ``file:`` URL or of a plain path; None for anything else."""
    if source.startswith("/"):
        return Path(source)
    if source.startswith("file:"):
        return Path(unquote(urlsplit(source).path))
    return None


def _lies(reasons: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [pair for pair in reasons if pair[1].startswith("wrong")]
