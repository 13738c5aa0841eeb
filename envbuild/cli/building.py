"""``fetch``, ``build`` and ``context``: files into the store, the store into an image, the image into an engine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbuild import lock as locks
from envbuild.cli.console import Console, human_bytes, plural
from envbuild.errors import LockError, NotReproducibleError, UsageError
from envbuild.files import atomic_write
from envbuild.project import find_lock
from envbuild.store import Store

if TYPE_CHECKING:
    from envbuild.engine.protocol import Engine
    from envbuild.image.assemble import Built
    from envbuild.netconfig import NetworkConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOptions:
    """Options of ``build`` and ``context``."""

    output: str | None = None
    offline: bool = False
    sources: tuple[Path, ...] = ()


def open_lock(path: Path | None) -> tuple[Path, locks.Lock]:
    """Load a lock: the named one, or the one found upward from here.

    Raises:
        LockError: there is none, it is invalid, or the spec beside it has changed since.
    """
    found = find_lock(Path.cwd()) if path is None else path
    lock = locks.load(found)
    refuse_stale(found, lock)
    return found, lock


def refuse_stale(path: Path, lock: locks.Lock) -> None:
    """Raise ``LockError`` if the spec or a requirements file beside the lock is not what the lock was made from.

    Where the spec is not there at all, as in an image or a CI job that has the lock only, there is nothing to compare.
    """
    from envbuild.cli.locking import LockOptions, resolution_inputs, stale_inputs
    from envbuild.errors import SpecError
    from envbuild.spec import load_spec

    specs = [path.parent / name for name in lock.resolution if name.endswith((".yaml", ".yml"))]
    for spec_path in specs:
        if not spec_path.is_file():
            continue
        try:
            found = resolution_inputs(load_spec(spec_path), spec_path, LockOptions())
        except SpecError as error:
            raise LockError(f"{path.name} cannot be compared with its spec\n{error.message}", error.hint) from None
        locked = {name: value for name, value in lock.resolution.items() if not name.startswith("--")}
        if stale := stale_inputs(locked, found):
            lines = "\n".join(f"  {line}" for line in stale)
            raise LockError(f"{path.name} is stale\n{lines}", f"lock again: envbuild lock {spec_path.name}")


def fetch_files(path: Path | None, vendor: Path | None, sources: Sequence[Path], console: Console) -> None:
    """Bring all files of a lock into the store, and into a folder if asked for."""
    from envbuild import vendor as vendoring

    _, lock = open_lock(path)
    store = Store()
    ensure_files(lock, store, sources, offline=False, console=console)
    if vendor is not None:
        written = vendoring.vendor(lock, store, vendor, console)
        console.line("vendor", str(vendor), plural(written.written + written.kept, "file"))
    console.result({"lock": lock.file_name, "store": str(store.root), "vendor": str(vendor) if vendor else None})


def ensure_files(lock: locks.Lock, store: Store, folders: Sequence[Path], *, offline: bool, console: Console) -> None:
    """Fetch what the store lacks; asks no index when it lacks nothing."""
    from envbuild.fetch import fetch, lock_items
    from envbuild.netconfig import network_config
    from envbuild.vendor import vendored_sources

    items = lock_items(lock)
    missing = {item.sha256 for item in items if not store.has(item.sha256, item.size)}
    if not missing:
        console.detail(f"fetch: {plural(len(items), 'file')} in the store already")
        return
    network = network_config(offline=offline)
    mappings: list[Mapping[str, Sequence[str]]] = [vendored_sources(lock, folder) for folder in folders]
    held = {sha256 for mapping in mappings for sha256 in mapping}
    if not offline and missing - held:
        mappings += [_deb_sources(lock), _wheel_sources(lock, store, missing - held, network)]
    result = fetch(lock_items(lock, *mappings), store, console, network)
    console.line(
        "fetch",
        f"{plural(len(items), 'file'):<18}",
        f"{human_bytes(result.bytes):<12}",
        f"{result.rate:.0f} MB/s" if result.bytes else "",
        elapsed=True,
    )
    for warning in result.warnings:
        console.line("note", warning)


def build_image(path: Path | None, options: BuildOptions, console: Console) -> dict[str, Any]:
    """Assemble a lock's image and load it, or write it to a file; returns what is recorded beside the lock.

    Raises:
        NotReproducibleError: the image is not the one recorded beside the lock.
    """
    found, lock = open_lock(path)
    if options.output is not None:
        built = assemble_image(lock, options, None, console)
        _write_output(built, lock, options.output)
        return _finish(found, lock, built, console)
    engine = _connect()
    recorded = read_identity(found, lock)
    if recorded and (held := engine.find_image(recorded["reference"])) and held.config == recorded["config"]:
        console.line("image", lock.name, f"sha256:{held.config[:12]}…", "nothing to do", elapsed=True)
        console.result(recorded)
        return recorded
    built = assemble_image(lock, options, engine, console)
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


def assemble_image(lock: locks.Lock, options: BuildOptions, engine: Engine | None, console: Console) -> Built:
    """Make a lock's image from the store, fetching what is missing first."""
    from envbuild.image.assemble import assemble
    from envbuild.image.plan import plan
    from envbuild.image.rootfs import build_os_layer
    from envbuild.resolve import sharedlibs

    store = Store()
    ensure_files(lock, store, options.sources, offline=options.offline, console=console)
    planned = plan(lock)
    built = assemble(
        planned,
        lock,
        cache=store,
        runner=engine or _connect(),
        build_os=lambda output: build_os_layer(lock.os, store.path, engine or _connect(), output, console),
        progress=console,
        check=sharedlibs.checker(lock, store.cache_dir("libraries"), _package_finder(lock, store, options)),
    )
    for layer in built.layers:
        state = "reused" if layer.reused else "built"
        console.detail(f"{layer.title:<42}{human_bytes(layer.layer.size):>10}  {state}")
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

    _, lock = open_lock(path)
    store = Store()
    ensure_files(lock, store, options.sources, offline=options.offline, console=console)
    write_context(render(lock), store.path, folder, console)
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


