"""What programs write as people write them: measurements are left out, and the same form with a result in it counts."""

from __future__ import annotations

import hashlib
import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from envbuild.record.measurements import is_measured, kind_of, name_leaves_doubt
from envbuild.verification.content import compare, read, read_file
from envbuild.verification.masking.doubtful import exact_numbers, leaves_doubt
from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.printed import PrintedDigest, guessed
from envbuild.verification.measurements.clockwork import Span, When, settings
from envbuild.verification.measurements.labels import Header, names_no_time
from envbuild.verification.measurements.measured import Seen, measured

START = 1_795_247_763.0
MASKS = Masks(START)
JULIAN = START / 86400 + 2440587.5


def _same(one: bytes, other: bytes) -> bool:
    found = [read(data, MASKS) for data in (one, other)]
    assert found[0] is not None
    assert found[1] is not None
    return compare(found[0], found[1]).same


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("seconds_per_step", "time"),
        ("time_per_epoch", "time"),
        ("train/sec_per_batch", "time"),
        ("s/it", "time"),
        ("ms/step", "time"),
        ("time/epoch", None),  # below a name of a group it may be the number of the epoch
        ("errors_per_step", None),
        ("miles_per_batch", None),
        ("loss_per_epoch", None),
        ("predicted_time_per_step", None),
        ("time_per_trial", None),
        ("ms", "time"),
        ("MS", None),
    ],
)
def test_how_long_one_of_many_takes(name: str, kind: str | None) -> None:
    """What a program does again and again; of anything else it may be data."""
    assert kind_of(name) == kind


def test_a_bare_unit_leaves_a_doubt() -> None:
    """Mean squares have the same name."""
    assert name_leaves_doubt("ms")
    assert not is_measured("ms", [0.5, 0.25])
    assert not name_leaves_doubt("seconds_per_step")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("time/epoch ", False),
        ("seconds per step: ", False),
        ("ms/batch=", False),
        ("epoch ", True),
        ("loss per epoch ", True),
        ("steps/epoch ", True),
        ("times epoch ", True),
    ],
)
def test_names_of_what_each_step_takes(text: str, result: bool) -> None:
    """An epoch is no time, but how long one took is."""
    assert names_no_time(text) is result


def _runs(program: Callable[[Callable[[], float], random.Random], str]) -> list[tuple[When, str]]:
    """Return what a program wrote with real clocks and with fixed ones."""
    found: list[tuple[When, str]] = []
    for seed in (1, 2):
        chance = random.Random(seed)
        now = [START + 100 * seed]

        def real(now: list[float] = now, chance: random.Random = chance) -> float:
            now[0] += chance.uniform(0.001, 0.04)
            return now[0]

        begin = now[0]
        text = program(real, chance)
        found.append((Span(begin, now[0] + 0.1), text))
    for setting in settings(int(START) + 1000):
        ticks = [0]

        def fixed(ticks: list[int] = ticks, start: int = setting.start, tick: int = setting.tick) -> float:
            ticks[0] += 1
            return (start + ticks[0] * tick) / 1e9

        found.append((setting, program(fixed, random.Random(0))))
    return found


def _kinds(
    program: Callable[[Callable[[], float], random.Random], str], place: str, *above: tuple[str, str]
) -> list[str] | None:
    """Return the kinds of what follows the clock at a place, below others that are the same in all runs."""
    runs = [Seen(when=when, sources={"f": [*above, (place, text)]}) for when, text in _runs(program)]
    places = measured(runs)
    return None if places is None else [each.kind for each in places]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda now, _: f"{now() / 86400 + 2440587.5:.6f}", ["date"]),
        (lambda now, _: f"{now() / 86400 + 2440587.5!r}", ["date"]),
        (lambda now, _: f"{now() / 86400 + 40587:.8f}", ["date"]),
        (lambda now, chance: f"{(now() + chance.uniform(100, 900)) / 86400 + 2440587.5:.6f}", None),
        (lambda now, _: f"{now() / 86400 + 2440587.5 + 3:.6f}", None),
        (lambda now, chance: f"{2461373 + chance.random():.6f}", None),
    ],
)
def test_julian_days_follow_the_clock(
    program: Callable[[Callable[[], float], random.Random], str], expected: list[str] | None
) -> None:
    """As SQLite and astronomers have them; with something added they are results."""
    assert _kinds(program, "at") == expected


