"""How an image gets into an engine: the registry on loopback, pulls from it, and loads where it cannot be reached."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest

from envbuild.core.progress import Silent
from envbuild.engine.docker import blob_server, delivery
from envbuild.engine.docker.adapter import DockerEngine, connect
from envbuild.engine.docker.blob_server import BlobServer
from envbuild.engine.protocol import ImageInfo, Parcel, ParcelLayer
from envbuild.errors import EngineError
from tests.support.parcels import layer_of, parts, small_image
from tests.support.rootfs import write_tar
from tests.support.second_engine import second_engine, where_it_is

ROOT = Path(__file__).parents[2]
NAME = f"envbuild-test-{uuid.uuid4().hex}"
"""The repository of everything this module names in an engine."""


def tag() -> str:
    return f"{NAME}:{uuid.uuid4().hex}"


def tars(folder: Path, count: int = 3) -> list[Path]:
    """Layers that nobody else has."""
    made = [folder / f"{number}.tar" for number in range(count)]
    for path in made:
        write_tar(path, {f"workspace/{path.stem}": uuid.uuid4().bytes * 64})
    return made


def digests(layers: Sequence[Path]) -> tuple[str, ...]:
    return tuple(blob.digest for blob in small_image(layers).layers)


@dataclass(frozen=True)
class Case:
    """An engine, its address, and the words that bring a process to its loopback."""

    engine: DockerEngine
    host: str
    words: list[str]

    def start(self, layers: Sequence[Path], tag: str, *counts: int, **options: bool) -> subprocess.Popen[str]:
        fields = {"layers": [str(path) for path in layers], "tag": tag, "counts": counts}
        fields |= {"hang": False, "alter": False, **options}
        return subprocess.Popen(
            [*self.words, sys.executable, "-m", "tests.support.engine_program", "deliver", json.dumps(fields)],
            cwd=ROOT, env={**os.environ, "DOCKER_HOST": self.host}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def deliver(self, layers: Sequence[Path], tag: str, *counts: int, alter: bool = False) -> dict[str, Any]:
        """Deliver an image in a process next to the engine."""
        with self.start(layers, tag, *counts, alter=alter) as process:
            out = process.communicate(timeout=300)[0]
        assert process.returncode == 0
        found: dict[str, Any] = json.loads(out)
        return found

    def image(self, tag: str) -> ImageInfo:
        found = self.engine.find_image(tag)
        assert found is not None
        return found

    def foreign(self, layers: Sequence[Path]) -> list[str]:
        """References on loopback of images that have our lowest layer."""
        found = self.engine._client.call("GET", "/images/json", {"all": 1})
        names = [name for image in found for name in image.get("RepoDigests") or () if name.startswith("127.")]
        infos = [(name, self.engine.find_image(name)) for name in names]
        return [name for name, info in infos if info and info.diff_ids[:1] == digests(layers)[:1]]


@pytest.fixture(scope="module", params=["own", "newer"])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """The machine's engine, and a newer one with the containerd store; what was named there is removed."""
    with second_engine() if request.param == "newer" else nullcontext() as host:
        engine = connect({"DOCKER_HOST": host} if host else None)
        yield Case(engine, engine._client.endpoint.url, where_it_is() if host else [])
        for image in engine._client.call("GET", "/images/json", {"filters": json.dumps({"reference": [f"{NAME}:*"]})}):
            for name in image["RepoTags"]:
                engine._client.call("DELETE", f"/images/{name}")


