"""The user's configuration of pip, read without starting pip (which takes longer than the whole resolution).

Files and their order: pip documentation, Topic guides, Configuration,
https://pip.pypa.io/en/stable/topics/configuration/
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from envbuild.errors import ResolveError

_SECTIONS = ("global", "install")


def read(environ: Mapping[str, str], home: Path | None = None, prefix: Path | None = None) -> dict[str, str]:
    """Return pip's options by name (``index-url``), the strongest value of each.

    Args:
        environ: the process environment; ``PIP_*`` variables are the strongest.
        home: the user's home folder; found out if absent.
        prefix: root of the Python installation or virtual environment whose ``pip.conf`` counts.

    Raises:
        ResolveError: a configuration file that exists cannot be read.
    """
    options: dict[str, str] = {}
    for path in _files(environ, home, prefix or Path(sys.prefix)):
        options |= _options(path)
    for name, value in environ.items():
        if name.startswith("PIP_") and name != "PIP_CONFIG_FILE" and value:
            options[name[4:].lower().replace("_", "-")] = value
    return options


def words(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return an option that may be given several times; pip separates its values by white space."""
    return tuple(options.get(name, "").split())


def switch(options: Mapping[str, str], name: str) -> bool:
    """Return a yes-or-no option as pip reads it."""
    return options.get(name, "").strip().lower() in {"y", "yes", "t", "true", "on", "1"}


def _files(environ: Mapping[str, str], home: Path | None, prefix: Path) -> list[Path]:
    """Return the configuration files that pip would read on Linux, weakest first."""
    chosen = environ.get("PIP_CONFIG_FILE", "")
    if chosen == os.devnull:
        return []
    if home is None:
        with suppress(RuntimeError):
            home = Path("~").expanduser()
    folders = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    found = [Path(folder) / "pip/pip.conf" for folder in folders.split(":") if folder]
    found.append(Path("/etc/pip.conf"))
    if home is not None and not (chosen and Path(chosen).exists()):
        found.append(home / ".pip/pip.conf")
        found.append(Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf")
    found.append(prefix / "pip.conf")
    if chosen:
        found.append(Path(chosen))
    return found


def _options(path: Path) -> dict[str, str]:
    """Return the options of one file that count for installing."""
    parser = configparser.RawConfigParser()
    try:
        with path.open(encoding="utf-8") as stream:
            parser.read_file(stream)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        detail = " ".join(str(error).split())
        raise ResolveError(
            f"cannot read pip's configuration {path}: {detail}", "correct the file, or set PIP_CONFIG_FILE=/dev/null"
        ) from None
    return {
        name.lower().replace("_", "-"): value.strip()
        for section in _SECTIONS
        if parser.has_section(section)
        for name, value in parser.items(section)
    }
