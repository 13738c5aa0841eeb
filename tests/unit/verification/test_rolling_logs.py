"""A log that begins a new file when one is full differs by where that was: the verdict says so."""

from __future__ import annotations

from hashlib import sha256
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from envbuild.record.model import Output
from envbuild.verification.channels import file_table, readers
from envbuild.verification.content import compare, read, read_file
from envbuild.verification.files import FileTable, masks_of
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


def _written(folder: Path) -> Ran:
    """A run that left the files of a folder, its newest log opened."""
    files = {each.name: each.read_bytes() for each in sorted(folder.iterdir())}
    outputs = tuple(
        Output(path=name, change="created", size=len(data), sha256=sha256(data).hexdigest())
        for name, data in files.items()
    )
    known = record(outputs=outputs, metrics={})
    content = read_file(folder / "app.log", masks_of(known))
    assert content is not None
    return Ran(record=known, contents={"app.log": content})


def _logged(folder: Path, times: str, *, limit: int = 400, result: str = "0.5", kept: int = 50) -> Ran:
    """A run that logged a line for each digit, which is how many digits its time has."""
    folder.mkdir()
    handler = RotatingFileHandler(folder / "app.log", maxBytes=limit, backupCount=kept)
    for step, digits in enumerate(times * 10):
        text = f"step {step} has w={result if step == 7 else 1}, took 0.{'3' * int(digits)} s"
        handler.emit(LogRecord("app", 20, "", 1, text, (), None))
    handler.close()
    return _written(folder)


def _are_equal(runs: list[Ran]) -> bool:
    table = FileTable(runs, [[output.path for output in run.record.outputs] for run in runs])
    return len({tuple(sorted(table.of(run).items())) for run in runs}) == 1


def test_a_log_is_one_file_wherever_it_rolled_over(tmp_path: Path) -> None:
    """Times of other lengths move lines to other files, and make more of these."""
    times = {"a": "1234", "b": "4321", "c": "9999", "d": "1111"}
    runs = [_logged(tmp_path / name, each, limit=200) for name, each in times.items()]
    assert len({len(run.record.outputs) for run in runs}) > 1
    assert all(run.contents["app.log"].rolls for run in runs)
    assert compare(runs[0].contents["app.log"], runs[1].contents["app.log"]).left_out[0] == "where its files begin"
    assert _are_equal(runs)


def test_a_log_that_did_not_roll_over_is_equal_too(tmp_path: Path) -> None:
    """One run may stay below the limit."""
    runs = [_logged(tmp_path / name, times, limit=320) for name, times in (("a", "1"), ("b", "8"))]
    assert [len(run.record.outputs) for run in runs] == [1, 2]
    assert _are_equal(runs)


@pytest.mark.parametrize(
    "other",
    [
        {"result": "0.6"},
        {"limit": 500},
        {"limit": 350},
        {"kept": 2},
    ],
)
def test_another_line_or_another_limit_is_a_difference(tmp_path: Path, other: dict[str, str | int]) -> None:
    """Files that end elsewhere without need are others, and so is a log whose oldest lines are gone."""
    assert not _are_equal([_logged(tmp_path / "a", "1234"), _logged(tmp_path / "b", "4321", **other)])  # type: ignore[arg-type]


def _cut(folder: Path, lines: list[str], at: int) -> Ran:
    folder.mkdir()
    (folder / "app.log").write_text("".join(lines[at:]))
    (folder / "app.log.1").write_text("".join(lines[:at]))
    return _written(folder)


def test_files_that_a_program_cut_elsewhere_differ(tmp_path: Path) -> None:
    """Where it did so is a result, by one line too, and if the newest file has the same bytes."""
    lines = [f"sample {number:03d}\n" for number in range(40)]
    assert not _are_equal([_cut(tmp_path / "a", lines, 20), _cut(tmp_path / "b", lines, 21)])
    assert not _are_equal([_cut(tmp_path / "c", lines, 20), _cut(tmp_path / "d", lines, 33)])
    changed = ["sample 777\n", *lines[1:]]
    assert not _are_equal([_cut(tmp_path / "e", lines, 20), _cut(tmp_path / "f", changed, 20)])
    assert _are_equal([_cut(tmp_path / "g", lines, 20), _cut(tmp_path / "h", lines, 20)])


def test_files_of_other_sizes_are_no_log(tmp_path: Path) -> None:
    """No limit fits a small file behind a large one."""
    folder = tmp_path / "a"
    folder.mkdir()
    for name, size in (("app.log", 10), ("app.log.1", 500), ("app.log.2", 100)):
        (folder / name).write_text("line\n" * size)
    run = _written(folder)
    assert run.contents["app.log"].rolls is None
    assert not run.contents["app.log"].parts


def test_numbered_copies_of_documents_are_no_log(tmp_path: Path) -> None:
    """Each is a whole, whose times are known by their names."""
    for name, seconds in (("a", 0.5), ("b", 1.25)):
        (tmp_path / name).mkdir()
        for number in ("", ".1"):
            (tmp_path / name / f"app.log{number}").write_text(f'{{\n "w": 3,\n "train_time": {seconds}\n}}\n')
    runs = [_written(tmp_path / name) for name in ("a", "b")]
    assert not any(run.contents["app.log"].parts for run in runs)
    assert len({run.contents["app.log"].digest for run in runs}) == 1
