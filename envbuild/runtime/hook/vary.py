"""What no result may depend on, given otherwise than in the run before (``ENVBUILD_VARY``, set by ``envbuild verify``).

The value is a number from 1, and after ``:`` what is varied, with commas between. ``listings``: of directories come
in another order, reversed for 1, shuffled with the number as a seed for others. ``environment``: its order is reversed.
``load``: ``os.getloadavg`` returns less, as on a machine that has less to do. ``turns``: threads and forked processes
begin their work a little later (turns.py).
``pids``: numbers of processes are skipped, so that children have others: logs name them too often to do so always.

Listings are those of ``os.listdir`` and ``os.scandir``, on which ``os.walk``, ``glob`` and ``pathlib`` stand;
``readdir`` called from C or C++ is not reached. Folders of the interpreter, of installed packages and of the kernel
(``/proc``, ``/sys``, ``/dev``) keep their order: they are the image's, or have one.

An entry of the record (``listings``) is a line of the project that listed a folder in a varied order: ``call`` (what it
called: ``glob.glob``), ``file``, ``line``, ``folder`` (the first one) and ``count``. Folders with fewer than two
entries have no order. For a listing by a package, the line is the innermost one of the project; ``module`` names who
listed.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any

    from .process import Process

VARIABLE = "ENVBUILD_VARY"
PLACES = 200
"""Lines that are recorded."""
SKIPPED_PIDS = 3
"""Numbers of processes that are skipped, times the number of the variation."""
_ALIGNED, _SMALL, _HEAD = 16, 512, 33
"""Bytes: what sizes of small objects are multiples of, the largest, and what ``bytes`` have before and after."""
_MOVED = 1000
_held: list[list[bytes]] = []
_FIXED = ("/proc/", "/sys/", "/dev/")
_MULTIPLIER, _INCREMENT, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1


def wanted(environ: Any) -> tuple[int, list[str]]:
    """Return the number of the variation, 0 for none, and what is varied."""
    text, _, what = str(environ.get(VARIABLE, "")).partition(":")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0, what.split(",")


def move_objects() -> None:
    """Have objects that are made from now on get other addresses, in another order.

    CPython gives an object of up to 512 bytes the place of its size that became free last: so some are made, of each
    size, and half of them freed in an order of ours. The others stay.
    """
    for size in range(_ALIGNED, _SMALL + 1, _ALIGNED):
        made = [bytes(max(0, size - _HEAD)) for _ in range(_MOVED)]
        freed = list(range(0, _MOVED, 2))
        _shuffle(freed, size)
        for at in freed:
            made[at] = b""
        _held.append(made)


def skip_numbers(environ: Any) -> None:
    """Use up numbers of processes if these are to be varied. Only before anything is called at a fork."""
    number, what = wanted(environ)
    use_up(number * SKIPPED_PIDS if "pids" in what else 0)


def use_up(count: int) -> None:
    """Use up so many numbers of processes, as far as there may be more."""
    for _ in range(count):
        try:
            child = os.fork()
        except OSError:
            return
        if not child:
            os._exit(0)
        os.waitpid(child, 0)


def begin(process: Process) -> None:
    """Vary from now on; there is no way back."""
    number, what = wanted(os.environ)
    if number and "listings" in what:
        listings = Listings(number, process.observer.within)
        listings.install()
        process.listings = listings.as_list
        os.register_at_fork(after_in_child=listings.clear)
    if number and "environment" in what:
        reverse_environment()
    load: Any = os.getloadavg
    if number and "load" in what and isinstance(load, type(len)):  # an experiment may have fixed it
        lower_load(number)


def lower_load(number: int) -> None:
    """Find less load than there is. Never much more: a program may wait until there is little."""
    original = os.getloadavg

    def getloadavg() -> tuple[float, float, float]:
        return tuple(each / (1 + number) + min(number, 9) / 100 for each in original())  # type: ignore[return-value]

    os.getloadavg = getloadavg


def reverse_environment() -> None:
    """Reverse the order of ``os.environ``, which children get."""
    data: Any = os.environ._data  # type: ignore[attr-defined]
    items = list(data.items())
    data.clear()
    data.update(reversed(items))


class Listings:
    """Listings of folders in an order of ours.

    Args:
        number: of the variation.
        within: returns whether an absolute path is a file of the project.
    """

    def __init__(self, number: int, within: Callable[[str], bool]) -> None:
        self.number, self.within = number, within
        self.found: dict[tuple[str, int], dict[str, Any]] = {}
        own = {sys.prefix, sys.base_prefix, os.path.dirname(os.__file__)}
        self._fixed = (*_FIXED, *(f"{path.rstrip('/')}/" for path in own if path != "/"))

    def install(self) -> None:
        """Put our functions in the place of the originals."""
        for name, kind in (("listdir", _ListDir), ("scandir", _ScanDir)):
            original = getattr(os, name)
            varied = kind(original, self)
            setattr(os, name, varied)
            if original in os.supports_fd:  # shutil.rmtree asks for them there
                os.supports_fd.add(varied)

    def order(self, path: Any, entries: list[Any], name: Callable[[Any], Any]) -> list[Any]:
        """Return the entries of a folder in another order, and note who asked."""
        if len(entries) < 2 or self._keeps(path):
            return entries
        entries.sort(key=name)  # of the order that the file system gave, nothing may be left
        if self.number == 1:
            entries.reverse()
        else:
            _shuffle(entries, self.number)
        self._note(path, sys._getframe(2))
        return entries

    def as_list(self) -> list[dict[str, Any]]:
        """Return the lines that listed, in the order in which they first did."""
        return list(self.found.values())

    def clear(self) -> None:
        """In a forked child: the parent's record has all that was listed so far."""
        self.found = {}

    def _keeps(self, path: Any) -> bool:
        if isinstance(path, int):
            return False
        text = os.fsdecode("." if path is None else path)
        return f"{os.path.abspath(text)}/".startswith(self._fixed)

    def _of_project(self, file: str) -> bool:
        return not file.startswith("<frozen") and self.within(os.path.abspath(file))

    def _note(self, path: Any, frame: FrameType | None) -> None:
        """Record the innermost line of the project that led to a listing."""
        module = str(frame.f_globals.get("__name__") or "") if frame is not None else ""
        called = ""
        while frame is not None and not self._of_project(frame.f_code.co_filename):
            called = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"
            frame = frame.f_back
        if frame is None:
            return
        key = frame.f_code.co_filename, frame.f_lineno
        if key in self.found:
            self.found[key]["count"] += 1
        elif len(self.found) < PLACES:
            folder = "" if isinstance(path, int) else os.fsdecode("." if path is None else path)
            self.found[key] = {
                "call": called or "os.listdir", "file": key[0], "line": key[1], "folder": folder, "count": 1,
                "module": module,
            }  # fmt: skip


