"""Where ``fetch`` looks first."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.lockfile.model import PythonPackage, Wheel
from envbuild.operations import fetch
from envbuild.store.objects import Store
from tests.support.runtime import make_lock


def test_a_note_that_goes_meanwhile_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes of where wheels were are collected beside running commands, also between a look and the reading."""
    names = ["a" * 64, "b" * 64, "c" * 64]
    wheels = [Wheel(name=f"{name[0]}-1-py3-none-any.whl", size=1, sha256=name) for name in names]
    packages = tuple(PythonPackage(name=wheel.name[0], version="1", wheel=wheel) for wheel in wheels)
    lock, store = make_lock(packages=packages), Store(tmp_path)
    folder = store.cache_dir("locations")
    (folder / names[0]).write_text("one\nother\n")
    (folder / names[1]).write_bytes(b"\xff")
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    assert fetch._remembered(lock, store, {*names}) == {names[0]: ["one", "other"]}
    assert fetch._remembered(lock, store, {*names[1:]}) == {}
