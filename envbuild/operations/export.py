"""``build --output``: an image as files, for whatever reads images without a container engine.

A folder is an OCI image layout. A file is an OCI archive and a docker archive at once: it holds the layout and, next to
it, the ``manifest.json`` of ``docker save``. Both names are taken, since those who read it have two names for it.
``dir:`` and ``sqsh:`` are the image's file system alone, as a folder and as SquashFS.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from envbuild.errors import UsageError

if TYPE_CHECKING:
    from envbuild.image.oci.layout import Image

_FORMS = "expected oci:DIR, oci:FILE.tar, oci-archive:FILE, docker-archive:FILE, sqsh:FILE or dir:DIR"
_SCHEMES = ("oci", "oci-archive", "docker-archive", "sqsh", "dir")
_FOLDERS = ("layout", "dir")

Form = Literal["layout", "archive", "sqsh", "dir"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A place for an image, and in which form it goes there."""

    path: Path
    form: Form

    def write(self, image: Image, tag: str) -> None:
        """Write the image there, whole or not at all; raises ``BuildError``."""
        from envbuild.image.oci import layout, rootfs

        if self.form == "layout":
            layout.write_layout_dir(image, tag, self.path)
        elif self.form == "archive":
            layout.write_tar(image, tag, self.path)
        elif self.form == "sqsh":
            rootfs.write_squashfs(image, self.path)
        else:
            rootfs.write_folder(image, self.path)

    def of_several(self, output: str, images: list[Image]) -> Several:
        """Return the place for images of several platforms; raises ``UsageError`` for a form that holds one.

        Args:
            output: as it was typed.
            images: takes them.
        """
        if self.form not in ("layout", "archive") or output.startswith("docker-archive:"):
            raise UsageError(
                f"--output {output}: it holds one image, and there is one for each platform",
                "write a layout: --output oci:DIR or oci:FILE.tar; or name one: --platform",
            )
        return Several(target=self, images=images)


@dataclass(frozen=True, kw_only=True, slots=True)
class Several:
    """A layout for the images of several platforms: it collects them and is written at the end."""

    target: Target
    images: list[Image]

    def write(self, image: Image, tag: str) -> None:
        """Take an image; its own name has no place in a layout of several."""
        self.images.append(image)

    def finish(self, tag: str) -> None:
        """Write all of them, with the index that names them; raises ``BuildError``."""
        from envbuild.image.oci import layout

        write = layout.write_index_dir if self.target.form == "layout" else layout.write_index_tar
        write(self.images, tag, self.target.path)


def parse_target(output: str) -> Target:
    """Read what ``--output`` names.

    Raises:
        UsageError: another form than those it takes, or a file where a folder is, and the reverse.
    """
    scheme, _, place = output.partition(":")
    if scheme not in _SCHEMES or not place:
        raise UsageError(f"--output {output}: {_FORMS}", "e.g. --output oci:image.tar")
    path = Path(place)
    form: Form = "archive"
    if scheme == "oci" and path.suffix != ".tar":
        form = "layout"
    elif scheme == "sqsh":
        form = "sqsh"
    elif scheme == "dir":
        form = "dir"
    if form not in _FOLDERS and path.is_dir():
        raise UsageError(f"--output {output}: {path} is a folder; expected a file", "e.g. --output oci:image.tar")
    return Target(path=path, form=form)
