"""The digests of the images that pipelines run in, moved to what their tags name today: ``python -m tools.ci_images``.

A digest is that of the index of all platforms. Asks the registry of each image; needs a network.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from envbuild.net.config import network_config
from envbuild.registry.reference import Reference
from envbuild.registry.repository import Repository

ROOT = Path(__file__).parents[1]
PINNED = re.compile(r"(?P<name>\b[a-z]+):(?P<tag>[\w.-]+)@sha256:(?P<digest>[0-9a-f]{64})")


def files() -> list[Path]:
    """Return the files that name images: this repository's workflows and the templates of ``envbuild ci``."""
    return [*sorted((ROOT / ".github/workflows").glob("*.yml")), *sorted((ROOT / "templates/ci").glob("*.yml"))]


def moved(text: str, resolve: Callable[[str, str], str]) -> str:
    """Return a text with the digest of each pinned image replaced by the one that its tag has now."""
    return PINNED.sub(
        lambda found: f"{found['name']}:{found['tag']}@sha256:{resolve(found['name'], found['tag'])}", text
    )


def main() -> None:
    """Rewrite the files, and print what moved."""
    known: dict[tuple[str, str], str] = {}

    def resolve(name: str, tag: str) -> str:
        if (name, tag) not in known:
            known[name, tag] = _digest(name, tag)
            print(f"{name}:{tag}@sha256:{known[name, tag]}")
        return known[name, tag]

    for path in files():
        path.write_text(moved(path.read_text(), resolve))


def _digest(name: str, tag: str) -> str:
    reference = Reference(registry="docker.io", repository=f"library/{name}", tag=tag)
    with Repository(reference, network_config()) as repository:
        manifest = repository.manifest(tag)
    if manifest is None:
        raise SystemExit(f"no image {name}:{tag}")
    return manifest.digest


if __name__ == "__main__":
    main()
