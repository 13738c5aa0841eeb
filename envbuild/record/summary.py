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


def summary(record: Record) -> str:
    """Say in one line what became of a run."""
    parts = [f"run {record.id[:10]} {'refused' if record.state == 'refused' else 'recorded'}"]
    if record.verdict is not None and "duration_ms" in record.verdict:
        parts.append(f"guard {record.verdict['duration_ms']:.0f} ms")
    if said := doubt(record):
        parts.append(said)
    if record.out_of_memory:
        parts.append("ended for want of memory")
    count = len(record.outputs)
    if record.state == "finished":
        parts.append(f"{count} output{'' if count == 1 else 's'}" if count else "no outputs")
    if record.input_changes:
        parts.append("input data changed meanwhile")
    if record.same_bits_as:
        word = "tensors" if record.same_tensors_in else "bits"
        parts.append(f"same {word} as run {record.same_bits_as[:10]}")
        if record.same_tensors_in:
            parts.append(f"other bytes in: {_first(record.same_tensors_in)}")
    elif record.differs_from:
        parts.append(f"differs from run {record.differs_from[:10]} in: {_first(record.differs_in)}")
    return " · ".join(parts)


def _first(paths: tuple[str, ...]) -> str:
    return ", ".join(paths[:3]) + (" …" if len(paths) > 3 else "")
