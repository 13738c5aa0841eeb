"""The numeric fingerprint on this machine: equal in every process, on every GPU of a kind, and touched by TF32."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from envbuild.runtime.guard import fingerprint_check

ROOT = str(Path(__file__).parents[2])
GROUPS = {"numbers": "", "torch": "torch", "jax": "jax", "tensorflow": "tensorflow"}
PROCESSES = int(os.environ.get("ENVBUILD_GPU_PROCESSES", "20"))
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC", "PJRT_NPROC"), "2")


def compute(group: str) -> tuple[dict[str, Any], float]:
    start = time.perf_counter()
    found = fingerprint_check.compute(
        sys.executable, [group], {**os.environ, **THREADS}, library=ROOT, package="envbuild.runtime"
    )
    return found, time.perf_counter() - start


@pytest.mark.parametrize("group", GROUPS)
def test_equal_in_every_process(facts: dict[str, Any], figure: Callable[[str, Any], None], group: str) -> None:
    """As many processes as asked for compute the same digests, on the CPU and on each GPU."""
    if GROUPS[group] and importlib.util.find_spec(GROUPS[group]) is None:
        pytest.skip(f"{group} is not installed")
    first, seconds = compute(group)
    assert first
    if group == "torch" and os.environ.get("ENVBUILD_GPU_DEVICE") != "cpu":
        assert "torch.gpu0.convolution" in first
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        others = list(pool.map(compute, [group] * (PROCESSES - 1)))
    moved = {part for parts, _ in others for part in first if parts[part]["digest"] != first[part]["digest"]}
    figure(f"fingerprint {group}, s per process", seconds)
    figure(f"fingerprint {group}, s of computing", sum(part["seconds"] for part in first.values()))
    figure(f"fingerprint {group}, parts", ", ".join(f"{part} {found['digest'][:8]}" for part, found in first.items()))
    assert moved == set()
    assert all(set(parts) == set(first) for parts, _ in others)


def test_gpus_of_one_kind_agree(facts: dict[str, Any]) -> None:
    """GPUs of one model compute the same bits: one that does not is broken."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    count = torch.cuda.device_count()
    if count < 2 or len({device["name"] for device in facts["devices"]}) > 1:
        pytest.skip(f"{count} GPU of one kind: nothing to compare")
    parts, _ = compute("torch")
    for name in ("matmul", "convolution", "functions", "scatter", "random"):
        assert len({parts[f"torch.gpu{index}.{name}"]["digest"] for index in range(count)}) == 1, name
