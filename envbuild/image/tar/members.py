"""Members of a tar that is read once, from its beginning to its end."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator


def read_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members without keeping them: tarfile keeps all it met, and an image may have a hundred thousand.

    An archive of nothing has none: Python before 3.11.4 and 3.10.14 (Debian 12 has 3.11.2) seeks backwards there.
    """
    if archive.firstmember is None:  # type: ignore[attr-defined]
        return
    while (member := archive.next()) is not None:
        archive.members = []  # type: ignore[attr-defined]
        yield member
