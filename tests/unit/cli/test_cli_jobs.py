"""``runs``, ``show``, ``diff`` and ``report`` of jobs of several ranks: one run each, differences with their ranks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from envbuild import cli
from envbuild.record import history
from envbuild.record.jobs import JobRecord
from tests.support.jobs import job, replaced
from tests.support.pages import Page
from tests.support.records import other_results, parameters, record
from tests.support.traces import make_trace

pytestmark = pytest.mark.usefixtures("standing_in_a_project")


def saved(*jobs: JobRecord) -> None:
    for each in jobs:
        for one in each.ranks:
            history.save(Path(), one)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert cli.main([*arguments]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_a_job_is_one_line_of_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """With the number of ranks, and the ranks that failed or left no record; its bits are those of all ranks."""
    first = job("C", 4)
    again = job("D", 4)
    for rank, one in enumerate(first.ranks):
        again = replaced(again, rank, same_bits_as=one.id)
    failed = replaced(job("E", 4, without=(3,)), 1, exit_code=3, duration=3720.0)
    saved(first, again, failed, JobRecord(ranks=(record("01JF" + "0" * 22),)))
    lines = [re.sub(r"2026-01-02 05:04:05 +", "", line) for line in shown(capsys, "runs").splitlines()[1:]]
    assert [re.split(r"  +", line) for line in lines] == [
        ["01JF000000", "1 min 0 s", "ok", "python train.py"],
        ["01JE000000", "1 h 2 min", "rank 1 exit 3, no record of rank 3, of 4 ranks", "python train.py"],
        ["01JD000000", "1 min 0 s", "ok, 4 ranks", "same as 01JC000000", "python train.py"],
        ["01JC000000", "1 min 0 s", "ok, 4 ranks", "python train.py"],
    ]
    assert len(json.loads(shown(capsys, "runs", "--json"))) == 12


def test_a_job_claims_no_more_than_was_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """If one rank's printed lines could not be compared, the job has the same files."""
    first, again = job("C", 2), job("D", 2)
    for rank, one in enumerate(first.ranks):
        again = replaced(again, rank, same_bits_as=one.id)
    saved(first, replaced(again, 1, not_compared=("printed lines\n",)))
    assert "  same files as 01JC000000  " in shown(capsys, "runs")
    assert re.search(
        r"^files +same as run 01JC0{22}\n +not compared: printed lines\\n$", shown(capsys, "show", "01JD"), re.M
    )


