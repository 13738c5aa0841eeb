"""Which roots can give files to all users of an image."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.engine.local import identities
from envbuild.engine.local.identities import CHOWN, SETUID, gives_owners, has


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("         0          0 4294967295\n", True),
        ("0 1000 1\n1 100000 65536\n", True),
        ("1 100000 65536\n0 1000 1\n", True),
        ("0 0 1\n", False),
        ("0 1000 1\n1000 101000 64536\n", False),
        ("1 100000 65536\n", False),
        ("", False),
    ],
)
def test_root_of_a_namespace_may_be_alone(
    table: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The identities of an operating system are needed, of users and of groups; who is not root has none to give."""
    (tmp_path / "uid_map").write_text("0 0 4294967295\n")
    (tmp_path / "gid_map").write_text(table)
    monkeypatch.setattr(identities.os, "geteuid", lambda: 0)
    monkeypatch.setattr(identities, "has", lambda *capabilities: True)
    assert gives_owners(tmp_path) is expected
    monkeypatch.setattr(identities, "has", lambda *capabilities: CHOWN not in capabilities)
    assert not gives_owners(tmp_path)
    monkeypatch.setattr(identities.os, "geteuid", lambda: 1000)
    assert not gives_owners(tmp_path)


def test_where_nobody_can_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``/proc`` root is taken for one that can."""
    monkeypatch.setattr(identities.os, "geteuid", lambda: 0)
    monkeypatch.setattr(identities, "has", lambda *capabilities: True)
    assert gives_owners(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Name:\tpython\nCapEff:\t0000000000000081\n", True),
        ("CapEff:\t0000000000000080\n", False),
        ("CapEff:\t0000000000000001\n", False),
        ("Name:\tpython\n", True),
        (None, True),
    ],
)
def test_capabilities_of_this_process(text: str | None, expected: bool, tmp_path: Path) -> None:
    """All that are named are needed; where nobody can look it is tried."""
    status = tmp_path / "status"
    if text is not None:
        status.write_text(text)
    assert has(CHOWN, SETUID, status=status) is expected
