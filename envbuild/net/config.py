"""How this user reaches the network: what pip, uv, curl and the system are already configured with.

Nothing here ends up in a lock. Sources: pip's "Configuration" page for files and their order, uv's "Indexes" and
"Settings" pages, the ``*_proxy`` variables as urllib reads them, netrc(5).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envbuild.core.toml import toml_file
from envbuild.errors import ResolveError
from envbuild.net import pip_config

Origin = tuple[str, str, int]
"""Scheme, host and port: what a credential belongs to."""

_PORTS = {"http": 80, "https": 443}
_URL_KEYS = ("index-url", "extra-index-url", "find-links", "default-index")
_URL_VARIABLES = (
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_FIND_LINKS",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkConfig:
    """How to reach the network. TLS certificates are always verified.

    Attributes:
        certificates: PEM bundles trusted in addition to the system's.
        client_certificate: PEM file with a client's key and certificate, or None.
        proxies: proxy URL by scheme (``http``, ``https``, ``all``).
        no_proxy: comma-separated hosts reached directly.
        credentials: user name and password by origin, taken from index URLs.
        netrc: file with further credentials, or None.
        connect_timeout: seconds until a connection is established.
        read_timeout: seconds without a single byte.
        attempts: tries of one source without getting any further.
        backoff: seconds before the second try; doubled each time.
        offline: refuse to use the network at all.
    """

    certificates: tuple[Path, ...] = ()
    client_certificate: Path | None = None
    proxies: Mapping[str, str] = field(default_factory=dict)
    no_proxy: str = ""
    credentials: Mapping[Origin, tuple[str, str]] = field(default_factory=dict, repr=False)
    netrc: Path | None = None
    connect_timeout: float = 15.0
    read_timeout: float = 60.0
    attempts: int = 4
    backoff: float = 0.5
    offline: bool = False


def origin(url: str) -> Origin:
    """Return scheme, host and port of a URL.

    Raises:
        ValueError: the port is no number, or the server's name holds what parsers of addresses read differently:
            ``https://a\\@b/`` is on ``b`` for ``urlsplit`` and on ``a`` for urllib3, which connects to it.
    """
    parts = urlsplit(url)
    if "\\" in parts.netloc:
        raise ValueError(f"a backslash in the name of a server: {parts.netloc!r}")
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)


def redacted(url: str) -> str:
    """Return the URL without user name and password, fit for a message."""
    return re.sub(r"//[^/@\s]*@", "//***@", url)


def network_config(environ: Mapping[str, str] = os.environ, *, offline: bool = False) -> NetworkConfig:
    """Read the user's configuration of pip and uv and the usual variables.

    Files that cannot be read or parsed are passed over: the tools they belong to report them better.
    """
    pip: dict[str, str] = {}
    with suppress(ResolveError):
        pip = pip_config.read(environ, prefix=Path(environ.get("VIRTUAL_ENV") or sys.prefix))
    bundles = [pip.get("cert", "")]
    bundles += [environ.get(name, "") for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")]
    client = pip.get("client-cert") or environ.get("SSL_CLIENT_CERT", "")
    netrc = Path(environ.get("NETRC") or "~/.netrc")
    timeout = pip.get("default-timeout") or pip.get("timeout", "")
    proxies = _proxies(environ, pip.get("proxy", ""))
    return NetworkConfig(
        certificates=tuple(dict.fromkeys(Path(name) for name in bundles if name and Path(name).is_file())),
        client_certificate=Path(client) if client else None,
        proxies=proxies,
        no_proxy=environ.get("no_proxy") or environ.get("NO_PROXY") or "",
        credentials=_credentials(environ, pip),
        netrc=_home(netrc),
        read_timeout=float(timeout) if re.fullmatch(r"[1-9][0-9]{0,4}", timeout) else 60.0,
        offline=offline,
    )


def _home(path: Path) -> Path | None:
    """Expand ``~``; None if the file is not there or there is no home folder."""
    with suppress(RuntimeError, OSError):
        if (found := path.expanduser()).is_file():
            return found
    return None


def _proxies(environ: Mapping[str, str], pip_proxy: str) -> dict[str, str]:
    """Proxy by scheme; pip's own setting serves both. Under CGI anybody can set HTTP_PROXY: passed over there."""
    found = {scheme: environ.get(f"{scheme}_proxy", "") for scheme in ("http", "https", "all")}
    found["https"] = found["https"] or environ.get("HTTPS_PROXY", "")
    found["all"] = found["all"] or environ.get("ALL_PROXY", "") or pip_proxy
    if "REQUEST_METHOD" not in environ:
        found["http"] = found["http"] or environ.get("HTTP_PROXY", "")
    return {scheme: proxy if "://" in proxy else f"http://{proxy}" for scheme, proxy in found.items() if proxy}


