"""Which of several differences makes the result another one: A run again with one thing at a time as B had it.

Pure: ``search`` is a generator that yields what to run, is sent the record of that run, and returns the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from envbuild.difference.arguments import chunks, joined
from envbuild.difference.results import outcome
from envbuild.difference.toggles import Plan, Setting, Toggle
from envbuild.record.model import Record

Ending = Literal["found", "elsewhere", "unstable", "none"]
_SHOWN = 3
"""Files that are named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One run to make: ``name`` states what is other than in A."""

    name: str
    setting: Setting


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came out.

    Attributes:
        ending: ``found``; ``elsewhere``: A gives B's result by itself now; ``unstable``: A gives another result each
            time; ``none``: nothing that was tried gives B's result.
        flips: the toggles that B's result takes, all of them together.
        partial: toggles that each give yet another result.
        drifted: A does not give its own result any more.
        changed: files that A reads and that are others now: why it does not.
        sentence: all of it.
    """

    ending: Ending
    sentence: str
    flips: tuple[Toggle, ...] = ()
    partial: tuple[Toggle, ...] = ()
    drifted: bool = False
    changed: tuple[str, ...] = ()


def changed_data(a: Record, again: Record) -> tuple[str, ...]:
    """Name the inputs and the files that a run and its repetition both read, and found to be others."""
    before, after = ({each.path: each.sha256 for each in run.reads} for run in (a, again))
    inputs = (path for path, digest in again.inputs.items() if a.inputs.get(path, digest) != digest)
    files = (path for path in sorted(before.keys() & after.keys()) if before[path] != after[path])
    return (*inputs, *files)


def search(plan: Plan, a: Record, b: Record) -> Generator[Step, Record, Answer]:
    """Yield runs to make, take their records, and return the answer."""
    first = yield Step(name="A again", setting=plan.base)
    drifted = not _alike(first, a)
    changed = changed_data(a, first) if drifted else ()
    if drifted and _alike(first, b):
        return _answer("elsewhere", plan, drifted=True, changed=changed)
    if drifted and not _alike((yield Step(name="A once more", setting=plan.base)), first):
        return _answer("unstable", plan, drifted=drifted)
    partial = []
    for toggle in plan.toggles:
        found = yield Step(name=str(toggle), setting=applied(plan, (toggle,)))
        if _alike(found, b):
            return _answer("found", plan, flips=(toggle,), drifted=drifted, changed=changed)
        if not _alike(found, first):
            partial.append(toggle)
    if len(plan.toggles) > 1:
        found = yield Step(name="all together", setting=plan_all(plan))
        if _alike(found, b):
            needed = yield from _least(plan, b, partial)
            return _answer("found", plan, flips=needed, partial=tuple(partial), drifted=drifted, changed=changed)
    return _answer("none", plan, partial=tuple(partial), drifted=drifted, changed=changed)


def _least(plan: Plan, b: Record, partial: Sequence[Toggle]) -> Generator[Step, Record, tuple[Toggle, ...]]:
    """Leave out what B's result does not take, first what changes nothing by itself."""
    needed = list(plan.toggles)
    for toggle in sorted(plan.toggles, key=lambda toggle: toggle in partial):
        rest = tuple(each for each in needed if each != toggle)
        if not rest:
            break
        found = yield Step(name=f"all but {toggle}", setting=applied(plan, rest))
        if _alike(found, b):
            needed = list(rest)
    return tuple(needed)


def applied(plan: Plan, toggles: Collection[Toggle]) -> Setting:
    """Return A's setting with some things as B had them."""
    made = plan.base
    for toggle in toggles:
        made = _apply(made, plan.other, toggle)
    return made


def plan_all(plan: Plan) -> Setting:
    """Return A's setting with everything as B had it that can be toggled."""
    return applied(plan, plan.toggles)


def _apply(made: Setting, other: Setting, toggle: Toggle) -> Setting:
    name = toggle.name
    if toggle.kind == "lock":
        return replace(made, lock=other.lock, image=other.image)
    if toggle.kind == "command":
        return replace(made, command=other.command, directory=other.directory)
    if toggle.kind == "option":
        return replace(made, options=msgspec.structs.replace(made.options, **{name: getattr(other.options, name)}))
    if toggle.kind == "argument":
        mine, theirs = dict(chunks(made.command)), dict(chunks(other.command))
        if name in theirs:
            mine[name] = theirs[name]
        else:
            mine.pop(name, None)
        return replace(made, command=joined(mine))
    if toggle.kind == "variable":
        rest = {key: value for key, value in made.environment.items() if key != name}
        return replace(made, environment=rest | _only(other.environment, name))
    # What only B read comes along: it may be what the changed file imports.
    new = {path: digest for path, digest in other.files.items() if path not in made.files}
    return replace(made, files={**made.files, **new, name: other.files.get(name)})


def _only(table: Mapping[str, str], name: str) -> dict[str, str]:
    return {name: table[name]} if name in table else {}


def _alike(x: Record, y: Record) -> bool:
    return outcome(x, y) == "equal"


def _answer(
    ending: Ending,
    plan: Plan,
    *,
    flips: tuple[Toggle, ...] = (),
    partial: tuple[Toggle, ...] = (),
    drifted: bool = False,
    changed: tuple[str, ...] = (),
) -> Answer:
    return Answer(
        ending=ending,
        sentence=_sentence(ending, plan, flips, partial, drifted=drifted, changed=changed),
        flips=flips,
        partial=partial,
        drifted=drifted,
        changed=changed,
    )


def _sentence(
    ending: Ending,
    plan: Plan,
    flips: tuple[Toggle, ...],
    partial: tuple[Toggle, ...],
    *,
    drifted: bool,
    changed: tuple[str, ...],
) -> str:
    """Describe what came out."""
    data = f": {', '.join(changed[:_SHOWN])}, which it reads, changed since" if changed else ""
    stuck = f"; not tried: {', '.join(plan.stuck)}" if plan.stuck else ""
    if ending == "found":
        names = " and ".join(map(str, flips))
        text = f"{names} {'flips' if len(flips) == 1 else 'flip'} the result"
        text += ": A with it as in B gives B's result" if len(flips) == 1 else " together: none does it alone"
        return text + (f"; A does not give its own result any more{data}" if drifted else "")
    if ending == "elsewhere":
        if changed:
            names = ", ".join(changed[:_SHOWN])
            return f"A, run again here and now, gives B's result: {names}, which it reads, changed since"
        what = ", ".join(plan.stuck) or "something that no record holds"
        return f"A, run again here and now, gives B's result: the cause is what cannot be brought back: {what}"
    if ending == "unstable":
        return "A gives another result each time, so that toggling shows nothing: envbuild verify finds where"
    text = "nothing that was tried gives B's result"
    if drifted:
        text += f", and A does not give its own any more{data}"
    if partial:
        text += f"; yet another result comes of {', '.join(map(str, partial))}"
    return text + stuck
