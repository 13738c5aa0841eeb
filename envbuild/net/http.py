"""HTTP: one connection pool, TLS always verified, the user's proxies and credentials, one way to follow redirects.

Retrying, resuming and checking bytes is not done here (see ``transfer``).
"""

from __future__ import annotations

import base64
import ipaddress
import netrc
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from envbuild.core import clock
from envbuild.net.config import NetworkConfig, origin, redacted

if TYPE_CHECKING:
    import urllib3

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10
_DRAIN = 1 << 16
"""Bytes that are read to use a connection again, which is cheaper than another one."""
_SYSTEM_BUNDLES = (  # used only if OpenSSL's own default holds nothing, as with some stand-alone interpreters
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


Body = Callable[[], Iterator[bytes | memoryview]]
"""Gives a request's body anew each time it is called."""


class HttpError(Exception):
    """A request that got no usable answer.

    Args:
        reason: what happened, without the address.
        transient: whether trying again may help.
        delay: seconds the server asked to wait, or 0.
        connected: whether there was a server at all.
    """

    def __init__(self, reason: str, *, transient: bool, delay: float = 0.0, connected: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.transient = transient
        self.delay = delay
        self.connected = connected


class Http:
    """A pool of connections; safe to share between threads."""

    def __init__(self, config: NetworkConfig, connections: int = 8) -> None:
        self._config = config
        self._connections = connections
        self._managers: dict[str, urllib3.PoolManager] = {}
        self._lock = threading.Lock()

    def open(
        self,
        url: str,
        offset: int = 0,
        *,
        headers: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (200, 206),
    ) -> urllib3.BaseHTTPResponse:
        """Ask for a file from ``offset`` on and return the response, body unread and undecoded.

        Credentials go only to the origin they belong to, also after a redirect.

        Args:
            headers: further request headers, such as ``If-None-Match``.
            accept: the statuses that are an answer; any other is an error.

        Raises:
            HttpError: no connection, no trust, or another status.
        """
        asked = {"Accept-Encoding": "identity", "User-Agent": "envbuild", **(headers or {})}
        if offset:
            asked["Range"] = f"bytes={offset}-"
        first = url

        def authorized(address: str) -> tuple[str, Mapping[str, str]]:
            return self._authorized(address, redirected=address != first)

        response, _ = self.send("GET", url, asked, authorized=authorized)
        return _usable(response, accept)

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        *,
        authorized: Callable[[str], tuple[str, Mapping[str, str]]],
        body: Body | None = None,
        timeout: urllib3.Timeout | None = None,
    ) -> tuple[urllib3.BaseHTTPResponse, str]:
        """Send a request, following redirects of GET and HEAD; returns the response, body unread, and who gave it.

        Args:
            headers: sent to every address, so that they may not hold credentials.
            authorized: called with each address before it is asked; returns the address to use and the credentials
                that belong to it, as headers.
            body: gives the request's body anew each time it is called.

        Raises:
            HttpError: no connection, no trust, too many redirects, or one to no address.
        """
        for _ in range(_MOST_REDIRECTS):
            address, credentials = authorized(url)
            response = self.request(method, address, {**headers, **credentials}, body=body, timeout=timeout)
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or not location or method not in ("GET", "HEAD"):
                return response, address
            finish(response)
            try:
                url = urljoin(address, location)
                origin(url)
            except ValueError:
                raise HttpError(f"a redirect to no usable address: {location[:200]!r}", transient=False) from None
        raise HttpError(f"more than {_MOST_REDIRECTS} redirects", transient=False)

    def request(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str],
        *,
        body: Body | None = None,
        timeout: urllib3.Timeout | None = None,
    ) -> urllib3.BaseHTTPResponse:
        """Send one request and return its answer, a redirect too, body unread; raises ``HttpError``."""
        import urllib3

        try:
            return self.pool(address).request(
                method,
                address,
                headers=headers,
                body=cast(Any, None if body is None else body()),  # memoryviews too, which the type does not allow
                preload_content=False,
                redirect=False,
                retries=False,
                timeout=timeout or self._timeout(),
            )
        except urllib3.exceptions.HTTPError as error:
            raise explain(error) from error

    def _timeout(self) -> urllib3.Timeout:
        import urllib3

        return urllib3.Timeout(connect=self._config.connect_timeout, read=self._config.read_timeout)

    def close(self) -> None:
        """Close idle connections."""
        for manager in self._managers.values():
            manager.clear()

    def _authorized(self, url: str, *, redirected: bool) -> tuple[str, dict[str, str]]:
        """Split credentials off a URL; look them up by origin if it has none.

        Args:
            redirected: a server has sent us there: the ``default`` entry of ``.netrc`` is not meant for it.
        """
        try:
            parts, where = urlsplit(url), origin(url)
        except ValueError as error:
            raise HttpError(f"not a usable address: {error}", transient=False) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise HttpError(f"not an http address: {redacted(url)}", transient=False)
        host = parts.netloc.rpartition("@")[2]
        address = urlunsplit((parts.scheme, host, parts.path or "/", parts.query, ""))
        pair: tuple[str, str] | None = None
        if parts.username is not None:
            pair = unquote(parts.username), unquote(parts.password or "")
        pair = pair or self._config.credentials.get(where) or self._from_netrc(parts.hostname, named=redirected)
        if pair is None:
            return address, {}
        token = base64.b64encode(f"{pair[0]}:{pair[1]}".encode()).decode()
        return address, {"Authorization": f"Basic {token}"}

    def _from_netrc(self, host: str, *, named: bool) -> tuple[str, str] | None:
        """Return what ``.netrc`` has for a host; ``named``: not its ``default`` entry, which is for any host."""
        if self._config.netrc is not None:
            with suppress(netrc.NetrcParseError, OSError):
                entries = netrc.netrc(self._config.netrc)
                found = entries.hosts.get(host) if named else entries.authenticators(host)
                if found:
                    return found[0], found[2] or ""
        return None

    def pool(self, url: str) -> urllib3.PoolManager:
        """Return the pool for direct connections, or that of the proxy this address goes through."""
        import urllib3

        scheme, host, port = origin(url)
        proxy = self._config.proxies.get(scheme) or self._config.proxies.get("all") or ""
        if goes_direct(host, port, self._config.no_proxy):
            proxy = ""
        if proxy and not proxy.startswith(("http://", "https://")):
            raise HttpError(f"only http proxies are supported, found {redacted(proxy)}", transient=False)
        with self._lock:
            if proxy not in self._managers:
                timeout = self._timeout()
                urllib3.disable_warnings(urllib3.exceptions.SystemTimeWarning)  # ``explain`` names the clock
                context, size = tls_context(self._config), self._connections
                if proxy:
                    address, authorization = _proxy_address(proxy)
                    self._managers[proxy] = urllib3.ProxyManager(
                        address, proxy_headers=authorization, ssl_context=context, maxsize=size, timeout=timeout
                    )
                else:
                    self._managers[proxy] = urllib3.PoolManager(ssl_context=context, maxsize=size, timeout=timeout)
            return self._managers[proxy]


