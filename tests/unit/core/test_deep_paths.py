"""Folders far below another one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from envbuild.core import deep_paths
from envbuild.core.fs import folder_below

NAMES = ["d"] * 40


@pytest.fixture(params=["one call", "name by name"])
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that are opened; with the kernel's call for whole paths, and where there is none."""
    opened: list[str] = []
    real = os.open

    def noted(path: str | Path, *arguments: int, **options: int) -> int:
        opened.append(str(path))
        return real(path, *arguments, **options)

    if request.param == "name by name":
        monkeypatch.setattr(deep_paths, "_OPENAT2", 100_000)
    monkeypatch.setattr(os, "open", noted)
    return opened


def test_a_deep_folder_is_opened(tmp_path: Path, calls: list[str]) -> None:
    """It is made too; opened by few calls where the kernel has one for it."""
    with folder_below(tmp_path, *NAMES, make=True) as folder:
        (folder / "x").write_text("1")
    calls.clear()
    with folder_below(tmp_path, *NAMES) as folder:
        assert (folder / "x").read_text() == "1"
    assert len([name for name in calls if name == "d"]) in (0, 40)
    assert (tmp_path / "/".join(NAMES) / "x").exists()


@pytest.mark.parametrize("place", [0, 20, 39])
def test_no_link_is_followed_in_the_depth(place: int, tmp_path: Path, calls: list[str]) -> None:
    """Whichever name is one: what is refused is the same as name by name, and is named."""
    (tmp_path / "elsewhere" / "/".join(NAMES)).mkdir(parents=True)
    above = tmp_path / "top" / "/".join(NAMES[:place])
    above.mkdir(parents=True)
    (above / "d").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"directory|links") as caught, folder_below(tmp_path / "top", *NAMES):
        pass
    assert caught.value.errno in (errno.ENOTDIR, errno.ELOOP)
    assert caught.value.filename == str(above / "d")


@pytest.mark.parametrize("name", ["..", ".", "", "a/b"])
def test_what_is_no_name_is_refused_in_the_depth(name: str, tmp_path: Path, calls: list[str]) -> None:
    """No way leads up."""
    (tmp_path / "/".join(NAMES)).mkdir(parents=True)
    with pytest.raises(OSError, match="not the name of a folder"), folder_below(tmp_path, *NAMES, name):
        pass
