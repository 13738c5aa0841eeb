"""A read-only registry on loopback, from which an engine on this machine pulls only the layers it lacks.

It knows one repository, whose name nobody can guess, and serves the documents and layers it was given under their
digests, nothing else; a layer may still be growing. The engine checks every byte against the digest it asked for.
Other users of this machine can connect too: without the name they get nothing, and when there are too many connections,
theirs are closed first. Engines speak plain HTTP to loopback addresses, after a TLS hello that must be answered with a
well-formed refusal. Source: OCI distribution specification 1.1, sections "Pulling manifests" and "Pulling blobs".
"""

from __future__ import annotations

import os
import re
import secrets
import select
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

from envbuild.engine.protocol import ParcelLayer

Content = bytes | ParcelLayer
"""A document, or a layer."""

_PAUSE = 0.02
"""Seconds between two looks at a layer that is still being written."""

_MOST_CONNECTIONS = 32
"""An engine opens three at once by default; it can be configured to open more."""

_IDLE = 30.0
"""Seconds that a peer may take to ask, or to receive anything at all."""

_TLS_HELLO = b"\x16"
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{0,18})")
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class BlobServer:
    """Serves while the context is open; leaving it closes every connection and ends every thread.

    Attributes:
        repository: what an engine pulls from: ``127.0.0.1:PORT/NAME``.
        asked: set as soon as somebody has asked for a manifest of this repository: the engine is there.
        requested: digests (hex) of the files that were asked for.
    """

    def __init__(self) -> None:
        """Bind a free port of 127.0.0.1."""
        self._manifests: dict[str, bytes] = {}
        self._blobs: dict[str, Content] = {}
        self._over = threading.Event()
        self._server = _Server(self)
        self.name = f"envbuild-{secrets.token_hex(16)}"
        self.repository = f"127.0.0.1:{self._server.server_address[1]}/{self.name}"
        self.asked = threading.Event()
        self.requested: set[str] = set()

    def __enter__(self) -> BlobServer:
        """Begin to serve."""
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="blobs", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Cut every connection and wait for the threads."""
        self._over.set()
        self._server.shutdown()
        self._server.cut()
        self._server.server_close()
        self._thread.join()

    def offer(self, manifest: tuple[str, bytes], blobs: Mapping[str, Content]) -> str:
        """Serve an image too: its manifest and everything that names, by digest (hex); returns its reference."""
        self._blobs |= blobs
        self._manifests[manifest[0]] = manifest[1]
        return f"{self.repository}@sha256:{manifest[0]}"

    def find(self, path: str) -> tuple[str, Content] | None:
        """Return media type and content of what a request's path names, or None."""
        match path.split("/"):
            case ["", "v2", ""] | ["", "v2"]:
                return "application/json", b"{}"
            case ["", "v2", self.name, "manifests", digest]:
                self.asked.set()
                manifest = self._manifests.get(digest.removeprefix("sha256:"))
                return None if manifest is None else (_MANIFEST, manifest)
            case ["", "v2", self.name, "blobs", digest]:
                content = self._blobs.get(digest.removeprefix("sha256:"))
                return None if content is None else ("application/octet-stream", content)
        return None

    def send(self, layer: ParcelLayer, begin: int, end: int, sock: socket.socket) -> None:
        """Let the kernel copy a part of a layer's file to a connection, waiting for what is not written yet.

        Raises:
            ConnectionAbortedError: the file is whole, and shorter than it must be: the engine sees an answer cut off.
        """
        self.requested.add(layer.digest)
        while begin < end:
            file = layer.file()
            if file is not None:
                begun = begin
                with suppress(FileNotFoundError), file[0].open("rb", buffering=0) as stream:  # it was just renamed
                    while begin < end and (done := _send_file(sock, stream.fileno(), begin, end - begin)):
                        begin += done
                if file[1] and begin == begun < end:
                    raise ConnectionAbortedError
            if begin < end and self._over.wait(_PAUSE):
                raise ConnectionAbortedError


