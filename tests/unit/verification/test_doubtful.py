"""Which words before a number leave a doubt that it is a measurement."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from envbuild.verification.content import read
from envbuild.verification.content.canonical import FURTHER, Canonical, Content
from envbuild.verification.masking.doubtful import (
    are_far_apart,
    by_midnight,
    doubtful_in,
    exact_numbers,
    is_exact,
    is_named,
    key_leaves_doubt,
    leaves_doubt,
    memory_may_be_simulated,
)
from envbuild.verification.masking.masks import Masks
from tests.support.formats import PARQUET

MASKS = Masks(1_795_247_763.0)
DURING = datetime.datetime(2026, 11, 21, 7, 56, 3, 250_000)
"""Within the run."""


OF_RUN = (
    "folded on 21.11.2026 at 07:56:03.250000",
    "folded on 11/21/2026 07:56:03",
    "Started: Sat Nov 21 07:56:03 2026",
    "planned for Nov 21, 2026, 07:56:04",
    "<svg><metadata><dc:date>2026-11-21T07:56:03.250000</dc:date></metadata></svg>",
)
"""Dates of when the run was, next to words that say nothing of it."""


def trace(ts: float = 12, **more: str) -> bytes:
    """Return a trace of one event, as Chrome reads it."""
    event = {"name": "a", "ph": "X", "ts": ts, "dur": 3, "pid": 1, "tid": 1, **more}
    return json.dumps({"traceEvents": [event]}).encode()


def in_text(text: str, name: str) -> bool:
    return doubtful_in(text, name, MASKS, MASKS.mask(text).text)


def in_line(line: str, *, named: bool = False) -> bool:
    """Whether the last number of four digits in a line leaves a doubt."""
    *_, number = (each for each in exact_numbers(line, MASKS) if is_exact(each.text))
    return leaves_doubt(number, named=named)


@pytest.mark.parametrize(
    "line",
    [
        "half-life 3.5123 s",
        "estimated delay: 3.5123 s",
        "period = 3.5123 s",
        "epoch 3, best lag: 3.5123 s",
        "reaction time 3.5123 s",
        "queue wait 3.5123 s",
        "mnist time: 3.5123",
        "T = 3.5123 s",
        "the ball hits the ground after 3.5123 s",
        "the pendulum swings back in 3.5123 s",
        "horse 3 finished in 71.512 s",
        "one swing takes 2.0071 s",
        "the fall took 1.4278 s",
        "fuel left 3.5123 s",
        "| order 3 | 12.345 s |",
        "order 3 (12.345 s)",
        "3\t12.345 s",
        "  3: 12.345 ms",
        "12.345 ms, 13.456 ms",
        "[12.345 s, 13.456 s]",
        "12.345 s is the period",
        "12.345 s: the period",
        "best: 3 / 12.345s",
        "time: 12.345 s",
        "x = 0.5, time = 12.345 s",
        "impact at x = 3.5, 12.345 s",
        "valve 12.345 samples/s",
        "makespan of all jobs 3512.4 s",
        "makespan for the whole pipeline 3512.4 s",
        "decay in the model 3.5123 s",
        "last job done at 3512.4 s",
        "fitted tau in the model 3.5123 s",
        "wrote 3.5123 seconds of audio to out.wav",
        "generated 3.5123 seconds of speech",
        "sampled 3.5123 s",
        "mean wait time: 3.5123",
        "throughput: 3.5123",
        "average latency 35.123 ms",
        "requests per second: 360.31",
        "mean requests per second: 360.31",
        "frames per second: 23.976",
        "step 3, samples per sec = 360.31",
    ],
)
def test_words_of_results(line: str) -> None:
    """A word that is none of a program's own work, or no word at all."""
    assert in_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "took 3.5123 s",
        "this took 3.5123 s",
        "loaded mnist in 3.5123 s",
        "INFO:root:Loaded mnist in 3.5123 s",
        "Done in 3.5123 s",
        "epoch 3 finished in 3.5123 s",
        "Fitting 5 folds took 3.5123 s",
        "the whole pipeline took 3.5123 s",
        "training time: 3.5123 s",
        "Total time: 3.5123 s",
        "elapsed: 3.5123 s",
        "half-lives elapsed 3.5123 s",
        "epoch 3: 3.5123 s",
        "epoch 3: loss 0.3, 12.345s",
        "epoch 3 | loss 0.3 | 12.345 s",
        "epoch 3 | loss 0.3 | time: 12.345 s",
        "[fold 2] auc 0.91 (12.345 s)",
        "step 5/10 - 3.5123 s",
        "total wall time 3.5123 s",
        "3.5123 s elapsed",
        "3.5123 seconds to train",
        "throughput: 1234.5 samples/s",
        "data wait time: 3.5123",
        "100%|###| 10/10 [00:00<00:00, 123.45it/s]",
        "1234.5 samples/s",
        "EPOCH 0: training on 2400 raw words (1196 effective words) took 0.0s, 281877 effective words/s",
        "samples_per_second: 1234.5",
        "1234.5 samples per second",
        "2026-11-24 08:00:01,123 INFO epoch",
        "[I 2026-11-24 08:00:01,123] A new study",
    ],
)
def test_words_of_measuring(line: str) -> None:
    """Words of times and of what a program does."""
    assert not in_line(line)


