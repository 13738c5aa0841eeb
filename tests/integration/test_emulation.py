"""An image for arm64 from an amd64 machine: real packages of that architecture, started by the locked emulator."""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from envbuild.engine.local.namespaces import NamespaceSteps
from envbuild.engine.protocol import Step
from envbuild.image.os import bootstrap
from envbuild.image.os.normalise import normalise
from envbuild.image.os.seed import add_member, add_skeleton, open_packages, unpacked
from envbuild.image.os.tree import Tree
from envbuild.image.tar.layer import Layer
from envbuild.lockfile import model as locks
from envbuild.operations.emulation import steps_for
from envbuild.store.objects import Store
from tests.support.cli import ROOT, Project
from tests.support.oslocks import shared_store

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="what is emulated on amd64"),
    pytest.mark.skipif(
        tuple(map(int, platform.release().split(".")[:2])) < (6, 7), reason="no binfmt_misc for users before Linux 6.7"
    ),
]
SPEC = "name: arm\nos: {release: debian-12, architecture: arm64}\nrequirements: [numpy]\n"
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
"""An interpreter that another user may start."""
AS_NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
PROGRAM = """\
import json, sys
from pathlib import Path
from envbuild.engine.local.namespaces import NamespaceSteps
from envbuild.engine.protocol import Emulator, Step
from envbuild.errors import EnvbuildError
scratch, base, emulator, command = sys.argv[1:]
step = Step(base=Path(base), base_key="x", command=tuple(json.loads(command)), environment={"PATH": "/bin"}, result="/")
try:
    steps = NamespaceSteps(Path(scratch), (), Emulator(machine="aarch64", program=Path(emulator)))
    with steps.run_step(step) as stream:
        sys.stdout.buffer.write(stream.read())
except EnvbuildError as error:
    sys.exit(f"{error.exit_code} {error.message}\\n{error.hint}")
"""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A locked project for arm64, whose files are in the store."""

    project: Project
    lock: locks.Lock
    store: Store

    def steps(self) -> NamespaceSteps:
        """What runs its build steps here."""
        found = steps_for(self.lock, None, self.store)
        assert isinstance(found, NamespaceSteps)
        return found

    def write_root(self, target: Path, *names: str) -> None:
        """Write a root file system of unpacked packages, with all that they depend on."""
        sources = {source.package.name: source for source in open_packages(self.lock.os, self.store.path)}
        packages = [
            bootstrap.Package(name=name, file=source.package.file, fields=source.fields)
            for name, source in sources.items()
        ]
        wanted = sorted(bootstrap.closure(packages, names))
        with Tree(target.parent, "a test's root") as tree:
            for source, data in unpacked((sources[name] for name in wanted), whole=False):
                for entry, content in source.deb.members(data):
                    add_member(tree, entry, content)
            add_skeleton(tree, "arm64")
            with target.open("wb") as output:
                tree.write(output)


@pytest.fixture(scope="module", name="arm")
def _arm(tmp_path_factory: pytest.TempPathFactory) -> Arm:
    store = shared_store()
    home = {**os.environ, "PIP_NO_INDEX": "", "PIP_CONFIG_FILE": "", "ENVBUILD_ENGINE": "local"}
    project = Project(folder=tmp_path_factory.mktemp("arm") / "project", store=store.root, environ=home)
    project.write("spec.yaml", SPEC)
    project.must("lock", "spec.yaml")
    project.must("fetch")
    return Arm(project=project, lock=locks.load(project.folder / "pylock.arm.toml"), store=store)


@pytest.fixture(name="open_folder")
def _open_folder() -> Iterator[Path]:
    """A folder that every user may look into and write to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


ENVIRONMENT = {"PYTHONPATH": "/site", "OPENBLAS_NUM_THREADS": "1"}
IMPORT = """\
import json, os, platform, sys
import numpy
a = numpy.arange(6.0).reshape(2, 3)
found = [platform.machine(), (a @ a.T).tolist(), float(numpy.linalg.det(a @ a.T)), sys.argv[0], os.cpu_count() > 0]
os.makedirs("/workspace", exist_ok=True)
with open("/workspace/found", "w") as stream:
    json.dump(found, stream)
"""


def test_numpy_computes_under_the_locked_emulator(arm: Arm, tmp_path: Path) -> None:
    """Python and a wheel's own libraries for arm64 start in a build step, by names, arguments and files as they are."""
    base = tmp_path / "base.tar"
    arm.write_root(base, "python3.11-minimal", "libpython3.11-stdlib", "libstdc++6", "zlib1g")
    (wheel,) = (package.wheel for package in arm.lock.packages)
    assert "aarch64" in wheel.name
    with tarfile.open(base, "a") as tar, zipfile.ZipFile(arm.store.path(wheel.sha256)) as files:
        for info in (each for each in files.infolist() if not each.is_dir()):
            member = tarfile.TarInfo(f"site/{info.filename}")
            member.size, member.mode = info.file_size, 0o755
            tar.addfile(member, files.open(info))
    command = ("/usr/bin/python3.11", "-c", IMPORT)
    step = Step(base=base, base_key="x", command=command, environment=ENVIRONMENT, result="/workspace")
    with arm.steps().run_step(step) as stream, tarfile.open(fileobj=stream, mode="r|") as result:
        texts = {member.name: file.read() for member in result if (file := result.extractfile(member))}
    machine, product, determinant, name, counted = json.loads(texts["workspace/found"])
    assert (machine, product, name, counted) == ("aarch64", [[5.0, 14.0], [14.0, 50.0]], "-c", True)
    assert determinant == pytest.approx(54)


