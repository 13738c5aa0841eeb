"""Where the other ranks reach this machine, and through which interface. Asks the kernel; sends nothing."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress

_SIOCGIFADDR = 0x8915  # linux/sockios.h; not in the socket module
LOOPBACK = "127.0.0.1"


def own_address(towards: Iterable[str]) -> str:
    """Return the IPv4 address that this machine has on the way to the first of some hosts that there is a way to.

    Args:
        towards: names or addresses; names that cannot be resolved and loopback addresses are passed over.

    Returns:
        Empty if there is a way to none of them.
    """
    for host in towards:
        target = resolve(host)
        if not target:
            continue
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))  # of a datagram socket: looks up the route, sends nothing
            return str(probe.getsockname()[0])
    return ""


def resolve(host: str) -> str:
    """Return a host's IPv4 address; empty if it has none, or one of this machine's loopback."""
    with suppress(OSError, UnicodeError):
        for *_, address in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_DGRAM):
            if not ipaddress.ip_address(address[0]).is_loopback:
                return str(address[0])
    return ""


def interface_towards(address: str) -> str:
    """Return the name of the interface with which this machine reaches an address; ``lo`` if that is its own loopback.

    Returns:
        Empty if there is no way to it.
    """
    with suppress(OSError, ValueError):
        if ipaddress.ip_address(address).is_loopback:
            return "lo"
        own = own_address([address])
        for _, name in socket.if_nameindex():
            if own and _address_of(name) == own:
                return name
    return ""


def _address_of(interface: str) -> str:
    """Return an interface's first IPv4 address; empty without one."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        return socket.inet_ntoa(answer[20:24])
    return ""
