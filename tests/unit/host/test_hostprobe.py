"""This machine, described: CPU, C library, and how containers get GPUs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from envbuild.host import probe
from envbuild.host.facts import Containers
from envbuild.runtime.guard import gpu_ask, gpu_nvml
from envbuild.runtime.guard.gpu import empty

YAML = "---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: []\n"
JSON = '{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[]}'


def put(root: Path, path: str, text: str = "", mode: int = 0o644) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/cdi/nvidia.yaml", YAML),
        ("var/run/cdi/nvidia.json", JSON),
        ("etc/cdi/x.yml", 'kind: "nvidia.com/gpu"'),
    ],
)
def test_a_cdi_specification(tmp_path: Path, path: str, text: str) -> None:
    """A specification of NVIDIA's GPUs in either folder and either language means CDI."""
    put(tmp_path, path, text)
    assert probe.containers(tmp_path, {"docker": "28.5.1", "nvidia-ctk": "1.17.4"}) == Containers(
        engine="docker", version="28.5.1", nvidia="cdi", toolkit="1.17.4"
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/cdi/other.yaml", "kind: vendor.com/gpu\n"),
        ("etc/cdi/nvidia.txt", YAML),
        ("etc/cdi/x.yaml", "kind: nvidia.com/gpu-old\n"),
        ("etc/cdi/broken.json", "\0"),
    ],
)
def test_no_cdi_specification(tmp_path: Path, path: str, text: str) -> None:
    """Other vendors' devices and other files do not count."""
    put(tmp_path, path, text)
    assert probe.containers(tmp_path, {}) == Containers()


def test_nvidias_runtime(tmp_path: Path) -> None:
    """Without a specification NVIDIA's runtime passes GPUs; with both, an engine that knows CDI takes CDI."""
    put(tmp_path, "usr/bin/nvidia-container-runtime", mode=0o755)
    assert probe.containers(tmp_path, {"docker": "20.10.24"}).nvidia == "legacy"
    put(tmp_path, "etc/cdi/nvidia.yaml", YAML)
    assert probe.containers(tmp_path, {"docker": "20.10.24+dfsg1"}).nvidia == "legacy"
    assert probe.containers(tmp_path, {"docker": "28.5.1"}).nvidia == "cdi"
    assert probe.containers(tmp_path, {"podman": "5.2.0"}).nvidia == "cdi"


def test_the_cpu(tmp_path: Path) -> None:
    """The CPU is described by the guard's own probes."""
    put(tmp_path, "proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t\t: fpu avx fma aes\n\n")
    cpu = probe.cpu_facts(tmp_path)
    assert (cpu.model, cpu.flags) == ("AMD EPYC 9654", ("avx", "fma"))
    assert cpu.visible == len(os.sched_getaffinity(0))
    assert cpu.total >= cpu.visible


def test_another_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only glibc reports its version this way; elsewhere it is unknown."""
    assert probe.libc().startswith("glibc 2.")

    def unknown(name: str) -> str:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "confstr", unknown)
    assert probe.libc() == ""


def test_hidden_gpus_are_described_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine has its SMs whatever CUDA_VISIBLE_DEVICES hides from this shell; what is visible stays as it is."""
    asked: list[bool] = []

    def gpus(site: str, *, environment: dict[str, str] | None = None) -> dict[str, Any]:
        asked.append(environment is None)
        assert environment is None or "CUDA_VISIBLE_DEVICES" not in environment
        devices = [
            {**gpu_nvml.blank(), "uuid": uuid, "sms": 132 if shown or environment else 0, "visible": shown}
            for uuid, shown in (("GPU-1", True), ("GPU-2", False))
        ]
        return {**empty(), "devices": devices}

    monkeypatch.setattr(gpu_ask, "gpus", gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    facts = probe.gpu_facts()
    assert [(gpu.uuid, gpu.sms, gpu.visible) for gpu in facts.devices] == [("GPU-1", 132, True), ("GPU-2", 132, False)]
    assert asked == [True, False]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    probe.gpu_facts()
    assert asked == [True, False, True]
