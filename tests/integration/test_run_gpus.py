"""``envbuild run`` of a lock with GPUs: on this machine, which has none, and on an engine whose GPUs are stand-ins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pynvml
import pytest

from envbuild.engine.docker.adapter import connect
from envbuild.engine.docker.gpus import INSTALL
from tests.support.cli import Done, Project
from tests.support.gpus import Device, build_standin, gpu_uuid, h100, install, machine, t4
from tests.support.second_engine import described_gpus
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.engine, pytest.mark.network]

GPU = "{model: NVIDIA H100 80GB HBM3, compute-capability: '9.0', sms: 132, driver: 580.159.04}"
MARK = "open('mark', 'w').close()\n"


@pytest.fixture(scope="module")
def locked(made: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The shared project with one H100 in its lock, and nvidia-ml-py among its wheels; not built."""
    project = made.copy(tmp_path_factory.mktemp("gpus"))
    source = Path(pynvml.__file__).read_text()
    make_wheel(project.folder / "wheels", "nvidia-ml-py", version("nvidia-ml-py"), files={"pynvml.py": source})
    spec = project.folder / "spec.yaml"
    spec.write_text(spec.read_text() + f"hardware: {{gpu: {GPU}}}\n")
    project.must("lock")
    project.write("t.py", MARK)
    return project


@pytest.fixture
def on(locked: Project) -> Project:
    """The project before a run: its program has left no mark."""
    (locked.folder / "mark").unlink(missing_ok=True)
    return locked


def ran(project: Project) -> bool:
    """Whether the program was started."""
    return (project.folder / "mark").exists()


def newest(project: Project, **environ: str) -> dict[str, Any]:
    """The newest record."""
    return dict(project.must("runs", "--json", **environ).json[0])


def refused_for_want_of_a_gpu(done: Done) -> bool:
    """Whether the guard's table reports it."""
    lines = done.err.splitlines()
    return done.code == 78 and done.out == "" and any(line.startswith("  gpu ") for line in lines) and (
        "envbuild: this host does not match pylock.clitest.toml — nothing was run" in lines
    )  # fmt: skip


def test_a_machine_without_gpu_is_refused_before_an_image_is_built(on: Project, tmp_path: Path) -> None:
    """Gigabytes are not assembled for a machine that plainly cannot run them: the guard's table, exit 78."""
    unbuilt = on.copy(tmp_path)
    (unbuilt.folder / "pylock.clitest.image.json").unlink(missing_ok=True)
    assert refused_for_want_of_a_gpu(unbuilt("run", "t.py"))
    assert not ran(unbuilt)
    assert unbuilt.must("runs", "--json").json == [], "no container was started"


def test_the_guard_refuses_a_container_without_gpu(on: Project) -> None:
    """The image starts where no GPU is, and the guard in it refuses: its table, its verdict, its record."""
    on.must("build")
    done = on("run", "t.py")
    assert refused_for_want_of_a_gpu(done)
    assert "no NVIDIA driver" in done.err
    assert not ran(on)
    record = newest(on)
    assert (record["state"], record["verified"], record["exit_code"], record["gpus"]) == ("refused", "refused", 78, "")
    assert [check["field"] for check in record["verdict"]["checks"] if not check["ok"]] == ["gpu"]


def test_an_override_is_named_and_kept(on: Project) -> None:
    """``--allow gpu`` lets this one run pass, loudly; the record, the list and the summary name the field."""
    on.must("build")
    done = on("run", "--allow", "gpu", "t.py")
    assert (done.code, ran(on)) == (0, True)
    assert "envbuild: ALLOWED by this run: gpu:" in done.err
    assert " · allowed: gpu · " in done.err.splitlines()[-1]
    record = newest(on)
    assert (record["verified"], record["options"]["allow"]) == ("overridden", ["gpu"])
    assert "ok, allowed: gpu" in on.must("runs").out.splitlines()[1]
    assert on("run", "--allow", "gpu.drivr", "t.py").code == 78


def test_a_guard_that_is_off_is_seen(on: Project) -> None:
    """``--no-guard`` runs anywhere, and every way to look at the run states that nothing was verified."""
    on.must("build")
    done = on("run", "--no-guard", "t.py")
    assert (done.code, ran(on)) == (0, True)
    assert " · not verified · " in done.err.splitlines()[-1]
    record = newest(on)
    assert (record["verified"], record["options"]["guard"], record["state"]) == ("no", False, "finished")
    assert "ok, not verified" in on.must("runs").out.splitlines()[1]
    assert "not verified" in on.must("show", record["id"]).out


