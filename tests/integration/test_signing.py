"""``envbuild sign`` and ``--require-signature``: Debian's cosign, key pairs made here, a registry on loopback."""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from envbuild.core.blob import blob_of
from envbuild.core.digest import sha256_bytes
from envbuild.core.progress import Silent
from envbuild.lockfile import model as locks
from envbuild.net.config import NetworkConfig
from envbuild.registry.credentials import Credentials
from envbuild.registry.reference import parse_reference
from envbuild.registry.repository import Manifest, Repository, descriptors
from envbuild.registry.upload import Pushed, push_blobs
from tests.support.cli import Done, Project
from tests.support.cosign import PASSWORD, KeyPair, cosign_program, make_keys
from tests.support.images import forget_images
from tests.support.proxy import running_proxy
from tests.support.registry import PASSWORD as LOGIN
from tests.support.registry import Registry, running_registry
from tests.support.sigstore import Sigstore

pytestmark = [pytest.mark.engine, pytest.mark.network]

NAME = f"signing{secrets.token_hex(4)}"
IDENTITY = "https://github.com/o/r/.github/workflows/images.yml@refs/heads/main"
ISSUER = "https://token.actions.example.invalid"


@pytest.fixture(scope="module", name="registry")
def _registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry without TLS, as engines accept on loopback."""
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module", name="keys")
def _keys(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    """The pair whose signature counts."""
    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module", name="builder")
def _builder(made: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A locked project with a separate image name, and cosign of Debian 13."""
    project = made.copy(tmp_path_factory.mktemp("builder"))
    project.environ |= {"ENVBUILD_COSIGN": cosign_program(), "COSIGN_PASSWORD": PASSWORD}
    spec = (project.folder / "spec.yaml").read_text()
    for file in project.folder.glob("pylock.*"):
        file.unlink()
    project.write("spec.yaml", spec.replace("clitest", NAME))
    project.write("train.py", "print('ran')\n")
    project.must("lock")
    yield project
    forget_images(f"envbuild/{NAME}")


def pushed(builder: Project, registry: Registry, **environ: str) -> str:
    """Push to a separate repository; returns the reference by digest."""
    target = f"{registry.host}/team/{secrets.token_hex(4)}:1"
    return str(builder.must("push", target, "--json", **environ).json["reference"])


def signed(builder: Project, registry: Registry, keys: KeyPair) -> str:
    """Push and sign, without statements."""
    reference = pushed(builder, registry)
    builder.must("sign", reference, "--key", keys.private, "--signature-only")
    return reference


def refused(done: Done, *sentences: str, code: int = 13) -> None:
    """Check that a command ran and brought in nothing, and stated why."""
    assert done.code == code, done
    assert "ran" not in done.out.splitlines()
    for sentence in sentences:
        assert sentence in done.err, done.err
    client = docker.from_env()
    assert not client.images.list(name=f"envbuild/{NAME}")
    client.close()


def repository(reference: str) -> Repository:
    """The client for a reference's repository."""
    return Repository(parse_reference(reference), NetworkConfig(attempts=2, backoff=0.01), lambda _: Credentials())


