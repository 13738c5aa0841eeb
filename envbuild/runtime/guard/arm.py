"""CPUs of 64-bit Arm: levels of the architecture and names of cores, as Linux shows them. Data, and how it is read.

A level is what a program can use: features that the kernel shows in the line ``Features`` of ``/proc/cpuinfo``. What
kernels and hypervisors hide on CPUs that have it (pac*, bti, ssbs, dgh, rng) decides no level. Armv9.0-A is Armv8.5-A
with SVE2, and so on: a level includes all that ``INCLUDES`` names.

Sources: Arm Architecture Reference Manual for A-profile (DDI 0487), section A2.2 to A2.3, which features each version
makes mandatory; Linux, Documentation/arch/arm64/elf_hwcaps.rst and arch/arm64/kernel/cpuinfo.c, how Linux names them;
arch/arm64/include/uapi/asm/hwcap.h, their bits; GCC, "AArch64 Options", how versions are named and built on each other.
"""

from __future__ import annotations

import os
import struct

# What each version adds to the one before, as far as a program sees it.
_ADDED = (
    ("armv8.0-a", frozenset(("fp", "asimd"))),
    ("armv8.1-a", frozenset(("atomics", "asimdrdm", "crc32"))),
    ("armv8.2-a", frozenset(("dcpop",))),
    ("armv8.3-a", frozenset(("fcma", "jscvt", "lrcpc"))),
    ("armv8.4-a", frozenset(("asimddp", "dit", "flagm", "ilrcpc", "uscat"))),
    ("armv8.5-a", frozenset(("dcpodp", "flagm2", "frint", "sb"))),
    ("armv8.6-a", frozenset(("bf16", "ecv", "i8mm"))),
    ("armv8.7-a", frozenset(("afp", "wfxt"))),
)
_NINTH = {"armv8.5-a": "armv9.0-a", "armv8.6-a": "armv9.1-a", "armv8.7-a": "armv9.2-a"}
"""What a version is called with SVE2, which Armv9 makes mandatory."""

LEVELS = (*(name for name, _ in _ADDED), *_NINTH.values())

INCLUDES = {name: LEVELS[:number] for number, (name, _) in enumerate(_ADDED, 1)}
INCLUDES.update(
    {ninth: (*INCLUDES[eighth], *LEVELS[len(_ADDED) : LEVELS.index(ninth) + 1]) for eighth, ninth in _NINTH.items()}
)
"""All that a level includes, itself among it."""

# By these libraries choose code whose sums may be rounded otherwise: OpenBLAS (driver/others/dynamic_arm64.c: sve, and
# the core), NumPy (its CPU build options: asimdhp, asimddp, asimdfhm, sve), oneDNN and Arm Compute Library (bf16, i8mm,
# sve*, sme*), XNNPACK and ATen (pytorch/cpuinfo: asimdhp, asimddp, asimdrdm, fcma, jscvt, bf16, i8mm, sve*, sme*); afp,
# ebf16 and rpres change how numbers are rounded or estimated. SVE's instructions for ciphers are left out.
_CODE_FLAGS = frozenset(
    "afp asimddp asimdfhm asimdhp asimdrdm bf16 ebf16 fcma fphp frint i8mm jscvt rpres".split(" ")  # noqa: SIM905
)
_CODE_PREFIXES = ("sme", "sve")
CORE = "core_"
"""Beginning of the flag that is the core itself."""
_CIPHERS = frozenset(("sveaes", "svebitperm", "svepmull", "svesha3", "svesm4"))

