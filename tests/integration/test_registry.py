"""The registry client against Debian's docker-registry over TLS with a password, and a network that fails."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from envbuild.core.blob import Blob, blob_of
from envbuild.core.digest import sha256_bytes
from envbuild.core.progress import Silent
from envbuild.errors import BuildError, IntegrityError, RegistryError
from envbuild.net.config import NetworkConfig
from envbuild.registry.artifacts import Part, attach, attachments
from envbuild.registry.credentials import Credentials
from envbuild.registry.download import pull_blobs
from envbuild.registry.reference import parse_reference
from envbuild.registry.repository import OCI_MANIFEST, Manifest, Repository, descriptors
from envbuild.registry.upload import Pushed, push
from envbuild.store.objects import Store
from tests.support.fake_registry import TOKEN, FakeRegistry, fake_registry
from tests.support.proxy import Proxy, running_proxy
from tests.support.registry import PASSWORD, USER, Registry, running_registry

QUICK = NetworkConfig(attempts=3, backoff=0.01, connect_timeout=60, read_timeout=60)
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"


@pytest.fixture(scope="module", name="secure")
def _secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry with TLS and a password."""
    with running_registry(tmp_path_factory.mktemp("secure"), secure=True) as running:
        yield running


@pytest.fixture(scope="module", name="plain")
def _plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry without either, as engines accept on loopback."""
    with running_registry(tmp_path_factory.mktemp("plain")) as running:
        yield running


@pytest.fixture(name="proxy")
def _proxy(plain: Registry) -> Iterator[Proxy]:
    """A proxy before the plain registry."""
    with running_proxy(plain.host) as proxy:
        yield proxy


def manifest_of(blobs: list[Blob]) -> Manifest:
    """An image of these blobs, of which the first is the configuration."""
    described = [
        {"mediaType": LAYER if number else CONFIG, "digest": f"sha256:{blob.digest}", "size": blob.size}
        for number, blob in enumerate(blobs)
    ]
    document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": described[0], "layers": described[1:]}
    return Manifest(json.dumps(document).encode(), OCI_MANIFEST)


def random_blobs(*sizes: int) -> list[Blob]:
    """A configuration and layers that no registry has seen."""
    return [blob_of(json.dumps({"id": os.urandom(8).hex()}).encode()), *(blob_of(os.urandom(size)) for size in sizes)]


def repository(host: str, name: str, network: NetworkConfig = QUICK) -> Repository:
    """A repository that anybody may write to."""
    return Repository(parse_reference(f"{host}/{name}"), network)


def pushed(target: Repository, blobs: list[Blob], tag: str = "1") -> Pushed:
    """Push an image of these blobs."""
    return push(target, blobs, manifest_of(blobs), Silent(), tag=tag)


def test_only_what_is_missing_is_sent(secure: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TLS with a password: everything once, nothing the second time, and of a changed image only its own layer."""
    blobs = random_blobs(3_000_000, 2_000_000)
    with running_proxy(secure.host) as proxy:
        monkeypatch.setenv("DOCKER_CONFIG", str(secure.docker_config(tmp_path / "docker", host=proxy.host)))
        with repository(proxy.host, "team/image") as target:
            first = pushed(target, blobs)
            assert (first.uploaded, first.held, first.sent) == (3, 0, sum(blob.size for blob in blobs))
            proxy.reset()
            again = pushed(target, blobs)
            assert (again.uploaded, again.held, again.sent) == (0, 3, 0)
            assert proxy.up + proxy.down < 5_000
            changed = [random_blobs()[0], blobs[1], *random_blobs(1_000)[1:]]
            third = pushed(target, changed)
            assert (third.uploaded, third.held) == (2, 1)
            assert third.sent == changed[0].size + 1_000
            found = target.manifest("1")
            assert found is not None
            assert found.digest == manifest_of(changed).digest
            assert target.tags() == ("1",)


def test_another_repository_of_the_registry_gives_its_layers(plain: Registry) -> None:
    """A layer that the registry has in another repository is linked, not sent; a wrong guess does no harm."""
    blobs = random_blobs(500_000)
    with repository(plain.host, "team/one") as one, repository(plain.host, "team/two") as two:
        pushed(one, blobs)
        result = push(two, blobs, manifest_of(blobs), Silent(), tag="1", mounts=lambda digest: ("nobody", "team/one"))
        assert (result.mounted, result.uploaded, result.sent) == (2, 0, 0)
        assert two.blob_size(blobs[1].digest) == 500_000


