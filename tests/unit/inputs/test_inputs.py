"""Input digests: every byte, name and link counts; nothing else does."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from envbuild.core.progress import Advance
from envbuild.errors import IntegrityError, SpecError
from envbuild.inputs import hashing
from envbuild.inputs.digest import digest_inputs, seal_inputs
from envbuild.lockfile.model import Input
from tests.support.ticks import next_tick


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
    return found.blake3


def refused(base: Path, *paths: str) -> list[str]:
    """Return the problems of input paths as ``path: message``."""
    with pytest.raises(SpecError) as caught:
        digest_inputs(base, paths)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def hex_of(content: bytes) -> str:
    return str(blake3(content).hexdigest())


def test_the_digest_is_the_documented_one(base: Path) -> None:
    """Anyone can compute it: BLAKE3 of a header and sorted records of kind, path, size and value, each ended by NUL."""
    records = ["dir", "", "", "", "file", "a.txt", "4", hex_of(b"one\n"), "dir", "b", "", ""]
    records += [
        "file",
        "b/c.bin",
        "5000",
        hex_of(b"\0" * 5000),
        "dir",
        "b/empty",
        "",
        "",
        "link",
        "link",
        "",
        "b/c.bin",
    ]
    manifest = "envbuild inputs 1\n" + "".join(f"{field}\0" for field in records)
    assert digest_inputs(base, ["data"]) == (Input(path="data", blake3=hex_of(manifest.encode()), files=3, bytes=5004),)


def test_a_single_file_is_an_input(base: Path) -> None:
    """A file is digested like a folder, under the empty path."""
    manifest = f"envbuild inputs 1\nfile\0\x004\0{hex_of(b'one' + bytes([10]))}\0"
    assert digest_inputs(base, ["data/a.txt"]) == (
        Input(path="data/a.txt", blake3=hex_of(manifest.encode()), files=1, bytes=4),
    )


def test_inputs_come_back_in_the_order_given(base: Path) -> None:
    """One digest per path, in the caller's order."""
    found = digest_inputs(base, ["data/b", "data/a.txt"])
    assert [(entry.path, entry.files, entry.bytes) for entry in found] == [("data/b", 1, 5000), ("data/a.txt", 1, 4)]
    assert digest_inputs(base, []) == ()


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte": lambda data: (data / "a.txt").write_bytes(b"onE\n"),
    "a byte, time put back": lambda data: _same_times(data / "a.txt", b"onE\n"),
    "a name": lambda data: (data / "a.txt").rename(data / "A.txt"),
    "a byte more": lambda data: (data / "a.txt").write_bytes(b"one\n\n"),
    "a file emptied": lambda data: (data / "a.txt").write_bytes(b""),
    "a new file": lambda data: (data / "b" / "new").touch(),
    "a lost file": lambda data: (data / "a.txt").unlink(),
    "a new folder": lambda data: (data / "new").mkdir(),
    "a lost folder": lambda data: (data / "b" / "empty").rmdir(),
    "a file moved": lambda data: (data / "a.txt").rename(data / "b" / "a.txt"),
    "a file made a folder": lambda data: ((data / "a.txt").unlink(), (data / "a.txt").mkdir()),
    "a link's target": lambda data: ((data / "link").unlink(), (data / "link").symlink_to("./b/c.bin")),
    "a link made a file": lambda data: ((data / "link").unlink(), (data / "link").write_bytes(b"\0" * 5000)),
    "two contents swapped": lambda data: (
        (data / "a.txt").rename(data / "t"),
        (data / "b" / "c.bin").rename(data / "a.txt"),
        (data / "t").rename(data / "b" / "c.bin"),
    ),
}


def _same_times(path: Path, content: bytes) -> None:
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_shows(base: Path, change: str) -> None:
    """Content, names, folders and links all count, and what was remembered of unchanged files hides none of it."""
    before = digest(base)
    seal = seal_inputs(base, ["data"])
    next_tick(base / "data" / "a.txt")
    CHANGES[change](base / "data")
    assert digest(base) != before
    assert seal_inputs(base, ["data"]) != seal


