"""Names of files that nothing drew, and orders of lines."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from envbuild.operations.verification import undrawn_names
from envbuild.operations.verification.doubtful import Decided, InDoubt, _same_elsewhere
from envbuild.operations.verification.left_out import drop_moved, only_moved
from envbuild.operations.verification.line_orders import drawn_orders, in_other_order, is_order_of_jobs, raced
from envbuild.operations.verification.undrawn_names import (
    doubtful_by_form,
    glued_names,
    has_no_other_uuids,
    made_addresses,
    may_be_made,
    moment_of_uuid,
    phrases,
    phrases_of_pages,
    repeated_otherwise,
    uuids_not_drawn,
)
from envbuild.record.model import Output, ProcessRecord
from envbuild.record.printed import Printed
from envbuild.verification.content import Content
from envbuild.verification.dataflow.measuring import Measuring
from envbuild.verification.masking.lines import TextDifference
from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.rules import moment_of_bare_uuid
from envbuild.verification.measurements.tokens import of_uuid
from envbuild.verification.ran import Ran
from tests.support.records import record

DRAW = "9f86d081884c7d659a2feaa0c55ad015"


@pytest.mark.parametrize(("name", "quoted"), [("9f86d081", False), ("3fa9c1d2", True)])
def test_a_name_that_no_run_drew_is_quoted(name: str, quoted: bool) -> None:
    """A digest of a result is in nothing that the system's entropy gave."""
    own = {"12345abc": "out/⟨name⟩.json"}
    how = "computed of what differs, or by a generator"
    found = phrases(own, {name: "out/⟨name⟩.json"}, (DRAW,))
    assert [*found] == [f"names of files: 12345abc in out/⟨name⟩.json is not as it was drawn: {how}"] * quoted


@pytest.mark.parametrize(
    ("number", "name", "quoted"),
    [
        (0x9F86D081884C4D659A2FEAA0C55AD015, "", False),
        (0x9F86D081884C4D659A2FEAA0C55AD015, "450789293367769443", True),
        (0x9F86D081884C4D659B4BEAA0C55AD015, "", False),  # its last figures: 000408934680285205
    ],
)
def test_an_experiment_of_mlflow_has_a_drawn_number(number: int, name: str, *, quoted: bool) -> None:
    """Its last 18 figures, others behind them for noughts; a result has other ones."""
    drawn = of_uuid(f"{number:032x}")
    figures = name or (str(int(drawn, 16))[-18:].lstrip("0") + "7" * 18)[:18]
    names = {figures: "mlruns/⟨name⟩/meta.yaml"}
    found = phrases({"123456789012345678": "mlruns/⟨name⟩/meta.yaml"}, names, (f"{number:032x}",))
    assert bool(found) is quoted
    assert not phrases({figures: "d/⟨name⟩/⟨name⟩.snapshot"}, {figures: "d/⟨name⟩/⟨name⟩.snapshot"}, ())


@pytest.mark.parametrize(
    ("digits", "moment"),
    [
        ("01a21f9f703270008c39707c905303a9", 1_795_826_872.0),
        ("0" * 12 + "4" + "0" * 3 + "8" + "0" * 15, None),
        ("9f86d081884c1d65aa2feaa0c55ad015", None),
    ],
)
def test_uuids_without_dashes_that_are_masked_are_looked_at(digits: str, moment: float | None) -> None:
    """Those with the time in them, as the mask has them: an address, or none of these versions, is no such name."""
    assert undrawn_names._BARE_UUID.findall(f"prediction {digits}\n".encode()) in ([digits.encode()], [])
    found = moment_of_bare_uuid(digits)
    assert (found if found is None else round(found, -2)) == (moment if moment is None else round(moment, -2))
    assert undrawn_names.is_of_run(found, Masks(1_795_826_872.0)) is (moment is not None)


def test_uuids_that_are_quoted_by_their_form() -> None:
    """One of decimal digits alone is made of numbers as a rule; of a time that no run had likewise."""
    names = {
        "stdout": [
            "19283746-1234-4567-8901-192837465564",
            "9f86d081-884c-4d65-9a2f-eaa0c55ad015",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        ],
        "a.json": ["9f86d081-884c-4d65-9a2f-eaa0c55ad015"],
    }
    timeless, decimal = doubtful_by_form(names, Masks(1_795_704_610.0))
    assert timeless == {"stdout": ["017f22e2-79b0-7cc3-98c4-dc0c0c07398f"]}
    assert decimal == {"stdout": ["19283746-1234-4567-8901-192837465564"]}
    assert doubtful_by_form(names, Masks(1_645_557_740.0))[0] == {}


