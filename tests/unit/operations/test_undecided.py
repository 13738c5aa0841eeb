"""Numbers that are left out by their unit alone are quoted, whichever run printed another one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from envbuild.operations import divergence, verify
from envbuild.operations.doubtful import Decided
from envbuild.verification.lines import TextDifference


@pytest.mark.parametrize(("printed", "quoted"), [("aab", True), ("aba", True), ("aaa", False), ("a", False)])
def test_every_run_is_compared_with_the_first(printed: str, quoted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the second one printed what the first did."""

    def undecided(project: Path, one: Any, other: Any, *_: object) -> list[TextDifference]:
        before, after = one.record, other.record
        return [TextDifference(path="standard output", line=1, before=before, after=after)] if before != after else []

    monkeypatch.setattr(divergence, "undecided", undecided)
    monkeypatch.setattr(divergence, "beyond", lambda session, verdict: ())
    runs = [SimpleNamespace(record=f"fold 2: 0.{each} s") for each in printed]
    session = SimpleNamespace(runs=runs, plan=SimpleNamespace(request=SimpleNamespace(project=Path())))
    found = verify._undecided(
        cast(Any, session), cast(Any, None), cast(Any, SimpleNamespace(ignore=())), None, Decided()
    )
    assert found == (("standard output, line 1: fold 2: 0.a s → fold 2: 0.b s",) if quoted else ())
