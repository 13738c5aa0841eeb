"""Records of one start are one job; each run by itself stays what it is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from envbuild.cluster.rank import LARGEST_WORLD, Rank
from envbuild.record import history
from envbuild.record.jobs import JobRecord, group, join, merged, ranks_text, same_bits
from envbuild.record.model import Output, RecordError
from tests.support.jobs import job, replaced
from tests.support.records import A, record, sha


def saved(project: Path, *jobs: JobRecord) -> None:
    for each in jobs:
        for one in each.ranks:
            history.save(project, one)


def test_records_of_one_start_are_one_job() -> None:
    """Newest first, each job by its first rank; runs by themselves and ranks that were not compared stay alone."""
    four, again, alone = job("C", 4), job("D", 4, without=(2,)), record(A)
    unchecked = record("01JE" + "0" * 22, rank=Rank(launcher="Slurm", rank=1, world=4))
    mixed = [*reversed(four.ranks), alone, *again.ranks, unchecked]
    found = group(mixed)
    assert [(each.first.id[:4], len(each.ranks), each.world) for each in found] == [
        ("01JE", 1, 1), ("01JD", 3, 4), ("01JC", 4, 4), ("01JC", 1, 1),
    ]  # fmt: skip
    assert [tuple(each.by_rank) for each in found] == [(0,), (0, 1, 3), (0, 1, 2, 3), (0,)]
    assert [each.missing for each in found] == [(), (2,), (), ()]
    assert ranks_text(found[1], found[1].missing) == "rank 2 (node2)"
    assert ranks_text(found[2], (0, 1, 3)) == "ranks 0-1 (node1), 3 (node2)"


def test_a_record_that_lies_takes_no_memory_and_no_place() -> None:
    """A record is data from outside: of two that claim one rank one counts, and a job has no more ranks than can be."""
    two = job("C")
    (rank,) = [each.rank for each in two.ranks[:1]]
    assert rank is not None
    huge = msgspec.structs.replace(rank, world=10**12)
    assert JobRecord(ranks=(record(rank=huge),)).world == LARGEST_WORLD
    twice = join([*two.ranks, record("01JF" + "0" * 22, rank=rank)])
    assert twice == two


def test_any_rank_names_the_job(tmp_path: Path) -> None:
    """By any beginning that is of one job's ranks only; ``:1`` names one rank."""
    saved(tmp_path, job("C", 3), job("D", 3, without=(1,)), JobRecord(ranks=(record("01JE" + "0" * 22),)))
    for name in ("01JC0000000", "01jc00000", "01JC0000002", job("C", 3).ranks[1].id):
        assert [each.id[:11] for each in history.find_job(tmp_path, name).ranks] == [
            "01JC0000000", "01JC0000001", "01JC0000002",
        ]  # fmt: skip
    one = history.find_job(tmp_path, "01JC:2")
    assert (one.ranks, one.start, one.world, one.missing) == ((job("C", 3).ranks[2],), "", 1, ())
    assert history.find_job(tmp_path, "01JE:0").first.id.startswith("01JE")
    with pytest.raises(RecordError, match="6 runs begin with '01J'"):
        history.find_job(tmp_path, "01J")
    with pytest.raises(RecordError) as caught:
        history.find_job(tmp_path, "01JD:1")
    assert (caught.value.message, caught.value.hint) == (
        "run 01JD000000 has no record of rank '1'", "there is ranks 0 (node1), 2 (node2)",
    )  # fmt: skip
    for name in ("01JC:", "01JC:x", "01JC:-1", "01JC:1:1", "01JC:9999999999"):
        with pytest.raises(RecordError):
            history.find_job(tmp_path, name)


def test_a_damaged_rank_is_missing(tmp_path: Path) -> None:
    """The others are shown without it."""
    saved(tmp_path, job("C", 3))
    file = tmp_path / ".envbuild" / "runs" / job("C", 3).ranks[1].id / "record.json"
    file.write_bytes(file.read_bytes()[:-9])
    assert history.find_job(tmp_path, "01JC0000000").missing == (1,)


def test_the_bits_of_a_job_are_those_of_all_its_ranks() -> None:
    """The same as an earlier job's, if each rank's are the same as that job's; else the ranks that differ are named."""
    first, second = job("C"), job("D")
    ids = [each.id for each in first.ranks]
    same = JobRecord(
        ranks=tuple(
            msgspec.structs.replace(one, same_bits_as=other) for one, other in zip(second.ranks, ids, strict=True)
        )
    )
    assert same_bits([first, same], same) == (ids[0], ())
    other = replaced(same, 1, same_bits_as="", differs_from=ids[1], differs_in=("a",))
    assert same_bits([first, other], other) == (ids[0], (1,))
    assert same_bits([first, same], replaced(same, 1, same_bits_as="")) == ("", ())
    assert same_bits([first, same], replaced(same, 1, same_bits_as="01JB" + "0" * 22)) == ("", ())


def test_one_record_of_all_ranks() -> None:
    """Files of all ranks, metrics of other ranks where they differ, processes under their paths, the worst end."""
    extra = Output(path="a.txt", change="created", size=1, sha256=sha("c"))
    loss = ((0, 0.5),)
    two = job("C", metrics={"loss": loss})
    two = replaced(
        two,
        1,
        outputs=(*two.first.outputs, extra),
        exit_code=3,
        duration=70.0,
        metrics={"loss": ((0, 0.6),), "x": loss},
    )
    found = merged(two)
    assert (found.id, found.exit_code, found.duration) == (two.first.id, 3, 70.0)
    assert [output.path for output in found.outputs] == ["a.txt", "model.npz"]
    assert found.metrics == {"loss": loss, "rank 1: loss": ((0, 0.6),), "rank 1: x": loss}
    assert [process.path for process in found.processes] == ["", "rank 1"]
    assert merged(JobRecord(ranks=(two.first,))) == two.first
