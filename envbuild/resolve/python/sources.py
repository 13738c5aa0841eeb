"""Packages that may be built from source: versions without a wheel for the target, offered to the resolver.

A resolver that meets a source archive runs its build backend to learn what it needs, here and now. So it is shown
stand-ins instead: a wheel with a version and no dependencies for each archive that the index lists. The versions that
it chooses are built, in the sandbox, and shown with what they really need; that is repeated until all that it chooses
is built. A fixed point meets all requirements, and no code of a package runs outside of the sandbox.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envbuild.errors import IntegrityError, ResolveError
from envbuild.resolve.python import cutoff
from envbuild.resolve.python.indexes import Indexes
from envbuild.resolve.python.newest import File
from envbuild.resolve.python.wheels import Candidate, Target, best, project_of

ALL = "all"
"""Stands for every package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """An archive of sources that an index lists; ``sha256`` is empty if it states none."""

    package: str
    version: str
    file: str
    address: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltWheel:
    """A wheel that was built from source: name, file, SHA-256, size in bytes."""

    name: str
    path: Path
    sha256: str
    size: int


Build = Callable[[SourceFile], BuiltWheel]
"""Builds a wheel; raises ``BuildError`` and others that say why not."""

Pages = Mapping[str, Sequence[Sequence[File]]]


class Shelf:
    """Wheels next to the indexes: stand-ins, and in their places the wheels that were built.

    Args:
        folder: for both.
        names: packages that may be built; ``ALL``: any, once it is known to be needed.
        target: what wheels are for.
        read: returns the pages that indexes have of packages.
        build: builds one; None where nothing may be built.
        stamp: files uploaded from this time on are left out; empty: none.
    """

    def __init__(
        self,
        folder: Path,
        names: Iterable[str],
        target: Target,
        read: Callable[[Iterable[str]], Pages],
        build: Build | None,
        stamp: str = "",
    ) -> None:
        self._stand_ins, self._wheels = folder / "stand-ins", folder / "built"
        self._target, self._read, self._build, self._stamp = target, read, build, stamp
        wanted = set(names) if build is not None else set()
        self._everything = ALL in wanted
        self._waiting = wanted - {ALL}
        self._offered: set[str] = set()
        self._stubs: dict[str, SourceFile] = {}
        self._built: dict[str, BuiltWheel] = {}
        self._archives: dict[str, str] = {}

    @property
    def used(self) -> bool:
        """Whether anything may be built."""
        return self._everything or bool(self._waiting or self._offered)

    @property
    def built(self) -> Mapping[str, BuiltWheel]:
        """The wheels that were built, by file name."""
        return self._built

    @property
    def archives(self) -> Mapping[str, str]:
        """The SHA-256 of the archive that a wheel was built from, by that of the wheel."""
        return self._archives

    def next_to(self, places: Indexes, environ: Mapping[str, str]) -> Indexes:
        """Return indexes with this folder next to them."""
        if not self.used:
            return places
        for folder in (self._stand_ins, self._wheels):
            folder.mkdir(parents=True, exist_ok=True)
        others = places.environment.get("UV_FIND_LINKS") or environ.get("UV_FIND_LINKS", "")
        own = (folder.as_uri().replace(",", "%2C") for folder in (self._wheels, self._stand_ins))
        links = ",".join(filter(None, (*own, others)))
        return replace(places, environment={**places.environment, "UV_FIND_LINKS": links})

    def admit(self, lacking: Iterable[str]) -> bool:
        """Take up packages that lack a wheel, given as requirements; whether that offers anything new."""
        names = {project_of(line) for line in lacking} if self._everything else set()
        self._waiting |= names - self._offered
        return self.offer()

    def offer(self) -> bool:
        """Put stand-ins for the packages that were taken up since the last time; whether there are any."""
        names, self._waiting = self._waiting - self._offered, set()
        if not names:
            return False
        pages = self._read(names)
        if self._stamp:
            pages = cutoff.before(pages, self._stamp)
        before = len(self._stubs)
        for name in sorted(names):
            self._offered.add(name)
            for files in pages.get(name, ()):
                for source in lacking_wheels(name, files, self._target):
                    if (stub := _stub_name(source)) not in self._stubs:
                        self._stubs[stub] = source
                        _write_stub(self._stand_ins / stub, source)
        return len(self._stubs) > before

    def build(self, chosen: Sequence[Candidate]) -> bool:
        """Build what stands in for something among the wheels chosen; whether there was any."""
        found = False
        for candidate in chosen:
            if self._is_in(self._stand_ins, candidate) and (source := self._stubs.pop(candidate.file, None)):
                assert self._build is not None  # noqa: S101 - without it there are no stand-ins
                wheel = self._build(source)
                self._check(wheel, source)
                (self._stand_ins / candidate.file).unlink()
                shutil.copyfile(wheel.path, self._wheels / wheel.name)
                self._built[wheel.name] = wheel
                self._archives[wheel.sha256] = source.sha256
                found = True
        return found

    def completed(self, offered: Mapping[str, Sequence[Candidate]]) -> dict[str, Sequence[Candidate]]:
        """Return what is offered, of what was built with its digest and size."""
        return {name: [self._complete(candidate) for candidate in found] for name, found in offered.items()}

    def _complete(self, candidate: Candidate) -> Candidate:
        wheel = self._built.get(candidate.file) if self._is_in(self._wheels, candidate) else None
        if wheel is None:
            return candidate
        return replace(candidate, location=str(wheel.path), sha256=wheel.sha256, size=wheel.size)

    @staticmethod
    def _is_in(folder: Path, candidate: Candidate) -> bool:
        return Path(candidate.location).parent == folder

    def _check(self, wheel: BuiltWheel, source: SourceFile) -> None:
        """Refuse a wheel of another package or version, or for another system."""
        from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
        from packaging.version import Version

        try:
            name, version, _, _ = parse_wheel_filename(wheel.name)
        except InvalidWheelFilename:
            name, version = canonicalize_name(""), Version("0")
        made = Candidate(package=name, version=str(version), file=wheel.name, location="")
        if name != source.package or version != Version(source.version) or best([made], self._target) is None:
            raise ResolveError(
                f"{source.file}: its build made {wheel.name}, which is no wheel of {source.package} {source.version} "
                f"for {self._target}",
                f"leave {source.package} out of the spec's sources, and name a folder with a wheel: wheels: [wheels]",
            )


