"""Assembly: turns a plan and the store's files into an image, making only the layers that no earlier build made.

Wheels are unpacked in threads (zlib, hashlib and writing let go of the interpreter lock) while this thread waits for
the OS layer's container; bytecode is compiled next to it, in a system of the interpreter's packages alone. Where both
happen on this machine, what others wait for comes first: the OS layer's seed, the modules to compile, then wheels,
which any processor that is free unpacks. Every layer
is kept under the digest of all it depends on, whole or not at all, so that a killed build loses one layer at most and
two builds at once share their work.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from envbuild import __version__
from envbuild.core.blob import FileBlob
from envbuild.core.digest import sha256_json
from envbuild.core.fs import boot_id
from envbuild.core.progress import Advance, Progress
from envbuild.engine.protocol import Step, StepRunner, TreeStep, TreeStepRunner
from envbuild.image.bytecode.compile import ENVIRONMENT
from envbuild.image.bytecode.interpreter import Interpreter
from envbuild.image.bytecode.layer import (
    COMPILE_OUT,
    WHEELS,
    compile_command,
    pack_bytecode,
    pack_sources,
    seen_wheels,
    take_bytecode,
    unpack_bytecode,
)
from envbuild.image.cpython.archive import pack_python, python_modules
from envbuild.image.layer_cache import TAR, Cache, Layers, LayerTrees, Target
from envbuild.image.layer_contents import Objects, contents_of, note, objects_of
from envbuild.image.oci import layout
from envbuild.image.plan.layer_order import LayerKind, LayerSpec, skipped
from envbuild.image.plan.model import Plan, bytecode_key
from envbuild.image.python.environment import ChangedFilesError, WheelFile, pack_wheels
from envbuild.image.runtime_layer import BYTECODE, make_runtime, runtime_key, runtime_modules
from envbuild.image.tar.layer import BLOCK, Layer
from envbuild.lockfile.model import Lock, PythonBuild, Wheel

_THREADS = 3
_INPUTS = "inputs.tar"
_COMPILING = 384 << 20
"""Bytes of an interpreter (80 MB) and of the modules of all wheels (50 MB with TensorFlow), with room for more."""
_KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": f"{256 << 20}",
    "MALLOC_MMAP_THRESHOLD_": f"{32 << 20}",
    "MALLOC_TOP_PAD_": f"{16 << 20}",
}
"""Variables by which glibc's malloc keeps what a module's syntax tree took for the next one: 6 % of compiling."""
_MANY = 1 << 30
"""Packed bytes of wheels that take longer to unpack than all else takes."""
_END = 2 * BLOCK
"""Bytes of a tar's end."""

Check = Callable[[Iterable[str], Sequence[Path], Objects], None]
"""Called with the OS layer's paths that are no folders, all wheels, their objects; raises ``BuildError`` if a shared
library is missing."""

BuildOs = Callable[[Path, BinaryIO | None], Layer]
"""Writes the OS layer's tar to the stream, or to the path if there is none; temporary files are next to the path."""

Place = Callable[[], TreeStepRunner | None]
"""Returns what runs the compile step in a folder of this machine; None if its input and result travel as tars."""

