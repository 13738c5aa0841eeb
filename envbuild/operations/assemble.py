"""Assemble a lock's image from the store's files: what ``build``, ``push`` and ``store push --layers`` share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from envbuild.core.digest import sha256_bytes, sha256_json
from envbuild.lockfile.model import Lock
from envbuild.operations.emulation import steps_for
from envbuild.operations.engines import is_local, layer_trees
from envbuild.operations.events import Events, FilesChanged, FilesReplaced, LayerReady, Note
from envbuild.operations.fetch import ensure_files, heal_corrupt_objects, unneeded_emulators
from envbuild.operations.load_lock import LoadedLock
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.engine.local.namespaces import NamespaceSteps
    from envbuild.engine.protocol import Engine, Step, StepRunner, TreeStepRunner
    from envbuild.image.assemble import Built
    from envbuild.image.delivery import Loading
    from envbuild.image.plan.model import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOptions:
    """Where an image's files come from.

    Attributes:
        offline: use the store only.
        sources: folders that ``fetch`` wrote with ``vendor``, tried before any index.
    """

    offline: bool = False
    sources: tuple[Path, ...] = ()


def recipe_of(lock: Lock, planned: Plan) -> str:
    """Return the digest of all that decides an image: the lock, and envbuild's own code inside and outside it."""
    from envbuild.image.runtime import files

    inside = {path: sha256_bytes(data) for path, data in files.runtime_sources().items()}
    inside |= {path: sha256_bytes(file.data) for path, file in files.runtime_files(lock).items()}
    return sha256_json([[layer.key for layer in planned.layers], inside])


def assemble_image(
    loaded: LoadedLock,
    options: BuildOptions,
    engine: Engine | None,
    events: Events,
    loading: Loading | None = None,
    *,
    anew: Store | None = None,
) -> Built:
    """Make a lock's image from the store, fetching what is missing.

    Args:
        engine: runs build steps; None: the one that ``step_runner`` finds. Steps of another architecture than this
            machine's run as ``steps_for`` has it.
        loading: sends layers to an engine as they become ready; for the local engine new layers are made as trees,
            and the files of layers are there only where somebody has wanted them before.
        anew: make it from its files alone, in this store, and reuse no layer.

    Raises:
        IntegrityError: a file could not be fetched, or is corrupt.
        BuildError: a wheel or package is unsound, a shared library is missing, or the disk is full.
        EngineError: the engine does not answer or refuses.
    """
    from envbuild.image.assemble import assemble
    from envbuild.image.bytecode.interpreter import interpreter_of
    from envbuild.image.os.rootfs import build_os_layer
    from envbuild.image.plan.model import plan
    from envbuild.resolve.libraries import closure

    lock, store, configuring = loaded.lock, anew or Store(), threading.Event()
    steps = _Steps(lock, engine, store, fresh=anew is not None)
    ensure_files(
        loaded, store, options.sources, offline=options.offline, events=events, without=unneeded_emulators(lock)
    )
    with heal_corrupt_objects(lock, store, events):
        built = assemble(
            plan(lock),
            lock,
            cache=loading.watching(store) if loading else store,
            runner=steps,
            build_os=lambda output, stream: build_os_layer(
                lock.os, store.path, steps, output, events, stream, steps.in_trees(), configuring.set
            ),
            progress=events,
            check=closure.checker(
                lock,
                store.cache_dir("libraries"),
                _package_finder(loaded, store, options),
                lambda text: events.report(Note(text=text)),
            ),
            ready=loading.ready if loading else (lambda index, blob: None),
            # A standalone Python needs a finished system: what it is linked to may be any package's.
            interpreter=None if lock.python.build else interpreter_of(lock, store.path),
            trees=None if anew else layer_trees(store),
            unpacked=loading is not None and is_local(engine),
            place=steps.in_trees,
            configuring=configuring,
        )
    for layer in built.layers:
        events.report(LayerReady(title=layer.title, bytes=layer.blob.size, reused=layer.reused))
    replaced: dict[tuple[str, str], list[str]] = {}
    for path, wheels in sorted(built.replaced.items()):
        replaced.setdefault(wheels, []).append(f"/{path.lstrip('/')}")
    for (loser, winner), paths in replaced.items():
        events.report(FilesReplaced(paths=tuple(paths), loser=loser, winner=winner))
    for name, members in sorted(built.changed.items()):
        events.report(FilesChanged(wheel=name, files=tuple(members)))
    return built


class _Steps:
    """A step runner that looks for one with the first step: where all layers are kept, none is needed."""

    def __init__(self, lock: Lock, engine: Engine | None, store: Store, *, fresh: bool) -> None:
        self._runner: StepRunner | NamespaceSteps | None = None
        self._lock, self._engine, self._store, self._fresh = lock, engine, store, fresh
        self._looking = threading.Lock()

    def run_step(self, step: Step) -> AbstractContextManager[BinaryIO]:
        """Run a step."""
        return self._found().run_step(msgspec.structs.replace(step, fresh=self._fresh))

    def in_trees(self) -> TreeStepRunner | None:
        """Return what runs steps whose results stay in folders; None if the runner's do not."""
        from envbuild.engine.local.engine import LocalEngine
        from envbuild.engine.local.namespaces import NamespaceSteps

        found = self._found()
        return found if isinstance(found, LocalEngine | NamespaceSteps) else None

    def _found(self) -> StepRunner | NamespaceSteps:
        with self._looking:
            self._runner = self._runner or steps_for(self._lock, self._engine, self._store)
        return self._runner


def _package_finder(loaded: LoadedLock, store: Store, options: BuildOptions) -> Callable[[str], Sequence[str]] | None:
    """Return what names the OS packages that ship a library; None offline, since it reads the archive's index."""
    system = loaded.lock.os
    if options.offline or not system.packages:
        return None
    from envbuild.resolve.debian.closure import OsRequest
    from envbuild.resolve.debian.contents import package_for_library

    request = OsRequest(
        release=system.release,
        architecture=system.architecture,
        packages=(),
        snapshot=system.snapshot,
        mirror=loaded.mirror,
    )
    return lambda soname: package_for_library(soname, request, store.cache_dir("debian"))
