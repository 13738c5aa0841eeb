"""The step trace as the hook writes it: settings, what goes wrong, forks, steps that a program reports itself."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from envbuild.runtime.hook import trace as hook
from envbuild.runtime.hook import trace_file, trace_measure, trace_program
from envbuild.trace import compare
from tests.support.runtime import Tree, make_lock, make_tree
from tests.support.traces import Tensor, make_trace, make_tracer, reference


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"ENVBUILD_TRACE": "1"}, (1, 0, 0)),
        ({"ENVBUILD_TRACE": "10", "ENVBUILD_TRACE_VALUES": "4096"}, (10, 4096, 0)),
        ({"ENVBUILD_TRACE": "1", "ENVBUILD_TRACE_VALUES": "4096@37"}, (1, 4096, 37)),
    ],
)
def test_settings(variables: dict[str, str], expected: tuple[int, int, int]) -> None:
    """The variables give the interval, the room for values, and the step from which they are kept."""
    assert hook.wanted(variables)
    assert hook.read_settings(variables) == expected


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"ENVBUILD_TRACE": "yes"}, "ENVBUILD_TRACE: expected a number of steps such as 1, found 'yes'"),
        ({"ENVBUILD_TRACE": "00"}, "ENVBUILD_TRACE: expected a number of steps such as 1, found '00'"),
        *(
            (
                {"ENVBUILD_TRACE": "1", "ENVBUILD_TRACE_VALUES": text},
                f"ENVBUILD_TRACE_VALUES: expected BYTES or BYTES@STEP, found {text!r}",
            )
            for text in ("1M", "@3", "5@", "-1", "1@2@3")
        ),
    ],
)
def test_settings_that_are_none(variables: dict[str, str], sentence: str) -> None:
    """Another value is refused in a sentence."""
    with pytest.raises(ValueError, match="expected") as caught:
        hook.read_settings(variables)
    assert str(caught.value) == sentence


def test_a_trace_is_off_unless_asked_for() -> None:
    """No variable, an empty one, 0 and off: no trace."""
    assert not any(hook.wanted(each) for each in ({}, *({"ENVBUILD_TRACE": off} for off in ("", "0", "off"))))


def test_the_digest_is_the_documented_one() -> None:
    """These digests and figures are part of the format: traces of other versions are compared with them."""
    numbers = [float(number) for number in range(10_000)]
    digest, figures = reference(Tensor(numbers).tobytes(), numbers)
    assert trace_measure.splitmix(0) == 0xE220A8397B1DCDAF  # the generator's published first value for seed 0
    assert digest == 4714086213408425984
    assert figures[:3] == (pytest.approx(577306.967739001), 0.0, 9999.0)
    assert all(weight % 2 for weight in trace_measure.weights())


def test_every_changed_bit_changes_the_digest() -> None:
    """Each bit of a tensor, flipped alone, gives another digest; so do two flipped signs."""
    data = os.urandom(64)
    digests = {reference(data, ())[0]}
    for bit in range(8 * len(data)):
        other = bytearray(data)
        other[bit // 8] ^= 1 << bit % 8
        digests.add(reference(bytes(other), ())[0])
        other[(bit // 8 + 7) % 64] ^= 0x80
        digests.add(reference(bytes(other), ())[0])
    assert len(digests) == 2 * 8 * len(data) + 1


def test_what_goes_wrong_is_reported_once(tmp_path: Path) -> None:
    """An error in reading tensors is a warning, and the next step is tried again."""
    tracer = make_tracer(tmp_path)

    def broken() -> Any:
        raise RuntimeError("deleted")

    tracer.step("keras.fit", "model", broken)
    tracer.step("keras.fit", "model", lambda: [("a", Tensor([1.0]))])
    assert tracer.process.warnings == ["trace: RuntimeError: deleted"]
    (found,) = compare.read_run(tmp_path)
    assert [step.step for step in found.steps] == [2]


def test_what_a_handler_raises_within_a_step_is_the_programs(tmp_path: Path) -> None:
    """A limit of time that the trace kept to itself would never be reached. Steps after it are entered."""
    tracer = make_tracer(tmp_path)

    def over(*_: object) -> None:
        raise TimeoutError("the program's")

    def interrupted() -> Any:
        signal.raise_signal(signal.SIGUSR1)
        return [("a", Tensor([1.0]))]

    before = signal.signal(signal.SIGUSR1, over)
    try:
        with pytest.raises(TimeoutError, match="the program's"):
            tracer.step("keras.fit", "model", interrupted)
    finally:
        signal.signal(signal.SIGUSR1, before)
    tracer.step("keras.fit", "model", lambda: [("a", Tensor([1.0]))])
    assert not tracer.process.warnings
    (found,) = compare.read_run(tmp_path)
    assert [step.step for step in found.steps] == [2]


def test_a_full_disk_ends_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing more can be written the program continues without a trace, and what was written is read."""
    tracer = make_tracer(tmp_path)
    tracer.step("keras.fit", "model", lambda: [("a", Tensor([1.0]))])

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace_file.os, "write", full)
    for _ in range(2):
        tracer.step("keras.fit", "model", lambda: [("a", Tensor([2.0]))])
    monkeypatch.undo()
    tracer.close()
    assert tracer.process.warnings == ["trace: [Errno 28] No space left on device: the trace ends here"]
    assert [step.step for step in compare.read_run(tmp_path)[0].steps] == [1]


def test_other_tensors_are_a_new_description(tmp_path: Path) -> None:
    """A model that gets another layer continues under its name."""
    make_trace(tmp_path, [{"a": [1.0]}, {"a": [1.0]}, {"a": [1.0], "b": [2.0]}])
    (found,) = compare.read_run(tmp_path)
    assert [list(step.tensors) for step in found.steps] == [["a"], ["a"], ["a", "b"]]
    assert [step.group.number for step in found.steps] == [0, 0, 1]


