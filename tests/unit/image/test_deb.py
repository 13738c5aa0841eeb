"""Debian packages are read without dpkg, and what has no place in one is refused."""

from __future__ import annotations

import io
import lzma
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from envbuild.errors import BuildError
from envbuild.image.os.deb import Deb, open_deb, parse_control
from envbuild.image.tar.layer import Entry
from tests.support.debs import Member, ar_bytes, deb_bytes, deb_control, make_deb, tar_bytes

HINT = "delete the file from the store and fetch it again: envbuild fetch; if it comes back so, do not use this package"


def read(deb: Deb) -> list[tuple[Entry, bytes | None]]:
    """All members of a package with their content."""
    data = io.BytesIO()
    deb.unpack_data(data)
    data.seek(0)
    return [(entry, content.read() if content else None) for entry, content in deb.members(data)]


def written(folder: Path, data: bytes) -> Path:
    path = folder / "x_1.0_all.deb"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("compression", ["xz", "gz", "zst", "none"])
def test_members_come_in_their_order(tmp_path: Path, compression: str) -> None:
    """Every compression gives the same checked members, with modes, links and content."""
    members = [
        Member(name="./usr/bin/also", kind="hardlink", target="./usr/bin/tool"),
        Member(name="./usr/bin/tl", kind="symlink", target="tool"),
        Member(name="./var/lock", kind="dir", mode=0o1777),
    ]
    deb = open_deb(make_deb(tmp_path, "x", files={"/usr/bin/tool": "hi"}, members=members, compression=compression))
    assert deb.fields()["Package"] == "x"
    assert [(entry.path, entry.kind, oct(entry.mode), entry.target, content) for entry, content in read(deb)] == [
        ("usr", "dir", "0o755", "", None),
        ("usr/bin", "dir", "0o755", "", None),
        ("usr/bin/tool", "file", "0o755", "", b"hi"),
        ("usr/bin/also", "hardlink", "0o644", "usr/bin/tool", None),
        ("usr/bin/tl", "symlink", "0o777", "tool", None),
        ("var/lock", "dir", "0o1777", "", None),
    ]


def test_file_capabilities_are_kept(tmp_path: Path) -> None:
    """An extended attribute comes out byte for byte."""
    value = b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\xff\xfe\0\0\0\0\0\0"
    member = Member(name="./ping", data=b"x", xattrs={"security.capability": value})
    ((entry, _),) = read(open_deb(make_deb(tmp_path, "x", members=[member])))
    assert entry.xattrs == {"security.capability": value}


@pytest.mark.parametrize(
    ("members", "name", "reason"),
    [
        ([Member(name="../etc/passwd")], "../etc/passwd", "not a path of plain components"),
        ([Member(name="./a/../../etc")], "./a/../../etc", "not a path of plain components"),
        ([Member(name="./a//b")], "./a//b", "not a path of plain components"),
        ([Member(name="/etc/passwd")], "/etc/passwd", "an absolute path"),
        ([Member(name="./a\nb")], "./a\nb", "a control character in its name"),
        ([Member(name="./", kind="file")], "./", "the root is a file"),
        ([Member(name="./x", kind="char")], "./x", "a device outside /dev"),
        ([Member(name="./lib/x", kind="block")], "./lib/x", "a device outside /dev"),
        (
            [Member(name="./a", kind="symlink", target="/etc"), Member(name="./a/passwd")],
            "a/passwd",
            "its path goes through the symbolic link 'a'",
        ),
        (
            [Member(name="./a/b", kind="symlink", target="../../x")],
            "a/b",
            "its target '../../x' climbs above the root",
        ),
        ([Member(name="./a", kind="symlink", target="")], "./a", "it links to ''"),
        ([Member(name="./a", kind="symlink", target="x\ny")], "./a", "it links to 'x\\ny'"),
        (
            [Member(name="./a", kind="hardlink", target="./etc/shadow")],
            "a",
            "it is a hard link to 'etc/shadow', which is no earlier file",
        ),
        ([Member(name="./a", kind="hardlink", target="../b")], "../b", "not a path of plain components"),
    ],
)
def test_hostile_members_are_refused(tmp_path: Path, members: list[Member], name: str, reason: str) -> None:
    """A member that could leave the tree is an error that names package, member and reason."""
    deb = open_deb(make_deb(tmp_path, "evil", members=members))
    with pytest.raises(BuildError) as caught:
        read(deb)
    assert caught.value.message == f"evil_1.0_all.deb: its member {name!r} is refused: {reason}; nothing was written"
    assert caught.value.hint == HINT


