"""Input digests: every byte, name and link counts; nothing else does."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from envbuild import inputs
from envbuild.errors import IntegrityError, SpecError
from envbuild.inputs import compare_inputs, digest_inputs
from envbuild.lock import Input


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a folder with ``data``: two files, a folder, an empty folder, a link."""
    data = tmp_path / "data"
    (data / "b" / "empty").mkdir(parents=True)
    (data / "a.txt").write_bytes(b"one\n")
    (data / "b" / "c.bin").write_bytes(b"\0" * 5000)
    (data / "link").symlink_to("b/c.bin")
    return tmp_path


def digest(base: Path, *paths: str) -> str:
    (found,) = digest_inputs(base, paths or ["data"])
    return found.sha256


def refused(base: Path, *paths: str) -> list[str]:
    """Return the problems of input paths as ``path: message``."""
    with pytest.raises(SpecError) as caught:
        digest_inputs(base, paths)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def test_the_digest_is_the_documented_one(base: Path) -> None:
    """Anyone can compute it: SHA-256 over sorted records of kind, path and value, each ended by NUL."""
    one, zeros = hashlib.sha256(b"one\n").hexdigest(), hashlib.sha256(b"\0" * 5000).hexdigest()
    records = ["dir", "", "", "file", "a.txt", one, "dir", "b", "", "file", "b/c.bin", zeros]
    records += ["dir", "b/empty", "", "link", "link", "b/c.bin"]
    manifest = "".join(f"{field}\0" for field in records).encode()
    assert digest_inputs(base, ["data"]) == (
        Input(path="data", sha256=hashlib.sha256(manifest).hexdigest(), files=3, bytes=5004),
    )


def test_a_single_file_is_an_input(base: Path) -> None:
    """A file is digested like a folder, under the empty path."""
    content = hashlib.sha256(b"one\n").hexdigest()
    expected = hashlib.sha256(f"file\0\0{content}\0".encode()).hexdigest()
    assert digest_inputs(base, ["data/a.txt"]) == (Input(path="data/a.txt", sha256=expected, files=1, bytes=4),)


