"""Values whose names are next to them: in rows of databases, entries of lists, tables that notebooks show."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from envbuild.verification.content import Content, compare, read
from envbuild.verification.content.canonical import with_shared_names
from envbuild.verification.masking.masks import Masks

_NOW = 1_795_784_283.0


def _why(one: bytes, other: bytes) -> str:
    """Return what differs first; empty if the contents are equal."""
    found = [read(data, Masks(_NOW)) for data in (one, other)]
    contents: list[Content] = [each for each in found if each is not None]
    difference = compare(*with_shared_names(contents))
    return "" if difference.same else difference.why or "the digest"


def _database(path: Path, columns: str, *rows: tuple[object, ...]) -> bytes:
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE attributes ({columns})")
    connection.executemany(f"INSERT INTO attributes VALUES ({', '.join('?' * len(rows[0]))})", rows)
    connection.commit()
    connection.close()
    return path.read_bytes()


_OPTUNA = "id INTEGER, trial_id INTEGER, key VARCHAR(512), value_json TEXT"


@pytest.mark.parametrize(
    ("columns", "name", "one", "other", "equal"),
    [
        (_OPTUNA, "seconds", "6.2144", "1.254", True),
        (_OPTUNA, "seconds", "6.2144", '"6.2144"', False),
        (_OPTUNA, "seconds", "6", "7", False),  # a count, for all that is known
        (_OPTUNA, "score", "0.25", "0.5", False),
        ("id INTEGER, trial_id INTEGER, metric TEXT, value REAL", "fit_time", 0.25, 0.5, True),
        ("id INTEGER, trial_id INTEGER, metric TEXT, value REAL", "loss", 0.25, 0.5, False),
        ("id INTEGER, trial_id INTEGER, param_name TEXT, param_value REAL", "fit_time", 0.25, 0.5, False),
        ("id INTEGER, tag TEXT, metric TEXT, value REAL", "fit_time", 0.25, 0.5, False),
        ("run TEXT, step INTEGER, name TEXT, value REAL", "step_time", 0.25, 0.5, True),
        ("run TEXT, step INTEGER, name TEXT, value REAL", "loss", 0.25, 0.5, False),
    ],
)
def test_a_row_of_a_database_names_its_value(
    tmp_path: Path, columns: str, name: str, one: object, other: object, equal: bool
) -> None:
    """What may be measured, with a fraction, is left out; what is drawn, counted or named twice is not."""
    rows = [_database(tmp_path / f"{at}.db", columns, (1, 1, name, value)) for at, value in enumerate((one, other))]
    assert (_why(*rows) == "") is equal


@pytest.mark.parametrize(
    ("tag", "name", "equal"),
    [
        ("metric", "fit_time", True),
        ("tag", "charts/SPS", True),
        ("metric", "loss", False),
        ("metric", "valve_throughput", False),
        ("name", "fit_time", False),  # parameters have names
    ],
)
def test_an_entry_names_its_value(tag: str, name: str, equal: bool) -> None:
    """In lists of metrics the name is next to the value, as in tables with a row for each."""
    one, other = (json.dumps([{tag: name, "value": value}, {tag: "loss", "value": 0.1}]) for value in (0.25, 0.5))
    assert (_why(one.encode(), other.encode()) == "") is equal


_HTML = (
    "<style scoped>\n.dataframe tbody tr th:only-of-type {{ vertical-align: middle; }}\n</style>\n"
    '<table><thead><tr><th class="blank">&nbsp;</th><th>score</th>'
    "<th>fit_time</th></tr></thead>\n<tbody><tr><th>0</th><td>{score}</td><td>{took}</td></tr></tbody></table>\n"
)
_PLAIN = "      score  fit_time\n0  {score:>8}  {took:>8}\n1  0.955556  0.078588"


def _shown(kind: str, template: str, score: float, took: float, *, lines: bool) -> bytes:
    text = template.format(score=score, took=took)
    data = {kind: text.splitlines(keepends=True) if lines else text}
    cell = {"cell_type": "code", "outputs": [{"output_type": "execute_result", "data": data}]}
    return json.dumps({"nbformat": 4, "cells": [cell]}).encode()


@pytest.mark.parametrize(("kind", "template"), [("text/html", _HTML), ("text/plain", _PLAIN)])
@pytest.mark.parametrize("lines", [True, False])
def test_columns_of_a_table_that_a_notebook_shows(kind: str, template: str, *, lines: bool) -> None:
    """The head of a table is in another line than its numbers; what is in another column counts."""
    one = _shown(kind, template, 0.955556, 0.078588, lines=lines)
    assert _why(one, _shown(kind, template, 0.955556, 0.118423, lines=lines)) == ""
    assert _why(one, _shown(kind, template, 0.955557, 0.078588, lines=lines))
    assert _why(one, _shown(kind, template, 0.955556, 0.078588, lines=not lines))


def _by_papermill(second: int, took: float) -> bytes:
    times = {
        "start_time": f"2026-11-27T12:58:{second}.250000+00:00",
        "end_time": f"2026-11-27T12:58:{second + 1}.500000+00:00",
        "duration": took,
        "status": "completed",
    }
    cell = {"cell_type": "code", "outputs": [], "metadata": {"papermill": times}}
    return json.dumps({"nbformat": 4, "cells": [cell], "metadata": {"papermill": times}}).encode()


def test_the_times_of_papermill_leave_no_doubt() -> None:
    """A duration is left out for what it is between; one that is not counts as any other does by its name."""
    one, other = (read(_by_papermill(second, 1.25), Masks(_NOW).with_files((), dict, 60.0)) for second in (10, 20))
    assert one is not None
    assert other is not None
    assert compare(one, other).same
    assert not one.short
    assert not any(one.exact.values())
    strange = read(_by_papermill(10, 1.5), Masks(_NOW).with_files((), dict, 60.0))
    assert strange is not None
    assert strange.short or any(strange.exact.values())


def test_columns_of_a_table_that_is_a_part_of_a_page() -> None:
    """pandas' ``Styler`` writes a style and a table next to each other, with blanks that HTML names."""
    one, other, worse = (
        _HTML.format(score=score, took=took).encode() for score, took in ((0.9, 0.5), (0.9, 0.75), (0.8, 0.5))
    )
    assert _why(one, other) == ""
    assert _why(one, worse)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("chatcmpl-3a6d66df3a01415d95d6cef3", "chatcmpl-6aad31a3cb3c4828a48e10e0", True),
        ("resp_67ccd2bed1ec8190b14f964abc0542", "resp_68ccd2bed1ec8190b14f964abc0999", True),
        ("chatcmpl-7", "chatcmpl-8", False),  # counted
        ("item-3a6d66df3a01415d95d6cef3", "item-6aad31a3cb3c4828a48e10e0", False),  # of data, for all that is known
    ],
)
def test_servers_of_models_draw_the_identities_of_answers(one: str, other: str, equal: bool) -> None:
    """Under a bare ``id``, which is that of data elsewhere."""
    texts = [json.dumps({"id": each, "text": "12"}).encode() for each in (one, other)]
    assert (_why(*texts) == "") is equal
    assert _why(texts[0], texts[1].replace(b"12", b"13")) != ""
