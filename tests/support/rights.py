"""A part of a test that goes on as a user without rights, where the test itself runs as root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """Go on as a user who may not read what is closed, and owns ``folder``: root reads all."""
    if os.geteuid():
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
