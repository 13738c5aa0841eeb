"""What the Python processes of a run leave for its record, as values; ``process_facts`` puts them together."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from envbuild.core import text
from envbuild.core.foreign_json import VALUES, parse_json

DEEPEST = 100
"""Levels of arrays and objects within what a process reports."""


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the values. Unknown keys are ignored."""


class Parameter(_Value, frozen=True, kw_only=True):
    """A value as JSON has it, secrets masked, and where it came from.

    Attributes:
        source: ``default``, ``command line``, ``environment``, ``config file``, or ``program``: set by the script.
    """

    value: Any
    source: str


class ParameterSet(_Value, frozen=True, kw_only=True):
    """What one argument parser gave.

    Attributes:
        parser: the library.
        program: the program's name as the parser has it, with the names of subcommands.
        process: the process's path (docs/reference/guard.md); empty for the main one.
        values: by name, nested ones with dots, in the parser's order.
    """

    parser: str
    program: str
    process: str = ""
    values: dict[str, Parameter]


class ReadFile(_Value, frozen=True, kw_only=True):
    """A file as a process read it.

    Attributes:
        path: relative to the project, absolute elsewhere. It is listed twice if two processes read other bytes.
        size: bytes; None if it was gone.
        sha256: None if it was too large or gone.
    """

    path: str
    size: int | None
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None


class SwitchRecord(_Value, frozen=True, kw_only=True):
    """A switch that the hook set in a framework and read back.

    Attributes:
        wanted, found: values as JSON has them.
        ok: both were equal after the switch was set.
        at_exit: value at the end of the process; unset if it equals ``found``.
    """

    name: str
    wanted: Any = None
    found: Any = None
    ok: bool
    at_exit: Any | UnsetType = UNSET


class LibraryRecord(_Value, frozen=True, kw_only=True):
    """A library of NVIDIA that a process loaded.

    Attributes:
        version, locked: as loaded and in the lock; empty if unknown.
        problem: why it is not the locked one; empty if it is.
    """

    name: str
    path: str
    version: str = ""
    locked: str = ""
    problem: str = ""


class ForeignPackage(_Value, frozen=True, kw_only=True):
    """A Python package that was imported from outside the image: mounted, or installed in the project.

    Attributes:
        version: as the package has it; empty if it has none.
        path: its folder in the container.
        files: SHA-256 of each imported file by its name below that folder; None if it was too large or gone.
    """

    name: str
    version: str = ""
    path: str
    files: dict[str, Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None] = {}


class Parallel(_Value, frozen=True, kw_only=True):
    """How one model's gradients are added up over the ranks of a job.

    Attributes:
        kind: the class, such as ``DistributedDataParallel``.
        settings: by name, such as ``bucket_cap_bytes`` and ``bucket_sizes``.
    """

    kind: str
    settings: dict[str, bool | int | str] = {}


class RefusedOperation(_Value, frozen=True, kw_only=True):
    """An operation that a framework refused because it has no deterministic kernel.

    Attributes:
        op: its name for people.
        error_name: its name in the framework's error; empty if the error has none.
        file, line: of the program; empty and 0 if no line of it was involved.
        code: text of that line.
        ways: alternatives, the best first.
    """

    op: str
    error_name: str = ""
    framework: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    why: str = ""
    ways: tuple[str, ...] = ()


class Call(_Value, frozen=True, kw_only=True):
    """One frame of a stack."""

    file: str
    line: int
    function: str = ""


class EntropyDraw(_Value, frozen=True, kw_only=True):
    """A line that drew from the system's entropy.

    Attributes:
        step: optimiser steps made when it drew first; None if unknown.
        count: number of draws.
        importing: installed package during whose import it drew; empty at other times.
        chain: calls from the project's line to the draw, outermost first.
        used: of generators seeded by it: whether a number was drawn; None if unknown, unset for other draws.
    """

    call: str
    file: str
    line: int
    module: str = ""
    step: int | None = None
    count: int = 1
    importing: str = ""
    chain: tuple[Call, ...] = ()
    used: bool | UnsetType | None = UNSET


