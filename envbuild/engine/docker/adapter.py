"""The adapter for Docker and every engine that speaks its API (Docker 20.10 and newer, podman's socket).

``connect`` finds the engine. Looking up and running images goes over ``engine/http.py``; steps and loads go through
the docker SDK, imported only when first needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

from envbuild.core.platforms import MACHINES, own_machine
from envbuild.core.progress import Progress
from envbuild.engine.docker.endpoint import candidates
from envbuild.engine.docker.http import ApiError, EngineClient, ping
from envbuild.engine.docker.owner import remove_dead
from envbuild.engine.docker.podman import CLEAN
from envbuild.engine.docker.run import run_container
from envbuild.engine.protocol import ContainerExit, ContainerRun, Delivered, GpuSupport, ImageInfo, Parcel, Step
from envbuild.errors import EngineError

if TYPE_CHECKING:
    import docker

    from envbuild.engine.docker.gpus import GpuWays


class DockerEngine:
    """Implements ``envbuild.engine.protocol.Engine``."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._sdk: docker.APIClient | None = None
        self._ways: GpuWays | None = None
        self._described: Mapping[str, str] | None = None

    @contextmanager
    def run_step(self, step: Step) -> Iterator[BinaryIO]:
        """Run a build step, on a separate connection, since steps run concurrently; see ``StepRunner``."""
        from envbuild.engine.docker.images import sdk_client
        from envbuild.engine.docker.step import run_step

        through = CLEAN if self._client.podman else ()
        with closing(sdk_client(self._client.endpoint)) as client, run_step(client, step, through) as stream:
            yield stream

    def find_image(self, reference: str) -> ImageInfo | None:
        """Look an image up; see ``ImageStore``."""
        try:
            found = self._client.call("GET", f"/images/{quote(reference, safe=':/@')}/json")
        except ApiError as error:
            if error.status == 404:
                return None
            raise EngineError(f"cannot look up the image {reference}: {error.message}") from None
        layers = found.get("RootFS", {}).get("Layers") or ()
        variables = (found.get("Config") or {}).get("Env") or ()
        return ImageInfo(
            config=str(found["Id"]).removeprefix("sha256:"),
            tags=tuple(found.get("RepoTags") or ()),
            diff_ids=tuple(str(layer).removeprefix("sha256:") for layer in layers),
            architecture=str(found.get("Architecture") or ""),
            environment=dict(entry.split("=", 1) for entry in variables if "=" in entry),
        )

    def deliver(self, parcels: Iterator[Parcel], tag: str, progress: Progress) -> Delivered:
        """Bring an image into the engine; see ``ImageStore``."""
        from envbuild.engine.docker.delivery import deliver

        fitting = self._fitting(parcels) if self.is_local() else parcels
        return deliver(self._client, fitting, tag, progress, self.load, self.held_layers)

    def _fitting(self, parcels: Iterator[Parcel]) -> Iterator[Parcel]:
        """Pass on what the engine's disk has room for."""
        from envbuild.engine.docker.limits import refuse_full_disk

        for parcel in parcels:
            refuse_full_disk(parcel, self._info("room"), self.held_layers)
            yield parcel

    def held_layers(self) -> tuple[tuple[str, ...], ...] | None:
        """List layer chains that need not be sent; see ``ImageStore``."""
        from envbuild.engine.docker.images import held_layers

        if self._client.podman:
            return None
        return held_layers(self._sdk_client())

    def remove_steps(self, *, dry_run: bool) -> list[str]:
        """Remove what build steps left for the next build; returns the names of images that go."""
        from envbuild.engine.docker.step import remove_steps

        return remove_steps(self._sdk_client(), dry_run=dry_run)

    def load(self, archive: Iterator[bytes]) -> None:
        """Load a docker archive; see ``ImageStore``."""
        from envbuild.engine.docker.images import load

        load(self._sdk_client(), archive)

    def pull_image(self, reference: str, architecture: str) -> None:
        """Bring an image from its registry; see ``BaseImages``."""
        from envbuild.engine.docker.base import pull_image

        pull_image(self._sdk_client(), reference, architecture)

    def export_image(self, reference: str, architecture: str) -> AbstractContextManager[BinaryIO]:
        """Give an image's file system; see ``BaseImages``."""
        from envbuild.engine.docker.base import export_image

        return export_image(self._sdk_client(), reference, architecture)

    def run_container(self, request: ContainerRun) -> ContainerExit:
        """Run an image in the foreground; see ``ContainerRunner``."""
        devices: list[dict[str, Any]] = []
        if request.gpus:
            from envbuild.engine.docker.gpus import device_requests

            devices = device_requests(request.gpus, self._gpu_ways())
        return run_container(self._client, request, devices)

    def gpu_support(self) -> GpuSupport:
        """Describe how GPUs are passed; see ``ContainerRunner``."""
        return self._gpu_ways().support

    def is_local(self) -> bool:
        """Return whether the engine is on this machine, not in a virtual one; see ``ContainerRunner``."""
        from envbuild.engine.docker.limits import is_desktop

        return self._client.endpoint.scheme == "unix" and not is_desktop(self._client.endpoint)

    def describe(self) -> Mapping[str, str]:
        """Return the engine's name, version, storage driver and API version; it is asked once."""
        if self._described is None:
            self._described = self._description()
        return self._described

    def _description(self) -> Mapping[str, str]:
        info = self._info("itself")
        name, _, version = self._client.server.partition(" ")[0].partition("/")
        return {
            "name": "podman" if self._client.podman else name or "unknown",
            "version": str(info.get("ServerVersion") or version),
            "storage": str(info.get("Driver") or "unknown"),
            "api": ".".join(map(str, self._client.api)),
        }

    def machine(self) -> str:
        """Return the engine's machine as ``uname -m`` names it; podman reports Go's name."""
        if self.is_local():
            return own_machine()
        found = str(self._info("its machine").get("Architecture") or "")
        return MACHINES.get(found, found)

    def _gpu_ways(self) -> GpuWays:
        """Ask once how the engine passes GPUs."""
        if self._ways is None:
            from envbuild.engine.docker.gpus import gpu_ways

            self._ways = gpu_ways(self._info("GPUs"), self._client.server, local=self.is_local())
        return self._ways

    def _info(self, about: str) -> Any:
        """Ask the engine what it reports of itself; ``about`` is what the question is about."""
        try:
            return self._client.call("GET", "/info")
        except ApiError as error:
            raise EngineError(f"cannot ask the engine about {about}: {error.message}") from None

    def _sdk_client(self) -> docker.APIClient:
        """Open the SDK's client once."""
        if self._sdk is None:
            from envbuild.engine.docker.images import sdk_client

            self._sdk = sdk_client(self._client.endpoint)
        return self._sdk