def test_a_job_is_shown_with_all_its_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each rank, what all share once, and what one has otherwise with its rank."""
    other = other_results().outputs
    found = replaced(job("C", 3), 2, parameters=parameters("command line", learning_rate=0.2, epochs=3), outputs=other)
    saved(found)
    text = shown(capsys, "show", "01JC0000002")
    assert text == shown(capsys, "show", "01JC")
    assert re.search(r"^run +01JC00000000{15} +ok, 3 ranks$", text, re.M), text
    assert re.search(r"^ranks +3 by Slurm, job 7/0 +machines compared$", text, re.M), text
    ranks = [re.split(r"  +", line) for line in text.splitlines() if line.startswith("rank ")]
    assert ranks == [
        ["rank", str(rank), f"01JC00000{rank:02d}" + "0" * 15, f"on {host}, number {rank % 2} of 2 there", "ok",
         "1 min 0 s", "guard 40 ms", f"seed {42 + rank}"]
        for rank, host in enumerate(("node1", "node1", "node2"))
    ]  # fmt: skip
    assert len(re.findall("^image ", text, re.M)) == len(re.findall("^host ", text, re.M)) == 1
    assert re.search(r"^parameter +learning_rate +0\.1 +default +in ranks 0-1 \(node1\)$", text, re.M), text
    assert re.search(r"^parameter +learning_rate +0\.2 +command line +in rank 2 \(node2\)$", text, re.M), text
    assert len(re.findall(r"^output +model\.npz ", text, re.M)) == 2


def test_one_rank_is_shown_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    """Its record as it is; a job as JSON has all records and names those that are not there."""
    two = job("C", 3, without=(1,))
    saved(two)
    text = shown(capsys, "show", "01JC:2")
    assert re.search(r"^rank +2 of 3 +by Slurm, job 7/0 +on node2, number 0 of 2 there", text, re.M), text
    assert json.loads(shown(capsys, "show", "01JC:2", "--json"))["id"] == two.ranks[1].id
    found = json.loads(shown(capsys, "show", "01JC", "--json"))
    assert (found["start"], found["world"], found["missing"]) == ("43" * 16, 3, [1])
    assert [each["rank"]["rank"] for each in found["ranks"]] == [0, 2]
    assert "rank      1  no record\n" in shown(capsys, "show", "01JC")


def test_the_newest_two_jobs_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """As two runs are: not two ranks of one job; one name compares with the job before it."""
    changed = {"outputs": other_results().outputs, "metrics": other_results().metrics}
    saved(job("B"), job("C"), replaced(job("D", **changed), 1, environment={"OMP_NUM_THREADS": "4", "HF_TOKEN": "***"}))
    text = shown(capsys, "diff", code=16)
    assert text.startswith(
        "A         01JC000000  2026-01-02 05:04:05  2 ranks  python train.py\n"
        "B         01JD000000  2026-01-02 05:04:05  2 ranks  python train.py\n"
    )
    assert "because   rank 1: OMP_NUM_THREADS  2 → 4 (changes how work is split: other bits)\n" in text
    assert shown(capsys, "diff", "01JD0000001", code=16) == text
    assert "results   bit-identical (1 output, 1 metric), in 2 ranks\n" in shown(capsys, "diff", "01JB", "01JC")
    found = json.loads(shown(capsys, "diff", "--json", code=16))
    assert [(cause["what"], cause["ranks"]) for cause in found["causes"]] == [("OMP_NUM_THREADS", [1])]


def test_single_ranks_can_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """Two ranks of one job, and one rank of two jobs; a job with itself is refused with that hint."""
    saved(job("C"), job("D"))
    text = shown(capsys, "diff", "01JC:0", "01JC:1")
    assert "although  rank              0 of 2 → 1 of 2 (each has its seed and its share of the work)\n" in text
    text = shown(capsys, "diff", "01JC:1", "01JD:1")
    assert "results   bit-identical (1 output, 1 metric)\n" in text
    assert cli.main(["diff", "01JC", "01JC0000001"]) == 2
    assert "envbuild diff 01JC000000:0 01JC000000:1" in capsys.readouterr().err
    assert cli.main(["diff", "--bisect", "01JC", "01JD"]) == 2
    assert "a job of 2 ranks is started by its launcher" in capsys.readouterr().err


def traced(found: JobRecord, rank: int, batches: list[int], *values: float) -> None:
    """Leave the step trace of a rank: one tensor, with the digest of each step's data."""
    folder = history.process_folder(Path(), found.ranks[rank].id)
    path = f"rank {rank}" if rank else ""
    make_trace(folder, [{"w": [value]} for value in values], process=path, batches=batches)


def test_the_first_divergence_names_rank_and_step(capsys: pytest.CaptureFixture[str]) -> None:
    """All ranks part at one step, since they add up gradients: the one whose data was another counts."""
    a, b = job("C", 3), job("D", 3, outputs=other_results().outputs)
    saved(a, b)
    for rank in range(3):
        traced(a, rank, [10 + rank, 20 + rank, 30 + rank], 1.0, 0.9, 0.8, 0.7)
        traced(b, rank, [10 + rank, 20 + rank + (rank == 1), 30 + rank], 1.0, 0.9, 0.75, 0.6)
    text = shown(capsys, "diff", code=16)
    assert re.search(
        r"^first +rank 1: step 2, tensor w .*; the data that went into the step differed; "
        r"ranks 0, 2 at the same step, where the data was equal$",
        text,
        re.M,
    ), text
    first = json.loads(shown(capsys, "diff", "--json", code=16))["first"]
    assert (first["process"], first["step"], first["batch"]) == ("rank 1", 2, True)


def test_a_report_of_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    """Each job is one run of the page: a table of its ranks, hosts and causes with their ranks."""
    b = job("D", 3, outputs=other_results().outputs, metrics={"loss": ((0, 0.5), (1, 0.4))})
    b = replaced(b, 2, metrics={"loss": ((0, 0.5), (1, 0.3))}, environment={})
    saved(job("C", 3, metrics={"loss": ((0, 0.5), (1, 0.4))}), b)
    assert re.search(r"report +report\.html +2 runs", shown(capsys, "report", "01JC", "01JD0000001"))
    page = Path("report.html").read_text()
    Page(page.encode())
    assert "rank 2: OMP_NUM_THREADS" in page
    assert "rank 2: loss" in page
    assert "node2 · ok · seed 44" in page
