"""Build an image once more from nothing, and compare it with the one that is recorded and loaded."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.errors import NotReproducibleError
from envbuild.image.record import ImageRecord, image_record_path, is_recorded
from envbuild.operations.assemble import BuildOptions, assemble_image
from envbuild.operations.events import Events, RebuildEqual, RebuildStarted
from envbuild.operations.load_lock import LoadedLock
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.engine.protocol import Engine
    from envbuild.image.assemble import Built
    from envbuild.image.compare import Parts


class _EmptyCache(Store):
    """The store's files, and an empty folder of its own for all that is made of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def cache_dir(self, kind: str) -> Path:
        """Return the folder of one kind of derived files, empty at first."""
        folder = self._folder / kind
        folder.mkdir(exist_ok=True)
        return folder


def verify_build(
    loaded: LoadedLock, options: BuildOptions, engine: Engine | None, record: ImageRecord, events: Events
) -> None:
    """Make a lock's image once more, reuse no layer and no operating system, and compare.

    Args:
        engine: holds the image; None if it was written to a file.
        record: the image as it is recorded.

    Raises:
        NotReproducibleError: one bit differs; the message names layers, paths and fields.
    """
    events.report(RebuildStarted(lock=loaded.lock.name))
    with _scratch(Store().cache_dir("rebuilt")) as folder:
        built = assemble_image(loaded, options, engine, events, anew=_EmptyCache(folder))
        if (built.image.config_digest, built.image.manifest_digest) != (record.config, record.manifest):
            raise _differs(loaded, options, engine, record, built, events)
    if engine is not None and not is_recorded(engine.find_image(record.reference), record):
        raise NotReproducibleError(
            f"the rebuilt image is as recorded, but the engine's {record.reference} is another",
            f"remove it and build again: docker rmi {record.reference}",
        )
    events.report(RebuildEqual(lock=loaded.lock.name, config=record.config, layers=len(built.layers)))


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """Yield an empty folder, and remove those of commands that were killed: nobody holds their lock any more."""
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
    loaded: LoadedLock,
    options: BuildOptions,
    engine: Engine | None,
    record: ImageRecord,
    built: Built,
    events: Events,
) -> NotReproducibleError:
    """Explain where the rebuilt image differs from the kept layers, or, if from the record alone, report it."""
    from envbuild.image.compare import image_differences, report

    kept = assemble_image(loaded, options, engine, events)
    lines = report(image_differences(_parts(kept), _parts(built)))
    if not lines:
        lines = [
            f"  the layers kept on this machine are those of the rebuilt image: {image_record_path(loaded.path).name}"
        ]
        lines += ["  is of another machine, or of layers that are kept no more"]
    return NotReproducibleError(
        f"{loaded.path.name}: rebuilt from nothing, the image is another\n"
        f"  recorded  sha256:{record.config}\n  rebuilt   sha256:{built.image.config_digest}\n" + "\n".join(lines),
        "report it with these lines: the same lock must give the same image",
    )


def _parts(built: Built) -> Parts:
    from envbuild.image.compare import Parts

    layers = {blob.digest: blob.path for blob in built.image.layers}
    return Parts(config=built.image.config, layers=layers)
