"""``diff --bisect``: A is run again with one thing at a time as B had it, in copies of the project.

The user's folder is not touched: each run works in a copy from which the outputs of earlier runs are removed, and in
which script, modules and configuration are as they were. Its lock and its record are in a folder next to the copy;
both are removed at the end.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from envbuild.core.fs import folder_below
from envbuild.core.identity import new_id
from envbuild.core.redact import MASK
from envbuild.difference.bisect import Answer, search
from envbuild.difference.results import outcome
from envbuild.difference.toggles import Plan, Setting, plan
from envbuild.engine.protocol import Mount
from envbuild.errors import EnvbuildError, UsageError
from envbuild.lockfile import model as locks
from envbuild.lockfile.discovery import STATE_FOLDER, state_path
from envbuild.lockfile.layout import WORKSPACE
from envbuild.operations.diff import DiffResult
from envbuild.operations.events import BisectStep, Events
from envbuild.operations.run_context import Side, Texts, gather_context, lock_path
from envbuild.operations.verification.printed_lines import LazyReader
from envbuild.record import history
from envbuild.record.model import Record

if TYPE_CHECKING:
    from envbuild.engine.protocol import Engine
    from envbuild.image.record import ImageRecord
    from envbuild.runs.project_copy import Plan as Copy

_TAIL = 2000


BuildImage = Callable[[Path], "ImageRecord"]
"""Builds the image of a lock file and loads it into the engine; returns what is recorded of it."""
Connect = Callable[[], "Engine"]


def bisect(
    result: DiffResult, *, connect: Connect, build: BuildImage, events: Events, mounts: Sequence[Mount] = ()
) -> Answer:
    """Find the field that flips A's result to B's.

    Args:
        result: the runs, of which A is run again, and what differs, for the order of the search.
        connect: returns the engine; called once it is needed.
        build: for locks whose image the engine lacks.
        events: receives a ``BisectStep`` for each run.
        mounts: what may be mounted from outside the project if a record names it.

    Raises:
        UsageError: the runs have no results that differ, or A cannot be run again.
    """
    a, b, difference = result.a, result.b, result.difference
    for rank in (side.record.rank for side in (a, b)):
        if rank is not None and rank.world > 1:
            raise UsageError(
                f"--bisect: a job of {rank.world} ranks is started by its launcher",
                "start it again with one thing changed, and compare: envbuild diff",
            )
    if difference.outcome != "different":
        raise UsageError(f"--bisect: the results do not differ: {difference.verdict}", "name two other runs")
    for side in (a, b):
        recorded_mounts(side.record.options.mounts, a.project, mounts)
    lines_alone = outcome(_unprinted(a.record), _unprinted(b.record)) != "different"
    if lines_alone and a.record.options.tty:
        raise UsageError(
            "--bisect: the runs differ in printed lines alone, and were on a terminal, where programs print other ones",
            "make the two runs with their output in a file or a pipe, and compare those",
        )
    texts = Texts((a, b))
    digests = {digest for record in (a.record, b.record) for digest in _digests(record)}
    available = {digest for digest in digests if texts.content(digest) is not None}
    ranking = [finding.what for finding in difference.causes]
    planned = plan(a.record, b.record, gather_context(a, b), available, ranking)
    if planned.impossible:
        raise UsageError(f"--bisect: run {a.record.id[:10]} cannot be run again: {planned.impossible}")
    with _Bench(a, b, texts, connect, build, mounts) as bench:
        one, other, run = a.record, b.record, bench.run
        if not lines_alone:  # what a setting prints of itself flips with it, and is not what is searched for
            one, other, run = _unprinted(one), _unprinted(other), lambda setting: _unprinted(bench.run(setting))
        return _run_search(planned, one, other, run, events)


def _unprinted(record: Record) -> Record:
    """Return a record without what was printed."""
    return msgspec.structs.replace(record, printed=None)


def _run_search(planned: Plan, a: Record, b: Record, run: Callable[[Setting], Record], events: Events) -> Answer:
    """Make the runs that the search asks for, and report the result of each."""
    steps = search(planned, a, b)
    step = next(steps)
    while True:
        began = time.monotonic()
        record = run(step.setting)
        equal = tuple(name for name, other in (("A", a), ("B", b)) if outcome(record, other) == "equal")
        seconds = time.monotonic() - began
        failed = record.exit_code if record.exit_code != a.exit_code else None
        events.report(
            BisectStep(name=step.name, equal_to=equal, state=record.state, other_exit_code=failed, seconds=seconds)
        )
        try:
            step = steps.send(record)
        except StopIteration as stop:
            answer: Answer = stop.value
            return answer


def _digests(record: Record) -> list[str]:
    found = [file.sha256 for file in (*record.modules, *record.configs) if file.sha256]
    return [*found, *([record.script.sha256] if record.script else [])]


@dataclass(kw_only=True)
class _Silence:
    """Takes what the program prints; keeps the end of it for when it fails."""

    tail: bytes = b""

    def started(self, send: Callable[[str], None]) -> None:
        """Signals are not sent."""

    def write(self, number: int, data: memoryview) -> None:
        """Keep the end."""
        self.tail = (self.tail + bytes(data))[-_TAIL:]


@dataclass(kw_only=True)
class _Image:
    """An image that is ready to run, and the lock it is of."""

    lock: locks.Lock
    path: Path
    reference: str
    config: str


class _Bench:
    """Where runs are repeated: ``.envbuild/bisect-…`` below A's project, removed at the end.

    Args:
        a, b: the runs.
        texts: content of files.
        connect, build: as ``bisect`` has them.
        allowed: its ``mounts``.
    """

    def __init__(
        self, a: Side, b: Side, texts: Texts, connect: Connect, build: BuildImage, allowed: Sequence[Mount]
    ) -> None:
        self._allowed = allowed
        self._a, self._b, self._texts = a, b, texts
        self._connect, self._build = connect, build
        self._folder = state_path(a.project, f"bisect-{new_id()}")
        self._images: dict[str, _Image] = {}
        self._engine: Engine | None = None
        self._number = 0

    def __enter__(self) -> _Bench:
        """Look at the project, and make the folder."""
        from envbuild.runs.project_copy import check_size, plan_copy

        self._inputs = tuple(path.strip("/") for path in self._a.record.inputs)
        self._copy: Copy = plan_copy(self._a.project, self._inputs)
        check_size(self._copy, 1, self._a.project)
        self._made = _outputs(self._a.project)
        self._folder.mkdir(parents=True)
        return self

    def __exit__(self, *error: object) -> None:
        """Remove everything."""
        from envbuild.runs.project_copy import remove_copy

        remove_copy(self._folder)

    def run(self, setting: Setting) -> Record:
        """Run one setting in a fresh copy."""
        from envbuild.runs.execute import run
        from envbuild.runs.project_copy import make_copy, remove_copy

        image = self._image(setting)
        self._number += 1
        copy = self._folder / f"copy-{self._number}"
        make_copy(self._copy, copy, self._inputs)
        try:
            self._restore(copy, setting.files)
            request = self._request(setting, image, copy)
            return run(request, self._engine_for())
        finally:
            remove_copy(copy)

    def _request(self, setting: Setting, image: _Image, copy: Path) -> Any:
        from envbuild.operations import run_options as parse
        from envbuild.runs.request import RunRequest

        options = setting.options
        below = setting.directory.removeprefix(WORKSPACE).strip("/")
        given: dict[str, Any] = {"gpus": parse.parse_gpus(options.gpus)} if options.gpus else {}
        return RunRequest(
            lock_path=image.path,
            lock=image.lock,
            image=image.reference,
            config=image.config,
            arguments=setting.command,
            verbatim=True,
            directory=image.path.parent / below,
            environment=_unmasked(setting.environment),
            mounts=(*self._copy.mounts, *recorded_mounts(options.mounts, self._a.project, self._allowed)),
            network=options.network,
            cpus=options.cpus,
            cpuset=options.cpuset,
            memory=options.memory,
            tty=False,
            controls=options.controls,
            allow=options.allow,
            guard=options.guard,
            without=options.without,
            workspace=copy,
            watcher=_Silence(),
            printed=LazyReader,
            **given,
        )

    def _restore(self, copy: Path, files: Mapping[str, str | None]) -> None:
        """Remove what earlier runs made, and put files as they were."""
        for path in self._made:
            if path not in files:
                _put(copy, path, None)
        for path, digest in files.items():
            if not any(path == name or path.startswith(f"{name}/") for name in self._inputs):
                _put(copy, path, None if digest is None else self._texts.content(digest))

    def _engine_for(self) -> Engine:
        if self._engine is None:
            self._engine = self._connect()
        return self._engine

    def _image(self, setting: Setting) -> _Image:
        """Return the image of a lock: the one that is there if it is the recorded one, else a built one."""
        if setting.lock not in self._images:
            side = self._a if setting.lock == self._a.record.lock.sha256 else self._b
            self._images[setting.lock] = self._ready(side, self._folder / f"lock-{len(self._images)}")
        return self._images[setting.lock]

    def _ready(self, side: Side, folder: Path) -> _Image:
        from envbuild.image.record import image_record_path, image_tag, is_recorded, read_image_record

        found = lock_path(side)
        if found is None:
            raise UsageError(f"--bisect: the lock of run {side.record.id[:10]} was not kept")
        folder.mkdir()
        path = folder / Path(side.record.lock.file).name
        path.write_bytes(found.read_bytes())
        lock = locks.load(path)
        for entry in lock.inputs:
            place = folder / entry.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to((side.project / entry.path).resolve())
        with suppress(OSError):
            image_record_path(path).write_bytes(image_record_path(side.project / path.name).read_bytes())
        identity = read_image_record(path, lock)
        engine = self._engine_for()
        if identity is not None and is_recorded(engine.find_image(identity.reference), identity):
            return _Image(lock=lock, path=path, reference=identity.reference, config=identity.config)
        held = engine.find_image(image_tag(lock))
        if held is not None and held.config == side.record.image:
            return _Image(lock=lock, path=path, reference=image_tag(lock), config=held.config)
        try:
            built = self._build(path)
        except EnvbuildError as error:
            error.message = f"--bisect: the image of run {side.record.id[:10]} cannot be built: {error.message}"
            raise
        return _Image(lock=lock, path=path, reference=built.reference, config=built.config)


def recorded_mounts(texts: Sequence[str], project: Path, allowed: Sequence[Mount]) -> tuple[Mount, ...]:
    """Return the mounts that a record names.

    Args:
        texts: ``options.mounts`` of the record.
        project: what is inside it may be mounted, but for envbuild's own folder, and ``.git`` only read-only.
        allowed: what the caller allows in addition; a record may be anybody's, and ``/`` is a path too.

    Raises:
        UsageError: another mount, or a source that does not exist.
    """
    from envbuild.operations.run_options import parse_mount

    found = tuple(parse_mount(text, Path("/")) for text in texts)
    own = project.resolve()
    for text, mount in zip(texts, found, strict=True):
        place = mount.source.resolve()
        top = place.relative_to(own).parts[:1] if place.is_relative_to(own) else ()
        inside = top and top != (STATE_FOLDER,) and (top != (".git",) or mount.read_only)
        if not inside and mount not in allowed:
            raise UsageError(
                f"--bisect: the record mounts {mount.source} at {mount.target}; a record is not trusted with this",
                f"if it is right, allow it: --mount {shlex.quote(text)}",
            )
    return found


def _put(copy: Path, path: str, content: bytes | None) -> None:
    """Write a file of a copy, or remove it (None). A folder in its path that is a link is not followed: left alone."""
    *above, name = path.split("/")
    with suppress(OSError, ValueError), folder_below(copy, *above, make=content is not None) as folder:
        if content is None or (folder / name).is_symlink():
            (folder / name).unlink(missing_ok=True)
        if content is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(folder / name, flags, 0o666), "wb") as stream:
                stream.write(content)


def _outputs(project: Path) -> Collection[str]:
    """Return the files that runs of a project made, which none of them found at its start."""
    return {
        output.path for record in history.list_runs(project) for output in record.outputs if output.change == "created"
    }


def _unmasked(environment: Mapping[str, str]) -> dict[str, str]:
    """Take variables whose values are masked in the record from the caller."""
    found = {}
    for name, value in environment.items():
        if MASK not in value:
            found[name] = value
        elif name in os.environ:
            found[name] = os.environ[name]
        else:
            raise UsageError(
                f"--bisect: variable {name} is masked in the record", f"set it as in the run: export {name}=…"
            )
    return found
