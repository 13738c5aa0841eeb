"""The run stage: one program in one locked image, and a record of it.

The project is mounted at ``/workspace``, declared inputs read-only over it. The program runs as the caller, so its
files are the caller's. A record is on disk before the program starts and is completed whatever becomes of it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from envbuild.core.digest import sha256_file
from envbuild.core.fs import folder_below, read_foreign
from envbuild.core.identity import new_id
from envbuild.core.process_mark import mark
from envbuild.core.redact import mask_arguments, mask_environment
from envbuild.core.text import encodable, plain, quote
from envbuild.core.types import prepare_deferred
from envbuild.engine.protocol import ContainerRun
from envbuild.engine.streams import repeated_signals_ignored
from envbuild.errors import EnvbuildError, IntegrityError, UsageError
from envbuild.lockfile import layout
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.record import history, printed, processes, sources
from envbuild.record.model import LockFacts, Options, Output, Record, Script, recipe, verified
from envbuild.record.processes import ForeignPackage, ReadFile
from envbuild.runs import workspace
from envbuild.runs.container import EMPTY, chosen_gpus, container_run, gpu_option, is_own
from envbuild.runs.facts import Facts
from envbuild.runs.outside import Outside, name_mounted
from envbuild.runs.request import RunEngine, RunRequest
from envbuild.runs.standard_input import InputWatch
from envbuild.runs.tools_files import notes_beyond, notes_on_project, notes_on_special
from envbuild.runs.verdict import Heard, VerdictPipe

if TYPE_CHECKING:
    from envbuild.runs.observations import FileDigests
    from envbuild.runs.results.lines import StdoutCapture

_READ = 1000
"""Most files that are listed as read by other means than Python's ``open``."""
_TICK = 20_000_000
"""Nanoseconds by which the times of files may be behind the clock: the kernel's own tick, twice."""
_FILE = 16 << 20
"""Bytes of the largest list of what was in memory that is read."""
_STDERR = 2
_KILLED = 128
"""Exit codes above it are 128 and the number of a signal."""
_SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")


@repeated_signals_ignored()
def run(request: RunRequest, engine: RunEngine) -> Record:
    """Run to the end and return the completed record, whose ``exit_code`` is the program's (78: refused by the guard).

    Raises:
        UsageError: the script or an input does not exist, or is outside the project.
        EngineError: the engine could not run the container; the record reports it too.
    """
    if not request.identity:
        request = msgspec.structs.replace(request, identity=new_id())
    try:
        begun = _Run(request, engine)
        ended: dict[str, Any] = {}
        try:
            ended = begun.program()
        except BaseException as error:
            ended = {"state": "failed" if isinstance(error, Exception) else "interrupted", "problem": _problem(error)}
            raise
        finally:
            record = begun.completed(ended)
    except OSError:  # such as of a full disk, to which the record of the end could not be written
        with suppress(OSError):
            history.mark_failed(request.project, request.identity)
        raise
    if request.verification and record.layers == "changed":
        raise changed_layers_error()
    return record