def test_modes_times_and_places_do_not_count(base: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A checkout elsewhere, with another umask and at another time, has the same digest."""
    before = digest(base)
    os.utime(base / "data" / "a.txt", (1, 1))
    (base / "data" / "a.txt").chmod(0o755)
    moved = tmp_path_factory.mktemp("else") / "where"
    base.rename(moved)
    assert digest(moved) == before


NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)
TREES = st.dictionaries(NAMES, st.one_of(st.binary(max_size=40), st.dictionaries(NAMES, st.binary(max_size=5))))


def _write(folder: bytes, tree: dict[bytes, Any], shuffled: random.Random) -> None:
    """Make a tree, its entries in a random order."""
    os.mkdir(folder)  # noqa: PTH102 - names are bytes
    names = list(tree)
    shuffled.shuffle(names)
    for name in names:
        path = folder + b"/" + name
        if isinstance(tree[name], dict):
            _write(path, tree[name], shuffled)
        else:
            with open(path, "wb") as stream:
                stream.write(tree[name])


@settings(deadline=None, max_examples=40)
@given(first=TREES, second=TREES, chance=st.randoms(use_true_random=False))
def test_a_digest_identifies_one_tree(
    tmp_path_factory: pytest.TempPathFactory,
    first: dict[bytes, Any],
    second: dict[bytes, Any],
    chance: random.Random,
) -> None:
    """Equal trees have equal digests in whatever order they were made, other trees others, whatever the names."""
    base = tmp_path_factory.mktemp("trees")
    for name, tree in (("1", first), ("2", first), ("3", second)):
        _write(os.fsencode(base / name), tree, chance)
    one, two, three = digest_inputs(base, ["1", "2", "3"])
    shutil.rmtree(base)
    assert one.blake3 == two.blake3
    assert (one.blake3 == three.blake3) == (first == second)


def test_names_with_odd_characters_stay_apart(tmp_path: Path) -> None:
    """Newlines, bytes that are no UTF-8, and the other normal form of a letter are names of their own."""
    names = ("a\nfile", "a file", "é", "e\u0301", os.fsdecode(b"\xe9"), "-", "🎈")
    for number, name in enumerate(names):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / name).touch()
    found = digest_inputs(tmp_path, [str(number) for number in range(len(names))])
    assert len({entry.blake3 for entry in found}) == len(names)


def test_missing_paths_are_all_reported(base: Path) -> None:
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


def test_many_problems_are_counted(base: Path) -> None:
    """Ten are reported as text, the others as a number: a message must stay readable."""
    for number in range(15):
        (base / "data" / f"away{number:02}").symlink_to("/")
    found = refused(base, "data")
    assert len(found) == 11
    assert found[-1] == "inputs[0]: and 5 more of the kind"


def test_an_input_may_be_a_link_inside_the_folder(base: Path) -> None:
    """A link to another version of the data represents what it leads to."""
    (base / "current").symlink_to("data")
    assert digest(base, "current") == digest(base)


def test_links_in_a_circle_end(base: Path) -> None:
    """Links are not followed, so circles do no harm; a link to itself leads nowhere else either."""
    (base / "data" / "self").symlink_to(".")
    (base / "data" / "b" / "up").symlink_to("../b")
    (base / "data" / "loop").symlink_to("loop")
    (base / "data" / "dangling").symlink_to("nothing")
    before = digest(base)
    (base / "data" / "dangling").unlink()
    assert digest(base) != before


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


def test_unreadable_files_are_reported_before_anything_is_read(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that nobody may read is a problem of the spec, found by its mode, not after an hour of hashing."""
    (base / "data" / "b" / "c.bin").chmod(0o644)  # whatever the caller's mask
    (base / "data" / "a.txt").chmod(0o200)
    if os.geteuid() == 0:  # root may read everything: the kernel's answer to another user
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert refused(base, "data") == [f"inputs[0]: cannot read {base}/data/a.txt: Permission denied"]


def _during(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], name: str = "_content") -> None:
    """Have something happen while a file is open to be hashed."""
    real: Callable[..., Any] = getattr(hashing, name)

    def meddling(*arguments: Any) -> Any:
        found = real(*arguments)
        act()
        return found

    monkeypatch.setattr(hashing, name, meddling)


