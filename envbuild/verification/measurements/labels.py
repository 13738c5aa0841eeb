"""What a number is called where it is written.

A result may be nothing but the time that something took: no experiment with a clock distinguishes them. So a duration
or a rate counts as a measurement only if something says that it may be one: a name that is no result's, or a unit. What
has no name, or one that says nothing (``w``, ``values``), is a result. A date needs none: nothing else is the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from envbuild.core.patterns import lazy
from envbuild.record.measurements import names_result

_RESULT = lazy(
    r"(?:^|[^a-z])(?:lr|learning[ _-]rate|alpha|beta|gamma|eps|epsilon|lambda|momentum|decay|dropout|seeds?|temperature"
    r"|steps?|epochs?|iters?|iterations?|rounds?|trials?|batch(?:es)?|batch[ _-]size|samples?|count|best|weights?|bias"
    r"|coef|coefficient|metric|result|value|mean|std|var|norm|cost|size|seeded(?: with)?)\W*$",
    re.IGNORECASE,
)
"""Names that a time never has, in addition to those of ``names_result``."""
_OF_EACH = lazy(
    r"(?:^|[^a-z])(?:time|duration|latency|seconds?|secs?|[nuµμm]?s|minutes?|mins?|hours?)"
    r"(?:\s?/\s?|[ _-](?:per|an?|each|for each)[ _-])"
    r"(?:steps?|epochs?|it|iters?|iterations?|rounds?|trials?|batch(?:es)?|samples?)\W*$",
    re.IGNORECASE,
)
"""How long one of many took: ``time/epoch``, ``seconds per step``."""
_TIMES = (
    r"(?:^|[^a-z])(?:times?|timings?|durations?|elapsed|latency|latencies|seconds?|secs?|ms|runtimes?|walltimes?|laps?)"
    r"(?:[ _-](?:s|ms|us|secs?|seconds))?(?:\[\d*\])?[ _./-]"
)
_OF_STATISTICS = lazy(rf"{_TIMES}(?:mean|std)\W*$", re.IGNORECASE)
"""Of those names what is one of times: ``timing.mean``."""
_OF_DEVIATIONS = lazy(rf"{_TIMES}(?:std|stdev|stddev|sd|deviation|jitter)\W*$", re.IGNORECASE)
_SPLIT = lazy(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)")
_DATA = lazy(r"(?:^|[\s,;|\"])[-+.\d]")
"""A cell that is no name."""
_WIDEST = 4096
"""Characters of the longest line that is looked at for names."""
_COMMENT = lazy(r"\A\s*[#%]+\s*")
"""Before the names of columns, as ``numpy.savetxt`` writes them, and gnuplot reads them."""
_OF_COLUMN = lazy(r"\([\w/%]{1,9}\)|\[[\w/%]{1,9}\]")
"""The unit of a column, as a word of its own behind the name."""
_OTHER_BARS = lazy("[│┃║┆]")
_MARKS = ("\t", ",", ";", "|", "&", " ")
_WORDS_OF_ROW = r"(?:⟨[^⟨⟩]*⟩|\S)+"
"""Cells between blanks; marks of what was drawn have some themselves."""
_LEAST = 3
"""Letters of the shortest name that says something; ``_SHORT`` are those that do so with less."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHORT = _words("t t0 t1 dt s ms us ns in at by to or")
_NOTHING = _words(
    "and the are was were sum max min avg average mean median std var total data value values val vals state states"
    " result results out output outputs item items arr array list tuple dict set object obj vector matrix tensor field"
    " num number numbers int float row rows col column columns key entry var vars tmp temp log logs line file new old"
)
"""Words that say nothing of what a number is; the word before them may."""
_OF_MODELS = _words(
    "param params parameter parameters theta phi psi omega gamma delta sigma tau kernel kernels gain slope intercept"
    " offset offsets shift scale scales scaling threshold thresholds cutoff embedding embeddings embed centroid"
    " centroids center centers weight weights bias biases coef coefs coefficient coefficients logit logits prob probs"
    " probability probabilities pred preds prediction predictions predicted estimate estimates estimated answer feature"
    " features input inputs target targets label labels model models net network layer layers policy head solution"
    " optimum optimal loss score metric reward node leaf split margin distance similarity importance importances factor"
    " factors component components eigenvalue eigenvalues running momentum grad gradient gradients hidden cell memory"
)
_OF_TIME = _words(
    "time times timing timings timer timers lap laps duration durations elapsed latency latencies clock clocks speed"
    " speeds throughput fps qps rps tps iops wall walltime runtime runtimes bench benchmark benchmarks profile profiler"
    " seconds secs sec"
    " ms millis milliseconds microseconds nanoseconds stopwatch timestamp timestamps took spent"
)
_OF_MEMORY = _words(
    "memory mem load loadavg rss vms peak hwm maxrss vmrss vmhwm vmsize vmpeak resident ram heap swap uss pss"
)
_OF_IDENTITY = _words(
    "id ids uid uuid guid run session trace span request job experiment trial name tag nonce identifier owner worker"
    " holder token batch"
)
_BYTES = lazy(r"\s?(?:[kmgt]i?b?|bytes)\b", re.IGNORECASE)
_AMOUNT = lazy(rf"\d{_BYTES.pattern}", re.IGNORECASE)
_COMPOUND = lazy(r"(?:[\w.-]+[:@/])+")
"""What is before the drawn part of a name of several parts: ``host:pid:4d7b4d8f``."""
_GLUED = lazy(r"(?<![A-Za-z0-9_-])([A-Za-z]{2,12})[_-]\Z")
_OF_GLUED = _words(
    "req request msg message evt event job run task span trace sess session usr user ord order inv invoice txn tx row"
    " node conn client worker call corr resp exec lease sub"
)
"""What an identity of such a thing begins with, without a blank: ``req_4d7b4d8f0a1b``."""
_INDEX = lazy(r"(?<=[A-Za-z])[\s_#(\[]*\d{1,4}[)\]]?\s*(?=\W*[:=]\W*$)")
"""The number of a thing of which there are several, before a colon."""
_OWN = lazy(r"[A-Za-z_][A-Za-z0-9_.]*$")
_LAST = lazy(r"[^A-Za-z0-9_]+$")
_PATH = lazy(r"\[\d*\]")
_PLACE = lazy(r"(?:.*, )?line \d+(?:: (?P<column>.*))?$|[\d.]*$", re.DOTALL)
_TAG = lazy(r"<[^<>]*>")
_UNIT = lazy(
    r"\s?(?:[nuµμm]?s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|(?:milli|micro|nano)seconds?"
    r"|[A-Za-z]+/(?:s|sec|second|min|minute|h|hour)|(?:s|sec|ms|us|[µμ]s|seconds)/[A-Za-z]+"
    r"|(?:\w+\s){0,2}(?:per|a|in each|each|of a)\s(?:second|minute|hour|ms))(?![\w])"
)
_UNIT_OF_RATE = lazy(
    r"\s?[A-Za-z]+(?:/(?:s|sec|second|min|minute|h|hour)|\s(?:per|a|in each|each)\s(?:second|minute|hour))(?!\w)"
    r"|\s(?:per|a)\s(?:second|minute|hour)(?!\w)"
)
_ROW = lazy(r"\s+-?\d[\d.eE+-]*(?:\s|$)")
"""A number that follows another one: a row of a table, whose first word is no name of theirs."""
_LONGEST = 40
"""Bytes of the longest name that is looked for in binary data."""
_TAILS = lazy(rb"[\xca-\xd3]$|\x94?G$|\0$")
"""What is between a name and its number in MessagePack, pickles, BSON."""
_NAME = lazy(rb"[A-Za-z_][A-Za-z0-9_. -]*")


