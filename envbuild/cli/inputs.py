"""What commands say and do about declared input data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbuild.cli.console import Console, print_error
from envbuild.core.text import human_bytes, plural
from envbuild.errors import HostMismatchError
from envbuild.lockfile.model import Input, Lock

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


def refuse_changed_inputs(path: Path, lock: Lock, console: Console) -> Callable[[], tuple[str, ...]]:
    """Go on only if declared data is as locked; returns what to ask after the run: has anyone touched it meanwhile?

    Raises:
        HostMismatchError: declared data is not as locked; says what changed, came or went.
    """
    if not lock.inputs:
        return tuple
    from envbuild.inputs.compare import changes_since

    found = compared_inputs(path, lock, console)
    if found.differences:
        message = f"input data is not as {path.name} locked it — nothing was run\n{_indented(found)}"
        raise HostMismatchError(message, _ways_out(lock))
    return partial(changes_since, path.parent.absolute(), lock.inputs, found.seal)


def report_inputs(path: Path, lock: Lock, found: Comparison) -> None:
    """Print, beside the verdict on this host, the verdict on declared data."""
    if not found.differences:
        for entry in lock.inputs:
            print(f"  input    {entry.path}: as locked, {plural(entry.files, 'file')}, {human_bytes(entry.bytes)}")
        return
    print_error(f"input data is not as {path.name} locked it\n{_indented(found)}", _ways_out(lock))


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


def _indented(found: Comparison) -> str:
    return "\n".join(f"  {line}" for line in found.lines())


def _ways_out(lock: Lock) -> str:
    spec = next((name for name in lock.resolution if name.endswith((".yaml", ".yml"))), "spec.yaml")
    return f"restore the data, or accept it: envbuild lock {'' if spec == 'spec.yaml' else f'{spec} '}--update-inputs"
