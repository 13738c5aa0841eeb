"""A blob: bytes known by their SHA-256, as manifests of the OCI image specification describe them (descriptor.md)."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from envbuild.core.digest import sha256_bytes

OCTETS = "application/octet-stream"


class Blob(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Bytes known by their digest, here or elsewhere; equal wherever they are.

    Attributes:
        digest: SHA-256, hexadecimal.
        size: bytes.
        media_type: what they are.
        annotations: what a manifest adds.
        artifact_type: of a manifest that is listed in an index.
        path: the file that holds them, if it is here; ``data``: the bytes themselves, if they are few.
    """

    digest: str
    size: int
    media_type: str = OCTETS
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    artifact_type: str = ""
    path: Path | None = None
    data: bytes = b""

    def __eq__(self, other: object) -> bool:
        """Whether everything but the place is equal."""
        if type(other) is not type(self):
            return NotImplemented
        names = [name for name in self.__struct_fields__ if name not in ("path", "data")]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]  # annotations are a mapping

    def open(self) -> BinaryIO:
        """Open the bytes for reading; raises ``OSError``."""
        return io.BytesIO(self.data) if self.path is None else self.path.open("rb", buffering=0)


class FileBlob(Blob, frozen=True, kw_only=True, eq=False):
    """A blob whose bytes are in a file here: ``path``."""

    path: Path


def blob_of(data: bytes, media_type: str = OCTETS, annotations: Mapping[str, str] | None = None) -> Blob:
    """Return a blob of these bytes."""
    return Blob(
        digest=sha256_bytes(data), size=len(data), media_type=media_type, annotations=annotations or {}, data=data
    )
