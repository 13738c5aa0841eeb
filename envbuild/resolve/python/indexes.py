"""Where wheels may come from, as configured for uv or pip, in the form that uv takes.

The rule is simple. uv reads this user's and this machine's configuration of uv, and what it finds there applies. Where
that has nothing about packages' places, pip's configuration is translated, so that a machine with only pip configured
gets the same indexes, folders, certificates and proxy. Nothing of this ever enters a lock. Settings in a project
(``uv.toml``, ``tool.uv``) are not read: whoever sent the project would choose where its packages come from.

Several indexes: uv's own default is that the first index that knows a name is the only one asked for it, and uv's
configuration is left to decide that. pip mixes all indexes and takes the newest version anywhere, so that a stranger
can replace a private package by publishing a newer one of its name ("dependency confusion"). Indexes translated from
pip are therefore asked in turn, extra indexes first, and the next one only if no version of the earlier fits:
uv's ``unsafe-first-match``. It resolves what pip resolves, and a private package that fits is never replaced.
``UV_INDEX_STRATEGY`` overrides it. https://docs.astral.sh/uv/concepts/indexes/#searching-across-multiple-indexes
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envbuild.net import pip_config
from envbuild.net.config import uv_table, uv_tables

_UV_PLACES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX")
_UV_KEYS = ("index", "index-url", "extra-index-url", "find-links", "no-index")
_SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexes:
    """Where uv looks, and how it reaches the network.

    Attributes:
        arguments: options for uv's command line, which anybody may read in the process table: no addresses.
        environment: variables for uv's process; may hold passwords.
        notes: what of the configuration was left out, and why.
    """

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()


def configured(environ: Mapping[str, str], folder: Path, wheels: Iterable[Path] = ()) -> Indexes:
    """Read the user's configuration of uv and pip.

    Args:
        environ: the process environment.
        folder: of the project; relative paths start here.
        wheels: folders of wheels that the spec names.

    Raises:
        ResolveError: a configuration file of pip cannot be read.
    """
    pip = pip_config.read(environ)
    uv = list(uv_tables(environ))
    places = _Places(folder)
    places.notes += _unused(folder)
    for path in wheels:
        places.find(str(path))
    if not any(map(environ.get, _UV_PLACES)) and not any(key in table for table in uv for key in _UV_KEYS):
        chosen = environ.get("UV_INDEX_STRATEGY") or any("index-strategy" in table for table in uv)
        places.take(pip, strategy="" if chosen else "unsafe-first-match")
    return Indexes(
        arguments=tuple(places.arguments),
        environment=places.environment | places.links(environ) | _transport(environ, pip),
        notes=tuple(places.notes),
    )


def addresses(indexes: Indexes, environ: Mapping[str, str], built_in: str = "") -> tuple[str, ...]:
    """Return the addresses of the package indexes that uv asks, the first first, as far as variables name them.

    None if uv's configuration files name indexes. The default index is missing if nothing names it.

    Args:
        environ: the process environment.
        built_in: uv's own default index, if known.
    """
    known = {**environ, **indexes.environment}
    default = known.get("UV_DEFAULT_INDEX") or known.get("UV_INDEX_URL") or built_in
    in_files = any(key in table for table in uv_tables(environ) for key in _UV_KEYS)
    if in_files or "--no-index" in indexes.arguments:
        return ()
    named = [*known.get("UV_INDEX", "").split(), *known.get("UV_EXTRA_INDEX_URL", "").split(), default]
    return tuple(dict.fromkeys(re.sub(r"^[A-Za-z0-9_.-]+=", "", place) for place in named if place))


class _Places:
    """Collects folders and indexes, leaving out those that do not exist."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.arguments: list[str] = []
        self.environment: dict[str, str] = {}
        self._links: list[str] = []
        self.notes: list[str] = []

    def find(self, place: str) -> None:
        """Add a folder of wheels, or a page of links."""
        if (path := _local(place)) is not None:
            path = self._folder / path
            if not path.exists():
                self.notes.append(f"find-links {place}: does not exist, left out")
                return
            place = path.absolute().as_uri()
        if place not in self._links:
            self._links.append(place)

    def links(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return uv's variable for links, together with those that uv is given already."""
        reported = [place for place in environ.get("UV_FIND_LINKS", "").split(",") if place]
        if not self._links:
            return {}
        return {"UV_FIND_LINKS": ",".join([*(place.replace(",", "%2C") for place in self._links), *reported])}

    def take(self, pip: Mapping[str, str], *, strategy: str) -> None:
        """Translate where pip looks; ``strategy`` is uv's for several indexes, or empty if the user chose one."""
        for place in pip_config.words(pip, "find-links"):
            self.find(place)
        if pip_config.switch(pip, "no-index"):
            self.arguments.append("--no-index")
            return
        if main := pip.get("index-url"):
            self.environment["UV_DEFAULT_INDEX"] = main
        extra = [place for place in pip_config.words(pip, "extra-index-url") if self._present(place)]
        if extra:
            self.environment["UV_INDEX"] = " ".join(extra)
            if strategy:
                self.environment["UV_INDEX_STRATEGY"] = strategy

    def _present(self, place: str) -> bool:
        """Return whether an index is worth asking: a local one must exist."""
        path = _local(place)
        if path is None or path.is_dir():
            return True
        self.notes.append(f"extra-index-url {place}: does not exist, left out")
        return False


def _local(place: str) -> Path | None:
    """Return the path that a place in pip's configuration means, or None for a network address."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme in {"http", "https"} else Path(place).expanduser()


def _transport(environ: Mapping[str, str], pip: Mapping[str, str]) -> dict[str, str]:
    """Translate certificates, proxy, trusted hosts, time-out and pre-releases, unless uv has them already.

    Without any word on certificates the system's are used, as pip has done since 24.2.
    """
    wanted = {
        "SSL_CLIENT_CERT": pip.get("client-cert", ""),
        "UV_INSECURE_HOST": " ".join(pip_config.words(pip, "trusted-host")),
        "UV_HTTP_TIMEOUT": pip.get("timeout", pip.get("default-timeout", "")),
        "UV_CONSTRAINT": " ".join(pip_config.words(pip, "constraint")),
        "UV_PRERELEASE": "allow" if pip_config.switch(pip, "pre") else "",
    }
    if not any(environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS")):
        system = str(_SYSTEM_CERTIFICATES) if _SYSTEM_CERTIFICATES.is_file() else ""
        wanted["SSL_CERT_FILE"] = pip.get("cert", "") or system
    if proxy := pip.get("proxy", ""):
        address = proxy if "://" in proxy else f"http://{proxy}"
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            if not environ.get(name.lower()):
                wanted[name] = address
    return {name: value for name, value in wanted.items() if value and not environ.get(name)}


def _unused(folder: Path) -> Iterator[str]:
    """Yield a note on the project's settings of uv, if they say where packages come from."""
    base = folder.absolute()
    for path in (file for place in (base, *base.parents) for file in (place / "uv.toml", place / "pyproject.toml")):
        if keys := [key for key in _UV_KEYS if key in uv_table(path)]:
            yield (
                f"{path.name} of the project: {', '.join(keys)} of uv is not used: a project does not choose where "
                "packages come from — write it into ~/.config/uv/uv.toml, or set UV_INDEX or UV_CONFIG_FILE"
            )
            return
