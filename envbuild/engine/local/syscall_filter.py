"""A seccomp filter for build steps in namespaces, for what Docker's default profile denies and steps never need.

Run by ``namespace_step`` under the host's interpreter: standard library only. A denied call fails with EPERM, as for a
user without privileges; ``clone3``, whose flags a filter cannot see, is unknown (ENOSYS), and C libraries then use
``clone``. Numbers: ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h`` of Linux.
Filter: https://docs.kernel.org/userspace-api/seccomp_filter.html, ``linux/filter.h``.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Collection

_BOTH = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442,
}  # fmt: skip
DENIED = {
    "x86_64": _BOTH | {
        "ptrace": 101, "uselib": 134, "pivot_root": 155, "_sysctl": 156, "acct": 163, "settimeofday": 164,
        "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172, "ioperm": 173,
        "create_module": 174, "init_module": 175, "delete_module": 176, "quotactl": 179, "lookup_dcookie": 212,
        "clock_settime": 227, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272,
        "perf_event_open": 298, "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305,
        "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313,
        "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    },
    "aarch64": _BOTH | {
        "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "quotactl": 60, "acct": 89, "unshare": 97,
        "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112, "ptrace": 117,
        "reboot": 142, "settimeofday": 170, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224,
        "swapoff": 225, "perf_event_open": 241, "name_to_handle_at": 264, "open_by_handle_at": 265,
        "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
        "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
    },
}  # fmt: skip
"""Number by name, for each machine as ``uname -m`` names it."""
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERROR, _NOTICE = 0x7FFF0000, 0x00050000, 0x7FC00000


def program(machine: str, allowed: Collection[str] = (), noticed: Collection[int] = ()) -> bytes:
    """Return the instructions of the filter; raises ``KeyError`` for a machine that it does not know.

    Args:
        allowed: names of calls in ``DENIED`` that are not denied.
        noticed: numbers of calls that are handed to another process (``owners.py``).
    """
    denied = sorted(number for name, number in DENIED[machine].items() if name not in allowed)
    refuse, unknown = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    code = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        (_RETURN, 0, 0, unknown),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, unknown),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, unknown),
    ]
    for number in denied:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    for number in sorted(noticed):
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTICE)]
    code += [
        (_EQUAL, 0, 3, _CLONE[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, refuse),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *each) for each in code)
