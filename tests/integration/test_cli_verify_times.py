"""What ``envbuild verify`` makes of times and other measurements in results, as users run it.

With Docker alone: all of it is decided by what runs left and by clocks that the hook fixes, and neither hangs on the
engine. That an engine carries both is tested with each (test_cli_verify.py: what follows the clock outside the project,
a cause that is proven, planted differences).
"""

from __future__ import annotations

import json

import pytest

from tests.support.cli import Project
from tests.support.verification import MEASURED, rows

pytestmark = [pytest.mark.engine, pytest.mark.network]

PRINTED = """\
import os, sys, time
open("vocab.txt", "w").write("constant")
print(f"trained in {30 + time.time() % 10:.3f} s", file=sys.stderr)
for step in range(1, 101):
    print(f"\\r{step}%|#| {step}/100 [{time.process_time():.4f} s]", end="", file=sys.stderr)
print(file=sys.stderr)
print(f"started at {time.strftime('%Y-%m-%d %H:%M:%S')}, pid={os.getpid()}")
if len(sys.argv) > 1:
    print("test accuracy = 0.90" + str(int.from_bytes(os.urandom(7), "big")))
"""
STAMP = """\
import datetime
open("run.log", "w").write(f"start\\ntrained at {datetime.datetime.now()}\\n")
"""


DATED = """\
import datetime, random
today = datetime.date.today()
rng = random.Random(today.month)
print(f"on {today:%A, %d %B}: weights", [rng.random() for _ in range(3)])
open("model.txt", "w").write(f"{today}: {rng.random()}\\n")
"""


def test_a_time_in_a_log_is_no_difference(project: Project) -> None:
    """Files that differ by a time alone hold the same; the file and the line are named."""
    project.write("t.py", STAMP)
    done = project.must("verify", "-n", "2", "t.py")
    assert "result    bit-identical 2/2: 1 file\n" in done.out
    assert "same content, other bytes: run.log (line 2 differs)\n" in done.out


def test_a_result_of_the_date_is_no_luck(project: Project) -> None:
    """Runs of one day are equal: one more is made on another day, where the program asks for the date."""
    project.write("t.py", DATED)
    found = project("verify", "-n", "2", "t.py")
    assert found.code == 16
    assert "not identical: 2 different results in 3 runs\n" in found.out
    assert "results            runs 1, 2 | run 3\n" in found.out
    assert "datetime.date.today() is another value each day" in found.out
    assert "(t.py:2)" in found.out
    assert "run 3 had a clock that is 1253 days ahead" in found.out
    assert len([*(project.folder / ".envbuild" / "runs").iterdir()]) == 3
    project.write("t.py", DATED.replace("(today.month)", "(7)"))
    done = project.must("verify", "-n", "2", "t.py")
    assert "start time, date\n" in done.out


THREADS = """\
import logging, random, sys
from concurrent.futures import ThreadPoolExecutor, as_completed
handlers = [logging.StreamHandler(sys.stdout), logging.FileHandler("run.log")]
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", handlers=handlers)
def load(shard):
    rows = sum(i * i % 7 for i in range(20_000 + 5_000 * (shard % 3)))
    logging.info("shard %d: %d", shard, rows)
    print("  rows of shard", shard, "are ready")
    return rows
shards = [*range(8)]
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(load, shards))
print("rows", sum(found))
"""


def test_turns_of_threads_are_no_results(project: Project) -> None:
    """An experiment shows who printed what; what the first thread prints, and who is drawn first, count."""
    project.write("t.py", THREADS)
    done = project.must("verify", "t.py")
    assert "17 lines of standard output (8 with times masked)" in done.out
    assert "which came in another order (several threads printed)" in done.out
    assert "same content, other bytes: run.log (the order of lines of several threads" in done.out
    project.write("t.py", THREADS.replace("range(8)]", "range(8)]; random.Random().shuffle(shards)"))
    found = project("verify", "t.py")
    assert found.code == 16
    assert "standard output (the same lines in another order)" in found.out
    assert "random.Random() without a seed seeds itself from the system's entropy" in found.out


