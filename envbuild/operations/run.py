"""``run``: one program in the locked image, and a record of it.

``prepare`` makes all ready for it, and is shared with ``verify``: lock, declared data, engine and image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from envbuild.core.digest import sha256_file
from envbuild.core.fs import claimed
from envbuild.core.platforms import MACHINES
from envbuild.errors import EngineError, EnvbuildError, HostMismatchError
from envbuild.image.record import ImageRecord, is_recorded, read_image_record
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.lockfile.model import Lock
from envbuild.operations import ranks
from envbuild.operations.engines import connect, is_local, note_way
from envbuild.operations.inputs import require_locked_inputs
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.operations.verification.printed_lines import LazyReader, load_reader
from envbuild.record.model import Record
from envbuild.runs.request import AS_LOCKED, RunRequest
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.engine.protocol import ContainerRunner, Emulator, Engine, Gpus, ImageStore, Mount
    from envbuild.operations.events import Events
    from envbuild.runs.time_limit import TimeLimit
    from envbuild.runtime.guard.gate import Verdict


ARCHITECTURE = "cpu.architecture"
"""Field of the guard's table that a run under emulation is let differ in."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and how, for ``run`` and ``verify``.

    Attributes:
        command: a script with its arguments, ``-m MODULE …``, or a command line; empty for a shell.
        lock: the lock's file; None: search upward from ``search_from``.
        search_from: None for the working directory.
        environment: variables added for this run.
        mounts: added to the project and its inputs.
        network: ``none``, ``bridge``, ``host`` or a network of the engine; empty for the lock's.
        cpus, memory: limits; memory in bytes.
        controls: seeds and determinism as locked; False leaves frameworks as they come.
        gpus: GPUs to pass instead of the locked ones; None for none.
        tensors: read the tensors of saved models after the run.
        trace: keep a digest of every parameter after each step.
        allow: fields of the guard's table whose difference is allowed this once.
        guard: False switches the checks off; the record then has "not verified".
        emulate: start the programs of another machine's image through the locked emulator; the record states it.
        outputs: paths in the container, outside the project, that count whatever their names, and are kept.
        timeout: seconds that the program may run; None for as long as it takes, and in ``verify`` for ten times the
            longest run so far, a minute at least.
        offline: use the store only, ask no registry.
        image: a reference by digest to run instead of building; it must be the lock's image.
        require_signature: who must have signed the image: a public key's file, or ``IDENTITY@https://ISSUER``.
    """

    command: tuple[str, ...]
    lock: Path | None = None
    search_from: Path | None = None
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    network: str = ""
    cpus: float | None = None
    memory: int | None = None
    controls: bool = True
    gpus: Gpus | Literal["as locked"] | None = AS_LOCKED
    tensors: bool = True
    trace: bool = False
    allow: tuple[str, ...] = ()
    guard: bool = True
    emulate: bool = False
    offline: bool = False
    image: str | None = None
    require_signature: str | None = None
    outputs: tuple[str, ...] = ()
    timeout: float | None = None


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """A program that has run: its record, which is in the project (the lock's folder)."""

    record: Record
    project: Path


class PreparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run needs: what to run, and the engine that has the image."""

    request: RunRequest
    engine: Engine


def run(
    options: RunOptions,
    events: Events,
    meanwhile: Callable[[], None] | None = None,
    later: Callable[[], None] | None = None,
) -> RunResult:
    """Run a program to its end; its exit code is in the record (78: refused by the guard).

    Args:
        options: what to run.
        events: receives progress. The program itself has this process's streams.
        meanwhile: called once the program has started, in another thread: imports what the caller needs at the end.
        later: called there once the program is no short one: imports what the caller may need at the end.

    Raises:
        UsageError: the script or an input does not exist, or is outside the project.
        LockError: there is no lock, it is invalid, or it is stale.
        HostMismatchError: declared data is not as locked, this machine plainly cannot run it, or the machines of a
            distributed job are not alike: nothing was run.
        JobError: the ranks of a distributed job did not come together: nothing was run.
        EngineError: the engine does not answer or could not run the container, which the record then has too.
        BuildError, IntegrityError, NotReproducibleError, RegistryError: there is no image to run.
    """
    from envbuild.runs import execute

    loaded = load_lock(options.lock, options.search_from, option=True)
    job = ranks.join(loaded.path, guard=options.guard)
    try:
        prepared = prepare(options, events, loaded, proof=False)
    except EnvbuildError as error:
        if job is not None:
            ranks.fail(job, error, events, options.allow)
        raise
    request = prepared.request
    if meanwhile is not None:
        request = msgspec.structs.replace(request, meanwhile=meanwhile)
    if later is not None:
        request = msgspec.structs.replace(request, preload=_both(_load_end, later))
    if job is not None:
        request = ranks.enter(job, request, events, compared=prepared.engine.is_local())
    with prefer_guard_error(request.lock, options, prepared.engine):
        record = execute.run(request, prepared.engine)
    return RunResult(record=record, project=request.project)


def prepare(
    options: RunOptions, events: Events, loaded: LoadedLock | None = None, *, proof: bool = True
) -> PreparedRun:
    """Load the lock, check declared data, find or build the image; arguments and errors as for ``run``.

    Args:
        loaded: the lock, if it was loaded before.
        proof: look whether somebody has changed the image's files in the store, which takes 5 ms for 1,000 of them.
    """
    if loaded is None:
        loaded = load_lock(options.lock, options.search_from, option=True)
    inputs_since = require_locked_inputs(loaded.path, loaded.lock, events)
    engine = connect()
    note_way(engine, events, differs=True)
    emulator = _emulator(loaded, options, engine, events)
    if emulator is None:
        _require_architecture(loaded.lock, options, engine)
    image, signer, index = _image(loaded, options, engine, events, proof=proof)
    request = RunRequest(
        lock_path=loaded.path,
        lock=loaded.lock,
        image=image_identity(engine, image),
        config=image.config,
        signer=signer,
        index=index,
        arguments=options.command,
        identity=_begun(loaded.path, engine),
        environment=options.environment,
        mounts=options.mounts,
        network=options.network,
        cpus=options.cpus,
        memory=options.memory,
        controls=options.controls,
        gpus=options.gpus,
        allow=tuple(dict.fromkeys((*options.allow, *_allowed(loaded.lock, options, engine, events)))),
        guard=options.guard,
        emulator=emulator,
        tensors=options.tensors,
        outputs=options.outputs,
        limit=None if options.timeout is None else _limit(options.timeout),
        inputs_since=inputs_since,
        own_variables=_trace_variables() if options.trace else {},
        printed=LazyReader,
        preload=_load_end,
    )
    return PreparedRun(request=request, engine=engine)


def _load_end() -> None:
    """Import what the end of a longer run may need: another version of envbuild may take its place meanwhile."""
    load_reader()
    from envbuild.engine.local import tree_files  # noqa: F401 - looks whether somebody has changed the image's files


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        first()
        second()

    return both


def _limit(seconds: float) -> TimeLimit:
    from envbuild.runs.time_limit import TimeLimit

    return TimeLimit(seconds)


def _trace_variables() -> dict[str, str]:
    from envbuild.runs.tracing import TRACE_VALUES, trace_variables

    return trace_variables(TRACE_VALUES)


def _begun(lock: Path, engine: Engine) -> str:
    """Return the identity of the run that the command has begun already; empty if it has not."""
    from envbuild.engine.local import early

    if not is_local(engine):
        early.end()
    return early.identity(str(lock.resolve().parent / STATE_FOLDER / "runs"))


def _allowed(lock: Lock, options: RunOptions, engine: Engine, events: Events) -> tuple[str, ...]:
    """Return the fields that may differ without being asked: of an emulated run, and of one that does without a GPU."""
    from envbuild.runs.container import wants_missing_gpus

    found = [ARCHITECTURE] if options.emulate else []
    if lock.hardware.gpu_optional and (options.gpus is None or wants_missing_gpus(lock, engine)):
        from envbuild.operations.check import GPU
        from envbuild.operations.events import Note

        found.append(GPU)
        events.report(Note(text="no GPU here: the run computes without one (hardware.gpu: optional)"))
    return tuple(found)


def _emulator(loaded: LoadedLock, options: RunOptions, engine: Engine, events: Events) -> tuple[Emulator, str] | None:
    """Return what starts the programs of another machine, with its name, if that is asked for; its file is fetched."""
    if not options.emulate:
        return None
    from envbuild.operations.emulation import emulator_for_run
    from envbuild.operations.fetch import fetch_emulators

    store = Store()
    fetch_emulators(loaded, store, events, offline=options.offline)
    return emulator_for_run(loaded.lock, engine, store)


@contextmanager
def prefer_guard_error(lock: Lock, options: RunOptions, engine: ContainerRunner) -> Iterator[None]:
    """Replace an engine's refusal of GPUs by the guard's table if this host is the reason: the table has more.

    A refusal of an unknown network gets a hint where all networks are listed.
    """
    from envbuild.engine.protocol import GpusRefusedError

    try:
        yield
    except GpusRefusedError:
        if options.guard and engine.is_local():
            _require_host(lock)
        raise
    except EngineError as error:
        if options.network and not error.hint and f"network {options.network} " in error.message:
            raise EngineError(error.message, "list those of the engine: docker network ls") from None
        raise


def _image(
    loaded: LoadedLock, options: RunOptions, engine: Engine, events: Events, *, proof: bool
) -> tuple[ImageRecord, str, str]:
    """Return the image that the engine has by now, who signed it, if somebody must have, and the index it was in."""
    found, who = read_image_record(loaded.path, loaded.lock), options.require_signature
    if proof and found is not None:
        from envbuild.operations.engines import remove_changed_layers

        remove_changed_layers(engine, found.reference, events)
    if options.image is not None or who is not None:
        from envbuild.operations.pull import image_for_run
        from envbuild.signing.trust import trust

        _require_gpus(loaded.lock, options, engine)
        signer = str(trust(who)) if who is not None else ""
        image, index = image_for_run(
            options.image, loaded, engine, events, offline=options.offline, require_signature=who
        )
        return image, signer, index
    if found is None or not is_recorded(engine.find_image(found.reference), found):
        from envbuild.operations.build import build

        _require_gpus(loaded.lock, options, engine)
        with _only_builder(loaded, events):
            found = build(loaded.path, events, offline=options.offline).record
    return found, "", ""


@contextmanager
def _only_builder(loaded: LoadedLock, events: Events) -> Iterator[None]:
    """Wait for other processes that build this lock's image with this store, such as the ranks of a job on one machine.

    Who had to wait finds the image made.
    """
    from envbuild.operations.events import Note

    notes = iter((Note(text=f"another process builds the image of {loaded.path.name}: waiting for it"),))

    def waiting() -> None:
        for note in notes:
            events.report(note)

    lock = Store().cache_dir("building") / f"{sha256_file(loaded.path)}.lock"
    with claimed(lock, waiting):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def image_identity(engine: ImageStore, recorded: ImageRecord) -> str:
    """Return the identity by which an engine starts the recorded image, whatever its tag means by then.

    Raises:
        EngineError: the tag means another image by now, or none.
    """
    held = engine.find_image(recorded.reference)
    if held is None or not is_recorded(held, recorded):
        raise EngineError(f"{recorded.reference} was removed or replaced after it was checked", "run it again")
    return f"sha256:{held.config}"


def _require_gpus(lock: Lock, options: RunOptions, engine: ContainerRunner) -> None:
    """Raise ``HostMismatchError`` before an image of gigabytes is built for a machine that plainly cannot run it."""
    from envbuild.runs.container import wants_missing_gpus

    as_locked = options.guard and not options.allow and options.gpus == AS_LOCKED and not lock.hardware.gpu_optional
    if as_locked and wants_missing_gpus(lock, engine):
        _require_host(lock)


def _require_architecture(lock: Lock, options: RunOptions, engine: Engine) -> None:
    """Raise ``HostMismatchError`` before an image is built whose programs the engine's machine cannot start.

    Without the guard, or where the difference is allowed, a container engine may try: its machine may start other
    machines' programs through an emulator of its own.
    """
    if MACHINES.get(lock.os.architecture) == (machine := engine.machine()):
        return
    from envbuild.operations.check import check_architecture

    verdict = check_architecture(lock, machine)
    if verdict and ((options.guard and ARCHITECTURE not in options.allow) or is_local(engine)):
        raise _mismatch(verdict)


def _require_host(lock: Lock) -> None:
    """Raise ``HostMismatchError`` with the guard's table if this host is not as locked."""
    from envbuild.operations.check import check_host

    verdict = check_host(lock)
    if not verdict.ok:
        raise _mismatch(verdict)


def _mismatch(verdict: Verdict) -> HostMismatchError:
    from envbuild.runtime.guard import table

    return HostMismatchError(table.render(verdict.checks, verdict.lock).removeprefix("envbuild: ").rstrip("\n"))