def lacking_wheels(name: str, files: Sequence[File], target: Target) -> list[SourceFile]:
    """Return the archives on a page of those versions that have no wheel for a target and admit its Python."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

    there: dict[str, list[Candidate]] = {}
    found: dict[str, SourceFile] = {}
    for file in files:
        try:
            if file.name.endswith(".whl"):
                _, version, _, _ = parse_wheel_filename(file.name)
                wheel = Candidate(package=name, version=str(version), file=file.name, location="")
                there.setdefault(str(version), []).append(wheel)
                continue
            _, version = parse_sdist_filename(file.name)
        except (InvalidSdistFilename, InvalidWheelFilename):
            continue
        try:
            fits = SpecifierSet(file.python).contains(target.python)
        except InvalidSpecifier:
            fits = True
        if fits and (str(version) not in found or file.name.endswith(".tar.gz")):
            found[str(version)] = SourceFile(
                package=name, version=str(version), file=file.name, address=file.address, sha256=file.sha256
            )
    return [source for version, source in found.items() if best(there.get(version, ()), target) is None]


def locate(source: str, sha256: str, files: Sequence[Sequence[File]]) -> tuple[str, ...]:
    """Return the addresses that pages have for an archive; raises ``IntegrityError`` if none has these bytes."""
    named = [file for page in files for file in page if file.name == source]
    places = tuple(dict.fromkeys(file.address for file in named if file.sha256 in ("", sha256)))
    if not places:
        raise IntegrityError(
            f"no configured index has {source} with sha256 {sha256}",
            "configure the index that the lock was made with, or lock again: envbuild lock --upgrade",
        )
    return places


def _stub_name(source: SourceFile) -> str:
    return f"{source.package.replace('-', '_')}-{source.version}-py3-none-any.whl"


def _write_stub(path: Path, source: SourceFile) -> None:
    """Write a wheel that has nothing but a name and a version."""
    info = f"{source.package.replace('-', '_')}-{source.version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {source.package}\nVersion: {source.version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: envbuild\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={digest},{len(text)}\n")
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join([*lines, f"{info}/RECORD,,\n"]))
