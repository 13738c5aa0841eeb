"""Bring one file from its sources into the store: the first source that has the right bytes wins."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envbuild.core.fs import NO_SPACE, open_regular
from envbuild.net.config import redacted
from envbuild.net.http import Http, HttpError
from envbuild.net.transfer import ContentMismatch, Control, Transfer
from envbuild.store.objects import Store, StoreWriteError, WrongBytesError
from envbuild.store.partial import Part, copy_into


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


@dataclass(kw_only=True)
class Download:
    """Brings files in; one instance serves all threads of a fetch.

    Attributes:
        warnings: sentences about sources that gave wrong bytes while another gave the right ones.
        unreachable: servers (scheme and host) that no connection could be made to, so that the next file does not wait
            again.
    """

    store: Store
    http: Http
    control: Control
    warnings: list[str] = field(default_factory=list)
    unreachable: dict[str, HttpError] = field(default_factory=dict)

    def bring(self, item: Item) -> bool:
        """Have the file in the store; False if another command brought it meanwhile.

        Raises:
            UnavailableError: no source had it.
            StoreWriteError: the store cannot be written or is full.
        """
        with self.store.claim(item.sha256, self.control.check) as part:
            if self.store.has(item.sha256, item.size):
                self.control.advance(item.size)
                return False
            transfer = Transfer(part, item.size, item.sha256, self.control)
            reasons: list[tuple[str, str]] = []
            for source in self._usable(item):
                try:
                    self._draw(source, item, part, transfer)
                except (HttpError, ContentMismatch) as error:
                    reasons.append((redacted(source), str(error)))
                    if isinstance(error, ContentMismatch):
                        part.restart()
                    continue
                except OSError as error:
                    raise self._refused(item, part, error) from error
                self.warnings += [f"{item.name}: {reason} ({source})" for source, reason in _mismatches(reasons)]
                return True
            raise UnavailableError(item, reasons)

    def _draw(self, source: str, item: Item, part: Part, transfer: Transfer) -> None:
        """Complete and publish the part from one source.

        Raises:
            HttpError: the source failed.
            ContentMismatch: it gave other bytes.
            OSError: the store could not be written.
        """
        path = local_path(source)
        if path is not None:
            _copy(path, item, part, transfer)
        else:
            self._fetch(source, transfer)
        try:
            self.store.publish(part, item.sha256, item.size, name=item.name)
        except WrongBytesError as error:
            raise ContentMismatch(f"wrong bytes: {str(error).partition(': ')[2]}") from None

    def _fetch(self, url: str, transfer: Transfer) -> None:
        """Fill the part over HTTP, unless its server is known to be out of reach."""
        server = "{}://{}".format(*urlsplit(url)[:2])
        if server in self.unreachable:
            raise self.unreachable[server]
        try:
            transfer.fetch(partial(self.http.open, url))
        except HttpError as error:
            if not error.connected:
                self.unreachable[server] = error
            raise

    def _usable(self, item: Item) -> list[str]:
        """Sources to try in their order; without the network only those of this machine."""
        return [source for source in item.sources if not self.control.network.offline or local_path(source) is not None]

    def _refused(self, item: Item, part: Part, error: OSError) -> StoreWriteError:
        """Explain why the store did not take the bytes; what it took is given back to a full disk."""
        missing = item.size - part.size
        if error.errno in NO_SPACE:
            part.restart()
        return self.store.refused(error, f": {item.name} needs {missing} bytes more")


def _copy(path: Path, item: Item, part: Part, transfer: Transfer) -> None:
    """Fill the part from a file of this machine."""
    part.restart()
    try:
        source = open_regular(path)
    except OSError as error:
        raise HttpError(error.strerror or str(error), transient=False) from None
    with source:
        size = os.fstat(source.fileno()).st_size
        if size != item.size:
            raise ContentMismatch(f"wrong size: expected {item.size} bytes, found {size}")
        copy_into(part, source, lambda amount: transfer.show(), limit=item.size)
    transfer.show()


def local_path(source: str) -> Path | None:
    """Return the path of a ``file:`` URL or of a plain path; None for anything else."""
    if source.startswith("/"):
        return Path(source)
    if source.startswith("file:"):
        return Path(unquote(urlsplit(source).path))
    return None


def _mismatches(reasons: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [pair for pair in reasons if pair[1].startswith("wrong")]
