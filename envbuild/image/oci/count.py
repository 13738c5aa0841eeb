"""How many files a layer holds, by hopping from header to header."""

from __future__ import annotations

import os
import re
from pathlib import Path

from envbuild.image.tar.layer import BLOCK

_SIZE = re.compile(rb"(?:^|\n)[0-9]+ size=([0-9]+)\n")


def count_files(tar: Path) -> int:
    """Return how many entries of a layer are no directories; the tar is one that ``LayerWriter`` wrote."""
    descriptor = os.open(tar, os.O_RDONLY | os.O_CLOEXEC)
    try:
        files = offset = 0
        size: int | None = None
        while (header := os.pread(descriptor, BLOCK, offset)) and header[0]:
            length = int(header[124:135], 8) if size is None else size
            size = None
            if header[156:157] == b"x":  # a PAX header: a size beyond ustar's is in it
                match = _SIZE.search(os.pread(descriptor, length, offset + BLOCK))
                size = int(match[1]) if match else None
            else:
                files += header[156:157] != b"5"
            offset += BLOCK + length + -length % BLOCK
        return files
    finally:
        os.close(descriptor)
