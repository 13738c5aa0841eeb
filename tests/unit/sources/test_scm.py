"""The version that a project of a git repository is given, since no build sees the repository."""

from __future__ import annotations

import pytest

from envbuild.lockfile.model import Origin
from envbuild.sources.scm import NAMES_GIT, variables, version_of

COMMIT = "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678"


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("v1.2", "1.2"),
        ("1.2.0rc1", "1.2.0rc1"),
        ("refs/tags/v2.0.1", "2.0.1"),
        ("fastfeat-0.3", "0.3"),
        ("release/4.5", "4.5"),
        ("main", "0+ga1b2c3d4e5f6"),
        ("", "0+ga1b2c3d4e5f6"),
        ("v1.2-hotfix-of-mine", "0+ga1b2c3d4e5f6"),
        (COMMIT, "0+ga1b2c3d4e5f6"),
        (COMMIT[:7], "0+ga1b2c3d4e5f6"),
    ],
)
def test_a_tag_states_the_version(ref: str, expected: str) -> None:
    """A branch or a commit does not; that of a commit is the commit."""
    assert version_of(Origin(git="https://git.example/lib.git", ref=ref, commit=COMMIT)) == expected


def test_what_does_not_come_from_git_has_none() -> None:
    """Folders and archives state theirs themselves."""
    assert version_of(None) == version_of(Origin(path="lib")) == ""
    assert variables("") == {}
    assert variables("1.2")["SETUPTOOLS_SCM_PRETEND_VERSION"] == "1.2"


def test_backends_that_find_no_version_are_known() -> None:
    """The sentences of setuptools-scm and hatch-vcs."""
    assert NAMES_GIT.search("LookupError: setuptools-scm was unable to detect version for /build-sources/one")
    assert NAMES_GIT.search("Error getting the version from source `vcs`: setuptools-scm was unable to detect version")
    assert NAMES_GIT.search("gcc: not found") is None
