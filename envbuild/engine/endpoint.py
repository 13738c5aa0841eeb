"""Where the container engine is: the address the docker command would use, found without starting anything.

Order, as the docker command has it: ``DOCKER_HOST``, ``DOCKER_CONTEXT``, the current context of
``~/.docker/config.json``, the system's socket; then the sockets of a rootless engine and of podman.
Sources: https://docs.docker.com/engine/manage-resources/contexts/ and https://docs.docker.com/engine/security/rootless/.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild.errors import EngineError

_SCHEMES = ("unix", "tcp", "ssh")
_DEFAULT_CONTEXT = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """An engine's address.

    Attributes:
        url: ``unix:///path``, ``tcp://host:port`` or ``ssh://[user@]host[:port]``.
        source: what named it, for messages.
        certificates: folder with ``ca.pem``, ``cert.pem`` and ``key.pem``, or None for plain text.
        verify: check the engine's certificate.
    """

    url: str
    source: str
    certificates: Path | None = None
    verify: bool = True

    @property
    def scheme(self) -> str:
        """The part before ``://``."""
        return self.url.partition("://")[0]

    @property
    def address(self) -> str:
        """The part after ``://``."""
        return self.url.partition("://")[2]


def candidates(environment: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """List the endpoints to try, best first; an explicit choice stands alone.

    Raises:
        EngineError: the choice cannot be read: an unknown scheme, or a context that does not exist.
    """
    folder = Path(environment.get("DOCKER_CONFIG") or Path(environment.get("HOME", "/")) / ".docker")
    if host := environment.get("DOCKER_HOST"):
        secure = environment.get("DOCKER_TLS_VERIFY", "") != ""
        paths = Path(environment.get("DOCKER_CERT_PATH") or folder) if secure else None
        return (_endpoint(host, "DOCKER_HOST", paths),)
    name, source = environment.get("DOCKER_CONTEXT", ""), "DOCKER_CONTEXT"
    if not name:
        config = _read_json(folder / "config.json")
        name, source = str(config.get("currentContext") or ""), str(folder / "config.json")
    if name and name != _DEFAULT_CONTEXT:
        return (_context(folder, name, source),)
    sockets = [("/var/run/docker.sock", "the system's engine")]
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        sockets.append((f"{runtime}/docker.sock", "a rootless engine"))
        sockets.append((f"{runtime}/podman/podman.sock", "podman of this user"))
    sockets.append(("/run/podman/podman.sock", "podman of the system"))
    return tuple(Endpoint(url=f"unix://{path}", source=source) for path, source in sockets)


def is_rootless(endpoint: Endpoint) -> bool:
    """Tell whether the engine runs as this user, so that a container's root is this user outside."""
    if endpoint.scheme != "unix" or os.getuid() == 0:
        return False
    try:
        return Path(endpoint.address).stat().st_uid == os.getuid()
    except OSError:
        return False


def _endpoint(url: str, source: str, certificates: Path | None = None, verify: bool = True) -> Endpoint:
    """Check an address."""
    found = Endpoint(url=url, source=source, certificates=certificates, verify=verify)
    if found.scheme not in _SCHEMES or not found.address:
        raise EngineError(
            f"{source} names the engine {url!r}; expected unix://, tcp:// or ssh://",
            "set DOCKER_HOST=unix:///var/run/docker.sock, or unset it",
        )
    return found


def _context(folder: Path, name: str, source: str) -> Endpoint:
    """Read one context of the docker command: a folder named by the SHA-256 of the context's name."""
    identity = hashlib.sha256(name.encode()).hexdigest()
    meta = _read_json(folder / "contexts" / "meta" / identity / "meta.json")
    docker = meta.get("Endpoints", {}).get("docker", {})
    if not docker.get("Host"):
        raise EngineError(
            f"{source} selects the docker context {name!r}, which does not exist in {folder}",
            "choose one that does: docker context ls, then docker context use NAME",
        )
    secrets = folder / "contexts" / "tls" / identity / "docker"
    verify = not docker.get("SkipTLSVerify", False)
    return _endpoint(str(docker["Host"]), f"docker context {name}", secrets if secrets.is_dir() else None, verify)


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; anything unreadable counts as empty, as the docker command has it."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
