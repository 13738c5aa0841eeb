"""Runs of one day are equal where a result follows the date: ``seed = int(date.today().strftime("%Y%m%d"))``.

Where the sources of equal runs ask for the date and do more than print it, one run more is made on another day, more
than three years ahead: in another season, on the same day of the week, in the other half of the day. It has to give the
same result but for what is masked as a moment of its own. If it does not, two runs have the clock of today fixed in the
same way, and one more that of the other day: the date decides if runs of one day are equal to each other, and not to
those of the other.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.patterns import lazy
from envbuild.core.removal import remove_tree
from envbuild.lockfile.layout import WORKSPACE
from envbuild.operations.verification.laboratory import LONGEST, opened, run_again
from envbuild.operations.verification.left_out import printed_by
from envbuild.operations.verification.session import ignored_lines, ran_of
from envbuild.record import history
from envbuild.record.compare_printed import several_processes
from envbuild.record.printed import KEPT_TEXT, kept
from envbuild.verification.causes.calls import calls
from envbuild.verification.dataflow.targets import last_name, parsed
from envbuild.verification.files import stream_masks
from envbuild.verification.judge import judge
from envbuild.verification.masking import printed
from envbuild.verification.masking.printed import PrintedDigest
from envbuild.verification.measurements.calendar import in_year, path_without_day, without_day
from envbuild.verification.measurements.clockwork import TICK, Setting

if TYPE_CHECKING:
    from envbuild.operations.events import Events
    from envbuild.operations.verification.session import Session
    from envbuild.record.printed import Stream
    from envbuild.runs.repeat import Repeated
    from envbuild.runs.request import RunEngine
    from envbuild.verification.masking.lines import TextDifference
    from envbuild.verification.ran import Ran
    from envbuild.verification.verdict import Verdict

DAYS = 1253
"""By which a clock is ahead: whole weeks, in another year, month, quarter and season."""
_NOON = 12
_CHANGE = lazy(r": (\d{10}(?:\.\d*)?) → (\d{10}(?:\.\d*)?)\)\Z")
"""Two numbers that may be seconds since 1970, at the end of the phrase about a file that differs."""
_TEXT_CHANGE = lazy(r": (.+) → (.+)\)\Z")
"""Two texts there."""
_MEMBER = lazy(r" \(([^\s,:()→]{1,200}\.[A-Za-z]{2,4}), line \d+: ")
"""The member of an archive that is the first to differ."""
_NEAR = 86_400
_FOR_READERS = (".html", ".htm", ".svg", ".png", ".jpg", ".jpeg", ".gif", ".pdf", ".docx", ".pptx")
_HALF_A_DAY = 43_200 * 10**9
_DAY = 86_400 * 10**9
_GRACE = 30
"""Seconds that a run may take beyond three times as long as the longest one."""
_DATES = frozenset((
    "datetime.date.today", "datetime.datetime.now", "datetime.datetime.today", "datetime.datetime.utcnow",
    "pandas.Timestamp.now", "pandas.Timestamp.today", "time.asctime", "time.ctime", "time.gmtime", "time.localtime",
    "time.strftime", "SQL now",
))  # fmt: skip
_OF_FILES = lazy(r"\b(?:getmtime|getctime|st_mtime|st_ctime|st_birthtime|utime)")
"""What asks for times of files, which are today's in each run."""
_JUDGES = frozenset(
    f"http.cookiejar.{name}" for name in ("CookieJar", "FileCookieJar", "LWPCookieJar", "MozillaCookieJar")
)
"""What leaves out what is out of date by itself."""
_SECONDS = frozenset(("time.time", "time.time_ns"))
"""What gives a seed of the day where runs with it as a seed are equal: ``int(time.time() // 86400)``."""
_TEXTS = frozenset(("time.asctime", "time.ctime", "time.strftime"))
"""Of these, what returns a text that somebody reads."""
_WRITTEN = frozenset(("isoformat", "strftime", "ctime", "timestamp"))
"""Methods that make a text of a date, or a number of seconds."""
_UTF = ("utf-8", "surrogateescape")
_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")


