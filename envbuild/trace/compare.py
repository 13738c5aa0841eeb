"""Step traces of two runs, compared: where they differ first, and how far apart they are from step to step."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from math import isfinite, sqrt
from pathlib import Path

from envbuild.core.digest import sha256_json
from envbuild.trace.divergence import Differing, Distance, Divergence, sentence_of
from envbuild.trace.file import Figures, Group, Step, Trace, read
from envbuild.trace.values import compare

__all__ = [
    "Divergence",
    "Trace",
    "digest",
    "distance_by_step",
    "first_divergence",
    "first_divergence_of_runs",
    "read",
    "read_run",
]

VALUES = 1 << 26
"""Bytes of values that are compared at most for one divergence."""
_NUMBER = re.compile(r"[ _]\d+\Z")
"""At the end of a label: one of several in its process."""
Shape = tuple[str, str, tuple[int, ...]]
"""Name, type and shape of a tensor."""
Key = tuple[str, str]
"""Source and label of an optimiser."""


def read_run(folder: Path) -> tuple[Trace, ...]:
    """Return the traces in a run's ``process`` folder, the main process first.

    Raises:
        TraceError: one of them is no trace.
    """
    traces = map(read, folder.glob("trace-*.bin"))
    return tuple(sorted(traces, key=lambda trace: (trace.process, len(trace.path.name), trace.path.name)))


def digest(traces: Sequence[Trace]) -> str:
    """Return the SHA-256 of what was traced: equal for two runs whose parameters were equal at each entry.

    What each optimiser of a process went through counts, and not which of several was first: Pyro has one for each
    parameter, and takes them from a set of tensors. Of workers, such as those of a pool, it does not count in which
    of them either: that is chance, and so is the number in a label. Ranks have an identity of their own.
    """
    return digest_and_order(traces)[0]


def digest_and_order(traces: Sequence[Trace]) -> tuple[str, tuple[str, ...]]:
    """Return the digest, and those of what each optimiser went through, in the order in which they began.

    Two runs of one digest may differ in that order: optimisers were exchanged. Of workers of a pool it has none.
    """
    pooled: list[str] = []
    own, order = [], list[str]()
    for trace in traces:
        of_trace = list(map(_of_sequence, _sequences(trace).values()))
        if "worker " in trace.process:
            pooled += of_trace
        else:
            own.append([trace.process, sorted(of_trace)])
            order += of_trace
    return sha256_json([own, sorted(pooled)] if pooled else own), tuple(order)


def _of_sequence(steps: Sequence[Step]) -> str:
    """Digest what one optimiser went through."""
    group = steps[0].group
    return sha256_json([group.source, _NUMBER.sub("", group.label), *map(_of_step, steps)])


def _of_step(step: Step) -> list[object]:
    return [step.step, [tensor.name for tensor in step.group.tensors], step.digests.tolist()]


def first_divergence_of_runs(before: Sequence[Trace], after: Sequence[Trace]) -> Divergence | None:
    """Return the first difference of two runs of several processes, or None.

    Processes are paired by their path. Of several pairs that differ the one with the smallest step counts, for nobody
    knows which was first; what was traced comes before what was not.
    """
    found = []
    for path, one, two in _pairs(before, after):
        if one is None or two is None:
            found.append(_missing_process(path, one or two, "the second" if two is None else "the first"))
        else:
            each = first_divergence(one, two)
            found += [each] if each else []
    return min(found, key=lambda each: (each.kind not in ("start", "step"), each.step, each.process), default=None)


def first_divergence(before: Trace, after: Trace) -> Divergence | None:
    """Return the first difference of two processes, or None."""
    found: list[tuple[int, Divergence]] = []
    for key, one, two in _optimisers(before, after):
        divergence = _first_of_group(before, after, one, two) if one and two else _missing_group(key, one)
        if divergence is not None:
            at = (before if one else after).steps.index((one or two)[0])
            later = before.steps.index(divergence[0]) if divergence[0] in before.steps else at
            found.append((later, divergence[1]))
    if not found:
        return None
    first = min(found, key=lambda each: (each[1].kind not in ("start", "step"), each[0]))[1]
    return replace(first, process=before.process)


def _optimisers(before: Trace, after: Trace) -> list[tuple[Key, list[Step], list[Step]]]:
    """Return key and steps of each optimiser, with the steps of its like in the other process; none if it has none.

    Those that went through the same are a pair; of the others those of one label and tensors, then those of one label
    and tensors but for the number of the label, then those of one label.
    """
    left, right = _sequences(before), _sequences(after)
    digests = {id(steps): _of_sequence(steps) for steps in (*left.values(), *right.values())}
    alike: tuple[Callable[[Key, list[Step]], Hashable], ...] = (
        lambda key, steps: (key, digests[id(steps)]),
        lambda key, steps: digests[id(steps)],
        lambda key, steps: (key, *_names(steps[0].group)),
        lambda key, steps: (key[0], _NUMBER.sub("", key[1]), *_names(steps[0].group)),
        lambda key, steps: key,
    )
    partner: dict[Key, Key] = {}
    for what in alike:
        taken = set(partner.values())
        free: dict[Hashable, list[Key]] = {}
        for key, steps in reversed(right.items()):
            if key not in taken:
                free.setdefault(what(key, steps), []).append(key)
        for key, steps in left.items():
            if key not in partner and (others := free.get(what(key, steps))):
                partner[key] = others.pop()
    pairs = [(key, steps, right[partner[key]] if key in partner else []) for key, steps in left.items()]
    return [*pairs, *((key, [], right[key]) for key in right if key not in partner.values())]


def distance_by_step(before: Trace, after: Trace) -> tuple[Distance, ...]:
    """Return how far apart two processes are at each step that both have, in the first one's order."""
    others = {}
    for key, _, steps in _optimisers(before, after):
        others.update({(key, step.step): step for step in steps})
    found = []
    for step in before.steps:
        other = others.get((_key(step), step.step))
        if other is not None and _names(step.group) == _names(other.group):
            found.append(_distance(step, other))
    return tuple(found)