@pytest.mark.parametrize("suite", ["trixie", "unstable"])
def test_signed_and_attested_with_tls_and_password(builder: Project, keys: KeyPair, tmp_path: Path, suite: str) -> None:
    """Signature, provenance and SBOMs by Debian's cosign 2 and 3: seen by inspect, run, and by cosign itself."""
    program = cosign_program(suite)
    with running_registry(tmp_path, secure=True) as registry:
        config = registry.docker_config(tmp_path / "docker")
        environ = {"DOCKER_CONFIG": str(config), "ENVBUILD_COSIGN": program}
        reference = pushed(builder, registry, **environ)
        done = builder.must("sign", reference, "--key", keys.private, "--json", **environ)
        made = done.json
        assert (made["reference"], made["signer"]) == (reference, keys.private)
        assert sorted(made["statements"]) == ["cyclonedx", "slsaprovenance1", "spdxjson"]
        name = reference.partition("@")[0]  # its one tag that is no signature's
        shown = builder.must("inspect", name, "--require-signature", keys.public, "--json", **environ)
        table = shown.json
        assert table["reference"] == reference
        local = {"builders": ["urn:envbuild:builder:local"], "other_locks": []}
        assert table["signed"] == {"by": keys.public, "good": True, "provenance": local}
        assert sorted(item["kind"] for item in table["attached"]) == ["attestation", "sbom", "sbom", "signature"]
        again = builder.must("sign", reference, "--key", keys.private, **environ).out.splitlines()
        assert all("nothing to do" in line for line in again)
        assert len(again) == 2
        forget_images(f"envbuild/{NAME}")
        demand = ("--require-signature", keys.public)
        ran = builder.must("run", "--image", reference, *demand, "train.py", **environ)
        assert ran.out == "ran\n"
        assert f"by {keys.public}" in ran.err
        predicate = attested(program, reference, keys, registry, config)
    lock = table["lock"]
    parameters = predicate["buildDefinition"]["externalParameters"]
    assert parameters["lock"] == {"name": NAME, "digest": {"sha256": lock["digest"]}}
    named = {item["digest"]["sha256"] for item in predicate["buildDefinition"]["resolvedDependencies"]}
    held = locks.loads(lock["toml"].encode(), NAME)
    assert named == {package.sha256 for package in held.os.packages} | {one.wheel.sha256 for one in held.packages}
    products = {item["name"]: item["digest"]["sha256"] for item in predicate["runDetails"]["byproducts"]}
    assert products["config"] == table["config"]
    message = "".join(part.out + part.err for part in (done, shown, ran))
    assert PASSWORD not in message
    assert LOGIN not in message


def attested(program: str, reference: str, keys: KeyPair, registry: Registry, config: Path) -> dict[str, Any]:
    """The provenance as cosign alone sees it."""
    command = [program, "verify-attestation", "--key", keys.public, "--insecure-ignore-tlog=true"]
    command += ["--type", "slsaprovenance1", "--registry-cacert", str(registry.certificate), reference]
    done = subprocess.run(command, check=True, capture_output=True, env={"DOCKER_CONFIG": str(config), "HOME": "/"})
    statement = json.loads(base64.b64decode(json.loads(done.stdout)["payload"]))
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert [item["digest"]["sha256"] for item in statement["subject"]] == [reference.rpartition(":")[2]]
    return dict(statement["predicate"])


def test_no_signature_or_a_foreign_one(builder: Project, registry: Registry, keys: KeyPair, tmp_path: Path) -> None:
    """Without a signature, and with one by another key, nothing is brought in or run: run, pull and inspect."""
    forget_images(f"envbuild/{NAME}")
    reference, demand = pushed(builder, registry), ("--require-signature", keys.public)
    refused(builder("run", "--image", reference, *demand, "train.py"), f"envbuild: {reference} is not signed\n")
    refused(builder("pull", reference, *demand), f"envbuild: {reference} is not signed\n")
    others = make_keys(tmp_path, "other")
    builder.must("sign", reference, "--key", others.private, "--signature-only")
    reported = f"envbuild: {reference} has no good signature by {keys.public}\n  cosign  no matching signatures"
    refused(builder("run", "--image", reference, *demand, "train.py"), reported)
    refused(builder("pull", reference, *demand), reported)
    shown = builder("inspect", reference, *demand)
    refused(shown, reported)
    assert f"checked   not signed by {keys.public}\n" in shown.out
    assert builder("inspect", reference, "--lock", *demand).out == ""
    # It is there, and it is this lock's: only the signature is missing.
    builder.must("pull", reference)
    reported = f"has no good signature by {keys.public}"
    assert reported in builder("run", "--image", reference, *demand, "train.py").err
    builder.must("sign", reference, "--key", keys.private, "--signature-only")
    assert builder.must("run", "--image", reference, *demand, "train.py").out == "ran\n"


