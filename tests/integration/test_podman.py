"""podman as the engine: the same adapter behind the same API, and the same bits."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from envbuild.engine.docker.adapter import DockerEngine, connect
from envbuild.engine.docker.images import remove_image
from envbuild.engine.protocol import ContainerRun, Mount, OwnFiles, Step
from envbuild.runs.outside import is_noise
from tests.support.cli import ROOT, Project, until
from tests.support.podman import podman_service
from tests.support.rootfs import write_rootfs, write_tar

pytestmark = [pytest.mark.engine, pytest.mark.network]


@pytest.fixture(scope="module", name="host")
def _host() -> Iterator[str]:
    with podman_service() as host:
        yield host


@pytest.fixture(scope="module", name="podman")
def _podman(host: str) -> DockerEngine:
    return connect({"DOCKER_HOST": host})


@pytest.fixture(scope="module", name="image")
def _image(podman: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A tiny image of this machine's programs, removed afterwards."""
    from envbuild.engine.docker.images import import_tar

    tar, tag = tmp_path_factory.mktemp("rootfs") / "rootfs.tar", uuid.uuid4().hex
    write_rootfs(tar)
    with tar.open("rb") as stream:
        import_tar(podman._sdk_client(), stream, "envbuild-test", tag, {})
    yield f"envbuild-test:{tag}"
    podman._sdk_client().remove_image(f"envbuild-test:{tag}", force=True)


def run(podman: DockerEngine, image: str, script: str, **fields: Any) -> int:
    """Run a script in a container with this process's streams; returns its exit code."""
    request = ContainerRun(image=image, command=("sh", "-c", script), environment={"PATH": "/bin"}, **fields)
    return podman.run_container(request)


def test_podman_names_itself(podman: DockerEngine) -> None:
    """It is called podman, with podman's own version, and it is on this machine."""
    found = podman.describe()
    version = subprocess.run(["podman", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert (found["name"], found["version"]) == ("podman", version)
    assert podman.is_local()
    assert podman.held_layers() is None


def test_a_containers_own_files_are_seen_after_its_end(podman: DockerEngine, image: str) -> None:
    """Exit code, changes and archive as with Docker; the container's own name leads to the loopback."""
    seen: dict[str, Any] = {}

    def look(files: OwnFiles) -> None:
        seen["changes"] = files.changes()
        with files.archive("/made") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                data = archive.extractfile(member)
                assert data is not None
                seen[member.name] = data.read()

    assert run(podman, image, "cat /etc/hosts > /made; exit 3", ended=look) == 3
    assert seen["changes"]["/made"] == "created"
    made = [path for path, change in seen["changes"].items() if change == "created"]
    folders = {str(above) for path in made for above in Path(path).parents}
    assert [path for path in made if path not in folders and not is_noise(path)] == ["/made"]
    assert any(b"envbuild" in line and line.startswith(b"127.0.0.1") for line in seen["made"].splitlines())


def test_a_step_is_as_clean_as_dockers(podman: DockerEngine, tmp_path: Path) -> None:
    """Podman's own variables do not reach a step, no user is written into its files, and there is no network."""
    write_rootfs(tmp_path / "base.tar")
    write_tar(tmp_path / "inputs.tar", {"in.txt": b"input\n"})
    script = "cd /workspace; cat /in.txt; env -u OLDPWD PWD=/ > env; ls /etc > etc; tail -n +3 /proc/net/dev > net"
    key = uuid.uuid4().hex
    step = Step(
        base=tmp_path / "base.tar",
        base_key=key,
        inputs=tmp_path / "inputs.tar",
        command=("/bin/sh", "-c", script),
        environment={"PATH": "/bin"},
        result="/workspace",
    )
    found = {}
    with podman.run_step(step) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            data = tar.extractfile(member) if member.isreg() else None
            found[member.name] = data.read().decode().splitlines() if data else []
    with suppress(Exception):
        podman._sdk_client().remove_image(f"envbuild-step:{key}")
    names = sorted(line.partition("=")[0] for line in found["workspace/env"])
    assert names == ["HOME", "HOSTNAME", "PATH", "PWD"]
    assert {"passwd", "group"}.isdisjoint(found["workspace/etc"])
    assert [line.partition(":")[0].strip() for line in found["workspace/net"]] == ["lo"]


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("exit 125", 125)])
def test_exit_codes_pass_through(podman: DockerEngine, image: str, script: str, code: int) -> None:
    """The program's own code comes back although the container has removed itself."""
    assert run(podman, image, script) == code


