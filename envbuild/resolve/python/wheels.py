"""Which wheel a target takes, and what a resolver's PEP 751 output offers for it.

Nothing here looks at the host: tags are made for the target alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from envbuild.errors import ResolveError

if TYPE_CHECKING:
    from packaging.tags import Tag

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - exercised by the 3.10 job
    import tomli as tomllib

_PLATFORM = re.compile(r"manylinux_2_([0-9]{1,3})_(x86_64|aarch64)")
_PYTHON = re.compile(r"3\.([0-9]{1,2})(?:\.[0-9]{1,2})?")
_OLDEST = {"x86_64": 5, "aarch64": 17}
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
BUILD_ONE = (
    "build one on a machine like the target and name its folder in the spec: pip wheel --no-deps -w wheels {} "
    "(then  wheels: [wheels])"
)


def way_out(lacking: Iterable[str]) -> str:
    """Return what to do about requirements, PEP 508 lines, that no wheel meets: the lines to add to the spec."""
    lines = list(dict.fromkeys(lacking))
    names = ", ".join(dict.fromkeys(map(project_of, lines)))
    own = BUILD_ONE.format(" ".join(map(shell_word, lines)))
    return f"let envbuild build it from source, which runs its code in a sandbox:  sources: [{names}]; or {own}"


def project_of(requirement: str) -> str:
    """Return the normalised name that a requirement starts with."""
    from packaging.utils import canonicalize_name

    return canonicalize_name(re.match(r"[A-Za-z0-9._-]*", requirement)[0])  # type: ignore[index]  # matches anything


class NoWheelError(ResolveError):
    """Nothing fits for want of wheels: ``lacking`` has the requirements that no wheel meets."""

    def __init__(self, message: str, hint: str, lacking: tuple[str, ...]) -> None:
        super().__init__(message, hint)
        self.lacking = lacking


def shell_word(requirement: str) -> str:
    """Return a requirement as a word of a shell."""
    return requirement if re.fullmatch(r"[A-Za-z0-9._=-]+", requirement) else f"'{requirement}'"


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The interpreter and platform that wheels are chosen for.

    Attributes:
        python: version such as ``3.11`` or ``3.11.2``.
        platform: newest platform tag accepted, such as ``manylinux_2_36_x86_64``.
    """

    python: str
    platform: str

    def __post_init__(self) -> None:
        """Check both; raises ``ResolveError``."""
        if not _PYTHON.fullmatch(self.python):
            raise ResolveError(f"python: expected a version such as 3.11, found {self.python!r}")
        if not _PLATFORM.fullmatch(self.platform):
            raise ResolveError(
                f"no wheels can be chosen for the platform {self.platform}",
                "supported are manylinux_2_N_x86_64 (amd64) and manylinux_2_N_aarch64 (arm64)",
            )

    @property
    def feature(self) -> str:
        """The feature release, such as ``3.11``."""
        return ".".join(self.python.split(".")[:2])

    @property
    def glibc(self) -> int:
        """Minor number of the newest C library accepted."""
        return int(self.platform.split("_")[2])

    @property
    def machine(self) -> str:
        """``x86_64`` or ``aarch64``."""
        return self.platform.split("_", 3)[3]

    def __str__(self) -> str:
        """Describe it, for messages."""
        return f"Python {self.feature} on {self.platform}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One wheel that a resolver offers.

    Attributes:
        location: address, or absolute path.
        sha256: digest as the index gives it; empty if it gives none.
        size: bytes as the index gives them, or None.
    """

    package: str
    version: str
    file: str
    location: str
    sha256: str = ""
    size: int | None = None


@cache
def ranks(target: Target) -> dict[Tag, int]:
    """Return the target's tags, each with its rank; 0 is the best. PEP 425, PEP 600."""
    from packaging import tags

    minor = int(target.feature.split(".")[1])
    platforms = []
    for glibc in range(target.glibc, _OLDEST[target.machine] - 1, -1):
        platforms.append(f"manylinux_2_{glibc}_{target.machine}")
        if glibc in _LEGACY:
            platforms.append(f"{_LEGACY[glibc]}_{target.machine}")
    platforms.append(f"linux_{target.machine}")
    own = tags.cpython_tags((3, minor), abis=[f"cp3{minor}"], platforms=platforms)
    common = tags.compatible_tags((3, minor), interpreter=f"cp3{minor}", platforms=platforms)
    found: dict[Tag, int] = {}
    for tag in (*own, *common):
        found.setdefault(tag, len(found))
    return found


