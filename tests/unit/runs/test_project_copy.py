"""Copies of a project: what is in them, what is not, and when there are none."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from envbuild.engine.protocol import Mount
from envbuild.errors import UsageError
from envbuild.runs import project_copy
from envbuild.runs.project_copy import Aging, check_size, make_copy, plan_copy, remove_copy
from envbuild.runs.repeat import varied
from envbuild.runs.workspace import altered_files, listed_folders, mark_folders, read_files, scan
from tests.support.races import changing


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with code, an input, results of tools, a link, and a file with its own permissions."""
    project = tmp_path / "project"
    for name in ("lib", "data/deep", "empty", ".git", ".envbuild/runs", "lib/__pycache__", "sub/.git"):
        (project / name).mkdir(parents=True)
    for name in ("train.py", "lib/model.py", "data/deep/x.bin", ".git/HEAD", ".envbuild/x", "lib/__pycache__/m.pyc"):
        (project / name).write_text(name)
    (project / "tool").write_text("#!")
    (project / "tool").chmod(0o755)
    (project / "latest").symlink_to("lib/model.py")
    os.utime(project / "train.py", ns=(1, 2_000_000_001))
    os.utime(project / "lib", ns=(1, 3_000_000_001))
    return project


def test_a_copy_has_what_a_run_could_change(project: Path, tmp_path: Path) -> None:
    """Files, links, permissions, times and empty folders are; tools' folders and the content of inputs are not."""
    plan = plan_copy(project, ["data"])
    copy = tmp_path / "copies" / "0"
    make_copy(plan, copy, ["data"])
    found = {path for path in scan(copy) if not path.endswith("/")}
    assert found == {"latest", "lib/model.py", "tool", "train.py"}
    assert (copy / "train.py").read_text() == "train.py"
    assert (copy / "tool").stat().st_mode & 0o777 == 0o755
    assert (copy / "latest").readlink() == Path("lib/model.py")
    assert (copy / "train.py").stat().st_mtime_ns == 2_000_000_001
    assert (copy / "lib").stat().st_mtime_ns == 3_000_000_001
    assert (copy / "empty").is_dir()
    assert list((copy / "data").iterdir()) == []
    assert not (copy / ".envbuild").exists()
    assert plan.mounts == (Mount(source=project / ".git", target="/workspace/.git", read_only=True),)
    assert list((copy / ".git").iterdir()) == []
    (copy / "train.py").write_text("changed")
    assert (project / "train.py").read_text() == "train.py"


