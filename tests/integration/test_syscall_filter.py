"""The filter of system calls: a process that has it, and the numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from envbuild.engine.local import syscall_filter

_PROGRAM = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
calls = bytes.fromhex(sys.argv[1])
code = ctypes.create_string_buffer(calls, len(calls))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("@HP", len(calls) // 8, ctypes.addressof(code)), 0, 0) == 0
def errno(number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(number, *arguments)
    return ctypes.get_errno()
import os, threading
thread = threading.Thread(target=print)
thread.start(); thread.join()
assert os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1] == 0
print([errno(int(number), 0, 0, 0, 0, 0) for number in sys.argv[2].split(",")])
print(errno(int(sys.argv[3]), 0x10000000 | 17, 0, 0, 0, 0), errno(435, 0, 0))
"""


@pytest.mark.skipif(
    os.uname().machine not in syscall_filter.DENIED, reason="the filter is for machines Debian builds on"
)
def test_what_is_denied_fails_and_programs_go_on() -> None:
    """Each denied call is EPERM, so is a clone into a user namespace; clone3 is unknown; threads and programs start."""
    machine = os.uname().machine
    numbers = sorted(syscall_filter.DENIED[machine].values())
    clone = {"x86_64": 56, "aarch64": 220}[machine]
    code = syscall_filter.program(machine).hex()
    arguments = [sys.executable, "-I", "-c", _PROGRAM, code, ",".join(map(str, numbers)), str(clone)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[1:] == [str([1] * len(numbers)), "1 38", ""], done.stderr
