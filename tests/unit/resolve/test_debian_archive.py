from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pysequoia
import pytest

from envbuild.core.digest import sha256_file
from envbuild.errors import IntegrityError
from envbuild.resolve.debian import release_file
from envbuild.resolve.debian.archive import FRESH, Access, load_indexes, load_suite
from envbuild.resolve.debian.http import Reply, get
from tests.support.archives import BASE, SuiteMaker, keyring, sign, stanza, write

LONG_AGO = datetime(2020, 1, 1, tzinfo=timezone.utc)


class Server:
    """Serves a folder of archives as ``http://mirror.invalid/``, counts what is asked, and can be cut off."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        self.cut = False
        self.etag = ""

    def __call__(
        self,
        url: str,
        *,
        limit: int,
        headers: Mapping[str, str] | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Reply:
        name = url.removeprefix("http://mirror.invalid/")
        self.asked.append(name)
        if self.cut:
            raise IntegrityError(f"{url}: expected an answer, found: no connection")
        if self.etag and (headers or {}).get("If-None-Match") == self.etag:
            return Reply(status=304)
        reply = get(f"file://{self.root / name}", limit=limit)
        return Reply(status=reply.status, data=reply.data, headers={"etag": self.etag} if self.etag else {})


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """Return a server with one suite, ``debian`` ``bookworm``."""
    root = tmp_path / "mirror"
    maker(root)
    return Server(root)


@pytest.fixture
def access(tmp_path: Path, server: Server) -> Access:
    """Return access to the server that trusts its key."""
    return Access(cache=tmp_path / "cache", keyrings=(keyring(tmp_path / "archive.pgp"),), get=server)


def maker(root: Path, **changes: object) -> Path:
    """Write the suite ``debian`` ``bookworm``."""
    values = {"archive": "debian", "suite": "bookworm", "stanzas": BASE} | changes
    return SuiteMaker(**values).write(root)  # type: ignore[arg-type]


def load(access: Access, suite: str = "bookworm", *, snapshot: str = "") -> list[str]:
    """Load the suite and return its package names."""
    found = load_suite("debian", suite, ["http://mirror.invalid/debian"], access, snapshot=snapshot)
    return sorted(name for index in load_indexes(found, "amd64", access) for name in index.names())


def failure(access: Access, suite: str = "bookworm") -> str:
    """Load the suite, which must fail, and return the message."""
    with pytest.raises(IntegrityError) as caught:
        load(access, suite)
    assert caught.value.exit_code == 13
    return caught.value.message.replace("http://mirror.invalid/debian/dists/", "…/")


@pytest.fixture
def age(access: Access) -> Callable[[float], None]:
    """Return a function that makes the cached release files look older."""

    def make_older(seconds: float) -> None:
        for path in (access.cache / "release").glob("*.InRelease"):
            moment = path.stat().st_mtime - seconds
            os.utime(path, (moment, moment))

    return make_older


def test_a_good_suite_is_loaded_by_hash(access: Access, server: Server) -> None:
    """InRelease, then the packed index by its hash: two requests and no more."""
    assert load(access) == ["base-files", "libc6"]
    digest = sha256_file(server.root / "debian/dists/bookworm/main/binary-amd64/Packages.xz")
    assert server.asked == [
        "debian/dists/bookworm/InRelease",
        f"debian/dists/bookworm/main/binary-amd64/by-hash/SHA256/{digest}",
    ]


def test_a_suite_without_hash_names_is_loaded_by_name(access: Access, server: Server) -> None:
    """Archives that do not offer files by hash work too."""
    maker(server.root, by_hash=False)
    assert load(access) == ["base-files", "libc6"]
    assert server.asked[1] == "debian/dists/bookworm/main/binary-amd64/Packages.xz"


def test_nothing_is_asked_while_the_cache_is_fresh(
    access: Access, server: Server, age: Callable[[float], None]
) -> None:
    """Within ten minutes no request is made; after them InRelease is asked for, the unchanged index is not."""
    load(access)
    server.asked.clear()
    age(FRESH - 60)
    assert load(access) == ["base-files", "libc6"]
    assert server.asked == []
    age(60)
    load(access)
    assert server.asked == ["debian/dists/bookworm/InRelease"]
    load(Access(cache=access.cache, keyrings=access.keyrings, get=server, refresh=True))
    assert server.asked == ["debian/dists/bookworm/InRelease"] * 2


def test_not_modified_from_a_mirror_renews_the_cache(
    access: Access, server: Server, age: Callable[[float], None]
) -> None:
    """The mirror's validators of a file are sent back, and 304 makes the cache fresh."""
    server.etag = '"one"'
    load(access)
    age(FRESH + 1)
    server.asked.clear()
    assert load(access) == load(access) == ["base-files", "libc6"]
    assert server.asked == ["debian/dists/bookworm/InRelease"]


