"""``python -m envbuild.operations.remove_leftovers PID FOLDERS LATE``: remove what an interrupted command left.

Started by that command as its last act (``core/leftovers.py``), in a separate session.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from envbuild.core.removal import remove_tree
from envbuild.lockfile.discovery import STATE_FOLDER

_PATIENCE, _LATE = 30.0, 10.0


def main(parent: int, folders: list[str], *, late: bool = False) -> None:
    """Wait for the end of the process that left them, then remove its containers and these folders.

    Args:
        late: the engine was making a container, which may come in the next seconds.
    """
    deadline = time.monotonic() + _PATIENCE
    while os.getppid() == parent and time.monotonic() < deadline:
        time.sleep(0.02)
    _remove_containers()
    for folder in folders:
        remove_tree(Path(folder))
        above = Path(folder).parent
        if above.parent.name == STATE_FOLDER:
            with suppress(OSError):  # not empty
                above.rmdir()
    deadline = time.monotonic() + _LATE
    while late and time.monotonic() < deadline:
        time.sleep(0.5)
        _remove_containers()


def _remove_containers() -> None:
    with suppress(Exception):  # no engine: no containers
        from envbuild.engine.docker.adapter import connect

        connect()  # removes containers whose process is gone


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]), late=sys.argv[3] != "0")
