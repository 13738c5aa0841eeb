"""Whether numbers follow a clock exactly: dates, durations and rates, as shown by runs with clocks of known settings.

With the clock fixed (``runtime/hook/fix_clock.py``) a program gets START + k x TICK at its k-th question. A value
is

- a *date* if it is START + k x TICK with one whole k in all settings, and about now with the real clock;
- a *reading* if it is that too, but with the real clock a time since the machine or the program started;
- a *duration* if it is r x TICK, whatever START is, with one simple fraction r: sums, means and parts of durations;
- a *deviation* of durations if its square is r x TICK x TICK;
- a *rate* if it is r / TICK with a simple fraction r, and never a whole number: a count of steps within a limit is one.

All else is a result: what has a constant part, what is multiplied by something that is no simple fraction, what is
rounded so far that many fractions would fit. How simple a fraction has to be follows from how exactly the values show
it: ``RISK`` is the most that the chance may be that one as simple fits any number.

Sums are of ``Fraction``, so that nothing is rounded here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

Kind = Literal["date", "reading", "duration", "rate", "ratio", "memory", "identity", "process", "port"]

TICK = 31_250_000
"""Nanoseconds: 1/32 s, which floating-point numbers, microseconds and milliseconds hold exactly."""
RATIO = 1031
"""Between the ticks of two settings: a prime, so large that values of two decimals show how many ticks they are."""
SMALL_RATIO = 31
"""The same for programs that do not end well with that one, as what they keep for an hour is out of date."""
SHIFT = ((3 * 24 + 7) * 3600 + 11 * 60 + 13) * 10**9 + 123 * TICK
"""Nanoseconds between the starts of two settings: no whole number of days, hours, minutes, seconds or two ticks."""
MEMORY = 1 << 20
"""What measures of memory are at the slow tick: in KiB a gibibyte."""
LARGER = 1033
"""How many times as large they are at the fast one: another prime than ``RATIO``, so that no measure is a duration."""
_SIZES = tuple(
    unit * size
    for unit in (1, 4)
    for size in (
        *(Fraction(1024) ** power for power in (0, 1, -1, -2, -3)),
        *(Fraction(1024) / Fraction(1000) ** power for power in (0, 1, 2, 3)),
    )
)
"""A measure of memory may be shown in bytes, KiB, MiB, GiB, thousands of bytes, or pages of 4 KiB as one of these."""
_SHARE = 1000
"""As many times as large as what it may be off by is what shows a measure of memory."""
PROCESSES, _SKIPPED = 250, 300
"""How many numbers of processes, from the first that a child may have, a run has to itself; their distance in two
settings."""
_PORTS, PORTS_OF_RUN, _ROWS = 33_000, 2_000, 11
"""The first port that sockets get, how many a run has to itself, and how many rows there are: one for each measure of
memory, as ``runtime/hook/fix_ports.py`` has them."""
RISK = Fraction(1, 500)
"""The chance that is allowed that a fraction as simple fits an unrelated number."""
_LEAST_PART = Fraction(1, 20)
"""Part of that chance that is left at least where several speeds of the clock show the same: however exact numbers are,
a result that is divided by a time is no rate, as its fraction is no simple one."""
_MANY = 1000
"""Denominators above this one are no parts of a duration that a program would take; rates have any."""
_SMALLER = 12
"""As many times as small a rate is at least, as it is shown, where the clock is faster."""
_MANY_TO_COME = 100_000
"""The same of what is estimated: ``passed * (steps - done) / done``."""
_SECOND = 10**9
_UNITS: Mapping[int | Fraction, int] = {
    **{10**9: 4, 10**6: 4, 10**3: 4, 1: 4},
    **{Fraction(1, 60): 50, Fraction(1, 3600): 50},
}
"""How many a second is of units of durations, minutes and hours last, and how many trials each counts as: these, of
which a tick is no simple fraction, are shown by many digits alone."""
_DOUBLE = Fraction(1, 2_000_000)
"""Seconds by which a floating-point number of seconds since 1970 may be wrong."""
_ROUNDED = Fraction(2, 10**14)
"""Part of a value by which sums of floating-point numbers may be wrong."""
_MINUTE = 60
_COARSE = 64
"""Seconds: a number that is coarser is no date."""
_EPOCHS = tuple((Fraction(1, unit), Fraction(0), _DOUBLE) for unit in (1, 10**3, 10**6, 10**9))
_SERIAL = (Fraction(86400), Fraction(-25569 * 86400), Fraction(1, 1000))
"""Days since the end of 1899, as workbooks have them."""
_JULIAN = (Fraction(86400), Fraction(-4881175, 2) * 86400, Fraction(1, 1000))
_MODIFIED = (Fraction(86400), Fraction(-40587) * 86400, Fraction(1, 1000))
"""Days since noon of 1 January 4713 BC, as SQLite rounds them, and since 17 November 1858."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A clock: its first time and its step, both in nanoseconds, and how many seconds one that is slept takes.

    Attributes:
        stream: which stream of entropy goes with it; 0: what is drawn is real.
        memory: what measures of memory are then; 0: they are real.
        processes: how many numbers of processes are skipped before the first child gets one.
    """

    start: int
    tick: int
    scale: int = 1
    stream: int = 0
    memory: int = 0
    processes: int = 0

    @property
    def fixes(self) -> str:
        """What is fixed, as the hook reads it.

        Where all is known, tasks are done one after another too: each process has its own clock, so that what a worker
        reads depends on how many tasks it did before.
        """
        known = f",entropy={self.stream},figures={self.memory},processes={self.processes},order"
        more = known if self.stream else ""
        return f"clock={self}{more}"

    @property
    def port(self) -> int:
        """The first of the ports that sockets without one get; 0: they get what the system chooses."""
        return _PORTS + self.memory // MEMORY % _ROWS * PORTS_OF_RUN if self.memory else 0

    def __str__(self) -> str:
        """Return it as the hook reads it."""
        return f"{self.start}/{self.tick}/{self.scale}"


@dataclass(frozen=True, slots=True)
class Span:
    """When a run was: seconds since 1970, and since the machine's start, if that is known."""

    begin: float
    end: float
    up: float | None = None


