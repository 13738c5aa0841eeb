"""The time and the system's entropy as C and C++ ask the C library for them, in an experiment (fix.py).

The first bytes of ``clock_gettime``, ``gettimeofday``, ``time``, ``timespec_get``, ``getrandom``, ``getentropy``, the
``arc4random`` family, of C++'s ``std::random_device`` and of ``syscall`` are replaced by a jump into Python, which
returns what ``fix_clock`` and ``fix_entropy`` return, and notes the line of the program that runs. So packages in C,
C++ and Rust, SQLite's ``'now'``, DuckDB and ``ctypes`` are reached. Of ``syscall``, getrandom(2) alone is replaced. The
interpreter and the C library themselves keep what is real, as they wait by it; extension modules of the standard
library and packages that wait by the date keep the real time. Of clocks, only the date is replaced, but for a call
through ``ctypes``. Not reached are programs that ask the kernel without the C library, ``/dev/urandom`` opened by C
(``torch.seed()``), and the CPU's own numbers (``rdrand``). x86-64 alone.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .fix_callers import Callers
    from .fix_clock import Clock
    from .fix_entropy import Entropy

_SECOND = 1_000_000_000
_DATES = (0, 5)
"""``CLOCK_REALTIME`` and ``CLOCK_REALTIME_COARSE``."""
_CLOCK, _DAY, _TIME, _RANDOM = 228, 96, 201, 318
"""Numbers of system calls (arch/x86/entry/syscalls/syscall_64.tbl)."""
_RETURN = 0xFFFFFFFF
_PASSING = ("/lib-dynload/", "/tensorflow/", "/jaxlib/", "/grpc/", "/libgomp", "/libpthread", "/ld-linux")
"""Parts of paths of libraries that get the real time."""
_THROUGH = "/libffi"
_PAGE = 4096
_READ, _WRITE, _EXECUTE = 1, 2, 4
_SIZE = 12
"""Bytes of a jump to any address: mov rax, address; jmp rax."""
_SYSCALL = bytes.fromhex("4889f8 4889f7 4889d6 4889ca")
"""How ``syscall`` begins (glibc, sysdeps/unix/sysv/linux/x86_64/syscall.S): mov rax, rdi; mov rdi, rsi; and so on."""
_LANDING = bytes.fromhex("f30f1efa")
"""endbr64, before that where the C library was built with control-flow protection."""
_kept: list[Any] = []


class Native:
    """Functions of the C library that return what an experiment fixed.

    Args:
        callers: notes who asks.
        clock, entropy: return what is fixed; None for what is not.
    """

    def __init__(self, callers: Callers, clock: Clock | None, entropy: Entropy | None) -> None:
        import ctypes

        self.callers = callers
        self.clock: Any = clock
        self.entropy: Any = entropy
        self.ctypes, self.libc = ctypes, ctypes.CDLL(None)
        self._files: dict[int, str] = {}
        self._before: list[tuple[int, bytes]] = []

    def install(self) -> None:
        """Put the jumps there; they are taken away when the interpreter ends. A function that is not there is left."""
        import atexit
        import contextlib

        if os.uname().machine != "x86_64":
            return
        own = _ranges(("/libc.so", "/libc-2", "/libpython", os.path.realpath(sys.executable)))
        replaced: dict[str, tuple[Callable[..., int], int]] = {}
        if self.clock is not None:
            replaced |= {
                "clock_gettime": (self._gettime, _CLOCK),
                "gettimeofday": (self._of_day, _DAY),
                "time": (self._seconds, _TIME),
                "timespec_get": (self._timespec, 0),
            }
        if self.entropy is not None:
            replaced |= {
                "getrandom": (self._random, _RANDOM),
                "getentropy": (self._some, 0),
                "arc4random": (self._word, 0),
                "arc4random_buf": (self._some, 0),
                "arc4random_uniform": (self._below, 0),
                "_ZNSt13random_device9_M_getvalEv": (self._device, 0),
            }
        atexit.register(self.restore)
        for name, (function, number) in replaced.items():
            try:
                self._replace(name, function, number, own)
            except (AttributeError, OSError):  # it is not there, or the kernel lets nobody write into code
                continue
        if self.entropy is not None:
            with contextlib.suppress(AttributeError, OSError):
                self._replace_syscall(own)

    def restore(self) -> None:
        """Put back what was there."""
        while self._before:
            self._write(*self._before.pop())

    def _replace(self, name: str, function: Callable[..., int], number: int, own: list[tuple[int, int]]) -> None:
        """Have a function of the C library call one of ours: with its three arguments and who called it.

        Args:
            name: of the function.
            function: ours.
            number: the system call that does the same, for callers within ``own``; 0 if there is none.
        """
        ctypes = self.ctypes
        original = ctypes.cast(getattr(_library(ctypes, name), name), ctypes.c_void_p).value or 0
        if not original or original % 16:  # the next one begins 16 bytes further on at least
            return
        kind = ctypes.CFUNCTYPE(ctypes.c_long, *(ctypes.c_ulong,) * 4)
        ours = kind(function)
        target = ctypes.cast(ours, ctypes.c_void_p).value or 0
        stub = self._memory(_stub(target, number, own if number else []))
        _kept.append(ours)
        before = ctypes.string_at(original, _SIZE)
        self._write(original, _jump(stub))
        self._before.append((original, before))

    def _replace_syscall(self, own: list[tuple[int, int]]) -> None:
        """Have ``syscall`` call ours for getrandom(2); callers within ``own`` and all other calls go on as they are.

        Nothing is done where its code is not the one that is known.
        """
        ctypes = self.ctypes
        original = ctypes.cast(self.libc.syscall, ctypes.c_void_p).value or 0
        if ctypes.string_at(original, len(_LANDING)) == _LANDING:
            original += len(_LANDING)
        if ctypes.string_at(original, _SIZE) != _SYSCALL:
            return
        kind = ctypes.CFUNCTYPE(ctypes.c_long, *(ctypes.c_ulong,) * 4)
        ours = kind(self._asked)
        target = ctypes.cast(ours, ctypes.c_void_p).value or 0
        stub = self._memory(_syscall_stub(target, original + _SIZE, own))
        _kept.append(ours)
        self._write(original, _jump(stub))
        self._before.append((original, _SYSCALL))

    def _memory(self, code: bytes) -> int:
        """Return the address of code that may run; it is there for good, as threads may be in it at the end."""
        libc, ctypes = self.libc, self.ctypes
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
        at = libc.mmap(None, _PAGE, _READ | _WRITE | _EXECUTE, 0x22, -1, 0)
        ctypes.memmove(at, code, len(code))
        return int(at)

    def _write(self, address: int, data: bytes) -> None:
        """Write into code as debuggers do: the kernel's own (vDSO) may be sealed against ``mprotect``."""
        descriptor = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, data, address)
        finally:
            os.close(descriptor)

    def _read(self, call: str, caller: int) -> int | None:
        """Note who asks, and return the time; None if it gets the real one. ``caller``: an address in its code."""
        if any(part in self._file(caller) for part in _PASSING):
            return None
        found: int | None = self.clock.read(call, sys._getframe(1).f_back)
        return found

    def _file(self, address: int) -> str:
        """Return the file that code was loaded from."""
        if address not in self._files:
            self._files[address] = next((path for low, high, path in _mapped() if low <= address < high), "")
        return self._files[address]

    def _put(self, address: int, *words: int) -> None:
        self.ctypes.memmove(address, b"".join(word.to_bytes(8, "little") for word in words), 8 * len(words))

    def _gettime(self, clock: int, address: int, _: int, caller: int) -> int:
        clock &= _RETURN
        replaced = clock in _DATES or _THROUGH in self._file(caller)
        now = self._read("clock_gettime of the C library", caller) if replaced else None
        if now is None:
            return int(self.libc.syscall(_CLOCK, clock, self.ctypes.c_void_p(address)))
        self._put(address, *divmod(now, _SECOND))
        return 0

    def _timespec(self, address: int, base: int, _: int, caller: int) -> int:
        now = self._read("timespec_get of the C library", caller) if base & _RETURN == 1 else None
        if now is None:
            return 0 if self.libc.syscall(_CLOCK, 0, self.ctypes.c_void_p(address)) else base & _RETURN
        self._put(address, *divmod(now, _SECOND))
        return 1

    def _of_day(self, address: int, zone: int, _: int, caller: int) -> int:
        now = self._read("gettimeofday of the C library", caller)
        if now is None:
            return int(self.libc.syscall(_DAY, self.ctypes.c_void_p(address), self.ctypes.c_void_p(zone)))
        seconds, rest = divmod(now, _SECOND)
        if address:
            self._put(address, seconds, rest // 1000)
        return 0

    def _seconds(self, address: int, _: int, __: int, caller: int) -> int:
        now = self._read("time of the C library", caller)
        if now is None:
            return int(self.libc.syscall(_TIME, self.ctypes.c_void_p(address)))
        seconds = now // _SECOND
        if address:
            self._put(address, seconds)
        return seconds

    def _bytes(self, size: int, call: str) -> bytes:
        place = self.callers.note("entropy", call, sys._getframe(1))
        found = self.entropy.system(size) if place in self.callers.wanted else self.entropy.bytes(size, place)
        return bytes(found)

    def _random(self, address: int, size: int, _: int, caller: int) -> int:
        self.ctypes.memmove(address, self._bytes(size, "getrandom of the C library"), size)
        return size

    def _asked(self, address: int, size: int, _: int, caller: int) -> int:
        self.ctypes.memmove(address, self._bytes(size, "getrandom by syscall()"), size)
        return size

    def _some(self, address: int, size: int, _: int, caller: int) -> int:
        self.ctypes.memmove(address, self._bytes(size, "getentropy of the C library"), size)
        return 0

    def _word(self, _: int, __: int, ___: int, caller: int) -> int:
        return int.from_bytes(self._bytes(4, "arc4random of the C library"), "little")

    def _below(self, bound: int, _: int, __: int, caller: int) -> int:
        bound &= _RETURN
        return int.from_bytes(self._bytes(8, "arc4random_uniform of the C library"), "little") % max(bound, 1)

    def _device(self, _: int, __: int, ___: int, caller: int) -> int:
        return int.from_bytes(self._bytes(4, "random_device of C++"), "little")


def _library(ctypes: Any, name: str) -> Any:
    return ctypes.CDLL("libstdc++.so.6" if name.startswith("_Z") else None)


def _jump(target: int) -> bytes:
    return b"\x48\xb8" + target.to_bytes(8, "little") + b"\xff\xe0"


def _stub(target: int, number: int, own: list[tuple[int, int]]) -> bytes:
    """Return code that calls a function with who called it as the fourth argument; callers in ``own`` ask the kernel.

    Args:
        target: the function.
        number: the system call.
        own: ranges of addresses; within them the interpreter may be in a state in which no Python can run.
    """
    kernel = b"\xb8" + number.to_bytes(4, "little") + b"\x0f\x05\xc3"  # mov eax, number; syscall; ret
    code = b"\x48\x8b\x0c\x24"  # mov rcx, [rsp]
    for low, high in own:
        below = b"\x49\xbb" + high.to_bytes(8, "little") + b"\x4c\x39\xd9\x73" + bytes((len(kernel),)) + kernel
        # mov r11, low; cmp rcx, r11; jb next; mov r11, high; cmp rcx, r11; jae next
        code += b"\x49\xbb" + low.to_bytes(8, "little") + b"\x4c\x39\xd9\x72" + bytes((len(below),)) + below
    return code + _jump(target)


def _syscall_stub(target: int, rest: int, own: list[tuple[int, int]]) -> bytes:
    """Return code that calls a function for getrandom(2), and goes on in ``syscall`` otherwise.

    Args:
        target: the function; gets where the bytes go to, how many, something, and who called.
        rest: the address behind the beginning of ``syscall`` that was replaced.
        own: ranges of addresses of callers that ask the kernel.
    """
    go_on = _SYSCALL + b"\x49\xbb" + rest.to_bytes(8, "little") + b"\x41\xff\xe3"  # mov r11, rest; jmp r11
    code = b"\x48\x81\xff" + _RANDOM.to_bytes(4, "little") + b"\x74" + bytes((len(go_on),))  # cmp rdi, number; je
    back = len(code)
    code += go_on + b"\x4c\x8b\x14\x24"  # mov r10, [rsp]
    for low, high in own:
        # mov r11, low; cmp r10, r11; jb next; mov r11, high; cmp r10, r11; jae next; jmp go_on
        code += b"\x49\xbb" + low.to_bytes(8, "little") + b"\x4d\x39\xda\x72\x14"
        code += b"\x49\xbb" + high.to_bytes(8, "little") + b"\x4d\x39\xda\x73\x05"
        code += b"\xe9" + (back - len(code) - 5).to_bytes(4, "little", signed=True)
    # mov rdi, rsi; mov rsi, rdx; mov rcx, r10
    return code + b"\x48\x89\xf7\x48\x89\xd6\x4c\x89\xd1" + _jump(target)


def _mapped() -> list[tuple[int, int, str]]:
    """Return what is mapped: from, to, file (proc_pid_maps(5))."""
    found = []
    descriptor = os.open("/proc/self/maps", os.O_RDONLY)
    try:
        text = b"".join(iter(lambda: os.read(descriptor, 1 << 16), b"")).decode("utf-8", "surrogateescape")
    finally:
        os.close(descriptor)
    for line in text.splitlines():
        fields = line.split(None, 5)
        low, _, high = fields[0].partition("-")
        found.append((int(low, 16), int(high, 16), fields[5] if len(fields) > 5 else ""))
    return found


def _ranges(names: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return from where to where some files are mapped, one range each."""
    found: dict[str, tuple[int, int]] = {}
    for low, high, path in _mapped():
        if any(name in path for name in names):
            begin, end = found.get(path, (low, high))
            found[path] = min(begin, low), max(end, high)
    return [*found.values()]
