"""The newer engine that ``scripts/second-engine.sh`` brings up beside the machine's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/second-engine.sh"
FOLDER = Path("/run/envbuild-second-engine")
CDI = FOLDER / "cdi"
"""Where it looks for descriptions of devices."""


@contextmanager
def second_engine() -> Iterator[str]:
    """Start it and give its address for DOCKER_HOST; it is stopped afterwards, unless it ran before."""
    if os.geteuid() != 0:
        pytest.skip("starting a second engine needs root")
    was_running = (FOLDER / "docker.sock").exists()
    line = subprocess.run([SCRIPT, "start"], check=True, stdout=subprocess.PIPE, text=True).stdout
    name, _, host = line.strip().partition("=")
    assert name == "DOCKER_HOST"
    try:
        yield host
    finally:
        if not was_running:
            subprocess.run([SCRIPT, "stop"], check=True)
