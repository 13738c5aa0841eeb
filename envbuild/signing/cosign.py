"""cosign, a separate program: signs what a registry holds by digest, attaches statements, checks both.

Flags and output of 2.5 and 3.1. Source: https://github.com/sigstore/cosign/tree/main/doc and the programs' own help.
What cosign reports is checked again here: a signature counts only if it is one (3.x takes any statement) and names
the digest that was asked for.
"""

from __future__ import annotations

import base64
import binascii
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envbuild.core.foreign_json import parse_json
from envbuild.core.redact import mask_text
from envbuild.core.settings import setting
from envbuild.core.text import one_line
from envbuild.errors import IntegrityError, RegistryError, UsageError
from envbuild.signing.trust import VARIABLE, Signer, Trust

PROVENANCE, CYCLONEDX, SPDX = "slsaprovenance1", "cyclonedx", "spdxjson"
"""Types of statements, as cosign names them."""

_SIGNATURES = ("cosign container image signature", "https://sigstore.dev/cosign/sign/v1")
"""What a signature states it is: the simple signing payload, and the predicate of a bundle."""
_NOT_SIGNED = 10
_NETWORK = re.compile(
    r"dial tcp|no such host|connection (?:refused|reset)|i/o timeout|unexpected status code"
    r"|UNAUTHORIZED|DENIED|tls: |EOF$"
)
_SECRETS = (VARIABLE, "COSIGN_PRIVATE_KEY", "COSIGN_PKCS11_PIN")
_LONGEST = 300

Done = subprocess.CompletedProcess[str]
Call = Callable[[Sequence[str], Mapping[str, str], bool], Done]
"""Runs a command line with an environment; True if a person is to see standard error and may answer."""


def find_program(environ: Mapping[str, str]) -> str:
    """Return the path of cosign.

    Raises:
        UsageError: there is none.
    """
    named = setting("cosign", environ)
    found = shutil.which(named or "cosign", path=environ.get("PATH"))
    if found is None:
        what = f"ENVBUILD_COSIGN={named}: no such program" if named else "cosign is not installed"
        raise UsageError(
            f"{what}; images are signed and checked with it",
            "apt-get install cosign (Debian 13 and later), or https://docs.sigstore.dev/cosign/system_config/installation",
        )
    return found


