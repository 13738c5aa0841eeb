"""What a store holds, for which locks, and what a collection takes of it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import atomic_file, temporary_folder
from envbuild.errors import IntegrityError
from envbuild.image.layer_cache import TAR, is_sound, make_layer
from envbuild.image.tar.layer import Layer
from envbuild.lockfile.model import Lock, dumps
from envbuild.store import fsck, gc, leases, roots
from envbuild.store.fsck import check
from envbuild.store.gc import Rules, chosen, collect, forget_locks, sweep
from envbuild.store.inventory import StoreEntry, inventory, kinds_of
from envbuild.store.objects import Store, StoreRefusedError
from envbuild.store.roots import DAY, find_roots, needed, note_lock
from tests.support.debs import make_deb
from tests.support.locks import small_lock
from tests.support.wheels import wheel_bytes

NOW = 1_700_000_000.0
KEY = sha256_bytes(b"key")


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "store")
    yield store
    leases.end(store.root)


def entries(store: Store) -> list[StoreEntry]:
    return inventory(store, kinds_of(find_roots(store)))


def put_lock(folder: Path, lock: Lock) -> Path:
    path = folder / lock.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dumps(lock))
    return path


def layer(store: Store, key: str, data: bytes) -> None:
    def make(folder: Path) -> Layer:
        (folder / TAR).write_bytes(data)
        return Layer(diff_id=sha256_bytes(data), size=len(data))

    make_layer(store, key, "boot", make)


def age(path: Path, days: float, now: float = NOW) -> None:
    os.utime(path, (now - days * DAY, now - days * DAY))


def test_everything_is_listed_by_kind(store: Store) -> None:
    """Files are reported by the names locks have for them, else by how they begin; derived things by their folder."""
    wheel = wheel_bytes("a", "1.0")
    store.add_bytes(wheel)
    store.add_bytes(b"!<arch>\ndebian")
    store.add_bytes(b"a file system")
    layer(store, KEY, b"x" * 500)
    note = store.cache_dir("locations") / sha256_bytes(wheel)
    note.write_text("somewhere")
    (store.cache_dir("debian") / "index").write_bytes(b"12345")
    with store.claim(KEY) as part:
        part.write(b"half")
    found = {(entry.kind, entry.name): entry.size for entry in entries(store)}
    stderr_only = sum(file.stat().st_size for file in (store.root / "derived/layers" / KEY).iterdir())
    assert found == {
        ("wheels", sha256_bytes(wheel)): len(wheel),
        ("os packages", sha256_bytes(b"!<arch>\ndebian")): 14,
        ("other files", sha256_bytes(b"a file system")): 13,
        ("layers", f"layers/{KEY}"): stderr_only,
        ("notes", f"locations/{sha256_bytes(wheel)}"): 9,
        ("indexes", "debian/index"): 5,
        ("parts", f"part/{KEY}"): 4,
    }


def test_a_lock_is_noted_once_a_day(store: Store, tmp_path: Path) -> None:
    """The register's file is written for a new lock, a changed one, and once a day; then things get new time stamps."""
    store.add_bytes(b"wheel")
    lock = small_lock({"a-1.0-py3-none-any.whl": b"wheel"})
    path = put_lock(tmp_path / "p", lock)
    note_lock(store, path, lock, now=NOW)
    (root,) = find_roots(store)
    assert (root.state, root.lock.path, root.lock.used) == ("current", str(path), NOW)
    written = root.file.stat().st_mtime_ns
    assert store.path(sha256_bytes(b"wheel")).stat().st_mtime == NOW
    note_lock(store, path, lock, now=NOW + DAY - 1)
    assert root.file.stat().st_mtime_ns == written
    note_lock(store, path, lock, now=NOW + DAY + 1)
    assert find_roots(store)[0].lock.used == NOW + DAY + 1
    assert store.path(sha256_bytes(b"wheel")).stat().st_mtime == NOW + DAY + 1
    note_lock(store, path, lock, [f"layers/{KEY}"], now=NOW + DAY + 2)
    assert find_roots(store)[0].lock.derived == (f"layers/{KEY}",)
    note_lock(store, path, lock, now=NOW + DAY + 3)  # a fetch alone knows nothing of layers
    assert find_roots(store)[0].lock.derived == (f"layers/{KEY}",)
    other = small_lock({"b-1.0-py3-none-any.whl": b"other"})
    put_lock(tmp_path / "p", other)
    assert find_roots(store)[0].state == "changed"
    note_lock(store, path, other, now=NOW + DAY + 4)
    (root,) = find_roots(store)
    assert [file.name for file in root.lock.files] == ["b-1.0-py3-none-any.whl"]
    assert root.lock.derived == ()


