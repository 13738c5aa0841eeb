"""Times without names: means of meters, the second time of a line, UUIDs without dashes that have a time in them."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone

import pytest

from envbuild.verification.content import Content, compare, read
from envbuild.verification.masking.doubtful import exact_numbers
from envbuild.verification.masking.masks import Masks

_NOW = 1_795_784_283.0
_GREGORIAN = 0x01B21DD213814000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Epoch: [0][ 1/40]\tTime  0.786 ( 0.786)\tData  0.005 ( 0.005)\tLoss 2.7e+00 (2.7e+00)",
            "Epoch: [0][ 1/40]\tTime 10.101 (11.786)\tData 10.005 (10.005)\tLoss 2.7e+00 (2.7e+00)",
        ),
        ("lr 0.1\t time 0.7861 (0.7911)\t loss 6.9 (6.9)", "lr 0.1\t time 0.8 (0.9)\t loss 6.9 (6.9)"),
        (
            "Loss: 6.93 (6.93)  Time: 0.786s,  325.68/s  (0.786s,  325.68/s)  LR: 1.0e-05  Data: 0.500 (0.500)",
            "Loss: 6.93 (6.93)  Time: 1.286s,  25.68/s  (2.286s,   35.68/s)  LR: 1.0e-05  Data: 0.700 (0.600)",
        ),
        ("Test: [0/8]  Time: 0.786s (0.786s,  325.68/s)  Loss: 6", "Test: [0/8]  Time: 0.2s (0.3s,  25.6/s)  Loss: 6"),
        ("SPEED               126162", "SPEED               6163"),
        (
            "{'me...me': array([0.01...]), 'me...me': array([0.02...]), 'me...re': array([0.9])}",
            "{'me...me': array([0.03...]), 'me...me': array([0.05...]), 'me...re': array([0.9])}",
        ),
    ],
)
def test_times_that_a_result_may_look_like_are_left_out_and_in_doubt(one: str, other: str) -> None:
    """An experiment shows what they are, or they are quoted; in files too."""
    masks = Masks(_NOW)
    assert masks.mask(one).text == masks.mask(other).text
    assert masks.mask(one).guessed
    contents = [read(f"{text}\n".encode(), masks) for text in (one, other)]
    found = [each for each in contents if each is not None]
    assert compare(found[0], found[1]).same
    assert found[0].short or any(found[0].exact.values())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Epoch: [0]\tTime 0.5 (0.5)\tData 0.1 (0.1)\tLoss 2.7 (2.7)",
            "Epoch: [0]\tTime 0.5 (0.5)\tData 0.1 (0.1)\tLoss 2.7 (2.8)",
        ),
        ("Data 0.512 (0.93)", "Data 0.512 (0.94)"),
        ("survival time 3.51 (0.93)", "survival time 3.51 (0.94)"),
        ("lifetime 3.51 (0.93)", "lifetime 3.51 (0.94)"),
        ("loss 3.51 (0.93)", "loss 3.51 (0.94)"),
        ("Time: 3.51 [0.93]", "Time: 3.51 [0.94]"),
        ("12.3/s", "12.4/s"),
        ("Speed               126162", "Speed               126163"),
        ("SPEED               126162 km/h", "SPEED               126163 km/h"),
        ("{'me...me': array([0.01...]), 'mo': 1}", "{'me...me': array([0.03...]), 'mo': 1}"),
    ],
)
def test_other_numbers_in_brackets_count(one: str, other: str) -> None:
    """What is no time by its name, or by what is next to it, is a result."""
    masks = Masks(_NOW)
    assert masks.mask(one).text != masks.mask(other).text


def _uuid1(seconds: float, node: int) -> str:
    """Return a UUID of version 1 without dashes."""
    count = int(seconds * 1e7) + _GREGORIAN
    fields = (count & 0xFFFFFFFF, count >> 32 & 0xFFFF, count >> 48 & 0x0FFF | 0x1000, 0x80, 0x12, node)
    return uuid.UUID(fields=fields).hex


def _uuid7(seconds: float) -> str:
    return f"{int(seconds * 1000):012x}7abc8def0123456789ab"


_DRAWN, _OTHER = 0xB9C6A4143E29, 0x7D6697BAC665
"""Random digits in the place of an address, with the bit of a group."""


@pytest.mark.parametrize("text", ["run_{}", "id {}", '"run": "{}"', "({})"])
@pytest.mark.parametrize(
    ("one", "other"),
    [(_uuid1(_NOW, _DRAWN), _uuid1(_NOW + 1, _OTHER)), (_uuid7(_NOW), _uuid7(_NOW + 60))],
)
def test_uuids_without_dashes_with_a_time_of_the_run_are_names(text: str, one: str, other: str) -> None:
    """Nothing else has a time of the run in its digits."""
    masked = [Masks(_NOW).mask(text.format(each)) for each in (one, other)]
    assert masked[0].text == masked[1].text == text.format("⟨name⟩")
    assert [each.names for each in masked] == [(one,), (other,)]


@pytest.mark.parametrize(
    "name",
    [
        _uuid1(_NOW - 1e8, _DRAWN),
        _uuid7(_NOW + 1e8),
        _uuid1(_NOW, 250_000),
        "d41d8cd98f00b204e9800998ecf8427e",
        f"{_uuid7(_NOW)}00",
        f"0.{_uuid7(_NOW)}",
        f"a{_uuid7(_NOW)}",
    ],
    ids=["earlier", "later", "a number as the address", "digest", "longer", "fraction", "glued"],
)
def test_other_hexadecimal_digits_count(name: str) -> None:
    """Digests, times of other days, and what a program puts in the place of the address are results."""
    assert name in Masks(_NOW).mask(f"result {name}").text


def _json(**entries: float) -> Content:
    import json

    found = read(json.dumps(entries).encode(), Masks(_NOW))
    assert found is not None
    return found


def test_speed_is_a_rate_next_to_the_scores_of_spacy_alone() -> None:
    """Elsewhere it may be a car's."""
    scores = {"token_acc": 1.0, "token_p": 1.0, "token_r": 1.0, "token_f": 1.0}
    assert compare(_json(**scores, speed=1.5), _json(**scores, speed=2.5)).same
    assert not compare(_json(speed=1.5), _json(speed=2.5)).same
    assert not compare(_json(token_acc=1.0, speed=1.5), _json(token_acc=1.0, speed=2.5)).same


