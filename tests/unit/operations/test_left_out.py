"""What of a run was left out as a measurement, and leaves a doubt by what the sources show."""

from __future__ import annotations

from typing import Any, cast

import pytest

from envbuild.operations.verification.doubtful import InDoubt, of_same_program
from envbuild.operations.verification.left_out import LeftOut
from envbuild.verification.content.reader import read
from envbuild.verification.dataflow.measuring import Measuring
from envbuild.verification.files import masks_of
from envbuild.verification.masking.printed import rows
from envbuild.verification.ran import Ran
from tests.support.records import record


def left_out(text: str, measuring: Measuring) -> LeftOut:
    """What a run left out that printed a text, two seconds after it began at 1767323045.678."""
    run = Ran(record=record())
    streams = [{"stdout": [*rows(text.encode(), masks_of(run.record))]}]
    return LeftOut(session=cast(Any, None), measuring=measuring, runs=[run], streams=streams)


@pytest.mark.parametrize("can_measure", [False, True])
def test_a_rate_of_two_digits_is_in_doubt_where_nothing_measures(can_measure: bool) -> None:
    """Without a word before it too, as Keras prints it."""
    found = left_out("32/32 - 1s - 67ms/step - loss: 0.3\n", Measuring(time=can_measure))
    assert ("67" in dict(found.named(0)).values()) is not can_measure


@pytest.mark.parametrize("can_measure", [False, True])
def test_a_column_of_few_digits_is_in_doubt_where_nothing_measures(can_measure: bool) -> None:
    """As single numbers are: two rows have six digits."""
    data = b"epoch,elapsed,loss\n1,3.25,0.5\n2,4.75,0.4\n"
    found = left_out("", Measuring(time=can_measure))
    content = read(data, masks_of(found.runs[0].record))
    assert content is not None
    found.runs[0].contents["o.csv"] = content
    doubted = {} if can_measure else {("o.csv", "elapsed"): "3.25 4.75"}
    assert dict(found.named(0)) == doubted
    assert {*found.doubted(0)} == {*doubted}


@pytest.mark.parametrize("draws", [False, True])
def test_where_a_generator_has_no_seed_the_name_of_a_measurement_leaves_a_doubt(draws: bool) -> None:
    """Names are followed through sources by their letters: the same word may be before something that was timed."""
    found = left_out("load_time: 1.2345\n", Measuring(draws=draws))
    content = read(b'[{"build_time": 40.1234}]', masks_of(found.runs[0].record))
    assert content is not None
    found.runs[0].contents["o.json"] = content
    places = {("stdout", "line 1, number 1 of 1"), ("o.json", "[0].build_time")}
    assert {*found.doubted(0)} == (places if draws else {*()})


def test_what_was_derived_of_a_metric_has_its_name() -> None:
    """``…_seconds_sum`` is a time as ``…_seconds`` is, in Prometheus' text, whatever labels it has."""
    lines = ("# TYPE task_seconds summary", 'task_seconds_sum{zone="a.b"} 41.1234', "task_seconds_count 7", "")
    found = left_out("", Measuring(draws=True))
    content = read("\n".join(lines).encode(), masks_of(found.runs[0].record))
    assert content is not None
    found.runs[0].contents["m.prom"] = content
    assert {*found.doubted(0)} == {("m.prom", 'task_seconds_sum{zone="a.b"}')}


@pytest.mark.parametrize("draws", [False, True])
def test_a_series_of_a_metric_is_in_doubt_where_a_generator_has_no_seed(draws: bool) -> None:
    """How long an episode of a game lasts is a result; what is timed has such names as well."""
    found = left_out("", Measuring(draws=draws))
    found.runs[0].record.metrics["rollout/episode_duration"] = ((0, 1.25), (1, 3.1234))
    place = "metrics", "rollout/episode_duration"
    assert found.values(0).get(place) == ("1.25 3.1234" if draws else None)
    assert (place in {*found.doubted(0)}) is draws


@pytest.mark.parametrize("draws", [False, True])
def test_where_a_generator_has_no_seed_other_names_leave_a_doubt_too(draws: bool) -> None:
    """Circles have ``r``, ``l`` and ``t`` as monitors of episodes have, and a test of memory has a total."""
    found = left_out("peak memory 53.66 MB\n", Measuring(draws=draws))
    for name, data in (("m.csv", b"r,l,t\n1.0,9,3.1234\n2.0,9,4.1234\n"), ("s.json", b'{"memory_total": 53.66}')):
        content = read(data, masks_of(found.runs[0].record))
        assert content is not None
        found.runs[0].contents[name] = content
    assert {*found.doubted(0)} == ({("m.csv", "t")} if draws else {*()})
    places = {("stdout", "line 1"), ("s.json", "memory_total")}
    assert dict(found.memory(0)).keys() == (places if draws else {*()})


