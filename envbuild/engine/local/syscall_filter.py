"""A seccomp filter for build steps and programs in namespaces: what Docker's default profile denies, and a little more.

A denied call fails with EPERM, as for a user without privileges. ``clone3``, whose flags a filter cannot see, is
unknown (ENOSYS), and C libraries then use ``clone``; so is what the kernel got after this list was made, as with runc:
libraries then use what they used before. Docker's profile: moby/profiles, ``seccomp/default_linux.go`` of June 2026;
docs/reference/engines.md has the differences. Numbers: ``arch/x86/entry/syscalls/syscall_64.tbl`` and
``include/uapi/asm-generic/unistd.h`` of Linux.
Filter: https://docs.kernel.org/userspace-api/seccomp_filter.html, ``linux/filter.h``.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Collection

_BOTH = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "quotactl_fd": 443, "set_mempolicy_home_node": 450, "lsm_get_self_attr": 459,
    "lsm_set_self_attr": 460, "lsm_list_modules": 461,
}  # fmt: skip
DENIED = {
    "x86_64": _BOTH | {
        "ptrace": 101, "syslog": 103, "uselib": 134, "ustat": 136, "sysfs": 139, "vhangup": 153, "pivot_root": 155,
        "_sysctl": 156, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
        "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "create_module": 174,
        "init_module": 175, "delete_module": 176, "get_kernel_syms": 177, "query_module": 178, "quotactl": 179,
        "nfsservctl": 180, "getpmsg": 181, "putpmsg": 182, "afs_syscall": 183, "tuxcall": 184, "security": 185,
        "lookup_dcookie": 212, "clock_settime": 227, "vserver": 236, "mbind": 237, "set_mempolicy": 238,
        "get_mempolicy": 239, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
        "migrate_pages": 256, "unshare": 272, "move_pages": 279, "perf_event_open": 298, "fanotify_init": 300,
        "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305,
        "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313,
        "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    },
    "aarch64": _BOTH | {
        "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "nfsservctl": 42, "vhangup": 58,
        "quotactl": 60, "acct": 89, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
        "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161, "setdomainname": 162,
        "settimeofday": 170, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224, "swapoff": 225,
        "mbind": 235, "get_mempolicy": 236, "set_mempolicy": 237, "migrate_pages": 238, "move_pages": 239,
        "perf_event_open": 241, "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265,
        "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
        "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
    },
}  # fmt: skip
"""Number by name, for each machine as ``uname -m`` names it."""
SOCKET = {"x86_64": 41, "aarch64": 198}
PERSONALITY = {"x86_64": 135, "aarch64": 92}
CLONE = {"x86_64": 56, "aarch64": 220}
SYNCS = {
    "x86_64": {"fsync": 74, "fdatasync": 75, "sync": 162, "sync_file_range": 277, "syncfs": 306},
    "aarch64": {"sync": 81, "fsync": 82, "fdatasync": 83, "sync_file_range": 84, "syncfs": 267},
}
"""Calls that wait until files are on the disk."""
_CLONE3 = 435
_UNUSED = {"x86_64": (337, 424), "aarch64": (295, 424)}
"""First number that had no call in Linux 6.18, and the first one after it that had. 335 and 336 (uretprobe, uprobe)
pass any filter: the kernel does not ask."""
NEWEST = 466
"""``removexattrat``, of Linux 6.13: the newest call of Docker's profile."""
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
FAMILIES = {"AF_ALG": 38, "AF_VSOCK": 40}
"""Sockets that are denied: for the kernel's ciphers; between virtual machines, which no network namespace bounds."""
_PERSONALITIES = 0x20000 | 0x8 | 0x40000
"""Bits of a personality that may be set: UNAME26, PER_LINUX32 and, for fixed addresses, ADDR_NO_RANDOMIZE."""
_ASK = 0xFFFFFFFF
_LOAD, _EQUAL, _MORE, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERROR, _NOTICE = 0x7FFF0000, 0x00050000, 0x7FC00000


def program(
    machine: str, allowed: Collection[str] = (), noticed: Collection[int] = (), *, unsynced: bool = False
) -> bytes:
    """Return the instructions of the filter; raises ``KeyError`` for a machine that it does not know.

    Args:
        allowed: names of calls in ``DENIED`` that are not denied.
        noticed: numbers of calls that are handed to another process (``owners.py``).
        unsynced: ``SYNCS`` succeed and do nothing, as with systemd-nspawn's ``--suppress-sync``.
    """
    denied = sorted(number for name, number in DENIED[machine].items() if name not in allowed)
    refuse, unknown = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    first, after = _UNUSED[machine]
    code = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        (_RETURN, 0, 0, unknown),
        (_LOAD, 0, 0, _NUMBER),
        (_MORE, 0, 1, NEWEST),  # those of x32 too
        (_RETURN, 0, 0, unknown),
        (_AT_LEAST, 0, 2, first),
        (_AT_LEAST, 1, 0, after),
        (_RETURN, 0, 0, unknown),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, unknown),
    ]
    for number in denied:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    for number in SYNCS[machine].values() if unsynced else ():
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR)]  # of number 0: the call returns 0
    for number in sorted(noticed):
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTICE)]
    code += [
        (_EQUAL, 0, 4, CLONE[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, refuse),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 5, SOCKET[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),  # the kernel sees these 32 bits alone
        (_EQUAL, 1, 0, FAMILIES["AF_ALG"]),
        (_EQUAL, 0, 1, FAMILIES["AF_VSOCK"]),
        (_RETURN, 0, 0, refuse),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 4, PERSONALITY[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 2, 0, _ASK),
        (_ANY_BIT, 0, 1, 0xFFFFFFFF & ~_PERSONALITIES),
        (_RETURN, 0, 0, refuse),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *each) for each in code)
