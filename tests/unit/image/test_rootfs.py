"""The OS layer's stage: what goes into the container, what a failure reports, and what the cache key depends on."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.core.progress import Silent
from envbuild.engine.protocol import FinishedTree, FoundEntry, Step, TreeStep
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.os.deb import open_deb
from envbuild.image.os.rootfs import build_os_layer, os_key
from envbuild.image.os.seed import Uncompressed, open_packages
from envbuild.lockfile.model import Os, OsPackage
from tests.support.debs import Member, deb_bytes, deb_control


class FakeEngine:
    """Keeps what it was given and answers with a small file system, or fails with this output."""

    def __init__(self, output: str = "") -> None:
        self.output = output
        self.seed: dict[str, tuple[str, bytes]] = {}
        self.inputs: dict[str, bytes] = {}
        self.step: Step | None = None

    @contextmanager
    def run_step(self, step: Step) -> Iterator[BinaryIO]:
        """Implement ``StepRunner``."""
        self.step = step
        with tarfile.open(step.base) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                self.seed[member.name] = (member.linkname, content.read() if content else b"")
        assert step.inputs is not None
        with tarfile.open(step.inputs) as archive:
            for member in archive:
                content = archive.extractfile(member)
                self.inputs[member.name] = content.read() if content else b""
        if self.output:
            raise BuildError(f"/bin/sh failed with exit code 1; the end of its output:\n{self.output}")
        result = io.BytesIO()
        with tarfile.open(fileobj=result, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("x"), io.BytesIO())
        result.seek(0)
        yield result


class FakeTrees:
    """Keeps what it was given, and has left a small file system in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.filled = io.BytesIO()
        self.step: TreeStep | None = None
        self.files: dict[str, bytes] = {}

    @contextmanager
    def run_tree_step(self, step: TreeStep) -> Iterator[FinishedTree]:
        """Implement ``TreeStepRunner``."""
        step.fill(self.filled)
        self.step = step
        self.files = {name: path.read_bytes() for name, path in step.files.items()}
        (self.root / "tmp").mkdir(parents=True)
        for name in ("x", "tmp/y"):
            (self.root / name).write_bytes(name.encode())
        found = [("tmp", "dir", 0), ("tmp/y", "file", 5), ("x", "file", 1)]
        entries = [FoundEntry(path=path, kind=kind, mode=0o640, uid=1, gid=2, size=size) for path, kind, size in found]
        yield FinishedTree(root=self.root, entries=iter(entries))

    def shows(self, file: Path) -> bool:
        """Implement ``TreeStepRunner``."""
        return False

    @property
    def seed(self) -> dict[str, tuple[str, bytes]]:
        """What a step would unpack, by path."""
        found = {}
        self.filled.seek(0)
        with tarfile.open(fileobj=self.filled, mode="r|", ignore_zeros=True) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                found[member.name] = (member.linkname, content.read() if content else b"")
        return found


