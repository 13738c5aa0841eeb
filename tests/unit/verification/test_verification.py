"""Several runs judged: equal or not, what was compared, where they diverge, what may be behind it, and how it reads."""

from __future__ import annotations

import struct
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.cli.render import verify as render
from envbuild.cli.render.diff import divergence_json
from envbuild.core.digest import sha256_bytes
from envbuild.core.tfrecord import crc32c
from envbuild.determinism.operations import table
from envbuild.difference.finding import NOWHERE, Finding
from envbuild.difference.text import shown
from envbuild.errors import LockError
from envbuild.lockfile.model import Determinism
from envbuild.operations.verification.verify import Verification
from envbuild.record.compare_outputs import other_metrics
from envbuild.record.model import Folder, Options, Output, Point, Record, Tensor
from envbuild.record.processes import ReadFile
from envbuild.trace.compare import Divergence
from envbuild.trace.divergence import Differing
from envbuild.trace.values import ValueDifference
from envbuild.verification import attestation
from envbuild.verification.causes import sql
from envbuild.verification.causes.calls import (
    CALLBACK,
    ISOLATED,
    NOT_BLOCKING,
    OUT_OF_ORDER,
    PARTLY,
    SET,
    TIMEOUT,
    UNORDERED,
    WITHOUT_WAITING,
    Call,
    calls,
)
from envbuild.verification.causes.evidence import SHARED_GENERATOR, Culprit, Evidence, Operation
from envbuild.verification.causes.proofs import PROVEN
from envbuild.verification.causes.ranking import rank_causes
from envbuild.verification.causes.source_causes import suspects
from envbuild.verification.channels import metrics_of
from envbuild.verification.content import read
from envbuild.verification.files import masks_of
from envbuild.verification.judge import agree_in_names, judge
from envbuild.verification.masking import lines
from envbuild.verification.masking.lines import TextDifference
from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.printed import Printed
from envbuild.verification.ran import Ran
from envbuild.verification.verdict import Channel, Verdict
from tests.support.divergences import diverged
from tests.support.records import process, record, sha
from tests.support.runtime import make_lock

IDS = tuple(f"01JC{number}" + "0" * 21 for number in range(9))


def output(path: str = "out.txt", sign: str = "1", content: str = "", **tensors: str) -> Output:
    """A file that a run left."""
    table = {name: Tensor(dtype="float32", shape=(2,), digest=digest * 32) for name, digest in tensors.items()}
    return Output(path=path, change="created", size=1, sha256=sha(sign), content=content, tensors=table)


def ran(*outputs: Output, **changes: Any) -> Ran:
    """A run that left these files and nothing else by default."""
    own = {name: changes.pop(name) for name in ("stdout", "stderr", "trace", "steps", "tensors") if name in changes}
    return Ran(record=record(**{"outputs": outputs, "metrics": {}, **changes}), **own)


def text(sign: str, lines: int, **masked: int) -> Printed:
    """What a stream came to."""
    return Printed(lines=lines, sha256=sign, unordered=sign, masked=masked)


# Equal or not


def test_equal_runs_are_identical_and_say_what_was_compared() -> None:
    """Files, steps, metrics and what is printed count."""
    runs = [
        ran(output(), trace="t", steps=1240, tensors=8, metrics={"loss": ((1, 0.5),)}, stdout=text("a", 9, times=2))
        for number in range(3)
    ]
    verdict = judge(runs, 3)
    assert verdict.outcome == "identical"
    assert verdict.groups == ((0, 1, 2),)
    lines = "9 lines of standard output (2 with times masked)"
    assert verdict.compared == ("1 file", "1,240 steps of 8 tensors", "1 metric", lines)
    assert render.identical(verdict) == (f"bit-identical 3/3: 1 file, 1,240 steps of 8 tensors, 1 metric, {lines}",)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_is_printed_counts_always(stream: str) -> None:
    """A constant file does not hide that runs print other results."""
    name = {"stdout": "standard output", "stderr": "standard error"}[stream]
    runs = [ran(output(), **{stream: text(sign, 2)}) for sign in "aab"]
    verdict = judge(runs, 3)
    assert (verdict.outcome, verdict.groups, verdict.differs) == ("different", ((0, 1), (2,)), (name,))
    assert judge(runs[:2], 2).compared == ("1 file", f"2 lines of {name}")
    assert judge([ran(), ran()], 2).compared == ()
    ignored = judge(runs, 3, [stream])
    assert (ignored.outcome, ignored.ignored, ignored.compared) == ("identical", (stream,), ("1 file",))


@pytest.mark.parametrize(
    ("name", "values", "same"),
    [
        ("rss", (137.92, 161.59), False),
        ("train/rss", (137.92, 161.59), False),
        ("memory", ("nan", 0.5), False),
        ("rss", (81_920_000, 81_924_096), True),
        ("gpu_memory", (0.5, 0.6), True),
    ],
)
def test_a_bare_name_of_memory_is_one_of_bytes(name: str, values: tuple[Any, Any], same: bool) -> None:
    """A residual sum of squares is a metric; bytes in use are none."""
    runs = [ran(metrics={name: ((1, value),)}) for value in values]
    assert (judge(runs, 2).outcome == "identical") is same
    assert (other_metrics(runs[0].record, runs[1].record) == ()) is same


def test_names_that_several_runs_printed_are_data() -> None:
    """They count in their order; so does which of the others are the same, but for lines of several processes."""

    def named(*names: str, **changes: Any) -> Ran:
        return ran(stdout=Printed(lines=3, sha256="a", unordered="u", names=names), **changes)

    assert judge([named("a", "b"), named("a", "b")], 2).outcome == "identical"
    assert judge([named("a", "b"), named("c", "d")], 2).outcome == "identical"
    assert judge([named("a", "b"), named("b", "a")], 2).differs == ("standard output",)
    assert judge([named("a", "b"), named("c", "c")], 2).outcome == "different"
    assert judge([named("a", "b"), named("c", "d"), named("d", "c")], 3).groups == ((0,), (1,), (2,))
    two = {"processes": (process(), process(path="1"))}
    assert judge([named("a", "b", **two), named("b", "a", **two)], 2).outcome == "identical"


def test_the_name_that_is_data_in_the_path_of_a_file_counts() -> None:
    """Of folders that all runs have, which has one file more is a result; of drawn ones there is nothing to compare."""
    ids, other = (f"{hexadecimal * 8}" for hexadecimal in ("0a1b", "c2d3")), "9e107d9d372bb6826bd81d3542a419d6"
    first, second = ids

    def found(winner: str, *folders: str, **changes: Any) -> Ran:
        files = [output(f"m/{each}/w.txt") for each in folders]
        return ran(*files, output(f"m/{winner}/WINNER"), **changes)

    runs = [found(first, first, second), found(second, first, second)]
    assert judge([runs[0], runs[0]], 2).outcome == "identical"
    assert judge(runs, 2).differs == (f"names of files: m/{first}/WINNER, m/{second}/WINNER",)
    assert not agree_in_names(runs, ())
    assert judge(runs, 2, ["*/WINNER"]).outcome == "identical"
    assert judge([found(first, first), found(other, other)], 2).outcome == "identical"
    outside = [
        ran(
            output(),
            outside=tuple(output(f"/tmp/{each}") for each in (*(f"{name}.txt" for name in (first, second)), best)),
        )
        for best in (f"best_{first}.txt", f"best_{second}.txt")
    ]
    assert judge(outside, 2).outcome == "different"
    assert "names of files: /tmp/best_⟨name⟩.txt" in judge(outside, 2).channels[-3].differs[0]


def test_lines_of_several_processes_come_in_any_order() -> None:
    """Between processes order is chance and no result; within one process it is a result."""
    one, other = (Printed(lines=2, sha256=sign, unordered="u") for sign in "ab")
    two = {"processes": (process(), process(path="1"))}
    verdict = judge([ran(stdout=one, **two), ran(stdout=other, **two)], 2)
    assert (verdict.outcome, verdict.masked) == (
        "identical",
        ("standard output: order, as several processes printed",),
    )
    order = "2 lines of standard output, which came in another order (several processes printed)"
    assert verdict.compared == (order,)
    assert judge([ran(stdout=one, **two), ran(stdout=one, **two)], 2).masked == ()
    single = {"processes": (process(),)}
    assert judge([ran(stdout=one, **single), ran(stdout=other, **single)], 2).outcome == "different"


def test_what_is_masked_is_reported() -> None:
    """By stream the lines, and the metrics that are measurements."""
    runs = [ran(stdout=text("a", 9, times=2), metrics={"loss": ((1, 0.5),), "fps": ((1, 9.0),)})] * 2
    assert judge(runs, 2).masked == ("metrics: fps", "standard output: 2 lines with times")


def test_what_nobody_could_read_is_not_among_what_was_compared() -> None:
    """A file without a digest is named with the verdict and in the proof, and is not counted."""
    closed = Output(path="closed", change="created", size=0, sha256=None)
    verdict = judge([ran(output(), closed), ran(output(), closed)], 2)
    assert render.identical(verdict) == (
        "bit-identical 2/2: 1 file",
        "not compared: closed could not be read",
    )
    assert verdict.masked == ("files: closed could not be read",)
    assert judge([ran(closed), ran(closed)], 2).compared == ()
    assert judge([ran(output(), closed), ran(output(), output("closed"))], 2).outcome == "different"


def test_equal_content_in_other_bytes_is_identical_and_named() -> None:
    """A saved model that holds the time of saving is equal if its content is; the file is named."""
    verdict = judge([ran(output("model.keras", "1", "c" * 64)), ran(output("model.keras", "2", "c" * 64))], 2)
    assert (verdict.outcome, verdict.volatile) == ("identical", ("model.keras",))
    shown = render.identical(verdict)[1]
    assert shown == "same content, other bytes: model.keras (the format keeps the time of writing)"


def test_a_view_saved_by_pytorch_has_the_right_reason() -> None:
    """``torch.save(x[:10])`` writes all of the storage: what no tensor shows differs, and no time of writing."""
    found = judge([ran(output("x.pt", "1", "c" * 64)), ran(output("x.pt", "2", "c" * 64))], 2)
    assert "bytes that no tensor shows differ" in render.identical(found)[1]


def test_event_files_are_compared_by_their_metrics() -> None:
    """TensorBoard's files have the time in name and bytes; what they hold are metrics, and these are compared."""
    first = output("logs/events.out.tfevents.1732160000.envbuild.8.0.v2", "1")
    second = output("logs/events.out.tfevents.1732160009.envbuild.9.0.v2", "2")
    same = {"loss": ((1, 0.5),)}
    assert judge([ran(first, metrics=same), ran(second, metrics=same)], 2).outcome == "identical"
    verdict = judge([ran(first, metrics=same), ran(second, metrics={"loss": ((1, 0.25),)})], 2)
    assert verdict.differs == ("metrics: loss 0.5 → 0.25",)


def test_what_else_is_in_event_files_counts() -> None:
    """Histograms, images and texts of TensorBoard are results as scalars are; dates in texts are not."""
    first = output("logs/events.out.tfevents.1732160000.envbuild.8.0.v2", "1")
    second = output("logs/events.out.tfevents.1732160009.envbuild.9.0.v2", "2")

    def run(file: Output, *values: bytes) -> Ran:
        data = b"".join(map(framed, (field(3, b"brain.Event:2"), *map(summary, values))))
        content = read(data, Masks(1732160000.0))
        assert content is not None
        return replace(ran(file), contents={file.path: content})

    histogram, text = field(5, b"bins"), field(8, field(1, 7) + field(8, b"written on 2024-11-21 03:33:20, lr 0.1"))
    later = field(8, field(1, 7) + field(8, b"written on 2024-11-21 03:33:29, lr 0.1"))
    verdict = judge([run(first, histogram, text), run(second, histogram, later)], 2)
    assert (verdict.outcome, verdict.compared) == ("identical", ("2 other values of TensorBoard",))
    for kind in (4, 5, 6):
        verdict = judge([run(first, field(kind, b"bins")), run(second, field(kind, b"bibs"))], 2)
        assert verdict.outcome == "different"
        assert verdict.differs[0].startswith("TensorBoard's event files (w, step 3, ")
    other = field(8, field(1, 7) + field(8, b"written on 2024-11-21 03:33:20, lr 0.2"))
    assert judge([run(first, text), run(second, other)], 2).outcome == "different"
    unopened = judge([ran(first), ran(second)], 2)
    assert unopened.masked == (f"event files: {first.path}: all but scalars",)


