"""The Authorization header: Basic, or a Bearer token from the server that the registry names.

Source: https://distribution.github.io/distribution/spec/auth/token/ and …/auth/oauth/; RFC 7235 for the challenge.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from envbuild.core.foreign_json import parse_json
from envbuild.errors import RegistryError
from envbuild.net.config import origin
from envbuild.registry.credentials import Credentials

_SCHEME = re.compile(r"\s*([A-Za-z]+)(?:\s+|$)")
_PARAMETER = re.compile(r'(?<![A-Za-z_])([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')

Ask = Callable[[str, str, Mapping[str, str], bytes | None], bytes]
"""Sends method, URL, headers and body to a token server and returns the answer's body."""


class Authorization:
    """What a registry wants to see, learnt from its first refusal; safe to share between threads.

    Args:
        registry: for messages.
        credentials: called once, when the registry first asks.
        ask: sends requests to a token server.
        plain: the registry is reached over plain HTTP on loopback, so that its token server may be too.
    """

    def __init__(self, registry: str, credentials: Callable[[], Credentials | None], ask: Ask, *, plain: bool) -> None:
        self._registry, self._find, self._ask, self._plain = registry, credentials, ask, plain
        self._headers: dict[str, str] = {}
        self._challenge: dict[str, str] | None = None
        self._found: Credentials | None = None
        self._asked = False
        self._lock = threading.RLock()

    @property
    def known(self) -> bool:
        """Whether there are credentials for the registry."""
        return self._credentials() is not None

    def header(self, scope: str) -> str:
        """Return the header's value for a scope, such as ``repository:a/b:pull``; empty while nothing is known."""
        with self._lock:
            if scope not in self._headers and self._challenge is not None:
                self._headers[scope] = self._answer(self._challenge, scope)
            return self._headers.get(scope, "")

    def refused(self, challenge: str, scope: str, used: str) -> bool:
        """Learn from a 401; True if a request with the new header may fare better.

        Args:
            challenge: the ``WWW-Authenticate`` header.
            used: the header's value that was refused.
        """
        with self._lock:
            if self._headers.get(scope, "") != used:
                return True  # another thread has learnt meanwhile
            read = parse_challenge(challenge)
            if not read:
                return False
            self._challenge = read
            found = self._answer(read, scope)
            self._headers[scope] = found
            return bool(found) and (found != used)

    def _credentials(self) -> Credentials | None:
        with self._lock:
            if not self._asked:
                self._found, self._asked = self._find(), True
            return self._found

    def _answer(self, challenge: Mapping[str, str], scope: str) -> str:
        """Return the header that meets a challenge; empty if it cannot be met."""
        found = self._credentials()
        if challenge["scheme"] == "basic":
            return _basic(found) if found is not None and found.username else ""
        return f"Bearer {self._token(challenge, scope, found)}"

    def _token(self, challenge: Mapping[str, str], scope: str, found: Credentials | None) -> str:
        realm = challenge.get("realm", "")
        try:
            parts = urlsplit(realm)
            origin(realm)
        except ValueError:
            raise RegistryError(
                f"{self._registry} names a token server without an address: {realm!r}", "ask who runs the registry"
            ) from None
        if parts.scheme != "https" and not (self._plain and parts.scheme == "http"):
            raise RegistryError(
                f"{self._registry} wants the password sent to {realm!r}, which is not encrypted",
                "ask who runs the registry to serve its token server over https",
            )
        query = {"service": challenge.get("service", ""), "scope": scope or challenge.get("scope", "")}
        query = {key: value for key, value in query.items() if value}
        if found is not None and found.token:
            form = {**query, "grant_type": "refresh_token", "refresh_token": found.token, "client_id": "envbuild"}
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            body = self._ask("POST", realm, kind, urlencode(form).encode())
        else:
            # Several scopes, one parameter each, as docker sends them.
            pairs = [(key, value) for key, value in query.items() if key != "scope"]
            pairs += [("scope", word) for word in query.get("scope", "").split()]
            headers = {} if found is None else {"Authorization": _basic(found)}
            body = self._ask("GET", f"{realm}{'&' if parts.query else '?'}{urlencode(pairs)}", headers, None)
        return self._read_token(body)

    def _read_token(self, body: bytes) -> str:
        try:
            answer: Any = parse_json(body)
            token = str(answer.get("token") or answer.get("access_token") or "")
        except (ValueError, AttributeError):
            token = ""
        if not token or not token.isprintable() or not token.isascii():
            raise RegistryError(
                f"the token server of {self._registry} gave no token", "ask who runs the registry, or log in again"
            )
        return token


def parse_challenge(text: str) -> dict[str, str]:
    """Read a ``WWW-Authenticate`` header into ``scheme`` and its parameters; empty unless Basic or Bearer."""
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    if match is None or scheme not in ("basic", "bearer"):
        return {}
    found = {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(text[match.end() :])}
    return {**found, "scheme": scheme}


def _basic(found: Credentials) -> str:
    return f"Basic {base64.b64encode(f'{found.username}:{found.password}'.encode()).decode()}"