def test_a_store_that_cannot_be_written_is_not_noted(tmp_path: Path) -> None:
    """Noting a lock never fails a command."""
    store = Store(tmp_path / "store")
    (tmp_path / "store").write_bytes(b"")
    lock = small_lock({})
    note_lock(store, put_lock(tmp_path, lock), lock)
    assert find_roots(store) == []


def test_nonsense_in_the_register_is_left_out(store: Store) -> None:
    """A damaged entry neither stops a command nor names paths."""
    folder = store.root / roots.FOLDER
    folder.mkdir(parents=True)
    (folder / "a.json").write_bytes(b"{")
    (folder / "b.json").write_bytes(b'{"path":"/x","name":"x","sha256":"","used":1,"files":[["../../etc","x",1]]}')
    assert find_roots(store) == []


def test_which_locks_hold_their_things(store: Store, tmp_path: Path) -> None:
    """A lock that is as it was holds its things for ever; one gone or changed for a while; a changed one its new."""
    digests = {name: sha256_bytes(name.encode()) for name in ("kept", "changed", "fresh", "gone")}
    for name in ("kept", "changed", "gone"):
        lock = small_lock({f"{name}-1.0-py3-none-any.whl": name.encode()}, name=name)
        note_lock(store, put_lock(tmp_path, lock), lock, now=NOW)
    (tmp_path / "pylock.gone.toml").unlink()
    put_lock(tmp_path, small_lock({"fresh-1.0-py3-none-any.whl": b"fresh"}, name="changed"))
    found = find_roots(store)
    assert {root.lock.name: root.state for root in found} == {
        "kept": "current",
        "changed": "changed",
        "gone": "gone",
    }
    assert needed(found, NOW) == set(digests.values())
    assert needed(found, NOW + 1) == {digests["kept"], digests["fresh"]}
    assert [root.lock.name for root in forget_locks(found, NOW + 1)] == ["gone"]
    assert {root.lock.name for root in find_roots(store)} == {"kept", "changed"}


@st.composite
def _stores(draw: st.DrawFn) -> list[tuple[bool, int, int, bool, bool]]:
    one = st.tuples(st.booleans(), st.integers(0, 60), st.integers(0, 5000), st.booleans(), st.booleans())
    return draw(st.lists(one, max_size=8))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    contents=_stores(),
    older_than=st.integers(0, 60),
    largest=st.none() | st.integers(0, 20_000),
)
def test_a_collection_takes_no_more_and_no_less(
    tmp_path_factory: pytest.TempPathFactory,
    contents: list[tuple[bool, int, int, bool, bool]],
    older_than: int,
    largest: int | None,
) -> None:
    """Whatever a lock needs or a command uses stays; of the rest what is old goes, and more while it is too much."""
    store = Store(tmp_path_factory.mktemp("gc"))
    names: list[str] = []
    for number, (is_object, days, size, _, _) in enumerate(contents):
        if is_object:
            names.append(store.add_bytes(number.to_bytes(2, "big") + bytes(size)))
        else:
            key = sha256_bytes(bytes([number]))
            layer(store, key, bytes(size))
            names.append(f"layers/{key}")
        age(roots.entry_path(store, names[-1]), days)
    leases.end(store.root)
    lock = {name for name, (_, _, _, is_needed, _) in zip(names, contents, strict=True) if is_needed}
    used = {name for name, (_, _, _, _, is_used) in zip(names, contents, strict=True) if is_used}
    oldest = NOW - older_than * DAY
    held = entries(store)
    sizes = {entry.name: entry.size for entry in held}
    rules = Rules(needed=frozenset(lock), oldest=oldest, now=NOW, largest=largest)
    with ExitStack() as stack:
        for name in used:
            lease = leases.Lease(store.root)
            lease.use(name)
            stack.callback(lease.end)
        gone = {entry.name for entry in collect(store, chosen(held, rules))}
        left = {entry.name for entry in entries(store)}
    assert left == set(names) - gone
    assert not gone & (lock | used)
    free = set(names) - lock - used
    old = {name for name, (_, days, _, _, _) in zip(names, contents, strict=True) if days > older_than}
    assert free & old <= gone
    if largest is None:
        assert gone <= old
    elif free & left:
        idle_in_use = sum(sizes[name] for name in used - lock)  # counted as going, but nobody takes it
        assert sum(sizes[name] for name in left) <= largest + idle_in_use
    assert not (store.root / "trash").exists()