class _Run:
    """One run: when it is made, its first record is on disk and the project has been looked at.

    Raises:
        UsageError: as ``run`` does.
    """

    def __init__(self, request: RunRequest, engine: RunEngine) -> None:
        self.request, self.engine = request, engine
        self._started = time.monotonic()
        self._facts = Facts(request, engine)
        command, script = command_line(request)
        self._owner = caller_ids(os.environ)
        gpus = chosen_gpus(request, engine)
        self._record = _first_record(request, command, script, self._owner, "" if gpus is None else str(gpus))
        self._folder = history.process_folder(request.project, self._record.id)
        self._readers = _Readers(request)
        self._around = Outside(
            mounts=request.mounts,
            wanted=request.outputs,
            copies=request.copies,
            kept=history.outside_folder(request.project, self._record.id),
            shown="" if request.verification else layout.SHOWN_DIR,
            offline=(request.network or request.lock.run.network) == "none",
        )
        self._facts.record = self._record
        self._container = container_run(
            request,
            self._record,
            command,
            self._folder,
            self._owner,
            gpus,
            self._readers.feed,
            self._around.look_inside,
            self._facts.wait_for_git,
        )
        self._around.targets = tuple(mount.target for mount in self._container.mounts)
        self._keep_first()
        self._inputs = tuple(entry.path.strip("/") for entry in request.lock.inputs)
        self._special: list[str] = []
        found = workspace.scan(request.mounted, self._inputs, None, self._special)
        self._before = found if request.before is None else request.before
        self._around.look_first()
        self._began = time.time_ns()
        self._given = InputWatch() if request.watcher is None else None
        self._heard = Heard()
        self._read: list[tuple[str, int, int]] = []
        self._altered: tuple[set[str], set[str]] = set(), set()
        self._listed: list[str] = []
        own = request.workspace is not None
        self._marked = workspace.mark_folders(request.mounted, self._before) if own else {}

    def _keep_first(self) -> None:
        """Write what is known before the program starts."""
        request = self.request
        _make_folders(request.project, self._folder, self._owner)
        name_mounted(request.mounts, self._folder)
        if request.lock.hardware.fingerprint:
            from envbuild.runs import fingerprint

            fingerprint.pass_to_container(request.lock_path, request.lock, self._folder)
        history.save(request.project, self._record)
        sources.keep_lock(request.project, request.lock_path)
        sources.keep_sources(request.project, self._record)

    def program(self) -> dict[str, Any]:
        """Run the program to its end; returns how it ended."""
        with VerdictPipe(self._folder, self._owner) as pipe:
            try:
                code = self.engine.run_container(self._container)
            finally:
                prepare_deferred()
                self._heard = pipe.read()
        return {
            "state": "finished",
            "exit_code": int(code),
            "out_of_memory": code.out_of_memory,
            "timed_out": code.timed_out,
            "layers": code.layers,
        }

    def completed(self, ended: dict[str, Any]) -> Record:
        """Return the last record, which is on disk then.

        Args:
            ended: what ``program`` returned, or how it failed.
        """
        from envbuild.runs.results import metrics

        request, folder = self.request, self._folder
        from envbuild.runs.observations import FileDigests

        digests = FileDigests(self.request.mounted, mounts=self._record.options.mounts)
        changed = ended | self._observed(ended, digests)
        changed |= self._left()
        changed["read_otherwise"], changed["reads_beyond"] = self._read_otherwise(changed, digests)
        changed["altered"], changed["listed"] = self._read_before(changed), self._names_listed(changed)
        left = (*changed["outputs"], *changed["outside"])
        made = {output.path for output in left if output.change == "created"}
        changed["reads"] = tuple(file for file in changed["reads"] if file.path not in made)
        changed |= metrics.collect(folder, request.mounted, changed["outputs"], self._readers.metrics.finish())
        changed["printed"] = self._readers.result()
        printed.keep(request.project, self._record.id, self._readers.texts)
        if request.tensors and changed["state"] == "finished":
            changed["outputs"] = _read_tensors(request, self.engine, self._container, folder, changed)
        changed["input_changes"] = request.inputs_since()
        from envbuild.record import listing

        if not request.verification:  # the copies that verify runs in have other times each
            around = self._around.found_mounted(listing.MOST_MOUNTED)
            listing.keep(request.project, self._record.id, {**self._before, **around})
        if changed["verified"] == "yes" and request.lock.hardware.fingerprint:
            _keep_fingerprint(request, self._record.id, folder, self._owner)
        changed |= {"end": _now(), "duration": round(time.monotonic() - self._started, 3), "supervisor": ""}
        return self._keep_last(msgspec.structs.replace(self._record, **changed))

    def _observed(self, ended: dict[str, Any], digests: FileDigests) -> dict[str, Any]:
        """Return what guard and hook reported, and what was found out about the host meanwhile."""
        from envbuild.runs import nccl
        from envbuild.runs.observations import observations

        state, verdict = ended["state"], self._heard.verdict
        found = self._facts.result() | observations(self._folder, self._inputs, digests)
        found["nccl"] = nccl.digests(self._folder)
        found["standard_input"] = self._given.result() if self._given else None
        if state == "finished" and verdict is not None and not verdict.ok:
            state = "refused"
        found |= {"state": state, "verdict": verdict, "verdict_source": self._heard.source}
        found["verified"] = verified(state, verdict, ended.get("layers", ""))
        return found | _other_ranks(self.request, ended | found)

    def _left(self) -> dict[str, Any]:
        """Return what the program left in the project and outside."""
        mounted = self.request.mounted
        tools, beyond, special = list[str](), list[str](), list[str]()
        self._listed = [*workspace.listed_folders(mounted, self._marked)]
        after = workspace.scan(mounted, self._inputs, tools, special)
        # The program finds an empty folder in the place of envbuild's own, which has thousands of records.
        looked_at = [each for each in tools if each != STATE_FOLDER or not is_own(self.request, each)]
        written = workspace.written_since(mounted, looked_at, self._began - _TICK, beyond)
        notes = (*notes_on_project(written), *notes_on_special(self._special, special), *notes_beyond(beyond))
        self._around.left_out += notes
        self._read = self._read_in_copy(after)
        if self.request.workspace is not None:
            self._altered = workspace.altered_files(mounted, self._before, after)
        outputs, deleted = workspace.changes(mounted, self._before, after)
        memory = processes.json_table(read_foreign(self._folder / "memory.json", _FILE)) or {}
        outside, left_out = self._around.look_last(memory)
        return {
            "outputs": outputs,
            "deleted": deleted,
            "folders": workspace.folder_changes(self._before, after),
            "outside": outside,
            "outside_left_out": left_out,
        }

    def _read_in_copy(self, after: Mapping[str, workspace.FileState]) -> list[tuple[str, int, int]]:
        """Return what any program has read of a copy of the project and left as it was; in the project nobody knows."""
        if self.request.workspace is None:
            return []
        same = (path for path in sorted(after) if path[-1:] != "/" and self._before.get(path) == after[path])
        return list(workspace.read_files(self.request.mounted, same))

    def _read_otherwise(self, known: Mapping[str, Any], digests: FileDigests) -> tuple[tuple[ReadFile, ...], int]:
        """Return the data that was read by other means than Python's ``open``: so many files, and how many more."""
        listed = {file.path for key in ("reads", "configs", "modules", "objects") for file in known[key]}
        listed |= {self._record.script.path} if self._record.script else set()
        read = [each for each in self._read if encodable(each[0]) not in listed]
        files = (
            ReadFile(path=encodable(path), size=size, sha256=digests(path, size, at)) for path, size, at in read[:_READ]
        )
        return tuple(files), len(read[_READ:])

    def _read_before(self, known: Mapping[str, Any]) -> tuple[ReadFile, ...]:
        """Return the files that were read, and that are not as they were: as the project has them."""
        read, altered = self._altered
        listed = {file.path for file in known["reads"]}
        from envbuild.runs.observations import FileDigests

        found, digests = [], FileDigests(self.request.project)
        for path in sorted(read | {path for path in altered if encodable(path) in listed})[:_READ]:
            with suppress(OSError):
                status = (self.request.project / path).lstat()
                same = status.st_size == self._before[path][0] and status.st_mtime_ns <= self._began
                sha256 = digests(path, status.st_size, status.st_mtime_ns) if same else None
                found.append(ReadFile(path=encodable(path), size=self._before[path][0], sha256=sha256))
        return tuple(found)

    def _names_listed(self, known: Mapping[str, Any]) -> dict[str, str]:
        """Return digests of the names in folders that were listed; those with code are whatever is imported."""
        code = {""} | {file.path for file in known["modules"]}
        code |= {self._record.script.path} if self._record.script else set()
        for path in [*code]:
            while path := path.rpartition("/")[0]:
                code.add(path)
        folders = [path for each in self._listed if (path := each.rstrip("/")) not in code and encodable(path) == path]
        return workspace.names_in(self._before, folders[:_READ], [output.path for output in known["outputs"]])

    def _keep_last(self, record: Record) -> Record:
        """Compare a record with those of earlier runs, and save it."""
        request = self.request
        if record.layers != "changed" and (record.rank is None or record.rank.world == 1 or record.rank.waited):
            record = msgspec.structs.replace(record, **history.compared(request.project, record))
        history.save(request.project, record)
        sources.keep_sources(request.project, record, request.workspace)
        if request.recorded is not None and record.rank is not None and record.rank.codes:
            with suppress(KeyboardInterrupt):  # from a launcher that ends all ranks once one has failed
                request.recorded(record)
        return record


