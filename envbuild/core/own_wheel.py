"""The wheel of the envbuild that is running: what a pipeline installs, so that it is the one that wrote the pipeline.

A wheel is made from the installed files, so it is at hand without any index, and equal files give equal bytes: members
sorted, one date, not compressed (version control compresses). Format: the binary distribution format (PyPA
specifications), whose RECORD has a digest of every member.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from envbuild.core.package_data import package_dir

_DATE = (1980, 1, 1, 0, 0, 0)


def own_wheel() -> tuple[str, bytes]:
    """Return the file name and the bytes of this envbuild's wheel."""
    found = distribution("envbuild")
    stem = f"envbuild-{found.version}"
    members = [*_package(), *_metadata(found, f"{stem}.dist-info")]
    rows = [f"{name},sha256={_base64(hashlib.sha256(data).digest())},{len(data)}" for name, data in members]
    record = f"{stem}.dist-info/RECORD"
    members.append((record, "\n".join([*rows, f"{record},,", ""]).encode()))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system, info.external_attr = 3, 0o100644 << 16
            archive.writestr(info, data)
    return f"{stem}-py3-none-any.whl", stream.getvalue()


def _package() -> Iterator[tuple[str, bytes]]:
    """Give the package's files by name, without bytecode; links, as a checkout has one, are followed."""
    root = package_dir()
    for name in sorted(_files(root, "envbuild")):
        yield name, (root.parent / name).read_bytes()


def _files(folder: Path, name: str) -> Iterator[str]:
    for path in folder.iterdir():
        if path.name == "__pycache__":
            continue
        if path.is_dir():
            yield from _files(path, f"{name}/{path.name}")
        else:
            yield f"{name}/{path.name}"


def _metadata(found: Distribution, folder: str) -> Iterator[tuple[str, bytes]]:
    """Give the metadata of an installed distribution: all that a wheel has except its RECORD."""
    for name in ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE"):
        text = found.read_text(name)
        assert text is not None, name  # noqa: S101 - every installation has them
        yield f"{folder}/{name}", text.encode()


def _base64(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
