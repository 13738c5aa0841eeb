"""Memory that is filled before the program gets it, also what libraries keep for themselves, in an experiment (fix.py).

The C library fills what ``malloc`` gives (``MALLOC_PERTURB_``), but not small pieces that a thread has freed before and
keeps (its ``tcache``): so the process starts itself anew without that. NumPy keeps small blocks too: its functions for
the memory of arrays are replaced by the C library's, in the table that all threads use (``PyDataMem_DefaultHandler``,
since NumPy 1.22). What PyTorch and others take comes from the C library. x86-64 alone.
"""

from __future__ import annotations

import os
import sys

from .restarts import command_line, start_anew

TUNABLES = "GLIBC_TUNABLES"
_WITHOUT = "glibc.malloc.tcache_count=0"
_GET_HANDLER = 305
"""Place of ``PyDataMem_GetHandler`` in NumPy's table of functions (numpy/_core/code_generators/numpy_api.py)."""
_NAME, _VERSION, _ALLOCATOR = b"default_allocator", 127, 128
"""Of the handler: its name, and where its version and its functions are (numpy/ndarraytypes.h)."""
_ONE, _TWO = b"\x48\x89\xf7", b"\x48\x89\xf7\x48\x89\xd6"  # mov rdi, rsi; and mov rsi, rdx
_FUNCTIONS = {"malloc": _ONE, "calloc": _TWO, "realloc": _TWO, "free": _ONE}
"""What each gets in the order of the table, behind a context that is left out: one argument, or two."""
_JUMP = b"\x48\xb8%b\xff\xe0"  # mov rax, address; jmp rax
_STEP = 32


def restart() -> None:
    """Start this process anew without small pieces kept by threads; return if that is so, or cannot be.

    The variable that does it is taken out again: the program finds the environment that it has in other runs.
    """
    tunables = os.environ.get(TUNABLES, "")
    if tunables.endswith(_WITHOUT):
        rest = tunables[: -len(_WITHOUT)].rstrip(":")
        if rest:
            os.environ[TUNABLES] = rest
        else:
            del os.environ[TUNABLES]
        return
    if words := command_line():
        os.environ[TUNABLES] = f"{tunables}:{_WITHOUT}" if tunables else _WITHOUT
        start_anew(words)


def fill_arrays(version: str) -> None:
    """Have NumPy, of a version, take the memory of all arrays from the C library; raises ``OSError`` if it cannot."""
    import ctypes
    import mmap

    numbers = [int(each) for each in version.split(".")[:2] if each.isdigit()]
    if numbers < [1, 22]:  # its table of functions ends before the place of this one
        raise OSError(f"NumPy {version} has no table of functions for memory")
    if os.uname().machine != "x86_64":
        raise OSError("NumPy's memory is filled on x86-64 alone")
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = pointer(core._ARRAY_API, None)
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[_GET_HANDLER]
    handler = pointer(ctypes.PYFUNCTYPE(ctypes.py_object)(address)(), b"mem_handler")
    known = ctypes.string_at(handler, _ALLOCATOR)
    if not known.startswith(_NAME + b"\0") or known[_VERSION] != 1:
        raise OSError("NumPy has another table of functions for memory")
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    start = ctypes.addressof(ctypes.c_char.from_buffer(code))
    functions = ctypes.cast(handler + _ALLOCATOR + 8, ctypes.POINTER(ctypes.c_void_p))
    libc = ctypes.CDLL(None)
    for number, (name, moved) in enumerate(_FUNCTIONS.items()):
        real = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0
        data = moved + _JUMP % real.to_bytes(8, "little")
        code[number * _STEP : number * _STEP + len(data)] = data
        functions[number] = start + number * _STEP
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))  # arrays are freed after modules are
