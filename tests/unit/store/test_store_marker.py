"""The store's folder: marked, its user's own, and nothing in it is touched that envbuild has not named."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.cli.app import invoke
from envbuild.core.digest import sha256_bytes
from envbuild.errors import UsageError
from envbuild.store import leases
from envbuild.store.marker import TAG, admit
from envbuild.store.objects import Store, StoreRefusedError

FOREIGN = ("trash/thesis.tex", "leases/2024-notes", "locks/front-door/.key.tmp", "derived/layers/.my.lock")
"""Files that a collection once removed because their names look like its own."""
OTHER = "use another folder, of your own and empty: export ENVBUILD_STORE=FOLDER"


@pytest.fixture(name="store")
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("ENVBUILD_STORE", str(tmp_path / "store"))
    store = Store(tmp_path / "store")
    yield store
    leases.end(store.root)


def fill(root: Path) -> None:
    """Put a user's files, years old, into a folder."""
    for name in FOREIGN:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("mine")
        os.utime(root / name, (1, 1))


def test_a_folder_of_other_files_is_no_store(store: Store) -> None:
    """``ENVBUILD_STORE`` named by mistake: every command refuses, and leaves the folder as it is."""
    fill(store.root)
    (store.root / "letter.txt").write_text("mine")
    before = sorted(store.root.rglob("*"))
    for command in (["gc", "--older-than", "0"], ["verify"], ["ls"]):
        with pytest.raises(UsageError) as caught:
            invoke(["store", *command])
        assert caught.value.message == f"{store.root} is no store of envbuild, and not empty: it holds letter.txt"
        assert caught.value.hint == OTHER
    with pytest.raises(UsageError):
        store.add_bytes(b"x")
    assert sorted(store.root.rglob("*")) == before


def test_the_default_folder_may_be_anothers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder that happens to have envbuild's name is no more a store than any other folder."""
    monkeypatch.delenv("ENVBUILD_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fill(tmp_path / "envbuild")
    (tmp_path / "envbuild" / "index.db").write_text("of another program")
    with pytest.raises(UsageError) as caught:
        invoke(["store", "gc", "--older-than", "0"])
    assert caught.value.message == (
        f"{tmp_path / 'envbuild'} is no store of envbuild, and not empty: it holds index.db"
    )
    assert caught.value.hint == OTHER


def test_a_collection_removes_only_what_envbuild_has_named(store: Store) -> None:
    """Files that a user has put into the store's own folders stay, however old and whatever they are called."""
    extra = store.add_bytes(b"nobody needs this")
    leases.end(store.root)
    fill(store.root)
    assert invoke(["store", "gc", "--older-than", "0"]) == 0
    assert not store.has(extra)
    assert [name for name in FOREIGN if not (store.root / name).exists()] == []


def test_a_collection_removes_the_steps_of_killed_commands(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Their bytes count as freed; a build that finds its layers made looks for no step."""
    store.add_bytes(b"x")
    leases.end(store.root)
    step = store.root / "derived/steps/step-2k_a7o31"
    (step / "root/etc/skel").mkdir(parents=True)
    (step / "root/etc/skel/.bashrc.dpkg-new").write_bytes(b"# three\n" * 1000)
    (step / "lock").touch()
    assert invoke(["store", "gc", "--dry-run", "--json"]) == 0
    assert step.exists()
    capsys.readouterr()
    assert invoke(["store", "gc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["freed"] >= 8000
    assert not step.exists()


def test_a_new_store_is_marked(store: Store) -> None:
    """By a cache directory tag, which backup programs know; another program's tag does not make a store."""
    store.add_bytes(b"x")
    assert (store.root / TAG).read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")
    (store.root / TAG).write_bytes(b"Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n")
    with pytest.raises(UsageError):
        admit(store.root)


def test_a_store_of_another_user_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who owns the folder decides what builds use; under sudo the invoking user's own store is taken."""
    store.root.mkdir()
    if os.geteuid() == 0:
        os.chown(store.root, 4242, -1)
        with pytest.raises(UsageError) as caught:
            admit(store.root, environ={})
        assert caught.value.message == f"the store {store.root} belongs to another user (uid 4242, expected 0)"
        assert admit(store.root, environ={"SUDO_UID": "4242"})
    else:
        me = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
        with pytest.raises(UsageError) as caught:
            admit(store.root)
        assert caught.value.message == f"the store {store.root} belongs to another user (uid {me}, expected {me + 1})"


def test_a_store_that_everybody_may_write_is_refused(store: Store) -> None:
    """Anybody could put another layer there."""
    store.root.mkdir()
    store.root.chmod(0o777)
    with pytest.raises(UsageError) as caught:
        store.has(sha256_bytes(b"x"))
    assert caught.value.message == f"everybody may write to the store {store.root}"


def test_nobody_else_may_write_whatever_the_umask(tmp_path: Path) -> None:
    """Also under umask 000, which some containers and job systems have."""
    before = os.umask(0)
    try:
        store = Store(tmp_path / "cache" / "store")
        store.add_bytes(b"x")
        store.derive("layers", sha256_bytes(b"k"), lambda folder: (folder / "note").touch())
        leases.end(store.root)
    finally:
        os.umask(before)
    found = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert [path for path in found if path.lstat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)] == []


def test_links_are_no_part_of_a_store(store: Store, tmp_path: Path) -> None:
    """A link in the place of an object, a layer or a folder leads to what nobody has checked."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"right")
    sha256 = sha256_bytes(b"right")
    store.add_bytes(b"other")
    store.path(sha256).parent.mkdir(exist_ok=True)
    store.path(sha256).symlink_to(outside)
    assert not store.has(sha256)
    assert store.inspect(sha256) == "damaged"
    assert outside.read_bytes() == b"right"
    made = store.derive("layers", sha256, lambda folder: (folder / "a").touch())
    made.rename(tmp_path / "layer")
    made.symlink_to(tmp_path / "layer")
    assert store.derived("layers", sha256) is None
    assert store.derive("layers", sha256, lambda folder: (folder / "b").touch()).lstat()
    assert (made / "b").exists()
    assert not made.is_symlink()
    (store.root / "part").rename(tmp_path / "part")
    (store.root / "part").symlink_to(tmp_path / "part")
    with pytest.raises(UsageError) as caught:
        Store(store.root).has(sha256)
    assert caught.value.message == f"{store.root / 'part'} is a link or a file; in a store it is a folder"


def test_where_no_folder_can_be_made() -> None:
    """``/proc`` has no folders of ours, and answers that there is no such thing: it was looked for without an end."""
    with pytest.raises(StoreRefusedError) as caught:
        Store(Path("/proc/envbuild/store")).cache_dir("layers")
    assert caught.value.message.startswith("the store /proc/envbuild/store cannot be written: ")