def _pairs(before: Sequence[Trace], after: Sequence[Trace]) -> Iterator[tuple[str, Trace | None, Trace | None]]:
    """Pair traces by their process; several of one path (a program started twice) in the order of their files."""
    for path in dict.fromkeys(trace.process for trace in (*before, *after)):
        one = [trace for trace in before if trace.process == path]
        two = [trace for trace in after if trace.process == path]
        for place in range(max(len(one), len(two))):
            yield path, one[place] if place < len(one) else None, two[place] if place < len(two) else None


def _key(step: Step) -> Key:
    return step.group.source, step.group.label


def _names(group: Group) -> list[Shape]:
    return [(tensor.name, tensor.dtype, tensor.shape) for tensor in group.tensors]


def _sequences(trace: Trace) -> dict[Key, list[Step]]:
    found: dict[Key, list[Step]] = {}
    for step in trace.steps:
        found.setdefault(_key(step), []).append(step)
    return found


def _first_of_group(before: Trace, after: Trace, one: list[Step], two: list[Step]) -> tuple[Step, Divergence] | None:
    """Walk two sequences side by side, by the number of the step."""
    left = right = seen = 0
    while left < len(one) and right < len(two):
        a, b = one[left], two[right]
        if a.step != b.step:  # entries at other intervals
            left, right = left + (a.step < b.step), right + (b.step < a.step)
            continue
        if _names(a.group) != _names(b.group):
            return a, _other_tensors(a, b)
        if a.digests != b.digests:
            return a, _divergence(before, after, a, b, a.step - seen)
        seen, left, right = a.step, left + 1, right + 1
    return _length(before, after, one[-1], two[-1])


def _divergence(before: Trace, after: Trace, a: Step, b: Step, covers: int) -> Divergence:
    room = VALUES
    tensors = []
    for place, info in enumerate(a.group.tensors):
        if a.digests[place] == b.digests[place]:
            continue
        one, two = a.figures(place), b.figures(place)
        values = before.values(a, place), after.values(b, place)
        known = None
        if values[0] is not None and values[1] is not None and len(values[0]) <= room:
            room -= len(values[0])
            known = compare(info.dtype, info.shape, values[0], values[1])
        size = 1
        for length in info.shape:
            size *= length
        tensors.append(
            Differing(
                name=info.name,
                dtype=info.dtype,
                shape=info.shape,
                size=size,
                before=one,
                after=two,
                distance=_relative(one, two),
                values=known,
            )
        )
    found = Divergence(
        kind="step" if a.step else "start",
        source=a.group.source,
        label=a.group.label,
        epoch=a.epoch,
        place=a.place,
        step=a.step,
        covers=max(covers, 1),
        tensors=tuple(tensors),
        of=len(a.group.tensors),
        batch=None if a.batch is None or b.batch is None else a.batch != b.batch,
        observed=tuple(
            (name, number, b.observed[name])
            for name, number in a.observed.items()
            if name in b.observed and repr(number) != repr(b.observed[name])
        ),
    )
    return replace(found, sentence=sentence_of(found))


