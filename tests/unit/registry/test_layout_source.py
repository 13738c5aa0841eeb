"""Images in files: what is read of an OCI layout, and that nothing in it is believed."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.core.digest import sha256_bytes
from envbuild.errors import EnvbuildError, IntegrityError, UsageError
from envbuild.registry.image import read_image
from envbuild.registry.layout_source import LayoutReference, LayoutSource, parse_layout

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def layout_of(folder: Path, *architectures: str) -> Path:
    """Write a layout with an image for each architecture."""
    (folder / "blobs/sha256").mkdir(parents=True)

    def put(document: Any) -> dict[str, Any]:
        data = json.dumps(document).encode()
        (folder / "blobs/sha256" / sha256_bytes(data)).write_bytes(data)
        return {"digest": f"sha256:{sha256_bytes(data)}", "size": len(data)}

    entries = []
    for each in architectures:
        config = put({"architecture": each, "os": "linux", "rootfs": {"diff_ids": []}})
        manifest = put({"mediaType": MANIFEST, "config": config, "layers": []})
        entries.append({**manifest, "mediaType": MANIFEST, "platform": {"os": "linux", "architecture": each}})
    (folder / "index.json").write_text(json.dumps({"manifests": entries}))
    return folder


def packed(folder: Path, *, prefix: str = "") -> Path:
    """Pack a layout as an archive."""
    target = folder.with_suffix(".tar")
    with tarfile.open(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, f"{prefix}{path.relative_to(folder)}", recursive=False)
    return target


@pytest.mark.parametrize("form", ["folder", "archive", "archive with ./"])
def test_the_machines_image_is_found(tmp_path: Path, form: str) -> None:
    """The one image of a layout, whatever it is for; of several the machine's, with the digest of the index."""
    for count, architectures in enumerate((("amd64",), ("amd64", "arm64"))):
        path = layout_of(tmp_path / f"layout{count}", *architectures)
        if form != "folder":
            path = packed(path, prefix="./" if "./" in form else "")
        with LayoutSource(LayoutReference(path=path)) as source:
            found = read_image(source, "", "amd64")
            assert (found.platform, bool(found.index)) == ("linux/amd64", count > 0)
            by_digest = read_image(source, f"sha256:{found.manifest.digest}", "amd64")
            assert by_digest.config_digest == found.config_digest


def test_references(tmp_path: Path) -> None:
    """``oci://`` is a registry's; a path must be there, and a digest one."""
    assert parse_layout("registry.example/x:1") is None
    assert parse_layout("oci://registry.example/x") is None
    found = parse_layout(f"oci:{tmp_path}@sha256:{'a' * 64}")
    assert found is not None
    assert (found.path, found.digest, str(found)) == (tmp_path, "a" * 64, f"oci:{tmp_path}@sha256:{'a' * 64}")
    for wrong in ("oci:", f"oci:{tmp_path}/nothing", f"oci:{tmp_path}@sha256:{'A' * 64}", f"oci:{tmp_path}@sha256:a\n"):
        with pytest.raises(UsageError):
            parse_layout(wrong)


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    """Neither a blob nor the folders above it may be a link; a pipe is not waited for."""
    layout = layout_of(tmp_path / "layout", "amd64")
    blob = next((layout / "blobs/sha256").iterdir())
    name = blob.name
    for make in (lambda: blob.symlink_to("/etc/hostname"), lambda: os.mkfifo(blob)):
        blob.unlink()
        make()
        with LayoutSource(LayoutReference(path=layout)) as source, pytest.raises(IntegrityError):
            source.read_blob(name, 1 << 20)
    blob.unlink()
    (layout / "blobs").rename(tmp_path / "elsewhere")
    (layout / "blobs").symlink_to(tmp_path / "elsewhere")
    with LayoutSource(LayoutReference(path=layout)) as source, pytest.raises(IntegrityError):
        source.read_blob(name, 1 << 20)


@given(st.binary(max_size=3000), st.integers(0, 9000))
def test_damaged_archives_are_refused(data: bytes, at: int) -> None:
    """Whatever is in an archive: the image, or our own error; no other exception, and no endless reading."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        path = packed(layout_of(Path(name) / "layout", "amd64", "arm64"))
        whole = path.read_bytes()
        path.write_bytes(whole[:at] + data + whole[at + len(data) :])
        try:
            with LayoutSource(LayoutReference(path=path)) as source:
                read_image(source, "", "amd64")
        except EnvbuildError:
            pass


def test_a_size_that_nothing_has(tmp_path: Path) -> None:
    """A header may claim any size: nothing is allocated for it."""
    member = tarfile.TarInfo("index.json")
    member.size = 1 << 60
    path = tmp_path / "x.tar"
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + io.BytesIO(b"{}").read().ljust(512, b"\0"))
    with pytest.raises(IntegrityError), LayoutSource(LayoutReference(path=path)) as source:
        source.manifest("")
