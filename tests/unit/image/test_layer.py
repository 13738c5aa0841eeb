"""The tar writer: every reader sees what was put in, and nothing but the entries decides the bytes."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbuild.errors import BuildError
from envbuild.image.tar.layer import Entry, Layer, LayerWriter, header
from envbuild.lockfile import layout

SAMPLE = (
    (Entry(path="a", kind="dir", mode=0o1777, uid=7, gid=8), b""),
    (Entry(path="a/b", kind="file", mode=0o4755, size=5, xattrs={"security.capability": b"\x01\n=\x00"}), b"hello"),
    (Entry(path="a/c", kind="hardlink", mode=0o4755, target="a/b"), b""),
    (Entry(path="a-b", kind="symlink", mode=0o777, target="../a"), b""),
    (Entry(path="é", kind="file", mode=0o600, uid=3_000_000, size=0), b""),
    (Entry(path="n", kind="char", mode=0o666, major=1, minor=3), b""),
    (Entry(path="p", kind="fifo", mode=0o600), b""),
)


def pack(*members: tuple[Entry, bytes]) -> tuple[Layer, bytes]:
    """Write members, sorted, and return the layer with its bytes."""
    output = io.BytesIO()
    with LayerWriter(output) as writer:
        for entry, data in sorted(members, key=lambda member: os.fsencode(member[0].path)):
            writer.add(entry, data or None)
    return writer.layer(), output.getvalue()


def add_all(output: Any, members: list[Entry], data: bytes | None = None) -> None:
    """Write members in the given order, all with the same content."""
    with LayerWriter(output) as writer:
        for entry in members:
            writer.add(entry, data)


def unpack(data: bytes) -> dict[str, tarfile.TarInfo]:
    """Read a tar with the standard library."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar}


def test_bytes_are_pinned() -> None:
    """The format never changes by accident: every digest of every image depends on it."""
    layer, data = pack(*SAMPLE)
    assert layer == Layer(diff_id=hashlib.sha256(data).hexdigest(), size=len(data))
    assert layer.diff_id == "55424cce8de561a2f86cfb313bc67b40546926972c80cf1ce3584f2211c03531"


def test_readers_see_what_was_written() -> None:
    """All fields of all kinds survive."""
    found = unpack(pack(*SAMPLE)[1])
    assert found["a"].isdir()
    assert (found["a"].mode, found["a"].uid, found["a"].gid) == (0o1777, 7, 8)
    assert found["a/b"].mode == 0o4755
    assert found["a/b"].pax_headers["SCHILY.xattr.security.capability"] == "\x01\n=\x00"
    assert found["a/c"].islnk()
    assert found["a/c"].linkname == "a/b"
    assert found["a-b"].linkname == "../a"
    assert found["é"].uid == 3_000_000
    assert (found["n"].ischr(), found["n"].devmajor, found["n"].devminor) == (True, 1, 3)
    assert found["p"].isfifo()
    assert {member.mtime for member in found.values()} == {layout.EPOCH}
    assert {(member.uname, member.gname) for member in found.values()} == {("", "")}


@pytest.mark.parametrize("length", [99, 100, 101, 154, 155, 156, 200, 255, 256, 300, 5000])
@pytest.mark.parametrize("slash", [0, 1, 50, 99, 100, 101, 154, 155, 156])
def test_long_names(length: int, slash: int) -> None:
    """Names of every length come back, whether they fit ustar's two fields or need a PAX header."""
    name = "x" * length if not 0 < slash < length - 1 else "d" * slash + "/" + "x" * (length - slash - 1)
    folder = name.rpartition("/")[0]
    members = [(Entry(path=name, kind="file", mode=0o644, size=1), b"1")]
    if folder:
        members.append((Entry(path=folder, kind="dir", mode=0o755), b""))
    members.append((Entry(path="y", kind="symlink", mode=0o777, target=name), b""))
    members.append((Entry(path="z", kind="hardlink", mode=0o644, target=name), b""))
    found = unpack(pack(*members)[1])
    assert set(found) == {entry.path for entry, _ in members}
    assert found["y"].linkname == found["z"].linkname == name


def test_pax_only_when_needed() -> None:
    """A plain entry takes one block; an extended header has a constant name, without a process id."""
    assert len(header(Entry(path="p" * 155 + "/" + "n" * 100, kind="file", mode=0o644))) == 512
    extended = header(Entry(path="é", kind="file", mode=0o644))
    assert len(extended) == 3 * 512
    assert extended.startswith(b"././@PaxHeader\0")


