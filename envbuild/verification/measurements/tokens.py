"""Texts as tokens that may follow a clock: dates, times of day, numbers."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import zip_longest
from typing import Protocol

from envbuild.core.patterns import lazy
from envbuild.record.measurements import names_result
from envbuild.verification.measurements.clockwork import (
    PORTS_OF_RUN,
    PROCESSES,
    Kind,
    Number,
    Setting,
    Span,
    When,
    goes_as_rate,
    is_date,
    is_deviation,
    is_moment_to_come,
    is_stopwatch,
    is_time_of_day,
    is_whole_rate,
    kind_of_numbers,
)
from envbuild.verification.measurements.labels import (
    Header,
    has_unit_of_rate,
    may_be_identity,
    may_be_memory,
    may_be_mentioned,
    may_be_time,
    names_deviation,
    names_no_time,
    own_name,
    place_name,
    says_nothing,
)

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_TIME = r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?"
_ZONE = r"(?:\s?(?:Z|UTC|GMT)\b|\s?[+-]\d\d:?\d\d)?"
_TOKEN = lazy(
    r"(?P<drawn>⟨drawn (?:\d+|\?) \d+⟩)"
    r"|(?P<process>⟨(?:process|port)⟩)"
    rf"|(?P<iso>(?<!\d)(?:{_DAY},?\s+)?20\d\d[-/.]\d\d[-/.]\d\d(?:(?:[T _]+{_TIME}|[T_ ]\d\d-\d\d-\d\d(?!\d)){_ZONE})?)"
    rf"|(?P<short>(?<![\d/.-])\d\d(?P<mark>[/.-])\d\d(?P=mark)\d\d[T ]+{_TIME})"
    rf"|(?P<parted>(?<![\d/.-])\d\d?(?P<point>[/.-])\d\d?(?P=point)20\d\d(?![/.-]?\d)(?:,?[T ]+{_TIME})?)"
    r"|(?P<packed>(?<!\d)20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])[-_T]?(?:[01]\d|2[0-3])[0-5]\d[0-5]\d(?!\d))"
    rf"|(?P<mail>\b(?:{_DAY},?\s+)?\d\d?[ -]{_MONTH}[ -]20\d\d(?:\s+{_TIME}{_ZONE})?"
    rf"|(?<![\w/])\d\d/{_MONTH}/20\d\d[: ]{_TIME}{_ZONE})"
    rf"|(?P<ctime>\b(?:{_DAY},?\s+)?{_MONTH}\s+\d\d?,?\s+(?:{_TIME}\s+(?:(?:UTC|GMT)\s+)?)?20\d\d)"
    rf"|(?P<weekday>\b{_DAY}\b)"
    rf"|(?P<clock>(?<![\d:])(?:\d+ days?, )?\d+:\d\d(?::\d\d(?:[.,]\d+)?)?(?![\d:]))"
    # With separators between thousands where a word follows: in a row of a table they are between columns.
    r"|(?P<number>(?<![\d,.])[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?(?= ?[A-Za-z])|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)",
)
_SPACES = lazy(r"\s+")
_COLON = lazy(r"(?<= 20\d\d):")
_BLANKS = lazy(r" ?(\0(?:number|clock)\0) ?")
"""A number in a field of some width has as many blanks as it leaves."""
_AROUND = lazy(r" (⟨(?:time|rate|memory)⟩)")
"""The same of one that is masked."""
_MINUS, _PLUS = lazy(r"(?<![A-Za-z0-9)\]}])-"), lazy(r"(?<![A-Za-z0-9)\]}])\+")
NAME = 80
"""Characters before and after a number in which it may be named."""
_ZONES = tuple(quarter * 900 for quarter in (0, *(sign * each for each in range(1, 57) for sign in (1, -1))))
_QUESTIONS = 80
"""Seconds of the slow clock within which a day's name is looked at; on the fast one these are a day."""
_ORDERS = ("dmy", "mdy", "ymd")
_PARTED = lazy(r"(\d+)[/.-](\d+)[/.-](20\d\d)(.*)")
"""A date with its year last, of four digits."""
SURE = frozenset(("date", "reading"))
"""What needs no name: only a clock gives exactly these."""
_EXACT = 15
"""Digits of a number that show that it was not rounded to be shown."""
_LINES = 3
_OF_LINE = lazy(r"(?:.*, )?line \d+", re.DOTALL)
"""The name of a line of a text, which is no item of a list."""
_ESTIMATED = lazy(r"(?<![A-Za-z])(?:eta|remaining|left|estimated|to_go)(?![A-Za-z])", re.IGNORECASE)
"""In the name of a duration that is to come."""
_CLAUSE = lazy(r"(?<![\w.])\d[\d.,]{0,20} [A-Za-z]{1,20}[,;] ?\Z")
"""Another number with what it counts, right before one: ``15 batches, 10952 events/s``."""
_UNTIL = lazy(
    r"(?<![A-Za-z])(?:expir\w*|valid\w*|until|till|deadline|due|lease\w*|not_after|exp|retain\w*|next\w*)(?![A-Za-z])",
    re.IGNORECASE,
)
"""In the name of a moment that is to come."""
_OF_RATE = lazy(r"(?:[qrt]ps|iops|fps|[A-Za-z]+(?:/s|/sec|_per_s(?:ec(?:ond)?)?))", re.IGNORECASE)
"""The name of a column of rates."""
_OF_RATIO = lazy(r"\s?(?:%|×|x(?!\w))")
_EPHEMERAL = range(32768, 61000)
"""Of which Linux takes one where a program gives none (``ip_local_port_range``)."""
_PROCESS, _PORT = "⟨process⟩", "⟨port⟩"
_WORKER = lazy(r"([A-Za-z][A-Za-z_-]{0,40}[_-](?:\d{1,3}_)?)\d{1,3}")
_CHOSEN = lazy(r"best|winner|winning|first|top|leader|champion|select|chosen|pick", re.IGNORECASE)
_OF_WORKERS = lazy(r"(?:\A|[. ])(?:worker|thread|executor)(?:_?name)?\Z", re.IGNORECASE)
"""The name of a place that says which of several workers did something, and nothing of what it was."""
_OF_PROCESSES = lazy(
    r"\b(?:p?pid|tid|proc(?:ess)?|worker|child|thread|actor)s?\b|[a-z]_?pid\b|[\[(]\s*\d+\s*[\])]",
    re.IGNORECASE,
)
"""What may be around the number of a process."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One place that follows the clock: where, below the text or bytes that it is in, and what it is."""

    where: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    before: str
    after: str
    at: int