UUID = "9f86d081884c4d659a2feaa0c55ad015"
"""The same as ``uuid4().hex`` gives it."""
COMPUTED = "1f3870be274f4c49b3e31a0c6728957f"


@pytest.mark.parametrize(
    ("names", "quoted"),
    [
        ({"plot.html": (UUID,)}, False),
        ({"plot.html": (COMPUTED,)}, True),
        ({"plot.html": (UUID, COMPUTED)}, True),
        ({}, True),  # a digest has the form of a UUID in one run and not in the other
        ({"other.html": (UUID,)}, True),
    ],
)
def test_a_name_in_a_page_that_no_run_drew_is_quoted(names: dict[str, tuple[str, ...]], *, quoted: bool) -> None:
    """The form of a UUID may be a digest's; each of those of a run with known entropy has to be what that gave."""
    own = {"plot.html": ("250b64b9a57a47e1ac5b89540eec00d6",)}
    found = phrases_of_pages(own, names, (DRAW,))
    why = "no experiment showed that a run draws them"
    assert [*found] == [f"names in plot.html: 250b64b9a57a47e1ac5b89540eec00d6: {why}"] * quoted


@pytest.mark.parametrize(
    ("theirs", "quoted"),
    [
        (["9f86d081-884c-4d65-9a2f-eaa0c55ad015"], False),
        (["9F86D081-884C-4D65-9A2F-EAA0C55AD015"], False),
        (["1f3870be-274f-4c49-b3e3-1a0c6728957f"], True),  # a generator made it
        ([], True),
        (["9f86d081-884c-4d65-9a2f-eaa0c55ad015", "1f3870be-274f-4c49-b3e3-1a0c6728957f"], True),
    ],
)
def test_a_uuid_that_no_run_drew_is_quoted(theirs: list[str], *, quoted: bool) -> None:
    """One that a generator made of its numbers is a result."""
    mine = {"standard output": ["250b64b9-a57a-47e1-ac5b-89540eec00d6"]}
    assert uuids_not_drawn(mine, {"standard output": theirs}, (DRAW,)) == (mine if quoted else {})


def test_of_several_uuids_those_that_no_run_drew_are_quoted() -> None:
    """A name that was drawn is none of a doubt."""
    name, result = "250b64b9-a57a-47e1-ac5b-89540eec00d6", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    theirs = ["9f86d081-884c-4d65-9a2f-eaa0c55ad015", "1f3870be-274f-4c49-b3e3-1a0c6728957f"]
    assert uuids_not_drawn({"o.json": [name, result]}, {"o.json": theirs}, (DRAW,)) == {"o.json": [result]}


@pytest.mark.parametrize(
    ("able", "quoted"),
    [
        (Measuring(), False),
        (Measuring(uuids="clock"), False),
        (Measuring(uuids="drawn"), False),
        (Measuring(uuids="drawn", makes_names=True), True),
        (Measuring(names=True, uuids="none"), True),  # os.urandom() draws, and gives no UUID
    ],
)
def test_uuids_are_quoted_without_a_run_where_nothing_draws_them(able: Measuring, *, quoted: bool) -> None:
    """Elsewhere they are names, unless a run shows something else."""
    assert has_no_other_uuids(able) is quoted


@pytest.mark.parametrize(
    ("able", "several", "again", "made"),
    [
        (Measuring(), False, True, True),
        (Measuring(), True, True, False),
        (Measuring(), False, False, False),
        (Measuring(makes_hex=False), False, True, False),  # next to a framework
        (Measuring(makes_hex=True), False, True, True),
        (Measuring(makes_hex=True, uuids="drawn"), True, False, True),
        (Measuring(makes_hex=False, uuids="drawn"), True, True, False),
        (Measuring(makes_hex=False, uuids="drawn"), False, True, True),
        (Measuring(makes_hex=False, uuids="none"), True, False, True),
        (Measuring(makes_hex=True, uuids="clock"), False, True, True),
    ],
)
def test_uuids_are_looked_at_where_a_generator_may_have_made_them(
    able: Measuring, *, several: bool, again: bool, made: bool
) -> None:
    """Whoever makes one needs hexadecimal digits; a run shows what is drawn where nothing is known of the sources."""
    assert may_be_made(able, several=several, again=again) is made


