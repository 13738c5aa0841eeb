"""Effective hyperparameters as plain JSON."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuild.runtime import fastjson
from envbuild.runtime.hook import parameters
from envbuild.runtime.hook.parameters import COMMAND, DEFAULT, PROGRAM, Parameters, flat, masked, plain


class Colour(enum.Enum):
    RED = 1


class Word(str, enum.Enum):
    ONE = "1"


class Array:
    """What NumPy's values look like: scalars have an empty shape."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def item(self) -> int:
        return 7

    __array__ = item


Array.__module__ = "numpy"


class Silent:
    pass


class Telling:
    def __repr__(self) -> str:
        return "Telling(3)"


class Addressed:
    def __repr__(self) -> str:
        return f"<made at {hex(id(self))}>"


@dataclasses.dataclass
class Optimiser:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.1, 0.1),
        ("text", "text"),
        (2**70, str(2**70)),
        (Array(), 7),
        (Array(3), "numpy.Array"),
        (Path("a/b"), "a/b"),
        (b"ab\xff", "ab\\xff"),
        ("a\udcff", "a\\udcff"),
        (Colour.RED, "RED"),
        (Word.ONE, "ONE"),
        ([1, (2, "x")], [1, [2, "x"]]),
        ({"b", "a"}, ["a", "b"]),
        ({"k": Path("x")}, {"k": "x"}),
        (print, "builtins.print"),
        (Optimiser, f"{__name__}.Optimiser"),
        (Optimiser(), {"lr": 0.1, "betas": [0.9, 0.999]}),
        (argparse.Namespace(a=1), {"a": 1}),
        (Silent(), f"{__name__}.Silent"),
        (Telling(), "Telling(3)"),
        (Addressed(), f"{__name__}.Addressed"),
    ],
)
def test_values_become_plain(value: Any, expected: Any) -> None:
    """Whatever a parser gives has one form in JSON, the same in every run: never an address in memory."""
    assert plain(value) == expected
    assert json.loads(fastjson.dumps(plain(value))) == expected


def test_long_values_are_cut_and_keep_their_digest() -> None:
    """Two long values that differ at the end differ in the record; a list states how many items it has."""
    one, other = plain("a" * 5000), plain("a" * 4999 + "b")
    assert one.startswith("a" * 256 + "… (5000 characters, sha256 ")
    assert len(one) < 400
    assert one != other
    assert plain(list(range(1000)))[99:] == [99, "… (1000 items)"]


def test_cyclic_values_end() -> None:
    """A value that contains itself is cut somewhere."""
    value: dict[str, Any] = {}
    value["self"] = [value]
    assert len(fastjson.dumps(plain(value))) < 2000
    assert len(list(flat("x", value))) == 1


def test_nested_values_get_dotted_names() -> None:
    """A comparison of two runs names the one field that differs."""
    value = {"optim": Optimiser(), "data": {"size": 3}, "empty": {}}
    assert list(flat("", value)) == [
        ("optim.lr", 0.1), ("optim.betas", (0.9, 0.999)), ("data.size", 3), ("empty", {})
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("hub_token", "abc", "***"),
        ("wandb.api_key", "abc", "***"),
        ("password", ["a", 1], ["***", 1]),
        ("token", "", ""),
        ("max_tokens", "512", "512"),
        ("next_token", 512, 512),
        ("sort_key", "name", "name"),
        ("url", "ftp://me:pw@example.invalid/x", "ftp://***@example.invalid/x"),
        ("extra", {"secret": "x", "n": 1}, {"secret": "***", "n": 1}),
    ],
)
def test_secrets_are_masked(name: str, value: Any, expected: Any) -> None:
    """By the parameter's name and by the value itself; numbers are no secrets."""
    assert masked(name, value) == expected


def test_a_secret_is_masked_before_it_is_cut() -> None:
    """A token on the edge of what is kept does not leave its beginning behind."""
    value = "x" * 250 + " hf_" + "a1B2" * 100
    assert plain(value) == "x" * 250 + " ***"


def given(**values: Any) -> Iterator[tuple[str, Any, str]]:
    return ((name, value, DEFAULT) for name, value in values.items())


def test_what_parsers_gave_is_kept_in_order() -> None:
    """Each parser has its set; the newest parse of the same names replaces the one before, an equal one is no news."""
    found = Parameters()
    assert found.add("argparse", "a", given(x=1))
    assert found.add("argparse", "b", given(x=1))
    assert not found.add("argparse", "b", given(x=1))
    assert found.add("argparse", "a", given(x=2))
    assert found.add("argparse", "a", given(y=2))
    assert not found.add("argparse", "c", given())
    names = [(entry["program"], entry["values"]) for entry in found.as_list()]
    assert names == [
        ("b", {"x": {"value": 1, "source": DEFAULT}}),
        ("a", {"x": {"value": 2, "source": DEFAULT}}),
        ("a", {"y": {"value": 2, "source": DEFAULT}}),
    ]


def test_hidden_names_are_masked() -> None:
    """What the parser itself hides at the prompt is hidden here."""
    found = Parameters()
    found.add("click", "a", given(pin="1234"), {"pin"})
    assert found.as_list()[0]["values"] == {"pin": {"value": "***", "source": DEFAULT}}


def test_an_earlier_parsers_source_is_remembered() -> None:
    """In two stages of parsing the second finds the first's values in its namespace; the script may change them."""
    found = Parameters()
    found.add("argparse", "a", [("config", "x.yaml", COMMAND)])
    assert found.source("config", "x.yaml") == COMMAND
    assert found.source("config", "y.yaml") == PROGRAM
    assert found.source("other", 1) == PROGRAM


def test_there_is_a_limit() -> None:
    """A program that makes parsers by the thousand, or one with thousands of names, does not fill the disk."""
    found = Parameters()
    for number in range(100):
        found.add("argparse", f"p{number}", given(**{f"n{index}": index for index in range(1000)}))
    assert len(found.sets) == parameters.SETS
    assert {len(entry["values"]) for entry in found.sets} == {parameters.NAMES}
