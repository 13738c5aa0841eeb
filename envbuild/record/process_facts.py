"""Merge the files that the Python processes of a run leave, one after the other, in bounded memory.

Each Python process writes ``process-PID.json`` (docs/reference/guard.md). Arguments, project files and objects that
several of them name become one list each; the rest becomes one ``ProcessRecord`` per process.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any

import msgspec

from envbuild.lockfile import layout
from envbuild.record.processes import ParameterSet, ProcessRecord, ReadFile, encodable

Digest = Callable[[str, int, int], "str | None"]
"""Returns the SHA-256 of a file of the project that still has a size in bytes and a time of change in ns, else None."""
Mounted = Callable[[str, int, int], bool]
"""Whether a file of an absolute path, of a size in bytes and a time of change in ns, was mounted and is still so."""
ROOM = 64 << 20
"""Bytes of memory that what is kept of all processes may take."""
_LONGEST = 4096
"""Characters of a path (PATH_MAX); no file has a longer one."""
_SLASH = re.compile("/")
_LISTS = ("configs", "modules", "objects", "reads")


def _nowhere(path: str, size: int, mtime_ns: int) -> bool:
    """Nothing was mounted."""
    return False


class _Process(msgspec.Struct, frozen=True):
    """What one process file holds, as values; ``reads`` are path, size in bytes and time of change in ns."""

    place: tuple[str, int]
    record: ProcessRecord | None
    parameters: tuple[ParameterSet, ...]
    configs: tuple[ReadFile, ...]
    modules: tuple[ReadFile, ...]
    objects: tuple[ReadFile, ...]
    reads: tuple[tuple[str, int, int], ...]


class ProcessFacts:
    """Takes the content of one process file after the other; lists that several processes share are kept once.

    Attributes:
        left_out: number of processes that were damaged or for which there was no room.
    """

    def __init__(self, room: int = ROOM) -> None:
        """Begin; ``room`` is in bytes of memory."""
        self.left_out = 0
        self._room = room
        self._found: list[_Process] = []
        self._shared: dict[Any, Any] = {}

    def add(self, table: dict[str, Any] | None) -> None:
        """Take the content of a process file; None for one that could not be read.

        A program can damage it: a value of a wrong type is left out, and the process with it if the value belongs to
        that process alone.
        """
        try:
            process = None if table is None else _read(encodable(table))
        except (ValueError, RecursionError):
            process = None
        needed = 0 if process is None else self._new(process)
        if process is None or needed > self._room:
            self.left_out += 1
            return
        self._room -= needed
        self._found.append(self._kept(process))

    def result(self, inputs: Sequence[str], digest: Digest, is_mounted: Mounted = _nowhere) -> dict[str, Any]:
        """Return the fields of a record that are known from its processes.

        Args:
            inputs: paths of declared inputs relative to the project: they are digested as such, and no configuration.
            digest: of data that was read; the hook only lists it.
            is_mounted: whether a file outside the project was mounted and still is as it was read.
        """
        processes = sorted(self._found, key=lambda process: process.place)
        modules = _once(process.modules for process in processes)
        own = {file.path for file in modules}
        found = _once(process.configs for process in processes)
        declared = frozenset(name.strip("/") for name in inputs)
        configs = tuple(file for file in found if file.path not in own and not _below(file.path, declared))
        known = declared | own | {file.path for file in configs}
        return {
            "processes": tuple(process.record for process in processes if process.record is not None),
            "processes_left_out": self.left_out,
            "parameters": tuple(_parameters(processes)),
            "configs": configs,
            "modules": modules,
            "reads": tuple(_reads(processes, known, digest, is_mounted)),
            "objects": _once(process.objects for process in processes),
        }

    def _new(self, process: _Process) -> int:
        """Return how many bytes of memory a process takes that others before it do not."""
        size = _memory(process.record) + _memory(process.parameters)
        for name in _LISTS:
            files = getattr(process, name)
            if files not in self._shared:
                size += sys.getsizeof(files) + sum(_memory(file) for file in files if file not in self._shared)
        return size

    def _kept(self, process: _Process) -> _Process:
        """Replace what earlier processes have too by theirs."""
        lists = (getattr(process, name) for name in _LISTS)
        return _Process(process.place, process.record, process.parameters, *(self._share(files) for files in lists))

    def _share(self, files: tuple[Any, ...]) -> Any:
        found = self._shared.get(files)
        if found is None:
            found = tuple(self._shared.setdefault(file, file) for file in files)
            self._shared[found] = found
        return found


def facts(
    found: Iterable[dict[str, Any]], inputs: Sequence[str] = (), digest: Digest = lambda path, size, mtime_ns: None
) -> dict[str, Any]:
    """Return ``ProcessFacts.result`` of the content of some process files."""
    merged = ProcessFacts()
    for table in found:
        merged.add(table)
    return merged.result(inputs, digest)


def _read(table: dict[str, Any]) -> _Process:
    """Return what is valid of a process file."""
    return _Process(
        place=_place(table),
        record=_converted(table, ProcessRecord),
        parameters=tuple(_parameter_sets(table)),
        configs=tuple(_files(table, "configs")),
        modules=tuple(_files(table, "modules")),
        objects=tuple(_files(_table(table.get("objects")), "others")),
        reads=tuple(_listed_reads(table)),
    )


def _place(table: dict[str, Any]) -> tuple[str, int]:
    """Sort the main process first; a launcher and its first worker share that place, and the launcher is older."""
    pid = table.get("pid")
    return str(table.get("path", "")), pid if isinstance(pid, int) else 0


def _parameter_sets(table: dict[str, Any]) -> Iterator[ParameterSet]:
    for each in _listed(table.get("parameters")):
        found = _converted({**each, "process": str(table.get("path", ""))}, ParameterSet)
        if found is not None:
            yield found


def _files(table: dict[str, Any], key: str) -> Iterator[ReadFile]:
    for each in _listed(table.get(key)):
        path = str(each.get("path", "")).removeprefix(f"{layout.WORKSPACE}/")
        file = _converted({**each, "path": path}, ReadFile)
        if file is not None and len(path) <= _LONGEST:
            yield file


def _listed_reads(table: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    for each in _listed(table.get("reads")):
        path, size, mtime_ns = (each.get(key) for key in ("path", "size", "mtime_ns"))
        if isinstance(path, str) and isinstance(size, int) and isinstance(mtime_ns, int) and len(path) <= _LONGEST:
            yield path.removeprefix(f"{layout.WORKSPACE}/"), size, mtime_ns


def _parameters(processes: Iterable[_Process]) -> Iterator[ParameterSet]:
    """Yield what the parsers gave; the ranks of a job that were given the same are reported once."""
    seen = set()
    for process in processes:
        for each in process.parameters:
            content = msgspec.json.encode((each.parser, each.program, each.values))
            if content not in seen:
                seen.add(content)
                yield each


def _once(lists: Iterable[tuple[ReadFile, ...]]) -> tuple[ReadFile, ...]:
    """Return files in the order in which they were read, each content once."""
    found: dict[tuple[str, str | None], ReadFile] = {}
    for files in lists:
        for file in files:
            found.setdefault((file.path, file.sha256), file)
    return tuple(found.values())


def _reads(processes: Iterable[_Process], without: Set[str], digest: Digest, is_mounted: Mounted) -> Iterator[ReadFile]:
    """Yield the data that was read, each file once, in the order in which the processes read it.

    Of what is outside the project, that is what was mounted; not what is gone or was written since, as temporary files.
    """
    seen = set()
    for process in processes:
        for path, size, mtime_ns in process.reads:
            if path in seen or _below(path, without):
                continue
            seen.add(path)
            if path.startswith("/") and not is_mounted(path, size, mtime_ns):
                continue
            yield ReadFile(path=path, size=size, sha256=digest(path, size, mtime_ns))


def _memory(value: Any) -> int:
    """Return how many bytes of memory a value takes with all that it holds."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(_memory(key) + _memory(part) for key, part in value.items())
    if isinstance(value, tuple | list):
        return size + sum(map(_memory, value))
    if isinstance(value, msgspec.Struct):
        return size + sum(_memory(getattr(value, name)) for name in value.__struct_fields__)
    return size


def _converted(table: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError:
        return None


def _listed(value: Any) -> list[dict[str, Any]]:
    return [_table(part) for part in value] if isinstance(value, list) else []


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _below(path: str, names: Set[str]) -> bool:
    """Whether a path, or a folder above it, is among names."""
    return path in names or any(path[: match.start()] in names for match in _SLASH.finditer(path))
