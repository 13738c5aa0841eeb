"""Layers as folders: what comes out, what comes back, and what is refused."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbuild.core.digest import sha256_file
from envbuild.core.progress import Silent
from envbuild.engine.local import tree_files, trees
from envbuild.engine.local.engine import LocalEngine
from envbuild.engine.local.images import Images
from envbuild.engine.local.program import own_folder
from envbuild.engine.local.trees import Trees
from envbuild.engine.protocol import Parcel, ParcelLayer
from envbuild.errors import BuildError, UsageError
from envbuild.image.tar.layer import Entry, LayerWriter
from envbuild.store.gc import sweep
from envbuild.store.objects import Store

BOOT = "5f0b1c3e-0000-0000-0000-000000000000"
LONG = "a" * 120
CAPABILITY = {"security.capability": bytes.fromhex("0100000200200000000000000000000000000000")}
"""What ``setcap cap_net_raw+ep`` writes."""


def quiet(amount: int) -> None:
    """Take no notice of progress."""


def write_layer(path: Path) -> str:
    """Write a layer with everything that one can have; returns its digest."""
    entries: list[tuple[Entry, bytes]] = [
        (Entry(path="bin", kind="dir", mode=0o755), b""),
        (Entry(path="bin/tool", kind="file", mode=0o4755, size=5), b"hello"),
        (Entry(path="bin/tool2", kind="hardlink", mode=0o4755, target="bin/tool"), b""),
        (Entry(path="etc", kind="dir", mode=0o750), b""),
        (Entry(path="etc/link", kind="symlink", mode=0o777, target="/nowhere/../x"), b""),
        (Entry(path="etc/pipe", kind="fifo", mode=0o600), b""),
        (Entry(path=f"etc/{LONG}", kind="dir", mode=0o755), b""),
        (Entry(path=f"etc/{LONG}/ä", kind="file", mode=0o640, size=513), b"x" * 513),
        (Entry(path="etc/latin-\udce4", kind="file", mode=0o644, size=0), b""),
        (Entry(path="etc/ping", kind="file", mode=0o755, size=4, xattrs=CAPABILITY), b"ping"),
        (Entry(path="etc/shadow", kind="file", mode=0o640, uid=1, gid=42, size=1024), b"s" * 1024),
        (Entry(path="etc/spool", kind="dir", mode=0o2770, uid=8, gid=3_000_000), b""),
        (Entry(path="tmp", kind="dir", mode=0o1777), b""),
    ]
    with path.open("wb", buffering=0) as stream, LayerWriter(stream) as writer:
        for entry, data in sorted(entries, key=lambda each: each[0].path.encode("utf-8", "surrogateescape")):
            writer.add(entry, data) if entry.kind == "file" else writer.add(entry)
    return sha256_file(path)


@pytest.fixture(name="made")
def _made(tmp_path: Path) -> tuple[Trees, str, Path]:
    tar = tmp_path / "layer.tar"
    digest = write_layer(tar)
    return Trees(tmp_path / "trees", lambda diff_id: None, BOOT), digest, tar


def test_a_layer_becomes_a_folder_and_comes_back(made: tuple[Trees, str, Path], tmp_path: Path) -> None:
    """Kinds, modes, links and long names; folders that everybody may write to are noted; the tar is the same."""
    store, digest, tar = made
    tree = store.make(digest, tar, quiet)
    assert (tree.path / "bin/tool").read_bytes() == b"hello"
    assert (tree.path / "bin/tool").stat().st_mode & 0o7777 == 0o4755
    assert (tree.path / "bin/tool").samefile(tree.path / "bin/tool2")
    assert os.readlink(tree.path / "etc/link") == "/nowhere/../x"  # noqa: PTH115
    assert (tree.path / "etc/pipe").is_fifo()
    assert (tree.path / f"etc/{LONG}/ä").stat().st_size == 513
    assert tree.writable == ("/tmp",)
    with tarfile.open(tar) as archive:
        assert (tree.path / "bin/tool").stat().st_mtime == archive.getmember("bin/tool").mtime
    folder = tmp_path / "trees" / digest
    assert b"".join(tree_files.tar_of(folder)) == tar.read_bytes()
    assert tree_files.is_sound(folder)
    assert store.find(digest) == tree
    assert store.make(digest, Path("/nothing"), quiet) == tree


def test_a_damaged_layer_that_stays_is_named(
    made: tuple[Trees, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An immutable file (``chattr +i``) keeps its folder from being removed; that was an unexpected fault."""
    store, digest, tar = made
    stays = tmp_path / "trees" / digest
    (stays / "tree").mkdir(parents=True)
    real = trees.remove
    monkeypatch.setattr(trees, "remove", lambda folder: None if folder == stays else real(folder))
    with pytest.raises(UsageError, match=f"^{stays} is damaged, and cannot be removed$"):
        store.make(digest, tar, quiet)
    assert list((tmp_path / "trees").iterdir()) == [stays]