@pytest.mark.parametrize(
    ("above", "program", "expected"),
    [
        ("epoch_times", lambda now, _: repr(-now() + now()), ["duration"]),
        ("", lambda now, _: repr(-now() + now()), None),
        ("losses", lambda now, _: repr(-now() + now()), None),
        ("epoch_times", lambda now, chance: repr(chance.random()), None),
        ("epoch_times", lambda now, _: repr(0.25 + (-now() + now())), None),
    ],
)
def test_a_sum_is_named_by_what_is_before_it(
    above: str, program: Callable[[Callable[[], float], random.Random], str], expected: list[str] | None
) -> None:
    """``{"epoch_times": [...], "total": 3.5}``: next to anything else such a number has no name."""
    places = [(above, "list 2"), (above, "⟨times⟩"), ("", "total")] if above else [("", "total")]
    assert _kinds(program, "total", *places) == expected


@pytest.mark.parametrize(
    ("head", "row", "expected"),
    [
        ("| model | size | ms per row |", "net | 12 | {!r}", ["duration"]),
        ("| model | size | ms per row |", "| net | 12 | {!r} |", ["duration"]),
        ("┃ model ┃ size ┃ ms per row ┃", "│ net │ 12 │ {!r} │", ["duration"]),
        ("| model | threshold |", "| net | {!r} |", None),
        ("| model | ms per row | more |", "| net | {!r} |", None),
    ],
)
def test_columns_between_bars_are_named(head: str, row: str, expected: list[str] | None) -> None:
    """Masked rows have no bars outside, heads do."""
    assert _kinds(lambda now, _: row.format(-now() + now()), "line 3", ("line 1", head)) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [("# n value seconds", ["duration"]), ("% n value seconds", ["duration"]), ("# n value slope", None)],
)
def test_columns_are_named_in_a_comment(head: str, expected: list[str] | None) -> None:
    """As ``numpy.savetxt`` writes them."""
    program = "100 0.5 {!r}"
    assert _kinds(lambda now, _: program.format(-now() + now()), "line 2", ("line 1", head)) == expected


@pytest.mark.parametrize(("name", "expected"), [("time (s)", ["duration"]), ("slope", None)])
def test_columns_of_latex_are_named(name: str, expected: list[str] | None) -> None:
    """Between signs that are no text."""
    row, head = "100 & 1443.0891 & {!r} \\\\", ("line 1", f"$n$ & value & {name} \\\\")
    rules = ("line 2", "\\midrule")
    assert _kinds(lambda now, _: row.format(-now() + now()), "line 3", head, rules) == expected


def test_cells_are_found_between_bars() -> None:
    """Whatever is outside."""
    header = Header.of("| model | ms/row |")
    assert header is not None
    assert header.column("net | 0.5", 6) == "ms/row"
    assert header.column("| net | 0.5 |", 8) == "ms/row"
    assert header.column("| net | 0.5 |", 2) == "model"
    assert header.column("| net | 0.5 | 1 |", 8) == ""


def test_a_unit_is_a_part_of_its_columns_name() -> None:
    """Also where columns have blanks between them."""
    header = Header.of("kernel   trace   time (ms)   MFLOP/s")
    assert header is not None
    assert header.names == ("kernel", "trace", "time (ms)", "MFLOP/s")
    assert header.column("naive   -12   0.512   81.4", 14) == "time (ms)"
    assert Header.of("(ms) kernel") is None