def test_names_that_are_not_utf8() -> None:
    """Bytes that are no UTF-8 come back as they are, marked as PAX wants it."""
    name = os.fsdecode(b"caf\xe9")
    assert name in unpack(pack((Entry(path=name, kind="file", mode=0o644), b""))[1])


def test_huge_sizes() -> None:
    """A file beyond ustar's 8 GiB gets its size in a PAX record."""
    size = 8 << 30
    blocks = header(Entry(path="a", kind="file", mode=0o644, size=size))
    assert b"19 size=8589934592\n" in blocks
    assert tarfile.TarInfo.frombuf(blocks[-512:], "utf-8", "strict").size == 0
    assert header(Entry(path="a", kind="file", mode=0o644, size=size - 1))[124:136] == b"77777777777\0"


_NAMES = st.text(st.characters(exclude_characters="/\0\n", exclude_categories=("Cs",)), min_size=1, max_size=120)
_NAMES = _NAMES.filter(lambda name: name not in (".", "..") and not name.startswith(".wh."))
_TREES = st.recursive(st.binary(max_size=1500), lambda inner: st.dictionaries(_NAMES, inner, max_size=4), max_leaves=12)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(_NAMES, _TREES, max_size=4), st.integers(0, 2**31), st.integers(0, 0o7777))
def test_round_trip(tree: dict[str, Any], owner: int, mode: int) -> None:
    """Any tree comes back as it went in, whatever the order of its making."""
    members: list[tuple[Entry, bytes]] = []

    def walk(prefix: str, node: dict[str, Any]) -> None:
        for name, child in node.items():
            if isinstance(child, dict):
                members.append((Entry(path=prefix + name, kind="dir", mode=mode, uid=owner), b""))
                walk(f"{prefix}{name}/", child)
            else:
                size = len(child)
                members.append((Entry(path=prefix + name, kind="file", mode=mode, gid=owner, size=size), child))

    walk("", tree)
    layer, data = pack(*members)
    assert layer == pack(*reversed(members))[0]
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {member.name: member for member in tar}
        assert len(found) == len(members)
        for entry, content in members:
            member = found[entry.path]
            assert (member.mode, member.uid, member.gid) == (entry.mode, entry.uid, entry.gid)
            stream = tar.extractfile(member)
            assert (stream.read() if stream else b"") == content


def test_streams_and_bytes_agree() -> None:
    """Content from a stream gives the same layer as content from memory, small and large."""
    data = os.urandom(3_000_001)
    entry = Entry(path="a", kind="file", mode=0o644, size=len(data))
    output = io.BytesIO()
    with LayerWriter(output) as writer:
        writer.add(entry, io.BytesIO(data))
    assert writer.layer() == pack((entry, data))[0]
    assert hashlib.sha256(output.getvalue()).hexdigest() == writer.digest


