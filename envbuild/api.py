"""The verbs for Python: the same use cases as the command line, as functions of ``import envbuild``.

    import envbuild

    lock = envbuild.lock("spec.yaml")
    image = envbuild.build(lock)
    first = envbuild.run(["train.py", "--epochs", "3"], lock=lock)
    second = envbuild.run(["train.py", "--epochs", "3"], lock=lock)
    print(envbuild.diff(first, second).equal)

Every function takes its lock as the value that ``lock`` or ``open`` returned, as the path of a file, or not at all: it
is then searched upward from the working directory, as by the command line. Failures are the exceptions of
``envbuild.errors``; each has ``message``, ``hint`` and the ``exit_code`` of the command line. Progress goes to
``events`` (``envbuild.operations.events``); without one nothing is printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.operations import events as listeners
from envbuild.operations.load_lock import LoadedLock

if TYPE_CHECKING:
    import os
    from typing import TypeAlias

    from envbuild.operations.build import BuiltImage
    from envbuild.operations.diff import DiffResult
    from envbuild.operations.events import Events
    from envbuild.operations.fetch import FetchedLock
    from envbuild.operations.report import ReportResult
    from envbuild.operations.run import RunOptions, RunResult
    from envbuild.operations.run_context import Side
    from envbuild.operations.verification.verify import Verification

    PathLike: TypeAlias = str | os.PathLike[str]
    AnyLock: TypeAlias = LoadedLock | str | os.PathLike[str] | None
    AnyRun: TypeAlias = RunResult | str | os.PathLike[str]


def lock(
    spec: PathLike = "spec.yaml",
    *,
    upgrade: bool = False,
    upgrade_packages: Sequence[str] = (),
    host: str = "",
    variant: str = "",
    platform: str = "",
    events: Events | None = None,
) -> LoadedLock:
    """Resolve a spec, write the lock and its Dockerfile next to it, and return the lock.

    Of a spec with variants or platforms all are locked, and the first one's lock is returned; ``open(variant=…,
    platform=…)`` reads the others.

    Args:
        spec: the spec's file. Pins of an earlier lock stay unless the spec or an argument moves them.
        upgrade: move every pin to its newest version.
        upgrade_packages: move these packages, and only what they force.
        host: what to lock for: the file of a host description, ``detect``, ``none``; empty: as before.
        variant: lock this variant only.
        platform: lock for this platform only.
        events: receives progress.

    Raises:
        SpecError: the spec is invalid; all problems at once.
        ResolveError: something that the spec asks for does not exist, or parts do not fit together.
        LockError: the earlier lock cannot be read, or is of another image layout.
    """
    from envbuild.operations.lock import lock as write
    from envbuild.operations.lock_options import LockOptions

    options = LockOptions(
        upgrade=upgrade, upgrade_packages=tuple(upgrade_packages), host=host, variant=variant, platform=platform
    )
    return open(write(Path(spec), options, events or listeners.Silent())[0].path)


def open(path: PathLike | None = None, *, variant: str | None = None, platform: str | None = None) -> LoadedLock:
    """Read a lock without changing anything.

    Args:
        path: its file; None: search upward from the working directory.
        variant: of which variant of the spec, instead of the file.
        platform: for which platform of the spec; by default this machine's.

    Raises:
        LockError: there is none, it is invalid, or its spec has changed since.
        UsageError: there are several to choose from, or none of that variant.
    """
    from envbuild.operations.load_lock import load_lock, lock_of_variant

    return load_lock(lock_of_variant(None if path is None else Path(path), variant, platform=platform))


def fetch(
    lock: AnyLock = None,
    *,
    vendor: PathLike | None = None,
    sources: Sequence[PathLike] = (),
    events: Events | None = None,
) -> FetchedLock:
    """Fetch every file of a lock into the store, each verified by its SHA-256; afterwards nothing needs the network.

    Args:
        lock: which.
        vendor: also write all files and the lock to this folder, for a machine without network.
        sources: folders that an earlier ``vendor`` wrote, tried before any index.
        events: receives progress.

    Raises:
        IntegrityError: a file could not be fetched, or has other bytes than locked.
    """
    from envbuild.operations.fetch import fetch as run_fetch

    target = None if vendor is None else Path(vendor)
    return run_fetch(_path(lock), events or listeners.Silent(), vendor=target, sources=[Path(each) for each in sources])


def build(
    lock: AnyLock = None,
    *,
    output: str | None = None,
    offline: bool = False,
    verify: bool = False,
    events: Events | None = None,
) -> BuiltImage:
    """Assemble a lock's image and load it into the engine, or write it to a file.

    Args:
        lock: which.
        output: ``oci:DIR``, ``oci:FILE.tar``, ``docker-archive:FILE``, ``sqsh:FILE`` or ``dir:DIR``: write the image
            there, load nothing.
        offline: use the store only.
        verify: make it once more from nothing and compare every bit.
        events: receives progress.

    Raises:
        BuildError: the image could not be made.
        EngineError: the engine does not answer or refuses.
        NotReproducibleError: the image is not the one recorded next to the lock.
    """
    from envbuild.operations.build import build as run_build

    return run_build(_path(lock), events or listeners.Silent(), output=output, offline=offline, verify=verify)


def run(
    command: Sequence[str],
    *,
    lock: AnyLock = None,
    environment: Mapping[str, str] | None = None,
    mounts: Sequence[str] = (),
    network: str = "",
    trace: bool = False,
    outputs: Sequence[str] = (),
    timeout: float | None = None,
    controls: bool = True,
    guard: bool = True,
    offline: bool = False,
    events: Events | None = None,
) -> RunResult:
    """Run a program in the locked image and return its record; the image is built first if need be.

    The program has this process's standard streams. Its own exit code is ``result.record.exit_code``, 78 if the guard
    refused this machine; neither is an exception.

    Args:
        command: a script with its arguments, ``-m MODULE …``, or a command line.
        lock: which.
        environment: variables added for this run.
        mounts: ``SOURCE:TARGET`` or ``SOURCE:TARGET:ro``, added to the project and its inputs.
        network: ``none``, ``bridge``, ``host`` or a network of the engine; empty for the lock's.
        trace: keep a digest of every parameter after each step, so that ``diff`` names the first that differs.
        outputs: paths in the container, outside the project, that count as outputs and are kept.
        timeout: seconds after which the program is ended; None: it may take as long as it needs.
        controls: seeds and determinism as locked; False leaves frameworks as they come.
        guard: False switches the checks off; the record then has "not verified".
        offline: use the store only.
        events: receives progress.

    Raises:
        UsageError: the script or a mount does not exist, or is outside the project.
        HostMismatchError: declared data is not as locked, or this machine plainly cannot run it.
        EngineError: the engine does not answer or could not run the container.
    """
    from envbuild.operations.run import run as run_program

    options = _options(
        command, lock, environment, mounts, network, controls, guard, offline,
        trace=trace, outputs=outputs, timeout=timeout,
    )  # fmt: skip
    return run_program(options, events or listeners.Silent())


def verify(
    command: Sequence[str],
    *,
    lock: AnyLock = None,
    count: int = 3,
    ignore: Sequence[str] = (),
    diagnose: bool = True,
    environment: Mapping[str, str] | None = None,
    mounts: Sequence[str] = (),
    network: str = "",
    outputs: Sequence[str] = (),
    timeout: float | None = None,
    controls: bool = True,
    offline: bool = False,
    events: Events | None = None,
) -> Verification:
    """Run a program several times, compare everything it leaves, and explain why runs differ if they do.

    ``result.verdict.outcome`` is ``identical``, ``different``, ``failed`` or ``refused``. Where runs are equal an
    attestation is written next to the lock.

    Args:
        command: a script with its arguments, ``-m MODULE …``, or a command line.
        lock: which.
        count: how many runs, two at least.
        ignore: patterns of outputs that are not compared, as ``fnmatch`` has them.
        diagnose: where runs differ, run again to find out more.
        timeout: seconds after which a run is ended; None: ten times the longest run so far, a minute at least.
        environment, mounts, network, outputs, controls, offline: as for ``run``.
        events: receives progress.

    Raises:
        UsageError: the options do not fit together, the project is too large to copy, or a launcher has started this
            process as one of several.
        EngineError: the engine could not run the container.
    """
    from envbuild.operations.ranks import require_no_launcher
    from envbuild.operations.run import prefer_guard_error, prepare
    from envbuild.operations.verification.verify import VerifyOptions
    from envbuild.operations.verification.verify import verify as verify_runs

    listener = events or listeners.Silent()
    asked = VerifyOptions(count=count, ignore=tuple(ignore), diagnose=diagnose)
    asked.check()
    require_no_launcher()
    options = _options(
        command, lock, environment, mounts, network, controls, True, offline, outputs=outputs, timeout=timeout
    )
    prepared = prepare(options, listener)
    with prefer_guard_error(prepared.request.lock, options, prepared.engine):
        return verify_runs(prepared.request, prepared.engine, asked, listener)


def diff(a: AnyRun, b: AnyRun, *, project: PathLike | None = None) -> DiffResult:
    """Compare two recorded runs: their results, where training diverges, and what may have made them differ.

    Args:
        a, b: results of ``run``, identities (or their beginnings), or paths of records; findings read from A to B.
        project: the folder that holds the lock, for identities; None: searched upward from the working directory.

    Raises:
        RecordError: a run is not there, or its record is damaged.
    """
    from envbuild.operations.diff import diff as compare

    return compare(_side(a, project), _side(b, project))


def report(runs: Sequence[AnyRun], output: PathLike, *, project: PathLike | None = None) -> ReportResult:
    """Write one HTML page about runs, each compared with the first; it needs no network and no scripts.

    Args:
        runs: as for ``diff``; one at least.
        output: the page; an earlier one is replaced.
        project: as for ``diff``.

    Raises:
        RecordError: a run is not there, or its record is damaged.
        UsageError: a run is named twice, there are too many, or the page cannot be written.
    """
    from envbuild.operations.report import report as write

    sides = [_side(each, project) for each in runs]
    return write([str(_record(side)) for side in sides], Path(output), sides[0].project if sides else Path())


def _path(lock: AnyLock) -> Path | None:
    if lock is None:
        return None
    return lock.path if isinstance(lock, LoadedLock) else Path(lock)


def _options(
    command: Sequence[str],
    lock: AnyLock,
    environment: Mapping[str, str] | None,
    mounts: Sequence[str],
    network: str,
    controls: bool,
    guard: bool,
    offline: bool,
    *,
    trace: bool = False,
    outputs: Sequence[str] = (),
    timeout: float | None = None,
) -> RunOptions:
    """Return what to run; a text for a list of words is refused, since nobody means its letters."""
    from envbuild.errors import UsageError
    from envbuild.operations.run import RunOptions
    from envbuild.operations.run_options import check_network, check_timeout, parse_mount, parse_output

    if isinstance(command, str):
        raise UsageError(f"expected a list of words, found the text {command!r}", f"write {command.split()!r}")
    return RunOptions(
        command=tuple(command),
        lock=_path(lock),
        environment=dict(environment or {}),
        mounts=tuple(parse_mount(text, Path.cwd()) for text in mounts),
        network=check_network(network) if network else "",
        controls=controls,
        guard=guard,
        offline=offline,
        trace=trace,
        outputs=tuple(parse_output(text) for text in outputs),
        timeout=None if timeout is None else check_timeout(timeout),
    )


def _side(run: AnyRun, project: PathLike | None) -> Side:
    from envbuild.lockfile.discovery import nearest_locks
    from envbuild.operations.diff import find_side
    from envbuild.operations.run import RunResult
    from envbuild.operations.run_context import Side

    if isinstance(run, RunResult):
        return Side(record=run.record, project=run.project)
    name = str(run)
    if project is not None:
        folder = Path(project)
    else:
        folder = Path.cwd() if "/" in name or name.endswith(".json") else nearest_locks(Path.cwd())[0].parent
    return find_side(name, folder)


def _record(side: Side) -> Path:
    from envbuild.record.history import run_folder

    return run_folder(side.project, side.record.id)
