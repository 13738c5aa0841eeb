"""A snapshot service on loopback over the machine's own mirrors: any time's archive is what the mirror has now.

Testing needs it: where a mirror lags, its files of testing are not valid today, and were when they were signed.
"""

from __future__ import annotations

import re
import threading
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from envbuild.resolve.debian import http
from envbuild.resolve.debian.sources import read_apt_config

_PATH = re.compile(r"/archive/(debian|debian-security)/[0-9]{8}T[0-9]{6}Z/(.+)")
_LIMIT = 8 << 20


class SnapshotServer:
    """Redirects to the first mirror that apt's configuration names for an archive."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The service's address, as a user configures it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> SnapshotServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def latest(suite: str) -> str:
    """Return a time for ``os.snapshot`` at which the mirror's files of a suite and its security suite were valid."""
    moments = []
    for archive, name in (("debian", suite), ("debian-security", f"{suite}-security")):
        base = read_apt_config().mirrors[archive][0]
        text = http.get(f"{base}/dists/{name}/InRelease", limit=_LIMIT).data.decode()
        found = re.search(r"^Date: (.+)$", text, re.MULTILINE)
        assert found is not None
        moments.append(parsedate_to_datetime(found[1].replace("UTC", "+0000")))
    return f"{max(moments):%Y%m%dT%H%M%SZ}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Redirect to the mirror."""
        found = _PATH.fullmatch(self.path)
        self.send_response(302 if found else 404)
        if found:
            self.send_header("Location", f"{read_apt_config().mirrors[found[1]][0]}/{found[2]}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test output clean."""
