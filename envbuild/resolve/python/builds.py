"""Standalone builds of CPython: which releases there are, by a table, and which one a lock takes.

The builds are those of the python-build-standalone project, which uv installs. The table is data; it holds paths below
a mirror's root and no addresses (see ``build_sources``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from envbuild.core import package_data
from envbuild.core.fs import read_regular
from envbuild.core.text import one_line
from envbuild.core.types import BuildPath, Line, OptionalSha256, PythonRelease, Value, prepare_types
from envbuild.errors import ResolveError, UsageError
from envbuild.lockfile.model import PythonBuild

FILE = "pythons.toml"
_LIMIT = 1 << 20


class Row(Value, frozen=True, kw_only=True, rename=None):
    """One archive: its path below a mirror's root, and its SHA-256 as uv's own metadata states it; empty: unknown."""

    path: BuildPath
    sha256: OptionalSha256 = ""


class Table(Value, frozen=True, kw_only=True, rename=None):
    """The data file: what it was derived from, and the builds by release of CPython for each Debian architecture."""

    source: tuple[Line, ...] = ()
    amd64: dict[PythonRelease, Row] = msgspec.field(default_factory=dict)
    arm64: dict[PythonRelease, Row] = msgspec.field(default_factory=dict)


@cache
def table() -> Table:
    """Return the checked contents of the data file."""
    return msgspec.toml.decode(package_data.data(FILE), type=Table)


def read_table(path: Path) -> Table:
    """Return the list of builds that a folder has of its own, in the form of the data file.

    Raises:
        UsageError: it cannot be read, or is no such list.
    """
    try:
        return msgspec.toml.decode(read_regular(path, _LIMIT), type=Table)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "make it readable, or remove it") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(
            f"{path}: no list of builds of CPython: {one_line(str(error))}", "correct it, or remove it"
        ) from None


def choose(
    wanted: str, architecture: str, held: PythonBuild | None = None, listed: Table | None = None
) -> tuple[str, Row | PythonBuild]:
    """Return the release of CPython to take, and its archive.

    Args:
        wanted: as a spec states it: a feature release (the newest of it is taken) or a release.
        architecture: Debian's name.
        held: what an earlier lock has for this architecture; it stays if it is what is wanted.
        listed: what there is; None: the packaged table.

    Raises:
        ResolveError: there is no such build.
    """
    if held and (held.version == wanted or held.version.startswith(f"{wanted}.")):
        return held.version, held
    rows: Mapping[str, Row] = getattr(listed or table(), architecture)
    known = {version: rows[version] for version in sorted(rows, key=numbers, reverse=True)}
    for version, row in known.items():
        if version == wanted or version.startswith(f"{wanted}."):
            return version, row
    feature = ".".join(wanted.split(".")[:2])
    same = [version for version in known if version.startswith(f"{feature}.")]
    there = f": of {feature} there are {same[-1]} to {same[0]}" if same else ""
    other = next(iter(same or known), "")
    raise ResolveError(
        f"python: no standalone build of CPython {wanted} for {architecture} is listed{there}",
        f"write python: {other!r} in the spec" if other else "use another mirror of standalone Pythons",
    )


def numbers(version: str) -> tuple[int, ...]:
    """Return a release's numbers, which order releases."""
    return tuple(map(int, version.split(".")))


prepare_types(Table)
