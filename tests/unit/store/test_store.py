"""The store: right bytes under their digest or nothing at all."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.errors import IntegrityError, UsageError
from envbuild.store import objects
from envbuild.store.marker import TAG
from envbuild.store.objects import Store, StoreFullError, StoreRefusedError, WrongBytesError, default_root

KEY = sha256_bytes(b"key")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def files(store: Store) -> list[str]:
    """Everything in the store but who uses it."""
    found = (path.relative_to(store.root) for path in store.root.rglob("*") if path.is_file() and path.name != TAG)
    return sorted(str(path) for path in found if path.parts[0] != "leases")


def test_the_root_follows_the_environment(tmp_path: Path) -> None:
    """ENVBUILD_STORE wins, then an absolute XDG_CACHE_HOME, then the home folder."""
    assert default_root({"ENVBUILD_STORE": "/x/store", "XDG_CACHE_HOME": "/y"}) == Path("/x/store")
    assert default_root({"ENVBUILD_STORE": "x"}) == Path.cwd() / "x"
    assert default_root({"XDG_CACHE_HOME": "/y"}) == Path("/y/envbuild")
    assert default_root({"XDG_CACHE_HOME": "relative"}) == Path("~/.cache/envbuild").expanduser()


def test_without_a_home_the_way_out_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home folder is shown which variable to set."""

    def homeless(path: Path) -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(UsageError) as caught:
        default_root({})
    assert caught.value.message == "cannot find the store: there is no home folder"
    assert caught.value.hint == "set ENVBUILD_STORE to a folder"


@pytest.mark.parametrize("data", [b"", b"abc", os.urandom(3_000_000)])
def test_bytes_are_stored_under_their_digest_read_only(store: Store, data: bytes) -> None:
    """An object is where its digest reports, mode 0444, and nothing else is left in the store."""
    sha256 = store.add_bytes(data)
    assert sha256 == sha256_bytes(data)
    assert store.path(sha256) == store.root / "sha256" / sha256[:2] / sha256[2:]
    assert store.path(sha256).read_bytes() == data
    assert store.path(sha256).stat().st_mode & 0o777 == 0o444
    assert (store.has(sha256), store.has(sha256, len(data)), store.has(sha256, len(data) + 1)) == (True, True, False)
    assert files(store) == [f"sha256/{sha256[:2]}/{sha256[2:]}"]
    assert store.add_bytes(data) == sha256


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_only_a_digest_names_an_object(store: Store, name: str) -> None:
    """Nothing but a SHA-256 ever becomes a path of the store."""
    with pytest.raises(ValueError, match="not a lower-case hexadecimal SHA-256"):
        store.path(name)
    with pytest.raises(ValueError, match="not a key of derived things"):
        store.derived("layers", name)


def test_wrong_bytes_do_not_enter(store: Store) -> None:
    """Bytes with another digest or size are refused by name, with what was expected and found."""
    with pytest.raises(WrongBytesError) as caught, store.writer(KEY, 3, name="x.whl") as part:
        part.write(b"abcd")
    assert caught.value.message == (
        f"x.whl has other bytes than promised: expected sha256 {KEY} (3 bytes), "
        f"found sha256 {sha256_bytes(b'abcd')} (4 bytes)"
    )
    with pytest.raises(WrongBytesError), store.writer(sha256_bytes(b"abcd"), 3) as part:
        part.write(b"abcd")
    assert files(store) == []


def test_an_unfinished_writer_leaves_nothing(store: Store) -> None:
    """If the block fails, neither object nor part stays."""
    with pytest.raises(KeyboardInterrupt):
        _interrupted(store)
    assert files(store) == []


def _interrupted(store: Store) -> None:
    with store.writer(KEY) as part:
        part.write(b"k")
        raise KeyboardInterrupt


def test_a_part_is_kept_and_resumed(store: Store) -> None:
    """A claim that ends early keeps its bytes; the next one hashes them and continues."""
    with store.claim(KEY) as part:
        part.write(b"ke")
    assert (store.part_size(KEY), store.has(KEY)) == (2, False)
    with store.claim(KEY) as part:
        assert part.resume() == 2
        part.write(b"y")
        store.publish(part, KEY, 3)
    assert store.verify(KEY)
    assert (store.part_size(KEY), len(files(store))) == (0, 1)


def test_one_at_a_time_brings_an_object_in(store: Store) -> None:
    """Threads that claim the same object wait for each other, and the last one finds it there."""
    made: list[int] = []

    def work() -> None:
        with store.claim(KEY) as part:
            if not store.has(KEY):
                made.append(1)
                part.write(b"key")
                store.publish(part, KEY)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert len(files(store)) == 1


def test_a_wait_can_be_given_up(store: Store) -> None:
    """A user who waits for another command's download can be stopped."""

    def stop() -> None:
        raise TimeoutError

    with store.claim(KEY), pytest.raises(TimeoutError), store.claim(KEY, stop):
        pass


def test_verify_removes_a_damaged_object(store: Store) -> None:
    """An object whose bytes changed on disk is found out and removed."""
    store.add_bytes(b"key")
    assert store.verify(KEY)
    store.path(KEY).chmod(0o644)
    store.path(KEY).write_bytes(b"kex")
    assert (store.has(KEY, 3), store.verify(KEY), store.has(KEY)) == (True, False, False)
    assert not store.verify(KEY)


