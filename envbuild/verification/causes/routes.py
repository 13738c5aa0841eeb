"""The way from the project's line to the line of a package that does something on its behalf."""

from __future__ import annotations

from collections.abc import Iterable

from envbuild.core.patterns import lazy
from envbuild.lockfile.layout import WORKSPACE
from envbuild.record.processes import EntropyDraw

_CELL = lazy(r"/tmp/ipykernel_\d+/\d+\.py:(\d+)")  # noqa: S108 -- nothing is made there
_PACKAGES = ("/site-packages/", "/dist-packages/")


def of_project(file: str) -> bool:
    """Whether a file of the container is in the project."""
    return file.startswith(f"{WORKSPACE}/")


def of_package(file: str) -> bool:
    """Whether a file of the container is in an installed package."""
    return any(mark in file for mark in _PACKAGES)


def cell(place: str) -> str:
    """Return a line of a notebook's cell as people know it; a kernel gives each cell a file of its own."""
    found = _CELL.fullmatch(place)
    return f"line {found[1]} of a cell" if found is not None else place


def inside(file: str) -> str:
    """Return a path from the folder of packages on; a file of the project from the project on."""
    for mark in _PACKAGES:
        if mark in file:
            return file.rpartition(mark)[2]
    return cell(file).removeprefix(f"{WORKSPACE}/")


def route(draw: EntropyDraw) -> str:
    """Return the calls from the project's line to the draw; only the draw's own line without such a line."""
    if len(draw.chain) < 2 or not of_project(draw.chain[0].file):
        return f"{inside(draw.file)}:{draw.line}"
    return " → ".join(f"{inside(call.file)}:{call.line}" for call in draw.chain)


def route_between(place: str, file: str, line: int, draws: Iterable[EntropyDraw]) -> str:
    """Return the calls from a line of the project to another line, with those between that a recorded draw shows.

    Args:
        place: file and line in the container.
        file, line: of the other one; empty if it is not known.
        draws: of the runs.
    """
    begin, end = inside(place), f"{inside(file)}:{line}"
    if not file or begin == end:
        return begin
    known = (route(draw) for draw in draws)
    return next(
        (found for found in known if found.startswith(f"{begin} → ") and found.endswith(f" → {end}")),
        f"{begin} → {end}",
    )
