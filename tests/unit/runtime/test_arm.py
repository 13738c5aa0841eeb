"""Levels, flags and names of Arm CPUs, from texts of ``/proc/cpuinfo`` that their owners have published."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from envbuild.runtime.guard import arm, checks, overrides, probe
from envbuild.spec.hardware_keys import LEVELS_OF

_A76 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
_M1 = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 "
    "asimddp sha512 asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg dcpodp flagm2 frint"
)
_V1 = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 "
    "sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs paca pacg dcpodp svei8mm svebf16 i8mm bf16 "
    "dgh rng"
)
_V2 = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 "
    "sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm sb paca pacg dcpodp sve2 sveaes svepmull "
    "svebitperm svesha3 svesm4 flagm2 frint svei8mm svebf16 i8mm bf16 dgh bti"
)
_A725 = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 "
    "sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm sb paca pacg dcpodp sve2 sveaes svepmull "
    "svebitperm svesha3 svesm4 flagm2 frint svei8mm svebf16 i8mm bf16 dgh bti ecv afp wfxt"
)
_A720 = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 "
    "sm3 sm4 asimddp sha512 asimdfhm dit uscat ilrcpc flagm sb paca pacg dcpodp flagm2 frint i8mm bf16 dgh bti "
    "ecv afp"
)
MACHINES = {
    # github.com/fastfetch-cli/fastfetch, issue 1529: Raspberry Pi 4B rev 1.5
    "Raspberry Pi 4": ("fp asimd evtstrm crc32 cpuid", "0x41", "0xd08", "ARM Cortex-A72", "armv8.0-a"),
    # github.com/hrw/arm-socs-table, issue 91
    "Jetson Nano": (
        "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid", "0x41", "0xd07", "ARM Cortex-A57", "armv8.0-a",
    ),
    # github.com/hrw/arm-socs-table, issue 63
    "Jetson AGX Xavier": (
        "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm dcpop",
        "0x4e", "0x004", "NVIDIA Carmel", "armv8.2-a",
    ),
    # github.com/hrw/arm-socs-table, issue 18: RK3588, processor 4; a Raspberry Pi 5 has the same features
    "Rock 5B": (_A76, "0x41", "0xd0b", "ARM Cortex-A76", "armv8.2-a"),
    # github.com/archspec/archspec-json, issue 41
    "Ampere Altra": (f"{_A76} ssbs", "0x41", "0xd0c", "ARM Neoverse-N1", "armv8.2-a"),
    # lore.kernel.org, "perf test arm64: Add attr tests for new VG register", 2022: AWS Graviton3
    "Graviton3": (_V1, "0x41", "0xd40", "ARM Neoverse-V1", "armv8.4-a"),
    # virtual machines on Apple M1, kernels 5.x and 6.x, in many reports of users
    "Apple M1, virtual": (_M1, "0x61", "0x000", "Apple part 0x000", "armv8.5-a"),
    # github.com/hrw/arm-socs-table, issue 171: Snapdragon 7s Gen 4, whose kernel shows no SVE
    "Snapdragon 7s": (_A720, "0x41", "0xd80", "ARM Cortex-A520", "armv8.6-a"),
    # lore.kernel.org, on the serial console of NVIDIA Grace, 2025
    "Grace": (_V2, "0x41", "0xd4f", "ARM Neoverse-V2", "armv9.0-a"),
    # github.com/hrw/arm-socs-table, issue 180: Dimensity 8400
    "Dimensity 8400": (_A725, "0x41", "0xd87", "ARM Cortex-A725", "armv9.2-a"),
}  # fmt: skip


def put(root: Path, features: str, implementer: str, part: str) -> str:
    """Write the file as Linux prints it (arch/arm64/kernel/cpuinfo.c), with two CPUs."""
    lines = f"BogoMIPS\t: 50.00\nFeatures\t: {features}\nCPU implementer\t: {implementer}\nCPU architecture: 8\n"
    lines += f"CPU variant\t: 0x1\nCPU part\t: {part}\nCPU revision\t: 1\n"
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/cpuinfo").write_text("".join(f"processor\t: {number}\n{lines}\n" for number in (0, 1)))
    return str(root)


@pytest.mark.parametrize("name", MACHINES)
def test_machines_that_people_have(name: str, tmp_path: Path) -> None:
    """Each has the level that its maker names; Grace and Graviton3 have bfloat16 without what else Armv8.6 asks for."""
    features, implementer, part, model, level = MACHINES[name]
    root = put(tmp_path, features, implementer, part)
    assert (probe.cpu_level(root, "aarch64"), probe.cpu_model(root)) == (level, model)
    assert not probe.emulated(root, "aarch64")


def test_flags_that_choose_code(tmp_path: Path) -> None:
    """What libraries dispatch on; neither ciphers nor checksums, whatever vectors they use."""
    root = put(tmp_path, MACHINES["Grace"][0], "0x41", "0xd4f")
    assert probe.code_flags(root, "aarch64") == [
        "asimddp", "asimdfhm", "asimdhp", "asimdrdm", "bf16", "core_41_d4f", "fcma", "fphp", "frint", "i8mm", "jscvt",
        "sve", "sve2", "svebf16", "svei8mm",
    ]  # fmt: skip
    assert probe.code_flags(put(tmp_path, MACHINES["Raspberry Pi 4"][0], "0x41", "0xd08"), "aarch64") == ["core_41_d08"]


def test_a_core_is_a_flag(tmp_path: Path) -> None:
    """Cortex-A76 and Neoverse N1 have equal features, and OpenBLAS rounds otherwise on each; by hand it may be open."""
    both = [MACHINES["Rock 5B"], MACHINES["Ampere Altra"]]
    one, other = (probe.code_flags(put(tmp_path, each[0], each[1], each[2]), "aarch64") for each in both)
    assert {*one} ^ {*other} == {"core_41_d0b", "core_41_d0c"}
    (check,) = checks.cpu_flags({"cpu-flags": one}, {"cpu-flags": other})
    assert (check.ok, check.found) == (False, "-core_41_d0b +core_41_d0c")
    wanted = [flag for flag in one if not flag.startswith("core_")]
    (check,) = checks.cpu_flags({"cpu-flags": wanted}, {"cpu-flags": other})
    assert check.ok


def test_every_level_has_its_feature() -> None:
    """A CPU with all features of a level but one has a lower one; each level includes those below it."""
    known: frozenset[str] = frozenset()
    for name, added in arm._ADDED:
        for feature in added:
            assert arm.level((known | added) - {feature}) != name
        known |= added
        assert arm.level(known) == name
        assert arm.INCLUDES[name][-1] == name
    assert arm.level(known | {"sve2"}) == "armv9.2-a"
    assert "armv9.0-a" not in arm.INCLUDES["armv8.7-a"]
    assert {"armv8.7-a", "armv9.1-a", "armv9.0-a"} < {*arm.INCLUDES["armv9.2-a"]}
    assert arm.level(frozenset({"sve2", "fp", "asimd"})) == "armv8.0-a"
    assert arm.level(frozenset()) == ""


def test_specs_know_the_same_levels() -> None:
    """What a spec may name is what the guard can find."""
    assert [level for level, owner in LEVELS_OF.items() if owner == "arm64"] == [*arm.LEVELS]


def judged(wanted: str, found: str, policy: str = "") -> tuple[bool, str, str]:
    """Return what the guard finds of two levels."""
    (check,) = checks.cpu({"cpu": wanted, "policy": {"cpu": policy} if policy else {}}, {"cpu": found})
    return check.ok, check.severity, check.meaning


def test_levels_are_compared_by_what_they_include() -> None:
    """A higher version is noted, a lower one refused; versions 8.6 and 9.0 have each something of their own."""
    assert judged("armv8.2-a", "armv8.2-a")[0]
    assert judged("armv8.2-a", "armv9.0-a")[:2] == (False, "info")
    assert judged("armv8.6-a", "armv9.1-a")[:2] == (False, "info")
    for wanted, found in (("armv9.0-a", "armv8.4-a"), ("armv9.0-a", "armv8.6-a"), ("armv8.6-a", "armv9.0-a")):
        assert judged(wanted, found) == (False, "hard", "the CPU lacks instructions of the locked level")
    for found in ("x86-64-v4", "any", ""):
        assert judged("armv8.2-a", found) == (False, "hard", "another kind of CPU")
    assert judged("any", "armv8.2-a")[0]


def test_an_emulator_is_noticed(tmp_path: Path) -> None:
    """By the real machine's file, or by a CPU of no maker; it refuses unless it is allowed by name."""
    (tmp_path / "proc").mkdir()
    root, cpuinfo = str(tmp_path), tmp_path / "proc/cpuinfo"
    assert not probe.emulated(root, "aarch64")
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu\n\n")
    assert probe.emulated(root, "aarch64")
    assert not probe.emulated(root, "x86_64")
    put(tmp_path, "fp asimd", "0x00", "0x051")
    assert probe.emulated(root, "aarch64")
    put(tmp_path, "fp asimd", "0x41", "0xd08")
    assert probe.emulated(root, "x86_64")
    assert checks.architecture({}, {"machine": "aarch64", "emulated": False}) == []
    found = checks.architecture({}, {"machine": "aarch64", "emulated": True})
    assert [(each.field, each.locked, each.found, each.ok) for each in found] == [
        ("cpu.architecture", "arm64", "arm64, emulated", False)
    ]
    assert checks.refused(found)
    assert not checks.refused(overrides.apply(found, "cpu.architecture"))


def test_what_an_emulated_program_is_told(tmp_path: Path) -> None:
    """Where the file describes another machine, the process's auxiliary vector has the emulated CPU's features."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu\n\n")
    entries = [(3, 64), (16, 0b11), (26, 1 << 1 | 1 << 14), (0, 0)]
    (tmp_path / "proc/self/auxv").write_bytes(b"".join(struct.pack("<QQ", *entry) for entry in entries))
    assert arm.vector_features(str(tmp_path)) == {"fp", "asimd", "sve2", "bf16"}
    assert probe.cpu_level(str(tmp_path), "aarch64") == "armv8.0-a"
    assert probe.code_flags(str(tmp_path), "aarch64") == ["bf16", "sve2"]
    assert arm.vector_features(str(tmp_path / "nowhere")) == frozenset()


def test_a_core_that_nobody_knows() -> None:
    """It has its numbers; a line that is no number has no name."""
    assert arm.core("0x41", "0xfff") == "ARM part 0xfff"
    assert arm.core("0x7f", "0x1") == "implementer 0x7f part 0x001"
    assert arm.core("?", "") == ""
