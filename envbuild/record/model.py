"""The record of one run: everything that could have changed its result, and digests of the result.

Written as JSON; ``record_schema`` is its published description. Meaning of every field: docs/reference/record.md.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from envbuild.cluster.rank import Rank
from envbuild.core.digest import sha256_json
from envbuild.core.foreign_json import check_size
from envbuild.core.types import prepare_deferred, prepare_late
from envbuild.errors import UsageError
from envbuild.host.facts import GpuFacts, HostFacts
from envbuild.record.printed import Printed, Stream
from envbuild.record.processes import DEEPEST, ParameterSet, ProcessRecord, ReadFile, encodable

FORMAT = 2

RunId = Annotated[str, Meta(pattern=r"^[0-9A-HJKMNP-TV-Z]{26}\Z")]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Blake3 = Sha256
Digest128 = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")]
State = Literal["running", "lost", "finished", "refused", "interrupted", "failed"]
VerdictSource = Literal["", "pipe", "file"]
Verified = Literal["", "yes", "overridden", "refused", "no"]
"""What the guard reports about a run: all as locked; differences that were allowed by name; refused; nothing, since it
was switched off, never ran, or somebody had changed the image's files. Empty while a program has not been started."""

Value = float | Literal["nan", "inf", "-inf"]
"""To the last bit; ``float(value)`` reads what JSON has no number for."""
Point = tuple[int, Value]
"""A step and a value."""
NOTHING_LEFT = "nothing was left in "
"""How a sentence begins about a path outside the project that was asked for."""


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of a record's parts. Unknown keys are ignored, so that an older envbuild lists newer records."""


class LockFacts(_Value, frozen=True, kw_only=True):
    """The lock's file name and the SHA-256 of its bytes."""

    file: str
    sha256: Sha256


class Script(_Value, frozen=True, kw_only=True):
    """The program's file, relative to the project, and its SHA-256 at the start."""

    path: str
    sha256: Sha256


class StandardInput(_Value, frozen=True, kw_only=True, omit_defaults=True):
    """What the program had as its standard input.

    Attributes:
        kind: ``none`` (such as ``/dev/null``), ``terminal``, ``file``, or ``pipe``, of which no content is known.
        size: bytes of the file from where the program began; of one that is ``unread`` all.
        sha256: of those bytes; None if they were too many.
        unread: nothing was read of the file, unless the program opened it once more (``/dev/stdin``).
    """

    kind: Literal["none", "terminal", "file", "pipe"]
    size: int | None = None
    sha256: Sha256 | None = None
    unread: bool = False


class Git(_Value, frozen=True, kw_only=True):
    """The project's version.

    Attributes:
        branch: empty if detached.
        dirty: tracked files differ from the commit.
        diff_sha256: SHA-256 of ``git diff HEAD --full-index``; empty if not dirty.
        untracked: number of files and whole folders that git neither tracks nor ignores.
        changed: files of the project that differ from the commit, a thousand at most; None if not recorded.
    """

    commit: str
    branch: str
    dirty: bool
    diff_sha256: str
    untracked: int
    changed: tuple[str, ...] | None = None


class Options(_Value, frozen=True, kw_only=True):
    """What the command line chose.

    Attributes:
        guard: False if it was switched off.
        allow: fields whose difference was allowed.
        gpus: as ``--gpus`` takes it; empty for: as locked.
        memory: bytes.
        mounts: ``source:target:ro|rw``.
        verification: identity that the runs of one ``envbuild verify`` share; empty for other runs.
        without: switches and variables that the run went without, to see what they do.
        signer: who had to have signed the image, and has; empty if nobody had to.
    """

    network: str
    workspace: str
    controls: bool = True
    guard: bool = True
    allow: tuple[str, ...] = ()
    gpus: str = ""
    cpus: float | None = None
    cpuset: str = ""
    memory: int | None = None
    mounts: tuple[str, ...] = ()
    user: str = ""
    tty: bool = False
    verification: str = ""
    without: tuple[str, ...] = ()
    signer: str = ""


class GuardCheck(_Value, frozen=True, kw_only=True, omit_defaults=True):
    """One comparison of the guard (``runtime/guard/check.py``).

    Attributes:
        field: what was compared, such as ``kernel``.
        locked, found: both sides, for people.
        severity: of a difference: ``hard`` (refuse), ``soft`` (warn) or ``info``.
        meaning, fix: what a difference means, and what to do about it.
        because: the field whose difference explains this one; empty if none does.
        allowed: the difference was allowed by name.
    """

    field: str
    locked: str
    found: str
    ok: bool
    severity: str
    meaning: str
    fix: str
    because: str = ""
    allowed: bool = False


