"""What ``init``, ``lock`` and ``fetch`` did, as lines for people and as JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envbuild.cli.render.events import Line
from envbuild.core.text import human_bytes, plural
from envbuild.lockfile.model import Os
from envbuild.operations.fetch import FetchedLock


def system_line(system: Os) -> Line:
    """Return the line that shows which packages or which base image were locked."""
    if system.image:
        name, _, digest = system.image.partition("@")
        size = human_bytes(system.image_size)
        return Line("os", (f"{system.release:<18}", "base image  ", f"{size:<8}", f"{name}@{digest[:19]}…"))
    size = human_bytes(sum(package.size for package in system.packages))
    packages = plural(len(system.packages), "package")
    signed = f"signatures verified (Debian {system.release.rpartition('-')[2]} archive keys)"
    origin = f"snapshot {system.snapshot}" if system.snapshot else ""
    return Line("os", (f"{system.release:<18}", f"{packages:<12}", f"{size:<8}", signed, origin))


def fetched_lines(result: FetchedLock) -> Iterable[Line]:
    """Return the lines that show where files were also written."""
    if result.vendored is not None:
        yield Line("vendor", (str(result.vendor), plural(result.vendored.written + result.vendored.kept, "file")))


def fetched_json(result: FetchedLock) -> dict[str, Any]:
    """Return the result of ``fetch`` as JSON values."""
    return {
        "lock": result.loaded.lock.file_name,
        "store": str(result.store),
        "vendor": str(result.vendor) if result.vendor else None,
    }
