"""The local engine: programs and build steps in namespaces of the kernel, images as folders of the store.

Nothing is installed and no daemon runs. It gives the same digests, records and verdicts as a container engine.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from envbuild import __version__
from envbuild.core.platforms import own_machine
from envbuild.core.progress import Progress
from envbuild.engine.local.images import FoundImage, Images
from envbuild.engine.local.trees import LINKED, Trees, remove
from envbuild.engine.local.ways import Way
from envbuild.engine.protocol import (
    ContainerExit,
    ContainerRun,
    Delivered,
    Emulator,
    FinishedTree,
    GpuSupport,
    ImageInfo,
    LayersState,
    Parcel,
    Step,
    TreeStep,
)
from envbuild.errors import EngineError, IntegrityError

if TYPE_CHECKING:
    from envbuild.engine.local.linked import FoundTree
    from envbuild.engine.local.namespaces import NamespaceSteps


_WORTH_A_LOOK = 0.5
"""Seconds that a program has run at least where nobody asked: to look at 36,000 files takes 0.15 s, a start 0.06 s."""
_EARLIER = 1_000_000_000
"""Nanoseconds by which a run's processes may have begun earlier (``early.py``), and a disk's clock may be behind."""


class Place(Protocol):
    """What the engine needs of the store."""

    def cache_dir(self, kind: str) -> Path:
        """Return (made if need be) the folder of one kind of derived things."""

    def use(self, kind: str, key: str) -> None:
        """Note that this process uses a derived thing, so that no collection takes it."""

    def explained(self, reasons: frozenset[int]) -> AbstractContextManager[None]:
        """Turn what the store's file system refuses, by its numbers, into an error a person can act on."""


