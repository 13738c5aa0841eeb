"""Pythons that the operating system does not have: locked, built and run, from archives in the form of the real ones.

On every machine: Debian 12's Python 3.11 on Debian 13, which has 3.13. With ``ENVBUILD_TEST_PYTHONS=FOLDER`` also each
archive in that folder on Debian 12: CPython compiled from source and packed by ``tests.support.pythons``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from envbuild.lockfile import model as locks
from tests.support.cli import Project
from tests.support.images import forget_images
from tests.support.pythons import from_debs
from tests.support.server import FileServer

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

COMPILED = Path(os.environ.get("ENVBUILD_TEST_PYTHONS", "/nonexistent"))
PROGRAM = """\
import json, os, platform, sys, sysconfig
import numpy
print(json.dumps({
    "version": platform.python_version(),
    "executable": os.path.realpath(sys.executable),
    "prefixes": [sys.prefix, sys.base_prefix],
    "cached": [os.path.exists(module.__cached__) for module in (json, numpy)],
    "extension": os.path.basename(numpy.linalg._umath_linalg.__file__).split(".", 1)[1],
    "norm": float(numpy.linalg.norm(numpy.arange(9.0).reshape(3, 3) @ numpy.eye(3))),
    "random": float(numpy.random.random()),
    "pip": os.path.exists(os.path.join(sys.base_prefix, "bin", "pip")),
}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A locked and built project, its Python's release, and the folder that the archive came from."""

    project: Project
    version: str
    folder: Path

    @property
    def lock(self) -> locks.Lock:
        """The project's lock."""
        (path,) = self.project.folder.glob("pylock.*.toml")
        return locks.load(path)

    def environ(self, mirror: str) -> dict[str, str]:
        """Variables that name another mirror."""
        return {"ENVBUILD_PYTHON_MIRROR": mirror}


@pytest.fixture(scope="module", name="case", params=["3.11", *(path.name for path in COMPILED.glob("*/*.tar.gz"))])
def _case(request: pytest.FixtureRequest, made: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    root = tmp_path_factory.mktemp("standalone")
    if request.param == "3.11":
        system, folder = "debian-13", root / "pythons"
        debs = sorted((made.folder.parent / "vendor" / "debs").glob("*.deb"))
        from_debs(debs, root / "unpacked", folder)
        (archive,) = folder.glob("*/*.tar.gz")
    else:
        system, folder = "debian-12", COMPILED
        (archive,) = folder.glob(f"*/{request.param}")
    version = archive.name.split("-")[1].partition("+")[0]
    settings = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "UV_", "XDG_"))}
    proxies = {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}
    home = {"HOME": os.environ["HOME"], "PIP_NO_INDEX": "", "PIP_CONFIG_FILE": ""}
    project = Project(folder=root / "project", store=root / "store", environ=home | settings | proxies)
    project.environ = {key: value for key, value in project.environ.items() if value}
    project.environ["ENVBUILD_PYTHON_MIRROR"] = f"file://{folder}"
    name = f"standalone{version.replace('.', '-')}"
    spec = f"name: {name}\nos: {system}\npython: {version}\nrequirements: [numpy]\n"
    project.write("spec.yaml", f"{spec}packages: [libffi8]  # for ctypes, which real builds have linked in\n")
    project.write("train.py", PROGRAM)
    project.write("lock.out", project.must("lock").out)
    project.write("build.out", project.must("build").out)
    yield Case(project=project, version=version, folder=folder)
    forget_images(f"envbuild/{name}")


def test_the_lock_has_the_build_and_wheels_for_it(case: Case) -> None:
    """Release, path and digest are locked, the summary names it, and wheels are of its tag."""
    python, feature = case.lock.python, case.version.rpartition(".")[0]
    assert python.build is not None
    assert (python.version, python.build.version) == (feature, case.version)
    assert (case.folder / python.build.path).stat().st_size == python.build.size
    (numpy,) = (package.wheel.name for package in case.lock.packages if package.name == "numpy")
    assert f"-cp{feature.replace('.', '')}-" in numpy
    assert not [item.name for item in case.lock.os.packages if item.name.startswith(("python3", "libpython3"))]
    assert f"python    {case.version}" in (case.project.folder / "lock.out").read_text()
    assert case.project.must("lock", "--check").code == 0


def test_a_program_runs_in_it(case: Case) -> None:
    """The interpreter, its compiled modules and a wheel's extension are those of the build; two runs are equal."""
    one, two = (case.project.must("run", "train.py").out for _ in range(2))
    assert one == two
    found = json.loads(one.splitlines()[-1])
    feature = case.version.rpartition(".")[0]
    assert found["version"] == case.version
    assert found["executable"] == f"/opt/python/bin/python{feature}"
    assert found["prefixes"] == ["/opt/env", "/opt/python"]
    assert found["cached"] == [True, True]
    assert found["extension"].startswith(f"cpython-{feature.replace('.', '')}-")
    assert found["norm"] == pytest.approx(14.2828568)
    assert found["pip"] is False


def test_two_builds_are_equal(case: Case) -> None:
    """All is made anew in an empty store, from the same files: the same digest."""
    done = case.project.must("build", "--verify")
    assert "identical" in done.out + done.err or "same" in done.out + done.err


def test_the_archive_comes_from_a_mirror_by_its_digest(case: Case, tmp_path: Path) -> None:
    """Another machine's store is filled from a mirror on loopback; other bytes than locked are refused."""
    build = case.lock.python.build
    assert build is not None
    archive = case.folder / build.path
    with FileServer() as server:
        server.add(build.path.replace("+", "%2B"), archive.read_bytes())
        server.add(build.path, archive.read_bytes())
        other = case.project.copy(tmp_path / "good", own_store=True)
        other_file = other.store / "sha256" / build.sha256[:2] / build.sha256[2:]
        other_file.unlink()
        other.must("fetch", ENVBUILD_PYTHON_MIRROR=server.url)
        assert other_file.read_bytes() == archive.read_bytes()
        other_file.unlink()
        server.add(build.path, b"other bytes")
        done = other("fetch", ENVBUILD_PYTHON_MIRROR=server.url)
        assert (done.code, build.file in done.err) == (13, True)
        assert "ENVBUILD_PYTHON_MIRROR" in done.err


def test_the_bill_of_materials_names_it(case: Case) -> None:
    """Name, digest and licence of the interpreter are there."""
    document = json.loads(case.project.must("sbom").out)
    (found,) = (item for item in document["components"] if item["name"] == "cpython")
    assert found["version"] == case.version
    assert found["licenses"] == [{"expression": "PSF-2.0", "acknowledgement": "declared"}]
