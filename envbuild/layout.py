"""Where things lie inside every image, and the constants that its bytes depend on.

Changing anything here changes digests: raise ``VERSION`` with it.
"""

from __future__ import annotations

VERSION = 1
"""Layout version: part of every cache key and of the lock."""

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

WORKSPACE = "/workspace"
"""Where ``envbuild run`` mounts the caller's project."""

INPUTS = "/inputs"

LARGE_WHEEL = 4 << 20
"""Wheels of at least this many bytes (packed) get a layer of their own; the others share one."""
