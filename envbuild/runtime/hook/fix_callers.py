"""Which lines of a program ask for what an experiment fixes (fix.py)."""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from zlib import crc32

from ..guard import gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

PLACES = 200
"""Lines that are recorded."""
DRAWN, _SHORTEST, _LONGEST = 2000, 4, 64
"""Draws from a fixed stream of entropy that are recorded, and how many bytes of such a one."""
_LIBRARY, _PACKAGE, _PROJECT = range(3)
_MAIN = get_ident()
_SEEDED = ("numpy.random",)
"""Modules that draw when they are imported, for generators that the hook seeds after that."""


class Callers:
    """Lines that ask for what is fixed.

    Args:
        within: returns whether an absolute path is a file of the project.
        real: lines that get what is real.
    """

    def __init__(self, within: Callable[[str], bool], real: frozenset[str]) -> None:
        self.within, self.wanted = within, real
        self.found: dict[tuple[str, CodeType | None, int, str], dict[str, Any]] = {}
        self.drawn: list[str] = []
        self._kinds: dict[CodeType, int] = {}
        self._library = os.path.dirname(os.__file__) + os.sep
        self._own = gate.PREFIX.rstrip("/") + "/"

    def real(
        self, suspect: str, call: str, frame: FrameType | None, value: object = None, given: object = None
    ) -> bool:
        """Note a call as ``note`` does, and return whether its line gets what is real."""
        return self.note(suspect, call, frame, value, given) in self.wanted

    def note(self, suspect: str, call: str, frame: FrameType | None, value: object = None, given: object = None) -> str:
        """Note a call, and return its line (``/workspace/train.py:12``); empty if no line called, or none that counts.

        What a module draws while it is imported, and the hook seeds right after, is nothing's cause.

        Args:
            suspect, call: what is asked for, and by which function.
            frame: the caller's.
            value: what is real, if it is to be known whether that is another one in each run.
            given: what the call was given, if its value may follow from that.
        """
        direct, project, through = None, None, None
        outside = True
        while frame is not None:
            outside = outside and frame.f_code.co_filename.startswith(self._own)
            kind = self._kind(frame.f_code)
            if kind != _LIBRARY and direct is None:
                direct = frame
            elif direct is None and not frame.f_code.co_filename.startswith(("<frozen importlib", self._own)):
                through = frame  # what an import runs is not the import's, nor what this hook wraps the hook's
            if kind == _PROJECT:
                project = frame
                break
            frame = frame.f_back
        if direct is None and outside:  # a thread of a library's own
            self._add((call, None, 0, suspect), suspect, call)
        if direct is None or (suspect == "entropy" and _is_seeded_after(direct)):
            return ""
        at = project or direct
        file = at.f_code.co_filename
        place = f"{file if file.startswith('<') else os.path.abspath(file)}:{at.f_lineno}"
        call = call if through is None or given is not None else _name(through)
        entry = self._add((call, direct.f_code, direct.f_lineno, place), suspect, call, direct, place)
        if entry is not None:
            for name, each in (("given", given), ("values", value)):
                if each is not None:
                    data = each if isinstance(each, bytes) else repr(each).encode("utf-8", "surrogatepass")
                    entry[name] = f"{crc32(data, int(entry.get(name) or '0', 16)):08x}"
        return place

    def _add(
        self,
        key: tuple[str, CodeType | None, int, str],
        suspect: str,
        call: str,
        frame: FrameType | None = None,
        place: str = "",
    ) -> dict[str, Any] | None:
        """Count a call, and return its entry; None if there are too many. Without a frame no code of Python asked."""
        entry = self.found.get(key)
        if entry is None and len(self.found) < PLACES:
            entry = self.found[key] = {
                "suspect": suspect,
                "call": call,
                "file": frame.f_code.co_filename if frame is not None else "",
                "line": frame.f_lineno if frame is not None else 0,
                "module": str(frame.f_globals.get("__name__") or "") if frame is not None else "",
                "place": place,
                "count": 0,
            }
        if entry is not None:
            entry["count"] += 1
        return entry

    def note_reached(self, place: str) -> None:
        """Note that a limit of time was reached nevertheless, by its line: an experiment shows nothing of it then."""
        self._add(("reached", None, 0, place), "reached", "", place=place)

    def note_drawn(self, data: bytes) -> None:
        """Note what was drawn from a fixed stream of entropy; long draws are no identities."""
        if len(self.drawn) < DRAWN and _SHORTEST <= len(data) <= _LONGEST:
            self.drawn.append(data.hex())

    def as_list(self) -> list[dict[str, Any]]:
        """Return the lines in the order in which they asked first, and what was drawn as one entry more."""
        found = list(self.found.values())
        if self.drawn:
            found.append({"suspect": "drawn", "call": "", "file": "", "line": 0, "drawn": self.drawn})
        return found

    def clear(self) -> None:
        """In a forked child: the parent's record has all that was asked so far."""
        self.found, self.drawn = {}, []

    def is_project(self, code: CodeType) -> bool:
        """Return whether code is the project's."""
        return self._kind(code) == _PROJECT

    def is_of_package_alone(self, frame: FrameType | None) -> bool:
        """Return whether a thread runs that a package began for itself: nothing but packages and libraries is in it.

        Cells of notebooks and what programs execute from texts are no packages'; the first thread is the program's.
        """
        if get_ident() == _MAIN:
            return False
        package = False
        while frame is not None:
            file = frame.f_code.co_filename
            package = package or "-packages" in file
            if "-packages" not in file and self._kind(frame.f_code) != _LIBRARY:
                return False
            frame = frame.f_back
        return package

    def is_of_project(self, place: str) -> bool:
        """Return whether a line (``note``) is the project's."""
        return self.within(place.rpartition(":")[0])

    def _kind(self, code: CodeType) -> int:
        kind = self._kinds.get(code)
        if kind is None:
            file = code.co_filename
            library = file.startswith(("<frozen", self._own)) or (
                file.startswith(self._library) and "-packages" not in file
            )
            outside = library or "-packages" in file or file.startswith("<")
            inside = not outside and self.within(os.path.abspath(file))
            kind = self._kinds[code] = _LIBRARY if library else _PROJECT if inside else _PACKAGE
        return kind


def _is_seeded_after(frame: FrameType) -> bool:
    """Whether code of a module runs that the hook seeds once it is imported."""
    name = str(frame.f_globals.get("__name__"))
    for each in _SEEDED:
        module = sys.modules.get(each)
        if module is not None and (name == each or name.startswith(f"{each}.")):
            return getattr(getattr(module, "__spec__", None), "_initializing", None) is True
    return False


def _name(frame: FrameType) -> str:
    """Return the full name of a running function of the standard library."""
    owner, function = frame.f_locals.get("self"), frame.f_code.co_name
    kind = f"{type(owner).__name__}." if owner is not None and hasattr(type(owner), function) else ""
    return f"{frame.f_globals.get('__name__')}.{kind}{function}"
