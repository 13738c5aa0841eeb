"""What a process reads of the project and of mounted folders: script, modules and configuration files, by digest.

An audit hook (PEP 578) sees each file that Python opens. A source or a file with the suffix of a configuration below
the project is digested at that moment: as it was read, not as somebody may have left it since. Other files that are
read there (``reads``: data) are listed with size and time of change only: they may be large, and the host
digests those that have not changed since. Reads that bypass Python's own ``open`` (TensorFlow's, HDF5's) are not seen.
An audit hook cannot be removed, so the path of all other events is as short as can be; measured, it costs 0.15
microseconds an event, and 5 for a read of the project's data.
"""

from __future__ import annotations

import os
import posix  # programs' tests replace functions of ``os`` and ``open``, and count calls
import sys
from _io import FileIO
from _thread import get_ident
from posixpath import basename, dirname, exists, isfile, join, normpath, split
from time import monotonic

from ..digest import sha256
from ..guard import gate
from .handlers import is_programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

WORKSPACE = "/workspace"
SOURCES = frozenset(("py", "pyc"))
SUFFIXES = frozenset(
    (
        *SOURCES, "json", "json5", "jsonnet", "yaml", "yml", "toml", "ini", "cfg", "conf", "properties", "gin", "env",
        "ipynb", "hocon", "args", "flags", "prototxt", "pbtxt",
    )
)  # fmt: skip
SOURCE_COUNT = 1000
CONFIG_COUNT = 200
READ_COUNT = 1000
MOUNTED = "mounted"
"""In the run's folder: where the caller mounted something, absolute paths with a NUL after each; not there for none."""
OWN_COUNT = 10_000
"""Files that the program writes itself: what it reads back is neither configuration nor data."""
SIZE = 1 << 20
"""Bytes; a larger configuration is listed without a digest. Sources always have one."""
PAUSE = 0.5
"""Seconds between two writes of the record that only new files cause."""
_KIND, _REGULAR = 0o170000, 0o100000
_BESIDE = ("/.envbuild/", "/.git/", "/site-packages/", "/dist-packages/", "/node_modules/")