class GuardVerdict(_Value, frozen=True, kw_only=True, omit_defaults=True):
    """What the guard found before the program started.

    Attributes:
        verified: ``yes``, ``overridden`` or ``no``.
        gate: which of the guard's gates it was.
        lock: the lock's file name.
        controls: seeds and switches were on.
        gpu: what the GPU probe found; None if it was not asked.
    """

    format: int
    ok: bool
    verified: str
    gate: str
    lock: str
    controls: bool
    duration_ms: float
    checks: tuple[GuardCheck, ...]
    gpu: GpuFacts | None = None


class Tensor(_Value, frozen=True, kw_only=True, omit_defaults=True):
    """One array of a saved model.

    Attributes:
        dtype: as NumPy names it, such as ``float32``; what NumPy lacks as its own library does (``bfloat16``).
        digest: the first 128 bits of the SHA-256 of the values in row-major order, in hex.
        low, high, norm: smallest, largest and Euclidean norm in double precision; None if NumPy was not there, or of
            values that are no numbers, infinite or not a number. They describe, and are not compared.
    """

    dtype: str
    shape: tuple[int, ...]
    digest: Digest128
    low: float | None = None
    high: float | None = None
    norm: float | None = None


class Output(_Value, frozen=True, kw_only=True, omit_defaults=True):
    """A file after the run: of the workspace, or outside of it.

    Attributes:
        sha256: of a link: of its target's name; None if unreadable.
        tensors: the arrays of a saved model by name.
        content: digest of all that the file means: its tensors and what else is in it but for time stamps. Two files
            of equal content may differ in bytes. Empty for other files, and if it could not be read as a whole.
        notes: short texts and numbers in a saved model by name, such as attributes of HDF5; part of the content.
        bare: digest of the content without the notes; empty if there are none.
        canonical: digest of what the file holds without times of writing and measurements; only of a file whose bytes
            differed from those of a run that it was compared with, and whose format is opened (docs/how-to/verify.md).
        part_of: path of the file whose ``canonical`` is the digest of this one's content too: a database's manifest.
        unread: why not, in a sentence; empty for files that are no saved model.
        mode: permission bits in octal; empty for links, and where they are not known.
        attributes: digest of its extended attributes of the namespace ``user``; empty if it has none.
    """

    path: str
    change: Literal["created", "changed"]
    size: int
    sha256: Sha256 | None
    mode: str = ""
    attributes: str = ""
    tensors: dict[str, Tensor] = {}
    content: str = ""
    notes: dict[str, str] = {}
    bare: str = ""
    canonical: str = ""
    part_of: str = ""
    unread: str = ""


class Folder(_Value, frozen=True, kw_only=True, omit_defaults=True):
    """A folder of the project that the run made, removed, or gave other permissions.

    Attributes:
        mode: permission bits in octal; empty for one that is gone.
        empty: nothing was left in it.
    """

    path: str
    change: Literal["created", "changed", "removed"]
    mode: str = ""
    empty: bool = False


