"""Base images on a Docker-compatible engine: pulled by digest, exported from a container that is never started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader
from typing import Any, BinaryIO, cast

import docker
import docker.errors

from envbuild.core import process_mark
from envbuild.core.uninterrupted import uninterrupted
from envbuild.engine.docker import owner
from envbuild.engine.docker.http import engine_refused
from envbuild.engine.docker.images import engine_errors
from envbuild.engine.docker.step import STEP_LABEL, ChunkReader

_CHUNK = 1 << 20
_NO_PROGRAM = "/envbuild-exports-only"
"""The container must name a program, since not every image does; it is never started."""


def pull_image(client: docker.APIClient, reference: str, architecture: str) -> None:
    """Implement ``BaseImages.pull_image``; credentials come from the docker configuration, as for ``docker pull``."""
    doing = f"pull {reference}"
    with engine_errors(doing):
        events = cast(Any, client).pull(reference, platform=f"linux/{architecture}", stream=True, decode=True)
        for event in events:
            if "error" in event:
                raise engine_refused(doing, str(event["error"]))


@contextmanager
def export_image(client: docker.APIClient, reference: str, architecture: str) -> Iterator[BinaryIO]:
    """Implement ``BaseImages.export_image``; the container is removed on any exit, an interrupt included."""
    doing = f"export {reference}"
    with engine_errors(doing):
        create = partial(
            client.create_container,
            reference,
            command=[_NO_PROGRAM],
            labels={STEP_LABEL: "export", owner.LABEL: process_mark.mark()},
            host_config=client.create_host_config(network_mode="none"),
            platform=f"linux/{architecture}",
        )
        created, interrupt = uninterrupted(create)
    container = str(created["Id"])
    stream: BufferedReader | None = None
    try:
        if interrupt is not None:
            raise interrupt
        with engine_errors(doing):
            chunks = iter(client.export(container, chunk_size=_CHUNK))
        stream = BufferedReader(ChunkReader(chunks, doing), buffer_size=_CHUNK)
        yield cast(BinaryIO, stream)
    finally:
        if stream is not None:
            stream.close()
        with suppress(docker.errors.NotFound), engine_errors("remove the container of an export"):
            client.remove_container(container, force=True, v=True)
