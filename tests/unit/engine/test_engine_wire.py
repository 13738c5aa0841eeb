"""HTTP to the engine, over pairs of sockets in place of a network."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator

import pytest

from envbuild.engine.docker import wire
from envbuild.engine.docker.endpoint import Endpoint
from envbuild.engine.docker.http import ApiError, EngineClient, ping
from envbuild.errors import EngineError

HERE = Endpoint(url="unix:///x", source="test")
CUT = "the answer ended too early"
RESTART = "is it still running? systemctl status docker"
Answering = Callable[..., socket.socket]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    """Let the next connection find an engine that has sent ``data`` already; returns the engine's side.

    It stays open unless ``ends``, so that a reader that waits for more than was promised runs into the time limit.
    """
    sockets: list[socket.socket] = []

    def answer(data: bytes, *, ends: bool = False) -> socket.socket:
        ours, theirs = socket.socketpair()
        sockets.extend((ours, theirs))
        ours.settimeout(60)
        theirs.settimeout(60)
        theirs.sendall(data)
        if ends:
            theirs.shutdown(socket.SHUT_WR)
        monkeypatch.setattr(wire, "_connect_unix", lambda endpoint, timeout: ours)
        return theirs

    yield answer
    for made in sockets:
        made.close()


@pytest.fixture
def client() -> EngineClient:
    """A client of an engine with API 1.41."""
    return EngineClient(HERE, (1, 41), "Docker/20.10.24 (linux)")


def received(engine: socket.socket) -> bytes:
    """All that the engine was sent."""
    data = b""
    while part := engine.recv(4096):
        data += part
    return data


@pytest.mark.parametrize(
    ("answer", "ends", "body"),
    [
        (b'HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n{"Id":"a"}', False, {"Id": "a"}),
        (
            b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"Id\r\n6;x=y\r\n":"a"}\r\n0\r\nT: t\r\n\r\n',
            False,
            {"Id": "a"},
        ),
        (b'HTTP/1.0 200 OK\r\n\r\n{"Id":"a"}', True, {"Id": "a"}),
        (b"HTTP/1.1 204 No Content\r\nApi-Version: 1.41\r\n\r\n", False, None),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", False, None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", False, None),
    ],
    ids=["length", "chunked", "until the end", "204", "304", "empty"],
)
def test_every_framing_of_a_body_is_understood(
    answering: Answering, client: EngineClient, answer: bytes, ends: bool, body: object
) -> None:
    """Length, chunks, the end of the connection; and answers without a body end although the connection stays open."""
    engine = answering(answer, ends=ends)
    assert client.call("POST", "/x", {"y": 1}, {"z": 2}) == body
    sent = received(engine)
    assert sent.startswith(b"POST /v1.41/x?y=1 HTTP/1.1\r\nHost: docker\r\n")
    assert b"\r\nContent-Type: application/json\r\n" in sent
    assert json.loads(sent.partition(b"\r\n\r\n")[2]) == {"z": 2}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "Remote end closed connection without response"),
        (b"SSH-2.0-x\r\n", "SSH-2.0-x\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", CUT),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            CUT,
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n", CUT),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", "Expecting value: line 1 column 1 (char 0)"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70000, "got more than 65536 bytes when reading header line"),
    ],
    ids=["nothing", "foreign", "short", "short chunk", "no chunk", "no JSON", "long header"],
)
def test_what_is_no_whole_answer_is_an_error(
    answering: Answering, client: EngineClient, answer: bytes, reason: str
) -> None:
    """A truncated or foreign answer never passes for a whole one."""
    answering(answer, ends=True)
    with pytest.raises(EngineError) as caught:
        client.call("GET", "/x")
    assert caught.value.message == f"the connection to the engine at unix:///x broke: {reason}"
    assert caught.value.hint == RESTART


@pytest.mark.parametrize(
    ("body", "message"),
    [(b'{"message": "no such image: t:1"}\n', "no such image: t:1"), (b"plain words\n", "plain words"), (b"[]", "[]")],
)
def test_an_error_status_carries_the_engines_words(
    answering: Answering, client: EngineClient, body: bytes, message: str
) -> None:
    """The engine's message is taken out of its JSON; anything else is given as it is."""
    answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    with pytest.raises(ApiError) as caught:
        client.call("GET", "/images/t:1/json")
    assert (caught.value.status, caught.value.message) == (404, message)


