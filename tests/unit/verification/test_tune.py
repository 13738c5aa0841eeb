"""Experiments of Ray Tune: trials count by their number, what they reported counts, times and drawn names do not."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zipfile
from collections import deque
from typing import Any
from uuid import UUID

import pytest

from envbuild.verification.content import compare, read
from envbuild.verification.masking.masks import BY_CLOCK, Masks

_NOW = 1_795_769_130.0
_WHERE = "2026-11-27_08-45-30"


def _masks() -> Masks:
    return Masks(_NOW)


def _packed(value: Any) -> dict[str, str]:
    return {"_type": "CLOUDPICKLE_FALLBACK", "value": pickle.dumps(value, 5).hex()}


def _state(
    run: int = 0,
    *,
    losses: tuple[float, ...] = (0.5, 0.25),
    steps: int = 2,
    seconds: tuple[float, ...] = (0.001, 0.002),
    more: dict[str, Any] | None = None,
) -> bytes:
    """Return what Ray Tune notes of two trials, in the order in which they ended."""
    prefix = ("655fc", "5fada")[run]
    trials = []
    for number, loss in enumerate(losses):
        name = f"{prefix}_{number:05}"
        first = {
            "trial_id": name,
            "experiment_tag": f"{number}_lr=0.{number}",
            "config": {"lr": loss},
        }
        second = {
            "start_time": _NOW + run + number,
            "last_result": {"loss": loss, "trial_id": name, "timestamp": int(_NOW) + run},
            "metric_analysis": {
                "loss": {"max": loss, "last-5-avg": loss},
                "time_total_s": {"max": seconds[run], "last-5-avg": seconds[run] / 2},
            },
            "metric_n_steps": {
                "loss": {"5": _packed(deque([loss] * steps, 5))},
                "time_total_s": {"5": _packed(deque([seconds[run]] * steps, 5))},
            },
            **(more or {}),
        }
        trials.append([json.dumps(first, indent=2), json.dumps(second, indent=2)])
    runner = {
        "_earliest_stopping_actor": 54313.25 + run,
        "_total_time": 0.02 + run,
        "_iteration": 50 + run,
        "_metric": "loss",
    }
    state = {"trial_data": trials[:: 1 - 2 * run], "runner_data": runner, "stats": {"start_time": _NOW + run}}
    return json.dumps(state).encode()


def _why(one: bytes, other: bytes) -> str:
    """Return what differs first; empty if the contents are equal."""
    first, second = read(one, _masks()), read(other, _masks())
    assert first is not None
    assert second is not None
    difference = compare(first, second)
    return "" if difference.same else difference.why


def test_equal_experiments() -> None:
    """Trials end in another order in each run; what is left out has its names."""
    one, other = read(_state(0), _masks()), read(_state(1), _masks())
    assert one is not None
    assert other is not None
    difference = compare(one, other)
    assert difference.same
    assert one.unordered
    assert {"order of trials", "runner_data._iteration", "trial_data[0].metric_n_steps.time_total_s.5"} <= {
        *difference.left_out
    }


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"losses": (0.5, 0.75)}, "trial_data[1][0].config.lr: 0.25 → 0.75"),
        ({"steps": 3}, "metric_n_steps.loss.5.value"),
        ({"more": {"num_failures": 1}}, "trial_data[0][1]"),
        ({"seconds": (0.001, -0.002)}, "time_total_s"),
        ({"losses": (0.5,)}, "trial_data"),
    ],
)
def test_results_count(changed: dict[str, Any], why: str) -> None:
    """What trials reported, how often, and how the texts are written."""
    assert why in _why(_state(0), _state(1, **changed))


def test_which_files_are_experiments() -> None:
    """Programs may have tables of the same names; an archive has other files than the experiment in it."""
    tables = [{"trial_data": [], "runner_data": {"_iteration": at, "_total_time": 1.5}} for at in (5, 7)]
    assert _why(*(json.dumps(each).encode() for each in tables)) != ""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        members.writestr("state.json", _state(0))
    content = read(archive.getvalue(), _masks())
    assert content is not None
    assert not content.unordered


def test_texts_in_texts() -> None:
    """They are read by their keys, and how they are written counts, to the last blank."""
    texts = [json.dumps({"note": json.dumps({"a": 1, "fit_time": at}, indent=2)}).encode() for at in (0.25, 0.5)]
    assert _why(*texts) == ""
    assert _why(texts[0], json.dumps({"note": json.dumps({"a": 2, "fit_time": 0.5}, indent=2)}).encode()) == (
        "note.a: 1 → 2"
    )
    assert _why(texts[0], json.dumps({"note": json.dumps({"a": 1, "fit_time": 0.5}, indent=4)}).encode()) != ""


def test_texts_under_names_of_results_count() -> None:
    """Whatever they look like."""
    one, other = (json.dumps({"loss": json.dumps({"fit_time": at})}).encode() for at in (0.25, 0.5))
    assert _why(one, other) != ""


def test_escapes_in_texts_in_texts_count() -> None:
    """How a character is written is what the program wrote."""
    one, other = (
        json.dumps({"note": json.dumps({"a": "\u00e9"}, ensure_ascii=each)}).encode() for each in (True, False)
    )
    assert _why(one, one) == ""
    assert _why(one, other) != ""


@pytest.mark.parametrize(
    ("record", "opened"),
    [
        ({"completion": "{}"}, False),
        ({"model_response": "{}"}, False),
        ({"outputs": ["{}"]}, False),
        ({"messages": [{"role": "assistant", "content": "{}"}]}, False),
        ({"function": {"name": "book", "arguments": "{}"}}, False),
        ({"generated_text": "{}"}, False),
        ({"predictions": ["{}", "{}"]}, False),
        ({"context": "{}"}, True),
        ({"notes": ["{}"]}, True),
    ],
)
def test_what_models_write_is_text(record: dict[str, Any], opened: bool) -> None:
    """Keys in it are words that were generated, such as that of an identity."""
    one, other = (
        json.dumps(record).replace("{}", json.dumps(json.dumps({"max_memory": at}))[1:-1]).encode() for at in (3.5, 4.5)
    )
    assert (_why(one, other) == "") is opened


def test_times_in_json_that_models_write_leave_a_doubt() -> None:
    """They may be what was asked for; of many digits experiments decide, others are quoted."""
    for at, exact in ((3.5, False), (3.5123, True)):
        data = json.dumps({"generated": json.dumps({"time": at})}).encode()
        content = read(data, Masks(0.0))
        assert content is not None
        assert (content.exact.get("generated", False), "generated" in content.short) == (exact, not exact)


def test_pickles_in_texts_keep_their_spelling() -> None:
    """Hexadecimal digits are another text than base64."""
    data = pickle.dumps([1, 2])
    one, other = (json.dumps({"a": text}).encode() for text in (data.hex(), base64.b64encode(data).decode()))
    assert _why(one, other) != ""


def test_statistics_that_are_not_finite() -> None:
    """An infinite time is no measurement."""
    one, other = (json.dumps({"time": {"min": 0.5, "max": value}}).encode() for value in (float("inf"), 2.5))
    assert _why(one, one) == ""
    assert _why(one, other) != ""


@pytest.mark.parametrize("name", ["loss", "survival_time", "scores", "memory_mb"])
def test_statistics_of_results_count(name: str) -> None:
    """The name of what they are of decides."""
    one, other = (json.dumps({name: {"mean": value, "max": 1.0}}).encode() for value in (0.123456, 0.234567))
    assert f"{name}.mean" in _why(one, other)


def test_statistics_of_measurements() -> None:
    """Those under a bare name leave a doubt, and a negative number is no duration."""
    one, other = (json.dumps({"latency": {"p95": value, "std": 0.5}}).encode() for value in (0.123456, 0.234567))
    content = read(one, _masks())
    assert content is not None
    assert _why(one, other) == ""
    assert any(content.exact.values()) or content.short
    assert _why(one, json.dumps({"latency": {"p95": -0.1, "std": 0.5}}).encode()) != ""
    assert _why(one, json.dumps({"latency": {"p95": 0.1, "best": 0.5}}).encode()) != ""


def test_pickles_in_hexadecimal_digits() -> None:
    """They are opened as pickles are; digests are not, whatever they look like."""
    texts = [json.dumps({"state": pickle.dumps({"fit_time": at, "w": 0.5}, 4).hex()}).encode() for at in (0.25, 0.5)]
    assert _why(*texts) == ""
    other = json.dumps({"state": pickle.dumps({"fit_time": 0.25, "w": 0.75}, 4).hex()}).encode()
    assert "state.w: 0.5 → 0.75" in _why(texts[0], other)
    one, other = (json.dumps({"sha": f"8004{digit * 58}2e"}).encode() for digit in "ab")
    assert _why(one, other).startswith("sha")


def test_pickled_uuids() -> None:
    """Those of versions 3 and 5 are digests of a text."""
    drawn = [pickle.dumps([UUID(text)]) for text in (f"{at}58ea837-240b-4691-92cd-f205d75c370a" for at in "12")]
    digests = [pickle.dumps([UUID(text)]) for text in (f"{at}58ea837-240b-5691-92cd-f205d75c370a" for at in "12")]
    assert _why(*drawn) == ""
    assert _why(*digests) != ""
    assert _why(drawn[0], digests[0]) != ""


@pytest.mark.parametrize(
    ("line", "left_out"),
    [
        ("2026-11-27 08:45:31,687\tWARNING experiment_state.py:209 -- Experiment state snapshotting has been"
         " triggered multiple times in the last 5.0 seconds and may become a bottleneck.", True),
        ("2026-11-27 08:45:31,687\tWARNING util.py:201 -- The `on_step_begin` operation took 0.734 s, which may be"
         " a performance bottleneck.", True),
        ("You may want to consider increasing the `CheckpointConfig(num_to_keep)` or decreasing the frequency of saving"
         " checkpoints.", True),
        ("2026-11-27 08:45:31,687\tWARNING trial.py:20 -- Trial 3 has been stopped.", False),
    ],
)  # fmt: skip
def test_warnings_by_the_clock(line: str, left_out: bool) -> None:
    """Of what took long, or of two checkpoints within seconds."""
    assert (BY_CLOCK in _masks().mask(line).kinds) is left_out
