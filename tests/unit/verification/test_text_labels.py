"""Words before the numbers that are left out of text files: a program may compute what is behind them."""

from __future__ import annotations

import pytest

from envbuild.verification.content import read
from envbuild.verification.masking.masks import Masks

MASKS = Masks(1_795_247_763.0)


@pytest.mark.parametrize(
    ("text", "labels", "numbers"),
    [
        ("tokens_per_second: 68.87\n", {"tokens_per_second"}, ["68.87"]),
        ("step time: 0.25 s\n", {"time", "step time"}, ["0.25"]),
        ("loss: 0.5, took 3.5 s\n", {"took"}, ["3.5"]),
        ("loss: 0.5\n", set(), []),
    ],
)
def test_words_before_numbers_in_texts(text: str, labels: set[str], numbers: list[str]) -> None:
    """Of those that are left out, whatever else is in the line."""
    found = read(text.encode(), MASKS)
    assert found is not None
    assert {each for line in found.labels.values() for each in line} == labels
    assert [*found.numbers.values()] == numbers


def test_words_before_amounts_of_memory() -> None:
    """A line with a time and an amount is one of memory."""
    found = read(b"epoch 1 | eta 5 s | gpu memory: 12.5 MB\n", MASKS)
    assert found is not None
    assert not found.labels
    assert [set(each) for each in found.amounts.values()] == [{"eta", "memory"}]
