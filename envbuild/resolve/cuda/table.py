"""What is known of CUDA: which wheels go with which, which drivers load it, which GPUs it supports.

Two data files: ``data/cuda.toml`` is written by hand, each row with its source; ``data/cuda-wheels.toml`` is derived
from the metadata of the wheels themselves by ``python -m tools.cuda_wheels``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import msgspec

from envbuild.core import package_data
from envbuild.core.types import Capability, CudaVersion, DriverVersion, Value, prepare_types

Span = tuple[tuple[int, ...], tuple[int, ...]]
"""Versions from the first on and below the second; an empty second is open."""


class Release(Value, frozen=True, kw_only=True, rename=None, omit_defaults=True):
    """A feature release of a framework in one CUDA variant, from its wheels' metadata.

    Attributes:
        framework: ``tensorflow``, ``torch`` or ``jax``.
        version: feature release such as ``2.21``.
        releases: its releases on the index, oldest first; the metadata read are those of the last.
        python: feature releases of Python that the last has wheels for, on Linux and x86-64.
        extra: extra that asks for the CUDA wheels; empty if they are plain dependencies.
        cuda: versions of the CUDA runtime that it asks for, as a PEP 440 specifier.
        cudnn, nccl: the same.
        runtime: name of the distribution with the CUDA runtime.
        metadata: the wheel that was read: the source.
    """

    framework: str
    version: str
    releases: tuple[str, ...]
    python: tuple[str, ...]
    extra: str = ""
    cuda: str
    cudnn: str = ""
    nccl: str = ""
    runtime: str
    metadata: str

    @property
    def major(self) -> int:
        """The CUDA major that its wheels are for."""
        return span(self.cuda)[0][0]


class Toolkit(Value, frozen=True, kw_only=True, rename=None):
    """The wheels of one CUDA toolkit, by distribution, each with its version in the toolkit's first release."""

    cuda: CudaVersion
    wheels: dict[str, str]
    metadata: str


class Derived(Value, frozen=True, kw_only=True, rename=None):
    """The derived data file."""

    release: tuple[Release, ...]
    toolkit: tuple[Toolkit, ...]


class Sourced(Value, frozen=True, kw_only=True):
    """A row written by hand; ``source`` is a key of ``sources``."""

    source: str


class Floor(Sourced, frozen=True, kw_only=True):
    """The least Linux driver that loads a CUDA major (minor-version compatibility)."""

    major: int
    driver: DriverVersion


class ToolkitDriver(Sourced, frozen=True, kw_only=True):
    """The Linux driver that a toolkit was released with."""

    cuda: CudaVersion
    driver: DriverVersion


class Architecture(Sourced, frozen=True, kw_only=True):
    """A GPU architecture: ``since`` is the first CUDA that compiles for it, ``until`` the last, empty for today's."""

    name: str
    capability: Capability
    since: CudaVersion
    until: str = ""


class Build(Sourced, frozen=True, kw_only=True):
    """What a framework's wheels were built with: its versions as a PEP 440 specifier.

    Attributes:
        builds_on: the CUDA that these versions were built with; empty: see the metadata.
        major: CUDA major the row holds for, 0 for any.
        cuda: CUDA version the row holds for; empty for any.
        cubins: compute capabilities with machine code; it runs on the same major and an equal or higher minor.
        ptx: compute capabilities with PTX, which runs on an equal or any higher one.
    """

    framework: str
    versions: str
    cuda: str = ""
    major: int = 0
    cudnn: str = ""
    builds_on: str = ""
    cubins: tuple[Capability, ...] = ()
    ptx: tuple[Capability, ...] = ()


class Other(Sourced, frozen=True, kw_only=True):
    """CUDA versions that a framework is built for next to the package index's, on a separate index."""

    framework: str
    versions: str
    cuda: tuple[CudaVersion, ...]


class Model(Sourced, frozen=True, kw_only=True):
    """A GPU model as NVML names it; ``sms`` of a whole GPU, 0 for unknown."""

    name: str
    capability: Capability
    sms: int = 0


class Written(Value, frozen=True, kw_only=True, rename=None):
    """The data file written by hand."""

    sources: dict[str, str]
    floor: tuple[Floor, ...]
    toolkit: tuple[ToolkitDriver, ...]
    architecture: tuple[Architecture, ...]
    build: tuple[Build, ...]
    other: tuple[Other, ...]
    model: tuple[Model, ...]


@cache
def written() -> Written:
    """Return the checked rows written by hand."""
    return msgspec.toml.decode(package_data.data("cuda.toml"), type=Written)


@cache
def derived() -> Derived:
    """Return the checked rows derived from metadata."""
    return msgspec.toml.decode(package_data.data("cuda-wheels.toml"), type=Derived)


