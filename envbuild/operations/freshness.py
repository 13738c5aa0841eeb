"""Telling that a lock is what its spec asks for without reading the spec: reading YAML costs 40 ms, a digest none.

A lock names files by the SHA-256 of their bytes, but its spec by what the spec means. ``fresh.json`` in the project's
state folder remembers which bytes meant what. Where it is absent, or another envbuild's, the spec is read.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from envbuild import __version__
from envbuild.core.digest import sha256_file, sha256_json
from envbuild.core.fs import atomic_write
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.lockfile.model import Lock

WHEELS = "/*.whl"
"""What a folder of wheels is called among a lock's inputs, after its name."""


def wheels_digest(folder: Path) -> str:
    """Return the digest of the names and bytes of the wheels in a folder."""
    return sha256_json([[wheel.name, sha256_file(wheel)] for wheel in sorted(folder.glob("*.whl"))])


def known_fresh(spec: Path, lock: Lock) -> bool:
    """Whether a lock is known to be what a spec and its files ask for; False also if that is yet to be found out."""
    try:
        remembered = json.loads(_memory(spec).read_bytes())
        if remembered["envbuild"] != __version__ or remembered["sha256"] != sha256_file(spec):
            return False
        known = {spec.name: remembered["meaning"]}
        for name, locked in lock.resolution.items():
            # What the command line chose is in the lock only.
            if not name.startswith("--") and locked != (known.get(name) or _digest(spec.parent, name)):
                return False
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def remember_fresh(spec: Path, sha256: str, lock: Lock) -> None:
    """Remember that the spec with these bytes means what the lock was made from.

    Only where runs are recorded already: a build alone leaves no folder in the project.
    """
    if spec.with_name(STATE_FOLDER).is_dir():
        known = {"envbuild": __version__, "meaning": lock.resolution[spec.name], "sha256": sha256}
        with suppress(OSError):
            atomic_write(_memory(spec), json.dumps(known).encode())


def _memory(spec: Path) -> Path:
    return spec.with_name(STATE_FOLDER) / "fresh.json"


def _digest(folder: Path, name: str) -> str:
    """Digest an input of a resolution as ``envbuild lock`` does, by the name it has there."""
    if name.endswith(WHEELS):
        return wheels_digest(folder / name.removesuffix(WHEELS))
    return sha256_file(folder / name)