def test_broken_connections_are_outlived(proxy: Proxy) -> None:
    """A connection that breaks in the middle of a layer, again and again, costs time only."""
    blobs = random_blobs(4_000_000)
    proxy.cut_after, proxy.cuts = 2_500_000, 2
    with repository(proxy.host, "team/broken") as target:
        result = pushed(target, blobs)
        assert proxy.cut == 2
        assert result.sent > 4_000_000
        assert target.read_blob(blobs[1].digest, 4_000_000) == blobs[1].data


def test_a_registry_that_keeps_the_first_part_gets_only_the_rest() -> None:
    """Where the registry keeps what has arrived, an upload continues from there."""
    blobs = random_blobs(8_000_000)
    with fake_registry(break_after=5_000_000) as registry, repository(registry.host, "a/b") as target:
        result = pushed(target, blobs)
        assert "PATCH /v2/a/b/blobs/uploads/" in "\n".join(registry.log)
        assert registry.blobs[blobs[1].digest] == blobs[1].data
        assert result.sent < 15_000_000


def test_tokens_and_storage_elsewhere(tmp_path: Path) -> None:
    """The token server gets the password, the registry the token, and the storage it redirects to neither."""
    blobs = random_blobs(10_000)
    with fake_registry() as storage, fake_registry(user="me:secret", storage=storage.host) as registry:
        storage.blobs = registry.blobs
        reference = parse_reference(f"{registry.host}/a/b")
        with Repository(reference, QUICK, lambda name: Credentials(username="me", password="secret")) as target:
            pushed(target, blobs)
            assert target.read_blob(blobs[1].digest, 10_000) == blobs[1].data
            store = Store(tmp_path)
            assert pull_blobs(target, descriptors(manifest_of(blobs), "layers"), store, Silent()) == 10_000
        assert {value.partition(" ")[0] for value in registry.authorizations} == {"", "Basic", "Bearer"}
        assert registry.log.count("GET /token") <= 2
        assert storage.log
        assert set(storage.authorizations) == {""}
        with Repository(reference, QUICK, lambda name: Credentials(username="me", password="wrong")) as stranger:
            with pytest.raises(RegistryError) as caught:
                stranger.tags()
            assert caught.value.message == (
                f"cannot list the tags of {registry.host}/a/b: {registry.host} does not accept the configured "
                "user name and password"
            )
    assert TOKEN not in str(caught.value)


