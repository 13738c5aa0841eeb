"""Sentences about a lock that a person should read."""

from __future__ import annotations

from envbuild.operations.lock_notes import notes
from envbuild.spec.model import parse_spec
from tests.support.locks import small_lock


def _notes(system: str) -> list[str]:
    return list(notes(parse_spec(f"name: x\nos: {system}\n"), small_lock()))


def test_testing_without_a_time_is_noted() -> None:
    """Its mirrors drop packages within days; a time, and any other release, needs no note."""
    (note,) = _notes("debian-testing")
    assert "os: {release: debian-testing, snapshot: YYYY-MM-DD}" in note
    assert "envbuild store push" in note
    assert _notes("{release: debian-testing, snapshot: 2026-10-30}") == []
    assert _notes("debian-13") == []
