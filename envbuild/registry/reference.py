"""Names of images in registries: ``registry/repository[:tag][@sha256:…]``.

Source of the grammar: OCI distribution specification 1.1, "Pulling manifests"; https://pkg.go.dev/github.com/distribution/reference
for how a registry is distinguished from a repository.
"""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

from envbuild.errors import UsageError

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_HUB = "docker.io"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """An image, or a repository if neither tag nor digest is given.

    Attributes:
        registry: host, perhaps with a port.
        repository: path within the registry.
        tag: empty if none.
        digest: of the manifest, SHA-256 in hexadecimal; empty if none.
    """

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def target(self) -> str:
        """What a registry is asked for: the digest if there is one, else the tag."""
        return f"sha256:{self.digest}" if self.digest else self.tag

    def at(self, digest: str) -> Reference:
        """Return the same repository at a digest (hexadecimal), without a tag: its meaning never changes."""
        return replace(self, tag="", digest=digest)

    def tagged(self, tag: str) -> Reference:
        """Return the same repository at a tag."""
        return replace(self, tag=tag, digest="")

    def __str__(self) -> str:
        """Write it as people do."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}" + (f"@sha256:{self.digest}" if self.digest else "")


def parse_reference(text: str) -> Reference:
    """Read a reference.

    Raises:
        UsageError: it is none.
    """
    rest, at, digest = text.partition("@")
    first, slash, path = rest.partition("/")
    registry = first if slash and ("." in first or ":" in first or first == "localhost") else ""
    if registry:
        rest = path
    repository, colon, tag = rest.partition(":")
    if not registry:
        registry = _HUB
        repository = repository if slash else f"library/{repository}"
    found = DIGEST.fullmatch(digest)
    sound = _HOST.fullmatch(registry) and _REPOSITORY.fullmatch(repository) and len(repository) <= 255
    if not sound or (colon and not _TAG.fullmatch(tag)) or (at and not found):
        hint = "e.g. registry.example.com/team/digits:1, or …@sha256: with 64 lower-case hexadecimal digits"
        if "://" in text:
            hint = "leave out the scheme: registry.example.com/team/digits"
        raise UsageError(f"not the name of an image in a registry: {_masked(text)!r}", hint)
    return Reference(registry=registry, repository=repository, tag=tag, digest=found[1] if found else "")


def _masked(text: str) -> str:
    """Return a text without user names and passwords, in time that grows with its length only."""
    parts = []
    for part in text.split("/"):
        words = part.split("@")
        pairs = pairwise(words)
        hidden = ["***" if ":" in word and not following.startswith("sha256:") else word for word, following in pairs]
        parts.append("@".join([*hidden, words[-1]]))
    return "/".join(parts)


def is_loopback(registry: str) -> bool:
    """Return whether a registry's host is this machine by its name alone; only then plain HTTP is used."""
    host = registry.rpartition("]")[0].lstrip("[") or registry.partition(":")[0]
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def api_host(registry: str) -> str:
    """Return the host that speaks the registry's API: Docker Hub's has another name than its images."""
    return "registry-1.docker.io" if registry == _HUB else registry
