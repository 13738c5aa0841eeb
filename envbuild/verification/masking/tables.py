"""Tables that programs print and write for people: a column with the name of a measurement is one in each of its rows.

Known are tables whose head is followed by a line of rules: Markdown's, those of ``tabulate``, ``prettytable``, rich and
Polars (cells between bars), and those whose rules are dashes above each column, such as skorch's. Further, without
rules, frames as pandas prints them: names and values end at the same places, behind an index without a name, or none.
And fastai's, whose names and values begin at the same places: an epoch first, and its minutes and seconds at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from envbuild.core.patterns import lazy
from envbuild.record.measurements import is_time_of_prediction, kind_of, name_leaves_doubt

_BARS = lazy(r"[|│┃║┆]")
_RULES = frozenset("-+|=: \t─━═╞╡╪┌┐└┘├┤┬┴┼┏┓┗┛┣┫┳┻╋╇╈┡┢┩┪╔╗╚╝╠╣╦╩╬┠┨┯┷┿")
"""Characters of rules, with and without bars."""
_DASHES = lazy(r"\s*(?:-{2,}|={2,})(?:\s+(?:-{2,}|={2,}))+\s*")
_DASH = lazy(r"-{2,}|={2,}")
_GAP = lazy(r" {2,}|\t")
_NAME = lazy(r"[A-Za-z][A-Za-z /_().%\[\]-]*(?:[_ ]p\d{1,2})?")
_AMOUNT = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?:\s?(?:ns|us|µs|ms|s|sec|secs|seconds|min|h|[kmgt]?i?b|it/s|/s))?"
_MEASURED = lazy(rf"{_AMOUNT}(?:\s?(?:±|\+/-)\s?{_AMOUNT})?", re.IGNORECASE)
"""What is in a cell of a measurement: one number that is not negative, with or without a unit and its deviation."""
_AMBIGUOUS = frozenset(("time", "times", "timestamp", "datetime"))
"""Heads of columns that may as well be data."""
_SHORT = {"dur": "time"}
"""Heads that are too short to be a name anywhere else: skorch's."""
_OF_SPACY, _SPEED = (("E", "#"), "SCORE"), "SPEED"
"""First two and last heads of the table that spaCy prints while it trains (spacy/training/loggers.py), and that of the
words in a second."""
_INDEX = lazy(r"[A-Za-z_]\w*(?: +\.\.\.)?")
"""The line of the index's name, below the head of a frame of pandas; dots are those of columns that are not shown."""
_NOT_SHOWN = " ... "
"""In the place of columns that a frame has and pandas does not print: one blank is behind it."""
_WORDS_OF_NAME = lazy(r"\S+(?: \S+)*")
"""Names of columns: two blanks are between two of them."""
_LABELS = (lazy(r"\S+ "), lazy(r"\S+(?: \S+)+ (?= )"))
"""What a row begins with, before its values: a word, or several."""
_EPOCHS = lazy(r"epoch {2,}(?:[\w.%-]+ {2,})*time *")
_EPOCH = lazy(r"\d+ +(?:\S+ +)*(?:\d+:)?\d\d:\d\d *")
_LENGTH = lazy(r"(?:\d+:)?[0-5]\d:[0-5]\d")
"""Head and rows of fastai's table of epochs. Source: fastprogress/fastprogress.py, ``ConsoleMasterBar.write``."""
_OF_POLARS = 3
"""Lines of a table of Polars up to the dashes below its head. Source: polars-core/src/fmt.rs."""
_LONGEST = 2000
"""Characters of a row; longer ones belong to no table."""


class Shown(msgspec.Struct, frozen=True):
    """A row of text.

    Attributes:
        text: as it is.
        common: with marks in the place of measurements; what only makes room for them is as wide in all runs.
        kinds: of the measurements.
        guessed: one of them is in a column whose name data have as well.
    """

    text: str
    common: str
    kinds: frozenset[str] = frozenset()
    guessed: bool = False


class _Columns(msgspec.Struct, frozen=True):
    """How the rows of a table are cut, and which of the cells are measurements.

    Attributes:
        count: of cells.
        kinds: by the place of a cell, the kind of measurement.
        spans: first and last place of each column in the rules; empty if bars are between cells.
        bars: how the bars of each row are: as ``_bars`` returns it for the head.
        ends: where each column ends, the index first if there is one, where neither bars nor rules do; else empty.
        begins: where each column of a table of epochs begins; else empty.
        doubted: places of measured cells whose column has a name that data have as well.
    """

    count: int
    kinds: dict[int, str]
    spans: tuple[tuple[int, int], ...] = ()
    bars: tuple[object, ...] = ()
    ends: tuple[int, ...] = ()
    begins: tuple[int, ...] = ()
    doubted: frozenset[int] = frozenset()


