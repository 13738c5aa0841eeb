"""Who signs, and whose signature counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envbuild.errors import UsageError

VARIABLE = "COSIGN_PASSWORD"
"""Where a private key's password comes from, and from nowhere else."""
_ELSEWHERE = re.compile(r"(?:awskms|gcpkms|azurekms|hashivault|k8s|env)://\S+")
"""Keys that are no files, as cosign names them."""
_LARGEST = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Signer:
    """A private key as cosign takes it (a file or an address); empty for keyless signing."""

    key: str = ""

    def __str__(self) -> str:
        """Name it for people."""
        return self.key or "keyless"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trust:
    """A public key (a file or an address), or an identity with the issuer that vouches for it."""

    key: str = ""
    identity: str = ""
    issuer: str = ""

    def __str__(self) -> str:
        """Name it for people."""
        return self.key or f"{self.identity} ({self.issuer})"


def signer(key: str | None, keyless: bool, environ: Mapping[str, str]) -> Signer:
    """Read who signs.

    Raises:
        UsageError: neither or both are given, there is no such key, or its password is not in the environment.
    """
    if (key is None) != keyless:
        raise UsageError("who signs? name one of --key and --keyless", "make a key pair: cosign generate-key-pair")
    if key is None:
        return Signer()
    if not _ELSEWHERE.fullmatch(key):
        text = _read(key, "--key")
        if "PRIVATE KEY" not in text:
            raise UsageError(f"--key {key}: not a private key", "cosign generate-key-pair makes cosign.key")
    if VARIABLE not in environ and (not _ELSEWHERE.fullmatch(key) or key.startswith("env://")):
        raise UsageError(
            f"--key {key}: its password is expected in {VARIABLE}, which is not set",
            f"set it; for a key without a password: {VARIABLE}= envbuild sign …",
        )
    return Signer(key=key)


def trust(text: str) -> Trust:
    """Read ``KEY.pub`` or ``IDENTITY@ISSUER``; an issuer is an address and begins with ``https://``.

    Raises:
        UsageError: it is neither, or there is no such file.
    """
    identity, _, issuer = text.rpartition("@")
    if issuer.startswith("https://"):
        if not identity or any(char.isspace() for char in text):
            raise UsageError(f"--require-signature {text!r}: an identity has no blanks and is not empty", _HINT)
        return Trust(identity=identity, issuer=issuer)
    if _ELSEWHERE.fullmatch(text):
        return Trust(key=text)
    found = _read(text, "--require-signature")
    if "PUBLIC KEY-----" not in found:
        what = "a private key" if "PRIVATE KEY" in found else "not a public key"
        raise UsageError(f"--require-signature {text}: this is {what}", _HINT)
    return Trust(key=text)


_HINT = "name the public key, cosign.pub, or IDENTITY@https://ISSUER: docs/how-to/sign.md"


def _read(name: str, option: str) -> str:
    try:
        with Path(name).open("rb") as stream:
            return stream.read(_LARGEST).decode(errors="replace")
    except OSError as error:
        hint = _HINT if "require" in option else "name cosign.key, or make a key pair: cosign generate-key-pair"
        raise UsageError(f"{option} {name}: {error.strerror}", hint) from None
