"""A lock whose packages and wheels no mirror and no index has any more: built again from what is next to its image.

The archive is made here of Debian 12's packages, two of them packed anew, so that no other mirror has their bytes.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from envbuild.lockfile import model as locks
from tests.support.archives import SuiteMaker, keyring
from tests.support.cli import Done, Project
from tests.support.images import forget_images
from tests.support.indexes import make_index
from tests.support.oslocks import real_os, shared_store
from tests.support.registry import Registry, running_registry
from tests.support.server import FileServer, Served
from tests.support.ubuntu import pool_entry
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.engine, pytest.mark.network]

WANTED = ("python3.11", "tzdata", "ca-certificates")
OWN = ("bash", "tzdata")
"""Packages that only the archive made here has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A project that was locked while everything was there, and where its image can be pushed."""

    project: Project
    registry: Registry
    server: FileServer
    then: dict[str, Served]

    def pushed(self, name: str, *options: str) -> str:
        """Push the image to a repository as the only one that is noted, and return the repository."""
        (self.project.folder / "pylock.later.published.json").unlink(missing_ok=True)
        reference = f"{self.registry.host}/team/{name}"
        self.project.must("push", reference, "--write", *options)
        return reference

    def clone(self, folder: Path) -> Project:
        """Return a copy of the project that asks the same index."""
        copy = self.project.copy(folder)
        del copy.environ["PIP_NO_INDEX"]
        return copy

    def elsewhere(self, folder: Path) -> Project:
        """Return a clone of the project on a machine with an empty store."""
        copy = self.clone(folder)
        copy.store = folder / "store"
        copy.environ["ENVBUILD_STORE"] = str(copy.store)
        return copy


def _write_archive(root: Path) -> None:
    """Write Debian's three suites, with packages of the real archive."""
    system = real_os("debian-12", *WANTED)
    entries = [
        pool_entry(root, shared_store().path(package.sha256), repack=package.name in OWN, archive="debian")
        for package in system.packages
    ]
    for archive, suite, stanzas in (
        ("debian", "bookworm", entries),
        ("debian", "bookworm-updates", []),
        ("debian-security", "bookworm-security", []),
    ):
        fields = {"Origin": "Debian", "Label": "Debian", "Suite": suite, "Codename": suite}
        SuiteMaker(archive=archive, suite=suite, stanzas=stanzas, fields=fields).write(root)


@pytest.fixture(scope="module", name="case")
def _case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    root = tmp_path_factory.mktemp("later")
    _write_archive(root / "mirror")
    make_index(root / "index", [make_wheel(root / "wheels", "tool", "1.0")])
    (root / "registry").mkdir()
    with FileServer() as server, running_registry(root / "registry") as registry:
        server.add_tree(root / "mirror")
        server.add_tree(root / "index", "/index")
        project = Project(folder=root / "project", store=root / "store")
        del project.environ["PIP_NO_INDEX"]
        project.environ |= {
            "PIP_INDEX_URL": f"{server.url}/index/simple",
            "ENVBUILD_DEBIAN_KEYS": str(keyring(root / "debian.pgp")),
        }
        system = f"{{release: debian-12, mirror: '{server.url}/debian'}}"
        project.write("spec.yaml", f"name: later\nos: {system}\nrequirements: [tool]\n")
        project.must("lock")
        project.must("fetch")
        then = dict(server.files)
        server.files.clear()  # the years have passed
        yield Case(project=project, registry=registry, server=server, then=then)
    forget_images("envbuild/later")


def _config(project: Project) -> str:
    return str(json.loads((project.folder / "pylock.later.image.json").read_bytes())["config"])


def _gone(done: Done) -> str:
    """Return the message of a command that found files nowhere; some packages any mirror of Debian still has."""
    assert done.code == 13, done.out + done.err
    assert re.match(r"envbuild: \d+ of \d+ files could not be fetched\n", done.err)
    return done.err


def test_it_is_built_again_from_the_bundle_next_to_its_image(case: Case, tmp_path: Path) -> None:
    """A clone with an empty store asks where the image was pushed, on its own, and builds the very same image."""
    reference = f"{case.registry.host}/team/kept"
    pushed = case.project.must("push", reference, "--bundle", "--write")
    lock = locks.load(case.project.folder / "pylock.later.toml")
    files = len(lock.os.packages) + len(lock.packages) + 1
    assert re.search(
        rf"^bundle +oci://{re.escape(reference)}:later-[0-9a-f]{{12}} .* of {files} files held$", pushed.out, re.M
    )
    other = case.elsewhere(tmp_path)
    image, bundle = _config(other), json.loads((other.folder / "pylock.later.published.json").read_bytes())["bundles"]
    (other.folder / "pylock.later.image.json").unlink()
    built = other.must("build", "--output", f"oci:{tmp_path / 'image'}")
    assert f" files that no mirror or index has came from oci://{reference}\n" in built.out + built.err
    assert (_config(other), bundle) == (image, [reference])
    again = case.project.must("push", reference, "--bundle", "--json").json
    assert (again["bundle"]["sent"], again["bundle"]["tag"]) == (0, f"later-{locks.lock_digest(lock)[:12]}")


def test_without_a_bundle_the_message_lists_places_and_ways(case: Case, tmp_path: Path) -> None:
    """Store, mirrors, snapshot service and registry are named, and each way out; the one for a kept copy works."""
    reference = case.pushed("bare")
    case.project.must("store", "push", str(tmp_path / "kept"))
    other = case.elsewhere(tmp_path / "clone")
    message = _gone(other("build", "--output", f"oci:{tmp_path / 'image'}"))
    assert [name for name in ("bash_", "tool-1.0") if f" {name}" not in message] == []
    for place in (f"the store {other.store}", "Debian's snapshot service: ", f"oci://{reference}: it has the image"):
        assert place in message
    for way in ("envbuild fetch --from DIR", "envbuild store pull PLACE", f"envbuild pull {case.registry.host}/team/"):
        assert way in message
    other.must("store", "pull", str(tmp_path / "kept"))
    (other.folder / "pylock.later.image.json").unlink()
    other.must("build", "--offline", "--output", f"oci:{tmp_path / 'image'}")
    assert _config(other) == _config(case.project)


def test_a_registry_that_does_not_answer_is_one_more_place(case: Case, tmp_path: Path) -> None:
    """The files that are gone are the error, not the registry."""
    case.pushed("lost")
    other = case.elsewhere(tmp_path)
    path = other.folder / "pylock.later.published.json"
    path.write_text(path.read_text().replace(case.registry.host, "127.0.0.1:1"))
    message = _gone(other("fetch"))
    assert re.search(r"^ *oci://127\.0\.0\.1:1/team/\w+: ", message, re.M)


def test_lock_offers_to_keep_the_files(case: Case, tmp_path: Path) -> None:
    """For an image that was pushed without them; the command that is named ends it."""
    reference = case.pushed("offered")
    mine = case.clone(tmp_path)
    case.server.files.update(case.then)
    (note,) = mine.must("lock", "--json").json["notes"]
    command = note.partition("to keep them there: ")[2]
    assert command == f"envbuild push {reference} --bundle --write"
    mine.must(*shlex.split(command)[1:])
    assert mine.must("lock", "--json").json["notes"] == []
    case.server.files.clear()
