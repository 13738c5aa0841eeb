"""``build --verify``: the image once more from nothing, compared with the one that is recorded and loaded."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.cli.building import BuildOptions, assemble_image
from envbuild.cli.console import Console
from envbuild.core.text import plural
from envbuild.errors import NotReproducibleError
from envbuild.image.record import ImageRecord, image_record_path, is_recorded
from envbuild.operations.load_lock import LoadedLock
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.engine.protocol import Engine
    from envbuild.image.assemble import Built
    from envbuild.image.compare import Parts


class _Anew(Store):
    """The store's files, and an empty folder of its own for all that is made of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def cache_dir(self, kind: str) -> Path:
        """Return the folder of one kind of derived things, empty at first."""
        folder = self._folder / kind
        folder.mkdir(exist_ok=True)
        return folder


def verify_build(
    opened: LoadedLock, options: BuildOptions, engine: Engine | None, identity: ImageRecord, console: Console
) -> None:
    """Make a lock's image again, no layer and no operating system reused, and compare.

    Args:
        engine: holds the image; None if it was written to a file.
        identity: the image as it is recorded.

    Raises:
        NotReproducibleError: one bit differs; the message names layers, paths and fields.
    """
    console.line("verify", opened.lock.name, "rebuilding from nothing")
    with _scratch(Store().cache_dir("rebuilt")) as folder:
        built = assemble_image(opened, options, engine, console, anew=_Anew(folder))
        made = {"config": built.image.config_digest, "manifest": built.image.manifest_digest}
        if made != {"config": identity.config, "manifest": identity.manifest}:
            raise _differs(opened, options, engine, identity, built, console)
    if engine is not None and not is_recorded(engine.find_image(identity.reference), identity):
        raise NotReproducibleError(
            f"the rebuilt image is as recorded, but the engine's {identity.reference} is another",
            f"remove it and build again: docker rmi {identity.reference}",
        )
    layers = plural(len(built.layers), "layer")
    console.line("verified", opened.lock.name, f"sha256:{made['config'][:12]}…", f"the same {layers}", elapsed=True)


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """Give an empty folder, and remove those of commands that were killed: nobody holds their lock any more."""
    for lock in parent.glob("*.lock"):
        with suppress(OSError), lock.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink()
    with tempfile.NamedTemporaryFile(prefix="verify-", suffix=".lock", dir=parent) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        folder = Path(held.name).with_suffix("")
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _differs(
    opened: LoadedLock,
    options: BuildOptions,
    engine: Engine | None,
    identity: ImageRecord,
    built: Built,
    console: Console,
) -> NotReproducibleError:
    """Explain where the rebuilt image differs from the kept layers, or, if from the record alone, say so."""
    from envbuild.image.compare import image_differences, report

    kept = assemble_image(opened, options, engine, console)
    lines = report(image_differences(_parts(kept), _parts(built)))
    if not lines:
        lines = [
            f"  the layers kept on this machine are those of the rebuilt image: {image_record_path(opened.path).name}"
        ]
        lines += ["  is of another machine, or of layers that are kept no more"]
    return NotReproducibleError(
        f"{opened.path.name}: rebuilt from nothing, the image is another\n"
        f"  recorded  sha256:{identity.config}\n  rebuilt   sha256:{built.image.config_digest}\n" + "\n".join(lines),
        "report it with these lines: the same lock must give the same image",
    )


def _parts(built: Built) -> Parts:
    from envbuild.image.compare import Parts

    layers = {blob.layer.diff_id: blob.path for blob in built.image.layers}
    return Parts(config=built.image.config, layers=layers)
