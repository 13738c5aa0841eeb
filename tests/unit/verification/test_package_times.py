"""Where a program lets a package's clock decide (envbuild/verification/causes/package_times.py)."""

from __future__ import annotations

import pytest

from envbuild.verification.causes.package_times import given_ages, read_durations


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("cache.memoize(expire=0.04)(f)", {1: "expire="}),
        ("@cached(\n TTLCache(maxsize=9, ttl=60))\ndef f(): pass", {2: "ttl="}),
        ("cache.set(k, v, expire=None)", {}),
        ("cache.set(k, v, tag='a')", {}),
        ("cache.set(", {}),
        ("@retry(stop=stop_after_delay(0.2))\ndef f(): pass", {1: "stop_after_delay()"}),
    ],
)
def test_given_ages(source: str, found: dict[int, str]) -> None:
    assert given_ages(source) == found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("cost = results['mean_fit_time']", (1,)),
        ("a = trial.duration", (1,)),
        ("a = response.elapsed.total_seconds()", (1,)),
        ("a = row['timestamp']", ()),
        ("a = row['time_zone']", ()),
        ("row['fit_time'] = 3", ()),
        ("import time\na = time.time()", ()),
        ("from datetime import datetime\na = datetime.time", ()),
        ("a = (", ()),
    ],
)
def test_read_durations(source: str, lines: tuple[int, ...]) -> None:
    assert read_durations(source) == lines
