"""Opening a lock together with the spec it was made from, and refusing one that the spec has moved away from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild import lock as locks
from envbuild.errors import LockError, SpecError
from envbuild.project import find_lock

if TYPE_CHECKING:
    from envbuild.spec import Spec


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A lock that may be used.

    Attributes:
        path: its file.
        lock: what it says.
        spec: the spec beside it, or None where only the lock is, as in a CI job.
    """

    path: Path
    lock: locks.Lock
    spec: Spec | None = None

    @property
    def folder(self) -> Path:
        """The folder that paths in the spec are relative to."""
        return self.path.parent.absolute()

    @property
    def mirror(self) -> str:
        """The spec's Debian mirror; empty if it names none."""
        return self.spec.os.mirror if self.spec else ""


def open_lock(path: Path | None, start: Path | None = None) -> Opened:
    """Load a lock: the named one, or the one found upward.

    Args:
        path: the lock's file, or None to search.
        start: where to search from; the working directory by default.

    Raises:
        LockError: there is none, it is invalid, or the spec beside it has changed since.
    """
    found = find_lock(start or Path.cwd()) if path is None else path
    lock = locks.load(found)
    return Opened(path=found, lock=lock, spec=_fresh_spec(found, lock))


def _fresh_spec(path: Path, lock: locks.Lock) -> Spec | None:
    """Return the spec beside a lock; raises ``LockError`` if the lock was made from another one."""
    from envbuild.cli.locking import LockOptions, resolution_inputs, stale_inputs
    from envbuild.spec import load_spec

    specs = [path.parent / name for name in lock.resolution if name.endswith((".yaml", ".yml"))]
    spec_path = next((place for place in specs if place.is_file()), None)
    if spec_path is None:
        return None
    try:
        spec = load_spec(spec_path)
        found = resolution_inputs(spec, spec_path, LockOptions())
    except SpecError as error:
        raise LockError(f"{path.name} cannot be compared with its spec\n{error.message}", error.hint) from None
    locked = {name: value for name, value in lock.resolution.items() if not name.startswith("--")}
    if stale := stale_inputs(locked, found):
        lines = "\n".join(f"  {line}" for line in stale)
        raise LockError(f"{path.name} is stale\n{lines}", f"lock again: envbuild lock {spec_path.name}")
    return spec
