"""The verdict for people: what was locked, what was found, what it means, what to do."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .checks import Check

_HEADS = ("field", "locked", "found", "what it means")
_WIDTHS = (36, 28, 28, 0)
"""Longest cell of each column in characters; 0 for no limit. The verdict file always holds the whole text."""
ROWS = 12
_HOST = ("kernel", "cpu", "cpus", "gpu")


def render(checks: list[Check], lock: str, ending: str = " — nothing was run") -> str:
    """Render a refusal.

    Args:
        checks: all checks of a verdict; those that hold are left out.
        lock: the lock's file name.
        ending: the end of the first line.

    Returns:
        Lines, each ended by a newline; hard differences first.
    """
    failed = [check for check in checks if not check.ok and check.severity != "info"]
    failed.sort(key=lambda check: check.severity != "hard")
    rows = [_HEADS] + [
        (check.field, _plain(check.locked), _plain(check.found), _meaning(check)) for check in failed[:ROWS]
    ]
    cut = [tuple(_cut(cell, width) for cell, width in zip(row, _WIDTHS)) for row in rows]
    wide = [max(len(row[column]) for row in cut) for column in range(3)]
    lines = [f"envbuild: {subject(failed)} does not match {lock}{ending}"]
    for row in cut:
        cells = [cell.ljust(width) for cell, width in zip(row, wide)]
        lines.append("  " + "   ".join([*cells, row[3]]).rstrip())
    if len(failed) > ROWS:
        lines.append(f"  … and {len(failed) - ROWS} more")
    return "\n".join(lines + _fixes(failed)) + "\n"


def warnings(checks: list[Check]) -> str:
    """Render soft differences of a verdict that passed, one line each; empty if there are none."""
    lines = []
    for check in checks:
        if not check.ok and check.severity == "soft":
            values = f"locked {_cut(_plain(check.locked), 60)}, found {_cut(_plain(check.found), 60)}"
            lines.append(f"envbuild: warning: {check.field}: {values}: {check.meaning}\n")
    return "".join(lines)


def subject(failed: list[Check]) -> str:
    """Name what does not match: the host if any of its fields differs, else the environment or the image."""
    areas = {check.field.partition(".")[0] for check in failed if check.severity == "hard"}
    if areas.intersection(_HOST):
        return "this host"
    return "the environment" if areas and areas <= {"environment", "python"} else "this image"


def _fixes(failed: list[Check]) -> list[str]:
    """List what to do: once per text, with the first fields it answers."""
    fixes: dict[str, list[str]] = {}
    for check in failed:
        if check.fix and check.severity == "hard":
            fixes.setdefault(check.fix, []).append(check.field)
    if not fixes:
        return []
    shown = list(fixes)[:ROWS]
    lines = ["what to do:"] + [f"  {fix}" for fix in shown]
    return lines + ([f"  … and {len(fixes) - ROWS} more"] if len(fixes) > ROWS else [])


def _meaning(check: Check) -> str:
    return check.meaning if check.severity == "hard" else f"{check.meaning} (warning only)"


def _plain(text: str) -> str:
    """Show control characters of a value as escapes: a variable must not move the cursor."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _cut(text: str, width: int) -> str:
    return text if not width or len(text) <= width else text[: width - 1] + "…"