@pytest.mark.engine
@pytest.mark.network
class TestPull:
    """On both engines."""

    def test_an_image_comes_in_parts_and_the_next_one_brings_what_is_new(self, case: Case, tmp_path: Path) -> None:
        """Parts go ahead and leave no name; an image over the same layers sends its own alone, the same one none."""
        layers, first, second = tars(tmp_path), tag(), tag()
        assert case.deliver(layers, first, 1, 2) == {"how": "pull", "sent": sorted(digests(layers)), "why": ""}
        image = small_image(layers)
        assert case.image(first).config in (image.config_digest, image.manifest_digest)
        assert case.image(first).diff_ids == digests(layers)
        assert case.image(first).tags == (first,)

        other = [*layers[:2], *tars(tmp_path / "..", 1)]
        assert case.deliver(other, second, 2) == {"how": "pull", "sent": list(digests(other)[2:]), "why": ""}
        assert case.deliver(other, second, 1)["sent"] == []
        assert case.image(second).diff_ids == digests(other)
        assert case.foreign(layers) == []

    def test_a_layer_altered_on_its_way_is_refused(self, case: Case, tmp_path: Path) -> None:
        """The engine compares what it got with what it asked for; nothing of it keeps a name."""
        layers, name = tars(tmp_path), tag()
        found = case.deliver(layers, name, alter=True)
        assert re.fullmatch(r"cannot pull the image from envbuild: .*(verification|digest).*", found["error"])
        assert case.engine.find_image(name) is None
        assert case.foreign(layers) == []

    def test_an_interrupt_leaves_nothing_and_what_a_kill_leaves_is_swept(self, case: Case, tmp_path: Path) -> None:
        """After SIGINT no name is left; after SIGKILL a part keeps its foreign name until the next delivery."""
        layers, name = tars(tmp_path), tag()
        for number, left in ((signal.SIGINT, 0), (signal.SIGKILL, 1)):
            with case.start(layers, name, 2, hang=True) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "waiting\n"
                assert len(case.foreign(layers)) == 1
                process.send_signal(number)
                assert process.wait() != 0
                assert len(case.foreign(layers)) == left
                process.communicate()  # its child closes the port, so that no delivery takes it for a living one's
        assert case.engine.find_image(name) is None
        case.deliver(tars(tmp_path / "..", 1), tag())
        assert case.foreign(layers) == []

    def test_two_deliveries_at_once(self, case: Case, tmp_path: Path) -> None:
        """Two processes that bring the same image under two names both succeed."""
        layers, names = tars(tmp_path), [tag(), tag()]
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda name: case.deliver(layers, name, 1), names))
        assert [entry["how"] for entry in found] == ["pull", "pull"]
        assert {case.image(name).diff_ids for name in names} == {digests(layers)}
        assert case.foreign(layers) == []

    def test_elsewhere_the_image_is_loaded(self, case: Case, tmp_path: Path) -> None:
        """An engine over TCP, or one that has a separate loopback, gets the image without a registry."""
        layers, name = tars(tmp_path), tag()
        if case.words:
            done, reason = case.engine.deliver(parts(layers, name, [1]), name, Silent()), r"^(Get |Head |failed )"
        else:
            with tcp_relay(case.host) as url:
                done, reason = connect({"DOCKER_HOST": url}).deliver(parts(layers, name, [1]), name, Silent()), r"tcp:"
        assert done.how == "load"
        assert done.sent == frozenset(digests(layers))
        assert re.search(reason, done.why)
        assert case.image(name).diff_ids == digests(layers)


@contextmanager
def tcp_relay(host: str) -> Iterator[str]:
    """Give the address of an engine's socket over TCP."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, far = listener.accept()[0], socket.socket(socket.AF_UNIX)
                far.connect(host.removeprefix("unix://"))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=copy, args=pair, daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


Pull = Callable[[BaseHTTPRequestHandler, http.client.HTTPConnection, str], None]
"""What a stand-in does instead of a pull, given a connection to the registry and the manifest's path."""


@contextmanager
def stand_in(folder: Path, pull: Pull) -> Iterator[DockerEngine]:
    """An engine that lists no images, takes every load and pulls as it is reported."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.close_connection = True
            if match := re.search(r"fromImage=127\.0\.0\.1%3A(\d+)%2F([\w-]+)%40(sha256)%3A(\w+)", self.path):
                with closing(http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=60)) as registry:
                    pull(self, registry, f"/v2/{match[2]}/manifests/sha256:{match[4]}")
                return
            while self.headers.get("Transfer-Encoding") == "chunked":
                size = int(self.rfile.readline(), 16)
                self.rfile.read(size + 2)
                if size == 0:
                    break
            self.say(b"[]" if self.path.split("?")[0].endswith("s/json") else b'{"ApiVersion": "1.41"}')

        def say(self, body: bytes) -> None:
            with suppress(BrokenPipeError):
                self._say(body)

        def _say(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Api-Version", "1.41")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = answer

        def address_string(self) -> str:
            return "socket"

        def log_message(self, *args: object) -> None:
            pass

    path = folder / f"{uuid.uuid4().hex[:8]}.sock"
    with ThreadingUnixStreamServer(str(path), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield connect({"DOCKER_HOST": f"unix://{path}"})
        server.shutdown()


def ask(registry: http.client.HTTPConnection, path: str) -> None:
    """Ask for the manifest, as an engine that reaches the registry does."""
    registry.request("GET", path)
    assert registry.getresponse().status == 200


def one(folder: Path) -> tuple[Iterator[Parcel], str]:
    """An image to deliver, and its tag."""
    name = tag()
    return parts(tars(folder, 1), name), name


def test_an_engine_that_dies_in_the_middle(tmp_path: Path) -> None:
    """Its end is an error that reports it; the registry's threads end with the delivery."""

    def die(handler: BaseHTTPRequestHandler, registry: http.client.HTTPConnection, path: str) -> None:
        ask(registry, path)

    before = set(threading.enumerate())
    with stand_in(tmp_path, die) as engine:
        url = engine._client.endpoint.url
        with pytest.raises(EngineError) as caught:
            engine.deliver(*one(tmp_path), Silent())
    assert caught.value.message == (
        f"the connection to the engine at {url} broke: Remote end closed connection without response"
    )
    assert caught.value.hint == "is it still running? systemctl status docker"
    assert not [thread for thread in threading.enumerate() if thread.name == "blobs"]
    for thread in set(threading.enumerate()) - before:  # the stand-in's own, which have nothing left to do
        thread.join(60)
        assert not thread.is_alive(), thread


