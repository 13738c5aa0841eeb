"""Derive ``data/cuda-wheels.toml`` from the package index: python -m envbuild.resolve.cuda_refresh [--check].

Which releases there are, the Pythons their wheels are for, and which of NVIDIA's wheels they ask for: all of it stands
in the index's pages and in the wheels' METADATA, of which only a few hundred kilobytes are read. The index is the one
that this machine's uv or pip is configured with; no address is kept.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.parser import HeaderParser
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin

import msgspec
import tomli_w

from envbuild import resources
from envbuild.errors import EnvbuildError
from envbuild.files import atomic_write
from envbuild.net import Http, HttpError
from envbuild.netconfig import network_config
from envbuild.resolve import indexes, uv
from envbuild.resolve.cuda_table import Derived, Release, Toolkit, numbers, span
from envbuild.resolve.wheels import Target

if TYPE_CHECKING:
    from packaging.requirements import Requirement

FILE = "cuda-wheels.toml"
OLDEST = {"tensorflow": (2, 14), "torch": (2, 1), "jax": (0, 4, 30)}
"""Older releases have no wheels for the Pythons that images have."""
_PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
_TARGET = Target(python="3.11", platform="manylinux_2_36_x86_64")
_LINUX = re.compile(r"(?:many)?linux[0-9_]*_x86_64")
_BLOCK = 1 << 17
_HEAD = """\
# Which of NVIDIA's wheels the frameworks ask for, and which make up each CUDA toolkit. Derived from the metadata of the
# wheels on the package index; do not edit: python -m envbuild.resolve.cuda_refresh
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One wheel on an index page."""

    name: str
    version: str
    address: str


class Index:
    """Pages and metadata of the package index that this machine is configured with."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
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

        with zipfile.ZipFile(io.BufferedReader(_Remote(self._http, file.address), _BLOCK)) as archive:
            member = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            headers = HeaderParser().parsestr(archive.read(member).decode("utf-8"))
        return [Requirement(line.replace("with_cuda", "with-cuda")) for line in headers.get_all("Requires-Dist") or ()]

    def _address(self) -> str:
        """Return the index that uv finds NVIDIA's toolkit on; the configuration decides, not this module."""
        if self._root:
            return self._root
        places = indexes.configured(self._environ, Path())
        self._root = uv.index_of("cuda-toolkit", _TARGET, places, self._environ).rstrip("/")
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


def derive(index: Index) -> Derived:
    """Read everything; a minute or two."""
    with ThreadPoolExecutor(4) as pool:
        frameworks = [rows for framework in OLDEST for rows in _rows(index, framework, pool)]
        toolkits = [*pool.map(lambda files: _toolkit(index, files), _by_feature(index.wheels("cuda-toolkit")).values())]
    found = sorted(
        (row for rows in frameworks for row in rows), key=lambda row: (row.framework, numbers(row.version), row.extra)
    )
    return Derived(release=tuple(found), toolkit=tuple(sorted(toolkits, key=lambda row: numbers(row.cuda))))


def render(derived: Derived) -> bytes:
    """Return the data file."""
    return (_HEAD + tomli_w.dumps(msgspec.to_builtins(derived))).encode()


def _rows(index: Index, framework: str, pool: ThreadPoolExecutor) -> Iterator[list[Release]]:
    """Yield the rows of each feature release."""
    features = _by_feature(index.wheels(framework))
    plugins = {major: index.wheels(f"jax-cuda{major}-plugin") for major in (12, 13)} if framework == "jax" else {}
    wanted = [
        files for key, files in features.items() if key >= OLDEST[framework][:2] and _newest(files, OLDEST[framework])
    ]
    yield from pool.map(lambda files: _feature(index, framework, files, plugins), wanted)


def _newest(files: list[File], oldest: tuple[int, ...]) -> bool:
    return numbers(files[-1].version) >= oldest


def _feature(index: Index, framework: str, files: list[File], plugins: Mapping[int, list[File]]) -> list[Release]:
    """Return the rows of one feature release: one, or one for each of JAX's CUDA majors."""
    last = files[-1].version
    rows = []
    sources = {"": files} if not plugins else {f"cuda{major}": found for major, found in plugins.items()}
    for extra, wheels in sources.items():
        same = [file for file in wheels if file.version == last]
        if not same:
            continue
        asked = index.requirements(same[0])
        if row := _row(framework, files, same, extra, asked, index):
            rows.append(row)
    return rows


