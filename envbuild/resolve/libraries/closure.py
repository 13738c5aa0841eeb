"""Shared libraries: whether wheels and OS layer together provide everything that the objects in wheels need."""

from __future__ import annotations

import io
import lzma
import re
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from envbuild.core import package_data
from envbuild.core.digest import sha256_file
from envbuild.core.types import Value, prepare_types
from envbuild.errors import BuildError, IntegrityError
from envbuild.lockfile.model import Lock, PythonPackage
from envbuild.resolve.libraries.imports import is_extension, loaded_on_import
from envbuild.resolve.libraries.wheels import Object, WheelLibraries, known_libraries, scan_unpacked, scan_wheel

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = [
    "Missing",
    "Object",
    "WheelLibraries",
    "accepted",
    "added_os_packages",
    "checker",
    "deb_sonames",
    "known_libraries",
    "missing_libraries",
    "opened_by_name",
    "package_for",
    "scan_unpacked",
    "scan_wheel",
    "sonames_in",
    "split_missing",
]

# Folders that the dynamic linker looks into without configuration: ld.so(8), and Debian's /etc/ld.so.conf.d.
_LIBRARY = re.compile(
    r"(?:\.?/)?(?:usr/(?:local/)?)?lib(?:32|64|x32)?/(?:[a-z0-9_]+-linux-gnu[a-z0-9_]*/)?([^/]+\.so(?:\.[^/]*)?)"
)
_MOST_SHOWN = 6
"""Libraries named in a note."""

Unpacked = Mapping[str, Mapping[str, tuple[Path, int, int]]]
"""By SHA-256 of a wheel and member: the file that holds an ELF object unpacked, with offset and size there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """A library that nothing provides.

    Attributes:
        wheel: file name of the wheel.
        file: path in the wheel of the first object that needs it.
        soname: what it asks for.
    """

    wheel: str
    file: str
    soname: str


class Exemption(Value, frozen=True, kw_only=True, rename=None):
    """A need that is no error: patterns of the name, the wheel and the file, and why; ``note``: it is reported."""

    soname: str
    why: str
    wheel: str = "*"
    file: str = "*"
    note: bool = False


class Opened(Value, frozen=True, kw_only=True, rename=None):
    """What a distribution loads by name or starts as a program.

    Attributes:
        name: of the distribution, normalised.
        what: library or program, for messages.
        package: Debian package that has it; by release, if they differ.
        any: only its wheel for any platform lacks it.
        unless: distributions that bring it.
    """

    name: str
    what: str
    package: str | dict[str, str]
    any: bool = False
    unless: tuple[str, ...] = ()


class Table(Value, frozen=True, kw_only=True, rename=None):
    """The data file: exemptions, Debian packages by soname, what known distributions need, and what they load."""

    assumed: tuple[str, ...]
    baseline: tuple[str, ...]
    known: dict[str, tuple[str, ...]]
    debian: dict[str, str | dict[str, str]]
    exempt: tuple[Exemption, ...]
    opened: tuple[Opened, ...]


@cache
def table() -> Table:
    """Return the checked contents of the data file."""
    return msgspec.toml.decode(package_data.data("libraries.toml"), type=Table)


def package_for(soname: str, release: str) -> str:
    """Return the Debian package that ships a library, or an empty string if the table does not know it.

    Args:
        release: such as ``debian-12``.
    """
    return _in_release(table().debian.get(soname, ""), release)


def _in_release(entry: str | Mapping[str, str], release: str) -> str:
    """Return a package's name in a release: an entry is one name, or a name by release with one for the others."""
    return entry if isinstance(entry, str) else entry.get(release, entry.get("otherwise", ""))


