"""Which measurements are so by a name, or by a unit alone, that a result may have as well: ``half-life 3.5123 s``.

A text says what a number is only as well as its author chose the words. Where the words leave a doubt and the number is
written with enough digits, experiments decide (``operations.doubtful``): what a clock measures is another number in
each run.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, timezone
from typing import NamedTuple

from envbuild.core.patterns import lazy
from envbuild.record.measurements import are_ends, kind_of, may_be_simulated, name_leaves_doubt, names_measuring
from envbuild.verification.masking.masks import Masks, moment_of
from envbuild.verification.masking.rules import DATETIME, OF_IPYTHON, shown_moment

MEASURED = frozenset(("times", "rates"))
"""What is masked in lines of which experiments are made."""
_DIGITS = 4
"""Significant digits from which on two measured times are hardly ever the same number."""
_TINY = lazy(r"0?\.0000|[\d.]+e-(?:0?[5-9]|[1-9]\d)", re.IGNORECASE)
_DAY = r"20\d\d-\d\d-\d\d"
_OTHER_DAY = (
    r"\d{1,2}/\d{1,2}/20\d\d|20\d\d/\d\d/\d\d|\d{1,2}\.\d{1,2}\.20\d\d"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\s+\d{1,2},?\s+20\d\d"
)
_NUMBER = lazy(
    rf"(?<![\w.:/-])(?:{_DAY}(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)?|{_OTHER_DAY}|\d{{1,2}}:\d\d(?::\d\d(?:\.\d+)?)?"
    r"|(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?)(?![:/-]?\d)",
    re.IGNORECASE,
)
_PLAIN = lazy(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_AMOUNTS = lazy(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s?(?:([kmgt]?)i?b(?:ytes)?\b|((?:of|/)\s?(?=\d)))?", re.IGNORECASE)
_ONLY_DAY = lazy(_DAY)
_OF_DAY = lazy(r"\d{1,2}:\d\d:\d\d(?:\.\d+)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED = rf"(?:{'|'.join(_MONTHS)})"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?!\d)"
_DATED = lazy(
    r"(?<![\w.:/-])(?:"
    rf"(?:(?P<iso>20\d\d[-/.]\d\d[-/.]\d\d)|\d\d?[./-]\d\d?[./-]20\d\d"
    rf"|{_NAMED}[a-z]*\s+\d\d?,?\s+20\d\d)"
    rf"(?:[T_]|,? at |[ ,]{{1,2}})(?P<clock>{_CLOCK})"
    rf"|{_NAMED}[a-z]*\s+\d\d?\s+(?P<of_ctime>{_CLOCK})\s+20\d\d)",
    re.IGNORECASE,
)
"""A date with its time of day, to the second at least."""
_SHOWN = lazy(DATETIME)
_SHORT = 90.0
"""Seconds of a run that is so short that no result happens to be a moment of it."""
_OF_TIMES = frozenset((
    "at", "on", "by", "of", "the", "is", "was", "from", "to", "since", "until", "last", "first", "now", "today",
    "date", "datetime", "timestamp", "utc", "created", "changed", "modified", "saved", "updated", "generated",
    "written", "logged", "log", "starting", "finished", "finish", "completed", "done", "began", "begins", "ended",
    "run", "runs",
))  # fmt: skip
"""Words before dates and times of day of when something was done, beside those of measuring."""
_DONE = frozenset((
    "built", "building", "calculated", "calculating", "compiled", "compiling", "complete", "completed", "computed",
    "computing", "created", "creating", "decoded", "done", "downloaded", "downloading", "encoded", "evaluated",
    "evaluating", "evaluation", "executed", "executing", "exported", "extracted", "finished", "fit", "fitted",
    "fitting", "generated", "generating", "imported", "importing", "indexed", "inference", "initialised",
    "initialized", "initializing", "loaded", "loading", "optimized", "optimizing", "parsed", "prepared", "preparing",
    "preprocessed", "preprocessing", "processed", "processing", "ran", "read", "reading", "restored", "running",
    "sampled", "sampling", "saved", "saving", "searched", "setup", "solved", "sorted", "tested", "testing",
    "tokenized", "trained", "training", "transformed", "tuned", "updated", "validated", "validating", "validation",
    "warmup", "writing", "written", "wrote",
))  # fmt: skip
"""What programs say they have done, or do, in so many seconds."""
_STEPS = frozenset((
    "batch", "batches", "episode", "episodes", "epoch", "epochs", "eval", "fold", "folds", "generation",
    "generations", "it", "iter", "iteration", "iterations", "iters", "its", "job", "jobs", "minibatch", "rank",
    "rollout", "rollouts", "round", "rounds", "step", "steps", "task", "tasks", "train", "trial", "trials", "update",
    "updates", "val", "worker",
))  # fmt: skip
"""What lines of logs are of: a time in them that no other word is next to is that of such a step."""
_NEUTRAL = frozenset((
    "a", "all", "an", "and", "call", "critical", "debug", "each", "error", "everything", "experiment", "for", "info",
    "it", "main", "model", "notebook", "one", "pipeline", "program", "root", "script", "that", "this", "warning",
    "which", "whole",
))  # fmt: skip
"""Words in sentences about a program's own work."""
_CLAUSES = lazy(r"[,;|()\[\]{}\t]|\d[\d.,:%/e+-]*|\. ")
_SENTENCES = lazy(r"[,;|()\[\]{}\t:]|\d*\.\d+|\. ")
"""Ends of what a number may be said of in a whole sentence: a whole number in it is a part of it."""
_WORD = lazy(r"[a-z]+", re.IGNORECASE)
_DECISIVE = frozenset(("elapsed", "runtime", "walltime", "eta", "uptime", "wall", "cpu"))
"""Words right before a number that is measured."""
_LINKS = frozenset(("took", "takes", "taking", "in", "after", "within"))
"""Words between what goes on and how long that goes on: both may be of the program or of what it computes."""
_BARE = frozenset(("time", "times", "duration", "durations", "seconds", "secs", "sec", "s", "ms", "is", "was", "the"))
"""Words of quantities that data have too."""
_MOMENTS = frozenset(("start", "end", "begin", "finish"))
"""Of something: a program logs when it begins as a date, and how long it took."""
_UNIT = lazy(r"\s?(?:[nuµm]?s|secs?|seconds?|min|mins|minutes?|h|hours?)(?![a-z])(?!\s?/)", re.IGNORECASE)
_RATE = lazy(r"\s?(?:effective )?[a-zµ]+\s?(?:/|\bper\b)\s?[a-z]", re.IGNORECASE)
"""Behind a number; gensim counts words that are not left out as ``effective words/s``."""
_IN_SECONDS = (
    (lazy(r"\s?ns(?![a-z])", re.IGNORECASE), 1e-9),
    (lazy(r"\s?[uµ]s(?![a-z])", re.IGNORECASE), 1e-6),
    (lazy(r"\s?(?:ms|msecs?|milliseconds?)(?![a-z])", re.IGNORECASE), 1e-3),
    (lazy(r"\s?min(?:s|utes?)?(?![a-z])", re.IGNORECASE), 60.0),
    (lazy(r"\s?h(?:ours?)?(?![a-z])", re.IGNORECASE), 3600.0),
)
"""Units at most as long as these; a number without one is of seconds."""
_SLACK, _ESTIMATE = 3.0, 60.0
"""Seconds by which a time may be longer than the run that measured it, and the smallest estimate that is too long."""
_CHEAP = 20.0
"""Seconds of a run that is short enough for experiments on a bare ``total time``."""
_IN_PROSE = lazy(r" per sec(?:ond)?\s*[:=]\s*\Z", re.IGNORECASE)
"""Before a rate whose name has blanks in it: what is simulated, and films, have such as well."""
_OF = lazy(r"\s*of\s+([a-z]+)", re.IGNORECASE)
_FAR = 512
"""Characters before a number that may say of what it is."""
_AROUND = 2048
"""Characters on each side of a number that are looked at: lines of data have no sentences, and are long."""
_OF_STEPS = lazy(r"\d\s?/\s?\d")
_OF_SEARCH = lazy(r"\[CV(?: \d+/\d+(?:; \d+/\d+)?)?\] END ")
"""How scikit-learn's searches begin what they print of a fit (``model_selection/_validation.py``)."""
_OF_MAGICS = lazy(
    rf"(?:text: )?(?:CPU times: (?:user {OF_IPYTHON}, sys: {OF_IPYTHON}, )?total: {OF_IPYTHON}|Wall time: {OF_IPYTHON}"
    rf"|{OF_IPYTHON} ± {OF_IPYTHON} per loop \(mean ± std\. dev\. of \d+ runs?, [\d,]+ loops? each\))\s*",
    re.IGNORECASE,
)
"""Lines of IPython's ``%time`` and ``%timeit``, also as a notebook has them."""
_TESTS = r"\d{1,9} (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun)"
_OF_PYTEST = lazy(
    rf"(?:text: )?=* ?(?:no tests ran|{_TESTS}(?:, {_TESTS}){{0,8}})"
    r" in \d{1,9}\.\d\ds(?: \(\d+:\d\d:\d\d\))? ?=*\s*"
)
"""The last line of pytest (``_pytest/terminal.py``, ``summary_stats``)."""
_WORDS = 3
_UNITS = 2
"""Letters of the longest unit: ``2s - 86ms/step``."""
_LINE = lazy(r"line \d+$")
_LABELS, _DERIVED = lazy(r"\{[^{}]*\}\Z"), lazy(r"_(?:total|sum|bucket|created)\Z")
_AMOUNT = r"(?:\d[\d.,:]*(?:e[-+]?\d+)?)\s?[a-zµ]{0,7}"
_ALONE = lazy(rf"\s*[\[(]?{_AMOUNT}[\])]?\s*", re.IGNORECASE)
_PAIR = lazy(rf"\s*(?:- )?[\"']?(?P<key>[a-z_][\w.-]*)[\"']?\s*[:=]\s*[\"']?{_AMOUNT}[\"']?,?\s*", re.IGNORECASE)
"""A line of YAML, TOML and the like."""