def test_frames_per_second_are_a_rate() -> None:
    """As they are in files, by name."""
    lines = (f"{{'loss': 0.5, 'frames_per_second': {each}}}" for each in (1351431.885552262, 2.5))
    assert len({Masks(_NOW).mask(line).text for line in lines}) == 1


_ROW = """<html><table><tr>
        <td class="param">
     <a class="param-doc-link"
         style="anchor-name: --doc-link-{name};">
         {name}
         <span class="param-doc-description">
         {name}: float<br><br>Seconds used for refitting the best model.<br>
     </a>
 </td>
        <td class="fitted-att-type">float</td>
        <td>{value}</td>
    </tr></table></html>
"""


def _page(name: str, value: str) -> Content:
    found = read(_ROW.format(name=name, value=value).encode(), Masks(_NOW))
    assert found is not None
    return found


def test_a_page_of_a_search_has_how_long_the_last_fit_took() -> None:
    """Other attributes of estimators are results, whatever their names."""
    assert compare(_page("refit_time_", "0.004075"), _page("refit_time_", "6.723e-05")).same
    assert "refit_time_" in _page("refit_time_", "0.004075").left_out
    for name in ("best_score_", "fit_time_"):
        assert not compare(_page(name, "0.004075"), _page(name, "0.0006723")).same
    assert not compare(_page("refit_time_", "0.004075"), _page("refit_time_", "fast")).same


def test_a_date_as_python_shows_it() -> None:
    """Optuna prints trials with when they began; dates of other days are data."""
    masks = Masks(_NOW).with_files((), dict, 20.0)
    texts = [
        f"FrozenTrial(values=[0.5], datetime_start=datetime.datetime(2026, 11, 27, 12, {minute}, 4), params={{}})"
        for minute in ("58", "59, 3")
    ]
    assert len({masks.mask(text).text for text in texts}) == 1
    assert "times" in masks.mask(texts[0]).kinds
    for text in (
        "datetime.datetime(2021, 11, 27, 12, 58)",
        "datetime.datetime(2026, 13, 27, 12, 58)",
        "timedelta(2026, 11, 27)",
    ):
        assert masks.mask(text).text == text


def test_a_date_of_the_run_as_python_shows_it_leaves_no_doubt() -> None:
    """Its parts are no numbers of their own."""
    masks = Masks(_NOW).with_files((), dict, 20.0)
    of_run = f"at {datetime.fromtimestamp(_NOW + 3, timezone.utc)!r}"
    other = f"at {datetime.fromtimestamp(_NOW + 9000, timezone.utc)!r}"
    assert [number.text for number in exact_numbers(of_run, masks)] == []
    assert [number.text for number in exact_numbers(other, masks)] != []
