"""A value is called a measurement only if it follows the clock exactly, whatever is printed of it."""

from __future__ import annotations

import hashlib
import json
import math
import random
import statistics
import struct
from collections.abc import Callable
from datetime import datetime, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.runtime.hook.fix_ports import ROW, first_port
from envbuild.verification.measurements.byte_tokens import of_bytes
from envbuild.verification.measurements.clockwork import (
    LARGER,
    MEMORY,
    PORTS_OF_RUN,
    RATIO,
    SHIFT,
    TICK,
    Setting,
    Span,
    When,
    are_counts,
    settings,
    simplest,
)
from envbuild.verification.measurements.measured import Seen, may_be_drawn, may_be_measured, measured
from envbuild.verification.measurements.tokens import (
    are_no_processes,
    in_order,
    mark_drawn,
    mark_figures,
    number_of,
    of_texts,
    of_uuid,
    skeleton,
)

START = 1_790_000_000


class Clock:
    """What a program reads: a fixed clock of a setting, or a real one."""

    def __init__(self, setting: Setting | None, seed: int) -> None:
        self.setting, self.chance = setting, random.Random(seed)
        self.now = setting.start if setting else (START + 100 * seed) * 10**9 + self.chance.randrange(10**9)

    def ns(self) -> int:
        self.now += self.setting.tick if self.setting else self.chance.randrange(1_000, 40_000_000)
        return self.now

    def __call__(self) -> float:
        return self.ns() / 10**9

    def date(self) -> datetime:
        return datetime.fromtimestamp(self(), timezone.utc)


def runs(program: Callable[[Clock], object]) -> list[tuple[When, object]]:
    """Run a program with all clocks, and with real ones."""
    found: list[tuple[When, object]] = []
    for seed in (1, 2):
        clock = Clock(None, seed)
        begin = clock.now / 1e9
        result = program(clock)
        found.append((Span(begin, clock.now / 1e9 + 0.1), result))
    for setting in settings(START + 1000):
        found.append((setting, program(Clock(setting, 0))))
    return found


def kinds_of(program: Callable[[Clock], object]) -> list[str] | None:
    """Return the kinds of what follows the clock in what a program printed or wrote."""
    found = runs(program)
    texts = [(when, each) for when, each in found if isinstance(each, str)]
    data = [(when, each) for when, each in found if isinstance(each, bytes)]
    pieces = of_texts(texts) if texts else of_bytes(data)
    return None if pieces is None else [each.kind for each in pieces]


def spent(clock: Clock, questions: int = 5) -> float:
    """Take the time of some work that looks at the clock itself."""
    begin = clock()
    for _ in range(questions):
        clock()
    return clock() - begin


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda c: f"done after {spent(c)} of them", ["duration"]),
        (lambda c: f"done after {spent(c):.6f} of them", ["duration"]),
        (lambda c: f"took {spent(c) * 1000:.3f} in all, {spent(c) / 7!r} each", ["duration", "duration"]),
        (lambda c: f"about {240 / spent(c)!r} of them", ["rate"]),
        (lambda c: f"about {50_000 / spent(c, 0):.1f} of them", ["rate"]),
        (lambda c: f"about {100 / spent(c, 0):.1f} of them", ["rate"]),
        (lambda c: f"about {960 / spent(c):.1f} of them", ["rate"]),
        (lambda c: f"at {c()!r} and {c():.3f}, {int(c())}, {c.ns()}", ["date"] * 4),
        (lambda c: f"at {c.date()}", ["date"]),
        (lambda c: f"at {c.date().isoformat(timespec='milliseconds')}", ["date"]),
        (lambda c: c.date().strftime("on %d %B %Y or %a %b %d %H:%M:%S %Y"), ["date", "date"]),
        (lambda c: c.date().strftime("at %H:%M:%S on %A"), ["date", "date"]),
        (lambda c: c.date().strftime("_Generated on %d %B %Y at %H:%M_"), ["date", "date"]),
        (lambda c: f"took {spent(c):12.6f} in all\tloss 0.5", ["duration"]),
        (lambda c: c.date().strftime("run-%Y%m%d-%H%M%S"), ["date"]),
        (lambda c: c.date().strftime("done %d/%b/%Y:%H:%M:%S %z"), ["date"]),
        (lambda c: c.date().strftime("[%d/%b/%Y %H:%M:%S]"), ["date"]),
        (lambda c: c.date().strftime("Run of %d/%m/%Y or %m/%d/%Y, %H:%M:%S, %d.%m.%Y, at %H:%M"), ["date"] * 4),
        (lambda c: f"0:{spent(c) % 60:09.6f}" if False else f"{spent(c):.9f}s", ["duration"]),
        (lambda c: b"\x82\xa4loss" + struct.pack(">d", 0.25) + struct.pack(">d", c()), ["date"]),
        (lambda c: b"\x01busy\0" + struct.pack("<d", spent(c)) + b"tail", ["duration"]),
        (lambda c: b"MY1" + struct.pack("<q", c.ns()) + b"x" * 9, ["date"]),
        (lambda c: f"file of {c.date():%a %b %d %H:%M:%S %Y}, ".encode() + bytes(8), ["date"]),
    ],
)
def test_what_follows_the_clock_is_a_measurement(program: Callable[[Clock], object], expected: list[str]) -> None:
    """Dates, durations and rates, written in any usual way, are recognised without a name."""
    assert kinds_of(program) == expected


