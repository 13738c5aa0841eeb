"""Code of notebooks: what Python reads of it, and where its lines are for people."""

from __future__ import annotations

import json

from envbuild.core.notebooks import code_of, in_cells


def notebook(*cells: tuple[str, str]) -> str:
    return json.dumps({"cells": [{"cell_type": kind, "source": source.splitlines(True)} for kind, source in cells]})


TEXT = notebook(
    ("markdown", "# not code"),
    ("code", "import time\n%matplotlib inline\n!ls\n"),
    ("code", "%%bash\nls\n"),
    ("code", "x = (\n"),
    ("code", "def f():\n    return time.time()\n"),
)


def test_cells_that_python_can_read_are_kept() -> None:
    """Magics and commands become nothing; text, other languages and what does not parse are left out."""
    assert code_of(TEXT).splitlines() == [
        *(
            "# cells[1]",
            "import time",
            "pass",
            "pass",
            "# cells[2]",
            "",
            "# cells[4]",
            "def f():",
            "    return time.time()",
        )
    ]
    for bad in ("", "[]", "{}", '{"cells": 3}', '{"cells": [{}]}', "[" * 100_000):
        assert code_of(bad) == ""


def test_lines_are_named_by_their_cell() -> None:
    """A place in the joined code is of no use to anybody; other places stay."""
    code = {"a.ipynb": code_of(TEXT)}
    assert (
        in_cells("a.ipynb:9, a.ipynb:2 → lib.py:3", code)
        == "a.ipynb cells[4] line 2, a.ipynb cells[1] line 1 → lib.py:3"
    )
    assert in_cells("b.ipynb:8", code) == "b.ipynb:8"
