from __future__ import annotations

import pytest

from envbuild.errors import ResolveError
from envbuild.resolve.debian.releases import (
    COMMON,
    DISTRIBUTIONS,
    RELEASES,
    SystemPython,
    common_packages,
    find_release,
    system_python,
)
from envbuild.spec import system_keys


def test_a_release_has_three_suites_in_two_archives() -> None:
    """Release, updates, security: the order in which ties are broken."""
    assert find_release("debian-13").suites("arm64") == (
        ("debian", "trixie"),
        ("debian", "trixie-updates"),
        ("debian-security", "trixie-security"),
    )


@pytest.mark.parametrize(("architecture", "archive"), [("amd64", "ubuntu"), ("arm64", "ubuntu-ports")])
def test_ubuntu_s_suites_are_in_one_archive(architecture: str, archive: str) -> None:
    """Security updates are in every mirror, and architectures but two are in an archive of their own."""
    assert find_release("ubuntu-24.04").suites(architecture) == (
        (archive, "noble"),
        (archive, "noble-updates"),
        (archive, "noble-security"),
    )


def test_spec_and_resolver_have_the_same_systems() -> None:
    """Releases, their Pythons and the components of archives are stated twice, since neither imports the other."""
    assert {name: release.python for name, release in RELEASES.items()} == system_keys.PYTHONS
    found = {name: {*known.components, *known.further} for name, known in DISTRIBUTIONS.items()}
    assert found == {name: set(components) for name, components in system_keys.COMPONENTS.items()}


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("debian-12", SystemPython(version="3.11", packages=("python3.11",), executable="/usr/bin/python3.11")),
        ("debian-13", SystemPython(version="3.13", packages=("python3.13",), executable="/usr/bin/python3.13")),
        ("ubuntu-22.04", SystemPython(version="3.10", packages=("python3.10",), executable="/usr/bin/python3.10")),
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
        "os: expected debian-11, debian-12, debian-13, debian-testing, "
        "ubuntu-22.04, ubuntu-24.04 or ubuntu-26.04, found 'debain-12' — "
        "perhaps you meant debian-12"
    )


def test_what_every_image_has_can_be_left_out() -> None:
    """Time zones and certificates are packages of each release, and the spec's words are those of the releases."""
    assert system_keys.COMMON.keys() == COMMON.keys()
    assert all(release.common.keys() == COMMON.keys() for release in RELEASES.values())
    assert list(common_packages("debian-12")) == ["tzdata", "ca-certificates"]
    assert list(common_packages("debian-13")) == ["tzdata", "tzdata-legacy", "ca-certificates"]
    assert list(common_packages("debian-13", ["tzdata"])) == ["ca-certificates"]
    assert common_packages("debian-12", COMMON) == {}