class Durations(Protocol):
    """The durations that runs show, of which numbers may be made (``ratios``)."""

    def explain(self, values: Sequence[tuple[When, Number]], /) -> bool:
        """Return whether numbers are a ratio of them."""

    def round(self, values: Sequence[tuple[When, Number]], /) -> bool:
        """Return whether numbers are one of them with fewer digits."""


def of_texts(
    texts: Sequence[tuple[When, str]],
    name: str = "",
    header: Header | None = None,
    *,
    named: bool = False,
    next_to_time: bool = False,
    trained: bool = False,
    alone: bool = False,
    draws: Container[str] = (),
    durations: Durations | None = None,
) -> list[Piece] | None:
    """Return what follows the clock in texts of several runs; None if anything that differs does not.

    Args:
        texts: with the clock of each run.
        name: of the place; empty if it has none of its own.
        header: the names of the columns, if the texts are lines of a table.
        named: something else says that durations may be here.
        next_to_time: the number right behind the time that lines begin with goes with it (``goes_with_time``).
        trained: the parameters after each step of training are known, and equal whatever the clock: then a duration
            needs no name if it is one reading of a clock less another one, nor does a rate.
        alone: by the program's sources what has no name, and is one reading less another one, is a duration.
        draws: those that are identities by a name elsewhere (``identities_in``).
        durations: what numbers may be made of.
    """
    split = [(when, *_split(text)) for when, text in texts]
    if durations is not None and any(token.kind == "negative" for _, _, tokens in split for token in tokens):
        split = [(when, *_split(text, signed=True)) for when, text in texts]
    if len({skeleton for _, skeleton, _ in split}) > 1 or len({len(tokens) for _, _, tokens in split}) > 1:
        return None
    found = []
    for at in range(len(split[0][2])):
        tokens = [(when, tokens[at]) for when, _, tokens in split]
        if len({token.text for _, token in tokens}) == 1:
            continue
        kind = (
            _of_tokens(tokens, name)
            or _rate_by_unit(texts[0][1], tokens, header)
            or _to_come(texts[0][1], tokens, name, header)
        )
        mentioned = kind == "identity" and _draw_of(tokens) in draws
        # An identity has a name that says so (``may_be_identity``): "batch" is that of one too.
        if _names_result(tokens[0][1], name) and not (kind == "identity" and not names_result(tokens[0][1].before)):
            return None
        if kind is None and _is_deviation(texts[0][1], tokens, name, header):
            found.append(Piece(where="", kind="duration"))
            continue
        aside = next_to_time and kind == "duration" and _next_to_time(split[0][2], texts[0][1]) == at
        aside = aside or (trained and _needs_no_name(kind, tokens))
        aside = aside or (alone and _is_alone(kind, texts[0][1], tokens, name, header))
        aside = aside or (mentioned and _may_be_known(texts[0][1], tokens, name, header))
        says = named or aside or kind in SURE or _is_named(texts[0][1], tokens[0][1], name, header, kind or "duration")
        if kind is None or not says:
            kind = _made_of(durations, texts[0][1], tokens, name, header, says=says) if durations is not None else None
            if kind is None:
                return None
        found.append(Piece(where="", kind=kind))
    return found


def _to_come(text: str, tokens: Sequence[tuple[When, _Token]], name: str, header: Header | None) -> Kind | None:
    """Return that tokens are a date if they are moments to come by their name, as many whole minutes from one on."""
    token = tokens[0][1]
    named = own_name(token.before) or (header.column(text, token.at) if header is not None else "") or place_name(name)
    if _UNTIL.search(named.replace("_", " ")) is None or {each.kind for _, each in tokens} != {"number"}:
        return None
    values = [(when, number_of(each.text)) for when, each in tokens]
    return "date" if is_moment_to_come(values) else None


