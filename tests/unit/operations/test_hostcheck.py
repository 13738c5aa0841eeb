"""``envbuild check`` on the host."""

from __future__ import annotations

import pytest

from envbuild.cli.render.host import check_text
from envbuild.lockfile.hardware import Gpu, GpuDevice
from envbuild.lockfile.model import Determinism, Hardware
from envbuild.operations.check import check_host
from envbuild.runtime.guard import gpu_ask, probe
from tests.support.gpu_facts import H200, T4, facts, found
from tests.support.runtime import make_lock

HOST_GPUS = probe.host_gpus


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "kernel", lambda: "6.1.0-40-amd64")
    monkeypatch.setattr(probe, "cpu_level", lambda: "x86-64-v3")
    monkeypatch.setattr(probe, "visible_cpus", lambda: 4)
    monkeypatch.setattr(probe, "cpu_quota", lambda: None)
    monkeypatch.setattr(probe, "host_gpus", lambda: pytest.fail("a lock without GPU does not ask for GPUs"))


def test_match() -> None:
    """One line per field that the host has."""
    lock = make_lock(hardware=Hardware(kernel=">=5.10,<7", cpu="x86-64-v3"))
    verdict = check_host(lock)
    assert (verdict.ok, verdict.gate) == (True, "host")
    assert check_text(verdict) == (
        "this host matches pylock.digits.toml\n"
        "  kernel   ≥ 5.10, < 7   6.1.0-40-amd64\n"
        "  cpu      x86-64-v3     x86-64-v3\n"
        "  cpus     1 thread      4 CPUs\n"
    )


def test_mismatch() -> None:
    """The guard's own table, without its words about a run."""
    lock = make_lock(
        hardware=Hardware(kernel=">=6.6", cpu="x86-64-v4"), determinism=Determinism(level="ops", seed=42, threads=8)
    )
    assert check_text(check_host(lock)) == (
        "envbuild: this host does not match pylock.digits.toml\n"
        "  field    locked      found            what it means\n"
        "  kernel   ≥ 6.6       6.1.0-40-amd64   older than the locked range\n"
        "  cpu      x86-64-v4   x86-64-v3        the CPU lacks instructions of the locked level\n"
        "  cpus     8 threads   4 CPUs           libraries that count CPUs would split work otherwise: other bits\n"
        "what to do:\n"
        "  run on a host whose kernel is ≥ 6.6, or widen hardware.kernel in spec.yaml, then: "
        "envbuild lock spec.yaml && envbuild build\n"
        "  run on a x86-64-v4 host, or lower hardware.cpu in spec.yaml, then: "
        "envbuild lock spec.yaml && envbuild build\n"
        "  give the run 8 CPUs, or lower determinism.threads in spec.yaml, then: "
        "envbuild lock spec.yaml && envbuild build\n"
        "  once, knowingly (recorded as overridden): envbuild run --allow kernel --allow cpu --allow cpus\n"
    )


TWO_H200 = Gpu(driver="580.159.04", devices=(GpuDevice(count=2, model="NVIDIA H200", sms=132),))


def test_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs are compared by the same checks; a host with more of them than a run needs will do."""
    monkeypatch.setattr(probe, "host_gpus", lambda: facts(found(T4), found(H200), found(H200)))
    verdict = check_host(make_lock(hardware=Hardware(gpu=TWO_H200)))
    assert check_text(verdict) == (
        "this host matches pylock.digits.toml\n"
        "  kernel        any                  6.1.0-40-amd64\n"
        "  cpu           any                  x86-64-v3\n"
        "  cpus          1 thread             4 CPUs\n"
        "  gpu.nvml      answers              580.159.04\n"
        "  gpu.count     2                    3\n"
        "  gpu.model     NVIDIA H200          NVIDIA H200\n"
        "  gpu.sms       132                  132\n"
        "  gpu.driver    580.159.04           580.159.04\n"
        "  gpu.libcuda   libcuda 580.159.04   libcuda 580.159.04 (/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04)\n"
    )


def test_a_variable_that_hides_gpus_is_not_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is not handed CUDA_VISIBLE_DEVICES, so the host is asked without it: libcuda knows no hidden GPU."""
    asked: list[dict[str, str]] = []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/x")
    monkeypatch.setattr(gpu_ask, "gpus", lambda *, environment: asked.append(environment) or facts(found(H200)))
    assert HOST_GPUS() == facts(found(H200))
    assert ("CUDA_VISIBLE_DEVICES" in asked[0], asked[0]["LD_LIBRARY_PATH"]) == (False, "/x")


def test_gpus_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a driver is refused in one row, with what to do."""
    monkeypatch.setattr(probe, "host_gpus", lambda: facts(driver="", libcuda={}))
    assert check_text(check_host(make_lock(hardware=Hardware(gpu=TWO_H200)))) == (
        "envbuild: this host does not match pylock.digits.toml\n"
        "  field   locked            found              what it means\n"
        "  gpu     2 × NVIDIA H200   no NVIDIA driver   without it nothing can run on a GPU\n"
        "what to do:\n"
        "  run on a host with 2 × NVIDIA H200\n"
        "  install NVIDIA driver 580.159.04\n"
        "  lock without GPU: hardware.gpu: none in spec.yaml, then: envbuild lock spec.yaml && envbuild build\n"
        "  once, knowingly (recorded as overridden): envbuild run --allow gpu\n"
    )


def test_an_optional_gpu_may_be_missing_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any, the host is one where a run would start, with that difference; one that is there must be right."""
    gpu = Gpu(driver="580.65.06", devices=(GpuDevice(),))
    policy = {"gpu.count": "at least", "gpu.driver": "at least"}
    lock = make_lock(hardware=Hardware(gpu=gpu, gpu_optional=True, policy=policy))
    monkeypatch.setattr(probe, "host_gpus", lambda: facts(driver="", libcuda={}))
    verdict = check_host(lock)
    assert (verdict.ok, verdict.verified) == (True, "overridden")
    assert not check_host(make_lock(hardware=Hardware(gpu=gpu, policy=policy))).ok
    monkeypatch.setattr(probe, "host_gpus", lambda: facts(found(H200), driver="570.124.06"))
    verdict = check_host(lock)
    assert (verdict.ok, verdict.verified) == (False, "no")
    monkeypatch.setattr(probe, "host_gpus", lambda: facts(found(H200)))
    verdict = check_host(lock)
    assert (verdict.ok, verdict.verified) == (True, "yes")
