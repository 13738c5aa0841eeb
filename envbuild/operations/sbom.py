"""Make bills of materials from a lock and the metadata that its files in the store carry."""

from __future__ import annotations

import posixpath
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, cast

from envbuild.core.damaged_zip import DAMAGED_ZIP
from envbuild.core.progress import Progress, Silent
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.cpython.archive import licence_text
from envbuild.image.os.deb import open_deb
from envbuild.image.plan.layer_order import LayerSpec
from envbuild.image.plan.model import plan
from envbuild.image.record import ImageRecord, image_tag, read_image_record
from envbuild.lockfile.model import Lock, OsPackage
from envbuild.operations.events import Events
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.resolve.debian.relations import Group, parse_relations
from envbuild.sbom import cyclonedx, spdx
from envbuild.sbom.bill import bill
from envbuild.sbom.licences import debian_licence, python_licence, wheel_licence
from envbuild.sbom.values import Document, Evidence, Image, Layer
from envbuild.store.objects import Store

_RENDER = {"cyclonedx": cyclonedx.render, "spdx": spdx.render}
_DOC = "usr/share/doc/"
_LINKS = 8
_TEXT = 16 << 20
"""Bytes of a METADATA or copyright file that are read."""
_IN_MEMORY = 64 << 20
"""Bytes of an unpacked package above which it is in a temporary file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BillOfMaterials:
    """The bill of materials of a lock's image."""

    loaded: LoadedLock
    document: Document


def sbom(path: Path | None, events: Events, *, kind: str = "cyclonedx") -> BillOfMaterials:
    """Return the bill of materials of a lock's image.

    Args:
        path: the lock's file; None: search upward from the working directory.
        events: receives progress.
        kind: ``cyclonedx`` (1.6) or ``spdx`` (2.3), both as JSON.

    Raises:
        LockError: there is no lock, it is invalid, or it is stale.
        IntegrityError: a file in the store is damaged.
    """
    loaded = load_lock(path)
    recorded = read_image_record(loaded.path, loaded.lock)
    return BillOfMaterials(loaded=loaded, document=sbom_document(loaded.lock, recorded, kind, Store(), events))


def sbom_document(
    lock: Lock, recorded: ImageRecord | None, kind: str, store: Store, progress: Progress | None = None
) -> Document:
    """Return a lock's bill of materials.

    Args:
        recorded: what is recorded of the lock's image; without it layers have titles and no digests.
        kind: ``cyclonedx`` or ``spdx``.
        store: where wheels and packages are looked for; what is not there is described by the lock alone.
        progress: shows how many packages are read: each is unpacked whole, which takes most of the time.
    """
    return _RENDER[kind](bill(lock, _image(lock, recorded), read_evidence(lock, store, progress)))


def sbom_documents(lock: Lock, recorded: ImageRecord | None, store: Store) -> dict[str, Document]:
    """Return the bills of every kind, by kind; arguments as for ``sbom_document``. Files are read once."""
    made = bill(lock, _image(lock, recorded), read_evidence(lock, store))
    return {kind: render(made) for kind, render in _RENDER.items()}


def read_evidence(lock: Lock, store: Store, progress: Progress | None = None) -> dict[str, Evidence]:
    """Return what each of a lock's files in the store reports about itself, by SHA-256; ``progress`` counts packages.

    Raises:
        IntegrityError: a file in the store is damaged.
    """
    wheels = [(item.wheel.sha256, item.wheel.name) for item in lock.packages if store.has(item.wheel.sha256)]
    found = {sha256: _wheel_evidence(store.path(sha256), name) for sha256, name in wheels}
    if (build := lock.python.build) and store.has(build.sha256):
        licence = python_licence(licence_text(build, store.path(build.sha256)))
        found[build.sha256] = Evidence(licence=licence)
    debs = [package for package in lock.os.packages if store.has(package.sha256)]
    contents: dict[str, _Content] = {}
    documents: dict[str, str] = {}
    with (
        (progress or Silent()).phase("sbom", len(debs), unit="packages") as advance,
        ThreadPoolExecutor(max_workers=4) as pool,  # the decompressors let other threads run
    ):
        for package, content in zip(debs, pool.map(lambda package: _read_deb(package, store), debs), strict=True):
            contents[package.sha256] = content
            documents |= content.documents
            advance(1)
    for package in debs:
        content = contents[package.sha256]
        text = _follow(f"{_DOC}{package.name}/copyright", documents)
        found[package.sha256] = replace(content.evidence, licence=debian_licence(text)) if text else content.evidence
    return found


