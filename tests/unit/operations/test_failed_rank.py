"""Which rank's failure ended a job, from the records in the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from envbuild.cluster.rank import Rank
from envbuild.core.identity import new_id
from envbuild.operations.failed_rank import LINES, failed_rank
from envbuild.record import history
from envbuild.record.printed import keep
from tests.support.records import record


def left(project: Path, number: int, *, text: str = "", restarts: int = 0, **fields: Any) -> None:
    """Leave the record of a rank of job 7."""
    rank = Rank(
        launcher="Slurm", rank=number, world=3, host=f"node{number}", job="7/0", start="a" * 32, restarts=restarts
    )
    value = msgspec.structs.replace(record(new_id(), rank=rank), **fields)
    history.save(project, value)
    keep(project, value.id, {"stderr": text.encode()})


def test_the_rank_that_failed_by_itself_comes_first(tmp_path: Path) -> None:
    """Those that the launcher ended, and one that was killed, are not the reason; its last lines are harmless text."""
    left(tmp_path, 0, exit_code=143)
    left(tmp_path, 1, exit_code=None, state="running", end=None)
    left(tmp_path, 2, exit_code=3, text="".join(f"line {number}\n" for number in range(20)) + "\x1b[31mno data\n\n")
    found = failed_rank(tmp_path, "7")
    assert found is not None
    assert (found.rank, found.host, found.how) == (2, "node2", "ended with exit 3")
    assert len(found.lines) == LINES
    assert found.lines[-1].endswith("no data")
    assert "\x1b" not in "".join(found.lines)
    assert failed_rank(tmp_path, "8") is None


def test_a_rank_without_an_end_was_killed(tmp_path: Path) -> None:
    """It is named where the others were only ended; of a job that was started again the last start counts."""
    left(tmp_path, 2, exit_code=3)
    left(tmp_path, 0, exit_code=143, restarts=1)
    left(tmp_path, 1, exit_code=None, state="running", end=None, restarts=1)
    found = failed_rank(tmp_path, "7")
    assert found is not None
    assert (found.rank, found.how) == (1, "was killed")


def test_a_good_end_has_no_failed_rank(tmp_path: Path) -> None:
    """All ranks ended with 0."""
    for number in range(3):
        left(tmp_path, number, exit_code=0)
    assert failed_rank(tmp_path, "7") is None