@pytest.mark.parametrize("content", [b"onE\n", b"longer than before, by a lot", b""])
def test_a_file_that_changes_while_it_is_read_is_reported(
    base: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """A digest of half old, half new bytes is never returned, nor remembered."""
    path = base / "data" / "a.txt"
    os.utime(path, (1, 1))
    _during(monkeypatch, lambda: path.write_bytes(content))
    with pytest.raises(IntegrityError, match=r"data/a\.txt changed while it was read$"):
        digest_inputs(base, ["data/a.txt"])
    monkeypatch.undo()
    assert digest_inputs(base, ["data/a.txt"])[0].bytes == len(content)


def test_a_file_that_vanishes_is_reported(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file removed between listing and reading is a reported failure."""
    real = hashing._batches

    def vanishing(records: Any) -> Any:
        for batch in real(records):
            (base / "data" / "a.txt").unlink()
            yield batch

    monkeypatch.setattr(hashing, "_batches", vanishing)
    with pytest.raises(IntegrityError, match=r"^cannot read .*data/a\.txt: No such file or directory$"):
        digest_inputs(base, ["data"])


def test_a_file_replaced_by_a_link_is_not_followed(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between listing and reading, too: what a link leads to is never taken for the file's content."""
    real = hashing._batches

    def replacing(records: Any) -> Any:
        for batch in real(records):
            (base / "data" / "a.txt").unlink()
            (base / "data" / "a.txt").symlink_to("b/c.bin")
            yield batch

    monkeypatch.setattr(hashing, "_batches", replacing)
    with pytest.raises(IntegrityError, match=r"^cannot read .*data/a\.txt: "):
        digest_inputs(base, ["data"])


def test_hard_links_and_holes_are_plain_content(base: Path) -> None:
    """A hard link counts as a separate file, a hole as zeros: a copy of the data has the same digest."""
    data = base / "data"
    os.link(data / "a.txt", data / "same.txt")
    os.truncate(data / "b" / "c.bin", 3 << 20)
    shutil.copytree(data, base / "copy", symlinks=True)
    (base / "copy" / "b" / "c.bin").write_bytes((data / "b" / "c.bin").read_bytes())
    found = digest_inputs(base, ["data", "copy"])
    assert found[0].blake3 == found[1].blake3
    assert (found[0].files, found[0].bytes) == (4, 8 + (3 << 20))


SIZES = (0, 1, 2047, 2048, hashing._PIECE - 1, hashing._PIECE, hashing._PIECE + 1, 3 * hashing._PIECE)


@pytest.mark.parametrize("size", [*SIZES, *(hashing._LARGE_PIECE * 2 + more for more in (-1, 0, 1))])
def test_content_digests_are_blake3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Whichever way a file is read, small, in pieces or ahead of the hash, its digest is BLAKE3 of its bytes."""
    content = random.Random(size).randbytes(size)
    (tmp_path / "f").write_bytes(content)
    digests = set()
    for large in (hashing.LARGE, 1):
        monkeypatch.setattr(hashing, "LARGE", large)
        descriptor = os.open(tmp_path / "f", os.O_RDONLY)
        digests.add(hashing._content(descriptor, size, lambda amount: None))
        os.close(descriptor)
    assert digests == {(blake3(content).digest(), size)}


def test_a_large_file_is_reported_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terabyte takes an hour: a bar that moves at its end alone shows nothing. No byte is reported twice."""
    monkeypatch.setattr(hashing, "LARGE", hashing._LARGE_PIECE)
    size = 3 * hashing._LARGE_PIECE + 1
    (tmp_path / "large").write_bytes(b"")
    os.truncate(tmp_path / "large", size)
    (tmp_path / "small").write_bytes(bytes(1000))
    progress = Phases()
    digest_inputs(tmp_path, ["large", "small"], progress=progress)
    assert sorted(progress.amounts) == [1, 1000, *[hashing._LARGE_PIECE] * 3]


class Phases:
    """Collects the bytes that are reported."""

    def __init__(self) -> None:
        self.amounts: list[int] = []

    @contextmanager
    def phase(self, name: str, total: int | None = None, *, unit: str = "B") -> Iterator[Advance]:
        """Collect those of phases of bytes."""
        yield self.amounts.append if unit == "B" else lambda amount: None


def test_many_files_on_all_cores_give_the_digest_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches, threads and what counts as large change nothing."""
    (tmp_path / "data").mkdir()
    for number in range(300):
        (tmp_path / "data" / f"{number:03}").write_bytes(bytes([number % 256]) * (number * 331))
    found = set()
    for bytes_, files, large in ((8 << 20, 512, 32 << 20), (1, 1, 32 << 20), (1 << 16, 7, 50_000)):
        monkeypatch.setattr(hashing, "_BATCH_BYTES", bytes_)
        monkeypatch.setattr(hashing, "_BATCH_FILES", files)
        monkeypatch.setattr(hashing, "LARGE", large)
        shutil.rmtree(tmp_path / ".envbuild", ignore_errors=True)
        found.add(digest(tmp_path))
    assert len(found) == 1


def test_deep_trees_are_walked(tmp_path: Path) -> None:
    """Folders in each other need neither recursion nor an open folder each."""
    here = tmp_path / "data"
    for _ in range(200):
        here.mkdir()
        here = here / "d"
    here.write_bytes(b"x")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 20, before[1]))
    try:
        (found,) = digest_inputs(tmp_path, ["data"])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert (found.files, found.bytes) == (1, 1)


def test_manifests_are_kept_under_their_digest(base: Path) -> None:
    """``b3sum`` of the file that is named by a locked digest prints that digest; git ignores the folder."""
    (found,) = digest_inputs(base, ["data"])
    assert hex_of((base / ".envbuild" / "inputs" / found.blake3).read_bytes()) == found.blake3
    assert (base / ".envbuild" / ".gitignore").read_bytes() == b"*\n"
    assert [
        path.name for path in (base / ".envbuild" / "inputs").iterdir() if not re.fullmatch(r"[0-9a-f]{64}", path.name)
    ] in (
        [],
        ["stat-cache"],
    )


def test_a_project_that_takes_no_files_is_no_error(base: Path) -> None:
    """Where nothing can be remembered, everything is read each time."""
    (base / ".envbuild").write_bytes(b"in the way")
    before = digest(base)
    (base / "data" / "a.txt").write_bytes(b"onE\n")
    assert digest(base) != before


def test_a_seal_notices_what_came_to_nothing(base: Path) -> None:
    """Bytes changed and put back leave the digest as it was; the seal shows that they were changed."""
    before, seal = digest(base), seal_inputs(base, ["data"])
    assert seal_inputs(base, ["data"]) == seal
    next_tick(base / "data" / "a.txt")
    _same_times(base / "data" / "a.txt", b"two\n")
    _same_times(base / "data" / "a.txt", b"one\n")
    assert digest(base) == before
    assert seal_inputs(base, ["data"]) != seal