def test_host_settings_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither umask, time zone nor locale reach the bytes."""
    expected = pack(*SAMPLE)[0]
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    time.tzset()
    before = os.umask(0o077)
    try:
        assert pack(*SAMPLE)[0] == expected
    finally:
        os.umask(before)
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "layer: '': not a relative path of plain components"),
        ("/etc/passwd", "layer: '/etc/passwd': not a relative path of plain components"),
        ("a//b", "layer: 'a//b': not a relative path of plain components"),
        ("a/", "layer: 'a/': not a relative path of plain components"),
        ("a\nb", "layer: 'a\\nb': not a relative path of plain components"),
        ("a\0b", "layer: 'a\\x00b': not a relative path of plain components"),
        ("../a", "layer: '../a': a component must not be '..'"),
        ("a/./b", "layer: 'a/./b': a component must not be '.'"),
        (".wh.a", "layer: '.wh.a': a component must not be '.wh.a'"),
    ],
)
def test_unsafe_names_are_refused(path: str, message: str) -> None:
    """No name can climb out, hide, or read as a deletion."""
    with pytest.raises(BuildError) as caught:
        header(Entry(path=path, kind="file", mode=0o644))
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            [Entry(path="b", kind="dir", mode=0o755), Entry(path="a", kind="dir", mode=0o755)],
            "layer: 'a': it must come before 'b', and once only",
        ),
        (
            [Entry(path="a", kind="dir", mode=0o755), Entry(path="a", kind="dir", mode=0o755)],
            "layer: 'a': it must come before 'a', and once only",
        ),
        ([Entry(path="a/b", kind="dir", mode=0o755)], "layer: 'a/b': its parent 'a' is not a directory of this layer"),
        (
            [Entry(path="a", kind="symlink", mode=0o777, target="/etc"), Entry(path="a/b", kind="file", mode=0o644)],
            "layer: 'a/b': its parent 'a' is not a directory of this layer",
        ),
        (
            [Entry(path="a", kind="hardlink", mode=0o644, target="b")],
            "layer: 'a': it links to 'b', which is no earlier file of this layer",
        ),
        (
            [Entry(path="a", kind="file", mode=0o644, size=4)],
            "layer: 'a': expected 4 bytes of content, found 0",
        ),
        (
            [Entry(path="a", kind="file", mode=0o10000)],
            "layer: 'a': mode must be between 0 and 4095, found 4096",
        ),
        ([Entry(path="a", kind="symlink", mode=0o777)], "layer: 'a': '' is not a link target for a symlink"),
        (
            [Entry(path="a", kind="file", mode=0o644, xattrs={"user.a=b": b""})],
            "layer: 'a': 'user.a=b' is not the name of an extended attribute",
        ),
    ],
)
def test_wrong_order_and_content_are_refused(members: list[Entry], message: str) -> None:
    """A layer that an engine would complete or reorder by itself is not written."""
    with pytest.raises(BuildError) as caught:
        add_all(io.BytesIO(), members)
    assert caught.value.message == message


def test_streams_of_another_length_are_refused() -> None:
    """Content shorter or longer than stated is an error, not a damaged archive."""
    entry = Entry(path="a", kind="file", mode=0o644, size=3)
    for data, found in ((b"ab", "2"), (b"abcd", "more")):
        with pytest.raises(BuildError) as caught:
            LayerWriter(io.BytesIO(), "w.whl").add(entry, io.BytesIO(data))
        assert caught.value.message == f"w.whl: 'a': expected 3 bytes of content, found {found}"


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """An error of the writing thread reaches the caller, and no thread stays behind."""

    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    before = threading.active_count()
    members = [Entry(path=f"{number:02}", kind="file", mode=0o644, size=1 << 20) for number in range(20)]
    with pytest.raises(OSError, match="No space left"):
        add_all(Full(), members, bytes(1 << 20))
    assert threading.active_count() == before


class _Adopting(io.BytesIO):
    """Takes files as they are, and notes which and in which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def adopt(self, head: bytes, path: str) -> None:
        """Implement ``Adopter``."""
        self.threads.append(threading.current_thread())
        data = Path(path).read_bytes()
        self.write(head + data + bytes(-len(data) % 512))


def test_files_that_an_output_takes_need_no_thread(tmp_path: Path) -> None:
    """Two threads that make system calls wait for each other: 5,700 files took 1.5 s in place of 0.3."""
    large = Entry(path="a", kind="file", mode=0o644, size=3 << 20)
    members = [(large, bytes(large.size)), *((entry, data) for entry, data in SAMPLE if entry.path.startswith("a-"))]
    files = [(Entry(path=f"b{number}", kind="file", mode=0o644, size=number), bytes(number)) for number in range(3)]
    output = _Adopting()
    with LayerWriter(output) as writer:
        for entry, data in members:
            writer.add(entry, data or None)
        for entry, data in files:
            path = tmp_path / entry.path
            path.write_bytes(data)
            writer.add(entry, path)
    expected, packed = pack(*members, *files)
    assert output.threads == [threading.current_thread()] * len(files)
    assert (writer.layer(), output.getvalue()) == (expected, packed)


def test_what_an_output_refused_before_a_file_is_reported(tmp_path: Path) -> None:
    """A fault of the thread that wrote what came before is not lost with the thread."""

    class Refusing(_Adopting):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    (tmp_path / "b").write_bytes(b"x")
    writer = LayerWriter(Refusing())
    writer.add(Entry(path="a", kind="dir", mode=0o755))
    with pytest.raises(OSError, match="No space left"):
        writer.add(Entry(path="b", kind="file", mode=0o644, size=1), tmp_path / "b")