def test_links_within_the_tree_are_allowed(tmp_path: Path) -> None:
    """Relative links that stay inside, absolute links and devices below /dev are what packages have."""
    members = [
        Member(name="./a/b/c", kind="symlink", target="../../d"),
        Member(name="./e", kind="symlink", target="/etc/alternatives/e"),
        Member(name="./dev/null", kind="char", major=1, minor=3),
    ]
    assert len(read(open_deb(make_deb(tmp_path, "x", members=members)))) == 3


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is not an ar archive"),
        (b"not a package", "it is not an ar archive"),
        (b"!<arch>\n" + b"x" * 60, "its ar header at byte 8 is malformed"),
        (b"!<arch>\nshort", "its ar header at byte 8 is malformed"),
        (ar_bytes({"control.tar": b""}), "its first member is not debian-binary"),
        (ar_bytes({"debian-binary": b"3.0\n"}), "expected format 2.x, found b'3.0'"),
        (
            ar_bytes({"debian-binary": b"2.0\n", "data.tar": b"", "control.tar": b""}),
            "expected control.tar and data.tar after debian-binary",
        ),
        (
            ar_bytes({"debian-binary": b"2.0\n", "control.tar.gz": b"12345678"})[:-4],
            "control.tar.gz is cut short: expected 8 bytes, found 4",
        ),
    ],
)
def test_a_damaged_outside_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    """What is no package of format 2 is an error when it is opened."""
    with pytest.raises(BuildError) as caught:
        open_deb(written(tmp_path, data))
    assert caught.value.message == f"x_1.0_all.deb is not a sound Debian package: {reason}"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"data.tar.xz": b"this is not xz data"}, "it is damaged: Input format not supported by decoder"),
        ({"data.tar.xz": b"\xfd7zXZ\0\0\x04"}, "data.tar.xz is cut short"),
        ({"data.tar.rar": b"x"}, "data.tar.rar: unknown compression '.rar'"),
        ({"data.tar": b"x" * 700}, "it is damaged: invalid header"),
    ],
)
def test_a_damaged_inside_is_refused(tmp_path: Path, parts: dict[str, bytes], reason: str) -> None:
    """Data that cannot be decompressed or is no tar is an error that names the package."""
    deb = open_deb(written(tmp_path, ar_bytes({"debian-binary": b"2.0\n", "control.tar": b"", **parts})))
    with pytest.raises(BuildError) as caught:
        read(deb)
    assert caught.value.message == f"x_1.0_all.deb is not a sound Debian package: {reason}"


def test_damaged_zstd_is_reported(tmp_path: Path) -> None:
    """What cannot be decompressed is an error that names the package."""
    parts = {"debian-binary": b"2.0\n", "control.tar.zst": b"x", "data.tar.zst": b"x"}
    with pytest.raises(BuildError, match=r"^x_1\.0_all\.deb is not a sound Debian package: it is damaged: "):
        open_deb(written(tmp_path, ar_bytes(parts))).fields()


def test_unknown_members_with_an_underscore_are_skipped(tmp_path: Path) -> None:
    """deb(5) lets members named _… are in between."""
    control = tar_bytes([Member(name="./control", data=deb_control("x").encode())])
    parts = {"debian-binary": b"2.0\n", "_extra": b"?", "control.tar": control, "data.tar": tar_bytes([])}
    assert open_deb(written(tmp_path, ar_bytes(parts))).fields()["Version"] == "1.0"


def test_a_package_without_control_file_is_refused(tmp_path: Path) -> None:
    """There must be a control file in the control archive."""
    parts = {"debian-binary": b"2.0\n", "control.tar": tar_bytes([]), "data.tar": tar_bytes([])}
    with pytest.raises(BuildError, match="there is no control file in its control archive"):
        open_deb(written(tmp_path, ar_bytes(parts))).fields()


def test_control_fields_keep_continuation_lines() -> None:
    """A field's further lines stay in its value."""
    assert parse_control("Package: x\nDescription: short\n long\n .\nEssential: yes\n", "x") == {
        "Package": "x",
        "Description": "short\n long\n .",
        "Essential": "yes",
    }


@pytest.mark.parametrize("text", ["Package x\n", " Package: x\n", "A: 1\nA: 2\n", "A: 1\n\nB: 2\n"])
def test_malformed_control_files_are_refused(text: str) -> None:
    """Anything but one paragraph of distinct fields is an error."""
    with pytest.raises(BuildError, match=r"^x is not a sound Debian package: its control file has a malformed line: "):
        parse_control(text, "x")


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    """A file that cannot be read is named."""
    with pytest.raises(BuildError) as caught:
        open_deb(tmp_path / "x.deb")
    assert caught.value.message == "cannot read the package file x.deb: No such file or directory"


def test_bytes_of_a_package_do_not_matter_for_its_members(tmp_path: Path) -> None:
    """Compressing anew changes no member."""
    files = {"/usr/share/x": "1", "/etc/y": "2"}
    one = open_deb(written(tmp_path, deb_bytes(deb_control("x"), files, compression="xz")))
    (tmp_path / "b").mkdir()
    two = open_deb(written(tmp_path / "b", deb_bytes(deb_control("x"), files, compression="gz")))
    assert read(one) == read(two)


def test_a_control_archive_that_unpacks_to_gigabytes_takes_no_memory(tmp_path: Path) -> None:
    """A few kilobytes of xz hold a hundred megabytes of zeros: unpacking stops at the limit."""
    path = tmp_path / "bomb.deb"
    bomb = lzma.compress(bytes(128 << 20), preset=0)
    path.write_bytes(ar_bytes({"debian-binary": b"2.0\n", "control.tar.xz": bomb, "data.tar": tar_bytes([])}))
    tracemalloc.start()
    try:
        with pytest.raises(BuildError, match="control archive is larger than 16777216 bytes"):
            open_deb(path).fields()
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_control_file_that_claims_to_be_sparse_is_refused(tmp_path: Path) -> None:
    """GNU's sparse files may have any size in a few bytes."""
    member = tarfile.TarInfo("control")
    member.size = 512
    member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member, io.BytesIO(b"0\n".ljust(512, b"\0")))
    path = tmp_path / "sparse.deb"
    members = {"debian-binary": b"2.0\n", "control.tar": packed.getvalue(), "data.tar": tar_bytes([])}
    path.write_bytes(ar_bytes(members))
    with pytest.raises(BuildError, match="its control file is larger than its control archive"):
        open_deb(path).fields()
