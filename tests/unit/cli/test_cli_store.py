"""What is typed after ``envbuild store``, and what is printed without an engine or a network."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from envbuild.cli.app import invoke
from envbuild.cli.commands.store import parse_age, parse_size
from envbuild.cli.render.store import ago
from envbuild.errors import UsageError
from envbuild.lockfile.model import dumps
from envbuild.store import leases
from envbuild.store.objects import Store
from envbuild.store.roots import note_lock
from tests.support.locks import small_lock

DAY = 24 * 3600


@pytest.fixture(name="store")
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ENVBUILD_STORE", str(tmp_path / "store"))
    return Store(tmp_path / "store")


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 30 * DAY), ("0", 0), ("12h", 43200), ("8w", 56 * DAY), ("2", 2 * DAY)]
)
def test_ages(text: str, seconds: float) -> None:
    """Hours, days and weeks; a number alone means days."""
    assert parse_age(text) == seconds


@pytest.mark.parametrize(("text", "size"), [("50GB", 50 * 10**9), ("1.5 TB", 15 * 10**11), ("0", 0), ("7kB", 7000)])
def test_sizes(text: str, size: int) -> None:
    """Decimal units, as everything envbuild prints."""
    assert parse_size(text) == size


def test_what_is_neither_is_refused(store: Store) -> None:
    """The option is named, and what would do."""
    with pytest.raises(UsageError) as caught:
        invoke(["store", "gc", "--older-than", "-3d"])
    assert (caught.value.message, caught.value.hint) == (
        "--older-than -3d: expected an age",
        "e.g. --older-than 30d, 12h, 8w, or 0",
    )
    with pytest.raises(UsageError) as caught:
        invoke(["store", "gc", "--max-size", "50GiB"])
    assert caught.value.message == "--max-size 50GiB: expected a size"
    with pytest.raises(UsageError) as caught:
        invoke(["store", "pull", "https://example.invalid/x"])
    assert caught.value.message == "https://example.invalid/x: expected a folder or oci://HOST/REPOSITORY"
    with pytest.raises(UsageError) as caught:
        invoke(["store", "pull", "no such folder"])
    assert caught.value.message == "there is no folder no such folder"
    assert caught.value.hint == "fill one: envbuild store push 'no such folder'"
    with pytest.raises(UsageError) as caught:
        invoke(["store", "push", "oci://example.invalid/x:tag", "--all"])
    assert caught.value.message == "oci://example.invalid/x:tag: expected a repository without tag"
    with pytest.raises(UsageError) as caught:
        invoke(["store", "push", "x", "lock", "--all"])
    assert caught.value.message == "--all takes every lock"


def test_days() -> None:
    """Last use is reported to a day, also if the clock went back."""
    assert [ago(10 * DAY - age, 10 * DAY) for age in (-5, 0, DAY, 3 * DAY)] == [
        "today",
        "today",
        "yesterday",
        "3 days ago",
    ]


def test_an_empty_store(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command works where there is no store yet, and none makes one."""
    for command in (["ls"], ["verify"], ["gc", "--dry-run"]):
        assert invoke(["store", *command]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"store     {store.root}  0 B\n")
    assert "gc        0 B to free  0 B left, 0 B of it needed by locks" in out
    assert not store.root.exists()


def test_ls_reports_which_locks_need_what(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kinds with what of them is needed, locks with what is theirs alone, and all of it as JSON."""
    shared, own = b"s" * 2000, b"o" * 1000
    for name, wheels in (("one", {"s-1-py3-none-any.whl": shared}), ("two", {"s-1-py3-none-any.whl": shared})):
        if name == "two":
            wheels = {**wheels, "o-1-py3-none-any.whl": own, "absent-1-py3-none-any.whl": b""}
        lock = small_lock(wheels, name=name)
        (tmp_path / lock.file_name).write_bytes(dumps(lock))
        note_lock(store, tmp_path / lock.file_name, lock, now=time.time() - (name == "one") * 3 * DAY)
    for data in (shared, own, b"PK\x03\x04 nobody's"):
        store.add_bytes(data)
    leases.end(store.root)
    (tmp_path / "pylock.one.toml").unlink()
    two = ["2", "of", "3", "3.0", "kB", "0", "B", "1.0", "kB", "today"]
    one = ["(gone)", "1", "of", "1", "2.0", "kB", "0", "B", "0", "B", "3", "days", "ago"]
    assert invoke(["store", "ls", "--all"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["store", str(store.root), "3.0", "kB"],
        ["number", "size", "needed", "by", "locks", "last", "use"],
        ["wheels", "3", "3.0", "kB", "3.0", "kB", "today"],
        [],
        ["lock", "files", "layers", "its", "own", "last", "use"],
        [str(tmp_path / "pylock.two.toml"), *two],
        [str(tmp_path / "pylock.one.toml"), *one],
        [],
        ["thing", "name", "size", "last", "use", "locks"],
        ["wheels", "s-1-py3-none-any.whl", "2.0", "kB", "today", "two,", "one"],
        ["wheels", "o-1-py3-none-any.whl", "1.0", "kB", "today", "two"],
        ["wheels", store.add_bytes(b"PK\x03\x04 nobody's"), "13", "B", "today"],
    ]  # fmt: skip
    assert invoke(["store", "ls", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kinds"]["wheels"] == {"number": 3, "size": 3013, "needed": 3000}
    assert [(lock["name"], lock["state"]) for lock in found["locks"]] == [("two", "current"), ("one", "gone")]
    assert {tuple(thing["locks"]) for thing in found["things"]} == {("two", "one"), ("two",), ()}


def test_ls_shows_a_strange_folder_on_one_line(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of a lock's folder can neither control the terminal nor add a row to the table."""
    folder = tmp_path / "a\x1b[31m\nb"
    folder.mkdir()
    lock = small_lock({"s-1-py3-none-any.whl": b"s"})
    (folder / lock.file_name).write_bytes(dumps(lock))
    note_lock(store, folder / lock.file_name, lock)
    assert invoke(["store", "ls"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert rf"a\x1b[31m\nb/{lock.file_name}  " in out
