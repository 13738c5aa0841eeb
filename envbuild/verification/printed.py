"""What a program prints, made comparable between runs: what differs in every run is masked, all else counts.

Masked are measurements (times, rates, memory), addresses, and names that are made for the moment. A date or a number of
seconds counts as a time only if it is about when the run was, so that dates in data and large numbers are results. What
is masked leaves a mark of its kind. A terminal is followed as far as programs use it that draw progress: carriage
return, cursor up, colours; a line is what it shows at last.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime, timezone
from fnmatch import translate
from functools import cache, lru_cache, partial
from itertools import chain, zip_longest

import msgspec

from envbuild.core.patterns import lazy
from envbuild.lockfile.layout import HOST_NAME, VARIED_HOST
from envbuild.record.measurements import (
    NUMBERED,
    assigns_result,
    assigns_unknown,
    is_result,
    kind_of,
    name_leaves_doubt,
)
from envbuild.record.printed import IGNORED, Printed
from envbuild.record.shared_names import SharedNames, shortened
from envbuild.verification.lines import TextDifference
from envbuild.verification.log_blocks import LogBlocks, MemoryTable, Samples
from envbuild.verification.tables import Shown, Tables

_NUMBER = r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?"
_FREE = r"(?<![\w.])(?<!\d,)"
"""Before a number: it is not the rest of another one, nor of a long list of numbers."""
_BEFORE = 26 * 3600.0
"""Seconds before the start of a run that still count as its time: other time zones, files of just before."""
_AFTER = 30 * 86400.0
_ERA = 1e8
"""Seconds: three years, in which nearly all runs that are compared were."""
_NEAR, _QUARTER = 3.0, 900
"""Seconds by which a time of day may be outside of a run, and between time zones at the least."""
_ROUNDED = 2.0
"""Seconds by which a moment of a run may be outside of what its record has."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WORK = (
    r"(?:its?|iters?|iterations?|steps?|samples?|examples?|imgs?|images?|tok|tokens?|batch(?:es)?|epochs?|frames?|rows?"
    r"|records?|items?|seqs?|sequences?|requests?|files?|lines?|[kmgt]?i?b|bytes|trials?|folds?|episodes?|candidates?"
    r"|documents?|docs?|queries|calls?|jobs?|tasks?|chunks?|updates?|transitions?|evals?|evaluations?"
    r"|rollouts?|simulations?|sentences?|sents?|graphs?)"
)
"""What is counted in rates; other units, such as metres, belong to results."""
_COUNTED = (
    r"(?:epochs?|iters?|iterations?|steps?|rounds?|generations?|trials?|episodes?|folds?|batch(?:es)?|samples?|moves?|games?"
    r"|tries|attempts?|evaluations?|calls?|queries|updates?|frames?|tokens?|times|of|out)\b"
)
"""Behind a number: it counts something, as in ``took 37 epochs``, and is no time."""
_OF_RATE = (
    r"(?:sps|fps|wps|mfu|speed-?up|throughput|(?:samples|steps|tokens|it)_per_sec(?:ond)?"
    r"|(?:its?|steps?|samples?|examples?|images?|tokens?|frames?|batches)/s(?:ec)?)"
)
_OF_TIME = (
    r"(?:time(?: taken(?: to find the best model)?)?"
    r"|elapsed|took|duration|runtime|seconds|secs?|latency|wall_?clock|train_wall)(?:_(?:s|sec|ms))?"
)
"""Without ``eta``, which is a learning rate as often, unless its number has a unit."""
_GAP = r"""(?:['"]?\s*[:=|]\s*['"]?|\s+)"""
"""Between a name and its number: in sentences, in dictionaries as Python and JSON write them, in tables."""
_OF_CLOCK = r"(?:eta|elapsed|time|remaining|left|took|in|at)"
_DRAWN = 1000
"""Names of files that are looked for in texts."""
_SHORT_NAME, _HEX = 8, lazy(r"[0-9a-f]+")
_REST = 8
"""Characters of a row behind a shorter one that was written over it, from which they count."""
_ROWS = 64
"""Rows up to which a cursor can be moved back."""
BOUND_LINES, BOUND_BYTES = 20_000, 256 << 20
"""What of a stream is masked in a run by itself: 1 to 2 s of a processor if all lines hold times."""
PROFILE_OF_SAMPLES = "profiles of samples"
"""Kind of the lines in which a sampling profiler prints what it saw."""
BY_CLOCK = "log messages by the clock"
"""Kind of a line that is left out because a library prints it, or not, depending on the time or on free memory."""
SLOWEST = "tests by how long they took"
_LEFT_OUT = frozenset((IGNORED, BY_CLOCK, SLOWEST, PROFILE_OF_SAMPLES))
_NAME = 24
"""Characters before a number in which it may be named as a result."""
_CLAUSE = 80
"""The same, if it is named with more words."""
_NAMED_BEHIND = lazy(r"(?:⟨time⟩|\d\s?(?:[nuµm]?s|secs?|seconds?))\s(?:[a-z_-]+\s){0,2}[a-z_-]+,\s?\Z", re.IGNORECASE)
"""Before a time in a list of times with their names behind them: ``0.1ms loss, 0.4ms postprocess``."""
_HOSTS = lazy(rf"(?<![A-Za-z0-9-]){VARIED_HOST}\d{{{len(HOST_NAME) - len(VARIED_HOST)}}}(?![\w-])")
_DIGITS = 64
SHA256 = lazy(r"(?<![0-9a-z])[0-9a-f]{64}(?![0-9a-z])")
_MEASURED = ("times", "rates", "memory")
PROFILE = "⟨profile⟩"
"""What a line of a profiler's table is as a whole."""
_GUESSED = "guessed"
_OF_RUN = "of the run"
"""That a line was masked, or not, by when its run was or which processes it had: in another run it may be otherwise."""
_OF_SO_MANY = lazy(r"\s?/\s?\d+(?![\d.])")
_ALIGNED = 4
LONGEST_LINE = 1 << 16
"""Characters of a line; a longer one is cut, and nothing in it is masked."""


class Masked(msgspec.Struct, frozen=True):
    """A line whose volatile parts are replaced by marks, and the kinds of those.

    Attributes:
        guessed: a number has nothing but its unit to show that it is a measurement, and a name that may be a result's.
        names: what was masked as a drawn name, in its order.
        column: a number is in a column of a table whose name data have as well.
    """

    text: str
    kinds: frozenset[str]
    guessed: bool = False
    names: tuple[str, ...] = ()
    column: bool = False

    @property
    def left_out(self) -> bool:
        """The line is not compared, nor counted."""
        return not self.kinds.isdisjoint(_LEFT_OUT)

    def of(self, line: str) -> Masked:
        """Return it with the line as its text if it has none: nothing in that was masked."""
        return self if self.text else msgspec.structs.replace(self, text=line)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A line as it is shown at last; ``number`` from 1, ``blanks``: what was at its end."""

    number: int
    text: str
    masked: Masked
    blanks: str = ""


def moment_of(number: float) -> float:
    """Return a number of seconds, milliseconds, microseconds or nanoseconds since 1970 as seconds."""
    for scale in (1e9, 1e6, 1e3):
        if abs(number) >= 1e9 * scale:
            return number / scale
    return number


def common_host(text: str) -> str:
    """Put the first run's host name in the place of those that the others were given (``runs.repeat``)."""
    return _HOSTS.sub(HOST_NAME, text) if VARIED_HOST in text else text


