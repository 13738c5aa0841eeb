"""Run an image in the foreground over the engine's API."""

from __future__ import annotations

from envbuild.engine.http import EngineClient
from envbuild.engine.protocol import ContainerExit, ContainerRun
from envbuild.errors import EngineError


def run_container(client: EngineClient, request: ContainerRun) -> ContainerExit:
    """Implement ``ContainerRunner.run_container``."""
    raise EngineError("not written yet")