def test_an_engine_without_room(tmp_path: Path) -> None:
    """The engine's words for a full disk lead to the command that makes room."""

    def full(handler: Any, registry: http.client.HTTPConnection, path: str) -> None:
        ask(registry, path)
        handler.say(b'{"status": "Pulling"}\r\n{"error": "write /var/x: no space left on device"}\r\n')

    with stand_in(tmp_path, full) as engine, pytest.raises(EngineError) as caught:
        engine.deliver(*one(tmp_path), Silent())
    assert caught.value.message == "cannot pull the image from envbuild: write /var/x: no space left on device"
    assert caught.value.hint.startswith("the engine's disk is full; ")


def test_an_engine_that_never_comes_to_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that states it cannot gets a load at once, one that answers nothing after a while."""
    loaded = threading.Event()

    def refuse(handler: Any, registry: http.client.HTTPConnection, path: str) -> None:
        handler.say(b'{"error": "dial tcp 127.0.0.1:1: connect: connection refused"}')

    def wait(handler: Any, registry: http.client.HTTPConnection, path: str) -> None:
        loaded.wait(600)

    for pull, patience, why in (
        (refuse, 600.0, "dial tcp 127.0.0.1:1: connect: connection refused"),
        (wait, 0.3, "it asked nothing for 0 s"),
    ):
        monkeypatch.setattr(delivery, "_PATIENCE", patience)
        with stand_in(tmp_path, pull) as engine:
            done = engine.deliver(*one(tmp_path), Silent())
        assert (done.how, done.why) == ("load", why)
    loaded.set()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BlobServer]:
    """A registry that has one layer of 100,000 bytes, digest ``b…``, and a manifest, digest ``a…``."""
    (tmp_path / "layer").write_bytes(bytes(range(250)) * 400)
    with BlobServer() as server:
        server.offer(
            ("a" * 64, b"{}"), {"b" * 64: layer_of(tmp_path / "layer", "b" * 64, 100_000), "c" * 64: b"config"}
        )
        yield server


def get(server: BlobServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Ask the registry."""
    with closing(http.client.HTTPConnection(server.repository.partition("/")[0], timeout=60)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}


def test_the_registry_serves_what_it_was_given_and_nothing_else(server: BlobServer) -> None:
    """Manifest, configuration and layer by digest, whole, in part or the head alone; anything else is not there."""
    base, layer = f"/v2/{server.name}", bytes(range(250)) * 400
    assert get(server, "/v2/")[:2] == (200, b"{}")
    assert not server.asked.is_set()
    status, body, headers = get(server, f"{base}/manifests/sha256:{'a' * 64}")
    assert (status, body, headers["content-type"]) == (200, b"{}", "application/vnd.oci.image.manifest.v1+json")
    assert headers["docker-content-digest"] == f"sha256:{'a' * 64}"
    assert server.asked.is_set()
    assert get(server, f"{base}/blobs/sha256:{'c' * 64}")[:2] == (200, b"config")
    blob = f"{base}/blobs/sha256:{'b' * 64}"
    assert get(server, blob)[:2] == (200, layer)
    status, body, headers = get(server, blob, "HEAD")
    assert (status, body, headers["content-length"]) == (200, b"", "100000")
    status, body, headers = get(server, blob, Range="bytes=10-19")
    assert (status, body, headers["content-range"]) == (206, layer[10:20], "bytes 10-19/100000")
    assert get(server, blob, Range="bytes=99990-")[:2] == (206, layer[-10:])
    assert get(server, blob, Range="bytes=100000-")[0] == 416
    assert server.requested == {"b" * 64}
    for path in ("/", f"{base}/tags/list", f"{base}/blobs/sha256:{'d' * 64}", f"/v2/other/blobs/sha256:{'b' * 64}",
                 f"{base}/blobs/../../etc/passwd", f"{base}/manifests/latest"):  # fmt: skip
        assert get(server, path)[0] == 404, path
    assert get(server, f"{base}/blobs/uploads/", "POST")[0] == 501


