"""Images: what ``build``, ``context``, ``image``, ``push``, ``pull``, ``inspect``, ``sbom``, ``sign`` made and found.

As lines for people and as JSON values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from envbuild.cli.render.events import Line
from envbuild.core.text import human_bytes, plain, plural
from envbuild.lockfile import model as locks

if TYPE_CHECKING:
    from pathlib import Path

    from envbuild.operations.build import DockerContext
    from envbuild.operations.image import ImageWeight
    from envbuild.operations.inspect import InspectedImage
    from envbuild.operations.pull import PulledImage
    from envbuild.operations.push import PushedBundle, PushedImage, PushedIndex
    from envbuild.operations.sbom import BillOfMaterials
    from envbuild.operations.sign import SignedImage
    from envbuild.operations.signatures import SignatureCheck

_NAMED = 3
"""So many locks that share a layer are named in a line; the JSON names all."""
_MAIN = ("tensorflow", "torch", "jax", "keras")
_SHOWN = 4
"""Frameworks named in the line of the lock."""


def context_lines(result: DockerContext) -> Iterator[Line]:
    """Yield where the context is, and the command that builds it."""
    yield Line("context", (str(result.folder),), elapsed=True)
    yield Line("next", (f"docker build --network=none {result.folder}",))


def weight_lines(result: ImageWeight) -> Iterator[Line]:
    """Yield layers from bottom to top, then what all of them weigh."""
    for layer in result.layers:
        digest, shared = f"sha256:{layer.digest[:12]}…", _shared(layer.shared_with)
        columns = f"{layer.files:>8,}", f"{layer.title:<44}", digest, shared
        yield Line(f"{human_bytes(layer.bytes):>8}", columns)
    counts = f"{plural(result.files, 'file')} in {plural(len(result.layers), 'layer')}"
    name = result.loaded.lock.name
    yield Line(f"{human_bytes(result.bytes):>8}", (f"{name}: {counts}, config sha256:{result.config[:12]}…",))


def weight_json(result: ImageWeight) -> dict[str, Any]:
    """Return the result of ``image`` as JSON values."""
    return {
        "config": f"sha256:{result.config}",
        "files": result.files,
        "layers": [
            {
                "digest": f"sha256:{layer.digest}",
                "files": layer.files,
                "kind": layer.kind,
                "shared-with": list(layer.shared_with),
                "size": layer.bytes,
                "title": layer.title,
            }
            for layer in result.layers
        ],
        "lock": result.loaded.lock.file_name,
        "manifest": f"sha256:{result.manifest}",
        "size": result.bytes,
    }


def _shared(names: Sequence[str]) -> str:
    """Name a few of the locks that share a layer, and how many more do."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"shared with {', '.join(map(plain, names[:_NAMED]))}{more}" if names else ""


def pushed_lines(result: PushedImage) -> Iterator[Line]:
    """Yield what was moved, the reference by digest, and the file it was written to."""
    tag, upload = str(result.tag), result.upload
    if upload is None:
        yield Line("push", (tag, "nothing to do"), elapsed=True)
    else:
        there = upload.held + upload.mounted
        held = f"{there} of {plural(there + upload.uploaded, 'blob')} held"
        rate = f"{human_bytes(int(upload.sent / upload.seconds))}/s" if upload.sent and upload.seconds else ""
        yield Line("push", (tag, human_bytes(upload.sent), held, rate), elapsed=True)
    yield Line("image", (str(result.reference),))
    if bundle := result.bundle:
        yield Line("bundle", (f"{bundle.place}:{bundle.tag}", human_bytes(bundle.bytes), _files(bundle)))
    if result.written is not None:
        yield Line("wrote", (result.written.name,))


def _files(bundle: PushedBundle) -> str:
    return f"{bundle.files - bundle.sent} of {plural(bundle.files, 'file')} held"


def pushed_json(result: PushedImage) -> dict[str, Any]:
    """Return the result of ``push`` as JSON values."""
    upload = result.upload
    return {
        "config": result.record.config,
        "manifest": result.record.manifest,
        "reference": str(result.reference),
        "tag": str(result.tag),
        "bytes": upload.sent if upload else 0,
        "blobs": {name: getattr(upload, name) if upload else 0 for name in ("uploaded", "mounted", "held")},
        **({"bundle": asdict(result.bundle)} if result.bundle else {}),
    }


def index_lines(result: PushedIndex) -> Iterator[Line]:
    """Yield what was moved for each platform, then the index that names all of them."""
    for image in result.images:
        yield from pushed_lines(image)
    yield Line("index", (str(result.tag), "" if result.changed else "nothing to do"), elapsed=True)
    yield Line("image", (str(result.reference),))


def index_json(result: PushedIndex) -> dict[str, Any]:
    """Return the result of ``push`` of several platforms as JSON values."""
    return {
        "index": result.reference.digest,
        "platforms": [pushed_json(image) for image in result.images],
        "reference": str(result.reference),
        "tag": str(result.tag),
    }


