"""``envbuild fetch``, ``build`` and ``context`` as users run them, and what faults leave behind."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from envbuild.core.digest import sha256_file
from envbuild.engine.docker import owner
from envbuild.engine.docker.step import STEP_LABEL
from envbuild.lockfile import model as locks
from envbuild.store.objects import Store
from tests.support.cli import Project, alter, finish
from tests.support.images import forget_images
from tests.support.locks import sealed
from tests.support.mounts import unmount
from tests.support.wheels import Member, make_wheel

pytestmark = [pytest.mark.engine, pytest.mark.network]

CUT = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--net")
"""Runs a command without network; the engine is reached by its socket in the file system."""
NOWHERE: dict[str, Any] = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}


@pytest.fixture(name="own")
def _own(made: Project, tmp_path: Path) -> Project:
    """A copy of the built project with a separate store."""
    return made.copy(tmp_path, own_store=True)


def _identity(project: Project) -> dict[str, Any]:
    return dict(json.loads((project.folder / "pylock.clitest.image.json").read_bytes()))


def _lock(project: Project) -> locks.Lock:
    return locks.load(project.folder / "pylock.clitest.toml")


def _forget_image(project: Project, *, recorded: bool = False) -> None:
    """Remove the image from the engine, and its record if asked for."""
    forget_images(_identity(project)["reference"])
    if not recorded:
        (project.folder / "pylock.clitest.image.json").unlink()


def _forget_layers(project: Project, *, system: bool) -> None:
    """Remove the kept OS layer, which is the largest, or all others."""
    folders = sorted((project.store / "derived" / "layers").iterdir(), key=lambda f: (f / "layer.tar").stat().st_size)
    for folder in folders[-1:] if system else folders[:-1]:
        shutil.rmtree(folder)


def _leftovers(project: Project) -> list[str]:
    """Name what only a command in progress may have in the store."""
    names = [str(path.relative_to(project.store)) for path in project.store.rglob("*")]
    parts = {f"{package.sha256}" for package in _lock(project).os.packages}
    return [name for name in names if ".tmp" in name or (name.startswith("part/") and name[5:] in parts)]


def test_lock_fetch_build(made: Project) -> None:
    """The main path: each command states what it did, all files are vendored, and the engine has the image."""
    wrote = (made.folder / "build.out").read_text().splitlines()
    identity = _identity(made)
    names = ["config", "layers", "layout", "lock", "manifest", "recipe", "reference", "sizes"]
    assert sorted(identity) == names
    shown = rf"image +clitest +sha256:{identity['config'][:12]}… +\d+ MB in 4 layers +\d+\.\d s"
    assert re.fullmatch(shown, wrote[-1])
    vendor = made.folder.parent / "vendor"
    lock = _lock(made)
    assert sorted(path.name for path in (vendor / "wheels").iterdir()) == [
        "part-1.5-py3-none-any.whl",
        "tool-1.0-py3-none-any.whl",
    ]
    assert {path.name for path in (vendor / "debs").iterdir()} == {package.file for package in lock.os.packages}
    assert f"vendor    {vendor}" in (made.folder / "fetch.out").read_text()
    client = docker.from_env()
    image = client.images.get(identity["reference"])
    client.close()
    assert image.id in (f"sha256:{identity['config']}", f"sha256:{identity['manifest']}")
    assert f"nothing to do: docker has {identity['reference']}" in made.must("build").out.lower()
    assert made.must("build", "--json").json == identity


@pytest.mark.parametrize("place", ["image", "image.tar"])
def test_output_is_an_oci_layout(project: Project, place: str) -> None:
    """``--output`` writes a layout whose every blob has its digest; with layers kept it needs no engine."""
    identity = _identity(project)
    project.must("build", "--output", f"oci:{place}", "--offline", **NOWHERE)
    folder = project.folder / place
    if place.endswith(".tar"):
        folder = project.folder / "unpacked"
        with tarfile.open(project.folder / place) as archive:
            archive.extractall(folder)
    assert json.loads((folder / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    blobs = {path.name: path for path in (folder / "blobs" / "sha256").iterdir()}
    assert [name for name, path in blobs.items() if sha256_file(path) != name] == []
    (entry,) = json.loads((folder / "index.json").read_bytes())["manifests"]
    assert entry["digest"] == f"sha256:{identity['manifest']}"
    manifest = json.loads(blobs[identity["manifest"]].read_bytes())
    assert manifest["config"]["digest"] == f"sha256:{identity['config']}"
    config = json.loads(blobs[identity["config"]].read_bytes())
    layers = [layer["digest"].removeprefix("sha256:") for layer in manifest["layers"]]
    assert [f"sha256:{layer}" for layer in layers] == config["rootfs"]["diff_ids"]
    assert [blobs[layer].stat().st_size for layer in layers] == [layer["size"] for layer in manifest["layers"]]
    assert set(blobs) == {identity["manifest"], identity["config"], *layers}
    assert _identity(project) == identity


def test_everything_works_with_the_network_cut(project: Project) -> None:
    """From a filled store, build and run need nothing but the engine's socket; the digest is the same."""
    before = _identity(project)
    _forget_image(project)
    (project.folder / "t.py").write_text("import tool, part; print(part.__version__)\n")
    done = project.must("build", prefix=CUT)
    assert _identity(project) == before
    assert done.err == ""
    assert project.must("run", "t.py", prefix=CUT).out == "1.5\n"
    assert project.must("lock", "--check", prefix=CUT).code == 0