def _listed(tensors: Sequence[Shape]) -> str:
    words = [f"{name} ({dtype}, {'×'.join(map(str, shape)) or 'one value'})" for name, dtype, shape in tensors[:3]]
    return ", ".join(words) + (f" and {len(tensors) - 3} more" if len(tensors) > 3 else "")


def _other_tensors(a: Step, b: Step) -> Divergence:
    one, two = _names(a.group), _names(b.group)
    gone, new = [each for each in one if each not in two], [each for each in two if each not in one]
    if gone or new:
        listed = "; ".join(
            f"{side} has {_listed(each)}" for side, each in (("the first", gone), ("the second", new)) if each
        )
        what = f"the runs trained other tensors from step {a.step:,} on: {listed}"
    else:
        what = f"the runs trained the same tensors in another order from step {a.step:,} on"
    return Divergence(
        kind="tensors", source=a.group.source, label=a.group.label, epoch=a.epoch, step=a.step, sentence=what
    )


def _missing_group(key: Key, one: list[Step]) -> tuple[Step | None, Divergence]:
    source, label = key
    side = "first" if one else "second"
    what = f"only the {side} run made steps of {label} ({source})"
    return (one[0] if one else None), Divergence(kind="tensors", source=source, label=label, sentence=what)


def _missing_process(path: str, trace: Trace | None, side: str) -> Divergence:
    name = f"the process {path}" if path else "the main process"
    steps = len(trace.steps) if trace else 0
    what = f"{name} made {steps:,} traced steps in one run and none in {side}"
    return Divergence(kind="process", process=path, sentence=what)


def _length(before: Trace, after: Trace, a: Step, b: Step) -> tuple[Step, Divergence] | None:
    """Describe two sequences that are equal as far as both go; at other intervals the last steps may differ."""
    apart = abs(a.step - b.step)
    if apart < max(before.interval, after.interval) and (apart == 0 or before.interval != after.interval):
        return None
    shorter = before if a.step < b.step else after
    why = shorter.damaged or ("" if shorter.ended else f"{shorter.path.name}: the process was ended from outside")
    last = min(a, b, key=lambda step: step.step)
    what = f"equal up to step {last.step:,}, where one run ended; the other went on to step {max(a.step, b.step):,}"
    return a, Divergence(
        kind="length",
        source=a.group.source,
        label=a.group.label,
        epoch=last.epoch,
        place=last.place,
        step=last.step,
        of=len(a.group.tensors),
        sentence=f"{what} ({why})" if why else what,
    )


def _distance(step: Step, other: Step) -> Distance:
    square = norm = 0.0
    known = True
    tensors: dict[str, float | None] = {}
    for place, info in enumerate(step.group.tensors):
        one, two = step.figures(place), other.figures(place)
        equal = step.digests[place] == other.digests[place]
        tensors[info.name] = 0.0 if equal else _relative(one, two)
        if one is None or two is None:
            known = known and equal
            continue
        square += 0.0 if equal else _square(one, two)
        norm += max(one.norm, two.norm) ** 2
    whole = sqrt(square / norm) if known and norm and isfinite(square) and isfinite(norm) else None
    return Distance(
        step=step.step,
        epoch=step.epoch,
        place=step.place,
        source=step.group.source,
        label=step.group.label,
        whole=whole if square or not known else 0.0,
        tensors=tensors,
    )


def _square(one: Figures, two: Figures) -> float:
    """Estimate the square of the distance (``runtime/hook/trace_measure.py``)."""
    return sum((a - b) ** 2 for a, b in zip(one.sketch, two.sketch, strict=True)) / len(one.sketch)


def _relative(one: Figures | None, two: Figures | None) -> float | None:
    if one is None or two is None:
        return None
    square, norm = _square(one, two), max(one.norm, two.norm)
    if not (isfinite(square) and isfinite(norm)):
        return None
    return sqrt(square) / norm if norm else 0.0
