"""Matplotlib: what a program shows is kept, since there is no screen: as files that are compared like any other.

Without a display ``show()`` does nothing, with the Agg backend that Matplotlib chooses then: a program that draws and
leaves no file would leave nothing to compare, or to look at. ``FigureManagerBase.show`` is where ``pyplot.show()`` and
``Figure.show()`` end up (Matplotlib 3.6 to 3.11); backends with windows have one of their own, and notebooks keep
figures themselves.
"""

from __future__ import annotations

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..process import Process

FOLDER = "/tmp/shown-figures"  # noqa: S108 - in the container, where /tmp is the run's own
_MOST = 200
"""Figures that one process keeps."""
_PIXELS = 1 << 26
"""Pixels of the largest figure that is kept: a page of A1 at 300 dots per inch."""


def set_up(module: Any, process: Process) -> None:
    """Keep figures that are shown from now on."""
    manager = module.FigureManagerBase
    original = manager.show
    kept = Kept(process)

    def show(self: Any) -> Any:
        process.guarded("figure", lambda: kept.keep(self.canvas), vital=False)
        return original(self)

    show.__name__, show.__doc__ = "show", original.__doc__
    manager.show = show


class Kept:
    """The figures that a process has shown.

    Args:
        process: names its files.
        folder: where they go.
    """

    def __init__(self, process: Process, folder: str = FOLDER) -> None:
        self._process, self._folder = process, folder
        self._numbers: dict[str, int] = {}
        self._total = 0

    def keep(self, canvas: Any) -> None:
        """Draw a canvas as ``show`` would have, and write it, unless it has not changed since it was shown."""
        figure = canvas.figure
        if not self._process.recorded or not hasattr(canvas, "buffer_rgba"):
            return
        if not figure.stale and getattr(canvas, "_envbuild_shown", False):
            return
        width, height = canvas.get_width_height()
        if self._total == _MOST or width * height > _PIXELS:
            more = f"more than {_MOST}" if self._total == _MOST else f"{width} × {height} pixels"
            self._process.warn(f"figure: {more} were shown, which is more than is kept")
            return
        canvas.draw()
        canvas._envbuild_shown = True
        place = self._process.task or self._process.path
        number = self._numbers[place] = self._numbers.get(place, 0) + 1
        self._total += 1
        os.makedirs(self._folder, exist_ok=True)
        image = sys.modules["matplotlib.image"]  # which figures import
        image.imsave(os.path.join(self._folder, file_name(place, number)), canvas.buffer_rgba(), format="png")


def file_name(place: str, number: int) -> str:
    """Return the name of a figure's file: ``3.png``, of another process than the first ``worker-2-3.png``."""
    return "-".join([*re.findall(r"[\w.]+", place), f"{number}.png"])
