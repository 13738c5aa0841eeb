"""One spec for amd64 and arm64 as users have it: locked together, built, pushed as one image, run here and emulated."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.blob import FileBlob, blob_of
from envbuild.core.digest import sha256_bytes
from envbuild.core.progress import Silent
from envbuild.image.oci.layout import image_index
from envbuild.lockfile import model as locks
from envbuild.net.config import NetworkConfig
from envbuild.registry.credentials import Credentials
from envbuild.registry.reference import parse_reference
from envbuild.registry.repository import OCI_INDEX, OCI_MANIFEST, Manifest, Repository
from envbuild.registry.upload import push
from envbuild.store.objects import Store
from tests.integration.test_local_engine import as_nobody
from tests.integration.test_namespaces import NOBODY
from tests.support.cli import Project
from tests.support.cosign import PASSWORD, cosign_program, make_keys
from tests.support.oslocks import shared_store
from tests.support.registry import Registry, running_registry
from tests.support.wheels import make_wheel

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="what is emulated on amd64"),
    pytest.mark.skipif(
        tuple(map(int, platform.release().split(".")[:2])) < (6, 7), reason="no binfmt_misc for users before Linux 6.7"
    ),
]
SPEC = """\
name: both
os: debian-12
platforms: [amd64, arm64]
requirements: [numpy, tool]
wheels: [wheels]
determinism: {threads: 1}
"""
PROGRAM = """\
import json, os, platform, random
import numpy
numbers = numpy.random.default_rng(7).standard_normal((32, 32))
found = {"machine": platform.machine(), "norm": float(numpy.linalg.norm(numbers)), "pick": random.random()}
print(json.dumps(found))
open("found.json", "w").write(json.dumps({"norm": found["norm"].hex(), "machine": found["machine"]}))
"""


@pytest.fixture(scope="module", name="project")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose images are built, with the store that tests share: the system takes minutes under emulation."""
    home = {**os.environ, "PIP_NO_INDEX": "", "PIP_CONFIG_FILE": "", "ENVBUILD_ENGINE": "local"}
    project = Project(folder=tmp_path_factory.mktemp("both") / "project", store=shared_store().root, environ=home)
    for version in ("1.0", "1.1"):
        make_wheel(project.folder / "wheels", "tool", version)
    project.write("spec.yaml", SPEC.replace("tool", "tool<1.1"))
    project.must("lock")
    project.write("spec.yaml", SPEC)
    project.write("lock.out", project.must("lock").out)
    project.write("train.py", PROGRAM)
    project.must("build", "--all-platforms")
    return project


@pytest.fixture(scope="module", name="registry")
def _registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def lock_bytes(project: Project) -> dict[str, bytes]:
    """The locks, by platform."""
    names = ("amd64", "arm64")
    return {name: (project.folder / f"pylock.both-{name}.toml").read_bytes() for name in names}


def image_record(project: Project, name: str) -> dict[str, Any]:
    """What is recorded of one platform's image."""
    return dict(json.loads((project.folder / f"pylock.both-{name}.image.json").read_bytes()))


def records(project: Project) -> list[dict[str, Any]]:
    """All records of runs, oldest first."""
    return [
        json.loads((folder / "record.json").read_bytes())
        for folder in sorted((project.folder / ".envbuild/runs").iterdir())
    ]


def test_one_spec_gives_a_lock_for_each(project: Project) -> None:
    """Pins that are there stay, in both locks alike; all is fresh, and locking again changes no byte."""
    before = lock_bytes(project)
    for data in before.values():
        assert b"tool-1.0-py3-none-any.whl" in data
        assert b"tool-1.1" not in data
    assert b"x86_64.whl" in before["amd64"]
    assert b"aarch64.whl" in before["arm64"]
    assert b"qemu" not in before["amd64"]
    assert b"qemu" in before["arm64"]
    found = project.must("lock", "--check", "--json").json
    assert (found["fresh"], [each["platform"] for each in found["platforms"]]) == (True, ["amd64", "arm64"])
    project.must("lock")
    assert lock_bytes(project) == before
    project.must("lock", "-P", "tool", "--platform", "amd64")
    assert b"tool-1.1" in lock_bytes(project)["amd64"]
    assert lock_bytes(project)["arm64"] == before["arm64"]
    for name, data in before.items():
        (project.folder / f"pylock.both-{name}.toml").write_bytes(data)


