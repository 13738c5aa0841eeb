"""What a verification found: by channel what was compared, what was left out, and what differs. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from envbuild.core.text import plural
from envbuild.record.model import State
from envbuild.record.printed import STREAMS

Outcome = Literal["identical", "different", "failed", "refused"]
ChannelKind = Literal["end", "files", "deleted", "folders", "steps", "metrics", "events", "outside", "stdout", "stderr"]
_NAMES: dict[str, str] = {
    "files": "files",
    **dict(STREAMS.items()),
    "metrics": "metrics",
    "events": "event files",
    "outside": "outside the project",
}
_KINDS = {"memory": "measure of memory", "identity": "drawn name", "process": "number of a process", "port": "port"}


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parts."""


class Channel(_Value, frozen=True, kw_only=True):
    """One way in which a program leaves results, compared over all runs.

    Attributes:
        kind: which.
        count: how many results the first run left there, such as files or lines.
        compared: them in a phrase; empty if there are none, or if there is nothing to report about them.
        masked: what was left out of the comparison, a phrase each.
        differs: what differs between the first two results, a phrase each; none if all runs are equal here.
        names: names of what differs, such as files and metrics.
    """

    kind: ChannelKind
    count: int
    compared: str = ""
    masked: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class SameContent(_Value, frozen=True, kw_only=True):
    """A file of equal content in other bytes, why that is so, and the measurements in it that differ."""

    path: str
    why: str
    left_out: tuple[str, ...] = ()


class Measured(_Value, frozen=True, kw_only=True):
    """A place whose value follows the clock exactly, as experiments showed (``verification.measured``).

    Attributes:
        path: the file, ``stdout`` or ``stderr``, or ``metrics``.
        where: the line, the key or the byte in it.
        kind: what it is.
    """

    path: str
    where: str
    kind: Literal["date", "reading", "duration", "rate", "ratio", "memory", "identity", "process", "port"]


class Verdict(_Value, frozen=True, kw_only=True):
    """What a verification found.

    Attributes:
        outcome: ``failed``: the program ended badly in all runs; ``refused``: the guard did not let it start.
        runs: how many runs were compared; ``asked``: how many there should have been.
        groups: indexes of runs with equal results, in the order in which each result was first seen.
        channels: what was compared, and what differs between the first two results.
        volatile: files of equal content in other bytes; ``same_content`` explains why.
        renamed: files that were compared under a common name, since their own hold the time or were drawn.
        training_equal: the runs differ, but the step trace, the metrics and all saved tensors agree.
        ignored: files that were not compared, as asked.
        measured: what differs but follows the clock exactly; proven by as many ``experiments``.
        undecided: what differs and was left out since its name or unit alone shows that it is a measurement.
    """

    outcome: Outcome
    runs: int
    asked: int
    groups: tuple[tuple[int, ...], ...]
    channels: tuple[Channel, ...] = ()
    same_content: tuple[SameContent, ...] = ()
    renamed: tuple[str, ...] = ()
    training_equal: bool = False
    ignored: tuple[str, ...] = ()
    exit_codes: tuple[int | None, ...] = ()
    states: tuple[State, ...] = ()
    measured: tuple[Measured, ...] = ()
    experiments: int = 0
    undecided: tuple[str, ...] = ()

    @property
    def pair(self) -> tuple[int, int]:
        """Indexes of two runs with different results."""
        return self.groups[0][0], self.groups[1][0]

    @property
    def volatile(self) -> tuple[str, ...]:
        """The files of equal content in other bytes."""
        return tuple(each.path for each in self.same_content)

    @property
    def compared(self) -> tuple[str, ...]:
        """What was equal in all runs, a phrase each; empty if there was nothing but the exit code."""
        if self.outcome != "identical":
            return ()
        return tuple(channel.compared for channel in self.channels if channel.compared)

    @property
    def differs(self) -> tuple[str, ...]:
        """What differs between the first two results, a phrase each."""
        return tuple(phrase for channel in self.channels for phrase in channel.differs)

    @property
    def agrees(self) -> tuple[str, ...]:
        """What is equal in the first two results although they differ elsewhere, a phrase each."""
        if self.outcome != "different":
            return ()
        return tuple(channel.compared for channel in self.channels if channel.compared and not channel.differs)

    @property
    def masked(self) -> tuple[str, ...]:
        """What of the channels was not compared, as it differs in every run or could not be read, a phrase each."""
        files = (f"{each.path}: {', '.join(each.left_out)}" for each in self.same_content if each.left_out)
        channels = (
            f"{_NAMES[channel.kind]}: {', '.join(channel.masked)}" for channel in self.channels if channel.masked
        )
        undecided = (f"not decided: {each}" for each in self.undecided)
        return (*channels, *files, *_measured(self.measured), *undecided)

    def channel(self, kind: ChannelKind) -> Channel | None:
        """Return a channel; None if it was not compared."""
        return next((channel for channel in self.channels if channel.kind == kind), None)

    @property
    def differing_files(self) -> tuple[str, ...]:
        """The files that differ between the first two results."""
        files = self.channel("files")
        return files.names if files is not None else ()


def _measured(found: Sequence[Measured]) -> Iterator[str]:
    """Describe by file what follows the clock, a phrase each."""
    for path in dict.fromkeys(each.path for each in found):
        kinds = Counter(each.kind for each in found if each.path == path)
        first = next(each.where for each in found if each.path == path)
        words = ", ".join(plural(count, _KINDS.get(kind, kind)) for kind, count in kinds.items())
        what = "the clock" if _KINDS.keys().isdisjoint(kinds) else "what was fixed"
        yield f"{_NAMES.get(path, path)}: {words} that follow {what} exactly (first: {first or 'all of it'})"


def settled(verdict: Verdict, measured: Sequence[Measured], experiments: int) -> Verdict:
    """Return the verdict on runs that differ in nothing but measurements, as so many experiments have proven."""
    return msgspec.structs.replace(
        verdict,
        outcome="identical",
        groups=(tuple(sorted(index for group in verdict.groups for index in group)),),
        channels=tuple(msgspec.structs.replace(each, differs=(), names=()) for each in verdict.channels),
        training_equal=False,
        measured=tuple(measured),
        experiments=experiments,
    )


def refuted(verdict: Verdict, groups: Sequence[Sequence[int]], places: Mapping[str, Sequence[str]]) -> Verdict:
    """Return the verdict on runs that differ in what was taken for measurements, as experiments have proven.

    Args:
        verdict: by which the runs are equal.
        groups: indexes of runs with equal results.
        places: what differs, by stream or file.
    """
    files = {path: f"{path} ({some(names)})" for path, names in places.items() if path not in _NAMES}

    def changed(channel: Channel) -> Channel:
        if channel.kind in places:
            which = f" ({some(places[channel.kind])})" if channel.kind == "metrics" else ""
            return msgspec.structs.replace(channel, differs=(f"{_NAMES[channel.kind]}{which}",), names=())
        if channel.kind in ("files", "outside"):
            names = [path for path in files if path.startswith("/") == (channel.kind == "outside")]
            if names:
                phrases = tuple(files[path] for path in names)
                return msgspec.structs.replace(channel, differs=phrases, names=tuple(names))
        return channel

    return msgspec.structs.replace(
        verdict,
        outcome="different",
        groups=tuple(tuple(group) for group in groups),
        channels=tuple(map(changed, verdict.channels)),
        same_content=tuple(each for each in verdict.same_content if each.path not in places),
    )


def some(names: Sequence[str], count: int = 3) -> str:
    """List names, and the number of those that are too many."""
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")
