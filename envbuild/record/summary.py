"""Summary of a record in a few words: what was allowed, and what became of the run."""

from __future__ import annotations

from envbuild.record.model import Record


def allowed(record: Record) -> tuple[str, ...]:
    """Name the fields that differed and were allowed."""
    checks = record.verdict.checks if record.verdict else ()
    return tuple(check.field for check in checks if check.allowed and not check.ok)


def doubt(record: Record) -> str:
    """Describe in a few words why a run is not known to have been as locked; empty if it is, or nothing was run."""
    if record.layers == "changed":
        return "not verified: files of the image were changed in the store"
    if record.verified == "overridden":
        return f"allowed: {', '.join(allowed(record)) or 'unknown'}"
    return "not verified" if record.verified == "no" else ""
