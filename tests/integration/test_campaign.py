"""Faults on purpose, a few with fixed seeds; ``make crash`` has hundreds (docs/explanation/faults.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign import kills
from tests.campaign.workshop import workshop

pytestmark = [pytest.mark.engine, pytest.mark.network]


def test_commands_killed_at_random_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    """After SIGKILL the same command succeeds, gives the same bytes, and removes what the killed one left."""
    with workshop(tmp_path, 7, states=2) as shop:
        tally = kills.campaign(shop, 7, 6, print)
    assert tally.faults == []
    assert tally.kills.total() >= 6


def test_full_disks_are_told_and_got_over() -> None:
    """A disk without room gives a sentence; with room again the same command succeeds."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    command = [sys.executable, "-m", "tests.campaign", "disk", "--seed", "7", "--count", "3"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
