"""Causes in the light of the line at which runs part, and how that line is found from two ways."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envbuild.difference.finding import Finding
from envbuild.operations.verification.parting import parting_of, varying
from envbuild.runtime.hook.fix_path import STEP
from envbuild.verification.causes.evidence import Culprit, Evidence
from envbuild.verification.causes.partings import acting, changed_for, with_parting
from envbuild.verification.causes.proofs import PROVEN
from tests.support.records import record
from tests.support.runtime import make_lock

SOURCE = """\
results = []
def work(n):
    results.append(n)
    other.append(n)
for n in range(3):
    threading.Thread(target=work, args=(n,)).start()
for r in results:
    print(r)
"""


def _cause(what: str, where: str, weight: int = PROVEN) -> Finding:
    return Finding(area="sources", what=what, where=where, weight=weight)


def test_the_line_is_added_to_what_is_proven_with_who_changes_what_it_reads() -> None:
    """The sentence says both; causes of something else stay as they are."""
    causes = [_cause("drawn", "train.py:1"), _cause("threads; proven", "train.py:6 …")]
    found = with_parting(
        causes, "/workspace/train.py:7", frozenset(("threads; proven",)), {"train.py": SOURCE}, proven=True
    )
    assert found[0] == causes[0]
    assert found[1].where == "train.py:7, train.py:3, train.py:6 …"
    assert found[1].what == "threads; proven; runs part at train.py:7, by what train.py:3 changes"


def test_a_cause_that_names_the_line_comes_first() -> None:
    """Of those that are about what was proven."""
    causes = [_cause("a", "train.py:6"), _cause("b", "train.py:1"), _cause("c", "train.py:6, train.py:7", PROVEN - 1)]
    found = with_parting(causes, "/workspace/train.py:7", frozenset("ac"), {"train.py": SOURCE}, proven=True)
    assert [each.what for each in found] == ["c", "a", "b"]
    assert found[0].weight == PROVEN
    assert with_parting(causes, "/workspace/train.py:7", frozenset("a"), {}, proven=True)[0].where == (
        "train.py:7, train.py:6"
    )
    assert with_parting(causes, "/workspace/train.py:7", frozenset(), {}, proven=True) == causes


def test_where_nothing_is_proven_the_line_is_a_cause_of_its_own() -> None:
    """Before what others only suggest, if these do not name it; the line is quoted."""
    causes = [_cause("a", "train.py:6", 45), _cause("b", "train.py:1", 30)]
    (first, *others) = with_parting(causes, "/workspace/train.py:7", (), {"train.py": SOURCE}, proven=False)
    assert (first.what, first.where) == (
        "runs do the same up to this line, and part here: for r in results:; threads, processes or tasks change what "
        "it reads: train.py:3",
        "train.py:7, train.py:3",
    )
    assert others == causes
    (first, *others) = with_parting(causes, "/workspace/train.py:1", (), {}, proven=False)
    assert (first.what, first.weight) == ("b", 50)
    assert others == [causes[0]]


def test_a_line_with_a_secret_is_not_quoted() -> None:
    """It goes into the output and into reports."""
    source = 'connect(password="hunter2-is-no-good")\n'
    (first, *_) = with_parting([], "/workspace/train.py:1", (), {"train.py": source}, proven=False)
    assert "hunter2" not in first.what
    assert first.where == "train.py:1"


def test_what_experiments_may_not_have_reached_comes_with_the_line() -> None:
    """A limit of time, say, or who comes first: rather a cause that names who changes what the line reads."""
    causes = [_cause("a", "train.py:6", 45), _cause("b", "train.py:1", 40), _cause("c", "train.py:3", 30)]
    (first, *others) = with_parting(
        causes, "/workspace/train.py:7", frozenset("bc"), {"train.py": SOURCE}, proven=False
    )
    assert (first.what, first.where, first.weight) == (
        "c; runs part at train.py:7, by what train.py:3 changes",
        "train.py:7, train.py:3",
        50,
    )
    assert others == causes[:2]
    (first, *_) = with_parting(causes, "/workspace/train.py:8", frozenset("bc"), {"train.py": SOURCE}, proven=False)
    assert (first.what, first.where) == ("b; runs part at train.py:8", "train.py:8, train.py:1")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("train.py:7", ["train.py:3"]),
        ("train.py:8", []),
        ("train.py:x", []),
        ("other.py:1", []),
    ],
)
def test_what_threads_change_for_a_line(line: str, found: list[str]) -> None:
    """By the names that it reads."""
    assert changed_for({"train.py": SOURCE}, line) == found


def test_a_queue_that_a_task_fills() -> None:
    """Of asyncio's as well, which no thread runs."""
    source = "async def fill(queue):\n    await queue.put(1)\nasync def main():\n    item = await queue.get()\n"
    assert changed_for({"a.py": source}, "a.py:4") == ["a.py:2"]