def test_all_numbers_of_event_files_count() -> None:
    """A record has the first hundred metrics and every second value of very many: those that it lacks count too."""
    first = output("logs/events.out.tfevents.1732160000.envbuild.8.0.v2", "1")
    second = output("logs/events.out.tfevents.1732160009.envbuild.9.0.v2", "2")

    def run(file: Output, data: bytes, *, ignored: bool = False, many: bool = True) -> Ran:
        content = read(data, Masks(1732160000.0))
        assert content is not None
        metrics: dict[str, tuple[Point, ...]] = {f"m{at}": ((1, 0.5),) for at in range(100 if many else 3)}
        found = ran(file, metrics=metrics | ({"loss": ((1, 0.5),)} if ignored else {}))
        record = msgspec.structs.replace(found.record, metric_sources=dict.fromkeys(found.record.metrics, "logs"))
        return replace(found, record=record, contents={file.path: content})

    one, other = (framed(field(3, b"brain.Event:2")) + framed(numbers(last=each)) for each in (0.5, 0.75))
    verdict = judge([run(first, one), run(second, other)], 2)
    assert verdict.differs == ("metrics: w100, step 3: 0.5 → 0.75",)
    assert judge([run(first, one), run(second, one)], 2).compared == ("100 metrics",)
    # times by their names are none of them
    assert judge([run(first, one), run(second, one + framed(numbers(1, tag=b"seconds", last=9.0)))], 2).differs == ()
    # nor what a pattern leaves out, which is said
    ignored = judge([run(first, one, ignored=True), run(second, other, ignored=True)], 2, ["metric:loss"])
    assert (ignored.outcome, ignored.masked) == ("identical", ("metrics: loss, metrics beyond those of the record",))
    # experiments are told of it where a record may lack some
    assert "TensorBoard's numbers" in metrics_of(run(first, one), ())
    assert "TensorBoard's numbers" not in metrics_of(run(first, one, many=False), ())


def test_histograms_behind_very_many_numbers_count() -> None:
    """How many numbers a file has does not decide whether all else in it is compared."""
    first = output("logs/events.out.tfevents.1732160000.envbuild.8.0.v2", "1")
    second = output("logs/events.out.tfevents.1732160009.envbuild.9.0.v2", "2")
    head = framed(field(3, b"brain.Event:2")) + framed(numbers(20_100))

    def run(file: Output, value: bytes) -> Ran:
        content = read(head + framed(summary(field(5, value))), Masks(1732160000.0))
        assert content is not None
        return replace(ran(file), contents={file.path: content})

    verdict = judge([run(first, b"bins"), run(second, b"bibs")], 2)
    assert (verdict.outcome, verdict.differs) == ("different", ("TensorBoard's event files (a later value)",))


def numbers(count: int = 101, tag: bytes = b"w%d", last: float = 0.5) -> bytes:
    """Write an event of step 3 with so many numbers, the last of which may be another one."""
    values = [0.5] * (count - 1) + [last]
    names = [tag % at if b"%" in tag else tag for at in range(count)]
    entries = (field(1, name) + b"\x15" + struct.pack("<f", value) for name, value in zip(names, values, strict=True))
    found = b"".join(field(1, entry) for entry in entries)
    size = bytes([len(found) & 127 | 128, len(found) >> 7 & 127 | 128, len(found) >> 14])
    return field(2, 3) + b"\x2a" + size + found


def field(number: int, value: int | bytes) -> bytes:
    """Write a field of a protocol buffer; values are short."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def summary(value: bytes) -> bytes:
    """Write an event of step 3 with a value of tag ``w``; its date is no result."""
    return field(2, 3) + field(5, field(1, field(1, b"w") + value + field(9, b"plugin")))


def framed(data: bytes) -> bytes:
    """Write a record."""
    head = struct.pack("<Q", len(data))
    return b"".join(part + struct.pack("<I", crc32c(part)) for part in (head, data))


@pytest.mark.parametrize("name", ["time", "step_time", "epoch/seconds", "samples_per_sec", "it/s", "gpu mem", "fps"])
def test_metrics_of_time_are_no_results(name: str) -> None:
    """How long it took, how fast it went and how much memory it had differ in every run."""
    runs = [ran(output(), metrics={name: ((1, value),)}) for value in (0.5, 0.6)]
    assert judge(runs, 2).outcome == "identical"


@pytest.mark.parametrize("name", ["timestep_loss", "loss", "fpsnr", "cosine", "mse"])
def test_metrics_whose_names_merely_contain_such_words_are(name: str) -> None:
    """A name is taken word by word."""
    runs = [ran(output(), metrics={name: ((1, value),)}) for value in (0.5, 0.6)]
    assert judge(runs, 2).outcome == "different"


def test_metrics_in_folders_that_are_called_by_the_time() -> None:
    """As ``add_hparams`` calls them; of several in their order. A name of a line counts as it is."""
    start = datetime.fromisoformat(record().start.replace("Z", "+00:00")).timestamp()

    def found(shift: float, values: tuple[float, ...], source: str = "", tag: str = "acc") -> Ran:
        folders = {f"{start + shift + at:.4f}": value for at, value in enumerate(values)}
        metrics = {f"{folder}/{tag}": ((1, value),) for folder, value in folders.items()}
        sources = {f"{folder}/{tag}": source or f"runs/{folder}" for folder in folders}
        return ran(output(), metrics=metrics, metric_sources=sources)

    assert judge([found(1, (0.5, 0.6)), found(3.5, (0.5, 0.6))], 2).outcome == "identical"
    assert judge([found(1, (0.5, 0.6)), found(3.5, (0.6, 0.5))], 2).outcome == "different"
    assert judge([found(1, (0.5,)), found(3.5, (0.5, 0.5))], 2).outcome == "different"
    tags = ("best_2f4a8b9c1d20", "best_3f4a8b9c1d20")
    assert judge([found(1, (0.5,), tag=tag) for tag in tags], 2).outcome == "different"
    assert judge([found(1, (0.5,), "standard output"), found(2, (0.5,), "standard output")], 2).outcome == "different"


def test_groups_are_in_the_order_of_their_first_run() -> None:
    """Which runs agree is known, and the pair to compare is the first of each of the first two results."""
    verdict = judge([ran(output(sign=sign)) for sign in "12113"], 5)
    assert verdict.groups == ((0, 2, 3), (1,), (4,))
    assert verdict.pair == (0, 1)


def test_differences_are_named() -> None:
    """Files with their tensors, deleted files, the trace and the exit code each get a phrase."""
    one = ran(output("m.npz", "1", "1" * 64, a="1", b="2", c="3"), output("x"), trace="1", deleted=("d",))
    two = ran(output("m.npz", "2", "2" * 64, a="1", b="9", c="8"), output("y"), trace="2", exit_code=3)
    verdict = judge([one, two], 2)
    assert verdict.differing_files == ("m.npz", "x", "y")
    assert verdict.differs == (
        "exit 0 in one run, exit 3 in another",
        "m.npz (2 of 3 tensors: b, c), x, y",
        "deleted: d",
        "the parameters in training",
    )


def test_channels_say_what_was_compared_and_what_differs() -> None:
    """Each kind of result has its count, its phrase, and of two results what differs, by name."""
    one = ran(output(), trace="1", steps=3, tensors=2, metrics={"loss": ((1, 0.5),), "time": ((1, 2.0),)})
    two = ran(output(sign="2"), trace="1", steps=3, tensors=2, metrics={"loss": ((1, 0.25),), "time": ((1, 3.0),)})
    verdict = judge([one, two], 2)
    assert verdict.channels == (
        Channel(kind="end", count=1),
        Channel(kind="files", count=1, compared="1 file", differs=("out.txt",), names=("out.txt",)),
        Channel(kind="deleted", count=0),
        Channel(kind="folders", count=0),
        Channel(kind="steps", count=3, compared="3 steps of 2 tensors"),
        Channel(
            kind="metrics",
            count=1,
            compared="1 metric",
            masked=("time",),
            differs=("metrics: loss 0.5 → 0.25",),
            names=("loss",),
        ),
        Channel(kind="events", count=0),
        Channel(kind="outside", count=0),
        Channel(kind="stdout", count=0),
        Channel(kind="stderr", count=0),
    )
    assert verdict.compared == ()
    assert verdict.channel("steps") == verdict.channels[4]
    assert verdict.agrees == ("3 steps of 2 tensors",)
    assert judge([one, two], 2, ["stdout"]).channel("stdout") is None


def test_the_trace_alone_can_differ() -> None:
    """Parameters that went another way differ even if the files that were left happen to agree."""
    verdict = judge([ran(output(), trace="1", steps=3), ran(output(), trace="2", steps=3)], 2)
    assert (verdict.outcome, verdict.differs) == ("different", ("the parameters in training",))


@pytest.mark.parametrize("pattern", ["logs/*", "logs", "logs/", "logs/a.log"])
def test_ignored_files_are_left_out_and_named(pattern: str) -> None:
    """``--ignore`` takes patterns and folders; what was left out is in the verdict."""
    runs = [ran(output(), output("logs/a.log", sign)) for sign in "12"]
    assert judge(runs, 2).outcome == "different"
    verdict = judge(runs, 2, [pattern])
    assert (verdict.outcome, verdict.ignored, verdict.compared) == ("identical", ("logs/a.log",), ("1 file",))
    assert render.identical(verdict)[1] == "not compared, as asked: logs/a.log"


def test_failing_and_refused_runs_prove_nothing() -> None:
    """Equal failures are no identical runs; a refusal by the guard is distinguished from the program's own failure."""
    assert judge([ran(exit_code=1), ran(exit_code=1)], 5).outcome == "failed"
    assert judge([ran(exit_code=78, state="refused")], 5).outcome == "refused"
    assert judge([ran(output()), ran(output(), exit_code=1)], 5).outcome == "different"


# Where they part


def divergence(**changes: Any) -> Divergence:
    """A convolution's kernel that differs by one unit in the last place."""
    values = ValueDifference(count=1, size=9216, index=(3,), before=0.125, after=0.12500001, ulps=1)
    tensor = Differing(
        name="conv2d_1/kernel", dtype="float32", shape=(9216,), size=9216, before=None, after=None,
        distance=1e-9, values=values,
    )  # fmt: skip
    table = {"kind": "step", "epoch": 2, "place": 37, "step": 77, "tensors": (tensor, tensor), "batch": False}
    return Divergence(**{**table, "sentence": "epoch 2, step 37, tensor conv2d_1/kernel", **changes})


def test_a_divergence_as_json() -> None:
    """Epoch, step, the first tensor that differs, both values and their distance."""
    assert divergence_json(divergence()) == {
        "kind": "step", "sentence": "epoch 2, step 37, tensor conv2d_1/kernel", "process": "", "epoch": 2, "place": 37,
        "step": 77, "tensor": "conv2d_1/kernel", "dtype": "float32", "others": 1, "count": 1, "size": 9216,
        "before": 0.125, "after": 0.12500001, "ulps": 1, "distance": 1e-9, "batch": False,
    }  # fmt: skip
    bare = divergence_json(divergence(tensors=(), kind="process"))
    assert bare is not None
    assert (bare["tensor"], bare["before"], bare["size"]) == ("", None, 0)
    assert divergence_json(None) is None


@pytest.mark.parametrize(
    ("ulps", "distance", "rounding"),
    [
        (1, 0.5, True),
        (1024, None, True),
        (1025, 1e-9, False),
        (None, 1e-6, True),
        (None, 0.1, False),
        (None, None, None),
    ],
)
def test_rounding_is_distinguished_from_other_numbers(
    ulps: int | None, distance: float | None, rounding: bool | None
) -> None:
    """By units in the last place if values were kept, else by the distance, else it is unknown."""
    assert diverged(ulps=ulps, distance=distance).rounding is rounding


