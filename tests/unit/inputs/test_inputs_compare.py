"""Declared data compared with a lock: which input, how much, and which files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from envbuild.errors import IntegrityError
from envbuild.inputs import compare, hashing
from envbuild.inputs.compare import Comparison, changes_since, compare_inputs, compare_locked
from envbuild.inputs.digest import digest_inputs
from envbuild.lockfile.model import Input
from tests.support.ticks import next_tick


@pytest.fixture(name="base")
def _base(tmp_path: Path) -> Path:
    """A project with two inputs: ``data`` with images and labels, and the file ``words``."""
    for number in range(20):
        path = tmp_path / "data" / "images" / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]) * 100)
    (tmp_path / "data" / "labels.csv").write_bytes(b"1,2,3\n")
    (tmp_path / "words").write_bytes(b"a b c\n")
    return tmp_path


@pytest.fixture(name="locked")
def _locked(base: Path) -> tuple[Input, ...]:
    """Both inputs as locked."""
    return digest_inputs(base, ["data", "words"])


def test_equal_inputs_have_no_differences(base: Path, locked: tuple[Input, ...]) -> None:
    """Nothing changed, nothing reported; nothing declared, nothing read."""
    found = compare_inputs(base, locked)
    assert (found.differences, found.lines()) == ((), [])
    assert compare_inputs(base / "nowhere", ()) == Comparison()


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "added": (
        lambda data: [(data / "images" / f"new{number}.png").write_bytes(b"n") for number in range(7)],
        ["data: 7 files added (7 bytes)"]
        + ["  added    images/new0.png"]
        + [f"           images/new{number}.png" for number in range(1, 5)]
        + ["           and 2 more"],
    ),
    "changed": (
        lambda data: (data / "labels.csv").write_bytes(b"1,2,4\n"),
        ["data: 1 file changed", "  changed  labels.csv"],
    ),
    "missing": (
        lambda data: (data / "images" / "07.png").unlink(),
        ["data: 1 file missing (100 bytes)", "  missing  images/07.png"],
    ),
    "all three": (
        lambda data: (
            (data / "images" / "07.png").rename(data / "images" / "7.png"),
            (data / "labels.csv").write_bytes(b""),
        ),
        [
            "data: 1 file added (100 bytes), 1 file changed, 1 file missing (100 bytes)",
            *("  added    images/7.png", "  changed  labels.csv", "  missing  images/07.png"),
        ],
    ),
    "a folder gone": (
        lambda data: shutil.rmtree(data / "images"),
        [
            "data: 20 files missing (2,000 bytes)",
            "  missing  images/00.png",
            *(f"           images/{number:02}.png" for number in range(1, 5)),
            "           and 15 more",
        ],
    ),
    "not there": (
        lambda data: data.rename(data.parent / "date"),
        ['data: no file or folder "data" — perhaps you meant date'],
    ),
    "a pipe": (
        lambda data: ((data / "labels.csv").unlink(), __import__("os").mkfifo(data / "labels.csv")),
        ["data: DATA/labels.csv is neither a file, a folder nor a link"],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_is_named(base: Path, locked: tuple[Input, ...], change: str) -> None:
    """The input, how many of what, and the first names of each kind; the other input is not spoken of."""
    act, lines = CHANGES[change]
    act(base / "data")
    found = compare_inputs(base, locked)
    assert [line.replace(f"{base}/data", "DATA") for line in found.lines()] == lines
    (difference,) = found.differences
    assert (difference.path, difference.locked) == ("data", locked[0])
    assert (difference.found is None) == (change in ("not there", "a pipe"))


def test_a_single_file_has_no_name_of_its_own(base: Path, locked: tuple[Input, ...]) -> None:
    """An input that is a file is what changed."""
    (base / "words").write_bytes(b"c b a\n")
    assert compare_inputs(base, locked).lines() == ["words: another content"]


def test_without_the_listing_there_are_counts(base: Path, locked: tuple[Input, ...]) -> None:
    """In a fresh clone nobody knows the old names: counts are reported, and where the names are."""
    shutil.rmtree(base / ".envbuild")
    (base / "data" / "labels.csv").write_bytes(b"1,2,4\n")
    (base / "words").write_bytes(b"more words\n")
    assert compare_inputs(base, locked).lines() == [
        "data: the same number of files (21) and bytes (2,006), other content",
        f"  no names: .envbuild/inputs/{locked[0].blake3} is not here; copy it from where this was locked or run",
        "words: locked with 1 file of 6 bytes, found 1 file of 11 bytes",
        f"  no names: .envbuild/inputs/{locked[1].blake3} is not here; copy it from where this was locked or run",
    ]


def test_a_damaged_listing_counts_as_none(base: Path, locked: tuple[Input, ...]) -> None:
    """A listing that does not match its name names nothing, and is replaced once the data is as locked again."""
    listing = base / ".envbuild" / "inputs" / locked[0].blake3
    whole = listing.read_bytes()
    listing.write_bytes(whole.replace(b"07.png", b"77.png"))
    (base / "data" / "labels.csv").write_bytes(b"1,2,4\n")
    assert compare_inputs(base, locked).differences[0].tree is None
    (base / "data" / "labels.csv").write_bytes(b"1,2,3\n")
    assert compare_inputs(base, locked).differences == ()
    assert listing.read_bytes() == whole


def test_a_clone_that_saw_the_data_once_can_name_changes(base: Path, locked: tuple[Input, ...]) -> None:
    """The first comparison that agrees leaves the listing, wherever it was locked."""
    shutil.rmtree(base / ".envbuild")
    assert compare_inputs(base, locked).differences == ()
    (base / "data" / "images" / "00.png").unlink()
    assert compare_inputs(base, locked).lines()[1] == "  missing  images/00.png"


def test_two_locks_are_compared_by_their_listings(base: Path, locked: tuple[Input, ...]) -> None:
    """What a diff of two runs or locks needs: the data itself may have moved on since."""
    (base / "data" / "new").write_bytes(b"n")
    (newer, _) = digest_inputs(base, ["data", "words"])
    shutil.rmtree(base / "data")
    found = compare_locked(base, locked[0], newer)
    assert found is not None
    assert (found.message, found.details) == ("data: 1 file added (1 byte)", ("added    new",))
    back = compare_locked(base, newer, locked[0])
    assert back is not None
    assert (back.message, back.details) == ("data: 1 file removed (1 byte)", ("removed  new",))
    assert compare_locked(base, newer, newer) is None
    (base / ".envbuild" / "inputs" / newer.blake3).unlink()
    found = compare_locked(base, locked[0], newer)
    assert found is not None
    assert found.tree is None


def test_nobody_touched_inputs(base: Path, locked: tuple[Input, ...]) -> None:
    """After a run in which inputs were left alone there is nothing to report, and nothing is read for it."""
    seal = compare_inputs(base, locked).seal
    (base / "output").write_bytes(b"not an input")
    assert changes_since(base, locked, seal) == ()
    assert changes_since(base, (), "") == ()


def test_what_happened_during_a_run_is_reported(base: Path, locked: tuple[Input, ...]) -> None:
    """A file that another program changed under a run, even if it put it back."""
    seal = compare_inputs(base, locked).seal
    path = base / "data" / "labels.csv"
    next_tick(path)
    path.write_bytes(b"1,2,4\n")
    assert changes_since(base, locked, seal) == ("data: 1 file changed",)
    next_tick(path)
    path.write_bytes(b"1,2,3\n")
    assert changes_since(base, locked, seal) == (
        "input files were written or replaced meanwhile; their content is as locked again",
    )
    path.unlink()
    assert changes_since(base, locked, seal) == ("data: 1 file missing (6 bytes)",)


def test_inputs_that_cannot_be_looked_at_again_are_reported(
    base: Path, locked: tuple[Input, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of a run is written whatever becomes of its inputs."""
    seal = compare_inputs(base, locked).seal
    (base / "words").write_bytes(b"other\n")

    def failing(*_: object) -> object:
        raise IntegrityError("words changed while it was read")

    monkeypatch.setattr(hashing, "_content", failing)
    assert changes_since(base, locked, seal) == ("words changed while it was read",)

    def broken(*_: object) -> object:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(compare, "seal_inputs", broken)
    assert changes_since(base, locked, seal) == ("inputs could not be looked at again: Input/output error",)