def test_what_is_used_meanwhile_stays(store: Store) -> None:
    """An entry used between choice and removal stays, though its user has ended."""
    sha256 = store.add_bytes(b"key")
    leases.end(store.root)
    age(store.path(sha256), 60)
    going = chosen(entries(store), Rules(needed=frozenset(), oldest=NOW, now=NOW))
    roots.touch(store, sha256, NOW)
    assert (len(going), collect(store, going)) == (1, [])
    assert store.has(sha256)


def test_parts_indexes_and_notes_stay_for_a_day(store: Store) -> None:
    """No lease names them, so age protects them; a part that someone holds stays however old."""
    with store.claim(KEY) as part:
        part.write(b"half")
    index = store.cache_dir("debian") / "index"
    index.write_bytes(b"")
    leases.end(store.root)
    now = time.time()
    rules = Rules(needed=frozenset(), oldest=now + 1, now=now, largest=0)
    assert chosen(entries(store), rules) == []
    for path in (index, store.root / "part" / KEY):
        age(path, 2, now)
    assert {entry.kind for entry in chosen(entries(store), rules)} == {"indexes", "parts"}
    assert chosen(entries(store), Rules(needed=frozenset({KEY}), oldest=0.0, now=now)) == []
    with store.claim(KEY):
        age(store.root / "part" / KEY, 2, now)
        assert [entry.kind for entry in collect(store, chosen(entries(store), rules))] == ["indexes"]
    assert store.part_size(KEY) == 4


def test_leases_of_killed_commands_go_though_nothing_else_does(store: Store) -> None:
    """They pile up, one a kill, in a store that has nothing to collect."""
    store.add_bytes(b"x")
    folder = store.root / "leases"
    folder.mkdir(exist_ok=True)
    (folder / f"1-{'0' * 16}").touch()
    sweep(store)
    assert not list(folder.glob("1-*"))


def test_what_killed_commands_left_is_swept(store: Store) -> None:
    """Half-made things and temporary files that nobody is at work on go; what is being made is not disturbed."""
    dead, busy = sha256_bytes(b"dead"), sha256_bytes(b"busy")
    folder = store.cache_dir("layers")
    (folder / f".{dead}.tmp").mkdir()
    (folder / f".{dead}.tmp" / "layer.tar").write_bytes(bytes(1000))
    (folder / f".{dead}.lock").touch()
    left = store.cache_dir("python") / ".x.aaaaaaaa.tmp"
    left.write_bytes(b"abc")
    half = store.cache_dir("debian") / ".index-aaaaaaaa"
    half.mkdir()
    (half / ".owned").touch()

    def make(fresh: Path) -> None:
        index = store.cache_dir("debian")
        with atomic_file(store.cache_dir("python") / "y") as stream, temporary_folder(".index-", index) as folder:
            stream.write(b"y")
            assert sweep(store) == 1003
            assert (folder.is_dir(), half.exists()) == (True, False)
        (fresh / "whole").write_bytes(b"x")

    made = store.derive("layers", busy, make)
    assert sorted(path.name for path in folder.iterdir()) == [busy]
    assert (made / "whole").is_file()
    assert [path.name for path in store.cache_dir("python").iterdir()] == ["y"]


def test_files_of_images_and_programs_are_not_swept(store: Store) -> None:
    """One in the tree of a layer or of a run stays, though its name is like those that envbuild gives."""
    names = (
        f"trees/{sha256_bytes(b'layer')}/tree/etc",
        f"linked/{sha256_bytes(b'image')}/tree/tmp",
        "runs/run-1",
        "runs/run-1/upper",
    )
    files = [
        store.root / "derived" / name / file
        for name in names
        for file in (".cfg.aaaaaaaa.tmp", ".index-aaaaaaaa/.owned")
    ]
    left = store.root / "derived/trees" / sha256_bytes(b"layer") / ".tree.json.aaaaaaaa.tmp"
    for file in (*files, left):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"abc")
    assert sweep(store) == 3
    assert [file for file in (*files, left) if not file.exists()] == [left]


def test_what_goes_while_it_is_swept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that another command removes after it was listed is passed over."""
    gone = store.cache_dir("debian") / "lists"
    gone.mkdir()

    def walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for found in listed(folder):
            if found[0] == str(gone.parent):
                gone.rmdir()
            yield found

    listed = os.walk
    monkeypatch.setattr(os, "walk", walk)
    assert sweep(store) == 0
    assert not gone.exists()


def test_two_collections_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection that ends, and takes the emptied folder away, does not disturb one that is at work."""
    monkeypatch.setattr(gc, "_BATCH", 1)
    for name in (b"a", b"b", b"c"):
        store.add_bytes(name)
    leases.end(store.root)

    def end_another(amount: int) -> None:
        (store.root / "trash").rmdir()

    now = time.time()
    going = chosen(entries(store), Rules(needed=frozenset(), oldest=now + 1, now=now))
    assert len(collect(store, going, end_another)) == 3
    assert (entries(store), (store.root / "trash").exists()) == ([], False)


