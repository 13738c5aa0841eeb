"""Addresses of small objects that are the same in each run of an experiment (fix.py): hash, id, repr, order of sets.

CPython takes memory for objects of up to 512 bytes from arenas, and lets an embedding program say where those come
from (``PyObject_SetArenaAllocator``). The allocator put there hands out one region at an address of ours, from its
start on, and takes nothing back. It is machine code, since Python code would need memory itself. Places that are left
in arenas of before are filled first. Objects that are larger, and those of the interpreter itself, stay where the
kernel puts them. x86-64 alone.

Where the engine's filter of system calls admits it, the process starts itself anew without a random address layout
(personality(2)), which reaches all of them.
"""

from __future__ import annotations

import os

from .restarts import command_line, start_anew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_START, _SIZE = 0x2000_0000_0000, 16 << 30
"""Where the region begins, which no kernel gives by itself, and its bytes; what nobody writes takes no memory."""
_ALLOCATE = b"\x48\x89\xf0\xf0\x48\x0f\xc1\x07\xc3"  # mov rax, rsi; lock xadd [rdi], rax; ret
_FREE = b"\xc3"  # ret
_AT_FREE = 16
_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_MAP = 0x02 | 0x20 | 0x4000 | 0x100000  # private, anonymous, no reserve, fixed but over nothing
_PAGE = 4096
_NO_RANDOMIZE, _QUERY = 0x0040000, 0xFFFFFFFF
_LARGEST, _STEP, _HEADER = 512, 16, 33
_POOL = 1 << 14
"""Bytes: objects of arenas, their sizes' step, and what a ``bytes`` has besides its content; pools of arenas."""
_kept: list[Any] = []
"""What fills the places of before, and the allocator itself."""


def restart() -> None:
    """Start this process anew without a random address layout; return if that is so already, or cannot be."""
    import ctypes

    libc = ctypes.CDLL(None)
    libc.personality.argtypes = (ctypes.c_ulong,)
    found = libc.personality(_QUERY)
    words = command_line()
    if not words or found < 0 or found & _NO_RANDOMIZE or libc.personality(found | _NO_RANDOMIZE) < 0:
        return
    if libc.personality(_QUERY) & _NO_RANDOMIZE:
        start_anew(words)


def install() -> None:
    """Take memory for objects from the region from now on; raises ``OSError`` where that cannot be."""
    import ctypes

    if os.uname().machine != "x86_64":
        raise OSError("addresses are fixed on x86-64 alone")

    class Allocator(ctypes.Structure):
        _fields_ = (("context", ctypes.c_void_p), ("allocate", ctypes.c_void_p), ("free", ctypes.c_void_p))

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    code = libc.mmap(_START - _PAGE, _PAGE, _PROT_READ | _PROT_WRITE, _MAP, -1, 0)
    region = libc.mmap(_START, _SIZE, _PROT_READ | _PROT_WRITE, _MAP, -1, 0)
    if code != _START - _PAGE or region != _START:
        raise OSError(ctypes.get_errno(), "the region of memory is not to be had")
    ctypes.memmove(code, _ALLOCATE.ljust(_AT_FREE, b"\xcc") + _FREE, _AT_FREE + 1)
    if libc.mprotect(code, _PAGE, _PROT_READ | _PROT_EXEC):
        raise OSError(ctypes.get_errno(), "memory cannot be made executable")
    cursor = ctypes.c_uint64(_START)
    allocator = Allocator(ctypes.addressof(cursor), code, code + _AT_FREE)
    _kept.extend((cursor, allocator))
    ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(allocator))
    _fill()


def _fill() -> None:
    """Use up what is free in the arenas of before, in every size: until two pools long nothing of it is given."""
    import gc

    gc.collect()  # what it frees later would be used again
    gc.freeze()
    for size in range(_STEP, _LARGEST + 1, _STEP):
        new = 0
        while new * size < 2 * _POOL:
            each: Any = bytes(size - _HEADER) if size > _HEADER else object() if size == _STEP else 0.1 + len(_kept)
            _kept.append(each)
            new = new + 1 if _START <= id(each) < _START + _SIZE else 0
