"""A small client of the engine's HTTP API: what looking up and running an image needs.

Why not the docker SDK here: importing it costs about 220 ms (requests, urllib3, charset_normalizer), while all that
``envbuild run`` may add to ``docker run`` is 150 ms; ``http.client`` costs 15 ms. The attached container's raw
connection, which the SDK hides, comes with it. The SDK stays in charge of what moves whole file systems.

Source of the calls: https://docs.docker.com/reference/api/engine/version/v1.41/
"""

from __future__ import annotations

import http.client
import json
import select
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, BinaryIO, cast
from urllib.parse import urlencode

from envbuild.core.foreign_json import parse_json
from envbuild.engine.docker.endpoint import Endpoint
from envbuild.engine.docker.wire import Connection, RawStream
from envbuild.errors import EngineError

MINIMUM_API = (1, 41)
"""Docker Engine 20.10, that of Debian 12."""


class ApiError(Exception):
    """The engine answered with an error status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class SilenceError(Exception):
    """The engine has sent nothing for too long."""


def engine_refused(doing: str, reason: str, hint: str = "") -> EngineError:
    """Name what the engine refused ("cannot …") and why; a full disk gets its own hint."""
    message = f"cannot {doing}: {reason.strip()}"
    if "no space left on device" in reason.lower():
        hint = "the engine's disk is full; see docker (or podman) system df, then make room: docker system prune"
    return EngineError(message, hint)


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

    @property
    def podman(self) -> bool:
        """Whether it is podman behind Docker's API; see ``docker_podman.py`` for what that changes."""
        return self.server.startswith("Libpod")

    def call(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """Send a request and return the JSON answer (None if empty).

        Raises:
            ApiError: the engine answered with an error status.
            EngineError: the connection failed.
        """
        text = self.text(method, path, query, body)
        with _lost(self.endpoint):
            return parse_json(text) if text.strip() else None

    def text(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> str:
        """Send a request and return the answer as it is; raises as ``call`` does."""
        with _opened(self.endpoint) as connection, _lost(self.endpoint):
            return self._send(connection, method, path, query, body).read().decode(errors="replace")

    @contextmanager
    def stream(self, path: str, query: Mapping[str, Any]) -> Iterator[BinaryIO]:
        """Give the answer of a GET as a stream, which may be left before its end; raises as ``call`` does."""
        with _opened(self.endpoint) as connection, _lost(self.endpoint):
            yield cast(BinaryIO, self._send(connection, "GET", path, query))

    @contextmanager
    def begun(self, method: str, path: str, query: Mapping[str, Any]) -> Iterator[PendingAnswer]:
        """Send a request whose answer comes later; the engine has accepted it when the block begins."""
        with _opened(self.endpoint) as connection:
            with _lost(self.endpoint):
                response = self._send(connection, method, path, query)
            yield PendingAnswer(lambda: response, self.endpoint)

    @contextmanager
    def asked(self, method: str, path: str, query: Any) -> Iterator[PendingAnswer]:
        """Send a request whose answer, its head too, comes later; it is on its way when the block begins."""
        with _opened(self.endpoint) as connection:
            with _lost(self.endpoint):
                connection.request(method, self._target(path, query))
            yield PendingAnswer(lambda: _checked(connection.getresponse()), self.endpoint)

    def events(
        self, path: str, query: Mapping[str, Any], patient: Callable[[], bool]
    ) -> Generator[dict[str, Any], None, None]:
        """Send a POST and give the JSON objects of its answer as they come; close the iterator to end the call early.

        Args:
            patient: asked ten times a second until the answer begins, whether to continue waiting.

        Raises:
            SilenceError: it refused.
            ApiError, EngineError: as ``call`` does.
        """
        with _opened(self.endpoint) as connection, _lost(self.endpoint):
            connection.request("POST", self._target(path, query))
            while not select.select([connection.sock], [], [], 0.1)[0]:
                if not patient():
                    raise SilenceError
            for line in _checked(connection.getresponse()):
                if line.strip():
                    yield parse_json(line)

    @contextmanager
    def hijacked(self, path: str, query: Mapping[str, Any]) -> Iterator[RawStream]:
        """Turn a POST into a raw two-way stream, as the attach call defines it."""
        with _opened(self.endpoint) as connection:
            with _lost(self.endpoint):
                connection.connect()
                sock = connection.sock
                upgrade = {"Upgrade": "tcp", "Connection": "Upgrade"}
                stream = RawStream(sock, self._send(connection, "POST", path, query, headers=upgrade))
            with closing(stream):
                yield stream

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
        data = b"" if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method, self._target(path, query), data, sent)
        return _checked(connection.getresponse())

    def _target(self, path: str, query: Any) -> str:
        """Return a call's path with the API's version and its query."""
        return f"/v{self.api[0]}.{self.api[1]}{path}" + (f"?{urlencode(query)}" if query else "")


class PendingAnswer:
    """A request whose answer arrives later."""

    def __init__(self, response: Callable[[], http.client.HTTPResponse], endpoint: Endpoint) -> None:
        self._response = response
        self._endpoint = endpoint

    def result(self) -> Any:
        """Wait for the JSON body; raises ``EngineError`` if the engine goes away first, ``ApiError`` if it refuses."""
        with _lost(self._endpoint):
            return parse_json(self._response().read())


def ping(endpoint: Endpoint, timeout: float = 10.0) -> EngineClient:
    """Ask whether an engine is there; ``timeout`` in seconds.

    Raises:
        OSError: nothing answers.
        EngineError: what answers is no engine, or one too old.
    """
    with _opened(endpoint, timeout) as connection:
        try:
            connection.request("GET", "/_ping")
            headers = connection.getresponse().headers
        except http.client.HTTPException as error:
            raise EngineError(f"what answers at {endpoint.url} is no container engine: {error!r}") from None
    words = headers.get("Api-Version", "").split(".")
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        raise EngineError(f"what answers at {endpoint.url} is no container engine: it names no API version")
    api = (int(words[0]), int(words[1]))
    if api < MINIMUM_API:
        raise EngineError(
            f"the engine at {endpoint.url} speaks API {'.'.join(words)}; expected 1.41 (Docker 20.10) or newer",
            "update the engine: apt-get install --only-upgrade docker.io",
        )
    if (system := headers.get("Ostype", "linux").lower()) != "linux":
        raise EngineError(
            f"the engine at {endpoint.url} runs {system} containers; expected linux, which envbuild's images are for",
            "on Docker Desktop: switch to Linux containers; or name another engine: export DOCKER_HOST=…",
        )
    return EngineClient(endpoint, api, headers.get("Server", ""))


@contextmanager
def _opened(endpoint: Endpoint, timeout: float | None = None) -> Iterator[Connection]:
    """Give a connection for one request; it opens with the request and is closed with the block."""
    connection = Connection(endpoint, timeout)
    try:
        yield connection
    finally:
        connection.end()


@contextmanager
def _lost(endpoint: Endpoint) -> Iterator[None]:
    """Turn a broken connection into ``EngineError``."""
    try:
        yield
    except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
        cut = isinstance(error, http.client.IncompleteRead)
        reason = "the answer ended too early" if cut else str(error) or type(error).__name__
        raise EngineError(
            f"the connection to the engine at {endpoint.url} broke: {reason}",
            "is it still running? systemctl status docker",
        ) from error


def _checked(response: http.client.HTTPResponse) -> http.client.HTTPResponse:
    """Return an answer that is none of an error; else raise ``ApiError``."""
    if response.status >= 400:
        raise ApiError(response.status, _message(response.read()))
    return response


def _message(body: bytes) -> str:
    """Take the message out of an error answer."""
    text = body.decode(errors="replace")
    with suppress(ValueError, AttributeError):
        text = parse_json(text).get("message", text)
    return text.strip()
