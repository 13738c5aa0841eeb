"""podman behind its Docker-compatible socket, as ``scripts/podman-service.sh`` brings it up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/podman-service.sh"


@contextmanager
def podman_service() -> Iterator[str]:
    """Start it and give its address for DOCKER_HOST; it is stopped afterwards, unless it ran before.

    Where it cannot run, the test that wants it fails with what the script said.
    """
    folder = Path("/run/envbuild-podman" if os.geteuid() == 0 else f"/tmp/envbuild-podman-{os.getuid()}")
    was_running = (folder / "podman.sock").exists()
    done = subprocess.run([SCRIPT, "start"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    name, _, host = done.stdout.strip().partition("=")
    assert name == "DOCKER_HOST"
    try:
        yield host
    finally:
        if not was_running:
            subprocess.run([SCRIPT, "stop"], check=True)
