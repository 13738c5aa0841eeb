"""``build`` and ``context``: the store into an image, the image into an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from envbuild.cli.console import Console
from envbuild.cli.engines import step_runner
from envbuild.core.digest import sha256_bytes, sha256_json
from envbuild.core.text import human_bytes, plural
from envbuild.image.record import (
    ImageRecord,
    check_reproduced,
    expected_layers,
    image_tag,
    is_recorded,
    make_image_record,
    read_image_record,
    write_image_record,
)
from envbuild.lockfile import model as locks
from envbuild.operations.export import parse_target
from envbuild.operations.fetch import ensure_files, heal_corrupt_layers, heal_corrupt_objects
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.store import leases
from envbuild.store.objects import Store
from envbuild.store.roots import note_lock

if TYPE_CHECKING:
    from envbuild.engine.protocol import Delivered, Engine, Step, StepRunner
    from envbuild.image.assemble import Built
    from envbuild.image.delivery import Loading
    from envbuild.image.plan.model import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOptions:
    """Options of ``build`` and ``context``."""

    output: str | None = None
    offline: bool = False
    sources: tuple[Path, ...] = ()


Verify = Callable[[LoadedLock, BuildOptions, "Engine | None", ImageRecord, Console], None]
"""Checks an image that was built, given the engine that holds it and what is recorded of it."""


def build_image(
    path: Path | None, options: BuildOptions, console: Console, verify: Verify | None = None
) -> ImageRecord:
    """Assemble a lock's image and load it, or write it to a file; returns what is recorded beside the lock.

    Raises:
        NotReproducibleError: the image is not the one recorded beside the lock, or ``verify`` found it to be another.
    """
    from envbuild.image.delivery import Loading
    from envbuild.image.plan.model import plan

    target = None if options.output is None else parse_target(options.output)
    opened = load_lock(path)
    lock, planned = opened.lock, plan(opened.lock)
    recipe = recipe_of(lock, planned)
    recorded = read_image_record(opened.path, lock)
    engine = _connect() if target is None else None
    if engine is not None and _is_there(engine, recorded, recipe):
        assert recorded is not None  # noqa: S101 - or it would not be there
        note_lock(Store(), opened.path, lock)
        console.line("image", lock.name, f"sha256:{recorded.config[:12]}…", "nothing to do", elapsed=True)
        if verify is not None:
            verify(opened, options, engine, recorded, console)
        console.result(recorded.as_dict())
        return recorded
    expected = expected_layers(recorded, planned, recipe)
    delivery = Loading(engine, image_tag(lock), planned, console, expected) if engine is not None else nullcontext()
    with heal_corrupt_layers(Store(), console), delivery as loading:
        built = assemble_image(opened, options, engine, console, loading)
        identity = make_image_record(lock, built.image, recipe)
        check_reproduced(opened.path, recorded, identity)
        if target is not None:
            target.write(built.image, image_tag(lock))
        if loading is not None and engine is not None:
            delivered = loading.finish(built.image)
            console.line(
                "load", f"{engine.describe().get('name', 'engine'):<18}", *_said(built, delivered, loading.seconds)
            )
            if delivered.why:
                console.detail(f"loaded, since the engine cannot pull from this process: {delivered.why}")
    write_image_record(opened.path, identity)
    store = Store()
    note_lock(store, opened.path, lock, [name for name in leases.names_used(store.root) if "/" in name])
    _report(built, lock, recorded == identity, console)
    if verify is not None:
        verify(opened, options, engine, identity, console)
    console.result(identity.as_dict())
    return identity


def _said(built: Built, delivered: Delivered, seconds: float) -> tuple[str, ...]:
    """What the engine got: how much, after how long a wait, and what it held already."""
    sent = sum(blob.layer.size for blob in built.image.layers if blob.layer.diff_id in delivered.sent)
    held = sum(blob.layer.diff_id not in delivered.sent for blob in built.image.layers)
    kept = f"{held} of {plural(len(built.layers), 'layer')} held already" if held else ""
    return human_bytes(sent), f"{seconds:.1f} s more", kept


def recipe_of(lock: locks.Lock, planned: Plan) -> str:
    """Return the digest of all that decides an image: the lock, and envbuild's own code inside and outside it."""
    from envbuild.image.runtime import files

    inside = {path: sha256_bytes(data) for path, data in files.runtime_sources().items()}
    inside |= {path: sha256_bytes(file.data) for path, file in files.runtime_files(lock).items()}
    return sha256_json([[layer.key for layer in planned.layers], inside])


