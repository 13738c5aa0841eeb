"""Connections passed on between a port on loopback and a socket in a folder, as tunnels to a registry do.

``python relay.py PORT SOCKET`` listens on the port, if nobody does, as long as the process lives that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def to(connect: Callable[[], Coroutine[Any, Any, Ends]]) -> Handler:
    """Return what passes a connection on to another one."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await connect()
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    return handle


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 18):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def socket_to(port: int, path: Path) -> Iterator[None]:
    """Have a socket lead to a port on loopback while the context lasts."""
    loop = asyncio.new_event_loop()
    handler = to(lambda: asyncio.open_connection("127.0.0.1", port))
    server = loop.run_until_complete(asyncio.start_unix_server(handler, path))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)


async def _listen(port: int, path: str) -> None:
    with contextlib.suppress(OSError):  # another task of this node does it
        await asyncio.start_server(to(lambda: asyncio.open_unix_connection(path)), "127.0.0.1", port)
        parent = os.getppid()
        while os.getppid() == parent:
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(_listen(int(sys.argv[1]), sys.argv[2]))
