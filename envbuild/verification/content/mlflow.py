"""What MLflow keeps of runs: files of metrics, and its database.

In its store of files, ``RUN/metrics/NAME`` has a line for each value with its time and its step: the name of the metric
is that of the file, so that no reader of texts sees it (mlflow/store/tracking/file_store.py). In its database the name
is in the row of the value.

A search with autologging notes each candidate as a run below that of the search. Threads write them, in any order, and
draw names such as ``nimble-eel-228`` for them (mlflow/utils/autologging_utils/client.py, ``flush``): they count in the
order of their parameters and metrics, without these names.
"""

from __future__ import annotations

import hashlib
import math
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.record.measurements import kind_of
from envbuild.verification.content import values
from envbuild.verification.content.canonical import Canonical, UnreadableError

_PLACE = lazy(r"/(?:m-)?[0-9a-f]{32}/metrics/(.+)")
_LINE = lazy(r"(\d{13}) (\S{1,40}) (-?\d{1,18})(?: (.{1,500}))?", re.ASCII)
"""Milliseconds since 1970, the value, the step; for a model also the run and the dataset."""
_METRICS = (
    ("key", "value", frozenset(("key", "value", "timestamp", "step", "is_nan", "run_uuid"))),
    ("metric_name", "metric_value", frozenset(("model_id", "metric_name", "metric_step", "metric_value", "run_id"))),
)
"""Tables of metrics of runs and of models: the columns of names and of values, and some that they have."""
_NAMES, _VALUES = ("key", "tag", "metric", "metric_name"), ("value", "value_json", "metric_value")
"""Columns of other programs' tables that have a row for each value, with its name (Optuna's attributes of trials)."""
_RUN = "run_uuid"
_TABLES = {
    "runs": (_RUN,),
    "tags": ("key", "value", _RUN),
    "params": ("key", "value", _RUN),
    "latest_metrics": ("key", "value", _RUN),
}
_PARENT = "mlflow.parentRunId"
_CANDIDATE = frozenset(("mlflow.autologging", _PARENT))
"""Tags of a run that autologging makes for a candidate of a search."""
_FIRST, _OF_SEARCH = " ", lazy(r" \Z")
"""The end of the rank of a search itself, which comes before its candidates."""
_NAME, _SLUG = "mlflow.runName", lazy(r"[a-z]+-[a-z]+-\d{1,3}")


