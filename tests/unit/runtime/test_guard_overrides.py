"""What a run is allowed to accept, and how the gate reports it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from envbuild.lockfile.hardware import POLICIES
from envbuild.runtime.guard import checks, fingerprint_check, gate, overrides, variables
from envbuild.runtime.guard.check import Check
from tests.support.gpu_facts import H200, expect, facts, found

DRIVER = Check("gpu.driver", "580.159.04", "570.86.15", ok=False, meaning="other bits possible", fix="install it")


def failing(field: str = "gpu.driver", severity: str = "hard", ok: bool = False) -> Check:
    return Check(field, "a", "b", ok=ok, severity=severity, meaning="m")


def test_allowed() -> None:
    """A named check that failed no longer refuses; it is shown loudly and stays in the verdict as failed."""
    done = overrides.apply([DRIVER], " gpu.driver,, kernel ")
    assert not checks.refused(done)
    assert (DRIVER.as_dict()["ok"], DRIVER.as_dict()["allowed"]) == (False, True)
    assert overrides.render(done) == (
        "envbuild: ALLOWED by this run: gpu.driver: locked 580.159.04, found 570.86.15: other bits possible\n"
    )


def test_only_what_is_named() -> None:
    """Other hard checks refuse as before; what holds or only warns is not touched."""
    done = overrides.apply([failing("gpu.model"), failing(ok=True), failing("cpus", "soft")], "gpu.driver,cpus")
    assert checks.refused(done)
    assert [check.allowed for check in done] == [False, False, False]


@pytest.mark.parametrize(
    ("text", "found_text", "meaning"),
    [
        ("gpu.drivr", "gpu.drivr", "there is no field gpu.drivr — perhaps you meant gpu.driver"),
        ("driver", "driver", "there is no field driver — perhaps you meant gpu.driver"),
        ("*", "*", "there is no field *"),
        ("all,gpu.model", "all", "there is no field all"),
        ("environment", "environment", "there is no field environment"),
        ("packages.", "packages.", "there is no field packages."),
        ("runtime", "runtime", "runtime cannot be allowed: an altered guard proves nothing"),
        ("runtime./x", "runtime./x", "runtime./x cannot be allowed: an altered guard proves nothing"),
        ("environment.ENVBUILD_ALLOW,x.y", "environment.ENVBUILD_ALLOW,x.y", None),
    ],
)
def test_unknown_names(text: str, found_text: str, meaning: str | None) -> None:
    """A name that no check has, or that cannot be allowed, is refused with what was meant, and allows nothing."""
    done = overrides.apply([failing()], f"gpu.driver,{text}")
    assert done[0].refuses
    refusal = done[1]
    assert (refusal.field, refusal.found, refusal.refuses) == ("environment.ENVBUILD_ALLOW", found_text, True)
    assert meaning is None or refusal.meaning == meaning


def test_every_field_can_be_named() -> None:
    """Whatever field a check has, its exact name is accepted: those of the GPU, of variables, of packages."""
    for name in (
        *overrides.NAMES,
        "environment.TZ",
        "packages.numpy",
        "libraries.libcudnn.so.9",
        "fingerprint.libm",
    ):
        assert not checks.refused(overrides.apply([failing("kernel", ok=True)], name)), "also where all is well"
        assert not checks.refused(overrides.apply([failing(name)], name)), name
    assert {*POLICIES} <= {*overrides.NAMES}


MADE = {"lock": "pylock.digits.toml", "identity": "0" * 64, "environment": {}}


@pytest.fixture
def image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A gate whose machine has another driver; the folder gets its verdict."""
    wanted = {**MADE, **expect(H200)}
    seen = {"scope": "image", "environment": {}, "gpu": facts(found(H200), driver="570.86.15")}
    monkeypatch.setattr(gate, "load_expectations", lambda path: wanted)
    monkeypatch.setattr(gate, "observe", lambda expect, scope: seen)
    monkeypatch.setattr(checks, "FIELDS", {"gpu": checks.FIELDS["gpu"]})
    for name in ("ENVBUILD_ALLOW", gate.MARKER):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def verdict(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "verdict.json").read_text()))