def tls_context(config: NetworkConfig) -> ssl.SSLContext:
    """Return a verifying client context that trusts the system's authorities and the configured bundles.

    Raises:
        HttpError: a configured bundle cannot be read.
    """
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not context.cert_store_stats()["x509_ca"] and not paths.capath:
        for bundle in filter(lambda name: Path(name).is_file(), _SYSTEM_BUNDLES):
            context.load_verify_locations(bundle)
            break
    try:
        for path in config.certificates:
            context.load_verify_locations(path)
        if config.client_certificate is not None:
            context.load_cert_chain(config.client_certificate)
    except (OSError, ssl.SSLError) as error:
        raise HttpError(f"cannot use the configured certificates: {error}", transient=False) from None
    return context


def explain(error: Exception) -> HttpError:
    """Turn what urllib3 raises into one sentence and whether another try may help."""
    import urllib3

    cause: BaseException = error
    while isinstance(cause, urllib3.exceptions.ProxyError | urllib3.exceptions.MaxRetryError):
        inner: object = cause.original_error if isinstance(cause, urllib3.exceptions.ProxyError) else cause.reason
        if not isinstance(inner, BaseException):
            break
        cause = inner
    if isinstance(cause, urllib3.exceptions.SSLError):
        if words := _by_the_clock(cause):
            return HttpError(words, transient=False)
        return HttpError(f"the server's certificate is not trusted: {cause}", transient="CERTIFICATE" not in str(cause))
    if isinstance(cause, urllib3.exceptions.LocationValueError):
        return HttpError(f"not a usable address: {cause}", transient=False)
    if isinstance(cause, urllib3.exceptions.NewConnectionError):  # before TimeoutError: it is one by inheritance
        return HttpError(f"no connection: {str(cause).rsplit(': ', 1)[-1]}", transient=True, connected=False)
    if isinstance(cause, urllib3.exceptions.ConnectTimeoutError):
        return HttpError("no connection in time", transient=True, connected=False)
    if isinstance(cause, urllib3.exceptions.TimeoutError):
        return HttpError("no answer in time", transient=True)
    if isinstance(cause, urllib3.exceptions.ProtocolError):
        return HttpError("the connection broke off", transient=True)
    return HttpError(f"the connection failed: {cause}", transient=True)


