"""What in a record contradicts the rest of it: an edit that did not reach all that follows from what was edited.

A record is not signed, and whoever may write the project can write one from end to end. What is found here shows that
somebody changed a record; that nothing is found shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from envbuild.core.text import plain
from envbuild.record.model import GuardCheck, Output, Record, recipe, verified
from envbuild.record.printed import STREAMS


def contradictions(record: Record) -> tuple[str, ...]:
    """Return what contradicts itself in one record, a phrase each; most have nothing."""
    return tuple(_contradictions(record))


def _contradictions(record: Record) -> Iterator[str]:
    try:
        same = not record.recipe or recipe(record) == record.recipe
    except ValueError:  # numbers of CPUs that are none
        same = False
    if not same:
        yield "its recipe is not that of its lock, image, script, command, environment and options"
    follows = verified(record.state, record.verdict, record.layers)
    if record.state == "finished" and record.verified not in ("", follows):
        yield f"it states verified: {record.verified}, which is not the guard's verdict in it"
    verdict = record.verdict
    refused = [each.field for each in verdict.checks if _refuses(each)] if verdict is not None and verdict.ok else []
    if refused:
        yield f"the guard's verdict is good, and a check in it refuses: {plain(refused[0])}"
    for files in (record.outputs, record.outside):
        paths = [output.path for output in files]
        if twice := next((path for path in paths if paths.count(path) > 1), "") if len({*paths}) < len(paths) else "":
            yield f"it lists {plain(twice)} twice"


def _refuses(check: GuardCheck) -> bool:
    """Whether the guard lets nothing start after a check (``runtime/guard/check.py``)."""
    return not check.ok and check.severity == "hard" and not check.allowed


def contradictions_between(a: Record, b: Record) -> tuple[str, ...]:
    """Return what cannot be true of two records at once, a phrase each: equal bytes that are not equal."""
    return tuple(_between(a, b))


def _between(a: Record, b: Record) -> Iterator[str]:
    one = {output.path: output for output in (*a.outputs, *a.outside)}
    for output in (*b.outputs, *b.outside):
        other = one.get(output.path)
        if other is None or output.sha256 is None or output.sha256 != other.sha256:
            continue
        what = "size" if output.size != other.size else ""
        if not what and a.image == b.image:  # one reader read both
            what = _other_content(other, output)
        if what:
            yield f"{plain(output.path)} has one SHA-256 in both, and another {what}"
    for stream, printed in (b.printed or {}).items():
        before = (a.printed or {}).get(stream)
        if before is not None and before.sha256 == printed.sha256 and before.lines != printed.lines:
            yield f"{STREAMS[stream]} has one SHA-256 in both, and another number of lines"


def _other_content(one: Output, other: Output) -> str:
    """Return what of the content of two files of equal bytes is another; of what was read of both."""
    if one.content and other.content and one.content != other.content:
        return "content"
    arrays = ({name: each.digest for name, each in output.tensors.items()} for output in (one, other))
    before, after = arrays
    return "tensor" if before and after and before != after else ""
