"""``--require-signature``: what ``run``, ``pull`` and ``inspect`` demand of an image in a registry."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.cli.console import Console
from envbuild.errors import IntegrityError
from envbuild.image.record import read_image_record
from envbuild.operations.blob_locations import read_published
from envbuild.operations.load_lock import LoadedLock
from envbuild.registry.reference import Reference
from envbuild.signing import cosign as tool
from envbuild.signing.provenance import builder_of, locked_by
from envbuild.signing.trust import Trust

if TYPE_CHECKING:
    from envbuild.signing.cosign import Cosign

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
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


def check_all(reference: Reference, who: Trust, lock_digest: str) -> Checked:
    """Check signature and provenance of a manifest (``reference`` names it by digest); only faults are raised."""
    with cosign_for(reference, tool.find_program(os.environ)) as cosign:
        try:
            cosign.check(str(reference), reference.digest, who)
        except IntegrityError as refusal:
            return Checked(who=who, refusal=refusal)
        found = cosign.statements(str(reference), reference.digest, who, tool.PROVENANCE)
    return Checked(
        who=who,
        refusal=None,
        builders=tuple(sorted({builder_of(item) for item in found if locked_by(item) == lock_digest})),
        locks=tuple(sorted({locked_by(item) for item in found} - {lock_digest})),
    )


def demand(reference: Reference, who: Trust, console: Console) -> None:
    """Check that a manifest is signed; errors as for ``Cosign.check``.

    Args:
        reference: names it by digest.
    """
    with cosign_for(reference, tool.find_program(os.environ)) as cosign:
        cosign.check(str(reference), reference.digest, who)
    console.line("signed", f"sha256:{reference.digest[:12]}…", f"by {who}", elapsed=True)


def published_reference(opened: LoadedLock) -> Reference:
    """Return where the image beside a lock was pushed to.

    Raises:
        IntegrityError: nowhere, so that nobody can have signed it.
    """
    published, recorded = read_published(opened.path, opened.lock), read_image_record(opened.path, opened.lock)
    found = [known for known in published if recorded is None or known.digest == recorded.manifest]
    if not found:
        raise IntegrityError(
            f"nobody has signed the image of {opened.path.name} as far as is known: what is signed is an image in a "
            "registry, and nothing says that this one was ever pushed — nothing was run",
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
    with tempfile.TemporaryDirectory(prefix="envbuild-") as folder:
        bundle = Path(folder) / "authorities.pem"
        bundle.write_bytes(b"\n".join(path.read_bytes() for path in (*own, *network_config().certificates, *system)))
        yield tool.Cosign(program, os.environ, bundle)