def _by_the_clock(error: BaseException) -> str:
    """Return what is wrong with a certificate's time; empty if nothing is.

    Source: X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL's x509_vfy.h.
    """
    cause: object = error
    while isinstance(cause, Exception) and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.args[-1] if cause.args else None
    code = getattr(cause, "verify_code", 0)
    if code not in (9, 10):
        return ""
    found = "is not valid yet" if code == 9 else "has expired"
    now = clock.minutes(clock.utc_now())
    return f"expected a certificate valid at {now} (this machine's clock), found one that {found}: see date -u"


def finish(response: urllib3.BaseHTTPResponse) -> None:
    """Give a connection back whose answer is of no more use; one with much to come is closed instead.

    A server decides how long an answer is, and it may have no end.
    """
    length = response.headers.get("Content-Length", "")
    if length.isascii() and length.isdigit() and int(length) <= _DRAIN:
        response.drain_conn()
        response.release_conn()
    else:
        response.close()


def _usable(response: urllib3.BaseHTTPResponse, accept: tuple[int, ...]) -> urllib3.BaseHTTPResponse:
    """Return a response of an accepted status; raise for any other, its connection given back."""
    status = response.status
    if status in accept:
        return response
    asked = response.headers.get("Retry-After", "")
    response.close()
    delay = min(float(asked), 30.0) if asked.isascii() and asked.isdigit() else 0.0
    reason = f"{status} {response.reason or ''}".strip()
    if status in (401, 407):
        reason += ": put user name and password into the index URL or into ~/.netrc"
    raise HttpError(reason, transient=status in (408, 416, 425, 429) or status >= 500, delay=delay)


def goes_direct(host: str, port: int, no_proxy: str) -> bool:
    """Whether a host is exempt from proxies: this machine, or named in ``no_proxy`` (name, suffix, port, network)."""
    host = host.lower()
    if host in ("localhost", "127.0.0.1", "::1"):
        return True
    for entry in (word.strip().lower() for word in no_proxy.split(",")):
        name = entry.lstrip("*.")
        if entry == "*" or (name and (host == name or host.endswith(f".{name}") or f"{host}:{port}" == name)):
            return True
        with suppress(ValueError):
            if "/" in entry and ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return True
    return False


def _proxy_address(proxy: str) -> tuple[str, dict[str, str]]:
    """Split credentials off a proxy URL."""
    parts = urlsplit(proxy)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if parts.username is None:
        return address, {}
    token = base64.b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()).decode()
    return address, {"Proxy-Authorization": f"Basic {token}"}
