"""Folders of wheels as an index that is asked first: a name that one of them has comes from there only.

uv adds ``find-links`` to whatever index has the name and takes the newest version anywhere, so that a stranger could
replace a private package by publishing a newer one of its name. An index of one's own, listed first, is the only one
that uv asks for the names it has: https://docs.astral.sh/uv/concepts/indexes/#searching-across-multiple-indexes
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from envbuild.core.digest import sha256_file
from envbuild.errors import ResolveError
from envbuild.resolve.python.indexes import Indexes
from envbuild.resolve.python.wheels import Candidate


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalWheels:
    """The wheels of a spec's folders: by normalised name, each wheel's SHA-256 by absolute path, and its version."""

    digests: Mapping[str, Mapping[Path, str]] = field(default_factory=dict)
    versions: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def constraints(self) -> tuple[str, ...]:
        """Return a constraint for each name of which there is one version, for resolvers without ranked indexes."""
        return tuple(f"{name}=={min(found)}" for name, found in sorted(self.versions.items()) if len(found) == 1)

    def only_own(self, offered: Mapping[str, Sequence[Candidate]]) -> dict[str, Sequence[Candidate]]:
        """Return what is offered, of the names that the folders have only the folders' wheels.

        Raises:
            ResolveError: a resolver chose a version that no folder has.
        """
        left: dict[str, Sequence[Candidate]] = {}
        for name, candidates in offered.items():
            own = self.digests.get(name)
            left[name] = candidates if own is None else [c for c in candidates if _is_one(c, own)]
            if own is not None and not left[name]:
                there = ", ".join(sorted(path.name for path in own))
                raise ResolveError(
                    f"{name}: the requirements lead to {candidates[0].version}, which is on an index, but the spec's "
                    f"own wheels are {there}; a name that they have is taken from nowhere else",
                    "put the wanted version into the folder of wheels, or remove those of that name",
                )
        return left


def read_folders(folders: Sequence[Path]) -> LocalWheels:
    """Read which wheels the folders have; files whose names are no wheel's are left out, as uv does."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    digests: dict[str, dict[Path, str]] = {}
    versions: dict[str, set[str]] = {}
    for path in (path for folder in folders for path in sorted(folder.absolute().glob("*.whl"))):
        try:
            name, version, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        digests.setdefault(name, {})[path] = sha256_file(path)
        versions.setdefault(name, set()).add(str(version))
    return LocalWheels(digests=digests, versions={name: frozenset(found) for name, found in versions.items()})


def first_of_all(places: Indexes, local: LocalWheels, folder: Path, environ: Mapping[str, str]) -> Indexes:
    """Return indexes with one of the local wheels before all others; its pages are written into ``folder``."""
    if not local.digests or "--no-index" in places.arguments:
        return places
    for name, wheels in local.digests.items():
        links = (
            f'<a href="{html.escape(path.as_uri())}#sha256={digest}">{html.escape(path.name)}</a><br>'
            for path, digest in wheels.items()
        )
        page = folder / name / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text("<!DOCTYPE html>\n" + "\n".join(links) + "\n", encoding="utf-8")
    others = places.environment.get("UV_INDEX") or environ.get("UV_INDEX", "")
    return replace(places, environment={**places.environment, "UV_INDEX": f"{folder.as_uri()} {others}".strip()})


def _is_one(candidate: Candidate, own: Mapping[Path, str]) -> bool:
    """Return whether a candidate is one of the local wheels."""
    return candidate.sha256 in own.values() if candidate.sha256 else Path(candidate.location) in own
