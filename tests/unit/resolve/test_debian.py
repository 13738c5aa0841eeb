from __future__ import annotations

import errno
import lzma
import resource
import sqlite3
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_file
from envbuild.errors import BuildError, IntegrityError, ResolveError, UsageError
from envbuild.lockfile.model import Os
from envbuild.resolve.debian.archive import LONGEST, cache_errors
from envbuild.resolve.debian.closure import OsRequest, deb_urls, resolve_emulator, resolve_os
from envbuild.resolve.debian.sources import AptConfig
from tests.support.archives import BASE, SuiteMaker, keyring, stanza, write_release

GIT = stanza("git", "1:2.39.5", depends="libc6 (>= 2.34), perl | perl5")
PERL = stanza("perl", "5.36")
NOTHING = AptConfig(mirrors={})


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENVBUILD_DEBIAN_KEYS", "ENVBUILD_DEBIAN_SNAPSHOT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """Return the folder of an archive with a release, updates and security."""
    root = tmp_path / "mirror"
    keyring(tmp_path / "key.pgp")
    write_release(root, main=[*BASE, GIT, PERL], security=[stanza("perl", "5.36+deb12u1")])
    return root


def resolve(root: Path, *packages: str, **changes: str) -> Os:
    """Resolve from the archive in ``root``."""
    request = OsRequest(release="debian-12", architecture="amd64", packages=packages, mirror=f"file://{root}")
    return resolve_os(
        replace(request, **changes),  # type: ignore[arg-type]
        root.parent / "cache",
        keyrings=[root.parent / "key.pgp"],
        apt=NOTHING,
    )


def test_a_request_becomes_a_locked_system(mirror: Path) -> None:
    """Every package by name, version, archive, path, size and digest; sorted; suites by date and digest."""
    found = resolve(mirror, "git")
    assert [(package.name, package.version, package.archive) for package in found.packages] == [
        ("base-files", "12", "debian"),
        ("git", "1:2.39.5", "debian"),
        ("libc6", "2.36-9", "debian"),
        ("perl", "5.36+deb12u1", "debian-security"),
    ]
    git = found.packages[1]
    assert (git.path, git.file, git.size, git.architecture) == (
        "pool/main/g/git/git_2.39.5_amd64.deb",
        "git_2.39.5_amd64.deb",
        1000,
        "amd64",
    )
    assert [(suite.archive, suite.name) for suite in found.suites] == [
        ("debian", "bookworm"),
        ("debian", "bookworm-updates"),
        ("debian-security", "bookworm-security"),
    ]
    assert found.suites[0].sha256 == sha256_file(mirror / "debian/dists/bookworm/InRelease")
    assert found.suites[0].date.endswith("Z")
    assert (found.release, found.architecture, found.snapshot) == ("debian-12", "amd64", "")


def test_the_same_request_gives_the_same_system(mirror: Path) -> None:
    """Equal inputs, in any order, give an equal value."""
    assert resolve(mirror, "git", "perl") == resolve(mirror, "perl", "git", "git")


