"""One repository of a registry: manifests, blobs and what refers to them.

Source: OCI distribution specification 1.1 (endpoints end-1 to end-12), OCI image specification 1.1 (manifest.md).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from envbuild.core.blob import Blob
from envbuild.core.digest import SHA256, sha256_bytes
from envbuild.core.foreign_json import parse_json
from envbuild.errors import IntegrityError, RegistryError
from envbuild.net.config import NetworkConfig
from envbuild.net.http import HttpError
from envbuild.registry.credentials import Credentials, find_credentials
from envbuild.registry.errors import AnswerError, refused
from envbuild.registry.reference import Reference
from envbuild.registry.transport import Transport

if TYPE_CHECKING:
    import urllib3

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
_KINDS = (OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_INDEX)
_LARGEST = 4 << 20
"""Bytes of a manifest or index; registries need not take larger ones (distribution specification, end-7)."""

_MOST_TAGS = 100_000
_UNKNOWN_ATTEMPTS = 2
"""Tries of a registry that has never answered."""

T = TypeVar("T")


@dataclass(frozen=True)
class Manifest:
    """A manifest or index as the registry holds it; its bytes have been checked against its digest."""

    data: bytes
    media_type: str

    @cached_property
    def digest(self) -> str:
        """SHA-256 in hexadecimal."""
        return sha256_bytes(self.data)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The JSON object; raises ``IntegrityError`` if it is none."""
        try:
            found = parse_json(self.data)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise IntegrityError(f"the manifest sha256:{self.digest} is no JSON object")
        return found


