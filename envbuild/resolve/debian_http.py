"""Get one file over HTTP(S) or from a local archive, with the proxies and certificates that the machine has."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from envbuild.errors import IntegrityError

if TYPE_CHECKING:
    import urllib3

_CHUNK = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A file's bytes; ``status`` is 200, 304 (not modified, no bytes) or 404; header names are lower case."""

    status: int
    data: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Get = Callable[..., Reply]


def get(
    url: str, *, limit: int, headers: Mapping[str, str] | None = None, advance: Callable[[int], None] | None = None
) -> Reply:
    """Get a file.

    Args:
        url: http, https or file address.
        limit: most bytes to accept; a mirror that sends more is refused, not stored.
        headers: request headers.
        advance: told the number of bytes as they arrive.

    Raises:
        IntegrityError: no answer, another status than 200, 304 or 404, or more than ``limit`` bytes.
    """
    if url.startswith("file:"):
        return _get_file(url, limit)
    import urllib3

    try:
        response = _pool(url).request("GET", url, headers=dict(headers or {}), preload_content=False)
        try:
            if response.status not in (200, 304, 404):
                raise IntegrityError(f"{url}: expected the file, found HTTP status {response.status}", _HINT)
            data = bytearray()
            while response.status == 200 and (chunk := response.read(_CHUNK, decode_content=False)):
                data += chunk
                if len(data) > limit:
                    raise IntegrityError(f"{url}: expected at most {limit} bytes, found more", _HINT)
                if advance:
                    advance(len(chunk))
            found = {name.lower(): value for name, value in response.headers.items()}
            return Reply(status=response.status, data=bytes(data), headers=found)
        finally:
            response.release_conn()
    except urllib3.exceptions.HTTPError as error:
        raise IntegrityError(f"{url}: expected an answer, found: {_reason(error)}", _HINT) from None


_HINT = "check the network and the mirror (the spec's, or apt's sources)"


def _get_file(url: str, limit: int) -> Reply:
    try:
        data = Path(unquote(urlsplit(url).path)).read_bytes()
    except FileNotFoundError:
        return Reply(status=404)
    except OSError as error:
        raise IntegrityError(f"{url}: expected a readable file, found: {error.strerror}", _HINT) from None
    if len(data) > limit:
        raise IntegrityError(f"{url}: expected at most {limit} bytes, found {len(data)}", _HINT)
    return Reply(status=200, data=data)


def _pool(url: str) -> urllib3.PoolManager:
    """Return the connection pool that the environment's proxy settings ask for."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if proxy and urllib.request.proxy_bypass(parts.hostname or ""):
        proxy = ""
    certificates = os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE") or ""
    return _make_pool(proxy, certificates)


@lru_cache(maxsize=8)
def _make_pool(proxy: str, certificates: str) -> urllib3.PoolManager:
    import urllib3

    options: dict[str, Any] = {
        "timeout": urllib3.Timeout(connect=15, read=60),
        "retries": urllib3.Retry(total=3, backoff_factor=0.3, status_forcelist=(429, 500, 502, 503, 504)),
        "headers": {"User-Agent": "envbuild", "Accept-Encoding": "identity"},
        "maxsize": 4,
        "ca_certs": certificates or None,
    }
    if not proxy:
        return urllib3.PoolManager(**options)
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    parts = urlsplit(proxy)
    account = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return urllib3.ProxyManager(proxy, proxy_headers=urllib3.make_headers(proxy_basic_auth=account), **options)


def _reason(error: BaseException) -> str:
    """Return the innermost reason without object addresses."""
    while (inner := getattr(error, "reason", None)) is not None and isinstance(inner, BaseException):
        error = inner
    return str(error).rsplit(">: ", 1)[-1]
