"""What a report states first: whether the runs agree, and the likeliest reasons if they do not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envbuild.difference.finding import CERTAIN, Difference, Finding
from envbuild.record.model import Record
from envbuild.reports.facts import result
from envbuild.reports.values import LETTERS, Run
from envbuild.reports.words import SHORT, letters

_REASONS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """A line below the headline: of which run it speaks, and how ``what`` changed; both empty for a mere sentence."""

    place: int
    letter: str
    lead: str
    causes: tuple[Finding, ...]
    more: int


def headline(runs: Sequence[Run]) -> str:
    """Return the sentence that a report is about."""
    if len(runs) == 1:
        return f"Run {runs[0].record.id[:SHORT]}: {result(runs[0].record)}"
    by = {outcome: [place for place, run in enumerate(runs) if _outcome(run) == outcome] for outcome in _OUTCOMES}
    same, different, unknown = (by[outcome] for outcome in _OUTCOMES)
    if len(same) == len(runs) - 1:
        identical = all(_equal_bytes(runs[0].record, runs[place].record) for place in same)
        what = "are bit-identical" if identical else "hold equal tensors, in files of other bytes"
        return f"{_names([0, *same])} {what}"
    parts = []
    if different:
        parts.append(f"{_names(different)} {'differs' if len(different) == 1 else 'differ'} from A")
    if same:
        parts.append(f"{_names(same)} {'equals' if len(same) == 1 else 'equal'} {'it' if different else 'A'}")
    if unknown:
        parts.append(f"{_names(unknown)} cannot be compared with {'it' if different or same else 'A'}")
    return ", ".join(parts)


def reasons(runs: Sequence[Run]) -> list[Reason]:
    """Return a line for each run but the first."""
    alone = len(runs) == 2
    return [_reason(place, run.difference, alone) for place, run in enumerate(runs) if run.difference is not None]


_OUTCOMES = ("equal", "different", "unknown")


def _reason(place: int, difference: Difference, alone: bool) -> Reason:
    """Name the likeliest causes; equal results have none, and the headline reports that they are equal."""
    different = difference.outcome == "different"
    causes = difference.causes[:_REASONS] if different else ()
    return Reason(
        place=place,
        letter=LETTERS[place],
        lead=_lead(causes) if causes else _counted(difference.verdict) if alone else difference.verdict,
        causes=causes,
        more=len(difference.causes) - len(causes) if different else 0,
    )


def _lead(causes: Sequence[Finding]) -> str:
    """Return the word before the causes: whether one is reason enough, or all are merely possible."""
    return "because" if any(cause.weight >= CERTAIN for cause in causes) else "perhaps because"


def _counted(verdict: str) -> str:
    """Return what was found to be equal: ``2 outputs, 4 metrics``."""
    found = re.fullmatch(r"bit-identical \(([^()]+)\)", verdict)
    return found[1] if found else verdict


def _outcome(run: Run) -> str:
    return run.difference.outcome if run.difference else ""


def _equal_bytes(one: Record, other: Record) -> bool:
    return {each.path: each.sha256 for each in one.outputs} == {each.path: each.sha256 for each in other.outputs}


def _names(places: Sequence[int]) -> str:
    return letters([LETTERS[place] for place in places])
