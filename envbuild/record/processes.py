"""What the processes of a run say in their files, brought together for its record.

Each Python process writes ``process-PID.json`` (docs/reference/guard.md). Arguments, project files and objects that
several of them name become one list each; what belongs to one process alone stays with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from envbuild.lockfile import layout


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parts. Unknown keys are ignored."""


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


Digest = Callable[[str, int, int], "str | None"]
"""Returns the SHA-256 of a file of the project that still has a size in bytes and a time of change in ns, else None."""


def facts(
    found: Iterable[dict[str, Any]], inputs: Sequence[str] = (), digest: Digest = lambda path, size, mtime_ns: None
) -> dict[str, Any]:
    """Return the fields ``processes``, ``parameters``, ``configs``, ``modules``, ``reads`` and ``objects`` of a record.

    Args:
        found: the content of the process files; a program could have damaged them, so what does not fit is left out.
        inputs: paths of declared inputs relative to the project: they are digested as such and are no configuration.
        digest: of data that was read; the hook only lists it.
    """
    processes = sorted((encodable(process) for process in found), key=_place)
    modules = _files(processes, "modules")
    own = {file.path for file in modules}
    configs = [file for file in _files(processes, "configs") if file.path not in own and not _below(file.path, inputs)]
    shared = ("parameters", "configs", "modules", "reads", "reads_left_out", "objects")
    return {
        "processes": tuple({key: value for key, value in each.items() if key not in shared} for each in processes),
        "parameters": tuple(_parameters(processes)),
        "configs": tuple(configs),
        "modules": tuple(modules),
        "reads": tuple(_reads(processes, (*inputs, *own, *(file.path for file in configs)), digest)),
        "objects": tuple(_files([_table(each.get("objects")) for each in processes], "others")),
    }


def effective(sets: Iterable[ParameterSet]) -> dict[str, Parameter]:
    """Return one value for each name: the main process's, of which the last parser has the last word.

    A value of another process under the same name stands there only if it differs, as ``process: name``.
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
    """Yield what the parsers gave; the ranks of a job that were given the same are told of once."""
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


def encodable(value: Any) -> Any:
    """Replace halves of surrogate pairs, which come from arguments that are no UTF-8: no JSON encoder takes them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [encodable(part) for part in value]
    return value