def test_the_time_in_a_uuid() -> None:
    """Versions 1, 6 and 7 have one (the examples of RFC 9562); that of no run is no name."""
    moment = 1645557742.0
    for name in (
        "c232ab00-9414-11ec-b3c8-9f6bdeced846",
        "1ec9414c-232a-6b00-b3c8-9f6bdeced846",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    ):
        assert moment_of_uuid(name) == moment
    assert moment_of_uuid("919108f7-52d1-4320-9bac-f847db4148a8") is None


def test_names_of_pages_under_one_masked_name_are_all_looked_at() -> None:
    """Two pages whose own names were drawn have one name without these."""
    paths = [f"{each}/plot.html" for each in ("3fa9c1d2", "9f86d081")]
    contents = {path: Content(digest="", entries=(), left_out={}, glued=(path,)) for path in paths}
    assert glued_names(Ran(record=record(outputs=()), contents=contents)) == {"⟨name⟩/plot.html": tuple(paths)}


def runs(orders: str) -> list[Any]:
    """Return runs of several processes that printed the same lines in orders of these names."""
    process = cast(ProcessRecord, SimpleNamespace(parent=1, pid=2, python="3"))
    return [
        SimpleNamespace(
            stdout=Printed(lines=3, sha256=each, unordered="same"),
            record=SimpleNamespace(processes=(process, process)),
        )
        for each in orders
    ]


def in_rows(*streams: tuple[str, ...]) -> Any:
    """Return what runs left that printed these lines, as they are compared."""
    rows = [[SimpleNamespace(masked=SimpleNamespace(text=text)) for text in each] for each in streams]
    return SimpleNamespace(streams=[{"stdout": each} for each in rows])


@pytest.mark.parametrize(("orders", "asked", "few"), [("aab", False, True), ("abc", True, True), ("aaa", False, False)])
def test_an_order_of_lines_may_be_a_result_if_each_run_has_its_own(
    orders: str, monkeypatch: pytest.MonkeyPatch, *, asked: bool, few: bool
) -> None:
    """Two processes that race have two orders, and luck chooses among few."""
    monkeypatch.setattr("envbuild.operations.verification.line_orders.several_processes", lambda *records: True)
    assert in_other_order(runs(orders), "stdout") is asked
    assert in_other_order(runs(orders), "stdout", few=True) is few


@pytest.mark.parametrize(
    ("pairs", "quoted"),
    [
        (("other", "same", "same"), False),
        (("same", "other", "same", "same"), False),
        (("same", "same"), True),
        (("failed",), True),
        (("other", "other"), True),  # the number of a port seeds it
        (("other", "same", "other"), True),
        (("other", "failed"), True),
    ],
)
def test_one_of_few_orders_is_luck_if_it_changes_with_all_seeds_fixed(
    pairs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, *, quoted: bool
) -> None:
    """A ranking of two lines is the same in every second pair of runs; it is quoted unless it is shown to be luck."""
    left_over = [*pairs]
    in_turn = False

    def look(left: Any, laboratory: object, purpose: str, fixed: tuple[str, ...], number: int) -> bool:
        nonlocal in_turn
        pair = left_over.pop(0)
        assert "order" in fixed or not in_turn
        in_turn = "order" in fixed
        left.runs.extend(runs(ORDERS.get(pair, "")))
        return pair != "failed"

    monkeypatch.setattr("envbuild.operations.verification.left_out.LeftOut.look", look)
    monkeypatch.setattr("envbuild.operations.verification.doubtful.first_moved", lambda left, stream: None)
    left = cast(Any, SimpleNamespace(runs=runs("aab")))
    doubts = InDoubt(left=left, known=[], places=[], doubtful=frozenset(), few=["stdout"])
    by_luck = raced(cast(Any, SimpleNamespace(session=None)), frozenset(["stdout"]), pairs=2)
    assert not left_over
    quotes = [*doubts.phrases(Decided(by_luck=by_luck))]
    assert quotes == ["the order of lines of standard output"] * quoted


