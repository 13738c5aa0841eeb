"""Two jobs compared: what one rank has otherwise is named with its rank, what all have is named once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from envbuild.difference.finding import Context, Difference
from envbuild.difference.jobs import RankPair, compare_jobs
from envbuild.record.jobs import JobRecord
from envbuild.record.model import LockFacts, Output
from envbuild.record.processes import ReadFile
from tests.support.hosts import host
from tests.support.jobs import job, replaced
from tests.support.locks import small_lock
from tests.support.records import other_results, parameters, process, record, sha

OTHER: dict[str, Any] = {"outputs": other_results().outputs, "metrics": other_results().metrics}


def compared(a: JobRecord, b: JobRecord, **contexts: Context) -> Difference:
    pairs = {
        rank: RankPair(a=one, b=b.by_rank[rank], context=contexts.get(f"rank{rank}", Context()))
        for rank, one in a.by_rank.items()
        if rank in b.by_rank
    }
    return compare_jobs(a, b, pairs)


def causes(found: Difference) -> list[str]:
    return [finding.sentence for finding in found.causes]


def test_what_nobody_could_read_in_one_rank_is_not_equal() -> None:
    """The other ranks' equal results do not make it so."""
    closed = Output(path="closed", change="created", size=0, sha256=None)
    found = compared(*(replaced(job(name, 4), 2, outputs=(closed,)) for name in "CD"))
    assert found.outcome == "unknown"
    assert found.verdict == "not known: closed could not be read in either run; all else is equal"


def test_equal_jobs_have_no_cause() -> None:
    """Every rank's results are equal; where and under which number they ran is no difference."""
    found = compared(job("C", 4), job("D", 4))
    assert (found.outcome, found.causes, found.results) == ("equal", (), ())
    assert found.verdict == "bit-identical (1 output, 1 metric), in 4 ranks"
    assert "seeds" in found.same


LIBRARY = {"name": "library", "version": "1.0", "path": "/extra", "files": {"a.py": sha("0")}}
OTHER_LIBRARY = {**LIBRARY, "version": "2.0", "files": {"a.py": sha("f")}}


