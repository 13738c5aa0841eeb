"""Connections to an engine: ``http.client`` over sockets of all kinds, and the raw stream that one can become."""

from __future__ import annotations

import http.client
import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from envbuild.engine.docker.endpoint import Endpoint

if TYPE_CHECKING:
    import subprocess


class Connection(http.client.HTTPConnection):
    """A connection for one request: a socket, TCP with or without TLS, or a relay over ssh."""

    def __init__(self, endpoint: Endpoint, timeout: float | None = None) -> None:
        super().__init__("docker", timeout=timeout)
        self._endpoint = endpoint
        self._helper: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """Open the connection; raises ``OSError`` if nothing answers there."""
        if self._endpoint.scheme == "unix":
            self.sock = _connect_unix(self._endpoint, self.timeout)
        elif self._endpoint.scheme == "tcp":
            self.sock = _connect_tcp(self._endpoint, self.timeout)
        else:
            self.sock, self._helper = _connect_ssh(self._endpoint)

    def end(self) -> None:
        """Close it and end the ssh helper, if any; ``close`` alone is also ``http.client``'s, long before the end."""
        self.close()
        if self._helper is not None:
            self._helper.terminate()
            self._helper.wait()


class RawStream:
    """The two-way stream that a connection is after the answer to an upgrade (101, or 200 from some proxies)."""

    def __init__(self, sock: socket.socket, response: http.client.HTTPResponse) -> None:
        self._socket = sock
        # http.client gives the socket up if an answer has no length; the answer's own file keeps it open.
        self._response = response

    def read(self, limit: int) -> bytes:
        """Wait for the next bytes, at most ``limit``; empty at the end."""
        try:
            return self._response.fp.read1(limit)  # not the answer's own read1, to which a 101 has no body
        except ConnectionResetError:
            return b""

    def write(self, data: bytes) -> None:
        """Send all of ``data``; raises ``OSError`` if the other side is gone."""
        self._socket.sendall(data)

    def end_input(self) -> None:
        """Notify the program that its standard input has ended; reading continues. Not possible with TLS in Python."""
        if type(self._socket) is socket.socket:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close both directions."""
        with suppress(OSError):  # wakes a thread that waits to send
            self._socket.shutdown(socket.SHUT_RDWR)
        self._response.close()
        self._socket.close()


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
