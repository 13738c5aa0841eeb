"""What says what day it is (envbuild/verification/measurements/calendar.py)."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from envbuild.verification.measurements.calendar import in_year, path_without_day, without_day

TODAY = datetime(2026, 11, 29, 18, 0, tzinfo=timezone.utc)
OTHER = datetime(2026, 6, 21, 5, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("report of Sunday", "report of Sunday"),
        ("on Sunday 29 November", "on Sunday 21 June"),
        ("Nov 29, 2026", "Jun 21, 2026"),
        ("week 48 of 2026", "week 25 of 2026"),
        ("29th November", "21st June"),
    ],
)
def test_what_says_the_day_is_the_same_on_another_one(one: str, other: str) -> None:
    assert without_day(one, TODAY) == without_day(other, OTHER)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-11-29 18:00", "2026-06-21 05:00"),
        ("datetime(2026, 11, 29)", "datetime(2026, 6, 21)"),
        ("model of autumn", "model of summer"),
        ("seed 20261129", "seed 20260621"),
        ("score 29", "score 21"),
    ],
)
def test_what_follows_the_day_is_not(one: str, other: str) -> None:
    assert without_day(one, TODAY) != without_day(other, OTHER)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("logs/2026/11-29/a.log", "logs/2026/06-21/a.log"),
        ("runs/2026/11/29/w.npy", "runs/2026/06/21/w.npy"),
        ("runs/20261129/w.npy", "runs/20260621/w.npy"),
    ],
)
def test_paths_of_a_day(one: str, other: str) -> None:
    assert path_without_day(one, TODAY) == path_without_day(other, OTHER)


def test_paths_of_no_day() -> None:
    """A number that is another one, or part of a longer one."""
    assert path_without_day("w-12026.npy", TODAY) == "w-12026.npy"
    assert path_without_day("fold-7/w.npy", TODAY) == "fold-7/w.npy"
    assert path_without_day("train_2026-11-29_18-00-00.log", TODAY) == "train_2026-11-29_18-00-00.log"


def test_a_year_that_is_printed_is_put_in_the_place_of_another() -> None:
    """Line by line, where the other text has its own year there."""
    today = b"Report of 2026\nfold 2030\nrows 7"
    assert in_year(b"Report of 2030\nfold 2030\nrows 7", 2030, today, 2026) == today
    assert in_year(b"age 34\nfold 2030\nrows 2030", 2030, today, 2026) == b"age 34\nfold 2030\nrows 2030"
    assert in_year(b"Report of 2030", 2030, today, 2026) == b"Report of 2030"
    assert without_day("© 2026 by us", TODAY) != without_day("© 2025 by us", TODAY)


@pytest.mark.parametrize("form", ["-- %a %d %b %Y %H:%M, 0.1 sec", "on %A, %d %B %Y at %I:%M %p"])
def test_the_minute_of_the_run_behind_its_day_goes_with_it(form: str) -> None:
    """The other day's clock is in the other half of its day; another minute than the run's is a result."""
    today, other = TODAY.replace(hour=9, minute=44), OTHER.replace(hour=21, minute=44)
    assert without_day(f"{today:{form}}", today) == without_day(f"{other:{form}}", other)
    assert without_day(f"{today:{form}}", today) != without_day(f"{other.replace(minute=50):{form}}", other)
    assert without_day("left at 09:44", today) == "left at 09:44"
