"""A registry in this process that does what Debian's does not: tokens, resumed uploads, referrers, redirected blobs.

Sources: OCI distribution specification 1.1; https://distribution.github.io/distribution/spec/auth/token/.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token-that-nobody-may-see"


@dataclass(kw_only=True)
class FakeRegistry:
    """What it holds and saw.

    Attributes:
        user: ``user:password`` that the token server wants; empty lets anybody in, without tokens.
        storage: blobs are redirected to this host.
        greedy: as a storage host, it asks for a password and names its own token server.
        break_after: bytes of an upload after which the connection breaks once; they are kept.
        log: method and path of each request; ``authorizations`` their headers.
    """

    host: str = ""
    user: str = ""
    storage: str = ""
    greedy: bool = False
    break_after: int = 0
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    uploads: dict[str, bytearray] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: FakeRegistry

    def log_message(self, *args: object) -> None:
        """Print nothing."""

    def _say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 204:
            self.send_header("Content-Length", headers.pop("length", str(len(body))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _handle(self) -> None:
        registry = self.registry
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        registry.log.append(f"{self.command} {parts.path}")
        registry.authorizations.append(self.headers.get("Authorization", ""))
        if parts.path == "/token":
            wanted = f"Basic {base64.b64encode(registry.user.encode()).decode()}"
            if self.headers.get("Authorization") != wanted:
                return self._say(401)
            return self._say(200, json.dumps({"token": TOKEN}).encode())
        if parts.path.startswith("/storage/") and registry.greedy:
            return self._say(401, WWW_Authenticate=f'Bearer realm="http://{registry.host}/token",service="x"')
        if parts.path.startswith("/storage/"):
            return self._say(200, registry.blobs[parts.path.rpartition("/")[2]])
        if registry.user and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            challenge = f'Bearer realm="http://{registry.host}/token",service="fake",scope="{query.get("x", "")}"'
            return self._say(401, WWW_Authenticate=challenge)
        for pattern, handle in _ROUTES:
            if match := re.fullmatch(pattern, parts.path):
                return handle(self, query, *match.groups())
        return self._say(404)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def _begin(self, query: dict[str, str]) -> None:
        name = str(len(self.registry.uploads))
        self.registry.uploads[name] = bytearray()
        self._say(202, Location=f"/v2/a/b/blobs/uploads/{name}?state=1", Range="0-0")

    def _upload(self, query: dict[str, str], name: str) -> None:
        held, registry = self.registry.uploads[name], self.registry
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            data = self.rfile.read1(min(left, 1 << 16))  # type: ignore[attr-defined]
            held += data
            left -= len(data)
            if registry.break_after and len(held) > registry.break_after:
                registry.break_after = 0
                self.close_connection = True
                self.connection.close()
                return None
        here = f"/v2/a/b/blobs/uploads/{name}?state=2"
        if self.command == "GET":
            return self._say(204, Location=here, Range=f"0-{len(held) - 1}")
        if self.command == "PATCH":
            return self._say(202, Location=here, Range=f"0-{len(held) - 1}")
        digest = hashlib.sha256(held).hexdigest()
        if query.get("digest") != f"sha256:{digest}":
            return self._say(400, json.dumps({"errors": [{"code": "DIGEST_INVALID"}]}).encode())
        registry.blobs[digest] = bytes(held)
        return self._say(201)

    def _blob(self, query: dict[str, str], digest: str) -> None:
        data = self.registry.blobs.get(digest)
        if data is None:
            return self._say(404)
        if self.registry.storage and self.command == "GET":
            return self._say(307, Location=f"http://{self.registry.storage}/storage/{digest}")
        return self._say(200, data)

    def _manifest(self, query: dict[str, str], name: str) -> None:
        registry = self.registry
        if self.command == "PUT":
            data = self.rfile.read(int(self.headers["Content-Length"]))
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            registry.manifests[name] = registry.manifests[digest] = (self.headers["Content-Type"], data)
            subject = json.loads(data).get("subject") or {}
            return self._say(201, Docker_Content_Digest=digest, OCI_Subject=subject.get("digest", ""))
        if name not in registry.manifests:
            return self._say(404)
        kind, data = registry.manifests[name]
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        return self._say(200, data, Content_Type=kind, Docker_Content_Digest=digest)

    def _referrers(self, query: dict[str, str], digest: str) -> None:
        found: list[Any] = []
        for name, (kind, data) in self.registry.manifests.items():
            document = json.loads(data)
            if name.startswith("sha256:") and (document.get("subject") or {}).get("digest") == digest:
                entry = {"mediaType": kind, "digest": name, "size": len(data), "artifactType": document["artifactType"]}
                found.append(entry)
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": found}
        self._say(200, json.dumps(index).encode(), Content_Type=index["mediaType"])  # type: ignore[arg-type]


_ROUTES: list[tuple[str, Any]] = [
    (r"/v2/", lambda handler, query: handler._say(200)),
    (r"/v2/a/b/blobs/uploads/", _Handler._begin),
    (r"/v2/a/b/blobs/uploads/(\d+)", _Handler._upload),
    (r"/v2/a/b/blobs/sha256:([0-9a-f]{64})", _Handler._blob),
    (r"/v2/a/b/manifests/([A-Za-z0-9._:-]+)", _Handler._manifest),
    (r"/v2/a/b/referrers/(sha256:[0-9a-f]{64})", _Handler._referrers),
]


@contextmanager
def fake_registry(**fields: Any) -> Iterator[FakeRegistry]:
    """Run one, whose only repository is ``a/b``."""
    registry = FakeRegistry(**fields)
    handler = type("Handler", (_Handler,), {"registry": registry})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    registry.host = f"127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
