"""The further runs of ``verify``: values from the step on where runs diverge, and the run that diagnoses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envbuild.operations.events import Silent
from envbuild.operations.traces import first_divergence
from envbuild.operations.verification import divergence
from envbuild.record import history
from envbuild.record.model import Record
from envbuild.runs.tracing import trace_variables
from envbuild.verification.causes.evidence import Evidence
from tests.support.records import process, record
from tests.support.runtime import make_lock
from tests.support.traces import make_trace

ROOM = 1 << 20
ENGINE: Any = None


def ran(project: Path, number: int, last: float, budget: int = 0, **changes: Any) -> Record:
    """A run whose third step ends with a value."""
    made = record(f"01JC{number:022}", **changes)
    values = [{"w": [1.0, 2.0]}] * 3 + [{"w": [1.0, last]}]
    make_trace(history.run_folder(project, made.id) / "process", values, budget=budget)
    return made


def parted(project: Path) -> Evidence:
    """Two runs that part in the third step, of which no values were kept."""
    one, other = ran(project, 1, 3.0), ran(project, 2, 4.0)
    first, _ = first_divergence((project, one), (project, other), asked=True)
    return Evidence(a=one, b=other, lock=make_lock(), divergence=first)


def further(monkeypatch: pytest.MonkeyPatch, project: Path, made: Sequence[Record]) -> tuple[Any, list[Any]]:
    """A verification whose further runs give these records; returns it and what was asked of the runs."""
    asked: list[Any] = []

    def more(session: Any, count: int, variables: Any, engine: Any, events: Any, label: str) -> list[Any]:
        asked.append((count, variables))
        return [SimpleNamespace(record=each) for each in made]

    monkeypatch.setattr(divergence, "run_again", more)
    return SimpleNamespace(plan=SimpleNamespace(request=SimpleNamespace(project=project))), asked


def test_values_are_kept_from_the_step_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more runs that part at the same place bring both values and their distance."""
    evidence = parted(tmp_path)
    assert evidence.divergence is not None
    assert evidence.divergence.leading is not None
    assert (evidence.divergence.step, evidence.divergence.leading.values) == (3, None)
    pair = [ran(tmp_path, number, value, ROOM) for number, value in ((3, 3.0), (4, 5.0))]
    session, asked = further(monkeypatch, tmp_path, pair)
    found, notes = divergence.with_values(session, evidence, ROOM, ENGINE, Silent())
    assert asked == [(2, {"ENVBUILD_TRACE": "1", "ENVBUILD_TRACE_VALUES": f"{ROOM}@3"})]
    assert found.divergence is not None
    assert found.divergence.leading is not None
    values = found.divergence.leading.values
    assert values is not None
    assert (values.before, values.after, values.count, notes) == (3.0, 5.0, 1, [])
    assert divergence.with_values(session, found, ROOM, ENGINE, Silent()) == (found, [])
    assert len(asked) == 1


def test_two_more_runs_that_say_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that are equal this time, or that part elsewhere, change nothing and are reported."""
    evidence = parted(tmp_path)
    session, _ = further(monkeypatch, tmp_path, [evidence.a, evidence.a])
    assert divergence.with_values(session, evidence, ROOM, ENGINE, Silent()) == (
        evidence,
        ["two more runs, to have values, were equal: the runs do not part each time"],
    )
    other = record("01JC" + "7" * 22)
    make_trace(history.run_folder(tmp_path, other.id) / "process", [{"w": [9.0, 9.0]}] * 4)
    session, _ = further(monkeypatch, tmp_path, [evidence.a, other])
    found, (note,) = divergence.with_values(session, evidence, ROOM, ENGINE, Silent())
    assert found is evidence
    assert note.startswith("two more runs, to have values, part elsewhere: before the first step, tensor w")


def test_a_diagnosing_run_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it shows joins the causes; its record goes, since nothing is to be compared with it."""
    evidence = parted(tmp_path)
    damaged = ran(tmp_path, 5, float("nan"), processes=(process(),), exit_code=1)
    session, asked = further(monkeypatch, tmp_path, [damaged])
    found, notes = divergence.with_diagnosis(session, evidence, ENGINE, Silent())
    assert asked == [(1, {"ENVBUILD_TRACE": "1", "ENVBUILD_DIAGNOSE": "1"})]
    assert [cause.what for cause in found.found] == [
        "memory that nothing wrote is read: filled with NaN, it shows in w after step 3"
    ]
    assert notes == ["a run with memory filled, to diagnose, ended with exit 1"]
    assert not history.run_folder(tmp_path, damaged.id).exists()


def test_the_variables_that_ask_for_a_trace() -> None:
    """As ``docs/reference/trace.md`` has them."""
    assert trace_variables() == {"ENVBUILD_TRACE": "1"}
    assert trace_variables(5) == {"ENVBUILD_TRACE": "1", "ENVBUILD_TRACE_VALUES": "5"}
    assert trace_variables(5, 3) == {"ENVBUILD_TRACE": "1", "ENVBUILD_TRACE_VALUES": "5@3"}
