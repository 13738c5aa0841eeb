"""Probe and guard on this machine: true to nvidia-smi, accepting its own lock, refusing every other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbuild.runtime.guard import checks, gate, gpu_ask, probe
from tests.gpu.machine import HARD, SOFT, altered, locked

ROOT = str(Path(__file__).parents[2])
Figure = Callable[[str, Any], None]
QUERY = "name,uuid,driver_version,memory.total,ecc.mode.current,vbios_version,compute_cap,persistence_mode"
_WORDS = {"Enabled": True, "Disabled": False}


def smi(*arguments: str) -> list[str]:
    """Lines of nvidia-smi; it must be there where a GPU is."""
    command = shutil.which("nvidia-smi")
    if command is None:
        pytest.skip("nvidia-smi is not on PATH")
    return subprocess.run([command, *arguments], check=True, capture_output=True, text=True).stdout.strip().splitlines()


def observed(facts: dict[str, Any], **variables: str) -> dict[str, Any]:
    seen = gate.observe({**locked(facts), "gpu": None, "cuda": None}, "host")
    return {**seen, "cpu-flags": probe.code_flags(), "gpu": facts, "environment": variables}


def refusing(expect: dict[str, Any], seen: dict[str, Any]) -> set[str]:
    """Fields that refuse, each for itself."""
    failed = [check for check in checks.judge(expect, seen, "host") if check.refuses]
    names = {check.field for check in failed}
    return {check.field for check in failed if check.because not in names}


def test_true_to_nvidia_smi(facts: dict[str, Any], figure: Figure) -> None:
    """Model, UUID, driver, memory, ECC, VBIOS, compute capability and persistence are as nvidia-smi has them."""
    found = {device["uuid"]: device for device in facts["devices"]}
    figure("machine", f"{len(found)} × {facts['devices'][0]['name']}, driver {facts['driver']}")
    compared = 0
    for line in smi(f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"):
        name, uuid, driver, memory, ecc, vbios, capability, persistence = (word.strip() for word in line.split(", "))
        assert facts["nvml"] == driver
        device = found.get(uuid)
        if device is None:  # in MIG mode the slices are listed in its place
            continue
        compared += 1
        assert (device["name"], device["memory"]) == (name, int(memory))
        assert device["compute-capability"] == capability
        assert device["ecc"] == _WORDS.get(ecc)
        assert device["vbios"] == ("" if "N/A" in vbios else vbios)
        assert device["persistence"] == _WORDS.get(persistence)
        assert device["mig"] == "none"
    listed = "\n".join(smi("-L"))
    assert all(uuid in listed for uuid in found)
    assert compared + sum(uuid.startswith("MIG-") for uuid in found) == len(found)


def test_libcuda(facts: dict[str, Any], figure: Figure) -> None:
    """The driver's libcuda was loaded and asked: its version is the module's, and SMs are known of what CUDA shows."""
    library = facts["libcuda"]
    figure("libcuda", f"{library['path']} {library['version']}, CUDA {library['api']}")
    assert library["problem"] is None
    assert (library["version"], library["compat"]) == (facts["driver"], False)
    assert all(device["sms"] > 0 for device in facts["devices"])


def test_its_own_lock_is_accepted(facts: dict[str, Any]) -> None:
    """A lock made of the probe's facts is accepted, without a warning."""
    done = checks.judge(locked(facts), observed(facts), "host")
    assert [check.as_dict() for check in done if not check.ok and check.severity != "info"] == []
    assert {"gpu.driver", "gpu.count"} <= {check.field for check in done}


def test_order_does_not_matter(facts: dict[str, Any]) -> None:
    """The same GPUs in another order are no difference."""
    assert refusing(locked(facts), observed({**facts, "devices": facts["devices"][::-1]})) == set()


@pytest.mark.parametrize("field", HARD)
def test_each_hard_field_refuses(facts: dict[str, Any], field: str) -> None:
    """A lock that differs in one hard field is refused, and that field is named."""
    assert field in refusing(altered(locked(facts), field), observed(facts))


@pytest.mark.parametrize("field", SOFT)
def test_each_soft_field_warns(facts: dict[str, Any], field: str) -> None:
    """A lock that differs in a soft field is accepted with a warning."""
    expect = locked(facts)
    if field.removeprefix("gpu.") not in expect["gpu"]["devices"][0]:
        pytest.skip(f"this GPU has no {field}")
    done = checks.judge(altered(expect, field), observed(facts), "host")
    assert [(check.field, check.severity) for check in done if not check.ok and check.severity != "info"] == [
        (field, "soft")
    ]


def test_hidden_gpus_are_refused(facts: dict[str, Any]) -> None:
    """CUDA_VISIBLE_DEVICES, which NVML does not know, hides GPUs: in a container that is refused."""
    hidden = gpu_ask.gpus(environment={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    seen = {**observed(hidden, CUDA_VISIBLE_DEVICES=""), "scope": "image"}
    done = [check for check in checks.gpu(locked(facts), seen) if check.refuses]
    assert "gpu.visible" in {check.field for check in done}


def median(command: list[str], times: int = 7) -> float:
    """Median wall time in milliseconds; the first run warms up."""
    taken = []
    for _ in range(times + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        taken.append(1000 * (time.perf_counter() - start))
    return sorted(taken[1:])[times // 2]


def test_time(facts: dict[str, Any], figure: Figure, tmp_path: Path) -> None:
    """The guard's comparison, GPUs included, in a separate process: measured over a bare start of Python."""
    import importlib.util

    binding = importlib.util.find_spec("pynvml")
    assert binding is not None
    assert binding.origin is not None
    expect = tmp_path / "expect.json"
    expect.write_text(json.dumps(locked(facts)))
    program = (
        f"import sys; sys.path[:0] = {[ROOT, str(Path(binding.origin).parent)]!r}\n"
        "from envbuild.runtime import fastjson\nfrom envbuild.runtime.guard import gate\n"
        f"expect = fastjson.loads(open({str(expect)!r}).read())\n"
        "sys.exit(not gate.evaluate(expect, 'host', 'host').ok)\n"
    )
    flags = [sys.executable, "-I", "-S", "-c"]
    guard, bare = median([*flags, program]), median([*flags, "pass"])
    figure("guard, ms over a bare Python", guard - bare)
    start = time.perf_counter()
    probe.gpus()
    figure("GPU probe, ms", 1000 * (time.perf_counter() - start))
    assert guard - bare < 5000
