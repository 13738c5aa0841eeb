"""What a person needs to write a spec: a starter in the project, and the schema of specs for the editor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild.core.fs import atomic_write
from envbuild.errors import UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class StarterSpec:
    """A starter spec that was written.

    Attributes:
        path: its file.
        unpinned: data found in the project, which the spec does not pin yet.
        unknown: names that its code imports and whose packages are not known; comments in the spec.
        export: command that writes the pins of another tool's file into a requirements file; empty if none is needed.
    """

    path: Path
    unpinned: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    export: str = ""


def init(folder: Path, *, force: bool = False) -> StarterSpec:
    """Write ``spec.yaml`` into a project, guessed from what its files contain; runs none of them.

    Args:
        folder: the project.
        force: replace a spec that exists.

    Raises:
        UsageError: there is no such folder, or it has a spec.
    """
    from envbuild.spec.detect import detect_project
    from envbuild.spec.starter import starter_text

    target = folder / "spec.yaml"
    if not folder.is_dir():
        if not folder.exists():
            raise UsageError(f"{folder} does not exist", f"make it first: mkdir {folder}")
        raise UsageError(f"{folder} is not a folder", "name the folder of your project")
    if target.exists() and not force:
        raise UsageError(f"{target} exists already", "edit it, or replace it: envbuild init --force")
    found = detect_project(folder)
    atomic_write(target, starter_text(found).encode())
    return StarterSpec(path=target, unpinned=found.data, unknown=found.unknown, export=found.export)


def spec_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``spec.yaml``."""
    from envbuild.spec.model import json_schema

    return json_schema()