def test_gpus_asked_for_by_hand_need_the_toolkit(project: Project) -> None:
    """A lock without GPU, ``--gpus all``: what to install, exit 15, and a record that states why nothing ran."""
    project.write("t.py", MARK)
    done = project("run", "--gpus", "all", "t.py")
    assert (done.code, done.out, ran(project)) == (15, "", False)
    assert done.err == (
        "envbuild: the engine cannot hand GPUs to containers: NVIDIA's container toolkit is not installed or not "
        f"configured\n  → {INSTALL}\n"
    )
    record = newest(project)
    assert (record["state"], record["verified"], record["options"]["gpus"]) == ("failed", "", "all")


def test_the_engines_refusal_becomes_the_guards_table(on: Project) -> None:
    """A lock with GPUs and ``--gpus 1``: the engine cannot, and the reason is this host, so its table is shown."""
    on.must("build")
    assert refused_for_want_of_a_gpu(on("run", "--gpus", "1", "t.py"))
    assert not ran(on)


def cdi(folder: Path, libraries: Path, **devices: tuple[Device, ...]) -> str:
    """Describe machines as CDI devices: each name gives a container the stand-in libraries of these GPUs."""
    described = []
    for name, gpus in devices.items():
        standin = install(libraries, folder / name, machine(*gpus))
        mounts = [
            {"hostPath": source, "containerPath": target, "options": ["ro", "rbind"]}
            for source, target in standin.mounts.items()
        ]
        described.append({"name": name.removeprefix("gpu"), "containerEdits": {"mounts": mounts}})
    return json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": described})


@pytest.fixture(scope="module", params=["docker", "local"])
def newer(
    request: pytest.FixtureRequest, locked: Project, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """The project on engines that have an H100 and a T4 by CDI: a newer Docker, and the local one."""
    folder = tmp_path_factory.mktemp("standins")
    text = cdi(folder, build_standin(folder / "libraries"), gpu0=(h100(),), gpu1=(t4(),), all=(h100(), t4()))
    if request.param == "local":
        (folder / "cdi").mkdir()
        (folder / "cdi/nvidia.json").write_text(text)
        environ = {**locked.environ, "ENVBUILD_ENGINE": "local", "ENVBUILD_CDI_DIRS": str(folder / "cdi")}
        project = Project(folder=locked.folder, store=locked.store, environ=environ)
        project.must("build")
        yield project
        return
    with described_gpus(text) as host:
        try:
            project = Project(folder=locked.folder, store=locked.store, environ={**locked.environ, "DOCKER_HOST": host})
            project.must("build")
            yield project
        finally:
            sdk = connect({"DOCKER_HOST": host})._sdk_client()
            for image in sdk.images(name="envbuild/clitest", quiet=True):
                sdk.remove_image(image, force=True)


def test_a_locked_gpu_is_handed_over_by_cdi(newer: Project, on: Project) -> None:
    """One GPU of two is locked: the first is given, the guard finds it as locked, the record names it."""
    done = newer.must("run", "t.py")
    assert ran(on)
    assert "not verified" not in done.err
    record = newest(newer)
    assert (record["gpus"], record["verified"], record["options"]["gpus"]) == ("1", "yes", "")
    assert [gpu["uuid"] for gpu in record["verdict"]["gpu"]["devices"]] == [gpu_uuid(0x100)]
    assert record["outside"] == [], "what was handed over is nothing that the program left"
    assert f"gpus      1  NVIDIA H100 80GB HBM3 {gpu_uuid(0x100)}\n" in newer.must("show", record["id"]).out


@pytest.mark.parametrize(("gpus", "field"), [("device=1", "gpu.model"), ("all", "gpu.count")])
def test_other_gpus_are_refused_by_the_guard(newer: Project, on: Project, gpus: str, field: str) -> None:
    """Another GPU, or one too many, is passed as asked and refused by its field; nothing runs."""
    done = newer("run", "--gpus", gpus, "t.py")
    assert (done.code, ran(on)) == (78, False)
    failed = [check["field"] for check in newest(newer)["verdict"]["checks"] if not check["ok"]]
    assert field in failed
    assert any(line.startswith(f"  {field} ") for line in done.err.splitlines())