def test_run_builds_what_is_missing(project: Project) -> None:
    """``run`` of a lock whose image is not there builds it first; the program's output stays alone."""
    _forget_image(project, recorded=True)
    (project.folder / "t.py").write_text("print('mine')\n")
    done = project.must("run", "t.py")
    assert done.out == "mine\n"
    assert "(reproduces the recorded digest)" in done.err


def test_offline_names_what_is_missing(own: Project) -> None:
    """``--offline`` with a file missing is exit 13 and names it; ``--from`` a vendored folder supplies it."""
    wheel = _lock(own).packages[0].wheel
    Store(own.store).path(wheel.sha256).unlink()
    _forget_image(own)
    _forget_layers(own, system=False)
    done = own("build", "--offline")
    assert (done.code, done.out) == (13, "")
    assert wheel.name in done.err
    vendor = str(own.folder.parent / "vendor")
    shutil.copytree(Path(own.environ["HOME"]).parent / "vendor", vendor)
    own.must("build", "--offline", "--from", vendor, prefix=CUT)


@pytest.mark.parametrize("field", ["layers", "sizes", "manifest"])
def test_a_record_that_somebody_edited_is_made_anew(project: Project, field: str) -> None:
    """An image that is there is no reason to believe what else the record has: it was "nothing to do"."""
    path = project.folder / "pylock.clitest.image.json"
    project.must("build")
    written = path.read_text()
    table = json.loads(written)
    if field == "manifest":
        table["manifest"] = "0" * 64
    else:
        table[field][0] = "0" * 64 if field == "layers" else table[field][0] + 1
    path.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n")
    done = project.must("build")
    assert "nothing to do" not in done.out
    named = f"{path.name} had other {field} than the image that it names, and is replaced"
    assert named in done.out + done.err
    assert path.read_text() == written


def test_another_digest_than_recorded_is_refused(project: Project) -> None:
    """Exit 16 with both digests; the record and the engine keep what they had."""
    path = project.folder / "pylock.clitest.image.json"
    built = _identity(project)["config"]
    path.write_text(path.read_text().replace(built, "0" * 64))
    done = project("build")
    assert (done.code, done.out) == (16, "")
    assert done.err == (
        "envbuild: the image is not the one recorded in pylock.clitest.image.json\n"
        f"  recorded  sha256:{'0' * 64}\n  built     sha256:{built}\n"
        "  → compare both with diffoscope, and report it: the same lock must give the same image\n"
    )
    assert _identity(project)["config"] == "0" * 64