def test_a_signature_of_something_else(builder: Project, registry: Registry, keys: KeyPair) -> None:
    """A good signature moved to another image, and a payload rewritten to name this one, do not count."""
    forget_images(f"envbuild/{NAME}")
    reference = signed(builder, registry, keys)
    with repository(reference) as target:
        digest = reference.rpartition(":")[2]
        image = target.manifest(f"sha256:{digest}")
        signature = target.manifest(f"sha256-{digest}.sig")
        assert image is not None
        assert signature is not None
        other = Manifest(image.data.replace(b'"schemaVersion":2', b'"schemaVersion": 2'), image.media_type)
        target.put_manifest(other, "moved")
        demand = ("--require-signature", keys.public)
        name = reference.partition("@")[0]
        unsigned = f"{name}@sha256:{other.digest} is not signed"
        refused(builder("pull", f"{name}:moved", *demand), unsigned)
        target.put_manifest(signature, f"sha256-{other.digest}.sig")
        refused(builder("pull", f"{name}:moved", *demand), "invalid or missing digest in claim")
        payload = descriptors(signature, "layers")[0]
        data = target.read_blob(payload.digest, 1 << 20).replace(digest.encode(), other.digest.encode())
        push_blobs(target, [blob_of(data)], Silent(), Pushed())
        text = signature.data.replace(payload.digest.encode(), sha256_bytes(data).encode())
        target.put_manifest(replace(signature, data=text), f"sha256-{other.digest}.sig")
        refused(builder("pull", f"{name}:moved", *demand), "no matching signatures: invalid signature")


def test_a_payload_altered_on_the_way(builder: Project, registry: Registry, keys: KeyPair) -> None:
    """One bit of the signed payload flipped by the network: refused."""
    forget_images(f"envbuild/{NAME}")
    reference = signed(builder, registry, keys)
    with running_proxy(registry.host) as proxy:
        moved = reference.replace(registry.host, proxy.host)
        proxy.flip = b"docker-manifest-digest"
        done = builder("run", "--image", moved, "--require-signature", keys.public, "train.py")
        assert proxy.flip == b""
    refused(done, f"{moved} has no good signature by {keys.public}")


def test_an_attestation_is_no_signature(builder: Project, registry: Registry, keys: KeyPair, tmp_path: Path) -> None:
    """cosign 3 takes any statement by the key for a signature of the image; envbuild does not."""
    forget_images(f"envbuild/{NAME}")
    reference, program = pushed(builder, registry), cosign_program("unstable")
    (tmp_path / "found.json").write_text('{"it": "is broken"}')
    command = ["attest", "--yes", "--key", keys.private, "--tlog-upload=false", "--use-signing-config=false"]
    command += ["--predicate", str(tmp_path / "found.json"), reference]
    subprocess.run([program, *command], check=True, capture_output=True, env=builder.environ)
    done = builder("pull", reference, "--require-signature", keys.public, ENVBUILD_COSIGN=program)
    refused(done, "  cosign  only other statements, or for another image, are signed")


def test_an_image_that_was_never_pushed(builder: Project, registry: Registry, keys: KeyPair, tmp_path: Path) -> None:
    """It has no signature; once pushed with --write and signed, the demand alone finds it."""
    forget_images(f"envbuild/{NAME}")
    project, demand = builder.copy(tmp_path), ("--require-signature", keys.public)
    lock = f"pylock.{NAME}.toml"
    refused(
        project("run", *demand, "train.py"),
        f"envbuild: nobody has signed the image of {lock} as far as is known: what is signed is an image in a "
        "registry, and no file records that this one was pushed — nothing was run\n",
    )
    assert (
        f"envbuild: sign which image? nothing records where that of {lock} was pushed\n"
        in project("sign", "--key", keys.private).err
    )
    project.must("push", f"{registry.host}/team/found", "--write")
    project.must("sign", "--key", keys.private, "--signature-only")
    assert project.must("run", *demand, "train.py").out == "ran\n"
    (record,) = (project.folder / ".envbuild" / "runs").iterdir()
    options = json.loads((record / "record.json").read_bytes())["options"]
    assert options["signer"] == keys.public
    assert f"signed by {keys.public}" in project.must("show", record.name).out
    done = project("run", "--offline", *demand, "train.py")
    assert (done.code, done.out) == (2, "")
    assert "envbuild: --require-signature asks the registry, which --offline forbids\n" in done.err


