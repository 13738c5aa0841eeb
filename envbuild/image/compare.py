"""Where two images differ: layer, path, field, both values.

Layers are read side by side, in the one order that all of them have, so that memory does not grow with their size.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from envbuild.core.foreign_json import parse_json
from envbuild.image.tar.members import read_members

_CHUNK = 1 << 20
_SHOWN = 24
"""Bytes of content that are shown from the first difference on."""
_NOTHING = "nothing"
_KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "symbolic link",
    tarfile.LNKTYPE: "hard link",
    tarfile.CHRTYPE: "character device",
    tarfile.BLKTYPE: "block device",
    tarfile.FIFOTYPE: "named pipe",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """An image to compare: its configuration, and files of its layers by diff-ID (hex) as far as they are available."""

    config: bytes
    layers: Mapping[str, Path]


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One difference.

    Attributes:
        where: the layer's title, or ``configuration``.
        path: absolute path in the image; of the configuration: the field's path.
        field: ``kind``, ``mode``, ``owner``, ``target``, ``size``, ``time``, ``attributes``, ``device``, ``content``.
    """

    where: str
    path: str
    field: str
    old: str
    new: str

    def __str__(self) -> str:
        """Write as one line, without the layer."""
        return f"{self.path}  {self.field}  {self.old} → {self.new}"


def image_differences(old: Parts, new: Parts) -> Iterator[Difference]:
    """Yield what differs, layer by layer from the bottom, then the configuration."""
    before, after = (parse_json(parts.config) for parts in (old, new))
    ids = [_diff_ids(config) for config in (before, after)]
    titles = zip_longest(_titles(before), _titles(after))
    for (first, second), (title, other) in zip(zip_longest(*ids), titles, strict=False):
        name = other or title or "a layer"
        if first is None or second is None:
            yield Difference(where=name, path="/", field="layer", old=_is(first), new=_is(second))
        elif first != second:
            yield from _layers(name, first, second, old.layers.get(first), new.layers.get(second))
    for config in (before, after):
        config.pop("rootfs", None)
    for path, first, second in _values(before, after, ""):
        yield Difference(where="configuration", path=path, field="value", old=first, new=second)


def layer_differences(old: Path, new: Path, where: str = "layer") -> Iterator[Difference]:
    """Yield what differs between two layers' tars, sorted by path."""
    found = False
    with tarfile.open(old, "r:") as before, tarfile.open(new, "r:") as after:
        for first, second in _paired(read_members(before), read_members(after)):
            for field, one, other in _member_differences(before, first, after, second):
                found = True
                path = (first or second or tarfile.TarInfo()).name
                yield Difference(where=where, path=f"/{path}", field=field, old=one, new=other)
    if not found and (place := _first_difference(old.open("rb"), new.open("rb"))):
        yield Difference(where=where, path="(the tar itself)", field="content", old=place[0], new=place[1])


def report(differences: Iterator[Difference], limit: int = 12) -> list[str]:
    """Return lines for people: each layer's name, then its first differences; states how many more there are."""
    lines: list[str] = []
    where = ""
    for item in islice(differences, limit):
        if item.where != where:
            where = item.where
            lines.append(f"  {where}")
        lines.append(f"    {item}")
    if more := sum(1 for _ in differences):
        lines.append(f"    … and {more} more")
    return lines


def _diff_ids(config: Mapping[str, Any]) -> list[str]:
    return [str(name).removeprefix("sha256:") for name in config["rootfs"]["diff_ids"]]


def _titles(config: Mapping[str, Any]) -> list[str]:
    return [str(entry.get("created_by", "")).removeprefix("envbuild: ") for entry in config.get("history", ())]


def _is(digest: str | None) -> str:
    return _NOTHING if digest is None else f"sha256:{digest[:12]}…"


def _layers(title: str, first: str, second: str, old: Path | None, new: Path | None) -> Iterator[Difference]:
    """Compare two layers that are known to differ."""
    if old is None or new is None:
        field = "layer (its other bytes are not available)"
        yield Difference(where=title, path="/", field=field, old=_is(first), new=_is(second))
        return
    yield from layer_differences(old, new, title)


def _paired(
    old: Iterator[tarfile.TarInfo], new: Iterator[tarfile.TarInfo]
) -> Iterator[tuple[tarfile.TarInfo | None, tarfile.TarInfo | None]]:
    """Yield members of the same path together; both come in order of the paths' bytes."""
    first, second = next(old, None), next(new, None)
    while first is not None or second is not None:
        keys = [None if one is None else one.name.encode("utf-8", "surrogateescape") for one in (first, second)]
        if second is None or (keys[0] is not None and keys[1] is not None and keys[0] < keys[1]):
            yield first, None
            first = next(old, None)
        elif first is None or keys[0] != keys[1]:
            yield None, second
            second = next(new, None)
        else:
            yield first, second
            first, second = next(old, None), next(new, None)


def _member_differences(
    before: tarfile.TarFile, first: tarfile.TarInfo | None, after: tarfile.TarFile, second: tarfile.TarInfo | None
) -> Iterator[tuple[str, str, str]]:
    """Yield field and both values of what differs."""
    if first is None or second is None:
        kinds = ["absent" if one is None else _KINDS.get(one.type, "unknown") for one in (first, second)]
        yield "kind", kinds[0], kinds[1]
        return
    fields = _fields(first), _fields(second)
    yield from ((name, fields[0][name], fields[1][name]) for name in fields[0] if fields[0][name] != fields[1][name])
    if first.isreg() and second.isreg():
        place = _first_difference(before.extractfile(first), after.extractfile(second))
        if place:
            yield "content", *place


def _fields(member: tarfile.TarInfo) -> dict[str, str]:
    attributes = {key: value for key, value in sorted(member.pax_headers.items()) if key.startswith("SCHILY.xattr.")}
    return {
        "kind": _KINDS.get(member.type, "unknown"),
        "mode": f"{member.mode & 0o7777:04o}",
        "owner": f"{member.uid}:{member.gid}",
        "target": member.linkname or _NOTHING,
        "size": str(member.size),
        "time": str(member.mtime),
        "attributes": repr(attributes) if attributes else _NOTHING,
        "device": f"{member.devmajor}:{member.devminor}",
    }


def _first_difference(old: Any, new: Any) -> tuple[str, str] | None:
    """Return how two streams continue from where they begin to differ, or None; closes them."""
    offset = 0
    with old, new:
        while True:
            first, second = _read(old), _read(new)
            if first != second:
                place = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
                at = min(len(first), len(second)) if place is None else place
                shown = [f"{part[at : at + _SHOWN]!r}" if part[at:] else "its end" for part in (first, second)]
                return f"at byte {offset + at:,} {shown[0]}", shown[1]
            if not first:
                return None
            offset += len(first)


def _read(stream: BinaryIO) -> bytes:
    """Read a whole chunk: what differs must not be where the reads end."""
    parts = []
    left = _CHUNK
    while left and (part := stream.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _values(old: Any, new: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield path and both values of what differs in two JSON documents."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _values(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list):
        for index, (first, second) in enumerate(zip_longest(old, new)):
            yield from _values(first, second, f"{path}[{index}]")
    elif old != new:
        yield path, json.dumps(old), json.dumps(new)
