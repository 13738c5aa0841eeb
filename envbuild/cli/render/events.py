"""Events of use cases as aligned lines: a label and columns each (``Console.line``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch

from envbuild.core.text import human_bytes, plural
from envbuild.operations import events

_NAMED = 3
"""Files that a note names."""


@dataclass(frozen=True, slots=True)
class Line:
    """One aligned line.

    Attributes:
        label: what it is about, at most nine characters.
        columns: the rest; empty columns are left out.
        elapsed: add the seconds since the command began.
        aside: print it as ``Console.note`` does, whatever standard output is for; ``columns`` has one text then.
        detail: print it with ``--verbose`` only, dimmed; ``columns`` has one text then.
    """

    label: str
    columns: tuple[str, ...]
    elapsed: bool = False
    detail: bool = False
    aside: bool = False


def held(count: int, layers: int) -> str:
    """Return how many of an image's layers were there already; empty if none was."""
    return f"{count} of {plural(layers, 'layer')} held already" if count else ""


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
def _(event: events.JobRefused) -> Iterable[Line]:
    return ()  # the error that follows says it all


@lines.register
def _(event: events.LayerReady) -> Iterable[Line]:
    state = "reused" if event.reused else "built"
    yield Line("", (f"{event.title:<42}{human_bytes(event.bytes):>10}  {state}",), detail=True)


@lines.register
def _(event: events.FilesReplaced) -> Iterable[Line]:
    first, more = event.paths[0], len(event.paths) - 1
    which = f"{first} and {plural(more, 'other file')} of {event.loser} are" if more else f"{first} of {event.loser} is"
    yield Line("note", (f"{which} replaced by {'those' if more else 'that'} of {event.winner}",))


@lines.register
def _(event: events.FilesChanged) -> Iterable[Line]:
    more = len(event.files) - _NAMED
    named = ", ".join(event.files[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    count = plural(len(event.files), "file")
    why = "the RECORD in it states another hash; the image's RECORD has that of the file"
    yield Line("note", (f"{event.wheel}: {count} of which {why}: {named}",))


@lines.register
def _(event: events.ImageUpToDate) -> Iterable[Line]:
    where = f"nothing to do: {event.engine} has {event.reference}"
    yield Line("image", (event.lock, f"sha256:{event.config[:12]}…", where), elapsed=True)


@lines.register
def _(event: events.ImageLoaded) -> Iterable[Line]:
    waited = f"{event.seconds:.1f} s more"
    yield Line("load", (f"{event.engine:<18}", human_bytes(event.bytes), waited, held(event.held, event.layers)))
    if event.why:
        yield Line("", (f"loaded, since the engine cannot pull from this process: {event.why}",), detail=True)


@lines.register
def _(event: events.ImageBuilt) -> Iterable[Line]:
    made = f"{human_bytes(event.bytes)} in {plural(event.layers, 'layer')}"
    note = "(reproduces the recorded digest)" if event.reproduced else ""
    yield Line("image", (event.lock, f"sha256:{event.config[:12]}…", made, note), elapsed=True)


@lines.register
def _(event: events.RebuildStarted) -> Iterable[Line]:
    yield Line("verify", (event.lock, "rebuilding from nothing"))


@lines.register
def _(event: events.RebuildEqual) -> Iterable[Line]:
    same = f"the same {plural(event.layers, 'layer')}"
    yield Line("verified", (event.lock, f"sha256:{event.config[:12]}…", same), elapsed=True)


@lines.register
def _(event: events.SignatureAccepted) -> Iterable[Line]:
    yield Line("signed", (f"sha256:{event.manifest[:12]}…", f"by {event.by}"), elapsed=True)


@lines.register
def _(event: events.ImagePulled) -> Iterable[Line]:
    if event.bytes is None:
        yield Line("pull", (event.reference, "the engine has it"), elapsed=True)
        return
    columns = event.reference, human_bytes(event.bytes), held(event.held, event.layers)
    yield Line("pull", columns, elapsed=True)


@lines.register
def _(event: events.ImageSigned) -> Iterable[Line]:
    yield Line("sign", (event.reference, event.signer if event.added else "nothing to do"), elapsed=True)


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


@lines.register
def _(event: events.BisectStep) -> Iterable[Line]:
    result = f"as {' and '.join(event.equal_to)}" if event.equal_to else "another result"
    if event.state != "finished":
        result = f"no result: {event.state}"
    elif event.other_exit_code is not None:
        result += f", exit {event.other_exit_code}"
    yield Line("bisect", (f"{event.name:<28}", result, f"{event.seconds:.1f} s"))


@lines.register
def _(event: events.RunEnded) -> Iterable[Line]:
    ended = f"exit {event.exit_code}" if event.state == "finished" else event.state
    yield Line("", (f"run {event.number} of {event.of}: {event.id[:10]}, {ended}",), detail=True)


@lines.register
def _(event: events.JobSubmitted) -> Iterable[Line]:
    yield Line("job", (event.job, f"{plural(event.runs, 'run')}, each a task of its array"))


@lines.register
def _(event: events.RunsEnded) -> Iterable[Line]:
    counted = f"1/{event.asked} … {event.made}/{event.asked}"
    yield Line("run", (counted, f"{event.at_once} side by side" if event.at_once > 1 else ""), elapsed=True)


@lines.register
def _(event: events.MoreRuns) -> Iterable[Line]:
    yield Line("more", (f"{plural(event.count, 'run')}: {event.purpose}",), elapsed=True)


@lines.register
def _(event: events.CostPlanned) -> Iterable[Line]:
    yield Line("", (f"{plural(event.runs, 'run')} in turn, about {event.seconds:.0f} s",), aside=True)


@lines.register
def _(event: events.CostMeasured) -> Iterable[Line]:
    text = f"median of {event.rounds} runs each, in turn; equal runs differ by ± {event.noise:.0%}"
    yield Line("cost", (text,), elapsed=True)


@lines.register
def _(event: events.StoreChecked) -> Iterable[Line]:
    rate = f"{human_bytes(int(event.bytes / event.seconds))}/s"
    made = f"{event.made:,} layers and the like"
    yield Line("verify", (plural(event.files, "file"), made, human_bytes(event.bytes), rate), elapsed=True)


@lines.register
def _(event: events.DamagedEntry) -> Iterable[Line]:
    yield Line("damaged", (f"{event.name}  ({', '.join(event.locks) or 'no known lock'})", "removed"))


@lines.register
def _(event: events.StoreCopied) -> Iterable[Line]:
    rate = f"{human_bytes(event.bytes)}  {event.bytes / 1e6 / max(event.seconds, 1e-3):.0f} MB/s"
    amount = "" if not event.bytes else rate if event.seconds else human_bytes(event.bytes)
    name = f"{event.lock:<18}" if event.seconds else event.lock
    files = f"{plural(event.files, 'file')}, {event.held:,} there already"
    yield Line(event.direction, (name, files, amount), elapsed=True)
