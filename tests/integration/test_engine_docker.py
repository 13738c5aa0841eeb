"""Steps, loads and faults on the real engine and on stand-ins that misbehave."""

from __future__ import annotations

import hashlib
import io
import json
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import BinaryIO

import pytest

from envbuild.engine.docker.adapter import DockerEngine, connect
from envbuild.engine.docker.step import STEP_LABEL
from envbuild.engine.protocol import Step
from envbuild.errors import BuildError, EngineError
from tests.support.rootfs import write_rootfs, write_tar

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def engine() -> DockerEngine:
    """The real engine."""
    return connect()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny root file system."""
    tar = tmp_path_factory.mktemp("rootfs") / "rootfs.tar"
    write_rootfs(tar)
    return tar


@pytest.fixture(scope="module")
def key(engine: DockerEngine) -> Iterator[str]:
    """A base key of this run's own, whose import is removed afterwards."""
    key = uuid.uuid4().hex
    yield key
    with suppress(Exception):
        engine._sdk_client().remove_image(f"envbuild-step:{key}")


def a_step(base: Path, key: str, script: str, result: str = "/work", inputs: Path | None = None) -> Step:
    """A shell script over the tiny root file system."""
    command = ("/bin/sh", "-c", script)
    return Step(base=base, base_key=key, command=command, environment={"PATH": "/bin"}, inputs=inputs, result=result)


def left_over(engine: DockerEngine, key: str) -> list[str]:
    """Containers of steps with this base, in any state."""
    return engine._sdk_client().containers(all=True, quiet=True, filters={"label": f"{STEP_LABEL}={key}"})


def members(stream: BinaryIO) -> dict[str, str]:
    """Every member of a streamed tar with its text; binary bytes are replaced."""
    found = {}
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            data = tar.extractfile(member) if member.isreg() else None
            found[member.name] = data.read().decode(errors="replace") if data else ""
    return found


@pytest.mark.engine
def test_a_step_gives_its_result_back(engine: DockerEngine, base: Path, key: str, tmp_path: Path) -> None:
    """Inputs go in, the command sees exactly its environment and no network, the result folder comes out."""
    write_tar(tmp_path / "in.tar", {"work/in.txt": b"abc"})
    script = "cd /work; cat in.txt > out; env -u OLDPWD PWD=/ > env; cat /proc/net/dev > net; id -u > id"
    with engine.run_step(a_step(base, key, script, inputs=tmp_path / "in.tar")) as stream:
        found = members(stream)
    assert sorted(found) == ["work", "work/env", "work/id", "work/in.txt", "work/net", "work/out"]
    text = {name: found[f"work/{name}"] for name in ("out", "env", "net", "id")}
    assert text["out"] == "abc"
    assert text["id"] == "0\n"
    assert sorted(line.split("=")[0] for line in text["env"].splitlines()) == ["HOME", "HOSTNAME", "PATH", "PWD"]
    assert "HOSTNAME=envbuild\n" in text["env"]
    assert [line.split(":")[0].strip() for line in text["net"].splitlines()[2:]] == ["lo"]
    assert left_over(engine, key) == []


@pytest.mark.engine
def test_a_whole_file_system_comes_back_once_imported(engine: DockerEngine, base: Path, key: str) -> None:
    """Names are relative without a leading dot, and a second step takes the imported base as it is."""
    sdk, reference, holder = engine._sdk_client(), f"envbuild-step:{key}", ""
    identities = set()
    try:
        for _ in range(2):
            with engine.run_step(a_step(base, key, "true", result="/")) as stream:
                assert {"bin/sh", "workspace"} <= set(members(stream))
                # Builds that run during this test sweep away all bases but the newest, if no container has them.
                holder = holder or sdk.create_container(reference, command=["/bin/true"])["Id"]
            found = engine.find_image(reference)
            assert found is not None
            identities.add(found.config)
            assert found.diff_ids == (hashlib.sha256(base.read_bytes()).hexdigest(),)
    finally:
        if holder:
            sdk.remove_container(holder)
    assert len(identities) == 1