@pytest.mark.parametrize(
    ("line", "doubtful"),
    [
        ("total time 73 min", True),
        ("total time: 3.5 h", True),
        ("total time: 3512", True),
        ("{'job': 3, 'total_time': 35.12}", True),
        ("start time 3", True),
        ("job 3  start_time=3", True),
        ("{'job': 3, 'end_time': 3}", True),
        ("ETA 14:37", True),
        ("arrival, ETA: 1:14:37", True),
        ("total time: 3.5 s", False),
        ("total time: 350 ms", False),
        ("ETA 0:37", False),
        ("epoch 3, ETA 14:37", False),
        ("ETA 10:56", False),
        ("elapsed 14:37", True),
    ],
)
def test_bare_times_that_are_longer_than_the_run(line: str, doubtful: bool) -> None:
    """They are of something else; a start or an end is a date where a program logs its own."""
    masks = MASKS.with_files((), dict, duration=10.0)  # at 07:56:03, UTC
    *_, number = exact_numbers(line, masks)
    assert leaves_doubt(number) is doubtful


@pytest.mark.parametrize(
    ("duration", "line", "doubtful"),
    [
        (10.0, "total time: 3.5 s", True),
        (10.0, "fold 3, total time: 3.5 s", False),
        (1000.0, "total time: 3.5 s", False),
        (10.0, "training time: 3.5 s", False),
    ],
)
def test_experiments_on_a_bare_time_where_they_cost_little(duration: float, line: str, doubtful: bool) -> None:
    """Of a run of some seconds they are made at once; a long one's total time is its own, if it is no longer."""
    *_, number = exact_numbers(line, MASKS.with_files((), dict, duration=duration))
    assert leaves_doubt(number, cheap=True) is doubtful


@pytest.mark.parametrize(("line", "doubtful"), [("| order 3 | 12.345 |", False), ("| half-life 12.345 |", True)])
def test_a_column_says_what_its_numbers_are(line: str, doubtful: bool) -> None:
    """Unless the line itself says otherwise."""
    assert in_line(line, named=True) is doubtful


@pytest.mark.parametrize(
    ("number", "exact"),
    [
        ("0.0203", False),
        ("0.02031", True),
        ("1,234", True),
        ("12", False),
        ("1.5e-10", False),
        ("4.090040779933333e-07", False),
        ("0.000061234567", False),
        ("0.00061234567", True),
        ("4.0900407e-03", True),
    ],
)
def test_digits(number: str, exact: bool) -> None:
    """Four significant digits are hardly ever the same in two measurements."""
    assert is_exact(number) is exact


@pytest.mark.parametrize(
    ("name", "doubtful"),
    [
        ("time", True),
        ("[3].time", True),
        ("a.duration", True),
        ("train_time", False),
        ("elapsed", False),
        ("loss", False),
        ("[0].call_duration", True),
        ("callDuration", True),
        ("valve_throughput", True),
        ("env_fps", False),
        ("movie_runtime", True),
        ("mean_fit_time", False),
        ("std_score_time", False),
        ("time_since_restore", False),
        ("time_this_iter_s", False),
        ("train_runtime", False),
        ("p95_latency_ms", True),
        ("inference_latency_ms", False),
        ("mean_wait_time", True),
        ("data_wait_time", False),
        ("throughput", True),
        ("train_throughput", False),
        ("avg_response_time", True),
        ("step_duration", False),
        ("datetime_complete", False),
        ("requests_per_second", True),
        ("sim/jobs_per_sec", True),
        ("samples_per_second", False),
        ("eval_steps_per_second", False),
    ],
)
def test_keys(name: str, doubtful: bool) -> None:
    """A bare word is a column of data as often as one of a log."""
    assert key_leaves_doubt(name) is doubtful