def _race(clock: Clock) -> str:
    begin, n = clock(), 0
    while clock() < begin + 0.5:
        n += 1
    return f"{n} done"


@pytest.mark.parametrize(
    "program",
    [
        lambda c: f"rate {0.1 - 0.01 * spent(c)}",
        lambda c: f"x {0.37182644 * spent(c)!r}",
        lambda c: f"x {0.37182644 / spent(c)!r}",
        lambda c: f"x {0.37182644 * spent(c):.6f}",
        lambda c: f"x {spent(c):.1f}",
        lambda c: f"x {math.exp(-spent(c))}",
        lambda c: f"x {math.sin(c())}",
        lambda c: f"x {int(100 / spent(c))}",
        lambda c: f"x {50_000.37 / spent(c, 0):.1f}",
        lambda c: f"x {97.3 / spent(c, 0):.1f}",
        lambda c: f"x {100 / spent(c, 0) + 0.3:.1f}",
        lambda c: f"x {50_021 / spent(c):.1f}",
        lambda c: f"x {c.ns() % 7919}",
        lambda c: f"{c.date():%d}/{c.ns() // 1000 % 12 + 1:02}/2026",
        lambda c: f"{c.ns() // 1000 % 28 + 1:02}.{c.date():%m.%Y}",
        lambda c: f"x {c.ns() // 1000 % 2}",
        lambda c: f"x {random.Random(c.ns()).random()}",
        lambda c: f"loss: {spent(c)}",
        lambda c: f"seed: {c.ns()}",
        lambda c: f"lr = {spent(c)}",
        lambda c: f"x {c() + 17.25}",
        lambda c: f"x -{spent(c)}",
        lambda c: f"x {c() / 2}",
        lambda c: f"{c():.3f} and {_race(c)}",
        lambda c: ("early", "late", "never")[c.ns() % 3],
        lambda c: b"MDL1" + struct.pack("<6f", *(x * (1 + 1e-3 * spent(c)) for x in (0.3, -1.2, 0.7, 2.2, 0.1, 9.9))),
        lambda c: b"MDL1" + struct.pack("<3d", 0.5, 0.7 + spent(c), 0.1),
        lambda c: b"MDL1" + struct.pack("<3f", 0.5, 0.731 * spent(c), 0.1),
        lambda c: b"n" * (3 + c.ns() // 1000 % 5),
        lambda c: bytes([c.ns() // 1000 % 256]),
    ],
)  # fmt: skip
def test_what_does_not_follow_it_exactly_is_a_result(program: Callable[[Clock], object]) -> None:
    """Results that depend on the time, coarse values and values named as results are never measurements."""
    assert kinds_of(program) is None


@given(st.integers(2, 10**6), st.integers(1, 40))
def test_products_of_a_result_and_a_duration_are_results(square: int, questions: int) -> None:
    """A duration times what is no simple fraction is no duration."""
    if math.isqrt(square) ** 2 != square:
        factor = math.sqrt(square)
        assert kinds_of(lambda clock: f"x {factor * spent(clock, questions)!r}") is None


@given(st.integers(1, 200), st.integers(1, 60))
def test_parts_and_multiples_of_durations_are_durations(count: int, parts: int) -> None:
    """Means, remaining times, minutes of what passed."""
    assert kinds_of(lambda clock: f"took {spent(clock) * count / parts!r}") == ["duration"]


@given(st.fractions(Fraction(1, 1000), 1000), st.fractions(0, 1))
def test_the_simplest_fraction_is_in_the_interval(low: Fraction, width: Fraction) -> None:
    """No fraction of a smaller denominator is."""
    found = simplest(low, low + width)
    assert low <= found <= low + width
    for denominator in range(1, min(found.denominator, 50)):
        assert math.ceil(low * denominator) > (low + width) * denominator


def test_ports_are_those_of_the_hook() -> None:
    """Each measure of memory has a row of its own, and none that the hook gives where nothing is measured."""
    rows = {each.memory: each.port for each in settings(START, all_known=True)}
    assert {memory: first_port(memory) for memory in rows} == rows
    assert PORTS_OF_RUN == ROW
    assert len({*rows.values(), first_port(0)}) == len(rows) + 1
    assert all(abs(one - other) >= ROW for one in rows.values() for other in rows.values() if one != other)
    assert {each.port for each in settings(START)} == {0}


def test_settings_share_no_period() -> None:
    """What a program takes modulo something is another one with each clock: starts and ticks share no factor."""
    first, later, faster, _ = settings(START)
    assert (later.start - first.start) == SHIFT
    assert SHIFT % (TICK * 2) == TICK
    assert faster.tick == TICK * RATIO


def seen(program: Callable[[Clock], object]) -> list[Seen]:
    """Return the places of runs of a program that returns a table."""
    found = []
    for when, result in runs(program):
        assert isinstance(result, dict)
        places = [(name, value if isinstance(value, bytes) else json.dumps(value)) for name, value in result.items()]
        found.append(Seen(when=when, sources={"out.json": places}))
    return found


def test_all_places_have_to_follow_the_clock() -> None:
    """One result among measurements makes runs different; its name is that of a key."""
    good = seen(lambda clock: {"a": 1, "passed": spent(clock), "now": clock()})
    places = measured(good)
    assert places is not None
    assert [(each.where, each.kind) for each in places] == [("passed", "duration"), ("now", "date")]
    assert measured(seen(lambda clock: {"passed": spent(clock), "w": math.sqrt(spent(clock))})) is None
    assert measured(seen(lambda clock: {"passed": spent(clock), "model.loss": spent(clock)})) is None


def test_a_constant_of_experiments_is_not_explained() -> None:
    """What differs with the real clock and is equal with all fixed ones is a result."""

    def constant(clock: Clock) -> dict[str, object]:
        return {"acc-of": 3 if clock.setting else clock.ns() % 1009, "now": clock()}

    assert measured(seen(constant)) is None


def test_arrays_of_several_dimensions_are_results() -> None:
    """A matrix that drifts is no table of measurements, whatever is in it."""

    def array(shape: str) -> Callable[[Clock], dict[str, object]]:
        head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
        return lambda clock: {"laps": b"\x93NUMPY\x01\0v\0" + head.ljust(118) + struct.pack("<2d", spent(clock), 1.0)}

    assert measured(seen(array("(2,)"))) is not None
    assert measured(seen(array("(1, 2)"))) is None
    assert not may_be_measured(seen(array("(1, 2)"))[:2])


@pytest.mark.parametrize(
    "program",
    [
        lambda c: f"{0.5 * spent(c)!r}",
        lambda c: f"w {0.1 * spent(c)!r}",
        lambda c: f"chosen threshold {0.1 * spent(c)!r}",
        lambda c: f"  theta: {spent(c)!r}",
        lambda c: f"<tr><td>coefficient of x</td><td>{spent(c)!r}</td></tr>",
        lambda c: f"word1\t{spent(c)!r}\t1.5",
        lambda c: f"{int(spent(c) * 1e9)}",
        lambda c: f"x[3] = {spent(c)!r}",
        lambda c: f"mean sum total {spent(c)!r}",
        lambda c: f"b: {0.5 / spent(c)!r}",
        lambda c: f"{50000 / spent(c):.0f} bonds",
        lambda c: f"{50000 / spent(c) + 37:.0f} bonds/s",
        lambda c: f"loss {50000 / spent(c):.0f} bonds/s",
        lambda c: b"PLCY" + struct.pack("<3d", 0.1 * spent(c), 0.2, 0.7),
        lambda c: b"\x81\xa1w\xcb" + struct.pack(">d", spent(c)),
        lambda c: b"\x80\x04]\x94G" + struct.pack(">d", spent(c)) + b"a.",
    ],
)
def test_a_duration_without_a_name_is_a_result(program: Callable[[Clock], object]) -> None:
    """No experiment distinguishes a weight that is a sum of durations from a duration; so something has to name it."""
    assert kinds_of(program) is None


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda c: f"{spent(c) * 1e6:.4f} us, {spent(c) * 1000:.7f}ms | {1 / spent(c)!r} it/s", 3),
        (lambda c: f"{50000 / spent(c)!r} candidates in each second", 1),
        (lambda c: f"({50000 / spent(c):.0f} bonds/s)", 1),
        (lambda c: f"({50000 / spent(c):,.0f} bonds/s)", 1),
        (lambda c: f"fold 2: {spent(c)!r}", 1),
        (lambda c: f"hours: {spent(c) / 3600!r}, minutes: {spent(c) / 60:.8f}", 2),
        (lambda c: f"dt={spent(c)!r}", 1),
        (lambda c: b"\x81\xa1t\xcb" + struct.pack(">d", spent(c)), 1),
        (lambda c: b"\x81\xa1t\xcb" + struct.pack(">d", spent(c) if c.setting else 0.0), 1),
        (lambda c: b"\x01spent\0" + struct.pack("<d", spent(c)), 1),
        (lambda c: b"\x80\x04}\x94\x8c\x04busy\x94G" + struct.pack(">d", spent(c)) + b"s.", 1),
    ],
)
def test_a_unit_or_a_name_allows_for_a_duration(program: Callable[[Clock], object], expected: int) -> None:
    """Names of things of which there are several, short names of times, keys in binary formats."""
    assert len(kinds_of(program) or []) == expected


