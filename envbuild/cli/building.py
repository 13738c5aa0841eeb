"""``build`` and ``context``: the store into an image, the image into an engine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbuild import lock as locks
from envbuild.cli.console import Console, human_bytes, plural
from envbuild.cli.fetching import ensure_files, naming_damaged_files
from envbuild.cli.opening import Opened, open_lock
from envbuild.errors import NotReproducibleError, UsageError
from envbuild.files import atomic_write
from envbuild.store import Store

if TYPE_CHECKING:
    from envbuild.engine.protocol import Engine
    from envbuild.image.assemble import Built


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOptions:
    """Options of ``build`` and ``context``."""

    output: str | None = None
    offline: bool = False
    sources: tuple[Path, ...] = ()


def build_image(path: Path | None, options: BuildOptions, console: Console) -> dict[str, Any]:
    """Assemble a lock's image and load it, or write it to a file; returns what is recorded beside the lock.

    Raises:
        NotReproducibleError: the image is not the one recorded beside the lock.
    """
    opened = open_lock(path)
    found, lock = opened.path, opened.lock
    if options.output is not None:
        built = assemble_image(opened, options, None, console)
        _write_output(built, lock, options.output)
        return _finish(found, lock, built, console)
    engine = _connect()
    recorded = read_identity(found, lock)
    if recorded and (held := engine.find_image(recorded["reference"])) and held.config == recorded["config"]:
        console.line("image", lock.name, f"sha256:{held.config[:12]}…", "nothing to do", elapsed=True)
        console.result(recorded)
        return recorded
    built = assemble_image(opened, options, engine, console)
    began = time.monotonic()
    tag = image_tag(lock)
    load(built, tag, engine)
    console.line("load", f"{engine.describe().get('name', 'engine'):<18}", f"{time.monotonic() - began:.1f} s")
    return _finish(found, lock, built, console)


def image_tag(lock: locks.Lock) -> str:
    """Return the tag an image gets in an engine: its name, and enough of its lock's digest to tell locks apart."""
    return f"envbuild/{lock.name}:{locks.lock_digest(lock)[:12]}"


def identity_path(path: Path) -> Path:
    """Return the file beside a lock that holds the image's digests."""
    return path.with_suffix(".image.json")


def read_identity(path: Path, lock: locks.Lock) -> dict[str, Any] | None:
    """Return what is recorded beside the lock about its image, or None if nothing is, or if it is of another lock."""
    try:
        recorded = json.loads(identity_path(path).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(recorded, dict) or recorded.get("lock") != locks.lock_digest(lock):
        return None
    return recorded


def assemble_image(opened: Opened, options: BuildOptions, engine: Engine | None, console: Console) -> Built:
    """Make a lock's image from the store, fetching what is missing first."""
    from envbuild.image.assemble import assemble
    from envbuild.image.plan import plan
    from envbuild.image.rootfs import build_os_layer
    from envbuild.resolve import sharedlibs

    lock, store = opened.lock, Store()
    ensure_files(opened, store, options.sources, offline=options.offline, console=console)
    with naming_damaged_files(lock, store, console):
        built = assemble(
            plan(lock),
            lock,
            cache=store,
            runner=engine or _connect(),
            build_os=lambda output: build_os_layer(lock.os, store.path, engine or _connect(), output, console),
            progress=console,
            check=sharedlibs.checker(lock, store.cache_dir("libraries"), _package_finder(opened, store, options)),
        )
    for layer in built.layers:
        state = "reused" if layer.reused else "built"
        console.detail(f"{layer.title:<42}{human_bytes(layer.layer.size):>10}  {state}")
    for path, (loser, winner) in sorted(built.replaced.items()):
        console.line("note", f"/{path.lstrip('/')} of {loser} is replaced by that of {winner}")
    return built


def load(built: Built, tag: str, engine: Engine) -> None:
    """Send an image to the engine, without the layers it holds already."""
    from envbuild.image.oci import docker_archive

    chain = tuple(blob.layer.diff_id for blob in built.image.layers)
    shared = 0
    for held in engine.held_layers():
        common = 0
        while common < min(len(held), len(chain)) and held[common] == chain[common]:
            common += 1
        shared = max(shared, common)
    engine.load(docker_archive(built.image, tag, skip=set(chain[:shared])))


def write_docker_context(folder: Path, path: Path | None, options: BuildOptions, console: Console) -> None:
    """Write a Dockerfile with everything it needs."""
    from envbuild.image.dockerfile import render, write_context

    opened, store = open_lock(path), Store()
    ensure_files(opened, store, options.sources, offline=options.offline, console=console)
    with naming_damaged_files(opened.lock, store, console):
        write_context(render(opened.lock), store.path, folder, console)
    console.line("context", str(folder), elapsed=True)
    console.line("next", f"docker build --network=none {folder}")


def _write_output(built: Built, lock: locks.Lock, output: str) -> None:
    from envbuild.image.oci import write_layout_dir, write_tar

    scheme, _, place = output.partition(":")
    if scheme != "oci" or not place:
        raise UsageError(f"--output {output}: expected oci:DIR or oci:FILE.tar", "e.g. --output oci:image.tar")
    write = write_tar if place.endswith(".tar") else write_layout_dir
    write(built.image, image_tag(lock), Path(place))


def _finish(path: Path, lock: locks.Lock, built: Built, console: Console) -> dict[str, Any]:
    """Compare with the recorded digest, record, and say so."""
    image = built.image
    recorded = read_identity(path, lock)
    if recorded and recorded["config"] != image.config_digest:
        raise NotReproducibleError(
            f"the image is not the one recorded in {identity_path(path).name}\n"
            f"  recorded  sha256:{recorded['config']}\n  built     sha256:{image.config_digest}",
            "compare both with diffoscope, and report it: the same lock must give the same image",
        )
    identity = {
        "config": image.config_digest,
        "image": f"sha256:{image.config_digest}",
        "layout": lock.layout,
        "lock": locks.lock_digest(lock),
        "manifest": image.manifest_digest,
        "reference": image_tag(lock),
    }
    atomic_write(identity_path(path), (json.dumps(identity, indent=2, sort_keys=True) + "\n").encode())
    size = sum(layer.layer.size for layer in built.layers)
    said = "(reproduces the recorded digest)" if recorded else ""
    made = f"{human_bytes(size)} in {plural(len(built.layers), 'layer')}"
    console.line("image", lock.name, f"sha256:{image.config_digest[:12]}…", made, said, elapsed=True)
    console.result(identity)
    return identity


def _package_finder(opened: Opened, store: Store, options: BuildOptions) -> Callable[[str], Sequence[str]] | None:
    """Return what names the OS packages that ship a library; None offline, since it reads the archive's index."""
    system = opened.lock.os
    if options.offline or not system.packages:
        return None
    from envbuild.resolve.debian import OsRequest
    from envbuild.resolve.debian_contents import package_for_library

    request = OsRequest(
        release=system.release,
        architecture=system.architecture,
        packages=(),
        snapshot=system.snapshot,
        mirror=opened.mirror,
    )
    return lambda soname: package_for_library(soname, request, store.cache_dir("debian"))


def _connect() -> Engine:
    from envbuild.engine.docker import connect

    return connect()