def best(candidates: Iterable[Candidate], target: Target, known: Mapping[str, str] | None = None) -> Candidate | None:
    """Return the wheel that an installer on the target would take, or None if none fits.

    Args:
        known: digest by file name of wheels that an earlier lock holds; such a wheel is kept if it is still offered.
    """
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    order = ranks(target)
    fitting: list[tuple[tuple[Any, ...], Candidate]] = []
    for position, candidate in enumerate(candidates):
        try:
            _, _, build, file_tags = parse_wheel_filename(candidate.file)
        except InvalidWheelFilename:
            continue
        rank = min((order[tag] for tag in file_tags if tag in order), default=None)
        if rank is None:
            continue
        if known and candidate.sha256 and known.get(candidate.file) == candidate.sha256:
            return candidate
        newest_build = (-build[0], tuple(-ord(letter) for letter in build[1])) if build else (0, ())
        fitting.append(((rank, newest_build, position), candidate))
    return min(fitting, key=lambda item: item[0])[1] if fitting else None


def read_pylock(data: bytes, folder: Path) -> dict[str, list[Candidate]]:
    """Return the wheels that a PEP 751 file offers, by package name.

    Args:
        folder: folder of the file, which relative paths start from.

    Raises:
        ResolveError: a package comes from a version control system or a folder, or has no wheel.
    """
    offered: dict[str, list[Candidate]] = {}
    for package in tomllib.loads(data.decode()).get("packages", []):
        name = package["name"]
        if "vcs" in package or "directory" in package:
            place = package.get("directory", {}).get("path", "")
            raise ResolveError(
                f"{name} comes from sources, but an image takes wheels only", BUILD_ONE.format(place or "ADDRESS")
            )
        files = [*package.get("wheels", []), *([package["archive"]] if "archive" in package else [])]
        found = [_candidate(name, package.get("version", ""), entry, folder) for entry in files]
        wheels = [candidate for candidate in found if candidate.file.endswith(".whl")]
        if not wheels:
            line = f"{name}=={package['version']}" if "version" in package else name
            raise NoWheelError(f"{line} has no wheel, and an image takes wheels only", way_out([line]), (line,))
        offered.setdefault(name, []).extend(wheels)
    return offered


def choose(
    offered: Mapping[str, Sequence[Candidate]], target: Target, known: Mapping[str, str] | None = None
) -> list[Candidate]:
    """Return the best wheel of each package, sorted by name.

    Raises:
        ResolveError: packages without a wheel for the target, all of them named.
    """
    chosen = {name: best(candidates, target, known) for name, candidates in offered.items()}
    lacking = sorted(
        f"{name}=={offered[name][0].version}" if offered[name] else name
        for name, candidate in chosen.items()
        if candidate is None
    )
    if lacking:
        raise NoWheelError(f"no wheel for {target}: {', '.join(lacking)}", way_out(lacking), tuple(lacking))
    return sorted((c for c in chosen.values() if c is not None), key=lambda candidate: candidate.package)


def _candidate(name: str, version: str, entry: Mapping[str, Any], folder: Path) -> Candidate:
    """Read one wheel or archive table."""
    location = str(entry.get("url") or folder / str(entry["path"]))
    parts = urlsplit(location)
    if parts.scheme == "file":
        location = unquote(parts.path)
    file = entry.get("name") or unquote(urlsplit(location).path if "://" in location else location).rsplit("/", 1)[-1]
    if not version and file.endswith(".whl"):
        version = file.split("-")[1]
    digest = entry.get("hashes", {}).get("sha256", "")
    return Candidate(package=name, version=version, file=file, location=location, sha256=digest, size=entry.get("size"))
