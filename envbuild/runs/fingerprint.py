"""The numeric fingerprint next to the lock: ``pylock.NAME.fingerprint.json``.

A fingerprint states what a machine really computes (``envbuild/runtime/fingerprint``). The first run that the guard
accepts under ``hardware.fingerprint: true`` records it; every later start, on any machine that the lock accepts, must
give the same digests. So one set of digests per file, and no list of hosts. The file belongs to version control
like the lock.

It holds for what decides the numbers: packages, interpreter, variables, threads and the hardware tables (``basis``).
A lock that changed in one of these has no fingerprint yet; one that changed in its inputs or comments keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from envbuild.core.digest import sha256_bytes
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import atomic_write, folder_below, locked, read_foreign, read_regular
from envbuild.core.types import prepare_types
from envbuild.errors import LockError
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.lockfile.model import Lock
from envbuild.runs.verdict import FINGERPRINT

FORMAT = 1
EXPECTED = "expected-fingerprint.json"
"""In the run's folder: what the guard compares with."""
FOUND = FINGERPRINT
"""In the run's folder: what the guard computed."""
_LIMIT = 1 << 20
"""Bytes of that file."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One library's numbers: SHA-256 of the results' bytes, whose they are, and how long they took in seconds."""

    digest: str
    library: str = ""
    version: str = ""
    seconds: float = 0.0


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """The file next to the lock.

    Attributes:
        basis: digest of what decides the numbers (``basis``).
        recorded: when, and in which run.
        parts: by name, such as ``libm`` or ``torch.gpu0.convolution``.
    """

    format: int = FORMAT
    basis: str
    recorded: dict[str, str]
    parts: dict[str, Part]


def path_of(lock_path: Path) -> Path:
    """Return where a lock's fingerprint is: ``pylock.digits.toml`` has ``pylock.digits.fingerprint.json``."""
    return lock_path.with_name(lock_path.name.removesuffix(".toml") + ".fingerprint.json")


def basis(lock: Lock) -> str:
    """Return the SHA-256 of the parts of a lock that decide what is computed."""
    chosen = (
        [(package.name, package.sha256) for package in lock.os.packages],
        lock.os.image,
        lock.os.image_rootfs,
        lock.python,
        [(package.name, package.wheel.sha256) for package in lock.packages],
        lock.determinism.threads,
        lock.environment,
        msgspec.structs.replace(lock.hardware, host=""),
    )
    return sha256_bytes(msgspec.json.encode(chosen, order="deterministic"))


def load(lock_path: Path, lock: Lock) -> Fingerprint | None:
    """Read a lock's fingerprint; None if none was recorded for what this lock reports now.

    Raises:
        LockError: the file is there and is damaged.
    """
    path = path_of(lock_path)
    try:
        found = msgspec.json.decode(read_regular(path, _LIMIT), type=Fingerprint)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        hint = f"restore it from version control, or delete it: the next run records it anew: rm {path}"
        raise LockError(f"the fingerprint {path} cannot be read: {error}", hint) from None
    return found if found.format == FORMAT and found.basis == basis(lock) else None


def pass_to_container(lock_path: Path, lock: Lock, folder: Path) -> bool:
    """Put the recorded fingerprint into a run's folder for the guard; False if there is none or none is wanted.

    Args:
        lock_path, lock: the lock.
        folder: what is mounted at ``/run/envbuild``.

    Raises:
        LockError: the recorded fingerprint is damaged.
    """
    recorded = load(lock_path, lock) if lock.hardware.fingerprint else None
    if recorded is None:
        return False
    atomic_write(folder / EXPECTED, msgspec.json.encode(recorded))
    return True


def record_first(lock_path: Path, lock: Lock, found: Mapping[str, Any], run: str = "") -> tuple[str, ...]:
    """Record what a run computed, unless a fingerprint is recorded already: the first one wins.

    Args:
        lock_path, lock: the lock.
        found: content of ``fingerprint.json``, left by a run whose every check held (none overridden).
        run: its identity.

    Returns:
        Names of the parts whose digests differ from those of another run that was recorded meanwhile; empty if none.

    Raises:
        LockError: the recorded fingerprint is damaged.
    """
    try:
        parts = msgspec.convert(found["parts"], dict[str, Part])
    except (KeyError, TypeError, msgspec.ValidationError):
        return ()
    path = path_of(lock_path)
    import json
    from datetime import datetime, timezone

    with folder_below(path.parent, STATE_FOLDER, make=True) as folder, locked(folder / f"{path.name}.lock"):
        recorded = load(lock_path, lock)
        if recorded is None:
            now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
            fingerprint = Fingerprint(basis=basis(lock), recorded={"time": now, "run": run}, parts=parts)
            text = json.dumps(msgspec.to_builtins(fingerprint, order="deterministic"), indent=1)
            atomic_write(path, text.encode() + b"\n")
            return ()
    names = sorted({*parts, *recorded.parts})
    return tuple(name for name in names if _digest(parts, name) != _digest(recorded.parts, name))


def found_in(folder: Path) -> dict[str, Any] | None:
    """Read what the guard computed in a run; None if it computed nothing."""
    try:
        value = parse_json(read_foreign(folder / FOUND, _LIMIT) or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _digest(parts: Mapping[str, Part], name: str) -> str:
    return parts[name].digest if name in parts else ""


prepare_types(Fingerprint, dict[str, Part])