def changed_layers_error() -> IntegrityError:
    """Return the error for a run whose image's files were changed by somebody: its result is not the image's."""
    return IntegrityError(
        "files of the image were changed in the store, before or during this run: its result proves nothing",
        "have the changed layers made again, then run it again: envbuild build",
    )


def command_line(request: RunRequest) -> tuple[tuple[str, ...], Path | None]:
    """Turn what the caller typed into the container's command, and name the script if there is one.

    A first argument that ends in ``.py`` is a script, ``-m`` and ``-c`` are Python's own; all else is a command.
    """
    arguments = request.arguments
    _check_texts(request)
    if not arguments:
        return _SHELL, None
    first = arguments[0]
    if request.verbatim:
        return arguments, None
    if first in ("-m", "-c"):
        return ("python", *arguments), None
    if not first.endswith(".py"):
        return arguments, None
    script = (request.directory / first).resolve()
    if not script.is_file():
        raise UsageError(f"the script {first} does not exist in {request.directory}")
    if not script.is_relative_to(request.project):
        raise UsageError(
            f"the script {script} is outside the project {request.project}",
            "put it next to or below the lock, or choose another lock: --lock FILE",
        )
    inside = request.directory.resolve().is_relative_to(request.project) and not Path(first).is_absolute()
    name = first if inside else f"{layout.WORKSPACE}/{script.relative_to(request.project)}"
    return ("python", name, *arguments[1:]), script


