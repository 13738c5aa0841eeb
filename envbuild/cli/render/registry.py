"""What ``push``, ``pull`` and ``inspect`` did and found, as lines for people and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envbuild.cli.render.events import Line
from envbuild.core.text import human_bytes, plural
from envbuild.lockfile import model as locks
from envbuild.operations.inspect import InspectedImage
from envbuild.operations.pull import PulledImage
from envbuild.operations.push import PushedImage
from envbuild.operations.signatures import SignatureCheck

_MAIN = ("tensorflow", "torch", "jax", "keras")
_SHOWN = 4
"""Frameworks named in the line of the lock."""


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
    if result.written is not None:
        yield Line("wrote", (result.written.name,))


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