# Calls in sources


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import numpy as np\nnp.random.seed()", Call(name="numpy.random.seed", line=2, bare=True)),
        ("import numpy as np\nnp.random.seed(None)", Call(name="numpy.random.seed", line=2, bare=True)),
        ("import numpy as np\nnp.random.seed(1)", Call(name="numpy.random.seed", line=2)),
        ("from os import urandom as u\nx = [u(3)]\nf(x)", Call(name="os.urandom", line=2)),
        ("import os.path\nos.urandom(3)", Call(name="os.urandom", line=2)),
        ("pool.imap_unordered(f, x)", Call(name=".imap_unordered", line=1)),
        ("from dask.distributed import wait as w\nw(x)", Call(name="dask.distributed.wait", line=2)),
        ("x = [p.current_process().authkey]\nf(x)", Call(name=".authkey", line=1)),
        ("run(4, return_as='generator_unordered')", Call(name=UNORDERED, line=1)),
        ("f().g()", Call(name=".g", line=1, bare=True)),
        ("id(x)", Call(name="id", line=1)),
        ("import numpy as np\nnp.divide(a, b, where=b > 0)", Call(name=PARTLY, line=2)),
        ("import numpy as np\nnp.divide(a, b, out=None, where=b > 0)", Call(name=PARTLY, line=2)),
        ("import pyarrow.compute as pc\npc.random(4)", Call(name="pyarrow.compute.random", line=2)),
        (
            "import pyarrow.compute as pc\npc.random(4, initializer='system')",
            Call(name="pyarrow.compute.random", line=2),
        ),
        ("DataLoader(data, num_workers=2, in_order=False)", Call(name=OUT_OF_ORDER, line=1)),
        ("import sys\nrun([sys.executable, '-I', '-c', code])", Call(name=ISOLATED, line=2)),
        ("run(['/usr/bin/python3.11', '-sE', 'x.py'])", Call(name=ISOLATED, line=1)),
        ("system('python -I x.py')", Call(name=ISOLATED, line=1)),
        ("import sys\nrun([sys.executable, 'x.py'], env={'PATH': path})", Call(name=ISOLATED, line=2)),
        ("from . import os\nos.urandom(3)", Call(name=".urandom", line=2)),
        ("queue.get(timeout=3)", Call(name=TIMEOUT, line=1, seconds=3)),
        ("queue.get(timeout=x)", Call(name=TIMEOUT, line=1)),
        ("try:\n    queue.get(timeout=3)\nexcept Empty:\n    n += 1", Call(name=TIMEOUT, line=2, seconds=3)),
        ("done.wait(0.25)", Call(name=TIMEOUT, line=1, seconds=0.25)),
        ("tasks.get(True, 2)", Call(name=TIMEOUT, line=1, seconds=2)),
        ("milp(c, options={'time_limit': 3})", Call(name=TIMEOUT, line=1, seconds=3)),
        ("fit(x, max_seconds=4)", Call(name=TIMEOUT, line=1, seconds=4)),
        ("pool.apply_async(f, (1,), callback=found.append)", Call(name=CALLBACK, line=1)),
        ("lock.acquire(blocking=False)", Call(name=WITHOUT_WAITING, line=1)),
        ("lock.acquire(False)", Call(name=WITHOUT_WAITING, line=1)),
        ("import os\nos.set_blocking(reader, False)", Call(name=NOT_BLOCKING, line=2)),
        ("channel.setblocking(0)", Call(name=NOT_BLOCKING, line=1)),
        (
            "import multiprocessing as mp\nctx = mp.get_context('fork')\nctx.Queue(3)",
            Call(name="multiprocessing.Queue", line=3),
        ),
        (
            "import torch.multiprocessing as mp\nmp.get_context('spawn').Process(target=f)",
            Call(name="multiprocessing.Process", line=2),
        ),
        (
            "from multiprocessing import Manager\nwith Manager() as m:\n    m.dict(x)",
            Call(name="multiprocessing.dict", line=3),
        ),
        ("import signal as s\ns.setitimer(0, .5)", Call(name="signal.setitimer", line=2, seconds=0.5)),
        ('db.execute("""select a,\n julianday(\'now\') from b""")', Call(name=sql.TIME, line=2)),
        ('q = "SELECT max(day) FROM b WHERE day < CURRENT_DATE"', Call(name=sql.TIME, line=1)),
        ('db.execute("select a\\nfrom b order by random()")', Call(name=sql.RANDOM, line=2)),
        ('db.sql("SELECT a FROM b USING SAMPLE 600 ROWS")', Call(name=sql.RANDOM, line=1)),
        ('db.sql("SELECT a FROM b TABLESAMPLE reservoir(20%)")', Call(name=sql.RANDOM, line=1)),
    ],
)
def test_calls_are_known_by_their_full_names(source: str, found: Call) -> None:
    """However it was imported, a call has the name that it has in its library; methods of values begin with a dot."""
    assert found in calls(source)


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.divide(a, b, out=c, where=b > 0)",
        "import numpy as np\nnp.sum(a, where=b > 0)",
        "frame.query(a, where=b)",
        "import numpy as np\nnp.empty(3, dtype=object)",
        "import numpy as np\nnp.empty(3, 'O')",
        "import pyarrow.compute as pc\npc.random(4, initializer=7)",
        "DataLoader(data, in_order=True)",
        "import numpy as np\nnp.ndarray(8, buffer=block.buf)",
        "', '.join(words)\nevent.wait()\ncache.get('a', 3)\nlock.acquire(True)\nchannel.setblocking(True)",
        "import sys\nrun([sys.executable, 'x.py', '-I'])",
        "import sys\nrun([sys.executable, '-c', '-I'])",
        "run(['sed', '-E', 's/a/b/', 'x'])",
        "import os, sys\nrun([sys.executable, 'x.py'], env={**os.environ, 'A': '1'})",
        "import sys\nrun([sys.executable, 'x.py'], env={'PYTHONHASHSEED': '0'})",
    ],
)
def test_what_repeats_is_no_cause(source: str) -> None:
    """Arrays that are written, numbers with a seed, workers in order, Pythons that read their environment."""
    names = {PARTLY, OUT_OF_ORDER, ISOLATED, TIMEOUT, WITHOUT_WAITING}
    names |= {"numpy.empty", "numpy.ndarray", "pyarrow.compute.random"}
    assert names.isdisjoint(call.name for call in calls(source))


def test_a_port_that_the_system_chooses_is_named_where_it_is_chosen() -> None:
    """A port of the program's own is none."""
    source = 's.bind(("127.0.0.1", {}))\np = s.getsockname()[1]\nsave(p)\n'
    assert [cause.where for cause in rank_causes(evidence(sources={"a.py": source.format(0)}))] == ["a.py:1", "a.py:2"]
    assert [cause.where for cause in rank_causes(evidence(sources={"a.py": source.format(80)}))] == ["a.py:2"]


def test_calls_inside_sorted_are_ordered() -> None:
    """``sorted`` around a listing makes its order harmless."""
    assert [(call.name, call.ordered) for call in calls("import os\nsorted(os.listdir('.'))\nos.listdir('.')")] == [
        ("sorted", False), ("os.listdir", True), ("os.listdir", False),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["now() or never", "select the current date", "insert the key now"])
def test_texts_that_are_no_sql_ask_for_no_time(text: str) -> None:
    """Help texts have such words too."""
    assert sql.TIME not in [call.name for call in calls(f"parser.add_argument('--x', help={text!r})")]


@pytest.mark.parametrize(
    "source",
    [
        'db.execute("SELECT setseed(0.4)")\ndb.execute("SELECT a FROM b ORDER BY random()")',
        'db.sql("SELECT a FROM b USING SAMPLE 20% (bernoulli) REPEATABLE (3)")',
        'db.sql("SELECT a FROM b TABLESAMPLE reservoir(9)\\nREPEATABLE (3)")',
        'db.sql("SELECT rand(7), uuid FROM b")',
        'print("random() is gone")\nparser.add_argument("-n", help="using sample rows")',
    ],
)
def test_draws_in_sql_with_a_seed_repeat(source: str) -> None:
    """A seed of the database or of the sample; columns and help texts with such names."""
    assert sql.RANDOM not in [call.name for call in calls(source)]


def test_packages_with_the_interface_of_multiprocessing_are_known() -> None:
    """Their queues give what came first, as those of the standard library do."""
    source = "import multiprocess as processing\nfrom multiprocess import Queue\nprocessing.Queue()\nQueue()\n"
    assert [call.name for call in calls(source)] == ["multiprocessing.Queue"] * 2
    assert [call.name for call in calls("import multiprocessor as m\nm.Queue()\n")] == ["multiprocessor.Queue"]


@pytest.mark.parametrize("source", ["def", "\0", "(" * 500])
def test_sources_that_are_no_python_have_no_calls(source: str) -> None:
    """A source of another version or with a mistake is passed over."""
    assert calls(source) == ()


# What may be behind it


def evidence(**changes: Any) -> Evidence:
    """Two runs of which nothing is known that could make them differ."""
    lock = make_lock(determinism=changes.pop("determinism", Determinism(level="ops", seed=42, threads=1)))
    table: dict[str, Any] = {"a": record(), "b": record(), "lock": lock}
    return Evidence(**{**table, **changes})


def whats(found: Evidence) -> list[str]:
    """The causes' sentences, likeliest first."""
    return [cause.what for cause in rank_causes(found)]


def test_a_file_that_the_run_wrote_itself_is_a_consequence() -> None:
    """Parts that workers left and the program read again differ because of what made them do so: they are no cause.

    Runs that share a folder may have read what an earlier one left.
    """
    found = tuple(
        Finding(area="configs", weight=84, what=f"{name}: sha256 10… → ee…", where="")
        for name in ("part-0.json", "conf.yaml")
    )
    left = (Output(path="part-0.json", size=2, sha256="1" * 64, change="created"),)
    runs = {"a": record(outputs=left), "b": record(outputs=left), "found": found}
    (ranked,) = rank_causes(evidence(**runs))
    assert (ranked.what.partition(":")[0], ranked.weight) == ("conf.yaml", 84)
    shared = [cause for cause in rank_causes(evidence(**runs, in_place=True)) if cause.area == "configs"]
    assert [(cause.what.partition(":")[0], cause.weight) for cause in shared] == [
        ("conf.yaml", 84),
        ("part-0.json", 24),
    ]


def test_no_cause_is_invented() -> None:
    """Two runs without anything that could explain a difference have no rank_causes, whatever the difference is."""
    for first in (None, diverged(ulps=1), diverged("start", ulps=1 << 20)):
        source = "import random\nrandom.seed(1)\nx = sorted(__import__('os').listdir('.'))\nrandom.Random(3)\n"
        assert rank_causes(evidence(divergence=first, sources={"train.py": source}, operations=operations())) == ()


def operations() -> tuple[Operation, ...]:
    """The table of operations."""
    names = ("name", "framework", "device", "refused", "why", "calls", "ways")
    return tuple(Operation(**{name: getattr(row, name) for name in names}) for row in table())


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (
            {"input_changes": ("data: 1 file changed",)},
            "input data changed during a run: data: 1 file changed",
        ),
        (
            {"options": Options(network="none", workspace="rw", controls=False)},
            "the controls were off: no seeds, no deterministic operations",
        ),
        ({"out_of_memory": True}, "one run ran out of memory"),
        (
            {"options": Options(network="bridge", workspace="rw")},
            "the network was on (bridge): what is fetched may change",
        ),
        (
            {"processes": (process(switches=[{"name": "s", "wanted": True, "found": False, "ok": False}]),)},
            "s did not take effect: wanted True, found False",
        ),
        (
            {"processes": (process(switches=[{"name": "s", "wanted": 1, "found": 1, "ok": True, "at_exit": 4}]),)},
            "the program changed s: 1 at the start, 4 at the end",
        ),
        (
            {"processes": (process(environment_changed={"OMP_NUM_THREADS": "4"}),)},
            "OMP_NUM_THREADS is locked, and the program set it to 4",
        ),
        (
            {"processes": (process(environment_changed={"OMP_NUM_THREADS": None}),)},
            "OMP_NUM_THREADS is locked, and the program removed it",
        ),
    ],
)
def test_what_the_records_show_is_a_cause(changes: dict[str, Any], what: str) -> None:
    """Everything that a record shows to be not as it should be is reported, whichever run it is in."""
    # What was chosen is the same for both runs; what happened may have happened to one.
    both = {"a": record(**changes), "b": record(**changes)} if "options" in changes else {"a": record(**changes)}
    assert whats(evidence(**both)) == [what]


def test_a_run_that_its_time_limit_ended_is_the_cause_alone() -> None:
    """What it had not come to yet differs, so that no call of the clock made that."""
    source = "import time\nprint(time.perf_counter())\n"
    (cause,) = rank_causes(evidence(a=record(), b=record(timed_out=61.0, exit_code=143), sources={"train.py": source}))
    assert "ended by its time limit of 61 s" in cause.what
    assert "--timeout 10m" in cause.attempt


def test_another_seed_of_hashes_in_both_runs_is_no_cause() -> None:
    """Dask sets one for its workers; one that is drawn or removed may be a cause."""

    def found(value: str | None) -> dict[str, Any]:
        return {"processes": (process(environment_changed={"PYTHONHASHSEED": value}),)}

    assert whats(evidence(a=record(**found("6640")), b=record(**found("6640")))) == []
    for other in ("6641", "random", None):
        both = evidence(a=record(**found(other)), b=record(**found("6640")))
        assert sum("PYTHONHASHSEED is locked" in what for what in whats(both)) == 2
    assert len(whats(evidence(a=record(**found(None)), b=record(**found(None))))) == 1


@pytest.mark.parametrize("name", ["LANG", "LC_ALL", "TZ"])
def test_a_language_that_both_runs_changed_is_no_cause(name: str) -> None:
    """A child with ``env={}`` has none, in each run; it is the seed of hashes that varies then."""
    changed = {name: None, "OMP_DYNAMIC": None, "PYTHONHASHSEED": None}
    removed = {"processes": (process(environment_changed=changed),)}
    assert whats(evidence(a=record(**removed), b=record(**removed))) == [
        "PYTHONHASHSEED is locked, and the program removed it",
        "OMP_DYNAMIC is locked, and the program removed it",
    ]
    assert f"{name} is locked, and the program removed it" in whats(evidence(a=record(**removed), b=record()))


def test_fewer_threads_in_both_runs_are_no_cause() -> None:
    """Workers of PyTorch's DataLoader have one; in one run alone, or more of them than may be, they are a cause."""

    def found(at_exit: int) -> dict[str, Any]:
        switch = {"name": "torch.set_num_threads", "wanted": 2, "found": 2, "ok": True, "at_exit": at_exit}
        return {"processes": (process(switches=[switch]),)}

    assert whats(evidence(a=record(**found(1)), b=record(**found(1)))) == []
    what = "the program changed torch.set_num_threads: 2 at the start, {} at the end"
    assert what.format(1) in whats(evidence(a=record(**found(1)), b=record()))
    assert whats(evidence(a=record(**found(1)), b=record(exit_code=139))) == [], "a signal leaves no record of the end"
    assert what.format(8) in whats(evidence(a=record(**found(8)), b=record(**found(8))))


@pytest.mark.parametrize(
    ("name", "gpus", "named"),
    [
        ("torch.backends.cudnn.deterministic", "", False),
        ("torch.backends.cudnn.deterministic", "all", True),
        ("torch.backends.cudnn.conv.fp32_precision", "all", False),
        ("torch.use_deterministic_algorithms", "", True),
    ],
)
def test_switches_that_nothing_asks_are_no_cause(name: str, gpus: str, named: bool) -> None:
    """Those of GPUs where there is none, and those of precision, which give the same in each run."""
    switch = {"name": name, "wanted": True, "found": True, "ok": True, "at_exit": False}
    one, other = (record(processes=(process(switches=[switch]),), gpus=gpus) for _ in range(2))
    found = [f"the program changed {name}: True at the start, False at the end"] if named else []
    assert whats(evidence(a=one, b=other)) == found