def _check_texts(request: RunRequest) -> None:
    """Raise ``UsageError`` for what no engine takes and no record holds: all of them have texts in UTF-8."""
    texts = {f"argument {number}": text for number, text in enumerate(request.arguments, 1)}
    for place, text in (texts | {f"variable {name}": value for name, value in request.environment.items()}).items():
        if encodable(place) != place or encodable(text) != text:
            raise UsageError(
                f"{plain(place)}: expected text in UTF-8, found {quote(text)}",
                "rename the file, or have the program read what is no text from a file",
            )


def caller_ids(environment: Mapping[str, str]) -> tuple[int, int]:
    """Return the user and group the program runs as: the caller's, also behind sudo."""
    user, group = environment.get("SUDO_UID", ""), environment.get("SUDO_GID", "")
    if os.getuid() == 0 and user.isdecimal() and group.isdecimal():
        return int(user), int(group)
    return os.getuid(), os.getgid()


def on_terminal() -> bool:
    """Return whether this process is the foreground job of a terminal with both input and output on it."""
    try:
        return sys.stdin.isatty() and sys.stdout.isatty() and os.tcgetpgrp(0) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


def _first_record(
    request: RunRequest, command: tuple[str, ...], script: Path | None, owner: tuple[int, int], gpus: str
) -> Record:
    """Make the record of a run that is about to start."""
    tty = on_terminal() if request.tty is None and request.watcher is None else bool(request.tty)
    options = Options(
        network=request.network or request.lock.run.network,
        workspace=request.lock.run.workspace,
        controls=request.controls,
        guard=request.guard,
        allow=request.allow,
        gpus=gpu_option(request),
        cpus=request.cpus,
        cpuset=request.cpuset,
        memory=request.memory,
        mounts=tuple(f"{m.source}:{m.target}:{'ro' if m.read_only else 'rw'}" for m in request.mounts),
        user=f"{owner[0]}:{owner[1]}",
        tty=tty,
        verification=request.verification,
        without=request.without,
        signer=request.signer,
    )
    inside = request.directory.resolve()
    below = inside.relative_to(request.project).as_posix() if inside.is_relative_to(request.project) else "."
    record = Record(
        id=request.identity,
        state="running",
        supervisor=mark(),
        start=_now(),
        lock=LockFacts(file=request.lock_path.name, sha256=sha256_file(request.lock_path)),
        image=request.config,
        image_index=request.index,
        command=mask_arguments(command),
        directory=layout.WORKSPACE if below == "." else f"{layout.WORKSPACE}/{below}",
        script=_script(request.project, script),
        environment=mask_environment({**request.lock.environment, **request.environment}),
        options=options,
        gpus=gpus,
        inputs={entry.path: entry.blake3 for entry in request.lock.inputs},
        rank=request.rank,
        emulator=request.emulator[1] if request.emulator else "",
    )
    return msgspec.structs.replace(record, recipe=recipe(record))


def _script(project: Path, path: Path | None) -> Script | None:
    """Digest the script before it can change."""
    return None if path is None else Script(path=path.relative_to(project).as_posix(), sha256=sha256_file(path))


