"""What ``build``, ``context`` and ``image`` found, as lines for people and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envbuild.cli.render.events import Line
from envbuild.core.text import human_bytes, plural
from envbuild.operations.build import DockerContext
from envbuild.operations.image import ImageWeight

_NAMED = 3
"""So many locks that share a layer are named in a line; the JSON names all."""


def context_lines(result: DockerContext) -> Iterator[Line]:
    """Yield where the context is, and the command that builds it."""
    yield Line("context", (str(result.folder),), elapsed=True)
    yield Line("next", (f"docker build --network=none {result.folder}",))


def weight_lines(result: ImageWeight) -> Iterator[Line]:
    """Yield layers from bottom to top, then what all of them weigh."""
    for layer in result.layers:
        digest, shared = f"sha256:{layer.digest[:12]}…", _shared(layer.shared_with)
        columns = f"{layer.files:>8,}", f"{layer.title:<44}", digest, shared
        yield Line(f"{human_bytes(layer.bytes):>8}", columns)
    counts = f"{plural(result.files, 'file')} in {plural(len(result.layers), 'layer')}"
    name = result.loaded.lock.name
    yield Line(f"{human_bytes(result.bytes):>8}", (f"{name}: {counts}, config sha256:{result.config[:12]}…",))


def weight_json(result: ImageWeight) -> dict[str, Any]:
    """Return the result of ``image`` as JSON values."""
    return {
        "config": f"sha256:{result.config}",
        "files": result.files,
        "layers": [
            {
                "digest": f"sha256:{layer.digest}",
                "files": layer.files,
                "kind": layer.kind,
                "shared-with": list(layer.shared_with),
                "size": layer.bytes,
                "title": layer.title,
            }
            for layer in result.layers
        ],
        "lock": result.loaded.lock.file_name,
        "manifest": f"sha256:{result.manifest}",
        "size": result.bytes,
    }


def _shared(names: Sequence[str]) -> str:
    """Name a few of the locks that share a layer, and how many more do."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"shared with {', '.join(names[:_NAMED])}{more}" if names else ""
