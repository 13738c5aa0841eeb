"""What a command that ends without unwinding leaves behind, and a separate process that removes it.

Containers carry the mark of the process that made them, so engines find them without help; folders are registered here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDERS: set[Path] = set()
_EXPECTED: list[None] = []
_ENGINE = "envbuild.engine.docker.adapter"


def note(folder: Path) -> None:
    """Have a folder removed if this process is ended before it does so itself."""
    _FOLDERS.add(folder.absolute())


@contextmanager
def registered(folder: Path) -> Iterator[None]:
    """Have a folder removed if this process is ended before the block is."""
    note(folder)
    try:
        yield
    finally:
        _FOLDERS.discard(folder.absolute())


@contextmanager
def expected() -> Iterator[None]:
    """Have containers looked for a while longer if this process is ended in the block, while an engine makes one."""
    _EXPECTED.append(None)
    try:
        yield
    finally:
        _EXPECTED.pop()


def remove_behind() -> None:
    """Start the process that removes what is left once this one has ended; nothing if there is nothing."""
    import json
    import subprocess

    folders = [str(folder) for folder in list(_FOLDERS) if folder.is_dir()]
    if folders or _ENGINE in sys.modules:
        module, late = "envbuild.operations.remove_leftovers", str(len(_EXPECTED))
        command = [sys.executable, "-m", module, str(os.getpid()), json.dumps(folders), late]
        # In "/", so that nothing is imported from a project.
        null = subprocess.DEVNULL
        subprocess.Popen(command, cwd="/", stdin=null, stdout=null, stderr=null, start_new_session=True)