def _known(program: Callable[[str], dict[str, str]]) -> list[str] | None:
    """Return the kinds of what is drawn in what a program wrote of one draw; None if anything else differs."""
    runs = [
        Seen(
            when=Span(START + at, START + at + 9),
            sources={"a.db": [*program(random.Random(-at).randbytes(8).hex()).items()]},
        )
        for at in (1, 2)
    ]
    for setting in settings(int(START), all_known=True):
        drawn = random.Random(setting.stream).randbytes(8).hex()
        runs.append(Seen(when=setting, sources={"a.db": [*program(drawn).items()]}, drawn=(drawn,)))
    places = measured(runs)
    return None if places is None else [each.kind for each in places]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda drawn: {"jobs.owner": f"envbuild:{drawn}", "detail.by": drawn}, ["identity"] * 2),
        (lambda drawn: {"jobs.uid": drawn, "line 1": f"{drawn}  0.25"}, ["identity"] * 2),
        (
            lambda drawn: {"batch_id": drawn, "audit.batch_id": drawn, "line 1": f"batch {drawn[:8]} done"},
            ["identity"] * 3,
        ),
        (lambda drawn: {"batch.uuid": drawn, "line 1": f"seed {drawn[:8]} done"}, None),
        (lambda drawn: {"batch.uuid": drawn, "line 1": f"w: {drawn[:8]}"}, None),
        (lambda drawn: {"batch.uuid": drawn, "line 1": f"embedding {drawn[:8]}"}, None),
        (lambda drawn: {"line 1": f"batch {drawn[:8]} done"}, ["identity"]),
        (lambda drawn: {"line 1": f"loss of batch {drawn[:8]}"}, ["identity"]),
        (lambda drawn: {"line 1": f"coef {drawn[:8]}"}, None),
        (lambda drawn: {"line 1": f"value {drawn[:8]}"}, None),
        (lambda drawn: {"loss": drawn[:8]}, None),
        (lambda drawn: {"line 1": f"{drawn}  0.25"}, None),
        (lambda drawn: {"jobs.uid": drawn, "line 1": f"weights {drawn}"}, None),
        (lambda drawn: {"jobs.uid": drawn, "line 1": "weights  loss", "line 2": f"{drawn}  0.25"}, None),
        (lambda drawn: {"jobs.uid": drawn, "weights": drawn}, None),
        (lambda drawn: {"line 1": f"seeded by {drawn}"}, None),
    ],
)
def test_an_identity_is_one_where_it_has_no_name_too(
    program: Callable[[str], dict[str, str]], expected: list[str] | None
) -> None:
    """The same draw under the name of one; under another name it is a result, and so is one that no name is of."""
    assert _known(program) == expected


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("0.06 s per epoch", "0.05 s per epoch", True),
        ("(12.5 ms per step)", "(11.5 ms per step)", True),
        ("0.06 m per epoch", "0.05 m per epoch", False),
        ("error: 0.06 s per epoch", "error: 0.05 s per epoch", False),
        ("epoch 5: loss 0.25, 0.0011 s so far", "epoch 5: loss 0.25, 0.0057 s so far", True),
        ("epoch 5: loss 0.25, 0.0011 s soft", "epoch 5: loss 0.25, 0.0057 s soft", False),
        ("epoch 5: loss 0.25 s so far", "epoch 5: loss 0.26 s so far", False),
        ("rows=50 rate=58532/s", "rows=50 rate=13229/s", True),
        ("rate=58532 of 60000", "rate=13229 of 60000", False),
        ("memory: 145.2 KiB now, 146.1 KiB at most", "memory: 144.2 KiB now, 147.1 KiB at most", True),
        ("memory: 145.2 KiB now, 5 models at most", "memory: 144.2 KiB now, 6 models at most", False),
        ("[tracemalloc] current=1455 B peak=2911 B loss=0.5", "[tracemalloc] current=1466 B peak=31 B loss=0.5", True),
        ("[tracemalloc] current=1455 B loss=0.5", "[tracemalloc] current=1455 B loss=0.6", False),
        ("current=1455 B peak=2911 B", "current=1466 B peak=31 B", False),
        ("Nov 21 07:56:03 envbuild etl[2]: done", "Nov 22 00:00:01 envbuild etl[2]: done", True),
        ("Jul  4 07:56:03 envbuild etl[2]: done", "Jul  5 07:56:03 envbuild etl[2]: done", False),
        ("Nov 21 loss 0.5", "Nov 22 loss 0.5", False),
        ("process 3 needed 1.694 s of CPU", "process 3 needed 1.655 s of CPU", True),
        ("process 3 needed 1.694 s of sleep", "process 3 needed 1.655 s of sleep", False),
        (f"JD {JULIAN:.5f}: loss 0.5", f"JD {JULIAN + 0.0001:.5f}: loss 0.5", True),
        (f"MJD = {JULIAN - 2400000.5:.5f}", f"MJD = {JULIAN - 2400000.4999:.5f}", True),
        ("JD 2451545.00000: transit", "JD 2451546.00000: transit", False),
        (f"x {JULIAN:.5f}", f"x {JULIAN + 0.0001:.5f}", False),
    ],
)
def test_lines(one: str, other: str, equal: bool) -> None:
    """Rates and times in words, and Julian days by their name that are about when the run was."""
    assert (MASKS.mask(one).text == MASKS.mask(other).text) is equal


def test_a_julian_day_at_which_the_run_was_not_is_quoted() -> None:
    """A forecast may be of today."""
    masks = Masks(START).with_files((), dict, 5.0, strict=True)
    during, later = (masks.mask(f"JD {JULIAN + seconds / 86400:.6f}") for seconds in (2, 5000))
    assert during.text == later.text
    assert not during.strange
    assert later.strange


