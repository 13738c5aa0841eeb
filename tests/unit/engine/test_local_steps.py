"""How the local engine starts build steps."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from envbuild.engine.local.namespaces import _is_judged_elsewhere, sweep_steps


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


def test_what_killed_commands_left_of_steps_goes_and_what_runs_stays(tmp_path: Path) -> None:
    """A killed process holds no lock; where the image is made already, no further step looks for it."""
    for name in ("step-killed1_", "step-runs45_8", "step-begun67a", "step-by-step"):
        (tmp_path / name / "root/etc").mkdir(parents=True)
    (tmp_path / "step-killed1_/lock").touch()
    (tmp_path / "other").mkdir()
    with (tmp_path / "step-runs45_8/lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sweep_steps(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "step-by-step", "step-runs45_8"]
    sweep_steps(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()
