"""Require that an image in a registry is signed: what ``run``, ``pull`` and ``inspect`` may ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.fs import temporary_folder
from envbuild.errors import IntegrityError
from envbuild.image.record import read_image_record
from envbuild.operations.blob_locations import read_published
from envbuild.operations.events import Events, SignatureAccepted
from envbuild.operations.load_lock import LoadedLock
from envbuild.registry.reference import Reference
from envbuild.signing import cosign as tool
from envbuild.signing.provenance import builder_of, locked_by
from envbuild.signing.trust import Trust

if TYPE_CHECKING:
    from envbuild.signing.cosign import Cosign

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


@dataclass(frozen=True, kw_only=True, slots=True)
class SignatureCheck:
    """What was found out about the signature of an image.

    Attributes:
        who: who must have signed it.
        refusal: why the signature does not count; None if it does.
        builders: of the provenance, signed by the same, that names the lock.
        locks: digests of other locks that provenance signed by the same names.
    """

    who: Trust
    refusal: IntegrityError | None
    builders: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()


def check(reference: Reference, who: Trust, lock_digest: str) -> SignatureCheck:
    """Check signature and provenance of a manifest (``reference`` names it by digest); a refusal is not raised."""
    with cosign_for(reference, tool.find_program(os.environ)) as cosign:
        try:
            cosign.check(str(reference), reference.digest, who)
        except IntegrityError as refusal:
            return SignatureCheck(who=who, refusal=refusal)
        found = cosign.statements(str(reference), reference.digest, who, tool.PROVENANCE)
    return SignatureCheck(
        who=who,
        refusal=None,
        builders=tuple(sorted({builder_of(item) for item in found if locked_by(item) == lock_digest})),
        locks=tuple(sorted({locked_by(item) for item in found} - {lock_digest})),
    )


def require(reference: Reference, who: Trust, events: Events) -> None:
    """Require that a manifest is signed.

    Args:
        reference: names it by digest.
        who: must have signed it.

    Raises:
        IntegrityError: it is not signed, or by somebody else.
        UsageError: there is no cosign.
    """
    with cosign_for(reference, tool.find_program(os.environ)) as cosign:
        cosign.check(str(reference), reference.digest, who)
    events.report(SignatureAccepted(manifest=reference.digest, by=str(who)))


def published_reference(loaded: LoadedLock) -> Reference:
    """Return where the image next to a lock was pushed to.

    Raises:
        IntegrityError: nowhere, so that nobody can have signed it.
    """
    published, recorded = read_published(loaded.path, loaded.lock), read_image_record(loaded.path, loaded.lock)
    found = [known for known in published if recorded is None or known.digest == recorded.manifest]
    if not found:
        raise IntegrityError(
            f"nobody has signed the image of {loaded.path.name} as far as is known: what is signed is an image in a "
            "registry, and no file records that this one was pushed — nothing was run",
            "name it: --image REFERENCE@sha256:…; or push and sign: envbuild push REFERENCE --write && envbuild sign",
        )
    return found[0]


@contextmanager
def cosign_for(reference: Reference, program: str) -> Iterator[Cosign]:
    """Have cosign trust those who vouch for a registry, as ``push`` does."""
    from envbuild.net.config import network_config
    from envbuild.registry.credentials import certificates

    own = certificates(reference.registry)
    if not own:
        yield tool.Cosign(program, os.environ)
        return
    system = [Path(name) for name in _BUNDLES if Path(name).is_file()][:1]
    with temporary_folder("envbuild-cosign-") as folder:
        bundle = folder / "authorities.pem"
        bundle.write_bytes(b"\n".join(path.read_bytes() for path in (*own, *network_config().certificates, *system)))
        yield tool.Cosign(program, os.environ, bundle)
