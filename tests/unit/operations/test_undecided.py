"""Numbers that are left out by their unit alone are quoted, whichever run printed another one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from envbuild.operations.verification import divergence, verify
from envbuild.operations.verification.doubtful import Decided
from envbuild.verification import moments, structure
from envbuild.verification.masking.lines import TextDifference


@pytest.mark.parametrize(("printed", "quoted"), [("aab", True), ("aba", True), ("aaa", False), ("a", False)])
def test_every_run_is_compared_with_the_first(printed: str, quoted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the second one printed what the first did."""

    def undecided(project: Path, one: Any, other: Any, *_: object) -> list[TextDifference]:
        before, after = one.record, other.record
        return [TextDifference(path="standard output", line=1, before=before, after=after)] if before != after else []

    monkeypatch.setattr(divergence, "undecided", undecided)
    monkeypatch.setattr(divergence, "beyond", lambda session, verdict: ())
    monkeypatch.setattr(divergence, "written_over", lambda *_: ())
    monkeypatch.setattr(divergence, "coloured", lambda *_: ())
    monkeypatch.setattr(divergence, "strange", lambda *_: ())
    monkeypatch.setattr(structure, "other_links", lambda _: ())
    monkeypatch.setattr(moments, "strange_times", lambda *_: ())
    runs = [SimpleNamespace(record=f"fold 2: 0.{each} s", trace="", order=()) for each in printed]
    session = SimpleNamespace(runs=runs, plan=SimpleNamespace(request=SimpleNamespace(project=Path())))
    found = verify._undecided(
        cast(Any, session), cast(Any, None), cast(Any, SimpleNamespace(ignore=())), None, Decided()
    )
    assert found == (("standard output, line 1: fold 2: 0.a s → fold 2: 0.b s",) if quoted else ())


def test_event_files_that_are_too_large_to_be_opened_are_quoted() -> None:
    """Their bytes have the time in them, so that nothing but the scalars of the record is compared."""
    paths = ("runs/events.out.tfevents.1795247763.host", "runs/events.out.tfevents.1795247764.host", "w.npy")
    outputs = [SimpleNamespace(path=path, sha256="00") for path in paths]
    first = SimpleNamespace(
        record=SimpleNamespace(outputs=outputs, outside=[]), contents={paths[1]: ""}, stdout=None, stderr=None
    )
    session = SimpleNamespace(runs=[first], ignore=(), plan=SimpleNamespace(request=SimpleNamespace(project=Path())))
    verdict = SimpleNamespace(channel=lambda kind: None)
    found = divergence.beyond(cast(Any, session), cast(Any, verdict))
    assert [*found] == [f"{paths[0]}: all but its scalars"]