# Implementers and parts of the register MIDR_EL1: Linux, arch/arm64/include/asm/cputype.h; util-linux,
# sys-utils/lscpu-arm.c, whose names these are.
_CORES = {
    0x41: (
        "ARM",
        {
            0xD03: "Cortex-A53",
            0xD04: "Cortex-A35",
            0xD05: "Cortex-A55",
            0xD07: "Cortex-A57",
            0xD08: "Cortex-A72",
            0xD09: "Cortex-A73",
            0xD0A: "Cortex-A75",
            0xD0B: "Cortex-A76",
            0xD0C: "Neoverse-N1",
            0xD0D: "Cortex-A77",
            0xD0E: "Cortex-A76AE",
            0xD40: "Neoverse-V1",
            0xD41: "Cortex-A78",
            0xD42: "Cortex-A78AE",
            0xD44: "Cortex-X1",
            0xD46: "Cortex-A510",
            0xD47: "Cortex-A710",
            0xD48: "Cortex-X2",
            0xD49: "Neoverse-N2",
            0xD4A: "Neoverse-E1",
            0xD4B: "Cortex-A78C",
            0xD4C: "Cortex-X1C",
            0xD4D: "Cortex-A715",
            0xD4E: "Cortex-X3",
            0xD4F: "Neoverse-V2",
            0xD80: "Cortex-A520",
            0xD81: "Cortex-A720",
            0xD82: "Cortex-X4",
            0xD83: "Neoverse-V3AE",
            0xD84: "Neoverse-V3",
            0xD85: "Cortex-X925",
            0xD87: "Cortex-A725",
            0xD8E: "Neoverse-N3",
        },
    ),
    0x43: ("Cavium", {0x0A1: "ThunderX-88XX", 0x0AF: "ThunderX2-99xx"}),
    0x46: ("FUJITSU", {0x001: "A64FX"}),
    0x48: ("HiSilicon", {0xD01: "TaiShan-v110"}),
    0x4E: ("NVIDIA", {0x003: "Denver 2", 0x004: "Carmel"}),
    0x51: ("Qualcomm", {0x001: "Oryon"}),
    0x61: ("Apple", {}),  # a virtual machine's CPUs have part 0x000
    0xC0: ("Ampere", {0xAC3: "Ampere-1", 0xAC4: "Ampere-1a"}),
}

# The names of bits of AT_HWCAP and AT_HWCAP2, lowest first.
_BITS = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 sm3 "
    "sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg",
    "dcpodp sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint svei8mm svef32mm svef64mm svebf16 i8mm bf16 "
    "dgh rng bti mte ecv afp rpres mte3 sme smei16i64 smef64f64 smei8i32 smef16f32 smeb16f32 smef32f32 smefa64 wfxt "
    "ebf16 sveebf16 cssc rprfm sve2p1 sme2 sme2p1 smei16i32 smebi32i32 smeb16b16 smef16f16 mops hbc sveb16b16 lrcpc3 "
    "lse128 fpmr lut faminmax f8cvt f8fma f8dp4 f8dp2 f8e4m3 f8e5m2 smelutv2 smef8f16 smef8f32",
)
_HWCAP = (16, 26)
"""Their types in the auxiliary vector: getauxval(3)."""


def level(features: frozenset[str]) -> str:
    """Return the highest level whose features are all there; empty where not even the first one's are."""
    found = ""
    for name, added in _ADDED:
        if not added <= features:
            break
        found = name
    return _NINTH.get(found, found) if "sve2" in features else found


def code_flags(features: frozenset[str], implementer: str = "", part: str = "") -> list[str]:
    """Return those features by which numerical libraries choose code, sorted, and the core: OpenBLAS goes by that.

    Args:
        features: as the kernel shows them.
        implementer, part: of ``/proc/cpuinfo``; the core is ``core_41_d0c``, absent where they are not known.
    """
    chosen = [each for each in features if each in _CODE_FLAGS or each.startswith(_CODE_PREFIXES)]
    numbers = _numbers(implementer, part)
    found = [f"{CORE}{numbers[0]:02x}_{numbers[1]:03x}"] if numbers else []
    return sorted((*found, *(each for each in chosen if each not in _CIPHERS)))


def core(implementer: str, part: str) -> str:
    """Return the name of a core, as lscpu prints it: ``ARM Neoverse-V2``; numbers where it is not known.

    Args:
        implementer: of ``/proc/cpuinfo``, such as ``0x41``; empty: there is none.
        part: such as ``0xd4f``.
    """
    numbers = _numbers(implementer, part)
    if numbers is None:
        return ""
    maker, number = numbers
    name, parts = _CORES.get(maker, (f"implementer 0x{maker:02x}", {}))
    return f"{name} {parts.get(number, f'part 0x{number:03x}')}"


def _numbers(implementer: str, part: str) -> tuple[int, int] | None:
    try:
        return int(implementer, 16), int(part, 16)
    except ValueError:
        return None


def vector_features(root: str = "/") -> frozenset[str]:
    """Return the features that this process's auxiliary vector names: those of the CPU that an emulator emulates."""
    try:
        with open(os.path.join(root, "proc/self/auxv"), "rb", buffering=0) as stream:
            data = stream.read(4096)
    except OSError:
        return frozenset()
    entries = dict(struct.iter_unpack("<QQ", data[: len(data) // 16 * 16]))
    found: set[str] = set()
    for kind, names in zip(_HWCAP, _BITS):
        value = entries.get(kind, 0)
        found.update(name for number, name in enumerate(names.split()) if value >> number & 1)
    return frozenset(found)