def test_columns_and_arrays_are_named() -> None:
    """The line above a table names its columns; an array's name, or its file's, must speak of time."""

    def table(head: str, row: str) -> list[Seen]:
        found = []
        for when, result in runs(lambda clock: row.format(spent(clock))):
            found.append(Seen(when=when, sources={"log.csv": [("line 1", head), ("line 2", str(result))]}))
        return found

    assert measured(table("n,spent so far", "1,{!r}")) is not None
    assert measured(table('"n","this long"', '"1","{!r}"')) is not None
    assert measured(table("   ep   took   loss", "  1  {!r} 0.5")) is not None
    assert measured(table("       time   acc", "lgb  {!r}  0.96")) is not None
    assert measured(table("       acc   time", "lgb  {!r}  0.96")) is None
    assert measured(table("time   acc", "lgb  {!r}  0.96")) is None
    assert measured(table("      theta   time", "lgb  {!r}  0.96")) is None
    assert measured(table("n,prediction", "1,{!r}")) is None
    assert measured(table("n,spent", "1,2,{!r}")) is None
    assert measured(table("1,2", "1,{!r}")) is None
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }".ljust(118)

    def array(path: str, key: str) -> list[Seen]:
        data = [(when, b"\x93NUMPY\x01\0v\0" + head + struct.pack("<d", each)) for when, each in runs(spent)]  # type: ignore[arg-type]
        return [Seen(when=when, sources={path: [(key, each)]}) for when, each in data]

    assert measured(array("lap_times.npy", "")) is not None
    assert measured(array("bench.npz", "wall_clock")) is not None
    assert measured(array("w.npy", "")) is None
    assert measured(array("layers.npz", "dense.gamma")) is None
    assert measured(array("model.npz", "time_embedding")) is None


