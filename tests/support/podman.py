"""podman behind its Docker-compatible socket, as ``scripts/podman-service.sh`` brings it up."""

from __future__ import annotations

import os
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

from tests.support.shared import shared

SCRIPT = Path(__file__).parents[2] / "scripts/podman-service.sh"


def podman_service() -> AbstractContextManager[str]:
    """Start it and give its address for DOCKER_HOST; see ``shared`` for when it is stopped.

    Where it cannot run, the test that wants it fails with what the script reported.
    """
    folder = Path("/run/envbuild-podman" if os.geteuid() == 0 else f"/tmp/envbuild-podman-{os.getuid()}")
    return shared("podman", (folder / "podman.sock").exists, _start, _stop)


def _start() -> str:
    done = subprocess.run([SCRIPT, "start"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    name, _, host = done.stdout.strip().partition("=")
    assert name == "DOCKER_HOST"
    return host


def _stop() -> None:
    subprocess.run([SCRIPT, "stop"], check=True)
