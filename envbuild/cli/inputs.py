"""What commands say and do about declared input data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbuild.cli.console import Console
from envbuild.errors import HostMismatchError
from envbuild.lock import Input, Lock

if TYPE_CHECKING:
    from envbuild.inputs.compare import Comparison


def compared_inputs(path: Path, lock: Lock, console: Console) -> Comparison:
    """Compare declared data with a lock.

    Args:
        path: the lock's file.
        lock: what it says.
        console: shows progress.
    """
    from envbuild.inputs.compare import compare_inputs

    return compare_inputs(path.parent.absolute(), lock.inputs, progress=console)


def refuse_changed_inputs(path: Path, lock: Lock, console: Console) -> str:
    """Return the seal of inputs that are as locked, to be asked after the run whether they still are.

    Raises:
        HostMismatchError: declared data is not as locked; says what changed, came or went.
    """
    if not lock.inputs:
        return ""
    found = compared_inputs(path, lock, console)
    if found.differences:
        lines = "\n".join(f"  {line}" for line in found.lines())
        raise HostMismatchError(
            f"input data is not as {path.name} locked it — nothing was run\n{lines}",
            f"restore the data, or accept it: {accept(path, lock)}",
        )
    return found.seal


def accept(path: Path, lock: Lock) -> str:
    """Return the command that accepts data as it is."""
    spec = next((name for name in lock.resolution if name.endswith((".yaml", ".yml"))), "spec.yaml")
    return f"envbuild lock {'' if spec == 'spec.yaml' else f'{spec} '}--update-inputs"


def moved_inputs(folder: Path, old: Sequence[Input], new: Sequence[Input]) -> list[str]:
    """Say how declared data differs between two locks of one project, one line each."""
    from envbuild.inputs.compare import compare_locked

    before, after = {entry.path: entry for entry in old}, {entry.path: entry for entry in new}
    lines = [f"{path}: no input any more" for path in before if path not in after]
    for path, entry in after.items():
        if path not in before:
            lines.append(f"{path}: a new input")
        elif found := compare_locked(folder, before[path], entry):
            lines += [found.message, *(f"  {line}" for line in found.details)]
    return lines


def as_json(found: Comparison) -> list[dict[str, Any]]:
    """Return differences as JSON values."""
    from dataclasses import asdict

    import msgspec

    return [
        {
            "path": one.path,
            "message": one.message,
            "locked": msgspec.to_builtins(one.locked),
            "found": msgspec.to_builtins(one.found),
            "changes": asdict(one.tree) if one.tree is not None else None,
        }
        for one in found.differences
    ]
