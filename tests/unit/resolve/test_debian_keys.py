"""The keys that ship with the package."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from pysequoia import Cert

from envbuild.core.package_data import archive_keys
from envbuild.resolve.debian.releases import DEBIAN, RELEASES

ROW = re.compile(r"^\| `([^`]+)` \| `([0-9A-F]+)` \| ([0-9-]+) \|$", re.MULTILINE)


def certificates() -> dict[str, Cert]:
    return {path.name: Cert.from_bytes(path.read_bytes()) for path in archive_keys()}


def test_the_readme_lists_the_keys_that_are_there() -> None:
    """File, fingerprint and expiry of every key, so that a review can compare them with Debian's."""
    readme = (archive_keys()[0].parent / "README.md").read_text()
    listed = {name: (fingerprint, day) for name, fingerprint, day in ROW.findall(readme)}
    assert listed == {
        name: (found.fingerprint.upper(), f"{found.expiration:%Y-%m-%d}") for name, found in certificates().items()
    }


def test_the_readme_lists_ubuntu_s_keys() -> None:
    """The primary fingerprint of each file; none of them expires."""
    readme = (archive_keys()[0].parent / "README.md").read_text()
    listed = re.findall(r"^\| `ubuntu/([^`]+)` \| `([0-9A-F]+)` \| never \|$", readme, re.MULTILINE)
    found = [(path.name, Cert.from_bytes(path.read_bytes())) for path in archive_keys("ubuntu")]
    assert listed == [(name, certificate.fingerprint.upper()) for name, certificate in found]
    assert not any(certificate.expiration for _, certificate in found)


def test_every_release_has_its_three_keys() -> None:
    """Archive, security and stable key of each release, none of them expired; testing is signed by the older ones'."""
    found = certificates()
    for release in (release for release in RELEASES.values() if release.distribution is DEBIAN):
        if release.name == "debian-testing":
            continue
        for kind in ("automatic", "security-automatic", "stable"):
            key = found[f"debian-archive-{release.codename}-{kind}.gpg"]
            assert key.expiration is not None
            assert key.expiration > datetime.now(timezone.utc)
