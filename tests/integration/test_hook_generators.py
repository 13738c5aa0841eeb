"""Libraries with generators or choices of their own: SQLite, Numba, Polars, LightGBM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.environments import environment
from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.network

PROGRAM = """
import json, os, random, sqlite3, sys
import lightgbm, numba, numpy as np, polars
if len(sys.argv) > 1:
    polars.set_random_seed(int(sys.argv[1]))
database = sqlite3.connect(":memory:")
@numba.njit
def draw():
    return np.random.random(), random.random()
def draws():
    number, text = database.execute("select random(), hex(randomblob(8))").fetchone()
    return [number, text, *draw()]
def forked():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, json.dumps(draws()).encode())
        os._exit(0)
    return json.loads(os.read(reader, 9999))
data = np.random.RandomState(0).rand(200, 5)
def parameters(**given):
    booster = lightgbm.train({"verbosity": -1, **given}, lightgbm.Dataset(data, data[:, 0]), 1)
    return [line for line in booster.model_to_string().splitlines() if "_wise" in line]
print(json.dumps({
    "drawn": [*draws(), *draws(), *forked(), *forked()],
    "sample": polars.Series(range(1_000_000)).sample(5).to_list(),
    "chosen": [parameters(), parameters(force_row_wise=True)],
}))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A program that draws from all of them, in an environment that has them."""
    tree = make_tree(tmp_path_factory.mktemp("tree"), make_lock(), paths=[environment("generators")])
    (tree.root / "program.py").write_text(PROGRAM)
    return tree


def run(tree: Tree, *arguments: str, **variables: str) -> dict[str, Any]:
    """Run the program; its line of JSON."""
    return dict(json.loads(tree.execute("program.py", *arguments, variables=variables).stdout.splitlines()[-1]))


def test_generators_of_libraries_repeat(tree: Tree) -> None:
    """SQL's random(), Numba's compiled draws and Polars' samples repeat, and differ between processes of a run."""
    first, second = run(tree), run(tree)
    assert first == second
    assert len(set(first["drawn"])) == len(first["drawn"]) == 16
    for record in tree.records():
        assert record["warnings"] == []
        assert {"numba", "polars", "sqlite3"} <= set(record["generators"])
        assert [switch for switch in record["switches"] if not switch["ok"] or "at_exit" in switch] == []


def test_without_controls_they_differ(tree: Tree) -> None:
    """The controls off: no number is drawn twice, and LightGBM is left its stopwatch."""
    first, second = run(tree, ENVBUILD_CONTROLS="off"), run(tree, ENVBUILD_CONTROLS="off")
    assert not set(first["drawn"]) & set(second["drawn"])
    assert first["sample"] != second["sample"]
    assert first["chosen"][0] == ["[force_col_wise: 0]", "[force_row_wise: 0]"]


def test_lightgbm_keeps_the_programs_own_choice(tree: Tree) -> None:
    """The stopwatch is left out, unless the program has chosen; a separate seed for Polars is kept and recorded."""
    assert run(tree)["chosen"] == [
        ["[force_col_wise: 1]", "[force_row_wise: 0]"],
        ["[force_col_wise: 0]", "[force_row_wise: 1]"],
    ]
    for path in Path(tree.run).iterdir():
        path.unlink()
    run(tree, "7")
    main = next(record for record in tree.records() if record["path"] == "")
    ends = {switch["name"]: switch["at_exit"] for switch in main["switches"] if "at_exit" in switch}
    assert ends == {"polars.set_random_seed": 7}