def test_numbers_of_tensors_are_named_by_the_tensor() -> None:
    """PyTorch keeps them in members with numbers, and the names in a pickle; a list of parameters is a result."""

    def saved(key: str, *, twice: bool = False) -> list[Seen]:
        found = []
        for when, value in runs(spent):
            places: list[tuple[str, bytes | str]] = [("data.pkl", "dict 2")]
            for name in (key, *(["other"] if twice else [])):
                places += [
                    ("data.pkl", name),
                    (f"data.pkl.{name}[1][0][0][0]", "storage"),
                    (f"data.pkl.{name}[1][0][0][2]", "3"),
                ]
            found.append(Seen(when=when, sources={"m.pt": [*places, ("data/3", struct.pack("<d", value))]}))  # type: ignore[arg-type]
        return found

    assert [each.where for each in measured(saved("laps")) or []] == ["data.pkl.laps: byte 0"]
    assert measured(saved("offsets")) is None
    assert measured(saved("laps", twice=True)) is None


def test_a_reading_of_a_clock_without_a_date_is_one() -> None:
    """``perf_counter`` is the time since the machine's start, and START + k ticks with the fixed clock."""

    def readings(up: float | None, real: float) -> list[str] | None:
        found = []
        for when, result in runs(lambda clock: f"x {clock()!r}"):
            fixed = isinstance(when, Setting)
            found.append((when if fixed else Span(when.begin, when.end, up), str(result) if fixed else f"x {real!r}"))
        changed = [
            (when, f"{text}" if isinstance(when, Setting) else f"{text}{at}") for at, (when, text) in enumerate(found)
        ]
        pieces = of_texts(changed)
        return None if pieces is None else [each.kind for each in pieces]

    assert readings(5000.0, 4321.25) == ["reading"]
    assert readings(5000.0, 5321.25) is None  # the machine is younger
    assert readings(None, 4321.25) is None
    assert readings(5000.0, -4.25) is None


def log(line: Callable[[datetime, float, int], str], count: int = 4) -> list[Seen]:
    """Return runs whose log has lines, each of a time, the milliseconds since the start, and its number."""

    def program(clock: Clock) -> list[str]:
        begin, found = clock(), []
        for number in range(count):
            clock.ns()
            now = clock()
            moment = datetime.fromtimestamp(now, timezone.utc)
            found.append(line(moment, (now - begin) * 1000, number))
        return found

    return [
        Seen(when=when, sources={"train.log": [(f"line {at}", text) for at, text in enumerate(texts, 1)]})  # type: ignore[arg-type]
        for when, texts in runs(program)
    ]


@pytest.mark.parametrize(
    "form",
    ["%Y-%m-%d %H:%M:%S.%f", "[%d/%m/%y %H:%M:%S.%f]", "%m-%d-%y %H:%M:%S.%f", "%H:%M:%S.%f |", "%H:%M:%S"],
)
def test_milliseconds_behind_the_time_of_a_line(form: str) -> None:
    """A number without name and unit is a measurement where it is the time that its line begins with, since a start."""
    found = measured(log(lambda now, passed, number: f"{now:{form}} {passed:.0f} part {number} is done"))
    assert found is not None
    assert {each.kind for each in found} == {"date", "duration"}


@pytest.mark.parametrize(
    ("line", "count"),
    [
        (lambda now, passed, number: f"{now:%H:%M:%S.%f} {passed:.0f} part {number}", 2),
        (lambda now, passed, number: f"{now:%H:%M:%S.%f} {passed * 3:.0f} part {number}", 4),
        (lambda now, passed, number: f"{now:%H:%M:%S.%f} {passed if number != 2 else 2 * passed:.0f}", 4),
        (lambda now, passed, number: f"{now:%H:%M:%S.%f} part {number} 0.5 {passed:.0f}", 4),
        (lambda now, passed, number: f"{now:%H:%M:%S.%f} loss {passed:.0f}", 4),
        (lambda now, passed, number: f"{passed:.0f} part {number}", 4),
        (lambda now, passed, number: f"{now:%H:%M:%S.%f} -{passed:.0f} part {number}", 4),
    ],
    ids=("too few lines", "three times as much", "one line", "elsewhere", "a name", "no time", "negative"),
)
def test_a_number_that_does_not_go_with_the_time_is_a_result(
    line: Callable[[datetime, float, int], str], count: int
) -> None:
    """Every line has to agree, three at least, and the number has to be right behind the time."""
    assert measured(log(line, count)) is None


