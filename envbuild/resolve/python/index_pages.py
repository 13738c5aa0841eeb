"""Pages and metadata of a package index, read in small pieces: PEP 503 pages, METADATA by range requests into wheels.

For tables about many releases, of which nothing is installed; what is locked goes through the resolvers.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote, urljoin

from envbuild.net.config import network_config
from envbuild.net.http import Http
from envbuild.resolve.python import indexes, uv
from envbuild.resolve.python.wheels import Target

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_TARGET = Target(python="3.11", platform="manylinux_2_36_x86_64")
_LINUX = re.compile(r"(?:many)?linux[0-9_]*_x86_64")
_BLOCK = 1 << 17


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One wheel on an index page."""

    name: str
    version: str
    address: str


class Index:
    """Pages and metadata of the package index that this machine is configured with."""

    def __init__(self, environ: Mapping[str, str], project: str) -> None:
        """``project`` is one that the index has: where uv finds it is the index that is meant."""
        self._environ, self._project = environ, project
        self._http = Http(network_config(environ), connections=8)
        self._root = ""

    def wheels(self, project: str) -> list[File]:
        """Return the wheels of a project for x86-64 Linux or every platform, final releases only."""
        from packaging.utils import InvalidWheelFilename, parse_wheel_filename

        page = f"{self._address()}/{project}/"
        with self._http.open(page, headers={"Accept": "text/html"}) as response:
            links = _Links()
            links.feed(response.read().decode("utf-8"))
        found = []
        for href in links.hrefs:
            address = urljoin(page, href).split("#")[0]
            name = unquote(address.rsplit("/", 1)[-1])
            try:
                _, version, _, tags = parse_wheel_filename(name)
            except InvalidWheelFilename:
                continue
            fits = any(tag.platform == "any" or _LINUX.fullmatch(tag.platform) for tag in tags)
            if fits and not version.is_prerelease:
                found.append(File(name=name, version=str(version), address=address))
        return found

    def requirements(self, file: File) -> list[Requirement]:
        """Return what a wheel's METADATA requires, reading no more of the wheel than that takes."""
        from packaging.requirements import Requirement

        with zipfile.ZipFile(self.open(file)) as archive:
            member = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            headers = HeaderParser().parsestr(archive.read(member).decode("utf-8"))
        return [Requirement(line) for line in headers.get_all("Requires-Dist") or ()]

    def open(self, file: File) -> BinaryIO:
        """Return a wheel as a file that is read from its server in blocks, where it is needed."""
        return io.BufferedReader(_Remote(self._http, file.address), _BLOCK)

    def _address(self) -> str:
        """Return the index that uv finds the project on; the configuration decides, not this module."""
        if self._root:
            return self._root
        places = indexes.configured(self._environ, Path())
        self._root = uv.index_of(self._project, _TARGET, places, self._environ).rstrip("/")
        return self._root


class _Links(HTMLParser):
    """Collects the targets of a page's links. PEP 503."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what links point to, unless the file was withdrawn (PEP 592)."""
        found = dict(attrs)
        if tag == "a" and found.get("href") and "data-yanked" not in found:
            self.hrefs.append(found["href"] or "")


class _Remote(io.RawIOBase):
    """A file on a server that answers range requests, read where it is needed."""

    def __init__(self, http: Http, address: str) -> None:
        self._http, self._address, self._at = http, address, 0
        with http.open(address, headers={"Range": "bytes=0-0"}, accept=(206,)) as response:
            response.read()
            self._size = int(response.headers["Content-Range"].rsplit("/", 1)[-1])

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; nothing is asked for."""
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fetch what fits."""
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        wanted = {"Range": f"bytes={self._at}-{end - 1}"}
        with self._http.open(self._address, headers=wanted, accept=(206,)) as response:
            data = response.read()
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
