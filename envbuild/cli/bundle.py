"""The bytecode of envbuild's modules that a run imports, in one file next to how runs begin (``early.py``).

To find a module, its bytecode's file and what that was made from takes 0.06 ms, and a run imports 100 modules before
its program starts. A module of the bundle is taken if its source has the time and size that the bytecode was made from,
which is what Python compares for each file of bytecode; any other is imported as ever, and the bundle is made anew.

The file belongs to this user, who alone may read it, and to this run of the machine: a store that came from elsewhere
brings no code.
"""

# ruff: noqa: PTH104, PTH108, PTH116 - pathlib is not loaded yet

from __future__ import annotations

import _frozen_importlib as importing
import _frozen_importlib_external as external
import _imp
import marshal
import os
import stat
import sys

TYPE_CHECKING = False  # a run begins before ``typing`` is imported
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import Any

_HEAD = 32
"""Bytes of the numbers at the beginning: sizes of the file and of its table."""
_PYC = 16
"""Bytes of a bytecode file's head: magic number, flags, time and size of the source (PEP 552)."""
_PACKAGE = "envbuild"
_MOST = 1 << 25


class _Loader(external.SourceFileLoader):
    """Loads a module's bytecode from the bundle; all else, such as its source and its resources, from its file."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code; where the bundle has none that is whole, that of the file."""
        found = _used[0].code(fullname) if _used else None
        if found is None:
            return super().get_code(fullname)
        _imp._fix_co_filename(found, self.path)  # type: ignore[attr-defined]  # as the file's loader does
        return found


class _Bundle:
    """A meta-path finder for the modules of one file.

    Args:
        path: of the file.
        key: what the file was made for.
        root: the folder of the package.
    """

    def __init__(self, path: str, key: bytes, root: str) -> None:
        self._path, self._key, self._root = path, key, root
        self._file, self._start = -1, 0
        self._table: dict[str, tuple[bool, int, int, int, int]] = {}
        self._stale: set[str] = set()
        try:
            self._open()
        except (OSError, ValueError, EOFError, TypeError):
            self._table = {}

    def _open(self) -> None:
        """Read the table of what is in it."""
        self._file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return
        size, length = map(int, os.read(self._file, _HEAD).split())
        if size != found.st_size or length > size:
            return
        key, table = marshal.loads(os.read(self._file, length))  # noqa: S302 - this user's own
        if key == self._key:
            self._table, self._start = table, _HEAD + length

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Return how a module of the bundle is loaded; None for others, and for those whose source is another one."""
        entry = self._table.get(name)
        if entry is None:
            return None
        package, time, size, _, _ = entry
        place = self._place(name, package=package)
        try:
            found = os.stat(place)
        except OSError:
            found = None
        if found is None or (int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF) != (time, size):
            self._stale.add(name)
            return None
        spec: Any = importing.ModuleSpec(name, _Loader(name, place), origin=place, is_package=package)
        spec._set_fileattr = True
        if package:
            spec.submodule_search_locations.append(place.rpartition("/")[0])
        return spec

    def code(self, name: str) -> CodeType | None:
        """Return a module's code."""
        _, _, _, start, length = self._table[name]
        try:
            data = os.pread(self._file, length, self._start + start)
            return marshal.loads(data) if len(data) == length else None  # noqa: S302
        except (OSError, ValueError, EOFError, TypeError):
            self._stale.add(name)
            return None

    def keep(self) -> None:
        """Write it anew if modules were imported that it does not have; raises ``OSError``."""
        loaded = [name for name in list(sys.modules) if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")]
        if all(name in self._table and name not in self._stale for name in loaded):
            return
        table, data = {}, b""
        for name in sorted({*loaded, *self._table}):
            read = self._compiled(name)
            if read is not None:
                package, time, size, code = read
                table[name] = (package, time, size, len(data), len(code))
                data += code
        if table.keys() <= self._table.keys() - self._stale or len(data) > _MOST:
            return
        head = marshal.dumps((self._key, table))
        whole = b"%-15d %-15d\n" % (_HEAD + len(head) + len(data), len(head)) + head + data
        temporary = f"{self._path}.{os.urandom(4).hex()}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            written = os.write(descriptor, whole)
        finally:
            os.close(descriptor)
        if written == len(whole):
            os.rename(temporary, self._path)
        else:
            os.unlink(temporary)

    def _compiled(self, name: str) -> tuple[bool, int, int, bytes] | None:
        """Return whether a module is a package, with its source's time and size and its bytecode as Python wrote it."""
        for package in (False, True):
            try:
                found = os.stat(place := self._place(name, package=package))
                with open(external.cache_from_source(place), "rb", buffering=0) as stream:
                    data = stream.read(_MOST) or b""
            except OSError:
                continue
            magic, flags, time, size = data[:4], *(int.from_bytes(data[at : at + 4], "little") for at in (4, 8, 12))
            is_current = (int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF) == (time, size)
            if magic == external.MAGIC_NUMBER and flags == 0 and is_current:
                return package, time, size, data[_PYC:]
        return None

    def _place(self, name: str, *, package: bool) -> str:
        below = name.replace(".", "/").removeprefix(_PACKAGE)
        return f"{self._root}{below}/__init__.py" if package else f"{self._root}{below}.py"


_used: list[_Bundle] = []


def use(path: str, key: bytes) -> None:
    """Have modules imported from a bundle from now on, if there is one; the process ends with the command.

    Args:
        path: of the file.
        key: what it has to be made for.
    """
    if sys.flags.optimize or sys.pycache_prefix or _used:
        return
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is not loaded yet
    _used.append(_Bundle(path, key + external.MAGIC_NUMBER, root))
    sys.meta_path.insert(0, _used[0])


def keep() -> None:
    """Make the bundle anew if this command imported modules that are not in it."""
    if _used and not sys.dont_write_bytecode:
        from contextlib import suppress

        with suppress(OSError, ValueError):
            _used[0].keep()
