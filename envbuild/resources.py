"""The only finder of files that ship beside the code: templates and data.

In a wheel the templates lie inside the package; in a checkout (editable install) at the top of the repository.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_TEMPLATES = (_PACKAGE / "templates", _PACKAGE.parent / "templates")


def templates() -> Path:
    """Return the folder of the templates; raises ``FileNotFoundError`` if the installation is incomplete."""
    for folder in _TEMPLATES:
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"no templates at {_TEMPLATES[0]}")


def template(name: str) -> bytes:
    """Return the bytes of one template by its file name; raises ``FileNotFoundError``."""
    return (templates() / name).read_bytes()