def _image(lock: Lock, recorded: ImageRecord | None) -> Image:
    planned = plan(lock).layers
    digests: Sequence[str] = recorded.layers if recorded else ()
    if len(digests) != len(planned):
        digests = [""] * len(planned)
    layers = [
        Layer(
            title=spec.title,
            digest=digest,
            wheels=_files_of(spec),
            system=spec.kind == "os",
        )
        for spec, digest in zip(planned, digests, strict=True)
    ]
    return Image(tag=image_tag(lock), layers=tuple(layers), config=recorded.config if recorded else "")


def _files_of(spec: LayerSpec) -> tuple[str, ...]:
    """Return the SHA-256 of the locked files that are unpacked in a layer, but for those of the operating system."""
    if spec.kind == "python" and spec.build:
        return (spec.build.sha256,)
    return tuple(wheel.sha256 for wheel in spec.wheels) if spec.kind in ("wheel", "environment") else ()


def _wheel_evidence(path: Path, name: str) -> Evidence:
    """Read a wheel's METADATA."""
    from packaging.metadata import parse_email

    try:
        with zipfile.ZipFile(path) as archive:
            members = [item for item in archive.namelist() if item.count("/") == 1]
            member = next(item for item in members if item.endswith(".dist-info/METADATA"))
            with archive.open(member) as stream:
                metadata = stream.read(_TEXT + 1)
    except (StopIteration, *DAMAGED_ZIP) as error:
        raise IntegrityError(f"{name}: not a readable wheel: {error}", "bring it in again: envbuild fetch") from None
    if len(metadata) > _TEXT:
        raise IntegrityError(f"{name}: its METADATA has more than {_TEXT} bytes", "leave out this package")
    fields, _ = parse_email(metadata)
    return Evidence(licence=wheel_licence(metadata), requires=tuple(fields.get("requires_dist", [])))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Content:
    """What one package file holds: ``documents`` are copyright files by path; links begin with a zero byte."""

    evidence: Evidence
    documents: Mapping[str, str] = field(default_factory=dict)


def _read_deb(package: OsPackage, store: Store) -> _Content:
    """Read a package's control fields and the copyright files in it."""
    deb = open_deb(store.path(package.sha256), package.file)
    fields = deb.fields()
    groups = [group for name in ("Pre-Depends", "Depends") for group in _relations(fields.get(name, ""), package)]
    source, _, version = fields.get("Source", package.name).partition(" ")
    evidence = Evidence(
        depends=tuple(tuple(item.name for item in group) for group in groups),
        provides=tuple(group[0].name for group in _relations(fields.get("Provides", ""), package)),
        source=(source, version.strip("() ") or package.version),
    )
    documents = {}
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as unpacked:
        deb.unpack_data(cast(BinaryIO, unpacked))
        unpacked.seek(0)
        for entry, stream in deb.members(cast(BinaryIO, unpacked)):
            if not entry.path.startswith(_DOC):
                continue
            if entry.kind == "symlink":
                documents[entry.path] = "\0" + posixpath.join("/", posixpath.dirname(entry.path), entry.target)
            elif entry.kind == "hardlink":
                documents[entry.path] = "\0/" + entry.target
            elif stream is not None and entry.path.endswith("/copyright"):
                documents[entry.path] = stream.read(_TEXT).decode("utf-8", "replace")
    return _Content(evidence=evidence, documents=documents)


def _relations(text: str, package: OsPackage) -> tuple[Group, ...]:
    try:
        return parse_relations(text.replace("\n", " "))
    except ValueError as error:
        raise BuildError(f"{package.file}: {error}", "bring it in again: envbuild fetch") from None


def _follow(path: str, documents: Mapping[str, str]) -> str:
    """Return the text of a copyright file, through links of any of its folders; empty if there is none."""
    for _ in range(_LINKS):
        text = documents.get(path)
        if text is not None and not text.startswith("\0"):
            return text
        parts = path.split("/")
        heads = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        head = next((head for head in heads if documents.get(head, "").startswith("\0")), None)
        if head is None:
            return ""
        path = posixpath.normpath(documents[head][1:] + path[len(head) :]).lstrip("/")
    return ""
