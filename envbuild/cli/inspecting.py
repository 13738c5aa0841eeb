"""``inspect``: what an image in a registry is, from its manifest, its configuration and its smallest layer."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Any

from envbuild.cli.console import Console
from envbuild.cli.demanding import Checked, check_all
from envbuild.cli.pulling import read_lock
from envbuild.core.digest import sha256_bytes
from envbuild.core.text import human_bytes, plural
from envbuild.errors import IntegrityError, UsageError
from envbuild.lockfile import model as locks
from envbuild.registry.reference import Reference, parse_reference
from envbuild.signing.trust import trust

if TYPE_CHECKING:
    from envbuild.registry.artifacts import Attachment
    from envbuild.registry.image import RemoteImage
    from envbuild.registry.repository import Repository

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MAIN = ("tensorflow", "torch", "jax", "keras")
_TAGS = 8
_SHOWN = 4
"""Frameworks named in the line of the lock."""


def inspect_image(text: str, lock_only: bool, require: str | None, console: Console) -> None:
    """Print what an image in a registry is; nothing of it is kept.

    Args:
        lock_only: print the lock that travels inside, byte for byte, and nothing else.
        require: who must have signed it, as typed.

    Raises:
        RegistryError: the registry does not answer, or has no such image.
        IntegrityError: bytes were altered, the image holds no lock, or it is not signed as it must be.
    """
    from envbuild.net.config import network_config
    from envbuild.registry.artifacts import attachments
    from envbuild.registry.image import read_image
    from envbuild.registry.repository import Repository

    reference, who = parse_reference(text), trust(require) if require is not None else None
    with Repository(reference, network_config()) as repository:
        machine = platform.machine()
        reference = reference if reference.target else reference.tagged(_only_tag(repository))
        remote = read_image(repository, reference.target, _ARCHITECTURES.get(machine, machine))
        data = checked_lock(read_lock(repository, remote), remote, reference)
        pinned = reference.at(remote.manifest.digest)
        checked = check_all(pinned, who, sha256_bytes(data)) if who is not None else None
        if lock_only and checked is not None and checked.refusal is not None:
            raise checked.refusal
        if lock_only:
            sys.stdout.write(data.decode())
            return
        attached = attachments(repository, remote.manifest.digest)
    lock = locks.loads(data, f"the lock inside {reference}")
    if console.as_json:
        console.result({**_table(reference, remote, data, lock, attached), "signed": _signed(checked)})
    else:
        _print(reference, remote, lock, attached, checked, console)
    if checked is not None and checked.refusal is not None:
        raise checked.refusal


def _only_tag(repository: Repository) -> str:
    """Return the tag of a repository that has one; raises ``UsageError`` if it has none or several."""
    from envbuild.registry.artifacts import is_attached

    name, tags = repository.reference.name, [tag for tag in repository.tags() if not is_attached(tag)]
    if len(tags) != 1:
        listed = f": {', '.join(sorted(tags)[:_TAGS])}{' …' if len(tags) > _TAGS else ''}" if tags else ""
        raise UsageError(
            f"{name} has {plural(len(tags), 'tag')}{listed}",
            f"name one: envbuild inspect {name}:{sorted(tags)[-1]}" if tags else "envbuild push makes one",
        )
    return tags[0]


def checked_lock(data: bytes, remote: RemoteImage, reference: Reference) -> bytes:
    """Return the lock if it is the one that the image's label names; raises ``IntegrityError`` otherwise."""
    named = remote.labels.get("envbuild.lock", "").removeprefix("sha256:")
    if sha256_bytes(data) != named:
        raise IntegrityError(
            f"the lock inside {reference} is not the one that its label names\n"
            f"  label  sha256:{named or 'none'}\n  found  sha256:{sha256_bytes(data)}",
            "the image was altered after envbuild made it",
        )
    return data


def _table(
    reference: Reference, remote: RemoteImage, data: bytes, lock: locks.Lock, attached: tuple[Attachment, ...]
) -> dict[str, Any]:
    """Return what programs read."""
    return {
        "reference": str(reference.at(remote.manifest.digest)),
        "manifest": remote.manifest.digest,
        "config": remote.config_digest,
        "platform": remote.platform,
        "size": sum(layer.blob.size for layer in remote.layers),
        "labels": dict(remote.labels),
        "layers": [
            {"title": layer.title, "size": layer.blob.size, "digest": layer.blob.digest, "diff_id": layer.diff_id}
            for layer in remote.layers
        ],
        "lock": {"name": lock.name, "digest": sha256_bytes(data), "toml": data.decode()},
        "attached": [
            {"kind": item.kind, "type": item.type, "digest": item.digest, "place": item.place} for item in attached
        ],
    }


def _signed(checked: Checked | None) -> dict[str, Any] | None:
    """Return what programs read of the signature; None if it was not checked."""
    if checked is None:
        return None
    named = {"builders": list(checked.builders), "other_locks": list(checked.locks)}
    return {"by": str(checked.who), "good": checked.refusal is None, "provenance": named}


def _print(
    reference: Reference,
    remote: RemoteImage,
    lock: locks.Lock,
    attached: tuple[Attachment, ...],
    checked: Checked | None,
    console: Console,
) -> None:
    """Print it for people."""
    size = sum(layer.blob.size for layer in remote.layers)
    console.line("image", str(reference.at(remote.manifest.digest)))
    console.line("config", f"sha256:{remote.config_digest}", remote.platform)
    console.line("lock", lock.name, f"sha256:{locks.lock_digest(lock)[:12]}…", _contents(lock))
    console.line("layers", f"{len(remote.layers)}, {human_bytes(size)}")
    for layer in remote.layers:
        console.line(
            "", f"{layer.title[:48]:<48}", f"{human_bytes(layer.blob.size):>7}", f"sha256:{layer.diff_id[:12]}…"
        )
    note = "(not checked)" if checked is None else ""
    for kind, label in (("sbom", "sbom"), ("signature", "signed"), ("attestation", "attested")):
        found = [item for item in attached if item.kind == kind]
        if not found:
            console.line(label, "no")
        for item in found:
            console.line(label, item.type, f"sha256:{item.digest[:12]}…", note)
    if checked is not None:
        _print_checked(checked, console)
    if others := [item for item in attached if item.kind == "other"]:
        console.line("attached", plural(len(others), "other artifact"))
    pinned = reference.at(remote.manifest.digest)
    console.line("rebuild", f"envbuild inspect {pinned} --lock > {lock.file_name} && envbuild build {lock.file_name}")


def _print_checked(checked: Checked, console: Console) -> None:
    """Say whose signature and provenance there is."""
    if checked.refusal is not None:
        console.line("checked", f"not signed by {checked.who}")
        return
    console.line("checked", f"signed by {checked.who}")
    for builder in checked.builders:
        console.line("", "provenance by the same signer names this lock", f"built by {builder}")
    for digest in checked.locks:
        console.line(
            "", f"provenance by the same signer names another lock: {f'sha256:{digest}' if digest else 'none'}"
        )
    if not checked.builders:
        console.line("", "no provenance by the same signer names this lock")


def _contents(lock: locks.Lock) -> str:
    """Say what the lock holds in a few words."""
    system = lock.os.image or lock.os.release
    named = sorted(lock.frameworks.items(), key=lambda item: (not item[0].startswith(_MAIN), item[0]))
    frameworks = [f"{name} {version}" for name, version in named][:_SHOWN]
    parts = [system, f"Python {lock.python.version}", plural(len(lock.packages), "wheel"), *frameworks]
    return ", ".join(parts)
