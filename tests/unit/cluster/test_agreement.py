"""Are the ranks of a job alike: the comparison, and the folder where they meet."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.cluster import agreement, exchange
from envbuild.cluster.agreement import Answer, Verdict, compare, ranks_text
from envbuild.cluster.exchange import Exchange
from envbuild.cluster.rank import Rank
from envbuild.errors import JobError

FACTS = {
    "image": "a" * 64,
    "lock": "b" * 64,
    "cpu": "x86-64-v3",
    "cpu.flags": "avx avx2 fma",
    "gpu.driver": "580.159.04",
    "gpu.model": "NVIDIA H200",
}


def answer(rank: int, host: str = "", **facts: str) -> Answer:
    """An answer of a rank; two ranks a node."""
    changed = {name.replace("_", "."): value for name, value in facts.items()}
    return Answer(
        start="0" * 32,
        nonce=f"{rank:032x}",
        rank=rank,
        host=host or f"node{rank // 2 + 1}",
        address=f"10.0.0.{rank}",
        facts=FACTS | changed,
    )


def text(verdict: Verdict) -> str:
    """The table as one text, columns separated by one space."""
    return "\n".join(" ".join(line.split()) for line in verdict.lines)


def test_equal_ranks_may_start() -> None:
    """Nothing is reported; every rank finds its own answer, and where each rank runs."""
    verdict = compare([answer(rank) for rank in range(4)], 4)
    assert (verdict.lines, verdict.mismatch, verdict.allowed) == ((), False, ())
    assert verdict.hosts == ("node1", "node1", "node2", "node2")
    assert verdict.address == "10.0.0.0"
    assert verdict.nonces == {str(rank): f"{rank:032x}" for rank in range(4)}


def test_one_other_node_stops_all() -> None:
    """The table has both values, the more frequent one first, with ranks and nodes."""
    answers = [answer(0), answer(1), answer(2), answer(3, "node9", gpu_driver="570.86.15", cpu_flags="avx avx512f")]
    verdict = compare(answers, 4)
    assert verdict.mismatch
    assert text(verdict).splitlines() == [
        "field found where",
        "cpu.flags avx2 fma rank 0-1 (node1), 2 (node2)",
        "avx512f rank 3 (node9)",
        "gpu.driver 580.159.04 rank 0-1 (node1), 2 (node2)",
        "570.86.15 rank 3 (node9)",
    ]


def test_a_difference_may_be_allowed() -> None:
    """By its name, as the guard's; and never an image or a lock."""
    answers = [answer(0), answer(1, gpu_driver="570.86.15", image="c" * 64)]
    verdict = compare(answers, 2, ("gpu.driver", "image"))
    assert verdict.mismatch
    assert verdict.allowed == ("gpu.driver",)
    assert "gpu.driver" not in text(verdict)
    assert "image" in text(verdict)


def test_what_a_guard_refuses_stops_all() -> None:
    """Each machine once, not each rank."""
    refused = tuple(msgspec.structs.replace(answer(rank), refused=("kernel: locked >=6, found 5",)) for rank in (0, 1))
    verdict = compare([*refused, answer(2)], 3)
    assert verdict.mismatch
    assert text(verdict) == "node1 does not match the lock: kernel: locked >=6, found 5"


def test_a_rank_without_facts_is_compared_in_nothing() -> None:
    """Its data was not as locked, and it went no further: that is the reason, not the facts that it did not collect."""
    verdict = compare([answer(0), msgspec.structs.replace(answer(1), refused=("data",), facts={})], 2)
    assert verdict.mismatch
    assert text(verdict) == "node1 does not match the lock: data"


def test_a_rank_that_cannot_start_is_no_mismatch() -> None:
    """Its own reason is reported: another attempt may succeed, so the exit code is another one."""
    verdict = compare([answer(0), msgspec.structs.replace(answer(1), failed="the disk is full", facts={})], 2)
    assert not verdict.mismatch
    assert text(verdict) == "rank 1 (node1) cannot start: the disk is full"


