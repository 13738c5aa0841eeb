"""What is noted next to the layers of wheels: their files, whose they are, and where their ELF objects are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envbuild.core.blob import FileBlob
from envbuild.core.digest import canonical_json
from envbuild.core.foreign_json import parse_json
from envbuild.image.plan.layer_order import LayerSpec
from envbuild.image.python.environment import Contents

_NAME = "contents.json"

Objects = Mapping[str, tuple[Path, Mapping[str, tuple[int, int]]]]
"""By SHA-256 of a wheel: the tar that holds it unpacked, and offset and size there of each of its ELF objects."""


def note(folder: Path, contents: Contents) -> None:
    """Write what a layer holds into its folder."""
    table = {"files": contents.files, "objects": contents.objects, "replaced": contents.replaced}
    (folder / _NAME).write_bytes(canonical_json(table))


def contents_of(layers: Iterable[tuple[LayerSpec, FileBlob]]) -> Contents:
    """Return what the wheels of several layers, bottom first, install together.

    Raises:
        BuildError: one wheel's file is another one's folder.
    """
    whole = Contents()
    for _, blob in layers:
        table = _read(blob)
        files = {path: (digest, name) for path, (digest, name) in table["files"].items()}
        replaced = {path: (loser, winner) for path, (loser, winner) in table["replaced"].items()}
        whole.add(Contents(files=files, replaced=replaced))
    whole.check()
    return whole


def objects_of(layers: Iterable[tuple[LayerSpec, FileBlob]]) -> Objects:
    """Return where the ELF objects of the wheels of several layers are."""
    found = {}
    for spec, blob in layers:
        table = _read(blob).get("objects", {})
        found.update({wheel.sha256: (blob.path, table[wheel.name]) for wheel in spec.wheels if wheel.name in table})
    return found


def _read(blob: FileBlob) -> dict[str, Any]:
    table: dict[str, Any] = parse_json(blob.path.with_name(_NAME).read_bytes())
    return table
