"""``report.render``: what a page reports, that it is safe, accessible and the same bytes each time."""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.difference.compare import compare
from envbuild.errors import UsageError
from envbuild.record.model import Git, Output, Record, Tensor
from envbuild.reports.page import MOST, render
from envbuild.reports.values import Distance, Run
from tests.support.locks import small_lock
from tests.support.pages import Page
from tests.support.records import A, B, other_results, parameters, record, sha, verdict

GOLDEN = Path(__file__).parents[2] / "golden" / "report.html"
CSS = Path(__file__).parents[3] / "templates" / "report.css"


def page(*records: Record, distance: Distance | None = None, lock: bool = False) -> Page:
    """A page about records, read."""
    return Page(render(runs(*records, distance=distance, lock=lock)))


def runs(*records: Record, distance: Distance | None = None, lock: bool = False) -> list[Run]:
    """Runs as the command line passes them."""
    locked = small_lock() if lock else None
    first, *others = records
    compared = [Run(record=each, difference=compare(first, each), distance=distance, lock=locked) for each in others]
    return [Run(record=first, lock=locked), *compared]


def changed() -> Record:
    """A second run with another argument and other results."""
    return other_results(parameters=parameters(learning_rate=0.01, epochs=3))


DISTANCE = Distance(
    first=37,
    sentence="First difference: epoch 2, step 14 (37 in all), tensor conv/kernel (1 of 9,216 values, 1 ulp).",
    tensors={
        "conv/kernel": [(step, 0.0 if step < 37 else 1e-9 * 1.2 ** (step - 37)) for step in range(100)],
        "dense/bias": [(step, 0.0 if step < 40 else nan if step < 42 else 1e-8) for step in range(100)],
        "never": [(step, 0.0) for step in range(100)],
        "for a while": [(step, 1e-9 if 50 <= step < 60 else 0.0) for step in range(100)],
    },
    unit="of the larger norm",
)


def everything() -> bytes:
    """A page on which each part is there."""
    third = msgspec.structs.replace(record("01JE" + "0" * 22), deleted=("old.npz",), state="refused", outputs=())
    return render(
        [*runs(record(deleted=("tmp",)), changed(), distance=DISTANCE, lock=True), *runs(record(), third)[1:]]
    )


# Safety


def test_a_page_is_whole_and_takes_nothing_from_anywhere() -> None:
    """Each element is closed where it should be; no script, inline style or handler, no reference to another file."""
    read = Page(everything())
    assert read.problems == []
    tags = {name for name, _ in read.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "use", "image", "a:href"}
    for name, attributes in read.elements:
        assert not [
            key for key in attributes if key.startswith("on") or key in ("style", "src", "srcset", "xlink:href")
        ]
        assert attributes.get("href", "#").startswith("#"), name
    assert "url(" not in read.style
    assert "@import" not in read.style


def test_the_page_forbids_all_but_its_style_sheet() -> None:
    """The Content-Security-Policy is before the style sheet, forbids all, and allows that one by its digest."""
    read = Page(everything())
    digest = base64.b64encode(hashlib.sha256(read.style.encode()).digest()).decode()
    assert read.all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert len(read.all("style")) == 1
    names = [name for name, _ in read.elements]
    assert names.index("meta") < names.index("style")


HOSTILE = "</title></style><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&lt;{{7*7}}\x1b[31m\u202e\x00]]>"


