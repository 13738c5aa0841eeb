"""Which runs are followed to find where they part, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from envbuild.operations.verification.parting import parted
from envbuild.record import history
from envbuild.runtime.hook.fix_path import NAME, STEP
from envbuild.verification.causes.evidence import Evidence
from tests.support.records import record
from tests.support.runtime import make_lock

SOURCE = "a = f()\nb = g(a)\nc = a + b\n"
ALL = ["entropy", "clock", "addresses", "figures", "order"]


def _way(*values: int) -> bytes:
    """Return a way through the lines of ``SOURCE`` by what each sets."""
    places = (crc32(f"/workspace/train.py:{number}".encode()) for number in range(1, 4))
    return b"".join(STEP.pack(0, place, value) for place, value in zip(places, values, strict=False))


class Bench:
    """A laboratory whose runs go given ways, a pair each time."""

    def __init__(self, project: Path, *pairs: Sequence[bytes]) -> None:
        self.session = SimpleNamespace(plan=SimpleNamespace(request=SimpleNamespace(project=project)))
        self.project, self.pairs = project, list(pairs)
        self.asked: list[tuple[list[str], str, str]] = []

    def followed(self, fixed: Sequence[str], again: str, look: Callable[..., None], changed: str) -> None:
        self.asked.append(([*fixed], again, changed))
        for number, way in enumerate(self.pairs.pop(0)):
            run = SimpleNamespace(record=SimpleNamespace(id=f"{len(self.asked)}-{number}"))
            folder = history.process_folder(self.project, run.record.id)
            folder.mkdir(parents=True)
            (folder / NAME).write_bytes(way)
            look(run, None)


def _evidence(*proven: str) -> Evidence:
    return Evidence(a=record(), b=record(), lock=make_lock(), sources={"train.py": SOURCE}, proven=proven)


def _parted(bench: Any, evidence: Evidence) -> str:
    return parted(bench, evidence)


def test_a_line_that_differs_in_equal_runs_too_is_none(tmp_path: Path) -> None:
    """Runs with that fixed too which was proven are equal: a port in these is no result."""
    bench = Bench(tmp_path, (_way(1, 1, 1), _way(2, 1, 2)), (_way(3, 1, 5), _way(4, 1, 5)))
    assert _parted(bench, _evidence("order")) == "/workspace/train.py:3"
    assert bench.asked == [(ALL[:-1], "", "order"), (ALL, ", of equal ones", "")]


@pytest.mark.parametrize(
    ("proven", "fixed", "changed"),
    [
        (("addresses", "layout"), ["entropy", "clock", "figures", "order"], "layout"),
        (("times",), ["entropy", "clock", "addresses", "order"], "times"),
        (("limits", "clock"), ALL, "limits"),
        ((), ALL, ""),
    ],
)
def test_all_is_fixed_but_what_was_proven(
    tmp_path: Path, proven: tuple[str, ...], fixed: list[str], changed: str
) -> None:
    """What was varied is another one in the second run alone."""
    bench = Bench(tmp_path, (_way(1, 1), _way(1, 2)), (_way(1, 1), _way(1, 1)))
    assert _parted(bench, _evidence(*proven)) == "/workspace/train.py:2"
    assert bench.asked[0] == (fixed, "", changed)
    assert len(bench.asked) == 1 + bool(proven)


def test_runs_that_do_the_same_are_followed_once_more(tmp_path: Path) -> None:
    """And no further; none where a run was not made."""
    bench = Bench(tmp_path, (_way(1, 1), _way(1, 1)), (_way(1, 1), _way(1, 1)))
    assert _parted(bench, _evidence()) == ""
    assert [again for _, again, _ in bench.asked] == ["", ", again"]
    assert _parted(Bench(tmp_path / "other", (_way(1),)), _evidence()) == ""