PLANTS: dict[str, tuple[dict[str, Any], str]] = {
    "seed": (
        {"processes": (process(path="rank 2", seed=7, generators={"torch": 7}),)},
        "rank 2: seed: 44 → 7",
    ),
    "package": (
        {"processes": (process(path="rank 2", seed=44, generators={"torch": 44}, frameworks={
            "numpy": "2.4.5", "torch": "2.13.0"
        }),)},
        "rank 2: numpy: 2.4.6 → 2.4.5",
    ),
    "package from elsewhere": (
        {"processes": (process(path="rank 2", seed=44, generators={"torch": 44}, packages=[OTHER_LIBRARY]),)},
        f"rank 2: library (not in the image): 1.0 (a.py {'0' * 12}…) → 2.0 (a.py {'f' * 12}…)",
    ),
    "module": (
        {"modules": (record().modules[0], ReadFile(path="lib/model.py", size=9, sha256=sha("f")))},
        f"rank 2: lib/model.py: sha256 {'7' * 12}… → {'f' * 12}…",
    ),
    "data shard": (
        {"reads": (ReadFile(path="shards/2.bin", size=9, sha256=sha("f")),)},
        f"rank 2: shards/2.bin: sha256 {'0' * 12}… → {'f' * 12}…",
    ),
    "declared data": ({"inputs": {"data": sha("f")}}, "rank 2: data: other content; no listing is kept of one of them"),
    "argument": (
        {"parameters": parameters("command line", learning_rate=0.2, epochs=3)},
        "rank 2: learning_rate: 0.1 (default) → 0.2 (argument)",
    ),
    "variable": (
        {"environment": {"OMP_NUM_THREADS": "4", "HF_TOKEN": "***"}}, "rank 2: OMP_NUM_THREADS: 2 → 4 (changes how"
    ),
    "machine": ({"host": host([], kernel="6.1.0")}, "rank 2: gpus: 1 × NVIDIA H200 → none"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTS)
def test_one_ranks_difference_is_named_with_its_rank(name: str) -> None:
    """First of all causes, though every rank's results differ: they add up their gradients."""
    changes, expected = PLANTS[name]
    before: dict[str, Any] = {}
    if name == "data shard":
        before = {"reads": (ReadFile(path="shards/2.bin", size=9, sha256=sha("0")),)}
    if name == "package from elsewhere":
        before = {"processes": (process(path="rank 2", seed=44, generators={"torch": 44}, packages=[LIBRARY]),)}
    a, b = (replaced(job(letter, 4, **facts), 2, **before) for letter, facts in (("C", {}), ("D", OTHER)))
    found = compared(a, replaced(b, 2, **changes))
    assert found.outcome == "different"
    assert causes(found)[0].startswith(expected), causes(found)
    assert found.causes[0].ranks == (2,)
    assert all(finding.ranks == (2,) for finding in found.causes)
    assert [finding.sentence for finding in found.results] == [
        "val_accuracy: 0.9697 → 0.9471", "model.npz: 1 of 1 tensor differs: kernel",
    ]  # fmt: skip


def test_a_locked_package_of_one_rank_is_named() -> None:
    """Its lock is another one, which only a comparison that was switched off lets pass."""
    lock = {"lock": LockFacts(file="pylock.digits.toml", sha256=sha("e"))}
    one, other = (small_lock(wheels={f"pure-{version}-py3-none-any.whl": b"x"}) for version in ("1.0", "2.0"))
    known = Context(lock_a=one, lock_b=other)
    found = compared(job("C"), replaced(job("D", **OTHER), 1, **lock), rank1=known)
    assert causes(found)[0].startswith("rank 1: pure: 1.0 → 2.0"), causes(found)


def parallel(**settings: Any) -> dict[str, Any]:
    """The processes of both ranks of a job whose gradients are added up so."""
    model = {"kind": "DistributedDataParallel", "settings": settings}
    return {f"rank{rank}": (process(path=f"rank {rank}" if rank else "", parallel=[model]),) for rank in range(2)}


def with_buckets(letter: str, facts: dict[str, Any], **settings: Any) -> JobRecord:
    found = job(letter, **facts)
    for rank in range(2):
        found = replaced(found, rank, processes=parallel(**settings)[f"rank{rank}"])
    return found


def test_another_bucket_size_is_named_before_all_else() -> None:
    """Before the argument that set it, once for all ranks; what follows from it is no cause of its own."""
    a = with_buckets("C", {}, bucket_cap_bytes=26214400, bucket_sizes="4096", rebuilt_bucket_sizes="4096")
    more = {**OTHER, "parameters": parameters("command line", learning_rate=0.2, epochs=3)}
    b = with_buckets("D", more, bucket_cap_bytes=1048576, bucket_sizes="2048, 2048", rebuilt_bucket_sizes="2048, 2048")
    found = compared(a, b)
    assert causes(found)[0] == (
        "DistributedDataParallel: bucket_cap_bytes: 26214400 → 1048576 "
        "(gradients are summed in other pieces: other bits)"
    )
    assert found.causes[0].ranks == ()
    assert causes(found)[1].startswith("learning_rate: 0.1 (default) → 0.2 (argument)"), causes(found)
    assert [each.follows for each in found.others if "bucket_sizes" in each.what] == ["bucket_cap_bytes"] * 2


def test_buckets_of_one_limit_that_are_divided_otherwise_are_named() -> None:
    """After the first step they follow the order in which gradients were ready."""
    limit = {"bucket_cap_bytes": 1024, "bucket_sizes": "512, 512"}
    a = with_buckets("C", {}, **limit, rebuilt_bucket_sizes="512, 512")
    found = compared(a, with_buckets("D", OTHER, **limit, rebuilt_bucket_sizes="256, 768"))
    assert causes(found)[0].startswith("DistributedDataParallel: rebuilt_bucket_sizes: 512, 512 → 256, 768 (gradients")


def test_a_run_that_was_killed_has_no_rebuilt_buckets() -> None:
    """That it has none to compare is no other division."""
    limit = {"bucket_cap_bytes": 1024, "bucket_sizes": "512, 512"}
    a = with_buckets("C", {}, **limit, rebuilt_bucket_sizes="512, 512")
    found = compared(a, with_buckets("D", OTHER, **limit))
    assert [each for each in (*found.causes, *found.others) if "bucket" in each.what] == []


def test_a_limit_that_changes_no_bucket_is_a_minor_cause() -> None:
    """A model that fits into one bucket either way is summed in the same pieces."""
    a, b = (
        with_buckets(letter, facts, bucket_cap_bytes=cap, bucket_sizes="512")
        for letter, facts, cap in (("C", {}, 4096), ("D", OTHER, 8192))
    )
    assert max(each.weight for each in compared(a, b).causes) < 50


def test_what_all_ranks_have_is_named_once() -> None:
    """Another seed of the job is another seed of each rank: one cause of each, without a process's name."""
    b = job("D", 3, **OTHER, parameters=parameters(learning_rate=0.2, epochs=3))
    assert causes(compared(job("C", 3), b)) == ["learning_rate: 0.1 (default) → 0.2 (default)"]
    loss = {"metrics": {"loss": ((0, 0.5),)}}
    b = replaced(job("D", 3, **loss), 1, metrics={"loss": ((0, 0.6),)})
    found = compared(job("C", 3, **loss), b)
    assert [finding.sentence for finding in found.results] == ["rank 1: loss: 0.5 → 0.6"]
    assert found.verdict.startswith("nothing recorded differs")


def test_another_number_of_ranks_is_one_cause() -> None:
    """Before all others; of the ranks that both have nothing is said to differ because of it."""
    found = compared(job("C", 2), job("D", 4, **OTHER))
    assert causes(found) == [
        "number of ranks: 2 → 4 (batches and sums are split by it, and each rank has its seed: other bits)"
    ]
    alone = JobRecord(ranks=(record(processes=(process(generators={"torch": 42}),)),))
    assert causes(compared(alone, job("D", 2, **OTHER)))[0].startswith("number of ranks: 1 → 2")
    equal = compared(job("C", 2), job("D", 4))
    assert equal.verdict == "bit-identical (1 output, 1 metric), in the 2 ranks that both have"


def test_other_machines_are_told_apart_from_another_spread() -> None:
    """The same ranks on other machines cannot matter by itself; fewer of them on each machine can."""
    a, b = job("C", 4), job("D", 4, per_node=1, **OTHER)
    assert causes(compared(a, b)) == [
        "ranks on each machine: 2, 2 → 1, 1, 1, 1 (sums over machines may take another order)"
    ]
    ranks = [msgspec.structs.replace(each.rank, hosts=("x", "x", "y", "y")) for each in a.ranks if each.rank]
    moved = JobRecord(
        ranks=tuple(msgspec.structs.replace(each, rank=rank) for each, rank in zip(a.ranks, ranks, strict=True))
    )
    found = compared(a, moved)
    assert (found.outcome, [finding.sentence for finding in found.others]) == (
        "equal",
        ["machines: node1, node2 → x, y"],
    )


def test_what_an_earlier_run_left_matters_if_no_rank_has_another_cause() -> None:
    """A cause of one rank is reason enough for all."""
    left = (msgspec.structs.replace(other_results().outputs[0], change="changed"),)
    a, b = job("C"), job("D", outputs=left)
    assert [cause.partition(":")[0] for cause in causes(compared(a, b))] == ["model.npz at the start"]
    seed = replaced(b, 1, processes=(process(path="rank 1", seed=7, generators={"torch": 7}),))
    assert [cause.partition(" 4")[0] for cause in causes(compared(a, seed))] == ["rank 1: seed:"]


def test_a_rank_without_a_record_is_not_equal() -> None:
    """What is not known is not called equal; a difference that is known stays one."""
    found = compared(job("C", 3), job("D", 3, without=(2,)))
    assert (found.outcome, found.verdict) == ("unknown", "B has no record of rank 2 (node2)")
    assert found.unknown[0] == "rank 2 (node2) (no record in B)"
    found = compared(job("C", 3), replaced(job("D", 3), 1, state="running", outputs=()))
    assert (found.outcome, found.verdict) == (
        "unknown", "rank 1 (node1): B has no results: it has not ended, or envbuild was killed",
    )  # fmt: skip
    found = compared(job("C", 3), replaced(job("D", 3), 1, exit_code=3, metrics={}))
    assert "rank 1: the program: ok → exit 3" in [finding.sentence for finding in found.results]


def test_ranks_that_leave_nothing_do_not_matter() -> None:
    """Only rank 0 saves the model and prints; its results are the job's."""
    nothing: dict[str, Any] = {"outputs": (), "metrics": {}}
    a, b = (replaced(job(letter), 1, **nothing) for letter in "CD")
    assert compared(a, b).outcome == "equal"
    other = Output(path="model.npz", change="created", size=9, sha256=sha("d"))
    assert compared(a, replaced(b, 0, outputs=(other,))).outcome == "different"


def test_outputs_that_were_read_too_early_are_named() -> None:
    """A rank that had not heard of the others' end may lack their last files: with a difference that is reported."""
    a, b = job("C"), job("D", **OTHER)
    place = b.by_rank[1].rank
    assert place is not None
    second = msgspec.structs.replace(b.by_rank[1], rank=msgspec.structs.replace(place, waited=False))
    early = JobRecord(ranks=(b.by_rank[0], second))
    assert compared(a, b).outcome == compared(a, early).outcome == "different"
    phrase = "files that other ranks wrote last (rank 1 (node1) had not heard of their end in B)"
    assert phrase in compared(a, early).unknown
    assert phrase not in compared(a, b).unknown
