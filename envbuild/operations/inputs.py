"""Declared input data and a lock: whether it is as locked, and how it differs between two locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.errors import HostMismatchError
from envbuild.lockfile.model import Input, Lock

if TYPE_CHECKING:
    from envbuild.inputs.compare import Comparison
    from envbuild.operations.events import Events


def compare_inputs(path: Path, lock: Lock, events: Events) -> Comparison:
    """Compare declared data with a lock.

    Args:
        path: the lock's file.
        lock: its content.
        events: receives progress.
    """
    from envbuild.inputs import compare

    return compare.compare_inputs(path.parent.absolute(), lock.inputs, progress=events)


def require_locked_inputs(path: Path, lock: Lock, events: Events) -> Callable[[], tuple[str, ...]]:
    """Return a function to call after the run: it returns how declared data has changed since, one line each.

    Raises:
        HostMismatchError: declared data is not as locked; the message names what was changed, added or removed.
    """
    if not lock.inputs:
        return tuple
    from envbuild.inputs.compare import changes_since

    found = compare_inputs(path, lock, events)
    if found.differences:
        message = f"input data is not as {path.name} locked it — nothing was run\n{indented(found)}"
        raise HostMismatchError(message, accept_hint(lock))
    return partial(changes_since, path.parent.absolute(), lock.inputs, found.seal)


def input_changes(folder: Path, old: Sequence[Input], new: Sequence[Input]) -> tuple[str, ...]:
    """Return how declared data differs between two locks of the project in ``folder``, one line each."""
    from envbuild.inputs.compare import compare_locked

    before, after = {entry.path: entry for entry in old}, {entry.path: entry for entry in new}
    lines = [f"{path}: no input any more" for path in before if path not in after]
    for path, entry in after.items():
        if path not in before:
            lines.append(f"{path}: a new input")
        elif found := compare_locked(folder, before[path], entry):
            lines += [found.message, *(f"  {line}" for line in found.details)]
    return tuple(lines)


def indented(found: Comparison) -> str:
    """Return the differences of a comparison as the indented lines of an error message."""
    return "\n".join(f"  {line}" for line in found.lines())


def accept_hint(lock: Lock) -> str:
    """Return what to do about data that is not as locked."""
    spec = next((name for name in lock.resolution if name.endswith((".yaml", ".yml"))), "spec.yaml")
    return f"restore the data, or accept it: envbuild lock {'' if spec == 'spec.yaml' else f'{spec} '}--update-inputs"