def _rate_by_unit(text: str, tokens: Sequence[tuple[When, _Token]], header: Header | None) -> Kind | None:
    """Return that tokens are a rate if they are numbers with the unit of one, or its column; None if they are not."""
    column = header.column(text, tokens[0][1].at) if header is not None else ""
    of_rate = _OF_RATE.fullmatch(column) is not None
    if not all(token.kind == "number" and (of_rate or has_unit_of_rate(token.after)) for _, token in tokens):
        return None
    values = [(when, number_of(token.text)) for when, token in tokens]
    whole = all(token.text.replace(",", "").isdecimal() for _, token in tokens)
    return "rate" if (whole and is_whole_rate(values)) or goes_as_rate(values) else None


def _made_of(
    durations: Durations,
    text: str,
    tokens: Sequence[tuple[When, _Token]],
    name: str,
    header: Header | None,
    *,
    says: bool,
) -> Kind | None:
    """Return what is made of durations: one of them with fewer digits, under the name of a time, or a ratio."""
    values = [(when, number_of(token.text)) for when, token in tokens if token.kind in ("number", "negative")]
    if len(values) < len(tokens):
        return None
    if says and tokens[0][1].kind == "number" and durations.round(values):
        return "duration"
    return "ratio" if _may_be_ratio(text, tokens, name, header) and durations.explain(values) else None


def numbers_in(texts: Sequence[str]) -> list[list[Number]]:
    """Return the numbers in texts that are alike but for these: of each number what it is in each text."""
    split = [_split(text, signed=True) for text in texts]
    if len({between for between, _ in split}) > 1:
        return []
    return [
        [number_of(token.text) for token in tokens]
        for tokens in zip(*(tokens for _, tokens in split), strict=True)
        if {token.kind for token in tokens} == {"number"}
    ]


def identities_in(texts: Sequence[tuple[When, str]], name: str, header: Header | None) -> Iterator[str]:
    """Yield the draws that are identities by their names in texts of several runs."""
    split = [(when, *_split(text)) for when, text in texts]
    if len({skeleton for _, skeleton, _ in split}) != 1:
        return
    for at, token in enumerate(split[0][2]):
        tokens = [(when, found[at]) for when, _, found in split]
        drawn = token.kind == "drawn" and _of_tokens(tokens) == "identity"
        if drawn and _is_named(texts[0][1], token, name, header, "identity"):
            yield _draw_of(tokens)


def _draw_of(tokens: Sequence[tuple[When, _Token]]) -> str:
    """Return the number of the draw of marks; empty if they are none."""
    return next(
        (found[1] for when, token in tokens if isinstance(when, Setting) and (found := _DRAW.match(token.text))), ""
    )


def _may_be_known(text: str, tokens: Sequence[tuple[When, _Token]], name: str, header: Header | None) -> bool:
    """Whether the name of a draw that is an identity elsewhere, if it has one here, is that of no result."""
    token = tokens[0][1]
    column = header.column(text, token.at) if header is not None else ""
    return all(not each or may_be_mentioned(each) for each in (own_name(token.before), column, place_name(name)))


Whole = tuple[str, tuple[int, ...]]
"""The word before a number, and what it is in each run, rounded to a whole one."""
_WORD = lazy(r"[^\W\d]+")


def rates_in(texts: Sequence[tuple[When, str]], name: str) -> Iterator[Whole]:
    """Yield the rates in texts of several runs all of which follow the clock (``of_texts``)."""
    split = [(when, _split(text)[1]) for when, text in texts]
    for at in range(len(split[0][1])):
        tokens = [(when, tokens[at]) for when, tokens in split]
        if {token.kind for _, token in tokens} == {"number"} and _of_tokens(tokens) == "rate":
            yield _word_before(tokens[0][1], name), tuple(round(number_of(token.text).value) for _, token in tokens)


def whole_numbers(texts: Sequence[tuple[When, str]], name: str) -> list[Whole] | None:
    """Return the whole numbers in which texts of several runs differ; None if they differ in anything else.

    Those that are the same as a rate of the same name in each run, but for its fraction, are that rate: rounded so far
    it shows no fraction of a tick (``clockwork``), and nothing else distinguishes it from a count within a limit.
    """
    split = [_split(text) for _, text in texts]
    if len({(between, len(tokens)) for between, tokens in split}) > 1:
        return None
    found = []
    for at, first in enumerate(split[0][1]):
        tokens = [tokens[at] for _, tokens in split]
        if len({token.text for token in tokens}) == 1:
            continue
        if not all(map(_is_whole, tokens)) or len({token.text for token in tokens}) < _LINES:
            return None
        found.append((_word_before(first, name), tuple(int(token.text) for token in tokens)))
    return found


def _word_before(token: _Token, name: str) -> str:
    """Return the last word before a token, or that of the place's name, in small letters; empty if there is none."""
    words = _WORD.findall(token.before) or _WORD.findall(name)
    return words[-1].lower() if words else ""


