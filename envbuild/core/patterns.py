"""Regular expressions that are compiled when they are first used.

To compile one takes 0.1 to 0.5 ms, and a short command uses few of those that the modules it imports hold: half of what
``run`` spent on compiling was for text that a program did not print.
"""

from __future__ import annotations

import re
from _thread import get_ident
from typing import Any, AnyStr, cast

_compile = re.compile  # ``quick`` has others' modules find ``lazy`` in its place for a moment
_METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")


class _Lazy:
    """Has the attributes of a ``re.Pattern``; ``isinstance`` and functions such as ``re.sub`` do not take it for one.

    Two threads that use it first at once both compile it, to the same end.
    """

    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern, self._flags = text, flags

    def __reduce__(self) -> tuple[Any, tuple[str | bytes, int]]:
        return re.compile, (self.pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        compiled = _compile(self.pattern, self._flags)
        found = getattr(compiled, name)
        for each in _METHODS:  # the next use finds them here
            setattr(self, each, getattr(compiled, each))
        return found


def lazy(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled when it is first used, as ``re.compile`` returns one.

    Only methods may be used of it: functions of ``re`` that take a compiled expression refuse it.
    """
    return cast("re.Pattern[AnyStr]", _Lazy(text, flags))


_believing: list[int] = []


class believed:  # noqa: N801 - a context manager
    """Has patterns of ``checking`` that were not used yet fit everything: for data that was compared with them once."""

    def __enter__(self) -> None:
        """Begin, for this thread."""
        _believing.append(get_ident())

    def __exit__(self, *error: object) -> None:
        """End."""
        _believing.remove(get_ident())


class _Checking(_Lazy):
    def __getattr__(self, name: str) -> Any:
        if name == "search" and get_ident() in _believing:
            return _fits
        return super().__getattr__(name)


def _fits(text: str) -> bool:
    return True


def checking(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression for msgspec, which calls ``search`` of it alone, as ``lazy`` does."""
    return cast("re.Pattern[AnyStr]", _Checking(text, flags))
