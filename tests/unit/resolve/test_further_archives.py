"""Further apt archives: what they provide, whose key counts, and what the lock keeps of them."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_file
from envbuild.errors import IntegrityError, ResolveError
from envbuild.lockfile.model import Os
from envbuild.resolve.debian.closure import OsRequest, deb_urls, resolve_os
from envbuild.resolve.debian.further import FurtherArchive, base_of
from envbuild.resolve.debian.sources import AptConfig
from tests.support.archives import BASE, SuiteMaker, keyring, sign, signing_key, stanza, write, write_release

APT = AptConfig(mirrors={})
VENDOR = (
    stanza("tool", "3", depends="libvendor"),
    stanza("libvendor", "1"),
    stanza("libc6", "99", essential="yes"),
    stanza("junk", essential="yes"),
)


class World:
    """A Debian mirror, a vendor's archive and requests to both."""

    def __init__(self, root: Path) -> None:
        self.root = root
        write_release(root / "mirror", main=[*BASE, stanza("other", "1")])
        self.keys = [keyring(root / "debian.pgp")]
        self.archive = FurtherArchive(
            name="vendor",
            url=f"file://{root}/vendor/apt",
            suite="bookworm",
            components=("main",),
            key=keyring(root / "vendor.pgp", "vendor"),
        )
        self.publish(VENDOR)

    def publish(self, entries: Iterable[str], **changes: object) -> None:
        values: dict[str, object] = {"archive": "apt", "suite": "bookworm", "stanzas": entries, "key": "vendor"}
        SuiteMaker(**(values | changes)).write(self.root / "vendor")  # type: ignore[arg-type]

    def lock(self, *packages: str, archives: tuple[FurtherArchive, ...] | None = None, **changes: object) -> Os:
        request = OsRequest(
            release="debian-12",
            architecture="amd64",
            packages=packages,
            mirror=f"file://{self.root}/mirror",
            archives=(self.archive,) if archives is None else archives,
        )
        request = replace(request, **changes)  # type: ignore[arg-type]
        return resolve_os(request, self.root / "cache", keyrings=self.keys, apt=APT, refresh=True)

    def failure(self, *packages: str, archive: FurtherArchive | None = None) -> str:
        with pytest.raises((IntegrityError, ResolveError)) as caught:
            self.lock(*packages, archives=(archive or self.archive,))
        return caught.value.message


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def where(found: Os) -> dict[str, tuple[str, str]]:
    return {package.name: (package.archive, package.version) for package in found.packages}


def test_it_provides_what_the_system_does_not_have(world: World) -> None:
    """Its own packages come from it; a higher version of the system's, and what it calls essential, do not."""
    assert where(world.lock("tool")) == {
        "base-files": ("debian", "12"),
        "libc6": ("debian", "2.36-9"),
        "libvendor": ("vendor", "1"),
        "tool": ("vendor", "3"),
    }


def test_it_does_not_come_before_the_system_for_a_virtual_name(world: World) -> None:
    """Of several providers the system's is chosen, whatever priority the others claim."""
    needs = stanza("needs", depends="mailer")
    write_release(world.root / "mirror", main=[*BASE, needs, stanza("postfix", provides="mailer", priority="extra")])
    world.publish([stanza("evil", provides="mailer", priority="required", essential="yes")])
    assert where(world.lock("needs")).keys() == {"base-files", "libc6", "needs", "postfix"}


def test_what_it_replaces_is_listed(world: World) -> None:
    """``replaces`` takes a name from it, also a lower version; a version that only it has is taken by its pin."""
    world.publish([*VENDOR, stanza("other", "0.5")])
    assert where(world.lock("other"))["other"] == ("debian", "1")
    replacing = replace(world.archive, replaces=("other",))
    assert where(world.lock("other", archives=(replacing,)))["other"] == ("vendor", "0.5")
    assert where(world.lock("other", versions={"other": "0.5"}))["other"] == ("vendor", "0.5")


def test_pins_follow_the_spec(world: World) -> None:
    """A lock's pin holds within an archive; a package that the spec takes from elsewhere moves."""
    world.publish([*VENDOR, stanza("other", "0.5")])
    replacing = replace(world.archive, replaces=("other",))
    first = world.lock("other", "tool")
    moved = world.lock("other", "tool", archives=(replacing,), held=first.packages)
    assert where(moved)["other"] == ("vendor", "0.5")
    assert where(world.lock("other", "tool", held=moved.packages))["other"] == ("debian", "1")
    world.publish([*VENDOR, stanza("tool", "4", depends="libvendor"), stanza("other", "0.6")])
    held = world.lock("other", "tool", archives=(replacing,), held=moved.packages)
    assert where(held)["tool"] == ("vendor", "3")


def test_of_several_archives_the_first_counts(world: World) -> None:
    """By their order in the spec, not by version."""
    SuiteMaker(archive="apt", suite="s", stanzas=[stanza("tool", "9")], key="second").write(world.root / "second")
    second = FurtherArchive(
        name="second",
        url=f"file://{world.root}/second/apt",
        suite="s",
        components=("main",),
        key=keyring(world.root / "second.pgp", "second"),
    )
    assert where(world.lock("tool", archives=(world.archive, second)))["tool"] == ("vendor", "3")
    assert where(world.lock("tool", archives=(second, world.archive)))["tool"] == ("second", "9")