class _ListDir:
    """``os.listdir``. No function: up to Python 3.10 ``pathlib`` has it as an attribute of a class."""

    __name__ = "listdir"

    def __init__(self, original: Callable[..., list[Any]], listings: Listings) -> None:
        self.__wrapped__, self._listings, self.__doc__ = original, listings, original.__doc__

    def __call__(self, path: Any = None) -> list[Any]:
        return self._listings.order(path, self.__wrapped__(path), _itself)


class _ScanDir:
    """``os.scandir``."""

    __name__ = "scandir"

    def __init__(self, original: Callable[..., Any], listings: Listings) -> None:
        self.__wrapped__, self._listings, self.__doc__ = original, listings, original.__doc__

    def __call__(self, path: Any = None) -> _Entries:
        with self.__wrapped__(path) as found:
            entries = list(found)
        return _Entries(self._listings.order(path, entries, _name))


class _Entries:
    """What ``os.scandir`` returns."""

    def __init__(self, entries: list[Any]) -> None:
        self._left: Iterator[Any] = iter(entries)

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> Any:
        return next(self._left)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget what is left."""
        self._left = iter(())


def _itself(entry: Any) -> Any:
    return entry


def _name(entry: Any) -> Any:
    return entry.name


def _shuffle(entries: list[Any], number: int) -> None:
    """Shuffle by the number: a linear congruential generator (Knuth), so that ``random`` need not be imported."""
    state = number
    for last in range(len(entries) - 1, 0, -1):
        state = (state * _MULTIPLIER + _INCREMENT) & _MASK
        other = (state >> 33) % (last + 1)
        entries[last], entries[other] = entries[other], entries[last]


def drawn(number: int, below: int) -> int:
    """Return a number below another one, from the high bits of the generator's state after a first one."""
    state = ((number + 1) * _MULTIPLIER + _INCREMENT) & _MASK
    return (((state * _MULTIPLIER + _INCREMENT) & _MASK) >> 33) % below
