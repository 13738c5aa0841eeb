"""Durations without a name, where the sources show what they are."""

from __future__ import annotations

import pytest

from envbuild.verification.measurements.stopwatches import shows_durations

START = "import time, pickle, datetime\nrows = []\nw = 1.0\nbegan = time.perf_counter()\n"
DUMP = "\npickle.dump(rows, open('rows.pkl', 'wb'))\n"


@pytest.mark.parametrize(
    "source",
    [
        "rows.append((3, w, time.perf_counter() - began))",
        "seconds = time.perf_counter() - began\nrows.append([3, w, seconds])",
        "seconds = round(time.perf_counter() - began, 3)\nrows.append([3, w, seconds])",
        "end = time.perf_counter()\nrows.append((end - began,))",
        "rows = [(k, time.perf_counter() - began) for k in range(3)]",
        "from time import perf_counter\nrows.append((w, perf_counter() - began))",
        "start = datetime.datetime.now()\nrows.append((w, (datetime.datetime.now() - start).total_seconds()))",
        "def fit():\n    begin = time.time()\n    return w, time.time() - begin\nrows.append(fit())",
        "class T:\n    def fit(self):\n        self.at = time.time()\n        rows.append(time.time() - self.at)\n"
        "T().fit()",
    ],
)
def test_the_sources_show_that_an_item_is_a_duration(source: str) -> None:
    """One reading less another one, by itself or under a name that allows for a time."""
    assert shows_durations({"main.py": START + source + DUMP})


@pytest.mark.parametrize(
    "source",
    [
        "rows.append((3, w))",
        "print(time.perf_counter() - began)",
        "w = time.perf_counter() - began\nrows.append((3, w))",
        "theta = time.perf_counter() - began\nrows.append((3, theta))",
        "loss = time.perf_counter() - began\nrows.append((3, loss, time.perf_counter() - began))",
        "rows.append((w * (time.perf_counter() - began), time.perf_counter() - began))",
        "rows.append((0.5 * (time.perf_counter() - began), time.perf_counter() - began))",
        "w += time.perf_counter() - began\nrows.append((w, time.perf_counter() - began))",
        "seconds = time.perf_counter() - began\nseconds = 4\nrows.append((w, seconds))",
        "seconds = time.perf_counter() - began\nfor seconds in range(3):\n    rows.append((w, seconds))",
        "def keep(w):\n    rows.append((w, time.perf_counter() - began))\nkeep(time.perf_counter() - began)",
        "weights = [time.perf_counter() - began]\nrows.append(weights)",
        "def f():\n    return w * (time.time() - began)\nrows.append((f(), time.time() - began))",
        "while time.perf_counter() < began + 1:\n    w *= 0.5\nrows.append((w, time.perf_counter() - began))",
        "import mystery\nw = mystery.f()\nrows.append((w, time.perf_counter() - began))",
    ],
)
def test_they_do_not_where_something_else_may_be_of_a_clock(source: str) -> None:
    """A variable with the name of a result, or with one that says nothing, and what is computed of a duration."""
    assert not shows_durations({"main.py": START + source + DUMP})
