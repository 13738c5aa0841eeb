"""Modules that are loaded while a command waits."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from envbuild.core.loading import load_meanwhile


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with a module, one that cannot be loaded, and a package in it."""
    (tmp_path / "loaded_early" / "inner").mkdir(parents=True)
    for name in ("__init__", "a", "inner/__init__", "inner/b"):
        (tmp_path / "loaded_early" / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("loaded_early", "loaded_early.a", "loaded_early.inner", "loaded_early.inner.b"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "loaded_early"


def test_all_modules_of_packages_are_loaded(package: str) -> None:
    """Those of packages in them too; what is not there is left to who needs it."""
    thread = load_meanwhile(("loaded_never", package))
    assert thread is not None
    thread.join()
    assert {name for name in sys.modules if name.startswith(package)} == {
        package, f"{package}.a", f"{package}.inner", f"{package}.inner.b",
    }  # fmt: skip


def test_a_limit_of_threads_is_no_error(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is loaded then."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert load_meanwhile((package,)) is None
    assert package not in sys.modules