def test_large_traces_have_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a size on only digests are written, and at another the trace ends and reports it."""
    monkeypatch.setattr(hook, "FIGURES_UNTIL", 500)
    monkeypatch.setattr(hook, "SIZE", 700)
    make_trace(tmp_path, [{"a": [float(step)]} for step in range(30)])
    (found,) = compare.read_run(tmp_path)
    known = [step.figures(0) is not None for step in found.steps]
    assert known[0]
    assert not known[-1]
    assert found.notes == ("the trace has 0 GiB and ends here",)
    assert len(found.steps) < 30


def test_long_traces_have_figures_now_and_then(tmp_path: Path) -> None:
    """The first hundred entries have figures, of the later ones every tenth."""
    make_trace(tmp_path, [{"a": [float(step)]} for step in range(131)])
    (found,) = compare.read_run(tmp_path)
    assert [step.step for step in found.steps if step.figures(0)] == [*range(101), 110, 120, 130]


def test_a_forked_child_has_a_trace_of_its_own(tmp_path: Path) -> None:
    """A child writes another file, and nothing into its parent's."""
    tracer = make_tracer(tmp_path)
    tracer.step("torch.optim", "Adam", lambda: [("a", Tensor([1.0]))])
    child = os.fork()
    if not child:
        tracer.process.path = "fork 1"
        tracer.step("torch.optim", "Adam", lambda: [("a", Tensor([3.0]))])
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    tracer.step("torch.optim", "Adam", lambda: [("a", Tensor([2.0]))])
    tracer.close()
    main, fork = compare.read_run(tmp_path)
    assert (main.process, len(main.steps), main.ended) == ("", 2, True)
    assert (fork.process, len(fork.steps), fork.ended) == ("fork 1", 1, False)
    assert fork.pid == child


class State(NamedTuple):
    weights: Any
    more: Any


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A tracer that receives what a program reports, until the test ends: an audit hook cannot be removed."""
    tracer = make_tracer(tmp_path)
    monkeypatch.setattr(trace_program, "_array", lambda value: value)
    trace_program.listen(tracer)
    yield tracer
    tracer.over = True


def test_a_program_reports_its_steps(heard: Any, tmp_path: Path) -> None:
    """Trees of arrays get names; epoch, step and batch have their places, the other numbers are observed."""
    a, b, c = Tensor([1.0]), Tensor([2.0]), Tensor([3.0])
    sys.audit("envbuild.step", {"dense": {"kernel": a}, "rest": [b, None, State(c, ())]}, {"step": 0})
    sys.audit("envbuild.step", {"dense": {"kernel": b}, "rest": [b, None, State(c, ())]}, {"loss": 0.5, "epoch": 1})
    sys.audit("envbuild.step", {"dense": {"kernel": c}, "rest": [b, None, State(c, ())]}, {"step": 5, "batch": [a]})
    sys.audit("another.event", 1)
    assert heard.process.warnings == []
    (found,) = compare.read_run(tmp_path)
    assert list(found.steps[0].tensors) == ["dense/kernel", "rest/0", "rest/2/weights"]
    assert [(s.step, s.covers, s.epoch, s.observed, s.batch is None) for s in found.steps] == [
        (0, 0, None, {}, True),
        (1, 1, 1, {"loss": 0.5}, True),
        (5, 4, None, {}, False),
    ]


def test_a_wrong_call_is_a_warning(heard: Any) -> None:
    """A call that cannot be understood never stops the program."""

    class JaxprTracer:
        pass

    sys.audit("envbuild.step")
    sys.audit("envbuild.step", {"a": JaxprTracer()})
    deep: Any = Tensor([1.0])
    for _ in range(40):
        deep = [deep]
    sys.audit("envbuild.step", deep)
    assert heard.process.warnings == [
        'trace: TypeError: expected sys.audit("envbuild.step", parameters, numbers), found 0 arguments',
        'trace: TypeError: sys.audit("envbuild.step", …) was called within a function that JAX compiles: '
        "call it outside",
        f"trace: ValueError: parameters are nested deeper than 32 levels at {'/'.join(['0'] * 33)}",
    ]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    fakes = tmp_path_factory.mktemp("fakes")
    (fakes / "torch.py").write_text("raise ImportError('none')\n")
    return make_tree(tmp_path_factory.mktemp("tree"), make_lock(), paths=[fakes])


@pytest.mark.subprocess
def test_off_it_costs_nothing(tree: Tree) -> None:
    """Without the variable no module of the trace is imported; with a wrong one that is reported and nothing else."""
    text = "import sys; print([name for name in sys.modules if 'trace' in name and 'envbuild' in name])"
    assert tree.execute("-c", text).stdout == "[]\n"
    assert tree.execute("-c", text, variables={"ENVBUILD_TRACE": "0"}).stderr == ""
    done = tree.execute("-c", "print('on')", variables={"ENVBUILD_TRACE": "all"})
    assert done.stdout == "on\n"
    assert done.stderr == (
        "envbuild: warning: ENVBUILD_TRACE: expected a number of steps such as 1, found 'all': no trace is kept\n"
    )


@pytest.mark.subprocess
def test_a_program_without_steps_leaves_no_file(tree: Tree) -> None:
    """A trace is a file only once there is a step, also without the controls."""
    for path in tree.run.iterdir():
        path.unlink()
    tree.execute("-c", "pass", variables={"ENVBUILD_TRACE": "1"})
    done = tree.execute("-c", "pass", variables={"ENVBUILD_TRACE": "1", "ENVBUILD_CONTROLS": "off"})
    assert done.stderr == ""
    assert list(tree.run.glob("trace-*")) == []