def names_no_time(text: str) -> bool:
    """Whether a text ends in the name of something that is no time: what follows is a result."""
    if names_result(text):
        return True
    return _RESULT.search(text) is not None and _OF_EACH.search(text) is None and _OF_STATISTICS.search(text) is None


def names_deviation(text: str) -> bool:
    """Whether a text ends in the name of a deviation of times, such as ``timing.std``."""
    return not names_result(text) and _OF_DEVIATIONS.search(text) is not None


@dataclass(frozen=True, slots=True)
class Header:
    """The line of a table that names its columns."""

    mark: str
    names: tuple[str, ...]
    indexed: bool = False
    """It begins with blanks: rows have a label there, as those of a frame of pandas."""

    @classmethod
    def of(cls, line: str) -> Header | None:
        """Read a line as one; None if it names no columns."""
        line = _COMMENT.sub("", line)
        if len(line) > _WIDEST or _DATA.search(line) is not None:
            return None
        for mark in _MARKS:
            cells = _with_units(_inner(line, mark)) if mark == " " else tuple(cell for _, cell in _inner(line, mark))
            if len(cells) > 1:
                return cls(mark, cells, mark == line[0] == " ") if all(map(_is_name, cells)) else None
        return None

    def column(self, line: str, at: int) -> str:
        """Return the name of the column that a place of a line is in; empty if the line is not of this table."""
        cells = _inner(line, self.mark)
        if self.indexed and len(cells) == len(self.names) + 1 and not line.startswith(" "):
            cells = cells[1:]
        if len(cells) != len(self.names):
            return ""
        before = [name for (begin, _), name in zip(cells, self.names, strict=True) if begin <= at]
        return before[-1] if before else ""


