"""Messages between ranks over TCP: bounded, typed, and each with a tag that only holders of the job's secret can make.

    frame   kind (1 byte), length of the content (4 bytes, most significant first), tag (32 bytes), content (JSON)
    tag     HMAC-SHA256 of kind, start and content, with a key derived from the secret and the job

``start`` are the random bits that rank 0 draws for each start and sends first, so a message of another start, or the
same message sent again in another one, has a wrong tag. Nothing is encrypted: the content is facts about machines, and
the record that a rank delivers in the end. Its files follow the message that has their sizes and digests, as they are.
A refusal alone has no valid tag, since it goes to those who have no key; it is a number of a fixed list.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Any, TypeVar

import msgspec

CALL, ANSWER, VERDICT, ENDED, CODES, REFUSED, DELIVERY, WANTED, KEPT = _KINDS = b"CAVEDRLWK"
"""Kinds: what rank 0 begins with; a rank's facts; rank 0's verdict; a program's end; exit codes so far; a refusal; the
files that a rank has of its run; those that rank 0 wants; that they are stored."""
LARGEST = 1 << 20
"""Bytes of a message of a rank."""
LARGEST_OF_RANK_0 = 64 << 20
LARGEST_DELIVERY = 256 << 20
"""Bytes of all files that a rank delivers."""
HEAD = struct.Struct(">BI32s")
"""Kind, length and tag."""

REASONS = (
    "it does not speak this protocol",
    "it has another secret, or is of another job",
    "another process has claimed that rank",
    "there is no such rank in this job",
    "the ranks have been compared already",
    f"its files have more than {LARGEST_DELIVERY >> 20} MiB",
    "a file is not what was announced",
)
"""Why rank 0 refuses a connection; their numbers are what is sent."""
GARBAGE, SECRET, CLAIMED, NO_RANK, OVER, TOO_LARGE, DAMAGED = range(len(REASONS))

_Kind = TypeVar("_Kind")


class RefusedError(Exception):
    """A peer was refused, or this process was."""

    def __init__(self, reason: int) -> None:
        self.reason = reason if 0 <= reason < len(REASONS) else GARBAGE
        super().__init__(REASONS[self.reason])


def derive_key(secret: str, job: str) -> bytes:
    """Return the key of a job's messages."""
    return hmac.digest(secret.encode("utf-8", "surrogateescape"), f"envbuild ranks 1 {job}".encode(), "sha256")


def pack(key: bytes, kind: int, start: str, value: Any) -> bytes:
    """Return a message as bytes."""
    content = msgspec.json.encode(value)
    return HEAD.pack(kind, len(content), _tag(key, kind, start, content)) + content


def pack_refusal(reason: int) -> bytes:
    """Return a refusal as bytes."""
    return HEAD.pack(REFUSED, 1, bytes(32)) + bytes([reason])


def unpack_head(head: bytes, limit: int) -> tuple[int, int, bytes]:
    """Return kind, length and tag; raises ``RefusedError`` if it is no head of a message, or of too long a one."""
    kind, length, tag = HEAD.unpack(head)
    if kind not in _KINDS or length > limit:
        raise RefusedError(GARBAGE)
    return kind, length, tag


def unpack(key: bytes, kind: int, tag: bytes, start: str, content: bytes, expected: type[_Kind]) -> _Kind:
    """Return the value of a message.

    Raises:
        RefusedError: its tag is wrong, or it holds something else. A refusal raises its own reason.
    """
    if kind == REFUSED:
        raise RefusedError(content[0] if len(content) == 1 else GARBAGE)
    if not hmac.compare_digest(tag, _tag(key, kind, start, content)):
        raise RefusedError(SECRET)
    try:
        return msgspec.json.decode(content, type=expected)
    except (ValueError, RecursionError):
        raise RefusedError(GARBAGE) from None


def _tag(key: bytes, kind: int, start: str, content: bytes) -> bytes:
    return hmac.digest(key, bytes([kind]) + hashlib.sha256(start.encode()).digest() + content, "sha256")
