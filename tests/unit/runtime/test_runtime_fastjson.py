"""JSON without the json module."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.runtime import fastjson

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_same_as_json(value: Any) -> None:
    """Text and values are exactly those of the standard library."""
    text = fastjson.dumps(value)
    assert text == json.dumps(value)
    assert fastjson.loads(f" {text}\n") == value


@pytest.mark.parametrize("text", ["", "{", '{"a" 1}', "[1] 2", "NaN", "nope", "{'a': 1}"])
def test_refuses(text: str) -> None:
    """What is not one JSON value is a ValueError."""
    with pytest.raises(ValueError, match=r"."):
        fastjson.loads(text)


def test_numbers_json_has_no_word_for() -> None:
    """Infinities and NaN become strings instead of invalid JSON."""
    assert json.loads(fastjson.dumps([float("inf"), float("nan"), -float("inf")])) == ["inf", "nan", "-inf"]


def test_other_types() -> None:
    """A value that JSON cannot hold is a TypeError that names its type."""
    with pytest.raises(TypeError, match=r"^not a JSON value: set$"):
        fastjson.dumps({"a": {1}})


def test_without_the_c_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter without the C scanner falls back to json."""
    monkeypatch.setitem(sys.modules, "_json", None)
    assert fastjson.loads(fastjson.dumps({"a": [1, None]})) == {"a": [1, None]}
