"""Versions that were passed over: whether a newer release of a package was not taken for want of a wheel.

A resolver that may take wheels only goes back in time, silently, until a release has one: years, or to a pre-release.
Compared is what the spec names itself and what no earlier lock pinned. One page of the package's index has
its releases; whether the newest that the spec admits lacks a wheel, or something that it needs does, shows the
resolver that is asked for just that release. If the release could be had alone, others of the requirements hold it
back, which is what resolution is for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from envbuild.errors import ResolveError
from envbuild.resolve.python.wheels import Candidate, Target, way_out

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.version import Version

    from envbuild.net.config import NetworkConfig
    from envbuild.net.http import Http

Lacking = Callable[[str], Sequence[str]]
"""Asks for one requirement alone; returns those without a wheel, none if it can be met or fails otherwise."""

_THREADS = 8
_LARGEST_PAGE = 64 << 20
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


@dataclass(frozen=True, kw_only=True, slots=True)
class PassedOver:
    """A newer release that was not taken for want of a wheel.

    Attributes:
        name, taken, newest: package, version chosen, and newest final one that the spec admits.
        lacking: requirements without a wheel that the newest needs, itself perhaps.
    """

    name: str
    taken: str
    newest: str
    lacking: tuple[str, ...]

    @property
    def far(self) -> bool:
        """Whether the fall is to a pre-release, or over what a version number calls incompatible."""
        from packaging.version import Version

        taken, newest = Version(self.taken), Version(self.newest)
        return taken.is_prerelease or _line(taken) != _line(newest)

    def __str__(self) -> str:
        """Describe it in a sentence."""
        own = all(_name(line) == self.name for line in self.lacking)
        why = "that" if own else ", ".join(self.lacking)
        return f"{self.name} {self.taken} instead of {self.newest}, since {why} has no wheel"


def open_names(asked: Iterable[str]) -> dict[str, list[Requirement]]:
    """Return the requirements that admit more than one version, by normalised name."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, list[Requirement]] = {}
    for line in asked:
        requirement = Requirement(line)
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return {name: requirements for name, requirements in found.items() if not _pinned(requirements)}


def read_pages(indexes_of: Mapping[str, Sequence[str]], network: NetworkConfig) -> dict[str, list[list[File]]]:
    """Return the files that indexes list, by package, one list for each index; empty where a page cannot be read.

    Args:
        indexes_of: addresses of the indexes that may have a package, by name.
    """
    from envbuild.net.http import Http

    asked = [(name, place) for name, places in indexes_of.items() for place in places]
    found: dict[str, list[list[File]]] = {}
    http = Http(network, connections=_THREADS)
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            pages = pool.map(lambda item: list(_files(item[1], item[0], http)), asked)
            for (name, _), files in zip(asked, pages, strict=True):
                found.setdefault(name, []).append(files)
    finally:
        http.close()
    return found


def lists(pages: Sequence[Sequence[File]], candidate: Candidate) -> Sequence[File]:
    """Return the first page of a package that lists the wheel chosen; an empty one if none does."""
    return next((page for page in pages if any(file.name == candidate.file for file in page)), ())


def passed_over(
    chosen: Sequence[Candidate],
    asked: Mapping[str, Sequence[Requirement]],
    target: Target,
    pages: Mapping[str, Sequence[Sequence[File]]],
    lacking: Lacking,
) -> list[PassedOver]:
    """Return which newer releases were passed over for want of a wheel, in the order of ``chosen``.

    Args:
        chosen: wheels to compare; others than those that ``asked`` and ``pages`` have are left alone.
        asked: the spec's requirements by name; a release must be admitted by all of its name.
        pages: as ``read_pages`` gives them. Compared is with the index that lists the wheel chosen.
    """

    def compare(candidate: Candidate) -> PassedOver | None:
        found = asked[candidate.package]
        newest = _newest(lists(pages[candidate.package], candidate), candidate, found, target)
        extras = sorted({extra for requirement in found for extra in requirement.extras})
        line = f"{candidate.package}{'[' + ','.join(extras) + ']' if extras else ''}=={newest}"
        reasons = lacking(line) if newest is not None else ()
        if not reasons:
            return None
        return PassedOver(
            name=candidate.package, taken=candidate.version, newest=str(newest), lacking=tuple(sorted(reasons))
        )

    compared = [candidate for candidate in chosen if candidate.package in asked and candidate.package in pages]
    with ThreadPoolExecutor(_THREADS) as pool:
        return [found for found in pool.map(compare, compared) if found]


