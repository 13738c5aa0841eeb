"""Read the files that the Python processes of a run leave, and merge them for its record.

Each Python process writes ``process-PID.json`` (docs/reference/guard.md). Arguments, project files and objects that
several of them name become one list each; the rest becomes one ``ProcessRecord`` per process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from envbuild.core.foreign_json import parse_json
from envbuild.lockfile import layout


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
        suspect: what was fixed, such as ``clock``.
        call: what it called.
        module: who called: a package, or the program.
        place: file and line of the innermost line of the project on the way; the caller's without one.
    """

    suspect: str
    call: str
    file: str
    line: int
    module: str = ""
    place: str = ""
    count: int = 1


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
        environment_changed: locked variables with another value at the end; None if removed.
        left_out: number of files read beyond the limits.
        entropy: unset unless the run was made to diagnose.
        listings: unset unless their order was varied.
        asked: unset unless the run was an experiment.
        missing_module: the module whose absence ended it; unset if it ended otherwise.
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
    environment_changed: dict[str, str | None] = {}
    left_out: int = 0
    refused_ops: tuple[RefusedOperation, ...] = ()
    entropy: tuple[EntropyDraw, ...] | UnsetType = UNSET
    listings: tuple[Listing, ...] | UnsetType = UNSET
    asked: tuple[Asked, ...] | UnsetType = UNSET
    missing_module: str | UnsetType = UNSET
    warnings: tuple[str, ...] = ()


Digest = Callable[[str, int, int], "str | None"]
"""Returns the SHA-256 of a file of the project that still has a size in bytes and a time of change in ns, else None."""


def facts(
    found: Iterable[dict[str, Any]], inputs: Sequence[str] = (), digest: Digest = lambda path, size, mtime_ns: None
) -> dict[str, Any]:
    """Return the fields ``processes``, ``parameters``, ``configs``, ``modules``, ``reads`` and ``objects`` of a record.

    Args:
        found: the content of the process files. A program can damage them: a value of a wrong type is left out, and
            the process with it if the value belongs to that process alone.
        inputs: paths of declared inputs relative to the project: they are digested as such and are no configuration.
        digest: of data that was read; the hook only lists it.
    """
    processes = sorted((encodable(process) for process in found), key=_place)
    modules = _files(processes, "modules")
    own = {file.path for file in modules}
    configs = [file for file in _files(processes, "configs") if file.path not in own and not _below(file.path, inputs)]
    return {
        "processes": tuple(filter(None, (_converted(each, ProcessRecord) for each in processes))),
        "parameters": tuple(_parameters(processes)),
        "configs": tuple(configs),
        "modules": tuple(modules),
        "reads": tuple(_reads(processes, (*inputs, *own, *(file.path for file in configs)), digest)),
        "objects": tuple(_files([_table(each.get("objects")) for each in processes], "others")),
    }


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


def _parameters(processes: Iterable[dict[str, Any]]) -> Iterator[ParameterSet]:
    """Yield what the parsers gave; the ranks of a job that were given the same are reported once."""
    seen = []
    for process in processes:
        for table in _listed(process.get("parameters")):
            each = _converted({**table, "process": str(process.get("path", ""))}, ParameterSet)
            if each is None or (each.parser, each.program, each.values) in seen:
                continue
            seen.append((each.parser, each.program, each.values))
            yield each


def _files(processes: Iterable[dict[str, Any]], key: str) -> list[ReadFile]:
    """Return the files under one key, in the order in which they were read, each content once."""
    found: dict[tuple[str, str | None], ReadFile] = {}
    for process in processes:
        for table in _listed(process.get(key)):
            path = str(table.get("path", "")).removeprefix(f"{layout.WORKSPACE}/")
            file = _converted({**table, "path": path}, ReadFile)
            if file is not None:
                found.setdefault((file.path, file.sha256), file)
    return list(found.values())


def _reads(processes: Iterable[dict[str, Any]], without: Sequence[str], digest: Digest) -> Iterator[ReadFile]:
    """Yield the data that was read, each file once, in the order in which the processes read it."""
    seen = set()
    for process in processes:
        for table in _listed(process.get("reads")):
            path, size, mtime_ns = (table.get(key) for key in ("path", "size", "mtime_ns"))
            if not (isinstance(path, str) and isinstance(size, int) and isinstance(mtime_ns, int)):
                continue
            path = path.removeprefix(f"{layout.WORKSPACE}/")
            if path in seen or path.startswith("/") or _below(path, without):
                continue
            seen.add(path)
            yield ReadFile(path=path, size=size, sha256=digest(path, size, mtime_ns))


def _converted(table: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError:
        return None


def _listed(value: Any) -> list[dict[str, Any]]:
    return [_table(part) for part in value] if isinstance(value, list) else []


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _place(process: dict[str, Any]) -> tuple[str, int]:
    """Sort the main process first; a launcher and its first worker share that place, and the launcher is older."""
    pid = process.get("pid")
    return str(process.get("path", "")), pid if isinstance(pid, int) else 0


def _below(path: str, inputs: Sequence[str]) -> bool:
    names = [name.strip("/") for name in inputs]
    return any(path == name or path.startswith(f"{name}/") for name in names)


def json_table(data: bytes | None) -> dict[str, Any] | None:
    """Parse a JSON object that a program could have damaged; None if it did."""
    try:
        value = parse_json(data or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def encodable(value: Any) -> Any:
    """Replace halves of surrogate pairs, which come from arguments that are no UTF-8: no JSON encoder takes them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [encodable(part) for part in value]
    return value