def _is_there(engine: Engine, recorded: ImageRecord | None, recipe: str) -> bool:
    """Whether the engine holds the recorded image, and nothing that decides it has changed since."""
    if recorded is None or recorded.recipe != recipe:
        return False
    return is_recorded(engine.find_image(recorded.reference), recorded)


def assemble_image(
    opened: LoadedLock,
    options: BuildOptions,
    engine: Engine | None,
    console: Console,
    loading: Loading | None = None,
    *,
    anew: Store | None = None,
) -> Built:
    """Make a lock's image from the store, fetching what is missing; ``anew``: of its files alone, nothing kept."""
    from envbuild.image.assemble import assemble
    from envbuild.image.bytecode.interpreter import interpreter_of
    from envbuild.image.os.rootfs import build_os_layer
    from envbuild.image.plan.model import plan
    from envbuild.resolve.libraries import closure

    lock, store = opened.lock, anew or Store()
    steps = _Steps(engine, store, console, fresh=anew is not None)
    ensure_files(opened, store, options.sources, offline=options.offline, events=console)
    with heal_corrupt_objects(lock, store, console):
        built = assemble(
            plan(lock),
            lock,
            cache=loading.watching(store) if loading else store,
            runner=steps,
            build_os=lambda output: build_os_layer(lock.os, store.path, steps, output, console),
            progress=console,
            check=closure.checker(lock, store.cache_dir("libraries"), _package_finder(opened, store, options)),
            ready=loading.ready if loading else (lambda index, blob: None),
            interpreter=interpreter_of(lock, store.path),
        )
    for layer in built.layers:
        state = "reused" if layer.reused else "built"
        console.detail(f"{layer.title:<42}{human_bytes(layer.layer.size):>10}  {state}")
    for path, (loser, winner) in sorted(built.replaced.items()):
        console.line("note", f"/{path.lstrip('/')} of {loser} is replaced by that of {winner}")
    return built


class _Steps:
    """What runs build steps, looked for with the first one: where all layers are kept, none is needed."""

    def __init__(self, engine: Engine | None, store: Store, console: Console, *, fresh: bool) -> None:
        self._runner: StepRunner | None = engine
        self._store, self._console = store, console
        self._fresh = fresh

    def run_step(self, step: Step) -> AbstractContextManager[BinaryIO]:
        """Run a step."""
        self._runner = self._runner or step_runner(self._store, self._console)
        return self._runner.run_step(replace(step, fresh=self._fresh))


def write_docker_context(folder: Path, path: Path | None, options: BuildOptions, console: Console) -> None:
    """Write a Dockerfile with everything it needs."""
    from envbuild.image.dockerfile import render, write_context

    opened, store = load_lock(path), Store()
    ensure_files(opened, store, options.sources, offline=options.offline, events=console)
    with heal_corrupt_objects(opened.lock, store, console):
        write_context(render(opened.lock), store.path, folder, console)
    console.line("context", str(folder), elapsed=True)
    console.line("next", f"docker build --network=none {folder}")


def _report(built: Built, lock: locks.Lock, reproduced: bool, console: Console) -> None:
    """Say what was built."""
    size = sum(layer.layer.size for layer in built.layers)
    made = f"{human_bytes(size)} in {plural(len(built.layers), 'layer')}"
    said = "(reproduces the recorded digest)" if reproduced else ""
    console.line("image", lock.name, f"sha256:{built.image.config_digest[:12]}…", made, said, elapsed=True)


def _package_finder(opened: LoadedLock, store: Store, options: BuildOptions) -> Callable[[str], Sequence[str]] | None:
    """Return what names the OS packages that ship a library; None offline, since it reads the archive's index."""
    system = opened.lock.os
    if options.offline or not system.packages:
        return None
    from envbuild.resolve.debian.closure import OsRequest
    from envbuild.resolve.debian.contents import package_for_library

    request = OsRequest(
        release=system.release,
        architecture=system.architecture,
        packages=(),
        snapshot=system.snapshot,
        mirror=opened.mirror,
    )
    return lambda soname: package_for_library(soname, request, store.cache_dir("debian"))


def _connect() -> Engine:
    from envbuild.engine.docker.adapter import connect

    return connect()
