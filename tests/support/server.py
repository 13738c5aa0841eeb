"""A loopback HTTP file server that misbehaves on request and remembers what it was asked.

with FileServer() as server:
    url = server.add("big.whl", data, drop_after=1000, drops=2)
"""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit


def make_certificate(folder: Path) -> Path:
    """Write key and self-signed certificate for 127.0.0.1 into one PEM file, with the openssl command."""
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "30", "-subj", "/CN=tests", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-addext", "keyUsage=critical,digitalSignature,keyCertSign"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both


@dataclass(kw_only=True)
class Served:
    """One file and its faults.

    Attributes:
        data: the body.
        failures: how many requests get ``status`` before the first good answer.
        status: the status of failures; 0 closes the connection without a word.
        drop_after: the connection breaks after so many bytes of a body, or None.
        drops: how many answers break; later ones are whole.
        ranges: answer Range requests with 206; else the whole file comes as 200.
        length: send Content-Length; else the end of the connection ends the body.
        delay: seconds before each answer.
        rate: bytes per second, or 0 for as fast as it goes.
        hold_after: after so many bytes of a body the server sends nothing until ``go`` is set, or None.
        auth: ``user:password`` to demand.
        redirect: answer 302 to this address instead.
        headers: further headers, which replace usual ones.
    """

    data: bytes
    failures: int = 0
    status: int = 503
    drop_after: int | None = None
    drops: int = 1 << 30
    ranges: bool = True
    length: bool = True
    delay: float = 0.0
    rate: int = 0
    hold_after: int | None = None
    go: threading.Event = field(default_factory=threading.Event)
    auth: str = ""
    redirect: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request as it came and the status of its answer (0: none). ``target`` is whole if sent to a proxy."""

    method: str
    target: str
    headers: Mapping[str, str]
    status: int


class FileServer:
    """The server; ``requests`` is its log, oldest first."""

    def __init__(self, *, certificate: Path | None = None) -> None:
        self.files: dict[str, Served] = {}
        self.requests: list[Request] = []
        self.lock = threading.Lock()
        self._server = _Server(self)
        self._scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The server's address without a path."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def add(self, path: str, data: bytes, **faults: object) -> str:
        """Serve ``data`` below ``/`` and return its address; ``faults`` are those of ``Served``."""
        self.files["/" + path.lstrip("/")] = Served(data=data, **faults)  # type: ignore[arg-type]
        return f"{self.url}/{path.lstrip('/')}"

    def add_tree(self, folder: Path, prefix: str = "", **faults: object) -> None:
        """Serve every file below a folder."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.add(f"{prefix}/{path.relative_to(folder)}", path.read_bytes(), **faults)

    def statuses(self, path: str = "") -> list[int]:
        """Statuses of the requests so far, of one path if given."""
        with self.lock:
            return [request.status for request in self.requests if request.target.endswith(path)]

    def __enter__(self) -> FileServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, owner: FileServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that hang up are what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Answer, faults first."""
        owner, path = self.server.owner, unquote(urlsplit(self.path).path)
        served = owner.files.get(path + "index.html" if path.endswith("/") else path)
        if served is None:
            self._status(404)
            return
        time.sleep(served.delay)
        with owner.lock:
            fail = served.failures > 0
            served.failures -= fail
            drop = served.drop_after is not None and served.drops > 0 and self.command == "GET"
            served.drops -= drop and not fail
        if served.auth and self.headers.get("Authorization") != _basic(served.auth):
            self._status(401, {"WWW-Authenticate": 'Basic realm="test"'})
        elif fail:
            self._status(served.status, served.headers)
        elif served.redirect:
            self._status(302, {"Location": served.redirect})
        else:
            self._send(served, drop)

    do_HEAD = do_GET

    def _send(self, served: Served, drop: bool) -> None:
        start, size = 0, len(served.data)
        match = re.fullmatch(r"bytes=([0-9]+)-([0-9]*)", self.headers.get("Range", ""))
        end = size
        if match and served.ranges:
            start, end = int(match[1]), min(int(match[2] or size) + 1, size)
            if start >= size:
                self._status(416)
                return
        body = served.data[start:end]
        headers = {"Content-Length": str(len(body))} if served.length else {"Connection": "close"}
        page = urlsplit(self.path).path.endswith(("/", ".html"))
        headers["Content-Type"] = "text/html" if page else "application/octet-stream"
        if match and served.ranges:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self._head(206 if match and served.ranges else 200, headers | dict(served.headers))
        self.close_connection |= not served.length
        if self.command == "HEAD":
            return
        body = body[: served.drop_after] if drop else body
        if served.hold_after is not None:
            self.wfile.write(body[: served.hold_after])
            served.go.wait()
            body = body[served.hold_after :]
        self._body(body, served.rate)
        if drop:
            self._hang_up()

    def _body(self, body: bytes, rate: int) -> None:
        step = max(rate // 20, 1) if rate else len(body)
        for offset in range(0, len(body), step or 1):
            self.wfile.write(body[offset : offset + step])
            if rate:
                time.sleep(step / rate)

    def _status(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        if status == 0:
            self._log(0)
            self._hang_up()
            return
        self._head(status, {"Content-Length": "0"} | dict(headers or {}))

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self._log(status)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _log(self, status: int) -> None:
        request = Request(method=self.command, target=self.path, headers=dict(self.headers.items()), status=status)
        with self.server.owner.lock:
            self.server.owner.requests.append(request)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test output clean."""


def _basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