@dataclass(frozen=True, kw_only=True)
class OtherDay:
    """What a run of another day showed.

    Attributes:
        verdict: on the runs, and that one behind them.
        run: that one.
        printed: the first line of each stream at which it differs from the first run.
        places: the lines that ask for the date, as in ``Culprit``.
        off: by how much its clock was another one.
    """

    verdict: Verdict
    run: Ran
    printed: tuple[TextDifference, ...]
    places: tuple[str, ...]
    off: str

    @property
    def note(self) -> str:
        """How it is known, a sentence."""
        number = self.verdict.runs
        return f"run {number} had a clock that is {self.off}; two runs of each day were equal to each other"


@dataclass(frozen=True, kw_only=True)
class Dated:
    """What is known of how a result follows the date.

    Attributes:
        other: what another day showed, if it has another result.
        same: a run of another day had the same result.
        quoted: what was another one there though it is no result for certain.
    """

    other: OtherDay | None = None
    same: bool = False
    quoted: tuple[str, ...] = ()


def lines_with_dates(sources: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    """Yield file, line and name of each call that asks for the date and whose value is not merely shown as one.

    Where a source asks for the times of files as well, none: a clock of another day would make all of them old.
    """
    if any(_OF_FILES.search(source) is not None for source in sources.values()):
        return
    for path, source in sources.items():
        shown, computed = _shown_as_dates(source), _computed(source)
        for call in calls(source):
            text = (call.name in _TEXTS or call.line in shown) and call.line not in computed
            merely_shown = text or call.use in ("unused", "waited")
            dated = call.name in _DATES and (call.use in ("seed", "decides") or not merely_shown)
            if dated or call.name in _JUDGES or (call.name in _SECONDS and call.use == "seed"):
                yield path, call.line, call.name


def _shown_as_dates(source: str) -> set[int]:
    """Return the lines that make a text of a date at once: ``datetime.now().isoformat()``, ``f"{datetime.now()}"``."""
    tree = parsed(source)
    found: set[int] = set()
    for node in ast.walk(tree) if tree is not None else ():
        made: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WRITTEN:
            made = [node.func.value]
        elif isinstance(node, ast.Call) and last_name(node.func) in ("print", "str"):
            made = node.args
        elif isinstance(node, ast.FormattedValue):
            made = [node.value]
        found |= {each.lineno for each in made if isinstance(each, ast.Call)}
    return found


def _computed(source: str) -> set[int]:
    """Return the lines that make a number of what a call gives, compare it, or look something up by it."""
    tree = parsed(source)
    found: set[int] = set()
    for node in ast.walk(tree) if tree is not None else ():
        taken: list[ast.expr] = []
        if isinstance(node, ast.Call) and last_name(node.func) in ("int", "float"):
            taken = node.args
        elif isinstance(node, ast.Subscript):
            taken = [node.slice]
        elif isinstance(node, ast.Compare):
            taken = [node.left, *node.comparators]
        found |= {each.lineno for part in taken for each in ast.walk(part) if isinstance(each, ast.Call)}
    return found


def on_another_day(session: Session, sources: Mapping[str, str], engine: RunEngine, events: Events) -> Dated:
    """Find out whether equal runs depend on the date."""
    lines = list(lines_with_dates(sources))
    longest = max(run.record.duration or 0.0 for run in session.runs)
    first = session.runs[0]
    texts = {stream: kept(session.plan.request.project, first.record.id, stream) or b"" for stream in _STREAMS}
    if not lines:
        return Dated()
    if longest > LONGEST or max(map(len, texts.values())) >= KEPT_TEXT:
        return _unknown(lines)
    clocks, off = _clocks(int(time.time()))
    limit = int(3 * longest) + _GRACE

    def made(which: int, again: str = "") -> _Made | None:
        purpose = (f"the clock {off}" if which else "the clock fixed") + again
        found = _run(session, clocks[which], limit, purpose, engine, events, texts)
        ids.extend([found.ran.record.id] if found is not None else [])
        return found

    ids: list[str] = []
    try:
        found = _of_another_day(session, made, texts, clocks, off, lines)
        if found.other is not None:
            ids.remove(found.other.run.record.id)
        return found
    finally:
        for each in ids:  # they are no runs of the program as it is
            remove_tree(history.run_folder(session.plan.request.project, each))


def _unknown(lines: Sequence[tuple[str, int, str]]) -> Dated:
    """Return that nothing is known of another day."""
    path, line, name = lines[0]
    return Dated(quoted=(f"{name}() in {path}:{line} asks for the date, and no other one was tried with success",))


def _of_another_day(
    session: Session,
    made: Callable[..., _Made | None],
    texts: Mapping[Stream, bytes],
    clocks: tuple[Setting, Setting],
    off: str,
    lines: Sequence[tuple[str, int, str]],
) -> Dated:
    """Compare runs with clocks; ``made`` makes one with the first clock or the other, ``lines`` ask for dates."""
    first = session.runs[0]
    other = made(1)
    plain = _without_day(session, first, texts, datetime.fromisoformat(first.record.start.replace("Z", "+00:00")))
    if other is not None and _equal(session, plain, other.ran):
        return Dated(same=True)
    one = made(0)
    if other is None:
        return Dated(quoted=(f"the program fails with a clock that is {off}",)) if one is not None else _unknown(lines)
    if one is None:
        return _unknown(lines)
    if _equal(session, one.ran, other.ran):
        return Dated(same=True)
    for which, before in ((0, one), (1, other)):
        more = made(which, ", again")
        if more is None or not _equal(session, before.ran, more.ran):
            return _unknown(lines)
    pair = [plain, other.ran]  # of today's runs one: what several runs have in common counts as data
    verdict = judge(pair, 2, session.ignore, session.given_to(pair))
    if verdict.outcome != "different":
        return _unknown(lines)
    shown = _merely_shown(verdict, clocks)
    if shown:
        return Dated(quoted=tuple(f"{each}, with a clock that is {off}" for each in shown))
    printed_lines = tuple(_printed(session, other))
    places = tuple(f"{WORKSPACE}/{path}:{line}" for path, line, _ in lines)
    verdict = _of_all(verdict, len(session.runs))
    return Dated(other=OtherDay(verdict=verdict, run=other.ran, printed=printed_lines, places=places, off=off))


def _of_all(verdict: Verdict, count: int) -> Verdict:
    """Return a verdict on one of today's runs and one of another day as one on all ``count`` of today and that one."""
    codes, states = verdict.exit_codes, verdict.states
    return msgspec.structs.replace(
        verdict,
        runs=count + 1,
        asked=count + 1,
        groups=(tuple(range(count)), (count,)),
        exit_codes=(*codes[:1] * count, *codes[1:]),
        states=(*states[:1] * count, *states[1:]),
    )


def _clocks(now: int) -> tuple[tuple[Setting, Setting], str]:
    """Return a clock of now and one of another day, in seconds since 1970, and a phrase of how far it is off.

    The other one is in the other half of its day, so that it has the same day of the week.
    """
    today = datetime.fromtimestamp(now, timezone.utc)
    later = _HALF_A_DAY if today.hour < _NOON else -_HALF_A_DAY
    start = now * 10**9 + TICK // 2
    return (Setting(start, TICK), Setting(start + DAYS * _DAY + later, TICK)), f"{DAYS} days ahead"


def _without(text: str, clock: Setting) -> str:
    return without_day(text, datetime.fromtimestamp(clock.start / 1e9, timezone.utc))


def _of_each(names: Sequence[str], phrases: Sequence[str]) -> Sequence[str]:
    """Return the phrase about each file, of one about several; nothing if it does not name all in their order."""
    if len(names) == len(phrases) or len(phrases) != 1:
        return phrases
    begins, at = list[int](), 0
    for name in names:
        at = phrases[0].find(f", {name} (" if at else f"{name} (", at)
        if at < 0:
            return ()
        begins.append(at)
        at += 1
    return [phrases[0][begin:end].strip(", ") for begin, end in zip(begins, [*begins[1:], None], strict=True)]


def _merely_shown(verdict: Verdict, clocks: Sequence[Setting]) -> list[str]:
    """Return the files that differ, if these are all that differs and each is for readers or shows a moment.

    Pages and pictures may show the day in any form; of other files, what differs first has to be a moment of its run.
    """
    if any(channel.differs and channel.kind not in ("files", "outside") for channel in verdict.channels):
        return []
    found: list[str] = []
    for channel in verdict.channels:
        phrases = _of_each(channel.names, channel.differs)
        if len(channel.names) != len(phrases):
            return []
        for name, phrase in zip(channel.names, phrases, strict=True):
            change, texts = _CHANGE.search(phrase), _TEXT_CHANGE.search(phrase)
            dates = texts is not None and _without(texts[1], clocks[0]) == _without(texts[2], clocks[1])
            moments = change is not None and all(
                abs(float(text) - clock.start / 1e9) < _NEAR
                for text, clock in zip(change.groups(), clocks, strict=True)
            )
            member = _MEMBER.search(phrase)
            for_readers = (member[1] if member is not None else name).lower().endswith(_FOR_READERS)
            if not (moments or dates or for_readers):
                return []
            found.append(phrase)
    return found


@dataclass(frozen=True)
class _Made:
    """A run with a fixed clock, and what it printed."""

    ran: Ran
    texts: Mapping[Stream, bytes]


def _run(
    session: Session,
    clock: Setting,
    limit: int,
    purpose: str,
    engine: RunEngine,
    events: Events,
    like: Mapping[Stream, bytes],
) -> _Made | None:
    """Run once with a clock of its own; its record says that it was then. None if it does not end well.

    ``like``: what today's first run printed: where a line there has that one's year, it is put in the place of the
    other one.
    """
    project = session.plan.request.project
    today = datetime.fromisoformat(session.runs[0].record.start.replace("Z", "+00:00"))
    runs: list[_Made] = []

    def look(found: Repeated) -> None:
        day = datetime.fromtimestamp(clock.start / 1e9, timezone.utc)
        start = day.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        moved = replace(found, record=msgspec.structs.replace(found.record, start=start))
        said = printed_by(found)
        texts: dict[Stream, bytes] = {stream: said[stream] for stream in _STREAMS}
        ran = opened(moved, ran_of(moved, project))
        runs.append(_Made(_without_day(session, ran, texts, day, like, today), texts))

    run_again(session, 1, {"ENVBUILD_FIX": f"{clock.fixes}@{limit}"}, engine, events, purpose, look, trace=True)
    return runs[0] if runs and runs[0].ran.ended_well else None


def _without_day(
    session: Session,
    ran: Ran,
    texts: Mapping[Stream, bytes],
    day: datetime,
    like: Mapping[Stream, bytes] | None = None,
    today: datetime | None = None,
) -> Ran:
    """Return a run whose lines, and names of files, are compared without what says which day it is.

    ``like``: lines of a run of ``today``, whose year is put in the place of that of ``day``.
    """
    digests = {}
    paths = (each.path for each in (*ran.record.outputs, *ran.record.outside))
    names = {PurePosixPath(path).name: PurePosixPath(path_without_day(path, day)).name for path in paths}
    for stream in _STREAMS:
        text = without_day(texts[stream].decode(*_UTF), day)
        if like is not None and today is not None:
            theirs = without_day(like[stream].decode(*_UTF), today).encode(*_UTF)
            text = in_year(text.encode(*_UTF), day.year, theirs, today.year).decode(*_UTF)
        for name, other in names.items():
            text = text.replace(name, other)
        digest = PrintedDigest(stream_masks(ran.record, ignored_lines(session.ignore, stream)))
        digest.feed(text.encode("utf-8", "surrogateescape"))
        digests[stream] = digest.result()
    outputs, outside = (
        tuple(msgspec.structs.replace(each, path=path_without_day(each.path, day)) for each in found)
        for found in (ran.record.outputs, ran.record.outside)
    )
    return replace(
        ran,
        record=msgspec.structs.replace(ran.record, outputs=outputs, outside=outside),
        contents={path_without_day(path, day): content for path, content in ran.contents.items()},
        stdout=digests["stdout"],
        stderr=digests["stderr"],
    )


def _equal(session: Session, *runs: Ran) -> bool:
    return judge(runs, len(runs), session.ignore, session.given_to(runs)).outcome == "identical"


def _printed(session: Session, other: _Made) -> Iterator[TextDifference]:
    """Yield the first line of each stream at which a run differs from the first one."""
    first = session.runs[0]
    for stream in _STREAMS:
        ignored = ignored_lines(session.ignore, stream)
        masks = stream_masks(first.record, ignored, first.clocks.get(stream)), stream_masks(other.ran.record, ignored)
        before = kept(session.plan.request.project, first.record.id, stream) or b""
        ordered = not several_processes(first.record, other.ran.record)
        found = printed.first_difference(stream, before, other.texts[stream], masks, ordered=ordered)
        if found is not None:
            yield found