def test_dates_are_no_numbers() -> None:
    """What is about when the run was is a time for certain."""
    assert not in_text("saved at 1795247799.25", "line 1")
    assert in_text("half-life 3.5123 s", "line 1")


@pytest.mark.parametrize(
    ("name", "text", "doubtful"),
    [
        ("forecast", "2026-11-24", True),
        ("best.predicted_date", "2026-11-24", True),
        ("created_at", "2026-11-24 08:00:01", False),
        ("date", "2026-11-24", False),
        ("line 3", "next failure on 2026-11-24", True),
        ("line 3", "sunrise at 06:12:33", True),
        ("line 3", "saved at 06:12:33", False),
        ("line 3", "3.5123 s", True),
        ("line 3", "[3.5123s]", True),
        ("line 3", "duration: 3.5123", True),
        ("line 3", "  call_duration = 712.25", True),
        ("line 3", "fit_time: 3.5123", False),
        ("line 3", "elapsed = 3.5123", False),
        ("line 3", "loss 1.0001 took 3.5123 s", False),
        ("line 3", "duration 3.5123, loss 0.5", True),
        ("line 3", "2026-11-24 08:00:01,123 INFO epoch 3", False),
    ],
)
def test_dates_under_names(name: str, text: str, doubtful: bool) -> None:
    """A date or a time of day of something that was not done by the program."""
    assert in_text(text, name) is doubtful


def test_midnight() -> None:
    """Days next to each other may be those of two runs."""
    assert by_midnight("2026-11-24", "2026-11-25")
    assert not by_midnight("2026-11-24", "2026-11-27")
    assert not by_midnight("3.5123", "3.6123")


@pytest.mark.parametrize(
    ("data", "exact"),
    [
        (b'{"time": 0.92345}', {"time": True}),
        (b'{"time": 0.9}', {}),
        (b'{"elapsed": 0.92345}', {"elapsed": False}),
        (b'{"rss": 92345}', {}),
        (b'{"due_date": 1795248000}', {"due_date": True}),
        (b'{"created_at": 1795248000}', {"created_at": False}),
        (b"id,call_duration\n1,712.25\n", {"call_duration": True}),
        (b"id,call_duration\n" + b"".join(b"%d,%d\n" % (at, 70 + at) for at in range(8)), {"call_duration": True}),
        (b"id,call_duration\n1,70\n2,71\n", {}),
        (pickle.dumps({"due": datetime.datetime(2026, 11, 22)}), {"due": True}),
        (pickle.dumps({"saved_at": datetime.datetime(2026, 11, 22)}), {"saved_at": False}),
        (pickle.dumps([datetime.datetime(2026, 11, 21, 8, 0, 0)]), {"[0]": True}),
        (pickle.dumps([DURING]), {"[0]": False}),
        (b"half-life 3.5123 s\n", {"line 1": True}),
        (b"took 3.5123 s\n", {"line 1": False}),
        (b"i,time\n0,1.2345\n1,2.2345\n", {"time": True}),
        (b"a,fps\n0,1.2345\n", {"fps": False}),
        (
            PARQUET.replace(b"fit_seconds", b"_; duration"),
            {"created": False, "[0].created_at": False, "[0]._; duration": True},
        ),
    ],
)
def test_what_is_noted_of_a_file(data: bytes, exact: dict[str, bool]) -> None:
    """Times and rates that were left out and have digits enough, with whether their names leave a doubt."""
    content = read(data, MASKS)
    assert content is not None
    assert content.exact == exact


@pytest.mark.parametrize(
    ("data", "short", "memory"),
    [
        (b'{"segments": [{"start_time": 0.5, "end_time": 2}]}', {"segments[0].start_time", "segments[0].end_time"}, ()),
        (b'{"train_time": 0.5, "throughput": 61}', {"throughput"}, ()),
        (b'{"age": "30s", "elapsed": "3s"}', {"age"}, ()),
        (b"* lead II: QT 412 ms\n", {"line 1"}, ()),
        (b"epoch 3 took 2 s\n", (), ()),
        (b"| task | latency |\n|---|---|\n| 3 | 21 |\n", {"line 3"}, ()),
        (b"| model | fit time |\n|---|---|\n| 3 | 21 |\n", (), ()),
        (trace(), {"traceEvents[0].ts", "traceEvents[0].dur"}, ()),
        (trace(ts=1.5e10), (), ()),
        (trace(cat="cpu_op"), (), ()),
        (trace(cat="task"), {"traceEvents[0].ts", "traceEvents[0].dur"}, ()),
        (b'{"function": "resize", "memory_mb": 1024, "gpu_mem_mb": 1024, "peak_memory_mb": 3}', (), {"memory_mb"}),
        (b"recommended memory: 512 MB\npeak memory: 512 MB\n", (), {"line 1"}),
    ],
)
def test_few_digits_and_memory(data: bytes, short: Any, memory: Any) -> None:
    """What has too few digits to show anything by itself, and memory that need not be the program's."""
    content = read(data, MASKS)
    assert content is not None
    assert (content.short, content.memory) == (frozenset(short), frozenset(memory))


