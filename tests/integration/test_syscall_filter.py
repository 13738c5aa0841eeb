"""The filter of system calls: a process that has it, and the numbers."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envbuild.engine.local import syscall_filter

ROOT = Path(__file__).parents[2]
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


_LDCONFIG = """\
#!{python}
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.unshare(0x10000000)
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
found = [ctypes.get_errno(), *(status[name].strip() for name in ("Seccomp", "NoNewPrivs", "CapEff", "CapBnd"))]
open("{answer}", "w").write(repr([*found, __import__("sys").argv[1:], sorted(os.environ.keys() - {{"LC_CTYPE"}})]))
"""
_HANDS_OVER = """
import sys
sys.path.insert(0, sys.argv[1])
from envbuild.engine.local import program_process
program_process._libraries({"links": {}, "libraries": ["/driver"], "filter": sys.argv[2]})
"""


@pytest.mark.skipif(
    os.uname().machine not in syscall_filter.DENIED, reason="the filter is for machines Debian builds on"
)
def test_the_images_ldconfig_is_under_the_filter_too(tmp_path: Path) -> None:
    """It is the image's program, and runs before the program does: no new namespace, no capability, no privileges."""
    answer, program = tmp_path / "answer", tmp_path / "ldconfig"
    program.write_text(_LDCONFIG.format(python=sys.executable, answer=answer))
    program.chmod(0o755)
    code = syscall_filter.program(os.uname().machine).hex()
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    enter = ["unshare", *user, "--mount", "sh", "-c", 'mount --bind "$0" "$(realpath /sbin/ldconfig)" && exec "$@"']
    command = [*enter, program, sys.executable, "-I", "-c", _HANDS_OVER, ROOT, code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    none = "0" * 16
    assert answer.read_text() == repr([errno.EPERM, "2", "1", none, none, ["/driver"], []])
