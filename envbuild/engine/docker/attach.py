"""The output of an attached container, as the engine's API frames it."""

from __future__ import annotations

import struct
from collections.abc import Callable

from envbuild.engine.streams import CHUNK, Sink, Stream, Write, tapped

_STDOUT = 1
_HEADER = struct.Struct(">BxxxL")
"""Stream number and payload length: https://docs.docker.com/reference/api/engine/version/v1.41/#operation/ContainerAttach"""


def copy_output(
    stream: Stream,
    tty: bool,
    hang_up: Callable[[], None],
    write: Write | None = None,
    tap: Write | None = None,
) -> None:
    """Copy the container's output to descriptors 1 and 2, or to ``write``, until it ends.

    Args:
        stream: the attached container.
        tty: the output is a terminal's: one stream without frames.
        hang_up: called once if nobody reads our standard output any more; copying continues into nothing.
        write: takes the output instead.
        tap: called with the same, once it is written.
    """
    write = write or Sink(hang_up).write
    if tap:
        write = tapped(write, tap)
    if tty:
        while data := stream.read(CHUNK):
            write(_STDOUT, memoryview(data))
        return
    head, number, left = b"", _STDOUT, 0
    while data := stream.read(CHUNK):
        rest = memoryview(data)
        while rest:
            if left:
                part, rest = rest[:left], rest[left:]
                write(number, part)
                left -= len(part)
                continue
            missing = _HEADER.size - len(head)
            head, rest = head + bytes(rest[:missing]), rest[missing:]
            if len(head) == _HEADER.size:
                number, left = _HEADER.unpack(head)
                head = b""
