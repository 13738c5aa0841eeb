"""Where two images differ is reported by layer, path, field and both values."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.digest import sha256_bytes, sha256_file
from envbuild.image.compare import Parts, image_differences, layer_differences, report
from envbuild.image.tar.layer import Entry, LayerWriter

LONG = b"a" * (1 << 20)
FOLDER = Entry(path="etc", kind="dir", mode=0o755)
FILE = Entry(path="etc/motd", kind="file", mode=0o644, size=5)
LINK = Entry(path="etc/mtab", kind="symlink", mode=0o777, target="/proc/mounts")


def layer(path: Path, *entries: tuple[Entry, bytes]) -> Path:
    """Write a layer."""
    with path.open("wb") as stream, LayerWriter(stream) as writer:
        for entry, data in entries:
            writer.add(entry, io.BytesIO(data) if entry.kind == "file" else None)
    return path


@pytest.mark.parametrize(
    ("entry", "data", "reported"),
    [
        (replace(FILE, mode=0o600), b"hello", ["/etc/motd  mode  0644 → 0600"]),
        (replace(FILE, uid=7), b"hello", ["/etc/motd  owner  0:0 → 7:0"]),
        (FILE, b"hallo", ["/etc/motd  content  at byte 1 b'ello' → b'allo'"]),
        (
            replace(FILE, size=7),
            b"hello, ",
            ["/etc/motd  size  5 → 7", "/etc/motd  content  at byte 5 its end → b', '"],
        ),
        (
            replace(FILE, xattrs={"user.x": b"1"}),
            b"hello",
            ["/etc/motd  attributes  nothing → {'SCHILY.xattr.user.x': '1'}"],
        ),
        (
            replace(FILE, path="etc/motd.new"),
            b"hello",
            ["/etc/motd  kind  file → absent", "/etc/motd.new  kind  absent → file"],
        ),
        (
            Entry(path="etc/motd", kind="symlink", mode=0o777, target="x"),
            b"",
            [
                "/etc/motd  kind  file → symbolic link",
                "/etc/motd  mode  0644 → 0777",
                "/etc/motd  target  nothing → x",
                "/etc/motd  size  5 → 0",
            ],
        ),
    ],
)
def test_a_layers_difference_is_reported_by_path_and_field(
    tmp_path: Path, entry: Entry, data: bytes, reported: list[str]
) -> None:
    """Each field that differs is a line with both values."""
    old = layer(tmp_path / "old", (FOLDER, b""), (FILE, b"hello"), (LINK, b""))
    new = layer(tmp_path / "new", (FOLDER, b""), (entry, data), (LINK, b""))
    assert [str(item) for item in layer_differences(old, new)] == reported
    assert list(layer_differences(old, old)) == []


def test_contents_are_compared_beyond_the_first_chunk(tmp_path: Path) -> None:
    """The place of the first difference counts from the file's start."""
    one, other = (replace(FILE, size=len(LONG) + 1) for _ in range(2))
    old = layer(tmp_path / "old", (FOLDER, b""), (one, LONG + b"x"))
    new = layer(tmp_path / "new", (FOLDER, b""), (other, LONG + b"y"))
    assert [item.old for item in layer_differences(old, new)] == ["at byte 1,048,576 b'x'"]


def test_tars_that_hold_the_same_and_differ_all_the_same(tmp_path: Path) -> None:
    """Bytes that no member holds, such as padding, are reported as the tar's own."""
    old = layer(tmp_path / "old", (FOLDER, b""))
    (tmp_path / "new").write_bytes(old.read_bytes() + bytes(512))
    (found,) = layer_differences(old, tmp_path / "new")
    assert (found.path, found.field, found.old) == ("(the tar itself)", "content", "at byte 1,536 its end")


def parts(*layers: Path, titles: tuple[str, ...] = ("os", "wheels"), kept: bool = True, **config: Any) -> Parts:
    """An image over layers."""
    ids = [sha256_file(path) for path in layers]
    document = {
        "config": config,
        "history": [{"created_by": f"envbuild: {title}"} for title in titles[: len(layers)]],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{name}" for name in ids]},
    }
    return Parts(config=json.dumps(document).encode(), layers=dict(zip(ids, layers, strict=True)) if kept else {})


def test_images_are_reported_by_layer_and_configuration(tmp_path: Path) -> None:
    """Equal layers are passed over; fields of the configuration come last; many differences are counted."""
    same = layer(tmp_path / "same", (FOLDER, b""))
    old = layer(tmp_path / "old", (FOLDER, b""), (FILE, b"hello"))
    new = layer(tmp_path / "new", (FOLDER, b""), (replace(FILE, mode=0o755, gid=9), b"jello"))
    images = parts(same, old, Env=["A=1", "B=2"]), parts(same, new, Env=["A=1", "B=3"])
    assert report(image_differences(*images)) == [
        "  wheels",
        "    /etc/motd  mode  0644 → 0755",
        "    /etc/motd  owner  0:0 → 0:9",
        "    /etc/motd  content  at byte 0 b'hello' → b'jello'",
        "  configuration",
        """    config.Env[1]  value  "B=2" → "B=3\"""",
    ]
    assert report(image_differences(*images), limit=1)[1:] == [
        "    /etc/motd  mode  0644 → 0755",
        "    … and 3 more",
    ]
    assert report(image_differences(images[0], images[0])) == []


def test_layers_without_bytes_and_layers_too_many(tmp_path: Path) -> None:
    """What cannot be read is reported by digest."""
    one, two = layer(tmp_path / "1", (FOLDER, b"")), layer(tmp_path / "2", (FOLDER, b""), (LINK, b""))
    digests = [sha256_bytes(path.read_bytes())[:12] for path in (one, two)]
    assert report(image_differences(parts(one, kept=False), parts(two, one))) == [
        "  os",
        f"    /  layer (its other bytes are not available)  sha256:{digests[0]}… → sha256:{digests[1]}…",
        "  wheels",
        f"    /  layer  nothing → sha256:{digests[0]}…",
        "  configuration",
        """    history[1]  value  null → {"created_by": "envbuild: wheels"}""",
    ]
