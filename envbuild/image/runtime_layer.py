"""The topmost layer: guard, hook and lock, with the bytecode of envbuild's own modules. Made for every lock, small."""

from __future__ import annotations

from pathlib import Path

from envbuild.core.blob import FileBlob
from envbuild.core.digest import sha256_bytes, sha256_json
from envbuild.image.bytecode.layer import read_archive
from envbuild.image.layer_cache import Cache, Layers, Target
from envbuild.image.plan.model import Plan, bytecode_key
from envbuild.image.python.environment import Made, pack_tree
from envbuild.image.runtime import files as runtime
from envbuild.image.tar.layer import Layer
from envbuild.lockfile import layout
from envbuild.lockfile.model import Lock

BYTECODE = "bytecode.tar"
"""What a kept group's folder holds."""


def make_runtime(plan: Plan, lock: Lock, cache: Cache, layers: Layers) -> FileBlob:
    """Make the topmost layer; the bytecode of its modules must be there.

    Args:
        layers: takes it.
    """
    kept = cache.derived("bytecode", runtime_key(plan))
    assert kept is not None  # noqa: S101 - compiled just now, or before
    bytecode = read_archive(kept / BYTECODE)
    files = {path: Made(data=data) for path, data in bytecode.items()}
    for name, file in runtime.runtime_files(lock).items():
        files[name.lstrip("/")] = Made(data=file.data, mode=file.mode)
    listing = {path: [sha256_bytes(file.data), file.mode] for path, file in files.items()}
    key = sha256_json({"kind": "runtime", "layout": layout.VERSION, "files": listing})

    def pack(target: Target) -> Layer:
        with target.open() as stream:
            return pack_tree(stream, files, [layout.WORKSPACE.lstrip("/")], "the runtime layer")

    return layers.make(key, pack)


def runtime_key(plan: Plan) -> str:
    """Return the cache key of the bytecode of envbuild's own modules in the image."""
    modules = {path: sha256_bytes(data) for path, data in runtime_modules().items()}
    return bytecode_key(plan, sha256_json(modules))


def adopt_runtime(plan: Plan, lock: Lock, cache: Cache, top: Path) -> None:
    """Take the bytecode of envbuild's own modules from the topmost layer of an image whose digest is known.

    Args:
        top: the layer's tar, its digest checked.
    """
    own = {name.lstrip("/") for name in runtime.runtime_files(lock)}
    found = {path: Made(data=data) for path, data in read_archive(top).items() if path not in own}

    def make(folder: Path) -> None:
        with (folder / BYTECODE).open("wb") as stream:
            pack_tree(stream, found, [], "the runtime's bytecode")

    cache.derive("bytecode", runtime_key(plan), make)


def runtime_modules() -> dict[str, bytes]:
    """Return envbuild's own modules in the image by path relative to ``/``."""
    return {path.lstrip("/"): data for path, data in runtime.runtime_sources().items()}