def test_mounts_and_users(podman: DockerEngine, image: str, tmp_path: Path) -> None:
    """A read-only folder refuses to be written, a writable one takes files of the run's user."""
    for name in ("inputs", "outputs"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    mounts = (
        Mount(source=tmp_path / "inputs", target="/in", read_only=True),
        Mount(source=tmp_path / "outputs", target="/out"),
    )
    assert run(podman, image, "touch /out/file; touch /in/file && exit 9; exit 4", mounts=mounts, user="123:456") == 4
    status = (tmp_path / "outputs/file").stat()
    assert (status.st_uid, status.st_gid, list((tmp_path / "inputs").iterdir())) == (123, 456, [])


def test_a_signal_reaches_the_program(podman: DockerEngine, host: str, image: str) -> None:
    """Ctrl-C is the program's to handle, and its exit code is passed on."""
    label = uuid.uuid4().hex
    script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    fields = {"image": image, "command": ["sh", "-c", script], "environment": {"PATH": "/bin"}, "labels": {"t": label}}
    command = [sys.executable, "-m", "tests.support.engine_program", "run", json.dumps(fields)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env={"DOCKER_HOST": host, "PATH": "/bin"})
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=180)[0] == b"caught\n"
        assert process.returncode == 5
    finally:
        process.kill()
        process.communicate()
    end = time.monotonic() + 180
    while podman._sdk_client().containers(all=True, filters={"label": f"t={label}"}):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_what_a_killed_command_left_goes_with_the_next(podman: DockerEngine, host: str, image: str) -> None:
    """SIGKILL of the command that runs a container: whoever asks podman next removes it; containers of others stay."""
    labels = [uuid.uuid4().hex, uuid.uuid4().hex]
    processes = []
    try:
        for label in labels:
            fields = {"image": image, "command": ["sh", "-c", "echo ready; sleep 600"], "labels": {"t": label}}
            fields["environment"] = {"PATH": "/bin"}
            command = [sys.executable, "-m", "tests.support.engine_program", "run", json.dumps(fields)]
            environ = {"DOCKER_HOST": host, "PATH": "/bin"}
            processes.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=environ))
            assert processes[-1].stdout is not None
            assert processes[-1].stdout.readline() == b"ready\n"

        def there(label: str) -> int:
            return len(podman._sdk_client().containers(all=True, filters={"label": f"t={label}"}))

        assert (there(labels[0]), there(labels[1])) == (1, 1)  # another worker's commands ask this podman too
        processes[0].kill()
        processes[0].wait()
        connect({"DOCKER_HOST": host})
        until(lambda: not there(labels[0]))  # at once, unless another worker's command is still about it
        assert there(labels[1]) == 1
    finally:
        for process in processes:
            process.kill()
            process.wait()
        connect({"DOCKER_HOST": host})


def test_the_image_is_the_same(made: Project, podman: DockerEngine, host: str, tmp_path: Path) -> None:
    """Built from nothing on podman it has Docker's digest, podman calls it by that, and its guard lets a run pass."""
    project = made.copy(tmp_path, own_store=True)
    shutil.rmtree(project.store / "derived")
    record = project.folder / "pylock.clitest.image.json"
    expected = record.read_bytes()
    record.unlink()
    built = project.must("build", DOCKER_HOST=host)
    assert record.read_bytes() == expected
    assert "load      podman " in built.out
    identity = json.loads(expected)
    found = podman.find_image(identity["reference"])
    try:
        assert found is not None
        assert found.config == identity["config"]
        assert "nothing to do" in project.must("build", DOCKER_HOST=host).out
        project.write("t.py", "import part; open('out', 'w').write(part.__version__); raise SystemExit(3)\n")
        done = project("run", "t.py", DOCKER_HOST=host)
        assert (done.code, (project.folder / "out").read_text()) == (3, "1.5"), done.err
        assert "· 1 output" in done.err
    finally:
        remove_image(podman._sdk_client(), identity["reference"])
