"""The list of public examples: pinned to the byte, and its results are in the documentation."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
EXAMPLES = tomllib.loads((ROOT / "tests" / "public" / "examples.toml").read_text(encoding="utf-8"))["example"]
KEYS = {"name", "repository", "commit", "environment", "files", "why"}
OPTIONAL = {"run", "variables", "keep", "forget", "outputs", "steps"}


@pytest.mark.parametrize("example", EXAMPLES, ids=[example["name"] for example in EXAMPLES])
def test_an_example_is_pinned(example: dict[str, Any]) -> None:
    """Commit and every file have digests, packages are pinned, and patterns are patterns."""
    assert set(example) >= KEYS
    assert set(example) <= KEYS | OPTIONAL
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", example["repository"])
    assert re.fullmatch(r"[0-9a-f]{40}", example["commit"])
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in example["files"].values())
    assert not any(Path(path).is_absolute() or ".." in Path(path).parts for path in example["files"])
    assert (ROOT / "tests" / "support" / "pins" / f"{example['environment']}.txt").is_file()
    for pattern in (example.get("keep", ""), example.get("forget", "")):
        re.compile(pattern)


def test_results_of_all_are_documented() -> None:
    """docs/explanation/examples.md has one row for each example of the list, and no other."""
    page = (ROOT / "docs/explanation/examples.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+) \| .*\| (\d+/\d+) \|", page, re.MULTILINE)
    assert [name for name, _ in rows] == [example["name"] for example in EXAMPLES]
    assert len(EXAMPLES) >= 6
    assert {equal for _, equal in rows} == {"5/5"}