When = Setting | Span
"""The clock of a run: a fixed one, or the real one."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as a run shows it.

    Attributes:
        value: it.
        off: by how much it may be off from what it was before it was written.
        whole: it is written as a whole number.
    """

    value: Fraction
    off: Fraction
    whole: bool = False


Values = Sequence[tuple[When, Number]]


def settings(start: int, *, all_known: bool = False, ratio: int = RATIO) -> tuple[Setting, Setting, Setting, Setting]:
    """Return the clocks to try: one, one that starts later, one that ticks faster, and one that does both.

    Args:
        start: seconds since 1970.
        all_known: with each go another stream of entropy and other numbers of processes, and with the tick what
            measures of memory are.
        ratio: between the ticks of the slow and the fast ones.
    """
    first = start * _SECOND + TICK // 2  # so that no time is a whole second
    clocks = (
        Setting(first, TICK),
        Setting(first + SHIFT, TICK),
        Setting(first, TICK * ratio, ratio),
        Setting(first + SHIFT, TICK * ratio, ratio),
    )
    if not all_known:
        return clocks
    one, two, three, four = (
        replace(
            clock,
            stream=number,
            memory=MEMORY * (LARGER if clock.scale > 1 else 1),
            processes=number * _SKIPPED + _SKIPPED // 2,
        )
        for number, clock in enumerate(clocks, 1)
    )
    return one, two, three, four


