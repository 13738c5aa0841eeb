"""The emulator is one program of one locked package, checked before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.core.digest import sha256_file
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.emulator import PROGRAM, unpack_emulator
from envbuild.lockfile.model import OsPackage
from tests.support.debs import make_deb
from tests.support.elf import make_elf

STATIC, DYNAMIC = make_elf(padding=200_000), make_elf(program=True)


def unpack(folder: Path, files: dict[str, bytes | str], machine: str = "aarch64") -> Path:
    """Make a package of these files, unpack the emulator from it, and return the program."""
    path = make_deb(folder / "debs", "qemu-user-static", "1:7.2", files, architecture="amd64")
    package = OsPackage(
        name="qemu-user-static",
        version="1:7.2",
        architecture="amd64",
        archive="debian",
        path=f"pool/main/q/qemu/{path.name}",
        size=path.stat().st_size,
        sha256=sha256_file(path),
    )
    target = folder / "made"
    target.mkdir(exist_ok=True)
    unpack_emulator(package, path, machine, target)
    return target / PROGRAM


@pytest.mark.parametrize("name", ["qemu-aarch64-static", "qemu-aarch64"])
def test_the_program_of_the_machine(name: str, tmp_path: Path) -> None:
    """It is found by either name that Debian has given it, whatever comes before and after it."""
    others = {"/usr/bin/qemu-aarch64_be-static": "x", "/usr/bin/qemu-x86_64-static": "y" * 500_000, "/usr/bin/a": "z"}
    program = unpack(tmp_path, {**others, f"/usr/bin/{name}": STATIC})
    assert program.read_bytes() == STATIC
    assert program.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"/usr/bin/qemu-arm-static": STATIC}, "qemu-user-static_7.2_amd64.deb has no emulator of aarch64"),
        (
            {"/usr/bin/qemu-aarch64": DYNAMIC},
            "qemu-user-static_7.2_amd64.deb: its emulator of aarch64 is no statically linked program",
        ),
        (
            {"/usr/bin/qemu-aarch64": b"#!/bin/sh\n"},
            "qemu-user-static_7.2_amd64.deb: its emulator of aarch64 is no statically linked program",
        ),
    ],
)
def test_a_package_without_a_usable_one(files: dict[str, bytes | str], message: str, tmp_path: Path) -> None:
    """A program that needs libraries would look for them in the image's file system: refused before a step starts."""
    with pytest.raises(BuildError) as caught:
        unpack(tmp_path, files)
    assert caught.value.message == message
    assert caught.value.hint == "lock again for another version of it: envbuild lock --upgrade"


def test_an_altered_package(tmp_path: Path) -> None:
    """The store is not trusted with a program that runs: its digest is computed again."""
    path = make_deb(tmp_path, "qemu-user-static", files={"/usr/bin/qemu-aarch64-static": STATIC}, architecture="amd64")
    package = OsPackage(
        name="qemu-user-static",
        version="1.0",
        architecture="amd64",
        archive="debian",
        path=f"pool/{path.name}",
        size=path.stat().st_size,
        sha256="0" * 64,
    )
    with pytest.raises(IntegrityError, match=r"qemu-user-static_1\.0_amd64\.deb in the store was altered"):
        unpack_emulator(package, path, "aarch64", tmp_path)
    assert not (tmp_path / PROGRAM).exists()
