"""MLflow's database of a search: threads write the runs of its candidates, in any order, and what they are counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from envbuild.verification.content import Content, compare, read
from envbuild.verification.content.canonical import with_shared_names
from envbuild.verification.masking.masks import Masks

_NOW = 1_795_784_283.0
_SCHEMA = """
CREATE TABLE inputs (input_uuid TEXT, source_type TEXT, source_id TEXT, destination_type TEXT, destination_id TEXT);
CREATE TABLE latest_metrics (key TEXT, value FLOAT, timestamp BIGINT, step BIGINT, is_nan BOOLEAN, run_uuid TEXT);
CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, name TEXT);
CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
"""
_Row = tuple[str, str, float, float]
"""Of a candidate: its drawn name, its parameter, its score, how long it took to fit."""
_RUNS = ("nimble-eel-228", "1", 0.9, 0.25), ("rare-bass-30", "10", 0.8, 0.5)


def _drawn(number: int) -> str:
    return f"{number * 0x9E3779B97F4B % (1 << 48):012x}4abc8{number:015x}"


def _database(
    folder: Path, rows: Sequence[_Row], *, first: int = 1, autologged: bool = True, name: str = "capable-auk-759"
) -> bytes:
    """Return a database of a search; ``first``: from which number on identities are drawn."""
    folder.mkdir()
    connection = sqlite3.connect(folder / "mlflow.db")
    connection.executescript(_SCHEMA)
    search = _drawn(first)

    def insert(table: str, *values: object) -> None:
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    insert("runs", search, name)
    for at, (slug, parameter, score, took) in enumerate(rows, 1):
        run = _drawn(first + at)
        insert("runs", run, slug)
        insert("tags", "mlflow.parentRunId", search, run)
        insert("tags", "mlflow.runName", slug, run)
        if autologged:
            insert("tags", "mlflow.autologging", "sklearn", run)
        insert("params", "C", parameter, run)
        insert("latest_metrics", "mean_test_score", score, int(_NOW * 1000), 0, 0, run)
        insert("latest_metrics", "mean_fit_time", took, int(_NOW * 1000), 0, 0, run)
        insert("inputs", _drawn(first + at + 100), "DATASET", _drawn(first + 50), "RUN", run)
    insert("latest_metrics", "best_cv_score", 0.9, int(_NOW * 1000), 0, 0, search)
    connection.commit()
    connection.close()
    return (folder / "mlflow.db").read_bytes()


def _why(one: bytes, other: bytes) -> str:
    """Return what differs first; empty if the contents are equal."""
    found = [read(data, Masks(_NOW)) for data in (one, other)]
    contents: list[Content] = [each for each in found if each is not None]
    difference = compare(*with_shared_names(contents))
    return "" if difference.same else difference.why or "the digest"


def test_candidates_may_come_in_any_order(tmp_path: Path) -> None:
    """Their identities and names are drawn, and how long they took is measured."""
    (one, *first), (other, *second) = _RUNS
    swapped = [(one, *second[:2], 0.75), (other, *first[:2], 0.125)]
    found = _database(tmp_path / "0", _RUNS), _database(tmp_path / "1", swapped, first=7000)
    assert _why(*found) == ""


def _with_other_score(rows: list[_Row]) -> list[_Row]:
    return [rows[0], (*rows[1][:2], 0.81, rows[1][3])]


def _with_other_parameter(rows: list[_Row]) -> list[_Row]:
    return [rows[0], (rows[1][0], "100", *rows[1][2:])]


def _with_scores_exchanged(rows: list[_Row]) -> list[_Row]:
    return [(*rows[0][:2], rows[1][2], rows[0][3]), (*rows[1][:2], rows[0][2], rows[1][3])]


@pytest.mark.parametrize(
    "change", [_with_other_score, _with_other_parameter, _with_scores_exchanged, lambda rows: rows[:1]]
)
def test_what_a_candidate_is_counts(tmp_path: Path, change: Callable[[list[_Row]], list[_Row]]) -> None:
    """Its parameter, its score, which has which, and how many there are."""
    changed = change([*_RUNS])
    assert _why(_database(tmp_path / "0", _RUNS), _database(tmp_path / "1", changed, first=7000))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE latest_metrics SET run_uuid = (SELECT run_uuid FROM runs LIMIT 1 OFFSET 1) WHERE key = 'best_cv_score'",
        "UPDATE tags SET run_uuid = (SELECT run_uuid FROM runs LIMIT 1) WHERE key = 'mlflow.runName'",
        "UPDATE tags SET value = (SELECT run_uuid FROM runs LIMIT 1 OFFSET 1) "
        "WHERE key = 'mlflow.parentRunId' AND run_uuid = (SELECT run_uuid FROM runs LIMIT 1 OFFSET 2)",
    ],
)
@pytest.mark.parametrize("autologged", [True, False])
def test_which_run_something_is_of_counts(tmp_path: Path, change: str, *, autologged: bool) -> None:
    """Identities are drawn; a metric, a tag, or a run, may be of another run."""
    one = _database(tmp_path / "0", _RUNS, autologged=autologged)
    other = _database(tmp_path / "1", _RUNS, first=7000, autologged=autologged)
    assert _why(one, other) == ""
    with sqlite3.connect(tmp_path / "1" / "mlflow.db") as connection:
        connection.execute(change)
    connection.close()
    assert _why(one, (tmp_path / "1" / "mlflow.db").read_bytes())


def test_the_order_of_runs_that_a_program_begins_counts(tmp_path: Path) -> None:
    """Without autologging a run is one that the program began, one after the other."""
    rows = [_database(tmp_path / str(at), each, autologged=False) for at, each in enumerate((_RUNS, _RUNS[::-1]))]
    assert _why(*rows)


def test_the_name_of_the_search_counts(tmp_path: Path) -> None:
    """A program may have given it."""
    one, other = (_database(tmp_path / name, _RUNS, name=name) for name in ("calm-fish-1", "bold-fish-2"))
    assert _why(one, other)
