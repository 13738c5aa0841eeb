"""Names of images, challenges, credentials and error answers of registries: what needs no registry."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from envbuild.errors import IntegrityError, RegistryError, UsageError
from envbuild.net.config import NetworkConfig
from envbuild.net.http import HttpError
from envbuild.operations.blob_locations import (
    BlobLocations,
    published_path,
    published_without_files,
    read_index,
    read_published,
    write_published,
)
from envbuild.registry.artifacts import attachments
from envbuild.registry.authorization import Authorization, parse_challenge
from envbuild.registry.credentials import Credentials, certificates
from envbuild.registry.errors import answer_error, refused
from envbuild.registry.image import unpacked
from envbuild.registry.reference import Reference, api_host, is_loopback, parse_reference
from envbuild.registry.repository import OCI_INDEX, OCI_MANIFEST, Manifest, Repository, descriptors
from envbuild.registry.transport import Answer, Transport
from envbuild.store.objects import Store
from tests.support.image_records import image_record
from tests.support.locks import small_lock

DIGEST = "ab" * 32
HOST = "registry.example.invalid"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HOST}/team/digits", Reference(registry=HOST, repository="team/digits")),
        (f"{HOST}:5000/a:1.0", Reference(registry=f"{HOST}:5000", repository="a", tag="1.0")),
        (f"localhost/a/b:x@sha256:{DIGEST}", Reference(registry="localhost", repository="a/b", tag="x", digest=DIGEST)),
        (f"[::1]:5000/a@sha256:{DIGEST}", Reference(registry="[::1]:5000", repository="a", digest=DIGEST)),
        ("digits", Reference(registry="docker.io", repository="library/digits")),
        ("team/digits:2", Reference(registry="docker.io", repository="team/digits", tag="2")),
    ],
)
def test_references(text: str, expected: Reference) -> None:
    """Registry, repository, tag and digest are distinguished as docker does."""
    assert parse_reference(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "/a", f"{HOST}/", f"{HOST}/A", f"{HOST}/a:", f"{HOST}/a@", f"{HOST}/a@sha256:{'AB' * 32}",
        f"{HOST}/a@sha512:{DIGEST}", f"https://{HOST}/a", f"{HOST}/../a", f"{HOST}/a b",
        f"{HOST}:port/a", f"{HOST}/a:-x", f"{HOST}/{'a/' * 130}a", f"{HOST}/a?x=1", f"{HOST}/a\n",
    ],
)  # fmt: skip
def test_what_is_no_reference(text: str) -> None:
    """Anything else is refused before it gets into an address."""
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    assert caught.value.message == f"not the name of an image in a registry: {text!r}"


@pytest.mark.parametrize("text", [f"me:hush@{HOST}/a", f"https://me:hush@{HOST}/a"])
def test_a_password_in_a_name_is_not_repeated(text: str) -> None:
    """Passwords belong to docker login: one in a name is refused, and not shown."""
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    assert "hush" not in caught.value.message + caught.value.hint


def test_pinning() -> None:
    """By digest the tag is left out, since it may move; a tag leaves the digest out."""
    reference = parse_reference(f"{HOST}/a:1")
    assert str(reference.at(DIGEST)) == f"{HOST}/a@sha256:{DIGEST}"
    assert str(reference.at(DIGEST).tagged("2")) == f"{HOST}/a:2"
    assert (reference.target, reference.at(DIGEST).target) == ("1", f"sha256:{DIGEST}")


@pytest.mark.parametrize("host", ["localhost", "localhost:5000", "127.0.0.1:1", "127.8.8.8", "[::1]:5000", "LOCALHOST"])
def test_loopback_by_name(host: str) -> None:
    """These hosts are this machine."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", [HOST, "localhost.example.invalid", "10.0.0.1:5000", "2130706433:80", "[::2]", "docker.io"]
)
def test_not_loopback_by_name(host: str) -> None:
    """No other host gets anything in the clear, whatever it resolves to."""
    assert not is_loopback(host)


def test_docker_hub_answers_elsewhere() -> None:
    """Docker Hub's registry has another name than its images."""
    assert (api_host("docker.io"), api_host(HOST)) == ("registry-1.docker.io", HOST)


