"""Faults on purpose, a few with fixed seeds; ``make crash`` has hundreds (docs/explanation/faults.md)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign import interrupts, kills, load
from tests.campaign.workshop import workshop
from tests.support.cli import Project
from tests.support.images import forget_images
from tests.support.podman import podman_service

pytestmark = [pytest.mark.engine, pytest.mark.network]


def test_commands_killed_at_random_lose_nothing_and_leave_nothing(made: Project, tmp_path: Path) -> None:
    """After SIGKILL the same command succeeds, gives the same bytes, and removes what the killed one left."""
    with workshop(tmp_path, 7, base=made.store, states=2) as shop:
        tally = kills.campaign(shop, 7, 4, print)
    assert tally.faults == []
    assert tally.kills.total() >= 4


def test_commands_interrupted_at_random_end_and_leave_nothing(made: Project, tmp_path: Path) -> None:
    """Ctrl-C, once or twice, at any moment: its exit code, no traceback, nothing left, and the next one succeeds."""
    with workshop(tmp_path, 10, base=made.store, count=1, states=2) as shop:
        tally, ends = interrupts.campaign(shop, 10, 6, print)
    assert tally.faults == []
    assert sum(len(each.once) + len(each.twice) for each in ends.values()) >= 6


def test_builds_killed_on_every_engine(made: Project, tmp_path: Path) -> None:
    """SIGKILL in the middle of real builds with Docker, with podman and without either: the next one is the same."""
    with podman_service() as address, workshop(tmp_path, 8, base=made.store, count=1, states=2) as shop:
        engines = (*kills.ENGINES, kills.Engine(kind="podman", address=address))
        for engine in engines:
            (subject,) = shop.subjects
            tally = kills.campaign(shop, 8, 2, print, (engine,), steps=("lock", "build", "load"))
            assert tally.faults == [], engine.kind
            assert tally.engines[engine.kind] >= 2
            shutil.rmtree(shop.root / f"tmp-{subject.name}")
        forget_images(*(f"envbuild/{subject.name}" for subject in shop.subjects), address=address)


def test_different_locks_built_at_once(made: Project, tmp_path: Path) -> None:
    """Builds of two locks that share layers, several of each over one store: all succeed, each makes its own image."""
    with workshop(tmp_path, 9, base=made.store, states=1) as shop:
        shutil.rmtree(shop.store / "derived")
        tally = load.commands(shop, 8, (("build", "--output", "docker-archive:out.tar"), ("build",)))
        assert tally.faults == []
        for subject in shop.subjects:
            found = {path.read_bytes() for path in shop.root.glob(f"load/*/{subject.record.name}")}
            assert found == {subject.reference.record}


def test_full_disks_are_told_and_got_over(made: Project) -> None:
    """A disk without room gives a sentence; with room again the same command succeeds."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    command = [sys.executable, "-m", "tests.campaign", "disk", "--seed", "7", "--count", "3"]
    command += ["--base", str(made.store)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
