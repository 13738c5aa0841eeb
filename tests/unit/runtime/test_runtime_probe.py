"""Observations from a made-up /proc and /sys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuild.runtime.guard import probe

V2 = "fpu sse sse2 cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
V3 = V2 + " avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = V3 + " avx512f avx512bw avx512cd avx512dq avx512vl"


def put(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ("fpu sse sse2", "x86-64"),
        (V2, "x86-64-v2"),
        (V3, "x86-64-v3"),
        (V4, "x86-64-v4"),
        (V4.replace(" abm", ""), "x86-64-v2"),
    ],
)
def test_cpu_level(tmp_path: Path, flags: str, level: str) -> None:
    """The level is the highest whose instructions, and those of all levels below, are there."""
    put(tmp_path, "proc/cpuinfo", f"processor\t: 0\nbugs\t: x\nflags\t\t: {flags}\nvmx flags\t: y\n" * 200)
    assert probe.cpu_level(str(tmp_path), "x86_64") == level


def test_cpu_level_elsewhere(tmp_path: Path) -> None:
    """Other architectures have no level; an unreadable x86-64 has an unknown one."""
    assert probe.cpu_level(str(tmp_path), "riscv64") == "any"
    assert probe.cpu_level(str(tmp_path), "x86_64") == ""
    put(tmp_path, "proc/cpuinfo", "processor: 0\n")
    assert probe.cpu_level(str(tmp_path), "x86_64") == ""


def test_visible_cpus() -> None:
    """The scheduler's mask counts, not the machine's size."""
    assert probe.visible_cpus() == len(os.sched_getaffinity(0))


def test_quota_v2(tmp_path: Path) -> None:
    """The tightest limit between the control group and the root applies."""
    put(tmp_path, "proc/self/cgroup", "0::/user.slice/job\n")
    put(tmp_path, "sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n")
    put(tmp_path, "sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n")
    assert probe.cpu_quota(str(tmp_path)) == 1.5


def test_quota_v1_inside_a_container(tmp_path: Path) -> None:
    """A container sees the host's path but only its own files."""
    put(tmp_path, "proc/self/cgroup", "4:cpu,cpuacct:/docker/0123\n1:name=systemd:/docker/0123\n")
    put(tmp_path, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n")
    put(tmp_path, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert probe.cpu_quota(str(tmp_path)) == 2.0


def test_no_quota(tmp_path: Path) -> None:
    """Without files, or without a limit in them, there is no quota."""
    assert probe.cpu_quota(str(tmp_path)) is None
    put(tmp_path, "proc/self/cgroup", "4:cpu:/\n0::/\n")
    put(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    put(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    put(tmp_path, "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert probe.cpu_quota(str(tmp_path)) is None


def test_distributions(tmp_path: Path) -> None:
    """Every way to be installed is seen, and what a distribution lacks."""
    for part in ("METADATA", "RECORD"):
        put(tmp_path, f"numpy-2.4.6.dist-info/{part}", "numpy/__init__.py,,\nlegal.pth,,\n")
    put(tmp_path, "ruamel.yaml-0.17.dist-info/METADATA", "")
    put(tmp_path, "old-1.0-py3.11.egg-info", "")
    for name in ("legal.pth", "00-envbuild.pth", "sneaky.pth", "module.py"):
        put(tmp_path, name, "")
    assert probe.distributions(str(tmp_path), "00-envbuild.pth") == {
        "numpy==2.4.6": "",
        "ruamel.yaml==0.17": "RECORD missing",
        "old==old-1.0-py3.11.egg-info": "not installed from a wheel: old-1.0-py3.11.egg-info",
        "sneaky.pth==": "start-up file of no locked distribution",
    }
    assert probe.distributions(str(tmp_path / "absent")) == {}


def test_command_path(tmp_path: Path) -> None:
    """A command is the first executable file along the path; folders and plain files do not count."""
    put(tmp_path, "a/python", "")
    (tmp_path / "b" / "python").mkdir(parents=True)
    put(tmp_path, "c/python", "")
    (tmp_path / "c" / "python").chmod(0o755)
    search = ":".join(str(tmp_path / name) for name in "abc")
    assert probe.command_path("python", search) == str(tmp_path / "c" / "python")
    assert probe.command_path("python", str(tmp_path / "a")) == ""


def test_digests(tmp_path: Path) -> None:
    """A file that cannot be read has no digest."""
    put(tmp_path, "a", "")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert probe.digests([a, b]) == {a: empty, b: ""}


def test_flags_that_choose_code(tmp_path: Path) -> None:
    """Vector, fused and matrix instructions count, those of CPUs to come too; what cannot change a sum does not."""
    flags = "fpu aes erms avx amx_tile fma fma4 avx512_bf16 avx10_2 f16c sse4_1 sse4_2 ssse3 xop sha_ni vmx"
    put(tmp_path, "proc/cpuinfo", f"processor\t: 0\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: avx2\n\n")
    assert probe.code_flags(str(tmp_path)) == [
        "amx_tile", "avx", "avx10_2", "avx512_bf16", "f16c", "fma", "fma4", "sse4_1", "sse4_2", "ssse3", "xop"
    ]  # fmt: skip


def test_the_cpus_name(tmp_path: Path) -> None:
    """The first CPU's name, as it is; none where the kernel reports none."""
    assert probe.cpu_model(str(tmp_path)) == ""
    put(tmp_path, "proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 50\n\nmodel name\t: other\n")
    assert probe.cpu_model(str(tmp_path)) == ""
    put(tmp_path, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+ : x\nflags\t: a\n")
    assert probe.cpu_model(str(tmp_path)) == "Intel(R) Xeon(R) Platinum 8480+ : x"
