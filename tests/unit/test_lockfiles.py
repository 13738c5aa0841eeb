"""The reference locks under lockfiles/ are what their specs ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild import lock as locks
from envbuild.cli.locking import LockOptions, resolution_inputs, stale_inputs
from envbuild.image.dockerfile import render
from envbuild.spec import load_spec

ROOT = Path(__file__).resolve().parents[2]
SPECS = sorted((ROOT / "lockfiles").glob("*/spec.yaml"))


@pytest.mark.parametrize("spec_path", SPECS, ids=lambda path: path.parent.name)
def test_reference_lock_is_fresh(spec_path: Path) -> None:
    """A reference lock and its Dockerfile are those of the spec beside them (else: make lockfiles)."""
    spec = load_spec(spec_path)
    lock = locks.load(spec_path.parent / f"pylock.{spec.name}.toml")
    assert stale_inputs(lock.resolution, resolution_inputs(spec, spec_path, LockOptions())) == []
    assert (spec_path.parent / "Dockerfile").read_bytes() == render(lock).dockerfile


def test_there_are_reference_locks() -> None:
    """The example's lock is kept."""
    assert [path.parent.name for path in SPECS] == ["digits"]


def test_the_example_is_locked_as_it_is() -> None:
    """The reference spec of the example is the example's own."""
    example = ROOT / "examples" / "digits" / "spec.yaml"
    assert (ROOT / "lockfiles" / "digits" / "spec.yaml").read_bytes() == example.read_bytes()
