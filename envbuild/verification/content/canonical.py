"""The content of one file as a sequence of named entries: those that count, and measurements, which do not."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import zip_longest

import msgspec

from envbuild.core.patterns import lazy
from envbuild.record.shared_names import SharedNames, common_names
from envbuild.verification.dataflow.unmeasured import label_before, labels_of_moment, pair_before
from envbuild.verification.masking.doubtful import (
    MEASURED,
    all_numbers,
    doubtful_in,
    is_dated,
    is_exact,
    key_leaves_doubt,
    last_key,
    memory_leaves_doubt,
    memory_may_be_simulated,
    numbers_left_out,
)
from envbuild.verification.masking.durations import has_durations
from envbuild.verification.masking.masks import Masked, Masks

OF_WRITING, ONLY_BYTES = "the format keeps the time of writing", "only the container's bytes differ"
"""Why files of equal content have other bytes."""
FILE = 128 << 20
"""Bytes of the largest file that is opened."""
UNPACKED = 256 << 20
"""Bytes that may come out of all archives in a file."""
DEPTH = 8
"""Archives in archives."""
NESTED = 200
"""Lists in lists."""
ENTRIES = 4_000_000
_SHOWN = 20_000
"""Entries whose values are kept to be shown."""
FURTHER = f"places behind the first {_SHOWN:,}"
"""The name of all places of measurements that are not kept by their own: many harmless ones must not hide another."""
_NAMES = 100_000
"""Names that look drawn and are kept: of those behind them the common ones are not found where others are drawn."""
_FORMS = 10_000
"""Forms of texts that are known to leave no doubt."""
_DIGIT = lazy(r"\d")
_LONGEST = 60
_READ = 4096
"""Bytes of a measurement in which numbers are looked for."""
_NUMBERS = lazy(r"[\d.]+(?:e[-+]?\d+)?", re.IGNORECASE)
_PLAIN = lazy(r"\d{1,20}(?:\.\d{1,30})?(?:e[-+]?\d{1,3})?", re.IGNORECASE)
_MOST_IN_SERIES = 2000
"""Numbers of a place that has several which are kept."""
_DIGITS = 16
"""Digits of all values of a column together, from which two measurements hardly ever give the same."""
_DATA = lazy(r"[0-9a-z]{8,64}|[0-9a-f-]{16,}|[a-z]+(?:[_-][a-z]+)*[_-]\d{1,4}", re.IGNORECASE)
"""Identities that two runs have in common only if they are data: drawn ones, and those that count things."""
_OF_HOSTS = ("host", "hostname", "node_name")
_PATH = 300
_WORDS = {"time": "times", "rate": "rates", "memory": "memory", "identity": "names"}


class UnreadableError(Exception):
    """A file is not what it seems, or more than is opened: its bytes count."""


class TooMuchError(UnreadableError):
    """A file holds more than is opened, however it is read."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a file means.

    Attributes:
        digest: of all that counts.
        entries: names and digests of what counts, in their order, as far as they are kept, with values to be shown.
        left_out: names of measurements and what they were, digested.
        times: the format itself keeps when it was written.
        exact: of the times and rates that were left out, those with so many digits that two measurements hardly ever
            give the same; True for those that may be a result by their name.
        short: of the others, those that may be a result by their name.
        memory: of the measures of memory that were left out, those that may be a result by their name.
        used: further ones, which may be of a memory that is simulated if they are far apart in several runs.
        numbers: of times, rates and memory that were left out, those that are one plain number, as they are written;
            of lines of text all such numbers. ``series``: those of which a place has several, as a column has,
            if all of them are kept.
        labels: words before numbers that were left out of texts as times or rates, by the name of the line;
            ``amounts``: those of lines with a measure of memory.
        scalars: digest of the single numbers of TensorBoard's event files, which are metrics too; empty if there are
            none. ``others``: of all else, empty if there is nothing; ``count``: how many values that are no scalars.
        names: UUIDs and identities that were left out, shortened, in their order.
        glued: those that have the form of a UUID without dashes and were replaced by their places in a page: whether
            they were drawn, experiments show.
        unordered: its parts come in any order, so that the order in which it mentions files does not count either.
        base: the digest, where this one has in it which names other runs have too (``with_shared_names``).
        strange: by name, dates and the like that are left out and are not of the run: see ``Masked`` and
            ``time_of_writing``; ``dated``: words before dates and times of day, by the name of a line of text;
            ``durations``: lines with durations that are left out.
        parts: paths of files, relative to the folder of this one, whose content this is too: they count by it alone.
        rolls: of a log that begins new files, the least and the most that the limit of their sizes may be.
    """

    digest: str
    entries: tuple[tuple[str, str], ...]
    left_out: dict[str, str]
    times: str = ""
    exact: dict[str, bool] = {}
    short: frozenset[str] = frozenset()
    memory: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()
    numbers: dict[str, str] = {}
    series: dict[str, str] = {}
    labels: dict[str, frozenset[str]] = {}
    amounts: dict[str, frozenset[str]] = {}
    scalars: str = ""
    others: str = ""
    count: int = 0
    parts: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    glued: tuple[str, ...] = ()
    unordered: bool = False
    base: str = ""
    strange: dict[str, str] = {}
    dated: dict[str, frozenset[str]] = {}
    durations: dict[str, str] = {}
    rolls: tuple[int, int] | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """How two files of other bytes compare.

    Attributes:
        same: their contents are equal.
        why: the reason in words: what of the bytes differs, or the first entry that differs.
        left_out: names of the measurements that differ.
    """

    same: bool
    why: str
    left_out: tuple[str, ...] = ()


def _labels(before: str) -> tuple[str, ...]:
    """Return what names a number by what is in front of it: the last word, and the last two."""
    pair = pair_before(before)
    return (label_before(before), pair) if pair else (label_before(before),)


def with_shared_names(contents: Sequence[Content], known: Collection[str] = frozenset()) -> list[Content]:
    """Return what a file holds in several runs, each with a digest that has the names that others have too.

    What was taken for drawn is data then, and its order a result.

    Args:
        contents: of the file, one for each run.
        known: names that are data, whatever the file holds in other runs.
    """
    names = common_names([each.names for each in contents], known=known)
    if len({*map(tuple, names)}) < 2:
        return [msgspec.structs.replace(each, digest=each.base or each.digest) for each in contents]
    found = []
    for each, shared in zip(contents, names, strict=True):
        base = each.base or each.digest
        digest = hashlib.sha256(f"{base} {' '.join(each or '-' for each in shared)}".encode()).hexdigest()
        kept = each.entries if each.base else (("names in it that are data", digest[:12]), *each.entries)
        found.append(msgspec.structs.replace(each, digest=digest if shared else base, base=base, entries=kept))
    return found


def compare(one: Content, other: Content) -> Difference:
    """Describe how the contents of two files with other bytes compare."""
    both = {**one.left_out, **other.left_out}
    names = tuple(name for name in both if one.left_out.get(name) != other.left_out.get(name))
    if one.digest == other.digest:
        one_thing = len(names) == 1 and not names[0].endswith("names in it")
        reasons = [f"{_some(names)} {'differs' if one_thing else 'differ'}"] if names else []
        if one.times != other.times:
            reasons.append(OF_WRITING)
        return Difference(same=True, why=" and ".join(reasons) or ONLY_BYTES, left_out=names)
    return Difference(same=False, why=_first(one.entries, other.entries), left_out=names)


def first_entries(
    mine: Sequence[tuple[str, bytes | str]], theirs: Sequence[tuple[str, bytes | str]]
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the entry of each of two files at which they differ first, to be shown; none where one has ended.

    Args:
        mine, theirs: all that counts, as ``leaves`` returns it.
    """
    for one, other in zip_longest(mine, theirs):
        if one != other:
            found = [((each[0], _shown(each[1])),) if each is not None else () for each in (one, other)]
            return found[0], found[1]
    return (), ()


