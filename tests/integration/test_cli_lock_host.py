"""``envbuild lock --host`` as users run it: one spec, several hosts, locks that differ in their hardware alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.host import file
from envbuild.host.facts import Cpu, HostFacts
from envbuild.host.probe import probe_host
from envbuild.lockfile import model as locks
from tests.support.archives import BASE, keyring, stanza, write_release
from tests.support.cli import Project
from tests.support.hosts import gpu, host
from tests.support.server import FileServer
from tests.support.wheels import make_wheel

SYSTEM = (
    *BASE,
    stanza("libstdc++6", "12"),
    stanza("python3.11", "3.11.2", depends="libc6"),
    stanza("tzdata"),
    stanza("ca-certificates"),
)
SPEC = """\
name: t
os: {{release: debian-12, mirror: {mirror}/debian}}
requirements: [alpha]
wheels: [wheels]
hardware: {{gpu: {{driver: same branch}}}}
"""
SERVER = host([gpu(), gpu()])
OTHER = host(
    [gpu("Tesla T4", compute_capability="7.5", sms=40, memory=15360)],
    driver="570.86.15",
    kernel="5.15.0-1",
    cpu=Cpu(level="x86-64-v3", flags=("avx2", "fma")),
)


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Iterator[Project]:
    """A project whose Debian archive and wheels are available, with the descriptions of two hosts."""
    with FileServer() as server:
        write_release(tmp_path / "mirror", main=SYSTEM)
        server.add_tree(tmp_path / "mirror")
        environ = {"ENVBUILD_DEBIAN_KEYS": str(keyring(tmp_path / "key.pgp"))}
        project = Project(folder=tmp_path / "project", store=tmp_path / "store", environ=environ)
        for name in ("alpha", "nvidia-ml-py"):
            make_wheel(project.folder / "wheels", name, "1.0")
        project.write("spec.yaml", SPEC.format(mirror=server.url))
        _describe(project, "server.toml", SERVER)
        _describe(project, "other.toml", OTHER)
        yield project


def _describe(project: Project, name: str, facts: HostFacts) -> None:
    project.write(name, file.dumps(facts))


def _bytes(project: Project) -> bytes:
    return (project.folder / "pylock.t.toml").read_bytes()


def _rest(data: bytes) -> list[bytes]:
    """Return a lock's tables without those of the hardware, and without the digest of all."""
    data = re.sub(rb'\ndigest = "\w{64}"\n', b"\n", data, count=1)
    return [table for table in data.split(b"\n[") if b"tool.envbuild.hardware" not in table.partition(b"\n")[0]]


def test_a_lock_for_a_host_that_is_not_here(project: Project) -> None:
    """A description locks its host from anywhere, stays through a plain lock, and gives way only to another one."""
    done = project.must("lock", "--host", "server.toml")
    line = "hardware  2 × NVIDIA H200, driver 580.159.04 same branch; kernel ≥ 6.8; CPU x86-64-v4 with 3 flags"
    assert line in done.out.splitlines()
    first = _bytes(project)
    assert locks.loads(first).hardware.host == file.digest(SERVER)

    again = project.must("lock")
    assert (line in again.out.splitlines(), _bytes(project)) == (True, first)
    assert project.must("lock", "--check").code == 0

    other = project.must("lock", "--host", "other.toml")
    moved = [line.split(maxsplit=2)[1:] for line in other.out.splitlines() if line.startswith("moved")]
    assert ["hardware.gpu.model", "NVIDIA H200 → Tesla T4"] in moved
    assert all(name.startswith("hardware.") for name, _ in moved)
    assert _bytes(project) != first
    assert _rest(_bytes(project)) == _rest(first)
    assert project.must("lock", "--check").code == 0

    done = project("lock", "--host", "none")
    assert (done.code, done.err) == (
        10,
        "envbuild: spec.yaml has 1 problem\n"
        '  hardware.gpu.driver: "same branch" takes the host\'s value, but no host is described\n'
        "  → describe it: envbuild lock --host detect on it,"
        " or envbuild probe -o FILE there and lock --host FILE here;"
        " or write values of your own: {value: …, policy: …}\n",
    )
    assert locks.loads(_bytes(project)).hardware.host == file.digest(OTHER)


def test_a_lock_for_this_machine(project: Project) -> None:
    """``detect`` in the spec describes the machine that locks, whatever it is, and a probed file states the same."""
    spec = (project.folder / "spec.yaml").read_text()
    project.write("spec.yaml", spec.replace("hardware: {gpu: {driver: same branch}}", "hardware: detect"))
    project.must("lock")
    first = _bytes(project)
    found = locks.loads(first).hardware
    assert (bool(found.host), found.kernel[:2], found.cpu.startswith("x86-64")) == (True, ">=", True)
    _describe(project, "here.toml", probe_host())
    project.must("lock", "--host", "here.toml")
    assert _bytes(project) == first