def test_without_controls_missing_variables_are_not_the_programs_doing() -> None:
    """The gate unsets what controls are made of; that is one cause, not ten."""
    off = {
        "options": Options(network="none", workspace="rw", controls=False),
        "processes": (process(environment_changed={"PYTHONHASHSEED": None}),),
    }
    assert len(rank_causes(evidence(a=record(**off), b=record(**off)))) == 1


def test_a_moved_seed_is_no_changed_switch() -> None:
    """Programs may seed by themselves; that the seed reads otherwise at the end is no sign of anything."""
    switch = {"name": "torch.manual_seed", "wanted": 42, "found": 42, "ok": True, "at_exit": 7}
    assert rank_causes(evidence(a=record(processes=(process(switches=[switch]),)))) == ()


ENTROPY = "import os, time\n\nx = os.urandom(4)\ny = os.urandom(4)\nsave(x, y)\n"


def test_calls_that_no_seed_reaches_are_named_with_their_lines() -> None:
    """File and line, what it does, and what to do instead."""
    (cause,) = rank_causes(evidence(sources={"lib/a.py": ENTROPY}))
    assert cause == Finding(
        area="sources",
        weight=65,
        what="os.urandom() is reached by no seed",
        where="lib/a.py:3, lib/a.py:4",
        attempt="draw from a seeded generator: random.Random(seed).randbytes(n)",
    )


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("child.wait(timeout=3)\nchild.kill()", ["kill() of a process", "a limit of time"]),
        ("child.wait(timeout=None)", []),
        ("child.wait(timeout=600)", []),
        ("import signal\nsignal.setitimer(0, 0)", []),
        ("import signal\nsignal.alarm(3)", ["signal.alarm()"]),
        ("import os, signal\nos.urandom(4)\nsignal.alarm(3)", ["os.urandom()", "signal.alarm()"]),
    ],
)
def test_what_ends_by_a_limit_of_time_is_a_possible_cause(source: str, named: list[str]) -> None:
    """After everything that is likelier."""
    causes = rank_causes(evidence(sources={"train.py": source}))
    assert len(causes) == len(named)
    assert all(cause.what.startswith(name) for cause, name in zip(causes, named, strict=True))
    assert all(cause.weight < 40 or "urandom" in cause.what for cause in causes)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("from time import monotonic as now\nw *= 0.5 ** now()", 2),
        ("import time\nnow = time.monotonic\nw *= 0.5 ** now()", 3),
        ("import time\ndef f(w, clock=time.monotonic):\n    return w * clock()\nf(w)", 3),
        (
            "import time\nclass S:\n    def __init__(self, c=time.monotonic):\n        self.c = c\n"
            "    def __call__(self):\n        return self.c()\nw *= S()()",
            6,
        ),
        ("import time\nnow = time.monotonic\nnow = other\nw *= now()", 0),
        ("import time\ndef f(now=time.monotonic): return now()\ndef g(now): return now()", 0),
    ],
)
def test_a_function_is_known_by_another_name(source: str, line: int) -> None:
    """Imported so, assigned, a default, or an attribute of one; not a name that is given anything else as well."""
    found = rank_causes(evidence(sources={"train.py": source}))
    where = [cause.where for cause in found if cause.what.startswith("time.monotonic")]
    assert where == ([f"train.py:{line}"] if line else [])


def test_a_time_that_becomes_a_learning_rate_comes_before_threads() -> None:
    """Runs that differ little may have another learning rate; a time that is only noted says nothing."""
    lock = make_lock(determinism=Determinism(level="ops", seed=42, threads=2))
    for line, first in (
        ("group['lr'] = 0.1 / (1 + time.monotonic())", "time.monotonic() is another number in each run, and decides"),
        ("notes.append(time.monotonic())", "the runs differ by rounding alone"),
    ):
        source = f"import time\n{line}\n"
        found = evidence(
            sources={"train.py": source}, lock=lock, divergence=diverged(step=3, ulps=40, sentence="step 3")
        )
        assert rank_causes(found)[0].what.startswith(first)


def test_threads_draw_from_one_generator_only_where_threads_draw() -> None:
    """A thread that saves what the main one draws shares no generator; what cannot be told counts as it did."""
    draws, saves = "def work():\n    step()\ndef step():\n    rng.normal()\n", "def work():\n    save()\n"
    start = "import threading\nthreading.Thread(target={}).start()\nrng.normal()\n"
    (row,) = (each for each in table() if each.name == SHARED_GENERATOR)
    (shared,) = (replace(each, also=row.also) for each in operations() if each.name == SHARED_GENERATOR)
    loaded = {"processes": (process(frameworks={"numpy": "2.4.6"}),)}
    for source, named in (
        (draws + start.format("work"), True),
        (saves + start.format("work"), False),
        (saves + start.format("lambda: rng.normal()"), True),
        (saves + start.format("functools.partial(work, 1)"), False),
        (saves + start.format("imported"), True),
        (f"def work():\n    rng = random.Random(1)\n    rng.normal()\n{start.format('work')}", False),
        (f"def work():\n    rng = random.Random(random.normal())\n    rng.normal()\n{start.format('work')}", True),
        (f"def work():\n    rng = np.random.Generator(PCG64(1))\n    rng.normal()\n{start.format('work')}", False),
        (f"def work():\n    rng = np.random.Generator(bits)\n    rng.normal()\n{start.format('work')}", True),
        (f"def work():\n    global rng\n    rng = random.Random(1)\n    rng.normal()\n{start.format('work')}", True),
        (f"def work():\n    mine = random.Random(1)\n    rng.normal()\n{start.format('work')}", True),
    ):
        found = rank_causes(evidence(a=record(**loaded), sources={"train.py": source}, operations=(shared,)))
        assert any(SHARED_GENERATOR in cause.what for cause in found) == named, source


def test_the_order_of_a_hash_is_named_where_it_is_taken() -> None:
    """Polars makes the keys of its hashes where the first table is made, which is not the line to be changed."""
    file = "/opt/env/lib/python3.11/site-packages/polars/_utils/construction/series.py"
    culprit = Culprit(
        suspect="clock", place="/workspace/train.py:2", call="clock_gettime of the C library",
        module="polars._utils", file=file, line=363,
    )  # fmt: skip
    head = "import polars as pl\ntable = pl.DataFrame(rows)\n"
    for source, where in (
        ('table.unique().sort("a")\nkept = (\n    table\n    .unique()\n    .head(3)\n)\n', "train.py:6"),
        ('for key, part in table.group_by("a"):\n    table["b"].value_counts()\n', "train.py:3, train.py:4"),
        (
            "table.unique(maintain_order=True)\nsorted(table.unique())\n",
            f"train.py:2 → {file.partition('-packages/')[2]}:363",
        ),
        # Functions of other packages have such names too, and the package may have drawn for something else.
        ("import numpy as np\nnp.unique(rows)\n", f"train.py:2 → {file.partition('-packages/')[2]}:363"),
        ("table.unique()\npl.col('a').shuffle()\n", f"train.py:2 → {file.partition('-packages/')[2]}:363"),
        ("table.unique()\nrng.shuffle(rows)\ntable.sample(3, seed=1)\n", "train.py:3"),
        # Sorted by what several groups have, or by what they are.
        ('t["a"].value_counts().sort("count")\nt["a"].value_counts().sort("a")\n', "train.py:3"),
        ('t.group_by("a").agg(n).sort("n")\nt.group_by("a").agg(n).sort(by=["a", "n"])\n', "train.py:3"),
        # Rows that one table alone has come in that order; those of other joins in the order of a table.
        ('table.join(other, on="a", how="full")\ntable.join(other, on="a", how="left")\n', "train.py:3"),
    ):
        known = {"sources": {"train.py": head + source}, "proven": ("clock",), "culprits": (culprit, culprit)}
        first, *_ = rank_causes(evidence(**known))
        assert first.where == where
        assert "proven: runs are equal when the clock is fixed" in first.what
        assert "maintain_order=True" in first.attempt


def test_machine_code_that_draws_the_keys_of_its_hash_is_named_where_the_order_is_taken() -> None:
    """``tokenizers`` has no Python of its own between the program and its code in Rust."""
    source = "from tokenizers import Tokenizer\nmade = Tokenizer(model)\nmade.train_from_iterator(texts, trainer)\n"
    culprit = Culprit(suspect="entropy", place="/workspace/train.py:2", call="getrandom of the C library",
                      module="__main__", file="/workspace/train.py", line=2)  # fmt: skip
    for imported, where in ((source, "train.py:3"), (source.replace("tokenizers", "others"), "train.py:2")):
        first, *_ = rank_causes(
            evidence(sources={"train.py": imported}, proven=("entropy",), culprits=(culprit, culprit))
        )
        assert first.where == where


def test_a_cause_that_was_fixed_in_vain_is_not_the_first() -> None:
    """Something else makes the difference: no cause is better than this one. Behind another one it may be a second."""
    source = "import time\nstarted = time.time()\nwrite(started)\n"
    assert rank_causes(evidence(sources={"train.py": source}))
    assert rank_causes(evidence(sources={"train.py": source}, refuted=("clock",))) == ()
    threads = f"import threading\n{source}threading.Thread(target=work).start()\n"
    first, second = rank_causes(evidence(sources={"train.py": threads}, refuted=("clock",)))
    assert first.what.startswith("threading.Thread()")
    assert second.what.startswith("time.time()")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("from loguru import logger\nlogger.add(sink, enqueue=True)\n", "a logger with enqueue=True"),
        ("from loguru import logger\nlogger.add(sink, enqueue=False)\n", ""),
        ("import logging.handlers as h\nlistener = h.QueueListener(q, sink)\nlistener.start()\n",
         "logging.handlers.QueueListener()"),
        ("await client.async_execute()\n", "async_execute() of a notebook"),
        ("import queue\nwhile more():\n    try:\n        q.put_nowait(1)\n    except queue.Full:\n        lost += 1\n",
         "putting into a queue that may be full"),
        ("import threading\nthreading.Thread(target=f, daemon=True).start()\n", "a thread or process with daemon=True"),
        ("db.execute('select 1')\ndb.execute('SET threads TO 4')\n", "a database with several threads"),
        ("db.execute('SET threads = 1')\n", ""),
    ],
)  # fmt: skip
def test_what_writes_or_waits_in_a_thread_of_its_own(source: str, said: str) -> None:
    """Where nothing is proven it is a possible cause."""
    found = [each.what for each in rank_causes(evidence(sources={"train.py": source}))]
    assert [each.startswith(said) for each in found] == ([True] if said else [])


def test_a_daemon_that_is_joined_is_waited_for() -> None:
    """The argument alone says nothing."""
    source = "import threading\nt = threading.Thread(target=f, daemon=True)\nt.start()\nt.join()\n"
    (cause,) = rank_causes(evidence(sources={"train.py": source}))
    assert cause.what.startswith("threading.Thread()")


@pytest.mark.parametrize(
    ("tasks", "where", "attempt"),
    [
        ("pool.map(f, xs)", "train.py:2, train.py:3", "give each task what it needs"),
        ("pool.submit(f, 1); pool.map(f, xs)", "train.py:2, train.py:3", "combine results in the order of submission"),
        ("for x in xs: pool.submit(f, x)", "train.py:2, train.py:3", "combine results in the order of submission"),
        ("give(pool)", "train.py:2", "combine results in the order of submission"),
    ],
)
def test_the_lines_that_give_tasks_to_a_pool_are_named_with_it(tasks: str, where: str, attempt: str) -> None:
    """Where results have the order of the tasks already, that is not what would help."""
    source = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        f"with ThreadPoolExecutor(4) as pool:\n    {tasks}\nother.map(f, xs)\n"
    )
    (cause,) = rank_causes(evidence(sources={"train.py": source}, proven=("order",)))
    assert cause.where == where
    assert cause.attempt.startswith(attempt)


def test_a_log_that_rotates_by_the_time_is_named_in_place_of_the_line_that_logs() -> None:
    """The clock is read for each line, on behalf of the handler."""
    source = (
        "import logging.handlers\nhandler = logging.handlers.TimedRotatingFileHandler('a.log', when='S')\n"
        "log = logging.getLogger()\nlog.addHandler(handler)\nlog.info('loss')\n"
    )
    culprit = Culprit(suspect="clock", place="/workspace/train.py:5", call="logging.Logger.info",
                      module="__main__", file="/workspace/train.py", line=5)  # fmt: skip
    first, *_ = rank_causes(evidence(sources={"train.py": source}, proven=("clock",), culprits=(culprit,)))
    assert (first.where, first.what.partition(" ")[0]) == (
        "train.py:2",
        "logging.handlers.TimedRotatingFileHandler()",
    )


