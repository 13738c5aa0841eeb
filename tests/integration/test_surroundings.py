"""Facts about project and host."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from envbuild.host import probe
from envbuild.host.facts import GpuFacts, HostFacts
from envbuild.host.file import dumps, loads
from envbuild.host.probe import host_facts, lacks_gpu_driver
from envbuild.record.git import git_state
from tests.support.gpus import DRIVER, build_standin, gpu_uuid, h200, install, machine, t4


def git(folder: Path, *arguments: str) -> bytes:
    """Run git with a constant identity."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.invalid", "-C", str(folder), *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True).stdout


def test_the_version_of_a_project_is_reported(tmp_path: Path) -> None:
    """Commit, branch, uncommitted changes by digest, and untracked files; ignored files do not count."""
    assert git_state(tmp_path) is None
    git(tmp_path, "init", "-b", "work")
    assert git_state(tmp_path) is None
    (tmp_path / "train.py").write_text("one\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "m")
    clean = git_state(tmp_path)
    assert clean is not None
    assert clean.commit == git(tmp_path, "rev-parse", "HEAD").decode().strip()
    assert (clean.branch, clean.dirty, clean.diff_sha256, clean.untracked) == ("work", False, "", 0)
    assert clean.changed == ()
    (tmp_path / "train.py").write_text("two\n")
    (tmp_path / "new.py").touch()
    (tmp_path / "a.log").touch()
    git(tmp_path, "checkout", "-q", "--detach")
    dirty = git_state(tmp_path)
    assert dirty is not None
    diff = git(tmp_path, "diff", "HEAD", "--full-index")
    assert (dirty.branch, dirty.dirty, dirty.untracked) == ("", True, 1)
    assert dirty.diff_sha256 == hashlib.sha256(diff).hexdigest()
    assert dirty.changed == ("train.py",)
    (tmp_path / "lib").mkdir()
    below = git_state(tmp_path / "lib")
    assert below is not None
    assert (below.dirty, below.changed) == (True, ())  # names are those of the project's own files


def test_the_host_is_described(tmp_path: Path) -> None:
    """Kernel, C library and CPU come from the machine; without a driver no GPU is looked for."""
    facts = host_facts()
    assert facts.kernel == os.uname().release
    assert facts.libc == os.confstr("CS_GNU_LIBC_VERSION")
    assert facts.cpu.total >= facts.cpu.visible >= 1
    assert facts.memory > 1 << 20
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor : 0\nmodel name\t: A CPU: fast\nflags\t\t: fpu avx2\n\n")
    other = host_facts(tmp_path)
    assert (other.cpu.model, other.cpu.flags) == ("A CPU: fast", ("avx2",))
    assert other.gpu == GpuFacts()


def test_gpus_are_described_where_there_is_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record holds what its host had: driver, and of each GPU name, identity and what else decides bits."""
    standin = install(build_standin(tmp_path / "libraries"), tmp_path / "machine", machine(h200(), t4()))
    monkeypatch.setenv("LD_LIBRARY_PATH", standin.environment["LD_LIBRARY_PATH"])
    found = host_facts().gpu
    assert found.nvml == DRIVER
    assert [(gpu.name, gpu.uuid, gpu.sms) for gpu in found.devices] == [
        ("NVIDIA H200", gpu_uuid(0x200), 132),
        ("Tesla T4", gpu_uuid(0x400), 40),
    ]
    assert loads(dumps(HostFacts(kernel="6.1", machine="x86_64", gpu=found))).gpu == found


def test_a_run_without_gpus_wakes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Driver and names come from the driver's files: the libraries, which take seconds to wake a GPU, are not asked."""
    monkeypatch.setattr(probe, "gpu_facts", lambda: pytest.fail("the driver was asked"))
    names = {"0000:01:00.0": ("NVIDIA H200", gpu_uuid(0x200)), "0000:81:00.0": ("Tesla T4", "GPU-????????-????-????")}
    for folder, (name, uuid) in names.items():
        (tmp_path / "proc/driver/nvidia/gpus" / folder).mkdir(parents=True)
        text = f"Model: \t\t {name}\nIRQ:   \t\t 33\nGPU UUID: \t {uuid}\nDevice Minor: \t 0\n"
        (tmp_path / "proc/driver/nvidia/gpus" / folder / "information").write_text(text)
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text(f"{DRIVER}\n")
    found = host_facts(tmp_path, gpus=False).gpu
    assert (found.driver, found.driver_source) == (DRIVER, "/sys/module/nvidia/version")
    assert [(gpu.name, gpu.uuid) for gpu in found.devices] == [("NVIDIA H200", gpu_uuid(0x200)), ("Tesla T4", "")]


def test_no_driver_costs_nothing() -> None:
    """Looking at a host without GPU takes a few milliseconds at most: it happens at every run."""
    host_facts()
    times = []
    for _ in range(10):
        before = time.perf_counter()
        assert lacks_gpu_driver()
        host_facts()
        times.append(time.perf_counter() - before)
    assert min(times) < 0.01  # what others do on this machine meanwhile only adds to it
