"""Figures that a program shows are kept (hook/frameworks/for_matplotlib.py); tests/plants has it with Matplotlib."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from envbuild.lockfile import layout
from envbuild.runtime.hook.frameworks import for_matplotlib


class Canvas:
    """Draws one pixel for each time it is drawn."""

    def __init__(self, width: int = 2) -> None:
        self.figure, self.drawn, self.width = types.SimpleNamespace(stale=True), 0, width

    def get_width_height(self) -> tuple[int, int]:
        """Return the size in pixels."""
        return self.width, 1

    def draw(self) -> None:
        """Draw, after which nothing is stale."""
        self.drawn += 1
        self.figure.stale = False

    def buffer_rgba(self) -> bytes:
        """Return the pixels."""
        return b"rgba" * self.drawn


def _process() -> Any:
    warnings: list[str] = []

    def guarded(what: str, action: Any, *, vital: bool) -> None:
        try:
            action()
        except ValueError as error:
            warnings.append(f"{what}: {error}")

    return types.SimpleNamespace(
        recorded=True, task="", path="", warnings=warnings, warn=warnings.append, guarded=guarded
    )


@pytest.fixture(autouse=True)
def _matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its function that writes pixels, which the hook calls once a figure is shown."""
    image: Any = types.ModuleType("matplotlib.image")
    image.imsave = lambda path, pixels, format: Path(path).write_bytes(bytes(pixels))
    monkeypatch.setitem(sys.modules, "matplotlib", types.ModuleType("matplotlib"))
    monkeypatch.setitem(sys.modules, "matplotlib.image", image)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_the_folder_is_the_one_that_is_looked_for() -> None:
    """Two constants, since nothing of envbuild but the hook is in an image."""
    assert for_matplotlib.FOLDER == layout.SHOWN_DIR


def test_what_is_shown_is_kept_each_time_it_has_changed(tmp_path: Path) -> None:
    """By the order in which figures were shown; a task's are its own, whichever process draws them."""
    process, first, second = _process(), Canvas(), Canvas()
    kept = for_matplotlib.Kept(process, str(tmp_path / "shown"))
    for canvas in (first, first, second):
        kept.keep(canvas)
    first.figure.stale = True
    kept.keep(first)
    process.path, process.task = "pool worker 2", "rank 1/task 3.0"
    second.figure.stale = True
    kept.keep(second)
    assert _names(tmp_path / "shown") == ["1.png", "2.png", "3.png", "rank-1-task-3.0-1.png"]
    assert (tmp_path / "shown/3.png").read_bytes() == b"rgba" * 2
    assert process.warnings == []


def test_show_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it returns and raises reaches the program, what fails while a figure is drawn does not."""

    class FigureManagerBase:
        def __init__(self, canvas: Any) -> None:
            self.canvas = canvas

        def show(self) -> str:
            """Show it."""
            return "shown"

    monkeypatch.setattr(for_matplotlib, "FOLDER", str(tmp_path))
    process, canvas = _process(), Canvas()
    for_matplotlib.set_up(types.SimpleNamespace(FigureManagerBase=FigureManagerBase), process)
    assert FigureManagerBase(canvas).show() == "shown"
    assert (canvas.drawn, FigureManagerBase.show.__name__) == (1, "show")

    def fail() -> None:
        raise ValueError("no font")

    canvas.figure.stale, canvas.draw = True, fail  # type: ignore[method-assign]
    assert FigureManagerBase(canvas).show() == "shown"
    assert process.warnings == ["figure: no font"]


def test_what_is_no_picture_is_not_kept(tmp_path: Path) -> None:
    """A canvas without pixels, such as of a PDF; a process without a record."""
    process = _process()
    kept = for_matplotlib.Kept(process, str(tmp_path / "shown"))
    kept.keep(types.SimpleNamespace(figure=types.SimpleNamespace(stale=True)))
    process.recorded = False
    kept.keep(Canvas())
    assert _names(tmp_path / "shown") == []


@pytest.mark.parametrize("width", [2, for_matplotlib._PIXELS + 1])
def test_too_many_and_too_large_figures_are_warned_of(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would fill the disk; the program goes on."""
    monkeypatch.setattr(for_matplotlib, "_MOST", 2)
    process = _process()
    kept = for_matplotlib.Kept(process, str(tmp_path / "shown"))
    for _ in range(4):
        kept.keep(Canvas(width))
    assert _names(tmp_path / "shown") == (["1.png", "2.png"] if width == 2 else [])
    assert process.warnings[0].endswith("were shown, which is more than is kept")