def added_os_packages(
    packages: Sequence[PythonPackage], release: str = "debian-12", libraries: Iterable[WheelLibraries] = ()
) -> dict[str, str]:
    """Return the OS packages that wheels need, by name, each with the reason as text.

    Args:
        packages: the wheels of a lock; none at all: what any wheel with compiled code would need.
        release: such as ``debian-12``.
        libraries: what is known of the wheels' objects. It adds packages, but changes no reason that exists without
            it, since a lock must not depend on which wheels happen to be available.
    """
    compiled = {p.name: p.version for p in packages if not p.wheel.name.endswith("-any.whl")}
    reasons: dict[str, str] = {}
    for key, sonames in table().known.items():
        name, _, since = key.partition(">=")
        if name in compiled and _since(compiled[name], since):
            for soname in sonames:
                reasons.setdefault(package_for(soname, release), f"needed by {name} ({soname})")
    for soname in table().baseline if compiled or not packages else ():
        reasons.setdefault(package_for(soname, release), f"manylinux baseline ({soname})")
    for lack in missing_libraries(libraries, table().assumed):
        name = lack.wheel.split("-", 1)[0].replace("_", "-").lower()
        reasons.setdefault(package_for(lack.soname, release), f"needed by {name} ({lack.soname})")
    reasons.pop("", None)
    return dict(sorted(reasons.items()))


def opened_by_name(
    packages: Sequence[PythonPackage], os_packages: Iterable[str], release: str
) -> dict[str, tuple[str, ...]]:
    """Return the Debian packages whose libraries and programs wheels ask for by name, and that are not there.

    Args:
        packages: the wheels of a lock.
        os_packages: names of its Debian packages.
        release: such as ``debian-12``.

    Returns:
        By name of the Debian package, in the order of names: who needs it and for what, as texts.
    """
    wheels = {package.name: package.wheel.name for package in packages}
    there = set(os_packages)
    found: dict[str, list[str]] = {}
    for entry in table().opened:
        debian = _in_release(entry.package, release)
        wheel = wheels.get(entry.name, "")
        if not wheel or not debian or debian in there or not wheels.keys().isdisjoint(entry.unless):
            continue
        if wheel.endswith("-any.whl") or not entry.any:
            found.setdefault(debian, []).append(f"{entry.name}: {entry.what}")
    return {name: tuple(found[name]) for name in sorted(found)}


def _since(version: str, first: str) -> bool:
    """Return whether a version is not below another; an empty one is below all."""
    from packaging.version import Version

    return not first or Version(version) >= Version(first)


def missing_libraries(
    wheels: Iterable[WheelLibraries], os_sonames: Iterable[str], architecture: str = "amd64"
) -> list[Missing]:
    """Return what neither wheels nor the OS layer provide, sorted, once per wheel and name.

    A library of any wheel counts for all wheels, since packages load each other's libraries by path (NVIDIA's do).
    Programs, objects of other architectures and the exemptions of the data file are left alone.

    Args:
        os_sonames: library names of the OS layer, as ``sonames_in`` gives them.
        architecture: Debian's name of the target's architecture.
    """
    return _first_of_each(_lacks(list(wheels), os_sonames, architecture))


def _lacks(wheels: Sequence[WheelLibraries], os_sonames: Iterable[str], architecture: str) -> Iterator[Missing]:
    """Yield every need that neither wheels nor the OS layer meet; exempt ones only where they are to be reported."""
    there = frozenset(os_sonames).union(*(wheel.provides for wheel in wheels))
    for wheel in wheels:
        for item in wheel.objects:
            if item.program or item.machine != architecture:
                continue
            for soname in item.needed:
                if soname.rsplit("/", 1)[-1] not in there and not _exempt(soname, wheel.wheel, item.file):
                    yield Missing(wheel=wheel.wheel, file=item.file, soname=soname)


def _first_of_each(lacks: Iterable[Missing]) -> list[Missing]:
    """Return needs sorted, once per wheel and name."""
    found: dict[tuple[str, str], Missing] = {}
    for lack in lacks:
        found.setdefault((lack.wheel, lack.soname), lack)
    return [found[key] for key in sorted(found)]


