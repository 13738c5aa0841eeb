from __future__ import annotations

import pytest

from envbuild.errors import ResolveError
from envbuild.resolve.debian.releases import (
    COMMON,
    RELEASES,
    SystemPython,
    common_packages,
    find_release,
    system_python,
)
from envbuild.spec import keys


def test_a_release_has_three_suites_in_two_archives() -> None:
    """Release, updates, security: the order in which ties are broken."""
    assert find_release("debian-13").suites == (
        ("debian", "trixie"),
        ("debian", "trixie-updates"),
        ("debian-security", "trixie-security"),
    )


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("debian-12", SystemPython(version="3.11", packages=("python3.11",), executable="/usr/bin/python3.11")),
        ("debian-13", SystemPython(version="3.13", packages=("python3.13",), executable="/usr/bin/python3.13")),
    ],
)
def test_the_interpreter_of_a_release_is_known(release: str, expected: SystemPython) -> None:
    """Packages and path follow from the release."""
    assert system_python(release) == expected


def test_an_unknown_release_is_reported() -> None:
    """A near name is suggested."""
    with pytest.raises(ResolveError) as caught:
        find_release("debain-12")
    assert caught.value.message == (
        "os: expected debian-12 or debian-13, found 'debain-12' — perhaps you meant debian-12"
    )


def test_what_every_image_has_can_be_left_out() -> None:
    """Time zones and certificates are packages of each release, and the spec's words are those of the releases."""
    assert keys.COMMON.keys() == COMMON.keys()
    assert all(release.common.keys() == COMMON.keys() for release in RELEASES.values())
    assert list(common_packages("debian-12")) == ["tzdata", "ca-certificates"]
    assert list(common_packages("debian-13")) == ["tzdata", "tzdata-legacy", "ca-certificates"]
    assert list(common_packages("debian-13", ["tzdata"])) == ["ca-certificates"]
    assert common_packages("debian-12", COMMON) == {}