def test_challenges() -> None:
    """Basic and Bearer are read, quoted commas too; anything else is no challenge that we can meet."""
    text = 'Bearer realm="https://auth.example.invalid/token",service="r",scope="repository:a/b:pull,push"'
    assert parse_challenge(text) == {
        "scheme": "bearer", "realm": "https://auth.example.invalid/token", "service": "r",
        "scope": "repository:a/b:pull,push",
    }  # fmt: skip
    assert parse_challenge('basic realm="x"') == {"scheme": "basic", "realm": "x"}
    assert parse_challenge("Negotiate abc") == parse_challenge("") == {}


class Requests:
    """A token server that keeps what it was asked."""

    def __init__(self, answer: bytes = b'{"token": "t"}') -> None:
        self.answer, self.calls = answer, list[tuple[str, str, Mapping[str, str], bytes | None]]()

    def __call__(self, method: str, url: str, headers: Mapping[str, str], data: bytes | None) -> bytes:
        """Take a request."""
        self.calls.append((method, url, headers, data))
        return self.answer


BEARER = 'Bearer realm="https://auth.example.invalid/token",service="r"'
SCOPE = "repository:a/b:pull,push"


def test_a_token_for_a_password() -> None:
    """The token server gets user and password, and what the token is for; the token is asked for once."""
    ask = Requests()
    found = Authorization(HOST, lambda: Credentials(username="u", password="p"), ask, plain=False)
    assert found.header(SCOPE) == ""
    assert found.refused(BEARER, SCOPE, "")
    assert found.header(SCOPE) == found.header(SCOPE) == "Bearer t"
    ((method, url, headers, data),) = ask.calls
    assert (method, data) == ("GET", None)
    assert url == "https://auth.example.invalid/token?service=r&scope=repository%3Aa%2Fb%3Apull%2Cpush"
    assert headers == {"Authorization": f"Basic {base64.b64encode(b'u:p').decode()}"}


@pytest.mark.parametrize("token", ["日本", "a\\nb", "\\ud800", ""])
def test_a_token_that_no_header_can_hold_is_none(token: str) -> None:
    """It ends with a sentence, and not where the header is written."""
    ask = Requests(f'{{"token": "{token}"}}'.encode())
    found = Authorization(HOST, lambda: None, ask, plain=False)
    with pytest.raises(RegistryError, match="gave no token"):
        found.refused(BEARER, "", "")


@pytest.mark.parametrize("port", ["99999999", "-1", "0x50"])
def test_a_token_server_without_a_port_is_named(port: str) -> None:
    """A port that is none is the registry's fault."""
    found = Authorization(HOST, lambda: None, Requests(), plain=False)
    with pytest.raises(RegistryError, match="names a token server without an address"):
        found.refused(f'Bearer realm="https://auth.example.invalid:{port}/token"', "", "")


def test_a_token_for_a_token() -> None:
    """An identity token is exchanged as OAuth2 has it: in the body, never in the address."""
    ask = Requests(b'{"access_token": "t"}')
    found = Authorization(HOST, lambda: Credentials(token="refresh"), ask, plain=False)
    assert found.refused(BEARER, SCOPE, "")
    ((method, url, _, data),) = ask.calls
    assert (method, url) == ("POST", "https://auth.example.invalid/token")
    assert b"grant_type=refresh_token&refresh_token=refresh" in (data or b"")


def test_a_password_is_not_sent_in_the_clear() -> None:
    """A token server without TLS gets nothing."""
    ask = Requests()
    found = Authorization(HOST, lambda: Credentials(username="u", password="p"), ask, plain=False)
    with pytest.raises(RegistryError) as caught:
        found.refused(BEARER.replace("https", "http"), SCOPE, "")
    assert caught.value.message == (
        f"{HOST} wants the password sent to 'http://auth.example.invalid/token', which is not encrypted"
    )
    assert ask.calls == []


def test_a_refused_password_is_not_tried_again() -> None:
    """The same header twice is of no use."""
    found = Authorization(HOST, lambda: Credentials(username="u", password="p"), Requests(), plain=False)
    assert found.refused('Basic realm="x"', SCOPE, "")
    assert not found.refused('Basic realm="x"', SCOPE, found.header(SCOPE))
    nobody = Authorization(HOST, lambda: None, Requests(), plain=False)
    assert not nobody.refused('Basic realm="x"', SCOPE, "")
    assert not nobody.known


def test_secrets_are_not_shown() -> None:
    """Credentials may be printed by mistake: their secrets are not."""
    assert "hush" not in repr(Credentials(username="u", password="hush", token="hush"))