def test_add_file_copies_and_never_links(store: Store, tmp_path: Path) -> None:
    """Editing a file after it was added does not change the store."""
    source = tmp_path / "file"
    source.write_bytes(b"key")
    path = store.add_file(source, KEY)
    source.write_bytes(b"other")
    assert path.read_bytes() == b"key"
    with pytest.raises(WrongBytesError, match=f"^{source} has other bytes than promised: "):
        store.add_file(source, sha256_bytes(b"x"))
    with pytest.raises(IntegrityError) as caught:
        store.add_file(tmp_path / "absent", sha256_bytes(b"x"))
    assert caught.value.message == f"cannot read {tmp_path / 'absent'}: No such file or directory"


def test_a_store_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    """If there is a file where the store should be, the error reports it and offers another folder."""
    (tmp_path / "file").write_bytes(b"")
    store = Store(tmp_path / "file" / "store")
    with pytest.raises(StoreRefusedError) as caught:
        store.add_bytes(b"key")
    assert caught.value.exit_code == 2
    assert caught.value.message == f"the store {store.root} cannot be written: Not a directory"
    assert caught.value.hint == "free some space, or choose another folder: export ENVBUILD_STORE=FOLDER"


def test_a_thing_is_derived_once_and_whole(store: Store) -> None:
    """The maker runs once per key; its folder appears when it is complete."""
    calls: list[Path] = []

    def make(folder: Path) -> None:
        assert store.derived("layers", KEY) is None
        calls.append(folder)
        (folder / "layer.tar").write_bytes(b"x" * 1000)

    folder = store.derive("layers", KEY, make)
    assert folder == store.derive("layers", KEY, make) == store.derived("layers", KEY)
    assert (folder / "layer.tar").stat().st_size == 1000
    assert len(calls) == 1
    assert sorted(path.name for path in folder.parent.iterdir()) == [KEY]


@pytest.mark.parametrize(
    ("number", "within"), [(errno.ENOSPC, ""), (errno.EDQUOT, " within the disk quota (quota -s)")]
)
def test_a_maker_that_fails_leaves_nothing(number: int, within: str, store: Store) -> None:
    """After a failure the key is absent and can be made again; a full disk is reported as text."""

    def fail(folder: Path) -> None:
        (folder / "half").write_bytes(b"x")
        raise OSError(number, os.strerror(number))

    with pytest.raises(StoreFullError) as caught:
        store.derive("layers", KEY, fail)
    assert caught.value.exit_code == 14
    assert caught.value.message == f"the store {store.root} has no space left{within}"
    assert store.derived("layers", KEY) is None
    assert files(store) == []


def test_what_a_killed_maker_left_is_dropped(store: Store) -> None:
    """Remains of a killed command do not end up in the next one's folder."""
    remains = store.cache_dir("layers") / f".{KEY}.tmp"
    remains.mkdir()
    (remains / "old").write_bytes(b"")
    folder = store.derive("layers", KEY, lambda fresh: (fresh / "new").touch())
    assert sorted(path.name for path in folder.iterdir()) == [".boot", ".sums.json", "new"]
    assert not remains.exists()


def test_a_truncated_derived_file_counts_as_absent(store: Store) -> None:
    """After a power cut a file may be short: its folder is made again."""

    def make(fresh: Path) -> None:
        (fresh / "a").write_bytes(b"xyz")

    folder = store.derive("layers", KEY, make)
    os.truncate(folder / "a", 1)
    assert store.derived("layers", KEY) is None
    assert store.derive("layers", KEY, make) == folder
    assert (folder / "a").read_bytes() == b"xyz"
    store.forget("layers", KEY)
    assert store.derived("layers", KEY) is None


def test_other_bytes_of_the_same_size_count_as_absent_after_a_restart(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a power cut made of a file that was not synced is found when the machine has been started again."""
    folder = store.derive("bytecode", KEY, lambda fresh: (fresh / "a").write_bytes(b"xyz") and None)
    monkeypatch.setattr(objects, "boot_id", lambda: "another")
    assert store.derived("bytecode", KEY) == folder
    assert (folder / ".boot").read_text() == "another"  # read once
    (folder / "a").write_bytes(bytes(3))
    assert store.derived("bytecode", KEY) == folder
    assert not store.is_whole("bytecode", KEY)
    monkeypatch.setattr(objects, "boot_id", lambda: "the next one")
    assert store.derived("bytecode", KEY) is None


@pytest.mark.parametrize("kind", ["", "..", "a/b", "A"])
def test_a_kind_is_a_plain_word(store: Store, kind: str) -> None:
    """Kinds of derived things are lower-case words."""
    with pytest.raises(ValueError, match="not a kind of derived things"):
        store.cache_dir(kind)


@pytest.mark.parametrize("variable", ["ENVBUILD_STORE", "XDG_CACHE_HOME"])
def test_a_store_whose_name_is_no_text(variable: str) -> None:
    """What is noted of it is JSON, which has no such names: refused before anything is written."""
    with pytest.raises(UsageError) as caught:
        default_root({variable: "/b\udcff"})
    assert caught.value.message.startswith("the store's name is not UTF-8: /b\\udcff")
    assert default_root({variable: "/bä"}).parts[1] == "bä"