@pytest.mark.engine
def test_a_failing_step_shows_the_end_of_its_output(engine: DockerEngine, base: Path, key: str) -> None:
    """The message holds the exit code and what the command reported last."""
    with (
        pytest.raises(BuildError) as caught,
        engine.run_step(a_step(base, key, "exec >&2; echo one; echo two; exit 3")),
    ):
        raise AssertionError("unreachable")
    assert caught.value.message == (
        "/bin/sh -c exec >&2; echo one; echo two; exit 3 failed with exit code 3; the end of its output:\n  one\n  two"
    )
    assert left_over(engine, key) == []


@pytest.mark.engine
def test_a_result_that_is_not_there_is_named(engine: DockerEngine, base: Path, key: str) -> None:
    """A step that did not make its result is an error of the build."""
    with pytest.raises(BuildError) as caught, engine.run_step(a_step(base, key, "true", result="/nothing")):
        raise AssertionError("unreachable")
    assert caught.value.message == "/bin/sh -c true left no /nothing"


@pytest.mark.engine
def test_an_interrupted_step_leaves_no_container(engine: DockerEngine, base: Path, key: str) -> None:
    """Ctrl-C in the middle of a step removes its container."""
    fields = {"base": str(base), "base_key": key, "command": ["/bin/sh", "-c", "sleep 600"], "environment": {}}
    fields["command"] = ["/bin/sleep", "600"]
    command = [sys.executable, "-m", "tests.support.engine_program", "step", json.dumps(fields)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 300
        filters = {"label": f"{STEP_LABEL}={key}", "status": "running"}
        while not engine._sdk_client().containers(filters=filters):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=500)  # of the ten minutes that the step would take
        assert left_over(engine, key) == []
    finally:
        process.kill()
        process.communicate()


@pytest.mark.engine
def test_layers_the_engine_holds_need_not_be_sent(engine: DockerEngine, tmp_path: Path) -> None:
    """After one image is loaded, a second one with the same lower layer loads without that layer's file."""
    layers = []
    for name in ("lower", "upper"):
        write_tar(tmp_path / name, {name: uuid.uuid4().bytes})
        layers.append((tmp_path / name).read_bytes())
    first, second = f"envbuild-test:{uuid.uuid4().hex}", f"envbuild-test:{uuid.uuid4().hex}"
    try:
        engine.load(iter([archive(first, layers[:1], layers[:1])]))
        chain = (hashlib.sha256(layers[0]).hexdigest(),)
        if engine.held_layers() is None:
            pytest.skip("this image store reports no layers: everything is always sent")
        assert chain in (engine.held_layers() or ())
        engine.load(iter([archive(second, layers, layers[1:])]))
        found = engine.find_image(second)
        assert found is not None
        assert found.tags == (second,)
        assert found.diff_ids == tuple(hashlib.sha256(layer).hexdigest() for layer in layers)
        assert found.config == hashlib.sha256(config(layers)).hexdigest()
    finally:
        for tag in (first, second):
            with suppress(Exception):
                engine._sdk_client().remove_image(tag)


@pytest.mark.engine
def test_a_damaged_archive_is_refused(engine: DockerEngine) -> None:
    """An error in the middle of the engine's answer is an error, not a success."""
    with pytest.raises(EngineError, match=r"^cannot load the image: "):
        engine.load(iter([b"no tar at all" * 1000]))


@pytest.mark.engine
def test_the_engine_describes_itself(engine: DockerEngine) -> None:
    """Name, version, store and API are known, and an image that is not there is None."""
    assert set(engine.describe()) == {"name", "version", "storage", "api"}
    assert all(engine.describe().values())
    assert engine.find_image("envbuild-test:none") is None


