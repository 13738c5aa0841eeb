"""``image``: what each layer of an image weighs, from the lock and the store alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from envbuild.cli.console import Console
from envbuild.core.progress import Silent
from envbuild.core.text import human_bytes, plural
from envbuild.errors import BuildError
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.engine.protocol import Step
    from envbuild.image.assemble import Built
    from envbuild.image.plan.model import Plan
    from envbuild.image.tar.layer import Layer

_NAMED = 3
"""So many locks that share a layer are named in a line; the JSON names all."""


def show_image(path: Path | None, console: Console) -> None:
    """Print layers from bottom to top: bytes, files, title, digest, and the other locks that share it.

    Raises:
        BuildError: some layers are not in the store.
    """
    from envbuild.image.oci.count import count_files
    from envbuild.image.plan.model import plan

    opened, store = load_lock(path), Store()
    planned = plan(opened.lock)
    built = _from_store(opened, planned, store)
    sharing = _sharing(opened, store)
    layers: list[dict[str, Any]] = [
        {
            "digest": f"sha256:{made.layer.diff_id}",
            "files": count_files(blob.path),
            "kind": made.kind,
            "shared-with": sharing.get(spec.key, []),
            "size": made.layer.size,
            "title": made.title,
        }
        for spec, made, blob in zip(planned.layers, built.layers, built.image.layers, strict=True)
    ]
    for layer in layers:
        console.line(
            f"{human_bytes(layer['size']):>8}",
            f"{layer['files']:>8,}",
            f"{layer['title']:<44}",
            f"{layer['digest'][:19]}…",
            _shared(layer["shared-with"]),
        )
    size, files = sum(layer["size"] for layer in layers), sum(layer["files"] for layer in layers)
    said = f"{plural(files, 'file')} in {plural(len(layers), 'layer')}"
    console.line(
        f"{human_bytes(size):>8}", f"{opened.lock.name}: {said}, config sha256:{built.image.config_digest[:12]}…"
    )
    console.result(_document(opened, built, layers, size, files))


def _shared(names: Sequence[str]) -> str:
    """Name a few of the locks that share a layer, and how many more do."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"shared with {', '.join(names[:_NAMED])}{more}" if names else ""


def _document(opened: LoadedLock, built: Built, layers: list[dict[str, Any]], size: int, files: int) -> dict[str, Any]:
    return {
        "config": f"sha256:{built.image.config_digest}",
        "files": files,
        "layers": layers,
        "lock": opened.lock.file_name,
        "manifest": f"sha256:{built.image.manifest_digest}",
        "size": size,
    }


def _from_store(opened: LoadedLock, planned: Plan, store: Store) -> Built:
    """Put the image together from kept layers; only the topmost, a few files, is written if need be."""
    from envbuild.image.assemble import assemble
    from envbuild.image.layer_cache import boot_id, cached_layer
    from envbuild.image.runtime_layer import runtime_key

    name = opened.path.name
    specs = [spec for spec in planned.layers if spec.kind != "runtime"]
    missing = [spec.title for spec in specs if cached_layer(store, spec.key, boot_id()) is None]
    if missing or store.derived("bytecode", runtime_key(planned)) is None:
        what = "".join(f"\n  {title}" for title in missing or [planned.layers[-1].title])
        count = f"{len(missing) or 1} of {plural(len(planned.layers), 'layer')}"
        raise BuildError(f"the store {store.root} lacks {count} of {name}{what}", f"make them: envbuild build {name}")
    return assemble(planned, opened.lock, cache=store, runner=_Nothing(), build_os=_Nothing().build, progress=Silent())


def _sharing(opened: LoadedLock, store: Store) -> dict[str, list[str]]:
    """Names of the other locks whose last build used a layer, by the layer's key; two of one name with their path."""
    from envbuild.store.roots import find_roots

    own = opened.path.resolve()
    entries = [root.lock for root in find_roots(store) if root.state != "gone" and root.lock.place != own]
    names = [entry.name for entry in entries]
    found: dict[str, list[str]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.path)):
        shown = entry.name if names.count(entry.name) == 1 and entry.name != opened.lock.name else entry.path
        for thing in entry.derived:
            kind, _, key = thing.partition("/")
            if kind == "layers":
                found.setdefault(key, []).append(shown)
    return found


class _Nothing:
    """Makes no layer: all of them are there."""

    def run_step(self, step: Step) -> AbstractContextManager[BinaryIO]:
        """Refuse."""
        raise AssertionError(f"{step.base_key} is not needed")

    def build(self, output: Path) -> Layer:
        """Refuse."""
        raise AssertionError(f"{output} is not needed")