Ready = Callable[[int, FileBlob], None]
"""Called with each layer's number (0 is the bottom) and file as soon as it is there, from any thread: first those of
earlier builds, from the bottom up, then the others as they are made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltLayer:
    """One layer of a built image; ``reused``: an earlier build had made it."""

    kind: LayerKind
    title: str
    blob: FileBlob
    reused: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """A built image.

    Attributes:
        image: configuration, manifest and layer files; ``image.config_digest`` is the identity.
        layers: bottom first.
        replaced: paths that two wheels install with different content: names of the loser and the winner.
        changed: members that a wheel's RECORD has other hashes for, by wheel name.
    """

    image: layout.Image
    layers: tuple[BuiltLayer, ...]
    replaced: Mapping[str, tuple[str, str]]
    changed: Mapping[str, Sequence[str]]


def assemble(
    plan: Plan,
    lock: Lock,
    *,
    cache: Cache,
    runner: StepRunner,
    build_os: BuildOs,
    progress: Progress,
    check: Check | None = None,
    ready: Ready = lambda index, blob: None,
    interpreter: Interpreter | None = None,
    trees: LayerTrees | None = None,
    unpacked: bool = False,
    place: Place = lambda: None,
    configuring: threading.Event | None = None,
) -> Built:
    """Make the image.

    Args:
        plan: what to make; ``lock`` is what it was made from.
        cache: the store; holds every wheel of the lock.
        runner: runs the compile step.
        build_os: makes the OS layer.
        progress: receives phases.
        check: see ``Check``; called once for each combination of OS layer and wheels, next to the compilation.
        ready: see ``Ready``.
        interpreter: what modules are compiled in, next to the OS layer; None for the OS layer itself, when it is made.
        trees, unpacked: as for ``Layers``; where ``unpacked``, layers of the image may have a tree and no file.
        place: see ``Place``.
        configuring: set by ``build_os`` when its packages' scripts run. Compiling begins then, since what is left of
            the OS layer takes longest and one processor.

    Raises:
        BuildError: a wheel or package is unsound, a check fails, or the disk is full. Nothing half-made stays.
        IntegrityError: a wheel is missing from the store or damaged there.
        EngineError: the engine is not reachable or refused.
    """
    layers = Layers(cache, boot_id(), trees, unpacked=unpacked)
    if configuring is None:
        configuring = threading.Event()
        configuring.set()
    made = _Assembly(plan, cache, layers, runner, progress, ready, interpreter, place, configuring)
    return made.run(lock, build_os, check)


class _Assembly:
    """What the steps of one assembly share."""

    def __init__(
        self,
        plan: Plan,
        cache: Cache,
        layers: Layers,
        runner: StepRunner,
        progress: Progress,
        ready: Ready,
        interpreter: Interpreter | None,
        place: Place,
        configuring: threading.Event,
    ) -> None:
        self.plan = plan
        self.place = place
        self.configuring = configuring
        self.ready = ready
        self.cache = cache
        self.runner = runner
        self.progress = progress
        self.interpreter = interpreter
        self.layers = layers
        self.stopped = threading.Event()
        self.inputs_ready = threading.Event()
        self.phase = ExitStack()
        self.python: list[tuple[LayerSpec, Future[None]]] = []
        cacheable = [spec for spec in plan.layers if spec.kind != "runtime"]
        found = {spec.key: layers.find(spec.key) for spec in cacheable}
        self.blobs = {key: blob for key, blob in found.items() if blob is not None}
        self.reused = frozenset(self.blobs)
        for index, spec in enumerate(plan.layers):
            if spec.key in self.blobs:
                ready(index, self.blobs[spec.key])
        self.groups = self._missing_bytecode()

    def run(self, lock: Lock, build_os: BuildOs, check: Check | None) -> Built:
        """Make all layers and put them together."""

        checks: list[Future[None]] = []
        futures: list[Future[None]] = []
        system = next(spec for spec in self.plan.layers if spec.kind == "os")

        def os_layer() -> FileBlob:
            try:
                blob = self._make(system, lambda target: build_os(target.folder / TAR, target.stream()))
            finally:
                self.configuring.set()  # another command may have made it
            if check is not None and not checks:
                checks.append(pool.submit(self._check, check, blob, futures, lock))
            return blob

        with self._workers(_THREADS, "unpack") as pool, self._workers(1, "compile") as compiler:
            futures += self._start_python(pool)
            futures += self._start_wheels(pool)
            if self.interpreter is None:
                os_layer()
            compiled = compiler.submit(self._compile, os_layer)
            os_layer()
            compiled.result()
            for future in (*futures, *checks):
                future.result()
        contents = contents_of(self._wheel_layers())
        top = self.blobs[self.plan.layers[-1].key] = make_runtime(self.plan, lock, self.cache, self.layers)
        self.ready(len(self.plan.layers) - 1, top)
        blobs = [self.blobs[spec.key] for spec in self.plan.layers]
        layers = tuple(
            BuiltLayer(kind=spec.kind, title=spec.title, blob=blob, reused=spec.key in self.reused)
            for spec, blob in zip(self.plan.layers, blobs, strict=True)
        )
        image = layout.image(self.plan, blobs)
        return Built(image=image, layers=layers, replaced=contents.replaced, changed=contents.changed)

    @contextmanager
    def _workers(self, number: int, name: str) -> Iterator[ThreadPoolExecutor]:
        """Threads; on an error or interrupt they end at their next chunk, and the step that one waits for at once."""
        pool = ThreadPoolExecutor(number, thread_name_prefix=name)
        try:
            yield pool
        except BaseException:
            self.stopped.set()
            self.inputs_ready.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            self.phase.close()

    def _make(self, spec: LayerSpec, pack: Callable[[Target], Layer]) -> FileBlob:
        if spec.key not in self.blobs:
            self.blobs[spec.key] = self.layers.make(spec.key, pack)
            self.ready(self.plan.layers.index(spec), self.blobs[spec.key])
        return self.blobs[spec.key]

    def _start_python(self, pool: ThreadPoolExecutor) -> list[Future[None]]:
        """Begin to make the layer of a standalone Python, which the compile step waits for."""

        def one(spec: LayerSpec, build: PythonBuild) -> None:
            self._make(spec, lambda target: self._pack_python(build, target))

        specs = [spec for spec in self.plan.layers if spec.kind == "python" and spec.build]
        found = [pool.submit(one, spec, spec.build) for spec in specs if spec.build]
        self.python = list(zip(specs, found, strict=True))
        return found

    def _pack_python(self, build: PythonBuild, target: Target) -> Layer:
        with target.open() as stream, self.progress.phase("python: unpack"):
            return pack_python(stream, build, self.cache.path(build.sha256))

    def _start_wheels(self, pool: ThreadPoolExecutor) -> list[Future[None]]:
        """Begin to unpack wheels, the largest first, so that no single one is left over at the end.

        They wait for the inputs of a compile step on this machine: one wheel's modules are compiled by one process,
        which takes as long as all wheels do, and what packs its inputs would compete with three threads for the
        interpreter. Many gigabytes of wheels, as CUDA's, take longest and wait for nothing.
        """
        specs = [spec for spec in self.plan.layers if spec.kind in ("wheel", "environment")]
        specs = [spec for spec in specs if spec.key not in self.blobs]
        if not specs:
            return []
        specs.sort(key=lambda spec: -sum(wheel.size for wheel in spec.wheels))
        size = sum(wheel.size for spec in specs for wheel in spec.wheels)
        advance = self.phase.enter_context(self.progress.phase("wheels: unpack", size))
        left = list(specs)

        def one(spec: LayerSpec) -> None:
            if size < _MANY:
                self.inputs_ready.wait()
            try:
                self._make(spec, lambda target: self._pack_wheels(spec, self._files(spec.wheels), target, advance))
            except ChangedFilesError as error:
                again = error.wheels
                self._make(spec, lambda target: self._pack_wheels(spec, again, target, lambda amount: None))
            left.remove(spec)
            if not left:
                self.phase.close()

        return [pool.submit(one, spec) for spec in specs]

    def _pack_wheels(self, spec: LayerSpec, wheels: Sequence[WheelFile], target: Target, advance: Advance) -> Layer:
        def tick(amount: int) -> None:
            if self.stopped.is_set():
                raise _StoppedError
            advance(amount)

        executable = self.plan.executable if spec.kind == "environment" else ""
        with target.open() as stream:
            layer, contents = pack_wheels(stream, wheels, self.plan.python, executable=executable, advance=tick)
        note(target.folder, contents)
        return layer

    def _files(self, wheels: Sequence[Wheel]) -> list[WheelFile]:
        return [WheelFile(name=wheel.name, path=self.cache.path(wheel.sha256), sha256=wheel.sha256) for wheel in wheels]

    def _wheel_layers(self) -> list[tuple[LayerSpec, FileBlob]]:
        specs = [spec for spec in self.plan.layers if spec.kind in ("wheel", "environment")]
        return [(spec, self.blobs[spec.key]) for spec in specs]

    def _check(self, check: Check, os_layer: FileBlob, unpacked: Sequence[Future[None]], lock: Lock) -> None:
        """Run the check unless it has passed before for the same OS layer and wheels, and what the lock accepts.

        Objects are read where they are unpacked: those of TensorFlow take three seconds to inflate.
        """
        wheels = [wheel.sha256 for wheel in self.plan.wheels]
        subject = {"version": __version__, "os": os_layer.digest, "wheels": wheels}
        key = sha256_json(subject | {"accepted": lock.missing_libraries})
        paths = [self.cache.path(sha256) for sha256 in wheels]
        for future in unpacked:  # begun before this task, so that its thread is none that they wait for
            future.result()

        def passed(folder: Path) -> None:
            check(self.layers.file_names(os_layer), paths, objects_of(self._wheel_layers(), self.layers.unpacked))

        self.cache.derive("checks", key, passed)

    def _missing_bytecode(self) -> dict[str, WheelFile | Mapping[str, bytes]]:
        """What must be compiled, by cache key: wheels of layers to be made, and the runtime's modules."""
        groups: dict[str, WheelFile | Mapping[str, bytes]] = {}
        for spec in self.plan.layers:
            if spec.kind == "bytecode" and spec.key not in self.blobs:
                if spec.build and self.cache.derived("bytecode", spec.key) is None:
                    groups[spec.key] = python_modules(spec.build, self.cache.path(spec.build.sha256))
                for wheel, file in zip(spec.wheels, self._files(spec.wheels), strict=True):
                    groups[bytecode_key(self.plan, wheel.sha256)] = file
        groups[runtime_key(self.plan)] = runtime_modules()
        return {key: group for key, group in groups.items() if self.cache.derived("bytecode", key) is None}

    def _compile(self, os_layer: Callable[[], FileBlob]) -> None:
        try:
            self._compile_groups(os_layer)
        finally:
            self.inputs_ready.set()  # nothing was to be compiled, or another command did
        for spec in self.plan.layers:
            if spec.kind == "bytecode":
                self._make(spec, partial(self._pack_bytecode, spec))

    def _compile_groups(self, os_layer: Callable[[], FileBlob]) -> None:
        """Compile all missing groups in one step, and keep each group's bytecode by itself.

        The batch's folder is only a place to work in: another build of the same groups waits for it instead of
        compiling too.
        """

        def make(folder: Path) -> None:
            place = self.place()
            if place is None or self.interpreter is None:
                self.inputs_ready.set()
            if place is not None:
                self.configuring.wait()
                self._compile_in_place(place, os_layer, folder)
                return
            base, key = self._base(os_layer)
            with (folder / _INPUTS).open("wb", buffering=0) as stream:
                self._pack_sources(stream)
            self._add_python(folder / _INPUTS)
            step = Step(
                base=base,
                base_key=key,
                inputs=folder / _INPUTS,
                command=compile_command(self.plan.executable, skipped(self.plan.layout)),
                environment=ENVIRONMENT,
                result=COMPILE_OUT,
                unwanted=self.stopped,
            )
            with self.progress.phase("bytecode: compile"), self.runner.run_step(step) as result:
                unpack_bytecode(result, len(self.groups), folder)

        if self.groups:
            batch = sha256_json(sorted(self.groups))
            results = self.cache.derive("compiled", batch, make)
            for number, key in enumerate(self.groups):
                self.cache.derive("bytecode", key, partial(_link, results / f"{number:04}.tar"))
            self.cache.forget("compiled", batch)

    def _compile_in_place(self, place: TreeStepRunner, os_layer: Callable[[], FileBlob], folder: Path) -> None:
        """Compile in a folder of this machine: modules are read from the wheels, the result is moved."""

        base = self._found_system()
        wheels = seen_wheels(list(self.groups.values()))
        seen = bool(wheels) and all(map(place.shows, wheels.values()))
        if seen and base is not None:
            self.inputs_ready.set()  # nothing is unpacked

        def fill(output: BinaryIO) -> None:
            if base is not None:
                pass
            elif self.interpreter is None:
                for chunk in self.layers.tar_of(os_layer()):
                    output.write(chunk)
            else:
                self.interpreter.fill(output)
            self._pack_sources(output, seen=seen)
            self.inputs_ready.set()
            for spec, made in self.python:
                made.result()
                for chunk in self.layers.tar_of(self.blobs[spec.key]):
                    output.write(chunk)

        step = TreeStep(
            fill=fill,
            base=base,
            files=wheels if seen else {},
            folder=WHEELS if seen else "",
            command=compile_command(self.plan.executable, skipped(self.plan.layout)),
            environment={**ENVIRONMENT, **_KEEP_MEMORY},
            result=COMPILE_OUT,
            memory=_COMPILING,
            unwanted=self.stopped,
        )
        with self.progress.phase("bytecode: compile"), place.run_tree_step(step) as found:
            take_bytecode(found, len(self.groups), folder)

    def _found_system(self) -> Path | None:
        """Return the tree of the OS layer if an earlier build made it: to unpack an interpreter takes a second.

        A standalone Python is no part of it.
        """
        system = next(spec for spec in self.plan.layers if spec.kind == "os")
        blob = None if self.python else self.blobs.get(system.key)
        return None if blob is None else self.layers.tree(blob)

    def _pack_sources(self, output: BinaryIO, *, seen: bool = False) -> None:
        pack_sources(output, list(self.groups.values()), self.plan.python, skipped(self.plan.layout), seen=seen)

    def _add_python(self, inputs: Path) -> None:
        """Put a standalone Python into a step's inputs: its layer, behind the entries that are there."""
        for spec, made in self.python:
            made.result()
            with inputs.open("r+b") as stream, self.layers.tar(self.blobs[spec.key]).open("rb") as layer:
                stream.seek(-_END, os.SEEK_END)
                stream.truncate()
                shutil.copyfileobj(layer, stream, 1 << 20)

    def _base(self, os_layer: Callable[[], FileBlob]) -> tuple[Path, str]:
        """Return the tar of a system with the interpreter, and its name for the engine."""
        if self.interpreter is None:
            blob = os_layer()
            return self.layers.tar(blob), f"layer-{blob.digest}"
        write = self.interpreter.write
        folder = self.cache.derive("interpreters", self.interpreter.key, lambda folder: write(folder / TAR))
        return folder / TAR, f"python-{self.interpreter.key}"

    def _bytecode(self, key: str) -> Path:
        found = self.cache.derived("bytecode", key)
        assert found is not None  # noqa: S101 - compiled just now, or before
        return found / BYTECODE

    def _pack_bytecode(self, spec: LayerSpec, target: Target) -> Layer:
        keys = [spec.key] if spec.build else [bytecode_key(self.plan, wheel.sha256) for wheel in spec.wheels]
        archives = [self._bytecode(key) for key in keys]
        with target.open() as stream:
            return pack_bytecode(stream, archives, spec.title)


class _StoppedError(Exception):
    """Another part of the assembly failed."""


def _link(source: Path, folder: Path) -> None:
    """Put a file into a folder as ``BYTECODE``, without moving it away from another build that reads it."""
    (folder / BYTECODE).hardlink_to(source)