def test_an_answer_may_come_later(answering: Answering, client: EngineClient) -> None:
    """The block begins with the answer's head; the body is waited for when it is wanted."""
    engine = answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    with client.begun("POST", "/containers/a/wait", {"condition": "removed"}) as pending:
        engine.sendall(b'11\r\n{"StatusCode": 3}\r\n0\r\n\r\n')
        assert pending.result() == {"StatusCode": 3}


def test_an_engine_that_leaves_while_it_is_waited_for_is_an_error(answering: Answering, client: EngineClient) -> None:
    """A user who waits for a program to end hears of an engine that ends first."""
    engine = answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    with client.begun("POST", "/containers/a/wait", {}) as pending:
        engine.recv(4096)
        engine.close()
        with pytest.raises(EngineError) as caught:
            pending.result()
    assert caught.value.message == f"the connection to the engine at unix:///x broke: {CUT}"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n",
    ],
    ids=["101", "200"],
)
def test_a_raw_stream_begins_right_after_the_head(answering: Answering, client: EngineClient, head: bytes) -> None:
    """Bytes that arrive together with the answer's head are the stream's first; our end of input leaves it readable."""
    engine = answering(head + b"early")
    with client.hijacked("/containers/a/attach", {"stream": 1}) as stream:
        assert stream.read(3) == b"ear"
        assert stream.read(100) == b"ly"
        stream.write(b"typed")
        stream.end_input()
        sent = received(engine)
        assert b"\r\nUpgrade: tcp\r\n" in sent
        assert sent.endswith(b"\r\n\r\ntyped")
        engine.sendall(b"late")
        assert stream.read(100) == b"late"
        engine.close()
        assert stream.read(100) == b""


def test_a_raw_stream_is_closed_with_its_block(answering: Answering, client: EngineClient) -> None:
    """The engine sees the end of a stream that we leave, whether or not it has been read to its end."""
    engine = answering(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\nunread")
    with client.hijacked("/containers/a/attach", {}):
        pass
    received(engine)


def test_a_refused_upgrade_is_an_error(answering: Answering, client: EngineClient) -> None:
    """An error status is no stream."""
    answering(b'HTTP/1.1 409 Conflict\r\nContent-Length: 21\r\n\r\n{"message": "paused"}')
    with pytest.raises(ApiError, match=r"^paused$"), client.hijacked("/containers/a/attach", {}):
        pass


def test_an_engine_reports_its_version(answering: Answering) -> None:
    """The first call learns the newest API the engine speaks, and its name."""
    answering(b"HTTP/1.1 200 OK\r\nApi-Version: 1.50\r\nServer: Docker/28.5.2 (linux)\r\nContent-Length: 2\r\n\r\nOK")
    found = ping(HERE)
    assert (found.api, found.server) == ((1, 50), "Docker/28.5.2 (linux)")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"SSH-2.0-x\r\n", "what answers at unix:///x is no container engine: BadStatusLine('SSH-2.0-x\\r\\n')"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "what answers at unix:///x is no container engine: it names no API version",
        ),
        (
            b"HTTP/1.1 200 OK\r\nApi-Version: 1.40\r\nContent-Length: 0\r\n\r\n",
            "the engine at unix:///x speaks API 1.40; expected 1.41 (Docker 20.10) or newer",
        ),
    ],
)
def test_what_is_no_engine_or_too_old_is_named(answering: Answering, answer: bytes, message: str) -> None:
    """Anything else that listens on the socket is distinguished from an engine."""
    answering(answer)
    with pytest.raises(EngineError) as caught:
        ping(HERE)
    assert caught.value.message == message