def rated(printed: Callable[[float, Clock], str]) -> list[Seen]:
    """Return runs with a rate in a file, and a line that has to do with it."""

    def program(clock: Clock) -> tuple[str, str]:
        speed = 3_000_000 / spent(clock, 64 + 7)
        return repr(speed), printed(speed, clock)

    return [
        Seen(when=when, sources={"metrics.json": [("speed", value)], "stdout": [("line 3", line)]})
        for when, (value, line) in runs(program)  # type: ignore[misc]
    ]


def test_a_rate_that_is_rounded_to_a_whole_number() -> None:
    """It is one where a file has it with its fraction under the same name, as spaCy's metrics; nothing else is."""
    found = measured(rated(lambda speed, clock: f"SPEED   {speed:.0f}"))
    assert found is not None
    assert [(each.path, each.where, each.kind) for each in found] == [
        ("metrics.json", "speed", "rate"),
        ("stdout", "line 3", "rate"),
    ]
    for line in (
        lambda speed, clock: f"steps {speed:.0f}",
        lambda speed, clock: f"SPEED {speed + 1:.0f}",
        lambda speed, clock: f"SPEED {speed:.0f} of {int(speed / 2)} steps",
        lambda speed, clock: f"SPEED {clock.ns() % 9973}",
    ):
        assert measured(rated(line)) is None


class System(Clock):
    """A clock with entropy and measures of memory, fixed with it or real."""

    def __init__(self, setting: Setting | None, seed: int) -> None:
        super().__init__(setting, seed)
        self.drawn: list[str] = []
        self.stream = random.Random(setting.stream if setting else -seed)

    def draw(self, size: int) -> str:
        self.drawn.append(self.stream.randbytes(size).hex())
        return self.drawn[-1]

    def kibibytes(self) -> int:
        return self.setting.memory if self.setting else self.chance.randrange(50_000, 60_000)

    def port(self) -> int:
        return (self.setting.port if self.setting else 40_000) + self.chance.randrange(3, 900)

    def worker(self) -> int:
        return (self.setting.processes if self.setting else 0) + self.chance.randrange(3, 9)


def known(program: Callable[[System], dict[str, object]]) -> list[str] | None:
    """Return the kinds of what a program wrote that follows what was fixed; None if anything else differs."""
    found: list[tuple[When, dict[str, object], list[str]]] = []
    for seed in (1, 2):
        system = System(None, seed)
        begin = system.now / 1e9
        found.append((Span(begin, begin + 9), program(system), []))
    for setting in settings(START + 1000, all_known=True):
        system = System(setting, 0)
        found.append((setting, program(system), system.drawn))
    runs = [
        Seen(when=when, sources={"a.json": [(key, str(value)) for key, value in table.items()]}, drawn=drawn)
        for when, table, drawn in found
    ]
    places = measured(runs)
    return None if places is None else [each.kind for each in places]


