"""Ubuntu's archive: layout, keys, snapshots, phased updates, as its documentation describes them.

The texts are in the form that Ubuntu publishes; no request goes there.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from envbuild.core.package_data import archive_keys
from envbuild.errors import IntegrityError, ResolveError
from envbuild.lockfile.model import Os
from envbuild.resolve.debian.closure import OsRequest, deb_urls, resolve_os
from envbuild.resolve.debian.contents import package_for_library
from envbuild.resolve.debian.release_file import trusted_certificates
from envbuild.resolve.debian.sources import AptConfig, archive_bases, origin, read_apt_config
from tests.support.archives import BASE, SuiteMaker, keyring, stanza
from tests.support.ubuntu import KEY, write_ubuntu

NOTHING = AptConfig(mirrors={})
TIME = "20240301T030400Z"
PHASED = """\
Package: distro-info-data
Architecture: all
Version: 0.60ubuntu0.3
Priority: standard
Section: devel
Origin: Ubuntu
Maintainer: Ubuntu Developers <ubuntu-devel-discuss@lists.ubuntu.com>
Bugs: https://bugs.launchpad.net/ubuntu/+filebug
Installed-Size: 22
Filename: pool/main/d/distro-info-data/distro-info-data_0.60ubuntu0.3_all.deb
Size: 6640
MD5sum: b14a7bd4b3d9d0e0d3a5f5e4c1f7e3a1
SHA1: 0f8ac7c2c0a6bd4f5b6a4d5f22ec8d8d8ff5a0b1
SHA256: 3c5c4b0ba1f1c6c0a3d1ff9f3a1d8fb6e7a50a5c7c1a7f5e0f9d1a2b3c4d5e6f
Description: information about the distributions' releases (data files)
Task: cloud-image, standard, ubuntu-server-minimal
Description-md5: 7a1a4f3ee0a1fcd7f9a2c5b2a1e1b0c9
Phased-Update-Percentage: 10
"""


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENVBUILD_UBUNTU_KEYS", "ENVBUILD_UBUNTU_SNAPSHOT", "ENVBUILD_DEBIAN_KEYS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with Ubuntu's archive and that of other architectures."""
    suites = {
        "": {
            "main": [*BASE, stanza("distro-info-data", "0.60ubuntu0.1", architecture="all")],
            "universe": [stanza("ffmpeg", "7:6.1", depends="libc6")],
            "multiverse": [stanza("unrar", "1:7.0")],
        },
        "-updates": {"main": [PHASED]},
        "-security": {"universe": [stanza("ffmpeg", "7:6.1ubuntu1")]},
    }
    write_ubuntu(tmp_path / "mirror", "noble", suites)
    arm = [text.replace("amd64", "arm64") for text in BASE]
    write_ubuntu(tmp_path / "mirror", "noble", {"": {"main": arm}}, archive="ubuntu-ports", architecture="arm64")
    keyring(tmp_path / "key.pgp", KEY)
    return tmp_path


def ask(root: Path, *packages: str, **changes: object) -> Os:
    """Resolve from the archive in ``root``."""
    request = OsRequest(
        release="ubuntu-24.04", architecture="amd64", packages=packages, mirror=f"file://{root}/mirror/ubuntu"
    )
    request = replace(request, **changes)  # type: ignore[arg-type]
    return resolve_os(request, root / "cache", keyrings=[root / "key.pgp"], apt=NOTHING)


def versions(found: Os) -> dict[str, str]:
    return {package.name: package.version for package in found.packages}


def test_main_and_universe_are_searched_in_all_pockets(root: Path) -> None:
    """A security update in universe is found, and all three suites are of one archive."""
    found = ask(root, "ffmpeg")
    assert versions(found) == {"base-files": "12", "ffmpeg": "7:6.1ubuntu1", "libc6": "2.36-9"}
    assert {package.archive for package in found.packages} == {"ubuntu"}
    assert [suite.name for suite in found.suites] == ["noble", "noble-updates", "noble-security"]


def test_a_phased_update_is_always_taken(root: Path) -> None:
    """apt takes it in a chroot without a machine id; a percentage of machines would give a lock that hangs on one."""
    assert versions(ask(root, "distro-info-data"))["distro-info-data"] == "0.60ubuntu0.3"