@pytest.mark.parametrize("piece", [1, 511, 4096, 1 << 20])
@pytest.mark.parametrize("user", [0, 1000])
def test_a_layer_becomes_a_folder_while_it_is_made(
    tmp_path: Path, piece: int, user: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes come in pieces of any size; of a user who cannot give files away owners are noted; no tar is left."""
    if user and os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: user)
    tar = tmp_path / "layer.tar"
    digest, data = write_layer(tar), tar.read_bytes()
    store = Trees(tmp_path / "trees", lambda diff_id: None, BOOT)
    with store.writer("f" * 64) as output:
        for begin in range(0, len(data), piece):
            assert output.write(data[begin : begin + piece]) == len(data[begin : begin + piece])
        assert store.find(digest) is None
        output.keep(digest)
    tree = store.find(digest)
    assert tree is not None
    assert tree.writable == ("/tmp",)
    assert [path.name for path in (tmp_path / "trees").iterdir()] == [digest]
    assert b"".join(store.tar_of(digest)) == data
    assert tree_files.is_sound(tmp_path / "trees" / digest)
    with tarfile.open(tar) as archive:
        assert sorted(store.file_names(digest)) == sorted(each.name for each in archive if not each.isdir())


def test_what_is_not_kept_leaves_nothing(tmp_path: Path) -> None:
    """A layer that ends early, an error of its maker, one that another command has made meanwhile."""
    tar = tmp_path / "layer.tar"
    digest, data = write_layer(tar), tar.read_bytes()
    store = Trees(tmp_path / "trees", lambda diff_id: None, BOOT)

    def begin(end: int, error: Exception | None = None) -> None:
        with store.writer("f" * 64) as output:
            output.write(data[:end])
            if error:
                raise error
            output.keep(digest)

    for end in (0, 700, 2000, len(data) - 1024):
        with pytest.raises(BuildError, match="ends in the middle"):
            begin(end)
    with pytest.raises(KeyError):
        begin(3000, KeyError())
    assert list((tmp_path / "trees").iterdir()) == []
    with store.writer("f" * 64) as output:
        output.write(data)
        before = store.make(digest, tar, quiet).path.stat().st_ino
        output.keep(digest)
    assert [path.name for path in (tmp_path / "trees").iterdir()] == [digest]
    assert (tmp_path / "trees" / digest / "tree").stat().st_ino == before


@pytest.mark.subprocess
def test_what_a_killed_command_left_goes(tmp_path: Path) -> None:
    """A half-made tree is removed by the next command that makes the layer, and by ``store gc``."""
    store = Store(tmp_path)
    trees_of_store = Trees(store.cache_dir("trees"), lambda diff_id: None, BOOT)
    tar = tmp_path / "layer.tar"
    digest, data = write_layer(tar), tar.read_bytes()
    killed = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from envbuild.engine.local.trees import Trees\n"
        "with Trees(Path(sys.argv[1]), lambda diff_id: None, '').writer('f' * 64) as output:\n"
        "    output.write(Path(sys.argv[2]).read_bytes()[:3000])\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    half = store.cache_dir("trees") / f".{'f' * 64}.tmp"
    for swept in (True, False):
        subprocess.run([sys.executable, "-c", killed, str(half.parent), str(tar)], check=False)
        assert (half / "tree/bin").is_dir()
        if swept:
            assert sweep(store) > 0
            assert list(half.parent.iterdir()) == []
    with trees_of_store.writer("f" * 64) as output:
        output.write(data)
        output.keep(digest)
    assert [path.name for path in half.parent.iterdir()] == [digest]


@pytest.mark.parametrize("harm", ["mode", "time", "more", "link", "hard link"])
def test_other_metadata_is_damage(made: tuple[Trees, str, Path], tmp_path: Path, harm: str) -> None:
    """The content is as it was, and still it is another layer."""
    store, digest, tar = made
    tree = store.make(digest, tar, quiet).path
    match harm:
        case "mode":
            (tree / "bin/tool").chmod(0o755)
        case "time":
            os.utime(tree / "bin/tool", (1, 1))
        case "more":
            (tree / "tmp/more").touch()
            os.utime(tree / "tmp", (0, 315_532_800))
        case "link":
            (tree / "etc/link").unlink()
            (tree / "etc/link").symlink_to("/elsewhere")
            os.utime(tree / "etc/link", (0, 315_532_800), follow_symlinks=False)
        case _:
            (tree / "bin/tool2").unlink()
            shutil.copy2(tree / "bin/tool", tree / "bin/tool2")
    if harm in ("link", "hard link"):
        for folder in ("etc", "bin"):
            os.utime(tree / folder, (0, 315_532_800))
    assert not tree_files.is_sound(tmp_path / "trees" / digest)


@pytest.mark.parametrize("harm", ["none", "content", "mode", "time", "link"])
def test_an_overlay_has_a_copy_for_each_name_of_a_file(
    made: tuple[Trees, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    """It is the layer still, as long as the copies are equal in all that a program sees of them."""
    store, digest, tar = made
    tree = store.make(digest, tar, quiet).path
    name, other = tree / "bin/tool", tree / "bin/tool2"
    other.unlink()
    shutil.copy2(name, other)
    match harm:
        case "content":
            other.write_bytes(name.read_bytes()[::-1])
            shutil.copystat(name, other)
        case "mode":
            other.chmod(0o777)
        case "time":
            os.utime(other, (1, 1))
        case "link":
            other.unlink()
            other.symlink_to("tool")
    os.utime(tree / "bin", (0, 315_532_800))
    monkeypatch.setattr(tree_files, "file_system", lambda folder: "overlay")
    assert tree_files.is_sound(tmp_path / "trees" / digest) == (harm == "none")


@pytest.mark.parametrize("harm", ["bin/tool", "headers", "etc"])
def test_damage_is_found(made: tuple[Trees, str, Path], tmp_path: Path, harm: str) -> None:
    """An altered file, damaged headers, a missing folder."""
    store, digest, tar = made
    store.make(digest, tar, quiet)
    folder = tmp_path / "trees" / digest
    if harm == "headers":
        (folder / "headers").write_bytes(b"x" + (folder / "headers").read_bytes())
    elif harm == "etc":
        trees.remove(folder / "tree/etc")
    else:
        (folder / "tree" / harm).write_bytes(b"HELLO")
    assert not tree_files.is_sound(folder)


def test_what_somebody_has_changed_goes_before_a_proof(made: tuple[Trees, str, Path], tmp_path: Path) -> None:
    """A byte and the old time put back: the time of change gives it away; nothing is read where nothing was touched."""
    trees, digest, tar = made
    tool = trees.make(digest, tar, quiet).path / "bin/tool"
    assert not trees.remove_changed(digest)
    known = tool.stat()
    tool.write_bytes(b"hellO")
    os.utime(tool, ns=(known.st_atime_ns, known.st_mtime_ns))
    assert trees.find(digest) is not None  # as a run finds it
    assert trees.remove_changed(digest)
    assert trees.find(digest) is None
    assert not (tmp_path / "trees" / digest).exists()
    assert not trees.remove_changed(digest)


def test_what_was_touched_and_is_whole_stays(
    made: tuple[Trees, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read once, as is a tree of an older envbuild, which noted no state; then it is known again."""
    trees, digest, tar = made
    tool = trees.make(digest, tar, quiet).path / "bin/tool"
    reads: list[Path] = []
    real = tree_files.is_sound
    monkeypatch.setattr(tree_files, "is_sound", lambda folder: reads.append(folder) or real(folder))
    tool.chmod(tool.stat().st_mode)
    for _ in range(2):
        assert not trees.remove_changed(digest)
    assert len(reads) == 1
    note = tmp_path / "trees" / digest / "tree.json"
    table = json.loads(note.read_bytes())
    del table["state"]
    note.write_text(json.dumps(table))
    for _ in range(2):
        assert not trees.remove_changed(digest)
    assert len(reads) == 2
    assert trees.find(digest) is not None


@pytest.mark.parametrize(
    ("harm", "changed"), [("", False), ("byte", True), ("mode", True), ("back again", True), ("gone", True)]
)
def test_a_tree_is_what_it_was_all_the_time(
    harm: str, changed: bool, made: tuple[Trees, str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run's end finds what was changed meanwhile, also if it was put back and another command has noted that."""
    store, digest, tar = made
    store.make(digest, tar, quiet)
    tree = store.find(digest)
    assert tree is not None
    since = 1
    tool = tree.path / "bin/tool"
    if harm in ("byte", "back again"):
        tool.write_bytes(b"hellO")
        os.utime(tool, (315_532_800, 315_532_800))
    if harm == "back again":
        tool.write_bytes(b"hello")
        os.utime(tool, (315_532_800, 315_532_800))
        assert not store.remove_changed(digest)
    if harm == "mode":
        tool.chmod(0o700)
    if harm == "gone":
        store.forget(digest)
    assert store.was_changed(tree, since) is changed
    assert harm == "gone" or tree.path.is_dir()  # who looks removes nothing: others may use it


def test_what_was_touched_before_a_run_and_is_whole(
    made: tuple[Trees, str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read once, and then known again."""
    store, digest, tar = made
    store.make(digest, tar, quiet)
    tool = store.path(digest) / "bin/tool"
    tool.chmod(tool.stat().st_mode)
    later = tool.stat().st_ctime_ns + 1
    tree = store.find(digest)
    assert tree is not None
    assert not store.was_changed(tree, later)
    assert store.was_changed(tree, later - 1)
    reads: list[Path] = []
    monkeypatch.setattr(tree_files, "is_sound", lambda folder: reads.append(folder) or True)
    tree = store.find(digest)
    assert tree is not None
    assert not store.was_changed(tree, 1)
    assert not reads


def test_a_tree_of_an_older_envbuild_is_read_once(made: tuple[Trees, str, Path]) -> None:
    """Its note has no state; it gets one at the end of the first run."""
    store, digest, tar = made
    store.make(digest, tar, quiet)
    note = next(
        each for each in store.path(digest).parent.iterdir() if each.is_file() and b'"state"' in each.read_bytes()
    )
    note.write_bytes(note.read_bytes().replace(b'"state"', b'"other"'))
    tree = store.find(digest)
    assert tree is not None
    later = time.time_ns() + 10**9
    assert not store.was_changed(tree, later)
    tree = store.find(digest)
    assert tree is not None
    assert tree.state


def test_a_file_with_other_names_is_copied(tmp_path: Path) -> None:
    """The step's folder goes later: a name that goes there would look as if the layer's file had been changed."""
    source, other = tmp_path / "source", tmp_path / "other"
    source.write_bytes(b"hello")
    other.hardlink_to(source)
    single = tmp_path / "single"
    single.write_bytes(b"world")
    folder = tmp_path / "made"
    folder.mkdir()
    writer = tree_files.TreeWriter(folder)
    for name, path in (("a", source), ("b", single)):
        member = tarfile.TarInfo(name)
        member.size = 5
        writer.adopt(member.tobuf(tarfile.USTAR_FORMAT), str(path))
    writer.write(bytes(1024))
    writer.finish()
    before = tree_files.state(folder)
    other.unlink()
    source.unlink()
    assert tree_files.state(folder) == before
    assert (folder / "tree/a").read_bytes() == b"hello"
    assert (folder / "tree/b").read_bytes() == b"world"
    assert not single.exists()


def test_another_run_of_the_machine_unpacks_again(made: tuple[Trees, str, Path], tmp_path: Path) -> None:
    """A power cut may have damaged what was not synced."""
    store, digest, tar = made
    store.make(digest, tar, quiet)
    later = Trees(tmp_path / "trees", lambda diff_id: None, "another")
    assert later.find(digest) is None
    assert later.holds(digest)
    assert later.find(digest) is not None
    later = Trees(tmp_path / "trees", lambda diff_id: None, "a third one")
    (tmp_path / "trees" / digest / "tree/bin/tool").write_bytes(b"damaged")
    assert not later.holds(digest)
    assert (later.make(digest, tar, quiet).path / "bin/tool").read_bytes() == b"hello"


def test_a_tree_without_the_layers_owners(
    made: tuple[Trees, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What root of a namespace with one identity made (``unshare -r``) serves nobody who gives owners."""
    store, digest, tar = made

    def owners(given: bool) -> None:
        for module in (trees, tree_files):
            monkeypatch.setattr(module, "gives_owners", lambda: given)

    owners(False)
    store.make(digest, tar, quiet)
    assert store.find(digest) is not None
    later = Trees(tmp_path / "trees", lambda diff_id: None, "another")
    assert later.holds(digest), "read, and marked anew"
    owners(True)
    assert later.find(digest) is None
    owners(False)
    assert later.find(digest) is not None
    if os.geteuid() == 0:
        owners(True)
        status = (later.make(digest, tar, quiet).path / "etc/shadow").stat()
        assert (status.st_uid, status.st_gid) == (1, 42)
        owners(False)
        assert Trees(tmp_path / "trees", lambda diff_id: None, "a third one").holds(digest)
        owners(True)
        assert Trees(tmp_path / "trees", lambda diff_id: None, "a third one").find(digest) is not None


def test_another_tar_is_refused(made: tuple[Trees, str, Path], tmp_path: Path) -> None:
    """Its digest decides, and nothing is left."""
    store, _, tar = made
    with pytest.raises(BuildError, match="is not as it was made"):
        store.make("0" * 64, tar, quiet)
    assert list((tmp_path / "trees").iterdir()) == []


def _archive(path: Path, add: Callable[[tarfile.TarFile], None]) -> str:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        add(archive)
    return sha256_file(path)


def _folder_then(archive: tarfile.TarFile, *names: str, target: str = "", kind: bytes = tarfile.REGTYPE) -> None:
    for name in names:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        archive.addfile(member)


@pytest.mark.parametrize(
    "add",
    [
        pytest.param(lambda archive: _folder_then(archive, "../out"), id="above"),
        pytest.param(lambda archive: _folder_then(archive, "a/../../out"), id="above in between"),
        pytest.param(lambda archive: _folder_then(archive, "no/out"), id="no folder"),
        pytest.param(lambda archive: _folder_then(archive, "dev", kind=tarfile.CHRTYPE), id="device"),
        pytest.param(
            lambda archive: _folder_then(archive, "l", target="../../x", kind=tarfile.LNKTYPE), id="hard link"
        ),
        pytest.param(
            lambda archive: (
                _folder_then(archive, "l", target="/tmp", kind=tarfile.SYMTYPE),
                _folder_then(archive, "l/out"),
            ),
            id="through a link",
        ),
    ],
)
def test_what_no_layer_holds_is_refused(add: Callable[[tarfile.TarFile], None], tmp_path: Path) -> None:
    """Nothing is written outside the folder, whatever the tar names."""
    digest = _archive(tmp_path / "layer.tar", add)
    store = Trees(tmp_path / "trees", lambda diff_id: None, BOOT)
    with pytest.raises(BuildError):
        store.make(digest, tmp_path / "layer.tar", quiet)
    assert {path.name for path in tmp_path.iterdir()} == {"layer.tar", "trees"}
    assert list((tmp_path / "trees").iterdir()) == []


@settings(max_examples=200)
@given(data=st.data())
def test_an_altered_tar_is_refused_or_unpacked(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever byte changes: an error of envbuild's own, and nothing is left."""
    folder = tmp_path_factory.mktemp("altered")
    tar = folder / "layer.tar"
    write_layer(tar)
    content = bytearray(tar.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    tar.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    digest = sha256_file(tar)
    store = Trees(folder / "trees", lambda diff_id: None, BOOT)
    try:
        store.make(digest, tar, quiet)
    except BuildError:
        assert list((folder / "trees").iterdir()) == []


class Folder:
    """A place for the engine: one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def cache_dir(self, kind: str) -> Path:
        (self.folder / kind).mkdir(mode=0o755, exist_ok=True)
        return self.folder / kind

    def use(self, kind: str, key: str) -> None:
        """Nothing is collected."""

    def explained(self, reasons: frozenset[int]) -> AbstractContextManager[None]:
        return nullcontext()


def test_a_maker_of_layers_that_gives_up_ends_the_unpacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for a layer end with it, and print nothing of their own."""
    asked, printed = threading.Event(), list[object]()
    monkeypatch.setattr(threading, "excepthook", printed.append)

    def file() -> tuple[Path, bool] | None:
        asked.set()
        raise RuntimeError("given up")

    layer = ParcelLayer(digest="a" * 64, size=1, file=file)

    def parcels() -> Iterator[Parcel]:
        yield Parcel(manifest=b"{}", config=b"{}", layers=(layer,), archive=lambda skip: iter(()))
        assert asked.wait(60)
        raise BuildError("no layer")

    images = Images(tmp_path / "images", Trees(tmp_path / "trees", lambda diff_id: None, BOOT))
    with pytest.raises(BuildError, match="no layer"):
        images.deliver(parcels(), "t:1", Silent())
    assert printed == []


def test_nobody_else_reaches_set_uid_programs(tmp_path: Path) -> None:
    """Images and programs that run leave set-uid files on the host's disk: they are behind folders of their owner."""
    for name in ("trees", "linked", "runs"):
        (tmp_path / name).mkdir(mode=0o777)
    engine = LocalEngine(Folder(tmp_path), BOOT)
    engine._scratch()
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "trees", tmp_path / "linked", tmp_path / "runs")] == (
        [0o700] * 3
    )


def test_what_a_program_nested_deep_goes(tmp_path: Path) -> None:
    """A program can nest folders deeper than Python's stack and paths reach: its folder goes all the same."""
    with own_folder(tmp_path / "runs") as folder:
        below = os.open(folder / "upper", os.O_RDONLY)
        for _ in range(2000):
            os.mkdir("a" * 100, dir_fd=below)
            deeper = os.open("a" * 100, os.O_RDONLY, dir_fd=below)
            os.close(below)
            below = deeper
        os.close(below)
    assert list((tmp_path / "runs").iterdir()) == []


def test_files_of_a_step_become_a_layer_without_being_written(tmp_path: Path) -> None:
    """They move: the same inodes under the same digest, with the entry's mode and owner and nothing else they had."""
    found, names = tmp_path / "found", ("kept", "odd", "tool")
    found.mkdir()
    for name in names:
        (found / name).write_bytes(name.encode() * 1000)
    (found / "kept").chmod(0o666)
    os.setxattr(found / "odd", "user.note", b"x")
    before = {name: (found / name).stat().st_ino for name in names}
    kinds = {"kept": 0o644, "odd": 0o600, "tool": 0o4755}

    def add_all(writer: LayerWriter, files: bool) -> None:
        for name, mode in kinds.items():
            entry = Entry(path=name, kind="file", mode=mode, size=len(name) * 1000)
            writer.add(entry, found / name if files else name.encode() * 1000)
            writer.add(Entry(path=f"{name}.link", kind="hardlink", mode=mode, target=name))

    with (tmp_path / "layer.tar").open("wb") as stream, LayerWriter(stream) as expected:
        add_all(expected, files=False)
    store = Trees(tmp_path / "trees", lambda diff_id: None, BOOT)
    with store.writer("a" * 64) as output:
        with LayerWriter(cast(BinaryIO, output)) as writer:
            add_all(writer, files=True)
        output.keep(writer.digest)
    assert writer.layer() == expected.layer()
    assert b"".join(store.tar_of(writer.digest)) == (tmp_path / "layer.tar").read_bytes()
    assert tree_files.is_sound(tmp_path / "trees" / writer.digest)
    assert list(found.iterdir()) == []
    folder = store.path(writer.digest)
    assert {name: (folder / name).stat().st_ino for name in names} == before
    assert os.listxattr(folder / "odd") == []


def test_a_file_of_another_size_makes_no_layer(tmp_path: Path) -> None:
    """What has changed since it was listed is refused, by a tree and by a tar, and no tree is left."""
    file = tmp_path / "file"
    file.write_bytes(b"longer")
    entry = Entry(path="file", kind="file", mode=0o644, size=3)
    with pytest.raises(BuildError, match="has changed"), LayerWriter(io.BytesIO()) as writer:
        writer.add(entry, file)
    store = Trees(tmp_path / "trees", lambda diff_id: None, BOOT)
    with (
        pytest.raises(BuildError, match="has changed"),
        store.writer("a" * 64) as output,
        LayerWriter(cast(BinaryIO, output)) as writer,
    ):
        writer.add(entry, file)
    assert list((tmp_path / "trees").iterdir()) == []