def test_a_factory_is_named_where_a_class_is_given_it() -> None:
    """Generated code calls it for the line that makes an object; a function that is named twice may be either."""
    culprit = Culprit(
        suspect="clock", place="/workspace/train.py:5", call="time.time_ns", module="__main__", file="<string>", line=3
    )
    source = "import time\nfrom dataclasses import dataclass, field\n@dataclass\nclass A:\n\n"
    source += "    n: int = field(default_factory=time.time_ns)\na = A()\n"
    culprit = replace(culprit, place="/workspace/train.py:7")
    first, *_ = rank_causes(evidence(sources={"train.py": source}, proven=("clock",), culprits=(culprit,)))
    assert first.where == "train.py:6"
    assert "and differ if that is so but for this line" in first.what
    of_package = replace(culprit, module="package.settings")
    first, *_ = rank_causes(evidence(sources={"train.py": source}, proven=("clock",), culprits=(of_package,)))
    assert first.where == "train.py:7 → <string>:3"
    first, *_ = rank_causes(
        evidence(sources={"package/settings.py": source}, proven=("clock",), culprits=(of_package,))
    )
    assert first.where == "package/settings.py:6"
    twice = source + "begin = time.time_ns()\n"
    first, *_ = rank_causes(evidence(sources={"train.py": twice}, proven=("clock",), culprits=(culprit,)))
    assert first.where == "train.py:7"


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("done, _ = await asyncio.wait(tasks)\nfor task in done: use(task)\n", [1]),
        ("done, left = wait(futures)\nfor future in list(done): use(future)\n", [1]),
        ("done = await asyncio.wait_for(task, 1)\nfor each in done: use(each)\n", []),
        ("a, b = thread.wait()\nfor each in a: use(each)\n", []),
        ("done, left = ray.wait(tasks)\nfor each in done: use(each)\n", []),
    ],
)
def test_tasks_that_are_done_are_a_set(source: str, made: list[int]) -> None:
    """Who goes through it gets them in the order of their addresses."""
    text = f"import asyncio\nasync def main():\n    {source.strip().replace(chr(10), chr(10) + '    ')}\n"
    assert [call.made - 2 for call in calls(text) if call.name == SET] == made


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("cs = [{a for a in l if a.f == k} for k in r]\nfor k, c in enumerate(cs):\n    s = next(iter(c))\n", [(3, 1)]),
        ("g = defaultdict(set)\nfor k, v in g.items():\n    for x in v:\n        use(x)\n", [(3, 1)]),
        ("g = {k: set() for k in r}\nfor v in g.values():\n    x = list(v)\n", [(3, 1)]),
        ("a = [set(x) for x in y]\nfor s, t in zip(a, b):\n    list(s)\n    list(t)\n", [(3, 1)]),
        ("a = [set(x) for x in y]\nfor s in sorted(a, key=len):\n    sorted(s)\n    len(s)\n", []),
        ("g = [[1], [2]]\nfor v in g:\n    x = list(v)\n", []),
        ("g = defaultdict(list)\nfor v in g.values():\n    x = list(v)\n", []),
    ],
)
def test_a_loop_over_sets_that_a_list_or_a_dict_holds(source: str, found: list[tuple[int, int]]) -> None:
    """The names that loops give to its elements are names of sets."""
    assert [(call.line, call.made) for call in calls(source) if call.name == SET] == found


def test_a_logged_records_time_is_named_where_it_is_read() -> None:
    """What logs asks the clock; what decides by it is another line."""
    source = "class Thin:\n    def filter(self, record):\n        return record.created > 3\nlog.info('a')\n"
    culprit = Culprit(
        suspect="clock", place="/workspace/train.py:4", file="/workspace/train.py", line=4, module="__main__",
        call="logging.Logger.info",
    )  # fmt: skip
    (first, *_) = rank_causes(evidence(sources={"train.py": source}, proven=("clock",), culprits=(culprit,)))
    assert first.where == "train.py:3, train.py:4"
    assert first.what.startswith("a logged record has the time at which it was made; proven")


def test_both_readings_of_a_clock_are_named() -> None:
    """The one that the experiment found, and the other end of the time that is measured."""
    source = "import time\nb = time.perf_counter()\nf()\nspent += time.perf_counter() - b\n"
    culprit = Culprit(
        suspect="clock", place="/workspace/train.py:2", file="/workspace/train.py", line=2, module="__main__",
        call="time.perf_counter",
    )  # fmt: skip
    found = rank_causes(evidence(sources={"train.py": source}, proven=("clock",), culprits=(culprit,)))
    assert [each.where for each in found] == ["train.py:2, train.py:4"]


def test_addresses_are_named_once() -> None:
    """What moves objects in memory is another sentence for the same where their addresses are proven too."""
    found = rank_causes(evidence(proven=("addresses", "layout")))
    assert len(found) == 1
    assert found[0].what.startswith("the result depends on addresses of objects")


def test_a_clock_without_a_line_stands_behind_an_address_with_one() -> None:
    """What is fixed with it may be no cause; alone, it is named."""
    sources = {"train.py": "class A: pass\nprint(repr(A()))\n"}
    first, second, *_ = rank_causes(evidence(sources=sources, proven=("clock", "addresses")))
    assert (first.where, second.where) == ("train.py:2", "")
    assert "takes values from the time" in second.what
    sources = {"train.py": "from joblib import Parallel\nParallel(n_jobs=4, prefer='threads')(tasks)\n"}
    first, second, *_ = rank_causes(evidence(sources=sources, proven=("figures", "order")))
    assert (first.where, second.where) == ("train.py:2", "")
    assert "takes values from the time" in rank_causes(evidence(sources=sources, proven=("clock",)))[0].what


@pytest.mark.parametrize(
    ("source", "limits"),
    [
        ("s.settimeout(0.5)", [0.5]),
        ("s.settimeout(None)", []),
        ("lock.acquire(True, 0.2)", [0.2]),
        ("lock.acquire(timeout=0.2)", [0.2]),
        ("lock.acquire(True)", []),
    ],
)
def test_limits_of_locks_and_sockets_are_known(source: str, limits: list[float]) -> None:
    """By their places among the arguments, and by name."""
    assert [call.seconds for call in calls(source) if call.name == TIMEOUT] == limits


@pytest.mark.parametrize(("threads", "named"), [("1", False), ("2", True), (None, True)])
def test_a_parallel_loop_of_numba_is_a_cause_where_it_has_several_threads(threads: str | None, *, named: bool) -> None:
    """Its line is proven where one thread makes runs equal; where the lock has one thread it is none."""
    environment = {} if threads is None else {"NUMBA_NUM_THREADS": threads}
    lock = make_lock(determinism=Determinism(level="ops", seed=42, threads=2), environment=environment)
    source = {"train.py": "import numba\nfor k in numba.prange(9):\n    out[0] += k\n"}
    found = rank_causes(evidence(lock=lock, sources=source))
    assert [cause.where for cause in found] == (["train.py:2"] if named else [])
    if named:
        (proven,) = rank_causes(evidence(lock=lock, sources=source, proven=("threads",)))
        assert proven.where == "train.py:2"
        assert "proven: runs are equal when libraries have one thread" in proven.what


def test_a_tensor_of_the_old_constructor_is_named_only_where_memory_is_proven() -> None:
    """It may be given values, and is harmless then."""
    sources = {"train.py": "import torch\nbias = torch.Tensor(outside)\nuse(bias)\n"}
    assert rank_causes(evidence(sources=sources)) == ()
    (proven,) = rank_causes(evidence(sources=sources, proven=("memory",)))
    assert (proven.where, proven.weight >= 96) == ("train.py:2", True)


def test_a_limit_of_time_that_a_package_keeps_is_named_by_its_argument() -> None:
    """The package asks the clock at several lines; what is to be changed is the argument."""
    file = "/opt/env/lib/python3.11/site-packages/optuna/study/_optimize.py"
    culprits = tuple(
        Culprit(
            suspect="clock", place="/workspace/train.py:2", call="datetime.datetime.now", module="optuna.study",
            file=file, line=line,
        )
        for line in (148, 160)
    )  # fmt: skip
    source = "import optuna\nstudy.optimize(objective, timeout=1.0)\n"
    (cause,) = rank_causes(evidence(sources={"train.py": source}, proven=("clock",), culprits=culprits))
    assert cause.what.startswith("a limit of time (timeout=…) ends what takes longer")
    assert cause.where == "train.py:2 → optuna/study/_optimize.py:148"
    assert cause.attempt == "leave timeout= out, and stop after a number of steps, trials or evaluations"
    (other,) = rank_causes(
        evidence(sources={"train.py": "import optuna\nrun()\n"}, proven=("clock",), culprits=culprits[:1])
    )
    assert other.what.startswith("datetime.datetime.now() returns the time")


def test_a_limit_within_the_runs_comes_before_an_order_that_was_fixed_in_vain() -> None:
    """Threads count less once an experiment has them run one after another and runs still differ."""
    source = "import threading\nthreading.Thread(target=f).start()\ndone.wait(0.25)\n"
    for refuted, first in (((), "threading.Thread()"), (("order",), "a limit of time")):
        found = evidence(sources={"train.py": source}, refuted=refuted)
        assert rank_causes(found)[0].what.startswith(first)


def test_a_class_of_its_own_is_a_thread_too() -> None:
    """With the line that begins it, or alone where another module makes it."""
    own = "import threading\nclass W(threading.Thread):\n    def run(self): ...\n"
    (cause,) = rank_causes(evidence(sources={"train.py": f"{own}w = W()\nw.start()\n"}))
    assert (cause.what.partition("()")[0], cause.where) == ("threading.Thread", "train.py:4, train.py:5")
    (cause,) = rank_causes(evidence(sources={"work.py": own, "train.py": "from work import W\nW().start()\n"}))
    assert (cause.what.partition("()")[0], cause.where) == ("threading.Thread", "work.py:2")
    assert rank_causes(evidence(sources={"train.py": own.replace("threading.Thread", "nn.Module")})) == ()


def test_a_loop_that_looks_is_named_with_what_it_waits_for() -> None:
    """A timer comes before the loop that it ends: the time enters there."""
    loop = "while not halt.is_set():\n    step()\n"
    begun = f"import threading\nt = threading.Thread(target=f)\nt.start()\n{loop}"
    first, *_ = rank_causes(evidence(sources={"train.py": begun}))
    assert (first.what.partition(" that")[0], first.where) == ("a loop", "train.py:4, train.py:2, train.py:3")
    timed = f"import threading\nt = threading.Timer(0.2, halt.set)\nt.start()\n{loop}"
    (cause,) = rank_causes(evidence(sources={"train.py": timed}))
    assert (cause.what.partition("()")[0], cause.where) == ("threading.Timer", "train.py:2, train.py:3, train.py:4")


def test_what_shows_which_file_was_written_last_is_named_with_who_writes_them() -> None:
    """The order of times of files is that in which processes ended."""
    made = "import os\nfrom multiprocessing import Process\np = Process(target=f)\np.start()\n"
    found = rank_causes(evidence(sources={"train.py": f"{made}max(a, key=os.path.getmtime)\n"}, proven=("order",)))
    assert found[0].where == "train.py:3, train.py:4, train.py:5"


def test_a_server_may_have_the_system_choose_its_port() -> None:
    """Which is another one in each run; not where the program gives one, or nobody sees which."""
    for port, found in (("0", ["train.py:2"]), ("8000", []), ("port", [])):
        made = f"import http.server as h\nserver = h.ThreadingHTTPServer(('127.0.0.1', {port}), Handler)\n"
        source = f"{made}place(server.server_port)\n"
        assert [each.where for each in rank_causes(evidence(sources={"train.py": source}))] == found


def test_a_shared_value_is_named_with_the_tasks_of_who_reads_it() -> None:
    """Which worker has which number is nothing that differs, but which tasks it gets."""
    source = (
        "import multiprocessing as mp\ndef begin(n):\n    with n.get_lock():\n        n.value += 1\n"
        "count = mp.Value('i', 0)\nwith mp.Pool(4, initializer=begin, initargs=(count,)) as pool:\n    pool.map(f, x)\n"
    )
    first, *_ = rank_causes(evidence(sources={"train.py": source}, proven=("order",)))
    assert (first.what.partition("()")[0], first.where) == ("multiprocessing.Value", "train.py:5, train.py:7")


def test_tasks_that_are_waited_for_one_by_one_are_no_cause() -> None:
    """What ends the wait is, which experiments take away together with the order of tasks."""
    pool = "from concurrent.futures import ThreadPoolExecutor\nSIZE, LIMIT = 8, 0.005\npool = ThreadPoolExecutor(4)\n"
    for proven in ((), ("order",)):
        source = f"{pool}vectors = [pool.submit(f, x).result(timeout=LIMIT) for x in texts]\n"
        (cause,) = rank_causes(evidence(sources={"train.py": source}, proven=proven))
        assert (cause.what.partition(" (")[0], cause.where) == ("a limit of time", "train.py:4")
        assert cause.what.endswith("what was done by then varies") is not bool(proven)
    source = f"{pool}tasks = [pool.submit(f, x) for x in texts]\nfound = [each.result() for each in tasks]\n"
    (cause,) = rank_causes(evidence(sources={"train.py": source}))
    assert cause.what.startswith("concurrent.futures.ThreadPoolExecutor()")


def test_a_scheduler_waits_by_a_clock_that_experiments_leave_as_it_is() -> None:
    """Its clock is the standard library's own: runs that differ with a fixed one say nothing of it."""
    source = "import sched, time\nplan = sched.scheduler(time.monotonic, time.sleep)\nplan.enter(1, 1, f)\nplan.run()\n"
    first, *_ = rank_causes(evidence(sources={"train.py": source}, refuted=("clock",)))
    assert (first.what.partition("()")[0], first.where) == ("sched.scheduler", "train.py:2, train.py:3")


