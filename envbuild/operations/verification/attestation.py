"""The attestation next to a lock: written, signed, withdrawn, and checked against what is there now."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild import __version__
from envbuild.core.digest import sha256_file, sha256_stream
from envbuild.core.fs import atomic_write
from envbuild.core.text import plain
from envbuild.errors import IntegrityError, LockError, UsageError
from envbuild.operations.verification.attested_runs import (
    compare_with_records,
    has_own_mounts,
    mounts_here,
    shown_folders,
)
from envbuild.record.mounts import open_read
from envbuild.verification import attestation

if TYPE_CHECKING:
    from envbuild.lockfile.model import Lock
    from envbuild.operations.load_lock import LoadedLock
    from envbuild.record.model import Record
    from envbuild.runs.request import RunRequest
    from envbuild.verification.attestation import Statement
    from envbuild.verification.ran import Ran
    from envbuild.verification.verdict import Verdict

NAMESPACE = "envbuild"
"""What signatures are for, as ``ssh-keygen -Y`` has it: one made for another purpose does not count."""


def attest(
    request: RunRequest, runs: Sequence[Ran], verdict: Verdict, key: Path | None, varied: Sequence[str] = ()
) -> Path:
    """Write the attestation, and its signature if a key is given; returns its path.

    Args:
        request: what was run.
        runs: all of them, with equal results.
        verdict: what was compared.
        key: an SSH key to sign with.
        varied: what was another one in each run.
    """
    statement = attestation.state(
        [run.record for run in runs],
        lock_name=request.lock.name,
        compared=verdict.compared,
        masked=verdict.masked,
        measured=verdict.measured,
        experiments=verdict.experiments,
        varied=varied,
        ignored=verdict.ignored,
        trace=runs[0].trace,
        version=__version__,
        date=datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )
    path = attestation.path_of(request.lock_path)
    signature_path(path).unlink(missing_ok=True)
    atomic_write(path, attestation.dumps(statement))
    if key is not None:
        sign(path, key)
    return path


def withdraw(request: RunRequest, record: Record) -> list[str]:
    """Remove an attestation that was just refuted, with its signature; returns the names of what was removed.

    It has to be of this very program; how many CPUs that had does not matter. One of another lock, image, script or
    command line is merely stale and stays.
    """
    path = attestation.path_of(request.lock_path)
    try:
        old = attestation.load(path)
    except LockError:
        return []
    known = {record.lock.file: record.lock.sha256, attestation.image_name(request.lock.name): record.image}
    known |= {} if record.script is None else {record.script.path: record.script.sha256}
    same = old.predicate.command == record.command and all(old.digest(name) == known[name] for name in known)
    if not same or not record.options.controls:
        return []
    gone = [each for each in (path, signature_path(path)) if each.exists()]
    for each in gone:
        each.unlink()
    return [each.name for each in gone]


def signature_path(path: Path) -> Path:
    """Name the detached signature of a file."""
    return path.with_name(f"{path.name}.sig")


def sign(path: Path, key: Path) -> None:
    """Sign a file with an SSH key; asks for its passphrase on the terminal, or the agent does.

    Raises:
        UsageError: there is no ``ssh-keygen``, or it refused; states why.
    """
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(path)]
    done = _call(command, b"")
    if done.returncode != 0 or not signature_path(path).is_file():
        raise UsageError(
            f"{path.name} was written, but not signed with {key}: {_last_line(done.stderr)}",
            "name an SSH key: --sign ~/.ssh/id_ed25519",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class HostDifference:
    """A fact of the machine that is not as it was where something was proved: its name, and both values."""

    name: str
    there: str | tuple[str, ...]
    here: str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AttestationCheck:
    """An attestation that still holds for what is here now.

    Attributes:
        path: the attestation.
        statement: what it states.
        signer: who signed it, as ``ssh-keygen`` specifies it; empty if nobody did.
        inputs: whether data is declared, so that it was compared too.
        records: how many of its runs have a record here, each of which states the same.
        mounted: how many files of mounted folders were compared; None if no record here shows where they were.
        has_mounts: whether the runs had any, as far as a record here shows.
        shown: folders of tools in the project that they were shown, such as ``.git``.
        host_differences: how this machine differs from the one of the proof.
    """

    path: Path
    statement: Statement
    signer: str
    inputs: bool
    mounted: int | None
    records: int
    host_differences: tuple[HostDifference, ...]
    has_mounts: bool = False
    shown: tuple[str, ...] = ()


def check_attestation(
    opened: LoadedLock, arguments: Sequence[str], signers: Path | None, *, strict: bool = False
) -> AttestationCheck:
    """Check whether what was proved still holds for what is here now.

    Args:
        opened: the lock.
        arguments: the program, if one was named: it has to be the one that was verified.
        signers: file of keys to trust, as ``ssh-keygen -Y verify`` takes it; None to take any good signature.
        strict: all that can be varied must have been (``verify --strict``).

    Raises:
        LockError: there is no attestation, it is of other files than those that are here, or the records of its runs
            state something else; names what differs.
        IntegrityError: its signature is bad, or by nobody among ``signers``.
    """
    path = attestation.path_of(opened.path)
    data = attestation.read(path)  # once: what was signed is what is judged
    statement = attestation.loads(data, path)
    signer = check_signature(path, signers, data)
    program = shlex.join(_arguments(statement.predicate.command)) or "train.py"
    mounts = mounts_here(opened.folder, statement)
    stale = [
        *_stale(opened, statement, arguments),
        *_changed_names(opened.folder, opened.lock, statement),
        *_changed_mounted(opened.folder, statement, mounts),
    ]
    if stale:
        lines = "\n".join(f"  {line}" for line in stale)
        raise LockError(f"{path.name} is stale\n{lines}", f"verify again: envbuild verify {program}")
    records, contradicted = compare_with_records(opened.folder, opened.lock.name, statement)
    if contradicted:
        lines = "\n".join(f"  {line}" for line in contradicted)
        raise LockError(
            f"{path.name}, or a record of its runs, was edited\n{lines}", f"verify again: envbuild verify {program}"
        )
    from envbuild.runs.repeat import STRICT

    unvaried = [name for name in STRICT if name not in statement.predicate.varied] if strict else []
    if unvaried:
        raise LockError(
            f"{path.name} proves less than was asked for\n  not varied between its runs: {', '.join(unvaried)}",
            f"verify again: envbuild verify --strict {program}",
        )
    return AttestationCheck(
        path=path,
        statement=statement,
        signer=signer,
        inputs=bool(opened.lock.inputs),
        mounted=None if mounts is None else len(statement.predicate.mounted),
        has_mounts=has_own_mounts(mounts or ()),
        shown=tuple(shown_folders(mounts or ())),
        records=records,
        host_differences=_host_differences(statement.predicate.host, gpus=opened.lock.hardware.gpu is not None),
    )


def check_signature(path: Path, signers: Path | None, data: bytes) -> str:
    """Return who signed a file with these bytes, empty if nobody did; raises ``IntegrityError`` for a bad signature."""
    signature = signature_path(path)
    if not signature.is_file():
        if signers is not None:
            raise IntegrityError(f"{path.name} is not signed", "sign it: envbuild verify --sign KEY …")
        return ""
    base = ["ssh-keygen", "-Y"]
    if signers is None:
        done = _call([*base, "check-novalidate", "-n", NAMESPACE, "-s", str(signature)], data)
    else:
        found = _call([*base, "find-principals", "-f", str(signers), "-s", str(signature)], b"")
        name = found.stdout.decode(errors="replace").split("\n")[0].strip()
        if not name:
            raise IntegrityError(f"{signature.name} is by nobody in {signers}", "who may sign is listed there")
        done = _call([*base, "verify", "-f", str(signers), "-I", name, "-n", NAMESPACE, "-s", str(signature)], data)
    if done.returncode != 0:
        raise IntegrityError(f"{signature.name} is not a good signature of {path.name}", "verify and sign again")
    return _last_line(done.stdout)


def _stale(opened: LoadedLock, statement: Statement, arguments: Sequence[str]) -> list[str]:
    """Return what is not as it was when it was proved, a phrase each."""
    from envbuild.image.record import read_image_record
    from envbuild.inputs.compare import compare_inputs
    from envbuild.record.model import is_in_project

    proof, found = statement.predicate, []
    if arguments and tuple(arguments) != _arguments(proof.command):
        found.append(f"program: verified {' '.join(_arguments(proof.command))}, asked for {' '.join(arguments)}")
    if statement.digest(opened.path.name) != sha256_file(opened.path):
        found.append(f"lock: {opened.path.name} has changed")
    identity = read_image_record(opened.path, opened.lock)
    if identity is not None and identity.config != statement.digest(attestation.image_name(opened.lock.name)):
        found.append("image: it was built anew, with other bits")
    kept = {opened.path.name, attestation.image_name(opened.lock.name)}
    code = {each.name: each.digest.sha256 for each in statement.subject if each.name not in kept} | proof.files
    files = [*(("code", *each) for each in code.items()), *(("data", *each) for each in proof.data.items())]
    for kind, name, digest in files:
        place = opened.folder / name
        if not is_in_project(name):
            found.append(f"{kind}: {name} is not a file of this project")
        elif not place.is_file():
            found.append(f"{kind}: {name} is gone")
        elif sha256_file(place) != digest:
            found.append(f"{kind}: {name} has changed")
    if opened.lock.inputs:
        for difference in compare_inputs(opened.folder.absolute(), opened.lock.inputs).differences:
            found.append(f"inputs: {difference.message}")
    return found


def _changed_names(project: Path, lock: Lock, statement: Statement) -> Iterator[str]:
    """Yield which folders that were listed have other files now, but for what the program leaves there."""
    from envbuild.runs import workspace

    proof = statement.predicate
    if proof.listed:
        states = workspace.scan(project, [entry.path.strip("/") for entry in lock.inputs])
        left = [*(result.path for result in proof.outputs), *proof.ignored]
        names = workspace.names_in(states, proof.listed, left)
        for folder in proof.listed:
            if names[folder] != proof.listed[folder]:
                yield f"data: the names in {plain(folder)}/ have changed"


def _changed_mounted(project: Path, statement: Statement, mounts: Sequence[str] | None) -> Iterator[str]:
    """Yield which files of mounted folders are not as they were; none if nobody knows where these are."""
    for name, digest in statement.predicate.mounted.items() if mounts is not None else ():
        try:
            with open_read(mounts or (), name, project) as stream:
                if sha256_stream(stream) != digest:
                    yield f"mounted: {plain(name)} has changed"
        except OSError:
            yield f"mounted: {plain(name)} is gone"
        except (ValueError, RuntimeError):
            yield f"mounted: {plain(name)} was not mounted in its runs"


def _arguments(command: Sequence[str]) -> tuple[str, ...]:
    """Return what was typed for a command."""
    return tuple(command[1:] if command[:1] == ("python",) or list(command[:1]) == ["python"] else command)


def _host_differences(host: attestation.Host, *, gpus: bool) -> tuple[HostDifference, ...]:
    """Return in what this machine differs from the one of the proof; ``gpus``: its runs had some."""
    from envbuild.host.probe import host_facts

    here = attestation.host_of(host_facts(gpus=gpus))
    pairs = ((name, getattr(host, name), getattr(here, name)) for name in ("cpu", "level", "gpus", "driver"))
    return tuple(HostDifference(name=name, there=there, here=now) for name, there, now in pairs if there != now)


def _call(command: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run ``ssh-keygen``; it asks for passphrases on the terminal itself."""
    try:
        return subprocess.run(command, input=data, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    except OSError:
        raise UsageError(
            "signatures need ssh-keygen, which is not here", "install it: apt-get install openssh-client"
        ) from None


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "no reason given"
