"""pip's configuration, read without pip."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.errors import ResolveError
from envbuild.net import pip_config


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def _read(environ: dict[str, str], home: Path) -> dict[str, str]:
    return pip_config.read({"XDG_CONFIG_DIRS": str(home / "xdg"), **environ}, home, home / "prefix")


def test_the_strongest_of_all_places_wins(home: Path) -> None:
    """User file, then virtual environment, then the named file, then variables; the install section over global."""
    _write(home / ".config/pip/pip.conf", "[global]\nindex-url = https://user.invalid/\ntimeout = 5\nretries = 1\n")
    _write(home / "prefix/pip.conf", "[global]\nindex_url = https://site.invalid/\n[install]\ntimeout = 6\n")
    assert _read({}, home)["index-url"] == "https://site.invalid/"
    assert _read({}, home)["timeout"] == "6"
    chosen = _write(home / "own.conf", "[global]\nindex-url = https://own.invalid/\n")
    found = _read({"PIP_CONFIG_FILE": str(chosen)}, home)
    assert found["index-url"] == "https://own.invalid/"
    assert "retries" not in found  # pip does not read the user's file then
    found = _read({"PIP_CONFIG_FILE": str(chosen), "PIP_INDEX_URL": "https://variable.invalid/"}, home)
    assert found["index-url"] == "https://variable.invalid/"


def test_dev_null_means_no_file(home: Path) -> None:
    """PIP_CONFIG_FILE=/dev/null turns all files off, and variables stay."""
    _write(home / ".config/pip/pip.conf", "[global]\nindex-url = https://user.invalid/\n")
    assert _read({"PIP_CONFIG_FILE": "/dev/null", "PIP_PRE": "1"}, home) == {"pre": "1"}


def test_other_sections_do_not_count(home: Path) -> None:
    """Options of pip freeze and the like have no effect on installing."""
    _write(
        home / ".pip/pip.conf",
        "[freeze]\ntimeout = 10\n[global]\nextra-index-url =\n  https://a.invalid\n  https://b.invalid\n",
    )
    found = _read({}, home)
    assert "timeout" not in found
    assert pip_config.words(found, "extra-index-url") == ("https://a.invalid", "https://b.invalid")


def test_a_broken_file_is_named(home: Path) -> None:
    """A configuration file that cannot be parsed is an error with its path, not silence."""
    path = _write(home / ".pip/pip.conf", "index-url = nowhere\n")
    with pytest.raises(ResolveError) as caught:
        _read({}, home)
    assert caught.value.message.startswith(f"cannot read pip's configuration {path}: File contains no section headers.")
    assert caught.value.hint == "correct the file, or set PIP_CONFIG_FILE=/dev/null"


@pytest.mark.parametrize(("text", "yes"), [("true", True), ("1", True), ("on", True), ("no", False), ("", False)])
def test_switches_are_read_as_pip_does(text: str, yes: bool) -> None:
    """pip takes several words for yes."""
    assert pip_config.switch({"pre": text}, "pre") is yes