def test_what_c_code_asks_for_is_not_refuted_by_experiments_that_may_not_reach_it() -> None:
    """A package may ask the CPU itself, or read the clock by a way of its own."""
    source = "import os, uuid\nlibc.getrandom(b, 8, 0)\nsave(uuid.uuid4())\n"
    one, other = rank_causes(evidence(sources={"train.py": source}, refuted=("entropy",)))
    assert (one.where, other.where) == ("train.py:2", "train.py:3")
    assert other.weight < 20 < one.weight


def test_after_a_proof_what_was_left_as_it_is_is_no_cause() -> None:
    """Runs were equal though it was not fixed; only what an experiment takes away together with others may be one."""
    calls = ["os.urandom(4)", "uuid.uuid4()", "seed(time.time())", "x = queue.Queue()", "x.get(timeout=0.01)"]
    source = "\n".join(["import os, queue, time, uuid", *calls])
    named = {cause.where for cause in rank_causes(evidence(sources={"train.py": source}))}
    assert {"train.py:2", "train.py:3", "train.py:4", "train.py:5, train.py:6"} <= named
    found = rank_causes(evidence(sources={"train.py": source}, proven=("entropy",)))
    assert (
        {"train.py:2", "train.py:6"} <= {cause.where for cause in found} <= {"train.py:2", "train.py:3", "train.py:6"}
    )
    found = rank_causes(evidence(sources={"train.py": source}, proven=("listings",)))
    assert {cause.where for cause in found} <= {"train.py:6", ""}


def test_a_limit_of_time_is_the_cause_where_one_thing_alone_was_begun() -> None:
    """What one thread puts into a queue has one order; with two, the queue's order is as likely as before."""
    source = (
        "import queue, threading\ninbox = queue.Queue()\nthreading.Thread(target=f).start()\ninbox.get(timeout=0.2)\n"
    )
    for begun, first in ((1, "a limit of time"), (2, "queue.Queue()")):
        found = rank_causes(evidence(sources={"train.py": source}, proven=("order",), begun=begun))
        assert found[0].what.startswith(first)
        assert "proven:" in found[0].what
        assert len([cause for cause in found if cause.weight >= PROVEN - 1]) == 1


def test_a_limit_of_time_is_tried_before_what_takes_it_away_too() -> None:
    """With tasks in order, or with a time of its own, no limit is reached either; one that nobody reaches is none."""
    source = "import asyncio, time\nx = asyncio.wait_for(asyncio.to_thread(f), 0.004)\nseed(time.time())\n"
    known = evidence(sources={"train.py": source})
    assert suspects(known)[:1] == ("limits",)
    assert "clock" in suspects(known)
    assert "limits" not in suspects(evidence(sources={"train.py": source.replace("0.004", "100000")}))
    line = Culprit(suspect="limits", place="/workspace/train.py:2", call="asyncio.tasks.wait_for", module="__main__")
    found = rank_causes(evidence(sources={"train.py": source}, proven=("limits",), culprits=(line,)))
    assert found[0].what.startswith("asyncio.wait_for() ends at a time")
    assert "proven: runs are equal when limits of time are not reached" in found[0].what
    assert found[0].where == "train.py:2"
    assert not any("time.time" in cause.what for cause in found)


def test_a_queue_that_one_fills_and_one_empties_is_no_cause() -> None:
    """The limit of time is, with which it is read; another module may have the queue too."""
    source = (
        "import queue, threading\ndef work(out):\n    out.put(1)\ninbox = queue.Queue()\n"
        "threading.Thread(target=work, args=(inbox,)).start()\ninbox.get(timeout=0.2)\n"
    )
    for others, named in (({}, False), ({"other.py": ""}, True)):
        found = rank_causes(evidence(sources={"train.py": source, **others}))
        assert any(cause.what.startswith("queue.Queue()") for cause in found) == named
    found = rank_causes(evidence(sources={"train.py": source.replace("queue.Queue", "queue.LifoQueue")}))
    assert any(cause.what.startswith("queue.LifoQueue()") for cause in found)  # what is on top depends on when


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("gensim.models.Word2Vec(s, workers=4)", True),
        ("gensim.models.Word2Vec(s, workers=1)", False),
        ("pool.map(f, s, unordered=True)", True),
        ("pool.starmap(f, s, unordered=False)", False),
        ("pool.map(f, s)", False),
        ("implicit.bpr.BayesianPersonalizedRanking()", True),
        ("implicit.bpr.BayesianPersonalizedRanking(num_threads=1)", False),
        ("interpret.glassbox.ExplainableBoostingClassifier(random_state=None)", True),
        ("interpret.glassbox.ExplainableBoostingClassifier()", False),
        ("tokenizers.trainers.WordPieceTrainer(vocab_size=100)", True),
        ("tokenizers.trainers.UnigramTrainer()", True),
        ("tokenizers.trainers.BpeTrainer()", False),
    ],
)
def test_arguments_decide_whether_a_call_repeats(call: str, named: bool) -> None:
    """Rows of the table may ask for constants that a call is given, or exclude them."""
    source = f"import gensim.models, implicit.bpr, interpret.glassbox, tokenizers\n{call}\n"
    assert bool(rank_causes(evidence(sources={"train.py": source}))) == named


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("if barrier.wait() == 0: f()", True),
        ("number = barrier.wait()", True),
        ("if not barrier.wait(): f()", True),
        ("barrier.wait()", False),
        ("if event.wait() == 0: f()", False),
    ],
)
def test_who_comes_first_to_a_barrier_varies(call: str, *, named: bool) -> None:
    """Its ``wait`` gives each of those that wait a number; who waits for nothing but the others does not care."""
    found = rank_causes(evidence(sources={"train.py": f"barrier = threading.Barrier(2)\n{call}\n"}))
    assert [cause.where for cause in found if cause.what.startswith("wait() at a barrier says which")] == [
        "train.py:2"
    ] * named


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("server.bind('a.sock'); connection, _ = server.accept()", "accept() of a socket gives whoever connects first"),
        ("server.bind(('', 0))", "bind() of a socket takes a port"),
        ("size = os.sysconf('SC_AVPHYS_PAGES') // 4", "the memory that is free (SC_AVPHYS_PAGES) is another figure"),
    ],
)
def test_what_the_system_chooses_is_named(line: str, what: str) -> None:
    """A socket that is a file has no port."""
    (first, *others) = rank_causes(evidence(sources={"train.py": f"{line}\nuse(size)\n"}))
    assert (first.what[: len(what)], first.where, others) == (what, "train.py:1", [])


def test_the_key_of_processes_is_drawn_where_their_module_is_imported() -> None:
    """The line that takes it is the cause, not the import, where an experiment finds the draw."""
    culprit = Culprit(
        suspect="entropy", call="multiprocessing.<module>", module="__main__", place="/workspace/train.py:1",
        file="/workspace/train.py", line=1,
    )  # fmt: skip
    source = "import multiprocessing\nkey = multiprocessing.current_process().authkey\n"
    found = rank_causes(evidence(proven=("entropy",), culprits=(culprit,), sources={"train.py": source}))
    assert found[0].where == "train.py:2"


@pytest.mark.parametrize(
    ("loop", "named"),
    [
        ("while child.poll() is None: model.step()", True),
        ("while not flag.is_set() and left: steps += 1", True),
        ("while not path.exists(): time.sleep(random.uniform(0, 1))", True),
        ("while child.poll() is None: time.sleep(0.1)", False),
        ("while not path.exists():\n    if time.monotonic() > end: raise TimeoutError(path)\n    time.sleep(1)", False),
        ("while path.exists(): number += 1", False),
        ("while left: model.step()", False),
    ],
)
def test_what_is_done_until_somebody_else_has_come_so_far_varies(loop: str, *, named: bool) -> None:
    """A loop that waits and says so does nothing that varies; nor does one that looks for a name that is free."""
    found = [
        cause for cause in rank_causes(evidence(sources={"train.py": f"{loop}\n"})) if "a loop that waits" in cause.what
    ]
    assert [cause.where for cause in found] == ["train.py:1"] * named


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("dist.recv(got)", True),
        ("dist.irecv(tensor=got, src=None)", True),
        ("dist.recv(got, 1)", False),
        ("dist.recv(got, src=rank)", False),
        ("connection.recv()", False),
    ],
)
def test_what_any_rank_sends_comes_in_any_order(call: str, *, named: bool) -> None:
    """PyTorch's ``recv`` takes what arrives first, unless it is told from whom."""
    found = rank_causes(evidence(sources={"train.py": f"import torch.distributed as dist\n{call}\n"}))
    assert [cause.what.startswith("torch.distributed.recv() without src takes") for cause in found] == [True] * named


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("RandomForestClassifier(n_jobs=2)", True),
        ("ensemble.ExtraTreesRegressor(100, n_jobs=args.jobs)", True),
        ("RandomForestClassifier(n_jobs=1)", False),
        ("RandomForestClassifier(n_jobs=None)", False),
        ("RandomForestClassifier(100)", False),
        ("GridSearchCV(model, grid, n_jobs=2)", False),
    ],
)
def test_a_forest_with_several_threads_adds_in_any_order(call: str, *, named: bool) -> None:
    """So that the order of tasks is tried first, before all that may be fixed at once."""
    found = evidence(sources={"train.py": f"from sklearn import ensemble\nmodel = {call}\nprint(model)\n"})
    assert [cause.what.startswith("a forest with several threads") for cause in rank_causes(found)] == [True] * named
    assert suspects(found) == ("order",) * named


def test_a_cell_of_a_notebook_is_named_and_a_package_has_a_seed() -> None:
    """A kernel gives each cell a file of its own; a package that draws takes a seed as a rule."""
    here = "/tmp/ipykernel_4/144129.py"
    own = Culprit(suspect="entropy", place=f"{here}:3", call="os.urandom", module="__main__", file=here, line=3)
    (cause,) = rank_causes(evidence(proven=("entropy",), culprits=(own,)))
    assert (cause.where, "generator that gets a seed" in cause.attempt) == ("line 3 of a cell", True)
    file = "/opt/env/lib/python3.11/site-packages/webdataset/filters.py"
    package = Culprit(
        suspect="clock", place="/workspace/train.py:8", call="time.time", module="webdataset.filters", file=file, line=9
    )
    (cause,) = rank_causes(evidence(proven=("clock",), culprits=(package,)))
    assert cause.attempt == "look for a seed among the options of webdataset, or report it there"


def test_a_line_that_is_known_comes_before_a_suspect_without_one() -> None:
    """OpenSSL adds addresses to the entropy that it draws: the line that draws is the cause."""
    source = "import ssl\nweights = ssl.RAND_bytes(64)\n"
    line = Culprit(
        suspect="entropy",
        call="getrandom of the C library",
        module="__main__",
        place="/workspace/train.py:2",
        file="/workspace/train.py",
        line=2,
    )
    both = evidence(sources={"train.py": source}, proven=("addresses", "entropy"), culprits=(line,))
    first, second = rank_causes(both)
    assert first.where == "train.py:2"
    assert "RAND_bytes" in first.what
    assert "addresses" in second.what
    assert "proven" in second.what


def test_a_time_in_sql_is_named_where_the_text_asks_for_it() -> None:
    """The default of a column is asked for at the line that inserts a row."""
    source = (
        "import sqlite3\ndb.executescript(\"CREATE TABLE a (b TEXT DEFAULT (strftime('%f', 'now')), c REAL)\")\n"
        "db.execute('INSERT INTO a (c) VALUES (?)', (1,))\n"
    )
    line = Culprit(
        suspect="clock",
        call="gettimeofday of the C library",
        module="__main__",
        place="/workspace/train.py:3",
        file="/workspace/train.py",
        line=3,
    )
    first, *_ = rank_causes(evidence(sources={"train.py": source}, proven=("clock",), culprits=(line,)))
    assert first.where == "train.py:2"
    assert "the time in SQL" in first.what


def test_figures_of_a_file_are_named_where_they_are_read() -> None:
    """With the line that asks for all of them."""
    source = "import os\ninfo = path.stat()\nseed = info.st_size\nkey = f'{info.st_ctime_ns}'\n"
    line = Culprit(
        suspect="figures",
        call="pathlib.PosixPath.stat",
        module="__main__",
        place="/workspace/train.py:2",
        file="/workspace/train.py",
        line=2,
    )
    first, *_ = rank_causes(evidence(sources={"train.py": source}, proven=("figures",), culprits=(line,)))
    assert first.where == "train.py:2, train.py:4"


def test_a_time_in_a_file_with_sql_is_named_there() -> None:
    """With the line that has the database execute it."""
    source = "import sqlite3\nrows = db.execute(Path('q.sql').read_text()).fetchall()\n"
    line = Culprit(
        suspect="clock",
        call="gettimeofday of the C library",
        module="__main__",
        place="/workspace/train.py:2",
        file="/workspace/train.py",
        line=2,
    )
    query = "-- ages\nSELECT julianday('now') - day FROM a\n"
    known: dict[str, Any] = {"sources": {"train.py": source}, "proven": ("clock",), "culprits": (line,)}
    first, *_ = rank_causes(evidence(scripts={"q.sql": query, "q.txt": query}, **known))
    assert first.where == "q.sql:2, train.py:2"
    assert "the time in SQL" in first.what