def test_a_changed_archive_is_seen(access: Access, server: Server, age: Callable[[float], None]) -> None:
    """A newer InRelease brings its index with it."""
    load(access)
    maker(server.root, stanzas=[*BASE, stanza("new")])
    age(FRESH + 1)
    assert load(access) == ["base-files", "libc6", "new"]


def test_an_archive_taken_back_in_time_is_not_followed(
    access: Access, server: Server, age: Callable[[float], None]
) -> None:
    """An older InRelease, though well signed, does not replace a newer one that was seen."""
    maker(server.root, stanzas=[*BASE, stanza("fix")])
    load(access)
    maker(server.root, date=datetime.now(timezone.utc) - timedelta(days=3))
    for _ in range(2):
        age(FRESH + 1)
        assert load(access) == ["base-files", "fix", "libc6"]


def test_a_second_mirror_is_tried_when_the_first_does_not_answer(access: Access, server: Server) -> None:
    """Addresses are tried in order."""
    bases = ["http://mirror.invalid/none", "http://mirror.invalid/debian"]
    assert load_suite("debian", "bookworm", bases, access).base == bases[1]


def test_offline_the_cache_must_do(access: Access, server: Server, age: Callable[[float], None]) -> None:
    """Offline nothing is asked however old the cache is, and an empty cache is an error that states what to do."""
    offline = Access(cache=access.cache, keyrings=access.keyrings, get=server, offline=True)
    assert failure(offline) == "…/bookworm/InRelease: expected it in the cache while offline, found nothing"
    load(access)
    age(1_000_000)
    server.asked.clear()
    assert load(offline) == ["base-files", "libc6"]
    assert server.asked == []


def test_a_damaged_cache_is_got_again(access: Access, server: Server) -> None:
    """Nothing that is in the cache is trusted: neither release file nor index."""
    load(access)
    for path in access.cache.glob("*/*"):
        if path.suffix in (".InRelease", ".sqlite"):
            path.write_bytes(b"x" + path.read_bytes()[1:])
    assert load(access) == ["base-files", "libc6"]


def test_an_altered_release_file_is_refused(access: Access, server: Server) -> None:
    """One changed byte within the signature's reach, and nothing is kept."""
    path = server.root / "debian/dists/bookworm/InRelease"
    path.write_bytes(path.read_bytes().replace(b"Codename: bookworm", b"Codename: bookw0rm"))
    message = failure(access)
    assert message.startswith("…/bookworm/InRelease: expected a good signature by a Debian archive key, found: ")
    assert f"SHA-256 of the file: {sha256_file(path)}" in message
    assert not list(access.cache.glob("release/*"))


def test_text_outside_the_signature_is_not_read(access: Access, server: Server) -> None:
    """Fields and hashes after the signed part have no effect."""
    path = server.root / "debian/dists/bookworm/InRelease"
    path.write_bytes(
        path.read_bytes() + b"\nCodename: evil\nSHA256:\n " + b"0" * 64 + b" 1 main/binary-amd64/Packages\n"
    )
    assert load(access) == ["base-files", "libc6"]


@pytest.mark.parametrize(
    ("data", "found"),
    [(b"Origin: Debian\n", "b'Origin: Debian\\n'"), (b"<html>login</html>", "b'<html>login</html>'"), (b"", "b''")],
)
def test_an_unsigned_release_file_is_refused(access: Access, server: Server, data: bytes, found: str) -> None:
    """A file without a cleartext signature is no InRelease file."""
    write(server.root / "debian/dists/bookworm/InRelease", data)
    assert failure(access) == f"…/bookworm/InRelease: expected a cleartext signature, found {found}"