def test_all_are_written_or_none(project: Project, tmp_path: Path) -> None:
    """What one platform cannot have leaves the other's lock as it was, and the message names the platform."""
    other = project.copy(tmp_path)
    other.environ = {**project.environ}
    before = lock_bytes(other)
    make_wheel(other.folder / "wheels", "native", tag="cp311-cp311-manylinux_2_17_x86_64")
    other.write("spec.yaml", SPEC.replace("tool]", "tool, native]"))
    done = other("lock")
    assert done.code == 12, done
    assert "platform arm64: " in done.err
    assert lock_bytes(other) == before


def test_commands_take_this_machines_lock(project: Project) -> None:
    """Nothing has to be named; the other platform is named, or refused with the ways out."""
    assert project.must("check", "--json").json["lock"] == "pylock.both-amd64.toml"
    assert json.loads(project.must("run", "train.py").out)["machine"] == "x86_64"
    for command in (("run", "--platform", "arm64", "train.py"), ("check", "--platform", "arm64")):
        done = project(*command)
        assert done.code == 78, (command, done)
        assert "try it under emulation, which the record states: envbuild run --emulate" in done.out + done.err
    done = project("build", "--platform", "riscv64")
    assert (done.code, 'has no lock of platform "riscv64": it has amd64, arm64' in done.err) == (2, True), done
    done = project("verify", "-n", "2", "--platform", "arm64", "train.py")
    assert done.code == 78, done
    assert project("build", "--all-platforms", "--platform", "arm64").code == 2


def test_a_program_runs_under_emulation(project: Project) -> None:
    """It computes, the record states by what, and its bits are compared with emulated runs alone."""
    project.must("run", "train.py")
    for _ in range(2):
        done = project.must("run", "--platform", "arm64", "--emulate", "train.py")
        assert json.loads(done.out)["machine"] == "aarch64"
        assert "ALLOWED by this run: cpu.architecture: locked arm64, found arm64, emulated" in done.err
    native, first, second = records(project)[-3:]
    assert (native["emulator"], native["verified"]) == ("", "yes")
    assert second["emulator"].startswith("qemu-user-static ")
    assert (second["verified"], second["options"]["allow"]) == ("overridden", ["cpu.architecture"])
    assert (second["same_bits_as"], first["same_bits_as"]) == (first["id"], "")
    assert native["recipe"] != first["recipe"] == second["recipe"]
    (check,) = [each for each in second["verdict"]["checks"] if each["field"] == "cpu.architecture"]
    assert (check["found"], check["allowed"]) == ("arm64, emulated", True)
    (level,) = [each for each in second["verdict"]["checks"] if each["field"] == "cpu"]
    assert level["found"].startswith("armv")
    shown = project.must("show", second["id"]).out
    assert "emulated" in shown
    assert "an emulator computed, and no CPU" in shown
    because = project("diff", native["id"], second["id"], "--json").json["causes"]
    assert {"emulator", "platform"} <= {each["what"] for each in because[:2]}
    done = project("run", "--emulate", "--allow", "kernel", "train.py")
    assert json.loads(done.out)["machine"] == "x86_64"  # nothing is emulated where nothing needs it
    assert records(project)[-1]["emulator"] == ""


def test_the_guard_knows_levels_of_arm(project: Project, tmp_path: Path) -> None:
    """Of CPUs that QEMU has: the locked level starts, a lower one is refused, a higher one is only noted."""
    other = project.copy(tmp_path)
    other.environ = {**project.environ}
    for file in other.folder.glob("pylock.*"):
        file.unlink()
    other.write("spec.yaml", SPEC.replace("[amd64, arm64]", "[arm64]") + "hardware: {cpu: armv8.2-a}\n")
    other.must("lock")
    for cpu, code, found in (("cortex-a72", 78, "armv8.0-a"), ("neoverse-n1", 0, "armv8.2-a"), ("max", 0, "armv8.")):
        done = other("run", "--emulate", "-e", f"QEMU_CPU={cpu}", "train.py")
        assert done.code == code, (cpu, done)
        (check,) = [each for each in records(other)[-1]["verdict"]["checks"] if each["field"] == "cpu"]
        assert (check["locked"], check["found"].startswith(found)) == ("armv8.2-a", True), check
        assert ("lacks instructions of the locked level" in done.err) == (code == 78)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes nobody")