class Number(NamedTuple):
    """A number, a date or a time of day in a line.

    Attributes:
        text: as it is written.
        before: the line up to it, as much as may be a sentence.
        behind: the line behind it, as much again.
        moment: it is a number of seconds since 1970, of about when the run was.
        took: how long the run took, in seconds; 0 if that is not known.
        of_day: it is a time of day that the run may have had.
        place: where it is among all numbers of the line, and how many these are.
    """

    text: str
    before: str
    behind: str
    moment: bool = False
    took: float = 0.0
    of_day: bool = False
    place: tuple[int, int] = (1, 1)

    @property
    def is_plain(self) -> bool:
        """Whether it is neither a date nor a time of day."""
        return not self.moment and _PLAIN.fullmatch(self.text) is not None


def all_numbers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the numbers, dates and times of day of a text, each behind what is before it in a sentence."""
    for found in _NUMBER.finditer(text):
        yield text[max(found.start() - _FAR, 0) : found.start()], found[0]


def is_dated(text: str, masks: Masks) -> bool:
    """Whether a value is a date, a time of day, or seconds since 1970 of about when the run was."""
    if _PLAIN.fullmatch(text) is None:
        return re.search(r"\d[:/-]\d|\d\.\d+\.\d", text) is not None
    return masks.is_moment(moment_of(float(text.replace(",", ""))))


def exact_numbers(text: str, masks: Masks, but: Container[str] = ()) -> Iterator[Number]:
    """Yield the numbers, dates and times of day of a text; none that is a moment of the run.

    Args:
        text: one line.
        masks: of the run, which knows what is a date of about when it was.
        but: numbers that are of no interest.
    """
    all_found = [*_NUMBER.finditer(text)]
    moments = [*_moments_of_run(text, masks)]
    for at, found in enumerate(all_found, 1):
        place = at, len(all_found)
        start, end = found.span()
        if found[0] in but or any(first <= start < last for first, last in moments):
            continue
        before, behind = text[max(start - _AROUND, 0) : start], text[end : end + _AROUND]
        number = Number(found[0], before, behind, took=masks.took, place=place)
        if ":" in found[0] and masks.took:
            number = number._replace(of_day=masks.may_have_been(_seconds(found[0], hours=True), _rounding(found[0])))
        if _OF_DAY.fullmatch(found[0]) is not None and masks.is_during_day(_seconds(found[0])):
            continue
        moment = moment_of(float(found[0].replace(",", ""))) if number.is_plain else 0.0
        if not masks.is_during(moment):
            yield number._replace(moment=True) if masks.is_moment(moment) else number


def _moments_of_run(text: str, masks: Masks) -> Iterator[tuple[int, int]]:
    """Yield where a text has dates with times of day, to the second, at which the run was, by UTC or a zone it has set.

    Those of a short run alone: in an hour there are moments that a result may be about.
    """
    if masks.took > _SHORT:
        return
    for found in _SHOWN.finditer(text) if "datetime(" in text else ():
        moment = shown_moment(found)
        if moment is not None and any(map(masks.is_during, masks.by_zones(moment))):
            yield found.span()
    if ":" not in text:
        return
    for found in _DATED.finditer(text):
        if any(masks.is_during(each) for moment in _readings(found) for each in masks.by_zones(moment)):
            yield found.span()


def _readings(found: re.Match[str]) -> Iterator[float]:
    """Yield the seconds since 1970 that a date may be: 3/4/2026 is in March or in April."""
    clock = found["clock"] or found["of_ctime"]
    day = found[0].replace(clock, " ")
    numbers = [int(each) for each in re.findall(r"\d+", day)]
    month = re.search(_NAMED, day, re.IGNORECASE)
    if month is not None:
        days = [(numbers[-1], _MONTHS.index(month[0].lower()) + 1, numbers[0])]
    elif found["iso"]:
        days = [(numbers[0], numbers[1], numbers[2])]
    else:
        days = [(numbers[2], numbers[1], numbers[0]), (numbers[2], numbers[0], numbers[1])]
    for each in days:
        with suppress(ValueError):
            yield datetime(*each, tzinfo=timezone.utc).timestamp() + _seconds(clock)


def _seconds(text: str, *, hours: bool = False) -> float:
    """Return the seconds of a time of day, or of a duration; ``hours``: two numbers are hours and minutes."""
    parts = [float(part.replace(",", ".")) for part in text.split(" ")[-1].rpartition("T")[2].split(":")]
    parts += [0.0] if hours and len(parts) < 3 else []
    total = 0.0
    for part in parts:
        total = total * 60 + part
    return total


def _rounding(text: str) -> float:
    return 1.0 if text.count(":") > 1 else 60.0


def by_midnight(one: str, other: str) -> bool:
    """Whether two values are days next to each other: one run may have been before midnight."""
    if _ONLY_DAY.fullmatch(one) is None or _ONLY_DAY.fullmatch(other) is None:
        return False
    try:
        return abs((date.fromisoformat(one) - date.fromisoformat(other)).days) < 2
    except ValueError:
        return False


def is_exact(number: str) -> bool:
    """Whether a number has so many significant digits that two measurements hardly ever give it.

    One below a ten-thousandth has few, whatever is written: clocks count in steps of some nanoseconds.
    """
    if _TINY.match(number) is not None:
        return False
    digits = re.sub(r"(?i)(?<=\d)e.*|[^\d]", "", number).lstrip("0")
    return len(digits) >= _DIGITS


def leaves_doubt(number: Number, *, named: bool = False, cheap: bool = False) -> bool:
    """Whether the words around a number may name a result: not all of them are of a program's own work.

    Args:
        number: it.
        named: a column, or what printed the line, says that it is a measurement; the line need not.
        cheap: experiments can decide whether it is one, if the run is short.
    """
    line = f"{number.before}{number.text}{number.behind}"
    if _OF_MAGICS.fullmatch(line) is not None or _OF_PYTEST.fullmatch(line) is not None:
        return False
    said = _words_of(_CLAUSES.split(number.before[-_FAR:])[-1])
    if not number.is_plain:
        said = [word for word in said if len(word) > 1]  # levels of logs: [I 2026-11-26 14:59:33,805]
    words = ([word for word in said if word not in _NEUTRAL] or said)[-_WORDS:]
    if number.is_plain and words and (words[-1] == "at" or _is_amount(words[-1]) or _of_what(number.behind)):
        return True
    if number.is_plain and _IN_PROSE.search(number.before) is not None:
        return True
    if number.is_plain and not _BARE.isdisjoint(words) and are_ends(words) and not _BARE.issuperset(words):
        return _is_of_other(number, words, cheap=cheap)
    if words and not number.is_plain and words[-1] in _DECISIVE and number.took:
        return ":" in number.text and not _speaks_of_work(number.before) and _is_no_estimate(number)
    if words and not (number.is_plain and _BARE.issuperset(words)):
        simulated = may_be_simulated(words) and _RATE.match(number.behind) is None
        return simulated or _of_result(words, number.before)
    if named or not number.is_plain or (not words and _RATE.match(number.behind) is not None):
        return False
    behind = _CLAUSES.split(_UNIT.sub("", number.behind, count=1))[0]
    around = words or _words_of(behind)[:_WORDS]
    if around and not _BARE.issuperset(around):
        return not all(map(_is_known, around))
    return not _speaks_of_work(number.before)


def _speaks_of_work(text: str) -> bool:
    """Whether a text names a step of a program, or something that it has done."""
    words = _words_of(text[-_FAR:])
    return _OF_SEARCH.match(text) is not None or any(word in _STEPS or word in _DONE for word in words)


def _is_of_other(number: Number, words: list[str], *, cheap: bool) -> bool:
    """Whether a bare ``total time`` or ``start time`` may be of something else than the run.

    It is if the run did not take as long. Otherwise the words leave a doubt where experiments cost little.
    """
    if not _MOMENTS.isdisjoint(words):
        return True
    if not number.took or (number.took > _CHEAP and _speaks_of_work(number.before)):
        return False
    unit = next((seconds for pattern, seconds in _IN_SECONDS if pattern.match(number.behind) is not None), 1.0)
    longer = float(number.text.replace(",", "")) * unit > number.took + _SLACK
    return longer or (cheap and number.took <= _CHEAP and not _speaks_of_work(number.before))


def _is_no_estimate(number: Number) -> bool:
    """Whether a time such as ``ETA 14:37`` is far longer than the run took, and no time of day that it had.

    The first ones behind a number of steps (``1/100 … ETA: 14:37``) are: they have what was done once in them.
    """
    if _OF_STEPS.search(number.before[-_FAR:]) is not None:
        return False
    return not number.of_day and _seconds(number.text) > max(_ESTIMATE, 3 * number.took)


def is_named(number: Number) -> bool:
    """Whether there are words right before a number: progress bars have none but units."""
    return any(len(word) > _UNITS for word in _words_of(_CLAUSES.split(number.before)[-1]))


def _is_amount(word: str) -> bool:
    """Whether a word may be before an amount of something: ``sampled 3.5123 s``, of speech say."""
    return (
        word in _DONE
        and (word.endswith("ed") or word in ("built", "ran", "read", "wrote", "written"))
        and (word not in ("completed", "finished"))
    )


def _of_what(behind: str) -> bool:
    """Whether what is behind a number says of what it is an amount: ``seconds of audio``."""
    found = _OF.match(_UNIT.sub("", behind, count=1))
    return found is not None and not _is_known(found[1].lower())


def _of_result(words: list[str], before: str) -> bool:
    """Whether words right before a number may be of a result; ``before``: the line up to it."""
    if words[-1] in _DECISIVE:
        return False
    if words[-1] in _LINKS:
        words = [word for word in _words_of(_SENTENCES.split(before)[-1]) if word not in _NEUTRAL] or words
        return words[0] not in _DONE and not all(map(_is_known, words))
    return not all(map(_is_known, words))


def _words_of(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _is_known(word: str) -> bool:
    return word in _OF_TIMES or word in _DONE or word in _STEPS or word in _NEUTRAL or names_measuring(word)


def last_key(name: str) -> str:
    """Return the last part of the name of a place in a file, by which measurements are known.

    Of a metric of Prometheus' without its labels, and without what says how it was derived: ``…_seconds_sum``.
    """
    key = re.sub(r"\[[^\]]*\]", "", re.split(r"[.\s:/@]", _LABELS.sub("", name))[-1])
    return key if kind_of(key) is not None else _DERIVED.sub("", key)


def key_leaves_doubt(name: str, *, moment: bool = False) -> bool:
    """Whether a key or the name of a column may be a result's as well, such as a bare ``time``, or ``trip_duration``.

    Args:
        name: with the place where it is, such as ``rows[3].time``.
        moment: it is the name of a date of about when the run was; what has no name at all may be a result too.
    """
    key = last_key(name)
    words = _words_of(_in_words(key))[-_WORDS:]
    return name_leaves_doubt(key) or (
        moment and (not key or (bool(words) and _of_result(words, f"{' '.join(words)} ")))
    )


def _in_words(key: str) -> str:
    return re.sub(r"[^a-z]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key), flags=re.IGNORECASE)


def is_alone(text: str) -> bool:
    """Whether a line is nothing but a number with its unit, so that no word says what it is."""
    return _ALONE.fullmatch(text) is not None


_OF_PROGRAMS = frozenset((
    "active", "alloc", "allocated", "available", "cached", "consumed", "consumption", "cuda", "current", "device",
    "footprint", "free", "gpu", "heap", "host", "max", "maximum", "mem", "peak", "percent", "process", "reserved",
    "resident", "rss", "shared", "swap", "total", "usage", "use", "used", "virtual", "vms", "vram",
))  # fmt: skip
"""Words of measures of memory; ``recommended memory: 512 MB`` has none of them."""


def memory_leaves_doubt(text: str) -> bool:
    """Whether words, of a name or before a number, may be of a memory that is no program's own: ``laptop, RAM``."""
    words = _words_of(_in_words(text))
    return bool({"memory", "ram"} & {*words}) and _OF_PROGRAMS.isdisjoint(words)