def _with_units(cells: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Return the names of columns between blanks, each with its unit: ``time (ms)``."""
    names: list[str] = []
    for _, cell in cells:
        if names and _OF_COLUMN.fullmatch(cell) is not None:
            names[-1] += f" {cell}"
        else:
            names.append(cell)
    return tuple(names)


def _is_name(cell: str) -> bool:
    """Whether a cell names a column: of shares it may be a sign alone."""
    return cell == "%" or re.match("[A-Za-z_]", cell.lstrip("$\\{")) is not None


def _cells(line: str, mark: str) -> Iterator[tuple[int, str]]:
    """Yield where each cell of a line begins, and its text without quotes."""
    for found in re.finditer(
        _WORDS_OF_ROW if mark == " " else rf'(?:^|(?<={re.escape(mark)}))(?:\s*"[^"]*"|[^{re.escape(mark)}]*)', line
    ):
        if mark != " " or found[0] != "|":
            yield found.start(), found[0].strip(' \t"|')


def _inner(line: str, mark: str) -> list[tuple[int, str]]:
    """Return the cells of a line without the empty ones outside of bars: rows that are masked have none there."""
    if mark != "|":
        return [*_cells(line, mark)]
    cells = [*_cells(_OTHER_BARS.sub("|", line), mark)]
    return cells[1 if cells and not cells[0][1] else 0 : -1 if len(cells) > 1 and not cells[-1][1] else None]


def may_be_time(before: str, after: str, names: tuple[str, ...]) -> bool:
    """Whether something says that a number in a text may be a duration or a rate.

    Args:
        before: what is before the number in its line.
        after: what follows it.
        names: of the column and the place it is in, the closest first; used where the line has no name for it.
    """
    own = "" if _in_row(before, after) else own_name(before)
    unit = _UNIT.match(after) is not None
    if own:
        return _says_time(own) or (unit and not names_no_time(f"{own} "))
    return unit or next((_says_time(name) for each in names if (name := place_name(each))), False)


def has_unit_of_rate(after: str) -> bool:
    """Whether what follows a number says that it is so many of something in a time: ``bonds/s``."""
    return _UNIT_OF_RATE.match(after) is not None


def _in_row(before: str, after: str) -> bool:
    """Whether a number is in a row of more than two cells, so that the text before it is another cell."""
    before = _OTHER_BARS.sub("|", before)
    gap = _LAST.search(before)
    mark = next((each for each in _MARKS if gap is not None and each in gap[0]), "")
    return _ROW.match(after) is not None if mark == " " else bool(mark) and (before + after).count(mark) > 1


def may_be_memory(before: str, after: str, names: tuple[str, ...]) -> bool:
    """Whether something says that a number is a measure of memory; arguments as of ``may_be_time``."""
    own = "" if _in_row(before, after) else own_name(before)
    if own and names_no_time(f"{own} "):
        return False
    named = (own,) if own else tuple(map(place_name, names))
    return _BYTES.match(after) is not None or any(bool(_OF_MEMORY & {*_parts(name)}) for name in named)


def says_memory(text: str) -> bool:
    """Whether a text speaks of memory, or has an amount of it."""
    return bool(_OF_MEMORY & {*_parts(text)}) or _AMOUNT.search(text) is not None


def may_be_identity(before: str, names: tuple[str, ...]) -> bool:
    """Whether something says that what was drawn is a name for the moment, and no seed."""
    glued = _GLUED.search(before)
    if glued is not None and glued[1].lower() in _OF_GLUED:
        return True
    whole = _COMPOUND.fullmatch(before) is not None and any(map(place_name, names))
    own = "" if whole else own_name(before)
    named = (own,) if own else tuple(map(place_name, names))
    known = _OF_IDENTITY if own else _OF_IDENTITY | {"by"}  # in a sentence it may be "seeded by"
    return any(words[-1] in known for name in named if (words := _parts(name)))


def may_be_mentioned(name: str) -> bool:
    """Whether what was drawn, and is an identity elsewhere, may be one under a name, such as ``batch``."""
    words = _parts(name)
    return bool(words) and len(words[-1]) >= _LEAST and words[-1] not in _OF_MODELS and not names_result(f"{name} ")


def own_name(before: str) -> str:
    """Return the words right before a number, numbers of things left out; empty if there are none."""
    text = _LAST.sub("", _INDEX.sub("", _TAG.sub(" ", before)))
    found = _OWN.search(text)
    if found is None:
        return ""
    word = found[0]
    if word.lower() in _NOTHING:  # "total time", "time total"
        more = _OWN.search(_LAST.sub("", text[: found.start()]))
        return f"{more[0]} {word}" if more is not None else word
    return word


def place_name(name: str) -> str:
    """Return the name of a place as its last part, positions left out; empty if it has none, as lines have."""
    text = _PATH.sub("", name).strip("./: ")
    found = _PLACE.match(text)
    return text if found is None else (found["column"] or "")


def name_in_bytes(before: bytes) -> str:
    """Return the name that a number has in MessagePack, BSON or a pickle; empty if there is none.

    Args:
        before: the bytes before the number.
    """
    tail = _TAILS.search(before)
    end = tail.start() if tail is not None else 0
    for begin in range(end - 1, max(0, end - _LONGEST), -1):
        if _NAME.fullmatch(before, begin, end) is None:
            continue
        length, size = before[begin - 1], end - begin
        packed = length == 0xA0 | size if size < 32 else before[begin - 2 : begin] == bytes((0xD9, size))
        pickled = before[begin - 2 : begin] == bytes((0x8C, size))
        if packed or pickled or (length in (1, 9, 18) and before[end : end + 1] == b"\0"):
            return before[begin:end].decode("ascii")
    return ""


def may_be_times(key: str, source: str) -> bool:
    """Whether the name of an array, or of the file that it is alone in, says that it may hold times.

    Parameters of models are arrays as well, under any name; so this one must speak of time.

    Args:
        key: of the array in its file; empty if it is alone.
        source: path of the file.
    """
    name = place_name(key) or PurePosixPath(source).stem
    words = _parts(name)
    return bool(_OF_TIME & {*words}) and words[-1] not in _OF_MODELS and not names_no_time(f"{name} ")


def names_time(label: str) -> bool:
    """Whether the name of a number in binary data allows for a time."""
    return bool(label) and _says_time(label)


def says_nothing(name: str) -> bool:
    """Whether a name says nothing of what is kept under it: ``rows``, but not ``weights`` or ``w``."""
    words = _parts(name)
    return bool(words) and not names_no_time(f"{name} ") and _NOTHING.issuperset(words)


def _says_time(name: str) -> bool:
    """Whether a number of this name may be a duration or a rate."""
    if names_no_time(f"{name} "):
        return False
    words = _parts(name)
    while words and (words[-1].isdigit() or words[-1] in _NOTHING):
        words.pop()
    if not words:
        return False
    last = words[-1]
    return last not in _OF_MODELS and (last in _SHORT or len(last) >= _LEAST or bool(_OF_TIME & {*words}))


def _parts(name: str) -> list[str]:
    return [word.lower() for word in _SPLIT.split(name) if word]
