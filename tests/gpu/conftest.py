"""What the tests on a machine with GPUs share. They need pytest and the standard library, no container engine.

    python3 -m pytest tests/gpu

Where there is no GPU they are skipped with the reason. Frameworks are used where this Python has them. Figures are
printed at the end, and written to ``gpu-figures.json`` in the folder that ``ENVBUILD_FIGURES`` or ``OUT`` names.
``ENVBUILD_GPU_PROCESSES`` states how many processes must agree on the fingerprint (20).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbuild.runtime.guard import probe

FIGURES: dict[str, Any] = {}


@pytest.fixture(scope="session", name="facts")
def _facts() -> dict[str, Any]:
    """What the probe states of this machine; without a GPU the tests that want it are skipped."""
    found = probe.gpus()
    if not found["devices"]:
        problem = found["problem"]
        reason = f"NVML: {problem['name']}: {problem['message']}" if problem else "there is no NVIDIA driver"
        pytest.skip(f"no GPU here: {reason}")
    return found


@pytest.fixture(scope="session", name="figure")
def _figure() -> Callable[[str, Any], None]:
    """Keeps a figure for the end."""

    def keep(name: str, value: Any) -> None:
        FIGURES[name] = round(value, 4) if isinstance(value, float) else value

    return keep


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was measured."""
    if not FIGURES:
        return
    terminalreporter.section("figures")
    for name, value in FIGURES.items():
        terminalreporter.write_line(f"{name}: {value}")
    folder = os.environ.get("ENVBUILD_FIGURES") or os.environ.get("OUT")
    if folder:
        (Path(folder) / "gpu-figures.json").write_text(json.dumps(FIGURES, indent=1) + "\n")