class Archive:
    """Packages and the store that holds them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages: list[OsPackage] = []

    def add(self, name: str, members: list[Member], **fields: str) -> Path:
        """Put one package into the store and the lock."""
        control = deb_control(name, fields={key.replace("_", "-"): value for key, value in fields.items()})
        data = deb_bytes(control, members=members)
        package = OsPackage(
            name=name,
            version="1.0",
            architecture="all",
            archive="debian",
            path=f"pool/{name}_1.0_all.deb",
            size=len(data),
            sha256=sha256_bytes(data),
        )
        self.packages.append(package)
        self.path(package.sha256).write_bytes(data)
        return self.path(package.sha256)

    def path(self, sha256: str) -> Path:
        """Where a file is."""
        return self.folder / sha256

    @property
    def os(self) -> Os:
        """The locked system."""
        return Os(release="debian-12", architecture="amd64", packages=tuple(self.packages))


@pytest.fixture(name="archive")
def _archive(tmp_path: Path) -> Archive:
    """An essential dpkg with everything merged /usr is about, and a package that is not essential."""
    (tmp_path / "store").mkdir()
    archive = Archive(tmp_path / "store")
    archive.add(
        "dpkg",
        [
            Member(name="./bin/", kind="dir", mode=0o755),
            Member(name="./bin/tool", data=b"tool", mode=0o755),
            Member(name="./bin/also", kind="hardlink", target="./bin/tool"),
            Member(name="./usr/bin/dpkg", data=b"dpkg", mode=0o755),
            Member(name="./lib64/ld.so", kind="symlink", target="/lib/ld.so"),
            Member(name="./usr/share/doc/dpkg/copyright", data=b"text"),
            Member(name="./usr/share/dpkg/sh/dpkg-error.sh", data=b"sourced"),
            Member(name="./usr/share/dpkg/cputable", data=b"table"),
            Member(name="./dev/null", kind="char", major=1, minor=3),
        ],
        Essential="yes",
    )
    archive.add("base-files", [Member(name="./bin", kind="symlink", target="usr/bin")], Essential="yes")
    archive.add("git", [Member(name="./usr/bin/git", data=b"git")], Depends="dpkg")
    return archive


def build(archive: Archive, engine: FakeEngine, folder: Path) -> Path:
    output = folder / "out" / "os.tar"
    build_os_layer(archive.os, archive.path, engine, output, Silent())
    return output


def test_essential_packages_are_seeded_with_merged_usr(archive: Archive, tmp_path: Path) -> None:
    """Top-level folders move to /usr, their links stay, documents and devices and other packages stay out.

    dpkg's shell library is there: dpkg-maintscript-helper reads it, in Ubuntu's base-files before dpkg is installed.
    """
    engine = FakeEngine()
    build(archive, engine, tmp_path)
    found = {path: value for path, value in engine.seed.items() if path.startswith(("bin", "lib", "usr", "dev"))}
    manuals = {path: found.pop(path) for path in sorted(found) if path.startswith("usr/share")}
    assert manuals.pop("usr/share/dpkg/sh/dpkg-error.sh") == ("", b"sourced")
    assert list(manuals) == [
        "usr/share",
        "usr/share/dpkg",
        "usr/share/dpkg/sh",
        "usr/share/man",
        *(f"usr/share/man/man{section}" for section in range(1, 9)),
    ]
    assert found == {
        "bin": ("usr/bin", b""),
        "dev": ("", b""),
        "lib": ("usr/lib", b""),
        "lib64": ("usr/lib64", b""),
        "usr": ("", b""),
        "usr/bin": ("", b""),
        "usr/bin/also": ("", b"tool"),
        "usr/bin/awk": ("mawk", b""),
        "usr/bin/dpkg": ("", b"dpkg"),
        "usr/bin/tool": ("usr/bin/also", b""),
        "usr/lib": ("", b""),
        "usr/lib64": ("", b""),
        "usr/lib64/ld.so": ("/lib/ld.so", b""),
        "usr/sbin": ("", b""),
    }
    assert engine.seed["var/lib/dpkg/status"] == ("", b"")


def test_all_packages_go_into_the_container_with_script_and_plan(archive: Archive, tmp_path: Path) -> None:
    """dpkg gets every package, uncompressed but otherwise the same, and the plan names their files."""
    engine = FakeEngine()
    build(archive, engine, tmp_path)
    assert engine.inputs["tmp/envbuild-os/plan"] == (
        b"bootstrap base-files_1.0_all.deb\nforce dpkg_1.0_all.deb\nconfigure\nunpack git_1.0_all.deb\nconfigure\n"
    )
    assert engine.inputs["tmp/envbuild-os/install.sh"].startswith(b"#!/bin/sh\n")
    repacked = tmp_path / "git.deb"
    repacked.write_bytes(engine.inputs["tmp/envbuild-os/debs/git_1.0_all.deb"])
    deb = open_deb(repacked)
    assert deb.data.name == "data.tar"
    assert deb.fields()["Depends"] == "dpkg"
    assert engine.step is not None
    assert engine.step.command == ("/bin/sh", "/tmp/envbuild-os/install.sh")


def test_the_order_of_the_lock_does_not_matter(archive: Archive, tmp_path: Path) -> None:
    """Seed, inputs and layer are the same for the same packages in another order."""
    first, second = FakeEngine(), FakeEngine()
    one = build(archive, first, tmp_path / "1").read_bytes()
    archive.packages.reverse()
    assert build(archive, second, tmp_path / "2").read_bytes() == one
    assert first.step is not None
    assert second.step is not None
    assert second.step.base_key == first.step.base_key
    assert second.inputs == first.inputs


def test_in_a_folder_nothing_travels_but_the_seed(archive: Archive, tmp_path: Path) -> None:
    """The seed is that of the other way, reordered; dpkg gets the same packages; the layer is the folder's."""
    engine, trees, output = FakeEngine(), FakeTrees(tmp_path / "root"), tmp_path / "layer.tar"
    build(archive, engine, tmp_path)
    layer = build_os_layer(archive.os, archive.path, engine, output, Silent(), trees=trees)
    seed = trees.seed
    for name in ("install.sh", "plan"):
        assert seed.pop(f"tmp/envbuild-os/{name}")[1] == engine.inputs[f"tmp/envbuild-os/{name}"]
    del seed["tmp/envbuild-os"]
    # Of two names of a file, either may be the one that holds it.
    names = {"usr/bin/also", "usr/bin/tool"}
    assert {path: value for path, value in seed.items() if path not in names} == {
        path: value for path, value in engine.seed.items() if path not in names
    }
    assert trees.step is not None
    debs = "tmp/envbuild-os/debs/"
    assert trees.files == {
        path.removeprefix(debs): data for path, data in engine.inputs.items() if path.startswith(debs) and data
    }
    assert (trees.step.folder, trees.step.command) == (
        "/tmp/envbuild-os/debs",
        ("/bin/sh", "/tmp/envbuild-os/install.sh"),
    )
    assert sha256_bytes(output.read_bytes()) == layer.diff_id
    with tarfile.open(output) as tar:
        member = tar.getmember("x")
        assert (member.mode, member.uid, member.gid, member.size) == (0o640, 1, 2, 1)
        assert "tmp/y" not in tar.getnames()


