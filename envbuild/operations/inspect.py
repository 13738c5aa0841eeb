"""Inspect an image in a registry: its manifest, its configuration and its smallest layer, which holds the lock."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envbuild.core.text import plural
from envbuild.errors import IntegrityError, UsageError
from envbuild.lockfile import model as locks
from envbuild.operations import signatures
from envbuild.operations.pull import read_lock
from envbuild.operations.signatures import SignatureCheck
from envbuild.registry.reference import Reference, parse_reference
from envbuild.signing.trust import trust

if TYPE_CHECKING:
    from envbuild.registry.artifacts import Attachment
    from envbuild.registry.image import RemoteImage
    from envbuild.registry.repository import Repository

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TAGS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class InspectedImage:
    """An image in a registry.

    Attributes:
        reference: by digest.
        remote: manifest, configuration and layers.
        lock: the lock inside.
        lock_data: its bytes.
        attached: signatures, attestations and bills of materials; whether they are genuine is not checked.
        signature: who signed it; None if nobody was required to. A refusal is not raised.
    """

    reference: Reference
    remote: RemoteImage
    lock: locks.Lock
    lock_data: bytes
    attached: tuple[Attachment, ...]
    signature: SignatureCheck | None


def inspect(reference: str, *, require_signature: str | None = None) -> InspectedImage:
    """Return what an image in a registry is; nothing of it is kept.

    Args:
        reference: ``REGISTRY/REPOSITORY[:TAG][@sha256:…]``; without tag and digest, the only tag there is.
        require_signature: who must have signed it: a public key's file, or ``IDENTITY@https://ISSUER``.

    Raises:
        UsageError: the reference is invalid, or the repository has several tags.
        RegistryError: the registry does not answer, or has no such image.
        IntegrityError: bytes were altered, or the image holds no lock.
    """
    from envbuild.registry.artifacts import attachments

    with _opened(reference, require_signature) as found:
        attached = attachments(found.repository, found.remote.manifest.digest)
    return InspectedImage(
        reference=found.reference,
        remote=found.remote,
        lock=locks.loads(found.data, f"the lock inside {found.named}"),
        lock_data=found.data,
        attached=attached,
        signature=found.signature,
    )


def inspect_lock(reference: str, *, require_signature: str | None = None) -> bytes:
    """Return the lock inside an image in a registry, byte for byte; arguments as for ``inspect``.

    Raises:
        UsageError, RegistryError: as for ``inspect``.
        IntegrityError: as for ``inspect``, or it is not signed as required.
    """
    with _opened(reference, require_signature) as found:
        if found.signature is not None and found.signature.refusal is not None:
            raise found.signature.refusal
        return found.data


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """An image and the lock inside, while its repository is open; ``named``: as the user named it, with a tag."""

    repository: Repository
    named: Reference
    reference: Reference
    remote: RemoteImage
    data: bytes
    signature: SignatureCheck | None


@contextmanager
def _opened(text: str, require_signature: str | None) -> Iterator[_Found]:
    """Open the repository; read the image and the lock inside, and check who signed it."""
    from envbuild.net.config import network_config
    from envbuild.registry.image import read_image
    from envbuild.registry.repository import Repository

    named, who = parse_reference(text), trust(require_signature) if require_signature is not None else None
    with Repository(named, network_config()) as repository:
        machine = platform.machine()
        named = named if named.target else named.tagged(_only_tag(repository))
        remote = read_image(repository, named.target, _ARCHITECTURES.get(machine, machine))
        data = _checked_lock(read_lock(repository, remote), remote, named)
        pinned = named.at(remote.manifest.digest)
        signature = (
            signatures.check(pinned, who, locks.lock_digest(locks.loads(data, f"the lock inside {pinned}")))
            if who is not None
            else None
        )
        yield _Found(
            repository=repository, named=named, reference=pinned, remote=remote, data=data, signature=signature
        )


def _only_tag(repository: Repository) -> str:
    """Return the tag of a repository that has one; raises ``UsageError`` if it has none or several."""
    from envbuild.registry.artifacts import is_attached
    from envbuild.store.bundle import without_artifacts

    name = repository.reference.name
    tags = without_artifacts(tag for tag in repository.tags() if not is_attached(tag))
    if len(tags) != 1:
        listed = f": {', '.join(sorted(tags)[:_TAGS])}{' …' if len(tags) > _TAGS else ''}" if tags else ""
        raise UsageError(
            f"{name} has {plural(len(tags), 'tag')}{listed}",
            f"name one: envbuild inspect {name}:{sorted(tags)[-1]}" if tags else "envbuild push makes one",
        )
    return tags[0]


def _checked_lock(data: bytes, remote: RemoteImage, reference: Reference) -> bytes:
    """Return the lock if it is the one that the image's label names; raises ``IntegrityError`` otherwise."""
    named = remote.labels.get("envbuild.lock", "").removeprefix("sha256:")
    found = locks.lock_digest(locks.loads(data, f"the lock inside {reference}"))
    if found != named:
        raise IntegrityError(
            f"the lock inside {reference} is not the one that its label names\n"
            f"  label  sha256:{named or 'none'}\n  found  sha256:{found}",
            "the image was altered after envbuild made it",
        )
    return data
