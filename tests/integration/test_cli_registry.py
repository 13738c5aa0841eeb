"""``envbuild push``, ``pull``, ``inspect`` and ``run --image`` as users run them, against a registry on loopback."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.support.cli import Done, Project, finish
from tests.support.images import forget_images
from tests.support.proxy import running_proxy
from tests.support.registry import PASSWORD, Registry, forget, running_registry

pytestmark = [pytest.mark.engine, pytest.mark.network]

NAME = f"registry{secrets.token_hex(4)}"
SCRIPT = "import sys, tool\nprint('ran', sys.prefix)\n"


@pytest.fixture(scope="module", name="registry")
def _registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry without TLS, as engines accept on loopback."""
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module", name="builder")
def _builder(made: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A locked project with an image name of its own, which no engine has yet; the store holds its lower layers."""
    project = made.copy(tmp_path_factory.mktemp("builder"))
    spec = (project.folder / "spec.yaml").read_text()
    for file in project.folder.glob("pylock.*"):
        file.unlink()
    project.write("spec.yaml", spec.replace("clitest", NAME))
    project.write("train.py", SCRIPT)
    project.must("lock")
    yield project
    forget_images(f"envbuild/{NAME}")


@pytest.fixture(scope="module", name="pushed")
def _pushed(builder: Project, registry: Registry) -> dict[str, Any]:
    """What pushing it printed; the reference is kept next to the lock."""
    return dict(builder.must("push", f"{registry.host}/team/train", "--write", "--json").json)


@pytest.fixture(name="second")
def _second(builder: Project, pushed: dict[str, Any], tmp_path: Path) -> Project:
    """A second machine: the project as committed, an empty store."""
    machine = builder.copy(tmp_path)
    return Project(folder=machine.folder, store=tmp_path / "empty", environ=machine.environ)


def lock_file(project: Project, kind: str = "toml") -> Path:
    """A file of the project's lock."""
    return project.folder / f"pylock.{NAME}.{kind}"


def refused(done: Done, code: int) -> str:
    """Standard error of a command that was refused before it ran anything."""
    assert done.code == code, done
    assert "ran" not in done.out
    return done.err


def test_push_names_the_image_by_digest(builder: Project, registry: Registry, pushed: dict[str, Any]) -> None:
    """No engine is needed; the digest is that of the image recorded next to the lock, and nothing is sent again."""
    recorded = json.loads(lock_file(builder, "image.json").read_bytes())
    pinned = f"{registry.host}/team/train@sha256:{recorded['manifest']}"
    assert pushed["reference"] == pinned
    assert pushed["tag"] == f"{registry.host}/team/train:{recorded['lock'][:12]}"
    assert pushed["blobs"] == {"uploaded": 5, "mounted": 0, "held": 0}
    published = json.loads(lock_file(builder, "published.json").read_bytes())
    assert published == {name: recorded[name] for name in ("config", "lock", "manifest")} | {"references": [pinned]}
    again = builder.must("push", f"{registry.host}/team/train", DOCKER_HOST="unix:///nowhere.sock")
    assert again.out.splitlines()[0].startswith(f"push      {pushed['tag']}  nothing to do")
    assert again.out.splitlines()[1] == f"image     {pinned}"
    other = builder.must("push", f"{registry.host}/team/other:v1", "--json", DOCKER_HOST="unix:///nowhere.sock").json
    assert (other["blobs"], other["bytes"]) == ({"uploaded": 0, "mounted": 5, "held": 0}, 0)


def test_the_engine_pulls_and_runs_what_was_pushed(registry: Registry, pushed: dict[str, Any]) -> None:
    """``docker pull`` by digest gives the image whose identity is recorded, and it runs."""
    reference = pushed["reference"]
    try:
        subprocess.run(["docker", "pull", "--quiet", reference], check=True, capture_output=True)
        client = docker.from_env()
        image = client.images.get(reference)
        assert image.id in (f"sha256:{pushed['config']}", f"sha256:{pushed['manifest']}")
        client.close()
        command = ["docker", "run", "--rm", "--network=none", reference, "python", "-c", "import tool; print('ran')"]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "ran\n"
    finally:
        forget(reference)


def test_a_second_machine_runs_it(second: Project, pushed: dict[str, Any]) -> None:
    """With lock and recorded digest, an empty store and no build: ``run --image`` pulls, verifies and runs."""
    forget_images(f"envbuild/{NAME}")
    done = second.must("run", "--image", pushed["reference"], "train.py")
    assert done.out == "ran /opt/env\n"
    assert not list((second.store / "derived").rglob("layer.tar"))
    forget_images(f"envbuild/{NAME}")
    shown = second.must("pull").out.splitlines()
    assert shown[-1].startswith(f"image     {NAME}  sha256:{pushed['config'][:12]}…  the lock's")
    again = second.must("pull", pushed["tag"]).out
    assert again.startswith(f"pull      {pushed['tag']}  the engine has it")


def test_what_the_engine_pushed_is_pulled_too(second: Project, registry: Registry, pushed: dict[str, Any]) -> None:
    """``docker push`` compresses layers with whatever it has; unpacked they are the recorded ones, or refused."""
    forget_images(f"envbuild/{NAME}")
    second.must("pull")
    target, tag = f"{registry.host}/team/engine:1", f"envbuild/{NAME}:{pushed['tag'].rpartition(':')[2]}"
    try:
        for command in (["tag", tag, target], ["push", "--quiet", target]):
            subprocess.run(["docker", *command], check=True, capture_output=True)
    finally:
        forget(target)
    assert second.must("pull", target, "--json").json["config"] == pushed["config"]
    held = second.must("inspect", target, "--json").json
    assert held["config"] == pushed["config"]
    lock_file(second, "image.json").unlink()
    done = second("pull", target)
    assert done.code == 16


def test_without_a_record_only_a_digest_is_trusted(second: Project, pushed: dict[str, Any]) -> None:
    """A lock alone does not name its image: a tag is refused, a digest is the user's word for it."""
    forget_images(f"envbuild/{NAME}")
    lock_file(second, "image.json").unlink()
    assert (
        f"nothing shows which image pylock.{NAME}.toml gives: pylock.{NAME}.image.json is missing, and "
        f"{pushed['tag']} is not by digest" in refused(second("pull", pushed["tag"]), 16)
    )
    assert f"--image {pushed['tag']}: a tag may mean something else tomorrow" in refused(
        second("run", "--image", pushed["tag"], "train.py"), 2
    )
    second.must("pull", pushed["reference"])
    assert json.loads(lock_file(second, "image.json").read_bytes())["config"] == pushed["config"]
    assert second.must("run", "--offline", "train.py").out == "ran /opt/env\n"


def test_another_image_is_not_run(
    second: Project, builder: Project, registry: Registry, pushed: dict[str, Any]
) -> None:
    """An image of another lock, and another image of this lock, are refused before anything is pulled."""
    name, spec = f"{NAME}x", (builder.folder / "spec.yaml").read_text()
    other = Project(folder=second.folder.parent / "other", store=builder.store, environ=builder.environ)
    for wheel in (builder.folder / "wheels").iterdir():
        other.write(f"wheels/{wheel.name}", "")
        (other.folder / "wheels" / wheel.name).write_bytes(wheel.read_bytes())
    other.write("spec.yaml", spec.replace(NAME, name))
    other.must("lock")
    made = other.must("push", f"{registry.host}/team/train:other", "--json").json
    forget_images(f"envbuild/{NAME}")
    sentence = refused(second("run", "--image", made["reference"], "train.py"), 16)
    lines = sentence.splitlines()
    assert lines[0] == f"envbuild: {made['reference']} is not the image of pylock.{NAME}.toml — nothing was pulled"
    assert [line.split()[0] for line in lines[1:3]] == ["this", "image's"]
    recorded = json.loads(lock_file(second, "image.json").read_bytes())
    recorded["config"] = "0" * 64
    lock_file(second, "image.json").write_text(json.dumps(recorded))
    sentence = refused(second("run", "--image", pushed["reference"], "train.py"), 16)
    assert (
        f"{pushed['reference']} is not the image recorded in pylock.{NAME}.image.json — nothing was pulled" in sentence
    )
    client = docker.from_env()
    assert not client.images.list(name=f"envbuild/{NAME}")
    client.close()


def test_altered_bytes_are_not_run(second: Project, registry: Registry, pushed: dict[str, Any]) -> None:
    """A bit flipped on the way in is found before the engine sees anything: exit 13."""
    forget_images(f"envbuild/{NAME}")
    digest = pushed["reference"].rpartition("@")[2]
    with running_proxy(registry.host) as proxy:
        proxy.flip = b'"rootfs"'  # in the configuration
        done = second("run", "--image", f"{proxy.host}/team/train@{digest}", "train.py")
        assert "a blob of " in refused(done, 13)
        assert proxy.flip == b""
        proxy.flip = b"envbuild.lock"  # in the manifest
        done = second("pull", f"{proxy.host}/team/train@{digest}")
        assert "has other bytes than promised" in refused(done, 13)


def test_a_killed_push_goes_on(builder: Project, tmp_path: Path) -> None:
    """After SIGKILL in the middle of a push, what was whole is not sent again, and the image gets complete."""
    with running_registry(tmp_path) as fresh, running_proxy(fresh.host) as proxy:
        target = f"{proxy.host}/team/killed:1"

        def some_arrived() -> bool:  # and the repository has it: the last thing that the registry notes of a blob
            return any(fresh.folder.glob("docker/registry/v2/repositories/team/killed/_layers/sha256/*/link"))

        proxy.hold_after = 1_000_000  # the layer of the OS does not get through, small ones do
        assert builder.kill("push", target, when=some_arrived)
        proxy.hold_after = 0
        assert not list(fresh.folder.glob("docker/registry/v2/repositories/team/killed/_manifests/tags/1"))
        arrived = fresh.blob_bytes
        done = builder.must("push", target, "--json").json
        assert done["blobs"]["held"] > 0
        assert done["bytes"] <= fresh.blob_bytes - arrived + (1 << 20)
        assert builder.must("push", target, "--json").json["bytes"] == 0


def test_ctrl_c_does_not_wait(builder: Project, tmp_path: Path) -> None:
    """A registry that does not answer any more holds nobody: Ctrl-C ends a push within seconds."""
    with running_registry(tmp_path) as fresh, running_proxy(fresh.host) as proxy:
        proxy.stall_after = 100_000
        process = builder.start("push", f"{proxy.host}/team/stalled")
        deadline = time.monotonic() + 120
        while proxy.up <= proxy.stall_after:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        began = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        done = finish(process)
    assert done.code == 130
    # A machine that needs more than half a second for what is left to do leaves it to another process.
    ends = ("nothing half-written was kept", "what is left is removed in the background")
    assert done.err in [f"envbuild: interrupted; {end}\n" for end in ends]
    assert time.monotonic() - began < 300  # of the ten minutes that the proxy is silent


def test_inspect_reports_all_without_pulling(builder: Project, registry: Registry, pushed: dict[str, Any]) -> None:
    """Lock, layers and weights are printed; only the smallest layer is read."""
    with running_proxy(registry.host) as proxy:
        reference = pushed["reference"].replace(registry.host, proxy.host)
        shown = builder.must("inspect", reference).out.splitlines()
        assert proxy.down < 3_000_000
        table = builder.must("inspect", reference, "--json").json
    assert shown[0] == f"image     {reference}"
    assert shown[1] == f"config    sha256:{pushed['config']}  linux/amd64"
    assert shown[2].startswith(
        f"lock      {NAME}  sha256:{table['lock']['digest'][:12]}…  debian-12, Python 3.11, 2 wheels"
    )
    assert [line.split()[0] for line in shown[-4:]] == ["sbom", "signed", "attested", "rebuild"]
    assert (table["config"], table["manifest"]) == (pushed["config"], pushed["manifest"])
    assert table["lock"]["toml"] == lock_file(builder).read_text()
    assert [layer["title"] for layer in table["layers"]][-1] == "guard and lock"
    assert table["attached"] == []


def test_from_the_image_alone_to_the_same_image(
    made: Project, builder: Project, pushed: dict[str, Any], tmp_path: Path
) -> None:
    """The documented command: the lock out of the image, and a build of it gives the same digest."""
    bare = Project(folder=tmp_path / "bare", store=builder.store, environ=builder.environ)
    lock = bare.write(f"pylock.{NAME}.toml", bare.must("inspect", pushed["reference"], "--lock").out)
    built = bare.must("build", lock.name, "--output", "oci:image", "--json").json
    assert (built["config"], built["manifest"]) == (pushed["config"], pushed["manifest"])


def test_wrong_password(builder: Project, tmp_path: Path) -> None:
    """Exit 17, what to type next, and no secret anywhere."""
    with running_registry(tmp_path, secure=True) as registry:
        folder = registry.docker_config(tmp_path / "docker", password="mistyped secret")
        done = builder("push", f"{registry.host}/team/train", DOCKER_CONFIG=str(folder))
        assert done.code == 17
        assert done.err.splitlines()[-1] == f"  → log in again: docker login {registry.host}"
        assert "mistyped" not in done.out + done.err
        folder = registry.docker_config(tmp_path / "docker")
        done = builder.must("push", f"{registry.host}/team/train", DOCKER_CONFIG=str(folder), DOCKER_HOST="unix:///no")
        assert PASSWORD not in done.out + done.err


def test_names_that_are_none(builder: Project) -> None:
    """A scheme, a digest to push to, upper case: usage errors that state how to write it."""
    for text, hint in (
        ("https://127.0.0.1:1/a", "leave out the scheme: registry.example.com/team/digits"),
        (f"127.0.0.1:1/a@sha256:{'0' * 64}", "name a tag or none: envbuild push 127.0.0.1:1/a"),
        ("127.0.0.1:1/Team", "e.g. registry.example.com/team/digits:1, or …@sha256: with 64 lower-case"),
    ):
        done = builder("push", text)
        assert done.code == 2
        assert hint in done.err