def test_who_may_not(secure: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password, none, and a certificate nobody trusts: each is reported, no password is."""
    blobs = random_blobs(10)

    def refusal(folder: Path) -> RegistryError:
        monkeypatch.setenv("DOCKER_CONFIG", str(folder))
        with repository(secure.host, "team/locked") as target, pytest.raises(RegistryError) as caught:
            pushed(target, blobs)
        assert PASSWORD not in str(caught.value) + caught.value.hint
        return caught.value

    digest = manifest_of(blobs).digest
    wrong = refusal(secure.docker_config(tmp_path / "wrong", password="not my secret"))
    assert "not my secret" not in wrong.message + wrong.hint
    assert wrong.message == (
        f"cannot read {secure.host}/team/locked@sha256:{digest}: {secure.host} does not accept the configured "
        "user name and password"
    )
    assert wrong.hint == f"log in again: docker login {secure.host}"
    nobody = secure.docker_config(tmp_path / "nobody")
    (nobody / "config.json").unlink()
    none = refusal(nobody)
    assert none.message.endswith(f"{secure.host} asks for a user name and password, and none is configured")
    (tmp_path / "empty").mkdir()
    assert "the server's certificate is not trusted" in refusal(tmp_path / "empty").message


def test_a_credential_helper_is_asked(secure: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords may live in a docker credential helper; one that fails is reported without its words."""
    folder = secure.docker_config(tmp_path / "docker")
    (folder / "config.json").write_text(json.dumps({"credHelpers": {secure.host: "envbuild-test"}}))
    helper = tmp_path / "bin" / "docker-credential-envbuild-test"
    helper.parent.mkdir()
    answer = json.dumps({"Username": USER, "Secret": PASSWORD})
    helper.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{answer}'\n")
    helper.chmod(0o755)
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    with repository(secure.host, "team/helped") as target:
        assert pushed(target, random_blobs(10)).uploaded == 2
    helper.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{PASSWORD} is broken'\nexit 1\n")
    with repository(secure.host, "team/helped") as target, pytest.raises(RegistryError) as caught:
        target.tags()
    assert caught.value.message == (
        f"cannot get the credentials for {secure.host} from {folder}/config.json: "
        "a credential helper failed (DockerException)"
    )


def test_a_full_registry(tmp_path: Path) -> None:
    """A registry without space reports it once, what was whole stays, and no image is named."""
    blobs = random_blobs(1_000_000, 9_000_000)
    with running_registry(tmp_path, size=6_000_000) as small, repository(small.host, "team/full") as target:
        pushed(target, blobs[:2], "before")  # next to the large one, these too could meet a full disk
        with pytest.raises(RegistryError) as caught:
            pushed(target, blobs)
        assert caught.value.message.startswith(
            f"cannot push sha256:{blobs[2].digest[:12]}… to {small.host}/team/full: the registry's disk is full: "
        )
        assert caught.value.hint == "make room there, then run the same command: what was uploaded whole is kept"
        assert target.manifest("1") is None
        assert target.read_blob(blobs[1].digest, 1_000_000) == blobs[1].data


def test_bytes_altered_on_the_way_are_refused(proxy: Proxy, tmp_path: Path) -> None:
    """A flipped bit in a layer, in a manifest or on the way up is found, nothing wrong is kept; then it works."""
    blobs = random_blobs(300_000)
    manifest, store = manifest_of(blobs), Store(tmp_path)
    with repository(proxy.host, "team/altered") as target:
        pushed(target, blobs)
        layers = descriptors(manifest, "layers")
        proxy.flip = blobs[1].data[1000:1016]
        with pytest.raises(IntegrityError) as caught:
            pull_blobs(target, layers, store, Silent())
        assert caught.value.message.startswith(
            f"sha256:{blobs[1].digest[:12]}… of {proxy.host}/team/altered has other bytes than promised: expected "
        )
        assert not store.has(blobs[1].digest)
        proxy.flip = b'"schemaVersion": 2'
        with pytest.raises(IntegrityError) as caught:
            target.manifest(f"sha256:{manifest.digest}")
        assert "has other bytes than promised" in caught.value.message
        assert pull_blobs(target, layers, store, Silent()) == 300_000
        assert store.verify(blobs[1].digest)


def test_a_download_goes_on(proxy: Proxy, tmp_path: Path) -> None:
    """What an interrupted pull has brought is not brought again."""
    blobs = random_blobs(5_000_000)
    store = Store(tmp_path)
    with repository(proxy.host, "team/resumed") as target:
        pushed(target, blobs)
        with store.claim(blobs[1].digest) as part:
            part.restart()
            part.write(blobs[1].data[:4_000_000])
        assert pull_blobs(target, descriptors(manifest_of(blobs), "layers"), store, Silent()) == 1_000_000
        assert store.verify(blobs[1].digest)


def test_plain_http_is_for_loopback(plain: Registry) -> None:
    """A registry that is not on loopback by its name must speak TLS: nothing is sent to it in the clear."""
    host = f"2130706433:{plain.host.rpartition(':')[2]}"  # 127.0.0.1 under a name that hides it
    with repository(host, "team/far") as target, pytest.raises(RegistryError) as caught:
        pushed(target, random_blobs(10))
    assert caught.value.message == (f"{host} speaks plain HTTP; only a registry on loopback (localhost, 127.0.0.1) may")


def test_no_registry_at_all() -> None:
    """No server: reported with the registry's name, after the tries that the configuration allows."""
    network = replace(QUICK, attempts=2)
    with repository("127.0.0.1:9", "team/nowhere", network) as target, pytest.raises(RegistryError) as caught:
        target.tags()
    assert caught.value.message == (
        "cannot list the tags of 127.0.0.1:9/team/nowhere: 127.0.0.1:9: no connection: [Errno 111] Connection refused"
    )


def test_a_damaged_file_is_reported(plain: Registry, tmp_path: Path) -> None:
    """A layer's file that does not match its name, or too short, is named; the registry has nothing of it."""
    for damage in (b"other bytes", b"short"):
        (tmp_path / "layer.tar").write_bytes(damage)
        blob = Blob(digest=blob_of(b"right bytes").digest, size=11, path=tmp_path / "layer.tar")
        with repository(plain.host, "team/damaged") as target, pytest.raises(BuildError) as caught:
            pushed(target, [*random_blobs(), blob])
        assert caught.value.message == f"{blob.path} is not as it was made: expected sha256 {blob.digest}"
        assert target.blob_size(blob.digest) is None


def test_two_builders_race_for_one_tag(plain: Registry) -> None:
    """A user who tags last wins; both images stay whole under their digests."""
    images = [random_blobs(200_000), random_blobs(200_000)]

    def build(blobs: list[Blob]) -> None:
        with repository(plain.host, "team/raced") as target:
            for _ in range(5):
                pushed(target, blobs, "latest")

    with ThreadPoolExecutor(2) as builders:
        list(builders.map(build, images))
    with repository(plain.host, "team/raced") as target:
        digests = [manifest_of(blobs).digest for blobs in images]
        assert target.manifest_digest("latest") in digests
        for blobs, digest in zip(images, digests, strict=True):
            found = target.manifest(f"sha256:{digest}")
            assert found is not None
            assert target.read_blob(blobs[1].digest, 200_000) == blobs[1].data


@pytest.mark.parametrize("kind", ["docker-registry", "referrers endpoint"])
def test_what_refers_to_an_image_is_found(plain: Registry, kind: str) -> None:
    """SBOMs and signatures, by the specification's list or its tag, and under cosign's tags."""
    blobs = random_blobs(100)
    subject = manifest_of(blobs)
    with fake_registry() as fake:
        host, name = (plain.host, "team/signed") if kind == "docker-registry" else (fake.host, "a/b")
        with repository(host, name) as target:
            pushed(target, blobs)
            assert attachments(target, subject.digest) == ()
            for document in (b"one", b"two", b"two"):
                part = Part(blob=blob_of(document), media_type="application/spdx+json", annotations={})
                attach(target, subject, "application/spdx+json", [part])
            signature = random_blobs(50)
            document = json.loads(manifest_of(signature).data)
            document["layers"][0]["mediaType"] = "application/vnd.dev.cosign.simplesigning.v1+json"
            made = Manifest(json.dumps(document).encode(), OCI_MANIFEST)
            push(target, signature, made, Silent(), tag=f"sha256-{subject.digest}.sig")
            found = attachments(target, subject.digest)
            assert [(item.kind, item.place) for item in found] == [
                ("sbom", "referrers"), ("sbom", "referrers"), ("signature", f"sha256-{subject.digest}.sig")
            ]  # fmt: skip
            assert found[2].type == "application/vnd.dev.cosign.simplesigning.v1+json"


def test_the_fake_is_strict() -> None:
    """The registry in this process refuses wrong bytes, so that the tests with it can fail."""
    wrong = Blob(digest=blob_of(b"right").digest, size=5, data=b"wrong")
    with fake_registry() as registry, repository(registry.host, "a/b") as target:
        with pytest.raises(RegistryError) as caught:
            pushed(target, [wrong])
        assert "answered 400 Bad Request" in caught.value.message
        assert isinstance(registry, FakeRegistry)
        assert not registry.blobs


@pytest.mark.parametrize("user", ["", "me:secret"])
def test_a_storage_host_that_asks_for_a_password_gets_none(user: str, tmp_path: Path) -> None:
    """A challenge from where the registry has sent us is an error: credentials belong to the registry's own origin."""
    data = b"layer"
    with fake_registry(greedy=True, user="x:y") as storage, fake_registry(user=user, storage=storage.host) as registry:
        digest = sha256_bytes(data)
        registry.blobs[digest] = data
        reference = parse_reference(f"{registry.host}/a/b")
        with Repository(
            reference, NetworkConfig(attempts=1), lambda name: Credentials(username="me", password="secret")
        ) as repository:
            with pytest.raises(RegistryError) as caught:
                repository.read_blob(digest, 100)
            assert caught.value.message == (
                f"{registry.host} sends us to http://{storage.host}, which asks for a password (401); "
                "the registry's is not for it"
            )
            with pytest.raises(RegistryError):
                pull_blobs(repository, [Blob(digest=digest, size=len(data))], Store(tmp_path), Silent())
        assert set(storage.log) == {f"GET /storage/{digest}"}
        assert set(storage.authorizations) == {""}


def test_an_address_that_parsers_read_differently_is_none() -> None:
    """``http://other\\@registry/`` is the registry's for one parser, and another's for the one that connects."""
    data = b"layer"
    with fake_registry() as other, fake_registry(user="me:secret") as registry:
        registry.storage = f"{other.host}\\@{registry.host}"
        digest = sha256_bytes(data)
        registry.blobs[digest] = data
        reference = parse_reference(f"{registry.host}/a/b")
        known = Credentials(username="me", password="secret")
        with (
            Repository(reference, NetworkConfig(attempts=1), lambda name: known) as repository,
            pytest.raises(RegistryError),
        ):
            repository.read_blob(digest, 100)
        assert registry.log
        assert other.log == []