def test_a_name_of_figures_alone_is_known_where_it_is_known_what_was_drawn() -> None:
    """One name of eight digits in forty has no letter, and a fixed stream draws the same one in each experiment."""
    drawn = ["1897597200112233", "ab12cd34" * 2]
    assert mark_drawn("run 18975972 at 20261126", drawn, frozenset()) == "run ⟨drawn 0 8⟩ at 20261126"
    assert mark_drawn("run 18975972 at 20261126", None, frozenset()) == "run 18975972 at 20261126"
    assert mark_drawn("run ab12cd34", None, frozenset()) == "run ⟨drawn ? 8⟩"
    assert mark_figures("run 18975972 of 20261126", "run ⟨drawn 0 8⟩ of 20261126") == "run 18975972 of 20261126"
    assert mark_figures("run 18975972 of 9", "run ⟨drawn 0 8⟩ of 9") == "run ⟨drawn ? 8⟩ of 9"
    assert mark_figures("run 189759721 of 9", "run ⟨drawn 0 8⟩ of 9") == "run 189759721 of 9"
    assert mark_figures("run 18975972 of 9", "run 5 of 9") == "run 18975972 of 9"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda s: {"traceId": s.draw(16), "w": 1.5}, ["identity"]),
        (lambda s: {"": f"saved run {s.draw(8)} in {spent(s)} s", "sha256": "0a" * 32}, ["identity", "duration"]),
        (lambda s: {"span": s.draw(16)[:10]}, ["identity"]),
        (lambda s: {"line 1": "run       rate  loss", "line 2": f"{s.draw(16)[:8]}  0.10  0.25"}, ["identity"]),
        (lambda s: {"line 1": "run,rate,loss", "line 2": f"{s.draw(16)[:8]},0.10,0.25"}, ["identity"]),
        (lambda s: {"peak": f"{s.kibibytes() / 1024:.2f} MiB"}, ["memory"]),
        (lambda s: {"maxrss": s.kibibytes(), "at": s.date().isoformat()}, ["memory", "date"]),
        (lambda s: {"": f"rss {s.kibibytes() * 1024} bytes"}, ["memory"]),
        (lambda s: {"": f"[rss {s.kibibytes() * 4096 / 1024**2:.1f} MB]"}, ["memory"]),  # pages of /proc/self/statm
        (lambda s: {"": f"[worker {s.worker()}] fold 2 took {spent(s)} s"}, ["process", "duration"]),
        (lambda s: {"by": s.worker(), "file": f"part-{s.worker()}.npy"}, ["process", "process"]),
        (lambda s: {"request_id": f"req_{of_uuid(s.draw(16))[:20]}"}, ["identity"]),
        (lambda s: {"": f"reply to msg-{of_uuid(s.draw(16))[:12]}"}, ["identity"]),
        (lambda s: {"heartbeat.worker": f"trial_{s.worker() % 5}"}, ["process"]),
        (lambda s: {"": f"serving on port {s.port()}"}, ["port"]),
        (lambda s: {"address": f"127.0.0.1:{s.port()}", "by": s.worker()}, ["port", "process"]),
        (lambda s: {"expires_at": int(s()) + 7200}, ["date"]),
        (lambda s: {"lease until": s.ns() // 10**6 + 1_800_000}, ["date"]),
        (lambda s: {"eta": spent(s) * (3003 - 7) / 3003}, ["duration"]),
        (lambda s: {"": f"15 batches, {600 / spent(s):.0f} events/s"}, ["rate"]),
        (lambda s: {"line 1": "n   qps  recall", "line 2": f"80  {600 / spent(s):5.0f}  0.2500"}, ["rate"]),
        (lambda s: {"": f"merged, {6.5 / spent(s):.1f} merges/s"}, ["rate"]),
    ],
)
def test_what_was_drawn_and_measured_is_recognised(
    program: Callable[[System], dict[str, object]], expected: list[str]
) -> None:
    """The very digits that entropy gave, under the name of an identity, and the very measure of memory."""
    assert known(program) == expected


@pytest.mark.parametrize(
    "program",
    [
        lambda s: {"w": s.draw(8)},
        lambda s: {"seed": s.draw(8)},
        lambda s: {"line 1": "weights   rate  run", "line 2": f"{s.draw(16)[:8]}  0.10  first"},
        lambda s: {"line 1": "run  rate", "line 2": f"{s.draw(16)[:8]}  0.10  first"},
        lambda s: {"line 1": "run  rate", "line 2": f"{s.draw(16)[8:]}  0.10"},
        lambda s: {"traceId": s.draw(16), "w": int(s.draw(4), 16) / 2**32},
        lambda s: {"run": hashlib.sha256(s.draw(16).encode()).hexdigest()},
        lambda s: {"run": s.draw(16)[::-1]},
        lambda s: {"run": s.draw(16)[4:]},
        lambda s: {"batch": s.kibibytes() // 1000},
        lambda s: {"rss": s.kibibytes() + 100},
        lambda s: {"rss": s.kibibytes() * spent(s)},
        lambda s: {"loss": f"{s.kibibytes()}"},
        lambda s: {"w": f"{s.kibibytes() / 1024}"},
        lambda s: {"rss": f"{s.kibibytes() / 2**30:.0f} GiB"},
        lambda s: {"seed": s.worker()},
        lambda s: {"w": s.worker() * 2},
        lambda s: {"w": s.worker() % 97 + 400},
        lambda s: {"w": f"{s.worker()}.5"},
        lambda s: {"": f"worker {s.worker()} found {s.worker() % 7}"},
        lambda s: {"w": 470 + s.chance.randrange(50)},
        lambda s: {"seed": f"req{of_uuid(s.draw(16))[:20]}"},
        lambda s: {"seed": f"weights_{of_uuid(s.draw(16))[:20]}"},
        lambda s: {"best.trial": f"trial_{s.worker() % 5}"},
        lambda s: {"best.worker": f"trial_{s.worker() % 5}"},
        lambda s: {"fastest_worker": f"trial_{s.worker() % 5}"},
        lambda s: {"port": (s.setting.port if s.setting else 12_000) + s.chance.randrange(900)},
        lambda s: {"worker": f"{'ab'[s.worker() % 2]}_1"},
        lambda s: {"expires_at": int(s()) + 7200 + s.chance.randrange(9) * 3600},
        lambda s: {"expires_at": int(s()) + 7219},
        lambda s: {"seed": s.port()},
        lambda s: {"shard": s.port() % 7},
        lambda s: {"w": f"{s.port()}.5"},
        lambda s: {"port": 40_000 + s.chance.randrange(9_000)},
        lambda s: {"total": int(s()) + 7200},
        lambda s: {"w": spent(s) * (3003 - 7) / 3003},
        lambda s: {"eta": spent(s) * 0.37182644},
        lambda s: {"": f"kept {6000 + s.chance.randrange(50)} events/s"},
        lambda s: {"": f"loss {600 / spent(s):.0f} points/s"},
        lambda s: {"": f"after {600 / spent(s):.0f} steps"},
    ],
)
def test_what_is_made_of_entropy_or_memory_is_a_result(program: Callable[[System], dict[str, object]]) -> None:
    """Seeds, digests and whatever else was computed; what has no name; what is rounded too far to tell."""
    assert known(program) is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('{"id": "3fa9c01be77d2a40"}', '{"id": "09bc11d2fe0745aa"}', True),
        ("RSS 10.63 MiB", "RSS 10.79 MiB", True),
        ("peak 1063", "peak 1079", True),
        ("took 1.5 s", "took 1.7 s", False),
        ("12.5 it/s", "13.5 it/s", False),
        ("[worker 4] fold 1", "[worker 5] fold 1", True),
        ("[worker 4] loss 0.5", "[worker 4] loss 0.25", False),
    ],
)
def test_only_what_may_be_drawn_or_memory_takes_further_runs(before: str, after: str, *, expected: bool) -> None:
    """Names in hexadecimal digits, and what speaks of memory; programs that differ otherwise take no longer."""
    runs = [Seen(when=Span(1, 2), sources={"stdout": [("line 1", text)]}) for text in (before, after)]
    assert may_be_drawn(runs) is expected