def _send_file(sock: socket.socket, file: int, begin: int, count: int) -> int:
    """Send part of a file; returns the bytes sent, 0 at its end.

    Raises:
        ConnectionAbortedError: the peer has taken nothing for too long.
    """
    while True:
        try:
            return os.sendfile(sock.fileno(), file, begin, count)
        except BlockingIOError:
            if not select.select((), (sock,), (), _IDLE)[1]:
                raise ConnectionAbortedError from None


class _Server(ThreadingTCPServer):
    """Accepts connections on loopback, one thread each."""

    daemon_threads = False  # closing waits for them
    block_on_close = True
    request_queue_size = 64

    def __init__(self, blobs: BlobServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs = blobs
        self._open: dict[socket.socket, bool] = {}
        """Open connections, oldest first, and whether their peers know the repository's name."""
        self._lock = threading.Lock()

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Remember the connection until it is closed; one too many ends the oldest of a stranger, or itself."""
        assert isinstance(request, socket.socket)  # noqa: S101 - TCP
        with self._lock:
            self._open[request] = False
            if len(self._open) > _MOST_CONNECTIONS:
                stranger = next(one for one, known in self._open.items() if not known)
                with suppress(OSError):
                    stranger.shutdown(socket.SHUT_RDWR)
                del self._open[stranger]
        super().process_request(request, client_address)

    def trust(self, request: socket.socket) -> None:
        """Note that the peer knows the repository's name."""
        with self._lock:
            if request in self._open:
                self._open[request] = True

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """Forget and close a connection."""
        with self._lock:
            self._open.pop(request, None)  # type: ignore[arg-type]
        super().shutdown_request(request)

    def cut(self) -> None:
        """Wake every thread that reads or sends."""
        with self._lock:
            for request in self._open:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: what goes wrong with a connection is reported by the engine, which was promised more bytes."""


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE
    server: _Server

    def handle_one_request(self) -> None:
        """Refuse TLS, whose hello is no line of text, so that the engine continues in plain HTTP."""
        try:
            beginning = self.connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            self.close_connection = True
            return
        if beginning == _TLS_HELLO:
            self.connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.close_connection = True
        else:
            super().handle_one_request()

    def do_GET(self) -> None:
        """Answer with head and body."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer with the head of the same answer."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        """Answer a request for a document or a file, or for a part of it."""
        path = self.path.partition("?")[0]
        found = self.server.blobs.find(path)
        if found is None:
            body = b'{"errors":[{"code":"NAME_UNKNOWN","message":"no such thing here"}]}'
            self._head(HTTPStatus.NOT_FOUND, {"Content-Type": "application/json", "Content-Length": str(len(body))})
            self.wfile.write(body if with_body else b"")
            return
        if path.startswith(f"/v2/{self.server.blobs.name}/"):
            self.server.trust(self.connection)
        kind, content = found
        digest = path.rpartition(":")[2]
        if isinstance(content, bytes):
            begin, end = self._span(len(content), kind, digest)
            self.wfile.write(content[begin:end] if with_body else b"")
            return
        begin, end = self._span(content.size, kind, digest)
        if with_body:
            self.server.blobs.send(content, begin, end, self.connection)

    def _span(self, size: int, kind: str, digest: str) -> tuple[int, int]:
        """Send the head, and return which bytes are to follow."""
        headers = {"Content-Type": kind, "Accept-Ranges": "bytes"}
        if re.fullmatch(r"[0-9a-f]{64}", digest):
            headers["Docker-Content-Digest"] = f"sha256:{digest}"
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        begin, end = 0, size
        if asked is None:
            status = HTTPStatus.OK
        else:
            begin, end = int(asked[1]), min(int(asked[2]) + 1 if asked[2] else size, size)
            status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
            if begin >= end:
                begin = end = 0
                status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
                headers["Content-Range"] = f"bytes */{size}"
        self._head(status, {**headers, "Content-Length": str(end - begin)})
        return begin, end

    def _head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        """Send the head of an answer."""
        self.send_response(status)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def version_string(self) -> str:
        """Name the server without its versions."""
        return "envbuild"

    def log_message(self, *args: object) -> None:
        """Print nothing."""
