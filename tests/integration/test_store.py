"""``envbuild store`` with real builds: shared work, collections, damage, and copies to other machines."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.digest import sha256_file
from envbuild.lockfile import model as locks
from envbuild.store import leases
from envbuild.store.bundle import files_of
from envbuild.store.gc import Rules, chosen, collect
from envbuild.store.inventory import inventory
from envbuild.store.objects import Store
from envbuild.store.roots import find_roots
from tests.support.cli import Project, alter, finish
from tests.support.images import forget_images
from tests.support.indexes import make_index
from tests.support.registry import running_registry
from tests.support.server import FileServer
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.engine, pytest.mark.network]

NOWHERE: dict[str, Any] = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
EVERYTHING = Rules(needed=frozenset(), oldest=2.0**40, now=2.0**40, largest=0)
"""Takes all that no command uses, as if no lock were known and all were old."""


@pytest.fixture(name="own")
def _own(made: Project, tmp_path: Path) -> Project:
    """A copy of the built project with a separate store, which knows no other lock."""
    project = made.copy(tmp_path, own_store=True)
    shutil.rmtree(project.store / "locks")
    project.must("build", "--output", "oci:out.tar", "--offline")  # notes what the lock needs
    return project


def _lock(project: Project) -> locks.Lock:
    (path,) = project.folder.glob("pylock.*.toml")
    return locks.load(path)


def _image(project: Project) -> str:
    (path,) = project.folder.glob("pylock.*.image.json")
    return str(json.loads(path.read_bytes())["config"])


def _files(store: Path) -> set[str]:
    return {path.parent.name + path.name for path in store.glob("sha256/*/*")}


def _layers(store: Path) -> set[str]:
    return {path.name for path in (store / "derived" / "layers").iterdir() if path.is_dir()}


@pytest.fixture(name="pair")
def _pair(made: Project, tmp_path: Path) -> Iterator[tuple[Project, Project, FileServer]]:
    """Two locked projects with the same wheels from one index, over one store that has OS packages only."""
    unique = uuid.uuid4().hex[:8]
    wheels = [make_wheel(tmp_path / "made", f"shared{part}", metadata={"Summary": unique}) for part in "ab"]
    make_index(tmp_path / "index", wheels)
    with FileServer() as server:
        server.add_tree(tmp_path / "index")
        environ = {"PIP_NO_INDEX": "", "PIP_INDEX_URL": f"{server.url}/simple/"}
        projects = []
        for name in ("one", "two"):
            folder, store = tmp_path / name / "project", tmp_path / "store"
            project = Project(folder=folder, store=store, environ={**made.environ, **environ})
            spec = (made.folder / "spec.yaml").read_text().replace("[tool]", "[shareda, sharedb]")
            spec = spec.replace("wheels: [wheels]\n", "").replace("name: clitest", f"name: {name}{unique}")
            project.write("spec.yaml", spec)
            project.must("lock")
            projects.append(project)
        for package in _lock(projects[0]).os.packages:
            if Store(made.store).has(package.sha256):  # the archive may have got an update since that one was locked
                Store(tmp_path / "store").add_file(Store(made.store).path(package.sha256), package.sha256)
        server.requests.clear()
        yield projects[0], projects[1], server
    forget_images(*(f"envbuild/{name}{unique}" for name in ("one", "two")))


def test_two_builds_share_their_work_during_a_collection(pair: tuple[Project, Project, FileServer]) -> None:
    """Two projects built at once download each file once and make each common layer once, while a collection takes
    all that nobody uses, again and again, as if no lock were known."""
    *projects, server = pair
    store = Store(projects[0].store)
    stray = store.add_bytes(b"nobody uses this")
    leases.end(store.root)
    processes = [project.start("build") for project in projects]
    both = sorted(process.pid for process in processes)
    rounds, gone, late = 0, set(), set()
    while any(process.poll() is None for process in processes):
        if leases.users(store.root) == both:
            taken = {thing.name for thing in collect(store, chosen(inventory(store, {}), EVERYTHING))}
            gone |= taken
            late |= taken if leases.users(store.root) != both else set()  # one ended meanwhile: nobody used its things
            rounds += 1
        time.sleep(0.02)
    done = [finish(process) for process in processes]
    assert [one.code for one in done] == [0, 0], "\n".join(one.err for one in done)
    assert (rounds > 20, stray in gone) == (True, True)
    fetched = [request.target for request in server.requests if request.method == "GET" and ".whl" in request.target]
    assert sorted(fetched) == [f"/files/shared{part}-1.0-py3-none-any.whl" for part in "ab"]
    uses = {
        holder.lock.path: {name for name in holder.lock.derived if "layers/" in name} for holder in find_roots(store)
    }
    used = list(uses.values())
    said = [uses, *(one.err for one in done)]
    assert (len(used[0] & used[1]), len(used[0] | used[1])) == (3, 5), said  # OS, environment, bytecode; the lock's own
    # The last round may begin while both run, and take after one or both have ended; what it took may be made again.
    assert (used[0] | used[1]) - late <= {f"layers/{name}" for name in _layers(store.root)} <= used[0] | used[1]
    listing = projects[0].must("store", "ls").out
    for project in projects:
        files = {piece.digest for piece in files_of(_lock(project))}
        there = files & _files(store.root)
        assert files - there <= late
        (path,) = project.folder.glob("pylock.*.toml")
        own = uses[str(path)] - (used[0] & used[1])
        own_size = r"[\d.]+ [kM]B" if own <= {f"layers/{name}" for name in _layers(store.root)} else r"[\d.]+ [kM]?B"
        sizes = r"\d+ MB +\d+ MB" if not late else r"[\d.]+ [kM]?B +[\d.]+ [kM]?B"
        assert re.search(rf"^{path} +{len(there)} of {len(files)} +{sizes} +{own_size}  today$", listing, re.M), listing
    collect(store, chosen(inventory(store, {}), EVERYTHING))
    assert (_files(store.root), _layers(store.root)) == (set(), set())  # only the register would have kept them


def test_what_locks_need_stays(own: Project) -> None:
    """``gc`` keeps what a lock needs as long as its file is there, and then takes everything; ``--dry-run`` nothing."""
    other = own.folder.parent / "other.toml"
    own.must("store", "gc", "--older-than", "0")  # what other tests made in the store that this one is a copy of
    files, layers = _files(own.store), _layers(own.store)
    extra = Store(own.store).add_bytes(b"nobody needs this")
    leases.end(own.store)  # this process asked for it
    text = own.must("store", "gc", "--older-than", "0", "--max-size", "0", "--json").json
    assert [thing["id"] for thing in text["removed"] if "/" not in thing["id"]] == [extra]
    assert (_files(own.store), _layers(own.store)) == (files, layers)
    (path,) = own.folder.glob("pylock.*.toml")
    path.rename(other)
    kept = own.must("store", "gc", "--older-than", "0", "--keep-lock", str(other), "--dry-run", "--json").json
    assert {thing["kind"] for thing in kept["removed"]} == {"layers", "bytecode"}
    dry = own.must("store", "gc", "--older-than", "0", "--dry-run", "--json").json
    assert _files(own.store) == files
    done = own.must("store", "gc", "--older-than", "0", "--verbose")
    text = (
        r"^removed +2 wheels +[\d.]+ kB\n +\d+ os packages +\d+ MB\n +4 layers +\d+ MB\n +\d bytecode +[\d.]+ [kM]B\n"
    )
    assert re.search(text, done.out, re.M), done.out
    assert re.search(r"^gc +\d+ MB freed  [\d.]+ [kM]?B left, 0 B of it needed by locks +[\d.]+ s$", done.out, re.M), (
        done.out
    )
    assert {thing["id"] for thing in dry["removed"]} == set(re.findall(r"  (\S+)  [\d.]+ k?M?B$", done.err, re.M))
    assert (_files(own.store), _layers(own.store)) == (set(), set())
    assert own.must("store", "ls", "--json").json["locks"] == []


def test_damage_is_found_and_repaired(own: Project) -> None:
    """``store verify`` names damaged files and layers, removes them and fetches the files again; else exit 13."""
    lock, store = _lock(own), Store(own.store)
    assert re.fullmatch(
        r"verify +\d+ files  \d+ layers and the like  \d+ MB  [\d.]+ [kMG]B/s +[\d.]+ s\n",
        own.must("store", "verify").out,
    )
    wheel, deb = lock.packages[0].wheel, min(lock.os.packages, key=lambda package: package.size)
    layer = min((folder / "layer.tar" for folder in own.layers()), key=lambda path: path.stat().st_size)
    for path in (store.path(wheel.sha256), store.path(deb.sha256), layer):
        alter(path)
    done = own.must("store", "verify")
    assert f"damaged   {wheel.name}  (clitest)  removed\n" in done.out
    assert f"damaged   {deb.file}  (clitest)  removed\n" in done.out
    assert f"damaged   layers: layers/{layer.parent.name}  (clitest)  removed\n" in done.out
    assert "note      1 layer and the like: the next build that needs them makes them again\n" in done.out
    assert sha256_file(store.path(wheel.sha256)) == wheel.sha256
    assert sha256_file(store.path(deb.sha256)) == deb.sha256
    assert not layer.exists()
    alter(store.path(wheel.sha256))
    done = own("store", "verify", "--offline", "--json")
    assert (done.code, done.json["missing"]) == (13, [wheel.name])
    assert done.err.endswith(
        f"envbuild: 1 file in the store {own.store} had other bytes than locked; removed\n"
        f"  {wheel.name}: not fetched, as asked\n  → bring them in again: envbuild fetch\n"
    )
    shutil.rmtree(own.folder / "wheels")
    own.must("store", "verify")  # nothing is damaged now, only missing


def test_a_damaged_layer_is_named_and_the_next_build_heals(own: Project) -> None:
    """A layer altered in the store is not shipped: exit 13, and the next build makes it again."""
    before = _image(own)
    layer = min((folder / "layer.tar" for folder in own.layers()), key=lambda path: path.stat().st_size)
    alter(layer)
    written = (own.folder / "out.tar").stat().st_mtime_ns
    done = own("build", "--output", "oci:out.tar")
    assert (done.code, done.out) == (13, ""), done.err
    assert done.err == (
        f"envbuild: 1 layer in the store {own.store} had other bytes than when made; removed\n"
        "  → make what is missing: envbuild build\n"
    )
    assert (own.folder / "out.tar").stat().st_mtime_ns == written
    own.must("build", "--output", "oci:out.tar")
    assert _image(own) == before


@pytest.fixture(name="place", params=["folder", "registry"])
def _place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """What to push to, and the folder that holds its blobs."""
    if request.param == "folder":
        yield str(tmp_path / "carry"), tmp_path / "carry"
        return
    (tmp_path / "registry").mkdir()
    with running_registry(tmp_path / "registry") as registry:
        yield f"oci://{registry.host}/team/store", tmp_path / "registry"


def _blob(folder: Path, digest: str) -> Path:
    (found,) = [path for path in folder.rglob("*") if path.is_file() and digest in str(path) and path.name != "link"]
    return found


def test_a_store_filled_from_elsewhere(own: Project, place: tuple[str, Path], tmp_path: Path) -> None:
    """Another machine's store is filled from a folder or a registry, layers included: a build needs nothing else."""
    name, folder = place
    lock = _lock(own)
    number = len(files_of(lock))
    sent = own.must("store", "push", "--layers", name, "--json").json["pushed"][0]
    again = own.must("store", "push", "--layers", name)
    assert sent["sent"] > number + 3
    assert re.match(rf"push +clitest +0 files, {sent['sent']:,} there already +[\d.]+ s\n", again.out), again.out
    other = Project(folder=own.folder, store=tmp_path / "other", environ=own.environ)
    pulled = other.must("store", "pull", "--layers", name, "--json").json["pulled"][0]
    assert (pulled["files"], pulled["layers"]) == (number, 4)
    assert _files(other.store) == {piece.digest for piece in files_of(lock)}
    other.must("build", "--offline", "--output", "oci:out.tar", **NOWHERE)
    assert _image(other) == _image(own)
    assert other.must("store", "pull", name).out.startswith(f"pull      clitest             0 files, {number} there")
    # What is there is not trusted: neither a file nor a layer with other bytes comes in.
    wheel = lock.packages[0].wheel
    alter(_blob(folder, wheel.sha256))
    Store(other.store).path(wheel.sha256).unlink()
    done = other("store", "pull", name)
    assert (done.code, Store(other.store).path(wheel.sha256).exists()) == (13, False), done.err
    assert "Traceback" not in done.err


