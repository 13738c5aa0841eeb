"""Sign the image that was pushed, and attach its provenance and bills of materials, through cosign."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild import __version__
from envbuild.core.digest import canonical_json, sha256_bytes
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import temporary_folder
from envbuild.errors import IntegrityError, NotReproducibleError, UsageError
from envbuild.image.record import ImageRecord, image_record_path, image_tag, read_image_record
from envbuild.lockfile import model as locks
from envbuild.operations.blob_locations import chosen_location, read_index
from envbuild.operations.events import Events, ImageSigned
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.operations.pull import check_is_locks, check_lock_inside
from envbuild.operations.sbom import sbom_documents
from envbuild.operations.signatures import cosign_for
from envbuild.registry.reference import Reference
from envbuild.signing import cosign as tool
from envbuild.signing.provenance import Material, Origin, Subject, origin, provenance
from envbuild.signing.trust import Signer, Trust, signer

if TYPE_CHECKING:
    from envbuild.signing.cosign import Cosign


@dataclass(frozen=True, kw_only=True, slots=True)
class SignRequest:
    """How to sign.

    Attributes:
        key: cosign's private key, a file or an address; its password is in ``COSIGN_PASSWORD``.
        keyless: sign as who this process is: in GitHub Actions, the workflow.
        signature_only: attach neither provenance nor bills of materials.
        builder: URI of who built it, for the provenance; empty: a workflow names itself.
        invocation: URI of the run that built it, for the provenance.
    """

    key: str | None = None
    keyless: bool = False
    signature_only: bool = False
    builder: str = ""
    invocation: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedStatement:
    """A statement about an image: its predicate type, the SHA-256 of its predicate; ``added``: now, not before."""

    kind: str
    sha256: str
    added: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedImage:
    """A signed image in a registry.

    Attributes:
        reference: by digest.
        signer: who signed it.
        added: it was signed now, not before.
        statements: provenance and bills of materials that are attached.
    """

    reference: Reference
    signer: str
    added: bool
    statements: tuple[SignedStatement, ...]


def sign(reference: str | None, path: Path | None, request: SignRequest, events: Events) -> SignedImage:
    """Sign the image that was pushed, and attach its provenance and bills of materials.

    Args:
        reference: by digest; None: the one that ``push`` wrote next to the lock.
        path: the lock's file; None: search upward from the working directory.
        request: how to sign.
        events: receives progress.

    Raises:
        UsageError: there is no cosign or no such key, or the reference has no digest.
        LockError: there is no lock, it is invalid, or it is stale.
        NotReproducibleError: the registry holds another image than the lock's.
    """
    who = signer(request.key, request.keyless, os.environ)
    made = origin(request.builder, request.invocation, os.environ, __version__)
    program = tool.find_program(os.environ)
    loaded = load_lock(path)
    pinned = _to_sign(reference, loaded)
    record = _pushed(pinned, loaded)
    statements = [] if request.signature_only else _statements(loaded.lock, record, made)
    with cosign_for(pinned, program) as cosign, _own_trust(cosign, who) as mine:
        added = _add_signature(cosign, pinned, who, mine)
        events.report(ImageSigned(reference=str(pinned), signer=str(who), added=added))
        attached = tuple(
            SignedStatement(
                kind=kind, sha256=sha256_bytes(data), added=_add_statement(cosign, pinned, who, mine, kind, data)
            )
            for kind, data in statements
        )
    return SignedImage(reference=pinned, signer=str(who), added=added, statements=attached)


def sign_platforms(
    reference: str | None, paths: Sequence[Path], request: SignRequest, events: Events
) -> tuple[SignedImage, ...]:
    """Sign the images of one spec's platforms, each with its own statements, then the index that names them.

    Args:
        reference: of the index, by digest; None: the one that ``push`` wrote next to the locks.
        paths: the lock of each platform.
        request, events: as for ``sign``.

    Returns:
        the images, then the index, if they were pushed with one.

    Raises:
        UsageError, LockError: as for ``sign``.
        NotReproducibleError: the registry holds another image than a lock's, or the locks were pushed apart.
    """
    places = [_place(reference, load_lock(path)) for path in paths]
    indexes = {index for _, index in places}
    if len(indexes) != 1:
        raise NotReproducibleError(
            f"the images of {', '.join(path.name for path in paths)} were not pushed together: no index names them",
            "push them together: envbuild push REFERENCE --write; or sign one: envbuild sign --platform ARCH",
        )
    signed = [sign(str(place), path, request, events) for (place, _), path in zip(places, paths, strict=True)]
    (index,) = indexes
    if not index:
        return tuple(signed)
    who, pinned = signer(request.key, request.keyless, os.environ), places[0][0].at(index)
    with cosign_for(pinned, tool.find_program(os.environ)) as cosign, _own_trust(cosign, who) as mine:
        added = _add_signature(cosign, pinned, who, mine)
        events.report(ImageSigned(reference=str(pinned), signer=str(who), added=added))
    return (*signed, SignedImage(reference=pinned, signer=str(who), added=added, statements=()))


def _place(text: str | None, loaded: LoadedLock) -> tuple[Reference, str]:
    """Return where one platform's image is, and the digest of the index it was pushed with, which ``text`` may name."""
    reference = chosen_location(text, loaded.path, loaded.lock, "sign")
    recorded = read_image_record(loaded.path, loaded.lock)
    index = read_index(loaded.path, loaded.lock, recorded.manifest) if recorded else ""
    if recorded is not None and index and reference.digest == index:
        reference = reference.at(recorded.manifest)
    return reference, index


