"""Events of use cases as aligned lines: a label and columns each (``Console.line``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch

from envbuild.core.text import human_bytes, plural
from envbuild.operations import events


@dataclass(frozen=True, slots=True)
class Line:
    """One aligned line.

    Attributes:
        label: what it is about, at most nine characters.
        columns: the rest; empty columns are left out.
        elapsed: add the seconds since the command began.
        detail: print it with ``--verbose`` only, dimmed; ``columns`` has one text then.
    """

    label: str
    columns: tuple[str, ...]
    elapsed: bool = False
    detail: bool = False


@singledispatch
def lines(event: events.Event) -> Iterable[Line]:
    """Return the lines that show an event; an event without a renderer is a bug."""
    raise TypeError(f"no renderer for {type(event).__name__}")


@lines.register
def _(event: events.Note) -> Iterable[Line]:
    yield Line("note", (event.text,))


@lines.register
def _(event: events.Detail) -> Iterable[Line]:
    yield Line("", (event.text,), detail=True)


@lines.register
def _(event: events.FilesFetched) -> Iterable[Line]:
    rate = f"{event.rate:.0f} MB/s" if event.bytes else ""
    yield Line("fetch", (f"{plural(event.files, 'file'):<18}", f"{human_bytes(event.bytes):<12}", rate), elapsed=True)


@lines.register
def _(event: events.SomeFilesFetched) -> Iterable[Line]:
    yield Line("fetch", (f"{plural(event.files, 'file'):<18}", event.lock))


@lines.register
def _(event: events.NothingToFetch) -> Iterable[Line]:
    yield Line("fetch", ("nothing to do",), elapsed=True)


@lines.register
def _(event: events.BaseImageFetched) -> Iterable[Line]:
    yield Line("fetch", ("base image        ", f"{human_bytes(event.bytes):<12}", event.image))
