"""The verdict for people: what was locked, what was found, what it means, what to do."""

from __future__ import annotations

from .check import ONCE, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .check import Check

_HEADS = ("field", "locked", "found", "what it means")
_WIDTHS = (36, 28, 28, 0)
_WIDE = (36, 60, 60, 0)
"""Longest cell of each column in characters, wide for GPUs; 0: no limit. The verdict file holds the whole text."""
ROWS = 12
_HOST = ("kernel", "cpu", "cpus", "gpu", "fingerprint")
_DETECT = "lock for this host"
"""Begins the line of a fix that comes last but for the overrides."""


def render(checks: list[Check], lock: str, ending: str = " — nothing was run") -> str:
    """Render a refusal.

    Args:
        checks: all checks of a verdict; those that hold are left out.
        lock: the lock's file name.
        ending: the end of the first line.

    Returns:
        Lines, each ended by a newline; hard differences first. What follows from a difference that is shown (the SM
        count of another GPU) has no row of its own.
    """
    failed = [check for check in checks if not check.ok and check.severity != "info"]
    failed.sort(key=lambda check: check.severity != "hard")
    causes = {check.field for check in failed}
    rows = [check for check in failed if check.because not in causes]
    cut = [_HEADS] + [_row(check) for check in rows[:ROWS]]
    wide = [max(len(row[column]) for row in cut) for column in range(3)]
    lines = [f"envbuild: {subject(failed)} does not match {lock}{ending}"]
    for row in cut:
        cells = [cell.ljust(width) for cell, width in zip(row, wide)]
        lines.append("  " + "   ".join([*cells, row[3]]).rstrip())
    if len(rows) > ROWS:
        lines.append(f"  … and {len(rows) - ROWS} more")
    return "\n".join(lines + _fixes(failed, {check.field for check in rows})) + "\n"


def _row(check: Check) -> tuple[str, ...]:
    cells = (check.field, plain(check.locked), plain(check.found), _meaning(check))
    widths = _WIDE if check.field.startswith("gpu") else _WIDTHS
    return tuple(_cut(cell, width) for cell, width in zip(cells, widths))


def warnings(checks: list[Check]) -> str:
    """Render soft differences of a verdict that passed, one line each; empty if there are none."""
    lines = []
    causes = {check.field for check in checks if not check.ok}
    for check in checks:
        if not check.ok and check.severity == "soft" and check.because not in causes:
            values = f"locked {_cut(plain(check.locked), 60)}, found {_cut(plain(check.found), 60)}"
            lines.append(f"envbuild: warning: {check.field}: {values}: {plain(check.meaning)}\n")
    return "".join(lines)


def subject(failed: list[Check]) -> str:
    """Name what does not match: the host if any of its fields differs, else the environment or the image."""
    areas = {check.field.partition(".")[0] for check in failed if check.refuses}
    if areas.intersection(_HOST):
        return "this host"
    return "the environment" if areas and areas <= {"environment", "python"} else "this image"


def _fixes(failed: list[Check], shown: set[str]) -> list[str]:
    """List what to do, each way once; the overrides of all fields, those without a row too, are one line at the end."""
    fixes: dict[str, bool] = {}
    offered = False
    for check in failed:
        for fix in check.fix.split("\n") if check.refuses else ():
            if fix.startswith(ONCE):
                offered = True
            elif fix and check.field in shown:
                fixes[plain(fix)] = fix.startswith(_DETECT)
    ways = sorted(fixes, key=lambda fix: fixes[fix])
    once = _overrides([check.field for check in failed if check.refuses]) if offered else ""
    if not ways and not once:
        return []
    lines = ["what to do:"] + [f"  {fix}" for fix in ways[:ROWS]]
    if len(ways) > ROWS:
        lines.append(f"  … and {len(ways) - ROWS} more")
    return lines + ([f"  {once}"] if once else [])


def _overrides(fields: list[str]) -> str:
    """Name the override of every field that refuses: one that is left out would refuse the next start."""
    from .overrides import ALLOWS, possible

    if not all(possible(field) or field == ALLOWS for field in fields):
        return ""
    return " ".join([ONCE, *(f"--allow {field}" for field in fields if field != ALLOWS)])


def _meaning(check: Check) -> str:
    note = " (allowed)" if check.allowed else "" if check.severity == "hard" else " (warning only)"
    return f"{plain(check.meaning)}{note}"


def _cut(text: str, width: int) -> str:
    return text if not width or len(text) <= width else text[: width - 1] + "…"
