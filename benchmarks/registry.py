"""Pushing: what the registry lacks of an image, the first push, and what twenty locks weigh in a registry.

The registry is Debian's docker-registry on loopback, on the same disk: what is measured is the pusher and the registry,
not a network. The peer is ``docker push`` of the same layers.
"""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.cases import ENVBUILD, EXAMPLE, call, image_of
from benchmarks.measure import Case
from tests.support.registry import Registry, running_registry

_EXTRAS = (
    "attrs", "blinker", "boltons", "cachetools", "click", "colorama", "tomlkit", "filelock", "humanize", "iniconfig",
    "itsdangerous", "more-itertools", "networkx", "pluggy", "pyparsing", "rich", "sortedcontainers", "tabulate",
    "toolz", "tqdm",
)  # fmt: skip
"""Each of the twenty locks has one of them besides the example's packages."""


def known(folder: Path) -> tuple[str, list[Case]]:
    """An image of which the registry has all but what one more small package changes."""
    registry = _registry(folder)
    _project(folder / "base", "bench-push-base")
    call(ENVBUILD, "push", f"{registry.host}/team/image:base", cwd=folder / "base")
    by_docker = f"{registry.host}/team/docker"
    _docker_push(folder / "base", f"{by_docker}:base")
    _project(folder / "changed", "bench-push-changed", "tabulate")
    _docker_tag(folder / "changed", f"{by_docker}:changed")
    before = _backup(registry, folder / "before")
    sent = _pushed(folder / "changed", f"{registry.host}/team/image:changed")
    total = _size(folder / "changed", f"{registry.host}/team/image:changed")
    share = 100 * sent / total
    title = f"push, framework layers in the registry: {sent / 1e6:.1f} MB of {total / 1e6:,.0f} MB sent ({share:.1f} %)"
    return title, [
        Case(
            name="envbuild push",
            command=[ENVBUILD, "push", f"{registry.host}/team/image:changed"],
            cwd=folder / "changed",
            prepare=before,
        ),
        Case(name="docker push", command=["docker", "push", f"{by_docker}:changed"], cwd=folder, prepare=before),
    ]


def first(folder: Path) -> tuple[str, list[Case]]:
    """The example's image into an empty registry."""
    registry = _registry(folder)
    _project(folder / "base", "bench-push-base")
    by_docker = f"{registry.host}/team/docker:base"
    _docker_tag(folder / "base", by_docker)

    def empty() -> None:
        shutil.rmtree(registry.folder / "docker", ignore_errors=True)

    return "first push of the example's image into an empty registry", [
        Case(
            name="envbuild push",
            command=[ENVBUILD, "push", f"{registry.host}/team/image:base"],
            cwd=folder / "base",
            prepare=empty,
        ),
        Case(name="docker push (gzip)", command=["docker", "push", by_docker], cwd=folder, prepare=empty, runs=2),
    ]


def twenty(folder: Path) -> tuple[str, list[Case]]:
    """Twenty locks that share a framework, each with one more package, in one registry."""
    registry = _registry(folder)
    alone = 0
    for number, extra in enumerate(_EXTRAS):
        project = folder / str(number)
        _project(project, f"bench-push-{number}", extra)
        target = f"{registry.host}/team/{number}"
        call(ENVBUILD, "push", f"{target}:1", cwd=project)
        alone += _size(project, f"{target}:1")
    stored = registry.blob_bytes
    weights = f"{stored / 1e9:.2f} GB in the registry, {alone / 1e9:.2f} GB as separate images"
    title = f"20 locks sharing TensorFlow: {weights}"
    return title, [
        Case(name="push again, nothing to do", command=[ENVBUILD, "push", f"{target}:1"], cwd=project),
    ]


BENCHMARKS: dict[str, Callable[[Path], tuple[str, list[Case]]]] = {
    "push-known": known,
    "push-first": first,
    "push-twenty": twenty,
}


def _registry(folder: Path) -> Registry:
    """Start a registry that ends with this process, and takes its blobs with it."""
    stack = ExitStack()
    registry = stack.enter_context(running_registry(folder / "registry"))
    atexit.register(stack.close)
    return registry


def _project(folder: Path, name: str, *extras: str) -> None:
    """Lock the example under another name, perhaps with one more package."""
    folder.mkdir()
    spec = (EXAMPLE / "spec.yaml").read_text()
    wanted = "".join(f"{extra}, " for extra in extras)
    spec = spec.replace("name: digits", f"name: {name}").replace("requirements: [", f"requirements: [{wanted}")
    (folder / "spec.yaml").write_text(spec)
    call(ENVBUILD, "lock", "spec.yaml", cwd=folder)


def _pushed(folder: Path, target: str) -> int:
    """Push; returns the bytes sent."""
    return int(json.loads(call(ENVBUILD, "push", target, "--json", cwd=folder))["bytes"])


def _size(folder: Path, target: str) -> int:
    """Bytes of all layers of an image in the registry."""
    table: dict[str, Any] = json.loads(call(ENVBUILD, "inspect", target, "--json", cwd=folder))
    return int(table["size"])


def _docker_push(folder: Path, target: str) -> None:
    """Push the built image with docker."""
    _docker_tag(folder, target)
    call("docker", "push", target, cwd=folder)


def _docker_tag(folder: Path, target: str) -> None:
    """Build, and give the image a name in the registry; both names go with this process."""
    image = image_of(folder)
    call("docker", "tag", image, target, cwd=folder)
    atexit.register(subprocess.run, ["docker", "rmi", image, target], capture_output=True, check=False)


def _backup(registry: Registry, kept: Path) -> Callable[[], None]:
    """Return what brings the registry back to how it is now: files that came later go."""
    before = {path.relative_to(registry.folder) for path in registry.folder.rglob("*")}

    def restore() -> None:
        for path in sorted(registry.folder.rglob("*"), reverse=True):
            if path.relative_to(registry.folder) not in before and path.name != "log":
                path.rmdir() if path.is_dir() else path.unlink()

    return restore
