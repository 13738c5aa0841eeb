"""Sentences about a lock that a person should read."""

from __future__ import annotations

import msgspec
import pytest

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


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("postgresql-15", True),
        ("postgresql-client-15", False),
        ("mariadb-server", True),
        ("mariadb-common", False),
        ("rabbitmq-server", True),
        ("slapd", True),
        ("postfix", True),
        ("git", False),
    ],
)
def test_servers_that_do_not_reproduce_are_named(name: str, noted: bool) -> None:
    """Known when locking, from the names alone; clients and common files of the same source are not meant."""
    lock = small_lock({}, {f"{name}_1_amd64.deb": b"deb"})
    lock = msgspec.structs.replace(
        lock,
        os=msgspec.structs.replace(
            lock.os, packages=tuple(msgspec.structs.replace(p, name=name) for p in lock.os.packages)
        ),
    )
    found = [note for note in notes(parse_spec("name: x\n"), lock) if "differs in every build" in note]
    assert len(found) == noted
    assert all(f"({name}: " in note for note in found)