def test_packages_are_uncompressed_while_the_step_starts(archive: Archive, tmp_path: Path) -> None:
    """Nothing of it waits for the step's process, which takes as long to start as many packages to be uncompressed."""

    class Waiting(FakeTrees):
        def run_tree_step(self, step: TreeStep) -> AbstractContextManager[FinishedTree]:
            end = time.monotonic() + 20
            while not all(path.exists() for path in step.files.values()):
                assert time.monotonic() < end, "no package is uncompressed before the step asks for its files"
                time.sleep(0.001)
            return super().run_tree_step(step)

    output = tmp_path / "layer.tar"
    build_os_layer(archive.os, archive.path, FakeEngine(), output, Silent(), trees=Waiting(tmp_path / "root"))
    assert output.is_file()


def test_the_largest_package_is_uncompressed_first(archive: Archive, tmp_path: Path) -> None:
    """One processor is not left with it at the end while the other has nothing to do."""
    archive.add("small", [])
    archive.add("large", [Member(name="./large", data=os.urandom(1 << 16))])
    archive.add("zero", [])
    begun: list[Path] = []

    class Noting(ThreadPoolExecutor):
        def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
            begun.append(arguments[1])
            return super().submit(call, *arguments, **named)

    sources = open_packages(archive.os, archive.path)
    with Noting(1) as pool:
        packages = Uncompressed(sources, tmp_path, pool)
        for source in sources:
            with packages.open(source) as data:
                assert data.read(1 << 20)
    assert begun[0].name == "large_1.0_all.deb"
    assert len(begun) == len(sources)


@pytest.mark.parametrize("essential", ["yes", "no"])
def test_nothing_is_kept_of_packages_that_are_refused(archive: Archive, tmp_path: Path, essential: str) -> None:
    """A hostile package, one with other bytes, and one that cannot be unpacked: nothing runs over any of them."""
    number = iter(range(9))

    def refused(kind: type[Exception], message: str) -> None:
        trees, output = FakeTrees(tmp_path / f"root{next(number)}"), tmp_path / "out"
        with pytest.raises(kind, match=message):
            build_os_layer(archive.os, archive.path, FakeEngine(), output, Silent(), trees=trees)
        assert trees.step is None
        assert not output.exists()
        archive.packages.pop()

    archive.add("evil", [Member(name="../../etc/cron.d/x", data=b"x")], Essential=essential)
    refused(BuildError, "evil_1.0_all.deb: its member '../../etc/cron.d/x' is refused")
    path = archive.add("curl", [Member(name="./usr/bin/curl", data=b"1")])
    path.write_bytes(deb_bytes(deb_control("curl"), members=[Member(name="./usr/bin/curl", data=b"2")]))
    refused(IntegrityError, "curl_1.0_all.deb")
    path = archive.add("short", [Member(name="./usr/bin/short", data=bytes(3 << 20))], Essential=essential)
    data = path.read_bytes()
    damaged = data[:-40] + bytes(40)
    archive.packages[-1] = msgspec.structs.replace(archive.packages[-1], sha256=sha256_bytes(damaged))
    archive.path(sha256_bytes(damaged)).write_bytes(damaged)
    refused(BuildError, "short_1.0_all.deb is not a sound Debian package")


def test_a_failing_script_names_its_package(archive: Archive, tmp_path: Path) -> None:
    """The error begins with the package, keeps the output, and leaves nothing behind."""
    output = "dpkg: error processing package git (--configure):\n installed git package post-installation script failed"
    with pytest.raises(BuildError) as caught:
        build(archive, FakeEngine(output), tmp_path)
    assert caught.value.message == (
        "the OS package git could not be installed: /bin/sh failed with exit code 1; the end of its output:\n" + output
    )
    assert list((tmp_path / "out").iterdir()) == []