def pulled_line(result: PulledImage) -> Line:
    """Return the line that names the image."""
    columns = result.loaded.lock.name, f"sha256:{result.record.config[:12]}…", "the lock's"
    return Line("image", columns, elapsed=True)


def inspected_lines(result: InspectedImage) -> Iterator[Line]:
    """Yield what an image is, what is attached to it, and how to build it again."""
    remote, lock = result.remote, result.lock
    yield Line("image", (str(result.reference),))
    yield Line("config", (f"sha256:{remote.config_digest}", remote.platform))
    yield Line("lock", (lock.name, f"sha256:{locks.lock_digest(lock)[:12]}…", _contents(lock)))
    size = sum(layer.blob.size for layer in remote.layers)
    yield Line("layers", (f"{len(remote.layers)}, {human_bytes(size)}",))
    for layer in remote.layers:
        columns = f"{layer.title[:48]:<48}", f"{human_bytes(layer.blob.size):>7}", f"sha256:{layer.diff_id[:12]}…"
        yield Line("", columns)
    note = "(not checked)" if result.signature is None else ""
    for kind, label in (("sbom", "sbom"), ("signature", "signed"), ("attestation", "attested")):
        found = [item for item in result.attached if item.kind == kind]
        if not found:
            yield Line(label, ("no",))
        for item in found:
            yield Line(label, (item.type, f"sha256:{item.digest[:12]}…", note))
    if result.signature is not None:
        yield from _signature_lines(result.signature)
    if others := [item for item in result.attached if item.kind == "other"]:
        yield Line("attached", (plural(len(others), "other artifact"),))
    again = f"envbuild inspect {result.reference} --lock > {lock.file_name} && envbuild build {lock.file_name}"
    yield Line("rebuild", (again,))


def inspected_json(result: InspectedImage) -> dict[str, Any]:
    """Return the result of ``inspect`` as JSON values."""
    remote, lock = result.remote, result.lock
    return {
        "reference": str(result.reference),
        "manifest": remote.manifest.digest,
        "config": remote.config_digest,
        "platform": remote.platform,
        "size": sum(layer.blob.size for layer in remote.layers),
        "labels": dict(remote.labels),
        "layers": [
            {"title": layer.title, "size": layer.blob.size, "digest": layer.blob.digest, "diff_id": layer.diff_id}
            for layer in remote.layers
        ],
        "lock": {"name": lock.name, "digest": locks.lock_digest(lock), "toml": result.lock_data.decode()},
        "attached": [
            {"kind": item.kind, "type": item.type, "digest": item.digest, "place": item.place}
            for item in result.attached
        ],
        "signed": _signature_json(result.signature),
    }


def _signature_json(check: SignatureCheck | None) -> dict[str, Any] | None:
    if check is None:
        return None
    named = {"builders": list(check.builders), "other_locks": list(check.locks)}
    return {"by": str(check.who), "good": check.refusal is None, "provenance": named}


def _signature_lines(check: SignatureCheck) -> Iterator[Line]:
    """Yield whose signature and provenance there is."""
    if check.refusal is not None:
        yield Line("checked", (f"not signed by {check.who}",))
        return
    yield Line("checked", (f"signed by {check.who}",))
    for builder in check.builders:
        yield Line("", ("provenance by the same signer names this lock", f"built by {builder}"))
    for digest in check.locks:
        name = f"sha256:{digest}" if digest else "none"
        yield Line("", (f"provenance by the same signer names another lock: {name}",))
    if not check.builders:
        yield Line("", ("no provenance by the same signer names this lock",))


def _contents(lock: locks.Lock) -> str:
    """Return what the lock holds in a few words."""
    system = lock.os.image or lock.os.release
    named = sorted(lock.frameworks.items(), key=lambda item: (not item[0].startswith(_MAIN), item[0]))
    frameworks = [f"{name} {version}" for name, version in named][:_SHOWN]
    parts = [system, f"Python {lock.python.release}", plural(len(lock.packages), "wheel"), *frameworks]
    return ", ".join(parts)


def bill_line(result: BillOfMaterials, output: Path) -> Line:
    """Return the line that shows where a bill was written, and what it lists."""
    lock = result.loaded.lock
    counts = plural(len(lock.os.packages), "OS package"), plural(len(lock.packages), "wheel")
    return Line("wrote", (str(output), ", ".join(counts)), elapsed=True)


def attested_line(result: SignedImage) -> Line:
    """Return the line that names the statements that were attached now, of those that were asked for."""
    from envbuild.signing import cosign

    titles_of = {cosign.PROVENANCE: "provenance", cosign.CYCLONEDX: "CycloneDX", cosign.SPDX: "SPDX"}
    titles = ", ".join(titles_of[each.kind] for each in result.statements if each.added)
    return Line("attest", (titles or "nothing to do",), elapsed=True)


def signed_json(result: SignedImage) -> dict[str, Any]:
    """Return the result of ``sign`` as JSON values."""
    digests = {statement.kind: statement.sha256 for statement in result.statements}
    return {"reference": str(result.reference), "signer": result.signer, "statements": digests}
