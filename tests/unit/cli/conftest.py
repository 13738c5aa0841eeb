"""What several tests of the command line share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def standing_in_a_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A project to stand in, and a clock two hours ahead of UTC; no git next to it is asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "TST-2")
    monkeypatch.setattr("envbuild.operations.run_context.file_at", lambda project, commit, path: None)
    monkeypatch.setattr("envbuild.operations.run_context.changed_between", lambda project, a, b: ())
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