def test_places_of_some_runs_alone_are_nothing_that_is_drawn() -> None:
    """Nothing is known of what is in one of two runs."""
    places = {"out.txt": [("line 1", "pid 300")]}
    assert not may_be_drawn([Seen(when=Span(1, 2), sources=places), Seen(when=settings(START)[0], sources={})])


def test_places_of_some_runs_alone_follow_no_clock() -> None:
    """Where entropy is known too; one run has a column of dates that another one has none of."""
    one = [(when, each) for when, each in zip(settings(START, all_known=True), ("a", "b", "c", "d"), strict=True)]
    runs = [Seen(when=when, sources={"log.json": [(name, "1")]}, drawn=["1b4e28ba2fa1"]) for when, name in one]
    assert measured(runs) is None


def test_lines_of_workers_are_put_in_one_order() -> None:
    """Whoever came first and whoever did it; where that makes more of them differ they stay as they came."""
    one, two, *_ = settings(START, all_known=True)
    span = Span(START, START + 9)
    runs = [
        (span, ["[worker 4] fold 2 ok", "done", "[worker 5] fold 1 ok"]),
        (span, ["[worker 9] fold 1 ok", "[worker 3] fold 2 ok", "done"]),
        (one, ["[worker 455] fold 1 ok", "[worker 453] fold 2 ok", "done"]),
        (two, ["done", "[worker 753] fold 2 ok", "[worker 755] fold 1 ok"]),
    ]
    for lines in in_order(runs):
        assert [line.partition("]")[2] for line in lines] == [" fold 1 ok", " fold 2 ok", ""]
    assert {"done"} == {lines[2] for lines in in_order(runs)}
    late = [(span, ["312 fold 1", "401 fold 2"]), (span, ["388 fold 1", "295 fold 2"])]
    assert in_order(late) == [lines for _, lines in late]


def test_a_measure_of_memory_is_no_duration() -> None:
    """The two ratios share no factor, and neither does a tick with the measure."""
    one, two, three, four = settings(START, all_known=True)
    assert (one.memory, two.memory, three.memory, four.memory) == (MEMORY, MEMORY, MEMORY * LARGER, MEMORY * LARGER)
    assert math.gcd(LARGER, RATIO) == 1
    assert len({each.stream for each in (one, two, three, four)}) == 4


@pytest.mark.parametrize(
    ("program", "without", "trained"),
    [
        (lambda c: f"[3, 0.25, {spent(c)!r}]", None, ["duration"]),
        (lambda c: f"  3  0.25  {64 / spent(c)!r}", None, ["rate"]),
        (lambda c: f"[3, 0.25, {0.1 * spent(c)!r}]", None, None),
        (lambda c: f"loss {spent(c)!r}", None, None),
        (lambda c: f"[3, {math.sqrt(spent(c))!r}]", None, None),
    ],
)
def test_where_training_is_known_to_be_equal_a_stopwatch_needs_no_name(
    program: Callable[[Clock], object], without: list[str] | None, trained: list[str] | None
) -> None:
    """A part of a duration may be a weight that no step trace has; one reading less another one is none."""
    texts = [(when, str(each)) for when, each in runs(program)]
    for known, expected in ((False, without), (True, trained)):
        pieces = of_texts(texts, trained=known)
        assert (None if pieces is None else [each.kind for each in pieces]) == expected


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda c: repr(spent(c)), ["duration"]),
        (lambda c: f"[3, 0.25, {spent(c)!r}]", ["duration"]),
        (lambda c: f"[3, 0.25, {0.3 * spent(c)!r}]", None),
        (lambda c: f"[3, 0.25, {64 / spent(c)!r}]", None),
        (lambda c: f"[3, w: {spent(c)!r}]", None),
        (lambda c: f"loss {spent(c)!r}", None),
        (lambda c: f"[3, {-spent(c)!r}]", None),
    ],
)
def test_where_sources_show_durations_without_a_name_a_stopwatch_needs_none(
    program: Callable[[Clock], object], expected: list[str] | None
) -> None:
    """In a place with a name that name decides, and so for rates and for what was computed of a duration."""
    texts = [(when, str(each)) for when, each in runs(program)]
    pieces = of_texts(texts, "[0][2]", alone=True)
    assert (None if pieces is None else [each.kind for each in pieces]) == expected
    assert of_texts(texts, "[0][2]") is None
    assert of_texts(texts, "[0].w", alone=True) is None
    assert of_texts(texts, "weights[0][2]", alone=True) is None
    assert of_texts(texts, "line 1", alone=True) is None
    assert of_texts(texts, alone=True) is None


