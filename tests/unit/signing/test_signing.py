"""Who signs, what cosign reports, and what the provenance statement holds."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from envbuild.errors import IntegrityError, RegistryError, UsageError
from envbuild.signing.cosign import PROVENANCE, Cosign, find_program
from envbuild.signing.provenance import Material, Origin, Subject, builder_of, locked_by, origin, provenance
from envbuild.signing.trust import Signer, Trust, signer, trust

DIGEST, OTHER = "a" * 64, "b" * 64
REFERENCE = f"127.0.0.1:5000/team/digits@sha256:{DIGEST}"
KEY = Trust(key="cosign.pub")
SECRETS = {"COSIGN_PASSWORD": "p", "COSIGN_PRIVATE_KEY": "k", "PATH": "/bin"}
WORKFLOW = "https://github.com/o/r/.github/workflows/images.yml@refs/heads/main"
ISSUER = "https://token.actions.githubusercontent.com"


@dataclass
class Fake:
    """Represents cosign: gives prepared answers (exit code, standard output, standard error), keeps the calls."""

    answers: list[tuple[int, str, str]]
    calls: list[list[str]] = field(default_factory=list)
    environs: list[Mapping[str, str]] = field(default_factory=list)

    def __call__(
        self, command: Sequence[str], environ: Mapping[str, str], shown: bool
    ) -> subprocess.CompletedProcess[str]:
        self.calls.append(list(command))
        self.environs.append(environ)
        code, out, err = self.answers.pop(0)
        return subprocess.CompletedProcess(command, code, out, err)


def cosign(*answers: tuple[int, str, str]) -> tuple[Cosign, Fake]:
    """Return cosign over prepared answers."""
    fake = Fake(list(answers))
    return Cosign("cosign", SECRETS, Path("ca.pem"), fake), fake


def entry(digest: str = DIGEST, kind: str = "cosign container image signature") -> dict[str, Any]:
    """What ``cosign verify`` prints of one signature."""
    return {"critical": {"image": {"docker-manifest-digest": f"sha256:{digest}"}, "type": kind}}


@pytest.mark.parametrize("kind", ["cosign container image signature", "https://sigstore.dev/cosign/sign/v1"])
def test_a_signature_counts(kind: str) -> None:
    """A signature of this digest, in the old and the new form; cosign gets neither password nor private key."""
    tool, fake = cosign((0, f"\n{json.dumps([entry(OTHER), entry(kind=kind)])}\n", "WARNING: …"))
    tool.check(REFERENCE, DIGEST, KEY)
    assert fake.calls == [
        [
            "cosign",
            "verify",
            "--key",
            "cosign.pub",
            "--insecure-ignore-tlog=true",
            "--registry-cacert",
            "ca.pem",
            REFERENCE,
        ]
    ]
    assert fake.environs == [{"PATH": "/bin"}]


@pytest.mark.parametrize(
    "out",
    [
        "",
        "[]",
        "{}",
        "[null]",
        "[{}]",
        "not JSON",
        json.dumps([entry(OTHER)]),
        json.dumps([entry(kind="https://slsa.dev/provenance/v1")]),
        json.dumps([{"critical": {"image": DIGEST, "type": 1}}]),
    ],
)
def test_what_is_no_signature_of_this_image_does_not_count(out: str) -> None:
    """Even if cosign ends well: another digest, another statement, nothing, or nonsense."""
    tool, _ = cosign((0, out, ""))
    with pytest.raises(IntegrityError) as caught:
        tool.check(REFERENCE, DIGEST, KEY)
    assert caught.value.message == (
        f"{REFERENCE} has no good signature by cosign.pub\n"
        "  cosign  only other statements, or for another image, are signed"
    )


def test_why_cosign_refuses() -> None:
    """No signature, a wrong one, and a registry that does not answer are distinguished; its words are cleaned."""
    tool, _ = cosign(
        (10, "", "Error: no signatures found\nerror during command execution: no signatures found\n"),
        (12, "", "WARNING: x\nError: no matching signatures: \x1b[31m ghp_" + "a" * 30 + "\nerror during: …\n"),
        (1, "", "Error: Get: dial tcp 127.0.0.1:5000: connect: connection refused\n"),
        (1, "", ""),
    )
    with pytest.raises(IntegrityError) as caught:
        tool.check(REFERENCE, DIGEST, KEY)
    assert caught.value.message == f"{REFERENCE} is not signed"
    with pytest.raises(IntegrityError) as caught:
        tool.check(REFERENCE, DIGEST, KEY)
    assert caught.value.message == (
        f"{REFERENCE} has no good signature by cosign.pub\n  cosign  no matching signatures:  [31m ***"
    )
    with pytest.raises(RegistryError) as refused:
        tool.check(REFERENCE, DIGEST, KEY)
    assert refused.value.message == (
        f"cannot check who signed {REFERENCE}: Get: dial tcp 127.0.0.1:5000: connect: connection refused"
    )
    with pytest.raises(IntegrityError):
        tool.check(REFERENCE, DIGEST, KEY)


def test_keyless_weakens_nothing() -> None:
    """An identity is demanded with its issuer and with the transparency log; signing gives no key."""
    tool, fake = cosign((0, json.dumps([entry()]), ""), (0, "", ""))
    tool.check(REFERENCE, DIGEST, Trust(identity=WORKFLOW, issuer=ISSUER))
    tool.sign(REFERENCE, Signer())
    authorities = ["--registry-cacert", "ca.pem"]
    who = ["--certificate-identity", WORKFLOW, "--certificate-oidc-issuer", ISSUER]
    assert fake.calls == [
        ["cosign", "verify", *who, *authorities, REFERENCE],
        ["cosign", "sign", "--yes", *authorities, REFERENCE],
    ]


@pytest.mark.parametrize(
    ("helped", "flags"), [("", []), ("--use-signing-config=true:", ["--use-signing-config=false"])]
)
def test_a_key_needs_no_network(helped: str, flags: list[str]) -> None:
    """Old and new cosign are instructed to leave the transparency log and the list of services alone."""
    tool, fake = cosign((0, helped, ""), (0, "", ""), (0, helped, ""), (0, "", ""))
    tool.sign(REFERENCE, Signer(key="cosign.key"))
    tool.attest(REFERENCE, Signer(key="cosign.key"), PROVENANCE, Path("p.json"))
    common = ["--yes", "--key", "cosign.key", "--tlog-upload=false", *flags, "--registry-cacert", "ca.pem"]
    assert fake.calls[1] == ["cosign", "sign", *common, REFERENCE]
    stated = ["--type", "slsaprovenance1", "--predicate", "p.json"]
    assert fake.calls[3] == ["cosign", "attest", *common, *stated, REFERENCE]
    assert ["COSIGN_PASSWORD" in environ for environ in fake.environs] == [False, True, False, True]


def test_statements_are_of_this_image() -> None:
    """Envelopes about another digest and what cannot be read are passed over; none at all is none."""

    def line(digest: str, predicate: Any) -> str:
        statement = {"subject": [{"digest": {"sha256": digest}}], "predicate": predicate}
        return json.dumps({"payload": base64.b64encode(json.dumps(statement).encode()).decode()})

    lines = [line(OTHER, {"n": 1}), line(DIGEST, {"n": 2}), line(DIGEST, [3]), '{"payload": "*"}', "[]", "x"]
    tool, _ = cosign((0, "\n".join(lines), ""), (1, "", "Error: no matching attestations"), (1, "", "Error: dial tcp"))
    assert tool.statements(REFERENCE, DIGEST, KEY, PROVENANCE) == ({"n": 2},)
    assert tool.statements(REFERENCE, DIGEST, KEY, PROVENANCE) == ()
    with pytest.raises(RegistryError):
        tool.statements(REFERENCE, DIGEST, KEY, PROVENANCE)


def test_there_is_no_cosign(tmp_path: Path) -> None:
    """What to install is reported; a name that was given on purpose is not replaced by another program."""
    with pytest.raises(UsageError) as caught:
        find_program({"PATH": str(tmp_path)})
    assert caught.value.message == "cosign is not installed; images are signed and checked with it"
    assert caught.value.hint.startswith("apt-get install cosign (Debian 13 and later)")
    with pytest.raises(UsageError) as caught:
        find_program({"PATH": str(tmp_path), "ENVBUILD_COSIGN": "/no/such"})
    assert caught.value.message == "ENVBUILD_COSIGN=/no/such: no such program; images are signed and checked with it"


def test_whose_signature_counts(tmp_path: Path) -> None:
    """A public key's file, a key elsewhere, or an identity with its issuer; anything else is reported to be wrong."""
    public, private, other = tmp_path / "cosign.pub", tmp_path / "cosign.key", tmp_path / "other"
    other.write_text("nothing")
    public.write_text("-----BEGIN PUBLIC KEY-----\n")
    private.write_text("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n")
    assert trust(str(public)) == Trust(key=str(public))
    assert trust("awskms:///alias/images") == Trust(key="awskms:///alias/images")
    assert trust(f"{WORKFLOW}@{ISSUER}") == Trust(identity=WORKFLOW, issuer=ISSUER)
    assert trust(f"a@b.example@{ISSUER}") == Trust(identity="a@b.example", issuer=ISSUER)
    for text, reported in (
        (str(private), f"--require-signature {private}: this is a private key"),
        (str(other), f"--require-signature {other}: this is not a public key"),
        ("nowhere.pub", "--require-signature nowhere.pub: No such file or directory"),
        (f"@{ISSUER}", f"--require-signature '@{ISSUER}': an identity has no blanks and is not empty"),
        ("a@http://b", "--require-signature a@http://b: No such file or directory"),
    ):
        with pytest.raises(UsageError) as caught:
            trust(text)
        assert caught.value.message == reported


