"""The start of a run as the last one of its command line was: what is kept, read, filled in and compared."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from envbuild.engine.local import early
from envbuild.engine.local.program import sweep


class Asked:
    """A helper that only keeps what it is asked."""

    made: list[Asked] = []  # noqa: RUF012 - emptied by a fixture

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ended = False
        Asked.made.append(self)

    def ask(self, line: bytes, streams: Sequence[int]) -> None:
        assert len(streams) == 3
        self.lines.append(line)

    def has_ended(self) -> bool:
        return self.ended

    def end(self) -> None:
        self.ended = True


@pytest.fixture(name="place")
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store with a folder for runs, a project with runs, and control groups."""
    for name in ("store/derived/runs", "project/.envbuild/runs", "groups", "layer"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(early, "Helper", Asked)
    monkeypatch.setattr(early, "keep_early", lambda helper: None)
    monkeypatch.setattr(early.os, "isatty", lambda number: False)
    monkeypatch.chdir(tmp_path / "project")
    Asked.made.clear()
    early._taken.clear()
    yield tmp_path
    early.end()
    early._taken.clear()


def environment(place: Path) -> dict[str, str]:
    return {"ENVBUILD_STORE": str(place / "store"), "HOME": str(place)}


def line(folder: str, identity: str, group: str, seed: str = "42") -> bytes:
    words = {
        "parent": os.getpid(),
        "root": f"{folder}/root",
        "seed": seed,
        "id": identity,
        "groups": [f"{group}/tasks"],
    }
    return json.dumps(words).encode()


def kept(place: Path, arguments: Sequence[str] = ("run", "t.py")) -> None:
    """Run once, so that a start is kept."""
    early.begin(arguments, environment(place), early.Helper())
    assert early.take("OLD", like_others=True) is None
    scratch, group = str(place / "store/derived/runs"), str(place / "groups/envbuild-1-old")
    assert early.wanted(scratch)
    process = str(place / "project/.envbuild/runs/OLD/process")
    early.keep(line(f"{scratch}/run-old", "OLD", group), f"{scratch}/run-old", group, process, [str(place / "layer")])
    early.end()
    early._taken.clear()
    Asked.made.clear()


def test_the_next_run_asks_for_the_same_in_folders_of_its_own(place: Path) -> None:
    """What differs from run to run is made anew; the rest is the last run's to the byte."""
    kept(place)
    early.begin(("run", "t.py"), environment(place), early.Helper())
    identity = early.identity(str(place / "project/.envbuild/runs"))
    assert early.identity(str(place / "other")) == ""
    start = early.take(identity, like_others=True)
    assert start is not None
    assert (Path(start.process).stat().st_mode & 0o777) == 0o700
    assert {path.name for path in Path(start.folder).iterdir()} == {"begun", "lock", "root", "upper", "work"}
    assert start.group.startswith(f"{place / 'groups'}/envbuild-{os.getpid()}-")
    expected = line(start.folder, identity, start.group)
    assert Asked.made[0].lines == [expected + b"\n"]
    assert start.fits(expected)
    assert not start.fits(line(start.folder, identity, start.group, seed="43"))


@pytest.mark.parametrize("what", ["exchanged", "gone", "ended"])
def test_a_run_does_not_fit_whose_files_are_others_by_now(place: Path, what: str) -> None:
    """Nor does one whose process has ended."""
    kept(place)
    early.begin(("run", "t.py"), environment(place), early.Helper())
    identity = early.identity(str(place / "project/.envbuild/runs"))
    start = early.take(identity, like_others=True)
    assert start is not None
    expected = line(start.folder, identity, start.group)
    if what == "ended":
        Asked.made[0].end()
    else:
        (place / "layer").rename(place / "before")
    if what == "exchanged":
        (place / "layer").mkdir()
    assert not start.fits(expected)


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (("run", "other.py"), {}),
        (("run", "t.py", "x"), {}),
        (("run", "t.py"), {"SUDO_UID": "1000"}),
        (("run", "t.py"), {"SLURM_PROCID": "0"}),
        (("run", "t.py"), {"ENVBUILD_STORE": "relative"}),
    ],
)
def test_other_command_lines_begin_nothing(place: Path, arguments: Sequence[str], changed: dict[str, str]) -> None:
    """The process that every run needs is started all the same."""
    kept(place)
    early.begin(arguments, environment(place) | changed, early.Helper())
    assert early.identity(str(place / "project/.envbuild/runs")) == ""
    assert [each.lines for each in Asked.made] == [[]]


