"""What ``zipfile`` raises for archives that are damaged, or made to be."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib

DAMAGED_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,  # a member is encrypted
    ValueError,
    NotImplementedError,
)
