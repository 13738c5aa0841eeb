"""Get one index file from a mirror, over HTTP(S) as ``net`` does it, or from a local archive."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from envbuild.core.fs import read_regular
from envbuild.errors import IntegrityError

if TYPE_CHECKING:
    from envbuild.net.http import Http

_CHUNK = 1 << 18
_ATTEMPTS = 3
_HINT = "check the network and the mirror (the spec's, or apt's sources)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A file's bytes; ``status`` is 200, 304 (not modified, no bytes) or 404; header names are lower case."""

    status: int
    data: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Get(Protocol):
    """Gets one file; tests put an archive in memory here."""

    def __call__(
        self,
        url: str,
        *,
        limit: int,
        headers: Mapping[str, str] | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Reply:
        """As ``get`` does."""


def get(
    url: str, *, limit: int, headers: Mapping[str, str] | None = None, advance: Callable[[int], None] | None = None
) -> Reply:
    """Get a file.

    Args:
        url: http, https or file address.
        limit: most bytes to accept; a mirror that sends more is refused.
        headers: request headers.
        advance: receives the number of bytes as they arrive.

    Raises:
        IntegrityError: no answer, another status than 200, 304 or 404, or more than ``limit`` bytes.
    """
    if url.startswith("file:"):
        return _get_file(url, limit)
    from envbuild.net.config import redacted
    from envbuild.net.http import HttpError

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _get_http(url, limit, headers or {}, advance)
        except HttpError as error:
            if not error.transient or attempt == _ATTEMPTS:
                raise IntegrityError(f"{redacted(url)}: expected the file, found: {error.reason}", _HINT) from None
            time.sleep(error.delay or 0.3 * attempt)
    raise AssertionError("unreachable")


def _get_http(url: str, limit: int, headers: Mapping[str, str], advance: Callable[[int], None] | None) -> Reply:
    """Ask once; raises ``HttpError`` or ``IntegrityError``."""
    import urllib3

    from envbuild.net.http import explain, finish

    response = _http().open(url, headers=headers, accept=(200, 304, 404))
    data = bytearray()
    try:
        while response.status == 200 and (chunk := response.read(_CHUNK, decode_content=False)):
            data += chunk
            if len(data) > limit:
                raise _too_long(url, limit)
            if advance:
                advance(len(chunk))
        found = {name.lower(): value for name, value in response.headers.items()}
        return Reply(status=response.status, data=bytes(data), headers=found)
    except urllib3.exceptions.HTTPError as error:
        raise explain(error) from error
    finally:
        finish(response)


@lru_cache(maxsize=1)
def _http() -> Http:
    from envbuild.net.config import network_config
    from envbuild.net.http import Http

    return Http(network_config())


def _get_file(url: str, limit: int) -> Reply:
    try:
        data = read_regular(unquote(urlsplit(url).path), limit)
    except FileNotFoundError:
        return Reply(status=404)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise _too_long(url, limit) from None
        raise IntegrityError(f"{url}: expected a readable file, found: {error.strerror}", _HINT) from None
    return Reply(status=200, data=data)


def _too_long(url: str, limit: int) -> IntegrityError:
    return IntegrityError(f"{url}: expected at most {limit} bytes, found more", "use another mirror")
