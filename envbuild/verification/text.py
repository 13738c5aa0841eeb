"""A verdict as people read it: lines of label and text, nothing printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envbuild.verification.causes import Cause
from envbuild.verification.first import First
from envbuild.verification.judge import Verdict

_LIKELY = 40
"""Causes below this weight are possible, no more."""
_OTHERS = 3
"""Causes that are told of beside the likeliest."""
_WIDTH = 19
_SHORT = 10


def identical(verdict: Verdict) -> tuple[str, ...]:
    """Say that all runs were equal, what was compared, and what was not."""
    lines = [f"bit-identical {verdict.runs}/{verdict.asked}: {', '.join(verdict.compared)}"]
    if verdict.volatile:
        lines.append(f"same tensors, other bytes: {_some(verdict.volatile)} (the format keeps the time)")
    if verdict.ignored:
        lines.append(f"not compared, as asked: {_some(verdict.ignored)}")
    return tuple(lines)


def different(
    verdict: Verdict,
    ids: Sequence[str],
    first: First | None,
    causes: Sequence[Cause],
    *,
    notes: Sequence[str] = (),
    kept: Sequence[str] = (),
) -> str:
    """Say how runs differ, where first, why that may be, and what to try.

    Args:
        verdict: the judgement.
        ids: identities of the runs.
        first: the first difference of the traces.
        causes: likeliest first.
        notes: what could not be looked at, a sentence each.
        kept: folders with what the two runs left.
    """
    count = len(verdict.groups)
    rows = [
        ("results", _sizes(verdict, ids)),
        ("differs", "; ".join(verdict.differs)),
        *_first(first),
        *_because(causes),
        *(("note", note) for note in notes),
        *(("files" if not at else "", folder) for at, folder in enumerate(kept)),
        ("compare", "envbuild diff {} {}".format(*(ids[at][:_SHORT] for at in verdict.pair))),
    ]
    head = f"not identical: {count} different results in {verdict.runs} runs"
    return "\n".join([head, *(f"  {label:<{_WIDTH}}{text}".rstrip() for label, text in rows if text)])


def _sizes(verdict: Verdict, ids: Sequence[str]) -> str:
    """Say which runs agree."""
    if len(verdict.groups) == verdict.runs:
        return "no two runs agree" if verdict.runs > 2 else ""
    if len(verdict.groups) > 4:
        return f"at most {max(map(len, verdict.groups))} runs agree"
    words = [", ".join(str(index + 1) for index in group) for group in verdict.groups]
    return " | ".join(
        f"run{'s' if len(group) > 1 else ''} {word}" for group, word in zip(verdict.groups, words, strict=True)
    )


def _first(first: First | None) -> Iterator[tuple[str, str]]:
    if first is None:
        return
    yield "first difference", f"{first.process}: {first.sentence}" if first.process else first.sentence
    if told := numbers(first):
        yield "", told


def _because(causes: Sequence[Cause]) -> Iterator[tuple[str, str]]:
    if not causes:
        yield "likely cause", "none found: the records agree, and no known source of chance is in the sources"
        yield "try", "run one at a time (--jobs 1), then with determinism: {threads: 1} in spec.yaml"
        return
    chief, *others = causes
    yield "likely cause" if chief.weight >= _LIKELY else "possible cause", _cause(chief)
    if chief.attempt:
        yield "try", chief.attempt
    for each in others[:_OTHERS]:
        yield "or" if each.weight >= _LIKELY else "or perhaps", _cause(each)
    if len(others) > _OTHERS:
        yield "", f"… and {len(others) - _OTHERS} less likely; all of them: --json"


def _cause(cause: Cause) -> str:
    return f"{cause.what}  ({cause.where})" if cause.where else cause.what


def numbers(first: First) -> str:
    """Write both values of the first difference; empty if they are not known."""
    if first.before is None or first.after is None:
        return ""
    return "{} → {}".format(*_numbers(first.before, first.after, first.dtype))


def _numbers(before: float, after: float, dtype: str) -> tuple[str, str]:
    """Write two values with the digits that their type has, or as many as tell them apart."""
    digits = {"float16": 5, "bfloat16": 4, "float32": 9}.get(dtype, 17)
    return f"{before:.{digits}g}", f"{after:.{digits}g}"


def _some(names: Sequence[str], count: int = 4) -> str:
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")
