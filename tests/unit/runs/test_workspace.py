"""What a run changed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.record.model import Folder, dumps, loads
from envbuild.runs import workspace
from envbuild.runs.tools_files import notes_beyond, notes_on_project, notes_on_special
from envbuild.runs.workspace import changes, folder_changes, scan, without_others, written_since
from tests.support.records import record
from tests.support.rights import without_rights
from tests.support.ticks import next_tick


def test_created_changed_and_deleted_files_are_distinguished(tmp_path: Path) -> None:
    """Every difference is found with the digest of the new content, at any depth; equal files are not listed."""
    for name in ("same", "changed", "deleted"):
        (tmp_path / name).write_text(name)
    before = scan(tmp_path)
    (tmp_path / "changed").write_text("CHANGED")
    (tmp_path / "deleted").unlink()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "new").write_bytes(b"new")
    (tmp_path / "link").symlink_to("same")
    outputs, deleted = changes(tmp_path, before, scan(tmp_path))
    assert [(o.path, o.change, o.size, o.sha256) for o in outputs] == [
        ("changed", "changed", 7, sha256_bytes(b"CHANGED")),
        ("deep/er/new", "created", 3, sha256_bytes(b"new")),
        ("link", "created", 4, sha256_bytes(b"same")),
    ]
    assert deleted == ("deleted",)


def test_what_other_ranks_have_written_by_then_is_no_part_of_the_state_before(tmp_path: Path) -> None:
    """A rank that looks late misses no file that others made, removed or gave another size; times are its machine's."""
    for name in ("same", "grown", "removed"):
        (tmp_path / name).write_text(name)
    first = {path: (size, 0, 0, 0, mode) for path, (size, _, _, _, mode) in scan(tmp_path).items()}
    (tmp_path / "grown").write_text("has grown")
    (tmp_path / "removed").unlink()
    (tmp_path / "made").write_text("made")
    (tmp_path / "folder").mkdir()
    before = without_others(scan(tmp_path), first)
    outputs, deleted = changes(tmp_path, before, scan(tmp_path))
    assert [(o.path, o.change) for o in outputs] == [("grown", "changed"), ("made", "created")]
    assert deleted == ("removed",)
    assert [(each.path, each.change) for each in folder_changes(before, scan(tmp_path))] == [("folder", "created")]


def test_extended_attributes_are_digested(tmp_path: Path) -> None:
    """A result that a program keeps in a file's attributes is seen; a file without any has no digest of them."""
    for name in ("none", "one", "other"):
        (tmp_path / name).write_text("same")
    try:
        os.setxattr(tmp_path / "one", "user.accuracy", b"0.9063")
        os.setxattr(tmp_path / "other", "user.accuracy", b"0.9067")
    except OSError as error:
        pytest.skip(f"the file system has no extended attributes: {error}")
    outputs, _ = changes(tmp_path, {}, scan(tmp_path))
    none, one, other = (each.attributes for each in outputs)
    assert none == ""
    assert len({none, one, other}) == 3


