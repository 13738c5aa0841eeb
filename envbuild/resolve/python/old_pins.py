"""Requirements that have wheels for other Pythons alone, as those of years ago have: said of all of them at once.

A resolver names one of them, and what follows from it. The pages of the indexes state which Pythons have wheels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from envbuild.resolve.python.explain import PYTHONS
from envbuild.resolve.python.wheels import Candidate, NoWheelError, Target, best, project_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from envbuild.resolve.python.newest import File

Pages = Mapping[str, Sequence[Sequence["File"]]]
_CHOICE = re.compile(r'choose the Python that has wheels, in the spec:  python: "[\d.]+"; or ')
_CPYTHON = re.compile(r"cp3(\d{1,2})", re.ASCII)
_ALL = range(30)
"""Minor versions of Python 3 that a page may speak of."""


def of_projects(lines: Iterable[str]) -> list[str]:
    """Return the first requirement of each project that is one on versions, without marker and extras."""
    found: dict[str, str] = {}
    for line in lines:
        requirement = _requirement(line)
        if requirement is not None and requirement.url is None:
            found.setdefault(project_of(line), re.sub(r"\[[^\]]*\]|\s", "", line.partition(";")[0]))
    return [*found.values()]


def explained(error: NoWheelError, lines: Sequence[str], pages: Pages, target: Target) -> NoWheelError:
    """Return an error that states for which Pythons there are wheels of what lacks one for the target.

    Args:
        error: the resolver's.
        lines: requirements as ``of_projects`` gives them, those of the error first.
        pages: files of their projects, by normalised name.
        target: what was resolved for.
    """
    others = {line: found for line in lines if (found := _others(line, pages.get(project_of(line), ()), target))}
    if not others or not {*map(project_of, error.lacking)} <= {*map(project_of, others)}:
        return error
    listed = "".join(f"\n  {line} has wheels for Python {_span(found)}" for line, found in others.items())
    common = {*PYTHONS}.intersection(*others.values())
    rest = _CHOICE.sub("", error.hint)  # the resolver knows of one requirement alone
    if common:
        hint = f'choose the Python that has wheels, in the spec:  python: "3.{max(common)}"; or {rest}'
    else:
        newer = ", ".join(map(_newer, others))
        hint = f"images have Python 3.{PYTHONS[0]} to 3.{PYTHONS[-1]}: require newer releases ({newer}); or {rest}"
    return NoWheelError(f"{error.message}{listed}", hint, error.lacking)


def _others(line: str, pages: Sequence[Sequence[File]], target: Target) -> set[int]:
    """Return for which minor versions of Python 3 a requirement has wheels; nothing if it has one for the target."""
    requirement = _requirement(line)
    found: set[int] = set()
    if requirement is None:
        return found
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    for file in (file for page in pages for file in page):
        try:
            _, version, _, tags = parse_wheel_filename(file.name)
            pythons = SpecifierSet(file.python)
        except (InvalidWheelFilename, InvalidSpecifier):
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            continue
        candidate = Candidate(package=requirement.name, version=str(version), file=file.name, location="")
        if best([candidate], target) is not None and pythons.contains(target.feature, prereleases=True):
            return set()
        ends = ("any", target.machine)
        for tag in tags:
            if not tag.platform.endswith(ends) or ("linux" not in tag.platform and tag.platform != "any"):
                continue
            if (cpython := _CPYTHON.fullmatch(tag.interpreter)) is not None:
                found.add(int(cpython[1]))
            elif tag.interpreter.startswith("py3") and file.python:
                found |= {minor for minor in _ALL if pythons.contains(f"3.{minor}")}
    return found & {*_ALL}


def _span(pythons: set[int]) -> str:
    low, high = min(pythons), max(pythons)
    return f"3.{low}" if low == high else f"3.{low} to 3.{high}"


def _requirement(line: str) -> Requirement | None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(line)
    except InvalidRequirement:
        return None


def _newer(line: str) -> str:
    """Return a requirement that admits all releases from the oldest that another one admits."""
    name = re.match(r"[\w.-]*", line)[0]  # type: ignore[index]  # matches anything
    requirement = _requirement(line)
    clauses = [] if requirement is None else [*requirement.specifier]
    lowest = [each.version.removesuffix(".*") for each in clauses if each.operator in ("==", "===", "~=", ">=")]
    return f"{name}>={lowest[0]}" if lowest else name