class Tables:
    """Finds tables in lines; a line that may be the head of one is held back until the next one is known."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._named = False
        self._columns: _Columns | None = None

    def take(self, row: str) -> Iterator[Shown]:
        """Yield what is known by now: of this line, and of lines that were held back."""
        if self._columns is not None:
            shown = _row(row, self._columns)
            if shown is not None:
                yield from self.finish()
                yield shown
                return
            if not self._columns.begins:  # callbacks print between the rows of epochs
                self._columns = None
        if self._held:
            held, named = self._held, self._named
            self._named = False
            self._columns = _frame(held[0], row) if named else _columns(_head_in(held), row)
            if self._columns is not None:
                self._held = []
                yield from (Shown(each, _squeezed(each)) for each in held)
                first = _row(row, self._columns) if self._columns.ends or self._columns.begins else None
                yield first or Shown(row, _squeezed(row))
                return
            if len(held) == 1 and _is_rule(held[0]) and _is_head(row):
                held.append(row)
                return
            if len(held) in (2, 3) and _is_rule(held[0]) and _is_below_polars(held, row):
                held.append(row)
                return
            if len(held) == 1 and held[0].startswith(" ") and _INDEX.fullmatch(row) is not None:
                held.append(row)
                self._named = True
                return
            yield from self.finish()
        if _is_rule(row) or _is_head(row):
            self._held = [row]
        else:
            yield Shown(row, row)

    def finish(self) -> Iterator[Shown]:
        """Yield the lines that were held back: they are no table."""
        held, self._held = self._held, []
        yield from (Shown(each, each) for each in held)


def _head_in(held: Sequence[str]) -> str:
    """Return the names of columns among lines that were held back; below Polars' are dashes and types."""
    return held[1] if len(held) > _OF_POLARS else held[-1]


def _is_below_polars(held: Sequence[str], row: str) -> bool:
    """Whether a line is one of the two that Polars has below the names of columns: dashes, and then types."""
    cells, names = _cells(row), _cells(held[1])
    if not names or len(cells) != len(names):
        return False
    return all(cell.strip() == "---" for cell in cells) if len(held) == _OF_POLARS - 1 else True


def _is_head(row: str) -> bool:
    """Whether a line may have the names of columns, one of them a measurement's."""
    if len(row) > _LONGEST:
        return False
    if _EPOCHS.fullmatch(row) is not None:
        return True
    names = _cells(row) or [*_GAP.split(row.strip()), *(row.split() if _NOT_SHOWN in row else ())]
    return (len(names) > 1 and any(map(_kind, names))) or _is_of_spacy([name.strip() for name in names])


def _is_of_spacy(names: Sequence[str]) -> bool:
    """Whether columns are those of spaCy's table of scores."""
    return (tuple(names[:2]), names[-1]) == _OF_SPACY and _SPEED in names


def _kind(name: str) -> str:
    """Return the kind of measurement that a column is of; empty for a result."""
    name = name.strip().strip("*_`")
    if _NAME.fullmatch(name) is None or name.lower() in _AMBIGUOUS:
        return ""
    kind = _SHORT.get(name.lower()) or kind_of(name)
    return kind if kind is not None and kind != "identity" else ""


def _columns(head: str, rule: str) -> _Columns | None:
    """Return how rows below a head and its rules are cut; None if they are no such lines, or nothing is measured."""
    if len(rule) > _LONGEST:
        return None
    names = _cells(head)
    if names:
        if not _is_rule(rule) or _DASHES.fullmatch(rule):
            return None
        spans: tuple[tuple[int, int], ...] = ()
    else:
        if _DASHES.fullmatch(rule) is None:
            return _epochs(head, rule) or _frame(head, rule)
        spans = tuple(found.span() for found in _DASH.finditer(rule))
        names = [head[start:end] for start, end in spans]
        if "".join(names).replace(" ", "") != head.replace(" ", ""):
            return None  # words between the columns
    kinds = _kinds(names)
    doubted = frozenset(at for at, name in enumerate(names) if _is_doubted(name) or name.strip() == _SPEED)
    return _Columns(len(names), kinds, spans, _bars(head), doubted=doubted) if kinds else None


def _kinds(names: Sequence[str]) -> dict[int, str]:
    """Return the kind of measurement by the place of its column."""
    plain = [name.strip() for name in names]
    kinds = {
        at: kind
        for at, name in enumerate(plain)
        if (kind := "time" if is_time_of_prediction(name, plain) else _kind(name))
    }
    return kinds | {plain.index(_SPEED): "rate"} if _is_of_spacy(plain) else kinds


def _is_doubted(name: str) -> bool:
    return name_leaves_doubt(name.strip().strip("*_`"))


def _epochs(head: str, row: str) -> _Columns | None:
    """Return how a table of epochs is cut, by its head and its first row; None if they are no such lines."""
    if _EPOCHS.fullmatch(head) is None:
        return None
    begins = tuple(name.start() for name in re.finditer(r"\S+", head))
    last = len(begins) - 1
    if not _begun(row, begins):
        return None
    # A forecast may be of a time too, so that it is quoted unless an experiment shows what it is.
    return _Columns(len(begins), {last: "time"}, bars=_bars(head), begins=begins, doubted=frozenset([last]))


