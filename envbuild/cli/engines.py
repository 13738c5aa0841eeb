"""Which engine does the work: a container engine, or for build steps alone the kernel's own namespaces."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envbuild.cli.console import Console
from envbuild.errors import EngineError

if TYPE_CHECKING:
    from envbuild.engine.protocol import StepRunner
    from envbuild.store.objects import Store

_EXPLICIT = ("ENVBUILD_ENGINE", "DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CONTEXT")


def step_runner(store: Store, console: Console) -> StepRunner:
    """Find what runs build steps: the container engine, or namespaces where none answers and none was asked for.

    The image is the same either way. Root file systems lie in the store while their step runs.

    Raises:
        EngineError: an engine that was asked for by a variable does not answer.
    """
    if os.environ.get("ENVBUILD_ENGINE") != "none":
        from envbuild.engine.docker.adapter import connect

        try:
            return connect()
        except EngineError:
            if any(os.environ.get(name, "") not in ("", "auto") for name in _EXPLICIT):
                raise
            console.line("engine", "none answers", "build steps run in namespaces of this kernel")
    from envbuild.engine.local.namespaces import NamespaceSteps

    return NamespaceSteps(store.cache_dir("steps"))
