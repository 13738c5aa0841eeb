"""What a run accepts, and how that is reported: ``ENVBUILD_ALLOW`` per field, ``ENVBUILD_GUARD=off`` for all.

``ENVBUILD_ALLOW`` holds exact field names separated by commas, as the table and the verdict write them. It turns a hard
check that failed into one that is allowed: shown loudly, kept in the verdict. A name that no check can have is refused,
so that a slip of the pen does not pass for an override. The runtime's own files cannot be allowed: nothing that an
altered guard reports is worth anything.
"""

from __future__ import annotations

from .check import Check, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ALLOW = "ENVBUILD_ALLOW"
NAMES = (
    "kernel",
    "cpu",
    "cpu.architecture",
    "cpu.flags",
    "cpus",
    "gpu",
    "gpu.nvml",
    "gpu.driver",
    "gpu.libcuda",
    "gpu.count",
    "gpu.visible",
    "gpu.model",
    "gpu.compute-capability",
    "gpu.sms",
    "gpu.mig",
    "gpu.memory",
    "gpu.ecc",
    "gpu.vbios",
    "gpu.board",
    "gpu.exclusive",
    "python",
    "fingerprint",
)
"""Fields of fixed name."""
FAMILIES = ("environment", "packages", "libraries", "fingerprint")
"""Beginnings of fields that are named after what they are about, such as ``environment.TZ``."""
ALLOWS = f"environment.{ALLOW}"
"""The field of the variable itself."""


def apply(checks: list[Check], text: str) -> list[Check]:
    """Mark what the variable's text allows.

    Returns:
        The checks, with one more that is hard and failed if a name is no field or cannot be allowed.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if not _known(name, checks)]
    if wrong:
        return [*checks, _refusal(wrong)]
    for check in checks:
        check.allowed = not check.ok and check.severity == "hard" and check.field in names
    return checks


def render(checks: Iterable[Check]) -> str:
    """Return a line for each difference that this run accepts."""
    return "".join(
        f"envbuild: ALLOWED by this run: {check.field}: locked {plain(check.locked)}, found {plain(check.found)}"
        f": {plain(check.meaning)}\n"
        for check in checks
        if check.allowed
    )


def possible(field: str) -> bool:
    """Return whether a field may be allowed at all."""
    return field.partition(".")[0] != "runtime" and field != ALLOWS


def _known(name: str, checks: list[Check]) -> bool:
    if not possible(name):
        return False
    family, dot, rest = name.partition(".")
    return name in NAMES or bool(dot and rest and family in FAMILIES) or any(check.field == name for check in checks)


def _refusal(wrong: list[str]) -> Check:
    meanings = [_explain(name) for name in wrong]
    return Check(
        ALLOWS,
        "names of fields",
        ",".join(wrong),
        ok=False,
        meaning="; ".join(meanings),
        fix="name fields as this table and verdict.json do, separated by commas, such as --allow gpu.driver",
    )


def _explain(name: str) -> str:
    if name.partition(".")[0] == "runtime":
        return f"{name} cannot be allowed: an altered guard proves nothing"
    if name == ALLOWS:
        return f"{name} cannot be allowed"
    from difflib import get_close_matches  # takes milliseconds to import: only to refuse

    close = get_close_matches(name, NAMES, 1)
    return f"there is no field {plain(name)}" + (f" — perhaps you meant {close[0]}" if close else "")
