"""Archives of the tests' own, unpacked as far as each Python can: ``filter`` came with 3.10.12 and 3.11.4.

Source: https://docs.python.org/3/library/tarfile.html#hints-for-further-verification.
"""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive into a folder; the members are the test's own."""
    archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)  # type: ignore[assignment]
    archive.extractall(folder)