def kind_of_numbers(values: Values, trials: int = 1, *, estimated: bool = False) -> Kind | None:
    """Return what a number is that follows the clock; None if it does not follow it exactly.

    Args:
        values: with fixed clocks and with the real one, at least one each.
        trials: how many readings of the same bytes are tried.
        estimated: by its name it is what is to be expected, made of a duration up to now by counts of any size.
    """
    fixed = [(when, number) for when, number in values if isinstance(when, Setting)]
    real = [(when, number) for when, number in values if isinstance(when, Span)]
    if not fixed or not real:
        return None
    if any(_is_date(fixed, real, *each) for each in (*_EPOCHS, _SERIAL, _JULIAN, _MODIFIED)):
        return "date"
    if any(_is_reading(fixed, real, unit, off) for unit, _, off in _EPOCHS):
        return "reading"
    if any(number.value < 0 for _, number in real) or any(number.value <= 0 for _, number in fixed):
        return None
    for loose in (False, True):
        if _is_duration(fixed, trials, loose=loose, most=_MANY_TO_COME if estimated else _MANY):
            return "duration"
    if _is_memory(fixed):
        return "memory"
    whole = all(number.whole for _, number in values)
    for loose in (False, True):
        if not whole and _is_rate(fixed, trials, loose=loose):
            return "rate"
    return None


def is_whole_rate(values: Values) -> bool:
    """Whether whole numbers are a rate, rounded; what is a count within a limit of time looks like one."""
    fixed = [(when, number) for when, number in values if isinstance(when, Setting)]
    if not fixed or not all(number.whole and number.value > 0 for _, number in values):
        return False
    return any(_is_rate(fixed, 1, loose=loose) for loose in (False, True))


def goes_as_rate(values: Values) -> bool:
    """Whether numbers are smaller in the measure in which the clock is faster, as far as their few digits show.

    A number of steps within a limit is so too, so that something else has to say that it is a rate: its unit.
    """
    fixed = [(when, number) for when, number in values if isinstance(when, Setting)]
    ticks = {when.tick for when, _ in fixed}
    if len(ticks) < 2 or any(number.value < 0 for _, number in values):
        return False
    low = max((number.value - number.off) * when.tick for when, number in fixed)
    high = min((number.value + number.off) * when.tick for when, number in fixed)
    slow = min(number.value for when, number in fixed if when.tick == min(ticks))
    fast = max(number.value + number.off for when, number in fixed if when.tick == max(ticks))
    return 0 < low <= high and fast * _SMALLER <= slow


def is_deviation(values: Values) -> bool:
    """Whether numbers are a standard deviation of durations: its square is a simple fraction of a tick's.

    It is nought in all settings if all durations are the same number of ticks.
    """
    fixed = [(when, number) for when, number in values if isinstance(when, Setting)]
    if not fixed or any(number.value < 0 for _, number in values) or len({when.tick for when, _ in fixed}) < 2:
        return False
    if all(number.value == 0 for _, number in fixed):
        return True
    squares = [(when, Number(number.value**2, number.off * (2 * number.value + number.off))) for when, number in fixed]

    def ticks(when: Setting, value: Fraction) -> Fraction:
        return value * (_SECOND * _SECOND) / (when.tick * when.tick)

    units = {unit * unit: ways for unit, ways in _UNITS.items() if unit >= 1}
    return _simple(squares, ticks, 1, loose=False, units=units, most=_MANY)


def is_stopwatch(values: Values) -> bool:
    """Whether numbers are as many whole ticks in all settings: one reading of a clock less another one."""
    fixed = [(when, number) for when, number in values if isinstance(when, Setting)]
    if not fixed:
        return False
    for unit in (1, 10**3, 10**6, 10**9):
        counts = {round(number.value * _SECOND / (when.tick * unit)) for when, number in fixed}
        if len(counts) == 1 and all(
            abs(number.value - Fraction(next(iter(counts)) * when.tick * unit, _SECOND))
            <= number.off + number.value * _ROUNDED + _DOUBLE * unit
            for when, number in fixed
        ):
            return counts != {0}
    return False


