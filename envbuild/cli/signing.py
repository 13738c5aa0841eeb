"""``sign``: the image that was pushed, its provenance and bills of materials, through cosign."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild import __version__
from envbuild.cli.console import Console
from envbuild.cli.demanding import cosign_for
from envbuild.core.digest import canonical_json, sha256_bytes
from envbuild.errors import IntegrityError, NotReproducibleError, UsageError
from envbuild.image.record import ImageRecord, image_record_path, image_tag, read_image_record
from envbuild.lockfile import model as locks
from envbuild.operations.blob_locations import chosen_place
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.registry.reference import Reference
from envbuild.signing import cosign as tool
from envbuild.signing.provenance import Material, Origin, Subject, origin, provenance
from envbuild.signing.trust import Signer, Trust, signer

if TYPE_CHECKING:
    from envbuild.signing.cosign import Cosign

_TITLES = {tool.PROVENANCE: "provenance", tool.CYCLONEDX: "CycloneDX", tool.SPDX: "SPDX"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SignOptions:
    """Options of ``sign`` as typed."""

    key: str | None = None
    keyless: bool = False
    signature_only: bool = False
    builder: str = ""
    invocation: str = ""


def sign_image(text: str | None, path: Path | None, options: SignOptions, console: Console) -> None:
    """Sign the image that was pushed, and attach its provenance and bills of materials.

    Args:
        text: the reference by digest; by default the one that ``push --write`` kept.

    Raises:
        UsageError: there is no cosign or no such key, or the reference has no digest.
        NotReproducibleError: the registry holds another image than the lock's.
    """
    who = signer(options.key, options.keyless, os.environ)
    made = origin(options.builder, options.invocation, os.environ, __version__)
    program = tool.find_program(os.environ)
    opened = load_lock(path)
    reference = _to_sign(text, opened)
    identity = _pushed(reference, opened)
    statements = [] if options.signature_only else _statements(opened.lock, identity, made)
    with cosign_for(reference, program) as cosign, _own_trust(cosign, who) as mine:
        added = _add_signature(cosign, reference, who, mine)
        console.line("sign", str(reference), str(who) if added else "nothing to do", elapsed=True)
        made_now = [kind for kind, data in statements if _add_statement(cosign, reference, who, mine, kind, data)]
    if statements:
        titles = ", ".join(_TITLES[kind] for kind in made_now)
        console.line("attest", titles or "nothing to do", elapsed=True)
    digests = {kind: sha256_bytes(data) for kind, data in statements}
    console.result({"reference": str(reference), "signer": str(who), "statements": digests})


def _to_sign(text: str | None, opened: LoadedLock) -> Reference:
    """Return the reference by digest."""
    reference = chosen_place(text, opened.path, opened.lock, "sign")
    if not reference.digest:
        raise UsageError(
            f"sign {text}: a tag may mean something else tomorrow",
            f"name the image by digest, which envbuild push prints: {reference.name}@sha256:…",
        )
    return reference.at(reference.digest)


def _pushed(reference: Reference, opened: LoadedLock) -> ImageRecord:
    """Return what is recorded of the image, after a look at what the registry holds."""
    from envbuild.cli.pulling import check_is_locks, check_lock_inside
    from envbuild.image.plan.model import plan
    from envbuild.net.config import network_config
    from envbuild.registry.image import read_image
    from envbuild.registry.repository import Repository

    recorded, name = read_image_record(opened.path, opened.lock), image_record_path(opened.path).name
    if recorded is None or recorded.manifest != reference.digest:
        known = f"sha256:{recorded.manifest}" if recorded else "nothing: it is missing, or of another lock"
        raise NotReproducibleError(
            f"{reference} is not the image recorded in {name} — nothing was signed\n  recorded  {known}",
            "sign what envbuild push has made of this lock: envbuild push REFERENCE --write && envbuild sign",
        )
    with Repository(reference, network_config()) as repository:
        remote = read_image(repository, reference.target, str(plan(opened.lock).platform["architecture"]))
        check_is_locks(remote, reference, opened)
        check_lock_inside(repository, remote, reference, opened.lock)
    return recorded


def _statements(lock: locks.Lock, identity: ImageRecord, made: Origin) -> list[tuple[str, bytes]]:
    """Return what is stated of an image: type and predicate."""
    from envbuild.cli.sbom_documents import sbom_documents
    from envbuild.store.objects import Store

    bills = sbom_documents(lock, identity, Store())
    subject = Subject(
        lock=lock.name,
        lock_digest=locks.lock_digest(lock),
        layout=lock.layout,
        recipe=identity.recipe,
        config=identity.config,
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
    """Have the signer's public key at hand, so that what is there already is not made again; keyless has none."""
    if not who.key:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="envbuild-") as folder:
        public = Path(folder) / "signer.pub"
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
    if mine is not None and json.loads(data) in cosign.statements(str(reference), reference.digest, mine, kind):
        return False
    with tempfile.TemporaryDirectory(prefix="envbuild-") as folder:
        predicate = Path(folder) / f"{kind}.json"
        predicate.write_bytes(data)
        cosign.attest(str(reference), who, kind, predicate)
    return True