def uv_tables(environ: Mapping[str, str] = os.environ) -> Iterator[dict[str, Any]]:
    """Yield the tables of uv's system and user settings, later ones win, each with its ``pip`` table merged in.

    A project's own settings are not read: it may be anybody's, and would say where packages come from, and by the name
    of an index to whom a password goes. https://docs.astral.sh/uv/concepts/configuration-files/
    """
    if environ.get("UV_NO_CONFIG") in {"1", "true"}:
        return
    files = [Path("/etc/uv/uv.toml"), Path(environ.get("XDG_CONFIG_HOME") or "~/.config") / "uv/uv.toml"]
    folders = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    files[:0] = [Path(folder) / "uv/uv.toml" for folder in reversed(folders)]
    if chosen := environ.get("UV_CONFIG_FILE"):
        files = [Path(chosen)]
    for path in filter(None, map(_home, files)):
        yield uv_table(path)


def uv_table(path: Path) -> dict[str, Any]:
    """Return one file's table with its ``pip`` table merged in; empty if it is no TOML, of which uv itself speaks."""
    table = toml_file(path, *(("tool", "uv") if path.name == "pyproject.toml" else ()))
    pip = table.get("pip")
    return {**table, **(pip if isinstance(pip, dict) else {})}


def uv_setting(key: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return a text among uv's own settings for this user; empty if none has it."""
    found = ""
    for table in uv_tables(environ):
        if isinstance(value := table.get(key), str):
            found = value
    return found


def _credentials(environ: Mapping[str, str], pip: Mapping[str, str]) -> dict[Origin, tuple[str, str]]:
    """User name and password by origin, from all index and find-links URLs, and uv's variables for named indexes."""
    urls = [word for key in _URL_KEYS for word in pip.get(key, "").split()]
    for name in _URL_VARIABLES:
        urls += re.split(r"[\s,]+" if name.endswith("FIND_LINKS") else r"\s+", environ.get(name, ""))
    for table in uv_tables(environ):
        for key in _URL_KEYS:
            value = table.get(key)
            urls += [value] if isinstance(value, str) else map(str, value if isinstance(value, list) else ())
        named = table.get("index")
        for index in named if isinstance(named, list) else ():
            urls += [f"{index.get('name', '')}={index.get('url', '')}"] if isinstance(index, dict) else []
    found: dict[Origin, tuple[str, str]] = {}
    for url in urls:
        named = re.fullmatch(r"([A-Za-z0-9._-]*)=(.*)", url)
        name, address = (named[1], named[2]) if named else ("", url)
        with suppress(ValueError):
            parts = urlsplit(address)
            variable = f"UV_INDEX_{re.sub('[^A-Z0-9]', '_', name.upper())}_"
            user = environ.get(f"{variable}USERNAME") if name else None
            password = environ.get(f"{variable}PASSWORD") if name else None
            user, password = user or unquote(parts.username or ""), password or unquote(parts.password or "")
            if parts.hostname and (user or password):
                found[origin(address)] = (user, password)
    return found