DRAWN_TASKS = """\
import random
from concurrent.futures import ProcessPoolExecutor
def visit(n):
    print("visit", n, sum(i * i % 7 for i in range(200_000)), flush=True)
if __name__ == "__main__":
    order = [*range(8)]
    random.Random().shuffle(order)
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(visit, order))
"""


def test_an_order_that_is_drawn_is_a_result_also_where_processes_race(project: Project) -> None:
    """Done one after another, tasks print in one order each time unless it is drawn which of them is the first."""
    project.write("t.py", DRAWN_TASKS)
    found = project("verify", "t.py")
    assert found.code == 16, found.out
    assert "the order of lines is a result" in found.out
    assert "random.Random() without a seed seeds itself from the system's entropy" in found.out
    project.write("t.py", DRAWN_TASKS.replace("    random.Random().shuffle(order)\n", ""))
    assert "(several processes printed)" in project.must("verify", "t.py").out


def test_what_follows_the_clock_is_no_difference(project: Project) -> None:
    """Without a name or a format that is known: further runs with other clocks prove it, and the proof names it."""
    project.write("t.py", MEASURED)
    done = project.must("verify", "-n", "2", "t.py")
    assert "measurements, proven by 5 runs with other clocks: " in done.out
    proof = json.loads((project.folder / "pylock.clitest.verified.json").read_bytes())["predicate"]
    assert proof["measured"] == [
        {"path": "notes.json", "where": "passed", "kind": "duration"},
        {"path": "state.bin", "where": "byte 8", "kind": "date"},
    ]
    assert project("verify", "--no-diagnose", "-n", "2", "t.py").code == 16


def test_what_its_unit_alone_shows_is_quoted(project: Project) -> None:
    """A number that is left out as a duration under a name that may be a result's: the proof does not hide it."""
    project.write("t.py", "import time\nprint('took 0.1 s')\nprint(f'fold: {time.perf_counter_ns() % 900 + 100} ms')\n")
    done = project.must("verify", "-n", "2", "t.py")
    assert "not decided, left out as measurements or luck: standard output, line 2: fold: " in done.out
    proof = json.loads((project.folder / "pylock.clitest.verified.json").read_bytes())["predicate"]
    assert proof["masked"][-1].startswith("not decided: standard output, line 2: fold: ")


RESULTS_LIKE_TIMES = """\
import json, os, time
drawn = 3.5 + int.from_bytes(os.urandom(4), "big") / 2**33
print(f"took {time.perf_counter():.6f} s")
print(f"half-life {drawn:.6f} s")
json.dump({"time": drawn, "train_runtime": time.perf_counter()}, open("found.json", "w"))
"""


def test_a_result_that_looks_like_a_time_counts(project: Project) -> None:
    """It repeats exactly once all but the clock is fixed, which no time does; the proof there was goes."""
    project.write("t.py", RESULTS_LIKE_TIMES)
    quick = project.must("verify", "--no-diagnose", "-n", "2", "t.py").out
    (line,) = [each for each in quick.splitlines() if "not decided, left out as measurements or luck: " in each]
    assert "standard output, line 2: half-life 3." in line
    done = project("verify", "-n", "2", "t.py")
    assert done.code == 16, done.err
    assert "  differs            found.json (time); standard output\n" in done.out
    assert "  printed            stdout line 2: half-life 3." in done.out
    assert "proven: runs are equal when the system's entropy is fixed  (t.py:2)\n" in done.out
    assert not (project.folder / "pylock.clitest.verified.json").exists()


def test_a_time_under_any_name_is_none(project: Project) -> None:
    """What a clock measured is the same once the clock alone is fixed, whenever it begins: a guess no more."""
    timed = """\
import time
began = time.perf_counter()
sum(range(100_000))
print(f"half-life {time.perf_counter() - began:.9f} s")
"""
    project.write("t.py", timed)
    done = project.must("verify", "-n", "2", "t.py")
    assert "bit-identical 2/2" in done.out
    assert "1 run: the clock fixed, later" in done.out
    assert "all fixed but the clock" not in done.out
    assert "not decided" not in done.out


