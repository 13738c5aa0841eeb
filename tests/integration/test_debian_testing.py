"""Debian's testing as it was at a time: locked over a snapshot service, built, run, and built again equally."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.lockfile import model as locks
from tests.support.cli import Project
from tests.support.images import forget_images
from tests.support.snapshots import SnapshotServer, latest

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

SPEC = "name: testing\nos: {release: debian-testing, snapshot: %s}\npackages: [libffi8]\n"
PROGRAM = """\
import ctypes, json, pathlib, platform, ssl, zoneinfo
print(json.dumps({
    "python": platform.python_version_tuple()[:2],
    "system": "forky" in pathlib.Path("/etc/os-release").read_text(),
    "zone": str(zoneinfo.ZoneInfo("US/Eastern")),
    "ffi": ctypes.CDLL(None).getpid() > 0,
    "installed": pathlib.Path("/var/lib/dpkg/status").read_text().count("Status: install ok installed"),
}))
"""


@pytest.fixture(scope="module", name="project")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    root = tmp_path_factory.mktemp("testing")
    home = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "UV_", "XDG_")) or key == "HOME"}
    project = Project(folder=root / "project", store=root / "store", environ=home)
    with SnapshotServer() as server:
        project.environ["ENVBUILD_DEBIAN_SNAPSHOT"] = server.url
        project.write("spec.yaml", SPEC % latest("forky"))
        project.write("train.py", PROGRAM)
        project.must("lock")
        project.must("build")
        yield project
    forget_images("envbuild/testing")


def _lock(project: Project) -> locks.Lock:
    return locks.load(project.folder / "pylock.testing.toml")


def test_the_lock_is_dated(project: Project) -> None:
    """The time is in the lock, the suites are testing's, and nothing of a note that tells of packages that vanish."""
    lock = _lock(project)
    assert lock.os.snapshot == latest("forky")
    assert [suite.name for suite in lock.os.suites] == ["forky", "forky-updates", "forky-security"]
    assert lock.python.version == "3.14"
    assert "debian-testing changes every day" not in project.must("lock").err


def test_a_program_runs_in_it(project: Project) -> None:
    """Every package was installed by its own scripts; two runs are equal."""
    one, two = (project.must("run", "train.py").out for _ in range(2))
    assert one == two
    assert json.loads(one.splitlines()[-1]) == {
        "python": ["3", "14"],
        "system": True,
        "zone": "US/Eastern",
        "ffi": True,
        "installed": len(_lock(project).os.packages),
    }


def test_it_is_built_again_equally(project: Project, tmp_path: Path) -> None:
    """A build from nothing gives the same bits."""
    project.must("build", "--verify", "--output", f"oci:{tmp_path / 'image'}")