def _said_before(token: _Token) -> str:
    """Return what is before a token that may name it; nothing behind another number and what that counts."""
    return "" if _CLAUSE.search(token.before) is not None else token.before


def _names_result(token: _Token, name: str) -> bool:
    """Whether a token has the name of something that is no time, or its place has where it has none."""
    before = _said_before(token)
    return names_no_time(before if before.strip(" \t'\"[(") else f"{name} ")


def _needs_no_name(kind: Kind | None, tokens: Sequence[tuple[When, _Token]]) -> bool:
    """Whether a number is a rate, or what a stopwatch shows, and nothing that was made of it."""
    if kind != "duration":
        return kind == "rate"
    numbers = [(when, number_of(token.text)) for when, token in tokens if token.kind == "number"]
    return len(numbers) == len(tokens) and is_stopwatch(numbers)


def _may_be_ratio(text: str, tokens: Sequence[tuple[When, _Token]], name: str, header: Header | None) -> bool:
    """Whether numbers have a unit of ratios, or a name that allows for one: a weight may be a ratio too."""
    token = tokens[0][1]
    if not {"number", "negative"}.issuperset(token.kind for _, token in tokens):
        return False
    if names_no_time(token.before) or names_no_time(f"{place_name(name)} "):
        return False
    shares = header is not None and header.column(text, token.at) == "%"
    return shares or _OF_RATIO.match(token.after) is not None or _is_named(text, token, name, header, "ratio")


def _is_deviation(text: str, tokens: Sequence[tuple[When, _Token]], name: str, header: Header | None) -> bool:
    """Whether numbers are a deviation of durations by their name, and by what they are with each clock."""
    token = tokens[0][1]
    if {token.kind for _, token in tokens} != {"number"}:
        return False
    column = header.column(text, token.at) if header is not None else ""
    named = own_name(token.before) or column or place_name(name)
    return names_deviation(f"{named} ") and is_deviation([(when, number_of(token.text)) for when, token in tokens])


def _is_alone(
    kind: Kind | None, text: str, tokens: Sequence[tuple[When, _Token]], name: str, header: Header | None
) -> bool:
    """Whether a number is what a stopwatch shows, and neither its text nor its place, an item of a list, names it."""
    if not name or _OF_LINE.match(name) is not None:
        return False
    token = tokens[0][1]
    column = header.column(text, token.at) if header is not None else ""
    named = own_name(token.before) or column or place_name(name)
    return kind == "duration" and (not named or says_nothing(named)) and _needs_no_name(kind, tokens)


def _is_named(text: str, token: _Token, name: str, header: Header | None, kind: Kind) -> bool:
    """Whether something says that a number may be a duration or a rate, or what else it is."""
    if token.kind == "clock":
        return True
    column = header.column(text, token.at) if header is not None else ""
    if kind == "identity":
        return may_be_identity(token.before, (column, name))
    if kind == "memory":
        return may_be_memory(token.before, token.after, (column, name))
    return may_be_time(_said_before(token), token.after, (column, name))


def goes_with_time(lines: Sequence[str]) -> bool:
    """Whether lines begin with a time, and the number right behind it is the same time since another moment.

    As ``%(asctime)s %(relativeCreated)d`` of ``logging``: between any two lines as many seconds, or milliseconds, have
    passed by the number as by the time. Three lines at different times are the least that shows it.

    Args:
        lines: of one run with a fixed clock.
    """
    found: list[tuple[Number, Number]] = []
    for line in lines:
        _, tokens = _split(line)
        at = _next_to_time(tokens, line)
        if at is None:
            continue
        time = _seconds(tokens[at - 1])
        if time is None:
            return False
        found.append((time, number_of(tokens[at].text)))
    if len({number.value for _, number in found}) < _LINES:
        return False
    return any(all(_passed_alike(found[0], each, unit) for each in found[1:]) for unit in (1, 1000))


def _passed_alike(one: tuple[Number, Number], other: tuple[Number, Number], unit: int) -> bool:
    by_time = (other[0].value - one[0].value) * unit
    off = (one[0].off + other[0].off) * unit + one[1].off + other[1].off
    return abs(other[1].value - one[1].value - by_time) <= off


def _next_to_time(tokens: Sequence[_Token], line: str) -> int | None:
    """Return the place of the number right behind the time that a line begins with; None if there is none."""
    if len(tokens) < 2 or tokens[0].kind not in ("iso", "packed", "ctime", "mail", "short", "clock"):
        return None
    first, second = tokens[:2]
    between = line[first.at + len(first.text) : second.at]
    plain = second.kind == "number" and not line[: first.at].strip(" [(") and not between.strip(" [](),|:;\t-")
    return 1 if plain and between else None


def _seconds(token: _Token) -> Number | None:
    """Return the seconds of a date or a time of day; their beginning is of no interest."""
    if token.kind == "clock":
        return _clock(token.text)
    return (
        _clock(token.text.split()[-1].partition("T")[2] or token.text.split()[-1])
        if token.kind == "short"
        else _date(token)
    )


