"""``build --output``: an image as files, for whatever reads images without a container engine.

A folder is an OCI image layout. A file is an OCI archive and a docker archive at once: it holds the layout and, next to
it, the ``manifest.json`` of ``docker save``. Both names are taken, since those who read it have two names for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.errors import UsageError

if TYPE_CHECKING:
    from envbuild.image.oci.layout import Image

_FORMS = "expected oci:DIR, oci:FILE.tar, oci-archive:FILE or docker-archive:FILE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A place for an image; ``archive``: one file, not a folder."""

    path: Path
    archive: bool

    def write(self, image: Image, tag: str) -> None:
        """Write the image there, whole or not at all; raises ``BuildError``."""
        from envbuild.image.oci.layout import write_layout_dir, write_tar

        write = write_tar if self.archive else write_layout_dir
        write(image, tag, self.path)


def parse_target(output: str) -> Target:
    """Read what ``--output`` names.

    Raises:
        UsageError: another form than those it takes, or a file where a folder is, and the reverse.
    """
    scheme, _, place = output.partition(":")
    if scheme not in ("oci", "oci-archive", "docker-archive") or not place:
        raise UsageError(f"--output {output}: {_FORMS}", "e.g. --output oci:image.tar")
    path = Path(place)
    archive = scheme != "oci" or path.suffix == ".tar"
    if archive and path.is_dir():
        raise UsageError(f"--output {output}: {path} is a folder; expected a file", "e.g. --output oci:image.tar")
    return Target(path=path, archive=archive)