def are_counts(values: Values) -> bool:
    """Whether numbers are whole ticks in all settings, though not equally many: what is waited for meanwhile is luck.

    Programs that wait for others ask the clock as often as these are slow: papermill, for a cell of a notebook.
    """
    fixed = [(when, number) for when, number in values if isinstance(when, Setting)]
    off = min(number.off for _, number in values)  # noughts at the end are left out as a rule
    return bool(fixed) and any(
        all(_is_count(number.value, off, Fraction(when.tick * unit, _SECOND)) for when, number in fixed)
        for unit in (1, 10**3, 10**6, 10**9)
    )


def _is_count(value: Fraction, off: Fraction, tick: Fraction) -> bool:
    """Whether a number is so many ticks, and shows it: unrelated ones are so near to a tick once in a hundred times."""
    off += value * _ROUNDED + _DOUBLE
    count = round(value / tick)
    return count > 0 and off * 200 <= tick and abs(value - count * tick) <= off


def _is_memory(fixed: Sequence[tuple[Setting, Number]]) -> bool:
    """Whether numbers are the measure of memory of each setting, in a usual unit."""
    if len({when.memory for when, _ in fixed}) < 2 or not all(when.memory for when, _ in fixed):
        return False
    if max(number.value / number.off if number.off else _SHARE for _, number in fixed) < _SHARE:
        return False
    return any(all(abs(number.value - when.memory * size) <= number.off for when, number in fixed) for size in _SIZES)


def is_date(values: Values, zone: int = 0) -> bool:
    """Whether seconds since 1970, as dates in texts show them, follow the clock; ``zone``: seconds east of UTC."""
    fixed = [(when, number) for when, number in values if isinstance(when, Setting)]
    real = [(when, number) for when, number in values if isinstance(when, Span)]
    return bool(fixed and real) and _is_date(fixed, real, Fraction(1), Fraction(-zone), _DOUBLE, coarse=True)


def is_moment_to_come(values: Values) -> bool:
    """Whether numbers are seconds since 1970, or thousandths, that follow the clock but for so many whole minutes."""
    real = [(when, number) for when, number in values if isinstance(when, Span)]
    fixed = [(when, number) for when, number in values if isinstance(when, Setting)]
    for unit, epoch, off in _EPOCHS[:2] if real and fixed else ():
        ahead = round((real[0][1].value * unit - Fraction(real[0][0].begin)) / _MINUTE) * _MINUTE
        if ahead > 0 and _is_date(fixed, real, unit, epoch - ahead, off):
            return True
    return False


def is_time_of_day(values: Values) -> bool:
    """Whether seconds since midnight follow the clock, in UTC."""
    day = 86400
    fixed = [(when, number) for when, number in values if isinstance(when, Setting)]
    for when, number in values:
        if isinstance(when, Span):
            middle = (Fraction(when.begin) + Fraction(when.end)) / 2
            allowed = (Fraction(when.end) - Fraction(when.begin)) / 2 + number.off + 2
            if _around(number.value - middle, day) > allowed:
                return False
    if not fixed:
        return False
    slowest, first = min(fixed, key=lambda each: each[0].tick)
    tick = Fraction(slowest.tick, _SECOND)
    passed = (first.value - Fraction(slowest.start, _SECOND)) % day
    near = range(max(0, math.floor((passed - first.off) / tick)), math.ceil((passed + first.off) / tick) + 1)
    return any(
        all(
            _around(number.value - Fraction(when.start + k * when.tick, _SECOND), day) <= number.off
            for when, number in fixed
        )
        for k in near[:4096]
    )


def _around(distance: Fraction, day: int) -> Fraction:
    rest = distance % day
    return min(rest, day - rest)


def _is_date(
    fixed: Sequence[tuple[Setting, Number]],
    real: Sequence[tuple[Span, Number]],
    unit: Fraction,
    epoch: Fraction,
    off: Fraction,
    *,
    coarse: bool = False,
) -> bool:
    """Whether numbers, ``unit`` seconds each since ``epoch``, are the time at one question to the clock."""
    for span, number in real:
        seconds, about = number.value * unit + epoch, number.off * unit + off
        if not Fraction(span.begin) - about - 2 <= seconds <= Fraction(span.end) + about + 2:
            return False
    return _is_question(fixed, unit, epoch, off, coarse=coarse)