def skeleton(text: str) -> str:
    """Return what a text has between its dates and numbers."""
    return _split(text)[0]


_OWN_MARKS = frozenset(("clock", "number", "negative", "weekday", "drawn", "process"))


def _split(text: str, *, signed: bool = False) -> tuple[str, list[_Token]]:
    """Return what is between the tokens of a text, and these.

    ``signed``: a sign is a part of its number, and negative numbers are not distinguished from others in between.
    """
    parts, tokens, place = [], [], 0
    for found in _TOKEN.finditer(text):
        begin, end = found.span()
        kind = str(found.lastgroup)
        if kind == "number" and _MINUS.match(text, max(begin - 1, 0)) is not None:
            kind = "negative"  # no time
        mark = kind if kind in _OWN_MARKS else "date"
        if signed and kind in ("number", "negative"):
            mark = "number"
            begin -= kind == "negative" or (begin > 0 and _PLUS.match(text, begin - 1) is not None)
        parts.append(text[place:begin])
        parts.append(f"\0{mark}\0")
        tokens.append(_Token(kind, text[begin:end], text[max(0, begin - NAME) : begin], text[end : end + NAME], begin))
        place = found.end()
    parts.append(text[place:])
    return _BLANKS.sub(r"\1", _AROUND.sub(r"\1", _SPACES.sub(" ", "".join(parts)))), tokens


def _of_tokens(tokens: Sequence[tuple[When, _Token]], name: str = "") -> Kind | None:
    """Return what a token is that follows the clock; ``name``: of its place."""
    kinds = {token.kind for _, token in tokens}
    if "negative" in kinds:
        return None
    if kinds == {"drawn"}:
        return "identity" if _is_identity(tokens) else None
    if kinds == {"number"}:
        exact = max(_digits(token.text) for _, token in tokens) >= _EXACT
        numbers = [(when, number_of(token.text, exact=exact)) for when, token in tokens]
        said = own_name(tokens[0][1].before) or place_name(name)
        return kind_of_numbers(numbers, estimated=_ESTIMATED.search(said) is not None)
    if kinds == {"clock"}:
        times = [(when, _clock(token.text)) for when, token in tokens]
        hours = [(when, number) for when, token in tokens if (number := _hours(token.text)) is not None]
        if is_time_of_day(times) or (len(hours) == len(tokens) and is_time_of_day(hours)):
            return "date"
        return kind_of_numbers(times)
    if kinds == {"weekday"}:
        return "date" if _are_weekdays(tokens) else None
    if len(kinds) > 1:
        return None
    if kinds == {"short"}:
        return (
            "date"
            if any(_are_dates([(when, _short(token, order)) for when, token in tokens]) for order in _ORDERS)
            else None
        )
    if kinds == {"parted"}:
        orders = ([(when, _parted(token, first=first)) for when, token in tokens] for first in ("day", "month"))
        return "date" if any(map(_are_dates, orders)) else None
    dates = [(when, _date(token)) for when, token in tokens]
    return "date" if _are_dates(dates) else None


def _is_identity(tokens: Sequence[tuple[When, _Token]]) -> bool:
    """Whether marks of what was drawn are of one draw in all settings, and of as many digits with real entropy."""
    marks = [(when, *token.text.strip("⟨⟩").split()[1:]) for when, token in tokens]
    fixed = {(draw, size) for when, draw, size in marks if not isinstance(when, Span)}
    real = {(draw, size) for when, draw, size in marks if isinstance(when, Span)}
    return (
        len(fixed) == 1
        and {("?", size) for _, size in fixed} == real
        and ("?", "") not in fixed
        and not any(draw == "?" for draw, _ in fixed)
    )


_HEX = lazy(
    r"(?<![0-9A-Za-z.])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=\d{0,60}[a-f])(?=[a-f]{0,60}\d)[0-9a-f]{8,128})"
    r"(?![0-9A-Za-z.]|[-+]\d)"
)
"""What may be drawn: at least eight digits, letters among them, or a UUID."""
_KNOWN = lazy(_HEX.pattern.replace(r"(?=\d{0,60}[a-f])(?=[a-f]{0,60}\d)", ""))
"""The same where it is known what was drawn: one name in forty has eight figures alone."""
_FIGURES = lazy(r"(?<![0-9A-Za-z.])[0-9]{8,128}(?![0-9A-Za-z.]|[-+]\d)")
_MARK = lazy(r"⟨drawn \d+ (\d+)⟩")
_DRAW = lazy(r"⟨drawn (\d+) \d+⟩")


def unknown_digits(text: str, drawn: Sequence[str]) -> set[str]:
    """Return the hexadecimal words of a text that are not what was drawn."""
    return {found[0] for found in _HEX.finditer(text) if _draw(found[0], drawn) is None}


def may_have_draws(text: str) -> bool:
    """Whether a text has hexadecimal words that may have been drawn."""
    return _HEX.search(text) is not None


