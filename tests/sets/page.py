"""The page about the sets, ``docs/explanation/dependency-sets.md``: its part between two marks shows the outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from envbuild.core.text import plural
from tests.sets import Outcome, PackageSet

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "dependency-sets.md"
_LARGE = 1_000_000_000
_BEGIN, _END = "<!-- outcomes -->\n", "<!-- end of outcomes -->\n"


def written(page: str, sets: Sequence[PackageSet], outcomes: Mapping[str, Outcome]) -> str:
    """Return the page with the outcomes that are known; the sets are in the manifest's order."""
    before, _, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    parts = (summary(sets, outcomes), times(outcomes), table(sets, outcomes))
    return f"{before}{_BEGIN}\n{chr(10).join(part for part in parts if part)}\n{_END}{after}"


def summary(sets: Sequence[PackageSet], outcomes: Mapping[str, Outcome]) -> str:
    """Return the counts as a table."""
    found = [outcomes[each.name] for each in sets if each.name in outcomes]
    locked = [each for each in found if each.state in {"locked", "imported"}]
    compared = [each for each in locked if each.compared]
    rows = {
        "sets": len(sets),
        "locked": len(locked),
        "compared with uv, pins equal": sum(not each.differs for each in compared),
        "compared with uv, pins differ": sum(bool(each.differs) for each in compared),
        "locked, not compared: has packages built from source": len(locked) - len(compared),
        "built, and every module named imported": _count(found, "imported"),
        "locked, not built": _count(found, "locked"),
        "refused when locking, as expected": _count(found, "refused"),
        "failed": _count(found, "failed"),
        "not tried": len(sets) - len(found),
    }
    lines = ["| what | sets |", "| --- | --- |", *(f"| {name} | {count} |" for name, count in rows.items())]
    return "\n".join(lines) + "\n"


def times(outcomes: Mapping[str, Outcome]) -> str:
    """Return the seconds of those sets that were timed, the largest first; nothing if none was."""
    timed = sorted((each for each in outcomes.values() if each.uv_seconds), key=lambda each: -each.packages)
    lines = ["| timed | wheels | lock, s | uv, s | ratio |", "| --- | --- | --- | --- | --- |"]
    for each in timed:
        ratio = each.seconds / each.uv_seconds
        lines.append(f"| {each.name} | {each.packages} | {each.seconds:.1f} | {each.uv_seconds:.1f} | {ratio:.1f} |")
    return "\n".join(lines) + "\n" if timed else ""


def table(sets: Sequence[PackageSet], outcomes: Mapping[str, Outcome]) -> str:
    """Return one row for each set."""
    lines = [
        "| set | requirements | wheels | Debian packages | MB | outcome |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for wanted in sets:
        found = outcomes.get(wanted.name)
        names = wanted.origin or ", ".join([*wanted.requirements, *(f"{pin} from source" for pin in wanted.projects)])
        figures = "– | – | –"
        if found and found.packages:
            figures = f"{found.packages} | {found.system} | {found.size / 1e6:.0f}"
        lines.append(f"| {wanted.name} | {_cell(names)} | {figures} | {_cell(_outcome(found))} |")
    return "\n".join(lines) + "\n"


def _count(found: Iterable[Outcome], state: str) -> int:
    return sum(each.state == state for each in found)


def _outcome(found: Outcome | None) -> str:
    if found is None:
        return "not tried"
    what = {"locked": "locked, not built", "imported": "locked, built, imported"}.get(found.state, found.state)
    if found.state == "locked" and found.size > _LARGE:
        what += f": {found.size / 1e9:.1f} GB to download, and three times that on the disk"
    what += f": {found.problem}" if found.problem else ""
    what += f" ({plural(len(found.notes), 'note')})" if found.notes else ""
    if found.differs:
        what += f"; other pins than uv: {', '.join(found.differs)}"
    return what


def _cell(text: str) -> str:
    return text.replace("|", "¦").replace("<", "&lt;")
