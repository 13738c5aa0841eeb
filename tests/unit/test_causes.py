"""The page of causes: each of the nineteen has a proof, and every test it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/explanation/causes.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+/test_\w+\.py::\w+)`", PAGE)))


def defined(path: Path) -> set[str]:
    """The names of a file's tests."""
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_cause_has_a_proof() -> None:
    """The first table has the causes 1 to 19 in order, each with a test."""
    table = PAGE.partition("## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if re.match(r"\| \d", line)]
    assert [int(row[0].strip("| ")) for row in rows] == list(range(1, 20))
    assert all(len(row) == 5 and "::" in row[4] for row in rows)


def test_the_tests_named_exist() -> None:
    """A test that is renamed or removed takes its line along."""
    files = {name.partition("::")[0] for name in NAMED}
    missing = [file for file in sorted(files) if not (TESTS / file).is_file()]
    assert missing == []
    known = {f"{file}::{test}" for file in files for test in defined(TESTS / file)}
    assert [name for name in NAMED if name not in known] == []


def test_what_needs_a_gpu_is_under_tests_gpu() -> None:
    """The second table names tests for GPU hosts only."""
    table = PAGE.partition("## What only a GPU shows")[2].partition("## Several")[0]
    assert {name.partition("/")[0] for name in NAMED if name in table} == {"gpu"}