_OF_ALLOCATORS = frozenset((
    "alloc", "allocated", "consumed", "consumption", "current", "footprint", "max", "maximum", "mem", "peak", "total",
    "usage", "use", "used",
))  # fmt: skip
"""Words of measures of memory that an allocator which is simulated, or a plan, has as well."""
_LITTLE = 16 << 20
"""Bytes that runs of one program may differ by, of however little memory."""
_ALIKE = 1.25
"""How many times as much memory a run of a program has at most as another run of it."""


def memory_may_be_simulated(text: str) -> bool:
    """Whether words may be of a memory that is simulated: ``memory used``, and no word for a process or a device."""
    words = {*_words_of(_in_words(text))}
    return bool({"memory", "mem", "ram"} & words) and _OF_PROGRAMS.isdisjoint(words - _OF_ALLOCATORS)


def are_far_apart(amounts: Iterable[str]) -> bool:
    """Whether amounts of memory differ by more than those of runs of one program do, number by number."""
    rows = [_amounts(text) for text in amounts]
    return len({*map(len, rows)}) == 1 and any(
        max(sizes) > _ALIKE * min(sizes) and (not all(units) or max(sizes) - min(sizes) > _LITTLE)
        for sizes, units in (zip(*each, strict=True) for each in zip(*rows, strict=True))
    )


