"""Times of day that all runs have in the same place are data: masked in none, whenever a run was."""

from __future__ import annotations

from pathlib import Path

from envbuild.operations.verification.common_clocks import kept_in, with_common_clocks
from envbuild.record.printed import keep
from envbuild.verification.content import read
from envbuild.verification.files import masks_of
from envbuild.verification.masking.days import Clocks, in_common
from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.printed import PrintedDigest
from envbuild.verification.ran import Ran
from tests.support.records import process, record

STARTS = ("2026-01-02T03:04:06Z", "2026-01-02T03:04:16Z", "2026-01-02T03:04:26Z")
IDS = tuple(f"01JC{number:022d}" for number in range(3))


def _runs(project: Path, *texts: str, took: float = 1.0) -> list[Ran]:
    """Runs that began ten seconds after each other, and what each printed."""
    found = []
    for identity, start, text in zip(IDS, STARTS, texts, strict=False):
        known = record(identity, start=start, duration=took, outputs=(), metrics={}, processes=(process(),))
        keep(project, identity, {"stdout": text.encode()})
        digest = PrintedDigest(masks_of(known))
        digest.feed(text.encode())
        found.append(Ran(record=known, stdout=digest.result()))
    return found


def _results(runs: list[Ran], project: Path) -> int:
    return len({run.stdout.sha256 for run in with_common_clocks(runs, kept_in(project), ())})


def test_a_timetable_is_the_same_whenever_it_is_printed(tmp_path: Path) -> None:
    """Each run has the times of other rows; next to them is what the run itself logs."""
    rows = [f"departs {3 + at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}" for at in range(900)]
    texts = ["\n".join(f"03:04:{at:02d} {row}" for row in rows) for at in (6, 16, 26)]
    runs = _runs(tmp_path, *texts)
    assert len({run.stdout.sha256 for run in runs}) == 3
    assert _results(runs, tmp_path) == 1


def test_a_time_that_one_run_has_alone_counts_as_before(tmp_path: Path) -> None:
    """It is none of that run: a result."""
    assert _results(_runs(tmp_path, "departs 12:08:09\n", "departs 12:08:10\n"), tmp_path) == 2
    assert _results(_runs(tmp_path, "a 03:04:06\n", "a 03:04:06\n", "a 12:08:10\n"), tmp_path) > 1


def test_another_order_of_the_same_times_counts(tmp_path: Path) -> None:
    """A time is in common only in its place."""
    assert _results(_runs(tmp_path, "12:08:09\n12:09:10\n", "12:09:10\n12:08:09\n"), tmp_path) == 2


def test_a_run_more_decides_anew(tmp_path: Path) -> None:
    """What two runs had in common by chance is a time of each of them, if the third has its own."""
    texts = ["a 03:04:17\nb 12:04:06\n", "a 03:04:17\nb 12:04:06\n", "a 03:04:37\nb 12:04:06\n"]
    runs = _runs(tmp_path, *texts, took=20.0)
    two = with_common_clocks(runs[:2], kept_in(tmp_path), ())
    assert len({run.stdout.sha256 for run in with_common_clocks([*two, runs[2]], kept_in(tmp_path), ())}) == 1


def test_of_a_file_too(tmp_path: Path) -> None:
    """What is read with places has these times as they are."""
    text = b'{"rows": ["12:04:06", "12:04:16"], "elapsed": 0.25}'
    masks = [masks_of(record(start=start, duration=1.0)) for start in STARTS[:2]]
    noted = [Clocks(), Clocks()]
    contents = [read(text, each.with_clocks(clocks)) for each, clocks in zip(masks, noted, strict=True)]
    assert len({each.digest for each in contents if each is not None}) == 2
    common = in_common([clocks.found for clocks in noted])
    assert common == {0, 1}
    contents = [read(text, each.with_clocks(Clocks(common))) for each in masks]
    assert len({each.digest for each in contents if each is not None}) == 1


def test_texts_with_other_numbers_of_times_have_none_in_common() -> None:
    """Nothing shows which is which."""
    assert not in_common([["12:00:01"], ["12:00:01", "12:00:02"]])
    assert not in_common([["12:00:01"]])
    assert Masks(0.0).with_clocks(Clocks(frozenset([1]))).mask("12:00:01 12:00:02").text == "⟨time⟩ 12:00:02"


def test_with_a_fixed_clock_other_times_of_day_are_no_measurements() -> None:
    """Else two runs with all of it masked would prove that the clock is the cause of another timetable."""
    masks = Masks(0.0).with_days(1_000_000_800.0, 60.0)
    assert masks.mask("at 02:00:30 of 02:08:09").text == "at ⟨time⟩ of 02:08:09"
