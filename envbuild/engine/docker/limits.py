"""What an engine cannot do for this machine's user, as a message with the next command."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envbuild.core.text import human_bytes
from envbuild.engine.docker.endpoint import Endpoint
from envbuild.engine.protocol import Parcel
from envbuild.errors import EngineError

_ABSENT_FOLDER = re.compile(r"bind source path does not exist: ?(\S+)|statfs (\S+): no such file")
_DESKTOP = (".docker/desktop/", ".docker/run/")
"""Sockets of Docker Desktop, below a home folder: its engine is in a virtual machine."""


Held = Callable[[], Sequence[Sequence[str]] | None]


def is_desktop(endpoint: Endpoint) -> bool:
    """Return whether Docker Desktop listens: the socket, or the target of a link in its place, is its own."""
    if endpoint.scheme != "unix":
        return False
    return any(part in str(Path(endpoint.address).resolve()) for part in _DESKTOP)


def not_here(endpoint: Endpoint, folder: str) -> EngineError:
    """Report that an engine elsewhere cannot mount a folder of this machine."""
    return EngineError(
        f"the engine at {endpoint.url} is on another machine and cannot mount {folder} of this one",
        "run envbuild on that machine, or use an engine of this one: unset DOCKER_HOST",
    )


def foreign(architecture: str = "") -> EngineError:
    """Report that an engine, which runs programs of this architecture, cannot start the image's."""
    runs = f" (it runs those for {architecture})" if architecture else ""
    return EngineError(
        f"the engine cannot start programs of another architecture than its own{runs}",
        "use an engine on a machine of the lock's architecture",
    )


def explained(message: str, endpoint: Endpoint) -> EngineError | None:
    """Turn what an engine reports into an error a person can act on; None if it is about something else."""
    if endpoint.scheme != "unix" and (found := _ABSENT_FOLDER.search(message)):
        return not_here(endpoint, found[1] or found[2])
    return foreign() if "exec format error" in message.lower() else None


def free_bytes(info: Mapping[str, Any]) -> int | None:
    """Return the free space of a local engine's data folder in bytes, as its ``/info`` names it; None if unknown."""
    root = str(info.get("DockerRootDir") or "")
    for folder in (Path(root), *Path(root).parents) if root.startswith("/") else ():
        try:
            return shutil.disk_usage(folder).free
        except PermissionError:
            continue
        except OSError:
            return None
    return None


def refuse_full_disk(parcel: Parcel, info: Mapping[str, Any], held: Held) -> None:
    """Refuse an image that the engine's disk cannot hold, before it is sent.

    Args:
        parcel: the image.
        info: the engine's ``/info``.
        held: gives the chains of layers that it has; None if it reports none and must find out by itself.

    Raises:
        EngineError: names the folder, what is free there and what is missing.
    """
    free = free_bytes(info)
    if free is None or sum(layer.size for layer in parcel.layers) <= free:
        return
    chains = held()
    if chains is None:
        return
    names = [layer.digest for layer in parcel.layers]
    lowest = max((_shared(names, chain) for chain in chains), default=0)
    needed = sum(layer.size for layer in parcel.layers[lowest:])
    if needed > free:
        raise EngineError(
            f"the engine's disk has {human_bytes(free)} free in {info['DockerRootDir']}; "
            f"the image needs {human_bytes(needed)} more there",
            "see what takes the space: docker system df; then make room: docker system prune",
        )


def _shared(names: Sequence[str], chain: Sequence[str]) -> int:
    """Count the lowest layers that two chains have in common."""
    count = 0
    for ours, theirs in zip(names, chain, strict=False):
        if ours != theirs:
            break
        count += 1
    return count