def test_parallel_commands_share_a_cache(mirror: Path) -> None:
    """Several resolutions at once from an empty cache all end well and alike."""
    found: list[Os] = []
    workers = [threading.Thread(target=lambda: found.append(resolve(mirror, "git"))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    assert all(item == found[0] for item in found)


def test_keys_of_the_environment_are_trusted(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENVBUILD_DEBIAN_KEYS names keyrings of private archives."""
    request = OsRequest(release="debian-12", architecture="amd64", packages=(), mirror=f"file://{mirror}")
    with pytest.raises(IntegrityError, match="expected a good signature by a Debian archive key"):
        resolve_os(request, mirror.parent / "cache", apt=NOTHING)
    monkeypatch.setenv("ENVBUILD_DEBIAN_KEYS", str(keyring(mirror.parent / "mine.pgp")))
    assert len(resolve_os(request, mirror.parent / "cache", apt=NOTHING).packages) == 2


def test_unknown_packages_are_refused(mirror: Path) -> None:
    """The error of the closure reaches the caller as it is."""
    with pytest.raises(ResolveError) as caught:
        resolve(mirror, "gitt")
    assert caught.value.message == "os packages: there is no package 'gitt' — perhaps you meant git"


def test_an_architecture_that_the_release_does_not_have_is_refused(mirror: Path) -> None:
    """The message names those it has."""
    with pytest.raises(ResolveError) as caught:
        resolve(mirror, architecture="mips")
    assert caught.value.message == "os architecture: expected one that debian-12 has (amd64), found 'mips'"


@pytest.mark.parametrize("architecture", ["../x", "AMD64", "a b", ""])
def test_an_architecture_that_is_no_word_is_refused(mirror: Path, architecture: str) -> None:
    """It becomes part of an address, so it is matched whole."""
    with pytest.raises(ResolveError, match="os architecture: expected a Debian architecture, found"):
        resolve(mirror, architecture=architecture)


def test_an_unknown_release_is_refused(mirror: Path) -> None:
    """The message names the known ones."""
    with pytest.raises(ResolveError) as caught:
        resolve(mirror, release="debian-1")
    assert caught.value.message.startswith(
        "os: expected debian-11, debian-12, debian-13, debian-testing, "
        "ubuntu-22.04, ubuntu-24.04 or ubuntu-26.04, found 'debian-1'"
    )


@pytest.mark.parametrize(
    "changes",
    [("pool/main/e/evil", "../../../etc"), ("Version: 1", "Version: $(id)"), (".deb\n", ".deb;id\n")],
)
def test_values_that_are_not_safe_in_a_lock_are_refused(tmp_path: Path, changes: tuple[str, str]) -> None:
    """A signed index may still be hostile: paths and versions must have a lock's form."""
    root = tmp_path / "mirror"
    keyring(tmp_path / "key.pgp")
    write_release(root, main=[*BASE, stanza("evil").replace(*changes)])
    with pytest.raises(IntegrityError, match="package index of bookworm: evil: "):
        resolve(root, "evil")


def test_a_snapshot_is_resolved_as_of_its_time(tmp_path: Path) -> None:
    """Two times of one frozen archive give two systems, expiry notwithstanding; the time is locked."""
    for time, version in (("20250101T000000Z", "1.0"), ("20250601T000000Z", "2.0")):
        for archive in ("debian", "debian-security"):
            (tmp_path / "archive" / archive).mkdir(parents=True, exist_ok=True)
        date = datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc) - timedelta(hours=3)
        write_release(tmp_path / "now", main=[*BASE, stanza("tool", version)], date=date)
        for archive in ("debian", "debian-security"):
            (tmp_path / "now" / archive).rename(tmp_path / "archive" / archive / time)
    versions = {}
    for time in ("20250101T000000Z", "20250601T000000Z"):
        request = OsRequest(
            release="debian-12", architecture="amd64", packages=("tool",), snapshot=time, mirror=f"file://{tmp_path}"
        )
        keys = [keyring(tmp_path / "key.pgp")]
        found = resolve_os(request, tmp_path / "cache", keyrings=keys, apt=NOTHING)
        assert found.snapshot == time
        versions[time] = found.packages[-1].version
    assert versions == {"20250101T000000Z": "1.0", "20250601T000000Z": "2.0"}


def test_package_files_are_looked_for_at_mirrors_then_at_the_snapshot_service(mirror: Path) -> None:
    """The spec's mirror, the machine's, and the service as of a day after the newest suite."""
    found = resolve(mirror, "git")
    apt = AptConfig(
        mirrors={"debian": ("http://a.invalid/debian",), "debian-security": ("http://b.invalid/debian-security",)},
        snapshot="http://s.invalid",
    )
    newest = max(datetime.fromisoformat(suite.date.replace("Z", "+00:00")) for suite in found.suites)
    day_after = (newest + timedelta(days=1)).strftime("%Y%m%dT%H%M%SZ")
    perl = found.packages[3]
    path = "pool/main/p/perl/perl_5.36+deb12u1_amd64.deb"
    assert deb_urls(found, apt=apt)[perl.sha256] == (
        f"http://b.invalid/debian-security/{path}",
        f"http://s.invalid/archive/debian-security/{day_after}/{path}",
    )
    assert deb_urls(found, "http://m.invalid/debian", apt=apt)[perl.sha256] == (
        f"http://m.invalid/debian-security/{path}",
        f"http://b.invalid/debian-security/{path}",
        f"http://s.invalid/archive/debian-security/{day_after}/{path}",
    )


def test_package_files_of_a_snapshot_come_from_the_service_only(mirror: Path) -> None:
    """What a lock took from a dated snapshot is not looked for elsewhere."""
    found = Os(
        release="debian-12", architecture="amd64", snapshot="20250101T000000Z", packages=resolve(mirror).packages[:1]
    )
    apt = AptConfig(mirrors={"debian": ("http://a.invalid/debian",)}, snapshot="http://s.invalid")
    assert list(deb_urls(found, apt=apt).values()) == [
        ("http://s.invalid/archive/debian/20250101T000000Z/pool/main/b/base-files/base-files_12_amd64.deb",)
    ]


def test_a_cache_of_a_long_path_is_reported(tmp_path: Path) -> None:
    """SQLite opens no file there, and the disk was blamed for it."""
    cache = tmp_path / ("n" * 200) / ("m" * 200)
    with pytest.raises(UsageError) as caught, cache_errors(cache):
        pytest.fail("nothing is tried")
    assert caught.value.message == (
        f"the path of the cache {cache} has {len(str(cache))} bytes, and SQLite takes {LONGEST} at most"
    )
    assert caught.value.hint == "choose a folder with a shorter path: export ENVBUILD_STORE=FOLDER"


def test_a_cache_that_cannot_be_written_is_reported(mirror: Path) -> None:
    """A full disk or a file in the way is an error that states what to do, not a traceback."""
    (mirror.parent / "cache").write_text("in the way")
    with pytest.raises(UsageError) as caught:
        resolve(mirror)
    assert caught.value.message == f"the cache {mirror.parent / 'cache'} cannot be used: Not a directory"
    assert caught.value.hint == "free some space, or choose another folder: export ENVBUILD_STORE=FOLDER"


@pytest.mark.parametrize(
    ("most", "met", "kind", "found"),
    [
        (1024, sqlite3.OperationalError("disk I/O error"), BuildError, "too large: the limit is 1024 bytes"),
        (1024, OSError(errno.EFBIG, "File too large"), BuildError, "too large: the limit is 1024 bytes"),
        (resource.RLIM_INFINITY, sqlite3.OperationalError("disk I/O error"), IntegrityError, "used: disk I/O error"),
        (1024, sqlite3.DatabaseError("file is not a database"), IntegrityError, "used: file is not a database"),
        (1024, OSError(errno.EROFS, "Read-only file system"), UsageError, "used: Read-only file system"),
        (1024, OSError(errno.EDQUOT, "Disk quota exceeded"), BuildError, "used: Disk quota exceeded"),
    ],
    ids=str,
)
def test_a_cache_without_room_is_exit_14(
    most: int, met: Exception, kind: type[Exception], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of a file's size is named; SQLite calls that a fault of the disk."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (most, most))
    with pytest.raises(kind, match=found), cache_errors(tmp_path):
        raise met


def test_a_full_disk_is_reported_and_leaves_nothing_half_made(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's word for it reaches the user, and the next command starts clean."""

    def full(*arguments: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("envbuild.resolve.debian.index._fill", full)
        with pytest.raises(BuildError) as caught:
            resolve(mirror)
    assert caught.value.message == f"the cache {mirror.parent / 'cache'} cannot be used: database or disk is full"
    assert not list((mirror.parent / "cache/index").glob("*.sqlite"))
    assert not list((mirror.parent / "cache/index").glob(".index*"))
    assert len(resolve(mirror).packages) == 2


def test_a_package_of_another_component_is_named_as_such(mirror: Path) -> None:
    """Only ``main`` is searched: what is in contrib or non-free is no unknown name, whichever index cannot be read."""
    text = stanza("nvidia-cuda-toolkit").encode()
    SuiteMaker(
        archive="debian",
        suite="bookworm",
        stanzas=[*BASE, GIT, PERL],
        files={"non-free/binary-amd64/Packages": text, "non-free/binary-amd64/Packages.xz": lzma.compress(text)},
        fields={"Components": "main contrib non-free"},
    ).write(mirror)
    with pytest.raises(ResolveError) as caught:
        resolve(mirror, "nvidia-cuda-toolkit", "gitt")
    assert "'nvidia-cuda-toolkit' is in Debian's non-free, but only main is searched" in caught.value.message
    assert "os: {release: debian-12, components: [main, non-free]}" in caught.value.message
    assert "there is no package 'gitt' — perhaps you meant git" in caught.value.message


def test_an_emulator_is_the_release_s_own(tmp_path: Path) -> None:
    """Its newest version for the machine, from the archive of the image's release; None where that has none."""
    keyring(tmp_path / "key.pgp")
    qemu = [stanza("qemu-user-static", "1:7.2"), stanza("qemu-user", "1:7.2")]
    write_release(tmp_path / "mirror", main=[*BASE, *qemu], security=[stanza("qemu-user-static", "1:7.2+deb12u1")])

    def find(name: str) -> str:
        request = OsRequest(release=name, architecture="arm64", packages=(), mirror=f"file://{tmp_path}/mirror")
        found = resolve_emulator(
            request, "amd64", tmp_path / "cache", keyrings=[tmp_path / "key.pgp"], apt=NOTHING, refresh=True
        )
        return f"{found.archive} {found.name} {found.version} {found.architecture}" if found else ""

    assert find("debian-12") == "debian-security qemu-user-static 1:7.2+deb12u1 amd64"
    write_release(tmp_path / "mirror", codename="trixie", main=[*BASE, *qemu])
    assert find("debian-13") == "debian qemu-user 1:7.2 amd64"
    write_release(tmp_path / "mirror", codename="trixie", main=BASE)
    assert find("debian-13") == ""