def _is_reading(
    fixed: Sequence[tuple[Setting, Number]], real: Sequence[tuple[Span, Number]], unit: Fraction, off: Fraction
) -> bool:
    """Whether numbers are what a clock shows that does not know the date, such as ``time.perf_counter``."""
    for span, number in real:
        if span.up is None or not 0 <= number.value * unit <= Fraction(span.up) + number.off * unit + 2:
            return False
    return _is_question(fixed, unit, Fraction(0), off)


def _is_question(
    fixed: Sequence[tuple[Setting, Number]], unit: Fraction, epoch: Fraction, off: Fraction, *, coarse: bool = False
) -> bool:
    """Whether numbers are the fixed clock's at one question, the same one in all settings."""
    low, high = Fraction(1), None
    for when, number in fixed:
        about = number.off * unit + off
        if about > _COARSE and not coarse:
            return False
        passed = number.value * unit + epoch - Fraction(when.start, _SECOND)
        tick = Fraction(when.tick, _SECOND)
        low = max(low, (passed - about) / tick)
        high = (passed + about) / tick if high is None else min(high, (passed + about) / tick)
    return high is not None and math.ceil(low) <= high


def _is_duration(fixed: Sequence[tuple[Setting, Number]], trials: int, *, loose: bool, most: int) -> bool:
    def ticks(when: Setting, value: Fraction) -> Fraction:
        return value * _SECOND / when.tick

    return _simple(fixed, ticks, trials, loose=loose, units=_UNITS, most=most)


def _is_rate(fixed: Sequence[tuple[Setting, Number]], trials: int, *, loose: bool) -> bool:
    def per_tick(when: Setting, value: Fraction) -> Fraction:
        return value * when.tick / _SECOND

    return _simple(fixed, per_tick, trials, loose=loose, units={1: 1, 1000: 50}, most=0)


def _simple(
    fixed: Sequence[tuple[Setting, Number]],
    scaled: Callable[[Setting, Fraction], Fraction],
    trials: int,
    *,
    loose: bool,
    units: Mapping[int | Fraction, int],
    most: int,
) -> bool:
    """Whether all values are the same simple fraction once the tick is taken out of them.

    ``units``: what the fraction may be one of (50,000 in a second is simpler as 50 thousands), and how many trials each
    counts as, so that the chance that an unrelated number fits any of them stays small. It is smaller where clocks of
    another speed show the same: an unrelated number is there in the part of all numbers that the value leaves open.
    """
    low, high = Fraction(0), None
    open_to: dict[int, Fraction] = {}
    for when, number in fixed:
        wrong = _ROUNDED + (_DOUBLE * _SECOND / when.tick if loose else 0)
        off = number.off + number.value * wrong
        low = max(low, scaled(when, number.value - off))
        upper = scaled(when, number.value + off)
        high = upper if high is None else min(high, upper)
        if number.value:
            open_to[when.tick] = min(open_to.get(when.tick, Fraction(1)), 2 * off / number.value)
    if high is None or low > high or low <= 0:
        return False
    # The most exact speed is counted below.
    part = max(math.prod(sorted(open_to.values())[1:], start=Fraction(1)), _LEAST_PART)
    for unit, ways in units.items():
        found = simplest(low / unit, high / unit)
        chance = (high - low) / unit * found.denominator * (found.denominator + 1) / 2
        if chance * part * trials * ways <= RISK and (not most or found.denominator <= most):
            return True
    return False


def simplest(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction of the smallest denominator from ``low`` to ``high``, both positive and included."""
    whole = math.ceil(low)
    if whole <= high:
        return Fraction(whole)
    floor = whole - 1
    rest = simplest(1 / (high - floor), 1 / (low - floor))
    return floor + 1 / rest