def test_damage_is_found_and_removed(store: Store) -> None:
    """Every file and layer with other bytes is named and removed, also those of equal size; the rest stays."""
    good, bad = store.add_bytes(b"good" * 1000), store.add_bytes(b"bad!" * 1000)
    sound, altered, cut = (sha256_bytes(name) for name in (b"sound", b"altered", b"cut"))
    for key in (sound, altered, cut):
        layer(store, key, bytes(3000))
    held = entries(store)
    for path, data in (
        (store.path(bad), b"bad?" * 1000),
        (store.root / "derived/layers" / altered / TAR, bytes(2999) + b"x"),
        (store.root / "derived/layers" / cut / TAR, b"short"),
    ):
        path.unlink()
        path.write_bytes(data)
    read: list[int] = []
    damaged = check(store, held, {"layers": is_sound}, read.append, jobs=3)
    assert {entry.name for entry in damaged} == {bad, f"layers/{altered}", f"layers/{cut}"}
    assert sum(read) == 4000 * 2 + 3000 * 2 + 3 * 90  # and the notes of the layers
    assert {entry.name for entry in entries(store)} == {good, f"layers/{sound}"}
    assert check(store, held, {"layers": is_sound}, read.append) == []


def test_kinds_are_reported_by_content(store: Store, tmp_path: Path) -> None:
    """Real wheels and Debian packages are distinguished without a lock."""
    deb = make_deb(tmp_path, "hello").read_bytes()
    store.add_bytes(deb)
    store.add_bytes(wheel_bytes("a", "1.0"))
    assert {entry.kind for entry in entries(store)} == {"wheels", "os packages"}


def test_a_store_that_cannot_be_written_is_not_collected(tmp_path: Path) -> None:
    """The error states why, and which store."""
    (tmp_path / "file").write_bytes(b"")
    store = Store(tmp_path / "file" / "store")
    with pytest.raises(StoreRefusedError) as caught:
        collect(store, [])
    assert caught.value.message == f"the store {store.root} cannot be written: Not a directory"


def test_a_pipe_in_the_register_is_not_waited_for(store: Store, tmp_path: Path) -> None:
    """What stands in the register and is no entry is left out: a pipe, a link to a device without end."""
    note_lock(store, put_lock(tmp_path / "project", small_lock()), small_lock(), now=NOW)
    os.mkfifo(store.root / "locks/x.json")
    (store.root / "locks/y.json").symlink_to("/dev/zero")
    assert [root.lock.name for root in find_roots(store)] == [small_lock().name]


def test_a_pipe_in_the_place_of_an_object_is_damage(store: Store) -> None:
    """Nobody waits for somebody to write into it."""
    sha256 = sha256_bytes(b"x")
    store.path(sha256).parent.mkdir(parents=True)
    os.mkfifo(store.path(sha256))
    assert not store.has(sha256)
    assert store.inspect(sha256) == "damaged"
    assert not store.path(sha256).exists()


def test_a_pipe_in_the_place_of_a_lock_is_not_waited_for(store: Store, tmp_path: Path) -> None:
    """A project's files may be anything by now: such a lock counts as changed."""
    lock = small_lock()
    path = put_lock(tmp_path / "project", lock)
    store.add_bytes(b"x")
    note_lock(store, path, lock, now=NOW)
    path.unlink()
    os.mkfifo(path)
    (root,) = find_roots(store)
    assert root.state == "changed"
    note_lock(store, path, lock, now=NOW + 2 * DAY)


def test_what_is_damaged_and_cannot_be_removed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a store that is mounted read-only: the damage is what counts, and what to do about it."""
    layer(store, KEY, bytes(3000))
    (entry,) = entries(store)

    def refuse(path: Path) -> AbstractContextManager[None]:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(fsck, "claimed", refuse)
    with pytest.raises(IntegrityError) as caught:
        check(store, [entry], {"layers": lambda folder, advance: False}, lambda amount: None)
    assert caught.value.message == f"{entry.path} is damaged, and cannot be removed: Read-only file system"
    assert caught.value.hint.startswith("mount it so that it can be written")