def _begun(row: str, begins: Sequence[int]) -> list[str]:
    """Return what begins where the columns of a table of epochs do; empty if a row has something else."""
    words = list(re.finditer(r"\S+", row))
    if _EPOCH.fullmatch(row) is None or [word.start() for word in words] != [*begins]:
        return []
    return [word[0] for word in words]


def _frame(head: str, row: str) -> _Columns | None:
    """Return how a frame of pandas is cut, by its head and its first row; None if they are no such lines."""
    if not head.startswith(" "):
        return None
    for names in (list(re.finditer(r"\S+", head)), _names_with_blanks(head, row)):
        kinds = _kinds([name[0] for name in names]) if names else {}
        for index in ((0,), ()) if kinds else ():  # ``to_string(index=False)`` leaves it out
            ends = (*index, *(name.end() for name in names))
            if _cut(row, ends):
                # Without an index any program may have printed it, so that experiments show what the columns are.
                doubted = frozenset(
                    at for at, name in enumerate(names, len(index)) if not index or _is_doubted(name[0])
                )
                kinds = {at + len(index): kind for at, kind in kinds.items()}
                return _Columns(len(ends), kinds, bars=_bars(head), ends=ends, doubted=doubted)
    return None


def _names_with_blanks(head: str, row: str) -> list[re.Match[str]]:
    """Return the names of columns with single blanks in them: those end where a value of a row does."""
    ends = {word.end() for word in re.finditer(r"\S+", row)}
    found, begin = [], -1
    for word in re.finditer(r"\S+", head):
        begin = word.start() if begin < 0 else begin
        name = _WORDS_OF_NAME.fullmatch(head, begin, word.end())
        if name is None:
            return []
        if word.end() in ends:
            found.append(name)
            begin = -1
    return found if begin < 0 else []


def _cut(row: str, ends: Sequence[int]) -> list[str]:
    """Return a row's label, if it has one, and what ends where its columns do; empty if something ends elsewhere."""
    if len(row) != ends[-1]:
        return []
    if ends[0]:
        return _values_of(row, 0, ends)
    for label in _LABELS:
        found = label.match(row)
        if found is not None and found.end() < ends[1] and (cells := _values_of(row, found.end() - 1, ends[1:])):
            return [found[0], *cells]
    return []


def _values_of(row: str, begin: int, ends: Sequence[int]) -> list[str]:
    cells = []
    for end in ends:
        cell = row[begin:end]
        if not cell.startswith(" ") or cell.endswith(" ") or "  " in cell.strip():
            return []
        cells.append(cell)
        begin = end
    return cells


def _bars(row: str) -> tuple[object, ...]:
    """Return what the bars of all rows of a table have in common.

    Rows that begin and end with a bar are recognised by it. Where none do, a line of text with as many bars could be
    taken for a row, so they have to be in the same places.
    """
    text = row.strip()
    outer = len(text) > 1 and _BARS.match(text[0]) is not None and _BARS.match(text[-1]) is not None
    return ("|" in row, outer, () if outer else tuple(found.start() for found in _BARS.finditer(row)))


def _row(row: str, columns: _Columns) -> Shown | None:
    """Return a row of a table with marks for its measurements; None if it is no row of it."""
    if len(row) > _LONGEST:
        return None
    if not (columns.ends or columns.begins) and (_is_rule(row) or _DASHES.fullmatch(row)):
        return Shown(row, _squeezed(row))
    if columns.ends:
        cells = _cut(row, columns.ends)
    elif columns.begins:
        cells = _begun(row, columns.begins)
    elif columns.spans:
        cells = [row[start:end] for start, end in columns.spans]
    else:
        cells = _cells(row)
    if len(cells) != columns.count or _bars(row) != columns.bars:
        return None
    if columns.spans and [cell.strip() for cell in cells] != row.split():
        return None  # a line of words: a row has one in each column, and nothing between them
    form = _LENGTH if columns.begins else _MEASURED
    measured = {at: kind for at, kind in columns.kinds.items() if form.fullmatch(cells[at].strip())}
    parts = [f"⟨{measured[at]}⟩" if at in measured else cell.strip() for at, cell in enumerate(cells)]
    guessed = not columns.doubted.isdisjoint(measured)
    return Shown(row, " | ".join(parts), frozenset(_counted(kind) for kind in measured.values()), guessed)


def _counted(kind: str) -> str:
    """Return what a kind of measurement is counted as among printed lines."""
    return {"time": "times", "rate": "rates"}.get(kind, kind)


def _cells(row: str) -> list[str]:
    """Return what is between the bars of a row; empty if there are none."""
    parts: Sequence[str] = _BARS.split(row)
    if len(parts) < 2:
        return []
    first, last = int(not parts[0].strip()), len(parts) - int(not parts[-1].strip())
    return list(parts[first:last])


def _is_rule(row: str) -> bool:
    if len(row) > _LONGEST or not any(pair in row for pair in ("--", "==", "──", "━━", "══")):
        return False
    return _RULES.issuperset(row)


def _squeezed(row: str) -> str:
    """Return a head or rules without what only makes room for values."""
    return re.sub(r"([-=─━═])\1+", r"\1", re.sub(r" +", " ", row)).strip()