class LocalEngine:
    """Implements ``envbuild.engine.protocol.Engine``.

    Args:
        place: the store.
        boot: name of this run of the machine; empty if it is not known.
    """

    def __init__(self, place: Place, boot: str) -> None:
        self._place, self._boot = place, boot
        self._trees = trees_of(place, boot)
        self._images = Images(place.cache_dir("images"), self._trees)
        self._linked = _private(place, LINKED)
        self._found: Way | tuple[str, str] | None = None

    def reason_against(self) -> tuple[str, str] | None:
        """Return why programs cannot run here, and what to do about it; None if they can.

        Raises:
            UsageError: the store may not be written.
        """
        found = self._tried()
        return None if isinstance(found, Way) else found

    def way(self) -> Way:
        """Return how programs run on this machine; raises ``EngineError`` if they cannot."""
        found = self._tried()
        if isinstance(found, Way):
            return found
        raise EngineError(f"the local engine does not work here: {found[0]}", found[1])

    def makes_owners(self) -> bool:
        """Return whether build steps can make files of several owners, as OS layers have them."""
        from envbuild.engine.local.namespaces import makes_owners

        found = self._tried()
        return makes_owners() and not (isinstance(found, Way) and found.prefix)

    def run_step(self, step: Step) -> AbstractContextManager[BinaryIO]:
        """Run a build step; see ``StepRunner``."""
        return self._steps().run_step(step)

    def run_tree_step(self, step: TreeStep) -> AbstractContextManager[FinishedTree]:
        """Run a build step whose result stays in its folder; see ``TreeStepRunner``."""
        return self._steps().run_tree_step(step)

    def shows(self, file: Path) -> bool:
        """Return whether a step can see a file without a copy; see ``TreeStepRunner``."""
        return self._steps().shows(file)

    def emulating(self, machine: str, emulator: Path) -> NamespaceSteps:
        """Return what runs build steps whose programs are another machine's; arguments as for ``Emulator``."""
        return self._steps(Emulator(machine=machine, program=emulator))

    def find_image(self, reference: str) -> ImageInfo | None:
        """Look an image up; see ``ImageStore``."""
        found = self._images.find(reference)
        if found is None:
            return None
        image = found.image
        return ImageInfo(
            config=image.config,
            tags=(image.tag,),
            diff_ids=image.layers,
            architecture=image.architecture,
            environment=image.environment,
        )

    def remove_changed(self, reference: str) -> tuple[str, ...]:
        """Remove those layers of an image that somebody has changed in the store; returns their digests.

        And the folder in which they are linked together: its digest is the image's.

        Raises:
            IntegrityError: one of them cannot be removed.
        """
        image = self._images.read(reference)
        if image is None:
            return ()
        changed = tuple(layer for layer in image.layers if self._trees.remove_changed(layer))
        folder = self._linked / image.config  # whose files are the layers'
        if folder.is_dir():
            from envbuild.engine.local.linked import is_changed

            # also by a layer that was changed and made again for another image
            if changed or is_changed(folder):
                try:
                    remove(folder)
                except OSError as error:
                    from envbuild.core.fs import way_out

                    message = f"{folder} was changed, and cannot be removed: {error.strerror}"
                    raise IntegrityError(message, way_out(error.errno)) from error
                return changed or (image.config,)
        return changed

    def deliver(self, parcels: Iterator[Parcel], tag: str, progress: Progress) -> Delivered:
        """Unpack an image's layers and keep it under a tag; see ``ImageStore``."""
        delivered = self._images.deliver(parcels, tag, progress)
        if self.way().root == "linked" and (found := self._images.find(tag)) is not None:
            self._linked_tree(found)
        return delivered

    def held_layers(self) -> tuple[tuple[str, ...], ...] | None:
        """Return None: layers are known by themselves, in no chain."""
        return None

    def remove_steps(self, *, dry_run: bool) -> list[str]:
        """Return nothing: build steps leave nothing for the next build."""
        return []

    def load(self, archive: Iterator[bytes]) -> None:
        """Refuse: images come by ``deliver``."""
        raise EngineError("the local engine loads no archives", "build or pull: envbuild build, envbuild pull")

    def pull_image(self, reference: str, architecture: str) -> None:
        """Refuse: base images are not supported yet."""
        raise _no_base(reference)

    def export_image(self, reference: str, architecture: str) -> AbstractContextManager[BinaryIO]:
        """Refuse: base images are not supported yet."""
        raise _no_base(reference)

    def run_container(self, request: ContainerRun) -> ContainerExit:
        """Run an image in the foreground; see ``ContainerRunner``."""
        from envbuild.engine.local.program import run_program
        from envbuild.engine.local.program_request import Handed

        found = self._images.find(request.image)
        if found is None:
            raise EngineError(f"the engine has no image {request.image}", "build it: envbuild build")
        gpus = Handed()
        if request.gpus:
            from envbuild.engine.local.gpus import handed

            gpus = handed(request.gpus)
        way = self.way()
        tree = self._linked_tree(found) if way.root == "linked" else None
        began, started = time.time_ns() - _EARLIER, time.monotonic()
        code = run_program(request, found, way, gpus, tree)
        layers: LayersState = "not compared"
        if request.compared or time.monotonic() - started >= _WORTH_A_LOOK:
            layers = "changed" if self._was_changed(found, tree, began) else "unchanged"
        return ContainerExit(code, out_of_memory=code.out_of_memory, timed_out=code.timed_out, layers=layers)

    def gpu_support(self) -> GpuSupport:
        """Describe how GPUs are passed; see ``ContainerRunner``."""
        from envbuild.engine.local.gpus import support

        return support()

    def is_local(self) -> bool:
        """Return True."""
        return True

    def machine(self) -> str:
        """Return this machine as ``uname -m`` names it."""
        return own_machine()

    def describe(self) -> Mapping[str, str]:
        """Return the engine's name, version, storage driver and API version."""
        found = self._tried()
        storage = found.root if isinstance(found, Way) else "overlay"
        return {"name": "local", "version": __version__, "storage": storage, "api": "1"}

    def _was_changed(self, found: FoundImage, tree: FoundTree | None, began: int) -> bool:
        """Whether somebody has changed an image's files in the store since they were made."""
        if tree is not None:
            from envbuild.engine.local.linked import is_changed

            # whoever links a layer for another image touches its files
            return any(self._trees.was_changed(each, None) for each in found.trees) or is_changed(tree.path.parent)
        return any(self._trees.was_changed(each, began) for each in found.trees)

    def _tried(self) -> Way | tuple[str, str]:
        """Try out how programs can run here, unless that was done before."""
        from envbuild.core.fs import NOT_WRITABLE
        from envbuild.engine.local.self_check import find_way

        if self._found is None:
            with self._place.explained(NOT_WRITABLE):
                self._found = find_way(self._scratch(), self._place.cache_dir("self-checks"), self._boot)
        return self._found

    def _scratch(self) -> Path:
        return _private(self._place, "runs")

    def _linked_tree(self, found: FoundImage) -> FoundTree:
        from envbuild.engine.local.linked import LinkedTrees

        trees = LinkedTrees(self._linked, lambda image: self._place.use(LINKED, image), self._boot)
        return trees.make(found.image.config, found.image.layers, found.trees)

    def _steps(self, emulator: Emulator | None = None) -> NamespaceSteps:
        from envbuild.engine.local.namespaces import NamespaceSteps

        found = self._tried()
        prefix = found.as_root() if isinstance(found, Way) else ()
        return NamespaceSteps(self._place.cache_dir("steps"), prefix, emulator)


def trees_of(place: Place, boot: str) -> Trees:
    """Return the trees of a store; arguments as for ``LocalEngine``."""
    return Trees(_private(place, "trees"), lambda diff_id: place.use("trees", diff_id), boot)


def _private(place: Place, kind: str) -> Path:
    """Return a folder that nobody else may pass: it holds set-uid programs, of images and of programs that run."""
    folder = place.cache_dir(kind)
    with suppress(OSError):  # another user's store, which can be used and not changed
        if stat.S_IMODE(folder.stat().st_mode) & 0o077:
            folder.chmod(0o700)
    return folder


def _no_base(reference: str) -> EngineError:
    return EngineError(
        f"the local engine takes no base images from registries ({reference})", "use Docker: ENVBUILD_ENGINE=docker"
    )
