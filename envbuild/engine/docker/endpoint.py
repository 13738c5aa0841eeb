"""Where the container engine is: the address the docker command would use, found without starting anything.

Order, as the docker command has it: ``DOCKER_HOST``, ``DOCKER_CONTEXT``, the current context of
``~/.docker/config.json``, the system's socket; then the sockets of a rootless engine and of podman. podman's own
``CONTAINER_HOST`` comes after ``DOCKER_HOST``. ``ENVBUILD_ENGINE`` (``docker``, ``podman``) leaves out the other one's.
Sources: https://docs.docker.com/engine/manage-resources/contexts/, https://docs.docker.com/engine/security/rootless/,
https://docs.podman.io/en/latest/markdown/podman.1.html.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild.core.foreign_json import parse_json
from envbuild.core.settings import origin, setting
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
    """List the endpoints to try, best first; an explicit choice is alone.

    Raises:
        EngineError: the choice cannot be read: an unknown scheme, or a context that does not exist; or it is none.
    """
    kind = setting("engine", environment) or "auto"
    if kind == "local":
        where, attempt = origin("engine", environment)
        raise EngineError(f"this needs a container engine, and {where} is local", attempt)
    folder = Path(environment.get("DOCKER_CONFIG") or Path(environment.get("HOME", "/")) / ".docker")
    if kind == "podman":
        return _of_podman(environment)
    if host := environment.get("DOCKER_HOST"):
        secure = environment.get("DOCKER_TLS_VERIFY", "") != ""
        paths = Path(environment.get("DOCKER_CERT_PATH") or folder) if secure else None
        return (_endpoint(host, "DOCKER_HOST", paths),)
    if kind == "auto" and environment.get("CONTAINER_HOST"):
        return _of_podman(environment)
    name, source = environment.get("DOCKER_CONTEXT", ""), "DOCKER_CONTEXT"
    if not name:
        config = _read_json(folder / "config.json")
        name, source = str(config.get("currentContext") or ""), str(folder / "config.json")
    if name and name != _DEFAULT_CONTEXT:
        return (_context(folder, name, source),)
    sockets = [("/var/run/docker.sock", "the system's engine")]
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        sockets.append((f"{runtime}/docker.sock", "a rootless engine"))
    found = tuple(Endpoint(url=f"unix://{path}", source=source) for path, source in sockets)
    return found if kind == "docker" else (*found, *_of_podman(environment))


def _of_podman(environment: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Where podman is: as its own variable specifies, else at the sockets that systemd makes for it."""
    if host := environment.get("CONTAINER_HOST"):
        found = _endpoint(host, "CONTAINER_HOST")
        if found.scheme == "ssh":
            raise EngineError(
                f"CONTAINER_HOST names podman at {host}; envbuild reaches podman by unix:// or tcp:// only",
                "forward its socket: ssh -nNT -L /tmp/podman.sock:PATH-THERE HOST, then: "
                "export CONTAINER_HOST=unix:///tmp/podman.sock",
            )
        return (found,)
    sockets = [("/run/podman/podman.sock", "podman of the system")]
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        sockets.insert(0, (f"{runtime}/podman/podman.sock", "podman of this user"))
    return tuple(Endpoint(url=f"unix://{path}", source=source) for path, source in sockets)


def is_rootless(endpoint: Endpoint) -> bool:
    """Return whether the engine runs as this user, so that a container's root is this user outside."""
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
        value = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