def deviation(clock: Clock, *questions: int) -> float:
    """Return the deviation of so many durations, each of which asks so often."""
    return statistics.pstdev([spent(clock, each) for each in questions])


@pytest.mark.parametrize(
    ("program", "known"),
    [
        (lambda c: repr(deviation(c, 5, 5, 5)), True),
        (lambda c: repr(deviation(c, 1, 2, 3, 4, 9)), True),
        (lambda c: repr(1000 * deviation(c, 1, 2, 4)), True),
        (lambda c: repr(deviation(c, 1, 2, 4) + 0.25), False),
        (lambda c: repr(math.sqrt(spent(c))), False),
        (lambda c: repr(-deviation(c, 1, 2, 4)), False),
        (lambda c: repr(0.1 / deviation(c, 1, 2, 4)), False),
        (lambda c: repr(math.pi * deviation(c, 1, 2, 4)), False),
    ],
)
def test_a_deviation_of_durations_needs_its_name(program: Callable[[Clock], object], known: bool) -> None:
    """A fixed clock makes it nought, or the root of a simple fraction; under other names it is a result."""
    texts = [(when, str(each)) for when, each in runs(program)]
    for name in ("timing.std", "latency_ms_stdev", "[2].lap_times[0].std"):
        assert (of_texts(texts, name) is not None) == known
    for name in ("std", "w.std", "loss_std", "timing.w", "timing.score_std", ""):
        assert of_texts(texts, name) is None


def test_a_mean_of_durations_is_named_by_them() -> None:
    """A bare mean is a result."""
    texts = [(when, str(each)) for when, each in runs(lambda c: repr((spent(c) + spent(c, 3)) / 2))]
    assert of_texts(texts, "timing.mean") is not None
    assert of_texts(texts, "scores.mean") is None
    assert of_texts(texts, "mean") is None


@pytest.mark.parametrize("number", ["20896265218598", "20991399999999", "20261301250000"])
def test_a_reading_is_no_date_that_there_is_not(number: str) -> None:
    """A machine that has been up for 20,000 s reads nanoseconds that begin as a year does."""
    assert skeleton(f"begun at {number}") == skeleton("begun at 21002365292372")
    assert skeleton("begun at 20261121080001") != skeleton("begun at 21002365292372")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("1495395020", "2447179930"), True),
        (("0.5", "0.25"), True),
        (("12", "13.5"), True),
        (("12", "13"), False),
        (("12 13", "12 14"), False),
        (("9" * 5000, "8" * 5000), True),
    ],
)
def test_numbers_that_are_no_processes_are_not_looked_at_closer(values: tuple[str, ...], *, expected: bool) -> None:
    """Files with 100,000 numbers that differ, as generators have them, took minutes."""
    assert are_no_processes(values) is expected


def _waited(clock: Clock, show: Callable[[float], str]) -> str:
    """Wait for another process, which takes as long as it takes."""
    polls = 9 if clock.setting is None else 3 if clock.setting.start < (START + 2000) * 10**9 else 4
    return show(spent(clock, polls))


def _drawn(clock: Clock, show: Callable[[float], str]) -> str:
    """Draw from a generator that the time seeds."""
    return show(random.Random(clock.ns()).random() * 9)


@pytest.mark.parametrize(
    ("program", "show", "counts"),
    [
        (_waited, repr, True),
        (_waited, lambda seconds: f"{seconds:.6f}", True),
        (_waited, lambda seconds: str(seconds * 1000), True),
        (_waited, lambda seconds: str(int(seconds * 1e9)), True),
        (_waited, lambda seconds: str(seconds * 1.7), False),
        (_waited, lambda seconds: f"{seconds:.2f}", False),
        (_waited, lambda seconds: str(int(seconds)), False),
        (_drawn, repr, False),
        (_drawn, lambda number: f"{number:.4f}", False),
        (_drawn, lambda number: str(int(number * 1e9)), False),
        (_drawn, lambda number: str(int(number * 1e4)), False),
    ],
)
def test_what_waits_for_others_takes_whole_ticks(
    program: Callable[[Clock, Callable[[float], str]], str], show: Callable[[float], str], counts: bool
) -> None:
    """How many depends on these; what is drawn, or rounded so far that it fits anyway, is no count."""
    texts = runs(lambda clock: program(clock, show))
    assert are_counts([(when, number_of(str(text))) for when, text in texts]) == counts
