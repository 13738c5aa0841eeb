"""One digest everywhere, in short: the rest of the matrix is ``make reproducibility``."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reproducibility.engines import Column, started
from tests.reproducibility.matrix import Cell, Matrix
from tests.reproducibility.subject import Subject, prepare
from tests.reproducibility.variations import CLOCK_AHEAD, QUICK, VARIATIONS

pytestmark = [pytest.mark.engine, pytest.mark.network]
ROWS = {row.name: row for row in VARIATIONS}


@pytest.fixture(scope="module", name="subject")
def _subject() -> Iterator[Subject]:
    # Not below pytest's own folder, which only its user may read: cells are built by others too.
    with tempfile.TemporaryDirectory(prefix="envbuild-reproducibility-") as folder:
        yield prepare(Path(folder), f"repro-{secrets.token_hex(4)}", CLOCK_AHEAD)


@pytest.fixture(scope="module", name="column")
def _column() -> Iterator[Column]:
    with started(["own"]) as (columns, missing):
        assert missing == []
        yield columns[0]


@pytest.fixture(scope="module", name="built")
def _built(subject: Subject, column: Column) -> tuple[Matrix, list[Cell]]:
    """The quick rows, built cold on the machine's own engine."""
    matrix = Matrix(subject)
    rows = [row for name, row in ROWS.items() if name in QUICK]
    return matrix, [cells[0] for cells in matrix.run([column], rows)]


def test_everything_varied_at_once_gives_one_digest(built: tuple[Matrix, list[Cell]]) -> None:
    """Clock, zone, locale, umask, host, kernel, user, home, path, file order, CPUs, downloads, variables: one image."""
    _, (plain, *others) = built
    assert plain.error == ""
    assert plain.state(plain) == "same", "the engine calls the image otherwise"
    assert [(cell.variation.name, cell.state(plain), cell.error) for cell in others] == [
        ("everything at once", "same", "")
    ]


def test_a_leak_is_found_and_named(built: tuple[Matrix, list[Cell]], subject: Subject, column: Column) -> None:
    """The matrix can fail: an image that carries the mask of its builder differs, and the report names the field."""
    _, (plain, *_) = built
    leaky = Matrix(subject, leak=True, earlier=plain.folder / "store")
    cells = [leaky.cell(column, row) for row in (ROWS["plain"], ROWS["umask 077"])]
    assert [cell.error for cell in cells] == ["", ""]
    assert cells[1].state(cells[0]) == "differs"
    assert [line.strip() for line in leaky.explain(*cells)] == [
        "configuration",
        'config.Labels.leak.umask  value  "022" → "077"',
    ]


def test_a_failed_cell_is_no_equal_cell(built: tuple[Matrix, list[Cell]]) -> None:
    """Neither a build that failed nor an engine that holds another image counts as the same."""
    _, (plain, *_) = built
    assert replace(plain, config="").state(plain) == "failed"
    assert replace(plain, identity="0" * 64).state(plain) == "differs"
    assert replace(plain, manifest="0" * 64).state(plain) == "differs"
    assert Path(plain.folder / "store").is_dir()