class Table:
    """How a table of a database is read that may be one of MLflow's.

    Args:
        columns: their names.
        ranks: as ``ranks_of_candidates`` returns it.
    """

    def __init__(self, columns: Sequence[str], ranks: Mapping[str, str]) -> None:
        self._ranks, self._columns = ranks, columns
        self._run = columns.index(_RUN) if _RUN in columns else -1  # the parent is in tags too
        self._key = columns.index("key") if "key" in columns else -1
        known = (each for each in _METRICS if {*columns} >= each[2])
        name, self._value, _ = next(known, ("", "", frozenset()))
        self._name = columns.index(name) if name else -1
        self._long = _long(columns) if not name else (-1, "")

    def measurement(self, row: Sequence[object], column: str) -> str:
        """Return the name of what a column has, in a table of any program, if it may be a measurement by that name."""
        at, value = self._long
        name = row[at] if at >= 0 and column == value else ""
        return name if isinstance(name, str) and kind_of(name) in ("time", "rate", "memory") else ""

    def metric(self, row: Sequence[object], column: str) -> str:
        """Return the name of the metric whose value a column has; empty if it has none."""
        name = row[self._name] if self._name >= 0 and column == self._value else ""
        return name if isinstance(name, str) else ""

    def is_parent(self, row: Sequence[object], column: str, value: str) -> bool:
        """Whether a text is the identity of the run that a run is below."""
        return column == "value" and self._key >= 0 and row[self._key] == _PARENT and values.is_drawn(value)

    def is_drawn(self, row: Sequence[object], column: str, value: str) -> bool:
        """Whether a text is the name that was drawn for a candidate."""
        if _OF_SEARCH.search(self._rank(row) or _FIRST) is not None or _SLUG.fullmatch(value) is None:
            return False
        return column == "name" or (column == "value" and self._key >= 0 and row[self._key] == _NAME)

    def in_order(self, rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
        """Return rows, each with its number first; those of candidates are in the order of these, at their places."""
        if not self._ranks:
            return rows
        all_rows = [*rows]
        places = [at for at, row in enumerate(all_rows) if self._rank(row)]
        ordered = sorted((all_rows[at] for at in places), key=self._rank)
        numbers = [all_rows[at][0] for at in places]
        for at, number, row in zip(places, numbers, ordered, strict=True):
            all_rows[at] = (number, *row[1:])
        return all_rows

    def _rank(self, row: Sequence[object]) -> str:
        """Return the rank of the run that a row is of; empty if it is of none that has one."""
        row = row[self._run - len(self._columns) :][:1] if self._run >= 0 else row
        return next((self._ranks[value] for value in row if isinstance(value, str) and value in self._ranks), "")


def _long(columns: Sequence[str]) -> tuple[int, str]:
    """Return where a table with a row for each value has their names, and the column of values; -1 if it is none."""
    names = [at for at, name in enumerate(columns) if name.lower() in _NAMES]
    names = names or [at for at, name in enumerate(columns) if name.lower() == "name"]  # a person's, in other tables
    found = [name for name in columns if name.lower() in _VALUES]
    return (names[0], found[0]) if len(names) == len(found) == 1 else (-1, "")


def ranks_of_candidates(connection: sqlite3.Connection) -> Mapping[str, str]:
    """Return the runs of searches and of their candidates, each with a text by which they are sorted.

    Searches are in their order; of each the candidates are by a digest of their parameters and results.

    Args:
        connection: to a database, of MLflow or not.
    """
    for table, wanted in _TABLES.items():
        if not {*wanted} <= {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}:
            return {}
    tags: dict[str, dict[str, str]] = {}
    for key, value, run in connection.execute("SELECT key, value, run_uuid FROM tags"):
        tags.setdefault(str(run), {})[str(key)] = str(value)
    found: dict[str, list[str]] = {run: [] for run, each in tags.items() if each.keys() >= _CANDIDATE}
    if not found:
        return {}
    for table in ("params", "latest_metrics"):
        query = f"SELECT key, value, run_uuid FROM {table}"  # noqa: S608 - one of two names
        for key, value, run in connection.execute(query):
            if run in found and (table == "params" or kind_of(str(key)) is None):
                found[run].append(f"{table} {key!r} {value!r}")
    searches = {tags[run][_PARENT]: "" for run in found}
    runs = (str(run) for (run,) in connection.execute("SELECT run_uuid FROM runs NOT INDEXED"))
    searches = {run: f"{at:09}" for at, run in enumerate(run for run in runs if run in searches)}
    ranks = {run: f"{at}{_FIRST}" for run, at in searches.items()}
    for run, parts in found.items():
        digest = hashlib.sha256("\n".join(sorted(parts)).encode("utf-8", "surrogatepass")).hexdigest()
        ranks[run] = f"{searches.get(tags[run][_PARENT], '')} {digest}"
    return ranks | _inputs(connection, ranks)


def numbers_of_runs(connection: sqlite3.Connection, ranks: Mapping[str, str]) -> Mapping[str, int]:
    """Return the number of each run by its drawn identity: what is of which run counts.

    Args:
        connection: to a database, of MLflow or not.
        ranks: as ``ranks_of_candidates`` returns it; candidates that are equal have one number.
    """
    if _RUN not in {row[1] for row in connection.execute("PRAGMA table_info(runs)")}:
        return {}
    runs = [str(run) for (run,) in connection.execute(f"SELECT {_RUN} FROM runs NOT INDEXED")]  # noqa: S608 - a fixed name
    order = sorted((ranks.get(run, ""), 0 if run in ranks else at, run) for at, run in enumerate(runs))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(each[:2] for each in order), 1)}
    return {run: numbers[rank, at] for rank, at, run in order if values.is_drawn(run)}


def _inputs(connection: sqlite3.Connection, ranks: Mapping[str, str]) -> dict[str, str]:
    """Return the identities of what such runs had and made, each with the run's rank."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(inputs)")}
    if not columns >= {"input_uuid", "source_id", "destination_id"}:
        return {}
    rows = connection.execute("SELECT input_uuid, source_id, destination_id FROM inputs")
    return {str(name): ranks[of] for name, *ends in rows for of in ends if of in ranks}


def metric_of(path: Path) -> str:
    """Return the name of the metric whose values a file has by its place; empty for other files."""
    found = _PLACE.search(path.as_posix())
    return found[1] if found is not None else ""


def read_metric(out: Canonical, name: str, data: bytes) -> None:
    """Read the values of a metric; raises ``UnreadableError`` if the file has anything else in it."""
    try:
        text = data.decode("ascii")
        lines = [_LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n")]
        if not text.endswith("\n") or None in lines:
            raise UnreadableError("no values of a metric")
        for number, line in enumerate(lines, 1):
            if line is not None:
                _value(out, f"line {number}", name, line)
    except ValueError as error:
        raise UnreadableError(f"no values of a metric: {error}") from None


def _value(out: Canonical, path: str, name: str, line: re.Match[str]) -> None:
    seconds, value = int(line[1]) / 1000, float(line[2])
    out.add(path, f"step {line[3]}")
    if out.is_moment(seconds):
        out.note_moment(f"{path}, timestamp", line[1], seconds)
        out.leave_out(f"{path}, timestamp", line[1], "time", moment=True, during=out.is_during(seconds))
    else:
        out.add(f"{path}, timestamp", line[1])
    if math.isfinite(value):
        values.number(out, f"{path}, {name}", name, value, line[2])
    else:
        out.add(f"{path}, {name}", line[2])
    if line[4] is not None:
        out.text(f"{path}, of", line[4])