def test_a_limit_comes_before_threads_whose_order_was_fixed_in_vain() -> None:
    """Unless it was fixed in vain as well."""
    source = "import threading\nt = threading.Thread(target=f)\nt.start()\nt.join(timeout=self.patience)\n"
    for refuted, line in (((), "2"), (("order",), "4"), (("order", "limits"), "2")):
        first, *_ = rank_causes(evidence(sources={"train.py": source}, refuted=refuted))
        assert first.where.startswith(f"train.py:{line}")


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("random.Random(seed)\nseed = float('nan')", True),
        ("random.seed(seed)\nmissing = math.nan", True),
        ("random.Random(19)\nmissing = math.nan", False),
        ("random.Random(seed)", False),
    ],
)
def test_a_seed_that_is_no_number(source: str, *, named: bool) -> None:
    """Its hash is its address; whole numbers and texts have hashes of their own."""
    found = rank_causes(evidence(sources={"train.py": f"import math, random\n{source}\n"}, proven=("addresses",)))
    assert (found[0].where == "train.py:2") == named


@pytest.mark.parametrize(("port", "named"), [(0, True), (8080, False)])
def test_a_class_of_servers_that_begins_with_no_port_of_its_own(port: int, *, named: bool) -> None:
    source = (
        "import socketserver\nclass S(socketserver.TCPServer):\n    def __init__(self):\n"
        f"        super().__init__(('127.0.0.1', {port}), H)\nS()\n"
    )
    found = [call.line for call in calls(source) if call.name == "socketserver.TCPServer"]
    assert found == ([4] if named else [])


@pytest.mark.parametrize(
    ("call", "named"),
    [("duckdb.connect()", True), ("db.sql(SAMPLE)", True), ("db.execute(SAMPLE)", True), ("model.fit(rows)", False)],
)
def test_a_draw_in_sql_is_named_where_the_database_takes_its_seed(call: str, *, named: bool) -> None:
    """The connection asks for entropy, at another line than the query that draws; another package may ask as well."""
    source = f'import duckdb\nSAMPLE = "SELECT a FROM b USING SAMPLE 600 ROWS"\n{call}\n'
    line = Culprit(
        suspect="entropy",
        call="getrandom by syscall()",
        module="__main__",
        place="/workspace/train.py:3",
        file="/workspace/train.py",
        line=3,
    )
    first = rank_causes(evidence(sources={"train.py": source}, proven=("entropy",), culprits=(line,)))[0]
    assert (first.where, first.what.startswith("a draw in SQL")) == (
        ("train.py:2", True) if named else ("train.py:3", False)
    )
    assert "proven" in first.what
    python = replace(line, call="os.urandom")
    first = rank_causes(evidence(sources={"train.py": source}, proven=("entropy",), culprits=(python,)))[0]
    assert first.where == "train.py:3"


def test_a_wait_for_what_is_ready_first_is_nearer_than_who_was_begun() -> None:
    """Processes run concurrently in any case: the line that takes what comes first is the one to change."""
    source = (
        "import multiprocessing as mp\nfrom multiprocessing.connection import wait\n"
        "mp.Process(target=work).start()\nfor pipe in wait(pipes):\n    total += pipe.recv()\n"
    )
    for proven in ((), ("order",)):
        first = rank_causes(evidence(sources={"train.py": source}, proven=proven))[0]
        assert (first.where, "proven" in first.what) == ("train.py:4", bool(proven))


def test_who_looks_for_modules_is_no_cause_where_the_program_lists_folders_itself() -> None:
    """The import system makes a set of what it finds, metadata are found by name: the order is of no consequence."""
    names = (
        {"call": "importlib._bootstrap._find_and_load", "line": 2},
        {"call": "sktime.evaluate", "line": 5, "module": "importlib.metadata"},
        {"call": "os.scandir", "line": 9},
    )
    listings = [{"file": "/workspace/train.py", "folder": "data", "module": "__main__", **each} for each in names]
    runs = [record(identity, processes=(process(listings=listings),)) for identity in ("A" * 26, "B" * 26)]
    found = rank_causes(evidence(proven=("listings",), a=runs[0], b=runs[1]))
    assert [cause.where for cause in found if cause.weight >= PROVEN] == ["train.py:9"]


def test_a_folder_that_is_scanned_is_said_to_be() -> None:
    """Records have one name for both functions; the line has the right one, and entries have no order of their own."""
    listings = [
        {"file": "/workspace/train.py", "folder": "data", "module": "__main__", "call": "os.listdir", "line": line}
        for line in (2, 3)
    ]
    runs = [record(identity, processes=(process(listings=listings),)) for identity in ("A" * 26, "B" * 26)]
    sources = {
        "train.py": "import os\nfor each in os.scandir('data'): f(each)\nfor each in os.listdir('data'): f(each)\n"
    }
    found = rank_causes(evidence(proven=("listings",), a=runs[0], b=runs[1], sources=sources))
    proven = [cause for cause in found if cause.weight >= PROVEN]
    assert [(cause.what.partition("(")[0], cause.where, cause.attempt) for cause in proven] == [
        ("os.scandir", "train.py:2", "sorted(os.scandir(…), key=lambda entry: entry.name)"),
        ("os.listdir", "train.py:3", "sorted(os.listdir(…))"),
    ]
    assert found == tuple(proven)  # the table of calls knows of both lines too, and has nothing to add


def test_a_file_of_its_own_that_one_run_alone_reads_is_no_cause() -> None:
    """Its folder is named by the time; what nobody wrote stays, and what both wrote follows from something else."""

    def read(path: str, before: str) -> Finding:
        return Finding(area="reads", what=path, before=before, after=NOWHERE, change="read only in A", weight=40)

    own, given = read("runs/1795799378/data.json", "3f2a"), read("data/a.csv", "11aa")
    changed = Finding(area="reads", what="runs/last.json", before="3f2a", after="11aa", change="sha256 …", weight=40)
    outputs = tuple(output(path=each.what) for each in (own, changed))
    found = rank_causes(evidence(found=(own, given, changed), a=record(outputs=outputs), b=record(IDS[1])))
    assert [(cause.what, cause.weight) for cause in found] == [("data/a.csv", 40)]


def test_an_order_that_is_proven_has_the_lines_that_began_something() -> None:
    """Where the sources call nothing that is known."""
    places = ("/workspace/train.py:7", "/workspace/lib/a.py:3")
    (cause,) = rank_causes(evidence(proven=("order",), places=places))
    assert cause.where == "train.py:7, lib/a.py:3"


def test_what_collects_is_named_with_the_lines_that_began_what_it_collects() -> None:
    """A queue's line alone leaves open who fills it; each line once, and none that a package begins on its own."""
    source = "import multiprocessing\n\nresults = multiprocessing.Queue()\nfor each in iter(results.get, 0): f(each)\n"
    begun = ("/workspace/lib/a.py:3", "/workspace/train.py:3", "/opt/env/lib/python3.11/site-packages/x.py:1")
    (cause, *_) = rank_causes(evidence(proven=("order",), places=begun, sources={"train.py": source}))
    assert (cause.what.partition(" ")[0], cause.where) == ("multiprocessing.Queue()", "train.py:3, lib/a.py:3")


@pytest.mark.parametrize(
    ("first", "order"),
    [
        (diverged(ulps=1 << 20), ["os.urandom", "threading.Thread", "time.time"]),
        (diverged(ulps=2), ["threading.Thread", "os.urandom", "time.time"]),
        (diverged("start", ulps=1 << 20), ["os.urandom", "time.time", "threading.Thread"]),
        (None, ["time.time", "os.urandom", "threading.Thread"]),
    ],
)
def test_the_first_difference_decides_the_order(first: Divergence | None, order: list[str]) -> None:
    """Rounding points to the order of sums, other numbers to entropy, equal parameters to times in the files."""
    source = "import os, time, threading\nos.urandom(4)\ntime.time()\nthreading.Thread(target=f)\n"
    found = whats(evidence(divergence=first, traced=True, sources={"train.py": source}))
    assert [what.partition("(")[0] for what in found] == order


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("at 2026-11-21 05:16:03.267700", "at 2026-11-21 05:16:04.1", "holds a time"),
        ("took 3.1 s", "took 12.55 s", "holds a time"),
        ("1732160000.25", "1732160001.5", "holds a time"),
        ("Sat Nov 21 05:16:03", "Sun Nov 22 05:16:04", "holds a time"),
        ("id 3f2b6a1e-0000-4000-8000-00000000000a", "id 9f2b6a1e-0000-4000-8000-00000000000b", "holds an identity"),
        ("<obj at 0x7f12ab34>", "<obj at 0x7f99ab34>", "holds an identity"),
        ("05:16 <obj at 0x7f12ab34>", "05:17 <obj at 0x7f99ab34>", "holds a time and an identity"),
        ("loss 0.25", "loss 0.26", ""),
        ("epoch 1", "epoch 2", ""),
    ],
)
def test_files_that_differ_by_a_time_are_known(before: str, after: str, what: str) -> None:
    """A time, a duration, an address or a UUID in a text is distinguished from a result."""
    found = rank_causes(evidence(texts=[TextDifference(path="a.log", line=3, before=before, after=after)]))
    assert [cause.what.partition(":")[0] for cause in found] == ([f"a.log {what}"] if what else [])
    if what:
        assert found[0].where == "a.log:3"
        assert found[0].attempt == "leave it out of the file, or out of the comparison: --ignore a.log"


def test_operations_without_a_deterministic_kernel_are_found_where_they_can_run() -> None:
    """On a GPU and at level seeds a line that names one is a suspect; in comments, on a CPU, or refused it is none."""
    source = "import torch\n# ctc_loss\nloss = torch.nn.functional.ctc_loss(a, b, c, d)\n"
    seeds = Determinism(level="seeds", seed=42, threads=1)
    common: dict[str, Any] = {"sources": {"t.py": source}, "operations": operations()}
    (level, cause) = rank_causes(evidence(**common, determinism=seeds))[::-1]
    assert cause.where == "t.py:3"
    assert level.what == "deterministic operations are off in this lock (level: seeds)"
    assert rank_causes(evidence(**common)) == ()  # refused at level ops: it cannot have run
    on_cpu = {"a": record(gpus=""), "b": record(gpus="")}
    assert [each.where for each in rank_causes(evidence(**common, **on_cpu, determinism=seeds))] == [""]


def test_threads_are_a_cause_only_for_rounding() -> None:
    """Several threads explain another order of sums, and nothing else."""
    two = Determinism(level="ops", seed=42, threads=2)
    assert whats(evidence(determinism=two, divergence=diverged(ulps=2))) == [
        "the runs differ by rounding alone, and sums run on 2 threads"
    ]
    assert whats(evidence(determinism=two, divergence=diverged(ulps=9999))) == []


def test_runs_in_one_folder_may_read_what_the_one_before_left() -> None:
    """With ``--in-place`` the files of a run are there for the next."""
    assert whats(evidence(in_place=True)) == [
        "the runs shared one folder: each found the files of the run before (model.npz)"
    ]


# How it reads


def verdict(**changes: Any) -> Verdict:
    """Five runs, of which the second differs."""
    table: dict[str, Any] = {
        "outcome": "different", "runs": 5, "asked": 5, "groups": ((0, 2, 3, 4), (1,)),
        "channels": (
            Channel(kind="files", count=1, differs=("model.npz (1 of 8 tensors: conv2d_1/kernel)",)),
            Channel(kind="steps", count=1, differs=("the parameters in training",)),
        ),
    }  # fmt: skip
    return Verdict(**{**table, **changes})


def screen(judged: Verdict, first: Divergence | None = None, causes: tuple[Finding, ...] = (), **others: Any) -> str:
    """What people see of runs that differ."""
    runs = tuple(Ran(record=record(identity)) for identity in IDS[: judged.runs])
    table: dict[str, Any] = {"at_once": 1, **others}
    found = Verification(verdict=judged, divergence=first, causes=causes, **{"runs": runs, **table})
    return render.different(found)


def test_the_screen_of_runs_that_differ() -> None:
    """Results, the first difference with both values, the likeliest cause and what to try fit on one screen."""
    first = divergence(sentence="epoch 2, step 37, tensor conv2d_1/kernel (1 of 9,216 values, 1 ulp at most)")
    causes = (
        Finding(
            area="sources",
            weight=80,
            what="tf.math.segment_sum: adds with atomics",
            where="train.py:58",
            attempt="use tf.scan",
        ),
        Finding(area="sources", weight=40, what="sums run on 2 threads"),
        Finding(area="sources", weight=20, what="the network was on"),
    )
    shown = screen(verdict(), first, causes, notes=("one tensor was left out",), kept=("a/outputs", "b"))
    assert shown == (
        "not identical: 2 different results in 5 runs\n"
        "  results            runs 1, 3, 4, 5 | run 2\n"
        "  differs            model.npz (1 of 8 tensors: conv2d_1/kernel); the parameters in training\n"
        "  first difference   epoch 2, step 37, tensor conv2d_1/kernel (1 of 9,216 values, 1 ulp at most)\n"
        "                     0.125 → 0.12500001\n"
        "  likely cause       tf.math.segment_sum: adds with atomics  (train.py:58)\n"
        "  try                use tf.scan\n"
        "  or                 sums run on 2 threads\n"
        "  or perhaps         the network was on\n"
        "  note               one tensor was left out\n"
        "  files              a/outputs\n"
        "                     b\n"
        "  compare            envbuild diff 01JC000000 01JC100000"
    )


def test_numbers_that_are_printed_otherwise_are_quoted() -> None:
    """The first line of each stream that differs, with its number and both values."""
    printed = (
        TextDifference(path="stdout", line=12, before="test accuracy = 0.9063", after="test accuracy = 0.9067"),
        TextDifference(path="stderr", line=1, before="", after="a warning"),
    )
    rows = screen(verdict(), printed=printed).splitlines()
    assert rows[3] == "  printed            stdout line 12: test accuracy = 0.9063 → test accuracy = 0.9067"
    assert rows[4] == '                     stderr line 1: "" → a warning'