FALLING = """\
import os, sys, time
height = 10 + int.from_bytes(os.urandom(2), "big") / 2**16
if sys.argv[1:] == ["by-date"]:
    height = 10 + time.time_ns() % 10**6 / 1e6
if sys.argv[1:] == ["by-limit"]:
    height, began = 10, time.perf_counter()
    while time.perf_counter() - began < 0.2:
        height += (11 - height) / 1e6
print("order | period")
print(f"| order 3 | {height / 3:.6f} s |")
print(f"The ball hits the ground after {(2 * height / 9.81) ** 0.5:.6f} s")
"""


def test_seconds_of_a_simulation_count(project: Project) -> None:
    """Neither a sentence about something that happens nor a cell without a word says that a program took them."""
    project.write("t.py", FALLING)
    done = project("verify", "-n", "2", "t.py")
    assert done.code == 16, done.err
    assert "  printed            stdout line 2: | order 3 | 3." in done.out
    assert "proven: runs are equal when the system's entropy is fixed  (t.py:2)\n" in done.out


def test_seconds_that_depend_on_the_date_count(project: Project) -> None:
    """A fixed clock repeats them, another start changes them, and they are no date: the time is the cause."""
    project.write("t.py", FALLING)
    done = project("verify", "-n", "2", "t.py", "by-date")
    assert done.code == 16, done.err
    assert "  printed            stdout line 2: | order 3 | 3." in done.out
    assert "proven: runs are equal when the clock is fixed  (t.py:4)\n" in done.out


def test_seconds_that_follow_no_clock_are_quoted(project: Project) -> None:
    """What depends on how much is done in a time is no measurement, and nothing fixes it: the proof says so."""
    project.write("t.py", FALLING)
    done = project.must("verify", "-n", "2", "t.py", "by-limit")
    assert "not decided, left out as measurements or luck: standard output, line 2: | order 3 | 3." in done.out


def test_what_is_printed_counts(project: Project) -> None:
    """Times, progress and process numbers are masked and counted; a number that differs is quoted with its line."""
    project.write("t.py", PRINTED)
    done = project.must("verify", "-n", "2", "t.py")
    compared = "1 file, 1 line of standard output (1 with names, 1 with times masked), 2 lines of standard error"
    assert f"result    bit-identical 2/2: {compared} (2 with times masked)\n" in done.out
    proof = json.loads((project.folder / "pylock.clitest.verified.json").read_bytes())["predicate"]
    *masked, undecided = proof["masked"]
    assert masked == ["standard output: 1 line with names, 1 line with times", "standard error: 2 lines with times"]
    # a number that is no plain time, in a program that draws from the system's entropy
    assert undecided.startswith("not decided: standard error, line 1: trained in 3")
    done = project("verify", "-n", "2", "t.py", "x")
    found = rows(done)
    assert found["differs"] == "standard output"
    assert found["printed"].startswith("stdout line 2: test accuracy = 0.90")
    kept = json.loads((project.folder / "pylock.clitest.verified.json").read_bytes())["predicate"]
    assert kept == proof  # of the command without arguments, which nothing has refuted
    project.must("verify", "-n", "2", "--ignore", "stdout", "t.py", "x")


def test_a_time_stamp_can_be_left_out(project: Project) -> None:
    """``--ignore`` leaves a file out and reports it; if nothing is left to compare there is no proof."""
    project.write("t.py", STAMP + "open('result', 'w').write('1')\n")
    done = project.must("verify", "-n", "2", "--ignore", "*.log", "t.py")
    assert "result    bit-identical 2/2: 1 file\n          not compared, as asked: run.log\n" in done.out
    done = project("verify", "-n", "2", "--ignore", "*", "t.py")
    assert done.code == 2
    assert "there is nothing to compare" in done.err