def releases(framework: str) -> list[Release]:
    """Return the rows of a framework, the newest first."""
    return sorted(
        (row for row in derived().release if row.framework == framework),
        key=lambda row: (numbers(row.version), row.major),
        reverse=True,
    )


def release_of(framework: str, version: str, major: int) -> Release | None:
    """Return the row of a framework's version in a CUDA major, or None if the table does not know it."""
    feature = numbers(version.split("+")[0])[:2]
    for row in derived().release:
        if row.framework == framework and numbers(row.version) == feature and row.major == major:
            return row
    return None


def toolkit(cuda: str) -> Toolkit | None:
    """Return the wheels of a toolkit such as ``12.9``."""
    return next((row for row in derived().toolkit if row.cuda == cuda), None)


def toolkit_wheels(cuda: str) -> dict[str, str]:
    """Return version ranges of a toolkit's wheels: from its own first release to below the next toolkit's.

    What NVIDIA publishes between two toolkits are patches of the earlier one. Empty if the table does not know it.
    """
    own = toolkit(cuda)
    if own is None:
        return {}
    major = numbers(cuda)[0]
    later = [row for row in derived().toolkit if numbers(row.cuda)[0] == major and numbers(row.cuda) > numbers(cuda)]
    following = min(later, key=lambda row: numbers(row.cuda)).wheels if later else {}
    ranges = {}
    for name, first in own.wheels.items():
        end = following.get(name, "")
        ranges[name] = f">={first},<{end}" if end and numbers(end) > numbers(first) else f">={first}"
    return ranges


def floor_driver(cuda: str) -> str:
    """Return the least driver that loads a CUDA version; that of the newest major known if the table lacks it."""
    major = numbers(cuda)[0]
    rows = sorted(written().floor, key=lambda row: row.major)
    return next((row.driver for row in rows if row.major >= major), rows[-1].driver)


def toolkit_driver(cuda: str) -> str:
    """Return the driver that a toolkit was released with, or an empty string if the table does not know it."""
    return next((row.driver for row in written().toolkit if row.cuda == cuda), "")


def architecture(capability: str) -> Architecture | None:
    """Return the architecture of a compute capability, or None if the table does not know it."""
    return next((row for row in written().architecture if row.capability == capability), None)


def model(name: str) -> Model | None:
    """Return what is known of a GPU model, or None; drivers before 470 leave ``NVIDIA`` out of names."""
    short = name.removeprefix("NVIDIA ")
    return next((row for row in written().model if row.name.removeprefix("NVIDIA ") == short), None)


def build(framework: str, version: str, cuda: str) -> Build | None:
    """Return what a framework's wheels were built for, or None if the table does not know this version."""
    for row in written().build:
        if row.framework != framework or not within(version, row.versions):
            continue
        if row.cuda in {"", cuda} and row.major in {0, numbers(cuda)[0]}:
            return row
    return None


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as ``12.9.86``; anything after them is left out."""
    found = []
    for part in version.split("."):
        digits = part[: next((i for i, letter in enumerate(part) if not letter.isdigit()), len(part))]
        if not digits:
            break
        found.append(int(digits))
        if digits != part:
            break
    return tuple(found)


def span(specifier: str) -> Span:
    """Return the bounds of a simple specifier: ``==X``, ``==X.*``, ``~=`` never, ``>=``, ``<=`` and ``<`` joined."""
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    for part in filter(None, specifier.replace(" ", "").split(",")):
        if part.startswith("=="):
            low = numbers(part[2:].removesuffix(".*"))
            high = (*low[:-1], low[-1] + 1)
        elif part.startswith("<="):
            last = numbers(part[2:].removesuffix(".*"))
            high = (*last[:-1], last[-1] + 1)
        elif part.startswith("<"):
            high = numbers(part[1:])
        elif part.startswith(">="):
            low = numbers(part[2:])
    return low, _trimmed(high)


def meets(specifier: str, wanted: str) -> bool:
    """Return whether a version that starts with ``wanted``, such as ``12.5``, can satisfy a specifier."""
    low, high = span(specifier)
    first = numbers(wanted)
    after = (*first[:-1], first[-1] + 1)
    return (not low or low < after) and (not high or first < high)


def within(version: str, versions: str) -> bool:
    """Return whether a version is in a range; local labels and pre-releases count as their release."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    return SpecifierSet(versions).contains(Version(version).base_version)


def span_words(features: Iterable[str]) -> str:
    """Name feature releases: ``2.9 to 2.11``, or ``2.9`` alone."""
    ordered = sorted(set(features), key=numbers)
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def _trimmed(version: tuple[int, ...]) -> tuple[int, ...]:
    """Drop final zeros, so that ``<13.0`` excludes 13 itself."""
    while version and not version[-1]:
        version = version[:-1]
    return version


prepare_types(Written, Derived)