def test_what_agrees_is_reported_where_something_else_differs() -> None:
    """That training is equal although a file differs is the first thing to know."""
    steps = Channel(kind="steps", count=3, compared="3 steps of 2 tensors")
    files = Channel(kind="files", count=1, compared="1 file", differs=("run.log",))
    rows = screen(verdict(channels=(files, steps))).splitlines()
    assert rows[2:4] == ["  differs            run.log", "  agrees             3 steps of 2 tensors"]


def test_the_screen_without_a_cause_reports_it() -> None:
    """Where nothing was found that is reported, and how to narrow it down."""
    shown = screen(verdict(groups=((0,), (1,), (2,)), runs=3))
    assert shown.splitlines()[1] == "  results            no two runs agree"
    assert "  likely cause       none found: the records agree, and nothing known in the sources makes" in shown
    assert "  try                determinism: {threads: 1} in spec.yaml" in shown
    assert "  try                run one at a time (--jobs 1), then with determinism: {" in screen(verdict(), at_once=2)
    shown = screen(verdict(), at_once=2, runs=tuple(Ran(record=record(each, processes=())) for each in IDS[:2]))
    assert "  try                run one at a time (--jobs 1); leave parts of the program out" in shown


def test_what_is_logged_may_be_left_out_where_nothing_else_differs() -> None:
    """A warning that depends on how long something took is no part of the program to look for."""
    logged, printed = (Channel(kind=kind, count=1, compared="1 line", differs=(kind,)) for kind in ("stderr", "stdout"))
    assert "--ignore stderr:WORD" in screen(verdict(channels=(logged,)))
    assert "--ignore" not in screen(verdict(channels=(logged, printed)))


@pytest.mark.parametrize(("loaded", "steps", "asked"), [(True, 0, True), (True, 3, False), (False, 0, False)])
def test_threads_are_to_be_tried_where_a_library_computes(loaded: bool, steps: int, *, asked: bool) -> None:
    """Not where no framework was loaded, nor where the parameters agree after each step."""
    frameworks = {"torch": "2.9"} if loaded else {}
    runs = tuple(Ran(record=record(each, processes=(process(frameworks=frameworks),)), steps=steps) for each in IDS[:2])
    shown = screen(verdict(), runs=runs)
    assert ("determinism: {threads: 1} in spec.yaml" in shown) is asked
    shown = screen(verdict(), at_once=2, runs=runs)
    assert ("run one at a time (--jobs 1), then with determinism: {" in shown) is asked


def test_a_weak_cause_is_only_possible() -> None:
    """What is unlikely is not called likely; the rest of a long list is counted."""
    causes = tuple(Finding(area="sources", weight=30 - number, what=f"cause {number}") for number in range(6))
    shown = screen(verdict(), None, causes)
    assert "  possible cause     cause 0\n" in shown
    assert "  or perhaps         cause 3\n                     … and 2 less likely; all of them: --json\n" in shown


# What is kept


def proof(*records: Record, **changes: Any) -> attestation.Statement:
    """A statement about runs."""
    table: dict[str, Any] = {
        "lock_name": "digits", "compared": ("1 file",), "ignored": (), "trace": "", "version": "1.2.3",
        "date": "2026-01-02T03:04:05.678Z",
    }  # fmt: skip
    return attestation.state(records, **{**table, **changes})


def test_a_proof_states_nothing_of_what_nobody_could_read() -> None:
    """Such a file is not among its results."""
    closed = Output(path="closed", change="created", size=0, sha256=None)
    both = [record(identity, outputs=(output(), closed)) for identity in IDS[:2]]
    assert [each.path for each in proof(*both).predicate.outputs] == ["out.txt"]


def test_a_proof_states_no_files_outside_the_project() -> None:
    """What was mounted may be elsewhere next time, and a name of this machine belongs in no proof."""
    code = (ReadFile(path="lib.py", size=1, sha256="a" * 64), ReadFile(path="/shared/lib.py", size=1, sha256="b" * 64))
    both = [record(identity, modules=code, reads=code) for identity in IDS[:2]]
    found = proof(*both).predicate
    assert (set(found.files) & {"lib.py", "/shared/lib.py"}, set(found.data)) == ({"lib.py"}, {"lib.py"})


def test_an_attestation_is_an_in_toto_statement() -> None:
    """Lock, image and script are its subjects; the predicate states how often, where, and what came out."""
    statement = proof(record(), record(IDS[1]))
    value = msgspec.json.decode(attestation.dumps(statement))
    assert value["_type"] == "https://in-toto.io/Statement/v1"
    assert value["predicateType"] == "urn:envbuild:verification:1"
    assert value["subject"] == [
        {"name": "pylock.digits.toml", "digest": {"sha256": sha("1")}},
        {"name": "image of digits", "digest": {"sha256": sha("2")}},
        {"name": "train.py", "digest": {"sha256": sha("3")}},
    ]
    predicate = value["predicate"]
    assert predicate["runs"] == 2
    assert predicate["ids"] == [record().id, IDS[1]]
    assert predicate["files"] == {"train.py": sha("3"), "lib/model.py": sha("7"), "conf.json": sha("6")}
    assert predicate["inputs"] == {"data": sha("4")}
    assert predicate["outputs"] == [{"path": "model.npz", "sha256": sha("9"), "content": sha("a")}]
    assert set(predicate["host"]) == {"kernel", "machine", "libc", "cpu", "level", "gpus", "driver"}


def test_other_bytes_of_equal_content_have_no_digest_of_bytes() -> None:
    """Of a file with equal content the bytes are not mentioned; one that was not compared is left out."""
    other = msgspec.structs.replace(record().outputs[0], sha256=sha("f"))
    statement = proof(record(), record(IDS[1], outputs=(other,)))
    assert [(each.path, each.sha256, each.content) for each in statement.predicate.outputs] == [
        ("model.npz", None, sha("a"))
    ]
    assert proof(record(), ignored=("model.npz",)).predicate.outputs == ()


def test_an_attestation_reads_back(tmp_path: Path) -> None:
    """What was written is read; none, or another file, is exit 11 with the next command."""
    path = tmp_path / "pylock.digits.verified.json"
    with pytest.raises(LockError) as none:
        attestation.load(path)
    assert none.value.message == f"there is no attestation {path}"
    assert none.value.hint == "make one: envbuild verify train.py"
    statement = proof(record())
    path.write_bytes(attestation.dumps(statement))
    assert attestation.load(path) == statement
    path.write_bytes(attestation.dumps(statement).replace(b"verification:1", b"verification:2"))
    with pytest.raises(LockError) as other:
        attestation.load(path)
    assert other.value.message.startswith(f"{path} is no attestation of envbuild: Invalid enum value")
    assert attestation.path_of(tmp_path / "pylock.digits.toml") == path


def test_a_lock_and_a_file_read_twice_do_not_matter(tmp_path: Path) -> None:
    """Files without a digest, such as configurations that were gone, are no part of a proof."""
    gone = ReadFile(path="gone.json", size=None, sha256=None)
    assert "gone.json" not in proof(record(configs=(gone,))).predicate.files


def folder(path: str, *, empty: bool = True) -> Folder:
    """A folder that a run made."""
    return Folder(path=path, change="created", mode="755", empty=empty)


def with_mode(path: str, mode: str) -> Output:
    """A file with permissions."""
    return msgspec.structs.replace(output(path), mode=mode)


def test_permissions_and_empty_folders_count() -> None:
    """Files of equal bytes and other permissions differ, and so do empty folders; full ones follow from their files."""
    one = ran(with_mode("run.sh", "755"), folders=(folder("a"),))
    other = ran(with_mode("run.sh", "644"), folders=(folder("b"),))
    verdict = judge([one, other], 2)
    assert verdict.outcome == "different"
    assert verdict.differs == ("the empty folder a, the empty folder b, permissions of run.sh (755 → 644)",)
    assert judge([one, other], 2, ("run.sh", "a", "b")).outcome == "identical"
    full = [ran(output(f"{name}/x"), folders=(folder(name, empty=False),)) for name in ("c", "d")]
    assert judge(full, 2).differs == ("c/x, d/x",)


def test_empty_folders_below_several_drawn_names_are_those_of_their_runs() -> None:
    """MLflow makes one for the artifacts of each run: runs are numbered in the order in which their files came."""
    drawn = [("b39c1f59e6eb4229b85d8fbde95460c6", "ec73b356eba1438480afa55ce84b546b")]
    drawn.append(("c8f2e290f685477ca678945cb443de9b", "3e8b1d4ef076480ab125607d46270404"))

    def left(names: tuple[str, str], empty: tuple[int, ...], *, known: bool = True) -> Ran:
        files = [f"mlruns/0/{name}/meta.yaml" for name in names]
        found = ran(*map(output, files), folders=tuple(folder(f"mlruns/0/{names[at]}/artifacts") for at in empty))
        return replace(found, written={file: at for at, file in enumerate(files, 5)} if known else {})

    one, other = (left(names, (0, 1)) for names in drawn)
    assert judge([one, other], 2).outcome == "identical"
    assert judge([left(drawn[0], (0,)), left(drawn[1], (0,))], 2).outcome == "identical"
    assert judge([left(drawn[0], (0,)), left(drawn[1], (0, 1))], 2).outcome == "different"
    assert judge([left(names, (0, 1), known=False) for names in drawn], 2).outcome == "different"


def test_extended_attributes_and_permissions_outside_the_project_count() -> None:
    """Files of equal bytes differ by them."""
    one, other = (msgspec.structs.replace(with_mode("w.bin", "644"), attributes=each * 32) for each in ("ab", "cd"))
    assert judge([ran(one), ran(other)], 2).differs == ("extended attributes of w.bin",)
    assert judge([ran(one), ran(one)], 2).outcome == "identical"
    left = [ran(outside=(with_mode("/tmp/w", mode),)) for mode in ("644", "600")]
    assert judge(left, 2).differs == ("permissions of /tmp/w (644 → 600)",)


def with_bytes(path: str, content: bytes, **changes: Any) -> Ran:
    """A run that left one file outside its project, which was opened."""
    found = output(path, sha256_bytes(content))
    opened = read(content, masks_of(record(**changes)))
    return replace(ran(outside=(found,), **changes), contents={path: opened} if opened is not None else {})


def test_files_outside_the_project_are_compared_by_what_they_hold() -> None:
    """As those of the project are: a log with times that a program leaves in `/tmp` or in a mounted folder."""
    lines = "2026-01-01 10:15:0{} INFO epoch 1 loss {}\n"
    start = "2026-01-01T10:15:00.000Z"
    runs = [with_bytes("/tmp/run/train.log", lines.format(at, 0.25).encode(), start=start) for at in (1, 2)]
    verdict = judge(runs, 2)
    assert verdict.outcome == "identical"
    assert [each.path for each in verdict.same_content] == ["/tmp/run/train.log"]
    other = with_bytes("/tmp/run/train.log", lines.format(2, 0.26).encode(), start=start)
    verdict = judge([runs[0], other], 2)
    assert verdict.outcome == "different"
    assert "/tmp/run/train.log" in verdict.differs[0]
    assert "0.25" in verdict.differs[0], "what differs in it is named"


def test_folders_outside_the_project_that_are_named_for_the_run_have_a_common_name() -> None:
    """As those of the project, and of tempfile, whose names nobody needs to hear of; what is in them counts."""
    start = "2026-01-01T10:15:00.000Z"
    differ = [with_bytes("/tmp/tmpab12cd34/w.json", b'{"loss": 0.%d}' % number, start=start) for number in (25, 26)]
    assert judge(differ, 2).differs == ("outside the project: /tmp/tmp*/w.json (loss: 0.25 → 0.26)",)
    dated = ("/results/20260101-101500/w", "/results/20260101-101507/w")
    drawn = ("/tmp/tmpab12cd34/w", "/tmp/tmpzz98yx76/w")
    for names, renamed in ((dated, ("/results/⟨date⟩/w",)), (drawn, ())):
        runs = [with_bytes(name, b"same", start=start) for name in names]
        verdict = judge(runs, 2)
        assert (verdict.outcome, verdict.renamed) == ("identical", renamed)
        assert judge([runs[0], with_bytes(names[1], b"other", start=start)], 2).outcome == "different"


def test_folders_that_are_named_for_the_run_are_compared_under_a_common_name() -> None:
    """As files are."""
    names = ("runs/20260101-101500_0a1b2c", "runs/20260101-101507_9f8e7d")
    start = "2026-01-01T10:15:00.000Z"
    runs = [ran(output(), folders=(folder(name),), start=start) for name in names]
    assert judge(runs, 2).outcome == "identical"


def test_long_lines_are_quoted_where_they_differ() -> None:
    """The moment in front of a line of a log is another one in each run; what counts comes behind it."""
    head = "[flaml.automl.logger: 11-26 17:49:{}] {{2732}} INFO - Time taken to find the best model of all: {}"
    one, other = lines.excerpts(head.format("25", 3.238), head.format("34", 1.718))
    assert shown(one, other) == ("…del of all: 3.238", "…del of all: 1.718")
    assert lines.excerpts("10:00:01 a", "10:00:02 a") == ("10:00:01 a", "10:00:02 a")
