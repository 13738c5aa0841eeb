"""What leaves a container becomes a layer that depends on content alone."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from envbuild.errors import BuildError
from envbuild.image.os.normalise import normalise
from envbuild.image.os.rootfs import image_layer_from_export
from envbuild.lockfile import layout
from tests.support.debs import Member, tar_bytes

COMMON = [
    Member(name="etc/", kind="dir", mode=0o755),
    Member(name="usr/", kind="dir", mode=0o755),
    Member(name="usr/x", data=b"x", mode=0o4755, uid=3, gid=4),
]
ENGINE = [
    Member(name=".dockerenv"),
    Member(name="dev/", kind="dir", mode=0o755),
    Member(name="dev/console", kind="char", major=5, minor=1),
    Member(name="etc/hostname", data=b"f3a1\n"),
    Member(name="etc/mtab", kind="symlink", target="/proc/mounts"),
    Member(name="proc/", kind="dir", mode=0o555),
    Member(name="run/", kind="dir", mode=0o700),
    Member(name="run/secret", data=b"x"),
    Member(name="run/.containerenv", data=b"x"),
    Member(name="tmp/", kind="dir", mode=0o1777),
    Member(name="tmp/left", data=b"x"),
    Member(name="var/", kind="dir", mode=0o755),
    Member(name="var/tmp/", kind="dir", mode=0o755),
    Member(name="var/tmp/left", data=b"x"),
]


def pack(members: list[Member], folder: Path, name: str = "layer.tar") -> tarfile.TarFile:
    output = folder / name
    normalise(io.BytesIO(tar_bytes(members)), output)
    return tarfile.open(output)


def test_what_engines_leave_behind_is_gone(tmp_path: Path) -> None:
    """A file system from an engine that leaves much, and one from an engine that leaves nothing, are one layer."""
    pack([*COMMON, *ENGINE], tmp_path, "much").close()
    pack([*reversed(COMMON)], tmp_path, "nothing").close()
    assert (tmp_path / "much").read_bytes() == (tmp_path / "nothing").read_bytes()


def test_constants_stand_where_engines_mount(tmp_path: Path) -> None:
    """Names and mount points are the same in every image."""
    with pack(COMMON, tmp_path) as layer:
        content = layer.extractfile("etc/hostname")
        assert content is not None
        assert content.read() == b"localhost\n"
        assert layer.getmember("etc/machine-id").size == 0
        assert layer.getmember("etc/mtab").linkname == "../proc/self/mounts"
        modes = {name: oct(layer.getmember(name).mode) for name in ("dev", "proc", "run", "run/lock", "tmp", "var/tmp")}
    assert modes == {
        "dev": "0o755",
        "proc": "0o755",
        "run": "0o755",
        "run/lock": "0o1777",
        "tmp": "0o1777",
        "var/tmp": "0o1777",
    }


def test_modes_owners_and_capabilities_stay_and_times_go(tmp_path: Path) -> None:
    """Set-user-ID, numeric owners and file capabilities survive; labels of the host do not; all times are one."""
    attributes = {"security.capability": b"\x01\xff", "security.selinux": b"u:r:t", "trusted.overlay.opaque": b"y"}
    member = Member(name="usr/ping", data=b"x", xattrs=attributes)
    with pack([*COMMON, member], tmp_path) as layer:
        found = layer.getmember("usr/x")
        assert (found.mode, found.uid, found.gid, found.uname) == (0o4755, 3, 4, "")
        assert {member.mtime for member in layer} == {layout.EPOCH}
        headers = layer.getmember("usr/ping").pax_headers
    assert [key for key in headers if "xattr" in key] == ["SCHILY.xattr.security.capability"]


def test_a_base_image_goes_the_same_way(tmp_path: Path) -> None:
    """An exported base image is normalised by the same code, and its digest is that of the file."""
    layer = image_layer_from_export(io.BytesIO(tar_bytes([*COMMON, *ENGINE])), tmp_path / "base.tar")
    pack(COMMON, tmp_path, "same").close()
    assert (tmp_path / "base.tar").read_bytes() == (tmp_path / "same").read_bytes()
    assert layer.size == (tmp_path / "same").stat().st_size


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (Member(name="../x"), "root file system: '../x': its parent '..' is not a directory of this layer"),
        (Member(name="usr/.wh.x"), "root file system: 'usr/.wh.x': a component must not be '.wh.x'"),
        (
            Member(name="nowhere/x"),
            "root file system: 'nowhere/x': its parent 'nowhere' is not a directory of this layer",
        ),
    ],
)
def test_unsafe_names_leave_no_layer(tmp_path: Path, member: Member, message: str) -> None:
    """A name that cannot be in a layer is an error and no file appears."""
    with pytest.raises(BuildError) as caught:
        pack([*COMMON, member], tmp_path)
    assert caught.value.message == message
    assert list(tmp_path.iterdir()) == []


def test_a_cut_stream_leaves_no_layer(tmp_path: Path) -> None:
    """A stream that ends early is an error and no file appears."""
    data = tar_bytes([*COMMON, Member(name="usr/y", data=b"y" * 4096)])
    with pytest.raises(BuildError):
        normalise(io.BytesIO(data[: data.index(b"y" * 4096) + 100]), tmp_path / "layer.tar")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "member",
    [
        Member(name="opt/env/bin/tool"),
        Member(name="opt/env", kind="dir"),
        Member(name="opt", kind="symlink", target="srv"),
    ],
)
def test_nothing_of_the_os_hides_the_environment(tmp_path: Path, member: Member) -> None:
    """The OS layer may be above the wheels: a package that installs there is refused, a neighbour is not."""
    with pytest.raises(BuildError) as caught:
        normalise(io.BytesIO(tar_bytes([member])), tmp_path / "layer.tar", "the OS layer", "opt/env")
    assert caught.value.message == (
        f"the OS layer: a package installs /{member.name}, which belongs to the Python environment"
    )
    assert list(tmp_path.iterdir()) == []
    around = [Member(name="opt", kind="dir"), Member(name="opt/envy"), Member(name="opt/a", kind="symlink", target="b")]
    normalise(io.BytesIO(tar_bytes(around)), tmp_path / "layer.tar", "the OS layer", "opt/env")
