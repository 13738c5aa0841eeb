"""What use cases report while they work: values, rendered by the listener.

A use case takes an ``Events``. The command line renders events as lines (``cli/render/events.py``), a program that uses
the Python interface may pass its own listener, and ``Silent`` drops everything. Events carry facts, never finished
sentences with layout: widths, colours and units belong to the listener.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

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
class JobRefused(Event):
    """No rank of a distributed job starts its program: an error with the reason follows, and this process ends.

    The launcher may send SIGTERM until then, since other ranks have ended; it should not change the exit code.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerReady(Event):
    """A layer of an image is in the store; ``reused``: an earlier build had made it. ``bytes`` of its tar."""

    title: str
    bytes: int
    reused: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesReplaced(Event):
    """Two wheels install different content at the same paths (absolute): names of the loser and the winner."""

    paths: tuple[str, ...]
    loser: str
    winner: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesChanged(Event):
    """A wheel holds files that its RECORD has other hashes for; the image's RECORD has theirs."""

    wheel: str
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageUpToDate(Event):
    """An engine holds the image of the lock of this name already.

    Attributes:
        config: its identity (hexadecimal).
        engine: the engine's name.
        reference: the image's name there.
    """

    lock: str
    config: str
    engine: str
    reference: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageLoaded(Event):
    """An engine has an image.

    Attributes:
        engine: its name.
        bytes: that it received.
        seconds: waited for it after the last layer was made.
        layers: of the image.
        held: of these, layers that it held already.
        why: why the image was loaded and not pulled; empty if it was pulled.
    """

    engine: str
    bytes: int
    seconds: float
    layers: int
    held: int
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageBuilt(Event):
    """An image was made and recorded next to its lock.

    Attributes:
        lock: the lock's name.
        config: the image's identity (hexadecimal).
        bytes: of its layers, uncompressed.
        layers: their number.
        reproduced: the same image was recorded before.
    """

    lock: str
    config: str
    bytes: int
    layers: int
    reproduced: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RebuildStarted(Event):
    """The image of the lock of this name is made once more from nothing."""

    lock: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RebuildEqual(Event):
    """The rebuilt image has the same bits; ``config`` is its identity (hexadecimal), ``layers`` their number."""

    lock: str
    config: str
    layers: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SignatureAccepted(Event):
    """An image is signed as required; ``manifest`` is its digest (hexadecimal), ``by`` who signed it."""

    manifest: str
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePulled(Event):
    """An image came from a registry into the engine.

    Attributes:
        reference: as it was named, or the repository if layers were fetched.
        bytes: that came over the network; None if the engine had the image.
        layers: of the image.
        held: of these, layers that store or engine held already.
    """

    reference: str
    bytes: int | None = None
    layers: int = 0
    held: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSigned(Event):
    """An image in a registry is signed; ``added``: now, not before."""

    reference: str
    signer: str
    added: bool


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


@dataclass(frozen=True, kw_only=True, slots=True)
class BisectStep(Event):
    """One run of ``diff --bisect`` has ended.

    Attributes:
        name: what was as in B.
        equal_to: the runs whose result it gave: ``A``, ``B``, both or none.
        state: how its record states that it ended.
        other_exit_code: its exit code if that is not A's, else None.
        seconds: wall time.
    """

    name: str
    equal_to: tuple[str, ...]
    state: str
    other_exit_code: int | None
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEnded(Event):
    """One of several runs of a verification has ended.

    Attributes:
        number: from 1; ``of``: how many there shall be.
        id: of its record.
        state, exit_code: how it ended, as its record has it.
    """

    number: int
    of: int
    id: str
    state: str
    exit_code: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSubmitted(Event):
    """A scheduler has taken a job of so many runs, under this number."""

    job: str
    runs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunsEnded(Event):
    """All runs of a verification have ended: how many there were to be, how many were made, and how many at once."""

    asked: int
    made: int
    at_once: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MoreRuns(Event):
    """Further runs were made of a program whose runs differ.

    Attributes:
        purpose: ``values``: to have the values where they diverge; ``diagnose``: to find out why; others: what was
            fixed or varied in an experiment, such as ``entropy fixed``.
        count: how many.
    """

    purpose: str
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CostPlanned(Event):
    """How many runs measuring takes, and about how many seconds."""

    runs: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CostMeasured(Event):
    """All ways were measured: runs of each, and by how much equal runs differ, as a fraction."""

    rounds: int
    noise: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreChecked(Event):
    """All of a store was read: so many files and derived entries (``made``), their bytes, and how long it took."""

    files: int
    made: int
    bytes: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DamagedEntry(Event):
    """Something in a store had other bytes than promised and was removed; ``locks`` are those that need it."""

    name: str
    locks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreCopied(Event):
    """A lock's files were copied from a store or into it.

    Attributes:
        direction: which way.
        lock: the lock's name, or the artifact's tag where the lock is unknown.
        files: files copied; ``held``: files that were there already.
        bytes: of the files copied.
        seconds: wall-clock time; 0 if it was not measured.
    """

    direction: Literal["push", "pull"]
    lock: str
    files: int
    held: int
    bytes: int
    seconds: float = 0.0


class Events(progress.Progress, Protocol):
    """Receives what a use case reports; safe to call from any thread."""

    def report(self, event: Event) -> None:
        """Receive one event."""


class Silent(progress.Silent):
    """An ``Events`` that drops everything."""

    def report(self, event: Event) -> None:
        """Drop an event."""
