"""Numbers that are left out by their unit alone are quoted, whichever run printed another one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.operations.verification import divergence, laboratory, verify
from envbuild.operations.verification.doubtful import Decided
from envbuild.verification import moments, structure
from envbuild.verification.dataflow.measuring import Measuring
from envbuild.verification.masking.lines import TextDifference


@pytest.mark.parametrize(("printed", "quoted"), [("aab", True), ("aba", True), ("aaa", False), ("a", False)])
def test_every_run_is_compared_with_the_first(printed: str, quoted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the second one printed what the first did."""

    def undecided(project: Path, one: Any, other: Any, *_: object) -> list[TextDifference]:
        before, after = one.record, other.record
        return [TextDifference(path="standard output", line=1, before=before, after=after)] if before != after else []

    monkeypatch.setattr(divergence, "undecided", undecided)
    monkeypatch.setattr(divergence, "beyond", lambda session, verdict: ())
    monkeypatch.setattr(divergence, "written_over", lambda *_: ())
    monkeypatch.setattr(divergence, "coloured", lambda *_: ())
    monkeypatch.setattr(divergence, "strange", lambda *_: ())
    monkeypatch.setattr(structure, "other_links", lambda _: ())
    monkeypatch.setattr(moments, "strange_times", lambda *_: ())
    runs = [SimpleNamespace(record=f"fold 2: 0.{each} s", trace="", order=()) for each in printed]
    session = SimpleNamespace(runs=runs, plan=SimpleNamespace(request=SimpleNamespace(project=Path())))
    found = verify._undecided(
        cast(Any, session), cast(Any, None), cast(Any, SimpleNamespace(ignore=())), None, Decided()
    )
    assert found == (("standard output, line 1: fold 2: 0.a s → fold 2: 0.b s",) if quoted else ())