def _amounts(text: str) -> list[tuple[float, bool]]:
    """Return the amounts of a text in bytes, and whether each has a unit; those without one if none has."""
    found, unit = [], None
    for each in reversed([*_AMOUNTS.finditer(text)]):
        unit = unit if each[3] else each[2]  # 100 of 300 MB
        size = float(each[1].replace(",", "")) * 1024.0 ** (1 + "kmgt".find((unit or "-").lower()))
        found.append((size, unit is not None))
    return [each for each in found if each[1]] or found


def numbers_left_out(text: str, name: str, masks: Masks, shown: str) -> list[Number]:
    """Return the numbers that were left out of a text of a file; the arguments are those of ``doubtful_in``."""
    if _LINE.search(name) is None:
        text = f"{last_key(name)}: {text}"
    return [*exact_numbers(text, masks, frozenset(_NUMBER.findall(shown)))]


def doubtful_in(text: str, name: str, masks: Masks, shown: str, *, short: bool = False) -> bool:
    """Whether a text of a file has a number that may be a result.

    Args:
        text: one line.
        name: where it is: by a key, or a line.
        masks: of the run.
        shown: the text as it is compared: numbers in it are not left out.
        short: one of few digits too, if words are before it, or it is in a row.
    """
    sure = is_alone(text) or ((pair := _PAIR.fullmatch(text)) is not None and key_leaves_doubt(pair["key"]))
    if _LINE.search(name) is None:
        text, sure = f"{_in_words(last_key(name))}: {text}", False
    in_row = "," in text
    return any(
        (is_exact(number.text) or (short and (in_row or is_named(number))))
        and (sure or leaves_doubt(number))
        and number.text not in shown
        for number in exact_numbers(text, masks, frozenset(_NUMBER.findall(shown)))
    )