class Repository:
    """One repository; safe to share between threads. Use as a context manager, or call ``close``.

    Every method raises ``RegistryError`` if the registry does not answer or refuses; what may help to try again is
    tried again first, as often as ``network`` specifies.

    Args:
        reference: registry and repository; tag and digest do not matter.
        network: proxies, certificates, time limits, tries.
        credentials: finds who we are to the registry.
    """

    def __init__(
        self,
        reference: Reference,
        network: NetworkConfig,
        credentials: Callable[[str], Credentials | None] = find_credentials,
    ) -> None:
        self.reference = reference
        self.network = network
        self.transport = Transport(reference.registry, network, credentials)
        self.path = f"/v2/{reference.repository}"

    def __enter__(self) -> Repository:
        """Return the repository."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close idle connections."""
        self.close()

    def close(self) -> None:
        """Close idle connections."""
        self.transport.close()

    @property
    def pull_scope(self) -> str:
        """What a token must allow to read."""
        return f"repository:{self.reference.repository}:pull"

    @property
    def push_scope(self) -> str:
        """What a token must allow to read and write."""
        return f"repository:{self.reference.repository}:pull,push"

    def manifest(self, target: str) -> Manifest | None:
        """Return the manifest at a tag or at ``sha256:…``, or None.

        Raises:
            IntegrityError: its bytes are not those of the digest asked for.
        """
        answer = self._optional(
            lambda: self.transport.call(
                "GET",
                f"{self.path}/manifests/{target}",
                scope=self.pull_scope,
                headers={"Accept": ", ".join(_KINDS)},
                limit=_LARGEST,
            ),
            f"read {self._named(target)}",
        )
        if answer is None:
            return None
        found = Manifest(answer.data, answer.headers.get("content-type", "").partition(";")[0].strip())
        expected = target if target.startswith("sha256:") else answer.headers.get("docker-content-digest", "")
        if expected.startswith("sha256:") and expected != f"sha256:{found.digest}":
            raise IntegrityError(
                f"the manifest {self._named(target)} has other bytes than promised\n"
                f"  expected  {expected}\n  found     sha256:{found.digest}",
                "somebody between here and the registry alters bytes, or the registry's storage is damaged",
            )
        return found

    def manifest_digest(self, target: str) -> str:
        """Return the digest (hexadecimal) of the manifest at a tag or digest without reading it; empty if none.

        Some registries deny the existence of repositories that are yet to be made: that is none, too.
        """

        def ask() -> str:
            try:
                answer = self.transport.call(
                    "HEAD",
                    f"{self.path}/manifests/{target}",
                    scope=self.push_scope,
                    headers={"Accept": ", ".join(_KINDS)},
                )
            except AnswerError as error:
                if error.status in (403, 404):
                    return ""
                raise
            return answer.headers.get("docker-content-digest", "").removeprefix("sha256:")

        named = self.trying(ask, f"read {self._named(target)}")
        return named if SHA256.fullmatch(named) else ""

    def put_manifest(self, manifest: Manifest, tag: str = "") -> None:
        """Upload a manifest, under its digest and a tag; the last push wins, digests stay.

        Raises:
            IntegrityError: the registry took other bytes than were sent.
        """
        target = tag or f"sha256:{manifest.digest}"
        answer = self.trying(
            lambda: self.transport.call(
                "PUT",
                f"{self.path}/manifests/{target}",
                scope=self.push_scope,
                headers={"Content-Type": manifest.media_type},
                data=manifest.data,
                accept=(200, 201),
            ),
            f"push {self._named(target)}",
        )
        taken = answer.headers.get("docker-content-digest", "")
        if taken and taken != f"sha256:{manifest.digest}":
            raise IntegrityError(
                f"{self._named(target)} is not what was pushed\n"
                f"  sent   sha256:{manifest.digest}\n  taken  {taken[:80]}",
                "somebody between here and the registry alters bytes",
            )

    def blob_size(self, digest: str, *, scope: str = "") -> int | None:
        """Return how many bytes a blob (hexadecimal digest) has; None if the repository lacks it, -1 if unknown."""
        answer = self._optional(
            lambda: self.transport.call("HEAD", f"{self.path}/blobs/sha256:{digest}", scope=scope or self.pull_scope),
            f"look up a layer of {self.reference.name}",
        )
        if answer is None:
            return None
        length = answer.headers.get("content-length", "")
        return int(length) if length.isascii() and length.isdigit() else -1

    def open_blob(self, digest: str, offset: int = 0) -> urllib3.BaseHTTPResponse:
        """Ask once for a blob from ``offset`` on; status 206 if the registry begins there, else 200.

        Raises:
            HttpError: the connection failed.
            AnswerError: the registry refused.
        """
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        return self.transport.open(
            "GET", f"{self.path}/blobs/sha256:{digest}", scope=self.pull_scope, headers=headers, accept=(200, 206)
        )

    def read_blob(self, digest: str, limit: int) -> bytes:
        """Return a small blob, checked.

        Args:
            limit: bytes that it may have at most.

        Raises:
            IntegrityError: bytes that do not match its digest.
        """
        answer = self.trying(
            lambda: self.transport.call(
                "GET", f"{self.path}/blobs/sha256:{digest}", scope=self.pull_scope, limit=limit
            ),
            f"read sha256:{digest[:12]}… of {self.reference.name}",
        )
        if (found := hashlib.sha256(answer.data).hexdigest()) != digest:
            raise IntegrityError(
                f"a blob of {self.reference.name} has other bytes than promised\n"
                f"  expected  sha256:{digest}\n  found     sha256:{found}",
                "somebody between here and the registry alters bytes, or the registry's storage is damaged",
            )
        return answer.data

    def tags(self) -> tuple[str, ...]:
        """Return the repository's tags; none if there is no such repository."""
        found: list[str] = []
        path = f"{self.path}/tags/list"
        while len(found) < _MOST_TAGS:
            here = path
            answer = self._optional(
                lambda: self.transport.call("GET", here, scope=self.pull_scope, limit=_LARGEST),  # noqa: B023
                f"list the tags of {self.reference.name}",
            )
            if answer is None:
                break
            tags = _object(answer.data).get("tags")
            found += [str(tag) for tag in tags] if isinstance(tags, list) else []
            following = re.match(r'\s*<([^>]+)>\s*;\s*rel="?next"?', answer.headers.get("link", ""))
            if following is None or not tags:
                break
            path = self.transport.address(following[1])
        return tuple(found)

    def trying(self, call: Callable[[], T], doing: str) -> T:
        """Call until it succeeds or trying again is of no use; ``doing`` completes "cannot …"."""
        for attempt in range(1, self.network.attempts + 1):
            with self.explained(doing):
                try:
                    return call()
                except HttpError as error:
                    if not error.transient or attempt >= self._attempts(error):
                        raise
                    time.sleep(error.delay or self.network.backoff * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    def _attempts(self, error: HttpError) -> int:
        """How often to try: twice where nobody has answered yet, since a wrong name is as likely as a breakdown."""
        never_there = not error.connected and not self.transport.reached
        return min(self.network.attempts, _UNKNOWN_ATTEMPTS) if never_there else self.network.attempts

    @contextmanager
    def explained(self, doing: str) -> Iterator[None]:
        """Turn what a request raises into ``RegistryError``."""
        registry = self.reference.registry
        try:
            yield
        except AnswerError as error:
            raise refused(doing, registry, error, known=error.status == 401 and self.transport.known) from None
        except HttpError as error:
            raise RegistryError(
                f"cannot {doing}: {registry}: {error.reason}", "check the name, the network and the registry"
            ) from None

    def _optional(self, call: Callable[[], T], doing: str) -> T | None:
        """Call as ``trying`` does; None if the registry has no such thing."""

        def asked() -> T | None:
            try:
                return call()
            except AnswerError as error:
                if error.status == 404:
                    return None
                raise

        return self.trying(asked, doing)

    def _named(self, target: str) -> str:
        return f"{self.reference.name}{'@' if target.startswith('sha256:') else ':'}{target}"


def descriptors(manifest: Manifest, key: str) -> tuple[Blob, ...]:
    """Return what a manifest lists under a key (``layers``, ``manifests``, ``config``), checked.

    Raises:
        IntegrityError: something in it is no descriptor.
    """
    found = manifest.document.get(key) or []
    entries = found if isinstance(found, list) else [found]
    return tuple(_descriptor(entry, manifest) for entry in entries)


def _descriptor(entry: Any, manifest: Manifest) -> Blob:
    if isinstance(entry, dict):
        digest, size = str(entry.get("digest") or ""), entry.get("size")
        notes = entry.get("annotations")
        name = digest.removeprefix("sha256:")
        if digest.startswith("sha256:") and SHA256.fullmatch(name) and isinstance(size, int) and size >= 0:
            return Blob(
                media_type=str(entry.get("mediaType") or ""),
                digest=name,
                size=size,
                annotations={str(key): str(value) for key, value in notes.items()} if isinstance(notes, dict) else {},
                artifact_type=str(entry.get("artifactType") or ""),
            )
    raise IntegrityError(f"the manifest sha256:{manifest.digest} lists something without SHA-256 and size")


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        found = parse_json(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