def test_only_the_recorded_image_is_signed(builder: Project, registry: Registry, keys: KeyPair) -> None:
    """A tag, another digest, a wrong password: nothing is signed, and no secret is reported."""
    reference = pushed(builder, registry)
    name, _, digest = reference.partition("@")
    done = builder("sign", f"{name}:1", "--key", keys.private)
    assert (done.code, done.err.splitlines()[0]) == (
        2, f"envbuild: sign {name}:1: a tag may mean something else tomorrow"
    )  # fmt: skip
    done = builder("sign", f"{name}@sha256:{'0' * 64}", "--key", keys.private)
    assert done.code == 16
    other = f"{name}@sha256:{'0' * 64}"
    assert done.err.splitlines()[:2] == [
        f"envbuild: {other} is not the image recorded in pylock.{NAME}.image.json — nothing was signed",
        f"  recorded  {digest}",
    ]
    done = builder("sign", reference, "--key", keys.private, "--signature-only", COSIGN_PASSWORD="mistyped-secret")
    assert done.code == 2
    assert done.err.startswith(f"envbuild: cannot use the key {keys.private}: decrypt: encrypted: decryption failed\n")
    assert "mistyped-secret" not in done.out + done.err
    with repository(reference) as target:
        assert target.tags() == ("1",)


def test_keyless_asks_for_an_identity(builder: Project, registry: Registry, tmp_path: Path) -> None:
    """No key, no switch that weakens anything, no secret where none is needed; a service out of reach is exit 17."""
    reference = pushed(builder, registry)
    stub = tmp_path / "cosign"
    stub.write_text(
        f'#!/bin/sh\necho "$* ${{COSIGN_PASSWORD-none}}" >>{tmp_path}/calls\necho "Error: dial tcp" >&2; exit 1\n'
    )
    stub.chmod(0o755)
    demand = ("--require-signature", f"{IDENTITY}@{ISSUER}")
    done = builder("run", "--image", reference, *demand, "train.py", ENVBUILD_COSIGN=str(stub))
    assert done.code == 17
    builder("sign", reference, "--keyless", "--signature-only", ENVBUILD_COSIGN=str(stub))
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"verify --certificate-identity {IDENTITY} --certificate-oidc-issuer {ISSUER} {reference} none",
        f"sign --yes {reference} {PASSWORD}",
    ]


@pytest.mark.parametrize("suite", ["trixie", "unstable"])
def test_a_workflow_signed(builder: Project, registry: Registry, tmp_path: Path, suite: str) -> None:
    """Keyless, with authority and logs made here: this workflow's signature counts; of no other, nor unrecorded."""
    forget_images(f"envbuild/{NAME}")
    reference, sigstore = pushed(builder, registry), Sigstore(tmp_path / "sigstore")
    environ, digest = {**sigstore.environ, "ENVBUILD_COSIGN": cosign_program(suite)}, reference.rpartition(":")[2]
    demand = ("--image", reference, "--require-signature", f"{IDENTITY}@{ISSUER}", "train.py")
    with repository(reference) as target:
        reported = f"{reference} has no good signature by {IDENTITY} ({ISSUER})\n  cosign  no matching signatures: "
        sigstore.sign(target, digest, IDENTITY, ISSUER, recorded=False)
        done = builder("run", *demand, **environ)
        assert (done.code in (13, 17), done.out) == (True, "")  # cosign asks the public log, if it can be reached
        sigstore.sign(target, digest, f"{IDENTITY}x", ISSUER)
        refused(builder("run", *demand, **environ), reported + "none of the expected identities matched")
        sigstore.sign(target, digest, IDENTITY, f"{ISSUER}.example")
        refused(builder("run", *demand, **environ), reported + "none of the expected identities matched")
        Sigstore(tmp_path / "another").sign(target, digest, IDENTITY, ISSUER)
        refused(builder("run", *demand, **environ), reported)
        sigstore.sign(target, digest, IDENTITY, ISSUER)
    done = builder.must("run", *demand, **environ)
    assert done.out == "ran\n"
    assert done.err.startswith(f"signed    sha256:{digest[:12]}…  by {IDENTITY} ({ISSUER})")
