"""TOML from outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuild.core.toml import parse_toml, toml_file
from envbuild.errors import LockError, SpecError
from envbuild.host import file as host_file
from envbuild.lockfile import model as locks
from envbuild.net.config import uv_setting
from envbuild.spec.detect import detect_project

HOSTILE = {
    "a key of many parts": "a" + ".a" * 100_000 + " = 1\n",
    "a table of many parts": "[a" + ".a" * 100_000 + "]\n",
    "in an inline table": "x = {a" + ".a" * 100_000 + " = 1}\n",
    "behind a text": "x = ['it''s', \"\\\"\", {a" + ".a" * 100_000 + " = 1}] # '\n",
    "behind a long text": 'x = ["""\n" """, {a' + ".a" * 100_000 + ' = 1, b = "x"}]\n',
    "many keys of many parts": ("a" + ".a" * 400 + " = 1\n") * 500,
    "nested": "a = " + "[" * 100_000 + "]" * 100_000,
    "many digits": "a = " + "9" * 6_000 + "\n",
    "no TOML": "=",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_is_wrong_is_a_value_error(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads it: nothing ends in a traceback, and nothing takes hours."""
    with pytest.raises(ValueError):  # noqa: PT011 - any sentence
        parse_toml(text)
    with pytest.raises(LockError):
        locks.loads(text.encode())
    with pytest.raises(SpecError):
        host_file.loads(text)
    for name in ("pyproject.toml", "uv.toml"):
        (tmp_path / name).write_text(text)
    assert toml_file(tmp_path / "uv.toml") == {}
    monkeypatch.chdir(tmp_path)
    assert uv_setting("nothing", {"UV_CONFIG_FILE": "uv.toml"}) == ""
    assert detect_project(tmp_path)


def test_dots_in_texts_are_no_keys() -> None:
    """A text may have as many as it likes, and so may a comment."""
    dots = "." * 10_000
    assert parse_toml(f'a = \'{dots}\' # {dots}\nb = "\\"{dots}"\n') == {"a": dots, "b": f'"{dots}'}


@pytest.mark.parametrize("text", ["tool = 3", "[tool]\nuv = 3", "[tool.uv]\npip = 3", ""])
def test_a_table_that_is_none_is_empty(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of uv are uv's to complain about."""
    (tmp_path / "pyproject.toml").write_text(text)
    assert toml_file(tmp_path / "pyproject.toml", "tool", "uv", "pip") == {}
    monkeypatch.chdir(tmp_path)
    assert uv_setting("index-url", {"UV_CONFIG_FILE": "pyproject.toml"}) == ""


def test_a_pipe_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project may hold one in the place of settings."""
    for name in ("uv.toml", "pyproject.toml"):
        os.mkfifo(tmp_path / name)
        assert toml_file(tmp_path / name) == {}
    monkeypatch.chdir(tmp_path)
    assert uv_setting("index-url", {"UV_CONFIG_FILE": "uv.toml"}) == ""
