"""SPDX 2.3 as JSON, https://spdx.github.io/spdx-spec/v2.3/."""

from __future__ import annotations

import re
from typing import Any

from envbuild import __version__
from envbuild.sbom.text import CREATED, document_bytes, document_uuid
from envbuild.sbom.values import Bill, Component, Document, Layer

MEDIA_TYPE = "application/spdx+json"
_UNKNOWN = "NOASSERTION"
_ROOT = "SPDXRef-Image"
_SYSTEM = "SPDXRef-OperatingSystem"
_PURPOSES = {"base": "CONTAINER", "python": "APPLICATION"}
_NOT_AN_ID = re.compile(r"[^A-Za-z0-9.-]+")


def render(bill: Bill) -> Document:
    """Write a bill as SPDX; equal bills give equal bytes."""
    packages = [_root(bill), *_system(bill)]
    packages += [_layer(bill, index, layer) for index, layer in enumerate(bill.image.layers)]
    packages += [_package(item) for item in bill.components]
    texts = {ref: text for item in bill.components if item.licence for ref, text in item.licence.texts.items()}
    body: dict[str, Any] = {
        "name": f"{bill.name}-{bill.version}",
        "creationInfo": {"created": CREATED, "creators": [f"Tool: envbuild-{__version__}"]},
        "comment": f"Image of the lock sha256:{bill.lock}, layout {bill.layout}.",
        "packages": packages,
        "hasExtractedLicensingInfos": [
            {"licenseId": ref, "name": name, "extractedText": text} for ref, (name, text) in sorted(texts.items())
        ],
        "relationships": _relationships(bill),
    }
    if not texts:
        del body["hasExtractedLicensingInfos"]
    head = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "documentNamespace": f"https://spdx.org/spdxdocs/envbuild-{bill.name}-{document_uuid(body)}",
    }
    return Document(data=document_bytes(head | body), media_type=MEDIA_TYPE, file_name=f"{bill.name}.spdx.json")


def _entry(identifier: str, name: str, version: str, purpose: str, sha256: str = "") -> dict[str, Any]:
    """Return a package with what is known of none of its kind."""
    entry: dict[str, Any] = {"SPDXID": identifier, "name": name}
    if version:
        entry["versionInfo"] = version
    entry |= {
        "supplier": _UNKNOWN,
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": _UNKNOWN,
        "licenseDeclared": _UNKNOWN,
        "copyrightText": _UNKNOWN,
        "primaryPackagePurpose": purpose,
    }
    return entry | ({"checksums": [{"algorithm": "SHA256", "checksumValue": sha256}]} if sha256 else {})


def _root(bill: Bill) -> dict[str, Any]:
    return _entry(_ROOT, bill.name, bill.version, "CONTAINER", bill.image.config)


def _system(bill: Bill) -> list[dict[str, Any]]:
    name, version = bill.system
    return [_entry(_SYSTEM, name, version, "OPERATING_SYSTEM")] if name else []


def _layer(bill: Bill, index: int, layer: Layer) -> dict[str, Any]:
    version = f"sha256:{layer.digest}" if layer.digest else bill.version
    return _entry(_layer_id(index), layer.title, version, "ARCHIVE", layer.digest)


def _package(item: Component) -> dict[str, Any]:
    entry = _entry(_identifier(item), item.name, item.version, "LIBRARY", item.sha256)
    if item.kind in _PURPOSES:
        entry["primaryPackagePurpose"] = _PURPOSES[item.kind]
    if item.file:
        entry["packageFileName"] = item.file
    if item.supplier:
        entry["supplier"] = f"Organization: {item.supplier}"
    if item.licence:
        entry["licenseDeclared"] = item.licence.expression
    entry["comment"] = f"size: {item.size} bytes"
    entry["externalRefs"] = [
        {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": item.purl}
    ]
    return entry


def _relationships(bill: Bill) -> list[dict[str, str]]:
    """The document describes the image, which contains layers, which contain packages, which need each other."""
    identifiers = {item.ref: _identifier(item) for item in bill.components}
    found = [("SPDXRef-DOCUMENT", "DESCRIBES", _ROOT)]
    found += [(_ROOT, "CONTAINS", _SYSTEM)] if bill.system[0] else []
    found += [(_ROOT, "CONTAINS", _layer_id(index)) for index in range(len(bill.image.layers))]
    found += [(_layer_id(item.layer), "CONTAINS", identifiers[item.ref]) for item in bill.components]
    for ref, needs in bill.needs.items():
        found += [(identifiers[ref], "DEPENDS_ON", identifiers[other]) for other in needs]
    return [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in found]


def _layer_id(index: int) -> str:
    return f"SPDXRef-Layer-{index}"


def _identifier(item: Component) -> str:
    """Name a package for people; the digest's start distinguishes what looks alike once odd characters are gone."""
    return f"SPDXRef-{item.kind}-{_NOT_AN_ID.sub('-', item.name)}-{item.sha256[:12]}"