def test_certificates_of_one_registry(tmp_path: Path) -> None:
    """Authorities next to docker's configuration are trusted for the registry they are named after."""
    folder = tmp_path / "certs.d" / f"{HOST}:5000"
    folder.mkdir(parents=True)
    (folder / "ca.crt").touch()
    environ = {"DOCKER_CONFIG": str(tmp_path)}
    assert certificates(f"{HOST}:5000", environ) == (folder / "ca.crt",)
    assert certificates(HOST, environ) == ()


def test_error_answers() -> None:
    """The registry's own words are shown, without control characters and secrets; rubbish is passed over."""
    body = json.dumps({"errors": [{"code": "DENIED", "message": "no\x1b[31m", "detail": "ghp_" + "a" * 30}]}).encode()
    error = answer_error(403, "Forbidden", body, "")
    assert (error.codes, error.reason) == (("DENIED",), "403 Forbidden (no [31m: ***)")
    sentence = refused("push x", HOST, error, known=True)
    assert sentence.message == f"cannot push x: {HOST} answered 403 Forbidden (no [31m: ***)"
    assert sentence.hint.endswith(f"docker login {HOST}")
    assert answer_error(500, "", b"<html>", "").reason == "500"
    assert answer_error(429, "", b"[]", "7").delay == 7.0
    assert answer_error(503, "", b"", "").transient
    assert answer_error(400, "", b'{"errors": [{"code": "MANIFEST_BLOB_UNKNOWN"}]}', "").transient
    assert not answer_error(400, "", b'{"errors": 5}', "").transient
    full = answer_error(500, "", b'{"errors": [{"message": "write: no space left on device"}]}', "")
    assert full.full
    assert not full.transient