def split_missing(
    lacks: Sequence[Missing], wheels: Sequence[WheelLibraries], paths: Mapping[str, Path], release: str
) -> tuple[list[Missing], list[Missing]]:
    """Return the needs without which a wheel cannot be imported, and the others.

    Needed is what importing the wheel's packages loads (``imports.loaded_on_import``), and all that it is linked to.
    What no extension module is linked to is loaded by name, by code that cannot be followed: several
    such objects are usually one for each kind of hardware, so if none of a wheel can be loaded, one is needed: the one
    that lacks least.

    Args:
        lacks: of every object, as ``_lacks`` gives them.
        paths: the wheels' files by file name.
        release: such as ``debian-12``; what a package of it ships is lacked less than what none does.
    """
    graph = _Links(wheels)
    lacking: dict[_Key, list[Missing]] = {}
    for lack in lacks:
        lacking.setdefault((lack.wheel, lack.file), []).append(lack)
    broken = graph.users_of(lacking)

    def lacked(key: _Key) -> tuple[int, int, _Key]:
        sonames = {lack.soname for used in graph.used_by({key}) for lack in lacking.get(used, ())}
        return sum(not package_for(soname, release) for soname in sonames), len(sonames), key

    needed: set[_Key] = set()
    for wheel in wheels:
        if not any((wheel.wheel, item.file) in broken for item in wheel.objects):
            continue
        files = [item.file for item in wheel.objects]
        loaded = {(wheel.wheel, file) for file in loaded_on_import(paths[wheel.wheel], files)}
        needed |= graph.used_by(loaded & broken)
        if not loaded and not any(map(is_extension, files)):
            tops = graph.tops(wheel)
            needed |= graph.used_by({min(tops, key=lacked)}) if tops and tops <= broken else set()
    hard = [lack for lack in lacks if (lack.wheel, lack.file) in needed and not _noted(lack)]
    named = {(lack.wheel, lack.soname) for lack in hard}
    return _first_of_each(hard), _first_of_each(lack for lack in lacks if (lack.wheel, lack.soname) not in named)


_Key = tuple[str, str]
"""Wheel and file of an object."""


class _Links:
    """Which object is linked to which, across wheels."""

    def __init__(self, wheels: Sequence[WheelLibraries]) -> None:
        names: dict[str, set[_Key]] = {}
        for wheel in wheels:
            for item in wheel.objects:
                for name in filter(None, (item.file.rsplit("/", 1)[-1], item.soname)):
                    names.setdefault(name, set()).add((wheel.wheel, item.file))
        self._uses: dict[_Key, set[_Key]] = {}
        self._users: dict[_Key, set[_Key]] = {}
        for wheel in wheels:
            for item in wheel.objects:
                key = (wheel.wheel, item.file)
                used = set().union(*(names.get(name.rsplit("/", 1)[-1], set()) for name in item.needed))
                self._uses[key] = used
                for other in used:
                    self._users.setdefault(other, set()).add(key)

    def used_by(self, keys: Iterable[_Key]) -> set[_Key]:
        """Return objects with everything that they are linked to, directly or not."""
        return _reached(keys, self._uses)

    def users_of(self, keys: Iterable[_Key]) -> set[_Key]:
        """Return objects with everything that is linked to them, directly or not."""
        return _reached(keys, self._users)

    def tops(self, wheel: WheelLibraries) -> set[_Key]:
        """Return the objects of a wheel that no other object of it is linked to."""
        keys = {(wheel.wheel, item.file) for item in wheel.objects if not item.program}
        return {key for key in keys if not (self._users.get(key, set()) - {key}) & keys}


def _reached(start: Iterable[_Key], arrows: Mapping[_Key, set[_Key]]) -> set[_Key]:
    found = set(start)
    pending = list(found)
    while pending:
        fresh = arrows.get(pending.pop(), set()) - found
        found |= fresh
        pending += fresh
    return found