@pytest.mark.parametrize("kind", ["wheel", "deb"])
def test_a_tampered_store_file_is_named_and_a_fetch_heals(own: Project, kind: str) -> None:
    """Exit 13: a file altered in the store, its size kept, is not used; ``fetch`` brings it in again."""
    lock, before = _lock(own), _identity(own)["config"]
    package = next(package for package in lock.os.packages if package.name == "libpython3.11-minimal")
    name, sha256 = (package.file, package.sha256) if kind == "deb" else (lock.packages[0].wheel.name, "")
    sha256 = sha256 or lock.packages[0].wheel.sha256
    store = Store(own.store)
    alter(store.path(sha256))
    _forget_image(own)
    _forget_layers(own, system=kind == "deb")
    done = own("build")
    assert (done.code, done.out) == (13, "")
    assert done.err == (
        f"envbuild: 1 file in the store {own.store} had other bytes than locked; removed\n"
        f"  {name}: expected sha256 {sha256}\n  → bring them in again: envbuild fetch\n"
    )
    assert not store.has(sha256)
    own.must("fetch")
    assert sha256_file(store.path(sha256)) == sha256
    if kind == "wheel":
        own.must("build")
        assert _identity(own)["config"] == before


def test_fetch_reads_what_the_store_holds(own: Project) -> None:
    """``fetch`` notices damaged files by itself and brings them in again."""
    wheel = _lock(own).packages[0].wheel
    alter(Store(own.store).path(wheel.sha256))
    own.must("fetch")
    assert sha256_file(Store(own.store).path(wheel.sha256)) == wheel.sha256


def test_a_tampered_lock(project: Project) -> None:
    """Exit 11 for a lock that was edited or contradicts itself; exit 13 for one that asks for bytes nobody has."""
    path, wheel = project.folder / "pylock.clitest.toml", _lock(project).packages[0].wheel
    text, other = path.read_text(), "0" * 64
    path.write_text(text.replace('version = "1.5"', 'version = "1.6"'))
    done = project("build")
    assert (done.code, done.out) == (11, "")
    assert done.err.startswith("envbuild: pylock.clitest.toml: ")
    path.write_text(text.replace(wheel.sha256, other))
    done = project("build")
    assert (done.code, done.out) == (11, "")
    assert "tool.envbuild.digest: the file was edited after envbuild lock wrote it" in done.err
    path.write_text(sealed(path.read_text()))
    done = project("build")
    assert (done.code, done.out) == (13, "")
    assert f"{wheel.name} with sha256 {other}" in done.err


def test_a_hostile_wheel(project: Project, made: Project) -> None:
    """Exit 14 names the wheel and the member that would climb out; nothing of it is written anywhere."""
    member = Member(name="../../../../evil", data=b"x")
    make_wheel(project.folder / "wheels", "hostile", members=[member])
    text = (project.folder / "spec.yaml").read_text()
    project.write("spec.yaml", text.replace("[tool]", "[tool, hostile]"))
    project.must("lock")
    done = project("build")
    assert (done.code, done.err.count("hostile-1.0-py3-none-any.whl")) == (14, 1), done.err
    assert "../../../../evil" in done.err
    assert "Traceback" not in done.err


def test_no_engine(project: Project) -> None:
    """Exit 15: what was tried, and how to get an engine."""
    for command in (["build"], ["run", "-c", "1"]):
        done = project(*command, **NOWHERE)
        assert (done.code, done.out) == (15, "")
        assert done.err == (
            "envbuild: no container engine answers; tried\n"
            "  unix:///nowhere/docker.sock (DOCKER_HOST): No such file or directory\n"
            "  → start the engine there, or look elsewhere: unset DOCKER_HOST\n"
        )


def test_a_context_is_complete(project: Project) -> None:
    """``context`` writes a Dockerfile with its files and the next command, and refuses a folder that holds others."""
    done = project.must("context", "made", "--offline", prefix=CUT)
    assert done.out.endswith("next      docker build --network=none made\n")
    context = project.folder / "made"
    assert (context / "Dockerfile").read_bytes() == (project.folder / "Dockerfile").read_bytes()
    assert sorted(path.name for path in (context / "wheels").iterdir())[0] == "part-1.5-py3-none-any.whl"
    project.write("other/mine.txt", "")
    assert project("context", "other").code == 2
    assert [path.name for path in (project.folder / "other").iterdir()] == ["mine.txt"]


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 100 MB; mounting one needs root, which the tests of this project run as."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", folder], check=True)
    yield folder
    unmount(folder)


