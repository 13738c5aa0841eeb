"""CycloneDX 1.6 as JSON, https://cyclonedx.org/docs/1.6/json/."""

from __future__ import annotations

from typing import Any

from envbuild import __version__
from envbuild.sbom.text import CREATED, document_bytes, document_uuid
from envbuild.sbom.values import Bill, Component, Document, Licence

MEDIA_TYPE = "application/vnd.cyclonedx+json"
_KINDS = {"deb": "library", "wheel": "library", "base": "container", "python": "application"}


def render(bill: Bill) -> Document:
    """Write a bill as CycloneDX; equal bills give equal bytes."""
    root = f"image:{bill.image.tag}"
    body = {
        "version": 1,
        "metadata": {
            "timestamp": CREATED,
            "tools": {"components": [{"type": "application", "name": "envbuild", "version": __version__}]},
            "component": _root(bill, root),
        },
        "components": [*_system(bill), *(_component(bill, item) for item in bill.components)],
        "dependencies": [
            {"ref": root, "dependsOn": list(bill.top)},
            *({"ref": ref, "dependsOn": list(needs)} for ref, needs in bill.needs.items()),
        ],
        "compositions": [_composition(bill, root)],
    }
    head = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{document_uuid(body)}",
    }
    return Document(data=document_bytes(head | body), media_type=MEDIA_TYPE, file_name=f"{bill.name}.cdx.json")


def _root(bill: Bill, ref: str) -> dict[str, Any]:
    properties = {"envbuild:lock": f"sha256:{bill.lock}", "envbuild:layout": str(bill.layout)}
    for index, layer in enumerate(bill.image.layers):
        properties[f"envbuild:layer:{index:02}:title"] = layer.title
        if layer.digest:
            properties[f"envbuild:layer:{index:02}:digest"] = f"sha256:{layer.digest}"
    root: dict[str, Any] = {"type": "container", "bom-ref": ref, "name": bill.name, "version": bill.version}
    if bill.image.config:
        root |= {"hashes": _hashes(bill.image.config)}
    return root | {"properties": _properties(properties)}


def _system(bill: Bill) -> list[dict[str, Any]]:
    """Name the operating system: what scanners choose their vulnerability data by."""
    name, version = bill.system
    if not name:
        return []
    return [{"type": "operating-system", "bom-ref": f"os:{name}-{version}", "name": name, "version": version}]


def _component(bill: Bill, item: Component) -> dict[str, Any]:
    layer = bill.image.layers[item.layer]
    properties = {"envbuild:layer": layer.title, "envbuild:size": str(item.size)}
    if layer.digest:
        properties["envbuild:layer:digest"] = f"sha256:{layer.digest}"
    if item.file:
        properties["envbuild:file"] = item.file
    found: dict[str, Any] = {"type": _KINDS[item.kind], "bom-ref": item.ref}
    if item.supplier:
        found["supplier"] = {"name": item.supplier}
    found |= {"name": item.name, "version": item.version, "hashes": _hashes(item.sha256)}
    if item.licence:
        found["licenses"] = _licences(item.licence)
    return found | {"purl": item.purl, "properties": _properties(properties)}


def _licences(licence: Licence) -> list[dict[str, Any]]:
    """One licence that only has a name is named; anything else is an expression."""
    if licence.expression in licence.texts:
        return [{"license": {"name": licence.texts[licence.expression][0], "acknowledgement": "declared"}}]
    return [{"expression": licence.expression, "acknowledgement": "declared"}]


def _composition(bill: Bill, root: str) -> dict[str, Any]:
    """Return whether anything is in the image that is not listed: the packages of a base image."""
    whole = not any(item.kind == "base" for item in bill.components)
    return {"aggregate": "complete" if whole else "incomplete", "assemblies": [root]}


def _hashes(sha256: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": sha256}]


def _properties(table: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in sorted(table.items())]