class Masks:
    """Knows what to mask in the output of one run.

    Args:
        start: when the run began, seconds since 1970.
        ignored: patterns of lines that are not compared, as ``fnmatch`` has them; one without ``*`` may be anywhere.
        drawn: names that the run has drawn for its files and folders.
        moments: dates and seconds since 1970 of about when the run was are masked; a fixed clock's look like those of
            another clock's readings.
        days: times of day are masked too.
    """

    def __init__(
        self,
        start: float,
        ignored: Sequence[str] = (),
        drawn: Collection[str] = (),
        *,
        moments: bool = True,
        days: bool = True,
    ) -> None:
        self._files: Callable[[], Mapping[str, str]] | None = None
        self._own: Callable[[], Mapping[bytes, bytes]] | None = None
        self._processes = range(0)
        self.on_several_hosts = False
        self._left_alone = frozenset() if days else _OF_DAY
        self._drawn = _any_of(drawn)
        patterns = (each if "*" in each else f"*{each}*" for each in ignored)
        self._ignored = [re.compile(translate(each)) for each in patterns]
        self._window = (start - _BEFORE, start + _AFTER) if moments else (1.0, 0.0)
        self._start, self._end = start, start
        self._era = int(start // _ERA)
        self._strict = False

    def with_files(
        self,
        drawn: Collection[str],
        digests: Callable[[], Mapping[str, str]],
        duration: float = 0.0,
        processes: range = range(0),
        *,
        on_several_hosts: bool = False,
        strict: bool = False,
        own: Callable[[], Mapping[bytes, bytes]] | None = None,
    ) -> Masks:
        """Return the same for a run that has ended.

        Args:
            drawn: names that the run has drawn for its files.
            digests: returns their names by SHA-256, when a line has one. Files are compared themselves: that another
                one's bytes have another digest is no difference of its own.
            duration: of the run, in seconds.
            processes: those that its processes may have as numbers; none if they are not known.
            on_several_hosts: it is one of several ranks, and the next run may have other hosts.
            strict: times of day are masked only if they may be of the run, or how long something in it took, dates only
                if they are not days after it. In experiments clocks may show anything.
            own: returns the names of files and folders of the run that were drawn or hold its time, each with the one
                under which it is compared.
        """
        other = copy(self)
        other._strict, other._own = strict, own
        other.on_several_hosts = on_several_hosts
        other._processes = processes
        other._drawn, other._files, other._end = _any_of(drawn), digests, self._start + duration
        if strict:
            other._window = (self._window[0], min(self._window[1], other._end + _BEFORE))
        return other

    def own_names(self) -> Mapping[bytes, bytes]:
        """Return the names of files and folders that are other ones in each run, each with that for all runs."""
        return self._own() if self._own is not None else {}

    def without_names(self, path: str) -> str:
        """Put a mark in the place of what the run drew in the names of a path's folders and files."""
        return path if self._drawn is None else self._drawn.sub("⟨name⟩", path)

    @property
    def draws(self) -> bool:
        """Whether the run drew names for its files."""
        return self._drawn is not None

    @property
    def took(self) -> float:
        """How long the run took, in seconds; 0 if that is not known."""
        return self._end - self._start

    def may_be_process(self, number: float) -> bool:
        """Whether a number may be that of a process of the run: a patient's ``pid`` is none."""
        return not self._processes or number in self._processes

    def is_moment(self, seconds: float) -> bool:
        """Whether a number of seconds since 1970 is about when the run was."""
        return self._window[0] <= seconds <= self._window[1]

    def _may_be_of_another(self, seconds: float) -> bool:
        """Whether a number of seconds since 1970 may be about when a run of the same era was."""
        return self._era * _ERA - _BEFORE <= seconds <= (self._era + 1) * _ERA + _AFTER

    def is_of_day(self, seconds: float) -> bool:
        """Whether a time of day, in seconds since midnight, may be one of the run in any time zone, or a part of it."""
        passed = (seconds - self._start + _NEAR) % _QUARTER
        return not self._strict or passed <= self.took + 2 * _NEAR or seconds <= self.took + _NEAR

    def may_have_been(self, seconds: float, off: float) -> bool:
        """Whether the run had a time of day, in any time zone; ``off``: seconds by which it may be rounded down."""
        return (seconds + off - self._start + _NEAR) % _QUARTER <= self.took + 2 * _NEAR + off

    def is_during_day(self, seconds: float) -> bool:
        """Whether a time of day is one of a run that was so short that no result happens to be one."""
        took = self._end - self._start + 2 * _NEAR
        return self._strict and took <= _QUARTER / 10 and (seconds - self._start + _NEAR) % _QUARTER <= took

    def is_during(self, seconds: float) -> bool:
        """Whether it is a moment of the run itself, as far as its end is known: no result happens to be one."""
        return self._start - _ROUNDED <= seconds <= self._end + _ROUNDED

    def mask(self, line: str) -> Masked:
        """Replace what differs in every run."""
        line = common_host(line)
        kinds: set[str] = set()
        names: list[str] = []
        if self._drawn is not None and self._drawn.search(line) is not None:
            names += self._drawn.findall(line)
            line = self._drawn.sub("⟨name⟩", line)
            kinds.add("names")
        if self._files is not None and len(line) >= _DIGITS and (named := SHA256.sub(self._named, line)) != line:
            line = named
            kinds.add("names")
        if any(pattern.match(line) for pattern in self._ignored):
            return Masked("⟨ignored⟩", frozenset([IGNORED]))
        if _LOGGED_BY_CLOCK.match(line) is not None:
            return Masked("⟨log⟩", frozenset([BY_CLOCK]))
        if (
            _BINARY.search(line) is not None
            or len(line) >= LONGEST_LINE
            or _DIGIT.search(line) is None
            or _MAYBE.search(line) is None
        ):
            return Masked(line, frozenset(kinds), names=tuple(names))
        if len(line) <= _SHAPE or kinds:
            return self._masked(line, kinds, names)
        digest = hashlib.blake2b(line.encode("utf-8", "surrogatepass"))
        key = digest.digest(), not self._left_alone, self._era
        found = _long_lines.get(key)
        if found is None:
            found = self._masked(line, kinds, names)
            if _OF_RUN not in kinds:
                _long_lines.note(key, found, line)
        return found.of(line)

    def _masked(self, line: str, kinds: set[str], names: list[str]) -> Masked:
        """Apply the table to a line that may have something to mask."""
        line = self._apply(_without_row(line, kinds), kinds, names)
        found = frozenset(kinds - {_GUESSED, _OF_RUN})
        # In tables what is next to a number is as wide as the number leaves it.
        return Masked(_squeezed(line) if found else line, found, _GUESSED in kinds, tuple(names))

    def _named(self, found: re.Match[str]) -> str:
        name = self._files().get(found[0]) if self._files is not None else None
        return found[0] if name is None else f"⟨digest of {name}⟩"

    def _apply(self, line: str, kinds: set[str], names: list[str]) -> str:
        """Apply the table rule by rule, those that cannot match left out."""
        if len(line) > _SHAPE:
            return self._apply_to_long(line, kinds, names)
        done, left = -1, _may_match(line)
        while left:
            for number in left:
                if number > done and number not in self._left_alone and _TABLE[number].is_in(line):
                    done = number
                    before, line = (
                        line,
                        _TABLE[number].pattern.sub(partial(self._replace, _TABLE[number], kinds, names), line),
                    )
                    if line != before:
                        left = _may_match(line)
                        break
            else:
                break
        return line

    def _apply_to_long(self, line: str, kinds: set[str], names: list[str]) -> str:
        """Apply each rule once: the shape of a long line is not known, and to search it costs as much as the line."""
        lower = line.translate(_ZEROS).lower()
        for number, rule in enumerate(_TABLE):
            if number in self._left_alone or not rule.may_be_in(lower) or not rule.is_in(line):
                continue
            before, line = line, rule.pattern.sub(partial(self._replace, rule, kinds, names), line)
            if line != before:
                lower = line.translate(_ZEROS).lower()
        return line

    def _replace(self, rule: _Rule, kinds: set[str], names: list[str], found: re.Match[str]) -> str:
        if rule.moment is not None:
            moment = rule.moment(found)
            if moment is not None and self._may_be_of_another(moment):
                kinds.add(_OF_RUN)
            if moment is None or not self.is_moment(moment):
                return found[0]
        keep = found["keep"] if rule.keeps else ""
        said = _said(keep or "", found.string, found.start())
        if rule.kind in _MEASURED and (rule.moment is None or rule.moment is _epoch) and said.result:
            return found[0]  # a loss of 0.5 s is a loss, and a seed of so many seconds since 1970 a seed
        if said.counts or _is_row(found):
            return found[0]
        if rule.mark == "address" and _is_no_address(found[0]):
            return found[0]
        if rule.text == _TIME_OF_DAY or rule.mark == "pid":
            kinds.add(_OF_RUN)
        if self._strict and rule.text == _TIME_OF_DAY and not self._may_be_of_day(found):
            return found[0]
        if rule.mark == "pid" and not self.may_be_process(int(found[0][len(keep or "") :])):
            return found[0]
        kinds.add(rule.kind)
        name = found[0][len(keep or "") :]
        if rule.mark == "slug" or (rule.mark == "drawn" and name.isdecimal()):
            kinds.add(_GUESSED)  # two words, or a number: a program may have given them as well
        if rule.mark == "name":
            names.append(name)
        part = rule.kind in ("times", "rates") and _is_part(found, keep or "")
        if part or (rule.kind in _MEASURED and rule.moment is None and said.unknown and not rule.sure):
            kinds.add(_GUESSED)
        return f"{keep or ''}⟨{rule.mark}⟩"

    def _may_be_of_day(self, found: re.Match[str]) -> bool:
        """Whether a time of day is of the run, or one that is estimated."""
        hours, minutes, seconds = (float(part.replace(",", ".")) for part in _HMS.findall(found[0])[:3])
        around = found.string[max(0, found.start() - _NAME) : found.end() + _NAME]
        return self.is_of_day(hours * 3600 + minutes * 60 + seconds) or _ESTIMATED.search(around) is not None


def _squeezed(line: str) -> str:
    plotted = _PLOTTED.search(line)
    end = plotted.start() if plotted is not None else len(line)
    return _SPACES.sub(" ", line[:end]) + line[end:]


def _without_row(line: str, kinds: set[str]) -> str:
    """Mask the numbers of a table's row that begins with the name of a measurement: mean and deviation of times."""
    found = _ROW.fullmatch(line) or _CURVE.fullmatch(line)
    if found is None or (kind := kind_of(found["name"])) not in ("time", "rate", "memory"):
        return line
    if name_leaves_doubt(found["name"], queues=False):
        return line
    if name_leaves_doubt(found["name"]):
        kinds.add(_GUESSED)
    kinds.add(kind if kind == "memory" else f"{kind}s")
    return " ".join((line[: found.end("name")].strip(), *(f"⟨{kind}⟩" for _ in found["rest"].split())))


def _any_of(drawn: Collection[str]) -> re.Pattern[str] | None:
    names = sorted(drawn, key=lambda name: (-len(name), name))[:_DRAWN]  # a whole UUID before its parts
    return re.compile("|".join(map(_whole, names))) if names else None


def _whole(name: str) -> str:
    """Return the pattern of a name; a short one is no part of another word or number."""
    text = re.escape(name)
    return rf"(?<![0-9A-Za-z.]){text}(?![0-9A-Za-z])" if len(name) == _SHORT_NAME and not _HEX.fullmatch(name) else text


def _is_row(found: re.Match[str]) -> bool:
    """Whether a number with separators between thousands may as well be two columns, such as ``17,250ms``."""
    before = found.string[found.start() - 1 : found.start()]
    return "," in found[0] and " " not in found[0] and before in ("", ",", ";", "\t")


def _is_part(found: re.Match[str], keep: str) -> bool:
    """Whether a whole number behind a name is one of so many, such as ``fps 24/30``: that may be a result."""
    return bool(keep) and found[0][len(keep) :].isdigit() and _OF_SO_MANY.match(found.string, found.end()) is not None


def _is_no_address(text: str) -> bool:
    """Whether a decimal number is none: objects are at multiples of 8, numbers in arrays of 4."""
    return text.isdigit() and int(text) % _ALIGNED != 0


class _Said(msgspec.Struct, frozen=True):
    """What the text in front of a number says of it.

    Attributes:
        result: it is one, whatever it looks like.
        counts: it counts something: ``steps_elapsed: 12``.
        unknown: it is given to something with a name that may be a result's.
    """

    result: bool
    counts: bool
    unknown: bool


def _said(keep: str, line: str, start: int) -> _Said:
    """Judge the text in front of a number; ``keep`` is the name by which it looks like a measurement."""
    text = line[max(0, start - _CLAUSE) : start]
    # Digits end a name, whatever they are, but for `f1` and `r2`: programs print few texts but for these.
    return _judged(keep, text if _WITH_DIGIT.search(text) is not None else text.translate(_ZEROS))


@lru_cache(maxsize=4096)
def _judged(keep: str, text: str) -> _Said:
    before = (text + keep)[-_CLAUSE:]
    if keep.startswith("("):
        before = f"{before.removesuffix(keep).rstrip()}: "
    return _Said(
        result=_names_result(keep, text),
        counts=_ELAPSED.search(text[-_NAME:] + keep) is not None,
        unknown=assigns_unknown(before),
    )


def _names_result(name: str, text: str) -> bool:
    if name.startswith("("):  # of a unit: "error on the test set (ms): "
        return is_result("", text[-_NAME:]) or assigns_result(f"{text.rstrip()}: ")
    if not name and _NAMED_BEHIND.search(text) is not None:
        return False
    return is_result(name, _behind_digits(text[-_NAME:])) or (not name and assigns_result(text))


def _behind_digits(text: str) -> str:
    """Return what a name may be in: numbers end it, but for ``f1`` and ``r2``."""
    for at in range(len(text) - 1, -1, -1):
        if text[at].isdigit():
            return text[max(0, at - 2) if text[at - 1 : at + 1].lower() in ("f1", "r2") else at + 1 :]
    return text


Moment = Callable[["re.Match[str]"], "float | None"]
"""Returns the moment that a text names, in seconds since 1970; None if it is none."""


def _date(found: re.Match[str]) -> float | None:
    """Return the noon of a date; without a year it is this year's."""
    parts = found.groupdict()
    year = parts["year"] if "year" in parts else datetime.now(timezone.utc).year
    month = parts["month"].lower()
    try:
        number = _MONTHS.index(month[:3]) + 1 if month[:1].isalpha() else int(month)
        return datetime(int(year), number, int(parts["day"]), 12, tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def _epoch(found: re.Match[str]) -> float | None:
    """Return the moment of a number of seconds, milliseconds, microseconds or nanoseconds since 1970."""
    whole = found["whole"]
    return float(int(whole) / 10.0 ** (len(whole) - 10))


class _Rule(msgspec.Struct, frozen=True):
    """One kind of text to mask.

    Attributes:
        kind: what it is counted as; ``mark``: what is put in its place.
        text: the pattern of what is replaced, but for its group ``keep``.
        gate: texts of which a line must have one, in lower case and whatever its digits, to be worth a search; none for
            any line.
        digits: the same with their digits, if these tell more.
        moment: reads the moment that the text names, which has to be about when the run was.
    """

    kind: str
    mark: str
    text: str
    gate: tuple[str, ...]
    moment: Moment | None
    digits: tuple[str, ...] = ()
    sure: bool = False

    @property
    def keeps(self) -> bool:
        """Whether the pattern has a group ``keep``."""
        return "(?P<keep>" in self.text

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern; most programs print what few rules need."""
        return _compiled(self.text)

    def is_in(self, line: str) -> bool:
        """Whether a line has one of the texts with digits that it must have, if all have some."""
        return not self.digits or any(part in line for part in self.digits)

    def may_be_in(self, lower: str) -> bool:
        """Whether a line has one of the texts that it must have; ``lower`` is its shape in lower case."""
        return not self.gate or any(part.translate(_ZEROS) in lower for part in self.gate)

    def may_match(self, shape: str, lower: str) -> bool:
        """Whether any line of a shape may match; ``lower`` is the shape in lower case."""
        if not self.may_be_in(lower):
            return False
        # With zeros for digits nothing is known of a pattern that takes one digit for another thing than the others.
        return _NAMED_DIGIT.search(_COUNTS.sub("", self.text)) is not None or self.pattern.search(shape) is not None


@cache
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def _rule(kind: str, mark: str, gate: str, pattern: str, moment: Moment | None = None, *, sure: bool = False) -> _Rule:
    """Make a rule; ``gate`` has its texts with spaces between; ``~`` is a space in one of them."""
    parts = tuple(part.replace("~", " ") for part in gate.split())
    told = all(_NAMED_DIGIT.search(part) is not None for part in parts)
    return _Rule(kind, mark, pattern, parts, moment, parts if told else (), sure)


_NAMED_DIGIT = lazy(r"[1-9]")
_WITH_DIGIT = lazy(r"f1|r2", re.IGNORECASE)
"""Names of results that hold a digit (``record.measurements``)."""
_LOGGED_BY_CLOCK = lazy(
    r"(?:[IWE]\d{4} \d\d:\d\d:\d[\d.]+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] [\w./]+/)"
    r"(?:node_def_util\.cc:\d+\] NodeDef mentions attribute "  # at most one in 5 s, whichever node comes then
    r"|shuffle_dataset_op\.cc:\d+\] (?:Filling up shuffle buffer|Shuffle buffer filled)"  # every 10 s
    r"|cpu_allocator_impl\.cc:\d+\] Allocation of \d+ exceeds \d+% of free system memory)"
    r"|(?:.*\bfont_manager\b.*)?Matplotlib is building the font cache; this may take a moment\.\s*$"  # a timer, of 5 s
    r"|\[[IW](?:\d{4} \d\d:\d\d:\d\d\.\d+)? socket\.cpp:\d+\] \[c10d\] "
    r"(?:The hostname of the client socket cannot be retrieved\. err=-?\d+"  # once, but two threads may both find it so
    r"|The server socket on \S+ has timed out, will retry\.|No socket on \(\S+, \d+\) is listening yet, will retry\."
    r"|waitForInput: poll for socket SocketImpl\([\w\[\]:.=?, -]+\) returned 0, likely a timeout)\s*$"
    # Of two threads, the second if it takes a while.
    r"|COMET INFO: (?:Couldn't find a Git repository in '[^']*' nor in any parent directory\. Set `COMET_GIT_DIRECTORY`"
    r" if your Git Repository is elsewhere\.|The process of logging environment details \(conda environment, git"
    r" patch\) is underway\. Please be patient as this may take some time\.)\s*$"
    # Ray Tune: of checkpoints within so many seconds, and of what took longer than it should.
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\tWARNING (?:experiment_state\.py:\d+ -- (?:Experiment state snapshotting has"
    r" been triggered multiple times in the last |Saving the experiment state \(which holds a global view of trial )"
    r"|util\.py:\d+ -- The `\w+` operation took \d+\.\d{3} s, which may be a performance bottleneck\.\s*$)"
    r"|\[LightGBM\] \[Warning\] Connecting to rank \d+ failed, waiting for \d+ milliseconds\s*$"
    r"|You may want to consider increasing the `CheckpointConfig\(num_to_keep\)` or decreasing the frequency of saving"
    r" checkpoints\.\s*$|You can suppress this warning by setting the environment variable TUNE_WARN_\w+ to a \w+ value"
)
"""TensorFlow's messages by LOG_EVERY_N_SEC (core/framework/node_def_util.cc, core/kernels/data), and by free memory;
PyTorch's about ranks that wait for each other (torch/csrc/distributed/c10d/socket.cpp), whole lines alone; Comet's
(comet_ml/logging_messages.py) too."""
_LOGGED = r",(?P<ms>\d{3})(?:[.,](?P=ms))?(?:\d{3})?(?=[]\s)}>'\"|:;-]|,\s?[a-z\"'\[<])(?!\s*$)"
"""The fraction of a second as ``logging`` writes it, also twice. At the end of a line, or before another number, what
is behind a comma is a column: a result."""
_CLOCK = rf"\d{{1,2}}:\d\d:\d\d(?:[.:]\d+|{_LOGGED})?(?:\s?(?:am|pm))?(?:Z|\s?[+-](?:0\d|1[0-4]):?(?:00|15|30|45)\b)?"
_OF_PROFILE = r"(?:_\d{3}(?=\.json(?!\w)))?"
"""Milliseconds in the names of ONNX Runtime's profiles."""
_TIME_OF_DAY = rf"(?<![\d:]){_CLOCK}(?![\d:])"
_TABLE = (
    # The prefix of glog: level, date, time, thread.
    _rule("names", "log", "", r"(?<![a-z0-9])(?P<keep>[IWEF])\d{4} \d\d:\d\d:\d[\d.]+(?:\s+\d+(?= ))?"),
    # Names made for the moment.
    _rule(
        "names",
        "name",
        "-",
        r"(?<![0-9a-z])[0-9a-f]{8}-[0-9a-f]{4}-[12467][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?![0-9a-z])",
    ),  # versions 3 and 5 are made of a text, RFC 9562
    # In capitals, and glued to a word without digits: ``RUN1B4E28BA-…``.
    _rule(
        "names",
        "name",
        "-",
        r"(?<![0-9])(?:[0-9A-F]{8}-[0-9A-F]{4}-[12467][0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}"
        r"|(?<=[g-zG-Z])[0-9a-f]{8}-[0-9a-f]{4}-[12467][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})(?![0-9A-Za-z])",
    ),
    # As marimo has it: of all versions, since its digits are those of a generator.
    _rule(
        "names",
        "name",
        "random",
        r"(?P<keep>\brandom[-_]?id\\?['\"]?\s*[:=]\s*\\?['\"]?)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z])",
    ),
    _rule("names", "name", "uuid", r"(?P<keep>\b[a-z_]*uuid['\"]?\s*[:=]\s*['\"]?)[0-9a-f]{32}\b"),
    # A UUID as ``uuid4().hex`` gives it, as MLflow names runs: one in 64 other texts of so many digits looks like one.
    _rule(
        "names",
        "name",
        "run session experiment trial job",
        r"(?P<keep>\b(?:run|session|experiment|trial|job)_(?:id|uuid)['\"]?\s*[:=]\s*['\"]?|\bmlruns/[\w-]+/"
        r"|\brun (?:[a-z]+-[a-z]+-\d{1,4} )?\(?)"
        r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}(?![0-9a-z])",
    ),
    _rule(
        "names",
        "name",
        "tmp pymp torchelastic",
        r"(?P<keep>\b(?:tmp|pymp-|torchelastic_))(?!_[a-z]+_\d+\b)[a-z0-9_]{8}\b",
    ),
    # Prefect's runs of tasks: the beginning of an identity, too short for it to be one that two runs have in common.
    _rule("names", "drawn", "task run '", r"(?P<keep> \| Task run '[^']{1,80}-)[0-9a-f]{3}(?=' - )"),
    _rule("names", "slug", "flow run '", r"(?P<keep> \| Flow run '|\bBeginning (?:sub)?flow run ')[a-z]+-[a-z]+(?=')"),
    _rule("names", "pid", "pid", r"(?P<keep>\bpid[ =:]+)\d+\b(?!\.\d)"),
    _rule("names", "pid", "process", r"(?P<keep>\bprocess[ _]?id[ =:]+)\d+\b"),
    _rule("names", "name", "wandb-client-artifact://", r"(?P<keep>\bwandb-client-artifact://)[0-9a-z]{16,}\b"),
    # The end of a run's identity, in Lightning's progress bars: of one that is counted it is the whole number.
    _rule(
        "names",
        "name",
        "v_num",
        r"(?P<keep>\bit/s,? v_num(?:: |=)|\bv_num(?:: |=)(?=\d*[a-z]))[0-9a-z]{4}(?![0-9a-z.])",
    ),
    # Names that Python and loky give processes and threads: which of them did a part is luck.
    _rule(
        "names",
        "worker",
        "poolworker- process- poolexecutor-",
        r"\b(?:(?:Fork|Spawn|ForkServer)(?:PoolWorker|Process)|LokyProcess|ThreadPoolExecutor)-\d+(?:[:_]\d+)*\b",
    ),
    # Addresses.
    # Of objects; small ones where Python is loaded at a fixed address.
    _rule("addresses", "address", "at", r"(?P<keep>\bat )0x[1-9a-f][0-9a-f]{6,15}(?=>)"),
    _rule("addresses", "address", "0x", r"\b0x(?:0000)?(?:7[ef]|5[56])[0-9a-f]{10}\b"),
    # As ``reprlib`` shortens them.
    _rule("addresses", "address", "...x", r"(?P<keep>\.\.\.x)(?:7[ef]|5[56])[0-9a-f]{10}\b"),
    # Decimal, of threads: addresses from 0x7e0000000000 to 0x7fffffffffff.
    _rule("addresses", "address", "000000000000000", r"(?<![\w.])1(?:3[89]|40)\d{12}(?![\w.]\d|\d)"),
    _rule("addresses", "port", ":", r"(?P<keep>\b(?:localhost|127\.0\.0\.1|0\.0\.0\.0):)\d{5}\b"),
    _rule(
        "addresses",
        "port",
        "[lightgbm]",
        r"(?P<keep>\[LightGBM\] \[Info\] (?:Trying to bind|Binding|Listening on) port )\d{4,5}\b",
    ),
    _rule(
        "addresses", "port", "[local_listen_port", r"(?P<keep>\[local_listen_port: )\d{4,5}(?=\])"
    ),  # of LightGBM's models
    # Dates, of about when the run was; with a time of day if there is one.
    _rule(
        "times",
        "date",
        "20",
        r"(?<![0-9a-z])(?P<year>20\d\d)[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)"
        rf"(?:[T _]+{_CLOCK}|[T_/]\d\d-\d\d-\d\d(?!\d){_OF_PROFILE}"
        r"|[T_](?:[01]\d|2[0-3])[0-5]\d[0-5]\d(?:\.\d{6}|\.\d{3})?(?!\d|\.\d)|Z)?",
        _date,
    ),
    _rule("times", "date", "/20", rf"\b(?P<month>\d\d?)/(?P<day>\d\d?)/(?P<year>20\d\d)(?:,?[T ]+{_CLOCK})?", _date),
    _rule("times", "date", ".20", rf"\b(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>20\d\d)(?:,?[T ]+{_CLOCK})?", _date),
    _rule("times", "date", "20", r"(?<!\d)(?P<year>20\d\d)(?P<month>\d\d)(?P<day>\d\d)[-_T]?\d{6}(?!\d)", _date),
    _rule(
        "times",
        "date",
        " ".join(_MONTHS),
        rf"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+)?(?P<month>{'|'.join(_MONTHS)})[a-z]*\s+(?P<day>\d\d?),?\s+"
        rf"(?:{_CLOCK}\s+)?(?:UTC\s+)?(?P<year>20\d\d)\b",
        _date,
    ),
    # As TensorBoard's writers, and Transformers' ``logging_dir``, name folders.
    _rule(
        "times",
        "date",
        " ".join(_MONTHS),
        rf"(?<![a-z])(?P<month>{'|'.join(_MONTHS)})(?P<day>\d\d)_\d\d-\d\d-\d\d(?!\d)",
        _date,
    ),
    _rule("times", "date", "1", r"(?<![\d.])(?P<whole>\d{10}(?:\d{3}|\d{6}|\d{9})?)(?:\.\d+)?(?![\d.]*\d)", _epoch),
    _rule(
        "times",
        "date",
        "_",
        r"(?<!\d)(?P<month>[01]\d)(?P<day>[0-3]\d)_(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?(?!\d)",
        _date,
    ),
    # The prefix of Kineto's lines (PyTorch's profiler): process and thread behind the date.
    _rule("names", "log", "cpp:", r"(?P<keep>⟨date⟩ )\d+:\d+(?= [\w.]+:\d+\] )"),
    # Behind a date in a name: what was drawn for the run.
    _rule(
        "names",
        "name",
        "⟨date⟩",
        r"(?P<keep>⟨date⟩[-_.])(?:[0-9a-f]{6,40}|(?=[a-z]*\d)(?![a-z]{4,}\d{1,3}(?![0-9a-z]))[0-9a-z]{8})(?![0-9a-z])",
    ),
    # tqdm's bar of what has no known end: ``train: 6it [00:05,  1.08it/s, loss=0.5]``.
    _rule(
        "times",
        "time",
        "/s s/",
        rf"(?P<keep>(?:^|(?<=[\s:|]))\d+(?:\.\d+)?[kMGT]?\s?(?P<unit>[^\W\d]\w*) ?\[)\d{{1,4}}:\d\d(?::\d\d)?"
        rf", +(?:{_NUMBER}|\?)(?:s/ ?(?P=unit)|[kMGT]? ?(?P=unit)/s)(?=[],])",
    ),
    # alive-progress' last line: ``|████| 30/30 [100%] in 0.3s (97.42/s)``; without a total ``|████| 30 in 0.3s (97/s)``
    _rule(
        "rates",
        "rate",
        "/s)",
        rf"(?P<keep>(?:\[\d{{1,3}}%\]|\| (?:\(!\) )?\d+) in (?:\d+:)?{_NUMBER}s? \()~?{_NUMBER}/s(?=\))",
    ),
    # Rates, before durations, which they contain.
    _rule("rates", "rate", "/s", rf"{_FREE}{_NUMBER}\s?{_WORK}\s?/\s?(?:s|sec|second)\b"),
    _rule(
        "rates",
        "rate",
        "/it /step /epoch /batch /sample /trial /fold /episode /call /task /job",
        rf"{_FREE}{_NUMBER}\s?(?:s|sec|ms|us|µs)/(?:it|iter|iteration|step|epoch|batch|sample|trial|fold|episode|call|task|job)\b",
    ),
    # Detectron2's: ``0.0123 s / it``, ``s / iter. per device``, ``s / img``.
    _rule(
        "rates", "rate", "/", rf"{_FREE}{_NUMBER}\s?(?:s|sec|ms|us|µs) / (?:it|iter|iteration|step|img|image|sample)\b"
    ),
    # Orbax': what TensorStore wrote depends on which of its threads was first.
    _rule(
        "memory",
        "memory",
        "/raw throughput: ratio (raw/logical):",
        rf"(?P<keep>/io/raw throughput: (?:⟨rate⟩|{_NUMBER} [kmgt]?ib/s) \(total gbytes: |\bratio \(raw/logical\): )"
        rf"{_NUMBER}(?: [kmgt]?ib(?=\)))?(?: \({_NUMBER} [kmgt]?ib(?= / ))?",
    ),
    # gensim's, also in the models that it saves: words by themselves may be spoken.
    _rule("rates", "rate", "effective", rf"{_FREE}{_NUMBER} effective words/s\b"),
    _rule(
        "rates",
        "rate",
        "words/s",
        rf"(?P<keep>% (?:examples|words), ){_NUMBER} words/s(?:, in_qsize -?\d+, out_qsize -?\d+)?",
        sure=True,
    ),
    _rule("rates", "rate", "~per~second", rf"{_FREE}{_NUMBER}\s{_WORK} per second\b"),
    # ApacheBench's unit, and the name in front of it: `Requests per second:    360.31 [#/sec] (mean)`.
    _rule(
        "rates",
        "rate",
        "~per~sec",
        rf"(?P<keep>\b(?:{_WORK}|transactions|operations|ops|messages|packets) per sec(?:ond)?\s*(?::\s+|=\s*))"
        rf"(?=\d){_NUMBER}(?:\s\[#/sec\])?(?![\w.])(?!\s*/)",
    ),
    _rule("rates", "rate", "?", r"\?\s?[a-z]+/s\b"),
    _rule(
        "rates",
        "rate",
        "sps fps wps mfu speedup speed-up throughput per_sec /s",
        rf"(?P<keep>\b(?:[a-z]{{1,40}}_){{0,6}}{_OF_RATE}{_GAP}){_NUMBER}",
    ),
    _rule("rates", "rate", "flop/s flops/s", rf"{_FREE}{_NUMBER}\s?[kmgtp]?flops?/s(?:/[a-z]+)?\b"),
    _rule("rates", "rate", "flop/s flops/s", rf"(?P<keep>\b[kmgtp]?flops?/s(?:/[a-z]+)?\)?{_GAP}){_NUMBER}"),
    # Whatever tqdm counts: papermill's cells, datasets' examples.
    _rule(
        "rates",
        "rate",
        "<",
        rf"(?P<keep>\[\d{{1,3}}:\d\d(?::\d\d)?<(?:\d{{1,3}}:\d\d(?::\d\d)?|\?), +)"
        rf"(?:{_NUMBER}|\?)(?:s/|[kMGT]?)[^\W\d]\w*(?:/s)?(?=[],])",
    ),
    # Memory.
    _rule(
        "memory",
        "memory",
        "mem rss ram",
        rf"(?P<keep>(?<!\bmodel )\b(?:mem|memory|rss|vram|ram)(?:[ _](?:usage|used|allocated|reserved|peak))*{_GAP})"
        rf"{_NUMBER}(?:\s?/\s?{_NUMBER})?\s?[kmgt]?i?b(?:ytes)?\b(?:\s?\({_NUMBER}\s?%\))?",
    ),
    _rule("memory", "memory", "max_mem", rf"(?P<keep>\bmax_mem(?:ory)?: ){_NUMBER}M\b"),  # Detectron2's
    # fairseq's: `ups` and `wall` by themselves may be anything.
    _rule("rates", "rate", "ups", rf"""(?P<keep>\bwps{_GAP}⟨rate⟩['"]?\s*[|,]\s*['"]?ups{_GAP}){_NUMBER}"""),
    _rule(
        "times",
        "time",
        "train_wall",
        rf"""(?P<keep>\btrain_wall{_GAP}{_NUMBER}\b.*?(?:\|\s|['"])wall(?:['"]:\s['"]?|\s)){_NUMBER}""",
    ),
    # What GNU time prints with -v.
    _rule("times", "time", "percent", rf"(?P<keep>^\s*Percent of CPU this job got: ){_NUMBER}%$"),
    _rule(
        "times",
        "time",
        "switches: faults:",
        rf"(?P<keep>^\s*(?:Involuntary context switches|Voluntary context switches|Major \(requiring I/O\) page faults"
        rf"|Minor \(reclaiming a frame\) page faults): ){_NUMBER}$",
    ),
    _rule(
        "memory",
        "memory",
        "size (kbytes)",
        rf"(?P<keep>^\s*(?:Maximum|Average) resident set size \(kbytes\): ){_NUMBER}$",
    ),
    # The head of what ``pstats`` prints: calls are counted as in its rows, those of imports among them.
    _rule(
        "times",
        "calls",
        "function",
        r"(?P<keep>^\s*)\d+ function calls(?: \(\d+ primitive calls\))?(?= in \d+\.\d+ seconds\s*$)",
    ),
    _rule(
        "times",
        "calls",
        "list reduced from",
        r"(?P<keep>^\s*List reduced from )\d+(?= to \d+ due to restriction <)",
    ),
    # Times of day and durations.
    _rule("times", "time", "<", r"\b\d{1,3}:\d\d(?::\d\d)?<(?:\d{1,3}:\d\d(?::\d\d)?|\?)"),
    _rule("times", "time", ":", _TIME_OF_DAY),
    _rule("times", "time", "h", r"(?<![a-z0-9])\d\dh\d\dm\d\ds?(?![a-z0-9])"),
    _rule(
        "times",
        "time",
        ":",
        rf"(?P<keep>\b{_OF_CLOCK}{_GAP})\d{{1,3}}:\d\d\b(?!:)",
    ),
    # CatBoost's: ``0:  learn: 1.6192996  total: 54ms  remaining: 491ms``, with tabs between.
    _rule("times", "time", "remaining:", rf"(?P<keep>\ttotal: ){_NUMBER}[mu]?s(?=\tremaining: )", sure=True),
    _rule("times", "time", "elapsed", rf"(?P<keep>\belapsed:\s*){_NUMBER}\s?min\b"),  # joblib's
    _rule(
        "times",
        "time",
        "time elapsed took duration sec latency runtime clock wall",
        rf"(?P<keep>\b(?:[a-z]{{1,40}}[_/]){{0,6}}{_OF_TIME}"
        rf"{_GAP})(?!{_NUMBER}\s*(?:{_COUNTED}|%)){_NUMBER}(?:\s?(?:s|sec|seconds|ms))?\b(?!:\d\d)",
    ),
    _rule(
        "times",
        "time",
        "s minutes mins hour",
        rf"{_FREE}{_NUMBER}\s?(?:(?-i:ns|us|µs|ms)|secs?|seconds?|minutes?|mins|hours?)\b",
    ),
    # Not "0.1 min, 0.9 max", nor "loss 0.5 (0.1 min)".
    _rule(
        "times",
        "time",
        "min",
        r"(?P<keep>^(?!.*\b(?:max|avg|mean|median|maximum)\b).*?\b(?:in|took|time|elapsed):?\s*)"
        rf"{_NUMBER}\s?min\b(?!\s*[:=\w])",
    ),
    _rule("times", "time", "s m", r"(?-i:(?<![\w.])(?:\d+h\s?)?(?:\d+m\s?)?\d+(?:\.\d+)?s\b|(?<![\w.])\d+h\s?\d+m\b)"),
    _rule("times", "time", "s) sec) seconds)", rf"(?P<keep>\((?:[nuµm]?s|sec|seconds)\)\s?[:=]\s*){_NUMBER}(?![\w.])"),
    _rule("times", "time", "~s", rf"{_FREE}{_NUMBER} (?-i:s)(?=$|\s*[\])}},;.|])"),
    _rule("times", "time", "~s", rf"(?P<keep>\b(?:in|after|took|for|:|=)\s+){_NUMBER} s(?=$|[\s,;.)\]])"),
)
"""In the order in which they are applied."""
_OF_DAY = frozenset(number for number, rule in enumerate(_TABLE) if rule.text == _TIME_OF_DAY)
_HMS = re.compile(r"\d+(?:[.,]\d+)?")
_ESTIMATED = re.compile(
    r"(?<![a-z])(?:eta|remaining|left|estimated|expected|until|finish|cpu|user|sys|workers?|sum|total|cumulative)(?![a-z])"
    r"|s/(?:step|it)|[‹•<]",
    re.IGNORECASE,
)
"""Next to times that are estimated, or that several processes took together."""

_COUNTS = lazy(r"\{\d+(?:,\d*)?\}|0-9")
_ZEROS = str.maketrans("123456789", "000000000")
_SHAPES, _SHAPE = 4096, 1000
"""How many shapes of lines are known at a time, and their characters at most."""
_known: dict[str, tuple[int, ...]] = {}
_LONG_LINES, _LONG_TEXT = 4096, 1 << 25
"""How many long lines are known in their masked form, and the characters of all that differ from the lines."""


class _LongLines:
    """Long lines, by digest, that are masked alike in all runs: of a page hardly any differs from run to run."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bool, int], Masked] = {}
        self._size = 0

    def get(self, key: tuple[bytes, bool, int]) -> Masked | None:
        """Return the masked form of a line; its text is empty if that is the line itself."""
        return self._known.get(key)

    def note(self, key: tuple[bytes, bool, int], found: Masked, line: str) -> None:
        """Keep the masked form of a line."""
        same = found.text == line
        self._size += 0 if same else len(found.text)
        if len(self._known) >= _LONG_LINES or self._size > _LONG_TEXT:
            self._known.clear()
            self._size = 0 if same else len(found.text)
        self._known[key] = msgspec.structs.replace(found, text="") if same else found


_long_lines = _LongLines()


def _may_match(line: str) -> tuple[int, ...]:
    """Return the numbers of the rules that a line may match, by its shape: what it is with zeros as its digits.

    Programs print lines of few shapes, and most rules take all digits alike: what does not match a shape matches no
    line of it.
    """
    shape = line.translate(_ZEROS)
    found = _known.get(shape)
    if found is None:
        lower = shape.lower()
        found = tuple(number for number, rule in enumerate(_TABLE) if rule.may_match(shape, lower))
        if len(shape) <= _SHAPE:
            if len(_known) >= _SHAPES:
                _known.clear()
            _known[shape] = found
    return found


_BINARY = lazy(r"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
"""No text that a program prints holds these: such lines are compared as they are."""
_SPACES = lazy(r" {2,}")
_PLOTTED = lazy(r"(?<! ) {2,}[*#·•+^@=~○●▁▂▃▄▅▆▇█-]+ *[|│┃]?\Z")
"""The end of a line of a plot: where its marks are is what it says."""
_ROW = lazy(
    rf"\s*(?P<name>[A-Za-z][A-Za-z_]{{0,99}}_[A-Za-z_]{{1,99}})\s(?P<rest>(?:\s*{_NUMBER})(?:\s+{_NUMBER})+)\s*",
    re.IGNORECASE,
)
_CURVE = lazy(r"wandb:\s+(?P<name>[A-Za-z]\S*)\s(?P<rest>\s*[▁▂▃▄▅▆▇█]+)\s*")
"""A metric's history as Weights & Biases draws it at the end of a run."""
_ELAPSED = lazy(rf"(?<![a-z])(?:{'|'.join(sorted(NUMBERED))})[ _-]elapsed['\"]?\s*[:=]?\s*\Z", re.IGNORECASE)
"""A name of what is counted, up to its number."""
_DIGIT = lazy(r"\d|\?|[▁█]")
_MAYBE = lazy(r"[A-DF-Za-df-zµ:/<?]|\d{10}|20\d\d")
"""Lines of plain numbers, as tables of data have them, hold nothing to mask."""
_KERNEL = "[IPKernelApp] ERROR | KeyboardInterrupt caught in kernel.\n"
"""What a notebook's kernel prints if it is shut down before it waits again (ipykernel's kernelapp.py), in the middle of
whatever line is there."""
_TOKENS = lazy(rf"\n|\r|\x1b\[(\d*)A|\x1b\[[0-9;?]*[ -/]*[@-~]|\x08|{re.escape(_KERNEL)}")
_BAR_RATES = lazy(
    r"(?<=\[)(?:\d+:)?\d{1,2}:\d\d(?:<(?:\?|(?:\d+:)?\d{1,2}:\d\d))?"
    r", *(?:\?|\d[\d.]*(?:e[+-]?\d+)?) ?[^\W\d]*/[^\W\d]+(?=[],])"
)
"""What stands in the bracket of tqdm's bars up to what the program adds: elapsed, remaining, rate (tqdm/std.py)."""
_PARTIAL = lazy(r"\x1b(?:\[[0-9;?]*)?\Z")


_STAMP = lazy(r"\[?(?:\d[\d/.-]*[ T])?\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: [AP]M)?\]?(?= )")
"""The time in front of a line of a log."""
_OF_THREAD = lazy(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +(\d+) (?:[\w.]+:\d+\] (\[process=\d+\])?)?")
"""The prefix of a line of absl's and glog's log, with the thread that logged it, and what Orbax puts before its own."""
_RULER = lazy(r"-{3,}(?:  -{3,}){5,}")
_TIMED = r"\d+\.\d{3}"
_REPORTS = (
    # PyTorch's profiler: ``key_averages().table()``
    (lazy(r"\s*Name\s+Self CPU %\s+Self CPU\s.*"), lazy(r"\s*\S.*\s[\d.]+%\s+[\d.]+(?:us|ms|s)\s.*|[- ]+")),
    # ``pstats``: ``print_stats()``
    (
        lazy(r"\s*ncalls\s+tottime\s+percall\s+cumtime\s+percall\s+filename:lineno\(function\)"),
        lazy(rf"\s*\d+(?:/\d+)?(?:\s+{_TIMED}){{4}} (?:\S.*:\d+\(.*\)|\{{.*\}})"),
    ),
    # Lightning's ``SimpleProfiler``
    (
        lazy(
            r"\|\s+Action\s+\|\s+Mean duration \(s\)\s+\|\s+Num calls\s+\|\s+Total time \(s\)\s+\|\s+Percentage %\s+\|"
        ),
        lazy(r"\|\s+\S[^|]*(?:\|\s+(?:\d[\d.e+-]*|-)\s+){3}\|\s+\d[\d.e+-]*\s*%?\s+\||-{20,}"),
    ),
    # Megatron-LM's timers
    (
        lazy(r"(?:\(min, max\) |max )?times? across ranks \(ms\):"),
        lazy(r"\s+[\w-]+ \.{3,}: \(?\d[\d.]*(?:, \d[\d.]*\))?|\s+[\w-]+:|\s+rank +\d+: \d[\d.]*"),
    ),
)
"""Heads of the tables that profilers print, and their rows: sorted by time, the slowest only, as wide as these are."""


_HEAD_OF_SLOWEST = re.compile(r"={2,} slowest (?:\d+ )?durations ={2,}")
_SLOW = re.compile(r"\d+\.\d\ds (?:call    |setup   |teardown) \S.*")
_HIDDEN = re.compile(r"\((\d+) durations < [\d.e-]+s hidden\.(?:  Use -vv to show these durations\.)?\)")
"""What pytest prints with ``--durations``: parts of tests by how long they took, and how many were too fast for that.
Source: src/_pytest/runner.py, ``pytest_terminal_summary``."""


class _Slowest:
    """Holds the slowest tests that pytest prints back until their end; only how many there are does not depend on time.

    Attributes:
        held: lines of the table so far; None outside of one.
    """

    def __init__(self) -> None:
        self.held: list[str] | None = None
        self._hidden = 0

    def take(self, row: str) -> bool:
        """Whether a line belongs to a table, which begins behind its head."""
        if self.held is None:
            if _HEAD_OF_SLOWEST.fullmatch(row) is not None:
                self.held, self._hidden = [], 0
            return False
        hidden = _HIDDEN.fullmatch(row) if self.held[-1:] in ([], [""]) else None
        if self._hidden or (self.held[-1:] == [""] and hidden is None):
            return False
        if hidden is not None:
            self._hidden = int(hidden[1])
        elif row and _SLOW.fullmatch(row) is None:
            return False
        self.held.append(row)
        return True

    def finish(self) -> Iterator[tuple[str, Masked]]:
        """Yield the lines that were held back: the last has the number of all."""
        held, self.held = self.held or [], None
        behind = [held.pop()] if held[-1:] == [""] else []
        shown = sum(_SLOW.fullmatch(row) is not None for row in held)
        for row in held[:-1]:
            yield row, Masked("", frozenset([SLOWEST]))
        if held:
            yield held[-1], Masked(f"⟨{shown + self._hidden} durations⟩", frozenset(["times"]))
        yield from ((row, Masked(row, frozenset())) for row in behind)


class _Lines:
    """Masks lines; in tables, columns of measurements; and the tables of profilers as a whole: which rows are in them,
    and where, is a measurement.

    Args:
        masks: what to mask elsewhere.
    """

    def __init__(self, masks: Masks) -> None:
        self._tables, self._reports = Tables(), _Reports(masks)

    def take(self, row: str) -> Iterator[tuple[str, Masked]]:
        """Yield what is known by now of a line and of those that were held back, each with its masked form."""
        for shown in self._tables.take(row):
            yield from self._reports.take(shown)

    def finish(self) -> Iterator[tuple[str, Masked]]:
        """Yield lines that were held back."""
        for shown in self._tables.finish():
            yield from self._reports.take(shown)
        yield from self._reports.finish()


class _Reports:
    """Masks lines, and the tables of profilers as a whole.

    Args:
        masks: what to mask elsewhere.
    """

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._rows: re.Pattern[str] | None = None
        self._within = False
        self._held: Shown | None = None
        self._stamp = ""
        self._slowest = _Slowest()
        self._blocks, self._samples, self._memory = LogBlocks(), Samples(), MemoryTable()

    def take(self, shown: Shown) -> Iterator[tuple[str, Masked]]:
        """Yield what is known by now of a line and of one that was held back, each with its masked form."""
        row, within = shown.text, self._slowest.held is not None
        if self._slowest.take(row):
            return
        if within:
            yield from self._slowest.finish()
            self._slowest.take(row)
        if self._rows is not None and self._rows.fullmatch(row) is not None:
            yield self._masked(shown, report=True)
            ruler = _RULER.fullmatch(row) is not None
            if ruler and self._within:  # the last line of the table: what looks like a row behind it is none
                self._rows = None
            self._within = not ruler
            return
        self._within = False
        self._rows = next((rows for head, rows in _REPORTS if head.fullmatch(row) is not None), None)
        held, self._held = self._held, None
        if held is not None:
            yield self._masked(held, report=self._rows is not None)
        if _RULER.fullmatch(row) is not None:
            self._held = shown
        else:
            yield self._masked(shown, report=self._rows is not None)

    def finish(self) -> Iterator[tuple[str, Masked]]:
        """Yield lines that were held back."""
        if self._held is not None:
            yield self._masked(self._held, report=False)
        self._held = None
        yield from self._slowest.finish()

    def _masked(self, shown: Shown, *, report: bool) -> tuple[str, Masked]:
        if self._blocks.has(shown.common):
            return shown.text, Masked("⟨log⟩", frozenset([BY_CLOCK]))
        if self._samples.has(shown.common):
            return shown.text, Masked("⟨profile⟩", frozenset([PROFILE_OF_SAMPLES]))
        if (row := self._memory.masked(shown.common)) is not None:
            return shown.text, Masked(row, frozenset(["memory"]))
        masked = self._masks.mask(self._stamped(shown.common))
        if report and not masked.left_out:
            masked = Masked(PROFILE, frozenset(["times"]))
        elif shown.kinds:
            masked = Masked(
                masked.text,
                masked.kinds | shown.kinds,
                masked.guessed or shown.guessed,
                masked.names,
                shown.guessed,
            )
        return shown.text, masked

    def _stamped(self, line: str) -> str:
        """Return a line with its time where blanks say that it is that of the line before.

        rich leaves a time out that it would write twice (``_log_render.py``, ``omit_repeated_times``), which depends on
        when the second ended; it does not know what others print meanwhile.
        """
        if (found := _STAMP.match(line)) is not None:
            self._stamp = found[0]
            return line
        width = len(self._stamp)
        if width and line.startswith(" " * (width + 1)) and line[width + 1 : width + 2] not in ("", " "):
            return f"{self._stamp}{line[width:]}"
        return line


class _Screen:
    """Rows of text as a terminal shows them at last; those too far up to be reached are given away.

    Binary data are not written over: in a row that has characters which no text has, all others are such too.

    Args:
        take: called with each row that cannot change any more.

    Attributes:
        dropped: messages by the clock that were left out.
    """

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self.dropped = 0
        self._rows = [""]
        self._covered = [""]
        self._at = 0
        self._return = False
        self._undo: tuple[str, str] | None = None

    def write(self, text: str) -> None:
        """Follow text and control characters."""
        place = 0
        for found in _TOKENS.finditer(text):
            self._put(text[place : found.start()])
            place = found.end()
            control = found[0]
            self._undo = None
            if control == "\n":
                self._down()
            elif _BINARY.search(self._rows[self._at]) is not None:  # a byte as any other
                self._put(control)
            elif control == "\r":
                self._return = True
            elif control == _KERNEL:
                self.dropped += 1
            elif control.endswith("A"):
                self._at = max(0, self._at - int(found[1] or 1))
                self._return = True
            elif control.endswith("K"):
                self._covered[self._at] = ""
                if self._return or control.endswith("[2K"):
                    self._rows[self._at] = ""
        self._put(text[place:])

    def finish(self) -> None:
        """Give away what is left; an empty last row is no line."""
        *above, last = map(_shown, self._rows, self._covered)
        for row in above:
            self._take(row)
        if last:
            self._take(last)
        self._rows, self._covered, self._at = [""], [""], 0

    def _put(self, text: str) -> None:
        if not text:
            return
        if self._return:
            row, covered = self._rows[self._at], self._covered[self._at]
            self._undo = row, covered
            self._covered[self._at] = _without_rates(row) + covered[len(row) :]
            self._rows[self._at], self._return = "", False
        if self._undo is not None and _BINARY.search(text) is not None:
            row, self._covered[self._at] = self._undo
            self._rows[self._at], self._undo = f"{row}\r{self._rows[self._at]}", None
        row = self._rows[self._at] + text
        if len(row) > LONGEST_LINE:
            for above in map(_shown, self._rows[: self._at], self._covered):
                self._take(above)
            self._rows, self._covered, self._at = self._rows[self._at :], self._covered[self._at :], 0
            while len(row) > LONGEST_LINE:
                self._take(row[:LONGEST_LINE])
                row = row[LONGEST_LINE:]
        self._rows[self._at] = row

    def _down(self) -> None:
        self._return = self._at + 1 < len(self._rows)
        self._at += 1
        if self._at == len(self._rows):
            self._rows.append("")
            self._covered.append("")
        if len(self._rows) > _ROWS:
            self._take(_shown(self._rows.pop(0), self._covered.pop(0)))
            self._at -= 1


def _without_blanks(row: str) -> str:
    """Return a row without blanks at its end, which nobody sees."""
    text = row.rstrip()
    return row if text != row and _BINARY.search(row) is not None else text


def _without_rates(row: str) -> str:
    """Return a row that is written over, with blanks in the place of what tqdm's bars measure.

    Bars within bars share a row where a program draws them without places of their own. What the shorter one leaves of
    the longer one may begin in the middle of a time, where nothing shows any more what its digits are.
    """
    if "[" not in row:
        return row
    return _BAR_RATES.sub(lambda found: " " * len(found[0]), row)


def _shown(row: str, covered: str) -> str:
    """Return what is seen of a row that was written over another one; a few characters are left by numbers of times."""
    rest = covered[len(row) :]
    return row + rest if len(rest.strip()) >= _REST else row


class _Sums(msgspec.Struct, kw_only=True):
    ordered: hashlib._Hash = msgspec.field(default_factory=hashlib.sha256)
    first: hashlib._Hash | None = None
    aside: int = 0
    unordered: int = 0
    lines: int = 0
    names: SharedNames = msgspec.field(default_factory=SharedNames)
    masked: Counter[str] = msgspec.field(default_factory=Counter)


class PrintedDigest:
    """Takes a stream in pieces and states the result.

    Args:
        masks: what to mask.
    """

    def __init__(self, masks: Masks) -> None:
        self.masks = masks
        self._lines = _Lines(masks)
        self._sums = _Sums()
        self._screen = _Screen(self._take)
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""
        self._thread = ""
        self._result: Printed | None = None

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next piece."""
        text = self._rest + self._decoder.decode(bytes(data))
        cut = _PARTIAL.search(text)
        self._rest = cut[0] if cut else ""
        self._screen.write(text[: cut.start()] if cut else text)

    def result(self) -> Printed:
        """Return its result; nothing may be fed afterwards."""
        if self._result is None:
            self._result = self._finish()
        return self._result

    def _finish(self) -> Printed:
        self._screen.write(self._rest + self._decoder.decode(b"", final=True))
        self._screen.finish()
        for text, found in self._lines.finish():
            self._count(text, found)
        sums = self._sums
        if self._screen.dropped:
            sums.masked[BY_CLOCK] += self._screen.dropped
        return Printed(
            lines=sums.lines,
            sha256=sums.ordered.hexdigest() if sums.lines else "",
            unordered=f"{sums.unordered:064x}" if sums.lines else "",
            names=sums.names.result(),
            threads=f"{sums.first.hexdigest()}{sums.aside:064x}" if sums.first is not None else "",
            masked=dict(sorted(sums.masked.items())),
        )

    def _take(self, row: str) -> None:
        for text, found in self._lines.take(_without_blanks(row)):
            self._count(text, found)

    def _count(self, text: str, found: Masked) -> None:
        if found.left_out:
            self._sums.masked.update(found.kinds)
            return
        data = found.text.encode("utf-8", "surrogateescape") + b"\n"
        number = int.from_bytes(hashlib.sha256(data).digest(), "big")
        self._sums.names.add(found.names)
        thread = _OF_THREAD.match(text)
        if thread is not None:
            self._thread = self._thread or thread[1]
        if thread is not None and thread[1] != self._thread and thread[2]:
            if self._sums.first is None:
                self._sums.first = self._sums.ordered.copy()
            self._sums.aside = (self._sums.aside + number) % (1 << 256)
        elif self._sums.first is not None:
            self._sums.first.update(data)
        self._sums.ordered.update(data)
        self._sums.unordered = (self._sums.unordered + number) % (1 << 256)
        self._sums.lines += 1
        self._sums.masked.update(found.kinds)


class BoundedDigest:
    """Masks the beginning of a stream, and takes the rest as it is: a run by itself shall not wait for it.

    Args:
        masks: what to mask.
        lines, size: line breaks, and bytes, up to which lines are masked.
    """

    def __init__(self, masks: Masks, lines: int = BOUND_LINES, size: int = BOUND_BYTES) -> None:
        self._digest = PrintedDigest(masks)
        self._lines, self._size = lines, size
        self._rest, self._rest_bytes = hashlib.sha256(), 0

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next piece."""
        if self._lines > 0 and self._size > 0:
            taken = bytes(data[: self._size])
            breaks = taken.count(b"\n")
            if breaks >= self._lines:
                taken = b"".join(part + b"\n" for part in taken.split(b"\n", self._lines)[: self._lines])
            self._lines -= min(breaks, self._lines)
            self._size -= len(taken)
            self._digest.feed(taken)
            data = data[len(taken) :]
        if data:
            self._rest.update(data)
            self._rest_bytes += len(data)

    def result(self) -> Printed:
        """Return its result; nothing may be fed afterwards."""
        found = self._digest.result()
        if not self._rest_bytes:
            return found
        return msgspec.structs.replace(found, rest_bytes=self._rest_bytes, rest=self._rest.hexdigest())


def rows(data: bytes, masks: Masks) -> Iterator[Row]:
    """Yield the lines of a stream as they are compared."""
    found: list[str] = []
    screen = _Screen(found.append)
    screen.write(data.decode("utf-8", "backslashreplace"))
    screen.finish()
    lines = _Lines(masks)
    masked = chain(*(lines.take(_without_blanks(text)) for text in found), lines.finish())
    for number, (text, each) in enumerate(masked, 1):
        yield Row(number=number, text=text, masked=each, blanks=found[number - 1][len(text) :])


def first_difference(
    name: str,
    before: bytes,
    after: bytes,
    masks: tuple[Masks, Masks],
    *,
    ordered: bool,
    known: Collection[str] = frozenset(),
) -> TextDifference | None:
    """Return the first line at which two streams differ but for what is masked; None if they are equal.

    A line that has other blanks alone, as a table's head has whose columns follow the numbers, is returned only where
    no other line differs.

    Args:
        name: of the stream.
        before, after: what was printed.
        masks: of the two runs.
        ordered: the order of lines counts; else the first lines that only one stream has are compared.
        known: names that look drawn and are data, shortened.
    """
    one, other = (
        [_with_names(row, known) for row in rows(data, each) if not row.masked.left_out]
        for data, each in zip((before, after), masks, strict=True)
    )
    if not ordered:
        one, other = _only(one, other), _only(other, one)
    blanks: TextDifference | None = None
    for mine, theirs in zip_longest(one, other):
        before_text, after_text = (row.masked.text if row else None for row in (mine, theirs))
        if before_text == after_text:
            continue
        number = mine.number if mine else theirs.number if theirs else 0
        found = TextDifference(
            path=name, line=number, before=mine.text if mine else "", after=theirs.text if theirs else ""
        )
        if before_text is None or after_text is None or before_text.split() != after_text.split():
            return found
        blanks = blanks or found
    return blanks


def guessed(name: str, before: bytes, after: bytes, masks: tuple[Masks, Masks]) -> Iterator[TextDifference]:
    """Yield the lines of two streams that are equal but for what nothing but a unit shows to be a measurement.

    Args:
        name: of the stream.
        before, after: what was printed, line by line alike but for what is masked.
        masks: of the two runs.
    """
    for mine, theirs in zip(rows(before, masks[0]), rows(after, masks[1]), strict=False):
        if mine.masked.text != theirs.masked.text:
            return
        if mine.masked.guessed and theirs.masked.guessed and mine.text != theirs.text:
            yield TextDifference(path=name, line=mine.number, before=mine.text, after=theirs.text)


def _with_names(row: Row, known: Collection[str]) -> Row:
    """Return a row whose masked text ends in the names in it that are data."""
    names = [name for name in row.masked.names if shortened(name) in known] if known else []
    if not names:
        return row
    masked = msgspec.structs.replace(row.masked, text=f"{row.masked.text} {' '.join(names)}")
    return msgspec.structs.replace(row, masked=masked)


def _only(these: Sequence[Row], those: Sequence[Row]) -> list[Row]:
    """Return the lines that others lack, each as often as it is lacking."""
    left = Counter(row.masked.text for row in those)
    found = []
    for row in these:
        if left[row.masked.text]:
            left[row.masked.text] -= 1
        else:
            found.append(row)
    return found
