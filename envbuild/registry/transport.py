"""Requests to one registry: TLS unless it is on loopback, authorisation as it asks, answers as exceptions.

Source: OCI distribution specification 1.1. Retrying is left to the callers, who know what may be sent again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from envbuild.errors import RegistryError
from envbuild.net.config import NetworkConfig, origin, redacted
from envbuild.net.http import Body, Http, HttpError, explain
from envbuild.registry.authorization import Authorization
from envbuild.registry.credentials import Credentials, certificates, find_credentials
from envbuild.registry.errors import AnswerError, answer_error
from envbuild.registry.reference import api_host, is_loopback

if TYPE_CHECKING:
    import urllib3

CONNECTIONS = 8
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
_ERROR_BODY = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A whole answer: status, headers by lower-case name, and body."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class Transport:
    """Requests to one registry; safe to share between threads.

    Args:
        registry: host, perhaps with a port.
        network: proxies, certificates, time limits.
        credentials: finds who we are; asked only if the registry wants to know.
    """

    def __init__(
        self,
        registry: str,
        network: NetworkConfig,
        credentials: Callable[[str], Credentials | None] = find_credentials,
    ) -> None:
        self.registry = registry
        self.network = replace(network, certificates=(*network.certificates, *certificates(registry)))
        self._http = Http(self.network, connections=CONNECTIONS)
        self._credentials = credentials
        self._base = ""
        self._authorization: Authorization | None = None
        self._lock = threading.Lock()

    @property
    def known(self) -> bool:
        """Whether there are credentials for the registry."""
        return self._authorized().known

    @property
    def reached(self) -> bool:
        """Whether the registry has answered at all."""
        return bool(self._base)

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        scope: str,
        headers: Mapping[str, str] | None = None,
        data: bytes = b"",
        accept: tuple[int, ...] = (200,),
        limit: int = _ERROR_BODY,
    ) -> Answer:
        """Send a small request and read the whole answer; arguments and errors as for ``open``.

        Args:
            limit: bytes that the answer may have at most.
        """
        body = (lambda: iter((data,))) if data else None
        response = self.open(method, path, scope=scope, headers=headers, body=body, length=len(data), accept=accept)
        try:
            found = b"" if method == "HEAD" else _read(response, limit)
        finally:
            response.release_conn()
        return Answer(
            status=response.status, headers={key.lower(): value for key, value in response.headers.items()}, data=found
        )

    def open(
        self,
        method: str,
        path: str,
        *,
        scope: str,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        length: int = 0,
        accept: tuple[int, ...] = (200,),
    ) -> urllib3.BaseHTTPResponse:
        """Send a request and return the response, body unread.

        Credentials go to the registry only: never to the storage that it redirects to.

        Args:
            path: from the registry's root, or an address that the registry gave.
            scope: what a token must allow, such as ``repository:team/digits:pull``.
            length: bytes of ``body``.

        Raises:
            AnswerError: another status than accepted.
            HttpError: no connection, or it broke.
            RegistryError: it cannot be asked at all: its address or its token server is not encrypted.
        """
        url = self.address(path)
        sent = {"Accept-Encoding": "identity", "User-Agent": "envbuild", **(headers or {})}
        if body is not None or method in ("POST", "PUT", "PATCH"):
            sent["Content-Length"] = str(length)
        for attempt in range(3):
            used = self._authorized().header(scope)
            response, answering = self._follow(method, url, sent, body, used)
            if response.status in accept:
                return response
            challenge = response.headers.get("WWW-Authenticate", "")
            error = _error(response)
            if response.status != 401:
                raise error
            if not self._is_own(answering):
                raise RegistryError(
                    f"{self.registry} sends us to {_server(answering)}, which asks for a password (401); "
                    "the registry's is not for it",
                    "ask who runs the registry: its storage must accept the addresses that the registry gives",
                )
            if attempt == 2 or not self._authorized().refused(challenge, scope, used):
                raise error
        raise AssertionError("unreachable")

    def _is_own(self, url: str) -> bool:
        """Whether an address is the registry's own."""
        return origin(url) == origin(self._root())

    def address(self, path: str) -> str:
        """Return the URL for a path of the API or for a ``Location``.

        Raises:
            RegistryError: the registry names an address that is not encrypted, or is none.
        """
        root = self._root()
        try:
            url = urljoin(root, path)
            origin(url)
        except ValueError:
            raise RegistryError(
                f"{self.registry} sends us to no usable address: {path[:200]!r}", "ask who runs the registry"
            ) from None
        parts, base = urlsplit(url), urlsplit(root)
        if parts.scheme == "http" and base.scheme == "https":
            # Registries behind a proxy that ends TLS give their own inner address.
            if parts.hostname != base.hostname:
                raise RegistryError(f"{self.registry} sends us to {redacted(url)}, which is not encrypted")
            url = parts._replace(scheme="https", netloc=base.netloc).geturl()
        return url

    def _follow(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None, credentials: str
    ) -> tuple[urllib3.BaseHTTPResponse, str]:
        """Send, following redirects of GET and HEAD to where the bytes are; returns the answer and who gave it.

        Credentials go to the registry only, and no more once it has sent us elsewhere: that server chooses the rest of
        the way.
        """
        at_home = True

        def authorized(target: str) -> tuple[str, Mapping[str, str]]:
            nonlocal at_home
            address = self.address(target)
            at_home = at_home and self._is_own(address)
            return address, {"Authorization": credentials} if at_home and credentials else {}

        return self._http.send(method, url, headers, authorized=authorized, body=body, timeout=self._timeout(method))

    def _timeout(self, method: str) -> urllib3.Timeout:
        """Return how long to wait: the end of an upload takes a registry as long as copying and hashing the blob."""
        import urllib3

        patience = self.network.read_timeout * (10 if method in ("PUT", "PATCH") else 1)
        return urllib3.Timeout(connect=self.network.connect_timeout, read=patience)

    def _root(self) -> str:
        """Find out once how the registry is reached: with TLS; on loopback, if it speaks none, without."""
        with self._lock:
            if not self._base:
                self._base = self._probe()
            return self._base

    def _probe(self) -> str:
        host = api_host(self.registry)
        try:
            self._http.request("GET", f"https://{host}/v2/", {}, timeout=self._timeout("GET")).close()
        except HttpError as error:
            if not any(word in str(error.__cause__).upper().replace(" ", "_") for word in _NO_TLS):
                raise
            if not is_loopback(self.registry):
                raise RegistryError(
                    f"{self.registry} speaks plain HTTP; only a registry on loopback (localhost, 127.0.0.1) may",
                    "serve it with TLS, or reach it through a tunnel to loopback: ssh -L 5000:REGISTRY:5000 HOST",
                ) from None
            return f"http://{host}/"
        return f"https://{host}/"

    def _authorized(self) -> Authorization:
        root = self._root()
        with self._lock:
            if self._authorization is None:
                self._authorization = Authorization(
                    self.registry,
                    lambda: self._credentials(self.registry),
                    self._ask,
                    plain=root.startswith("http:"),
                )
            return self._authorization

    def _ask(self, method: str, url: str, headers: Mapping[str, str], data: bytes | None) -> bytes:
        """Ask a token server."""
        sent = {"User-Agent": "envbuild", "Accept": "application/json", **headers}
        if data is not None:
            sent["Content-Length"] = str(len(data))
        body = None if data is None else lambda: iter((data,))
        response = self._http.request(method, url, sent, body=body, timeout=self._timeout(method))
        if response.status != 200:
            raise _error(response)
        try:
            return _read(response, _ERROR_BODY)
        finally:
            response.release_conn()


def _read(response: urllib3.BaseHTTPResponse, limit: int) -> bytes:
    """Read a whole body of ``limit`` bytes at most."""
    import urllib3

    try:
        data = response.read(limit + 1, decode_content=False)
    except urllib3.exceptions.HTTPError as error:
        response.close()
        raise explain(error) from error
    if len(data) > limit:
        response.close()
        raise HttpError(f"the answer has more than {limit} bytes", transient=False)
    return data


def _server(url: str) -> str:
    """Return the part of an address that names its server, fit for a message."""
    return redacted("{}://{}".format(*urlsplit(url)[:2]))


def _error(response: urllib3.BaseHTTPResponse) -> AnswerError:
    """Read an error answer, and close its connection: the rest of a body we sent may still be in it."""
    try:
        data = _read(response, _ERROR_BODY)
    except HttpError:
        data = b""
    response.close()
    return answer_error(response.status, response.reason or "", data, response.headers.get("Retry-After", ""))