def test_the_lock_has_suite_key_and_digest(world: World) -> None:
    """What was looked at, who may have signed it, and no address."""
    found = world.lock("tool", archives=(replace(world.archive, replaces=("b", "a")),))
    (vendor,) = found.archives
    assert (vendor.name, vendor.suite, vendor.components, vendor.replaces) == (
        "vendor", "bookworm", ("main",), ("a", "b"),
    )  # fmt: skip
    assert vendor.keys == (signing_key("vendor").extract_certificate().fingerprint.upper(),)
    assert vendor.key_sha256 == sha256_file(world.archive.key)
    assert ("vendor", "bookworm") in [(suite.archive, suite.name) for suite in found.suites]


def test_keys_count_for_one_archive_each(world: World) -> None:
    """Debian's key does not sign the vendor's archive, nor the vendor's Debian's."""
    message = world.failure("tool", archive=replace(world.archive, key=world.root / "debian.pgp"))
    assert "expected a good signature by the key that the spec names for the archive" in message
    write_release(world.root / "mirror", main=[*BASE], key="vendor")
    assert "expected a good signature by a Debian archive key" in world.failure("tool")


def test_an_armored_key_is_read(world: World) -> None:
    """Vendors publish keys as text."""
    (world.root / "vendor.asc").write_text(str(signing_key("vendor").extract_certificate()))
    assert "tool" in where(world.lock("tool", archives=(replace(world.archive, key=world.root / "vendor.asc"),)))


@pytest.mark.parametrize("suite", ["/", "deep/er/"])
def test_an_archive_without_suites_is_read(world: World, suite: str) -> None:
    """NVIDIA's have the index next to the packages; other architectures in it are left alone."""
    text = (VENDOR[1] + "\n" + stanza("tool", "5", architecture="arm64")).replace("pool/main/l/libvendor", ".")
    folder = world.root / "flat" / suite.strip("/")
    write(folder / "Packages.gz", packed := gzip.compress(text.encode(), mtime=0))
    lines = f" {hashlib.sha256(packed).hexdigest()} {len(packed)} Packages.gz\n"
    write(folder / "InRelease", sign(f"Origin: V\nDate: Mon, 02 Nov 2026 10:00:00 +0000\nSHA256:\n{lines}", "vendor"))
    flat = replace(world.archive, url=f"file://{world.root}/flat", suite=suite, components=())
    found = world.lock("libvendor", archives=(flat,))
    (package,) = (package for package in found.packages if package.archive == "vendor")
    assert package.path == "libvendor_1_amd64.deb"
    assert "there is no package 'tool'" in world.failure("tool", archive=flat)


def test_what_it_does_not_have_is_named(world: World) -> None:
    """A component, an architecture, a suite, a key's file."""
    assert "vendor: bookworm has no component stable, but main" in world.failure(
        "tool", archive=replace(world.archive, components=("stable",))
    )
    assert "dists/sid/InRelease: expected the suite's InRelease file" in world.failure(
        "tool", archive=replace(world.archive, suite="sid")
    )
    assert "none.pgp: expected a keyring, found: No such file" in world.failure(
        "tool", archive=replace(world.archive, key=world.root / "none.pgp")
    )
    world.publish(VENDOR, architecture="s390x")
    assert "vendor: bookworm has no packages for amd64" in world.failure("tool")


def test_addresses_come_from_the_spec(world: World) -> None:
    """A lock alone has none; the snapshot service of Debian is not asked for a vendor's packages."""
    found = world.lock("tool")
    apt = AptConfig(mirrors={}, snapshot="https://s.example.invalid")
    sums = {package.name: package.sha256 for package in found.packages}
    alone = deb_urls(found, "", apt=apt)
    assert alone[sums["tool"]] == ()
    assert all("s.example.invalid" in url for url in alone[sums["libc6"]])
    known = deb_urls(found, "", archives={"vendor": "https://v.example.invalid/apt/"}, apt=apt)
    assert known[sums["tool"]] == ("https://v.example.invalid/apt/pool/main/t/tool/tool_3_amd64.deb",)


def test_a_time_in_its_address_is_the_spec_s(world: World) -> None:
    """An archive that keeps its past can be pinned by date too: what had not expired then is good."""
    past = datetime(2026, 1, 1, tzinfo=timezone.utc)
    fields = {"Valid-Until": "Fri, 02 Jan 2026 00:00:00 +0000"}
    world.publish(VENDOR, date=past, fields=fields)
    assert "Valid-Until: expected a time after" in world.failure("tool")
    write_release(world.root / "old/20260101T120000Z", main=BASE, date=past)
    (world.root / "then").mkdir()
    (world.root / "vendor").rename(world.root / "then/20260101T120000Z")
    dated = replace(world.archive, url=f"file://{world.root}/then/{{snapshot}}/apt")
    found = world.lock(
        "tool",
        archives=(dated,),
        snapshot="20260101T120000Z",
        mirror=f"file://{world.root}/old/{{snapshot}}/{{archive}}",
    )
    assert where(found)["tool"] == ("vendor", "3")
    assert base_of("https://v.example.invalid/{snapshot}/apt/", "20260101T000000Z") == (
        "https://v.example.invalid/20260101T000000Z/apt"
    )
    with pytest.raises(ResolveError, match="needs a time, and the spec names none"):
        base_of("https://v.example.invalid/{snapshot}", "")


def test_locks_without_archives_keep_their_bytes(world: World) -> None:
    """The table is written only where there is one."""
    assert world.lock("other", archives=()).archives == ()
    assert str(world.root) not in str(world.lock("tool"))