def test_experiments_look_at_what_the_sources_left_in_doubt() -> None:
    """A series of a metric is in doubt by the sources alone: a run that did not know them would not have it."""
    found = left_out("", Measuring(draws=True))
    doubts = InDoubt(left=found, known=[], places=[], doubtful=frozenset())
    assert of_same_program(doubts).measuring == found.measuring


@pytest.mark.parametrize(
    ("line", "draws", "doubted"),
    [
        ("Epoch 0: 100%|███| 4/4 [00:01<00:00,  2.18it/s, loss=0.866]", False, False),
        ("Epoch 0: 100%|███| 4/4 [00:01<00:00,  2.18it/s, loss=0.866]", True, True),
        ("Epoch 0: 4/4 [00:01<00:00,  2.18it/s]", False, True),
        ("Epoch 0: 100%|███| 4/4 [00:01,  2.18it/s]", False, True),
        ("Epoch 2.18s: 100%|███| 4/4 [00:01<00:00,  2.50it/s]", False, True),
    ],
)
def test_what_a_bar_measures_has_no_name_before_the_bar(line: str, draws: bool, doubted: bool) -> None:
    """``desc=f"Epoch {epoch}"`` names what is counted; a bar that the program draws itself may show anything."""
    found = left_out(f"{line}\n", Measuring(unmeasured=frozenset(["Epoch"]), draws_bars=draws))
    place = next(place for place, text in found.values(0, short=True).items() if text == "2.18")
    assert (place in {*found.doubted(0)}, place in dict(found.named(0))) == (doubted, doubted)


def test_a_moment_of_the_run_is_in_doubt_where_something_drawn_was_added() -> None:
    """By the word before it; others are the run's."""
    text = "change point: 1767323046\nsaved at 1767323047\nloss 0.5 point 0.25\ntook 3.5 s, point 2.5 s\n"
    found = left_out(text, Measuring(shifted=frozenset(["point"])))
    assert [text for _, text in found.moments(0)] == ["1767323046"]
    assert not [*left_out(text, Measuring()).moments(0)]


@pytest.mark.parametrize("word", ["monitor", "decay", "market", "sun", "May"])
def test_a_word_that_begins_as_a_day_or_a_month_is_a_word_before_a_moment(word: str) -> None:
    """Else what was drawn and added to the moment would count as the run's."""
    text = f"{word} 03:04:06\n"
    found = left_out(text, Measuring(shifted=frozenset([word])))
    content = read(text.encode(), masks_of(found.runs[0].record))
    assert content is not None
    found.runs[0].contents["o.txt"] = content
    assert [place for place, _ in found.moments(0)] == [("stdout", "line 1, value 0"), ("o.txt", "line 1")]


def test_a_moment_without_a_word_is_in_doubt_where_one_comes_out_so() -> None:
    """Words of the date itself are none before it."""
    lines = ["03:04:06", "Fri Jan  2 03:04:06 2026", "saved at 03:04:06", "saved Fri Jan  2 03:04:06 2026", "loss 0.5"]
    found = left_out("\n".join((*lines, "")), Measuring(shifted=frozenset([""])))
    assert {place for (_, place), _ in found.moments(0)} == {"line 1, value 0", "line 2, value 1"}
    content = read(b"03:04:06\nFri Jan  2 03:04:06 2026\nsaved at 03:04:06\n", masks_of(found.runs[0].record))
    assert content is not None
    found.runs[0].contents["o.txt"] = content
    assert [place for (path, place), _ in found.moments(0) if path == "o.txt"] == ["line 1", "line 2"]


def test_a_moment_in_a_file_is_in_doubt_by_its_key() -> None:
    """What is left out of files is known by its digest; single numbers are kept as they are written."""
    data = b'{"at": 1767323046, "saved_at": 1767323047, "time": 2.5, "created": "2026-01-02T03:04:06"}'
    run = Ran(record=record())
    content = read(data, masks_of(run.record))
    assert content is not None
    run.contents["o.json"] = content
    shifted = Measuring(shifted=frozenset(["at", "time", "created"]))
    found = LeftOut(session=cast(Any, None), measuring=shifted, runs=[run], streams=[{}])
    assert dict(found.moments(0)) == {
        ("o.json", "at"): "1767323046",
        ("o.json", "created"): content.left_out["created"],
    }
