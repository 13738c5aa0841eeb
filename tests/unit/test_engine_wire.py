"""HTTP to the engine, over a pair of sockets in place of a network."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from envbuild.engine import wire
from envbuild.engine.endpoint import Endpoint
from envbuild.engine.wire import Connection, ProtocolError

HERE = Endpoint(url="unix:///x", source="test")


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Connection, socket.socket]]:
    """A connection and the engine's side of it."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(5)
    monkeypatch.setattr(wire, "_connect_unix", lambda endpoint, timeout: ours)
    with closing(Connection(HERE, 5)) as connection, theirs:
        yield connection, theirs


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more", b"{}"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nTrailer: t\r\n\r\n",
            b"abcd",
        ),
        (b"HTTP/1.0 200 OK\r\n\r\nall of it", b"all of it"),
        (b"HTTP/1.1 204 No Content\r\nApi-Version: 1.41\r\n\r\n", b""),
    ],
)
def test_every_framing_of_a_body_is_understood(
    ends: tuple[Connection, socket.socket], answer: bytes, body: bytes
) -> None:
    """Length, chunks, the end of the connection, and answers that have no body even if it stays open."""
    connection, engine = ends
    engine.sendall(answer)
    if b"204" not in answer:
        engine.shutdown(socket.SHUT_WR)
    connection.request("POST", "/v1.41/x?y=1", b"{}")
    assert connection.body() == body
    sent = engine.recv(4096)
    assert sent.startswith(b"POST /v1.41/x?y=1 HTTP/1.1\r\nHost: docker\r\n")
    assert sent.endswith(b"Content-Length: 2\r\n\r\n{}")


def ask(connection: Connection) -> bytes:
    """Make one call."""
    connection.request("GET", "/")
    return connection.body()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"SSH-2.0-x\r\n", "expected an HTTP status, found 'SSH-2.0-x'"),
        (b"", "the answer ended too early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "the answer ended too early"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "the answer ended too early"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n", "expected the size of a chunk, found 'no'"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70000, "a header line is too long"),
    ],
)
def test_what_is_no_answer_is_an_error(ends: tuple[Connection, socket.socket], answer: bytes, message: str) -> None:
    """A truncated or foreign answer never passes for a whole one."""
    connection, engine = ends
    engine.sendall(answer)
    engine.shutdown(socket.SHUT_WR)
    with pytest.raises(ProtocolError) as caught:
        ask(connection)
    assert str(caught.value) == message


def test_a_raw_stream_begins_right_after_the_head(ends: tuple[Connection, socket.socket]) -> None:
    """Bytes that arrive together with the answer's head are the stream's first; our end of input leaves it readable."""
    connection, engine = ends
    engine.sendall(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\nearly")
    connection.request("POST", "/attach", headers={"Upgrade": "tcp"})
    assert connection.read(100) == b"early"
    connection.write(b"typed")
    connection.end_input()
    received = b""
    while data := engine.recv(4096):
        received += data
    assert received.endswith(b"\r\n\r\ntyped")
    engine.sendall(b"late")
    assert connection.read(100) == b"late"
    engine.close()
    assert connection.read(100) == b""