def test_gate_refuses(image: Path) -> None:
    """Without an override: refused, not verified, and what the probe found is in the verdict."""
    assert gate.pass_or_refuse("entrypoint", folder=str(image)) is False
    found_verdict = verdict(image)
    assert (found_verdict["ok"], found_verdict["verified"]) == (False, "no")
    assert found_verdict["gpu"]["driver"] == "570.86.15"


def test_gate_allows(image: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """With the override the program may start: reported on standard error, and in the verdict."""
    monkeypatch.setenv("ENVBUILD_ALLOW", "gpu.driver")
    assert gate.pass_or_refuse("entrypoint", folder=str(image)) is True
    found_verdict = verdict(image)
    assert (found_verdict["ok"], found_verdict["verified"]) == (True, "overridden")
    assert [check["field"] for check in found_verdict["checks"] if check.get("allowed")] == ["gpu.driver"]
    assert capfd.readouterr().err == (
        "envbuild: ALLOWED by this run: gpu.driver: locked 580.159.04, found 570.86.15: "
        "the driver compiles kernels (PTX): other bits possible\n"
    )


def test_override_that_was_not_needed(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing differs: the run is verified, whatever it would have allowed."""
    monkeypatch.setenv("ENVBUILD_ALLOW", "gpu.model")
    monkeypatch.setattr(
        gate, "observe", lambda expect, scope: {"scope": scope, "environment": {}, "gpu": facts(found(H200))}
    )
    assert gate.pass_or_refuse("entrypoint", folder=str(image)) is True
    assert verdict(image)["verified"] == "yes"


def test_the_time_of_the_fingerprint_counts(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict's duration is that of everything the gate did before the program started."""
    monkeypatch.setattr(gate, "observe", lambda expect, scope: {"environment": {}, "gpu": facts(), "scope": scope})
    monkeypatch.setattr(checks, "FIELDS", {})
    monkeypatch.setattr(gate, "load_expectations", lambda path: {**MADE, "fingerprint": True})
    monkeypatch.setattr(fingerprint_check, "check", lambda *args, **options: time.sleep(0.03) or [])
    assert gate.pass_or_refuse("entrypoint", folder=str(image)) is True
    assert verdict(image)["duration_ms"] >= 30


def test_guard_off(image: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A deliberate bypass makes no checks, reports it, is not verified, and ends with this container."""
    monkeypatch.setenv(gate.MARKER, "off")
    assert gate.pass_or_refuse("entrypoint", folder=str(image)) is True
    found_verdict = verdict(image)
    assert (found_verdict["ok"], found_verdict["verified"], found_verdict["checks"]) == (True, "no", [])
    assert capfd.readouterr().err == (
        "envbuild: the guard is OFF (ENVBUILD_GUARD=off): nothing was compared with pylock.digits.toml; not verified\n"
    )
    import os

    assert os.environ[gate.MARKER] == gate.marker("0" * 64)


def test_damaged_expectations_cannot_be_passed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without readable expectations neither an override nor the bypass starts anything."""
    monkeypatch.setenv("ENVBUILD_ALLOW", "gpu.driver")
    monkeypatch.setenv(gate.MARKER, "off")
    assert gate.pass_or_refuse("entrypoint", prefix=str(tmp_path), folder=str(tmp_path)) is False
    assert "expect.json cannot be read" in capfd.readouterr().err


def test_a_lock_without_gpu_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe is not started, and none of the GPU's modules is imported, for a lock without GPU."""
    from envbuild.runtime.guard import probe

    monkeypatch.setattr(probe, "gpus", lambda *arguments: pytest.fail("the probe was started"))
    assert "gpu" not in gate.observe({"gpu": None, "cuda": None}, "host")


def test_variables_of_nvidia() -> None:
    """Variables that change kernels or take SMs away are refused; those that change the surroundings warn."""
    refused = {
        "CUDA_FORCE_PTX_JIT",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "NVIDIA_TF32_OVERRIDE",
        "CUBLASLT_WORKSPACE_SIZE",
    }
    assert refused <= set(variables.HARD)
    assert {"CUDA_LAUNCH_BLOCKING", "CUDA_CACHE_PATH", "CUDA_DEVICE_ORDER"} <= set(variables.SOFT)
    assert not {"CUDA_VISIBLE_DEVICES", "CUDA_CACHE_DISABLE"} & {*variables.HARD, *variables.SOFT}
