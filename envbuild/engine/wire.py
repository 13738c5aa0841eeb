"""Bytes to and from an engine: sockets of all kinds, and one HTTP/1.1 request on each (RFC 9112)."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from envbuild.engine.endpoint import Endpoint

if TYPE_CHECKING:
    import subprocess

_LINE = 1 << 16
"""Longest header line accepted, in bytes."""


class ProtocolError(Exception):
    """What came back is not HTTP."""


class Connection:
    """A connection for one request: a socket, TCP with or without TLS, or a relay over ssh.

    Attributes:
        status: of the answer.
        headers: of the answer, names in lower case.

    Raises:
        OSError: nothing answers there.
    """

    def __init__(self, endpoint: Endpoint, timeout: float | None = None) -> None:
        self._helper: subprocess.Popen[bytes] | None = None
        if endpoint.scheme == "unix":
            self._socket = _connect_unix(endpoint, timeout)
        elif endpoint.scheme == "tcp":
            self._socket = _connect_tcp(endpoint, timeout)
        else:
            self._socket, self._helper = _connect_ssh(endpoint)
        self._reader = self._socket.makefile("rb")
        self.status = 0
        self.headers: dict[str, str] = {}

    def request(self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send a request and read the answer's head; raises ``ProtocolError`` or ``OSError``."""
        fields = {"Host": "docker", "Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in {**fields, **(headers or {})}.items())]
        self._socket.sendall("\r\n".join((*lines, "", "")).encode("ascii") + body)
        version, _, rest = self._line().partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
            raise ProtocolError(f"expected an HTTP status, found {version[:40]!r}")
        self.status = int(rest[:3])
        while line := self._line():
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    def body(self) -> bytes:
        """Read the answer's body; RFC 9112 section 6.3 says where it ends."""
        if self.status in (204, 304):
            return b""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            return b"".join(self._chunks())
        length = self.headers.get("content-length")
        return self._reader.read() if length is None else self._exactly(int(length))

    def read(self, limit: int) -> bytes:
        """Wait for the next bytes of a raw stream, at most ``limit``; empty at the end."""
        try:
            return self._reader.read1(limit)
        except ConnectionResetError:
            return b""

    def write(self, data: bytes) -> None:
        """Send all of ``data``; raises ``OSError`` if the other side is gone."""
        self._socket.sendall(data)

    def end_input(self) -> None:
        """Tell the program that its standard input has ended; reading goes on. Not possible with TLS in Python."""
        if type(self._socket) is socket.socket:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close both directions and end the ssh helper, if any."""
        with suppress(OSError):  # wakes a thread that waits to send
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.close()
        self._socket.close()
        if self._helper is not None:
            self._helper.terminate()
            self._helper.wait()

    def _line(self) -> str:
        """Read one line of a head."""
        line = self._reader.readline(_LINE)
        if not line.endswith(b"\n"):
            raise ProtocolError("the answer ended too early" if len(line) < _LINE else "a header line is too long")
        return line.decode("latin-1").rstrip("\r\n")

    def _exactly(self, size: int) -> bytes:
        """Read ``size`` bytes."""
        data = self._reader.read(size)
        if len(data) < size:
            raise ProtocolError("the answer ended too early")
        return data

    def _chunks(self) -> Iterator[bytes]:
        """Read a chunked body (RFC 9112, section 7.1)."""
        while size := _chunk_size(self._line()):
            yield self._exactly(size)
            self._line()
        while self._line():
            pass


def _chunk_size(line: str) -> int:
    """Read a chunk's head."""
    try:
        return int(line.partition(";")[0], 16)
    except ValueError:
        raise ProtocolError(f"expected the size of a chunk, found {line[:40]!r}") from None


def _connect_unix(endpoint: Endpoint, timeout: float | None) -> socket.socket:
    """Connect to a socket in the file system."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout)
        made.connect(endpoint.address)
    except OSError:
        made.close()
        raise
    return made


def _connect_tcp(endpoint: Endpoint, timeout: float | None) -> socket.socket:
    """Connect over TCP, with TLS if there are certificates."""
    url = urlsplit(endpoint.url)
    port = url.port or (2376 if endpoint.certificates else 2375)
    plain = socket.create_connection((url.hostname or "localhost", port), timeout)
    if endpoint.certificates is None:
        return plain
    import ssl

    context = ssl.create_default_context(cafile=str(endpoint.certificates / "ca.pem"))
    context.check_hostname = endpoint.verify
    context.verify_mode = ssl.CERT_REQUIRED if endpoint.verify else ssl.CERT_NONE
    context.load_cert_chain(str(endpoint.certificates / "cert.pem"), str(endpoint.certificates / "key.pem"))
    return context.wrap_socket(plain, server_hostname=url.hostname)


def _connect_ssh(endpoint: Endpoint) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Connect through ``docker system dial-stdio`` on the other machine, as the docker command does."""
    import subprocess

    url = urlsplit(endpoint.url)
    target = f"{url.username}@{url.hostname}" if url.username else str(url.hostname)
    port = ["-p", str(url.port)] if url.port else []
    ours, theirs = socket.socketpair()
    with theirs:
        command = ["ssh", *port, "-T", "--", target, "docker", "system", "dial-stdio"]
        return ours, subprocess.Popen(command, stdin=theirs.fileno(), stdout=theirs.fileno())