@pytest.mark.parametrize(
    ("text", "simulated"),
    [
        ("memory used: 150 MB", True),
        ("peak memory 150 KiB after 300 allocations", True),
        ("peak_memory", True),
        ("memoryUsed", True),
        ("GPU memory used: 150 MB", False),
        ("process memory: 150 MB", False),
        ("free memory: 150 MB", False),
        ("rss 150 MB", False),
    ],
)
def test_memory_of_allocators(text: str, simulated: bool) -> None:
    """Where no word is of a process or a device, it may be that of an allocator that is simulated."""
    assert memory_may_be_simulated(text) is simulated


def test_memory_far_apart() -> None:
    """Runs of one program need about as much memory."""
    assert are_far_apart(["used: 1,100 of 3000 MB", "used: 1,500 of 3000 MB"])
    assert not are_far_apart(["used: 1,100 MB", "used: 1,200 MB"])
    assert not are_far_apart(["used: 1,100 MB", "used: 1,500 MB of 3 GB"])
    assert are_far_apart(["used: 1.0 MB", "used: 1.0 GB"])
    assert not are_far_apart(["used: 900 KB", "used: 1.5 MB"])
    assert not are_far_apart(["used: 5 MB (+0.01)", "used: 5 MB (+0.02)"])
    content = read(b'{"memory_used": 4096, "peak_memory_mb": 3.5, "gpu_memory_used": 4096}', MASKS)
    assert content is not None
    assert content.used == {"memory_used", "peak_memory_mb"}
    assert content.numbers["peak_memory_mb"] == "3.5"


def test_numbers_have_the_same_place_whether_or_not_others_are_moments_of_the_run() -> None:
    """So that experiments find them again, whose clock may have been another one."""
    line = "{'start_time': 1795247765.25, 'total_time': 0.25}"
    masks = MASKS.with_files((), dict, duration=10.0)
    assert [number.place for number in exact_numbers(line, masks)] == [(2, 2)]
    assert [number.place for number in exact_numbers(line, MASKS)] == [(1, 2), (2, 2)]


def test_plain_numbers_are_kept_for_experiments() -> None:
    """Of times and rates, where a name has one; of all else digests are enough."""
    content = read(b'{"latency": 0.92345, "fps": [3], "memory": 12345, "elapsed": "0:12:31", "loss": 0.5}', MASKS)
    assert content is not None
    assert content.numbers == {"latency": "0.92345", "memory": "12345"}


def test_a_moment_of_the_run_is_a_time_under_any_name() -> None:
    """As trackers note them in databases; one of them that is not leaves the doubt that its name leaves."""
    masks = MASKS.with_files((), dict, duration=10.0)
    for moments, doubtful in (
        ((1795247765123, 1795247771999), False),
        ((1795247765123, 1795247799000), True),
        ((1795247799000, 1795247765123), True),
        ((1795247700000,), True),
    ):
        content = read("".join(f'{{"timestamp": {each}}}\n' for each in moments).encode(), masks)
        assert content is not None
        assert any(content.exact.values()) is doubtful
    column = read(b"step,timestamp\n1,1795247765.25\n2,1795247799.25\n", masks)
    assert column is not None
    assert column.exact == {"timestamp": True}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("23/23 - 2s - 86ms/step - accuracy: 0.1844", False),
        ("100%|#| 100/100 [0.0447 s]", False),
        ("half-life 3.5 s", True),
        ("fold: 123 ms", True),
    ],
)
def test_short_numbers_are_quoted_where_words_name_them(line: str, named: bool) -> None:
    """Progress bars have no words but units before theirs."""
    *_, number = (each for each in exact_numbers(line, MASKS) if each.behind.lstrip().startswith(("s", "ms")))
    assert is_named(number) is named