def test_a_user_emulates_too(project: Project, registry: Registry) -> None:
    """A user without rights pulls the other platform's image and runs it, in a user namespace of its own."""
    project.must("push", f"{registry.host}/team/nobody:1")
    (emulator,) = locks.load(project.folder / "pylock.both-arm64.toml").emulators
    with tempfile.TemporaryDirectory() as name:
        theirs = Project(folder=Path(name) / "project", store=Path(name) / "store")
        for file in (*project.folder.glob("pylock.*"), project.folder / "train.py"):
            theirs.write(file.name, file.read_text())
        kept = theirs.store / project_path(project, emulator.sha256)
        kept.parent.mkdir(parents=True)
        shutil.copyfile(project.store / project_path(project, emulator.sha256), kept)
        Path(name).chmod(0o755)
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", name], check=True)
        done = as_nobody(theirs, "pull", "--platform", "arm64", f"{registry.host}/team/nobody:1")
        assert done.code == 0, done
        done = as_nobody(theirs, "run", "--offline", "--platform", "arm64", "--emulate", "train.py")
        assert done.code == 0, done
        assert json.loads(done.out)["machine"] == "aarch64"
        (record,) = records(theirs)
        assert record["emulator"].endswith(emulator.sha256)


def project_path(project: Project, sha256: str) -> Path:
    """Where a store has a file, from its root on."""
    return Store(project.store).path(sha256).relative_to(project.store)


def layout_index(folder: Path) -> tuple[str, dict[str, Any]]:
    """The digest of a layout's only image, and the document."""
    top = json.loads((folder / "index.json").read_bytes())
    (entry,) = top["manifests"]
    digest = str(entry["digest"]).removeprefix("sha256:")
    data = (folder / "blobs/sha256" / digest).read_bytes()
    assert sha256_bytes(data) == digest
    return digest, json.loads(data)


def skopeo(*words: str) -> bytes:
    """What skopeo prints."""
    return subprocess.run(["skopeo", *words], check=True, capture_output=True).stdout


def test_one_image_for_all_platforms(project: Project, registry: Registry, tmp_path: Path) -> None:
    """A layout and a registry get the same index, byte for byte; other people's tools read and copy it."""
    project.must("build", "--all-platforms", "--output", f"oci:{tmp_path}/layout")
    project.must("build", "--all-platforms", "--output", f"oci:{tmp_path}/layout.tar")
    digest, index = layout_index(tmp_path / "layout")
    assert [entry["platform"] for entry in index["manifests"]] == [
        {"architecture": "amd64", "os": "linux"},
        {"architecture": "arm64", "os": "linux", "variant": "v8"},
    ]
    manifests = [image_record(project, name)["manifest"] for name in ("amd64", "arm64")]
    assert [entry["digest"] for entry in index["manifests"]] == [f"sha256:{each}" for each in manifests]
    place = f"{registry.host}/team/both"
    pushed = project.must("push", f"{place}:1", "--write", "--json").json
    assert (pushed["index"], pushed["reference"]) == (digest, f"{place}@sha256:{digest}")
    plain = ("--tls-verify=false",)
    assert sha256_bytes(skopeo("inspect", *plain, "--raw", f"docker://{place}:1")) == digest
    for name, machine in (("amd64", "amd64"), ("arm64", "arm64")):
        config = skopeo("inspect", *plain, f"--override-arch={machine}", "--config", "--raw", f"docker://{place}:1")
        assert sha256_bytes(config) == image_record(project, name)["config"]
    skopeo(
        "copy", "--all", "--preserve-digests", "--src-tls-verify=false", f"docker://{place}:1", f"oci:{tmp_path}/copy:1"
    )
    assert layout_index(tmp_path / "copy")[0] == digest
    raw = skopeo("inspect", "--raw", f"oci-archive:{tmp_path}/layout.tar")
    assert sha256_bytes(raw) == digest
    again = project.must("push", f"{place}:1", "--json").json
    assert ([each["bytes"] for each in again["platforms"]], again["index"]) == ([0, 0], digest)
    done = project("build", "--all-platforms", "--output", "docker-archive:x.tar")
    assert (done.code, "it holds one image, and there is one for each platform" in done.err) == (2, True), done