def test_who_signs(tmp_path: Path) -> None:
    """Exactly one of key and keyless; a key's password must be in the environment, an empty one too."""
    key = tmp_path / "cosign.key"
    key.write_text("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n")
    assert signer(str(key), False, {"COSIGN_PASSWORD": ""}) == Signer(key=str(key))
    assert signer("awskms:///a", False, {}) == Signer(key="awskms:///a")
    assert signer(None, True, {}) == Signer()
    for given, keyless in ((None, False), (str(key), True)):
        with pytest.raises(UsageError) as caught:
            signer(given, keyless, {})
        assert caught.value.message == "who signs? name one of --key and --keyless"
    for name in (str(key), "env://KEY"):
        with pytest.raises(UsageError) as caught:
            signer(name, False, {})
        assert caught.value.message == (f"--key {name}: its password is expected in COSIGN_PASSWORD, which is not set")
    with pytest.raises(UsageError) as caught:
        signer("nokey", False, {})
    assert caught.value.message == "--key nokey: No such file or directory"
    assert caught.value.hint == "name cosign.key, or make a key pair: cosign generate-key-pair"


def test_the_provenance_is_a_function_of_its_inputs() -> None:
    """Every field as documented, materials sorted, no clock."""
    subject = Subject(lock="digits", lock_digest=DIGEST, layout=3, recipe=OTHER, config="c" * 64)
    materials = [
        Material(purl="pkg:pypi/numpy@2", file="numpy.whl", sha256="2" * 64),
        Material(purl="pkg:oci/debian@x", file="", sha256="1" * 64),
    ]
    made = provenance(subject, materials, {"s.json": "d" * 64}, Origin(builder="urn:b", invocation="", version="1"))
    assert made == provenance(
        subject, materials[::-1], {"s.json": "d" * 64}, Origin(builder="urn:b", invocation="", version="1")
    )
    assert made == {
        "buildDefinition": {
            "buildType": "urn:envbuild:build:1",
            "externalParameters": {"layout": 3, "lock": {"name": "digits", "digest": {"sha256": DIGEST}}},
            "internalParameters": {"recipe": {"sha256": OTHER}},
            "resolvedDependencies": [
                {"uri": "pkg:oci/debian@x", "digest": {"sha256": "1" * 64}},
                {"uri": "pkg:pypi/numpy@2", "digest": {"sha256": "2" * 64}, "name": "numpy.whl"},
            ],
        },
        "runDetails": {
            "builder": {"id": "urn:b", "version": {"envbuild": "1"}},
            "byproducts": [
                {"name": "config", "digest": {"sha256": "c" * 64}},
                {"name": "s.json", "digest": {"sha256": "d" * 64}},
            ],
            "metadata": {},
        },
    }
    assert (locked_by(made), builder_of(made)) == (DIGEST, "urn:b")
    for other in ({}, {"buildDefinition": 1}, {"buildDefinition": {**made["buildDefinition"], "buildType": "urn:x"}}):
        assert (locked_by(other), builder_of(other)) == ("", "")
    assert builder_of({"runDetails": {"builder": {"id": "urn:\x1b[2J"}}}) == ""


def test_who_built_it() -> None:
    """In GitHub Actions the workflow, elsewhere nobody in particular; a name that is given wins and must be a URI."""
    actions = {"GITHUB_ACTIONS": "true", "GITHUB_WORKFLOW_REF": WORKFLOW.removeprefix("https://github.com/")}
    assert origin("", "", actions, "1") == Origin(builder=WORKFLOW, invocation="", version="1")
    assert origin("", "", {}, "1").builder == "urn:envbuild:builder:local"
    given = origin("https://ci/1", "https://ci/runs/2", actions, "1")
    assert (given.builder, given.invocation) == ("https://ci/1", "https://ci/runs/2")
    for builder, invocation in (("no uri", ""), ("", "a b:c")):
        with pytest.raises(UsageError) as caught:
            origin(builder, invocation, {}, "1")
        assert caught.value.hint == "such as https://ci.example.com/build/7"