class Listing(_Value, frozen=True, kw_only=True):
    """A line of the project that listed a folder whose order was varied.

    Attributes:
        call: what it called, such as ``glob.glob``.
        folder: the first one.
        count: number of listings.
        module: who listed: a package, or the program.
    """

    call: str
    file: str
    line: int
    folder: str = ""
    count: int = 1
    module: str = ""


class Asked(_Value, frozen=True, kw_only=True):
    """A line that asked for what an experiment fixed.

    Attributes:
        suspect: what was fixed, such as ``clock``; ``reached`` for a limit of time that was reached nevertheless.
        call: what it called.
        module: who called: a package, or the program.
        place: file and line of the innermost line of the project on the way; the caller's without one.
        values: digest of what it would have got, or got; empty if that is not known.
        given: digest of what that may follow from, such as the words and the input of a program.
        drawn: in an entry of its own (``drawn``), what a fixed stream of entropy gave, in hexadecimal digits.
    """

    suspect: str
    call: str
    file: str
    line: int
    module: str = ""
    place: str = ""
    count: int = 1
    values: str = ""
    given: str = ""
    drawn: tuple[str, ...] = ()


class ProcessRecord(_Value, frozen=True, kw_only=True):
    """What the hook recorded of one Python process.

    Attributes:
        path: place in the run (docs/reference/guard.md); empty for the main process.
        seed: 32 bits.
        level: of determinism, from the lock.
        python: version.
        arguments: command line, secrets masked.
        frameworks: versions of those that were imported.
        generators: seed of each generator.
        packages: imported from outside the image's locked folders.
        parallel: for each model whose gradients are added up over ranks, how.
        environment_changed: locked variables with another value at the end; None if removed.
        left_out: number of files read beyond the limits.
        entropy: unset unless the run was made to diagnose.
        listings: unset unless their order was varied.
        asked: unset unless the run was an experiment.
        missing_module: the module whose absence ended it; unset if it ended otherwise.
        missing_file: the same of a file that it names by a relative path.
    """

    format: int = 1
    pid: int = 0
    parent: int = 0
    path: str = ""
    seed: int | None = None
    level: str = ""
    python: str = ""
    arguments: tuple[str, ...] = ()
    frameworks: dict[str, str] = {}
    generators: dict[str, int] = {}
    switches: tuple[SwitchRecord, ...] = ()
    libraries: tuple[LibraryRecord, ...] = ()
    packages: tuple[ForeignPackage, ...] = ()
    parallel: tuple[Parallel, ...] = ()
    environment_changed: dict[str, str | None] = {}
    left_out: int = 0
    refused_ops: tuple[RefusedOperation, ...] = ()
    entropy: tuple[EntropyDraw, ...] | UnsetType = UNSET
    listings: tuple[Listing, ...] | UnsetType = UNSET
    asked: tuple[Asked, ...] | UnsetType = UNSET
    missing_module: str | UnsetType = UNSET
    missing_file: str | UnsetType = UNSET
    warnings: tuple[str, ...] = ()


def effective(sets: Iterable[ParameterSet]) -> dict[str, Parameter]:
    """Return one value for each name: the main process's, of which the last parser decides.

    A value of another process under the same name is there only if it differs, as ``process: name``.
    """
    found: dict[str, Parameter] = {}
    others = []
    for each in sets:
        if each.process:
            others.append(each)
        else:
            found |= each.values
    for each in others:
        for name, parameter in each.values.items():
            if found.setdefault(name, parameter).value != parameter.value:
                found[f"{each.process}: {name}"] = parameter
    return found


def json_table(data: bytes | None, values: int = VALUES) -> dict[str, Any] | None:
    """Parse a JSON object that a program could have damaged; None if it did, or gave it more than so many values."""
    if not data:
        return None
    try:
        value = parse_json(data, values)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def encodable(value: Any, depth: int = DEEPEST) -> Any:
    """Replace halves of surrogate pairs, which come from arguments that are no UTF-8: no JSON encoder takes them.

    Raises:
        ValueError: arrays and objects are nested more than ``depth`` deep, where readers of records would give up.
    """
    if isinstance(value, str):
        return text.encodable(value)
    if isinstance(value, dict | list | tuple) and not depth:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {text.encodable(key): encodable(part, depth - 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(part, depth - 1) for part in value]
    return value