def test_a_rank_that_did_not_arrive_is_named() -> None:
    """With what did arrive."""
    verdict = compare([answer(0), answer(4)], 6)
    assert not verdict.mismatch
    assert text(verdict) == "did not arrive: rank 1-3, 5 of 6; arrived from: node1, node3"


def test_the_message_is_short_and_harmless() -> None:
    """A thousand ranks with hostile names make a table of bounded size without control characters."""
    answers = [answer(rank, f"\x1b[2J{rank}" + "x" * 200, gpu_model=f"\x07{rank}" * 900) for rank in range(1000)]
    verdict = compare(answers, 1000)
    assert len(verdict.lines) == agreement.ROWS + 1
    assert all(len(line) <= 1000 and line.isprintable() for line in verdict.lines)


def test_ranks_are_written_by_machine() -> None:
    """Neighbours as a range."""
    assert ranks_text([3, 0, 1, 7], {0: "a", 1: "a", 3: "a", 7: "b"}) == "0-1, 3 (a), 7 (b)"


class Clock:
    """Time that passes while somebody sleeps, and in no other way."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def rank(number: int, world: int = 3, job: str = "7/0") -> Rank:
    """A rank of a job."""
    return Rank(launcher="Slurm", rank=number, world=world, host=f"node{number}", job=job)


def meet(folder: Path, *answers: Answer, world: int = 3) -> list[Verdict]:
    """Let ranks meet, all at once; nobody waits for the clock."""
    folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor(len(answers)) as pool:
        meetings = [Exchange(folder, (".envbuild",), rank(each.rank, world), 600.0) for each in answers]
        return list(pool.map(lambda pair: pair[0].agree(pair[1]), zip(meetings, answers, strict=True)))


def test_ranks_meet(tmp_path: Path) -> None:
    """All get one verdict, again and again under the same key; the folder is the user's alone."""
    starts = set()
    for _ in range(5):
        verdicts = meet(tmp_path / "p", *(answer(number) for number in range(3)))
        assert verdicts[0] == verdicts[1] == verdicts[2]
        assert verdicts[0].lines == ()
        starts.add(verdicts[0].start)
    assert len(starts) == 5
    (folder,) = (tmp_path / "p" / ".envbuild" / "ranks").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())


def test_all_hear_of_a_mismatch(tmp_path: Path) -> None:
    """One other driver, and every rank has the same table."""
    verdicts = meet(tmp_path, answer(0), answer(1), answer(2, gpu_driver="1"))
    assert {verdict.lines for verdict in verdicts} == {verdicts[0].lines}
    assert verdicts[0].mismatch


def test_what_an_earlier_start_left_does_not_count(tmp_path: Path) -> None:
    """Under the same key an old answer is no arrival, and an old verdict is not taken."""
    meet(tmp_path, *(answer(number) for number in range(3)))
    clock = Clock()
    lead = Exchange(tmp_path, (".envbuild",), rank(0), 5.0, clock, clock.sleep)
    assert "did not arrive: rank 1-2" in text(lead.agree(answer(0)))
    clock = Clock()
    follow = Exchange(tmp_path, (".envbuild",), rank(1), 5.0, clock, clock.sleep)
    with pytest.raises(JobError, match="rank 0 gave no verdict within 35 s"):
        follow.agree(answer(1))


def test_a_rank_without_others_says_so(tmp_path: Path) -> None:
    """Rank 0 is named where it never came."""
    clock = Clock()
    follow = Exchange(tmp_path, (".envbuild",), rank(2), 5.0, clock, clock.sleep)
    with pytest.raises(JobError, match=r"rank 0 did not arrive within 35 s.*\n.*rank 2 of 3 on node2"):
        follow.agree(answer(2))


