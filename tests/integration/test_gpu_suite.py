"""The tests for GPU machines themselves, on machines that stand in: they pass where all is well, and can fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from envbuild.lockfile.hardware import POLICIES
from tests.gpu import machine as suite
from tests.support import gpus

ROOT = Path(__file__).parents[2]
TESTS = 19
MACHINES = ("h200", "8xh200", "a100-mig-1g", "mixed", "laptop")


@pytest.fixture(scope="module", name="libraries")
def _libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled stand-ins."""
    return gpus.build_standin(tmp_path_factory.mktemp("standin"))


def word(flag: int, supported: bool) -> str:
    return "[N/A]" if not supported else "Enabled" if flag else "Disabled"


def write_smi(folder: Path, scenario: gpus.Scenario) -> None:
    """Write a program that answers as nvidia-smi does on this machine."""
    rows, listed = [], []
    for index, device in enumerate(scenario.devices):
        ecc = word(device.ecc, "nvmlDeviceGetEccMode" not in device.returns)
        values = (device.name, device.uuid, scenario.driver, device.memory, ecc, device.vbios)
        rows.append(", ".join(map(str, (*values, device.compute_capability, word(device.persistence, True)))))
        listed.append(f"GPU {index}: {device.name} (UUID: {device.uuid})")
        listed += [f"  MIG {piece.name}     Device  0: (UUID: {piece.uuid})" for piece in device.slices]
    folder.mkdir()
    script = folder / "nvidia-smi"
    text = "cat <<'E'\n{}\nE\n"
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = -L ]; then\n{text.format(chr(10).join(listed))}else\n'
        f"{text.format(chr(10).join(rows))}fi\n"
    )
    script.chmod(0o755)


def run_suite(
    libraries: Path, folder: Path, scenario: gpus.Scenario, sentence: gpus.Scenario
) -> tuple[dict[str, int], str]:
    """Run tests/gpu/test_host.py on a machine whose nvidia-smi states this; return outcomes, and what was printed."""
    standin = gpus.install(libraries, folder / "machine", scenario)
    write_smi(folder / "bin", sentence)
    environment = {**os.environ, **standin.environment, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'tests'}"]
    command += ["tests/gpu/test_host.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    counts = {name: int(number) for number, name in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)}
    return counts, done.stdout


@pytest.mark.parametrize("name", MACHINES)
def test_it_passes(libraries: Path, tmp_path: Path, name: str) -> None:
    """Every test passes on a sound machine; only fields that a GPU does not have are skipped."""
    scenario = gpus.SCENARIOS[name]
    counts, printed = run_suite(libraries, tmp_path, scenario, scenario)
    assert counts.get("failed", 0) == counts.get("error", 0) == 0, printed
    assert counts["passed"] + counts.get("skipped", 0) == TESTS
    assert counts.get("skipped", 0) <= {"laptop": 2}.get(name, 0), printed
    assert "guard, ms over a bare Python: " in printed


def test_it_fails(libraries: Path, tmp_path: Path) -> None:
    """A probe whose values differ from nvidia-smi's is reported, and nothing else."""
    scenario = gpus.SCENARIOS["h200"]
    other = scenario.but(devices=(scenario.devices[0].but(vbios="96.00.D0.00.04"),))
    counts, printed = run_suite(libraries, tmp_path, scenario, other)
    assert (counts["failed"], counts["passed"]) == (1, TESTS - 1), printed
    assert "FAILED tests/gpu/test_host.py::test_true_to_nvidia_smi" in printed


def test_the_policies_are_the_real_ones() -> None:
    """What the suite repeats, since it runs without our dependencies, is what locks default to."""
    assert dict(POLICIES) == suite.POLICY
    assert {name for name, policy in POLICIES.items() if policy == "exact"} <= {*suite.HARD}
    assert {name for name, policy in POLICIES.items() if policy.endswith("warn")} == {*suite.SOFT}
