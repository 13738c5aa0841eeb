"""What is remembered of inputs, below the project: ``.envbuild/inputs/``.

    <digest>     the manifest of an input as some lock or run had it; its name is the BLAKE3 of its bytes
    stat-cache   see ``statcache``

It may be deleted at any time: files are then read again, and names of what changed are unknown until the data has
been seen as locked once more. A project that takes no files (read-only) is no error.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from blake3 import blake3

from envbuild.core.fs import atomic_file, atomic_write, folder_below, open_regular
from envbuild.inputs.manifest import Draft
from envbuild.inputs.statcache import StatCache
from envbuild.lockfile.discovery import STATE_FOLDER

FOLDER = f"{STATE_FOLDER}/inputs"
_NAMES = (STATE_FOLDER, "inputs")


class State:
    """The folder of one project.

    Args:
        project: the folder that holds the lock.
    """

    def __init__(self, project: Path) -> None:
        self._project = project
        self.folder = project / FOLDER

    def manifest_path(self, digest: str) -> Path:
        """Name the manifest behind a digest, whether it is there or not."""
        return self.folder / digest

    def open_manifest(self, digest: str) -> IO[bytes] | None:
        """Open the manifest behind a digest; None if it is not there, or does not match its name."""
        with ExitStack() as opened, suppress(OSError):
            with folder_below(self._project, *_NAMES) as folder:
                stream = opened.enter_context(open_regular(folder / digest, follow=False))
            hasher = blake3()
            while chunk := stream.read(1 << 20):
                hasher.update(chunk)
            if hasher.hexdigest() == digest:
                stream.seek(0)
                opened.pop_all()
                return stream
        return None

    def keep(self, draft: Draft) -> None:
        """Store a finished manifest under its digest, unless it is there."""
        if (there := self.open_manifest(draft.digest)) is not None:
            there.close()
        elif self._made():
            with (
                suppress(OSError),
                folder_below(self._project, *_NAMES) as folder,
                atomic_file(folder / draft.digest, sync=False, hand_over=True) as stream,
            ):
                shutil.copyfileobj(draft.rewound(), stream)

    def stat_cache(self) -> StatCache:
        """Open the stat cache; one that forgets everything if the folder takes no files."""
        if self._made():
            with suppress(OSError), tempfile.TemporaryFile(dir=self.folder) as probe:
                return StatCache(self.folder / "stat-cache", os.fstat(probe.fileno()).st_mtime_ns)
        return StatCache(None, 0)

    def _made(self) -> bool:
        """Make the folder, ignored by git and owned by the project's owner; returns False if that fails."""
        try:
            with folder_below(self._project, *_NAMES, make=True):
                pass
            with folder_below(self._project, STATE_FOLDER) as above:
                if not os.path.lexists(above / ".gitignore"):
                    atomic_write(above / ".gitignore", b"*\n")
        except OSError:
            return False
        return True