def test_other_components_are_searched_on_request(root: Path) -> None:
    """The message has the line, and the line works."""
    with pytest.raises(ResolveError) as caught:
        ask(root, "unrar")
    assert "'unrar' is in Ubuntu's multiverse, but only main and universe are searched" in caught.value.message
    assert "os: {release: ubuntu-24.04, components: [main, universe, multiverse]}" in caught.value.message
    assert "unrar" in versions(ask(root, "unrar", components=("main", "multiverse")))
    with pytest.raises(ResolveError, match="'ffmpeg' is in Ubuntu's universe, but only main is searched"):
        ask(root, "ffmpeg", components=("main",))
    with pytest.raises(ResolveError, match=r"os\.components: expected main, universe, .*, found 'contrib'"):
        ask(root, components=("main", "contrib"))


def test_what_a_package_needs_from_elsewhere_is_named(root: Path) -> None:
    """A package of a searched component that needs one of another: the account has the line to write."""
    rar = stanza("rar-tools", depends="unrar")
    suites = {"": {"main": [*BASE], "universe": [rar], "multiverse": [stanza("unrar")]}}
    write_ubuntu(root / "mirror", "noble", suites)
    with pytest.raises(ResolveError, match="unrar is in Ubuntu's multiverse, but only main and universe are searched"):
        ask(root, "rar-tools")


def test_other_architectures_come_from_ports(root: Path) -> None:
    """One mirror's address finds the archive next to it."""
    found = ask(root, architecture="arm64")
    assert {(package.archive, package.architecture) for package in found.packages} == {("ubuntu-ports", "arm64")}
    assert next(iter(deb_urls(found, f"file://{root}/mirror/ubuntu", apt=NOTHING).values()))[0].startswith(
        f"file://{root}/mirror/ubuntu-ports/pool/"
    )


def test_updates_served_as_the_release_are_refused(root: Path) -> None:
    """Both have the Codename noble; the Suite differs."""
    for pocket in ("noble", "noble-security"):
        other = root / "mirror/ubuntu/dists" / pocket / "InRelease"
        other.write_bytes((root / "mirror/ubuntu/dists/noble-updates/InRelease").read_bytes())
    with pytest.raises(IntegrityError, match=r"Codename: expected noble(-security)?, found noble-updates"):
        ask(root)


def test_keys_are_trusted_for_their_own_archive_only(root: Path) -> None:
    """Debian's keys do not sign Ubuntu, nor the other way round; further keys have a variable each."""
    assert [path.name for path in archive_keys("ubuntu")] == ["ubuntu-archive-2018.gpg"]
    own, other = trusted_certificates((), "ubuntu"), trusted_certificates((), "debian")
    assert [found.fingerprint.upper() for found in own] == ["F6ECB3762474EDA9D21B7022871920D1991BC93C"]
    assert not {found.fingerprint for found in own} & {found.fingerprint for found in other}
    request = OsRequest(
        release="ubuntu-24.04", architecture="amd64", packages=(), mirror=f"file://{root}/mirror/ubuntu"
    )
    with pytest.raises(IntegrityError) as caught:
        resolve_os(request, root / "cache", apt=NOTHING)
    assert "expected a good signature by an Ubuntu archive key" in caught.value.message
    assert "ENVBUILD_UBUNTU_KEYS" in caught.value.hint


