"""Tables of pages that somebody wrote by hand: a row in one line, and names of columns without ``thead``."""

from __future__ import annotations

import pytest

from envbuild.verification.content.markup import Page

ROW = "<tr><td>1</td><td>1.049937</td><td>0.025982</td></tr>"
NAMED = "<tr><th>fold</th><th>mse</th><th>seconds</th></tr>"


def cells(*lines: str) -> list[tuple[str, str]]:
    """What the last of these lines is taken for."""
    page = Page()
    found = [page.cells(line) for line in lines]
    for line, parts in zip(lines, found, strict=True):
        assert "".join(part for _, part in parts) == line  # nothing is lost
    return found[-1]


def test_cells_of_a_row_have_their_columns_names() -> None:
    """For experiments, if these are times or rates; other columns, and the end of the line, have none."""
    found = cells("<table>", NAMED, ROW)
    assert found == [
        ("", "<tr><td>1"),
        ("", "</td><td>1.049937"),
        ("seconds", "</td><td>0.025982"),
        ("", "</td></tr>"),
    ]
    assert cells("<table>", NAMED, ROW, ROW) == found
    assert cells(f"<table>{NAMED}", ROW)[2][0] == "seconds"


@pytest.mark.parametrize(
    "lines",
    [
        ("<table>", ROW),
        ("<table>", "<tr><th>seconds</th><td>0.5</td><td>0.7</td></tr>", ROW),
        ("<table>", NAMED.replace("<th>fold", '<th colspan="2">fold'), ROW),
        ("<table>", ROW, NAMED, ROW),
        ("<table>", NAMED, "</table>", "<table>", ROW),
        ("<p>no table</p>", ROW),
    ],
    ids=["no names", "names of rows", "spans", "names after data", "of another table", "no table"],
)
def test_cells_without_a_sure_column_have_no_name(lines: tuple[str, ...]) -> None:
    """What is the name of something else names nothing."""
    assert [name for name, _ in cells(*lines)] == [""] * len(cells(*lines))


def test_the_first_cell_of_a_row_names_the_others_of_a_table_without_names() -> None:
    """As the text in front of a number does elsewhere; a number is no name."""
    page = "<html><table><tr><td>w</td><td>0.63</td></tr><tr><td>all</td><td>0.00012</td></tr></table>"
    assert [name for name, _ in cells(page)] == ["", "w", "", "all", ""]
    assert [name for name, _ in cells("<table>", NAMED, "<tr><td>all</td><td>0.1</td></tr>")] == ["", "", ""]