_CHOSEN_BY = ("DOCKER_HOST", "CONTAINER_HOST")
"""Variables that name an engine: where it does not answer, installing another would not help."""


def connect(environment: Mapping[str, str] | None = None) -> DockerEngine:
    """Find the engine that the docker command would use, and remove what killed commands have left there.

    Args:
        environment: where DOCKER_HOST and its like are looked up; this process's by default.

    Raises:
        EngineError: none answers; the message lists what was tried and the hint states how to get one.
    """
    tried = []
    hint = (
        "get one: apt-get install docker.io && systemctl start docker, "
        "or: apt-get install podman && systemctl --user start podman.socket"
    )
    for endpoint in candidates(os.environ if environment is None else environment):
        try:
            client = ping(endpoint)
        except OSError as error:
            tried.append(f"  {endpoint.url} ({endpoint.source}): {error.strerror or error}")
            if isinstance(error, PermissionError):
                hint = "run with sudo, or join the group: sudo usermod -aG docker $USER, then log in again"
            elif endpoint.source in _CHOSEN_BY:
                hint = f"start the engine there, or look elsewhere: unset {endpoint.source}"
            elif isinstance(error, ConnectionRefusedError):
                hint = "start it: systemctl start docker"
            continue
        remove_dead(client)
        return DockerEngine(client)
    raise EngineError("no container engine answers; tried\n" + "\n".join(tried), hint)