def _hostile(identity: str, learning_rate: float) -> Record:
    """A record with the hostile text wherever a user, a program or another machine could put it."""
    table = msgspec.to_builtins(record(identity))
    table["command"] = [HOSTILE, f"--rate={HOSTILE}"]
    table["environment"] = table["engine"] = {"name": HOSTILE, HOSTILE: HOSTILE}
    table["verdict"] = msgspec.to_builtins(verdict({"field": HOSTILE, "ok": False, "allowed": True}))
    table["verified"] = "overridden"
    table["inputs"] = {HOSTILE: sha("4")}
    table["problem"] = table["directory"] = HOSTILE
    table["lock"]["file"] = table["script"]["path"] = table["git"]["branch"] = HOSTILE
    table["git"]["commit"] = HOSTILE
    table["options"] |= {
        "network": HOSTILE,
        "mounts": [HOSTILE],
        "gpus": HOSTILE,
        "cpuset": HOSTILE,
        "allow": [HOSTILE],
    }
    table["input_changes"] = table["deleted"] = [HOSTILE]
    for key in ("configs", "modules", "objects"):
        table[key] = [{"path": f"{key}{HOSTILE}", "size": 1, "sha256": None}]
    tensor = {"dtype": HOSTILE, "shape": [1], "digest": ("c" if identity == A else "d") * 32}
    table["outputs"] = [{
        "path": HOSTILE, "change": "created", "size": 1, "sha256": sha("1" if identity == A else "2"),
        "tensors": {HOSTILE: tensor}, "unread": HOSTILE,
    }]  # fmt: skip
    table["metrics"] = {HOSTILE: [[0, learning_rate], [1, 2.0]]}
    table["metric_sources"] = {HOSTILE: HOSTILE}
    table["parameters"] = [{
        "parser": HOSTILE, "program": HOSTILE,
        "values": {HOSTILE: {"value": [HOSTILE, learning_rate], "source": HOSTILE}},
    }]  # fmt: skip
    table["processes"] = [{
        "frameworks": {HOSTILE: HOSTILE}, "seed": 7, "generators": {HOSTILE: 7},
        "switches": [{"name": HOSTILE, "wanted": 1, "found": HOSTILE, "ok": False}],
    }]  # fmt: skip
    for part in ("kernel", "machine", "libc"):
        table["host"][part] = HOSTILE
    table["host"]["cpu"]["model"] = table["host"]["gpu"]["devices"][0]["name"] = table["host"]["gpu"]["driver"] = (
        HOSTILE
    )
    return msgspec.convert(table, Record)


def test_no_value_becomes_part_of_the_page() -> None:
    """Whatever is in a record is text: no element or attribute comes from it, no control character or turn of the
    reading direction stays in it."""
    distance = Distance(first=1, sentence=HOSTILE, tensors={HOSTILE: [(0, 0.0), (1, 0.5)]}, unit=HOSTILE)
    data = render(runs(_hostile(A, 0.1), _hostile(B, 0.2), distance=distance))
    read = Page(data)
    assert read.problems == []
    assert "script" not in {name for name, _ in read.elements}
    assert "img" not in {name for name, _ in read.elements}
    assert not [key for _, attributes in read.elements for key in attributes if key.startswith("on")]
    assert {sign for sign in data.decode() if not sign.isprintable()} == {"\n"}
    assert read.text.count("<script>alert(1)</script>") > 30
    assert "Runs differ from step 0 on." in read.text


def test_secrets_stay_masked() -> None:
    """A record that was written before a pattern was known, or by hand, shows no secret: masked by name and by look."""
    token, word = "hf_" + "a1B2" * 8, "open-sesame"
    secret = record(
        command=("python", "train.py", f"--token={word}", token),
        environment={"HF_TOKEN": word, "NOTE": f"use {token}", "INDEX": f"https://{word}@127.0.0.1/"},
        problem=f"cannot log in with {token}",
        parameters=parameters(note=token),
        metrics={token: ((0, 1.0),)},
    )
    data = render(runs(secret, msgspec.structs.replace(secret, id=B, metrics={token: ((0, 2.0),)}))).decode()
    assert token not in data
    assert word not in data
    assert "***" in data


# Bytes