def test_inputs_come_back_in_the_order_given(base: Path) -> None:
    """One digest per path, in the caller's order."""
    found = digest_inputs(base, ["data/b", "data/a.txt"])
    assert [(entry.path, entry.files, entry.bytes) for entry in found] == [("data/b", 1, 5000), ("data/a.txt", 1, 4)]
    assert digest_inputs(base, []) == ()


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte": lambda data: (data / "a.txt").write_bytes(b"onE\n"),
    "a name": lambda data: (data / "a.txt").rename(data / "A.txt"),
    "a new file": lambda data: (data / "b" / "new").touch(),
    "a new folder": lambda data: (data / "new").mkdir(),
    "a lost folder": lambda data: (data / "b" / "empty").rmdir(),
    "a file moved": lambda data: (data / "a.txt").rename(data / "b" / "a.txt"),
    "a link's target": lambda data: ((data / "link").unlink(), (data / "link").symlink_to("./b/c.bin")),
    "a link made a file": lambda data: ((data / "link").unlink(), (data / "link").write_bytes(b"\0" * 5000)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_shows(base: Path, change: str) -> None:
    """Content, names, folders and links all count."""
    before = digest(base)
    CHANGES[change](base / "data")
    assert digest(base) != before


def test_modes_times_and_places_do_not_count(base: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A checkout elsewhere, with another umask and at another time, has the same digest."""
    before = digest(base)
    os.utime(base / "data" / "a.txt", (1, 1))
    (base / "data" / "a.txt").chmod(0o755)
    moved = tmp_path_factory.mktemp("else") / "where"
    base.rename(moved)
    assert digest(moved) == before


def test_no_two_trees_share_a_manifest(tmp_path: Path) -> None:
    """Fields cannot run into each other: names with odd characters stay apart."""
    for folder, name in (("1", "a\nfile"), ("2", "a file"), ("3", "é"), ("4", os.fsdecode(b"\xe9"))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    found = digest_inputs(tmp_path, ["1", "2", "3", "4"])
    assert len({entry.sha256 for entry in found}) == 4


def test_missing_paths_are_all_told(base: Path) -> None:
    """Every wrong path is a problem, with a near name if there is one."""
    assert refused(base, "dat", "data", "gone/deep", "x" * 300) == [
        'inputs[0]: no file or folder "dat" — perhaps you meant data',
        'inputs[2]: no file or folder "gone/deep"',
        f'inputs[3]: no file or folder "{"x" * 60}…"',
    ]


def test_paths_that_lead_out_are_refused(base: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither .. nor a link nor the folder itself is an input."""
    outside = tmp_path_factory.mktemp("outside")
    (base / "out").symlink_to(outside)
    assert refused(base, "../x", "out", ".") == [
        f'inputs[0]: "../x" leads out of the folder {base}',
        f'inputs[1]: "out" leads out of the folder {base}',
        f'inputs[2]: "." leads out of the folder {base}',
    ]


def test_a_link_out_of_all_inputs_is_refused(base: Path) -> None:
    """What a link leads to must be digested too: by this input or by another one."""
    (base / "other").mkdir()
    (base / "data" / "away").symlink_to("../other")
    assert refused(base, "data") == [
        f'inputs[0]: the link {base}/data/away leads to "../other", outside all declared inputs'
    ]
    assert len(digest_inputs(base, ["data", "other"])) == 2


def test_an_input_may_be_a_link_inside_the_folder(base: Path) -> None:
    """A link to another version of the data stands for what it leads to."""
    (base / "current").symlink_to("data")
    (found,) = digest_inputs(base, ["current"])
    assert found.sha256 == digest(base)


def test_links_in_a_circle_end(base: Path) -> None:
    """Links are not followed, so circles do no harm."""
    (base / "data" / "self").symlink_to(".")
    assert digest(base)


def test_sockets_and_pipes_are_refused(base: Path) -> None:
    """Only files, folders and links have bytes to digest; a pipe must not hang the command."""
    os.mkfifo(base / "data" / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(base / "data" / "s"))
        found = refused(base, "data")
    assert sorted(found) == [
        f"inputs[0]: {base}/data/pipe is neither a file, a folder nor a link",
        f"inputs[0]: {base}/data/s is neither a file, a folder nor a link",
    ]


def test_a_file_that_changes_while_it_is_read_is_told(base: Path) -> None:
    """A digest of half old, half new bytes is never returned."""

    def meddling(path: Path, status: os.stat_result) -> str:
        path.write_bytes(b"longer than before, by a lot")
        return inputs.hash_file(path, status)

    with pytest.raises(IntegrityError, match=r"data/a\.txt changed while it was read$"):
        digest_inputs(base, ["data/a.txt"], hash_file=meddling)


def test_a_file_that_vanishes_is_told(base: Path) -> None:
    """A file removed between listing and reading is a told failure."""

    def vanishing(path: Path, status: os.stat_result) -> str:
        path.unlink()
        return inputs.hash_file(path, status)

    with pytest.raises(IntegrityError, match=r"^cannot read .*a\.txt: No such file or directory$"):
        digest_inputs(base, ["data/a.txt"], hash_file=vanishing)


def test_many_files_on_all_cores_give_the_digest_of_one(tmp_path: Path) -> None:
    """Batches and threads change nothing."""
    (tmp_path / "data").mkdir()
    for number in range(300):
        (tmp_path / "data" / f"{number:03}").write_bytes(bytes([number % 256]) * (number * 331))
    small = digest(tmp_path)
    before, inputs._BATCH = inputs._BATCH, 1
    try:
        assert digest(tmp_path) == small
    finally:
        inputs._BATCH = before


def test_equal_inputs_have_no_differences(base: Path) -> None:
    """Nothing changed, nothing told."""
    assert compare_inputs(base, digest_inputs(base, ["data", "data/a.txt"])) == ()


def test_differences_name_the_input_and_the_counts(base: Path) -> None:
    """A person sees which input changed, and by how much."""
    (base / "labels").write_bytes(b"x" * 2000)
    (base / "gone").touch()
    locked = digest_inputs(base, ["data", "labels", "gone"])
    (base / "data" / "new").write_bytes(b"y" * 1000)
    (base / "labels").write_bytes(b"z" * 2000)
    (base / "gone").unlink()
    found = compare_inputs(base, locked)
    assert [difference.message for difference in found] == [
        "data: locked with 3 files of 5,004 bytes, found 4 files of 6,004 bytes",
        "labels: the same number of files (1) and bytes (2,000), other content",
        'gone: no file or folder "gone"',
    ]
    assert [difference.found is None for difference in found] == [False, False, True]
    assert [difference.locked for difference in found] == list(locked)