def _deb_sources(lock: locks.Lock) -> Mapping[str, Sequence[str]]:
    from envbuild.resolve.debian import deb_urls

    return deb_urls(lock.os)


def _wheel_sources(
    lock: locks.Lock, store: Store, missing: set[str], network: NetworkConfig
) -> Mapping[str, Sequence[str]]:
    """Return where the missing wheels are: remembered from locking, else the indexes are asked."""
    from envbuild.resolve.python import wheel_urls
    from envbuild.resolve.wheels import Target

    wanted = [package for package in lock.packages if package.wheel.sha256 in missing]
    folder = store.cache_dir("locations")
    known: dict[str, Sequence[str]] = {}
    for package in wanted:
        place = folder / package.wheel.sha256
        if place.is_file():
            known[package.wheel.sha256] = place.read_text().splitlines()
    unknown = [package for package in wanted if package.wheel.sha256 not in known]
    target = Target(python=lock.python.version, platform=lock.python.platform)
    return {**known, **wheel_urls(unknown, target)}


def _package_finder(lock: locks.Lock, store: Store, options: BuildOptions) -> Callable[[str], Sequence[str]] | None:
    """Return what names the OS packages that ship a library; None offline, since it reads the archive's index."""
    if options.offline or not lock.os.packages:
        return None
    from envbuild.resolve.debian import OsRequest
    from envbuild.resolve.debian_contents import package_for_library

    request = OsRequest(
        release=lock.os.release, architecture=lock.os.architecture, packages=(), snapshot=lock.os.snapshot
    )
    return lambda soname: package_for_library(soname, request, store.cache_dir("debian"))


def _connect() -> Engine:
    from envbuild.engine.docker import connect

    return connect()