def _make_folders(project: Path, folder: Path, owner: tuple[int, int]) -> None:
    """Make the folder that guard and hook write to and all above it, owned by the caller; an early run has it.

    It is closed to other users: arguments and parameters are in it, as in the record.
    """
    names = folder.relative_to(project).parts
    with folder_below(project, *names[:-1], make=True, owner=owner) as above:
        (above / names[-1]).mkdir(mode=0o700, exist_ok=True)
        if owner[0] != os.getuid():
            with suppress(PermissionError):  # NFS with root_squash
                os.chown(above / names[-1], *owner, follow_symlinks=False)
    with folder_below(project, STATE_FOLDER, EMPTY, make=True, owner=owner):
        pass


def _keep_fingerprint(request: RunRequest, identity: str, folder: Path, owner: tuple[int, int]) -> None:
    """Record the numbers of the first accepted run next to the lock; where that is not possible the next run tries."""
    from envbuild.runs import fingerprint

    found = fingerprint.found_in(folder)
    if found is None:
        return
    with suppress(EnvbuildError, OSError):
        fingerprint.record_first(request.lock_path, request.lock, found, identity)
        if owner[0] != os.getuid():
            os.chown(fingerprint.path_of(request.lock_path), *owner, follow_symlinks=False)


def _read_tensors(
    request: RunRequest, engine: RunEngine, container: ContainerRun, folder: Path, changed: Mapping[str, Any]
) -> tuple[Output, ...]:
    """Return the outputs with the tensors of saved models; nobody waits for those of a program that was killed."""
    from envbuild.runs.results import tensors

    outputs = tensors.with_reasons(changed["outputs"])
    files = tensors.saved_models(request.mounted, outputs)
    if not files:
        return outputs
    if changed["exit_code"] > _KILLED:
        found: Mapping[str, Any] = {path: {"unread": "the program was killed"} for path in files}
    else:
        found = tensors.read(
            engine, container, request.mounted, folder, request.lock.python.version, files, _packages(changed)
        )
    return tensors.with_tensors(outputs, found, files)


def _packages(changed: Mapping[str, Any]) -> list[ForeignPackage]:
    """Return what the processes of a run imported from elsewhere than the image."""
    return [package for process in changed.get("processes", ()) for package in process.packages]


def _other_ranks(request: RunRequest, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Tell the other ranks that this one has ended, and wait for them: they may write to the same project."""
    if request.rank is None or request.finished is None or changed["state"] not in ("finished", "refused"):
        return {}
    try:
        codes = dict(request.finished(changed["exit_code"]))
    except KeyboardInterrupt:  # from a launcher that ends all ranks once one has failed; this program has ended
        codes = {request.rank.rank: changed["exit_code"]}
    return {"rank": msgspec.structs.replace(request.rank, codes=codes, waited=len(codes) == request.rank.world)}


class _Readers:
    """Reads what a program prints, as it comes: metrics, the lines that are compared, and the text that is kept."""

    def __init__(self, request: RunRequest) -> None:
        make = request.printed
        self._printed = None if make is None else {stream: make(stream) for stream in printed.STREAMS}
        self._texts: dict[printed.Stream, bytearray] = {}

    @cached_property
    def metrics(self) -> StdoutCapture:
        """Collects metrics; what that takes is imported once the program has started."""
        from envbuild.runs.results.lines import StdoutCapture

        return StdoutCapture()

    def feed(self, number: int, data: memoryview) -> None:
        """Take what was written to descriptor 1 or 2."""
        stream: printed.Stream = "stderr" if number == _STDERR else "stdout"
        if stream == "stdout":
            self.metrics.feed(bytes(data))
        if self._printed is not None:
            text = self._texts.setdefault(stream, bytearray())
            text += data[: max(0, printed.KEPT_TEXT - len(text))]
            self._printed[stream].feed(data)

    def result(self) -> dict[printed.Stream, printed.Printed] | None:
        """Return what each stream came to, those without anything left out; None if it is not recorded."""
        if self._printed is None:
            return None
        found = {stream: reader.result() for stream, reader in self._printed.items()}
        return {stream: each for stream, each in found.items() if each != printed.Printed()}

    @property
    def texts(self) -> dict[printed.Stream, bytes]:
        """The beginning of each stream that had anything."""
        return {stream: bytes(text) for stream, text in self._texts.items()}


def _problem(error: BaseException) -> str:
    """Describe in a record what went wrong."""
    return error.message if isinstance(error, EnvbuildError) else type(error).__name__


def _now() -> str:
    """Return the time in UTC with milliseconds."""
    now = time.time_ns() // 1_000_000  # without datetime, whose import takes 0.7 ms
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now // 1000))}.{now % 1000:03}Z"
