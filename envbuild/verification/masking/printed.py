"""What a program prints, made comparable between runs: what differs in every run is masked, all else counts.

Masked are measurements (times, rates, memory), addresses, and names that are made for the moment. A date or a number of
seconds counts as a time only if it is about when the run was, so that dates in data and large numbers are results. What
is masked leaves a mark of its kind. A terminal is followed as far as programs use it that draw progress: carriage
return, cursor up, colours; a line is what it shows at last.
"""

from __future__ import annotations

import codecs
import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, zip_longest

import msgspec

from envbuild.core.patterns import lazy
from envbuild.record.printed import Printed
from envbuild.record.shared_names import SharedNames, shortened
from envbuild.verification.masking.durations import are_far_apart
from envbuild.verification.masking.lines import TextDifference
from envbuild.verification.masking.masked_lines import Lines
from envbuild.verification.masking.masks import BY_CLOCK, Masked, Masks
from envbuild.verification.masking.screen import PARTIAL, Screen, without_blanks

BOUND_LINES, BOUND_BYTES = 20_000, 256 << 20
"""What of a stream is masked in a run by itself: 1 to 2 s of a processor if all lines hold times."""
_KNOWN_BYTES = 12 << 20
"""Of streams whose masked lines are known at once: both of three runs, as far as they are kept (``KEPT_TEXT``)."""
_BLANKS = 8
"""By which lines of a table differ as its columns are as wide as their numbers."""
_OF_THREAD = lazy(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +(\d+) (?:[\w.]+:\d+\] (\[process=\d+\])?)?")
"""The prefix of a line of absl's and glog's log, with the thread that logged it, and what Orbax puts before its own."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A line as it is shown at last; ``number`` from 1, ``blanks``: what was at its end."""

    number: int
    text: str
    masked: Masked
    blanks: str = ""


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
        self._lines = Lines(masks)
        self._sums = _Sums()
        self._screen = Screen(self._take)
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""
        self._thread = ""
        self._result: Printed | None = None

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next piece."""
        text = self._rest + self._decoder.decode(bytes(data))
        cut = PARTIAL.search(text)
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
        for text, found in self._lines.take(without_blanks(row)):
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
    """Yield the lines of a stream as they are compared.

    Those of the last streams of runs are known: what is left out is looked at in several ways, and to mask 60,000 lines
    takes seconds.
    """
    if not masks.origin or len(data) > _KNOWN_BYTES:
        yield from _rows(data, masks)
        return
    for origin, text, known in _known:
        # The same records, not equal ones, which have long lists to compare.
        if origin[0] is masks.origin[0] and origin[1:] == masks.origin[1:] and text == data:
            yield from known
            return
    found = [*_rows(data, masks)]
    _known.append((masks.origin, data, found))
    while sum(len(text) for _, text, _ in _known) > _KNOWN_BYTES:
        del _known[0]
    yield from found


_known: list[tuple[tuple[object, ...], bytes, list[Row]]] = []


def _rows(data: bytes, masks: Masks) -> Iterator[Row]:
    found: list[str] = []
    screen = Screen(found.append)
    screen.write(data.decode("utf-8", "backslashreplace"))
    screen.finish()
    lines = Lines(masks)
    masked = chain(*(lines.take(without_blanks(text)) for text in found), lines.finish())
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


def _alike(before: bytes, after: bytes, masks: tuple[Masks, Masks]) -> Iterator[tuple[Row, Row]]:
    """Yield the lines of two streams in pairs, up to the first that differs in more than what is masked."""
    for mine, theirs in zip(rows(before, masks[0]), rows(after, masks[1]), strict=False):
        if mine.masked.text != theirs.masked.text:
            return
        yield mine, theirs


def guessed(name: str, before: bytes, after: bytes, masks: tuple[Masks, Masks]) -> Iterator[TextDifference]:
    """Yield the lines of two streams that are equal but for what nothing but a unit shows to be a measurement.

    Args:
        name: of the stream.
        before, after: what was printed, line by line alike but for what is masked.
        masks: of the two runs.
    """
    for mine, theirs in _alike(before, after, masks):
        if mine.masked.guessed and theirs.masked.guessed and mine.text != theirs.text:
            yield TextDifference(path=name, line=mine.number, before=mine.text, after=theirs.text)


def strange(name: str, before: bytes, after: bytes, masks: tuple[Masks, Masks]) -> Iterator[TextDifference]:
    """Yield the lines of two streams that are equal but for what was masked and may be none of the run: see ``Masked``.

    And durations of which one is a hundred times the other, and lasted a second, or one alone is below zero: their unit
    or sign may be a result.

    Args:
        name: of the stream.
        before, after: what was printed, line by line alike but for what is masked.
        masks: of the two runs.
    """
    for mine, theirs in _alike(before, after, masks):
        if mine.text == theirs.text or not mine.masked.kinds:
            continue
        if (
            mine.masked.strange != theirs.masked.strange
            or ("times" in mine.masked.kinds and are_far_apart(mine.text, theirs.text))
            or _has_other_blanks(mine.text, theirs.text)
        ):
            yield TextDifference(path=name, line=mine.number, before=mine.text, after=theirs.text)


def _has_other_blanks(one: str, other: str) -> bool:
    """Whether two lines have more or fewer blanks than columns have whose numbers have more or fewer digits."""
    blanks = abs(one.count(" ") - other.count(" "))
    return blanks > _BLANKS and abs(len(one) - len(other)) > _BLANKS


def other_names(name: str, before: bytes, after: bytes, masks: tuple[Masks, Masks]) -> TextDifference | None:
    """Return the first line of two streams that is equal but for names that look drawn; as ``guessed`` otherwise."""
    for mine, theirs in zip(rows(before, masks[0]), rows(after, masks[1]), strict=False):
        if mine.masked.text != theirs.masked.text:
            return None
        if mine.masked.names != theirs.masked.names:
            return TextDifference(path=name, line=mine.number, before=mine.text, after=theirs.text)
    return None


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
