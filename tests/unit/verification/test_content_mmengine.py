"""Checkpoints of MMEngine have a history of times in them, in objects under names; what else is in these counts."""

from __future__ import annotations

import collections
import pickle
import struct
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from envbuild.verification.content import Content, read
from envbuild.verification.masking.masks import Masks

MASKS = Masks(1_795_247_763.0)
_MODULES = {name: types.ModuleType(name) for name in ("numpy", "numpy._core", "numpy._core.multiarray")}


def _named(module: str, value: Any) -> Any:
    """Put a function or a class where NumPy has it: pickles name it so."""
    value.__module__, value.__qualname__ = module, value.__name__
    setattr(_MODULES[module], value.__name__, value)
    return value


def _function(name: str) -> Any:
    function = types.FunctionType((lambda *_: None).__code__, {}, name)
    return _named("numpy._core.multiarray", function)


class dtype:
    """The type of an array's numbers."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> Any:
        return dtype, (self.code, False, True), (3, "<", None, None, None, -1, -1, 0)


class ndarray:
    """An array."""


for _class in (dtype, ndarray):
    _named("numpy", _class)
_RECONSTRUCT, _SCALAR = _function("_reconstruct"), _function("scalar")


class _Array:
    """Pickled as NumPy pickles an array."""

    def __init__(self, values: list[Any], code: str) -> None:
        self.values, self.code = values, code

    def __reduce__(self) -> Any:
        data = struct.pack(f"<{len(self.values)}{'d' if self.code == 'f8' else 'q'}", *self.values)
        state = (1, (len(self.values),), dtype(self.code), False, data)
        return _RECONSTRUCT, (ndarray, (0,), b"b"), state


class _Number:
    """Pickled as a number of NumPy's."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        return _SCALAR, (dtype("f8"), struct.pack("<d", self.value))


class HistoryBuffer:
    """As MMEngine has it: values and how many each stands for."""

    def __init__(self, values: list[float], counts: list[int]) -> None:
        self._log_history = _Array(values, "f8")
        self._count_history = _Array(counts, "i8")
        self._max_length = 1000000


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have stand-ins where NumPy's modules are."""
    for name, module in _MODULES.items():
        monkeypatch.setitem(sys.modules, name, module)


def _state(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "time": [0.25, 0.5], "data": [0.01, 0.02], "loss": [1.5, 1.25], "eta": 3.5, "lr": 0.1, "counts": [1, 1],
    }  # fmt: skip
    given |= changes
    scalars = collections.OrderedDict(
        {
            "train/lr": HistoryBuffer([given["lr"]], [1]),
            "train/time": HistoryBuffer(given["time"], given["counts"]),
            "train/data_time": HistoryBuffer(given["data"], [1, 1]),
            "train/loss": HistoryBuffer(given["loss"], [1, 1]),
        }
    )
    run: dict[str, Any] = {"cfg": "", "epoch": 1, "max_epochs": 2, "iter": 7, "max_iters": 12, "experiment_name": "net"}
    info = collections.OrderedDict(run, eta=_Number(given["eta"]))
    if "few" in changes:
        info = collections.OrderedDict(iter=7, max_iters=12, experiment_name="net", eta=_Number(given["eta"]))
    if "alone" in changes:
        info = collections.OrderedDict(eta=_Number(given["eta"]))
    return {"message_hub": {"log_scalars": scalars, "runtime_info": info}}


def _read(**changes: Any) -> Content:
    found = read(pickle.dumps(_state(**changes), protocol=4), MASKS)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("changes", "equal"),
    [
        ({"time": [0.75, 0.125]}, True),
        ({"data": [0.5, 0.25]}, True),
        ({"eta": 1.25}, True),
        ({"loss": [1.5, 1.0]}, False),
        ({"lr": 0.2}, False),
        ({"time": [0.75, -0.125]}, False),  # no duration
        ({"time": [0.75]}, False),
        ({"counts": [1, 2]}, False),
    ],
)
def test_histories_of_times_are_left_out(changes: dict[str, Any], *, equal: bool) -> None:
    """By the name under which an object has them; how many there are and stand for counts, as all others do."""
    assert (_read().digest == _read(**changes).digest) == equal


def test_a_lone_eta_counts() -> None:
    """It may be a learning rate; next to the number of iterations it is what is left."""
    assert _read(alone=True).digest != _read(alone=True, eta=1.25).digest
    assert _read(few=True).digest != _read(few=True, eta=1.25).digest


class Model:
    """Keeps weights."""

    def __init__(self, name: str, values: list[float]) -> None:
        setattr(self, name, _Array(values, "f8"))


@pytest.mark.parametrize("attribute", ["weights", "_log_history"])
def test_arrays_of_other_classes_count(attribute: str) -> None:
    """Whatever an object is kept under: ``{"eval_time": Model(…)}``."""
    one, other = (
        read(pickle.dumps({"eval_time": Model(attribute, values)}), MASKS) for values in ([0.5, 0.25], [0.5, 0.125])
    )
    assert one is not None
    assert other is not None
    assert one.digest != other.digest


def test_other_arrays_of_a_history_count() -> None:
    """How many each value stands for may be a floating-point number."""
    digests = set()
    for count in (1.0, 2.0):
        buffer = HistoryBuffer([0.5], [])
        buffer._count_history = _Array([count], "f8")
        found = read(pickle.dumps({"train/time": buffer}), MASKS)
        assert found is not None
        digests.add(found.digest)
    assert len(digests) == 2


@pytest.mark.parametrize("change", [lambda t: t.update(a=3), lambda t: t.update(c=3), lambda t: t.move_to_end("a")])
def test_an_ordered_table_counts_by_names_order_and_values(change: Callable[[Any], Any]) -> None:
    """And by attributes of its own, such as versions in the states of PyTorch's modules."""
    table = collections.OrderedDict(a=1, b=2)
    before = read(pickle.dumps(table), MASKS)
    change(table)
    after = read(pickle.dumps(table), MASKS)
    assert before is not None
    assert after is not None
    assert before.digest != after.digest
    table._metadata = {"version": 1}  # type: ignore[attr-defined]
    with_more = read(pickle.dumps(table), MASKS)
    table._metadata = {"version": 2}  # type: ignore[attr-defined]
    other = read(pickle.dumps(table), MASKS)
    assert with_more is not None
    assert other is not None
    assert len({after.digest, with_more.digest, other.digest}) == 3


def test_arrays_of_durations_are_noted() -> None:
    """Where no clock can have given them they are asked about, as lists are."""
    found = read(pickle.dumps({"eval_time": _Array([0.5, 0.25], "f8")}), MASKS)
    assert found is not None
    assert [*found.exact] == ["eval_time"]
    assert {"message_hub.log_scalars.train/time", "message_hub.log_scalars.train/data_time"} <= {*_read().exact}
