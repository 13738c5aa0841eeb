"""What use cases report while they work: values, rendered by whoever listens.

A use case takes an ``Events``. The command line renders events as lines (``cli/render/events.py``), a program that uses
the Python interface may pass its own listener, and ``Silent`` drops everything. Events carry facts, never finished
sentences with layout: widths, colours and units belong to the listener.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from envbuild.core import progress


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note(Event):
    """Something a person should know although nothing failed.

    Attributes:
        text: one sentence without a full stop.
    """

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Detail(Event):
    """Something for people who ask for details (``--verbose``)."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesFetched(Event):
    """All files of a lock are in the store, and some were fetched.

    Attributes:
        files: files of the lock.
        bytes: fetched; 0 if they were found in a folder.
        rate: in megabytes (10**6 bytes) a second.
    """

    files: int
    bytes: int
    rate: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SomeFilesFetched(Event):
    """Some files of the lock with this file name were fetched into the store."""

    files: int
    lock: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NothingToFetch(Event):
    """All files of a lock were in the store, whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseImageFetched(Event):
    """The file system of a base image was put into the store; ``image`` is without its digest."""

    image: str
    bytes: int


class Events(progress.Progress, Protocol):
    """Receives what a use case reports; safe to call from any thread."""

    def report(self, event: Event) -> None:
        """Receive one event."""


class Silent(progress.Silent):
    """An ``Events`` that drops everything."""

    def report(self, event: Event) -> None:
        """Drop an event."""