def test_a_full_disk_is_named(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the file of the copy: what is written to a descriptor fails without a name."""

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(project_copy, "clone", lambda source, target: False)
    monkeypatch.setattr(project_copy.shutil, "copyfileobj", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        make_copy(plan_copy(project, ["data"]), tmp_path / "copy", ["data"])
    assert caught.value.filename == str(tmp_path / "copy" / "lib/model.py")


def test_an_input_that_is_a_file_or_nested_keeps_its_path(project: Path, tmp_path: Path) -> None:
    """Mounts need a file for a file and a folder for a folder, wherever the input is."""
    inputs = ["data/deep", "train.py"]
    make_copy(plan_copy(project, inputs), tmp_path / "copy", inputs)
    assert (tmp_path / "copy/data/deep").is_dir()
    assert (tmp_path / "copy/train.py").read_bytes() == b""


def test_times_of_change_are_set_back(project: Path, tmp_path: Path) -> None:
    """All by as much, or in the reversed order; the original's stay."""
    before = (project / "train.py").stat().st_mtime
    plan = plan_copy(project, [])
    make_copy(plan, tmp_path / "older", [], Aging(seconds=10))
    assert (tmp_path / "older/train.py").stat().st_mtime == pytest.approx(before - 10)
    for name, seconds in (("turned", 10), ("alone", 0)):  # alone: in an experiment
        make_copy(plan, tmp_path / name, [], Aging(seconds=seconds, reverse=True))
        times = [(tmp_path / name / path).stat().st_mtime for path in plan.files]
        assert times == sorted(times, reverse=True)
        assert len(set(times)) == len(times)
    assert (project / "train.py").stat().st_mtime == before


def test_what_was_read_of_a_copy_is_known(project: Path, tmp_path: Path) -> None:
    """By whatever program: by times of access, which files of a copy have in common with those of change."""
    plan = plan_copy(project, [])
    make_copy(plan, tmp_path / "first", [])
    make_copy(plan, tmp_path / "older", [], Aging(seconds=10, reverse=True), backwards=True)
    for name in ("first", "older"):
        copy = tmp_path / name
        assert list(read_files(copy, plan.files)) == []
        (copy / "train.py").read_bytes()
        status = (copy / "train.py").stat()
        assert status.st_atime_ns != status.st_mtime_ns, "this file system is mounted without times of access"
        expected = [("train.py", status.st_size, status.st_mtime_ns)]
        assert list(read_files(copy, [*plan.files, "gone", *plan.folders])) == expected


def test_what_was_read_of_a_copy_and_then_changed_is_known(project: Path, tmp_path: Path) -> None:
    """Written again where it is, moved, or linked; what was only written, or taken away unread, is not."""
    for name in ("state", "log", "task", "old", "shared", "same"):
        (project / name).write_text(name)
    plan = plan_copy(project, [])
    copy = tmp_path / "copy"
    make_copy(plan, copy, [], Aging(seconds=10))
    before = scan(copy)
    marked = mark_folders(copy, before)
    assert [*listed_folders(copy, marked)] == []
    (copy / "state").read_bytes()
    (copy / "state").write_text("other")
    (copy / "log").write_text("other")
    (copy / "task").rename(copy / "data/taken")
    (copy / "data/taken").read_bytes()
    (copy / "old").unlink()
    (copy / "lib/link").hardlink_to(copy / "shared")
    (copy / "lib/link").read_bytes()
    (copy / "same").read_bytes()
    assert [*listed_folders(copy, marked)] == []
    assert [*(copy / "empty").iterdir()] == []
    assert [*listed_folders(copy, marked)] == ["empty/"]
    read, altered = altered_files(copy, before, scan(copy))
    assert read == {"state", "task", "shared"}
    assert altered == {"state", "log", "task", "old", "shared"}


@pytest.mark.parametrize(
    ("path", "source", "asks"),
    [
        ("src/a.py", "newest = max(paths, key=os.path.getmtime)", True),
        ("a.ipynb", '"paths[0].stat().st_mtime"', True),
        ("a.py", "print(time.ctime())", False),
        ("notes.txt", "st_mtime", False),
    ],
)
def test_which_file_is_the_newest_is_varied_where_sources_ask(
    project: Path, path: str, source: str, asks: bool
) -> None:
    """Elsewhere it would have tools make again what they have made."""
    (project / path).parent.mkdir(exist_ok=True)
    (project / path).write_text(source)
    assert ("order of times" in varied(plan_copy(project, ()), strict=False)) is asks
    assert "order of times" in varied(None, strict=True)
    assert "order of times" not in varied(None, strict=False)


@pytest.mark.parametrize(
    ("source", "draws"),
    [
        ("rng = np.random.default_rng(os.getpid())", True),
        ("seed = base + os.getpid() % 2", True),
        ("np.random.seed(int(time.time()) ^ worker.pid)", True),
        ("state = multiprocessing.current_process().pid + SEED", True),
        ('path = f"part-{os.getpid()}.npy"  # of a random worker', False),
        ("log.info('worker %d', os.getpid())", False),
        ("rng = random.Random(0)\nprint(os.getpid())", False),
        ("shard = os.getpid() % 4", True),
        ("name = '%d' % os.getpid()", False),
    ],
)
def test_numbers_of_processes_are_varied_where_sources_draw_by_them(project: Path, source: str, draws: bool) -> None:
    """In a container of its own a program has the same numbers each time: equal runs would be luck."""
    (project / "train.py").write_text(source)
    plan = plan_copy(project, ())
    assert ("pids" in varied(plan, strict=False)) is draws
    assert "memory" not in varied(plan, strict=False)


@pytest.mark.parametrize(
    ("source", "draws"),
    [
        ("start=$(( $$ % 9 + 1 ))", True),
        ("RANDOM=$$", True),
        ("RANDOM=$((1000+$$))", True),
        ("scratch=/tmp/trips.$$", False),
        ("n=$(( 3 + 4 ))", False),
    ],
)
def test_a_shell_that_computes_with_its_number(project: Path, source: str, draws: bool) -> None:
    """Most name files by it."""
    (project / "sample.sh").write_text(f"#!/bin/sh\n{source}\n")
    assert ("pids" in varied(plan_copy(project, ()), strict=False)) is draws


def test_files_are_made_in_another_order(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is the order of their inode numbers, as far as the file system counts."""
    made: list[str] = []
    copy_file = project_copy._copy_file
    monkeypatch.setattr(
        project_copy, "_copy_file", lambda source, target: (made.append(target.name), copy_file(source, target))
    )
    plan = plan_copy(project, [])
    names = [Path(path).name for path in plan.files]
    make_copy(plan, tmp_path / "copy", [])
    make_copy(plan, tmp_path / "turned", [], backwards=True)
    assert len(names) > 1
    assert made == [*names, *reversed(names)]
    for path in plan.files:
        assert (tmp_path / "turned" / path).read_bytes() == (project / path).read_bytes()


def test_sockets_and_what_vanishes_are_left_out(project: Path, tmp_path: Path) -> None:
    """A socket is no file to copy; a file that is gone since the plan was made is no failure."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(project / "s"))
        plan = plan_copy(project, [])
        (project / "tool").unlink()
        make_copy(plan, tmp_path / "copy", [])
    assert not (tmp_path / "copy/s").exists()
    assert not (tmp_path / "copy/tool").exists()
    assert (tmp_path / "copy/train.py").exists()


def test_a_copy_is_removed_whatever_was_made_in_it(project: Path, tmp_path: Path) -> None:
    """Folders without write permission go too; one that is gone already is fine."""
    copy = tmp_path / "copy"
    make_copy(plan_copy(project, []), copy, [])
    (copy / "lib").chmod(0o500)
    remove_copy(copy)
    remove_copy(copy)
    assert not copy.exists()


def test_a_link_in_the_place_of_a_folder_is_not_followed(project: Path, tmp_path: Path) -> None:
    """A program that still runs in the project puts it there after the look: no file of the host gets into a copy."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "model.py").write_text("secret")
    plan = plan_copy(project, ["lib/input"])
    (project / "lib").rename(project / "away")
    (project / "lib").symlink_to(outside)
    make_copy(plan, tmp_path / "copy", ["lib/input"])
    assert not (tmp_path / "copy/lib/model.py").exists()
    assert plan_copy(project, []).links == ("latest", "lib")
    make_copy(plan_copy(project, []), tmp_path / "other", ["lib/input"])
    assert sorted(path.name for path in outside.iterdir()) == ["model.py"]


def test_nothing_outside_gets_into_a_copy_while_names_change(project: Path, tmp_path: Path) -> None:
    """The same with a program that changes the names all the time, over many copies."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "model.py").write_text("secret")
    (project / "link").symlink_to(outside)
    with changing(project / "lib", project / "link"):
        for number in range(100):
            copy = tmp_path / str(number)
            make_copy(plan_copy(project, []), copy, [])
            found = [path for name in ("lib", "link") for path in [copy / name / "model.py"] if not copy.is_symlink()]
            for path in found:
                assert path.parent.is_symlink() or not path.exists() or path.read_text() != "secret"
            remove_copy(copy)
            assert not copy.exists()
    assert (outside / "model.py").read_text() == "secret"


def test_projects_that_are_too_large_are_refused(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many files, too many bytes, or more than the disk has: reported with figures and remedies."""
    monkeypatch.setattr(project_copy, "clone", lambda source, target: False)
    plan = plan_copy(project, [])
    check_size(plan, 2, tmp_path)
    with pytest.raises(UsageError) as many:
        check_size(plan, 2, tmp_path, count=3)
    assert many.value.message == (
        f"{project} has {len(plan.files)} files in addition to its declared inputs; expected at most 3 to copy"
    )
    assert many.value.hint.startswith("declare data as inputs in spec.yaml (they are mounted, not copied)")
    large = project_copy.Plan(project=project, folders=(), files=("train.py",), links=(), size=5 << 30, shown=())
    with pytest.raises(UsageError) as bytes_:
        check_size(large, 2, tmp_path)
    assert bytes_.value.message == (
        f"{project} holds 5,368 MB in addition to its declared inputs; expected at most 4,294 MB to copy, "
        "since this file system cannot share blocks"
    )
    with pytest.raises(UsageError) as disk:
        check_size(large, 1 << 20, tmp_path, limit=1 << 40)
    assert f"1048576 copies of {project} would take" in disk.value.message
    assert disk.value.hint.endswith("or fewer at once: --jobs 1")


def test_shared_blocks_need_no_space(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where copies share their blocks with the originals, size does not matter; the trial leaves nothing behind."""
    monkeypatch.setattr(project_copy, "clone", lambda source, target: True)
    check_size(
        project_copy.Plan(project=project, folders=(), files=("train.py",), links=(), size=1 << 50, shown=()),
        9,
        tmp_path,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["project"]