def accepted(lack: Missing, patterns: Iterable[str]) -> bool:
    """Return whether a spec accepts that a library is missing: patterns ``SONAME`` or ``PACKAGE:SONAME``."""
    name = lack.wheel.split("-", 1)[0].replace("_", "-").replace(".", "-").lower()
    for pattern in patterns:
        package, _, soname = pattern.rpartition(":")
        package = package.replace("_", "-").replace(".", "-").lower()
        if fnmatchcase(lack.soname, soname) and (not package or fnmatchcase(name, package)):
            return True
    return False


def checker(
    lock: Lock,
    cache_dir: Path,
    find_package: Callable[[str], Sequence[str]] | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Callable[[Iterable[str], Sequence[Path], Unpacked], None]:
    """Return the check of a lock's image: called with the OS layer's files, the wheels, and where they are unpacked.

    It raises ``BuildError`` if importing a wheel needs a library that neither wheels nor OS layer have.

    Args:
        cache_dir: folder that keeps what was found in wheels.
        find_package: names the Debian packages that ship a library which the built-in table does not know.
        note: receives a sentence for each wheel that lacks libraries which importing it does not need, and for each
            that was compiled for another NumPy.
    """
    names = {package.wheel.sha256: package.wheel.name for package in lock.packages}

    def check(os_files: Iterable[str], wheels: Sequence[Path], unpacked: Unpacked) -> None:
        there = sonames_in(os_files)
        scanned, paths = [], {}
        for path in wheels:
            digest = f"{path.parent.name}{path.name}"
            digest = digest if digest in names else sha256_file(path)
            name = names.get(digest, path.name)
            paths[name] = path
            if digest in unpacked:
                scanned.append(scan_unpacked(unpacked[digest], digest, cache_dir, name))
            else:
                scanned.append(scan_wheel(path, digest, cache_dir, name))
        found = _lacks(scanned, there, lock.os.architecture)
        lacks = [lack for lack in found if not accepted(lack, lock.missing_libraries)]
        needed, others = split_missing(lacks, scanned, paths, lock.os.release) if lacks else ([], [])
        for text in (*_notes(others, lock.os.release), *_compiled_for_numpy_1(scanned, paths, lock)):
            note(text)
        if needed:
            raise _missing_error(needed, lock, find_package)

    return check


def _notes(lacks: Iterable[Missing], release: str) -> Iterator[str]:
    """Yield a sentence for each wheel: what it lacks, and the packages that are known to ship that."""
    by_wheel: dict[str, list[str]] = {}
    for lack in lacks:
        by_wheel.setdefault(lack.wheel, []).append(lack.soname)
    for wheel, sonames in by_wheel.items():
        more = f" and {len(sonames) - _MOST_SHOWN} more" if len(sonames) > _MOST_SHOWN else ""
        shown = ", ".join(sonames[:_MOST_SHOWN]) + more
        packages = sorted({package_for(soname, release) for soname in sonames} - {""})
        way = f"; for some of them add packages: [{', '.join(packages)}]" if packages else ""
        count = "a library is" if len(sonames) == 1 else f"{len(sonames)} libraries are"
        yield f"{wheel}: {count} missing that importing it does not load, by its sources: {shown}{way}"


def _compiled_for_numpy_1(wheels: Iterable[WheelLibraries], paths: Mapping[str, Path], lock: Lock) -> Iterator[str]:
    """Yield a sentence for each wheel with modules that the locked NumPy refuses: their metadata allow any version."""
    numpy = next((package.version for package in lock.packages if package.name == "numpy"), "")
    if not numpy or not _since(numpy, "2"):
        return
    for wheel in wheels:
        refused = [item.file for item in wheel.objects if item.numpy_1]
        if not refused:
            continue
        files = [item.file for item in wheel.objects]
        loaded = [file for file in loaded_on_import(paths[wheel.wheel], files) if file in refused]
        name, version = wheel.wheel.split("-")[:2]
        what = "importing it fails" if loaded else "what loads them fails"
        yield (
            f"{name} {version} was compiled for NumPy 1, and numpy {numpy} is locked: {what} "
            f"({(loaded or refused)[0]}); write requirements: [numpy<2], or a newer {name}, and lock again"
        )


def _missing_error(
    lacks: Sequence[Missing], lock: Lock, find_package: Callable[[str], Sequence[str]] | None
) -> BuildError:
    """Name each library, who needs it, and the packages to add."""
    packages: list[str] = []
    lines = []
    for lack in lacks:
        package = package_for(lack.soname, lock.os.release)
        if not package and find_package is not None:
            package = next(iter(find_package(lack.soname)), "")
        if package and package not in packages:
            packages.append(package)
        shipped = f", which {package} ships" if package else ", which no known package ships"
        lines.append(f"  {lack.wheel}: {lack.file} needs {lack.soname}{shipped}")
    count = len(lacks)
    hint = f"add to the spec and lock again:  packages: [{', '.join(packages)}]" if packages else ""
    if lock.os.image and packages:
        hint = f"install them in the base image, and lock its new digest: {', '.join(packages)}"
    other = "put the libraries into a wheel of your own, or use another wheel of these packages"
    names = ", ".join(dict.fromkeys(lack.soname for lack in lacks))
    accept = f"; if your program does without them:  missing-libraries: [{names}]"
    head = f"{count} shared librar{'y is' if count == 1 else 'ies are'} missing from the image"
    return BuildError("\n".join([head, *lines]), (hint or other) + accept)


def sonames_in(paths: Iterable[str]) -> set[str]:
    """Return the libraries that the dynamic linker finds by name, of the paths of an OS layer or package."""
    return {match[1] for path in paths if (match := _LIBRARY.fullmatch(path))}


def deb_sonames(path: Path) -> set[str]:
    """Return the library names that a .deb ships. deb(5), ar(5).

    Raises:
        IntegrityError: not a readable Debian package.
    """
    try:
        with path.open("rb") as stream:
            for name, size in _ar_members(stream):
                if name.startswith("data.tar"):
                    packed: BinaryIO = io.BytesIO(stream.read(size))
                    if name.endswith(".zst"):  # Ubuntu's; tarfile knows it from Python 3.14 on
                        packed = cast(BinaryIO, zstd.ZstdFile(packed))
                    with tarfile.open(fileobj=packed, mode="r:*") as data:
                        return sonames_in(member.name for member in data if member.isfile() or member.issym())
                stream.seek(size + size % 2, io.SEEK_CUR)
    except (OSError, EOFError, ValueError, tarfile.TarError, lzma.LZMAError, zlib.error, zstd.ZstdError) as error:
        raise IntegrityError(f"{path.name}: not a readable Debian package: {error}") from None
    raise IntegrityError(f"{path.name}: not a readable Debian package: no data archive")


def _ar_members(stream: BinaryIO) -> Iterator[tuple[str, int]]:
    """Yield name and size of each member; the caller reads or skips its bytes."""
    if stream.read(8) != b"!<arch>\n":
        raise ValueError("no ar archive")
    while len(head := stream.read(60)) == 60:
        yield head[:16].decode("ascii").strip().rstrip("/"), int(head[48:58])


def _exempt(soname: str, wheel: str, file: str) -> bool:
    """Return whether the data file states that a need is no error and not worth a note."""
    return any(not rule.note for rule in _rules(soname, wheel, file))


def _noted(lack: Missing) -> bool:
    """Return whether the data file states that a need is no error, but to be reported."""
    return any(rule.note for rule in _rules(lack.soname, lack.wheel, lack.file))


def _rules(soname: str, wheel: str, file: str) -> Iterator[Exemption]:
    for rule in table().exempt:
        if fnmatchcase(soname, rule.soname) and fnmatchcase(wheel, rule.wheel) and fnmatchcase(file, rule.file):
            yield rule


prepare_types(Table)