@pytest.mark.parametrize(
    ("line", "doubtful"),
    [
        ("============================== 5 passed in 1.25s ===============================", False),
        ("5 passed, 1 warning in 12.25s", False),
        ("=== 1 failed, 2 passed, 3 skipped in 61.25s (0:01:01) ===", False),
        ("5 cars passed in 12.25s", True),
        ("5 passed the line in 12.25s", True),
        ("=== 5 passed in 12.25s, the best ===", True),
    ],
)
def test_the_last_line_of_pytest(line: str, doubtful: bool) -> None:
    """Its form is known; what has more words may be a result."""
    first, *_ = (each for each in exact_numbers(line, MASKS) if "." in each.text)
    assert leaves_doubt(first) is doubtful


SPACY = (
    "E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SPEED   SCORE \n"
    "---  ------  ------------  --------  ------  ------  ------\n"
    "  0       0          0.00     21.43    1.91  {:>6}    0.02\n"
)
OTHERS = SPACY.replace("SCORE", "MILES")


def _digest(text: str) -> str:
    digest = PrintedDigest(MASKS)
    digest.feed(text.encode())
    return digest.result().sha256


def test_the_speed_in_the_table_of_spacy_is_quoted() -> None:
    """Words in a second next to its scores; under any other heads a speed is a result."""
    one, other = (SPACY.format(each) for each in (4211, 14388))
    assert _digest(one) == _digest(other)
    assert [each.line for each in guessed("stdout", one.encode(), other.encode(), (MASKS, MASKS))] == [3]
    assert _digest(one) != _digest(one.replace("1.91", "1.92"))
    assert _digest(OTHERS.format(4211)) != _digest(OTHERS.format(14388))


@pytest.mark.parametrize(("head", "equal"), [("fit (ms)", True), ("score", False), ("margin", False)])
def test_deviations_in_cells(head: str, equal: bool) -> None:
    """Behind a time and its sign."""
    form = f"| n | {head} |\n|---|---|\n| 1 | {{}} ± {{}} |\n| 2 | {{}} +/- {{}}s |\n"
    assert (_digest(form.format(1.72, 2.44, 1, 2)) == _digest(form.format(0.1, 0.02, 3.5, 4))) is equal


@pytest.mark.parametrize(
    ("form", "equal"),
    [
        ('<html><div id="plot-{}-box"><a href="#plot-{}-box">x</a></div></html>\n', True),
        ('<svg id="chart_{}"><use href="#chart_{}"/></svg>\n', True),
        ('<html><p id="p">plot-{}-box</p></html>\n', False),
        ('<html><p data-weights="plot-{}-box">x</p></html>\n', False),
    ],
)
def test_a_drawn_part_of_an_elements_name(form: str, equal: bool) -> None:
    """It counts by its place, and an experiment shows whether it was drawn; what is shown, and other values, count."""
    one, other = (form.replace("{}", each).encode() for each in ("4d7b4d8f", "6b9998e5"))
    assert _same(one, other) is equal
    found = read(one, MASKS)
    assert found is not None
    assert found.glued == (("4d7b4d8f",) if equal else ())


def test_a_drawn_part_of_figures_alone() -> None:
    """One of forty is; a number that is no such one counts, and which of several is where, too."""
    form = '<svg><g id="a-{}-x"/><use href="#a-{}-x"/></svg>\n'
    one, other, zeros = (form.replace("{}", each).encode() for each in ("4d7b4d8f", "18975972", "00000001"))
    assert _same(one, other)
    assert not _same(one, zeros)
    found = read(other, MASKS)
    assert found is not None
    assert found.glued == ("18975972",)


def test_which_parts_of_names_are_the_same_counts() -> None:
    """As which element is referred to."""
    form = '<svg><g id="a-{}-x"/><g id="a-{}-y"/><use href="#a-{}-x"/></svg>\n'
    first, second = "4d7b4d8f", "6b9998e5"
    assert _same(form.format(first, second, first).encode(), form.format(second, first, second).encode())
    assert not _same(form.format(first, second, first).encode(), form.format(first, second, second).encode())


@pytest.mark.parametrize(
    ("name", "value", "later", "equal"),
    [
        ("jd", JULIAN, 0.0001, True),
        ("mjd", JULIAN - 2400000.5, 0.0001, True),
        ("JD", JULIAN - 60, 0.0001, False),
        ("day", JULIAN, 0.0001, False),
        ("jdoe", JULIAN, 0.0001, False),
    ],
)
def test_julian_days_in_columns_of_text(name: str, value: float, later: float, equal: bool) -> None:
    """By the name of the column, as in JSON; another day is a result, and so is another column next to it."""
    one, other = (f"epoch,{name},loss\n0,{value + more:.6f},0.5\n".encode() for more in (0.0, later))
    assert _same(one, other) is equal
    assert not _same(one, other.replace(b"0.5", b"0.6"))