def test_a_change_that_hides_its_time_is_found(tmp_path: Path) -> None:
    """Same size and a restored modification time do not hide a change: the change time shows it."""
    path = tmp_path / "model"
    path.write_bytes(b"one")
    before = scan(tmp_path)
    status = path.stat()
    next_tick(path)
    path.write_bytes(b"two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    outputs, _ = changes(tmp_path, before, scan(tmp_path))
    assert [output.path for output in outputs] == ["model"]


def test_folders_of_tools_and_inputs_are_left_out(tmp_path: Path) -> None:
    """Neither envbuild's own records nor caches nor read-only inputs count, and links are not followed."""
    for folder in (".git", ".envbuild", "pkg/__pycache__", "data/raw", "kept/data"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "pipe")
    assert sorted(scan(tmp_path, ("data",))) == ["kept/", "kept/data/", "kept/data/file", "loop", "pkg/"]


def test_what_a_run_writes_into_folders_of_tools_is_named(tmp_path: Path) -> None:
    """Bytecode, and what was there before, are not; a result may be hidden in such a folder."""
    for folder in (".git", "pkg/__pycache__", ".pytest_cache/v/cache"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "old").touch()
    next_tick(tmp_path)
    moment = (tmp_path / "now").stat().st_ctime_ns if (tmp_path / "now").touch() is None else 0
    written = (".git/result", ".git/index", "pkg/__pycache__/a.cpython-311.pyc", "pkg/__pycache__/w.npy")
    for path in (*written, ".pytest_cache/v/cache/nodeids"):
        (tmp_path / path).write_text("x")
    folders: list[str] = []
    scan(tmp_path, (), folders)
    assert sorted(folders) == [".git", ".pytest_cache", "pkg/__pycache__"]
    assert [*notes_on_project(written_since(tmp_path, folders, moment))] == [
        f"{path} is in a folder of a tool, and was not looked at" for path in (".git/result", "pkg/__pycache__/w.npy")
    ]


def test_each_folder_of_a_tool_is_looked_at_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many files in one hide nothing in another, and what was not looked at is said."""
    monkeypatch.setattr(workspace, "_LOOKED", 3)
    for folder in ("__pycache__", ".git"):
        (tmp_path / folder).mkdir()
    for name in range(5):
        (tmp_path / "__pycache__" / f"{name}.cpython-311.pyc").touch()
    (tmp_path / ".git/w.npy").touch()
    beyond: list[str] = []
    found = [*written_since(tmp_path, ["__pycache__", ".git"], 0, beyond)]
    assert ".git/w.npy" in found
    assert len(found) == 4
    assert beyond == ["__pycache__"]
    assert [*notes_beyond(beyond)] == ["__pycache__ has very many files, of which the first were looked at"]


def test_fifos_and_sockets_of_a_program_are_named(tmp_path: Path) -> None:
    """They have a name and no content; those that were there before are none of it."""
    os.mkfifo(tmp_path / "old")
    before: list[str] = []
    scan(tmp_path, (), None, before)
    os.mkfifo(tmp_path / "fold-3")
    after: list[str] = []
    assert "fold-3" not in scan(tmp_path, (), None, after)
    assert [*notes_on_special(before, after)] == ["fold-3 was not looked at: it is a FIFO, a socket or a device"]


def test_attributes_of_folders_that_a_program_has_set_are_named(tmp_path: Path) -> None:
    """Nothing compares them; those that were there before are none of it."""
    (tmp_path / "model").mkdir()
    (tmp_path / "data").mkdir()
    try:
        os.setxattr(tmp_path / "data", "user.of", b"them")
    except OSError:
        pytest.skip("no extended attributes here")
    before: list[str] = []
    scan(tmp_path, (), None, before)
    os.setxattr(tmp_path / "model", "user.score", b"0.5")
    after: list[str] = []
    scan(tmp_path, (), None, after)
    assert [*notes_on_special(before, after)] == ["extended attributes of the folder model were not looked at"]


def test_a_file_that_cannot_be_read_has_no_digest(tmp_path: Path) -> None:
    """A vanished file is listed without a digest instead of failing the run."""
    outputs, _ = changes(tmp_path, {}, {"gone": (1, 2, 3, 4, 0o644)})
    assert [(output.path, output.sha256) for output in outputs] == [("gone", None)]


def test_what_took_a_files_place_is_not_read(tmp_path: Path) -> None:
    """Another program may change names after the look: no link is followed, and nobody waits for a pipe."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project / "a", outside):
        folder.mkdir(parents=True)
        (folder / "x").write_text("secret" if folder == outside else "mine")
    (project / "b").write_text("mine")
    (project / "c").write_text("mine")
    after = scan(project)
    (project / "a" / "x").unlink()
    (project / "a").rmdir()
    (project / "a").symlink_to(outside)
    (project / "b").unlink()
    os.mkfifo(project / "b")
    found, _ = changes(project, {}, after)
    assert {output.path: output.sha256 is not None for output in found} == {"a/x": False, "b": False, "c": True}


def test_permissions_and_folders_are_found(tmp_path: Path) -> None:
    """Of files the permissions; folders that were made, removed, or got others; those that nothing is in are marked."""
    for name in ("gone", "opened", "same/deep"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "run.sh").touch(0o644)
    (tmp_path / "run.sh").chmod(0o644)
    before = scan(tmp_path)
    next_tick(tmp_path / "run.sh")
    (tmp_path / "run.sh").chmod(0o750)
    (tmp_path / "gone").rmdir()
    (tmp_path / "opened").chmod(0o700)
    for name in ("made/empty", "made/full"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "made").chmod(0o711)
    (tmp_path / "made" / "full" / "file").touch()
    (tmp_path / "link").symlink_to("run.sh")
    after = scan(tmp_path)
    outputs, _ = changes(tmp_path, before, after)
    assert {output.path: output.mode for output in outputs if output.path != "made/full/file"} == {
        "run.sh": "750",
        "link": "",
    }
    assert folder_changes(before, after) == (
        Folder(path="gone", change="removed"),
        Folder(path="made", change="created", mode="711"),
        Folder(path="made/empty", change="created", mode="755", empty=True),
        Folder(path="made/full", change="created", mode="755"),
        Folder(path="opened", change="changed", mode="700", empty=True),
    )


def test_names_that_are_no_utf8_can_be_recorded(tmp_path: Path) -> None:
    """A program's file in another encoding must not keep its run's record from being written."""
    folder = os.fsencode(tmp_path)
    (tmp_path / os.fsdecode(b"gone\xff")).write_bytes(b"x")
    before = scan(tmp_path)
    os.unlink(os.path.join(folder, b"gone\xff"))  # noqa: PTH108, PTH118 - bytes are meant
    os.mkdir(os.path.join(folder, b"d\xff"))  # noqa: PTH102, PTH118
    with open(os.path.join(folder, b"d\xff", b"m\xe4.bin"), "wb") as stream:  # noqa: PTH118
        stream.write(b"abc")
    after = scan(tmp_path)
    outputs, deleted = changes(tmp_path, before, after)
    (folder_made,) = folder_changes(before, after)
    assert [(each.path, each.sha256) for each in outputs] == [("d\\udcff/m\\udce4.bin", sha256_bytes(b"abc"))]
    assert (deleted, folder_made.path) == (("gone\\udcff",), "d\\udcff")
    again = loads(dumps(record(outputs=outputs, deleted=deleted, folders=(folder_made,))))
    assert again.outputs == outputs


def test_a_folder_that_cannot_be_listed_is_a_result_that_cannot_be_read() -> None:
    """Nobody knows what a program left in it: it is listed without a digest, and is no empty folder."""
    with tempfile.TemporaryDirectory() as name:  # any user reaches it, unlike pytest's
        root = Path(name)
        root.chmod(0o755)
        with without_rights(root):
            (root / "data").mkdir()
            (root / "data/kept").write_text("x")
            before = scan(root)
            (root / "closed").mkdir()
            (root / "closed/never-seen").write_text("x")
            (root / "closed").chmod(0)
            (root / "data").chmod(0)
            (root / "listed").mkdir()
            (root / "listed/w").write_text("x")
            (root / "listed").chmod(0o444)
            after = scan(root)
            outputs, deleted = changes(root, before, after)
        assert [(output.path, output.sha256) for output in outputs] == [
            ("closed", None),
            ("data", None),
            ("listed/w", None),
        ]
        assert deleted == ()  # what was in data may still be there
        assert folder_changes(before, after) == (
            Folder(path="closed", change="created", mode="000", empty=False),
            Folder(path="data", change="changed", mode="000", empty=False),
            Folder(path="listed", change="created", mode="444", empty=False),
        )
        with without_rights(root):
            before = scan(root)
            next_tick(root / "closed")
            (root / "closed").chmod(0o700)
            (root / "closed/never-seen").write_text("y")
            (root / "closed").chmod(0)
            outputs, _ = changes(root, before, scan(root))
        assert [(output.path, output.sha256) for output in outputs] == [("closed", None)]
        for folder in (root / "closed", root / "data", root / "listed"):
            folder.chmod(0o700)


def test_holes_are_not_read(tmp_path: Path) -> None:
    """A sparse file of terabytes, as a memory map makes it, costs no time and has no digest; a small one has."""
    for name, size in (("huge", 4 << 40), ("small", 1 << 20)):
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(size)
    outputs, _ = changes(tmp_path, {}, scan(tmp_path))
    assert {each.path: (each.size, each.sha256 is None) for each in outputs} == {
        "huge": (4 << 40, True), "small": (1 << 20, False),
    }  # fmt: skip
