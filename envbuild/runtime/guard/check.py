"""One comparison of what is locked with what is found, as every check of the guard returns it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ONCE = "once, knowingly (recorded as overridden): envbuild run"
"""Begins the last line of a fix; ``--allow FIELD`` follows. The table joins such lines into one."""


class Check:
    """One comparison.

    Attributes:
        field: what was compared, such as ``kernel`` or ``environment.OMP_NUM_THREADS``.
        locked, found: both sides, for people.
        ok: whether they agree.
        severity: if not: ``hard`` (refuse), ``soft`` (warn) or ``info`` (record).
        meaning: what the difference means, a few words.
        fix: what to do about it, in the imperative, with the command to type; several ways are one per line.
        because: the field whose difference explains this one, which is then not listed twice; empty if none does.
        allowed: the check failed, is hard, and this run was allowed to go on all the same (``overrides``).
    """

    __slots__ = ("allowed", "because", "field", "fix", "found", "locked", "meaning", "ok", "severity")

    def __init__(
        self, field: str, locked: str, found: str, *, ok: bool, severity: str = "hard", meaning: str = "", fix: str = ""
    ) -> None:
        self.field, self.locked, self.found = field, locked, found
        self.ok, self.severity, self.meaning, self.fix = ok, severity, meaning, fix
        self.because, self.allowed = "", False

    @property
    def refuses(self) -> bool:
        """Whether the run must not start for this check."""
        return not self.ok and self.severity == "hard" and not self.allowed

    def as_dict(self) -> dict[str, Any]:
        """Return the check as the verdict file holds it; ``because`` and ``allowed`` only where they are not empty."""
        return {
            "field": self.field,
            "locked": self.locked,
            "found": self.found,
            "ok": self.ok,
            "severity": self.severity,
            "meaning": self.meaning,
            "fix": self.fix,
            **({"because": self.because} if self.because else {}),
            **({"allowed": True} if self.allowed else {}),
        }


def plain(text: str) -> str:
    """Show control characters of a text from outside as escapes: it must not move the cursor."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def once(field: str) -> str:
    """Return the line of a fix that names the override."""
    return f"{ONCE} --allow {field}"


def policy(expect: Mapping[str, Any], field: str, default: str = "exact") -> tuple[str, str]:
    """Return a field's policy word, and the severity of a difference."""
    word, _, warn = expect.get("policy", {}).get(field, default).partition(",")
    return word, "soft" if warn else "hard"
