"""Files that runs left are opened where they are, and through links that stay there."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.operations.contents import _is_below


def test_links_alone_are_followed_level_by_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that leads elsewhere or in a circle is refused; of what is far below no level is looked at by itself."""
    folder, elsewhere = tmp_path / "files", tmp_path / "elsewhere"
    (folder / "a/b").mkdir(parents=True)
    elsewhere.mkdir()
    (folder / "inside").symlink_to("a/b")
    (folder / "outside").symlink_to(elsewhere)
    (folder / "circle").symlink_to("circle")
    found = [_is_below(folder / name / "w.npy", folder) for name in ("a/b", "inside", "outside", "circle", "..")]
    assert found == [True, True, False, False, False]
    assert _is_below(folder / "outside", folder), "the link itself: its name is compared"
    monkeypatch.setattr(Path, "resolve", lambda *arguments, **options: pytest.fail("looked at each level"))
    assert _is_below(folder / "a/b/w.npy", folder)
