"""From ``fetch`` on nothing reaches the network, and packages' scripts see next to nothing of the host."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import docker
import pytest

from tests.support.cli import ROOT, Project
from tests.support.oslocks import build_with

pytestmark = [pytest.mark.engine, pytest.mark.network]

CUT = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--net")
"""Runs a command without network; the engine is reached by its socket in the file system."""
LOOK = """#!/bin/sh
set -e
mkdir -p /usr/share/seen
cd /usr/share/seen
env | sort >environment
id -u >user
uname -n >host
sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' ' >interfaces
sed 1d /proc/net/route >routes
cat /etc/resolv.conf >servers
cut -d' ' -f5 /proc/self/mountinfo | sort >mounts
ls /dev >devices
tr '\\0' ' ' </proc/1/cmdline >first
cat /proc/self/status | sed -n 's/^CapEff:[[:space:]]*//p' >capabilities
{ echo "$0 $*" | sed 's,.*/,,'; } >arguments
"""
BUILD = """
import sys, docker
from pathlib import Path
from tests.support.images import docker_build
docker_build(docker.from_env(timeout=600).api, Path(sys.argv[1]), sys.argv[2])
"""
_MOUNTS = re.compile(
    r"/|/dev(/(pts|mqueue|shm))?|/etc/(hosts|hostname|resolv\.conf)|/run/\.containerenv|/run/secrets"
    r"|/proc(/[a-z_-]+)?|/sys(/(firmware|fs|devices)(/[\w/,=.-]+)?)?"
)
_CAP_SYS_ADMIN, _CAP_NET_ADMIN, _CAP_SYS_TIME, _CAP_SYS_MODULE = 21, 12, 25, 16


@pytest.fixture(scope="module", name="seen")
def _seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a package's script could see, by question."""
    folder = tmp_path_factory.mktemp("hermetic")
    target = folder / "os.tar"
    build_with(folder, target, "looker", {"/usr/share/looker": "x"}, {"postinst": LOOK})
    found = {}
    with tarfile.open(target) as layer:
        for member in layer:
            if member.isreg() and member.name.startswith("usr/share/seen/"):
                content = layer.extractfile(member)
                assert content is not None
                found[Path(member.name).name] = content.read().decode()
    return found


def test_scripts_reach_no_network(seen: dict[str, str]) -> None:
    """There is no interface but the loopback, no route and no name server."""
    assert (seen["interfaces"], seen["routes"], seen["servers"]) == ("lo\n", "", "")


def test_scripts_see_no_file_of_the_host(seen: dict[str, str]) -> None:
    """Nothing of the host is mounted, no disk is a device, and the first process is envbuild's own script."""
    mounts = seen["mounts"].split()
    assert [path for path in mounts if not _MOUNTS.fullmatch(path)] == []
    assert [
        name for name in seen["devices"].split() if re.match(r"[shvx]d[a-z]|nvme|loop|dm-|mapper|mem$|kmsg", name)
    ] == []
    assert "install.sh" in seen["first"]


def test_scripts_have_no_power_over_the_host(seen: dict[str, str]) -> None:
    """Root of the container may not mount, load modules, set the clock or change the network."""
    held = int(seen["capabilities"], 16)
    for number in (_CAP_SYS_ADMIN, _CAP_NET_ADMIN, _CAP_SYS_TIME, _CAP_SYS_MODULE):
        assert not held >> number & 1, number


def test_scripts_have_a_constant_world(seen: dict[str, str]) -> None:
    """Host name, user, arguments and every variable are the same everywhere."""
    assert (seen["user"], seen["host"], seen["arguments"]) == ("0\n", "envbuild\n", "looker.postinst configure \n")
    words = re.split(r"[^\w.-]+", seen["environment"])
    assert socket.gethostname() not in {*words} - {"envbuild"}
    ours = [line for line in seen["environment"].splitlines() if not line.startswith(("DPKG_", "PWD=", "_="))]
    assert ours == [
        "DEBCONF_NONINTERACTIVE_SEEN=true",
        "DEBCONF_NOWARNINGS=yes",
        "DEBIAN_FRONTEND=noninteractive",
        "ENVBUILD_CLEAN=1",
        "FORCE_SOURCE_DATE=1",
        "HOME=/root",
        "LC_ALL=C",
        "OLDPWD=/",
        "PATH=/tmp/envbuild-os/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PERL_HASH_SEED=0",
        "PERL_PERTURB_KEYS=0",
        "PYTHONHASHSEED=0",
        "SOURCE_DATE_EPOCH=315532800",
        "TZ=UTC",
    ]


def test_a_context_builds_without_a_network(project: Project) -> None:
    """The Dockerfile starts from nothing, and builds in a network namespace without a route, with --network=none."""
    context, tag = project.folder / "context", f"envbuild-hermetic-{os.getpid()}:test"
    project.must("context", str(context), "--offline", prefix=CUT)
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", (context / "Dockerfile").read_text(), re.M)
    names = {name for _, name in stages if name}
    assert {image for image, _ in stages} - names == {"scratch"}
    environ = project.environ | {"PYTHONPATH": str(ROOT)}
    client = docker.from_env(timeout=600)
    try:
        command = [*CUT, sys.executable, "-c", BUILD, str(context), tag]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        output = client.containers.run(tag, ["-c", "import tool, part; print(part.__version__)"],
                                       entrypoint="/opt/env/bin/python", network_mode="none", remove=True,
                                       environment={"ENVBUILD_GUARD": "off"})  # fmt: skip
        assert output == b"1.5\n"
    finally:
        for image in client.images.list(name=tag):
            client.images.remove(str(image.id), force=True)
        client.close()