class Record(_Value, frozen=True, kw_only=True):
    """One run.

    Attributes:
        state: ``running`` until the end; ``finished`` whatever the exit code; ``refused`` by the guard;
            ``interrupted`` before the program started; ``failed`` if the engine could not run it. ``lost`` is never
            written: it is what ``running`` is read as once the envbuild that waited for the run is gone.
        supervisor: the mark of that envbuild's process: boot, process namespace, number, start; empty after the end.
        image: config digest.
        standard_input: what the program had as such; None if it was not connected, as in runs of ``verify``.
        image_index: digest of the index of several platforms by which the image was named in its registry; empty: it
            was built here, or named by its own digest.
        gpus: GPUs that the engine was asked for, as ``--gpus`` takes it; empty for none.
        rank: this process among the ranks of a distributed job; None if no launcher started it.
        emulator: Debian's package with the emulator that started the image's programs, its version and SHA-256; empty:
            they were the machine's own.
        duration: seconds.
        inputs: BLAKE3 of the manifest of each input, from the lock.
        input_changes: what happened to inputs during the run, a sentence each.
        timed_out: the limit in seconds at which the program was ended; None if it was not.
        problem: what failed, if it was not the program.
        layers: whether the image's files in the store, which the local engine runs from, were the image's from the
            time they were made to the end of the run: ``unchanged``; ``changed`` by somebody; ``not compared`` after a
            program of less than half a second. Empty: not known; another engine keeps them itself.
        verdict_source: how the verdict came: ``pipe``, which the program cannot write to; ``file``, which it can; empty
            without a verdict.
        nccl: what NCCL found between the GPUs, as digests: its channels, and the links that they were chosen by.
        processes_left_out: number of processes whose files were damaged, too large, or too many.
        parameters: what argument parsers gave the program, defaults included, secrets masked.
        configs, modules: files of the project, and of what was mounted, that its processes read as configuration or
            loaded as code.
        reads: other files that its processes read there and that are no declared inputs.
        read_otherwise: files of the project that were read by other means than Python's ``open``; known of runs of
            ``verify`` alone, by the times of access in the copy of the project.
        altered: files of the project that were read, or moved, and then changed or removed, as they were before; of
            runs of ``verify`` alone.
        listed: folders of the project that were listed and hold no code, with a digest of the names that the program
            found there, what it left aside; of runs of ``verify`` alone.
        reads_beyond: how many further files of the project were read; of runs of ``verify`` alone.
        objects: shared objects loaded from outside the image's locked folders.
        metrics: what the program measured, by name: steps and values in their order.
        metric_sources: where each metric was found: ``keras``, ``standard output``, or the event file's folder.
        folders: those of the project that the program made, removed, or gave other permissions.
        outside: files outside the project that the program left: in the container's own layer, in memory, in folders
            mounted to be written. Caches and locks of tools are not among them. Paths are those in the container.
        outside_left_out: what of that was not looked at, a sentence each.
        printed: what is known of each stream; None if it was not recorded. Of a terminal all is standard output.
        recipe: digest of lock, image, script, command, environment and options: equal for runs that should agree.
        same_bits_as: newest earlier run of the same recipe with equal outputs and equal printed lines.
        not_compared: what of that is not known to be equal or different, a phrase each.
        same_tensors_in: files whose bytes differ from that run's, but not what they hold.
        differs_from: newest earlier run of the same recipe if none has equal outputs; ``differs_in`` names the files,
            and the streams.
        judged: what the verification found whose run this is; empty: it is none's, or none that came to a verdict.
    """

    format: int = FORMAT
    id: RunId
    state: State
    supervisor: str = ""
    start: Time
    end: Time | None = None
    duration: float | None = None
    exit_code: int | None = None
    out_of_memory: bool = False
    timed_out: float | None = None
    problem: str = ""
    lock: LockFacts
    image: Sha256
    image_index: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""
    engine: dict[str, str] = {}
    layers: Literal["", "unchanged", "changed", "not compared"] = ""
    command: tuple[str, ...]
    directory: str
    script: Script | None = None
    standard_input: StandardInput | None = None
    environment: dict[str, str]
    options: Options
    inputs: dict[str, Blake3] = {}
    input_changes: tuple[str, ...] = ()
    recipe: str = ""
    git: Git | None = None
    gpus: str = ""
    rank: Rank | None = None
    emulator: str = ""
    host: HostFacts | None = None
    verified: Verified = ""
    verdict: GuardVerdict | None = None
    verdict_source: VerdictSource = ""
    nccl: dict[Literal["graph", "topology"], Sha256] = {}
    processes: tuple[ProcessRecord, ...] = ()
    processes_left_out: int = 0
    parameters: tuple[ParameterSet, ...] = ()
    configs: tuple[ReadFile, ...] = ()
    modules: tuple[ReadFile, ...] = ()
    reads: tuple[ReadFile, ...] = ()
    read_otherwise: tuple[ReadFile, ...] = ()
    altered: tuple[ReadFile, ...] = ()
    listed: dict[str, Sha256] = {}
    reads_beyond: int = 0
    objects: tuple[ReadFile, ...] = ()
    outputs: tuple[Output, ...] = ()
    deleted: tuple[str, ...] = ()
    folders: tuple[Folder, ...] = ()
    outside: tuple[Output, ...] = ()
    outside_left_out: tuple[str, ...] = ()
    metrics: dict[str, tuple[Point, ...]] = {}
    metric_sources: dict[str, str] = {}
    printed: dict[Stream, Printed] | None = None
    same_bits_as: str = ""
    same_tensors_in: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    differs_from: str = ""
    differs_in: tuple[str, ...] = ()
    judged: Literal["", "identical", "different"] = ""


_WAY = "restore the file from a copy, or remove its folder: the run's results stay where they are"


class RecordError(UsageError):
    """A record is missing, ambiguous or unreadable."""


def dumps(record: Record) -> bytes:
    """Render a record as indented JSON; no text in it, whoever's it is, can keep it from being written."""
    try:
        data = msgspec.json.encode(record)
    except UnicodeEncodeError:
        data = msgspec.json.encode(encodable(msgspec.to_builtins(record), 2 * DEEPEST))
    return msgspec.json.format(data, indent=2) + b"\n"


