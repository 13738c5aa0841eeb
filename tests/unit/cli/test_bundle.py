"""Modules that come from one file of bytecode are those that Python would import."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from envbuild.cli import bundle

NAMES = ("bundled", "bundled.one", "bundled.sub", "bundled.sub.two")


@pytest.fixture(name="place")
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a module and a package, each imported once, and a bundle of them."""
    root = tmp_path / "bundled"
    (root / "sub").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "sub/__init__.py").write_text("VALUE = 1\n")
    (root / "one.py").write_text("def where():\n    return where.__code__.co_filename\n")
    (root / "sub/two.py").write_text("from bundled.one import where\nVALUE = 2\n")
    monkeypatch.setattr(bundle, "_PACKAGE", "bundled")
    monkeypatch.setattr(bundle, "_used", [])
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    forget()
    importlib.import_module(NAMES[-1])
    made(tmp_path).keep()
    yield tmp_path
    forget()


def made(place: Path, key: bytes = b"key") -> bundle._Bundle:
    return bundle._Bundle(str(place / "modules"), key, str(place / "bundled"))


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "bundled"]:
        del sys.modules[name]


def loaded(place: Path, key: bytes = b"key") -> dict[str, ModuleType]:
    """Import them anew, with the bundle; returns those that came from it."""
    forget()
    bundle._used[:] = [made(place, key)]
    sys.meta_path.insert(0, bundle._used[0])
    importlib.import_module(NAMES[-1])
    found = {name: sys.modules[name] for name in NAMES}
    return {name: module for name, module in found.items() if isinstance(module.__loader__, bundle._Loader)}


def test_its_modules_are_as_python_imports_them(place: Path) -> None:
    """Their files, packages, values and code; the bytecode's own files are not needed."""
    forget()
    importlib.import_module(NAMES[-1])
    names = ("__file__", "__cached__", "__package__", "__path__", "__name__", "VALUE")
    before = {name: [getattr(sys.modules[name], each, None) for each in names] for name in NAMES}
    for path in place.rglob("*.pyc"):
        path.write_bytes(b"")
    found = loaded(place)
    assert {name: [getattr(module, each, None) for each in names] for name, module in found.items()} == before
    assert found["bundled.one"].where() == str(place / "bundled/one.py")
    assert found["bundled.sub.two"].where is found["bundled.one"].where


def test_a_changed_source_is_imported_itself(place: Path) -> None:
    """As with bytecode: by its time and size. Then the bundle is made anew."""
    source = place / "bundled/sub/two.py"
    source.write_text("from bundled.one import where\nVALUE = 33\n")
    assert set(loaded(place)) == {*NAMES} - {"bundled.sub.two"}
    assert sys.modules["bundled.sub.two"].VALUE == 33
    bundle.keep()
    assert set(loaded(place)) == {*NAMES}
    assert sys.modules["bundled.sub.two"].VALUE == 33


def test_a_source_of_the_same_size_is_known_by_its_time(place: Path) -> None:
    """Not by its content, as Python does it."""
    source = place / "bundled/sub/__init__.py"
    source.write_text("VALUE = 7\n")
    os.utime(source, (1, 1))
    assert "bundled.sub" not in loaded(place)
    assert sys.modules["bundled.sub"].VALUE == 7


def test_a_module_that_is_gone_is_not_found(place: Path) -> None:
    """Its bytecode is not taken in its place."""
    (place / "bundled/sub/two.py").unlink()
    with pytest.raises(ModuleNotFoundError):
        loaded(place)


@pytest.mark.parametrize("how", ["shorter", "longer", "empty", "head", "table", "readable", "link", "key"])
def test_a_file_that_is_not_whole_or_not_ones_own_is_not_read(place: Path, how: str) -> None:
    """All modules are then imported as ever."""
    path = place / "modules"
    data = path.read_bytes()
    if how == "link":
        path.rename(place / "other")
        path.symlink_to("other")
    elif how == "readable":
        path.chmod(0o640)
    elif how != "key":
        wrong = {"shorter": data[:-1], "longer": data + b"x", "empty": b"", "head": b"x" * len(data)}
        path.write_bytes(wrong.get(how, data[:32] + b"\xff" * (len(data) - 32)))
    assert not loaded(place, b"other" if how == "key" else b"key")


def test_a_module_whose_code_is_damaged_is_taken_from_its_file(place: Path) -> None:
    """The rest of the bundle is used."""
    path = place / "modules"
    data = path.read_bytes()
    path.write_bytes(data[:-40] + b"\xff" * 40)
    assert set(loaded(place)) == {*NAMES}
    assert sys.modules["bundled.sub.two"].VALUE == 2
    bundle.keep()
    assert path.read_bytes() == data


def test_it_is_written_only_for_modules_that_it_lacks(place: Path) -> None:
    """It grows with what other commands import, and is nobody else's."""
    path = place / "modules"
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.stat()
    loaded(place)
    bundle.keep()
    assert path.stat().st_ino == before.st_ino
    (place / "bundled/three.py").write_text("VALUE = 3\n")
    importlib.invalidate_caches()
    importlib.import_module("bundled.three")
    sys.modules.pop("bundled.one")
    bundle.keep()
    forget()
    bundle._used[:] = [made(place)]
    assert {*bundle._used[0]._table} == {*NAMES, "bundled.three"}
    assert [each.name for each in place.iterdir() if each.name.startswith("modules")] == ["modules"]


def test_who_writes_no_bytecode_writes_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``PYTHONDONTWRITEBYTECODE`` holds for it too."""
    (place / "modules").unlink()
    loaded(place)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    bundle.keep()
    assert not (place / "modules").exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    bundle.keep()
    assert (place / "modules").exists()