def _to_sign(text: str | None, loaded: LoadedLock) -> Reference:
    """Return the reference by digest."""
    reference = chosen_location(text, loaded.path, loaded.lock, "sign")
    if not reference.digest:
        raise UsageError(
            f"sign {text}: a tag may mean something else tomorrow",
            f"name the image by digest, which envbuild push prints: {reference.name}@sha256:…",
        )
    return reference.at(reference.digest)


def _pushed(reference: Reference, loaded: LoadedLock) -> ImageRecord:
    """Return what is recorded of the image, after a look at what the registry holds."""
    from envbuild.image.plan.model import plan
    from envbuild.net.config import network_config
    from envbuild.registry.image import read_image
    from envbuild.registry.repository import Repository

    recorded, name = read_image_record(loaded.path, loaded.lock), image_record_path(loaded.path).name
    if recorded is None or recorded.manifest != reference.digest:
        known = f"sha256:{recorded.manifest}" if recorded else "nothing: it is missing, or of another lock"
        raise NotReproducibleError(
            f"{reference} is not the image recorded in {name} — nothing was signed\n  recorded  {known}",
            "sign what envbuild push has made of this lock: envbuild push REFERENCE --write && envbuild sign",
        )
    with Repository(reference, network_config()) as repository:
        remote = read_image(repository, reference.target, str(plan(loaded.lock).platform["architecture"]))
        check_is_locks(remote, reference, loaded)
        check_lock_inside(repository, remote, reference, loaded.lock)
    return recorded


def _statements(lock: locks.Lock, record: ImageRecord, made: Origin) -> list[tuple[str, bytes]]:
    """Return what is stated of an image: type and predicate."""
    from envbuild.store.objects import Store

    bills = sbom_documents(lock, record, Store())
    subject = Subject(
        lock=lock.name,
        lock_digest=locks.lock_digest(lock),
        layout=lock.layout,
        recipe=record.recipe,
        config=record.config,
    )
    digests = {document.file_name: sha256_bytes(document.data) for document in bills.values()}
    predicate = canonical_json(provenance(subject, _materials(lock), digests, made))
    return [(tool.PROVENANCE, predicate), (tool.CYCLONEDX, bills["cyclonedx"].data), (tool.SPDX, bills["spdx"].data)]


def _materials(lock: locks.Lock) -> list[Material]:
    """Return what the image is made from; package URLs by the lock alone."""
    from envbuild.sbom.bill import bill
    from envbuild.sbom.values import Image, Layer

    everything = Layer(title="", wheels=tuple(package.wheel.sha256 for package in lock.packages), system=True)
    components = bill(lock, Image(tag=image_tag(lock), layers=(everything,)), {}).components
    return [Material(purl=item.purl, file=item.file, sha256=item.sha256) for item in components]


@contextmanager
def _own_trust(cosign: Cosign, who: Signer) -> Iterator[Trust | None]:
    """Have the signer's public key available, so that what is there already is not made again; keyless has none."""
    if not who.key:
        yield None
        return
    with temporary_folder("envbuild-cosign-") as folder:
        public = folder / "signer.pub"
        public.write_text(cosign.public_key(who))
        yield Trust(key=str(public))


def _add_signature(cosign: Cosign, reference: Reference, who: Signer, mine: Trust | None) -> bool:
    """Sign; False if the same key has."""
    if mine is not None:
        try:
            cosign.check(str(reference), reference.digest, mine)
        except IntegrityError:
            pass
        else:
            return False
    cosign.sign(str(reference), who)
    return True


def _add_statement(
    cosign: Cosign, reference: Reference, who: Signer, mine: Trust | None, kind: str, data: bytes
) -> bool:
    """Attach a statement; False if the same key has attached it."""
    if mine is not None and parse_json(data) in cosign.statements(str(reference), reference.digest, mine, kind):
        return False
    with temporary_folder("envbuild-cosign-") as folder:
        predicate = folder / f"{kind}.json"
        predicate.write_bytes(data)
        cosign.attest(str(reference), who, kind, predicate)
    return True
