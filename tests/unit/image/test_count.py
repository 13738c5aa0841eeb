"""Files of a layer are counted from its headers alone."""

from __future__ import annotations

import io
from pathlib import Path

from envbuild.image.oci.count import count_files
from envbuild.image.tar.layer import Entry, LayerWriter, header


def test_everything_but_folders_counts(tmp_path: Path) -> None:
    """Files of any size, links and names beyond ustar; folders do not count."""
    path = tmp_path / "layer.tar"
    with path.open("wb") as stream, LayerWriter(stream) as writer:
        writer.add(Entry(path="a", kind="dir", mode=0o755))
        for size in (0, 1, 511, 512, 513, 3 << 20):
            name = f"a/{size:08}-{'é' * 120}"
            writer.add(Entry(path=name, kind="file", mode=0o644, size=size), io.BytesIO(bytes(size)))
        writer.add(Entry(path="b", kind="symlink", mode=0o777, target="a"))
    assert count_files(path) == 7


def test_sizes_beyond_ustar(tmp_path: Path) -> None:
    """A file of more than 8 GiB, whose size is in a PAX record, is hopped over."""
    path = tmp_path / "layer.tar"
    size = 9 << 30
    head = header(Entry(path="huge", kind="file", mode=0o644, size=size))
    with path.open("wb") as stream:  # a hole: nothing is written
        stream.write(head)
        stream.seek(size, io.SEEK_CUR)
        stream.write(header(Entry(path="small", kind="file", mode=0o644)) + bytes(1024))
    assert count_files(path) == 2
