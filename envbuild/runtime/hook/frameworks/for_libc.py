"""The C library: whether it left out the CPU features that the lock switches off.

``__x86_get_cpuid_feature_leaf`` (glibc 2.33, sysdeps/x86/sys/platform/x86.h) gives what the CPU has and, after
GLIBC_TUNABLES was read, what the library uses of it: two arrays of eax, ebx, ecx, edx.
"""

from __future__ import annotations

from ..switching import Absent, Access, apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..process import Process

_FEATURES = {"FMA": (0, 2, 12), "AVX2": (1, 1, 5), "FMA4": (2, 2, 16)}
"""Name to leaf (the library's numbers for 1, 7 and 0x80000001), register and bit (AMD64 manual, volume 3, CPUID)."""


def set_up(process: Process) -> None:
    """Read back what GLIBC_TUNABLES did, and have NumPy disable in silence what this CPU has not got anyway."""
    apply("libc", None, process, ACCESS)
    if "NPY_DISABLE_CPU_FEATURES" in process.config.ENVIRONMENT:
        import warnings

        warnings.filterwarnings("ignore", "During parsing environment variable: 'NPY_DISABLE_CPU_FEATURES'")


def _active(wanted: str) -> str:
    """Return the text if none of the features that it switches off is in use, else those that are."""
    import ctypes

    try:
        leaf = getattr(ctypes.CDLL(None), "__x86_get_cpuid_feature_leaf")
    except (OSError, AttributeError):
        raise Absent from None
    leaf.restype = ctypes.POINTER(ctypes.c_uint * 8)
    on = []
    for word in wanted.rpartition("=")[2].split(","):
        name = word[1:].removesuffix("_Usable")  # so called before 2.33, and ignored since
        place = _FEATURES.get(name) if word.startswith("-") else None
        if place and leaf(place[0]).contents[4 + place[1]] >> place[2] & 1:
            on.append(name)
    return f"still on: {' '.join(on)}" if on else wanted


ACCESS = {"cpu_features.active": Access(None, lambda module, wanted: _active(wanted))}
