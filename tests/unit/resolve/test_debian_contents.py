from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from envbuild.errors import IntegrityError
from envbuild.resolve.debian.closure import OsRequest
from envbuild.resolve.debian.contents import package_for_library
from envbuild.resolve.debian.sources import AptConfig
from tests.support.archives import BASE, SuiteMaker, keyring, stanza, write_release

NOTHING = AptConfig(mirrors={})
CONTENTS = b"""\
FILE                                                    LOCATION
bin/git                                                 vcs/git
lib/x86_64-linux-gnu/libc.so.6                          libs/libc6
usr/lib/x86_64-linux-gnu/libstdc++.so.6                 libs/libstdc++6
usr/lib/x86_64-linux-gnu/libGL.so.1                     libs/libgl1,contrib/oldlibs/libgl1-classic
usr/lib32/libstdc++.so.6                                libs/lib32stdc++6
usr/lib/x86_64-linux-gnu/perl/5.36/libinner.so.1        perl/perl
usr/lib/python3/dist-packages/x.cpython-311.so          python/python3-x
usr/share/doc/libfake.so.1                              doc/libfake
usr/lib/x86_64-linux-gnu/libz.so.1 and more             libs/odd
"""


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OsRequest:
    """Return a request at an archive with a Contents index."""
    root = tmp_path / "mirror"
    write_release(root)
    SuiteMaker(
        archive="debian",
        suite="bookworm",
        stanzas=[*BASE, stanza("libgl1"), stanza("libstdc++6")],
        files={"main/Contents-amd64.gz": gzip.compress(CONTENTS)},
    ).write(root)
    monkeypatch.setenv("ENVBUILD_DEBIAN_KEYS", str(keyring(tmp_path / "key.pgp")))
    return OsRequest(release="debian-12", architecture="amd64", packages=("libgl1",), mirror=f"file://{root}")


@pytest.mark.parametrize(
    ("soname", "packages"),
    [
        ("libstdc++.so.6", ["libstdc++6", "lib32stdc++6"]),
        ("libGL.so.1", ["libgl1", "libgl1-classic"]),
        ("libc.so.6", ["libc6"]),
        ("libinner.so.1", []),
        ("libfake.so.1", []),
        ("libz.so.1", []),
        ("libnone.so", []),
    ],
)
def test_a_library_s_packages_are_found(request_: OsRequest, tmp_path: Path, soname: str, packages: list[str]) -> None:
    """Only folders the dynamic linker searches count; the likeliest package comes first."""
    assert package_for_library(soname, request_, tmp_path / "cache", apt=NOTHING) == packages


def test_the_index_is_got_once(request_: OsRequest, tmp_path: Path) -> None:
    """After the first question the archive's index is not needed."""
    package_for_library("libGL.so.1", request_, tmp_path / "cache", apt=NOTHING)
    for path in (tmp_path / "mirror").rglob("*Contents*"):
        path.unlink()
    assert package_for_library("libc.so.6", request_, tmp_path / "cache", apt=NOTHING) == ["libc6"]


def test_an_altered_index_is_refused(request_: OsRequest, tmp_path: Path) -> None:
    """Contents is checked against InRelease like any other file."""
    for path in (tmp_path / "mirror/debian/dists/bookworm/main/by-hash/SHA256").iterdir():
        path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(IntegrityError, match=r"expected SHA-256 [0-9a-f]{64}, found [0-9a-f]{64}"):
        package_for_library("libGL.so.1", request_, tmp_path / "cache", apt=NOTHING)


def test_an_archive_without_contents_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A private archive may have none."""
    write_release(tmp_path / "mirror")
    monkeypatch.setenv("ENVBUILD_DEBIAN_KEYS", str(keyring(tmp_path / "key.pgp")))
    request = OsRequest(release="debian-12", architecture="amd64", packages=(), mirror=f"file://{tmp_path}/mirror")
    with pytest.raises(IntegrityError, match=r"expected an entry for main/Contents-amd64.gz in its SHA256 section"):
        package_for_library("libGL.so.1", request, tmp_path / "cache", apt=NOTHING)
