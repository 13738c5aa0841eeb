"""Compare images path by path: what the engine built from a Dockerfile with what envbuild assembled."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import docker
import docker.errors

from envbuild.image.assemble import Built

ALLOWED = {
    "etc/mailname": "written from the host name by a few mail packages; a Dockerfile cannot set it",
}
"""Paths that may differ, each with its reason. Times are not compared: builders stamp their own."""


class Node(NamedTuple):
    """What a path is."""

    kind: str
    mode: int
    owner: tuple[int, int]
    target: str
    content: str
    attributes: tuple[tuple[str, str], ...]


def forget_images(*names: str, address: str = "") -> None:
    """Take all images of these repositories from the engine; those that are not there are none's loss.

    Args:
        address: of the engine; empty for the one that the environment names.
    """
    client: Any = (docker.DockerClient(address, timeout=600) if address else docker.from_env(timeout=600)).api
    try:
        for image in {image["Id"] for name in names for image in client.images(name=name)}:
            with suppress(docker.errors.NotFound):
                client.remove_image(image, force=True)
    finally:
        client.close()


def docker_build(client: Any, context: Path, tag: str) -> None:
    """Build a context without network; ``client`` is the docker SDK's."""
    options = {"network_mode": "none", "rm": True, "forcerm": True, "nocache": True, "decode": True}
    lines = list(client.build(path=str(context), tag=tag, **options))
    errors = [line["error"] for line in lines if "error" in line]
    output = "".join(line.get("stream", "") for line in lines)
    _drop_stages(client, output, tag)
    assert errors == [], output[-4000:]


def _drop_stages(client: Any, output: str, tag: str) -> None:
    """Remove what the classic builder leaves of earlier stages: an image for each instruction."""
    kept = {image["Id"] for image in client.images(name=tag)}
    for name in reversed(re.findall(r"^ ---> ([0-9a-f]{12})$", output, re.M)):
        if not any(image.startswith(f"sha256:{name}") for image in kept):
            with suppress(docker.errors.APIError):  # what the tagged image is made of
                client.remove_image(name)


def differences(client: Any, tag: str, built: Built) -> dict[str, tuple[Node | None, Node | None]]:
    """Return what is at each path where the assembled image and the engine's differ, and where it must not.

    Hard links are compared as groups of names, and reported under the first one's path.
    """
    expected = assembled_tree(built)
    found = _tree(_saved_layers(client, tag))
    different = {
        path: (expected.get(path), found.get(path))
        for path in sorted(expected.keys() | found.keys())
        if expected.get(path) != found.get(path) and path not in ALLOWED
    }
    if not different:
        links = _links(blob.path.open("rb") for blob in built.image.layers) ^ _links(_saved_layers(client, tag))
        different = {min(names): (expected[min(names)], found[min(names)]) for names in links}
    return different


def assembled_tree(built: Built) -> dict[str, Node]:
    """Return what is at each path of an assembled image."""
    return _tree(blob.path.open("rb") for blob in built.image.layers)


def _saved_layers(client: Any, tag: str) -> Iterator[Any]:
    """The layers of the built image, bottom first."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(client.get_image(tag)))) as archive:
        member = archive.extractfile("manifest.json")
        assert member is not None
        for name in json.load(member)[0]["Layers"]:
            layer = archive.extractfile(name)
            assert layer is not None
            yield layer


def _tree(layers: Any) -> dict[str, Node]:
    """What is at each path after all layers; hard links count as the file they name."""
    nodes: dict[str, Node] = {}
    for stream in layers:
        with stream, tarfile.open(fileobj=stream) as archive:
            for member in archive:
                path = member.name.removeprefix("./").rstrip("/")
                if path in ("", "."):
                    continue
                assert "/.wh." not in f"/{path}", "nothing is deleted by a later layer"
                nodes[path] = nodes[member.linkname.removeprefix("./")] if member.islnk() else _node(archive, member)
    return nodes


def _node(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Node:
    content = archive.extractfile(member) if member.isreg() else None
    return Node(
        kind=member.type.decode().replace("\0", "0"),
        mode=member.mode & 0o7777 if not member.issym() else 0o777,
        owner=(member.uid, member.gid),
        target=member.linkname,
        content=hashlib.sha256(content.read()).hexdigest() if content is not None else "",
        attributes=tuple(
            sorted((key, value) for key, value in member.pax_headers.items() if key.startswith("SCHILY.xattr."))
        ),
    )


def _links(layers: Any) -> set[frozenset[str]]:
    """Groups of names of one file."""
    groups: dict[str, set[str]] = {}
    for stream in layers:
        with stream, tarfile.open(fileobj=stream) as archive:
            for member in archive:
                if member.islnk():
                    target = member.linkname.removeprefix("./")
                    groups.setdefault(target, {target}).add(member.name.removeprefix("./"))
    return {frozenset(names) for names in groups.values()}