@pytest.mark.parametrize("mode", [0o622, 0o640])
def test_a_start_that_others_may_touch_is_not_read(place: Path, mode: int) -> None:
    """Nor is one that is a link, or is another user's."""
    kept(place)
    (file,) = (place / "store/derived" / early.FOLDER).iterdir()
    file.chmod(mode)
    early.begin(("run", "t.py"), environment(place), early.Helper())
    assert early.identity(str(place / "project/.envbuild/runs")) == ""
    file.chmod(0o600)
    file.rename(place / "start")
    file.symlink_to(place / "start")
    early.begin(("run", "t.py"), environment(place), early.Helper())
    assert early.identity(str(place / "project/.envbuild/runs")) == ""


def test_what_was_begun_and_not_taken_is_removed(place: Path) -> None:
    """In the project too, unless there is a record by then."""
    kept(place)
    for recorded in (False, True):
        early.begin(("run", "t.py"), environment(place), early.Helper())
        folder = place / "project/.envbuild/runs" / early.identity(str(place / "project/.envbuild/runs"))
        assert (folder / "process").is_dir()
        if recorded:
            (folder / "record.json").touch()
        early.end()
        assert folder.exists() == recorded
        assert not [*(place / "store/derived/runs").iterdir(), *(place / "groups").iterdir()]
    assert all(each.ended for each in Asked.made)


@pytest.mark.parametrize("missing", ["project/.envbuild/runs", "groups", "layer", "store/derived/runs"])
def test_where_it_cannot_begin_nothing_is_left(place: Path, missing: str) -> None:
    """The run starts as ever, and reports what is wrong."""
    kept(place)
    (place / missing).rmdir()
    early.begin(("run", "t.py"), environment(place), early.Helper())
    assert not early._begun
    assert [each.ended for each in Asked.made] == [True]
    left = [*place.glob("store/derived/runs/*"), *place.glob("project/.envbuild/runs/*"), *place.glob("groups/*")]
    assert left == []


@pytest.mark.parametrize("what", ["nothing", "process", "record", "other"])
def test_the_next_run_removes_what_a_killed_one_had_begun(place: Path, what: str) -> None:
    """Its own folder, and its folder in the project if there is no record in it, nor anything else."""
    kept(place)
    early.begin(("run", "t.py"), environment(place), early.Helper())
    start = early._begun.pop()
    folder = Path(start.process).parent
    if what == "nothing":
        (folder / "process").rmdir()
    elif what != "process":
        (folder / {"record": "record.json", "other": "process/x"}[what]).touch()
    sweep(place / "store/derived/runs")
    assert folder.exists()  # its process lives
    os.close(start.lock)
    sweep(place / "store/derived/runs")
    assert not Path(start.folder).exists()
    assert folder.exists() == (what in ("record", "other"))


def test_the_oldest_are_forgotten(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command line has a start of its own; there are not more and more of them."""
    monkeypatch.setattr(early, "_REMEMBERED", 8)
    for number in range(9):
        kept(place, ("run", f"{number}.py"))
        for path in (place / "store/derived" / early.FOLDER).iterdir():
            status = path.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))
    texts = [path.read_bytes() for path in (place / "store/derived" / early.FOLDER).iterdir()]
    assert sorted(number for number in range(9) for text in texts if f"{number}.py".encode() in text) == list(
        range(2, 9)
    )


def test_the_second_program_of_a_command_is_no_start(place: Path) -> None:
    """A program of envbuild's own reads saved models: nobody begins with that one."""
    early.begin(("run", "t.py"), environment(place), early.Helper())
    early.take("A", like_others=True)
    assert early.wanted(str(place / "store/derived/runs"))
    assert not early.wanted(str(place / "elsewhere/runs"))
    early.take("A", like_others=True)
    assert not early.wanted(str(place / "store/derived/runs"))
