"""What a lock must know of a base image's file system is read from its tar; its way into a build is checked."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.os.base import Facts, base_layer, read_facts
from envbuild.lockfile.model import Os
from tests.support.base import GLIBC, base_tar


def facts(tmp_path: Path, files: dict[str, bytes | str], links: dict[str, str] | None = None) -> Facts:
    path = tmp_path / "base.tar"
    path.write_bytes(base_tar(files, links))
    return read_facts(path)


def test_release_libc_and_python_of_debian(tmp_path: Path) -> None:
    """A merged-usr Debian: identifier and version, the C library's version, the interpreter's path."""
    files: dict[str, bytes | str] = {
        "usr/bin/python3.11": "x",
        "usr/lib/os-release": 'NAME="Debian"\nVERSION_ID="12"\nID=debian\n',
        "usr/lib/x86_64-linux-gnu/libc.so.6": GLIBC,
    }
    links = {"etc/os-release": "../usr/lib/os-release", "usr/bin/python3": "python3.11", "lib": "usr/lib"}
    assert facts(tmp_path, files, links) == Facts(
        release="debian-12", glibc=(2, 36), pythons={"3.11": "/usr/bin/python3.11"}
    )


@pytest.mark.parametrize(
    "path",
    [
        "usr/lib64/libc.so.6",
        "lib64/libc.so.6",
        "lib/x86_64-linux-gnu/libc-2.31.so",
        "usr/lib/aarch64-linux-gnu/libc.so.6",
    ],
)
def test_the_c_library_is_found_where_systems_put_it(tmp_path: Path, path: str) -> None:
    """Fedora, an unmerged Debian whose libc.so.6 is a link, another architecture."""
    assert facts(tmp_path, {path: GLIBC}).glibc == (2, 36)


def test_a_system_without_glibc_has_zeros(tmp_path: Path) -> None:
    """Alpine has musl, and a file of the right name proves nothing."""
    assert facts(tmp_path, {"lib/ld-musl-x86_64.so.1": "x", "usr/lib/libc.so.6": "no library"}).glibc == (0, 0)


def test_every_python_is_found_and_the_first_on_path_wins(tmp_path: Path) -> None:
    """Releases in numerical order; /usr/local/bin before /usr/bin, both before /opt; tools and folders are none."""
    files: dict[str, bytes | str] = {
        "usr/bin/python3.9": "x",
        "usr/bin/python3.11": "x",
        "usr/local/bin/python3.11": "x",
        "opt/conda/bin/python3.11": "x",
        "opt/b/bin/python3.12": "x",
        "opt/a/bin/python3.12": "x",
        "usr/bin/python3.11-config": "x",
        "usr/bin/python3.13t": "x",
        "usr/lib/python3.10/os.py": "x",
        "home/me/bin/python3.8": "x",
        "usr/bin/python3.7/x": "a folder's file",
    }
    assert list(facts(tmp_path, files).pythons.items()) == [
        ("3.9", "/usr/bin/python3.9"),
        ("3.11", "/usr/local/bin/python3.11"),
        ("3.12", "/opt/a/bin/python3.12"),
    ]


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("ID='ubuntu'\nVERSION_ID='24.04'\n", "ubuntu-24.04"),
        ("ID=arch\n", "arch"),
        ("VERSION_ID=3\n", "linux"),
        ('ID="$(reboot)"\n', "linux"),
        ("ID=-x\n", "linux"),
        ("", "linux"),
    ],
)
def test_the_release_is_that_of_os_release_if_a_lock_can_hold_it(tmp_path: Path, text: str, release: str) -> None:
    """Quotes of either kind, rolling systems, nonsense."""
    assert facts(tmp_path, {"etc/os-release": text}).release == release


def test_paths_that_envbuild_wants_are_reported(tmp_path: Path) -> None:
    """An environment that is there already would shine through."""
    assert facts(tmp_path, {"opt/env/bin/python": "x", "opt/other/x": "x"}).taken == ("/opt/env",)


def test_a_damaged_tar_is_reported(tmp_path: Path) -> None:
    """No traceback for bytes that are no tar."""
    (tmp_path / "base.tar").write_bytes(b"x" * 2000)
    with pytest.raises(BuildError, match=r"^the base image: .*base\.tar is no readable tar"):
        read_facts(tmp_path / "base.tar")


def test_the_layer_is_the_locked_bytes(tmp_path: Path) -> None:
    """ImageRecord is the digest of the file system itself."""
    (tmp_path / "object").write_bytes(b"tar")
    layer = base_layer(system(b"tar"), lambda sha256: tmp_path / "object", tmp_path / "layer")
    assert (layer.diff_id, layer.size) == (sha256_bytes(b"tar"), 3)
    assert (tmp_path / "layer").read_bytes() == b"tar"


def test_a_damaged_or_missing_object_is_refused(tmp_path: Path) -> None:
    """The store is in a writable place: what is used is read again."""
    path = tmp_path / "object"
    with pytest.raises(IntegrityError) as caught:
        base_layer(system(b"tar"), lambda sha256: path, tmp_path / "layer")
    assert caught.value.message == f"the file system of {system(b'tar').image} is not in the store"
    path.write_bytes(b"TAR")
    with pytest.raises(IntegrityError) as caught:
        base_layer(system(b"tar"), lambda sha256: path, tmp_path / "layer")
    assert caught.value.message == (
        f"the file system of {system(b'tar').image}: {path} is damaged: "
        f"expected sha256 {sha256_bytes(b'tar')}, found {sha256_bytes(b'TAR')}"
    )
    assert not (tmp_path / "layer").exists()


def system(data: bytes) -> Os:
    return Os(
        release="debian-12",
        architecture="amd64",
        image=f"base@sha256:{'a' * 64}",
        image_rootfs=sha256_bytes(data),
        image_size=len(data),
    )


def test_the_maker_of_this_file_makes_tars() -> None:
    """The support code's links and folders are as described."""
    with tarfile.open(fileobj=io.BytesIO(base_tar({"a/b": "x"}, {"l": "a"}))) as archive:
        assert [(member.name, member.type) for member in archive] == [
            ("a", tarfile.DIRTYPE),
            ("a/b", tarfile.REGTYPE),
            ("l", tarfile.SYMTYPE),
        ]