@pytest.mark.parametrize(
    ("orders", "contents", "moved"),
    [
        ("aaa", "sss", False),
        ("abc", "sss", True),
        ("abc", "stu", False),  # a measured line is another one in each run
    ],
)
def test_lines_that_clocks_have_settled_keep_their_places(orders: str, contents: str, *, moved: bool) -> None:
    """A stream whose lines have only moved is not looked at; next to a measured line, doubtful numbers are."""
    made = runs(orders)
    for run, content in zip(made, contents, strict=True):
        run.stdout = Printed(lines=3, sha256=run.stdout.sha256, unordered=content)
    assert only_moved(made, "stdout") is moved


@pytest.mark.parametrize(
    ("streams", "dropped"),
    [
        ((("a", "took 3", "b"), ("a", "took 4", "b")), False),
        ((("a", "took 3", "b"), ("b", "took 4", "a")), True),
        ((("a", "took 3", "b"), ("took 4", "a", "b")), True),
        ((("a", "took 3"), ("a", "took 4", "b")), True),
        ((("a", "took 3", "b"), ("a", "took 4", "b"), ("b", "took 5", "a")), True),
    ],
)
def test_lines_of_several_processes_that_have_moved_are_left_out(
    streams: tuple[tuple[str, ...], ...], *, dropped: bool
) -> None:
    """A stream stays if its runs differ in measured lines alone, each of them at the same place."""
    left = in_rows(*streams)
    drop_moved(left, "stdout")
    assert ["stdout" in each for each in left.streams] == [not dropped] * len(streams)