HOSTILE: list[Any] = [
    b"",
    b"{",
    b"[" * 100_000,
    b'{"start": 1}',
    b"x" * (2 << 20),
    {"rank": 2},
    {"rank": -1},
    {"nonce": "../../etc/passwd"},
    {"facts": {str(number): "" for number in range(100)}},
    {"facts": {"cpu": "x" * 5000}},
    {"refused": [1]},
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_a_damaged_answer_is_none(tmp_path: Path, content: Any) -> None:
    """What is no answer of that rank counts as if it had not come: no traceback, no wrong rank."""

    class Writer(Clock):
        """Answers the call with what is hostile, as soon as there is one."""

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            (call,) = tmp_path.glob("ranks/*/call.json")
            start = json.loads(call.read_bytes())["start"]
            table = msgspec.to_builtins(answer(1)) | {"start": start}
            data = content if isinstance(content, bytes) else json.dumps(table | content).encode()
            call.with_name("answer-1.json").write_bytes(data)

    clock = Writer()
    lead = Exchange(tmp_path, (), rank(0, 2), 1.0, clock, clock.sleep)
    assert "did not arrive: rank 1 of 2" in text(lead.agree(answer(0)))


def test_links_and_pipes_are_no_answers(tmp_path: Path) -> None:
    """A link is not followed, and nobody waits for a pipe."""

    class Writer(Clock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            (call,) = tmp_path.glob("ranks/*/call.json")
            start = json.loads(call.read_bytes())["start"]
            real = tmp_path / "real.json"
            real.write_bytes(msgspec.json.encode(msgspec.structs.replace(answer(1), start=start)))
            if not os.path.lexists(call.with_name("answer-1.json")):
                call.with_name("answer-1.json").symlink_to(real)
                os.mkfifo(call.with_name("answer-2.json"))

    clock = Writer()
    lead = Exchange(tmp_path, (), rank(0), 1.0, clock, clock.sleep)
    assert "did not arrive: rank 1-2 of 3" in text(lead.agree(answer(0)))


def test_files_of_another_user_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that belongs to somebody else is refused."""
    monkeypatch.setattr(exchange.os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    clock = Clock()
    with pytest.raises(JobError, match="it belongs to another user"):
        Exchange(tmp_path, (), rank(0), 1.0, clock, clock.sleep).agree(answer(0))


def test_the_ends_are_exchanged(tmp_path: Path) -> None:
    """Each rank learns the exit codes of all, of this start only."""
    for _ in range(2):
        meetings = [Exchange(tmp_path, (), rank(number), 600.0) for number in range(3)]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda meeting, number: meeting.agree(answer(number)), meetings, range(3)))
            found = list(pool.map(lambda meeting, code: meeting.ended(code, 600.0), meetings, (0, 1, 137)))
        assert found == [{0: 0, 1: 1, 2: 137}] * 3
        late = Exchange(tmp_path, (), rank(0), 600.0)
        late.start = "f" * 32
        assert late.ended(0, 0.0) == {0: 0}


def test_the_ends_of_many_ranks_are_read_from_one_file(tmp_path: Path) -> None:
    """Rank 0 collects them: the others need no file of each; if rank 0 was killed, they read those after all."""
    world = exchange._FEW + 8
    everybody = range(world)
    for killed in (False, True):
        meetings = [Exchange(tmp_path, (), rank(number, world), 600.0) for number in everybody]
        with ThreadPoolExecutor(world) as pool:
            list(pool.map(lambda meeting, number: meeting.agree(answer(number)), meetings, everybody))
        lead, *others = meetings
        first = 1 if killed else 0
        for meeting in others[:-1]:
            meeting.ended(0, 0.0)
        (folder,) = (tmp_path / "ranks").iterdir()
        files = sorted(folder.glob(f"ended-{lead.start}-*.json"))
        if not killed:
            last = Exchange(tmp_path, (), rank(world - 1, world), 600.0)
            last.start, last._nonces, last._nonce = lead.start, lead._nonces, others[-1]._nonce
            last.ended(7, 0.0)
            assert lead.ended(0, 600.0) == {number: 7 * (number == world - 1) for number in everybody}
            for file in files:
                file.unlink()
        clock = Clock()
        others[-1]._clock, others[-1]._sleep = clock, clock.sleep
        assert sorted(others[-1].ended(7, 30.0)) == list(range(first, world))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads look often: nothing is asserted about time."""
    monkeypatch.setattr(exchange, "_LATEST", 0.02)
