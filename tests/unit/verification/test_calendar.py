"""What says what day it is (envbuild/verification/measurements/calendar.py)."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from envbuild.verification.measurements.calendar import without_day

TODAY = datetime(2026, 11, 29, 18, 0, tzinfo=timezone.utc)
OTHER = datetime(2027, 12, 6, 5, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("report of Sunday", "report of Monday"),
        ("on Sunday 29 November", "on Monday 06 December"),
        ("Nov 29, 2026", "Dec 6, 2027"),
        ("week 48 of 2026", "week 49 of 2027"),
        ("29th November", "6th December"),
    ],
)
def test_what_says_the_day_is_the_same_on_another_one(one: str, other: str) -> None:
    assert without_day(one, TODAY) == without_day(other, OTHER)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-11-29 18:00", "2027-12-06 05:00"),
        ("model of autumn", "model of winter"),
        ("seed 20261129", "seed 20271206"),
        ("score 29", "score 6"),
    ],
)
def test_what_follows_the_day_is_not(one: str, other: str) -> None:
    assert without_day(one, TODAY) != without_day(other, OTHER)