def test_a_full_disk(project: Project, disk: Path, made: Project) -> None:
    """A store too small for the layers is exit 14, one too small for the files exit 13; nothing half-made stays."""
    _forget_image(project)
    full = Project(folder=project.folder, store=disk / "store", environ=project.environ)
    shutil.copytree(made.store / "sha256", full.store / "sha256")
    done = full("build")
    assert (done.code, done.out) == (14, ""), done.err
    assert done.err == (
        f"envbuild: the store {full.store} has no space left\n"
        "  → free some space, or choose another folder: export ENVBUILD_STORE=FOLDER\n"
    )
    assert _leftovers(full) == []
    shutil.rmtree(full.store)
    (disk / "ballast").write_bytes(bytes(90_000_000))
    done = full("fetch")
    assert (done.code, done.out) == (14, "")
    assert "space" in done.err
    assert not list(full.store.rglob("sha256/*/*"))


def test_a_killed_fetch(project: Project, tmp_path: Path) -> None:
    """kill -9 while files come in: the next fetch continues, and every file is right."""
    fresh = Project(folder=project.folder, store=tmp_path / "fresh", environ=project.environ)
    assert fresh.kill("fetch", when=lambda: any(fresh.store.glob("sha256/*/*")))
    fresh.must("fetch")
    store = Store(fresh.store)
    lock = _lock(project)
    digests = [package.sha256 for package in lock.os.packages] + [package.wheel.sha256 for package in lock.packages]
    assert [digest for digest in digests if sha256_file(store.path(digest)) != digest] == []
    assert not any(path.is_file() for path in (fresh.store / "part").glob("*"))


def _empty(made: Project, folder: Path) -> Project:
    """Copy a built project: the store has its files but nothing made of them, and the image is not recorded."""
    project = made.copy(folder, own_store=True)
    shutil.rmtree(project.store / "derived")
    (project.folder / "pylock.clitest.image.json").unlink()
    return project


def _makes_os_layer(project: Project) -> bool:
    """Whether an OS layer is half-made in the store."""
    with suppress(FileNotFoundError):  # another layer was finished while this looked
        return any((project.store / "derived" / "layers").glob(".*/.os-*"))
    return False


def _containers(pid: int) -> list[str]:
    """Containers of build steps that a process of this machine made; others' builds are at work and killed, too."""
    client: Any = docker.from_env().api
    marked = [
        (str(container["Id"]), str((container.get("Labels") or {}).get(owner.LABEL, "")))
        for container in client.containers(all=True, filters={"label": STEP_LABEL})
    ]
    client.close()
    return [identity for identity, mark in marked if mark.split()[2:3] == [str(pid)]]


def test_a_killed_build(made: Project, tmp_path: Path) -> None:
    """kill -9 while the OS layer is made: the next build drops the half, and its image is the same as ever."""
    project = _empty(made, tmp_path)
    assert project.kill("build", when=lambda: _makes_os_layer(project) and _containers(project.pid) != [])
    killed = project.pid
    assert not (project.folder / "pylock.clitest.image.json").exists()
    project.must("build")
    assert _identity(project) == _identity(made)
    assert _leftovers(project) == []
    assert _containers(killed) == []  # the container of the killed build is gone too


def test_two_builds_at_once(made: Project, tmp_path: Path) -> None:
    """Two builds from empty caches share the work: both end well, with the same image as ever."""
    project = _empty(made, tmp_path)
    processes = [project.start("build", "--json") for _ in range(2)]
    done = [finish(process) for process in processes]
    assert [one.code for one in done] == [0, 0], done
    assert [one.json for one in done] == [_identity(made)] * 2
    layers = [path for path in (project.store / "derived" / "layers").iterdir() if path.is_dir()]
    assert len(layers) == 4
    assert hashlib.sha256((layers[0] / "layer.tar").read_bytes()).hexdigest() in {
        sha256_file(path / "layer.tar") for path in (made.store / "derived" / "layers").iterdir() if path.is_dir()
    }