def test_the_registry_answers_tls_with_a_refusal_in_plain_http(server: BlobServer) -> None:
    """Engines try TLS first, and continue in plain HTTP after this answer."""
    host, port = server.repository.partition("/")[0].split(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as connection:
        connection.sendall(b"\x16\x03\x01\x00\x05hello")
        assert connection.recv(100).startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_strangers_do_not_keep_the_engine_out(server: BlobServer) -> None:
    """Of too many connections those go first whose peers do not know the name; one in use stays."""
    host, port = server.repository.partition("/")[0].split(":")
    with ExitStack() as stack:
        engine = stack.enter_context(closing(http.client.HTTPConnection(host, int(port), timeout=60)))
        engine.request("GET", f"/v2/{server.name}/manifests/sha256:{'a' * 64}")
        assert engine.getresponse().read() == b"{}"
        own = engine.sock
        strangers = []
        for _ in range(100):
            strangers.append(stack.enter_context(closing(socket.create_connection((host, int(port)), timeout=60))))
            strangers[-1].sendall(b"GET /v2/")
        for stranger in strangers[:50]:
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        engine.request("GET", f"/v2/{server.name}/blobs/sha256:{'c' * 64}")
        assert engine.getresponse().read() == b"config"
        assert engine.sock is own
        assert get(server, f"/v2/{server.name}/manifests/sha256:{'a' * 64}")[0] == 200


def test_a_silent_connection_is_closed(server: BlobServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that asks for nothing, or takes nothing of what it asked for, does not stay open for ever."""
    monkeypatch.setattr(blob_server._Handler, "timeout", 0.1)
    host, port = server.repository.partition("/")[0].split(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as connection:
        assert connection.recv(1) == b""


def test_the_registry_ends_with_readers_that_do_not_read(tmp_path: Path) -> None:
    """Leaving the context cuts a connection whose other side has stopped reading; its name is unlike the last one's."""
    with (tmp_path / "layer").open("wb") as stream:
        stream.truncate(64 << 20)
    names = set()
    for _ in range(2):
        with BlobServer() as server, closing(socket.socket()) as connection:
            server.offer(("a" * 64, b"{}"), {"b" * 64: layer_of(tmp_path / "layer", "b" * 64, 64 << 20)})
            host, port = server.repository.partition("/")[0].split(":")
            connection.connect((host, int(port)))
            connection.sendall(f"GET /v2/{server.name}/blobs/sha256:{'b' * 64} HTTP/1.1\r\n\r\n".encode())
            assert connection.recv(8) == b"HTTP/1.1"
            names.add(server.name)
    assert len(names) == 2


def test_the_registry_follows_a_layer_that_is_being_written(tmp_path: Path) -> None:
    """A reader gets bytes as they come, through a rename; a whole file that is too short ends the answer early."""
    grown, data = tmp_path / "grown", os.urandom(3000)
    state: list[tuple[Path, bool]] = []
    layer = ParcelLayer(digest="b" * 64, size=len(data), file=lambda: state[-1] if state else None)
    with BlobServer() as server:
        server.offer(("a" * 64, b"{}"), {layer.digest: layer})
        path = f"/v2/{server.name}/blobs/sha256:{layer.digest}"
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(get, server, path)
            time.sleep(0.1)
            state.append((grown, False))
            with grown.open("wb", buffering=0) as stream:
                stream.write(data[:1000])
                time.sleep(0.1)
                grown.rename(tmp_path / "moved")
                time.sleep(0.1)
                assert not answer.done()
                stream.write(data[1000:])
            state.append((tmp_path / "moved", True))
            assert answer.result(timeout=60)[:2] == (200, data)
        (tmp_path / "moved").write_bytes(data[:2000])
        with pytest.raises(http.client.IncompleteRead):
            get(server, path)
        state.append((grown, False))
        pool = ThreadPoolExecutor(1)
        answer = pool.submit(get, server, path)
        time.sleep(0.1)
        assert not answer.done()
    with pytest.raises((http.client.HTTPException, OSError)):  # leaving has ended the wait
        answer.result(timeout=60)
    pool.shutdown()
