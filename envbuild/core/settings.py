"""Settings of a person and of a machine: an environment variable, else a key in a file.

    $XDG_CONFIG_HOME/envbuild/config.toml    else ~/.config/envbuild/config.toml: a person's
    /etc/envbuild/config.toml                the machine's, for all its users

The person's file comes before the machine's, key by key; the variable before both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from envbuild.core.text import either, one_line, perhaps, quote
from envbuild.errors import UsageError

VARIABLES = {
    "store": "ENVBUILD_STORE",
    "engine": "ENVBUILD_ENGINE",
    "cdi-dirs": "ENVBUILD_CDI_DIRS",
    "debian-snapshot": "ENVBUILD_DEBIAN_SNAPSHOT",
    "ubuntu-snapshot": "ENVBUILD_UBUNTU_SNAPSHOT",
    "python-mirror": "ENVBUILD_PYTHON_MIRROR",
    "cosign": "ENVBUILD_COSIGN",
}
"""Keys of a file, and the variables that come before them."""
SYSTEM_FILE = Path("/etc/envbuild/config.toml")
_LIMIT = 1 << 20


def setting(key: str, environ: Mapping[str, str] | None = None) -> str:
    """Return a setting; empty if nobody made it.

    Args:
        key: one of ``VARIABLES``.
        environ: variables of the process; ``os.environ`` if absent.

    Raises:
        UsageError: a file cannot be read, is no TOML, or holds a key or a value that is none.
    """
    variables = os.environ if environ is None else environ
    if chosen := variables.get(VARIABLES[key]):
        return chosen
    for path in files(variables):
        if found := _settings(path).get(key):
            return found
    return ""


def origin(key: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return where a setting comes from, for a message, and how to be rid of it; it must be set."""
    variables = os.environ if environ is None else environ
    if variables.get(VARIABLES[key]):
        return VARIABLES[key], f"unset {VARIABLES[key]}"
    path = next((path for path in files(variables) if key in _settings(path)), SYSTEM_FILE)
    return f"{path}: {key}", "mend or remove that line"


def files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where settings may be, the person's first."""
    own = Path(environ.get("XDG_CONFIG_HOME") or ".")
    if not own.is_absolute():  # such a value is to be ignored, says the XDG base directory specification
        own = Path(environ["HOME"]) / ".config" if environ.get("HOME") else own
    return (own / "envbuild" / "config.toml", SYSTEM_FILE) if own.is_absolute() else (SYSTEM_FILE,)


def _settings(path: Path) -> Mapping[str, str]:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", f"make it readable: chmod a+r {path}") from error
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, _changed: int, size: int) -> Mapping[str, str]:
    from envbuild.core.toml import parse_toml

    if not path.is_file() or size > _LIMIT:
        raise UsageError(f"{path}: expected a file of at most {_LIMIT >> 20} MiB", "see docs/reference/environment.md")
    try:
        table = parse_toml(path.read_bytes().decode())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", f"make it readable: chmod a+r {path}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: no TOML: {one_line(str(error))}", "mend that line, or remove the file") from error
    for key, value in table.items():
        if key not in VARIABLES:
            raise UsageError(
                f"{path}: {quote(key)} is no setting; expected {either(VARIABLES)}{perhaps(key, VARIABLES)}",
                "mend or remove that line",
            )
        if not isinstance(value, str) or not value or "\0" in value:
            raise UsageError(f"{path}: {key}: expected a text, found {quote(str(value))}", "mend or remove that line")
    return {str(key): str(value) for key, value in table.items()}