def mark_drawn(text: str, drawn: Sequence[str] | None, known: frozenset[str]) -> str:
    """Put a mark in the place of each hexadecimal word that was drawn from the system's entropy.

    Args:
        text: of a place.
        drawn: what was drawn in this run, in its order; None for real entropy: then all words that are not ``known``.
        known: words that are not drawn, as runs with fixed entropy show.
    """

    def marked(found: re.Match[str]) -> str:
        word = found[0]
        draw = ("?" if word not in known else None) if drawn is None else _draw(word, drawn)
        return word if draw is None else f"⟨drawn {draw} {len(word)}⟩"

    pattern = _HEX if drawn is None else _KNOWN
    return pattern.sub(marked, text) if pattern.search(text) is not None else text


def mark_figures(text: str, like: str) -> str:
    """Put a mark in the place of a name of figures alone where another run has one that is known to be drawn.

    Args:
        text: of a run with real entropy.
        like: the same place with fixed entropy, with marks.
    """
    sizes = {int(found[1]) for found in _MARK.finditer(like)}
    if not sizes or skeleton(text) == skeleton(like):
        return text
    marked = _FIGURES.sub(lambda found: f"⟨drawn ? {len(found[0])}⟩" if len(found[0]) in sizes else found[0], text)
    return marked if skeleton(marked) == skeleton(like) else text


def in_order(runs: Sequence[tuple[When, Sequence[str]]]) -> list[list[str]]:
    """Return the lines of runs in an order that does not depend on the one in which they came.

    They are ordered by what is between their numbers, and then, if more of them are equal so, by their whole numbers.
    Those of processes are left out of that: such that all lines of a form have a number of their own there
    (``mark_processes``), in all runs that have some.

    Args:
        runs: the clock of each run, and its lines.
    """
    split = [
        (when, [(shape, tokens, text) for text in lines for shape, tokens in [_split(text)]]) for when, lines in runs
    ]
    processes: dict[str, set[int]] = {}
    for when, lines in split:
        if isinstance(when, Setting) and when.processes:
            for shape, tokens, _ in lines:
                own = {at for at, token in enumerate(tokens) if _is_own(when, token)}
                processes[shape] = processes.get(shape, own) & own

    def others(line: _Line) -> list[_Token]:
        shape, tokens, _ = line
        return [token for at, token in enumerate(tokens) if at not in processes.get(shape, ())]

    def by_shape(line: _Line) -> tuple[str, list[int]]:
        return line[0], []

    def by_numbers(line: _Line) -> tuple[str, list[int]]:
        return line[0], [int(token.text) for token in others(line) if _is_whole(token)]

    def different(order: Sequence[Sequence[_Line]]) -> int:
        texts = ([(line[0], *(token.text for token in others(line))) for line in lines] for lines in order)
        return sum(len({*each}) > 1 for each in zip_longest(*texts))

    orders = [[sorted(lines, key=key) for _, lines in split] for key in (by_shape, by_numbers)]
    return [[text for *_, text in lines] for lines in min(orders, key=different)]


_Line = tuple[str, list[_Token], str]
"""What is between the tokens of a line, these, and the line."""


def _is_whole(token: _Token) -> bool:
    return token.kind == "number" and token.text.isdecimal()


def _is_own(when: Setting, token: _Token) -> bool:
    """Whether a number is one of the processes that a run has to itself."""
    return _is_whole(token) and when.processes <= int(token.text) < when.processes + PROCESSES


