"""The filter of system calls: a process that has it, and the numbers."""

from __future__ import annotations

import errno
import json
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
for line in sys.argv[3].split(";"):
    print([errno(*map(ctypes.c_long, map(int, call.split(":")))) for call in line.split(",")])
"""
_MACHINE = os.uname().machine


@pytest.mark.skipif(_MACHINE not in syscall_filter.DENIED, reason="the filter is for machines Debian builds on")
def test_what_is_denied_fails_and_programs_go_on() -> None:
    """Denied calls, clones into namespaces, sockets and personalities are EPERM; calls nobody knows are ENOSYS."""
    numbers = sorted(syscall_filter.DENIED[_MACHINE].values())
    socket, personality = syscall_filter.SOCKET[_MACHINE], syscall_filter.PERSONALITY[_MACHINE]
    datagram, above = 2, 1 << 32  # the kernel does not look at bits above the 32nd, nor may the filter
    calls = {
        "refused": [
            f"{syscall_filter.CLONE[_MACHINE]}:{0x10000000 | 17}",
            *(f"{socket}:{family | more}:{datagram}" for family in (38, 40) for more in (0, above)),
            *(f"{personality}:{persona}" for persona in (0x0400000, 0x0100000, 0x0400000 | above)),
        ],
        "unknown": [f"{number}:0:0" for number in (435, 337, 423, syscall_filter.NEWEST + 1, 1000, 0x40000000 + 39)],
        "served": [*(f"{socket}:{family}:{datagram}:0" for family in (1, 2)), f"{personality}:{0xFFFFFFFF}"],
    }
    code = syscall_filter.program(_MACHINE).hex()
    lists = ";".join(",".join(each) for each in calls.values())
    arguments = [sys.executable, "-I", "-c", _PROGRAM, code, ",".join(map(str, numbers)), lists]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    expected = [[errno.EPERM] * len(numbers), [errno.EPERM] * len(calls["refused"])]
    expected += [[errno.ENOSYS] * len(calls["unknown"]), [0] * len(calls["served"])]
    assert done.stdout.split("\n")[1:] == [*map(str, expected), ""], done.stderr


@pytest.mark.skipif(_MACHINE not in syscall_filter.DENIED, reason="the filter is for machines Debian builds on")
def test_a_step_that_syncs_does_not_wait_for_the_disk() -> None:
    """Calls that sync succeed without being made: the kernel would refuse a descriptor that is none."""
    calls = ",".join(f"{number}:-1:0:0:0" for number in syscall_filter.SYNCS[_MACHINE].values())
    answers = []
    for unsynced in (False, True):
        code = syscall_filter.program(_MACHINE, unsynced=unsynced).hex()
        arguments = [sys.executable, "-I", "-c", _PROGRAM, code, "435", calls]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
        answers.append(json.loads(done.stdout.splitlines()[-1]))
    assert sorted(answers[0]) == [0, *[errno.EBADF] * 4]  # sync takes none
    assert answers[1] == [0] * 5


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


@pytest.mark.skipif(_MACHINE not in syscall_filter.DENIED, reason="the filter is for machines Debian builds on")
def test_the_images_ldconfig_is_under_the_filter_too(tmp_path: Path) -> None:
    """It is the image's program, and runs before the program does: no new namespace, no capability, no privileges."""
    answer, program = tmp_path / "answer", tmp_path / "ldconfig"
    program.write_text(_LDCONFIG.format(python=sys.executable, answer=answer))
    program.chmod(0o755)
    code = syscall_filter.program(_MACHINE).hex()
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    enter = ["unshare", *user, "--mount", "sh", "-c", 'mount --bind "$0" "$(realpath /sbin/ldconfig)" && exec "$@"']
    command = [*enter, program, sys.executable, "-I", "-c", _HANDS_OVER, ROOT, code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    none = "0" * 16
    assert answer.read_text() == repr([errno.EPERM, "2", "1", none, none, ["/driver"], []])
