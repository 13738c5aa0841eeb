"""What ``build --output`` writes is read back by other people's tools: skopeo, umoci, podman."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import docker
import pytest

from tests.support.cli import Project
from tests.support.podman import podman_service

pytestmark = [pytest.mark.engine, pytest.mark.network]

NOWHERE: dict[str, Any] = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
FORMS = "expected oci:DIR, oci:FILE.tar, oci-archive:FILE, docker-archive:FILE, sqsh:FILE or dir:DIR"
PLACES = ("oci:layout", "oci-archive:image.tar", "docker-archive:image.tar")


class Exports(NamedTuple):
    """A project whose image is in its folder as ``layout`` and ``image.tar``, and what is recorded of it."""

    folder: Path
    identity: dict[str, Any]

    @property
    def tag(self) -> str:
        """The tag without its name."""
        return str(self.identity["reference"]).rpartition(":")[2]


@pytest.fixture(scope="module", name="exports")
def _exports(made: Project, tmp_path_factory: pytest.TempPathFactory) -> Exports:
    project = made.copy(tmp_path_factory.mktemp("exports"))
    for place in PLACES[:2]:
        project.must("build", "--output", place, "--offline", **NOWHERE)
    return Exports(project.folder, json.loads((project.folder / "pylock.clitest.image.json").read_bytes()))


def output(*command: str, cwd: Path) -> bytes:
    """Run a tool, which must end well; returns what it prints."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("place", PLACES)
def test_skopeo_reads_it(exports: Exports, place: str, tmp_path: Path) -> None:
    """skopeo finds the recorded configuration, and copies every layer under its own digest."""
    source = f"oci:layout:{exports.tag}" if place.startswith("oci:") else place
    config = output("skopeo", "inspect", "--raw", "--config", source, cwd=exports.folder)
    assert hashlib.sha256(config).hexdigest() == exports.identity["config"]
    if not place.startswith("docker"):
        manifest = output("skopeo", "inspect", "--raw", source, cwd=exports.folder)
        assert hashlib.sha256(manifest).hexdigest() == exports.identity["manifest"]
    output("skopeo", "copy", source, f"dir:{tmp_path}/copy", cwd=exports.folder)
    copied = {path.name for path in (tmp_path / "copy").iterdir()}
    layers = {layer.removeprefix("sha256:") for layer in json.loads(config)["rootfs"]["diff_ids"]}
    assert layers | {exports.identity["config"]} <= copied


def test_both_archives_are_one(exports: Exports, made: Project, tmp_path: Path) -> None:
    """The docker archive and the OCI archive are the same bytes, however often they are written."""
    project = made.copy(tmp_path)
    project.must("build", "--output", "docker-archive:other.tar", "--offline", **NOWHERE)
    assert (project.folder / "other.tar").read_bytes() == (exports.folder / "image.tar").read_bytes()


def test_umoci_unpacks_what_the_engine_runs(exports: Exports, tmp_path: Path) -> None:
    """Every path that umoci unpacks has the kind, mode, owner, link and content that the engine's export has."""
    if os.geteuid() != 0:
        pytest.skip("umoci gives files to their owners as root only")
    output("umoci", "unpack", "--image", f"layout:{exports.tag}", str(tmp_path / "bundle"), cwd=exports.folder)
    found = {name: node for name, node in _unpacked(tmp_path / "bundle/rootfs") if not _engines(name)}
    expected = {name: node for name, node in _exported(exports.identity["reference"], tmp_path) if not _engines(name)}
    different = [name for name in sorted(found.keys() | expected.keys()) if found.get(name) != expected.get(name)]
    assert different == []
    assert len(found) > 3000


def test_podman_takes_the_file(exports: Exports) -> None:
    """podman's own command loads the archive under its name, with the recorded identity."""
    with podman_service() as host:
        name = f"docker.io/{exports.identity['reference']}"
        podman = ("podman", "--url", host)
        output(*podman, "load", "--input", "image.tar", cwd=exports.folder)
        try:
            found = json.loads(output(*podman, "image", "inspect", name, cwd=exports.folder))
            assert found[0]["Id"] == exports.identity["config"]
        finally:
            subprocess.run([*podman, "image", "rm", name], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("tar:x", FORMS),
        ("oci:", FORMS),
        ("docker-archive:wheels", "wheels is a folder; expected a file"),
    ],
)
def test_other_forms_are_refused(project: Project, place: str, message: str) -> None:
    """Exit 2 names what is taken, before anything is done."""
    done = project("build", "--output", place, **NOWHERE)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"envbuild: --output {place}: {message}\n  → e.g. --output oci:image.tar\n"


Node = tuple[int, int, int, str]
"""Kind with mode, owner, group, and link target or content's digest."""


