"""A tree that arrives in any order leaves sorted, and the same whatever the order was."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path

import pytest

from envbuild.errors import BuildError
from envbuild.image.os.tree import Tree
from envbuild.image.tar.layer import Entry

ENTRIES: list[tuple[Entry, bytes | None]] = [
    (Entry(path="a", kind="dir", mode=0o755), None),
    (Entry(path="a-b", kind="file", mode=0o644, size=1), b"1"),
    (Entry(path="a/b", kind="file", mode=0o600, size=3, uid=5, xattrs={"user.x": b"\xff"}), b"123"),
    (Entry(path="a/c", kind="symlink", mode=0o777, target="b"), None),
    (Entry(path="a/big", kind="file", mode=0o644, size=3 << 20), b"x" * (3 << 20)),
]


def pack(entries: list[tuple[Entry, bytes | None]], folder: Path) -> bytes:
    output = io.BytesIO()
    with Tree(folder, "test") as tree:
        for entry, data in entries:
            tree.add(entry, data)
        tree.write(output)
    return output.getvalue()


def test_order_of_arrival_does_not_matter(tmp_path: Path) -> None:
    """Sorted by the bytes of the path, contents next to their entries."""
    expected = pack(ENTRIES, tmp_path)
    with tarfile.open(fileobj=io.BytesIO(expected)) as archive:
        assert archive.getnames() == ["a", "a-b", "a/b", "a/big", "a/c"]
        content = archive.extractfile("a/b")
        assert content is not None
        assert content.read() == b"123"
    for seed in range(3):
        shuffled = ENTRIES.copy()
        random.Random(seed).shuffle(shuffled)
        assert pack(shuffled, tmp_path) == expected


def test_the_first_name_of_a_file_holds_its_content(tmp_path: Path) -> None:
    """Which of several hard links the engine called the file makes no difference, chains included."""
    file = {"kind": "file", "mode": 0o755, "size": 2}
    link = {"kind": "hardlink", "mode": 0o644}
    one = [
        (Entry(path="z", **file), b"hi"),
        (Entry(path="m", target="z", **link), None),
        (Entry(path="a", target="m", **link), None),
    ]
    two = [
        (Entry(path="a", **file), b"hi"),
        (Entry(path="z", target="a", **link), None),
        (Entry(path="m", target="a", **link), None),
    ]
    assert pack(one, tmp_path) == pack(two, tmp_path)
    with tarfile.open(fileobj=io.BytesIO(pack(one, tmp_path))) as archive:
        assert [(member.name, member.islnk(), member.linkname, member.mode) for member in archive] == [
            ("a", False, "", 0o755),
            ("m", True, "a", 0o755),
            ("z", True, "a", 0o755),
        ]


def test_the_last_entry_of_a_path_wins(tmp_path: Path) -> None:
    """A path given twice is there once."""
    first = (Entry(path="a", kind="file", mode=0o644, size=3), b"old")
    last = (Entry(path="a", kind="file", mode=0o644, size=2), b"on")
    assert pack([first, last], tmp_path) == pack([last], tmp_path)


@pytest.mark.parametrize("target", ["nowhere", "a", "d"])
def test_a_hard_link_must_name_a_file(tmp_path: Path, target: str) -> None:
    """A link to nothing, to itself or to a folder is an error."""
    folder = (Entry(path="d", kind="dir", mode=0o755), None)
    with pytest.raises(BuildError) as caught:
        pack([folder, (Entry(path="a", kind="hardlink", mode=0o644, target=target), None)], tmp_path)
    assert caught.value.message == f"test: 'a' is a hard link to '{target}', which is no file of this tree"


def test_short_content_is_an_error(tmp_path: Path) -> None:
    """A stream that ends early is noticed."""
    with pytest.raises(BuildError) as caught:
        pack([(Entry(path="a", kind="file", mode=0o644, size=3), b"1")], tmp_path)
    assert caught.value.message == "test: 'a': its content is cut short by 2 bytes"


def test_missing_parents_are_added_on_request(tmp_path: Path) -> None:
    """Folders nobody named are root's with mode 0755."""
    output = io.BytesIO()
    with Tree(tmp_path, "test") as tree:
        tree.add(Entry(path="a/b/c", kind="file", mode=0o644, size=0), b"")
        tree.add_parents()
        tree.write(output)
        assert "a/b" in tree
    output.seek(0)
    with tarfile.open(fileobj=output) as archive:
        assert [(member.name, member.mode) for member in archive][:2] == [("a", 0o755), ("a/b", 0o755)]


def test_nothing_stays_on_disk(tmp_path: Path) -> None:
    """The temporary file has no name, so a killed process leaves none."""
    with Tree(tmp_path, "test") as tree:
        tree.add(Entry(path="a", kind="file", mode=0o644, size=1), b"1")
        assert list(tmp_path.iterdir()) == []
