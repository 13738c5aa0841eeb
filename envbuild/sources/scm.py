"""The version of a project that takes it from git, whose folder ``.git`` no build has.

A tag states it. A commit or a branch does not: the tags before a commit are not fetched, and may change; so the version
is ``0+g`` with the commit. Backends read it from these variables (setuptools-scm and what builds on it, such as
hatch-vcs and versioningit; pdm-backend; pbr); other backends have no use for them.
"""

from __future__ import annotations

import re

from envbuild.lockfile.model import Origin

_VARIABLES = ("SETUPTOOLS_SCM_PRETEND_VERSION", "PDM_BUILD_SCM_VERSION", "PBR_VERSION")
_TAG = re.compile(r"(?:refs/tags/)?(?:.*[-_/])?[vV]?(?P<version>\d.*)")
_DIGITS = 12
NAMES_GIT = re.compile(r"setuptools[-_]scm|source control|hatch[-_]vcs|version from (?:git|scm|vcs)", re.IGNORECASE)
"""What backends say that find no version."""


def version_of(origin: Origin | None) -> str:
    """Return the version that a commit's project is given; empty for all that does not come from git."""
    from packaging.version import InvalidVersion, Version

    if origin is None or not origin.commit:
        return ""
    found = _TAG.fullmatch(origin.ref)
    try:
        tagged = str(Version(found["version"])) if found is not None and origin.ref not in origin.commit else ""
    except InvalidVersion:
        tagged = ""
    return tagged or f"0+g{origin.commit[:_DIGITS]}"


def variables(version: str) -> dict[str, str]:
    """Return the environment of a build that states a version; nothing for an empty one."""
    return dict.fromkeys(_VARIABLES, version) if version else {}
