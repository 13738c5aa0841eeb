"""The fingerprint next to the lock: recorded once, kept while nothing that decides numbers changes, never half-read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.errors import LockError
from envbuild.lockfile.hardware import Hardware
from envbuild.lockfile.model import Lock
from envbuild.runs import fingerprint
from tests.support.runtime import make_lock

LOCK = make_lock(hardware=Hardware(kernel=">=3.10", fingerprint=True))
FOUND = {"parts": {name: {"digest": name * 8, "library": "x", "version": "1", "seconds": 0.1} for name in "ab"}}


def other(**digests: str) -> dict[str, Any]:
    return {"parts": {**FOUND["parts"], **{name: {"digest": digest} for name, digest in digests.items()}}}


def changed(lock: Lock, **fields: Any) -> Lock:
    return msgspec.structs.replace(lock, **fields)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pylock.digits.toml"


def test_the_first_one_wins(path: Path, tmp_path: Path) -> None:
    """The first accepted run is recorded next to the lock; a later one only states where it differs."""
    assert fingerprint.load(path, LOCK) is None
    assert fingerprint.record_first(path, LOCK, FOUND, "run-1") == ()
    written = json.loads((tmp_path / "pylock.digits.fingerprint.json").read_bytes())
    assert written["recorded"]["run"] == "run-1"
    assert written["parts"]["a"] == FOUND["parts"]["a"]
    assert fingerprint.record_first(path, LOCK, FOUND) == ()
    assert fingerprint.record_first(path, LOCK, other(b="moved", c="new")) == ("b", "c")
    assert fingerprint.record_first(path, LOCK, {"parts": {"a": FOUND["parts"]["a"]}}) == ("b",)
    assert json.loads((tmp_path / "pylock.digits.fingerprint.json").read_bytes()) == written


@pytest.mark.parametrize("found", [{}, {"parts": []}, {"parts": {"a": {}}}, {"parts": {"a": {"digest": 1}}}])
def test_nonsense_is_not_recorded(path: Path, found: dict[str, Any]) -> None:
    """What a program may have written over the guard's file is left alone."""
    assert fingerprint.record_first(path, LOCK, found) == ()
    assert not fingerprint.path_of(path).exists()


def test_handed_over_where_it_is_wanted(path: Path, tmp_path: Path) -> None:
    """The guard gets the recorded parts, unless nothing is recorded or the lock does not ask for them."""
    assert fingerprint.pass_to_container(path, LOCK, tmp_path) is False
    fingerprint.record_first(path, LOCK, FOUND)
    assert fingerprint.pass_to_container(path, make_lock(), tmp_path) is False
    assert not (tmp_path / fingerprint.EXPECTED).exists()
    assert fingerprint.pass_to_container(path, LOCK, tmp_path) is True
    assert json.loads((tmp_path / fingerprint.EXPECTED).read_bytes())["parts"] == FOUND["parts"]


@pytest.mark.parametrize(
    ("lock", "kept"),
    [
        (changed(LOCK, inputs=(), resolution={"spec": "1" * 64}), True),
        (changed(LOCK, hardware=msgspec.structs.replace(LOCK.hardware, host="2" * 64)), True),
        (changed(LOCK, hardware=msgspec.structs.replace(LOCK.hardware, cpu="x86-64-v3")), False),
        (changed(LOCK, environment={**LOCK.environment, "OMP_NUM_THREADS": "2"}), False),
        (changed(LOCK, determinism=msgspec.structs.replace(LOCK.determinism, threads=2)), False),
        (changed(LOCK, determinism=msgspec.structs.replace(LOCK.determinism, seed=7)), True),
        (make_lock(hardware=LOCK.hardware, packages={"numpy": "2.4.6", "scipy": "1.0"}), False),
    ],
)
def test_what_it_holds_for(path: Path, lock: Lock, kept: bool) -> None:
    """Another package, interpreter, variable, thread count or hardware needs a new one; data and comments do not."""
    fingerprint.record_first(path, LOCK, FOUND)
    assert (fingerprint.load(path, lock) is not None) is kept
    fingerprint.record_first(path, lock, other(a="moved"))
    again = fingerprint.load(path, lock)
    assert again is not None
    assert (again.parts["a"].digest == "moved") is not kept


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}'])
def test_damaged(path: Path, text: str) -> None:
    """A damaged file is never taken for a missing one: it is named, with what to do."""
    file = fingerprint.path_of(path)
    file.write_text(text)
    with pytest.raises(LockError, match=f"the fingerprint {file} cannot be read: ") as raised:
        fingerprint.pass_to_container(path, LOCK, path.parent)
    assert raised.value.hint == (
        f"restore it from version control, or delete it: the next run records it anew: rm {file}"
    )


def test_found_in(tmp_path: Path) -> None:
    """What a run left is read if it is whole."""
    assert fingerprint.found_in(tmp_path) is None
    (tmp_path / fingerprint.FOUND).write_text("[")
    assert fingerprint.found_in(tmp_path) is None
    (tmp_path / fingerprint.FOUND).write_text(json.dumps(FOUND))
    assert fingerprint.found_in(tmp_path) == FOUND
