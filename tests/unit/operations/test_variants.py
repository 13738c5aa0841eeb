"""Which lock a command takes where a spec has variants."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import envbuild
from envbuild.errors import LockError, UsageError
from envbuild.lockfile import model as locks
from envbuild.lockfile.discovery import find_lock
from envbuild.operations.load_lock import lock_of_variant
from envbuild.operations.lock_options import LockOptions
from envbuild.operations.lock_siblings import Siblings, shared_pins
from tests.support.locks import small_lock


def _lock(name: str, variant: str = "", **wheels: bytes) -> locks.Lock:
    files = {f"{wheel}-py3-none-any.whl".replace("_", "-", 1): data for wheel, data in wheels.items()}
    return msgspec.structs.replace(small_lock(files, name=name), variant=variant)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with locks of two variants."""
    monkeypatch.setenv("ENVBUILD_STORE", str(tmp_path / "store"))
    folder = tmp_path / "project"
    (folder / "inner").mkdir(parents=True)
    monkeypatch.chdir(folder / "inner")
    for variant in ("cpu", "cuda12"):
        _write(folder, f"t-{variant}", variant)
    return folder


def _write(folder: Path, name: str, variant: str) -> None:
    (folder / f"pylock.{name}.toml").write_bytes(locks.dumps(_lock(name, variant)))


def test_the_lock_of_a_variant_is_found_upward(folder: Path) -> None:
    """By what the lock states, not by its name alone; another spec's lock may end alike."""
    _write(folder, "other-cpu", "")
    assert lock_of_variant(None, "cpu") == folder / "pylock.t-cpu.toml"
    assert lock_of_variant(Path("x"), None) == Path("x")
    assert lock_of_variant(None, None) is None
    assert envbuild.open(variant="cuda12").lock.variant == "cuda12"
    _write(folder, "u-cpu", "cpu")
    with pytest.raises(UsageError, match=r"several locks of variant cpu: pylock\.t-cpu\.toml, pylock\.u-cpu\.toml$"):
        lock_of_variant(None, "cpu")


def test_what_cannot_be_meant(folder: Path, tmp_path: Path) -> None:
    """A variant that is not there, one and a lock, no lock at all."""
    with pytest.raises(
        UsageError, match='has no lock of variant "cuda": it has cpu, cuda12 — perhaps you meant cuda12'
    ):
        lock_of_variant(None, "cuda")
    with pytest.raises(UsageError, match="names the lock already"):
        lock_of_variant(folder / "pylock.t-cpu.toml", "cpu")
    (folder / "pylock.t-cpu.toml").write_text("<<<<<<<")
    with pytest.raises(UsageError, match=r'"cpu": it has cuda12$'):
        lock_of_variant(None, "cpu")
    with pytest.raises(LockError, match="no lock"):
        lock_of_variant(None, "cpu", tmp_path / "store")


def test_several_locks_are_named_with_the_way_to_one(folder: Path) -> None:
    """By variant where all are of one spec's; else by file."""
    with pytest.raises(UsageError) as caught:
        find_lock(folder)
    assert caught.value.hint == "choose one, by its variant: --variant cpu"
    _write(folder, "other", "")
    with pytest.raises(UsageError) as caught:
        find_lock(folder)
    assert caught.value.hint == "choose one: pylock.other.toml as the last argument"


def test_a_lock_states_its_variant() -> None:
    """A lock without variant has no such key; a variant that the name does not end in is refused."""
    lock = _lock("t-cpu", "cpu")
    assert locks.loads(locks.dumps(lock)) == lock
    assert b"variant" not in locks.dumps(_lock("t-cpu"))
    for variant in ("gpu", "pu", "c/pu"):
        with pytest.raises(LockError):
            locks.dumps(_lock("t-cpu", variant))


def test_whose_pins_come_first() -> None:
    """Those of earlier variants, then the lock's own, then those of later ones; --upgrade forgets the latter two."""
    first = _lock("t-a", "a", **{"x_1.0": b"1", "y_1.0": b"1"})
    own = _lock("t-b", "b", **{"y_2.0": b"2", "z_2.0": b"2"})
    last = _lock("t-c", "c", **{"z_3.0": b"3", "w_3.0": b"3"})
    others = Siblings(earlier=(first,), later=(last,))
    moved = LockOptions(upgrade_packages=("y", "z", "python"))
    pins, options = shared_pins(own, others, moved)
    assert pins is not None
    assert {p.name: p.version for p in pins.packages} == {"x": "1.0", "y": "1.0", "z": "2.0", "w": "3.0"}
    assert options.upgrade_packages == ("z",)
    pins, options = shared_pins(own, others, LockOptions(upgrade=True))
    assert pins is not None
    assert ({p.name for p in pins.packages}, options.upgrade) == ({"x", "y"}, False)
    assert shared_pins(own, Siblings(), moved) == (own, moved)
    assert shared_pins(None, Siblings(), moved) == (None, moved)
    pins, options = shared_pins(None, Siblings(later=(last,)), moved)
    assert pins is not None
    assert ({p.name for p in pins.packages}, options) == ({"z", "w"}, moved)
    upgraded = LockOptions(upgrade=True)
    assert shared_pins(own, Siblings(later=(last,)), upgraded) == (own, upgraded)
