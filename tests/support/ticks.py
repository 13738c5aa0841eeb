"""A file system's clock: changes are distinguished by their times only once it has continued."""

from __future__ import annotations

from pathlib import Path


def next_tick(path: Path) -> None:
    """Return once a change of ``path`` would get a later time than its last one; kernels before 6.13 tick at 100 Hz."""
    probe = path.with_name(f"{path.name}.tick")
    probe.touch()
    while probe.stat().st_ctime_ns <= path.stat().st_ctime_ns:
        probe.touch()
    probe.unlink()