@pytest.mark.parametrize(("reached", "connected", "tries"), [(False, False, 2), (True, False, 4), (False, True, 4)])
def test_how_often_a_registry_is_tried(
    reached: bool, connected: bool, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody there from the start is reported after a second try; a registry that has answered gets them all."""
    monkeypatch.setattr(Transport, "reached", reached)
    calls = []

    def call() -> None:
        calls.append(1)
        raise HttpError("no connection", transient=True, connected=connected)

    network = NetworkConfig(attempts=4, backoff=0.0)
    with Repository(parse_reference(f"{HOST}/a"), network) as repository, pytest.raises(RegistryError) as caught:
        repository.trying(call, "read it")
    assert caught.value.message == f"cannot read it: {HOST}: no connection"
    assert len(calls) == tries


def test_descriptors_are_checked() -> None:
    """A manifest that lists something without SHA-256 and size is refused."""
    good = {"mediaType": "m", "digest": f"sha256:{DIGEST}", "size": 3}
    for wrong in ({**good, "digest": "sha256:../x"}, {**good, "size": -1}, {**good, "size": "3"}, "x"):
        with pytest.raises(IntegrityError):
            descriptors(Manifest(json.dumps({"layers": [wrong]}).encode(), OCI_MANIFEST), "layers")
    assert descriptors(Manifest(json.dumps({"layers": [good]}).encode(), OCI_MANIFEST), "layers")[0].size == 3
    with pytest.raises(IntegrityError):
        descriptors(Manifest(b"[]", OCI_MANIFEST), "layers")


def test_gzip_is_unpacked_within_limits() -> None:
    """Several members, any slicing; damaged, cut off and endless ones are refused."""
    data = bytes(range(256)) * 400
    packed = gzip.compress(data[:1000]) + gzip.compress(data[1000:])
    for step in (1, 7, len(packed)):
        chunks = (packed[start : start + step] for start in range(0, len(packed), step))
        assert b"".join(unpacked(chunks, len(data), "x")) == data
    for wrong, limit, sentence in (
        (packed[:-3], 1 << 20, "x ends too early"),
        (b"no gzip at all", 1 << 20, "x cannot be decompressed"),
        (gzip.compress(bytes(1 << 20)), 1000, "x holds more than 1000 bytes"),
    ):
        with pytest.raises(IntegrityError) as caught:
            list(unpacked(iter((wrong,)), limit, "x"))
        assert caught.value.message.startswith(sentence)


def test_where_an_image_was_published(tmp_path: Path) -> None:
    """The file next to the lock keeps all places of one image, sorted, and forgets those of another."""
    lock, path = small_lock(), tmp_path / "pylock.t.toml"
    record = image_record(lock, manifest=DIGEST)
    places = [parse_reference(f"{HOST}/{name}").at(DIGEST) for name in ("b", "a")]
    for place in places:
        write_published(path, lock, record, place)
    assert read_published(path, lock) == tuple(sorted(places, key=str))
    other = parse_reference(f"{HOST}/b").at("cd" * 32)
    write_published(path, lock, image_record(lock, manifest="cd" * 32), other)
    assert read_published(path, lock) == (other,)
    assert read_published(path, small_lock(name="other")) == ()
    assert read_index(path, lock, "cd" * 32) == ""
    write_published(path, lock, image_record(lock, manifest="cd" * 32), other, "ef" * 32)
    write_published(path, lock, image_record(lock, manifest="cd" * 32), places[0])  # pushed alone: the index stays
    assert read_index(path, lock, "cd" * 32) == "ef" * 32
    assert read_index(path, lock, DIGEST) == read_index(path, small_lock(name="other"), "cd" * 32) == ""
    published_path(path).write_text("{")
    assert read_published(path, lock) == ()


def test_where_the_files_of_an_image_were_kept(tmp_path: Path) -> None:
    """A repository with a bundle keeps its mark for this image; another lock's image has none until it is pushed so."""
    lock, path = small_lock(), tmp_path / "pylock.t.toml"
    record = image_record(lock, manifest=DIGEST)
    bare, kept = (parse_reference(f"{HOST}/{name}").at(DIGEST) for name in ("bare", "kept"))
    assert published_without_files(path) == ()
    write_published(path, lock, record, kept, bundle=True)
    assert published_without_files(path) == ()
    write_published(path, lock, record, bare)
    write_published(path, lock, record, kept)
    assert published_without_files(path) == (bare.name,)
    write_published(path, lock, record, bare, bundle=True)
    assert published_without_files(path) == ()
    moved = small_lock(name="other")
    write_published(path, moved, image_record(moved, manifest="cd" * 32), kept)
    assert published_without_files(path) == (kept.name,)


def test_where_blobs_were_seen(tmp_path: Path) -> None:
    """Another repository that had a blob is remembered for one registry; the one asked for is no answer."""
    store = Store(tmp_path)
    BlobLocations(store, HOST, "team/one").note([DIGEST])
    assert BlobLocations(store, HOST, "team/two").others(DIGEST) == ("team/one",)
    assert BlobLocations(store, HOST, "team/one").others(DIGEST) == ()
    assert BlobLocations(store, "other.example.invalid", "team/two").others(DIGEST) == ()
    next((tmp_path / "derived" / "registries").iterdir()).write_text("{")
    assert BlobLocations(store, HOST, "team/two").others(DIGEST) == ()


class Answers:
    """A registry whose every answer is the same, with a further page."""

    def __init__(self, document: object) -> None:
        self.document = document
        self.asked = 0

    def call(self, method: str, path: str, **more: object) -> Answer:
        self.asked += 1
        headers = {"content-type": OCI_INDEX, "link": '</v2/a/tags/list?last=x>; rel="next"'}
        return Answer(status=200, headers=headers, data=json.dumps(self.document).encode())

    def address(self, path: str) -> str:
        return path


def _answering(document: object) -> tuple[Repository, Answers]:
    repository = Repository(parse_reference(f"{HOST}/a"), NetworkConfig())
    answers = Answers(document)
    repository.transport = cast("Transport", answers)
    return repository, answers


def test_lists_without_end_are_left() -> None:
    """Pages that always name a next one, with nothing in them or with thousands of tags each."""
    repository, answers = _answering({"tags": []})
    assert repository.tags() == ()
    assert answers.asked == 1
    repository, answers = _answering({"tags": ["x"] * 50_000})
    assert len(repository.tags()) == 100_000
    assert answers.asked == 2


def test_not_everything_that_a_registry_lists_is_asked_for() -> None:
    """Each referrer may cost a request: thousands of them are refused, with their number."""
    entry = {"digest": f"sha256:{DIGEST}", "size": 1, "mediaType": OCI_MANIFEST}
    repository, answers = _answering({"manifests": [entry] * 1001})
    with pytest.raises(IntegrityError, match=r"lists 1,001 things that refer to sha256:abab.*at most 1,000$"):
        attachments(repository, DIGEST)
    assert answers.asked == 1