def refuse_far(found: Sequence[PassedOver], target: Target) -> tuple[str, ...]:
    """Return a note for each release passed over; raises ``ResolveError`` for those that are far."""
    if far := [fall for fall in found if fall.far]:
        lines = "".join(f"\n  {fall}" for fall in far)
        lacking = [line for fall in far for line in fall.lacking]
        pins = ", ".join(f"{fall.name}=={fall.taken}" for fall in far)
        raise ResolveError(
            f"for want of a wheel for {target}, a much older release or a pre-release would be locked:{lines}",
            f"{way_out(lacking)}; or require the older one if you want it: {pins}",
        )
    return tuple(str(fall) for fall in found)


def _name(requirement: str) -> str:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    return canonicalize_name(Requirement(requirement).name)


def _line(version: Version) -> tuple[int, ...]:
    """Return the parts of a version up to the first that is not 0: semantic versioning's promise of compatibility."""
    parts = (*version.release, 0, 0)[:3]
    return (version.epoch, parts[0]) if parts[0] else (version.epoch, 0, parts[1])


def _pinned(requirements: Sequence[Requirement]) -> bool:
    """Return whether just one version may be taken."""
    clauses = [clause for found in requirements for clause in found.specifier]
    return any(c.operator in ("==", "===") and "*" not in c.version for c in clauses)


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file on a package's page that was not withdrawn; ``uploaded`` is its time of upload, if the page states it.

    ``address`` is absolute where the page's own is known; ``sha256`` is empty if the page states none.
    """

    name: str
    python: str
    uploaded: str = ""
    address: str = ""
    sha256: str = ""


def _newest(
    files: Iterable[File], candidate: Candidate, requirements: Sequence[Requirement], target: Target
) -> Version | None:
    """Return the newest final release that the spec and the target's Python admit, if that is not the one chosen."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    chosen = Version(candidate.version)
    best: Version | None = None
    for file in files:
        try:
            version = Version(_version(file.name))
        except InvalidVersion:
            continue
        if version.is_prerelease or (best is not None and version <= best):
            continue
        if not chosen.is_prerelease and Version(version.public) <= Version(chosen.public):
            continue
        try:
            fits = SpecifierSet(file.python).contains(target.python)
        except InvalidSpecifier:
            fits = True
        if fits and all(found.specifier.contains(version) for found in requirements):
            best = version
    asked_for = any(found.specifier.prereleases for found in requirements)
    return None if chosen.is_prerelease and asked_for else best


def _version(file: str) -> str:
    """Return the version in a file's name; something that is none if the file is neither wheel nor source archive."""
    if file.endswith(".whl"):
        return [*file.split("-"), ""][1]
    for ending in (".tar.gz", ".zip", ".tar.bz2", ".tgz"):
        if file.endswith(ending):
            return file.removesuffix(ending).rpartition("-")[2]
    return ""


def _files(index: str, name: str, http: Http) -> Iterator[File]:
    """Yield the files on a package's page; none if the page cannot be read, since what is compared is advice."""
    from urllib3.exceptions import HTTPError

    from envbuild.net.http import HttpError

    parts = urlsplit(f"{index.rstrip('/')}/{name}/")
    try:
        if parts.scheme == "file":
            data, kind = (Path(unquote(parts.path)) / "index.html").read_bytes(), "text/html"
        else:
            address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
            with http.open(address, headers={"Accept": _ACCEPT}) as response:
                data, kind = response.read(_LARGEST_PAGE), response.headers.get("Content-Type", "")
        base = f"{index.rstrip('/')}/{name}/"
        yield from read_json(data, base) if "json" in kind else read_html(data, base)
    except (HttpError, HTTPError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return


def read_json(data: bytes, base: str = "") -> Iterator[File]:
    """Read PEP 691's form of a page; ``base`` is its address."""
    for entry in json.loads(data)["files"]:
        if not entry.get("yanked"):
            python, uploaded = str(entry.get("requires-python") or ""), str(entry.get("upload-time") or "")
            digest = str((entry.get("hashes") or {}).get("sha256", ""))
            address = urljoin(base, str(entry.get("url") or ""))
            yield File(name=str(entry["filename"]), python=python, uploaded=uploaded, address=address, sha256=digest)


def read_html(data: bytes, base: str = "") -> Iterator[File]:
    """Read PEP 503's form of a page; ``base`` is its address."""
    page = _Page(base)
    page.feed(data.decode("utf-8"))
    yield from page.files


class _Page(HTMLParser):
    """Collects the files of a page; PEP 503, PEP 592."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.files: list[File] = []
        self._base = base

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a link points to, unless it was withdrawn."""
        found = dict(attrs)
        if tag == "a" and (href := found.get("href")) and "data-yanked" not in found:
            parts = urlsplit(urljoin(self._base, href))
            digest = parts.fragment.removeprefix("sha256=") if parts.fragment.startswith("sha256=") else ""
            self.files.append(
                File(
                    name=unquote(parts.path.rpartition("/")[2]),
                    python=found.get("data-requires-python") or "",
                    address=urlunsplit(parts._replace(fragment="")),
                    sha256=digest,
                )
            )