def test_equal_runs_give_equal_bytes_on_any_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the day nor anything random is in a page."""
    import pygal.svg

    before = everything()

    class Tomorrow(datetime.date):
        @classmethod
        def today(cls) -> Tomorrow:
            return cls(2099, 1, 1)

    monkeypatch.setattr(pygal.svg, "date", Tomorrow)
    assert everything() == before


def test_golden() -> None:
    """The page is what tests/golden/report.html holds; ENVBUILD_UPDATE_GOLDEN=1 records it anew.

    The style sheet is left out: it is a separate file.
    """
    data = re.sub(rb"<style>.*?</style>|sha256-[\w+/=]+", b"", everything(), flags=re.S)
    if os.environ.get("ENVBUILD_UPDATE_GOLDEN"):
        GOLDEN.write_bytes(data)
    assert data.decode() == GOLDEN.read_text()


def test_a_page_about_much_stays_small() -> None:
    """Two runs with long curves, two thousand tensors and a long trace fit into 1 MB; the rest is counted."""
    metrics = {f"m{number}": tuple((step, (step * 7919 % 104729) / 1e3) for step in range(3000)) for number in range(2)}
    metrics |= {f"n{number}": metrics["m0"] for number in range(38)}
    tensors = {f"layer{number}/kernel": Tensor(dtype="float32", shape=(3,), digest="b" * 32) for number in range(2000)}
    output = Output(path="model.h5", change="created", size=9, sha256=sha("9"), content=sha("a"), tensors=tensors)
    many = [record(identity, metrics=metrics, outputs=(output,)) for identity in (A, B)]
    steps = {f"layer{number}": [(step, float(step % 97)) for step in range(0, 10_000, 50)] for number in range(100)}
    data = render(runs(*many, distance=Distance(first=1, tensors=steps)))
    assert len(data) < 1_000_000
    read = Page(data)
    assert "Not drawn, for want of room: n22, n23," in read.text
    assert "1800 more are not shown." in read.text
    assert "60 that part later are not shown" in read.text


# What it states


def headline(*records: Record) -> str:
    """The sentence at the top."""
    return next(text for name, text in page(*records).texts if name == "h1")


def third(**changes: Any) -> Record:
    """A run that was refused."""
    return record("01JE" + "0" * 22, **{"state": "refused", "outputs": (), "metrics": {}, **changes})


def test_the_headline_reports_whether_runs_agree() -> None:
    """Each way in which runs can compare has its words."""
    assert headline(record()) == "Run 01JC000000: ok"
    assert headline(record(), record(B)) == "A and B are bit-identical"
    assert headline(record(), changed()) == "B differs from A"
    assert headline(record(), third()) == "B cannot be compared with A"
    assert headline(record(), record(B), changed(), third()) == (
        "C differs from A, B equals it, D cannot be compared with it"
    )
    bytes_only = (msgspec.structs.replace(record().outputs[0], sha256=sha("f")),)
    assert headline(record(), record(B, outputs=bytes_only)) == ("A and B hold equal tensors, in files of other bytes")


def test_the_reason_is_below_the_headline() -> None:
    """A cause is named of different results; of equal ones what was compared; of none why not."""
    assert "because learning_rate 0.1 (default) → 0.01 (default)" in page(record(), changed()).text
    assert "A and B are bit-identical 1 output, 1 metric " in page(record(), record(B)).text
    assert "B cannot be compared with A B has no results: the guard refused it, nothing was run" in (
        page(record(), third()).text
    )


def test_curves_lie_over_each_other_and_the_first_difference_is_marked() -> None:
    """A metric is one drawing of all runs, with a line where they diverge, words for it and a table of the values."""
    read = page(record(), changed())
    drawing = read.all("svg", role="img")[0]
    assert drawing["aria-label"] == (
        "val_accuracy: Runs differ from step 1 on. A goes from 0.9 to 0.9697. B goes from 0.9 to 0.9471."
    )
    classes = [found.get("class", "") for name, found in read.elements if name == "g"]
    assert [name for name in classes if name in ("run run-0", "run run-1", "mark")] == [
        "run run-0", "run run-1", "mark", "run run-0", "run run-1",
    ]  # fmt: skip
    assert ("title", "B, step 1: 0.9471") in read.texts
    assert "Values of val_accuracy step A B 0 0.9 0.9 1 0.9697 0.9471" in read.text


def test_epochs_of_keras_are_counted_as_keras_prints_them() -> None:
    """Keras' history begins with 0, what people see of it with 1: in the drawing, the table and the differences."""
    keras = {"metric_sources": {"val_accuracy": "keras"}}
    text = page(record(**keras), msgspec.structs.replace(changed(), **keras)).text
    assert "Runs differ from epoch 2 on." in text
    assert "epoch A B 1 0.9 0.9 2 0.9697 0.9471" in text
    assert "first differs at epoch 2" in text


