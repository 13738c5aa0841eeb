"""An attestation compared with the records of the runs that it names, as far as they are here.

Neither is signed unless somebody wanted it, so either may have been edited. Where both are here they must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.text import plain
from envbuild.lockfile import layout
from envbuild.record import history
from envbuild.record.consistency import contradictions
from envbuild.record.model import RecordError
from envbuild.verification import attestation

if TYPE_CHECKING:
    from envbuild.record.model import Output, Record
    from envbuild.verification.attestation import Proof, Result, Statement


def compare_with_records(project: Path, lock_name: str, statement: Statement) -> tuple[int, list[str]]:
    """Return how many of the attested runs have a record here, and what contradicts it, a phrase each."""
    proof, found = statement.predicate, []
    if len({*proof.ids}) != proof.runs:
        found.append(f"it states {proof.runs} runs and names {len({*proof.ids})}")
    records: list[Record] = []
    for identity in dict.fromkeys(proof.ids):
        try:
            records.append(history.find_run(project, identity))
        except RecordError:  # removed, or on the machine where it ran
            continue
    for record in records:
        first = record.id == proof.ids[0]
        lines = [
            *contradictions(record),
            *_subjects(record, lock_name, statement),
            *_results(record, proof, all_=first),
        ]
        if first:
            lines += _chosen(record, proof)
        found += [f"run {record.id[:10]}: {line}" for line in lines]
    return len(records), found


def mounts_here(project: Path, statement: Statement) -> tuple[str, ...] | None:
    """Return what was mounted, as the record of the first run has it that is here; None if there is none."""
    for identity in statement.predicate.ids:
        with suppress(RecordError):
            return history.find_run(project, identity).options.mounts
    return None


def has_own_mounts(mounts: Sequence[str]) -> bool:
    """Whether somebody mounted something; folders of the project that each run is shown, such as ``.git``, are none."""
    from envbuild.runs.project_copy import SHOWN

    return any(target not in SHOWN for target in _targets(mounts))


def shown_folders(mounts: Sequence[str]) -> list[str]:
    """Return the folders of tools in the project that its runs were shown, such as ``.git``."""
    from envbuild.runs.project_copy import SHOWN

    return sorted(target for target in _targets(mounts) if target in SHOWN)


def _targets(mounts: Sequence[str]) -> Iterator[str]:
    """Yield where something was mounted, relative to the project where it was there."""
    for mount in mounts:
        yield mount.rpartition(":")[0].rpartition(":")[2].removeprefix(f"{layout.WORKSPACE}/")


def _subjects(record: Record, lock_name: str, statement: Statement) -> Iterator[str]:
    """Yield what was run, where a record has another one than the attestation."""
    pairs = ((record.lock.file, record.lock.sha256, "lock"), (attestation.image_name(lock_name), record.image, "image"))
    for name, digest, what in pairs:
        if statement.digest(name) != digest:
            yield f"the record has another {what}"
    if record.script is not None and statement.digest(record.script.path) != record.script.sha256:
        yield f"the record has another {plain(record.script.path)}"
    if (record.state, record.exit_code) != ("finished", 0):
        yield "the record has no successful end"


def _chosen(record: Record, proof: Proof) -> Iterator[str]:
    """Yield the fields of the first run's record, from which the attestation was made, that are not as it states."""
    for name in ("recipe", "command", "inputs", "verified"):
        if getattr(record, name) != getattr(proof, name):
            yield f"the record has another value of {name}"
    if record.options.network != (proof.network or "none"):
        yield "the record has another network"
    if attestation.code_files(record) != proof.files:
        yield "the record has other files of code"
    if attestation.data_files(record) != proof.data or attestation.mounted_files(record) != proof.mounted:
        yield "the record has other files that were read"
    if record.listed != proof.listed:
        yield "the record has other folders that were listed"


def _results(record: Record, proof: Proof, *, all_: bool) -> Iterator[str]:
    """Yield the results of which a record has other ones; ``all_``: it has all under the same names."""
    left = {output.path: output for output in record.outputs}
    for result in proof.outputs:
        output = left.get(result.path)
        if output is None:
            if all_:
                yield f"the record has no {plain(result.path)}"
        elif _differs(result, output):
            yield f"the record has other bits of {plain(result.path)}"
    if all_:
        known = {*(result.path for result in proof.outputs), *proof.ignored}
        kept = (each for each in record.outputs if each.sha256 is not None and not each.part_of)
        yield from (f"the attestation has no {plain(each.path)}" for each in kept if each.path not in known)


def _differs(result: Result, output: Output) -> bool:
    """Whether a file of a run is not what every run left."""
    if result.sha256 is not None and output.sha256 != result.sha256:
        return True
    known = {output.content, output.canonical} - {""}
    return bool(result.content and known) and result.content not in known