def _unpacked(root: Path) -> Iterator[tuple[str, Node]]:
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = ""
        if stat.S_ISLNK(status.st_mode):
            content = str(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        yield str(path.relative_to(root)), (status.st_mode, status.st_uid, status.st_gid, content)


def _exported(reference: str, folder: Path) -> Iterator[tuple[str, Node]]:
    """Unpack what the engine gives of a container that was never started."""
    client: Any = docker.from_env(timeout=600).api
    container = client.create_container(reference, command=["true"])["Id"]
    root = folder / "exported"
    root.mkdir()
    try:
        unpack = ["tar", "--extract", "--numeric-owner", "--same-permissions", "--directory", str(root)]
        with subprocess.Popen(unpack, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            for chunk in client.export(container):
                process.stdin.write(chunk)
            process.stdin.close()
        assert process.returncode == 0
    finally:
        client.remove_container(container)
        client.close()
    yield from _unpacked(root)


def _engines(name: str) -> bool:
    """Whether a path is one that engines put into every container."""
    return name == ".dockerenv" or name.split("/")[0] in ("dev", "proc", "sys") or name in _BOUND


_BOUND = ("etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/mtab")


def listing(folder: Path, path: str) -> dict[str, str]:
    """What a SquashFS file has: mode, owner and size by path."""
    found = {}
    for line in output("unsquashfs", "-lln", path, cwd=folder).decode().splitlines():
        words = line.split()
        if len(words) >= 6 and words[5].startswith("squashfs-root"):
            found[words[5].removeprefix("squashfs-root")] = " ".join(words[:3] if words[0][0] == "-" else words[:2])
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="a folder has the image's owners only as root")
def test_the_file_system_alone_as_squashfs_and_as_a_folder(exports: Exports, made: Project, tmp_path: Path) -> None:
    """The same bytes each time; every file of the image with owner and mode, and what tells others how to start."""
    project = made.copy(tmp_path)
    for name in ("one.sqsh", "two.sqsh"):
        project.must("build", "--output", f"sqsh:{name}", "--offline", **NOWHERE)
    assert (project.folder / "one.sqsh").read_bytes() == (project.folder / "two.sqsh").read_bytes()
    project.must("build", "--output", "dir:root", "--offline", **NOWHERE)
    root = project.folder / "root"
    inside = listing(project.folder, "one.sqsh")
    outside = {f"/{path.relative_to(root)}": path.lstat() for path in root.rglob("*")}
    assert outside.keys() == {path for path in inside if path}
    owners = {path: words.split()[1] for path, words in inside.items() if path}
    assert owners == {path: f"{found.st_uid}/{found.st_gid}" for path, found in outside.items()}
    assert {"0/0"} < set(owners.values())
    assert (root / "etc/rc").read_text().startswith("#!/bin/sh\n")
    assert "PYTHONHASHSEED=" in (root / "etc/environment").read_text()
    assert "export PYTHONHASHSEED=" in (root / ".singularity.d/env/10-docker2singularity.sh").read_text()
    start = (root / "etc/rc").read_text().splitlines()[-1].split()
    assert (start[0], start[-1]) == ("exec", '"$@"')
    assert (root / start[1].lstrip("/")).is_file()


@pytest.fixture(name="elsewhere")
def _elsewhere(exports: Exports, tmp_path: Path) -> Project:
    """The project on a machine that has its lock and an export, and neither its packages nor any index."""
    project = Project(
        folder=tmp_path / "project", store=tmp_path / "store", environ=dict(NOWHERE, ENVBUILD_ENGINE="local")
    )
    for name in ("pylock.clitest.toml", "pylock.clitest.image.json", "spec.yaml"):
        project.write(name, (exports.folder / name).read_text())
    (project.folder / "wheels").mkdir()
    for wheel in (exports.folder / "wheels").iterdir():
        (project.folder / "wheels" / wheel.name).write_bytes(wheel.read_bytes())
    project.write("hello.py", "import tool; print('from a file')")
    return project


@pytest.mark.parametrize("name", ["layout", "image.tar"])
def test_a_run_takes_the_image_from_a_file(exports: Exports, elsewhere: Project, name: str) -> None:
    """``--image oci:PATH``: a folder or an archive; nothing is built, and the record has the lock's image."""
    done = elsewhere.must("run", "--offline", "--image", f"oci:{exports.folder / name}", "hello.py")
    assert done.out == "from a file\n"
    record = elsewhere.must("runs", "--json").json[0]
    assert record["image"] == exports.identity["config"]
    assert elsewhere.must("run", "-q", "hello.py").out == "from a file\n"  # the engine has it now


def test_pull_takes_a_file_too(exports: Exports, elsewhere: Project) -> None:
    """By the digest of its manifest as well; a wrong one is no image of the layout."""
    place = f"oci:{exports.folder / 'layout'}"
    assert elsewhere("pull", f"{place}@sha256:{'0' * 64}").code == 13
    elsewhere.must("pull", f"{place}@sha256:{exports.identity['manifest']}")
    assert elsewhere.must("run", "-q", "hello.py").out == "from a file\n"


def test_a_file_that_is_not_the_locks_image_is_not_run(exports: Exports, elsewhere: Project, tmp_path: Path) -> None:
    """Another lock's image, altered bytes, half a layout, no layout: refused, and nothing of it is in the engine."""
    layout = tmp_path / "altered"
    shutil.copytree(exports.folder / "layout", layout)
    largest = max((layout / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    largest.chmod(0o644)
    with largest.open("r+b") as stream:
        stream.seek(1000)
        stream.write(b"altered")
    assert "other bytes" in elsewhere("run", "--image", f"oci:{layout}", "hello.py").err
    largest.unlink()
    assert elsewhere("run", "--image", f"oci:{layout}", "hello.py").code == 13
    largest.symlink_to("/etc/passwd")
    assert elsewhere("run", "--image", f"oci:{layout}", "hello.py").code != 0
    elsewhere.write("no.tar", "no archive at all")
    assert elsewhere("run", "--image", f"oci:{elsewhere.folder / 'no.tar'}", "hello.py").code == 13
    assert elsewhere("run", "--image", "oci:nowhere", "hello.py").code == 2
    identity = dict(exports.identity, config="0" * 64)
    elsewhere.write("pylock.clitest.image.json", json.dumps(identity))
    assert elsewhere("run", "--image", f"oci:{exports.folder / 'layout'}", "hello.py").code == 16