class Observer:
    """The files of the project that this process has read.

    Args:
        write: writes the record; called at most twice a second.
        folder: where the process started.
        mounted: paths at which the caller mounted something: what is read there counts as the project's.
    """

    def __init__(self, write: Callable[[], None], folder: str | None = None, mounted: tuple[str, ...] = ()) -> None:
        self.write = write
        start = _here() if folder is None else folder
        self.root = WORKSPACE if f"{start}/".startswith(f"{WORKSPACE}/") else start
        self.mounted = mounted
        """Of one file its path, of a folder the path with ``/`` at the end."""
        self.files: dict[str, dict[str, Any]] = {}
        self.reads: dict[str, dict[str, Any]] = {}
        self.left_out = self.reads_left_out = 0
        self.script = ""
        """What the interpreter itself opened, with ``fopen`` and no flags; ``__file__`` is gone at exit."""
        self.inherited = self.inherited_reads = 0
        self._counts = [0, 0]
        self._own: set[str] = set()
        self._busy: set[int] = set()
        self._written = -PAUSE
        self._fresh = False
        outside = {sys.prefix, sys.base_prefix, gate.PREFIX, gate.RUN_DIR}
        self._outside = tuple(f"{path.rstrip('/')}/" for path in outside)
        if self.root == "/":
            self._outside += ("/usr/", "/lib/", "/lib64/", "/etc/", "/proc/", "/sys/", "/dev/", "/opt/env/")

    def install(self) -> None:
        """Start watching. There is no way back."""
        look, suffixes = self.look, SUFFIXES
        # Without a folder of its own a program has no data that could be distinguished from the system's.
        root = (f"{self.root}/",) if self.root not in ("", "/") else ()
        data = (*root, *self.mounted)

        def audit(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "open" and arguments:
                path = arguments[0]
                if path.__class__ is str:
                    if path.rpartition(".")[2] in suffixes:
                        look(path, arguments)
                    elif data and (path.startswith(data) or not path.startswith("/")):
                        look(path, arguments, data=True)

        sys.addaudithook(audit)

    def look(self, path: str, arguments: tuple[Any, ...], *, data: bool = False) -> None:
        """Digest a file that is about to be opened; what goes wrong here never reaches the program.

        Args:
            path: as the program names it.
            arguments: of the audit event: path, mode, flags.
            data: it is neither a source nor a configuration by its name, and is listed without a digest.
        """
        thread = get_ident()
        if thread in self._busy:
            return
        self._busy.add(thread)
        try:
            mode, flags = arguments[1], arguments[2]
            if not flags and not self.script and path.endswith(".py"):
                self.script = absolute(path)
            writes = flags & (os.O_WRONLY | os.O_RDWR) or (mode.__class__ is str and not mode.startswith("r"))
            self._opened(path, bool(writes), data)
            self.refresh()
        except Exception as error:
            if is_programs(error):
                raise
            self.left_out += 1
        finally:
            self._busy.discard(thread)

    def read_config(self, path: str) -> None:
        """Note a configuration file by name, whatever its suffix."""
        self._busy.add(get_ident())
        try:
            self._note(absolute(path), SIZE)
        finally:
            self._busy.discard(get_ident())

    def within(self, path: str) -> bool:
        """Return whether an absolute path is the project's own, or in what the caller mounted."""
        prefix = self.root if self.root == "/" else f"{self.root}/"
        own = bool(self.root) and path.startswith(prefix)
        if not (own or path.startswith(self.mounted)) or path.startswith(self._outside):
            return False
        return not any(part in path for part in _BESIDE)

    def _opened(self, path: str, writes: bool, data: bool) -> None:
        path = absolute(path)
        if not self.within(path):
            return
        if path.endswith(".pyc"):
            path = source_of(path)
        if writes:
            if len(self._own) < OWN_COUNT:
                self._own.add(path)
        elif path in self.files or path in self._own:
            pass
        elif data:
            self._note_read(path)
        else:
            self._note(path, sys.maxsize if path.endswith(".py") else SIZE)

    def _note(self, path: str, limit: int) -> None:
        if path in self.files:
            return
        if self._full(path):
            self.left_out += 1
            return
        found = digest_file(path, limit)
        if found["sha256"] is None and found["size"] is None:  # there is none: programs try names
            return
        self.files[path] = found
        self._fresh = True

    def _note_read(self, path: str) -> None:
        """List a file of data, as it is before it is read for the first time."""
        if path in self.reads:
            return
        if len(self.reads) >= READ_COUNT:
            self.reads_left_out += 1
            return
        try:
            status = posix.stat(path)
        except OSError:
            return
        if status.st_mode & _KIND == _REGULAR:
            self.reads[path] = {"path": path, "size": status.st_size, "mtime_ns": status.st_mtime_ns}
            self._fresh = True

    def _full(self, path: str) -> bool:
        """Count a file; data in a thousand small files must not push the sources out."""
        source = path.endswith(".py")
        self._counts[source] += 1
        return self._counts[source] > (SOURCE_COUNT if source else CONFIG_COUNT)

    def refresh(self) -> None:
        """Write the record if something was read since, but not at each file."""
        if not self._fresh:
            return
        now = monotonic()
        if now - self._written >= PAUSE:
            self._fresh, self._written = False, now
            self.write()

    def forked(self) -> None:
        """In a forked child: the parent's record has all that was read so far."""
        self.inherited, self.inherited_reads = len(self.files), len(self.reads)
        self.reads_left_out = 0
        self._busy = set()

    def as_dict(self, *, final: bool = False) -> dict[str, Any]:
        """Return ``modules``, ``configs`` and ``reads``; at the end modules that no audit event showed too."""
        loaded = self._loaded(final) if final else None
        modules: list[dict[str, Any]] = []
        configs: list[dict[str, Any]] = []
        for path, entry in list(self.files.items())[self.inherited :]:
            is_module = path == self.script or (path.endswith(".py") if loaded is None else path in loaded)
            (modules if is_module else configs).append(entry)
        return {
            "modules": modules,
            "configs": configs,
            "left_out": self.left_out,
            "reads": list(self.reads.values())[self.inherited_reads :],
            "reads_left_out": self.reads_left_out,
        }

    def _loaded(self, final: bool) -> set[str]:
        """Return the project's files that are modules now."""
        found = set()
        for name, module in list(sys.modules.items()):
            path = _file_of(module)
            if not path or not self.within(path):
                continue
            if path not in self.files and (final or name == "__main__"):
                self._note_late(path)
            found.add(path)
        return found

    def _note_late(self, path: str) -> None:
        """Digest a module's file at the end: it was loaded from an archive, or by other means than ``open``."""
        while path not in ("", "/") and not isfile(path):
            path = dirname(path)
        if path in ("", "/") or path in self.files or self._full(path):
            return
        self.files[path] = {**digest_file(path, sys.maxsize), "at": "exit"}


def mounted_in(folder: str) -> tuple[str, ...]:
    """Return where the caller mounted something, as the run's folder lists it (``MOUNTED``), for ``Observer``."""
    try:
        with FileIO(f"{folder}/{MOUNTED}") as stream:
            paths = os.fsdecode(stream.readall()).split("\0")
    except OSError:
        return ()
    return tuple(path if isfile(path) else f"{path}/" for path in paths if path.startswith("/") and path != "/")


def digest_file(path: str, limit: int) -> dict[str, Any]:
    """Return path, size in bytes and SHA-256 of a file; None for what cannot be had, no digest above the limit."""
    found: dict[str, Any] = {"path": path, "size": None, "sha256": None}
    try:
        if posix.stat(path).st_mode & _KIND != _REGULAR:  # a pipe would give its data only once
            return found
        with FileIO(path) as stream:
            found["size"] = size = posix.fstat(stream.fileno()).st_size
            if size <= limit:
                found["sha256"] = sha256(stream.readall())
    except OSError:
        pass
    return found


def absolute(path: str) -> str:
    """Do what ``os.path.abspath`` does, which a program may have replaced."""
    return normpath(path if path.startswith("/") else join(posix.getcwd(), path))


def _here() -> str:
    """Return the working directory; empty if it was removed."""
    try:
        return posix.getcwd()
    except OSError:
        return ""


def _file_of(module: ModuleType) -> str:
    """Return the file of a module without waking a lazy one; sources for bytecode."""
    try:
        values = object.__getattribute__(module, "__dict__")
        path = values.get("__file__")
    except Exception:
        return ""
    if not isinstance(path, str):
        return ""
    path = absolute(path)
    return source_of(path) if path.endswith(".pyc") else path


def source_of(path: str) -> str:
    """Return the source of a bytecode file (PEP 3147) if it is there, else the file itself."""
    folder, name = split(path)
    if basename(folder) == "__pycache__":
        source = join(dirname(folder), name.partition(".")[0] + ".py")
        if exists(source):
            return source
    return path
