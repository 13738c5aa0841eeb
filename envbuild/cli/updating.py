"""``lock --update-inputs``: accept input data as it is now, and move nothing else; no index is asked."""

from __future__ import annotations

from pathlib import Path

import msgspec

from envbuild.cli.console import Console
from envbuild.cli.inputs import moved_inputs
from envbuild.core.fs import atomic_write
from envbuild.core.text import human_bytes, plural
from envbuild.errors import LockError
from envbuild.lockfile import model as locks
from envbuild.operations.lock_files import dockerfile_of
from envbuild.operations.lock_inputs import LockOptions, resolution_inputs, stale_inputs
from envbuild.spec.model import Spec, load_spec


def update_inputs(path: Path, console: Console) -> None:
    """Digest inputs again and write them into the lock; says what changed.

    Args:
        path: the spec. Its ``inputs`` may name other paths than before; nothing else in it may have changed.

    Raises:
        LockError: there is no lock, or it is stale in something else than inputs.
        SpecError: the spec, or an input.
    """
    from envbuild.determinism import policy
    from envbuild.image.dockerfile import render
    from envbuild.inputs.digest import digest_inputs

    spec = load_spec(path, check_env=policy.forbidden)
    target = path.parent / f"pylock.{spec.name}.toml"
    old = locks.load(target)
    _refuse_other_changes(spec, path, old)
    found = digest_inputs(path.parent, spec.inputs, source=path.name, progress=console)
    resolution = old.resolution | resolution_inputs(spec, path, LockOptions())
    lock = msgspec.structs.replace(old, resolution=resolution, inputs=found)
    atomic_write(dockerfile_of(path, target), render(lock).dockerfile)
    atomic_write(target, locks.dumps(lock))
    moved = moved_inputs(path.parent, old.inputs, lock.inputs)
    for entry in lock.inputs:
        console.line("input", f"{entry.path:<18}", plural(entry.files, "file"), human_bytes(entry.bytes))
    for line in moved:
        console.line("moved", line)
    console.line("wrote" if lock != old else "fresh", target.name, elapsed=True)
    console.result({"lock": str(target), "sha256": locks.lock_digest(lock), "moved": moved})


def _refuse_other_changes(spec: Spec, path: Path, old: locks.Lock) -> None:
    """Raise ``LockError`` unless the lock is what the spec asks for but for its inputs."""
    as_before = msgspec.structs.replace(spec, inputs=tuple(entry.path for entry in old.inputs))
    locked = {name: value for name, value in old.resolution.items() if not name.startswith("--")}
    if stale := stale_inputs(locked, resolution_inputs(as_before, path, LockOptions())):
        lines = "\n".join(f"  {line}" for line in stale)
        raise LockError(
            f"{old.file_name} is stale in more than its inputs\n{lines}", f"lock again: envbuild lock {path}"
        )
