"""Leases: what a running command uses is not collected, whatever the clock shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.store import leases
from envbuild.store.gc import collect
from envbuild.store.inventory import StoreEntry
from envbuild.store.objects import Store

KEY = sha256_bytes(b"key")


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "store")
    store.root.mkdir()
    yield store
    leases.end(store.root)


def thing(store: Store, data: bytes) -> StoreEntry:
    """Describe an object, used at the end of time: no age protects it."""
    sha256 = sha256_bytes(data)
    return StoreEntry(kind="other files", name=sha256, path=str(store.path(sha256)), size=len(data), used=2.0**40)


def held(root: Path) -> frozenset[str]:
    with leases.collecting(root) as names:
        return names


def test_what_is_asked_for_is_in_use_until_the_process_gives_it_up(store: Store) -> None:
    """``has``, ``claim`` and ``derived`` write the name down; ``end`` removes the lease's file."""
    derived = sha256_bytes(b"derived")
    with store.claim(KEY):
        assert held(store.root) == {KEY}
    store.has(sha256_bytes(b"other"))
    store.derived("layers", derived)
    assert held(store.root) == {KEY, sha256_bytes(b"other"), f"layers/{derived}"} == leases.names_used(store.root)
    assert len(leases.users(store.root)) == 1
    leases.end(store.root)
    assert (held(store.root), leases.users(store.root)) == (frozenset(), [])
    assert [path.name for path in (store.root / "leases").iterdir()] == ["lock"]


def test_nothing_is_made_where_no_store_is(tmp_path: Path) -> None:
    """Asking a store that is not there does not make one."""
    assert not Store(tmp_path / "store").has(KEY)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_written_is_read_all_the_same(tmp_path: Path) -> None:
    """Where leases cannot be written, the store is used without."""
    store = Store(tmp_path / "store")
    store.add_bytes(b"key")
    leases.end(store.root)
    for path in (store.root / "leases").iterdir():
        path.unlink()
    (store.root / "leases").rmdir()
    (store.root / "leases").write_bytes(b"")  # root may write anywhere, so permissions prove nothing
    assert store.has(KEY)
    assert leases.names_used(store.root) == frozenset()


@pytest.mark.subprocess
def test_a_killed_command_holds_nothing(store: Store) -> None:
    """The lease of a process that was killed is void, and its file is removed."""
    script = "import sys, time; from envbuild.store.objects import Store; from pathlib import Path\n"
    script += "print(Store(Path(sys.argv[1])).has(sys.argv[2]), flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", script, store.root, KEY], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert (held(store.root), leases.users(store.root)) == ({KEY}, [process.pid])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert held(store.root) == frozenset()
    assert [path.name for path in (store.root / "leases").iterdir()] == ["lock"]


def test_nothing_vanishes_between_asking_and_use(store: Store) -> None:
    """Threads that ask for, make and use objects never miss one, while another removes all it can all the time."""
    with store.writer(sha256_bytes(b"first")) as part:  # what is no store gets no lease
        part.write(b"first")
    limit = time.monotonic() + 60.0
    enough = threading.Event()
    contents = [bytes([number]) * 100 for number in range(8)]
    failures: list[str] = []
    used = [0]

    def work() -> None:
        mine = Store(store.root)
        while not enough.is_set() and not failures:
            lease = leases.Lease(store.root)
            for data in contents:
                sha256 = sha256_bytes(data)
                lease.use(sha256)
                if not mine.path(sha256).exists():
                    with mine.writer(sha256) as part:
                        part.write(data)
                try:
                    if mine.path(sha256).read_bytes() != data:
                        failures.append("other bytes")
                except OSError as error:
                    failures.append(str(error))
                used[0] += 1
            lease.end()
            leases.end(store.root)  # what ``writer`` noted for the whole process

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    gone = 0
    while not failures and time.monotonic() < limit and (used[0] <= 2000 or gone <= 100):
        gone += len(collect(store, [thing(store, data) for data in contents]))
    enough.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert used[0] > 50
    assert gone > 5


def test_a_pipe_or_a_link_in_the_place_of_a_lease_is_not_waited_for(store: Store, tmp_path: Path) -> None:
    """What no command makes holds nothing, is not read, and does not keep others from collecting."""
    store.add_bytes(b"key")
    folder = store.root / "leases"
    os.mkfifo(folder / "1-0123456789abcdef")
    (tmp_path / "elsewhere").write_text("a" * 64)
    (folder / "2-0123456789abcdef").symlink_to(tmp_path / "elsewhere")
    assert held(store.root) == {KEY}