def _first(mine: Sequence[tuple[str, str]], theirs: Sequence[tuple[str, str]]) -> str:
    """Name the entry that differs first."""
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            if one[0] != other[0]:
                return f"{one[0] or 'the file'} in one, {other[0] or 'the file'} in the other"
            return f"{one[0]}: {one[1]} → {other[1]}" if one[0] else f"{one[1]} → {other[1]}"
    if len(mine) != len(theirs):
        more = (mine if len(mine) > len(theirs) else theirs)[min(len(mine), len(theirs))]
        return f"{more[0] or more[1]} only in one"
    return ""


def _some(names: Sequence[str], count: int = 3) -> str:
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")


@dataclass(kw_only=True)
class Canonical:
    """Collects the entries of one file.

    Args:
        masks: of the run that wrote it.
        left: bytes that archives may still unpack.
        unordered: see ``Content``; a reader sets it.
    """

    masks: Masks
    left: int = UNPACKED
    unordered: bool = False
    _sum: hashlib._Hash = field(default_factory=hashlib.sha256)
    _times: hashlib._Hash = field(default_factory=hashlib.sha256)
    _entries: list[tuple[str, str]] = field(default_factory=list)
    _left_out: dict[str, str] = field(default_factory=dict)
    _exact: dict[str, bool] = field(default_factory=dict)
    _during: set[str] = field(default_factory=set)
    _plain: dict[str, str] = field(default_factory=dict)
    _series: dict[str, list[str]] = field(default_factory=dict)
    _labels: dict[str, Set[str]] = field(default_factory=dict)
    _amounts: dict[str, Set[str]] = field(default_factory=dict)
    _strange: dict[str, str] = field(default_factory=dict)
    _dated: dict[str, Set[str]] = field(default_factory=dict)
    _durations: dict[str, str] = field(default_factory=dict)
    _short: set[str] = field(default_factory=set)
    _memory: set[str] = field(default_factory=set)
    _used: set[str] = field(default_factory=set)
    _names: SharedNames = field(default_factory=lambda: SharedNames(_NAMES))
    _glued: dict[str, None] = field(default_factory=dict)
    _objects: dict[str, int] = field(default_factory=dict)
    _digits: Counter[str] = field(default_factory=Counter)
    _forms: set[str] = field(default_factory=set)
    _count: int = 0
    _scalars: hashlib._Hash | None = None
    _numbers: int = 0
    _added: int = 0

    def number_of(self, identity: str) -> int:
        """Return the number of an object by an identity that is another one in each run, in order of first mention."""
        return self._objects.setdefault(identity, len(self._objects))

    def result(self) -> Content:
        """Return what was collected."""
        others, scalars = self._sum.hexdigest(), self._scalars.hexdigest() if self._scalars is not None else ""
        return Content(
            digest=hashlib.sha256(f"{others} {scalars}".encode()).hexdigest() if scalars else others,
            entries=tuple(self._entries),
            left_out=self._left_out,
            times=self._times.hexdigest(),
            exact=self._exact,
            short=frozenset(self._short - self._exact.keys()),
            memory=frozenset(self._memory),
            used=frozenset(self._used),
            numbers={name: text for name, text in self._plain.items() if text},
            series={name: " ".join(texts) for name, texts in self._series.items() if len(texts) > 1},
            labels=_frozen(self._labels),
            amounts=_frozen(self._amounts),
            scalars=scalars,
            others=others if self._count > self._numbers else "",
            count=self._added,
            names=self._names.result(),
            glued=tuple(self._glued),
            unordered=self.unordered,
            strange=self._strange,
            dated=_frozen(self._dated),
            durations=self._durations,
        )

    def spend(self, size: int) -> None:
        """Take bytes from what archives may unpack; raises ``UnreadableError`` if too few are left."""
        self.left -= size
        if self.left < 0:
            raise TooMuchError("more bytes unpacked than may be")

    def add(self, name: str, value: bytes | str) -> None:
        """Count something."""
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        key = name.encode("utf-8", "surrogatepass")
        self._update(b"+%d:%s%d:" % (len(key), key, len(data)), data)
        self._added += 1
        if len(self._entries) < _SHOWN:
            self._entries.append((name, _shown(value)))

    def scalar(self, name: str, data: bytes, value: float) -> None:
        """Count a single number of TensorBoard's, apart from all else: it is a metric of the run too.

        Args:
            name: its tag and step.
            data: as it is stored.
            value: to be shown.
        """
        if self._scalars is None:
            self._scalars = hashlib.sha256()
        key = name.encode("utf-8", "surrogatepass")
        self._update(b"+%d:%s%d:" % (len(key), key, len(data)), data, self._scalars)
        self._numbers += 1
        if len(self._entries) < _SHOWN:
            self._entries.append((name, repr(value)))

    def leave_out(
        self,
        name: str,
        value: bytes | str,
        kind: str,
        *,
        packed: bool = False,
        moment: bool = False,
        during: bool = False,
        doubtful: bool = False,
    ) -> None:
        """Note a measurement: that it is there counts, its value does not.

        Args:
            name: where it is.
            value: it.
            kind: as ``kind_of`` returns it.
            packed: many numbers, or one in binary form: they are not written with so many digits.
            moment: a date that is left out since it is about when the run was, whatever its name.
            during: it is a moment of the run itself, which leaves no doubt.
            doubtful: it may be a result, whatever its name.
        """
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        key = name.encode("utf-8", "surrogatepass")
        self._update(b"-%d:%s%s:" % (len(key), key, _WORDS.get(kind, kind).encode()), b"")
        if kind == "identity" and isinstance(value, str) and _DATA.fullmatch(value) is not None:
            self.note_names([] if name.lower().endswith(_OF_HOSTS) else [value])
        place = _place(name, self._left_out)
        if place == FURTHER:
            self._leave_out_further(name, data, kind, packed, not during and doubtful, moment or during)
            return
        if kind in ("time", "rate", "memory"):
            single = name not in self._left_out and isinstance(value, str) and _PLAIN.fullmatch(value) is not None
            self._plain[name] = str(value) if single else ""
        self._note_series(name, value, kind)
        self._note_value(name, data)
        unknown = name not in self._exact or (name in self._during and not during)
        if kind in ("time", "rate") and unknown and (packed or self._is_exact(name, data)):
            self._exact[name] = not during and (doubtful or key_leaves_doubt(name, moment=moment))
            (self._during.add if during else self._during.discard)(name)
        elif kind in ("time", "rate") and not during and (doubtful or key_leaves_doubt(name, moment=moment)):
            self._short.add(name)
        elif kind == "memory" and memory_leaves_doubt(name.rpartition(".")[2]):
            self._memory.add(name)
        elif kind == "memory" and memory_may_be_simulated(name.rpartition(".")[2]):
            self._used.add(name)

    def _note_series(self, name: str, value: bytes | str, kind: str) -> None:
        """Keep a number of a place that may have several; of one with anything else, or with very many, none."""
        if name not in self._left_out:
            self._series[name] = []
        elif name not in self._series:
            return
        known, number = self._series[name], isinstance(value, str) and _PLAIN.fullmatch(value) is not None
        if kind in ("time", "rate") and number and len(known) < _MOST_IN_SERIES:
            known.append(str(value))
        else:
            del self._series[name]

    def leave_out_line(self, name: str, value: str) -> None:
        """Note a line that may be there or not, all of which have one name: not even how many there are counts."""
        self._note_value(name, value.encode("utf-8", "surrogatepass"))

    def _note_value(self, place: str, data: bytes) -> None:
        known = self._left_out.get(place, "")
        self._left_out[place] = hashlib.sha256(known.encode() + data).hexdigest()[:32]

    def _leave_out_further(self, name: str, data: bytes, kind: str, packed: bool, doubtful: bool, moment: bool) -> None:
        """Note a measurement whose place is not kept: all of them are in doubt if one of them is."""
        self._note_value(FURTHER, data)
        last = last_key(name)
        if kind in ("time", "rate"):
            exact = packed or self._is_exact(FURTHER, data)
            self._doubt_further(doubtful or key_leaves_doubt(name, moment=moment), exact=exact)
            _add_to(self._labels, FURTHER, {label_before(last)})
            if _PLAIN.fullmatch(text := data[:_READ].decode("utf-8", "replace")) is None or is_dated(text, self.masks):
                _add_to(self._dated, FURTHER, {label_before(last)})
        elif kind == "memory":
            _add_to(self._amounts, FURTHER, {label_before(last)})
            if memory_leaves_doubt(name.rpartition(".")[2]):
                self._memory.add(FURTHER)

    def _doubt_further(self, doubt: bool, *, exact: bool) -> None:
        """Note whether one of the places that are not kept may be a result, and has many digits."""
        if doubt:
            self._short.add(FURTHER)
        if exact or FURTHER in self._exact:
            self._exact[FURTHER] = FURTHER in self._short

    def note_names(self, names: Sequence[str]) -> None:
        """Note names that look drawn, and are left out or replaced by their places."""
        self._names.add(names)

    def note_glued(self, names: Sequence[str]) -> None:
        """Note names that have nothing but their form to show that they were drawn."""
        self._glued |= dict.fromkeys(names)

    def _is_exact(self, name: str, data: bytes) -> bool:
        """Whether numbers have enough digits, each by itself or all of that name together."""
        numbers = _NUMBERS.findall(data[:_READ].decode("ascii", "replace"))
        if any(map(is_exact, numbers)):
            return True
        written = (number.lower().partition("e")[0] for number in numbers)
        self._digits[name] += sum(len(number.replace(".", "").lstrip("0")) for number in written)
        return self._digits[name] >= _DIGITS

    def time_of_writing(self, value: bytes | str, *, name: str = "", moment: float | None = None) -> None:
        """Note what the format keeps about when and how it was written.

        Args:
            value: it.
            name: of what it is the time.
            moment: which, in seconds since 1970; one that is none of the run is compared, to be quoted. None for no
                moment.
        """
        if moment is not None and self.masks.is_strange(moment):
            self.note_strange(name, moment_text(moment))
        self._times.update(value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass"))

    def note_strange(self, name: str, value: str) -> None:
        """Note what is left out and is not of the run; of one name all of them."""
        place = _place(name, self._strange)
        known = self._strange.get(place)
        every = value if known is None else f"{known}, {value}"
        if len(every) > _READ:
            every = f"times of digest {hashlib.sha256(every.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        self._strange[place] = every

    def note_moment(self, name: str, value: str, seconds: float) -> None:
        """Note a time that is left out, in seconds since 1970, if it is none of the run."""
        if self.masks.is_strange(seconds):
            self.note_strange(name, value)

    def text(self, name: str, value: str, *, doubtful: bool = False) -> None:
        """Count a text of one line but for what is masked in it; ``doubtful``: times in it may be results."""
        masked: Masked = self.masks.mask(value)
        self.add(name, masked.text)
        if masked.kinds:
            self.leave_out_of_text(name, value, masked)
            if doubtful and masked.kinds <= MEASURED:
                self._doubt(name, value)

    def _doubt(self, name: str, value: str) -> None:
        """Note that what is masked in a text may be a result."""
        exact = any(map(is_exact, _NUMBERS.findall(value)))
        if name not in self._left_out:
            self._doubt_further(True, exact=exact)
            return
        self._exact.pop(name, None)
        if exact:
            self._exact[name] = True
        else:
            self._short.add(name)

    def leave_out_of_text(self, name: str, value: str, masked: Masked) -> None:
        """Note what is masked in a line."""
        self._names.add(masked.names)
        for each in masked.strange:
            self.note_strange(name, each)
        self.leave_out(name, value, ", ".join(sorted(masked.kinds)))
        if name not in self._left_out:
            self._leave_out_of_further_text(name, value, masked)
            return
        if "times" in masked.kinds and len(value) <= _READ:
            self.note_dated(name, (before for before, text in all_numbers(value) if is_dated(text, self.masks)))
            self._durations |= {name: value} if has_durations(value) else {}
        if masked.kinds <= MEASURED:
            found = numbers_left_out(value, name, self.masks, masked.text)
            if labels := frozenset(label for number in found if number.is_plain for label in _labels(number.before)):
                self._labels[name] = labels
                if all(number.is_plain for number in found):  # the date of a log is none of its numbers
                    self._plain[name] = " ".join(number.text for number in found)
            self._exact[name] = doubtful_in(value, name, self.masks, masked.text)
            if not self._exact[name] and (
                masked.column or masked.guessed or doubtful_in(value, name, self.masks, masked.text, short=True)
            ):
                del self._exact[name]
                self._short.add(name)
        elif "memory" in masked.kinds:
            found = numbers_left_out(value, name, self.masks, masked.text)
            self._amounts[name] = frozenset(label_before(number.before) for number in found if number.is_plain)
            if memory_leaves_doubt(value):
                self._memory.add(name)

    def _leave_out_of_further_text(self, name: str, value: str, masked: Masked) -> None:
        """Note what is masked in a line whose place is not kept; lines that differ in digits alone are alike."""
        form = _DIGIT.sub("0", value[:_READ])
        if form in self._forms:
            return
        if "times" in masked.kinds and len(value) <= _READ:
            self.note_dated(FURTHER, (before for before, text in all_numbers(value) if is_dated(text, self.masks)))
        if masked.kinds <= MEASURED:
            found = numbers_left_out(value, name, self.masks, masked.text)
            _add_to(self._labels, FURTHER, (label for each in found if each.is_plain for label in _labels(each.before)))
            exact = doubtful_in(value, name, self.masks, masked.text)
            few = masked.column or masked.guessed or doubtful_in(value, name, self.masks, masked.text, short=True)
            self._doubt_further(exact or bool(few), exact=exact)
        elif "memory" in masked.kinds:
            found = numbers_left_out(value, name, self.masks, masked.text)
            _add_to(self._amounts, FURTHER, (label_before(number.before) for number in found if number.is_plain))
            if memory_leaves_doubt(value):
                self._memory.add(FURTHER)
        if len(self._forms) < _FORMS:
            self._forms.add(form)

    def note_dated(self, name: str, before: Iterable[str]) -> None:
        """Note what is before dates that are left out of a text: its last words."""
        _add_to(self._dated, name, frozenset[str]().union(*map(labels_of_moment, before)))

    def is_moment(self, seconds: float) -> bool:
        """Whether a number of seconds since 1970 is about when the run was."""
        return self.masks.is_moment(seconds)

    def is_during(self, seconds: float) -> bool:
        """Whether it is a moment of the run itself."""
        return self.masks.is_during(seconds)

    def _update(self, head: bytes, data: bytes, total: hashlib._Hash | None = None) -> None:
        self._count += 1
        if self._count > ENTRIES:
            raise TooMuchError(f"more than {ENTRIES} entries")
        total = total or self._sum
        total.update(head)
        total.update(data)


@dataclass(kw_only=True)
class Leaves(Canonical):
    """Collects the entries of one file with their values.

    Attributes:
        found: names and values of what counts; of measurements, the mark of their kind.
    """

    found: list[tuple[str, bytes | str]] = field(default_factory=list)
    _kept: int = 0

    def add(self, name: str, value: bytes | str) -> None:
        """Keep something that counts."""
        self._keep(name, value)

    def leave_out(
        self,
        name: str,
        value: bytes | str,
        kind: str,
        *,
        packed: bool = False,
        moment: bool = False,
        during: bool = False,
        doubtful: bool = False,
    ) -> None:
        """Keep that a measurement is there."""
        self._keep(name, f"⟨{_WORDS.get(kind, kind)}⟩")

    def scalar(self, name: str, data: bytes, value: float) -> None:
        """Keep a single number of TensorBoard's."""
        self._keep(name, repr(value))

    def _keep(self, name: str, value: bytes | str) -> None:
        self._kept += len(value) + 100
        if self._kept > FILE * 2:
            raise TooMuchError("too much to be kept")
        self.found.append((name, value))


@dataclass(kw_only=True)
class Wholes(Leaves):
    """Collects the entries of one file with their values, those of measurements too."""

    def leave_out(
        self,
        name: str,
        value: bytes | str,
        kind: str,
        *,
        packed: bool = False,
        moment: bool = False,
        during: bool = False,
        doubtful: bool = False,
    ) -> None:
        """Keep a measurement; of a line that is masked in a part the whole line."""
        self._keep(name, value)


@dataclass(kw_only=True)
class Texts(Canonical):
    """Collects all values of one file, of measurements and drawn names too, without their places.

    Attributes:
        found: the values as bytes.
    """

    found: list[bytes] = field(default_factory=list)
    _kept: int = 0

    def add(self, name: str, value: bytes | str) -> None:
        """Keep something that counts."""
        self._keep(value)

    def leave_out(
        self,
        name: str,
        value: bytes | str,
        kind: str,
        *,
        packed: bool = False,
        moment: bool = False,
        during: bool = False,
        doubtful: bool = False,
    ) -> None:
        """Keep a measurement."""
        self._keep(value)

    def scalar(self, name: str, data: bytes, value: float) -> None:
        """Keep no number."""

    def _keep(self, value: bytes | str) -> None:
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        self._kept += len(data) + 50
        if self._kept > FILE * 2:
            raise TooMuchError("too much to be kept")
        self.found.append(data)


@dataclass(kw_only=True)
class Identities(Canonical):
    """Collects what is left out of one file as an identity, each with its place.

    Attributes:
        found: places and identities, in their order.
    """

    found: list[tuple[str, str]] = field(default_factory=list)
    _kept: int = 0

    def leave_out(
        self,
        name: str,
        value: bytes | str,
        kind: str,
        *,
        packed: bool = False,
        moment: bool = False,
        during: bool = False,
        doubtful: bool = False,
    ) -> None:
        """Keep an identity."""
        if kind != "identity" or not isinstance(value, str):
            return
        self._kept += len(value) + 100
        if self._kept > FILE * 2:
            raise TooMuchError("too much to be kept")
        self.found.append((name, value))


def _place(name: str, known: Mapping[str, str]) -> str:
    """Return where a place is noted: by its name, or with all further ones once very many are known."""
    return name if name in known or len(known) < _SHOWN else FURTHER


def _add_to(known: dict[str, Set[str]], name: str, labels: Iterable[str]) -> None:
    """Add to the labels of a place, in its own set: one place may have a million labels, each added by itself."""
    if found := frozenset(labels):
        kept = known.get(name)
        if isinstance(kept, set):
            kept |= found
        else:
            known[name] = {*(kept or ()), *found}


def _frozen(known: Mapping[str, Set[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(labels) for name, labels in known.items()}


def below(path: str, part: str, mark: str = ".") -> str:
    """Return the name of a part of something; long ones are shortened by their digest, so that they stay small."""
    name = f"{path}{mark}{part}" if path else part
    if len(name) <= _PATH:
        return name
    return f"{name[: _PATH // 2]}…{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _shown(value: bytes | str) -> str:
    if isinstance(value, bytes):
        if len(value) < _LONGEST and value.isascii() and value.decode().isprintable():
            return value.decode()
        return f"{len(value):,} bytes, sha256 {hashlib.sha256(value).hexdigest()[:8]}"
    if len(value) <= _LONGEST:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{value[: _LONGEST - 12]}… {digest[:8]}"


def moment_text(seconds: float) -> str:
    """Return a moment to be shown, by UTC."""
    try:
        return f"{datetime.fromtimestamp(int(seconds), timezone.utc):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s since 1970"


def day(year: int, month: int, date: int) -> float | None:
    """Return the noon of a day in seconds since 1970; None if there is no such day."""
    try:
        return datetime(year, month, date, 12, tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