class Cosign:
    """cosign, for one registry.

    Args:
        program: its path.
        environ: its environment; passwords and private keys are passed only where they are needed.
        authorities: PEM file of those who may vouch for the registry; None for the system's.
        call: runs it.
    """

    def __init__(
        self, program: str, environ: Mapping[str, str], authorities: Path | None = None, call: Call | None = None
    ) -> None:
        self._program = program
        self._call = call or _call
        self._environ = dict(environ)
        self._registry = ["--registry-cacert", str(authorities)] if authorities else []

    def sign(self, reference: str, who: Signer) -> None:
        """Sign the manifest that a reference by digest names.

        Raises:
            RegistryError: the registry, or keyless signing's services, do not answer or refuse.
            UsageError: cosign refuses, because of the key's password for example.
        """
        self._make(["sign", *self._as(who, "sign"), reference], who, f"sign {reference}")

    def attest(self, reference: str, who: Signer, kind: str, predicate: Path) -> None:
        """Attach a signed statement about the manifest; errors as for ``sign``.

        Args:
            kind: ``PROVENANCE``, ``CYCLONEDX`` or ``SPDX``.
            predicate: a file of JSON.
        """
        flags = ["--type", kind, "--predicate", str(predicate)]
        self._make(["attest", *self._as(who, "attest"), *flags, reference], who, f"attest {reference}")

    def public_key(self, who: Signer) -> str:
        """Return the public half of a key, as PEM; errors as for ``sign``."""
        done = self._run(["public-key", "--key", who.key], secrets=True)
        if done.returncode or "PUBLIC KEY" not in done.stdout:
            raise UsageError(f"cannot use the key {who}: {_words(done.stderr)}", f"check the key and {VARIABLE}")
        return done.stdout

    def check(self, reference: str, digest: str, who: Trust) -> None:
        """Check that a signature by ``who`` covers a manifest.

        Args:
            reference: names the manifest by digest.
            digest: the same, hexadecimal.

        Raises:
            IntegrityError: there is none, or none that is good.
            RegistryError: the registry, or keyless signing's services, do not answer.
        """
        done = self._run(["verify", *_by(who), *self._registry, reference], secrets=False)
        if done.returncode == 0 and any(_covers(entry, digest) for entry in _entries(done.stdout)):
            return
        words = _words(done.stderr) if done.returncode else "only other statements, or for another image, are signed"
        if done.returncode == _NOT_SIGNED:
            raise IntegrityError(
                f"{reference} is not signed",
                "sign it: envbuild sign; signatures by cosign 3 are seen by cosign 3 only: docs/how-to/sign.md",
            )
        if done.returncode and _NETWORK.search(words):
            raise RegistryError(f"cannot check who signed {reference}: {words}", "check the network and the registry")
        raise IntegrityError(
            f"{reference} has no good signature by {who}\n  cosign  {words}",
            "find out who pushed and who signed it; nothing of it was run or brought in",
        )

    def statements(self, reference: str, digest: str, who: Trust, kind: str) -> tuple[Mapping[str, Any], ...]:
        """Return the predicates of a type that ``who`` signed for a manifest; none if there are none.

        Raises:
            RegistryError: the registry, or keyless signing's services, do not answer.
        """
        done = self._run(["verify-attestation", *_by(who), "--type", kind, *self._registry, reference], secrets=False)
        words = _words(done.stderr)
        if done.returncode and _NETWORK.search(words):
            raise RegistryError(f"cannot read what is attested of {reference}: {words}", "check the network")
        if done.returncode:
            return ()
        return tuple(_predicates(done.stdout, digest))

    def _as(self, who: Signer, command: str) -> list[str]:
        """Return the flags of a command that signs."""
        if not who.key:
            return ["--yes", *self._registry]
        # From 3.0 on cosign asks the network which services to use, unless configured not to.
        reported = "--use-signing-config" in self._run([command, "--help"], secrets=False).stdout
        offline = ["--use-signing-config=false"] if reported else []
        return ["--yes", "--key", who.key, "--tlog-upload=false", *offline, *self._registry]

    def _make(self, arguments: Sequence[str], who: Signer, doing: str) -> None:
        """Run a command that signs; a person without a key may have to see what cosign reports."""
        done = self._run(arguments, secrets=True, shown=not who.key)
        if done.returncode == 0:
            return
        words = "see cosign's message above" if not who.key else _words(done.stderr)
        if _NETWORK.search(words):
            raise RegistryError(f"cannot {doing}: {words}", "log in (docker login REGISTRY), check the network")
        hint = f"check the key and {VARIABLE}" if who.key else "keyless signing wants a job with `id-token: write`"
        raise UsageError(f"cannot {doing}: {words}", hint)

    def _run(self, arguments: Sequence[str], *, secrets: bool, shown: bool = False) -> Done:
        environ = {name: text for name, text in self._environ.items() if secrets or name not in _SECRETS}
        try:
            return self._call([self._program, *arguments], environ, shown)
        except OSError as error:
            raise UsageError(f"cannot run {self._program}: {error.strerror}", "install cosign again") from None


def _call(command: Sequence[str], environ: Mapping[str, str], shown: bool) -> Done:
    return subprocess.run(
        command,
        env=environ,
        stdin=None if shown else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if shown else subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def _by(who: Trust) -> list[str]:
    """Return the flags that select whose signature counts. With a key alone, no transparency log is asked."""
    if who.key:
        return ["--key", who.key, "--insecure-ignore-tlog=true"]
    return ["--certificate-identity", who.identity, "--certificate-oidc-issuer", who.issuer]


def _entries(text: str) -> list[Any]:
    """Return what ``cosign verify`` lists."""
    try:
        found = parse_json(text)
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _covers(entry: Any, digest: str) -> bool:
    """Whether an entry is a signature of a manifest, and not another statement about it."""
    try:
        critical = entry["critical"]
        named = critical["image"]["docker-manifest-digest"]
        return critical["type"] in _SIGNATURES and named == f"sha256:{digest}"
    except (KeyError, TypeError):
        return False


def _predicates(text: str, digest: str) -> Iterator[Mapping[str, Any]]:
    """Yield the predicates about a manifest among the envelopes, one a line, that cosign found good."""
    for line in text.splitlines():
        try:
            statement = parse_json(base64.b64decode(parse_json(line)["payload"], validate=True))
            subjects = {subject["digest"].get("sha256") for subject in statement["subject"]}
            predicate = statement["predicate"]
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
            continue
        if digest in subjects and isinstance(predicate, dict):
            yield predicate


def _words(text: str | None) -> str:
    """Return the one line in which cosign states why, without control characters and what looks like a secret."""
    lines = [line.removeprefix("Error: ") for line in (text or "").splitlines() if line.startswith("Error: ")]
    sentence = lines[0] if lines else (text or "").strip().rpartition("\n")[2]
    sentence = one_line(mask_text(sentence))
    return sentence if len(sentence) <= _LONGEST else f"{sentence[:_LONGEST]} …"
