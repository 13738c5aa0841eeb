"""What a record says in a few words: what was let pass, and what became of the run."""

from __future__ import annotations

from envbuild.record.model import Record


def allowed(record: Record) -> tuple[str, ...]:
    """Name the fields that differed and were let pass."""
    checks = (record.verdict or {}).get("checks", ())
    return tuple(str(check.get("field")) for check in checks if check.get("allowed") and not check.get("ok"))


def doubt(record: Record) -> str:
    """Say in a few words why a run's host is not known to match the lock; empty if it is, or nothing was run."""
    if record.verified == "overridden":
        return f"allowed: {', '.join(allowed(record)) or 'unknown'}"
    return "not verified" if record.verified == "no" else ""
