"""Workflows of Snakemake: which job ended first is luck, what jobs were and gave counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envbuild.verification.content import Content, compare, read, read_file
from envbuild.verification.masking.masks import Masks

_NOW = 1_795_784_283.0  # 12:58:03 UTC


def _why(one: Content | None, other: Content | None) -> str:
    """Return what differs first; empty if the contents are equal."""
    assert one is not None
    assert other is not None
    difference = compare(one, other)
    return "" if difference.same else difference.why or "the digest"


_DATE = "[Fri Nov 27 12:58:00 2026]\n"


def _job(number: int, *, count: int = 1) -> str:
    return f"""[Fri Nov 27 12:58:0{number} 2026]
localrule train:
    output: out/score-{number}.txt
    jobid: {number}
[Fri Nov 27 12:58:0{number} 2026]
Finished jobid: {number} (Rule: train)
{count} of 2 steps done
"""


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (_job(2) + _job(1, count=2), True),
        (_job(1) + _job(3, count=2), False),
        (_job(1), False),
        (_job(1) + _job(2, count=2) + "Error in rule train:\n", False),
        (_job(1) + _job(2, count=2).replace("train", "test"), False),
    ],
)
def test_a_log_has_jobs_in_any_order(tmp_path: Path, text: str, same: bool) -> None:
    """All lines count but for their order and their times."""
    found = []
    for run, each in enumerate((_job(1) + _job(2, count=2), text)):
        log = tmp_path / str(run) / ".snakemake" / "log" / "2026-11-27T125802.863608.snakemake.log"
        log.parent.mkdir(parents=True)
        log.write_text(each)
        found.append(read_file(log, Masks(_NOW)))
        assert found[-1] is not None
        assert found[-1].unordered
    assert (_why(*found) == "") is same


def test_jobs_keep_their_lines(tmp_path: Path) -> None:
    """Which output came of which job is no matter of luck."""
    found = []
    for run, outputs in enumerate(("ab", "ba")):
        log = tmp_path / str(run) / ".snakemake" / "log" / "2026-11-27T125802.863608.snakemake.log"
        log.parent.mkdir(parents=True)
        jobs = zip(outputs, ("0.1", "0.2"), strict=True)
        log.write_text("".join(f"rule train:\n    output: {name}\n    wildcards: lr={rate}\n" for name, rate in jobs))
        found.append(read_file(log, Masks(_NOW)))
    assert "lr=0.1" in _why(*found)


@pytest.mark.parametrize(
    ("texts", "same"),
    [
        (("alpha wins\nbeta wins\n", "beta wins\nalpha wins\n"), False),
        (("Score: 1\n  of a\nScore: 2\n", "Score: 2\nScore: 1\n  of a\n"), False),
        (("Select jobs to execute...\nExecute 1 jobs...\n", "Execute 1 jobs...\nSelect jobs to execute...\n"), True),
        (("x\nExecute 1 jobs...\ny\n", "Execute 1 jobs...\nx\ny\n"), True),
        (("x\nExecute 1 jobs...\ny\n", "y\nExecute 1 jobs...\nx\n"), False),
        (("rule a: x\nrule b: y\n", "rule b: y\nrule a: x\n"), False),
        (("Job 1: model a\nJob 2: model b\n", "Job 2: model b\nJob 1: model a\n"), False),  # a ranking
        ((f"{_DATE}Job 1: a\n{_DATE}Job 2: b\n", f"{_DATE}Job 2: b\n{_DATE}Job 1: a\n"), True),  # rules' messages
    ],
)
def test_only_lines_of_jobs_come_in_any_order(tmp_path: Path, texts: tuple[str, str], *, same: bool) -> None:
    """All others are in the order in which something printed them."""
    found = []
    for run, text in enumerate(texts):
        log = tmp_path / str(run) / ".snakemake" / "log" / "2026-11-27T125802.863608.snakemake.log"
        log.parent.mkdir(parents=True)
        log.write_text(text)
        found.append(read_file(log, Masks(_NOW)))
    assert (_why(*found) == "") is same


def test_other_logs_have_an_order(tmp_path: Path) -> None:
    """The place and the name decide."""
    found = []
    for run, text in enumerate(("a 1\nb 2\n", "b 2\na 1\n")):
        log = tmp_path / str(run) / "log" / "x.snakemake.log"
        log.parent.mkdir(parents=True)
        log.write_text(text)
        found.append(read_file(log, Masks(_NOW)))
    assert _why(*found) != ""


def _metadata(run: int = 0, **changed: Any) -> Content | None:
    table = {
        "rule": "summary", "input": ["a"], "shellcmd": "cat a > b", "job_hash": 8761449924435 + run,
        "starttime": _NOW + run,"endtime": _NOW + run + 0.5, "incomplete": False, "input_checksums": {"a": "sha256:b7"},
    }  # fmt: skip
    return read(json.dumps({**table, **changed}).encode(), Masks(_NOW))


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"shellcmd": "cat c"}, False),
        ({"input_checksums": {"a": "sha256:b8"}}, False),
        ({"rule": "x"}, False),
    ],
)
def test_what_is_kept_of_an_output(changed: dict[str, Any], same: bool) -> None:
    """The address of the job is left out, next to what Snakemake has next to it alone."""
    assert (_why(_metadata(), _metadata(1, **changed)) == "") is same
    one, other = (read(json.dumps({"rule": "x", "job_hash": at}).encode(), Masks(_NOW)) for at in (1, 2))
    assert _why(one, other) != ""


_COLUMNS = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time"
_ROW = "2.60\t0:00:02\t160.54\t358.00\t105.38\t123.36\t3.05\t0.02\t38.84\t1.23"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (f"{_COLUMNS}\n{_ROW.replace('2.60', '0.01').replace('160.54', '-').replace('38.84', 'NA')}\n", True),
        (f"{_COLUMNS}\n{_ROW}\n{_ROW}\n", False),
        (f"{_COLUMNS}\n{_ROW.replace('38.84', '-38.84')}\n", False),
        (f"{_COLUMNS}\n{_ROW.replace('38.84', 'failed')}\n", False),
    ],
)
def test_benchmarks(text: str, same: bool) -> None:
    """All of their columns are measured; how many rows there are counts."""
    one, other = (read(each.encode(), Masks(_NOW)) for each in (f"{_COLUMNS}\n{_ROW}\n", text))
    assert (_why(one, other) == "") is same


@pytest.mark.parametrize(("column", "same"), [("rule_name", False), ("jobid", False)])
def test_further_columns_of_benchmarks_count(column: str, same: bool) -> None:
    """``--benchmark-extended`` has what the job was."""
    one, other = (read(f"{_COLUMNS}\t{column}\n{_ROW}\t{value}\n".encode(), Masks(_NOW)) for value in ("train", "test"))
    assert (_why(one, other) == "") is same