@pytest.mark.parametrize("without_result", [0, 2])
def test_experiments_without_a_result_are_named_with_what_they_would_decide(
    without_result: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads that something was left out learns that a quiet machine may show what it is."""
    monkeypatch.setattr(divergence, "beyond", lambda session, verdict: ())
    for name in ("written_over", "coloured", "strange"):
        monkeypatch.setattr(divergence, name, lambda *_: ())
    for name in ("other_links", "other_order"):
        monkeypatch.setattr(structure, name, lambda _: ())
    monkeypatch.setattr(moments, "strange_times", lambda *_: ())
    session = SimpleNamespace(runs=[SimpleNamespace()], plan=SimpleNamespace(request=SimpleNamespace(project=Path())))
    doubts = SimpleNamespace(lines=lambda measured: frozenset(), phrases=lambda decided: iter(["w.json: mean"]))
    options = SimpleNamespace(ignore=())
    found = verify._undecided(
        cast(Any, session),
        cast(Any, None),
        cast(Any, options),
        cast(Any, doubts),
        Decided(without_result=without_result),
    )
    note = "2 experiments had no result, as time was up or the program failed: verify on an idle machine"
    assert found == ((note, "w.json: mean") if without_result else ("w.json: mean",))


@pytest.mark.parametrize(("made", "ended_well"), [(2, True), (2, False), (1, True)])
def test_a_laboratory_counts_what_had_no_result(
    made: int, ended_well: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a pair both runs have to end well; one that was ended by its limit shows nothing."""
    runs = [SimpleNamespace(record=SimpleNamespace(id=f"{at}"), ended_well=ended_well or at == 0) for at in range(made)]

    def run_again(*arguments: Any, **options: object) -> list[Any]:
        for each in runs:
            arguments[6](each)
        return runs

    monkeypatch.setattr(laboratory, "run_again", run_again)
    monkeypatch.setattr(laboratory, "opened", lambda found, ran, *_: ran)
    monkeypatch.setattr("envbuild.operations.verification.session.ran_of", lambda found, project: found)
    monkeypatch.setattr(laboratory, "remove_tree", lambda folder: None)
    session = SimpleNamespace(plan=SimpleNamespace(request=SimpleNamespace(project=tmp_path)))
    bench = laboratory.Laboratory(session=cast(Any, session), engine=cast(Any, None), events=cast(Any, None), limit=9)
    found = bench.pair()
    whole = made == 2 and ended_well
    assert (len(found), bench.without_result) == ((2, 0) if whole else (0, 1))
    bench.ends = 0.0
    assert bench.pair() == []
    assert bench.without_result == (1 if whole else 2)


def test_event_files_that_are_too_large_to_be_opened_are_quoted() -> None:
    """Their bytes have the time in them, so that nothing but the scalars of the record is compared."""
    paths = ("runs/events.out.tfevents.1795247763.host", "runs/events.out.tfevents.1795247764.host", "w.npy")
    outputs = [SimpleNamespace(path=path, sha256="00") for path in paths]
    first = SimpleNamespace(
        record=SimpleNamespace(outputs=outputs, outside=[]), contents={paths[1]: ""}, stdout=None, stderr=None
    )
    session = SimpleNamespace(runs=[first], ignore=(), plan=SimpleNamespace(request=SimpleNamespace(project=Path())))
    verdict = SimpleNamespace(channel=lambda kind: None)
    found = divergence.beyond(cast(Any, session), cast(Any, verdict))
    assert [*found] == [f"{paths[0]}: all but its scalars"]


@pytest.mark.parametrize(
    ("command", "directory", "known"),
    [
        (["python", "p/train.py", "--lr", "1"], "/workspace", True),
        (["/opt/env/bin/python3.11", "-u", "-B", "./p/train.py"], "/workspace", True),
        (["python3", "train.py"], "/workspace/p", True),
        (["python", "-m", "p.train"], "/workspace", True),
        (["python", "-m", "p"], "/workspace", False),
        (["python", "-m", "torch.distributed.run", "p/train.py"], "/workspace", False),
        (["python", "other.py"], "/workspace", False),
        (["python", "-c", "import p.train"], "/workspace", False),
        (["python", "-W", "error", "p/train.py"], "/workspace", False),
        (["bash", "p/train.py"], "/workspace", False),
        (["python"], "/workspace", False),
        (["python", "-m"], "/workspace", False),
        ([], "/workspace", False),
    ],
)
def test_the_sources_of_a_program_count_however_python_is_started(
    command: list[str], directory: str, known: bool, tmp_path: Path
) -> None:
    """``python train.py`` is no script of envbuild's own, and what it reads is noted all the same.

    Of what a launcher starts the words count before values that no clock gave; what else it measures is not known.
    """
    source = b"import random, time\nnow = time.time()\nvalue = random.random()\nprint(f'train time: {value:.6f} s')\n"
    (tmp_path / "p").mkdir()
    (tmp_path / "p/train.py").write_bytes(source)
    modules = [SimpleNamespace(path="p/train.py", sha256=sha256_bytes(source))]
    record = SimpleNamespace(
        options=SimpleNamespace(mounts=()), script=None, command=command, directory=directory, modules=modules
    )
    verdict = SimpleNamespace(same_content=("out.json",), channels=())
    able = divergence.measuring_of(tmp_path, cast(Any, record), cast(Any, verdict))
    assert able.memory != known
    assert "train time" in able.unmeasured
    (tmp_path / "p/train.py").unlink()
    assert divergence.measuring_of(tmp_path, cast(Any, record), cast(Any, verdict)) == Measuring()


@pytest.mark.parametrize("bears", [True, False])
def test_runs_that_are_compared_have_their_memory_filled_with_the_same(
    bears: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros after one failure would make whatever is varied next the cause."""
    made: list[str] = []

    def runs(self: Any, count: int, purpose: str, variables: dict[str, str], *_: object, **__: object) -> list[Any]:
        made.append(variables["MALLOC_PERTURB_"])
        fails = "listings" in purpose or (not bears and len(made) == 1)
        return [] if fails else [SimpleNamespace()] * count

    monkeypatch.setattr(laboratory.Laboratory, "_runs", runs)
    nothing = cast(Any, None)
    lab = laboratory.Laboratory(session=nothing, engine=nothing, events=nothing, limit=1)
    assert lab.pair(("memory",))
    assert not lab.pair(("memory",), ("listings",))
    assert lab.pair(("memory",), ("host",))
    first, zeros = "192", "255"
    assert made == ([first, first, first] if bears else [first, zeros, zeros, zeros])


def test_runs_that_are_compared_have_the_same_times_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timetable that is masked in one pair alone would make the layout of memory the cause."""
    seen: list[object] = []
    monkeypatch.setattr(laboratory.Laboratory, "_runs", lambda *_, days=None, **__: seen.append(days) or [])
    nothing = cast(Any, None)
    lab = laboratory.Laboratory(session=nothing, engine=nothing, events=nothing, limit=1)
    for fixed in (("clock", "entropy"), ("entropy",)):
        lab.pair(fixed)
        lab.pair(fixed, ("listings",))
        lab.moved(fixed)
    assert seen == [seen[0]] * 3 + [None] * 3
    assert seen[0] == (float(lab.now), 60.0)