def test_what_a_place_lacks_is_named(own: Project, tmp_path: Path) -> None:
    """A folder without the lock gives what it has; the rest is named, exit 13. Everything comes with ``--all``."""
    carry = tmp_path / "carry"
    own.must("store", "push", "--all", str(carry))
    lock = _lock(own)
    wheel = lock.packages[0].wheel
    (carry / "index.json").rename(carry / "index.old")
    (carry / "blobs" / "sha256" / wheel.sha256).unlink()
    other = Project(folder=own.folder, store=tmp_path / "other", environ=own.environ)
    done = other("store", "pull", str(carry))
    assert done.code == 13
    assert done.err == (
        f"envbuild: {carry} lacks 1 file of pylock.clitest.toml\n  {wheel.name}\n"
        "  → fetch the rest: envbuild fetch; or push them where they are: envbuild store push\n"
    )
    assert len(_files(other.store)) == len(files_of(lock)) - 1
    (carry / "index.old").rename(carry / "index.json")
    assert own.must("store", "push", str(carry), "--json").json["pushed"][0]["sent"] == 1
    empty = Project(folder=tmp_path / "empty", store=tmp_path / "third", environ=own.environ)
    empty.must("store", "pull", "--all", str(carry))
    assert _files(empty.store) == {piece.digest for piece in files_of(lock)}


def test_other_tools_copy_a_folder(own: Project, tmp_path: Path) -> None:
    """skopeo reads the folder as an OCI image layout, so that any such tool can carry it to a registry."""
    own.must("store", "push", str(tmp_path / "carry"))
    tag = json.loads((tmp_path / "carry" / "index.json").read_bytes())["manifests"][0]["annotations"]
    name = f"oci:{tmp_path / 'carry'}:{tag['org.opencontainers.image.ref.name']}"
    raw = subprocess.run(["skopeo", "inspect", "--raw", name], check=True, capture_output=True, env=os.environ).stdout
    assert len(json.loads(raw)["layers"]) == len(files_of(_lock(own)))
