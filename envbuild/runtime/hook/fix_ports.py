"""Ports that the system chooses, the same in each run of an experiment (fix.py).

A socket that is bound to port 0, or connects without a port of its own, gets the next of a row of ports that a run has
to itself. Sockets that C or C++ makes are not reached, nor what has used the row up.
"""

from __future__ import annotations

import errno
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FIRST, ROW, ROWS = 33_000, 2_000, 11
"""The first port of the row that goes with number 0, how many ports a row has, and how many rows there are."""
_TRIES = 64
"""Ports that are taken already, by another process of the run."""
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def first_port(number: int) -> int:
    """Return the first port of the row that goes with a number (``Figures``)."""
    return FIRST + (number >> 20) % ROWS * ROW


class Ports:
    """Methods of sockets in the place of those that have the system choose a port.

    Args:
        number: which row of ports it is.
    """

    def __init__(self, number: int) -> None:
        self.first = self.next = first_port(number)

    def install(self) -> None:
        """Put them there; there is no way back."""
        own: Any = socket.socket
        bind, connect, connect_ex, sendto = own.bind, own.connect, own.connect_ex, own.sendto

        def bound(this: Any, address: Any) -> Any:
            if this.family in _FAMILIES and type(address) is tuple and len(address) > 1 and address[1] == 0:
                return self._bind(this, bind, address)
            return bind(this, address)

        def from_a_port(original: Any) -> Any:
            def replacement(this: Any, *arguments: Any) -> Any:
                self._give(this, bind)
                return original(this, *arguments)

            return replacement

        own.bind = bound
        own.connect, own.connect_ex, own.sendto = map(from_a_port, (connect, connect_ex, sendto))

    def _bind(self, this: Any, bind: Any, address: tuple[Any, ...]) -> Any:
        """Bind to the next port that is free; to one that the system chooses, where all are in use."""
        for _ in range(_TRIES):
            if self.next >= self.first + ROW:
                break
            self.next += 1
            try:
                return bind(this, (address[0], self.next - 1, *address[2:]))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
        return bind(this, address)

    def _give(self, this: Any, bind: Any) -> None:
        """Give a socket without a port one; where that fails, the call itself reports what is wrong."""
        if this.family not in _FAMILIES:
            return
        try:
            if this.getsockname()[1] == 0:
                self._bind(this, bind, ("" if this.family == socket.AF_INET else "::", 0))
        except OSError:
            return