def test_another_s_signature_is_refused(access: Access, server: Server) -> None:
    """A valid signature by a key that nobody trusts is worth nothing; the message names the key."""
    maker(server.root, key="stranger")
    assert "expected a good signature by a Debian archive key" in failure(access)


def test_without_further_keys_only_debian_s_are_trusted(access: Access, server: Server) -> None:
    """The test archive's key is not built in."""
    assert "expected a good signature" in failure(Access(cache=access.cache, get=server))


def test_a_keyring_that_cannot_be_read_is_named(access: Access, server: Server, tmp_path: Path) -> None:
    """A wrong path in ENVBUILD_DEBIAN_KEYS is reported as such."""
    missing = tmp_path / "none.pgp"
    message = failure(Access(cache=access.cache, get=server, keyrings=(missing,)))
    assert message == f"{missing}: expected a keyring, found: No such file or directory"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"Codename": "trixie"}, "…/bookworm/InRelease: Codename: expected bookworm, found trixie"),
        ({"Codename": "", "Suite": ""}, "…/bookworm/InRelease: Codename: expected bookworm, found none"),
        ({"Date": ""}, "…/bookworm/InRelease: Date: expected a date, found ''"),
        ({"Date": "soon"}, "…/bookworm/InRelease: Date: expected a date, found 'soon'"),
    ],
)
def test_a_release_file_of_something_else_is_refused(
    access: Access, server: Server, fields: dict[str, str], message: str
) -> None:
    """A mirror must not pass another suite off as the one asked for."""
    maker(server.root, fields=fields)
    assert failure(access) == message


def test_an_expired_release_file_is_refused_unless_a_snapshot_is_meant(access: Access, server: Server) -> None:
    """Valid-Until protects against a mirror that holds updates back; a dated snapshot is meant to be old."""
    maker(server.root, date=LONG_AGO, fields={"Valid-Until": "Wed, 08 Jan 2020 00:00:00 UTC"})
    message = failure(access)
    assert message.startswith("…/bookworm/InRelease: Valid-Until: expected a time after 2")
    assert message.endswith(" UTC, found 2020-01-08 00:00 UTC")
    assert load(access, snapshot="20200105T000000Z") == ["base-files", "libc6"]