def test_curves_that_end_apart_or_break_say_so() -> None:
    """Shorter runs, values that are no number and metrics without a value are reported as text."""
    one = record(metrics={"loss": ((0, 1.0), (1, "nan"), (2, 0.5)), "empty": ()})
    two = record(B, metrics={"loss": ((0, 1.0), (1, "nan"), (2, 0.5), (3, "inf")), "empty": ((0, 1.0),)})
    text = page(one, two).text
    assert (
        "Equal as far as both go. The last step is 2 of A, 3 of B. A is not finite at step 1. B is not finite" in text
    )
    assert "1 not a number not a number" in text
    assert "3 – ∞" in text
    assert "A measured nothing." in text


def test_what_measures_the_clock_is_no_difference() -> None:
    """Times are drawn, and not marked: they differ between any two runs."""
    one, two = record(metrics={"epoch_time": ((0, 1.0),)}), record(B, metrics={"epoch_time": ((0, 2.0),)})
    read = page(one, two)
    assert not [found for found in read.all("g") if found.get("class") == "mark"]
    assert "differ from step" not in read.text
    assert "first difference" not in read.text


def test_strips_show_how_far_each_tensor_is_from_step_to_step() -> None:
    """Tensors that part first come first, with step, distance at the end and darker bands; equal ones are counted."""
    read = page(record(), changed(), distance=DISTANCE)
    rows = re.findall(
        r"(conv/kernel|dense/bias|for a while) (\d+) .*? (\S+(?: again)?) (?=conv|dense|for|equal,)", read.text
    )
    assert [(name, first) for name, first, _ in rows] == [
        ("conv/kernel", "37"),
        ("dense/bias", "40"),
        ("for a while", "50"),
    ]
    assert "First difference: epoch 2, step 14 (37 in all), tensor conv/kernel" in read.text
    assert "equal, then 1e−09 to 8.1e−05 of the larger norm, logarithmic · 1 more tensor never differs" in read.text
    assert "steps 40 to 41: differs, by how much is not known" in read.text
    assert "equal again" in read.text
    levels = [found["class"] for found in read.all("rect") if found["class"] != "level-0"]
    assert levels[:8] == [f"level-{number}" for number in range(1, 9)]


def test_equal_traces_say_so() -> None:
    """Two traces without a difference are no empty table."""
    read = page(record(), record(B), distance=Distance(tensors={"w": [(0, 0.0), (1, 0.0)]}))
    assert "Distance of B from A All tensors are equal at every step." in read.text
    assert not read.all("table", **{"class": "strips"})


def test_differences_are_a_table_causes_first() -> None:
    """Causes, results and what merely follows are apart; what is equal and what is not known is reported."""
    text = page(record(), changed()).text
    start = text.index("Because, most likely first")
    assert start < text.index("Results", start) < text.index("Same ", start)
    assert "learning_rate 0.1 (default) → 0.01 (default)" in text[start:]
    assert "Because" not in page(record(), record(B, start="2027-01-02T03:04:05.678Z")).text


def test_outputs_are_compared_down_to_the_tensor() -> None:
    """Each way in which a file can compare has its word; tensors that differ are marked."""
    kept = Output(path="log.txt", change="created", size=1, sha256=sha("5"))
    other = msgspec.structs.replace(record().outputs[0], path="new.npz")
    bytes_only = msgspec.structs.replace(record().outputs[0], path="z.npz")
    one = record(outputs=(*record().outputs, kept, bytes_only))
    two = changed()
    two = msgspec.structs.replace(
        two, outputs=(*two.outputs, kept, other, msgspec.structs.replace(bytes_only, sha256=sha("e")))
    )
    read = page(one, two)
    for printed in (
        "model.npz differs", "log.txt equal bytes", "new.npz only in B", "z.npz equal tensors, other bytes",
        "1 tensor, 1 differs", "kernel float32 3 bbbbbbbbbbbb cccccccccccc",
    ):  # fmt: skip
        assert printed in read.text, printed
    order = [text for name, text in read.texts if name == "code" and text.endswith((".npz", ".txt"))]
    assert order == ["model.npz", "new.npz", "z.npz", "log.txt"]


