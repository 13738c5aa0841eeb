"""What a verification proved, as a small file next to the lock: an in-toto Statement (v1) in JSON.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md. Subjects are the lock, the image (by the digest
of its config) and the script; the predicate states how often it was run, where, and what came out each time. Docs:
docs/how-to/verify.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from envbuild.core.foreign_json import check_size
from envbuild.core.fs import read_regular
from envbuild.core.text import script_in
from envbuild.errors import LockError
from envbuild.host.facts import HostFacts
from envbuild.lockfile.layout import WORKSPACE
from envbuild.record.model import Output, Record, RunId, Sha256, Time, Verified
from envbuild.record.mounts import places_in_project
from envbuild.record.processes import ReadFile
from envbuild.verification.verdict import Measured

STATEMENT: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
_LARGEST = 64 << 20
"""Bytes of an attestation that is read."""
_NAMED = 20
"""Files without a digest that are named."""
PREDICATE: Literal["urn:envbuild:verification:1"] = "urn:envbuild:verification:1"


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parts. Unknown keys are ignored."""


class Digest(_Value, frozen=True, kw_only=True):
    """A digest as in-toto writes it."""

    sha256: Sha256


class Subject(_Value, frozen=True, kw_only=True):
    """A thing that the statement is about."""

    name: str
    digest: Digest


class Result(_Value, frozen=True, kw_only=True, omit_defaults=True):
    """A file that every run left.

    Attributes:
        sha256: of its bytes; None if only its content is equal.
        content: digest of what it holds, for saved models and files in other bytes (docs/reference/record.md).
    """

    path: str
    sha256: Sha256 | None = None
    content: str = ""


class Host(_Value, frozen=True, kw_only=True):
    """Where it was proved."""

    kernel: str
    machine: str
    libc: str = ""
    cpu: str = ""
    level: str = ""
    gpus: tuple[str, ...] = ()
    driver: str = ""


class Proof(_Value, frozen=True, kw_only=True):
    """The predicate.

    Attributes:
        runs: how many there were, all with equal results; ``ids`` are their records.
        recipe: digest of what was chosen for them (docs/reference/record.md).
        command: argument vector, secrets masked.
        compared: what was equal, a phrase each.
        masked: what of it was left out, as it differs in every run (lines with times, metrics of speed), or could not
            be read.
        measured: what differs but follows the clock exactly, as so many ``experiments`` have shown.
        varied: what was another one in each run, since no result may depend on it.
        files: digests of the project's own modules and configurations that were read.
        data: digests of other files of the project that were read, though nobody declared them.
        listed: digests of the names in folders of the project that were listed and hold no code, by the folder's path.
        undigested: files of the project that were read and have no digest: large ones, and some of very many; the
            first of them by name.
        more_undigested: how many others there are.
        mounted: digests of what was read of mounted folders, by absolute path in the container.
        inputs: BLAKE3 of the manifest of each declared input.
        network: what the runs had of one, as ``--network`` names it; empty for none. What they fetched is not known.
        ignored: outputs that were not compared, as asked.
        trace: digest of the step trace; empty if there is none.
        verified: what the guard reported of the host: ``yes``, or ``overridden``, ``no`` (docs/reference/record.md).
    """

    runs: Annotated[int, Meta(ge=1)]
    ids: tuple[RunId, ...]
    recipe: str
    command: tuple[str, ...]
    compared: tuple[str, ...]
    masked: tuple[str, ...] = ()
    measured: tuple[Measured, ...] = ()
    experiments: int = 0
    varied: tuple[str, ...] = ()
    outputs: tuple[Result, ...]
    files: dict[str, Sha256] = {}
    data: dict[str, Sha256] = {}
    listed: dict[str, Sha256] = {}
    undigested: tuple[str, ...] = ()
    more_undigested: int = 0
    mounted: dict[str, Sha256] = {}
    inputs: dict[str, Sha256] = {}
    network: str = ""
    ignored: tuple[str, ...] = ()
    trace: str = ""
    verified: Verified = ""
    host: Host
    envbuild: str
    date: Time


class Statement(_Value, frozen=True, kw_only=True):
    """The whole file."""

    kind: Literal["https://in-toto.io/Statement/v1"] = msgspec.field(name="_type", default=STATEMENT)
    subject: tuple[Subject, ...]
    predicate_type: Literal["urn:envbuild:verification:1"] = msgspec.field(name="predicateType", default=PREDICATE)
    predicate: Proof

    def digest(self, name: str) -> str:
        """Return the digest of a subject; empty if it is not among them."""
        return next((each.digest.sha256 for each in self.subject if each.name == name), "")


def path_of(lock_path: Path) -> Path:
    """Name the attestation next to a lock."""
    return lock_path.with_suffix(".verified.json")


