"""A log that begins a new file when one is full differs by where that was: the verdict says so."""

from __future__ import annotations

from hashlib import sha256

import pytest

from envbuild.record.model import Output
from envbuild.verification.channels import file_table, readers
from envbuild.verification.content import read
from envbuild.verification.files import masks_of
from envbuild.verification.ran import Ran
from tests.support.records import record

_SAME = "; train.log has the same lines, and rolls over by its size, which times in it change"


def _run(*files: list[int]) -> Ran:
    """A run with a log of these steps, the oldest file first."""
    names = [*(f"train.log.{number}" for number in range(len(files) - 1, 0, -1)), "train.log"]
    texts = {name: "".join(f"step {each}\n" for each in steps) for name, steps in zip(names, files, strict=True)}
    outputs = tuple(
        Output(path=name, change="created", size=len(text), sha256=sha256(text.encode()).hexdigest())
        for name, text in texts.items()
    )
    known = record(outputs=outputs, metrics={})
    contents = {name: read(text.encode(), masks_of(known)) for name, text in texts.items()}
    return Ran(record=known, contents={name: each for name, each in contents.items() if each is not None})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (_run([1, 2, 3], [4, 5]), _run([1, 2], [3, 4, 5]), True),
        (_run([1, 2, 3, 4], [5, 6]), _run([1, 2], [3, 4], [5, 6]), True),
        (_run([1, 2, 3], [4, 5]), _run([1, 2], [3, 4, 6]), False),
        (_run([1, 2, 3], [4, 5]), _run([1, 2], [4, 3, 5]), False),
        (_run([1, 2, 3]), _run([1, 2]), False),
    ],
)
def test_a_log_that_rolls_over_by_its_size(one: Ran, other: Ran, same: bool) -> None:
    """Its lines are the same, in the order of its files."""
    runs = [one, other]
    table = file_table(runs, ())
    files = next(each for each in readers(runs, (), table, table) if each.kind == "files")
    (phrase,), names = files.differences(one, other)
    assert names
    assert phrase.endswith(_SAME) == same