def test_facts_stand_side_by_side_and_once_if_they_are_the_same() -> None:
    """A row that is the same in all runs has one cell, any other one for each run, with the run's letter."""
    two = msgspec.structs.replace(
        changed(), git=Git(commit="f" * 40, branch="main", dirty=True, diff_sha256=sha("d"), untracked=2)
    )
    read = page(record(), two, lock=True)
    assert "Git A eeeeeeeeeeee · main B ffffffffffff · main · changed (dddddddddddd) · 2 untracked" in read.text
    assert "Script train.py · sha256:333333333333… Git" in read.text
    assert "learning_rate A 0.1 (default) B 0.01 (default) epochs 3 (default)" in read.text
    assert "OS debian-12 · " in read.text
    assert "torch 2.13.0" in read.text
    assert "Environment variables 2, none differ" in read.text


def test_too_many_runs_are_refused() -> None:
    """A page has room for a dozen."""
    with pytest.raises(UsageError) as caught:
        render([Run(record=record())] * (MOST + 1))
    assert caught.value.message == "a report shows 1 to 12 runs, found 13"
    with pytest.raises(UsageError):
        render([])


# For everyone


def test_what_is_drawn_is_also_written_as_text() -> None:
    """Drawings have words or are decoration; names of parts are there; controls have labels; headings are in order."""
    read = Page(everything())
    for drawing in read.all("svg"):
        assert drawing.get("aria-hidden") == "true" or (drawing["role"] == "img" and drawing["aria-label"])
    identities = [found["id"] for _, found in read.elements if "id" in found]
    assert len(set(identities)) == len(identities)
    named = {found[key] for _, found in read.elements for key in ("aria-labelledby", "for") if key in found}
    assert named <= set(identities)
    assert {found["href"].lstrip("#") for found in read.all("a")} <= set(identities)
    names = [name for name, _ in read.elements]
    assert all(names[place - 1] == "label" for place, name in enumerate(names) if name == "input")
    levels = [int(name[1]) for name in names if re.fullmatch(r"h\d", name)]
    assert levels[0] == 1
    assert all(two <= one + 1 for one, two in pairwise(levels))
    assert all("scope" in found for found in read.all("th"))
    assert all(found.get("tabindex") == "0" and found.get("aria-label") for found in read.all("div", role="region"))
    assert read.all("html", lang="en")


def _themes() -> Iterator[dict[str, str]]:
    style = CSS.read_text()
    light = dict(re.findall(r"--([\w-]+): (#\w+)", style[: style.index("@media")]))
    dark = dict(re.findall(r"--([\w-]+): (#\w+)", style[style.index("@media") : style.index("* {")]))
    yield light
    yield {**light, **dark}


def _luminance(colour: str) -> float:
    full = colour[1:] if len(colour) == 7 else "".join(sign * 2 for sign in colour[1:])
    parts = [int(full[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(theme: Mapping[str, str], one: str, two: str) -> float:
    low, high = sorted((_luminance(theme[one]), _luminance(theme[two])))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", list(_themes()), ids=["light", "dark"])
def test_colours_have_contrast(theme: dict[str, str]) -> None:
    """Text has the contrast of WCAG 2.2 AA (4.5 to 1) in both themes, letters on a run's colour included."""
    theme["run-1"] = theme["accent"]
    for name in ("ink", "muted", "accent", *(f"run-{place}" for place in range(6))):
        assert _contrast(theme, name, "paper") >= 4.5, name
    for place in range(6):
        assert _contrast(theme, f"run-{place}", "on-run") >= 4.5, place