@pytest.mark.parametrize(
    ("key", "one", "other", "equal"),
    [
        ("run_id", "3fa94c1d", "18975972", True),
        ("session_id", "18975972", "40218873", True),
        ("run_id", "3fa94c1d", "1897597", False),
        ("run_id", "3fa94c1d", "189759721", False),
        ("patient_id", "18975972", "40218873", False),
        ("best_run_id", "18975972", "40218873", False),
        ("accession", "18975972", "40218873", False),
    ],
)
def test_drawn_identities_of_figures_alone(key: str, one: str, other: str, equal: bool) -> None:
    """One of forty has no letter; where runs differ in one, it is quoted, since it may be the number of something."""
    found = [read(f'{{"{key}": "{each}"}}'.encode(), MASKS) for each in (one, other)]
    assert found[0] is not None
    assert found[1] is not None
    assert compare(found[0], found[1]).same is equal
    if equal:
        assert found[0].strange != found[1].strange


@pytest.mark.parametrize("kind", ["md5", "sha1", "sha512", "blake2b"])
@pytest.mark.parametrize("change", ["", "of nothing", "other name"])
def test_lists_of_digests(tmp_path: Path, kind: str, change: str) -> None:
    """The digest of a file that the run left is its name, as ``md5sum`` writes it; any other one is a result."""
    found = []
    for time in ("0.25", "0.31"):
        folder = tmp_path / time
        folder.mkdir()
        log = f"fitted in {time} s\n".encode()
        (folder / "log.txt").write_bytes(log)
        digest = hashlib.new(kind, time.encode() if change == "of nothing" else log).hexdigest()
        listed = folder / ("list.txt" if change == "other name" else "MD5SUMS" if kind == "md5" else "checksums.txt")
        listed.write_text(f"{digest}  log.txt\n")
        files = {hashlib.sha256(log).hexdigest(): "log.txt"}
        content = read_file(listed, Masks(START).with_files((), files.copy))
        found.append(content.digest if content is not None else digest)
    assert (found[0] == found[1]) is not change


@pytest.mark.parametrize(
    ("form", "equal"),
    [
        ("wrote a.zip, sha256 {}…", True),
        ("digest: {}", True),
        ("weights {}", False),
    ],
)
@pytest.mark.parametrize("size", [12, 16, 40])
def test_the_beginning_of_a_digest(form: str, size: int, equal: bool) -> None:
    """Of a file of the run, where a line speaks of digests; of anything else it is a result."""
    digests = [hashlib.sha256(each).hexdigest() for each in (b"1", b"2")]
    masks = [Masks(START).with_files((), {each: "a.zip"}.copy) for each in digests]
    one, other = (mask.mask(form.format(each[:size])).text for mask, each in zip(masks, digests, strict=True))
    assert (one == other) is equal
    strange = [
        mask.mask(form.format(hashlib.sha256(each[:9].encode()).hexdigest()[:size])).text
        for mask, each in zip(masks, digests, strict=True)
    ]
    assert strange[0] != strange[1]


@pytest.mark.parametrize(
    ("form", "equal"),
    [("results of 2026-11-21T07-56-{}", True), ("loss 0.{}", False), ("results of 2025-11-21T07-56-{}", False)],
)
def test_comments_of_archives(form: str, equal: bool) -> None:
    """A moment of the run is left out, as in names of members."""

    def archive(comment: str) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as made:
            made.writestr(zipfile.ZipInfo("w", (2026, 11, 21, 7, 56, 4)), b"w")
            made.comment = comment.encode()
        return stream.getvalue()

    masks = Masks(START).with_files((), dict, 30.0, strict=True)
    found = [read(archive(form.format(each)), masks) for each in ("05", "09")]
    assert found[0] is not None
    assert found[1] is not None
    assert compare(found[0], found[1]).same is equal


@pytest.mark.parametrize(
    ("name", "expected"),
    [("epoch_time_mean", True), ("train/fps_max", True), ("latency_p95", False), ("env/wait_time_mean", False)],
)
def test_statistics_of_times_that_may_be_simulated_are_no_measured_metrics(name: str, expected: bool) -> None:
    """Of a series of values no experiment is made; under a key of a file experiments show what it is."""
    assert is_measured(name, [0.25, 0.5]) == expected
    assert kind_of(name) is not None
