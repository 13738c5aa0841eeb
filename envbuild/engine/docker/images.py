"""Images of a Docker-compatible engine, through the docker SDK: look up, list layers, load.

Loading and importing are the SDK's part; everything a run needs goes over ``engine/http.py`` instead, because
importing the SDK alone costs more time than a whole run may.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import docker
import docker.errors
import requests.exceptions

from envbuild.core.foreign_json import parse_json
from envbuild.engine.docker.endpoint import Endpoint
from envbuild.engine.docker.http import engine_refused

_SILENCE = 6 * 3600
"""Seconds the engine may take to answer."""


def sdk_client(endpoint: Endpoint) -> docker.APIClient:
    """Open the SDK's client for an endpoint; raises ``EngineError`` if the engine refuses it.

    The time it may be silent is long: an import or a package script prints nothing for minutes.
    """
    tls: Any = False
    if endpoint.certificates is not None:
        folder = endpoint.certificates
        tls = docker.tls.TLSConfig(
            client_cert=(str(folder / "cert.pem"), str(folder / "key.pem")),
            ca_cert=str(folder / "ca.pem"),
            verify=endpoint.verify,
        )
    with engine_errors("connect to the engine"):
        return docker.APIClient(
            base_url=endpoint.url, version="auto", timeout=_SILENCE, tls=tls, use_ssh_client=endpoint.scheme == "ssh"
        )


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn the SDK's exceptions into ``EngineError``; ``doing`` completes "cannot …"."""
    try:
        yield
    except docker.errors.APIError as error:
        raise engine_refused(doing, error.explanation or str(error)) from error
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        raise engine_refused(doing, str(error)) from error


def load(client: docker.APIClient, archive: Iterator[bytes]) -> None:
    """Stream a docker archive into the engine.

    Raises:
        EngineError: the engine reports an error, in its status or in the middle of its answer.
    """
    with engine_errors("load the image"):
        for event in cast(Any, client).load_image(archive, quiet=True):
            if "error" in event:
                raise engine_refused("load the image", str(event["error"]))


def import_tar(client: docker.APIClient, tar: Any, repository: str, tag: str, labels: dict[str, str]) -> None:
    """Import an uncompressed tar, an open binary file, as a one-layer image."""
    changes = [f"LABEL {name}={value}" for name, value in labels.items()]
    with engine_errors("import a root file system"):
        # One name: podman 4 has no ear for a tag that comes apart.
        answer = client.import_image(src=tar, repository=f"{repository}:{tag}", changes=changes)
    for line in str(answer).splitlines():
        event = parse_json(line)
        if "error" in event:
            raise engine_refused("import a root file system", str(event["error"]))


def held_layers(client: docker.APIClient) -> tuple[tuple[str, ...], ...] | None:
    """List the layer chains of the classic image store (diff-IDs in hex, bottom first).

    The classic store takes a layer it holds from itself when an archive lacks the file (moby, image/tarexport/load.go);
    the containerd store does not, so for it the answer is None.
    """
    with engine_errors("list the engine's layers"):
        info = client.info()
        driver = dict(entry for entry in info.get("DriverStatus") or () if len(entry) == 2)
        if "driver-type" in driver:
            return None
        chains = set()
        for image in client.images(all=True, quiet=True):
            # Gone, or half gone ("layer does not exist", status 500) since it was listed: what is not reported is sent.
            with suppress(docker.errors.APIError):
                layers = cast(Any, client).inspect_image(image).get("RootFS", {}).get("Layers") or ()
                chains.add(tuple(str(layer).removeprefix("sha256:") for layer in layers))
    return tuple(sorted(chain for chain in chains if chain))


def remove_image(client: docker.APIClient, tag: str) -> None:
    """Implement ``ImageStore.remove_image``."""
    with engine_errors("remove an image"), suppress(docker.errors.ImageNotFound):
        client.remove_image(tag)
