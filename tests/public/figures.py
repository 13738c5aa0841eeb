"""A backend for Matplotlib that writes figures where others would show them: ``figures/01.png`` in the working folder.

So that what an unmodified program shows counts as its result: ``MPLBACKEND=module://figures``.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas
from matplotlib.backends.backend_agg import FigureManagerBase as FigureManager

__all__ = ["FigureCanvas", "FigureManager", "show"]

_FOLDER = Path("figures")


def show(*_: object, **__: object) -> None:
    """Write and close all figures."""
    _FOLDER.mkdir(exist_ok=True)
    for number in pyplot.get_fignums():
        place = _FOLDER / f"{len(list(_FOLDER.iterdir())) + 1:02}.png"
        pyplot.figure(number).savefig(place)
    pyplot.close("all")
