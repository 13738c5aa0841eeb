"""What both formats share: the date, the bytes, and a document's own name."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timezone
from typing import Any

from envbuild.core.digest import canonical_json, sha256_bytes
from envbuild.lockfile import layout

CREATED = datetime.fromtimestamp(layout.EPOCH, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
"""The constant date of every file in an image: a clock would make equal bills differ."""


def document_uuid(body: Any) -> uuid.UUID:
    """Return a name that follows from what the document reports, the lock's digest included (RFC 9562, version 8)."""
    digest = bytearray.fromhex(sha256_bytes(canonical_json(body))[:32])
    digest[6] = 0x80 | digest[6] & 0x0F
    digest[8] = 0x80 | digest[8] & 0x3F
    return uuid.UUID(bytes=bytes(digest))


def document_bytes(document: Any) -> bytes:
    """Encode a document for people and programs: indented, in the order given, UTF-8."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
