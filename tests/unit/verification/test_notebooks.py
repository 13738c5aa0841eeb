"""Notebooks: names of widgets and times of cells are left out; what models hold, and which is shown, counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envbuild.verification.content import leaves, read
from envbuild.verification.content.canonical import compare, with_shared_names
from envbuild.verification.masking.masks import BY_CLOCK, Masks

MASKS = Masks(1_795_247_763.0)
A, B, C = "250b64b9a57a47e1ac5b89540eec00d6", "28dcccdc0ce74c37bae76ee989976224", "0aa11f1d8be14b2e9f3a1c2d3e4f5a6b"
X, Y, Z = "f00dfeed12344567a89abcdef0123456", "0123feed12344567a89abcdef0123456", "9123feed12344567a89abcdef0123456"
OUTPUTS = '"outputs": [{"output_type": "display_data", "metadata": {}, "data": {"text/plain": "%s"}}]'
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


def test_a_model_may_have_any_name() -> None:
    """Also one like the marks that are put in the place of names, with more figures than Python reads."""
    odd = f"⟨name {'9' * 5000}⟩"
    assert digest(notebook([A], {A: model(1), odd: model(2)})) != digest(notebook([A], {A: model(1), odd: model(3)}))


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


def timed(second: str, **more: Any) -> str:
    """Return a notebook with a cell that nbclient has timed."""
    times = dict.fromkeys(("iopub.status.busy", "iopub.execute_input"), f"2026-11-21T05:56:{second}Z")
    cell = {"cell_type": "code", "source": "", "metadata": {"execution": times | more}, "outputs": []}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


START = 1_795_240_563.0  # 2026-11-21T05:56:03Z
AT = Masks(START).with_files((), dict, 30.0)


def test_when_cells_ran_leaves_no_doubt() -> None:
    """A moment of the run itself, under the names that nbclient gives it, is no result."""
    one, other = (read(timed(second).encode(), AT) for second in ("07.123456", "09.654321"))
    assert one is not None
    assert other is not None
    assert one.digest == other.digest
    assert compare(one, other).why == "time of cells differs"
    assert not any(one.exact.values())
    assert not one.short


def test_when_cells_ran_with_a_fixed_clock_is_left_out() -> None:
    """Messages of a kernel have times of its clock, which another process's clock, or the run itself, may not have."""
    late = timed("07.1").replace("T05:56", "T08:12")
    real, fixed = (Masks(START).with_files((), dict, 30.0, has_fixed_clock=each) for each in (False, True))
    assert leaves(late.encode(), fixed) == leaves(timed("09.5").encode(), fixed)
    assert leaves(late.encode(), real) != leaves(timed("09.5").encode(), real)
    drawn = timed("07.1").replace("2026", "2021")  # else a fixed clock would be the proven cause of a drawn date
    assert drawn != timed("07.1")
    assert leaves(drawn.encode(), fixed) != leaves(timed("09.5").encode(), fixed)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (timed("07.1", note="a"), timed("07.1", note="b")),
        (timed("07.1", best="step 3"), timed("07.1", best="step 4")),
        (timed("07.1"), timed("07.1", **{"shell.execute_reply": 3})),
    ],
)
def test_what_else_is_next_to_them_counts(one: str, other: str) -> None:
    """Other names, and values that are no moments."""
    found = [read(each.encode(), AT) for each in (one, other)]
    assert None not in found
    assert len({each.digest for each in found if each is not None}) == 2


SHOWN = '<p style="color: #9D9D9D; margin-bottom: 0px;">{}</p>'
PRINTED = "LocalCluster({}, '{}', workers={})"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (PRINTED.format("970fb0d3", "tcp://h:1", 1), PRINTED.format("d205a55f", "tcp://h:1", 1), True),
        (PRINTED.format("970fb0d3", "inproc://h/7/1", 1), PRINTED.format("d205a55f", "inproc://h/7/1", 1), True),
        (SHOWN.format("03fe46cb"), SHOWN.format("ab19c990"), True),
        (PRINTED.format("970fb0d3", "tcp://h:1", 1), PRINTED.format("d205a55f", "tcp://h:1", 2), False),
        (PRINTED.format("mine_1", "tcp://h:1", 1), PRINTED.format("mine_2", "tcp://h:1", 1), False),
        ("BestCluster(970fb0d3, 0.25)", "BestCluster(d205a55f, 0.25)", False),
        (PRINTED.format("970fb0d3", "sizes://3-4", 1), PRINTED.format("d205a55f", "sizes://3-4", 1), False),
        (SHOWN.format("0.25"), SHOWN.format("0.26"), False),
        ("<p>03fe46cb</p>", "<p>ab19c990</p>", False),
    ],
)
def test_names_of_dasks_clusters_are_drawn(one: str, other: str, equal: bool) -> None:
    """Eight digits of a UUID, as clusters are printed and as notebooks show them."""
    assert (AT.mask(one).text == AT.mask(other).text) is equal


def test_a_name_of_digits_alone_may_be_given() -> None:
    """It is left out with a doubt: a program may have named its cluster so."""
    masked = AT.mask("LocalCluster(97000003, 'tcp://h:1', workers=1)")
    assert masked.kinds == {"names"}
    assert masked.guessed


def test_half_characters_that_a_cell_showed_count() -> None:
    """JSON can have one half of a pair, which no text in UTF-8 can."""
    first, second = (notebook([]).replace('"outputs": []', OUTPUTS % half) for half in (r"\ud800", r"\ud801"))
    assert r"\ud800" in first
    assert digest(first) != digest(second)
