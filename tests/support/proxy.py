"""A TCP proxy on loopback that counts bytes, cuts connections and flips bits: the network at its worst."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Proxy:
    """A proxy before one server.

    Attributes:
        host: its own host and port.
        target: the server's.
        cut_after: the connection that brings the bytes sent to the server above this number breaks; then counting
            starts anew, ``cuts`` times in all.
        stall_after: bytes sent to the server after which nothing is passed on any more; 0 for never.
        hold_after: bytes sent by one connection after which nothing of it is passed on any more; 0 for never.
        flip: the first answer that has these bytes gets another one in their place.
        up: bytes sent to the server; ``down``: bytes that came from it.
        requests: first lines of HTTP requests seen at the beginning of a piece.
    """

    host: str
    target: str
    cut_after: int = 0
    cuts: int = 0
    stall_after: int = 0
    hold_after: int = 0
    flip: bytes = b""
    up: int = 0
    down: int = 0
    cut: int = 0
    requests: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _since: int = 0

    def reset(self) -> None:
        """Count from nothing again."""
        self.up = self.down = 0
        self.requests.clear()

    def serve(self, client: socket.socket) -> None:
        """Pass one connection on."""
        name, _, port = self.target.partition(":")
        with suppress(OSError), client, socket.create_connection((name, int(port)), 10) as server:
            back = threading.Thread(target=self._answers, args=(server, client), daemon=True)
            back.start()
            mine = 0
            while data := client.recv(1 << 16):
                with self.lock:
                    self.up += len(data)
                    mine += len(data)
                    self._since += len(data)
                    line = data.split(b"\r\n", 1)[0]
                    if line.endswith((b"HTTP/1.1", b"HTTP/1.0")):
                        self.requests.append(line.decode(errors="replace"))
                    breaks = self.cuts > 0 and self._since > self.cut_after
                    if breaks:
                        self.cuts, self.cut, self._since = self.cuts - 1, self.cut + 1, 0
                if breaks:
                    return
                if (self.stall_after and self.up > self.stall_after) or (self.hold_after and mine > self.hold_after):
                    threading.Event().wait(600)
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            back.join(10)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                with self.lock:
                    self.down += len(data)
                    if self.flip and self.flip in data:
                        data = data.replace(self.flip, bytes(byte ^ 1 for byte in self.flip), 1)
                        self.flip = b""
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)


@contextmanager
def running_proxy(target: str) -> Iterator[Proxy]:
    """Run a proxy before ``host:port``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = Proxy(host=f"127.0.0.1:{listener.getsockname()[1]}", target=target)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=proxy.serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield proxy
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