def push_base(project: Project, registry: Registry, folder: Path) -> str:
    """Push the systems alone of both images, as an index that is no image of envbuild; returns it by digest."""
    project.must("build", "--all-platforms", "--output", f"oci:{folder}/base")
    blobs = folder / "base/blobs/sha256"
    entries = []
    with Repository(parse_reference(f"{registry.host}/team/base"), NetworkConfig(), lambda _: Credentials()) as place:
        for entry in layout_index(folder / "base")[1]["manifests"]:
            manifest = json.loads((blobs / entry["digest"].partition(":")[2]).read_bytes())
            config = json.loads((blobs / manifest["config"]["digest"].partition(":")[2]).read_bytes())
            (number,) = [n for n, each in enumerate(config["history"]) if ": debian-12, " in each["created_by"]]
            layer = manifest["layers"][number]
            path = blobs / layer["digest"].partition(":")[2]
            own = {**entry["platform"], "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
            settings = blob_of(json.dumps(own).encode())
            described = {**manifest["config"], "digest": f"sha256:{settings.digest}", "size": settings.size}
            document = {"config": described, "layers": [layer], "mediaType": OCI_MANIFEST, "schemaVersion": 2}
            made = Manifest(json.dumps(document).encode(), OCI_MANIFEST)
            push(place, [FileBlob(digest=path.name, size=layer["size"], path=path), settings], made, Silent())
            entries.append((made.data, entry["platform"]))
        index = Manifest(image_index(entries), OCI_INDEX)
        place.put_manifest(index, "1")
    return f"{registry.host}/team/base@sha256:{index.digest}"


def test_a_base_image_by_its_index(project: Project, registry: Registry, tmp_path: Path) -> None:
    """Each lock names the index and has the digest of its own platform's file system."""
    reference = push_base(project, registry, tmp_path)
    other = Project(folder=tmp_path / "over", store=project.store, environ=project.environ)
    other.write("spec.yaml", f"name: over\nos: {{image: '{reference}'}}\nplatforms: [amd64, arm64]\n")
    other.must("lock")
    found = [locks.load(other.folder / f"pylock.over-{name}.toml") for name in ("amd64", "arm64")]
    assert [lock.os.architecture for lock in found] == ["amd64", "arm64"]
    assert {lock.os.image for lock in found} == {reference}
    assert len({lock.os.image_rootfs for lock in found}) == 2
    assert [lock.python.platform.partition("_2_36_")[2] for lock in found] == ["x86_64", "aarch64"]


def test_each_machine_gets_its_own(project: Project, registry: Registry, tmp_path: Path) -> None:
    """By the index's digest the machine's own image is pulled; each is signed, and the record has both digests."""
    keys = make_keys(tmp_path / "keys")
    signing = {"ENVBUILD_COSIGN": cosign_program(), "COSIGN_PASSWORD": PASSWORD}
    pushed = project.must("push", f"{registry.host}/team/own:1", "--write", "--json").json
    by_index = pushed["reference"]
    signed = project.must("sign", by_index, "--key", keys.private, "--json", **signing).json["images"]
    manifests = [image_record(project, name)["manifest"] for name in ("amd64", "arm64")]
    assert [each["reference"].rpartition(":")[2] for each in signed] == [*manifests, pushed["index"]]
    assert [sorted(each["statements"]) for each in signed] == [
        *([["cyclonedx", "slsaprovenance1", "spdxjson"]] * 2), []
    ]  # fmt: skip
    other = Project(folder=tmp_path / "other", store=tmp_path / "store", environ=project.environ)
    for file in project.folder.glob("pylock.*.toml"):
        other.write(file.name, file.read_text())
    other.write("spec.yaml", SPEC)
    make_wheel(other.folder / "wheels", "tool", "1.0")
    make_wheel(other.folder / "wheels", "tool", "1.1")
    other.write("train.py", PROGRAM)
    found = other.must("pull", by_index, "--require-signature", keys.public, "--json", **signing).json
    assert found["manifest"] == manifests[0]
    done = other.must("run", "--image", by_index, "train.py")
    assert json.loads(done.out)["machine"] == "x86_64"
    (record,) = records(other)
    assert (record["image"], record["image_index"]) == (found["config"], pushed["index"])
    found = other.must("pull", "--platform", "arm64", by_index, "--json").json
    assert found["manifest"] == manifests[1]
    inspected = other.must("inspect", f"{registry.host}/team/own:1", "--json").json
    assert (inspected["manifest"], inspected["platform"]) == (manifests[0], "linux/amd64")