OWNERS = """\
set -e; mkdir -p /workspace/e/f; cd /workspace; touch a b c; chown 33:42 a; chown 5 b; chown :7 b; chmod 4755 c
ln -s c soft; chown -h 9:9 soft; chown -R 12:13 e; env echo "$0 $(uname -m) $(id -u)" > said; cat said >&2
"""


def test_who_starts_the_step_makes_no_difference(arm: Arm, open_folder: Path, tmp_path: Path) -> None:
    """Owners are given as root and noted for a user, also where an emulated program asks: the same layer."""
    base = open_folder / "base.tar"
    arm.write_root(base, "dash", "coreutils")
    emulator = open_folder / "qemu"
    program = arm.steps()._emulator
    assert program is not None
    shutil.copy(program.program, emulator)
    found = [
        layer(started(open_folder, base, emulator, f"s{number}", *prefix), tmp_path)
        for number, prefix in enumerate(((), AS_NOBODY) if os.geteuid() == 0 else ((),))
    ]
    step = Step(base=base, base_key="x", command=("/bin/sh", "-c", OWNERS), environment={"PATH": "/bin"}, result="/")
    with arm.steps().run_step(step) as stream:
        expected = normalise(stream, tmp_path / "layer.tar")
    with tarfile.open(tmp_path / "layer.tar") as tar:
        owners = {member.name: (member.uid, member.gid) for member in tar if member.name.startswith("workspace/")}
        said = tar.extractfile("workspace/said")
        assert said is not None
        assert said.read() == b"/bin/sh aarch64 0\n"
    assert owners == {
        "workspace/a": (33, 42),
        "workspace/b": (5, 7),
        "workspace/c": (0, 0),
        "workspace/e": (12, 13),
        "workspace/e/f": (12, 13),
        "workspace/said": (0, 0),
        "workspace/soft": (9, 9),
    }
    assert all(each == expected for each in found)
    assert not Path("/proc/sys/fs/binfmt_misc/aarch64").exists()


def started(folder: Path, base: Path, emulator: Path, scratch: str, *prefix: str) -> subprocess.CompletedProcess[bytes]:
    """Run a step in a process of its own, after a prefix."""
    place = folder / scratch
    place.mkdir()
    place.chmod(0o777)
    words = [str(place), str(base), str(emulator), json.dumps(["/bin/sh", "-c", OWNERS])]
    path = os.pathsep.join([str(ROOT), *(each for each in sys.path if each.endswith("site-packages"))])
    environ = {"PYTHONPATH": path, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    python = PYTHON if prefix else sys.executable
    return subprocess.run([*prefix, python, "-B", "-c", PROGRAM, *words], cwd="/", env=environ, capture_output=True)


def layer(done: subprocess.CompletedProcess[bytes], folder: Path) -> Layer:
    """The layer that a step's result makes."""
    assert done.returncode == 0, done.stderr.decode()
    return normalise(io.BytesIO(done.stdout), folder / "other.tar")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's steps go without a user namespace")
def test_nothing_is_registered_for_the_whole_machine(arm: Arm, open_folder: Path) -> None:
    """Where a step has no user namespace of its own, a rule would be everybody's: refused with the ways out."""
    base = open_folder / "base.tar"
    base.write_bytes(b"")
    emulator = open_folder / "qemu"
    emulator.write_bytes(b"")
    done = started(open_folder, base, emulator, "s", "unshare", "--user", "--map-root-user")
    assert done.stderr.decode().splitlines() == [
        "15 cannot run build steps of another architecture: cannot have the kernel start programs through the "
        "emulator: Operation not permitted",
        "emulation needs Linux 6.7 or newer and a user namespace for each step; without them build on a machine of the "
        "lock's architecture, or bring the image in: envbuild pull",
    ]


def test_what_the_lock_and_its_papers_name(arm: Arm) -> None:
    """The emulator is locked and fetched, and no part of the bill of materials; nothing is new for the same spec."""
    (emulator,) = arm.lock.emulators
    assert (emulator.name, emulator.architecture) == ("qemu-user-static", "amd64")
    assert arm.store.path(emulator.sha256).is_file()
    assert {package.architecture for package in arm.lock.os.packages} == {"arm64", "all"}
    arm.project.must("lock", "--check", "spec.yaml")
    bill = arm.project.must("sbom").out
    assert "arch=arm64" in bill
    assert "arch=amd64" not in bill
    assert "qemu" not in bill


def test_no_program_starts_and_nothing_is_built_for_it(arm: Arm) -> None:
    """``run`` refuses before an image is made; ``check`` gives the same answer; the guard's switch changes nothing."""
    arm.project.write("train.py", "print(1)\n")
    for command in (("run", "train.py"), ("run", "--no-guard", "train.py"), ("check",)):
        done = arm.project(*command)
        assert done.code == 78, (command, done)
        assert "cpu.architecture   arm64    amd64   its programs do not start here" in done.out + done.err
    assert not (arm.project.folder / "pylock.arm.image.json").exists()
