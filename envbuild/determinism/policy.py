"""Determinism as environment variables and switches: which ones, for which framework and version, and why.

The facts live in ``data/determinism.toml``, one row per variable or switch with its source; ``policy_docs`` makes
``docs/reference/determinism.md`` of them, ``policy_runtime`` the tables that the start-up hook reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import msgspec

from envbuild.core import package_data
from envbuild.core.types import Value, prepare_types
from envbuild.errors import Problem
from envbuild.lockfile.hardware import Cuda
from envbuild.lockfile.model import Determinism, PythonPackage

LEVELS = ("", "seeds", "ops", "portable")
"""How much is pinned, rising; a row without a level applies always."""


class Variable(Value, frozen=True, kw_only=True, rename=None):
    """One row: a variable, when it applies, and why. The attributes are explained in the data file."""

    name: str
    value: str
    cause: int
    why: str
    source: str
    read_back: str
    join: bool = False
    framework: str = ""
    versions: str = ""
    requires: tuple[str, ...] = ()
    architecture: tuple[str, ...] = ()
    cpu: tuple[str, ...] = ()
    level: str = ""
    cost: str = ""


class Switch(Value, frozen=True, kw_only=True, rename=None):
    """One row: what the hook sets in a framework, or reads back from it. The data file explains the attributes."""

    name: str
    framework: str
    cause: int
    cost: str
    why: str
    source: str
    read_back: str
    value: bool | str = ""
    variable: str = ""
    versions: str = ""
    level: str = ""
    gpu: bool = False


class Forbidden(Value, frozen=True, kw_only=True, rename=None):
    """A variable that must not have a value matching a regular expression as a whole; ``when`` states it as text."""

    name: str
    value: str
    when: str
    message: str
    cause: int


class Table(Value, frozen=True, kw_only=True, rename=None):
    """The whole data file; ``frameworks`` maps distributions to the framework each of them shows."""

    variable: tuple[Variable, ...]
    switch: tuple[Switch, ...]
    forbidden: tuple[Forbidden, ...]
    frameworks: dict[str, str]


@cache
def table() -> Table:
    """Return the checked contents of the data file."""
    return msgspec.toml.decode(package_data.data("determinism.toml"), type=Table)


def frameworks_of(packages: Iterable[PythonPackage]) -> dict[str, str]:
    """Return the version of each framework that the table knows, by framework name, sorted.

    A distribution named like its framework wins over its variants.
    """
    known = table().frameworks
    found: dict[str, str] = {}
    for package in packages:
        framework = known.get(package.name)
        if framework and (package.name == framework or framework not in found):
            found[framework] = package.version
    return dict(sorted(found.items()))


def environment(
    frameworks: Mapping[str, str], determinism: Determinism, architecture: str = "amd64", cpu: str = "any"
) -> dict[str, str]:
    """Return the variables to export in an image, sorted by name.

    Args:
        frameworks: version of each framework, as ``frameworks_of`` gives them.
        determinism: seed, threads and level.
        architecture: Debian's name of the target's architecture.
        cpu: the locked ``hardware.cpu``, the instructions that level ``portable`` allows.
    """
    chosen: dict[str, str] = {}
    for row in table().variable:
        if not _applies(row, frameworks, determinism.level, architecture, cpu):
            continue
        value = row.value.format(seed=determinism.seed, threads=determinism.threads)
        chosen[row.name] = f"{chosen[row.name]} {value}" if row.join and row.name in chosen else value
    return dict(sorted(chosen.items()))


def with_own(environment: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with a person's own, which win; of a variable made of flags each flag wins by itself.

    Args:
        environment: as ``environment`` gives it.
        own: variables that a person asks for.
    """
    joined = {row.name for row in table().variable if row.join}
    chosen = {**environment, **own}
    for name in joined.intersection(environment).intersection(own):
        named = {flag.partition("=")[0] for flag in own[name].split()}
        kept = [flag for flag in environment[name].split() if flag.partition("=")[0] not in named]
        chosen[name] = " ".join([*kept, own[name]])
    return dict(sorted(chosen.items()))


def gpu_environment(cuda: Cuda | None) -> dict[str, str]:
    """Return the variables by which NVIDIA's container toolkit serves an image; none without CUDA.

    ``NVIDIA_DRIVER_CAPABILITIES``: ``compute`` brings libcuda, ``utility`` NVML, which the guard asks.
    ``NVIDIA_REQUIRE_CUDA``: the toolkit refuses an older driver before the container starts. It is a second line of
    defence: only the toolkit's legacy and CSV modes enforce it, CDI ignores it. A comma is AND. It asks for no more
    than the guard does, the first CUDA of the major version, since minor versions are compatible. A value also keeps
    the toolkit from handing all GPUs to an image with ``CUDA_VERSION`` whatever was asked for.

    No engine sets these two when it is asked for GPUs by the capability ``gpu`` or by CDI, so the guard finds them as
    locked.

    Sources: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html;
    libnvidia-container's src/cli/dsl.c; nvidia-container-toolkit's internal/config/image/cuda_image.go; moby's
    daemon/devices_nvidia_linux.go; https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html.
    """
    if cuda is None:
        return {}
    return {
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "NVIDIA_REQUIRE_CUDA": f"cuda>={cuda.version.partition('.')[0]}.0,driver>={cuda.driver}",
    }


def forbidden(env: Mapping[str, str], path: str = "environment") -> list[Problem]:
    """Return a problem for each variable whose value undoes determinism or breaks a framework.

    Args:
        env: variables that a person asks for.
        path: field path that the variables are under.
    """
    return [
        Problem(path=f"{path}.{row.name}", message=f'"{env[row.name]}" {row.message}')
        for row in table().forbidden
        if row.name in env and re.fullmatch(row.value, env[row.name], re.DOTALL)
    ]


def explain() -> Sequence[Variable]:
    """Return every row, in the order of the data file."""
    return table().variable


def _applies(row: Variable, frameworks: Mapping[str, str], level: str, architecture: str, cpu: str) -> bool:
    """Return whether all conditions of a row hold."""
    if LEVELS.index(row.level) > LEVELS.index(level):
        return False
    if (row.architecture and architecture not in row.architecture) or (row.cpu and cpu not in row.cpu):
        return False
    needed = (row.framework, *row.requires) if row.framework else row.requires
    if any(name not in frameworks for name in needed):
        return False
    return not row.versions or _within(frameworks[row.framework], row.versions)


def _within(version: str, versions: str) -> bool:
    """Return whether a version is in a range; a pre-release counts as the release it leads to."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    return SpecifierSet(versions).contains(Version(version).base_version)


prepare_types(Table)