@pytest.mark.parametrize(
    ("pair", "in_turn", "by_luck"),
    [
        ("ab", "aa", {"stdout"}),
        ("ab", "ab", frozenset()),
        ("ab", "", frozenset()),
        ("aa", "aa", frozenset()),
        ("", "", frozenset()),
    ],
)
def test_several_orders_are_luck_if_nothing_else_can_seed_a_generator(
    pair: str, in_turn: str, by_luck: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ranking that the time, or an address, seeds has several orders with the entropy alone fixed."""

    def look(left: Any, laboratory: object, purpose: str, fixed: tuple[str, ...], number: int) -> bool:
        assert {"clock", "addresses", "entropy"} <= {*fixed}
        made = in_turn if "order" in fixed else pair
        left.runs.extend(runs(made))
        return bool(made)

    monkeypatch.setattr("envbuild.operations.verification.left_out.LeftOut.look", look)
    assert raced(cast(Any, SimpleNamespace(session=None)), frozenset(["stdout"])) == by_luck


ORDERS = {"same": "aa", "other": "ab"}
"""Of a pair of runs, named by whether both printed one order."""


@pytest.mark.parametrize(
    ("fixed", "plain", "in_turn", "expected"),
    [
        (("same", "same"), ("other",), ("other",), "result"),
        (("same", "same"), ("same", "other"), ("other",), "result"),  # the first pair had one order by chance
        (("same", "same"), ("other",), ("same", "other"), "result"),
        (("same", "same"), ("other",), ("same", "same"), "unknown"),  # tasks raced, in one order by chance
        (("same", "same"), ("other",), ("failed",), "unknown"),
        (("same", "same"), ("same", "same"), (), "unknown"),
        (("other",), (), (), "luck"),
        (("same", "other"), (), (), "luck"),
        (("same", "failed"), (), (), "unknown"),
        (("same", "same"), ("failed",), (), "unknown"),
        (("failed",), (), (), "unknown"),
    ],
)
def test_an_order_that_no_experiment_decided_is_quoted(
    fixed: tuple[str, ...],
    plain: tuple[str, ...],
    in_turn: tuple[str, ...],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is luck if lines come in several orders though the entropy is fixed, and a result if that alone decides."""
    pairs = {("entropy",): [*fixed], (): [*plain], ("addresses", "clock", "figures", "order"): [*in_turn]}

    def look(left: Any, laboratory: object, purpose: str, what: tuple[str, ...], number: int) -> bool:
        pair = pairs[what].pop(0)
        left.runs.extend(runs(ORDERS.get(pair, "")))
        return pair != "failed"

    moved = TextDifference(path="stdout", line=2, before="anna", after="bert")
    monkeypatch.setattr("envbuild.operations.verification.left_out.LeftOut.look", look)
    monkeypatch.setattr("envbuild.operations.verification.doubtful.first_moved", lambda left, stream: moved)
    left = cast(Any, SimpleNamespace(runs=runs("abc")))
    doubts = InDoubt(left=left, known=[], places=[], doubtful=frozenset(), orders=["stdout"])
    drawn, by_luck = drawn_orders(cast(Any, SimpleNamespace(session=None)), ["stdout"])
    assert drawn == (["stdout"] if expected == "result" else [])
    assert by_luck == ({"stdout"} if expected == "luck" else frozenset())
    quoted = [*doubts.phrases(Decided(by_luck=by_luck))] if not drawn else []
    assert quoted == ["the order of lines of standard output, line 2: anna → bert"] * (expected == "unknown")
    monkeypatch.setattr(
        "envbuild.operations.verification.doubtful.first_moved", lambda left, stream: None
    )  # behind what is kept
    quoted = [*doubts.phrases(Decided(by_luck=by_luck))] if not drawn else []
    assert quoted == ["the order of lines of standard output"] * (expected == "unknown")


@pytest.mark.parametrize(
    ("lines", "same"),
    [
        (("start", "took 3", "end"), True),  # measured, as clocks have shown
        (("start", "took 9", "end"), True),
        (("start", "took 9", "other"), False),
        (("start", "took 9"), False),
    ],
)
def test_a_line_that_is_measured_is_no_difference_elsewhere(lines: tuple[str, ...], *, same: bool) -> None:
    """Of the runs that were compared such a line is another one in each."""
    before = in_rows(("start", "took 3", "end"), ("start", "took 4", "end"), ("start", "took 3", "end"))
    assert _same_elsewhere(in_rows(lines), before, "stdout") is same


JOBS = ("rule a:", "    output: x", "rule b:", "    output: y", "score 1", "score 2")


@pytest.mark.parametrize(
    ("order", "left_log", "command", "of_jobs"),
    [
        ((2, 3, 0, 1, 4, 5), True, "/opt/env/bin/snakemake", True),
        ((2, 3, 0, 1, 4, 5), False, "/opt/env/bin/snakemake", False),
        ((2, 3, 0, 1, 4, 5), True, "train.py", False),  # lines of that form that a program prints
        ((0, 1, 2, 3, 5, 4), True, "/opt/env/bin/snakemake", False),
        ((2, 1, 0, 3, 4, 5), True, "/opt/env/bin/snakemake", False),  # each with the output of the other
    ],
)
def test_the_order_of_jobs_of_snakemake_is_no_result(
    order: tuple[int, ...], command: str, monkeypatch: pytest.MonkeyPatch, *, left_log: bool, of_jobs: bool
) -> None:
    """Which of those that are ready begins first is drawn; all other lines keep their order."""
    texts = {"1": JOBS, "2": tuple(JOBS[at] for at in order)}
    monkeypatch.setattr(
        "envbuild.operations.verification.line_orders.kept",
        lambda project, run, stream: "\n".join(texts[run]).encode() + b"\n",
    )
    log = Output(path=".snakemake/log/2026-11-27T125802.snakemake.log", change="created", size=1, sha256="0" * 64)
    started = cast(
        ProcessRecord, SimpleNamespace(arguments=("python", command), pid=2, parent=1, asked=(), environment_changed={})
    )
    logs = (log,) if left_log else ()
    made = [Ran(record=record(id=each, outputs=logs, processes=(started,))) for each in texts]
    plan = SimpleNamespace(request=SimpleNamespace(project=None))
    left = cast(Any, SimpleNamespace(runs=made, session=SimpleNamespace(plan=plan, ignore=())))
    assert is_order_of_jobs(left, "stderr") is of_jobs
    assert not is_order_of_jobs(left, "stdout")


def test_an_address_that_may_be_a_digest_is_quoted(tmp_path: Path) -> None:
    """Where the sources make hexadecimal digits; those of objects are none, nor what runs have in common."""
    done, runs = {}, []
    for number, digits in enumerate(("1a2b3c4d5e", "2a2b3c4d5e")):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = f"weights 0x7f{digits}\n<Net object at 0x7e{digits}>\nbase 0x7f1111111111\n"
        (folder / "out").write_text(text)
        (folder / "err").write_text("")
        runs.append(Ran(record=record(id=f"01KA0000000000000000000{number:02}")))
        output = SimpleNamespace(stdout=folder / "out", stderr=folder / "err")
        done[number] = SimpleNamespace(record=runs[-1].record, output=output, files=None)
    plan = SimpleNamespace(request=SimpleNamespace(project=tmp_path))
    session = cast(Any, SimpleNamespace(done=done, runs=runs, plan=plan))
    why = "the program makes hexadecimal digits, of which this may be some"
    assert [*made_addresses(session, Measuring(makes_hex=True))] == [
        f"addresses in standard output: 0x7f1a2b3c4d5e: {why}"
    ]
    assert not [*made_addresses(session, Measuring(makes_hex=False))]


def printing(folder: Path, lines: Sequence[str]) -> Any:
    """A session of runs, each of which prints a line and leaves no file."""
    done, runs = {}, []
    for number, line in enumerate(lines):
        own = folder / str(number)
        own.mkdir()
        (own / "out").write_text(f"{line}\n")
        (own / "err").write_text("")
        runs.append(Ran(record=record(id=f"01KA0000000000000000000{number:02}")))
        output = SimpleNamespace(stdout=own / "out", stderr=own / "err")
        done[number] = SimpleNamespace(record=runs[-1].record, output=output, files=None)
    plan = SimpleNamespace(request=SimpleNamespace(project=folder))
    return SimpleNamespace(done=done, runs=runs, plan=plan)


@pytest.mark.parametrize(
    ("key", "hexadecimal", "quoted"),
    [("run_id", True, True), ("id", True, True), ("run_id", False, False), ("digest", True, False)],
)
def test_a_short_identity_that_a_generator_may_have_made_is_quoted(
    tmp_path: Path, key: str, *, hexadecimal: bool, quoted: bool
) -> None:
    """JSON leaves it out by its key: where the sources make hexadecimal digits, a run has to show that it is drawn."""
    session = printing(tmp_path, [f'{{"{key}": "{digits}", "loss": 0.25}}' for digits in ("1a2b3c4d", "2a2b3c4d")])
    able = Measuring(makes_hex=hexadecimal, uuids="drawn")
    found = undrawn_names.undrawn_uuids(session, None, cast(Any, None), able=able)
    assert [each.partition(":")[0] for each in found] == ["names in standard output"] * quoted


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("trained model_20260102_030405_{0}.bin", True),
        ("trained model 2026-01-02-{0}", True),
        ("trained 2026-01-02 03:04:05_{0}", True),
        ("trained 2026-01-02, {0}", False),  # not masked: it counts
    ],
)
def test_a_digest_behind_a_date_is_quoted(tmp_path: Path, line: str, *, quoted: bool) -> None:
    """It is masked as a name that was drawn for the run; that of a model's weights was not."""
    session = printing(tmp_path, [line.format(digits) for digits in ("1a2b3c4d", "2a2b3c4d")])
    able = Measuring(makes_hex=True, uuids="drawn")
    found = undrawn_names.undrawn_uuids(session, None, cast(Any, None), able=able)
    assert [each.partition(":")[0] for each in found] == ["names in standard output"] * quoted


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.json", '{{"run-id": "{0}"}}'),
        ("a.json", '{{"run.id": "{0}"}}'),
        ("a.json", '{{"run_id":       "{0}"}}'),
        ("a.json", '{{"run\\u005fid": "{0}"}}'),
        ("a.json", '{{"run_id": "user-{0}"}}'),
        ("a.json", '{{"uuid": "{0}{0}{0}{0}{0}"}}'),
        ("a.json", '{{"session": "{0}9abc4def8abc012345678901"}}'),
        ("a.json.gz", '{{"run_id": "{0}"}}'),
    ],
)
@pytest.mark.parametrize("same", [False, True])
def test_an_identity_counts_however_its_key_is_written(tmp_path: Path, name: str, data: str, *, same: bool) -> None:
    """What leaves it out knows keys and formats, and so does what quotes it."""
    done, runs = {}, []
    for number, digits in enumerate(("1a2b3c4d", "1a2b3c4d" if same else "2a2b3c4d")):
        folder = tmp_path / str(number)
        folder.mkdir()
        written = f"{data.format(digits)}\n".encode()
        (folder / name).write_bytes(gzip.compress(written, mtime=number) if name.endswith(".gz") else written)
        output = Output(path=name, change="created", size=len(written), sha256=f"{number:064x}")
        runs.append(Ran(record=record(id=f"01KA0000000000000000000{number:02}", outputs=(output,))))
        output = SimpleNamespace(stdout=folder / "out", stderr=folder / "err")
        done[number] = SimpleNamespace(record=runs[-1].record, output=output, files=folder)
    plan = SimpleNamespace(request=SimpleNamespace(project=tmp_path))
    session = cast(Any, SimpleNamespace(done=done, runs=runs, plan=plan))
    found = undrawn_names.undrawn_uuids(session, None, cast(Any, None), able=Measuring(makes_hex=True, uuids="drawn"))
    assert [each.partition(":")[0] for each in found] == [f"names in {name}"] * (not same)


