"""A small client of the engine's HTTP API, standard library only: what looking up and running an image needs.

Why not the docker SDK here: importing it costs about 220 ms (requests, urllib3, charset_normalizer), more than all
that ``envbuild run`` may add to ``docker run``. This client costs about 20 ms and gives the raw connection of an
attached container, which the SDK hides. The SDK stays in charge of what moves whole file systems.

Source of the calls: https://docs.docker.com/reference/api/engine/version/v1.41/
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from envbuild.engine.endpoint import Endpoint
from envbuild.errors import EngineError

MINIMUM_API = (1, 41)
"""Docker Engine 20.10, that of Debian 12."""


class ApiError(Exception):
    """The engine answered with an error status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def engine_refused(doing: str, reason: str, hint: str = "") -> EngineError:
    """Name what the engine refused ("cannot …") and why; a full disk gets its own hint."""
    message = f"cannot {doing}: {reason.strip()}"
    if "no space left on device" in reason.lower():
        hint = "the engine's disk is full; see docker system df, then make room: docker system prune"
    return EngineError(message, hint)


class Connection(http.client.HTTPConnection):
    """One HTTP connection to an endpoint: a socket, TCP with or without TLS, or a relay over ssh."""

    def __init__(self, endpoint: Endpoint, timeout: float | None = None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._endpoint = endpoint
        self._helper: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """Open the connection; raises ``OSError``."""
        if self._endpoint.scheme == "unix":
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._endpoint.address)
        elif self._endpoint.scheme == "tcp":
            self._connect_tcp()
        else:
            self._connect_ssh()

    def close(self) -> None:
        """Close it and end the ssh helper, if any."""
        super().close()
        if self._helper is not None:
            self._helper.terminate()
            self._helper.wait()

    def _connect_tcp(self) -> None:
        url = urlsplit(self._endpoint.url)
        certificates = self._endpoint.certificates
        port = url.port or (2376 if certificates else 2375)
        self.sock = socket.create_connection((url.hostname or "localhost", port), self.timeout)
        if certificates is None:
            return
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        context.check_hostname = self._endpoint.verify
        context.verify_mode = ssl.CERT_REQUIRED if self._endpoint.verify else ssl.CERT_NONE
        context.load_cert_chain(str(certificates / "cert.pem"), str(certificates / "key.pem"))
        self.sock = context.wrap_socket(self.sock, server_hostname=url.hostname)

    def _connect_ssh(self) -> None:
        url = urlsplit(self._endpoint.url)
        target = f"{url.username}@{url.hostname}" if url.username else str(url.hostname)
        port = ["-p", str(url.port)] if url.port else []
        self.sock, theirs = socket.socketpair()
        with theirs:
            command = ["ssh", *port, "-T", "--", target, "docker", "system", "dial-stdio"]
            self._helper = subprocess.Popen(command, stdin=theirs.fileno(), stdout=theirs.fileno())


