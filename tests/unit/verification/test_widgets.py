"""Notebooks with widgets: names of models are drawn; what models hold, and which is shown, counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envbuild.verification.content import read
from envbuild.verification.content.canonical import with_shared_names
from envbuild.verification.masks import BY_CLOCK, Masks

MASKS = Masks(1_795_247_763.0)
A, B, C = "250b64b9a57a47e1ac5b89540eec00d6", "28dcccdc0ce74c37bae76ee989976224", "0aa11f1d8be14b2e9f3a1c2d3e4f5a6b"
X, Y, Z = "f00dfeed12344567a89abcdef0123456", "0123feed12344567a89abcdef0123456", "9123feed12344567a89abcdef0123456"
VIEW, STATE = "application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json"


def notebook(shown: list[str], states: dict[str, Any] | None = None) -> str:
    """Return a notebook as nbformat writes it, keys in order."""
    outputs = [{"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": each}}} for each in shown]
    cell = {"cell_type": "code", "source": "show()", "metadata": {}, "execution_count": 1, "outputs": outputs}
    metadata = {} if states is None else {"widgets": {STATE: {"state": states, "version_major": 2}}}
    return json.dumps({"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, sort_keys=True)


def model(value: float, *children: str) -> dict[str, Any]:
    return {"model_name": "FloatModel", "state": {"children": [f"IPY_MODEL_{each}" for each in children], "v": value}}


def digest(text: str) -> str:
    found = read(text.encode(), MASKS)
    assert found is not None
    return next(each.digest for each in with_shared_names([found], ()))


EQUAL = {
    "shown": (notebook([A]), notebook([X])),
    "shown twice": (notebook([A, B, A]), notebook([X, Y, X])),
    "with states, in another order": (
        notebook([A], {A: model(1, B, C), B: model(2), C: model(3)}),
        notebook([X], {X: model(1, Z, Y), Y: model(3), Z: model(2)}),
    ),
    "not shown": (
        notebook([A], {A: model(1), B: model(2), C: model(3)}),
        notebook([X], {X: model(1), Y: model(3), Z: model(2)}),
    ),
}
DIFFERENT = {
    "a value": (notebook([A], {A: model(1)}), notebook([X], {X: model(1.5)})),
    "a value of a child": (
        notebook([A], {A: model(1, B), B: model(2)}),
        notebook([X], {X: model(1, Y), Y: model(2.5)}),
    ),
    "children the other way round": (
        notebook([A], {A: model(1, B, C), B: model(2), C: model(3)}),
        notebook([X], {X: model(1, Y, Z), Y: model(3), Z: model(2)}),
    ),
    "which is shown": (notebook([A, B, A]), notebook([X, Y, Y])),
    "one more": (notebook([A], {A: model(1)}), notebook([X], {X: model(1), Y: model(1)})),
    "one more that is shown": (notebook([A]), notebook([X, Y])),
    "a value of one that is not shown": (
        notebook([A], {A: model(1), B: model(2)}),
        notebook([X], {X: model(1), Y: model(3)}),
    ),
    "a name that is no UUID": (notebook(["best_3"]), notebook(["best_4"])),
    "a digest that is no UUID": (notebook([f"{'a' * 32}"]), notebook([f"{'b' * 32}"])),
    "a model's name elsewhere": (json.dumps({"model_id": A}), json.dumps({"model_id": X})),
}


@pytest.mark.parametrize("case", EQUAL)
def test_names_of_models_are_drawn(case: str) -> None:
    """Each run has others, and with them another order of the models' states."""
    one, other = EQUAL[case]
    assert one != other
    assert digest(one) == digest(other)


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_models_hold_counts(case: str) -> None:
    """Values, references, how many there are, and names that are not drawn."""
    one, other = DIFFERENT[case]
    assert digest(one) != digest(other)


def test_names_of_models_are_to_be_shown_drawn() -> None:
    """A digest has the form of a drawn name now and then: an experiment shows which it was."""
    found = read(notebook([A], {A: model(1, B), B: model(2)}).encode(), MASKS)
    assert found is not None
    assert set(found.glued) == {A, B}


@pytest.mark.parametrize(
    "text", ["{}", '{"cells": 3, "metadata": [1]}', '{"cells": [3, {"outputs": [3, {"data": 3}]}]}']
)
def test_what_is_no_notebook_is_read_as_it_is(text: str) -> None:
    """Whatever a file of that kind of name holds."""
    assert read(f'{text[:-1]}{"," if len(text) > 2 else ""}"{VIEW}": "{A}"}}'.encode(), MASKS) is not None


def test_how_long_a_notebook_is_depends_on_times_in_it() -> None:
    """nbconvert prints it; the file is compared itself."""
    assert MASKS.mask("[NbConvertApp] Writing 35810 bytes to out.ipynb").kinds == {BY_CLOCK}
    assert MASKS.mask("Writing 35810 bytes to out.ipynb").kinds == frozenset()
    assert MASKS.mask("[NbConvertApp] Writing 35810 files to out.ipynb").kinds == frozenset()
