"""Which programs are run on another day too, and what counts there (envbuild/operations/verification/dates.py)."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envbuild.operations.verification.dates import (
    Dated,
    _clocks,
    _merely_shown,
    _of_all,
    lines_with_dates,
    on_another_day,
)
from envbuild.verification.measurements.clockwork import Setting
from envbuild.verification.verdict import Channel, Verdict
from tests.support.records import record

IMPORTS = "import datetime, http.cookiejar, time\nfrom datetime import date\n"
CLOCKS = (Setting(1_795_978_000 * 10**9, 1), Setting(1_782_024_400 * 10**9, 1))


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        ("seed = int(date.today().strftime('%Y%m%d'))\nrandom.seed(seed)", True),
        ("rng = random.Random(date.today().isoformat())", True),
        ("hour = time.localtime().tm_hour\nlr = 0.1 if hour < 12 else 0.01\nfit(lr)", True),
        ("season = names[date.today().month // 3]\nprint(season)", True),
        ("now = datetime.datetime.now()\nsave(f'run_{now:%Y}')", True),
        ("age = date.today() - born\nfit(age)", True),
        ("hour = int(datetime.datetime.now().strftime('%H'))\nfit(0.1 / (1 + hour))", True),
        ("rate = rates[time.strftime('%H')]\nfit(rate)", True),
        ("print(datetime.datetime.now())", False),
        ("print(f'{datetime.datetime.now()} begin')", False),
        ("log(datetime.datetime.now().isoformat())", False),
        ("name = time.strftime('%Y%m%d')", False),
        ("random.seed(int(time.time() // 86400))", True),
        ("began = time.time()\nprint(time.time() - began)", False),
        ("if date.today().day > 3: pass\nos.path.getmtime('a')", False),
        ("fit(x)", False),
        ("jar = http.cookiejar.MozillaCookieJar('c.txt')\njar.load()", True),
        ("date.today(", False),
    ],
)
def test_programs_that_ask_for_the_date(source: str, *, asks: bool) -> None:
    """And do more than show it; one that asks for the times of files has no other day, since these are today's."""
    assert bool([*lines_with_dates({"train.py": IMPORTS + source})]) == asks


def test_of_long_runs_it_is_quoted_that_none_had_another_date() -> None:
    nothing: Any = None
    session: Any = SimpleNamespace(
        runs=[SimpleNamespace(record=record(duration=700.0))],
        plan=SimpleNamespace(request=SimpleNamespace(project=Path("/nowhere"))),
    )
    sources = {"train.py": IMPORTS + "random.seed(date.today().day)\n"}
    found = on_another_day(session, sources, nothing, nothing)
    assert found.quoted == (
        "datetime.date.today() in train.py:3 asks for the date, and no other one was tried with success",
    )
    assert on_another_day(session, {"train.py": "fit(x)\n"}, nothing, nothing) == Dated()


@pytest.mark.parametrize("month", range(1, 13))
@pytest.mark.parametrize("hour", [0, 11, 12, 23])
def test_the_other_day_is_one_of_another_year_and_the_same_day_of_the_week(month: int, hour: int) -> None:
    now = datetime(2026, month, 28, hour, 59, tzinfo=timezone.utc)
    (first, second), off = _clocks(int(now.timestamp()))
    one, other = (datetime.fromtimestamp(each.start / 1e9, timezone.utc) for each in (first, second))
    assert other.year - one.year in (3, 4)
    assert one.weekday() == other.weekday()
    assert (other.month - one.month) % 12 in (5, 6)
    assert (one.hour < 12) != (other.hour < 12)
    assert off == "1253 days ahead"


@pytest.mark.parametrize(
    ("name", "phrase", "shown"),
    [
        ("report.html", "report.html (line 3: of Sun, 29 Nov → of Sun, 21 Jun)", True),
        ("a.pkl", "a.pkl (began: 1795978077.5 → 1782024959.25)", True),
        ("a.pkl", "a.pkl (seed: 1795978077 → 1592107959)", False),
        ("a.zip", "a.zip (README.txt, line 1: of 29 November 2026, ⟨time⟩ → of 21 June 2026, ⟨time⟩)", True),
        ("r.md", "r.md (line 3: lr 0.1 → lr 0.01)", False),
        ("w.json", "w.json (lr: 0.1 → 0.01)", False),
        ("r.zip", "r.zip (index.html, line 7: Nov 30 … a1 → May 6 … b2)", True),
        ("r.zip", "r.zip (w.json, line 7: 0.1 → 0.2)", False),
    ],
)
def test_what_merely_shows_the_day_is_quoted(name: str, phrase: str, *, shown: bool) -> None:
    """Pages and pictures, and values that are moments of their runs; next to something else they are no excuse."""

    def verdict(*channels: Channel) -> Verdict:
        return Verdict(outcome="different", runs=2, asked=2, groups=((0,), (1,)), channels=channels)

    files = Channel(kind="files", compared="1 file", count=1, differs=(phrase,), names=(name,))
    lines = Channel(kind="stdout", compared="1 line", count=1, differs=("standard output",))
    assert _merely_shown(verdict(files), CLOCKS) == ([phrase] if shown else [])
    assert _merely_shown(verdict(files, lines), CLOCKS) == []
    two = f"a.html (line 1: Mon → Tue), {phrase}"
    both = Channel(kind="files", compared="2 files", count=2, differs=(two,), names=("a.html", name))
    assert _merely_shown(verdict(both), CLOCKS) == (["a.html (line 1: Mon → Tue)", phrase] if shown else [])
    other = Channel(kind="files", compared="2 files", count=2, differs=(two,), names=("a.html", "b"))
    assert _merely_shown(verdict(other), CLOCKS) == []


def test_one_run_of_today_is_compared_for_all_of_them() -> None:
    """What several runs have in common counts as data, so that one run three times would have nothing that is drawn."""
    pair = Verdict(
        outcome="different", runs=2, asked=2, groups=((0,), (1,)), exit_codes=(0, 0), states=("finished",) * 2
    )
    found = _of_all(pair, 3)
    assert (found.runs, found.asked, found.groups, found.pair) == (4, 4, ((0, 1, 2), (3,)), (0, 3))
    assert (found.exit_codes, found.states) == ((0,) * 4, ("finished",) * 4)