def test_no_engine_reports_what_was_tried_and_how_to_get_one(tmp_path: Path) -> None:
    """An address where nothing is, and one where nothing listens, are reported with the variable that names them."""
    absent = tmp_path / "absent.sock"
    with pytest.raises(EngineError) as caught:
        connect({"DOCKER_HOST": f"unix://{absent}"})
    assert caught.value.message == (
        f"no container engine answers; tried\n  unix://{absent} (DOCKER_HOST): No such file or directory"
    )
    assert caught.value.hint == "start the engine there, or look elsewhere: unset DOCKER_HOST"
    dead = tmp_path / "dead.sock"
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(dead))
    with pytest.raises(EngineError) as caught:
        connect({"DOCKER_HOST": f"unix://{dead}"})
    assert caught.value.message == (
        f"no container engine answers; tried\n  unix://{dead} (DOCKER_HOST): Connection refused"
    )
    assert caught.value.hint == "start the engine there, or look elsewhere: unset DOCKER_HOST"


def test_an_engine_too_old_and_something_else_are_distinguished(tmp_path: Path) -> None:
    """An old engine is named with its version; a server that is no engine is reported as such."""
    with StandIn(tmp_path, {"Api-Version": "1.30"}) as url:
        with pytest.raises(EngineError) as caught:
            connect({"DOCKER_HOST": url})
        assert caught.value.message == (f"the engine at {url} speaks API 1.30; expected 1.41 (Docker 20.10) or newer")
    with StandIn(tmp_path, {}) as url:
        with pytest.raises(EngineError) as caught:
            connect({"DOCKER_HOST": url})
        assert caught.value.message == f"what answers at {url} is no container engine: it names no API version"
    with StandIn(tmp_path, {"Api-Version": "1.47", "Ostype": "windows"}) as url:
        with pytest.raises(EngineError) as caught:
            connect({"DOCKER_HOST": url})
        assert caught.value.message == (
            f"the engine at {url} runs windows containers; expected linux, which envbuild's images are for"
        )


def test_a_full_disk_gets_its_own_advice(tmp_path: Path) -> None:
    """The engine's words for a full disk lead to the command that makes room."""
    with StandIn(tmp_path, {"Api-Version": "1.41"}, b'{"error": "write /x: no space left on device"}') as url:
        engine = connect({"DOCKER_HOST": url})
        with pytest.raises(EngineError) as caught:
            engine.load(iter([b"data"]))
    assert caught.value.message == "cannot load the image: write /x: no space left on device"
    assert caught.value.hint == (
        "the engine's disk is full; see docker (or podman) system df, then make room: docker system prune"
    )


def config(layers: list[bytes]) -> bytes:
    """An image configuration over layers."""
    rootfs = {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]}
    return json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}).encode()


def archive(tag: str, layers: list[bytes], sent: list[bytes]) -> bytes:
    """A docker archive that names all ``layers`` and holds those ``sent``."""
    names = {layer: f"{hashlib.sha256(layer).hexdigest()}.tar" for layer in layers}
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": [names[layer] for layer in layers]}]
    files = {"config.json": config(layers), "manifest.json": json.dumps(manifest).encode()}
    files |= {names[layer]: layer for layer in sent}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


class StandIn:
    """A server on a socket that answers everything with given headers and body."""

    def __init__(self, folder: Path, headers: dict[str, str], body: bytes = b'{"ApiVersion": "1.41"}') -> None:
        path = folder / f"{uuid.uuid4().hex[:8]}.sock"
        self.url = f"unix://{path}"

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                while self.headers.get("Transfer-Encoding") == "chunked":
                    size = int(self.rfile.readline(), 16)
                    self.rfile.read(size + 2)
                    if size == 0:
                        break
                known = {"version": b'{"ApiVersion": "1.41"}', "containers/json": b"[]"}
                data = next((text for end, text in known.items() if self.path.split("?")[0].endswith(f"/{end}")), body)
                self.send_response(200)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = answer

            def address_string(self) -> str:
                return "socket"

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingUnixStreamServer(str(path), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self.url

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.server.server_close()
