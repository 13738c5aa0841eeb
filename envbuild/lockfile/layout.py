"""Where things are inside every image, the constants that its bytes depend on, and which layouts there are.

A lock names the layout version that its image is made in, and keeps it until ``envbuild lock --upgrade``. What is
equal in all versions are the constants below; what differs is looked up by ``lock.layout`` where it is decided
(``image/plan.py``). A change of bytes is a new version: raise ``VERSION``, keep the old code path, and add a golden
file next to ``tests/golden/image-layout-1.json``.
"""

from __future__ import annotations

from envbuild.errors import LockError

VERSION = 2
"""The newest layout version, which new locks get."""

OLDEST = 1
"""The oldest one that can still be made."""

EPOCH = 315_532_800
"""Modification time of every file in an image, in seconds: 1980-01-01T00:00:00Z, the oldest a zip can hold."""

ENV_PREFIX = "/opt/env"
"""The virtual environment."""

RUNTIME_PREFIX = "/opt/envbuild"
"""Guard, hook, lock and expectations; standard library only."""

LOCK_PATH = f"{RUNTIME_PREFIX}/pylock.toml"
EXPECT_PATH = f"{RUNTIME_PREFIX}/expect.json"

RUN_DIR = "/run/envbuild"
"""Mounted writable by ``envbuild run``: verdict, switch read-back, effective parameters."""

MOUNTED_FILE = "mounted"
"""In it, if the caller mounted something outside the project: where, absolute paths with a NUL after each."""

SHOWN_DIR = "/tmp/shown-figures"  # noqa: S108 - in the container, where /tmp is the run's own
"""Where the hook keeps figures that the program shows: those that would be on a screen, if there were one."""

WORKSPACE = "/workspace"
"""Where ``envbuild run`` mounts the caller's project."""
HOST_NAME = "envbuild"
"""The name of the container for itself, the same on all machines."""
VARIED_HOST = HOST_NAME[:5]
"""Beginning of the names of the other runs of a verification; digits follow, so that all names have one length."""

LARGE_WHEEL = 4 << 20
"""In layout 1 wheels of at least this many bytes (packed) get a separate layer; the others share one."""

SIZE_CLASS = 4
"""Since layout 2 wheels are sorted by the power of this number that their packed size in bytes reaches."""

OWN_LAYER = 11
"""Since layout 2 wheels of at least this power, 4 MiB, get a separate layer."""

SHARED_LAYER = 10
"""Since layout 2 wheels of at least this power, 1 MiB, share a layer with others of their class."""


def check(version: int, lock: str) -> None:
    """Refuse a layout version that this envbuild cannot make.

    Args:
        version: the lock's.
        lock: the lock's file name, for the message.

    Raises:
        LockError: a newer envbuild wrote the lock, or one so old that its layout is gone.
    """
    if OLDEST <= version <= VERSION:
        return
    known = f"layout {VERSION}" if OLDEST == VERSION else f"layouts {OLDEST} to {VERSION}"
    newer = "use the envbuild that wrote it or a newer one, or " if version > VERSION else ""
    raise LockError(
        f"{lock} is of image layout {version}; this envbuild makes {known}",
        f"{newer}move the lock to layout {VERSION}: envbuild lock --upgrade",
    )