def test_a_failing_archive_names_its_package(archive: Archive, tmp_path: Path) -> None:
    """dpkg names files while it unpacks; the package is read from there too."""
    output = "dpkg: error processing archive git_1.0_all.deb (--unpack):\n trying to overwrite '/x'"
    with pytest.raises(BuildError, match=r"^the OS package git could not be installed: "):
        build(archive, FakeEngine(output), tmp_path)


def test_another_failure_is_left_as_it_is(archive: Archive, tmp_path: Path) -> None:
    """A failure that names no package is not blamed on one."""
    with pytest.raises(BuildError, match=r"^/bin/sh failed with exit code 1"):
        build(archive, FakeEngine("no space"), tmp_path)


def test_an_altered_file_is_refused_before_a_container_starts(archive: Archive, tmp_path: Path) -> None:
    """A store file whose bytes are not the locked ones never reaches the container."""
    path = archive.add("curl", [Member(name="./usr/bin/curl", data=b"1")])
    path.write_bytes(deb_bytes(deb_control("curl"), members=[Member(name="./usr/bin/curl", data=b"2")]))
    engine = FakeEngine()
    with pytest.raises(IntegrityError) as caught:
        build(archive, engine, tmp_path)
    assert caught.value.message == (
        f"curl_1.0_all.deb in the store was altered: expected sha256 {path.name}, "
        f"found {sha256_bytes(path.read_bytes())}"
    )
    assert engine.step is None


def test_a_missing_file_is_refused(archive: Archive, tmp_path: Path) -> None:
    """A package that was never fetched is named, with the command that gets it."""
    sha256 = archive.packages[2].sha256
    archive.path(sha256).unlink()
    with pytest.raises(IntegrityError) as caught:
        build(archive, FakeEngine(), tmp_path)
    assert caught.value.message == f"git_1.0_all.deb is not in the store (sha256 {sha256})"
    assert caught.value.hint == "envbuild fetch"


def test_another_package_under_a_locked_name_is_refused(archive: Archive, tmp_path: Path) -> None:
    """What the control file states must be what the lock has."""
    archive.packages[2] = msgspec.structs.replace(archive.packages[2], version="2.0")
    with pytest.raises(IntegrityError) as caught:
        build(archive, FakeEngine(), tmp_path)
    assert caught.value.message == "git_1.0_all.deb: Version: expected '2.0' as locked, found '1.0'"


def test_a_hostile_package_never_reaches_the_container(archive: Archive, tmp_path: Path) -> None:
    """Members of packages that are not seeded are checked as well, and nothing is written."""
    archive.add("evil", [Member(name="../../etc/cron.d/x", data=b"x")])
    engine = FakeEngine()
    with pytest.raises(BuildError) as caught:
        build(archive, engine, tmp_path)
    assert caught.value.message == (
        "evil_1.0_all.deb: its member '../../etc/cron.d/x' is refused: not a path of plain components; "
        "nothing was written"
    )
    assert engine.step is None
    assert list((tmp_path / "out").iterdir()) == []


def test_a_package_locked_twice_is_refused(archive: Archive, tmp_path: Path) -> None:
    """One name, one package."""
    archive.packages.append(archive.packages[2])
    with pytest.raises(BuildError, match=r"^the lock names the OS package git twice$"):
        build(archive, FakeEngine(), tmp_path)


def _reversed(os: Os) -> Os:
    return msgspec.structs.replace(os, packages=tuple(reversed(os.packages)))


def _dated(os: Os) -> Os:
    return msgspec.structs.replace(os, snapshot="20260101T000000Z")


def _moved(os: Os) -> Os:
    packages = tuple(msgspec.structs.replace(item, archive="other", path=f"a/{item.file}") for item in os.packages)
    return msgspec.structs.replace(os, packages=packages)


def _fewer(os: Os) -> Os:
    return msgspec.structs.replace(os, packages=os.packages[1:])


def _other_bytes(os: Os) -> Os:
    first = msgspec.structs.replace(os.packages[0], sha256="0" * 64)
    return msgspec.structs.replace(os, packages=(first, *os.packages[1:]))


@pytest.mark.parametrize(
    ("change", "same"),
    [(_reversed, True), (_dated, True), (_moved, True), (_fewer, False), (_other_bytes, False)],
)
def test_the_key_depends_on_bytes_alone(archive: Archive, change: Callable[[Os], Os], same: bool) -> None:
    """Order, dates and mirrors do not matter to the cache; packages do."""
    assert (os_key(change(archive.os)) == os_key(archive.os)) is same