class EngineClient:
    """Calls of one engine. Every call opens its own connection, so calls from a signal handler are safe.

    Attributes:
        endpoint: where the engine is.
        api: its newest API version, such as ``(1, 41)``.
        server: what it calls itself, such as ``Docker/20.10.24 (linux)``.
    """

    def __init__(self, endpoint: Endpoint, api: tuple[int, int], server: str) -> None:
        self.endpoint = endpoint
        self.api = api
        self.server = server

    def call(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """Send a request and return the JSON answer (None if empty).

        Raises:
            ApiError: the engine answered with an error status.
            EngineError: the connection failed.
        """
        text = self.text(method, path, query, body)
        return json.loads(text) if text.strip() else None

    def text(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> str:
        """Send a request and return the answer as it is; raises as ``call`` does."""
        with closing(Connection(self.endpoint)) as connection, _lost(self.endpoint):
            return self._send(connection, method, path, query, body).read().decode(errors="replace")

    def begin(self, method: str, path: str, query: Mapping[str, Any]) -> PendingAnswer:
        """Send a request whose answer comes later; the engine has accepted it when this returns."""
        connection = Connection(self.endpoint)
        with _lost(self.endpoint):
            return PendingAnswer(connection, self._send(connection, method, path, query), self.endpoint)

    def hijack(self, path: str, query: Mapping[str, Any]) -> Hijacked:
        """Turn a POST into a raw two-way stream, as the attach call defines it."""
        connection = Connection(self.endpoint)
        with _lost(self.endpoint):
            connection.connect()
            stream = connection.sock
            upgrade = {"Upgrade": "tcp", "Connection": "Upgrade"}
            response = self._send(connection, "POST", path, query, headers=upgrade)
        return Hijacked(connection, stream, response)

    def _send(
        self,
        connection: Connection,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        """Send one request and read the answer's head."""
        url = f"/v{self.api[0]}.{self.api[1]}{path}" + (f"?{urlencode(query)}" if query else "")
        data = b"" if body is None else json.dumps(body).encode()
        connection.request(method, url, data, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        if response.status >= 400:
            text = response.read().decode(errors="replace")
            with suppress(ValueError, AttributeError):
                text = json.loads(text).get("message", text)
            raise ApiError(response.status, text.strip())
        return response


class PendingAnswer:
    """An accepted request whose body arrives later."""

    def __init__(self, connection: Connection, response: http.client.HTTPResponse, endpoint: Endpoint) -> None:
        self._connection = connection
        self._response = response
        self._endpoint = endpoint

    def result(self) -> Any:
        """Wait for the JSON body; raises ``EngineError`` if the engine goes away first."""
        with closing(self._connection), _lost(self._endpoint):
            return json.loads(self._response.read())

    def close(self) -> None:
        """Give the answer up."""
        self._connection.close()


class Hijacked:
    """The raw stream of an attached container."""

    def __init__(self, connection: Connection, stream: socket.socket, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response  # owns the buffered reader below; closing it early would close the stream
        self._stream = stream
        self._early = self._buffered()

    def read(self, limit: int) -> bytes:
        """Wait for the next bytes, at most ``limit``; empty at the end."""
        if self._early:
            early, self._early = self._early[:limit], self._early[limit:]
            return early
        try:
            return self._stream.recv(limit)
        except ConnectionResetError:
            return b""

    def write(self, data: bytes) -> None:
        """Send all of ``data``; raises ``OSError`` if the other side is gone."""
        self._stream.sendall(data)

    def end_input(self) -> None:
        """Tell the program that its standard input has ended; reading goes on."""
        if not isinstance(self._stream, ssl.SSLSocket):  # Python cannot close one direction of TLS
            with suppress(OSError):
                self._stream.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close both directions."""
        self._response.close()
        self._connection.close()
        self._stream.close()

    def _buffered(self) -> bytes:
        """Take what arrived together with the answer's head out of the HTTP reader's buffer."""
        timeout = self._stream.gettimeout()
        self._stream.settimeout(0)
        try:
            reader: Any = self._response.fp
            count = len(reader.peek(1)) if reader is not None else 0
            return bytes(reader.read1(count)) if count else b""
        finally:
            self._stream.settimeout(timeout)


def ping(endpoint: Endpoint, timeout: float = 10.0) -> EngineClient:
    """Ask whether an engine is there; ``timeout`` in seconds.

    Raises:
        OSError: nothing answers.
        EngineError: what answers is no engine, or one too old.
    """
    with closing(Connection(endpoint, timeout)) as connection:
        try:
            connection.request("GET", "/_ping")
            response = connection.getresponse()
            response.read()
        except http.client.HTTPException as error:
            raise EngineError(f"what answers at {endpoint.url} is no container engine: {error!r}") from None
    words = (response.getheader("Api-Version") or "").split(".")
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        raise EngineError(f"what answers at {endpoint.url} is no container engine: it names no API version")
    api = (int(words[0]), int(words[1]))
    if api < MINIMUM_API:
        raise EngineError(
            f"the engine at {endpoint.url} speaks API {'.'.join(words)}; expected 1.41 (Docker 20.10) or newer",
            "update the engine: apt-get install --only-upgrade docker.io",
        )
    return EngineClient(endpoint, api, response.getheader("Server") or "")


@contextmanager
def _lost(endpoint: Endpoint) -> Iterator[None]:
    """Turn a broken connection into ``EngineError``."""
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(
            f"the connection to the engine at {endpoint.url} broke: {str(error) or type(error).__name__}",
            "is it still running? systemctl status docker",
        ) from error