def test_the_variable_names_further_keys(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of one's own is signed by one's own key."""
    request = OsRequest(
        release="ubuntu-24.04", architecture="amd64", packages=(), mirror=f"file://{root}/mirror/ubuntu"
    )
    monkeypatch.setenv("ENVBUILD_DEBIAN_KEYS", str(root / "key.pgp"))
    with pytest.raises(IntegrityError):
        resolve_os(request, root / "cache", apt=NOTHING)
    monkeypatch.setenv("ENVBUILD_UBUNTU_KEYS", str(root / "key.pgp"))
    assert resolve_os(request, root / "cache", apt=NOTHING).packages


@pytest.mark.parametrize("archive", ["ubuntu", "ubuntu-ports"])
def test_snapshots_have_another_address_than_debian_s(archive: str) -> None:
    """The service has all architectures below /ubuntu; apt's setting, the variable and the spec's mirror name it."""
    environ = {"ENVBUILD_UBUNTU_SNAPSHOT": "https://s.example.invalid"}
    expected = (f"https://s.example.invalid/ubuntu/{TIME}",)
    assert archive_bases(archive, snapshot=TIME, apt=NOTHING, environ=environ) == expected
    assert (
        archive_bases(archive, mirror="https://s.example.invalid", snapshot=TIME, apt=NOTHING, environ={}) == expected
    )
    apt = AptConfig(mirrors={}, snapshot="https://debian.example.invalid", ubuntu_snapshot="https://s.example.invalid")
    assert archive_bases(archive, snapshot=TIME, apt=apt, environ={}) == expected
    assert origin(archive, apt, {}) == "https://s.example.invalid/ubuntu/{snapshot}"


def test_a_missing_service_is_reported_with_ubuntu_s_setting() -> None:
    """Debian's service does not have Ubuntu's packages."""
    apt = AptConfig(mirrors={}, snapshot="https://debian.example.invalid")
    with pytest.raises(ResolveError) as caught:
        archive_bases("ubuntu", snapshot=TIME, apt=apt, environ={})
    assert "needs the dated Ubuntu snapshot service" in caught.value.message
    assert "export ENVBUILD_UBUNTU_SNAPSHOT=ADDRESS (the part before /ubuntu/)" in caught.value.hint


def test_apt_s_sources_and_templates_name_mirrors(tmp_path: Path) -> None:
    """Ubuntu's deb822 file is read; on Debian the description of Ubuntu that python-apt has."""
    text = (
        "Types: deb\nURIs: http://a.invalid/ubuntu/\nSuites: noble noble-updates\nComponents: main universe\n\n"
        "Types: deb\nURIs: http://b.invalid/ubuntu-ports\nSuites: noble\nComponents: main\n"
    )
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/ubuntu.sources").write_text(text)
    (tmp_path / "apt.conf.d").mkdir()
    setting = 'Acquire::Snapshots::URI::Origin::Ubuntu "https://s.invalid/ubuntu/@SNAPSHOTID@/";\n'
    (tmp_path / "apt.conf.d/50s").write_text(setting)
    found = read_apt_config(tmp_path, tmp_path / "Debian.info")
    assert found.mirrors == {
        "debian": (),
        "debian-security": (),
        "ubuntu": ("http://a.invalid/ubuntu",),
        "ubuntu-ports": ("http://b.invalid/ubuntu-ports",),
    }
    assert (found.ubuntu_snapshot, found.snapshot) == ("https://s.invalid", "")
    info = "Suite: noble\nBaseURI: http://p.invalid/ubuntu-ports/\nBaseURI-amd64: http://m.invalid/ubuntu\n"
    (tmp_path / "Ubuntu.info").write_text(info)
    found = read_apt_config(tmp_path / "none", tmp_path / "Debian.info")
    assert found.mirrors["ubuntu"] == ("http://m.invalid/ubuntu",)
    assert found.mirrors["ubuntu-ports"] == ("http://p.invalid/ubuntu-ports",)


def test_another_s_archive_among_apt_s_sources_is_passed_over(root: Path) -> None:
    """Vendors' addresses end in /ubuntu too; what they sign is not Ubuntu, and the next mirror is asked."""
    SuiteMaker(archive="ubuntu", suite="noble", stanzas=[stanza("docker")], key="vendor").write(root / "vendor")
    mirrors = (f"file://{root}/vendor/ubuntu", f"file://{root}/mirror/ubuntu")
    request = OsRequest(release="ubuntu-24.04", architecture="amd64", packages=())
    apt = AptConfig(mirrors={"ubuntu": mirrors})
    assert versions(resolve_os(request, root / "cache", keyrings=[root / "key.pgp"], apt=apt)) == versions(ask(root))
    with pytest.raises(IntegrityError, match="expected a good signature by an Ubuntu archive key"):
        resolve_os(request, root / "none", keyrings=[root / "key.pgp"], apt=AptConfig(mirrors={"ubuntu": mirrors[:1]}))


def test_the_contents_of_all_components_are_in_one_file(root: Path) -> None:
    """Debian has one for each component, Ubuntu one for the suite."""
    listed = gzip.compress(b"usr/lib/x86_64-linux-gnu/libGL.so.1    universe/libs/libgl1\n")
    SuiteMaker(
        archive="ubuntu", suite="noble", stanzas=BASE, files={"Contents-amd64.gz": listed}, key=KEY,
        fields={"Suite": "noble"},
    ).write(root / "mirror")  # fmt: skip
    request = OsRequest(
        release="ubuntu-24.04", architecture="amd64", packages=(), mirror=f"file://{root}/mirror/ubuntu"
    )
    found = package_for_library("libGL.so.1", request, root / "cache", keyrings=[root / "key.pgp"], apt=NOTHING)
    assert found == ["libgl1"]
