"""Further runs of a verification whose runs differ: for the values at the step where they part, and to diagnose."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from envbuild.cli.console import Console
from envbuild.cli.running import trace_variables
from envbuild.core.text import plural
from envbuild.operations.first_difference import first_difference, traces_of

if TYPE_CHECKING:
    from envbuild.operations.verify_session import Session
    from envbuild.runs.repeat import Repeated
    from envbuild.runs.request import RunEngine
    from envbuild.verification.causes import Clues
    from envbuild.verification.first import First


def with_values(
    session: Session, clues: Clues, values: int, engine: RunEngine, console: Console
) -> tuple[Clues, list[str]]:
    """Run twice more, keeping values from the step on where the runs part, if the first traces had no room for them.

    Returns:
        The clues with values, or as they were with a note why not.
    """
    first = clues.first
    if not values or first is None or first.kind not in ("start", "step") or first.before is not None:
        return clues, []
    if not first.tensor or not first.size:
        return clues, []
    pair = _more(session, 2, trace_variables(values, first.step), engine, console, "values")
    if len(pair) < 2:
        return clues, []
    project = session.plan.request.project
    again, _ = first_difference((project, pair[0].record), (project, pair[1].record), asked=True)
    if again is None:
        return clues, ["two more runs, to have values, were equal: the runs do not part each time"]
    if (again.process, again.step, again.tensor) != (first.process, first.step, first.tensor):
        return clues, [f"two more runs, to have values, part elsewhere: {again.sentence}"]
    return replace(clues, first=_taken(first, again)), []


def with_diagnosis(session: Session, clues: Clues, engine: RunEngine, console: Console) -> tuple[Clues, list[str]]:
    """Run once more, memory filled and draws of entropy watched, where that may tell more than is known already."""
    from envbuild.errors import EnvbuildError
    from envbuild.record import history
    from envbuild.verification.causes import suspects
    from envbuild.verification.diagnosis import diagnosed, worthwhile

    if not worthwhile(clues, suspects(clues)):
        return clues, []
    project = session.plan.request.project
    made = _more(session, 1, {**trace_variables(), "ENVBUILD_DIAGNOSE": "1"}, engine, console, "diagnose")
    if not made:
        return clues, []
    record = made[0].record
    try:
        found = diagnosed(clues, record, traces_of(project, record), traces_of(project, clues.a))
    except EnvbuildError:
        found = diagnosed(clues, record)
    # It is no run of the program as it is: nothing is to be compared with it later.
    shutil.rmtree(history.run_folder(project, record.id), ignore_errors=True)
    notes = []
    if record.exit_code != clues.a.exit_code:
        notes.append(f"a run with memory filled, to diagnose, ended with exit {record.exit_code}")
    return replace(clues, found=(*clues.found, *found)), notes


def _more(
    session: Session, count: int, variables: Mapping[str, str], engine: RunEngine, console: Console, label: str
) -> list[Repeated]:
    """Run again in copies that are thrown away."""
    from envbuild.runs.repeat import repeat

    plan = session.plan
    request = replace(plan.request, own_variables={**plan.request.own_variables, **variables})
    again = replace(plan, request=request, slots=plan.slots[:count], folder=plan.folder / label, values=0, trace=False)
    made: dict[int, Repeated] = {}
    with console.phase(label, total=count, unit="runs") as advance:

        def each(found: Repeated) -> None:
            made[found.number] = found
            found.discard()
            advance(1)

        repeat(again, count, engine, each)
    console.line(label, f"{plural(count, 'run')} more", elapsed=True)
    return [made[number] for number in sorted(made)]


def _taken(first: First, again: First) -> First:
    """Return the values of another pair of runs that part at the same place."""
    import msgspec

    names = ("count", "size", "before", "after", "ulps", "sentence")
    return msgspec.structs.replace(first, **{name: getattr(again, name) for name in names})
