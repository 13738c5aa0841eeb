"""How the local engine starts build steps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuild.engine.local.namespaces import _is_judged_elsewhere


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("fuse.mergerfs a:b rw", True), ("nfs4 host:/ rw", True), ("ext4 /dev/vda rw", False), ("overlay none rw", False)],
)
def test_file_systems_that_know_no_user_namespaces(kind: str, expected: bool, tmp_path: Path) -> None:
    """Their server or daemon sees an ordinary user in root of a namespace, and lets it give no file to anybody."""
    device = tmp_path.stat().st_dev
    table = tmp_path / "mountinfo"
    other = "99 1 0:999 / /other rw - fuse.x x rw"
    table.write_text(f"{other}\n98 1 {os.major(device)}:{os.minor(device)} / {tmp_path} rw shared:1 - {kind}\n")
    assert _is_judged_elsewhere(tmp_path, table) is expected
