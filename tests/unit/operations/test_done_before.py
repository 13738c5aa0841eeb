"""A program that finds its results in the project does not make them, and equal runs prove nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.operations.verification.done_before import done_before, in_the_way
from envbuild.record import history
from envbuild.record.model import Output
from tests.support.records import record, sha


def left(*paths: str) -> tuple[Output, ...]:
    return tuple(Output(path=path, change="created", size=1, sha256=sha("a")) for path in paths)


@pytest.mark.parametrize(
    ("changes", "written", "found"),
    [
        ({}, (), ("a.bin", "out/b.bin")),
        ({}, ("a.bin",), ("out/b.bin",)),
        ({}, ("a.bin", "out/b.bin"), None),
        ({}, ("run-2/a.bin",), None),
        ({"command": ("other.py",)}, (), None),
        ({"exit_code": 1}, (), None),
        ({"outputs": left("gone.bin")}, (), None),
    ],
)
def test_what_an_earlier_run_of_the_command_wrote(
    changes: dict[str, Any], written: tuple[str, ...], found: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """Files that are there still and were not written again; neither a run's own names nor other commands count."""
    (tmp_path / "out").mkdir()
    for name in ("a.bin", "out/b.bin"):
        (tmp_path / name).touch()
    earlier = record("01" + "A" * 24, outputs=left("a.bin", "out/b.bin", "gone.bin"))
    history.save(tmp_path, msgspec.structs.replace(earlier, **changes))
    now = record("01" + "B" * 24, outputs=left(*written))
    known = done_before(tmp_path, now)
    assert (known.files if known is not None else None) == found
    assert done_before(tmp_path / "none", now) is None


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("FileExistsError: File already exists: ./a.bin", ("a.bin",)),
        ("FileExistsError: [Errno 17] File exists: 'out'", ("out",)),
        ("error: /workspace/out/b.bin is there already, use --force", ("out/b.bin",)),
        ("a.bin\nFileExistsError: other.bin", None),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'a.bin'", None),
        ("FileExistsError: data.bin, a.bin.lock, no-a.bin", None),
        ("FileExistsError: gone.bin", None),
    ],
)
def test_what_an_earlier_run_wrote_and_a_program_refuses_to_replace(
    words: str, found: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """optuna's ``download_artifact``: the first run ends well, and those in copies of the project fail."""
    (tmp_path / "out").mkdir()
    for name in ("a.bin", "out/b.bin"):
        (tmp_path / name).touch()
    history.save(tmp_path, record("01" + "A" * 24, outputs=left("a.bin", "out/b.bin", "gone.bin")))
    now = record("01" + "B" * 24, outputs=left())
    known = in_the_way(tmp_path, now, words)
    assert (known.files if known is not None else None) == found
