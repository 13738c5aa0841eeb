"""Opens files that runs left, to compare what they hold; see ``verification.content``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envbuild.verification.content import Content
    from envbuild.verification.printed import Masks


def content_of(folder: Path, path: str, masks: Masks) -> Content | None:
    """Return the content of a file, or of a link: its target's name; None if it is of no format that is opened."""
    from envbuild.verification.content import read, read_file
    from envbuild.verification.content.names import masked_path

    file = folder / path
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        return None
    if file.is_symlink():
        return read(masked_path(os.readlink(file), masks).encode("utf-8", "surrogateescape"), masks)  # noqa: PTH115
    return read_file(file, masks)