@pytest.mark.parametrize(
    ("values", "draws", "quoted"),
    [
        (("s17k3849x", "s42k7711x"), False, True),
        (("s17k3849x", "s42k7711x"), True, False),
        (("s17k3849x", "s17k3849x"), False, False),
    ],
)
def test_an_identity_that_was_chosen_is_quoted_where_nothing_draws_names(
    tmp_path: Path, values: tuple[str, str], *, draws: bool, quoted: bool
) -> None:
    """Which of the sessions was sampled is a result, though the key says that it is a name for the moment."""
    done, runs = {}, []
    for number, value in enumerate(values):
        folder = tmp_path / str(number)
        folder.mkdir()
        data = f'{{"session_id": "{value}", "n": {number}}}'.encode()
        (folder / "a.json").write_bytes(data)
        output = Output(path="a.json", change="created", size=len(data), sha256=f"{number:064x}")
        runs.append(Ran(record=record(id=f"01KA0000000000000000000{number:02}", outputs=(output,))))
        output = SimpleNamespace(stdout=folder / "out", stderr=folder / "err")
        done[number] = SimpleNamespace(record=runs[-1].record, output=output, files=folder)
    plan = SimpleNamespace(request=SimpleNamespace(project=tmp_path))
    session = cast(Any, SimpleNamespace(done=done, runs=runs, plan=plan))
    able = Measuring(names=draws, uuids="none", makes_hex=False)
    found = undrawn_names.undrawn_uuids(session, None, cast(Any, None), able=able)
    assert [each.partition(":")[0] for each in found] == ["names in a.json"] * quoted


