"""Step traces: read as far as they are whole, and compared in plain sentences."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envbuild.runtime.hook import trace_file as written
from envbuild.runtime.hook import trace_measure
from envbuild.trace import compare as trace
from envbuild.trace import file
from envbuild.trace.file import TraceError, drop_values, drop_values_of
from envbuild.trace.values import compare
from tests.support.traces import Values, make_trace

WEIGHTS: Sequence[Values] = [{"a": [step + 1.0, 2.0], "b": [0.5]} for step in range(6)]


def changed(at: int, **tensors: Sequence[float]) -> list[Values]:
    """Return the weights with other tensors at one step."""
    return [{**values, **tensors} if step == at else values for step, values in enumerate(WEIGHTS)]


def both(tmp_path: Path, one: Any, two: Any, **options: Any) -> trace.Divergence | None:
    """Compare two traces of weights."""
    first, second = (make_trace(tmp_path / name, each, **options) for name, each in (("1", one), ("2", two)))
    return trace.first_divergence(trace.read(first), trace.read(second))


def test_the_reader_knows_the_writers_format() -> None:
    """Both sides agree on the bytes; the reader imports nothing of the hook."""
    assert file.FORMAT == written.FORMAT
    assert file.MAGIC == written.MAGIC
    assert file.FIGURES == trace_measure.FIGURES
    for own, other in (("_FRAME", "FRAME"), ("_STEP", "STEP"), ("_VALUES", "VALUED")):
        assert getattr(file, own).format == getattr(written, other).format
    assert (file._FIGURED, file._BATCH) == (written.FIGURED, written.BATCH)


def test_a_trace_comes_back(tmp_path: Path) -> None:
    """What was entered is read: steps, epochs, digests by name, figures, observations and batches."""
    path = make_trace(tmp_path, WEIGHTS, process="rank 1", per_epoch=2, losses=[0.5] * 5, batches=[7, 8, 9, 10, 2**63])
    found = trace.read(path)
    assert path.name == "trace-rank-1.bin"
    assert (found.process, found.ended, found.damaged, found.notes, found.interval) == ("rank 1", True, "", (), 1)
    assert [(s.step, s.covers, s.epoch, s.place) for s in found.steps] == [
        (0, 0, None, 0), (1, 1, 1, 1), (2, 1, 1, 2), (3, 1, 2, 1), (4, 1, 2, 2), (5, 1, 3, 1),
    ]  # fmt: skip
    last = found.steps[-1]
    assert (last.observed, last.batch) == ({"loss": 0.5}, 2**63)
    assert last.tensors.keys() == {"a", "b"}
    assert last.tensors["a"] != found.steps[0].tensors["a"]
    assert last.tensors["b"] == found.steps[0].tensors["b"]
    figures = last.figures(0)
    assert figures is not None
    assert (figures.minimum, figures.maximum) == (2.0, 6.0)
    assert isclose(figures.norm, 40**0.5)


def test_the_interval_leaves_steps_out(tmp_path: Path) -> None:
    """With an interval of two every second step is entered, and states how many it covers."""
    found = trace.read(make_trace(tmp_path, WEIGHTS, interval=2))
    assert [(s.step, s.covers) for s in found.steps] == [(0, 0), (2, 2), (4, 2)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_cut_reads_the_beginning(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """However much of its end is missing, what is left of a trace reads as it was, and the cut is reported."""
    path = make_trace(tmp_path_factory.mktemp("trace"), WEIGHTS, losses=[0.5] * 5, budget=1000)
    whole, octets = trace.read(path), path.read_bytes()
    length = data.draw(st.integers(len(written.MAGIC), len(octets) - 1))
    path.write_bytes(octets[:length])
    found = trace.read(path)
    assert found.steps == whole.steps[: len(found.steps)]
    assert not found.ended
    if found.damaged:
        assert "the process was ended while it wrote" in found.damaged
    if length < len(octets) - 9:
        assert len(found.steps) <= len(whole.steps)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_bit_is_noticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whichever bit of a trace changes: it is no trace any more, or read up to that entry and reported as damaged."""
    path = make_trace(tmp_path_factory.mktemp("trace"), WEIGHTS, losses=[0.5] * 5, budget=1000)
    whole, octets = trace.read(path), bytearray(path.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(octets) - 1))
    octets[bit // 8] ^= 1 << bit % 8
    path.write_bytes(octets)
    if bit < 8 * len(written.MAGIC):
        with pytest.raises(TraceError, match="not a step trace: expected it to begin with ENVTRC1"):
            trace.read(path)
        return
    found = trace.read(path)
    assert found.damaged
    assert not found.ended
    assert found.steps == whole.steps[: len(found.steps)]


def test_other_files_are_refused(tmp_path: Path) -> None:
    """What is no trace, is not there, or is of a later format, is an error and not an empty trace."""
    path = tmp_path / "trace-main.bin"
    with pytest.raises(TraceError, match="cannot be read: No such file or directory"):
        trace.read(path)
    writer = written.Writer(str(path))
    writer.frame(b"H", b'{"format": 2, "process": "", "pid": 1}')
    writer.close()
    with pytest.raises(TraceError) as caught:
        trace.read(path)
    assert str(caught.value) == f"{path}: expected a trace of format 1, found 2"
    path.unlink()
    writer = written.Writer(str(path))
    writer.frame(b"S", bytes(40))
    writer.close()
    assert trace.read(path).damaged == "trace-main.bin: the entry at byte 16 cannot be understood: 0"


def test_equal_traces_have_no_difference(tmp_path: Path) -> None:
    """No cause is invented where all is equal; the digest of both runs is one."""
    assert both(tmp_path, WEIGHTS, WEIGHTS, per_epoch=2, batches=[1, 2, 3, 4, 5]) is None
    one, two = trace.read_run(tmp_path / "1"), trace.read_run(tmp_path / "2")
    assert trace.first_divergence_of_runs(one, two) is None
    assert trace.digest(one) == trace.digest(two)
    assert [distance.whole for distance in trace.distance_by_step(one[0], two[0])] == [0.0] * 6


def test_the_first_difference(tmp_path: Path) -> None:
    """Epoch, step, tensor, both values and the distance in units of the last place are named."""
    found = both(tmp_path, WEIGHTS, changed(3, a=[4.000001, 2.0]), per_epoch=2, budget=10_000, batches=[1, 2, 3, 4, 5])
    assert found is not None
    assert (found.kind, found.epoch, found.place, found.step, found.batch) == ("step", 2, 1, 3, False)
    (tensor,) = found.tensors
    values = tensor.values
    assert values is not None
    assert (tensor.name, tensor.size, values.count, values.index, values.before) == ("a", 2, 1, (0,), 4.0)
    assert values.ulps == 2
    assert found.sentence == (
        "epoch 2, step 1 (3 in all), tensor a (1 of 2 values, 2 ulp at most); "
        "the data that went into the step was equal"
    )


def test_without_values_the_distance_is_estimated(tmp_path: Path) -> None:
    """Where no values were kept the figures distinguish how far the tensors are: exactly, for one changed value."""
    found = both(tmp_path, WEIGHTS, changed(2, a=[3.0, 2.5], b=[0.25]))
    assert found is not None
    assert found.tensors[0].values is None
    assert found.tensors[0].distance == pytest.approx(0.5 / (9 + 6.25) ** 0.5)
    assert (found.tensors[0].before.maximum, found.tensors[0].after.minimum) == (3.0, 2.5)  # type: ignore[union-attr]
    assert found.sentence == "step 2, tensor a (relative distance about 0.1) and one more tensor"


def test_initial_values_and_batches(tmp_path: Path) -> None:
    """Weights that differ before the first step are distinguished from data that differ."""
    found = both(tmp_path / "start", WEIGHTS, changed(0, b=[1.0]))
    assert found is not None
    assert (found.kind, found.step) == ("start", 0)
    assert found.sentence == "before the first step, tensor b (relative distance about 0.5)"
    one = make_trace(tmp_path / "1", WEIGHTS, losses=[1, 2, 3, 4, 5], batches=[1, 2, 3, 4, 5])
    two = make_trace(tmp_path / "2", changed(4, b=[1.0]), losses=[1, 2, 3, 9, 5], batches=[1, 2, 3, 99, 5])
    found = trace.first_divergence(trace.read(one), trace.read(two))
    assert found is not None
    assert (found.batch, found.observed) == (True, (("loss", 4.0, 9.0),))
    assert found.sentence.endswith("; the data that went into the step differed")


def test_entries_at_other_intervals(tmp_path: Path) -> None:
    """Traces of other intervals are compared where both have an entry; what is between is reported."""
    one = trace.read(make_trace(tmp_path / "1", WEIGHTS))
    two = trace.read(make_trace(tmp_path / "2", WEIGHTS[:3] + changed(4, b=[9.0])[3:], interval=2))
    found = trace.first_divergence(one, two)
    assert found is not None
    assert (found.step, found.covers) == (4, 2)
    assert found.sentence.endswith("; the step before it was not looked at")
    equal = trace.read(make_trace(tmp_path / "3", WEIGHTS, interval=2))
    assert trace.first_divergence(one, equal) is None


def test_lengths_and_other_tensors(tmp_path: Path) -> None:
    """A run that ended earlier, or trained other tensors, is reported in a sentence."""
    longer = make_trace(tmp_path / "1", WEIGHTS)
    shorter = make_trace(tmp_path / "2", WEIGHTS[:3], close=False)
    found = trace.first_divergence(trace.read(longer), trace.read(shorter))
    assert found is not None
    assert (found.kind, found.step) == ("length", 2)
    assert found.sentence == (
        "equal up to step 2, where one run ended; the other went on to step 5 "
        "(trace-main.bin: the process was ended from outside)"
    )
    renamed = [{"a": values["a"], "c": values["b"]} for values in WEIGHTS]
    found = both(tmp_path / "renamed", WEIGHTS, renamed)
    assert found is not None
    assert found.kind == "tensors"
    assert found.sentence == (
        "the runs trained other tensors from step 0 on: the first has b (float32, 1); the second has c (float32, 1)"
    )
    found = both(tmp_path / "order", WEIGHTS, [dict(reversed(values.items())) for values in WEIGHTS])
    assert found is not None
    assert found.sentence == "the runs trained the same tensors in another order from step 0 on"
    one = trace.read(make_trace(tmp_path / "4", WEIGHTS, label="adam"))
    two = trace.read(make_trace(tmp_path / "5", WEIGHTS, label="sgd"))
    found = trace.first_divergence(one, two)
    assert found is not None
    assert found.sentence == "only the first run made steps of adam (keras.fit)"


def test_processes_are_paired(tmp_path: Path) -> None:
    """Processes are paired by their path, a second one of a path by its number; the smallest step comes first."""
    for folder, weights, worker in (("1", WEIGHTS, WEIGHTS), ("2", changed(5, b=[9.0]), changed(2, b=[9.0]))):
        make_trace(tmp_path / folder, weights)
        make_trace(tmp_path / folder, worker, process="worker 1")
        assert make_trace(tmp_path / folder, WEIGHTS).name == "trace-main.2.bin"
    one, two = trace.read_run(tmp_path / "1"), trace.read_run(tmp_path / "2")
    found = trace.first_divergence_of_runs(one, two)
    assert found is not None
    assert (found.process, found.step) == ("worker 1", 2)
    assert trace.digest(one) != trace.digest(two)
    found = trace.first_divergence_of_runs(one, two[:1])
    assert found is not None
    assert (found.process, found.step, found.kind) == ("", 5, "step")
    found = trace.first_divergence_of_runs(one[:1], [*one[:1], one[2]])
    assert found is not None
    assert found.sentence == "the process worker 1 made 6 traced steps in one run and none in the first"


def test_distances_by_step(tmp_path: Path) -> None:
    """How far apart two runs are is given for each step and tensor, and none where a value is no number."""
    one = trace.read(make_trace(tmp_path / "1", WEIGHTS))
    other = [*changed(2, b=[0.75])[:4], {"a": [float("nan"), 2.0], "b": [0.5]}, WEIGHTS[5]]
    two = trace.read(make_trace(tmp_path / "2", other))
    found = trace.distance_by_step(one, two)
    assert [each.step for each in found] == [0, 1, 2, 3, 4, 5]
    assert found[2].tensors == {"a": 0.0, "b": pytest.approx(1 / 3)}
    assert found[2].whole == pytest.approx(0.25 / (9 + 4 + 0.75**2) ** 0.5)
    assert (found[4].tensors["a"], found[4].whole) == (None, None)
    assert found[5].whole == 0.0


def test_values_are_kept_once_and_as_long_as_there_is_room(tmp_path: Path) -> None:
    """An unchanged tensor is written once and still known later; where the room ends, that is noted."""
    found = trace.read(make_trace(tmp_path / "1", WEIGHTS, budget=10_000))
    assert found.values(found.steps[5], 1) == struct.pack("<f", 0.5)
    assert found.values(found.steps[5], 0) == struct.pack("<2f", 6.0, 2.0)
    short = trace.read(make_trace(tmp_path / "2", WEIGHTS, budget=30))
    assert short.notes == ("no room for values from step 3 on",)
    assert short.values(short.steps[2], 0) == struct.pack("<2f", 3.0, 2.0)
    assert short.values(short.steps[3], 0) is None
    assert short.values(short.steps[3], 1) == struct.pack("<f", 0.5)
    assert trace.read(make_trace(tmp_path / "3", WEIGHTS)).values(found.steps[0], 0) is None


def test_values_can_be_dropped(tmp_path: Path) -> None:
    """All else stays, as far as the file is whole; a file without values is not touched."""
    path = make_trace(tmp_path / "1", WEIGHTS, budget=10_000)
    before = trace.read(path)
    drop_values(path)
    after = trace.read(path)
    assert not after.has_values
    assert [each.digests for each in after.steps] == [each.digests for each in before.steps]
    assert (after.ended, after.damaged, after.notes) == (before.ended, before.damaged, before.notes)
    bare = make_trace(tmp_path / "2", WEIGHTS)
    number = bare.stat().st_ino
    drop_values(bare)
    assert bare.stat().st_ino == number
    assert path.read_bytes() == bare.read_bytes()
    cut = make_trace(tmp_path / "3", WEIGHTS, budget=10_000)
    cut.write_bytes(cut.read_bytes()[:-30])
    steps = len(trace.read(cut).steps)
    (tmp_path / "3" / "trace-foreign.bin").write_bytes(b"no trace")
    drop_values_of(tmp_path / "3")
    assert len(trace.read(cut).steps) == steps
    assert not trace.read(cut).has_values


def floats(kind: str, *numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}{kind}", *numbers)


@pytest.mark.parametrize(
    ("dtype", "before", "after", "expected"),
    [
        ("float32", floats("f", 1, 2, 3), floats("f", 1, 2.0000002384185791, 3), (1, (1,), 1)),
        ("float32", floats("f", -0.0, 1), floats("f", 0.0, 1), (1, (0,), 0)),
        ("float32", floats("f", -1e-45, 1), floats("f", 1e-45, 1), (1, (0,), 2)),
        ("float64", floats("d", 1, 5), floats("d", 1 + 2**-51, 5 + 2**-50), (2, (0,), 2)),
        ("float16", floats("e", 1, 2), floats("e", 1, -2), (1, (1,), 2 * 0x4000)),
        ("bfloat16", b"\x80\x3f\x80\x3f", b"\x80\x3f\x82\x3f", (1, (1,), 2)),
        ("float32", floats("f", 1, 2, 3), floats("f", 1.5, float("nan"), 3), (2, (1,), None)),
        ("int32", struct.pack("<2i", 7, -9), struct.pack("<2i", 7, 100), (1, (1,), None)),
        ("complex64", floats("f", 1, 2), floats("f", 1, 3), (1, (0, 1), 1 << 22)),
    ],
)
def test_values_compared(dtype: str, before: bytes, after: bytes, expected: tuple[Any, ...]) -> None:
    """Values that differ are counted, and the largest distance is given in numbers of the type."""
    size = {"float16": 2, "bfloat16": 2, "float64": 8, "complex64": 8}.get(dtype, 4)
    found = compare(dtype, (len(before) // size,), before, after)
    assert found is not None
    assert (found.count, found.index, found.ulps) == expected
    assert compare(dtype, (len(before) // size,), before, before) is None


def test_values_that_are_nan_on_both_sides(tmp_path: Path) -> None:
    """NaN with other bits counts as a difference, not as a distance; the place is found by rows and columns."""
    one = floats("f", float("nan"), 1, 2, 3)
    other = b"\x01\x00\xc0\x7f" + floats("f", 1, 2, 4)
    found = compare("float32", (2, 2), one, other)
    assert found is not None
    assert (found.count, found.size, found.index, found.before, found.after) == (2, 4, (1, 1), 3.0, 4.0)
    assert compare("float32", (3,), one, other) is None
    assert compare("float8_e4m3fn", (4,), b"abcd", b"abce") is None


def pooled(folder: Path, *workers: Sequence[float], process: str = "worker") -> str:
    """The digest of what a pool's tasks trained; of each worker a number of each of its tasks."""
    for number, tasks in enumerate(workers, 1):
        for place, value in enumerate(tasks, 1):
            label = f"Adam {place}" if place > 1 else "Adam"
            make_trace(folder, [{"w": [0.0]}, {"w": [value]}], process=f"{process} {number}", label=label)
    return trace.digest(trace.read_run(folder))


def test_which_worker_had_a_task_is_no_result(tmp_path: Path) -> None:
    """What each optimiser went through is; ranks keep their own."""
    one = pooled(tmp_path / "1", [1, 2], [3, 4])
    assert one == pooled(tmp_path / "2", [4], [3, 1, 2])
    assert one != pooled(tmp_path / "3", [1, 2], [3, 5])
    assert one != pooled(tmp_path / "4", [1, 2], [3])
    assert one != pooled(tmp_path / "5", [1, 2], [3, 4, 4])
    ranks = pooled(tmp_path / "6", [1], [2], process="rank")
    assert ranks != pooled(tmp_path / "7", [2], [1], process="rank")
    assert pooled(tmp_path / "8", [1, 2]) == pooled(tmp_path / "9", [2], [1])
    assert trace.digest_and_order(trace.read_run(tmp_path / "8"))[1] == ()


def optimisers(folder: Path, *order: str, **weights: Sequence[float]) -> list[trace.Trace]:
    """The trace of a process with an optimiser for each weight, numbered in the order in which they came."""
    for place, name in enumerate(order, 1):
        values = weights[name]
        rows = [{f"parameter of {len(name)}": [value] * len(name)} for value in values]
        make_trace(folder, rows, label=f"Adam {place}" if place > 1 else "Adam")
    parts = trace.read_run(folder)
    return [replace(parts[0], steps=tuple(step for part in parts for step in part.steps))]


def test_which_optimiser_is_first_is_no_result(tmp_path: Path) -> None:
    """One that has its like under another number is a pair with it; what differs is found at its own step."""
    weights = {"loc": [1.0, 2.0, 3.0], "scale": [4.0, 5.0, 6.0], "tau": [1.0, 2.0, 7.0]}
    one = optimisers(tmp_path / "1", "loc", "scale", "tau", **weights)
    two = optimisers(tmp_path / "2", "tau", "scale", "loc", **weights)
    assert trace.digest(one) == trace.digest(two)
    (_, order), (_, other) = map(trace.digest_and_order, (one, two))
    assert len({*order}) == 3
    assert other == order[::-1]
    assert trace.first_divergence_of_runs(one, two) is None
    assert [each.whole for each in trace.distance_by_step(one[0], two[0])] == [0.0] * 9
    two = optimisers(tmp_path / "3", "tau", "scale", "loc", **{**weights, "scale": [4.0, 5.0, 6.5]})
    assert trace.digest(one) != trace.digest(two)
    found = trace.first_divergence_of_runs(one, two)
    assert found is not None
    assert (found.kind, found.step, found.label) == ("step", 2, "Adam 2")
    two = optimisers(tmp_path / "4", "scale", "loc", **weights)
    assert trace.digest(one) != trace.digest(two)
    found = trace.first_divergence_of_runs(one, two)
    assert found is not None
    assert found.sentence.startswith("only the first run made steps of Adam 3")
