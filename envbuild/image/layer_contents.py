"""What is noted next to the layers of wheels: their files, whose they are, and where their ELF objects are."""

from __future__ import annotations

import csv
import io
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from envbuild.core.blob import FileBlob
from envbuild.core.digest import canonical_json
from envbuild.core.foreign_json import parse_json
from envbuild.image.plan.layer_order import LayerSpec
from envbuild.image.python.environment import Contents, WheelFile, opened
from envbuild.image.python.wheel import Wheel

_NAME = "contents.json"
_ELF = b"\x7fELF"

Objects = Mapping[str, Mapping[str, tuple[Path, int, int]]]
"""By SHA-256 of a wheel and member: the file that holds an ELF object unpacked, with offset and size there."""


def note(folder: Path, contents: Contents) -> None:
    """Write what a layer holds into its folder."""
    table = {
        "changed": contents.changed,
        "files": contents.files,
        "objects": contents.objects,
        "replaced": contents.replaced,
    }
    (folder / _NAME).write_bytes(canonical_json(table))


def derived_contents(tar: Path, wheels: Sequence[WheelFile], python: str) -> Contents:
    """Return what ``pack_wheels`` noted when it made a layer, from the layer and its wheels themselves.

    A layer that was made elsewhere is known by its digest; what somebody noted of it is not.

    Args:
        tar: the layer.
        wheels: lowest precedence first.
        python: feature release of the target.

    Raises:
        BuildError, IntegrityError: as ``opened`` does.
    """
    contents = Contents()
    owners: dict[str, tuple[str, str]] = {}
    with opened(wheels, python) as archives, tarfile.open(tar, "r:") as layer:
        for archive in archives:
            changed = _changed(layer, archive.wheel)
            if changed:
                contents.changed[archive.wheel.name] = sorted(changed)
            contents.objects[archive.wheel.name] = {}
            for file in archive.wheel.files:
                member = file.member.filename if file.member else ""
                contents.put(file.path, changed.get(member, file.digest), archive.wheel.name)
                owners[file.path] = archive.wheel.name, member
    with tarfile.open(tar, "r:") as layer, tar.open("rb") as stream:
        for entry in layer:
            owner, member = owners.get(entry.name, ("", ""))
            if entry.isreg() and member:
                stream.seek(entry.offset_data)
                if stream.read(len(_ELF)) == _ELF:
                    contents.objects[owner][member] = (entry.offset_data, entry.size, entry.name)
    return contents


def _changed(layer: tarfile.TarFile, wheel: Wheel) -> dict[str, str]:
    """Return the digests of members for which the layer's RECORD of a wheel has others than the wheel's RECORD."""
    record = next(file.path for file in wheel.files if not file.digest)
    text = cast(BinaryIO, layer.extractfile(record)).read().decode("utf-8", "surrogateescape")
    found = {row[0]: row[1] for row in csv.reader(io.StringIO(text, newline=""))}
    rows = ((file.member, found.get(wheel.in_record(file.path), ""), file.digest) for file in wheel.files)
    return {member.filename: new for member, new, old in rows if member and new not in {"", old}}


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
        whole.add(Contents(files=files, replaced=replaced, changed=table["changed"]))
    whole.check()
    return whole


def objects_of(layers: Iterable[tuple[LayerSpec, FileBlob]], unpacked: Callable[[FileBlob], Path | None]) -> Objects:
    """Return where the ELF objects of the wheels of several layers are.

    Args:
        unpacked: returns the folder with a layer's files; None if it is a tar.
    """
    found: dict[str, dict[str, tuple[Path, int, int]]] = {}
    for spec, blob in layers:
        table, folder = _read(blob).get("objects", {}), unpacked(blob)
        for wheel in spec.wheels:
            if wheel.name in table:
                found[wheel.sha256] = {
                    member: (blob.path, offset, size) if folder is None else (folder / path, 0, size)
                    for member, (offset, size, path) in table[wheel.name].items()
                }
    return found


def _read(blob: FileBlob) -> dict[str, Any]:
    table: dict[str, Any] = parse_json(blob.path.with_name(_NAME).read_bytes())
    return table
