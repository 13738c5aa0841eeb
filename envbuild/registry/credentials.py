"""Who we are to a registry: what ``docker login`` and docker's credential helpers know, found by docker's own SDK."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envbuild.errors import RegistryError

_CERTIFICATES = ("/etc/docker/certs.d", "~/.config/docker/certs.d", "/etc/containers/certs.d")


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """A user name with a password, or a token that represents both (OAuth2 refresh token)."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


def config_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return docker's configuration folder, or None if there is no home folder."""
    if chosen := environ.get("DOCKER_CONFIG"):
        return Path(chosen)
    return Path(environ["HOME"]) / ".docker" if environ.get("HOME") else None


def find_credentials(registry: str) -> Credentials | None:
    """Return what is configured for a registry, or None.

    Raises:
        RegistryError: a credential helper fails, or the configuration cannot be read.
    """
    folder = config_folder()
    if folder is None or not (folder / "config.json").is_file():
        return None
    import docker.auth  # a tenth of a second: only if there is something to read
    import docker.errors

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a missing helper is reported by the error that follows
        try:
            config = docker.auth.load_config(str(folder / "config.json"))
            found = config.resolve_authconfig(registry) or {}
        except (docker.errors.DockerException, KeyError, ValueError, OSError) as error:
            raise RegistryError(
                f"cannot get the credentials for {registry} from {folder / 'config.json'}: {_reason(error)}",
                f"log in again: docker login {registry}",
            ) from None
    lower = {str(key).lower(): str(value or "") for key, value in found.items()}
    made = Credentials(
        username=lower.get("username", ""), password=lower.get("password", ""), token=lower.get("identitytoken", "")
    )
    return made if made.token or made.username else None


def certificates(registry: str, environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the authorities (PEM files) that docker or podman trust for a registry alone.

    Source: https://docs.docker.com/engine/security/certificates/.
    """
    folder = config_folder(environ)
    folders = [*([folder / "certs.d"] if folder else []), *map(Path, _CERTIFICATES)]
    found: list[Path] = []
    for place in folders:
        try:
            found += sorted((place.expanduser() / registry).glob("*.crt"))
        except (OSError, RuntimeError):
            continue
    return tuple(found)


def _reason(error: Exception) -> str:
    """Describe what kind of trouble it was; a helper's own words may hold secrets, so they stay out."""
    return f"a credential helper failed ({type(error).__name__})"