def state(
    records: Sequence[Record],
    *,
    lock_name: str,
    compared: Sequence[str],
    masked: Sequence[str] = (),
    measured: Sequence[Measured] = (),
    experiments: int = 0,
    varied: Sequence[str] = (),
    ignored: Sequence[str],
    trace: str,
    version: str,
    date: str,
) -> Statement:
    """Make the statement that runs had equal results.

    Args:
        records: of all runs.
        lock_name: the image's name.
        compared: what was equal, a phrase each.
        masked: what of it was left out.
        measured: what follows the clock; ``experiments``: how many runs have shown it.
        varied: what was another one in each run.
        ignored: outputs that were not compared.
        trace: digest of their step trace.
        version: of envbuild.
        date: UTC with milliseconds.
    """
    first = records[0]
    undigested = undigested_files(first)
    subjects = [
        Subject(name=first.lock.file, digest=Digest(sha256=first.lock.sha256)),
        Subject(name=image_name(lock_name), digest=Digest(sha256=first.image)),
    ]
    if first.script is not None:
        subjects.append(Subject(name=first.script.path, digest=Digest(sha256=first.script.sha256)))
    proof = Proof(
        runs=len(records),
        ids=tuple(record.id for record in records),
        recipe=first.recipe,
        command=first.command,
        compared=tuple(compared),
        masked=tuple(masked),
        measured=tuple(measured),
        experiments=experiments,
        varied=tuple(varied),
        outputs=tuple(
            _result(output, records)
            for output in first.outputs
            # What nobody could read is in ``masked``; the parts of a database are compared by its manifest.
            if output.path not in ignored and output.sha256 is not None and not output.part_of
        ),
        files=code_files(first),
        data=data_files(first),
        listed=dict(first.listed),
        undigested=tuple(undigested[:_NAMED]),
        more_undigested=len(undigested[_NAMED:]) + first.reads_beyond,
        mounted=mounted_files(first),
        inputs=dict(first.inputs),
        network="" if first.options.network == "none" else first.options.network,
        ignored=tuple(ignored),
        trace=trace,
        verified=first.verified,
        host=host_of(first.host),
        envbuild=version,
        date=date,
    )
    return Statement(subject=tuple(subjects), predicate=proof)


def code_files(record: Record) -> dict[str, Sha256]:
    """Return the digests of modules and configuration files; not of mounted ones, which may be elsewhere next time."""
    files = (*record.modules, *record.configs)
    return {file.path: file.sha256 for file in files if file.sha256 and not _mounted_as(record, file.path)}


def mounted_files(record: Record) -> dict[str, Sha256]:
    """Return the digests of what a run read of mounted folders, and left as it was."""
    changed = {output.path for output in record.outside}
    files = (*record.modules, *record.configs, *record.reads)
    named = ((_mounted_as(record, file.path), file.sha256) for file in files)
    return {path: sha256 for path, sha256 in named if path and sha256 and path not in changed}


def _mounted_as(record: Record, path: str) -> str:
    """Return the path in the container of a file that was read, if it was mounted; empty for one of the project."""
    if path.startswith("/"):
        return path
    places = places_in_project(record.options.mounts)
    return f"{WORKSPACE}/{path}" if any(f"{path}/".startswith(f"{place}/") for place in places) else ""


def data_files(record: Record) -> dict[str, Sha256]:
    """Return the digests of what a run read of its project; of what it changed then, those from before."""
    return {file.path: file.sha256 for file in _data(record) if file.sha256}


def undigested_files(record: Record) -> list[str]:
    """Return the files that a run read of its project, of which nobody knows what was in them, sorted."""
    known = {**code_files(record), **data_files(record)}
    files = (*_data(record), *record.configs, *record.modules)
    found = {file.path for file in files if not file.sha256 and file.size is not None}
    return sorted(path for path in found if path not in known and not _mounted_as(record, path))


def _data(record: Record) -> Iterator[ReadFile]:
    """Yield the data that a run read of its project, as it was before."""
    changed = {output.path for output in record.outputs} | {*record.deleted}
    read = (*record.reads, *record.read_otherwise)
    yield from (file for file in read if file.path not in changed and not _mounted_as(record, file.path))
    yield from record.altered


def image_name(lock_name: str) -> str:
    """Name an image among the subjects."""
    return f"image of {lock_name}"


def host_of(facts: HostFacts | None) -> Host:
    """Return what of a machine matters to a proof."""
    if facts is None:
        return Host(kernel="", machine="")
    return Host(
        kernel=facts.kernel,
        machine=facts.machine,
        libc=facts.libc,
        cpu=facts.cpu.model,
        level=facts.cpu.level,
        gpus=tuple(device.name for device in facts.gpu.devices),
        driver=facts.gpu.driver,
    )


def dumps(statement: Statement) -> bytes:
    """Render a statement as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(statement), indent=2) + b"\n"


def load(path: Path) -> Statement:
    """Read an attestation; raises ``LockError`` if there is none, or it is damaged or another kind of statement."""
    return loads(read(path), path)


def read(path: Path) -> bytes:
    """Return the bytes of an attestation; raises ``LockError`` if there is none."""
    try:
        return read_regular(path, _LARGEST)
    except OSError:
        hint = f"make one: envbuild verify {script_in(path.parent)}"
        raise LockError(f"there is no attestation {path}", hint) from None


def loads(data: bytes, path: Path) -> Statement:
    """Parse an attestation, which was read from a path; raises ``LockError`` if it is damaged or something else."""
    try:
        check_size(data)
        return msgspec.json.decode(data, type=Statement)
    except (ValueError, RecursionError) as error:
        raise LockError(f"{path} is no attestation of envbuild: {error}", "make it again: envbuild verify") from None


def _result(output: Output, records: Sequence[Record]) -> Result:
    """Describe a file; its bytes and its content only if they were equal in all runs, perhaps under drawn names."""
    alike = [_alike(output, record) for record in records]
    contents = [each for each in (output.content, output.canonical) if each]
    content = next((each for each in contents if all(each in (one.content, one.canonical) for one in alike)), "")
    same = all(output.sha256 == one.sha256 for one in alike)
    return Result(path=output.path, sha256=output.sha256 if same else None, content=content)


def _alike(output: Output, record: Record) -> Output:
    """Return the file of a run that has the path, else the bytes, else the content of another run's; else none's."""
    files = record.outputs
    found = next((each for each in files if each.path == output.path), None)
    found = found or next((each for each in files if each.sha256 == output.sha256), None)
    if found is None and output.canonical:
        found = next((each for each in files if each.canonical == output.canonical), None)
    return found or msgspec.structs.replace(output, sha256=None, content="", canonical="")
