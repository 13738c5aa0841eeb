"""Records of images that nobody built."""

from __future__ import annotations

from typing import Any

import msgspec

from envbuild.image.record import ImageRecord, image_tag
from envbuild.lockfile.model import Lock, lock_digest


def image_record(lock: Lock, **changes: Any) -> ImageRecord:
    """Return the record of a lock's image of two layers; ``changes`` are fields."""
    record = ImageRecord(
        config="a" * 64,
        layers=("1" * 64, "2" * 64),
        layout=lock.layout,
        lock=lock_digest(lock),
        manifest="b" * 64,
        recipe="d" * 64,
        reference=image_tag(lock),
        sizes=(512, 1024),
    )
    return msgspec.structs.replace(record, **changes)
