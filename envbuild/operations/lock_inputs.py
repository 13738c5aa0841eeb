"""What a lock is made from: the options that can change it, and the digests by which a stale lock is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.digest import sha256_file, sha256_json
from envbuild.operations.freshness import WHEELS, wheels_digest
from envbuild.spec.model import Spec, spec_digest


@dataclass(frozen=True, kw_only=True, slots=True)
class LockOptions:
    """Options of ``envbuild lock`` that can change what is locked.

    Attributes:
        host: what to lock for: the file of a host description, ``detect``, ``none``; empty: as before.
    """

    resolver: str = "uv"
    cross_check: bool = False
    upgrade: bool = False
    upgrade_packages: tuple[str, ...] = ()
    refresh: bool = False
    host: str = ""


def resolution_inputs(spec: Spec, path: Path, options: LockOptions) -> dict[str, str]:
    """Return the SHA-256 of everything the resolution depends on that lies beside the lock, by name."""
    from envbuild.spec.requirement_files import included

    inputs = {path.name: spec_digest(spec)}
    for name in included(path.parent, spec.requirement_files, path.name):
        inputs[name] = sha256_file(path.parent / name)
    for name in spec.wheels:
        inputs[f"{name}{WHEELS}"] = wheels_digest(path.parent / name)
    if options.resolver != "uv":
        inputs["--resolver"] = sha256_json(options.resolver)
    return inputs


def stale_inputs(locked: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Name each input of the resolution that is not as it was locked."""
    lines = [f"{name} changed" for name in found if name in locked and locked[name] != found[name]]
    new, gone = ([name for name in one if name not in other] for one, other in ((found, locked), (locked, found)))
    here, there = ([name for name in names if name.endswith((".yaml", ".yml"))] for names in (new, gone))
    if here and there:
        lines.append(f"locked from {there[0]}, not from {here[0]}")
        new.remove(here[0])
        gone.remove(there[0])
    return [*lines, *(f"{name} is new" for name in new), *(f"{name} is gone" for name in gone)]