def _row(
    framework: str, files: list[File], same: list[File], extra: str, asked: list[Requirement], index: Index
) -> Release | None:
    """Join what one wheel says to a row; None if it asks for no CUDA runtime."""
    chosen = {"tensorflow": "and-cuda", "jax": "with-cuda", "torch": ""}[framework]
    specifiers = {r.name.lower().replace("_", "-"): str(r.specifier) for r in asked if _applies(r, chosen)}
    toolkit = specifiers.get("cuda-toolkit", "")
    if toolkit:
        runtime, cuda = "nvidia-cuda-runtime", _minor(toolkit)
    else:
        runtime = next((name for name in specifiers if name.startswith("nvidia-cuda-runtime")), "")
        cuda = _minor(specifiers.get(runtime, ""))
    if not runtime:
        return None
    suffix = runtime.removeprefix("nvidia-cuda-runtime") or f"-cu{numbers(cuda.lstrip('=<>'))[0]}"
    return Release(
        framework=framework,
        version=".".join(files[-1].version.split(".")[:2]),
        releases=tuple(dict.fromkeys(file.version for file in files)),
        python=_pythons(same),
        extra=extra or chosen,
        cuda=_bounded(cuda),
        cudnn=specifiers.get(f"nvidia-cudnn{suffix}", ""),
        nccl=specifiers.get(f"nvidia-nccl{suffix}", ""),
        runtime=runtime,
        metadata=f"{same[0].name.split('-')[0].replace('_', '-')} {files[-1].version}",
    )


def _applies(requirement: Requirement, extra: str) -> bool:
    """Tell whether a requirement counts on x86-64 Linux with an extra."""
    environment = {
        "extra": extra,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "python_version": "3.13",
        "python_full_version": "3.13.0",
    }
    return requirement.marker is None or requirement.marker.evaluate(environment)


def _minor(specifier: str) -> str:
    """Cut the versions of a specifier after the minor: what counts for choosing a toolkit."""
    parts = []
    for part in sorted(specifier.replace(" ", "").split(","), reverse=True):
        operator = part[: len(part) - len(part.lstrip("=<>~!"))]
        version = part[len(operator) :].removesuffix(".*")
        parts.append(f"{operator}{'.'.join(version.split('.')[:2])}" + (".*" if operator == "==" else ""))
    return ",".join(filter(None, parts))


def _bounded(specifier: str) -> str:
    """Close an open range at the next major: no wheel is built for more than one."""
    if "==" in specifier or "<" in specifier:
        return specifier
    return f"{specifier},<{numbers(specifier.lstrip('>='))[0] + 1}"


def _toolkit(index: Index, files: list[File]) -> Toolkit:
    """Return the wheels of a toolkit: names as in its last update, versions as in its first release."""
    first, last = _pins(index, files[0]), _pins(index, files[-1])
    wheels = {name: _first(first.get(name, specifier)) for name, specifier in sorted(last.items())}
    feature = ".".join(files[-1].version.split(".")[:2])
    names = " and ".join(dict.fromkeys((files[0].version, files[-1].version)))
    return Toolkit(cuda=feature, wheels=wheels, metadata=f"cuda-toolkit {names}")


def _first(specifier: str) -> str:
    """Return the least version that a specifier admits."""
    return ".".join(map(str, span(specifier)[0]))


def _pins(index: Index, file: File) -> dict[str, str]:
    return {r.name: str(r.specifier) for r in index.requirements(file) if _applies(r, "all")}


def _pythons(files: list[File]) -> tuple[str, ...]:
    """Return the Pythons that a release's wheels are for."""
    from packaging.utils import parse_wheel_filename

    found = set()
    for file in files:
        for tag in parse_wheel_filename(file.name)[3]:
            if tag.abi == tag.interpreter and tag.interpreter.startswith("cp3"):
                found.add(f"3.{tag.interpreter[3:]}")
            elif tag.interpreter in {"py3", "py2.py3"}:
                found.update(_PYTHONS)
    return tuple(sorted(found, key=numbers))


def _by_feature(files: list[File]) -> dict[tuple[int, ...], list[File]]:
    """Group wheels by feature release, oldest first."""
    grouped: dict[tuple[int, ...], list[File]] = {}
    for file in sorted(files, key=lambda file: (numbers(file.version), file.name)):
        grouped.setdefault(numbers(file.version)[:2], []).append(file)
    return grouped


def main(arguments: list[str] | None = None) -> int:
    """Write the file, or with ``--check`` only compare; show what differs."""
    parser = argparse.ArgumentParser(prog="python -m envbuild.resolve.cuda_refresh", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the file would change")
    options = parser.parse_args(arguments)
    path = resources.data_path(FILE)
    before = path.read_bytes() if path.exists() else b""
    try:
        after = render(derive(Index(os.environ)))
    except (EnvbuildError, HttpError) as error:
        sys.stderr.write(f"{error}\n")
        return 12
    lines = difflib.unified_diff(
        before.decode().splitlines(), after.decode().splitlines(), "before", "after", "", "", 2, ""
    )
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    if before != after and not options.check:
        atomic_write(path, after)
    return int(before != after and options.check)


if __name__ == "__main__":
    sys.exit(main())
