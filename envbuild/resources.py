"""The only finder of templates and data files.

In a checkout the templates lie at the repository's top level, in an installed wheel inside the package.
"""

from __future__ import annotations

import re
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_DATA_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9]+)+")


def template_dir() -> Path:
    """Return the folder of the templates, wherever this installation keeps it.

    Raises:
        FileNotFoundError: the installation is damaged.
    """
    for folder in (_PACKAGE / "templates", _PACKAGE.parent / "templates"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"envbuild's templates are missing beside {_PACKAGE}: install envbuild again")


def data_path(name: str) -> Path:
    """Return the path of a data file that ships with the package, such as ``determinism.toml``.

    Raises:
        ValueError: ``name`` is not a plain file name.
    """
    if not _DATA_NAME.fullmatch(name):
        raise ValueError(f"not the name of a data file: {name!r}")
    return _PACKAGE / "data" / name


def data(name: str) -> bytes:
    """Return the bytes of a data file that ships with the package; raises ``OSError`` if it is missing."""
    return data_path(name).read_bytes()


def archive_keys() -> tuple[Path, ...]:
    """Return the files with the OpenPGP certificates of Debian's archives, sorted by name."""
    return tuple(sorted((_PACKAGE / "data" / "keys").glob("*.gpg")))