@pytest.mark.parametrize(
    ("name", "quoted"), [("user-9f86d081", False), ("9F86D081884C", False), ("user-12345abc", True), ("user-1", True)]
)
def test_an_identity_is_drawn_if_its_digits_are(name: str, *, quoted: bool) -> None:
    """Words before them, and how large its letters are, say nothing."""
    assert bool(uuids_not_drawn({"a.json": ["user-1a2b3c4d"]}, {"a.json": [name]}, (DRAW,))) is quoted


@pytest.mark.parametrize(
    ("mine", "theirs", "found"),
    [
        ("abca", "xyzx", None),
        ("abca", "xyzy", (0, 1)),
        ("abac", "xyzy", None),
        ("abb", "xyx", (1, 0)),
        ("aab", "xyz", None),
        ("aaba", "xyzy", None),
        ("aba", "xxx", None),
        ("abca", "xyz", None),
    ],
)
def test_which_of_its_dates_a_run_repeats_is_quoted(mine: str, theirs: str, found: tuple[int, int] | None) -> None:
    """Only where both repeat one, of which the other has another one there."""
    assert repeated_otherwise(mine, theirs) == found


def test_lines_whose_numbers_of_few_digits_are_measured_too_are_known() -> None:
    """``Time: 0.730 (0.731)``: what a fixed clock has shown of all of its numbers is not quoted once more."""
    line, other = "line 2, number 3 of 4", "line 2, number 4 of 4"
    doubts = InDoubt(
        left=cast(Any, None),
        known=[],
        places=[("stdout", line)],
        doubtful=frozenset([("stdout", line), ("stdout", other)]),
        short=[("stdout", other)],
    )
    assert doubts.lines(frozenset([("stdout", line), ("stdout", other)])) == {("standard output", 2)}
    assert doubts.lines(frozenset([("stdout", line)])) == frozenset()
    assert doubts.lines(frozenset([("stdout", other)])) == frozenset()