def test_of_a_long_line_no_more_is_looked_at_than_a_sentence() -> None:
    """A page with data in it has lines of hundreds of kilobytes, and thousands of numbers in each."""
    numbers = [*exact_numbers(", ".join(f"{number}.5123" for number in range(1000, 9000)), MASKS)]
    assert len(numbers) == 8000
    assert max(len(each.before) + len(each.behind) for each in numbers) < 5000
    assert in_line("0.5123, " * 9000 + "half-life 3.5123 s")


@pytest.mark.parametrize("text", OF_RUN)
def test_a_date_to_the_second_at_which_the_run_was_leaves_no_doubt(text: str) -> None:
    """No result happens to be a moment of a run of seconds, whatever the words around it."""
    assert not in_text(text, "line 2")
    assert not doubtful_in(text, "line 2", MASKS, MASKS.mask(text).text, short=True)


@pytest.mark.parametrize("text", OF_RUN)
@pytest.mark.parametrize(("before", "after"), [("07:56", "07:59"), ("07:56", "09:56"), ("21", "22")])
def test_a_date_at_which_the_run_was_not_leaves_one(text: str, before: str, after: str) -> None:
    """Minutes later, in another hour, or on the next day it may be what a program forecasts."""
    assert in_text(text.replace(before, after), "line 2")


@pytest.mark.parametrize("text", OF_RUN)
def test_another_number_next_to_a_moment_of_the_run_leaves_a_doubt(text: str) -> None:
    """What is no part of the date counts as it would alone."""
    assert in_text(f"{text}, half-life 3.5123 s", "line 2")


def test_a_date_within_a_long_run_leaves_a_doubt() -> None:
    """An hour has many seconds: a forecast may be for one of them."""
    masks = MASKS.with_files((), dict, 3600.0, strict=True)
    text = "forecast peak: 2026-11-21 08:20:03"
    assert doubtful_in(text, "line 2", masks, masks.mask(text).text)


@pytest.mark.parametrize("head", ["[CV] END ", "[CV 1/2] END ", "[CV 2/5; 10/30] END "])
@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("C=1, gamma=0.1;, score=0.912 total time=   0.6s", False),
        (f"{'.' * 600}C=1; total time=   0.6s", False),
        ("C=1; total time= 73.2min", True),
        ("C=1; half-life 3.51 s", True),
    ],
)
def test_the_time_of_a_fit_in_a_search_leaves_no_doubt(head: str, rest: str, expected: bool) -> None:
    """It is that of a step, unless it is longer than the run; what else such a line says counts as elsewhere."""
    masks = MASKS.with_files((), dict, 6.0, strict=True)
    *_, number = exact_numbers(f"{head}{rest}", masks)
    assert leaves_doubt(number, cheap=True) is expected
    *_, number = exact_numbers("all fits, total time=   0.6s", masks)
    assert leaves_doubt(number, cheap=True)


def _behind_many(last: Callable[[Canonical], None]) -> Content:
    """Return what is known of a file with very many measurements that leave no doubt, and one behind them."""
    out = Canonical(masks=MASKS)
    for at in range(20_001):
        out.leave_out(f"[{at}].wall_time", "0.5", "time", during=True)
    last(out)
    return out.result()


def _line(text: str) -> Callable[[Canonical], None]:
    masked = MASKS.mask(text)
    return lambda out: out.leave_out_of_text("line 30000", text, masked)


@pytest.mark.parametrize(
    ("one", "other", "doubt"),
    [
        (_line("half-life 3.5123 s"), _line("half-life 4.6234 s"), "exact"),
        (_line("half-life 3.5 s"), _line("half-life 4.6 s"), "short"),
        (_line("step 1 took 3.5 ms"), _line("step 1 took 4.5 ms"), ""),
        (
            lambda out: out.leave_out("half_life_seconds", "3.512345678", "time"),
            lambda out: out.leave_out("half_life_seconds", "4.512345678", "time"),
            "exact",
        ),
        (_line("memory: 312.5 MB"), _line("memory: 412.5 MB"), "memory"),
    ],
)
def test_many_measurements_do_not_hide_one_in_doubt(
    one: Callable[[Canonical], None], other: Callable[[Canonical], None], doubt: str
) -> None:
    """Places are kept up to a limit; of those behind it one name says whether they differ and may be results."""
    before, after = _behind_many(one), _behind_many(other)
    assert before.digest == after.digest
    assert before.left_out[FURTHER] != after.left_out[FURTHER]
    assert len(before.left_out) == 20_001
    found = before.exact.get(FURTHER, False), FURTHER in before.short, FURTHER in before.memory
    assert found == (doubt == "exact", doubt == "short", doubt == "memory")
