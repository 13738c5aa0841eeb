"""The only finder of templates and data files.

Both are folders of the package. In a checkout ``templates`` is a link to the folder at the repository's top level.
"""

from __future__ import annotations

import re
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_DATA_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9]+)+")


def package_dir() -> Path:
    """Return the folder of the package ``envbuild`` itself."""
    return _PACKAGE


def template_dir() -> Path:
    """Return the folder of the templates.

    Raises:
        FileNotFoundError: the installation is damaged.
    """
    folder = _PACKAGE / "templates"
    if not folder.is_dir():
        raise FileNotFoundError(f"envbuild's templates are missing at {folder}: install envbuild again")
    return folder


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


def archive_keys(distribution: str = "debian") -> tuple[Path, ...]:
    """Return the files with the OpenPGP certificates of a distribution's archives, sorted by name."""
    folder = _PACKAGE / "data" / "keys"
    return tuple(sorted((folder if distribution == "debian" else folder / distribution).glob("*.gpg")))