@pytest.mark.parametrize(
    ("snapshot", "field"),
    [("20200109T000000Z", "Valid-Until"), ("20191201T000000Z", "Date"), ("20210101T000000Z", "key")],
)
def test_a_dated_snapshot_is_of_its_date(
    access: Access, server: Server, snapshot: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror cannot give an older state for a time, nor a later one; the key was valid at that time."""
    until = {} if field == "key" else {"Valid-Until": "Wed, 08 Jan 2020 00:00:00 UTC"}
    maker(server.root, date=LONG_AGO, fields=until)
    assert load(access, snapshot="20200105T000000Z") == ["base-files", "libc6"]
    if field == "key":
        expiry = datetime(2020, 6, 1, tzinfo=timezone.utc)
        monkeypatch.setattr(release_file, "_last_expiry", lambda certificates, signers: expiry)
    with pytest.raises(IntegrityError, match=f"{field}.*(expected|expired on 2020-06-01)"):
        load(access, snapshot=snapshot)


def test_a_key_that_expired_after_it_signed_is_refused_as_by_apt(
    access: Access, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finds an old key cannot sign for it any more; offline, what was valid when it came is used."""
    assert load(access)
    monkeypatch.setattr(
        release_file, "_last_expiry", lambda certificates, signers: datetime(2020, 1, 1, tzinfo=timezone.utc)
    )
    assert "found one that expired on 2020-01-01" in failure(access)


def test_the_expiry_of_the_certificate_that_signed_counts(access: Access, server: Server) -> None:
    """Of several the last; one that never expires is never too old."""
    data = (server.root / "debian/dists/bookworm/InRelease").read_bytes()
    assert release_file.read_release(data, "x", access.keyrings).key_expires is None
    (own,) = pysequoia.Cert.split_bytes(access.keyrings[0].read_bytes())
    signed = pysequoia.verify(bytes=data, store=lambda keys: [own])
    assert [signature.certificate.lower() for signature in signed.valid_sigs] == [own.fingerprint.lower()]
    debian = release_file.trusted_certificates(())
    names = [certificate.fingerprint.upper() for certificate in debian]
    assert release_file._last_expiry(debian, names[:2]) == max(c.expiration for c in debian[:2] if c.expiration)
    assert release_file._last_expiry(debian, ["none"]) is None


def test_a_release_file_from_the_future_is_refused(access: Access, server: Server) -> None:
    """A date more than a day ahead means that a clock is wrong."""
    maker(server.root, date=datetime(2100, 1, 1, tzinfo=timezone.utc))
    message = failure(access)
    assert message.startswith("…/bookworm/InRelease: Date: expected a time before ")
    assert message.endswith(" UTC, found Fri, 01 Jan 2100 00:00:00 +0000")


def indexes(root: Path) -> Iterator[Path]:
    folder = root / "debian/dists/bookworm/main/binary-amd64"
    yield from (path for path in folder.rglob("*") if path.is_file())


def test_an_altered_index_is_refused(access: Access, server: Server) -> None:
    """The message names the file, the digest that InRelease promises, and the one found."""
    for path in indexes(server.root):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    by_hash = next(path for path in indexes(server.root) if path.parent.name == "SHA256")
    digests = [path.name for path in by_hash.parent.iterdir()]
    message = failure(access)
    found = message.rpartition(" ")[2]
    assert any(f"expected SHA-256 {digest}, found {found}" in message for digest in digests)
    assert not list(access.cache.glob("index/*.sqlite"))


def test_a_cut_off_index_is_refused(access: Access, server: Server) -> None:
    """A wrong size is reported before any digest is computed."""
    for path in indexes(server.root):
        path.write_bytes(path.read_bytes()[:-1])
    assert " bytes, found " in failure(access)


def test_a_missing_index_is_reported(access: Access, server: Server) -> None:
    """An index that InRelease lists and no address has."""
    for path in indexes(server.root):
        path.unlink()
    assert failure(access) == (
        "…/bookworm/main/binary-amd64/Packages.xz: expected the file that InRelease lists, found HTTP status 404"
    )


def test_a_release_file_without_the_index_is_reported(access: Access, server: Server) -> None:
    """InRelease must list what it reports the suite has."""
    folder = server.root / "debian/dists/bookworm"
    suite = SuiteMaker(archive="debian", suite="bookworm")
    write(folder / "InRelease", sign(suite.release({})))
    assert failure(access) == (
        "…/bookworm/InRelease: expected an entry for main/binary-amd64/Packages in its SHA256 section, found none"
    )


def test_packages_for_all_architectures_are_read_where_they_are_kept_apart(access: Access, server: Server) -> None:
    """Without No-Support-for-Architecture-all there is a second index."""
    import lzma

    extra = stanza("docs", architecture="all").encode()
    maker(
        server.root,
        fields={"No-Support-for-Architecture-all": ""},
        files={"main/binary-all/Packages.xz": lzma.compress(extra)},
    )
    assert load(access) == ["base-files", "docs", "libc6"]


def test_a_mirror_that_does_not_answer_is_reported(access: Access, server: Server) -> None:
    """The failure of the connection is the message, with what to check."""
    server.cut = True
    assert failure(access) == "…/bookworm/InRelease: expected an answer, found: no connection"
    server.cut = False
    assert failure(access, "sid") == "…/sid/InRelease: expected the suite's InRelease file, found HTTP status 404"


def test_indexes_unused_for_a_month_are_removed(access: Access, server: Server) -> None:
    """The cache does not grow for ever."""
    load(access)
    (old,) = (access.cache / "index").glob("*.sqlite")
    os.utime(old, (1, 1))
    maker(server.root, stanzas=[*BASE, stanza("new")])
    fresh = Access(cache=access.cache, keyrings=access.keyrings, get=server, refresh=True)
    assert load(fresh) == ["base-files", "libc6", "new"]
    assert not old.exists()