def loads(data: bytes, source: str = "record") -> Record:
    """Parse a record; raises ``RecordError`` if it is damaged or of another format."""
    try:
        check_size(data)
        prepare_deferred()
        record = msgspec.json.decode(data, type=Record)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{source} is not a record of this format: {error}", _WAY) from None
    if record.format != FORMAT:
        raise RecordError(
            f"{source}: format: expected {FORMAT}, found {record.format}", "read it with the envbuild that wrote it"
        )
    for field, path in _paths(record):
        if not is_in_project(path):
            raise RecordError(f"{source}: {field}: expected a path in the project, found {path!r}", _WAY)
    if "/" in record.lock.file or record.lock.file == ".":
        raise RecordError(f"{source}: lock.file: expected the name of a file, found {record.lock.file!r}", _WAY)
    for number, mount in enumerate(record.options.mounts):
        places, _, mode = mount.rpartition(":")
        if mode not in ("ro", "rw") or not places.startswith("/") or ":/" not in places[1:]:
            raise RecordError(
                f"{source}: options.mounts[{number}]: expected /SOURCE:/TARGET:ro or rw, found {mount!r}", _WAY
            )
    return record


def is_in_project(path: str) -> bool:
    """Whether a path in a record or an attestation, which may be anybody's, names something in the project."""
    return bool(path) and not path.startswith("/") and "\0" not in path and ".." not in path.split("/")


def _paths(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the field and path of each file that may be read, written or removed because a record names it."""
    yield "lock.file", record.lock.file
    if record.script:
        yield "script.path", record.script.path
    yield from ((f"outputs[{number}].path", output.path) for number, output in enumerate(record.outputs))
    yield from ((f"deleted[{number}]", path) for number, path in enumerate(record.deleted))
    yield from ((f"folders[{number}]", folder.path) for number, folder in enumerate(record.folders))
    yield from (("inputs", path) for path in record.inputs)


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of ``record.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"envbuild run record, format {FORMAT}",
        **_ecma(msgspec.json.schema(Record)),
    }


def _ecma(schema: Any) -> Any:
    """Return a schema whose patterns end as ECMA-262 has it: ``$`` is the very end there, and ``\\Z`` a letter."""
    if isinstance(schema, dict):
        return {
            key: value.replace(r"\Z", "$") if key == "pattern" and isinstance(value, str) else _ecma(value)
            for key, value in schema.items()
        }
    return [_ecma(part) for part in schema] if isinstance(schema, list) else schema


def recipe(record: Record) -> str:
    """Return the digest of everything that was chosen for a run; what was found (host, git) is not in it."""
    chosen = (record.lock, record.image, record.script, record.command, record.directory, record.environment)
    options = record.options
    names = options.gpus.split(",")
    # How many GPUs, not which: the guard ensures that they are alike.
    gpus = str(len(names)) if len(names) > 1 or "-" in options.gpus else options.gpus
    # The same for CPUs.
    cpuset = str(len(cpu_numbers(options.cpuset))) if options.cpuset else ""
    table = msgspec.to_builtins(
        msgspec.structs.replace(
            options, mounts=(), user="", tty=False, gpus=gpus, cpuset=cpuset, verification="", signer=""
        )
    )
    # Left out at their defaults, so that runs from before these options keep the recipe they had.
    for name in ("guard", "allow", "gpus", "verification", "without", "signer"):
        if getattr(options, name) == getattr(_DEFAULTS, name):
            del table[name]
    if record.emulator:  # computed by another program than a CPU
        table["emulator"] = record.emulator
    if record.rank is not None and record.rank.world > 1:
        table["rank"] = [record.rank.rank, record.rank.world]
    return sha256_json([*msgspec.to_builtins(chosen), table])


_DEFAULTS = Options(network="", workspace="")


def cpu_numbers(cpuset: str) -> tuple[int, ...]:
    """Return the numbers in a list of CPUs such as ``0-2,7``; raises ``ValueError`` for anything else."""
    found: list[int] = []
    for part in cpuset.split(","):
        first, dash, last = part.partition("-")
        found += range(int(first), int(last if dash else first) + 1)
    return tuple(found)


def verified(state: State | None, verdict: GuardVerdict | None, layers: str = "") -> Verified:
    """Return what a verdict means for the record of a run in this state; ``layers`` as in the record."""
    if layers == "changed":  # the guard's files too are the image's
        return "no"
    if verdict is None:
        return "no" if state == "finished" else ""
    if not verdict.ok:
        return "refused"
    if verdict.verified == "yes":
        return "yes"
    return "overridden" if verdict.verified == "overridden" else "no"


prepare_late(Record)  # 1.8 ms