def test_a_generator_that_a_thread_draws_from_too() -> None:
    """By its name."""
    source = "def beat():\n  wait(random.random())\nThread(target=beat).start()\nx = random.gauss(0, 1)\n"
    assert changed_for({"a.py": source}, "a.py:4") == ["a.py:2"]


def _proven(*names: str) -> Evidence:
    return Evidence(a=record(), b=record(), lock=make_lock(), proven=names)


def test_what_shows_where_runs_part() -> None:
    """Who comes first, before where something is in memory; what is drawn has a line of its own."""
    assert acting(_proven("entropy", "order")) == "order"
    assert acting(_proven("addresses", "layout")) == "layout"
    assert acting(_proven("clock")) == ""
    assert acting(_proven("entropy")) == "entropy"
    known = Culprit(suspect="entropy", place="/workspace/train.py:1")
    assert acting(replace(_proven("entropy"), culprits=(known,))) == ""


LINES = {10: "/workspace/train.py:1", 20: "/workspace/train.py:2", 30: "/workspace/train.py:3"}


def _way(*steps: tuple[int, int, int]) -> bytes:
    return b"".join(STEP.pack(*step) for step in steps)


@pytest.mark.parametrize(
    ("one", "other", "line"),
    [
        # another value
        (((0, 10, 1), (0, 20, 1), (0, 30, 1)), ((0, 10, 1), (0, 20, 2), (0, 30, 1)), "/workspace/train.py:2"),
        # another way after the line
        (((0, 10, 1), (0, 20, 1)), ((0, 10, 1), (0, 30, 1)), "/workspace/train.py:1"),
        # one goes on
        (((0, 10, 1), (0, 20, 1)), ((0, 10, 1),), "/workspace/train.py:1"),
        # the same
        (((0, 10, 1), (0, 20, 1)), ((0, 10, 1), (0, 20, 1)), ""),
        # strands in any order, of which one parts
        (((7, 10, 1), (8, 20, 1), (7, 30, 1)), ((8, 20, 1), (7, 10, 1), (7, 30, 2)), "/workspace/train.py:3"),
        # the strand that parts first in the first run
        (((7, 10, 1), (8, 20, 1)), ((8, 20, 2), (7, 10, 2)), "/workspace/train.py:1"),
        # one is cut off: what comes then is not known
        (((0, 10, 1), (0, 20, 1)), ((0, 10, 1), (3, 0, 0)), ""),
        (((0, 10, 1), (0, 20, 1)), ((0, 10, 2), (3, 0, 0)), "/workspace/train.py:1"),
        # handlers of signals and what frees objects come at any moment
        (((1, 10, 1), (2, 10, 1), (0, 20, 1)), ((1, 10, 2), (2, 10, 2), (0, 20, 1)), ""),
        # a line that is none of the project's as it is known
        (((0, 11, 1),), ((0, 11, 2),), ""),
        # from the start
        (((0, 10, 1),), ((0, 20, 1),), ""),
    ],
)
def test_where_two_ways_part(
    one: tuple[tuple[int, int, int], ...], other: tuple[tuple[int, int, int], ...], line: str
) -> None:
    """At a line that sets another value, or after which the other run goes elsewhere."""
    assert parting_of(_way(*one), _way(*other), LINES) == line


def test_long_ways_and_a_step_that_was_not_written_whole() -> None:
    """What all have in common is skipped, but for the step before; a run may be ended at any moment."""
    long = [(0, 10, each % 7) for each in range(20_000)]
    one, other = _way(*long, (0, 20, 1), (0, 30, 1)), _way(*long, (0, 20, 1), (0, 30, 2), (0, 10, 9))
    assert parting_of(one, other, LINES) == "/workspace/train.py:3"
    assert parting_of(_way(*long, (0, 20, 1)), _way(*long, (0, 30, 1)), LINES) == "/workspace/train.py:1"
    assert parting_of(one, one[:-1], LINES) == "/workspace/train.py:2"
    assert parting_of(one, one + b"x", LINES) == parting_of(one, b"", LINES) == ""


def test_what_varies_in_equal_runs_too_does_not_count() -> None:
    """A port that the system chose, say, as long as they go the same way; another way counts."""
    equal = _way((0, 10, 1), (0, 20, 1), (0, 30, 1)), _way((0, 10, 2), (0, 20, 1), (0, 20, 1))
    assert varying(*equal) == {10}
    one, other = _way((0, 10, 1), (0, 20, 1), (0, 30, 1)), _way((0, 10, 3), (0, 20, 1), (0, 30, 2))
    assert parting_of(one, other, LINES) == "/workspace/train.py:1"
    assert parting_of(one, other, LINES, {10}) == "/workspace/train.py:3"
    assert parting_of(one, _way((0, 10, 3), (0, 30, 1)), LINES, {10}) == "/workspace/train.py:1"