_ONE_NUMBER = lazy(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def are_no_processes(values: Sequence[str]) -> bool:
    """Whether values are one number each, not all of which may be that of a process: nothing else need be looked at."""
    if not all(map(_ONE_NUMBER.fullmatch, values)):
        return False
    return not all(value.isdecimal() and len(value) < _DIGITS_OF_ALL and int(value) <= _LARGEST for value in values)


def may_have_processes(texts: Sequence[tuple[When, str]]) -> bool:
    """Whether texts differ in a whole number that may be that of a process.

    Something next to it says so, or it is one number with the real clock and another one close to that with a fixed
    one: what ends such a run in time takes a number for itself.

    Args:
        texts: with the clock of each run.
    """
    at = _whole_numbers(texts)
    if not at or any(_OF_PROCESSES.search(text) for _, text in texts):
        return bool(at)
    values = [
        (isinstance(when, Setting), [int(tokens[each].text) for each in at])
        for when, text in texts
        for tokens in (_split(text)[1],)
    ]
    real, fixed = ({tuple(numbers) for known, numbers in values if known is kind} for kind in (False, True))
    return len(real) == len(fixed) == 1 and all(
        0 < abs(one - other) < _NEAR for one, other in zip(*real, *fixed, strict=True)
    )


def mark_processes(texts: Sequence[tuple[When, str]], name: str) -> list[str]:
    """Put marks in the place of numbers of processes: they are among those that a run had to itself.

    In each run with a fixed clock they are: of those that are elsewhere in another setting, no number that has another
    origin is. Texts are returned as they are if there is no such number.

    Args:
        texts: of one place, with the clock of each run; some have numbers of their own.
        name: of the place.
    """
    marked = [text for _, text in texts]
    for at in _whole_numbers(texts)[::-1]:
        tokens = [(when, _split(text)[1][at]) for when, text in texts]
        own = [_is_own(when, token) for when, token in tokens if isinstance(when, Setting)]
        if own and all(own) and not _names_result(tokens[0][1], name):
            marked = [
                f"{text[: token.at]}{_PROCESS}{text[token.at + len(token.text) :]}"
                for text, (_, token) in zip(marked, tokens, strict=True)
            ]
    return marked


def may_have_ports(texts: Sequence[tuple[When, str]]) -> bool:
    """Whether texts of one place differ in a number that the system may have chosen as a port."""
    return any(
        all(int(_split(text)[1][at].text) in _EPHEMERAL for when, text in texts if isinstance(when, Span))
        for at in _whole_numbers(texts)
    )


def mark_ports(texts: Sequence[tuple[When, str]], name: str) -> list[str]:
    """Put marks in the place of ports that the system chose: they are among those that a run had to itself.

    Texts are returned as they are if there is no such number, or something says that it is a result's.
    """
    marked = [text for _, text in texts]
    for at in _whole_numbers(texts)[::-1]:
        tokens = [(when, _split(text)[1][at]) for when, text in texts]
        own = [_is_port(when, int(token.text)) for when, token in tokens]
        if all(own) and not _names_result(tokens[0][1], name):
            marked = [
                f"{text[: token.at]}{_PORT}{text[token.at + len(token.text) :]}"
                for text, (_, token) in zip(marked, tokens, strict=True)
            ]
    return marked


def _is_port(when: When, number: int) -> bool:
    """Whether a number is one of the ports that a run had to itself, or may be one that the system chose."""
    if isinstance(when, Span):
        return number in _EPHEMERAL
    return when.port > 0 and 0 <= number - when.port < PORTS_OF_RUN


def mark_workers(texts: Sequence[tuple[When, str]], name: str) -> list[str]:
    """Put a mark in the place of a worker's name, where the name of the place says that it is one.

    Workers of a pool are numbered: ``trial_0``, ``sim-3``. Texts are returned as they are if these are no such names.
    """
    found = [_WORKER.fullmatch(text) for _, text in texts]
    known = {each[1] for each in found if each is not None}
    named = _OF_WORKERS.search(place_name(name)) is not None and _CHOSEN.search(name) is None
    if None in found or len(known) > 1 or not named:
        return [text for _, text in texts]
    return [_PROCESS for _ in texts]


def _whole_numbers(texts: Sequence[tuple[When | None, str]]) -> list[int]:
    """Return the places, among the tokens of texts that are alike, of whole numbers that differ, as processes' may."""
    split = [_split(text) for _, text in texts]
    if len({shape for shape, _ in split}) != 1 or len({len(tokens) for _, tokens in split}) > 1:
        return []
    return [
        at
        for at in range(len(split[0][1]))
        if len({tokens[at].text for _, tokens in split}) > 1
        and all(_is_whole(tokens[at]) and 1 < int(tokens[at].text) <= _LARGEST for _, tokens in split)
    ]


_NEAR = 8
"""Numbers that are used up for what ends a run in time, at most."""
_LARGEST = 1 << 22
"""Of the numbers that Linux gives processes (``PID_MAX_LIMIT``)."""
_UUID, _VERSION = 32, 12
"""Hexadecimal digits of a UUID, and of what is before its version: ``uuid4().hex[:20]`` has that too."""
_DIGITS_OF_ALL = 20
"""More digits than Python need convert; zeros in front are few."""


def _draw(word: str, drawn: Sequence[str]) -> int | None:
    """Return the number of the draw whose digits, or first ones, a word is; a UUID has its version among them."""
    digits = word.replace("-", "")
    for number, each in enumerate(drawn):
        if each.startswith(digits) or (
            len(each) == _UUID and len(digits) > _VERSION and of_uuid(each).startswith(digits)
        ):
            return number
    return None


def of_uuid(digits: str) -> str:
    """Return sixteen bytes as ``uuid.uuid4`` shows them."""
    return f"{digits[:12]}4{digits[13:16]}{int(digits[16], 16) & 3 | 8:x}{digits[17:]}"


def _are_dates(dates: Sequence[tuple[When, Number | None]]) -> bool:
    values = [(when, number) for when, number in dates if number is not None]
    return len(values) == len(dates) and any(is_date(values, zone) for zone in _ZONES)


def _short(token: _Token, order: str) -> Number | None:
    """Return the seconds since 1970 of a date whose year has two digits; ``order`` of its parts: ``dmy``."""
    day, clock = token.text[:8], token.text[8:].strip(" T")
    parts = dict(zip(order, (day[:2], day[3:5], day[6:]), strict=True))
    return _date(_Token("iso", f"20{parts['y']}-{parts['m']}-{parts['d']} {clock}", "", "", token.at))


def _parted(token: _Token, *, first: str) -> Number | None:
    """Return the seconds since 1970 of a date whose year is last; ``first``: whether a day or a month is first."""
    found = _PARTED.match(token.text)
    if found is None:
        return None
    day, month = (found[1], found[2]) if first == "day" else (found[2], found[1])
    clock = found[4].strip(" T,")
    return _date(_Token("iso", f"{found[3]}-{month:0>2}-{day:0>2} {clock}", "", "", token.at))


def _digits(text: str) -> int:
    """Return how many digits of a number count; none of a whole number."""
    mantissa = text.lower().partition("e")[0]
    return len(mantissa.replace(".", "").lstrip("0")) if "." in mantissa else 0


def number_of(text: str, *, exact: bool = False) -> Number:
    """Return a decimal number as it is written.

    Args:
        text: the number.
        exact: it has all digits that a floating-point number of double precision needs, as others of its place show.
    """
    text = text.replace(",", "")  # between thousands
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    unit = Fraction(10) ** (exponent if isinstance(exponent, int) else 0)
    whole = text.isdecimal()
    if exact and not whole:
        return Number(Fraction(number), Fraction(0))
    return Number(Fraction(number), unit if whole else unit * Fraction(51, 100), whole)


def _clock(text: str) -> Number:
    """Return hours, minutes and seconds as seconds; two numbers are minutes and seconds."""
    days, _, rest = text.rpartition(", ")
    *above, last = rest.replace(",", ".").split(":")
    seconds = number_of(last)
    total = seconds.value + sum(int(each) * 60**power for power, each in enumerate(reversed(above), 1))
    total += int(days.split()[0]) * 86400 if days else 0
    unit = seconds.off if seconds.whole else seconds.off * Fraction(100, 51)
    return Number(total, unit)


def _hours(text: str) -> Number | None:
    """Return hours and minutes of a day as seconds, those of the minute's middle; None if it is something else."""
    hour, _, minute = text.partition(":")
    if not (hour.isdecimal() and len(minute) == 2 and minute.isdecimal() and int(hour) < 24 and int(minute) < 60):
        return None
    return Number(Fraction(int(hour) * 3600 + int(minute) * 60 + 30), Fraction(30))


def _are_weekdays(tokens: Sequence[tuple[When, _Token]]) -> bool:
    """Whether names of days are those on which runs were; with fixed clocks a run may go on for some days."""
    for when, token in tokens:
        if isinstance(when, Span):
            days = {_weekday(when.begin - 1), _weekday(when.end + 1)}
        else:
            days = {_weekday(when.start / 1e9 + passed) for passed in (0, when.scale * _QUESTIONS)}
        if token.text[:3].lower() not in days:
            return False
    return True


def _weekday(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%a").lower()


_PARTS = lazy(r"(?P<year>20\d\d)[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)")
_NAMED = lazy(rf"(?P<month>{_MONTH})\s+(?P<day>\d\d?)|(?P<first>\d\d?)[ -](?P<second>{_MONTH})", re.IGNORECASE)
_OF_DAY = lazy(r"(\d{1,2})[:-](\d\d)[:-](\d\d)(?:[.,](\d+))?$")
_OFFSET = lazy(r"\s?([+-])(\d\d):?(\d\d)$|\s?(?:Z|UTC|GMT)$")


def _date(token: _Token) -> Number | None:
    """Return the seconds since 1970 of a date; one without a time of day is off by a day at most."""
    text, shift = token.text, 0
    if token.kind == "mail" and "/" in text:  # the Common Log Format
        text = _COLON.sub(" ", text.replace("/", " "), count=1)
    if token.kind == "packed":
        digits = re.sub(r"\D", "", text)
        text = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}:{digits[12:]}"
    elif (zone := _OFFSET.search(text)) is not None and (text[: zone.start()].count(":") >= 2 or zone[1] is None):
        text = text[: zone.start()]
        if zone[1]:
            shift = (int(zone[2]) * 3600 + int(zone[3]) * 60) * (-1 if zone[1] == "-" else 1)
    try:
        day, rest = _day(text)
    except ValueError:
        return None
    clock = _OF_DAY.search(rest.strip(" T_"))
    base = Fraction(int(day.timestamp()) - shift)
    if clock is None:
        return Number(base + 43200, Fraction(43200)) if not re.search(r"\d:\d", rest) else None
    hours, minutes, seconds = (int(each) for each in clock.groups()[:3])
    fraction = clock[4] or ""
    base += hours * 3600 + minutes * 60 + seconds + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else 0)
    return Number(base, Fraction(1, 10 ** len(fraction)))


def _day(text: str) -> tuple[datetime, str]:
    """Return the day of a date and what else is in the text; raises ``ValueError`` if there is no such day."""
    found = _PARTS.search(text)
    if found is not None:
        day = datetime(int(found["year"]), int(found["month"]), int(found["day"]), tzinfo=timezone.utc)
        return day, text[found.end() :]
    year, named = re.search(r"(?<!\d)20\d\d(?!\d)", text), _NAMED.search(text)
    if year is None or named is None:
        raise ValueError("no date")
    month = _MONTHS.index((named["month"] or named["second"])[:3].lower()) + 1
    day = datetime(int(year[0]), month, int(named["day"] or named["first"]), tzinfo=timezone.utc)
    rest = re.search(_TIME, text)
    return day + timedelta(0), rest[0] if rest else ""
