"""Locked GPUs against found ones, field by field. Pure.

Indexes and order mean nothing: each locked GPU is compared with the one that is most like it (``gpu_match``), and a
field has one check, however many GPUs differ in it. What follows from another model or another MIG slice (its SMs, its
memory …) stays a check of its own but names its cause, so that the cause is shown once.
"""

from __future__ import annotations

from . import gpu_match
from . import gpu_words as words
from .check import Check, once, policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    Facts = Mapping[str, Any]
    Found = tuple[int, Facts]
    """A GPU's index and description."""

_WEIGHTS = {
    "gpu.model": 64,
    "gpu.compute-capability": 32,
    "gpu.sms": 16,
    "gpu.mig": 16,
    "gpu.memory": 4,
    "gpu.ecc": 1,
    "gpu.vbios": 1,
    "gpu.board": 1,
}
"""Fields of one GPU in the order of their consequences, and how much a difference counts in matching."""
_FOLLOWS = {
    "gpu.model": ("gpu.compute-capability", "gpu.sms", "gpu.mig", "gpu.memory", "gpu.ecc", "gpu.vbios", "gpu.board"),
    "gpu.mig": ("gpu.sms", "gpu.memory"),
}
"""Causes, and the fields that may differ for no other reason."""
_ABSENT = ("", 0, None)
_ORDERED = ("gpu.count", "gpu.driver", "gpu.compute-capability", "gpu.sms", "gpu.memory")
"""Fields that may be ``at least``."""


def agrees(word: str, locked: Any, found: Any) -> bool:
    """Return whether a value satisfies a policy; versions are ordered number by number."""
    if word == "any" or locked == found:
        return True
    if word == "at least":
        return numbers(found) >= numbers(locked)
    return word == "same branch" and numbers(found)[:1] == numbers(locked)[:1]


def looser(field: str, pairs: Iterable[tuple[Any, Any]]) -> list[str]:
    """Return the policies of a field under which every pair of a locked and a found value would agree."""
    words = [*(["same branch"] if field == "gpu.driver" else []), *(["at least"] if field in _ORDERED else []), "any"]
    known = list(pairs)
    return [word for word in words if all(agrees(word, locked, found) for locked, found in known)]


def numbers(value: Any) -> list[int]:
    """Return the numbers of a version or the number itself, to be ordered; an unknown value comes before all others."""
    parts = str(value).split(".") if value not in _ABSENT else []
    return [int(part) if part.isascii() and part.isdigit() else -1 for part in parts]


def compare(expect: Facts, found: Sequence[Found], *, all_of_them: bool) -> list[Check]:
    """Compare every locked GPU with one found.

    Args:
        expect: expectations with ``gpu`` and ``policy``.
        found: the GPUs that the program gets.
        all_of_them: GPUs beyond the locked number are the program's too, and compared with the kind most like them.

    Returns:
        One check per locked field.
    """
    slots = [kind for kind in expect["gpu"]["devices"] for _ in range(kind.get("count", 1))]
    costs = [[_cost(expect, slot, device) for _, device in found] for slot in slots]
    pairs = [(slots[row], found[column], column) for row, column in gpu_match.assign(costs)]
    if all_of_them and len(found) > len(slots):
        taken = {column for _, _, column in pairs}
        for column in set(range(len(found))) - taken:
            likest = min(range(len(slots)), key=lambda row: costs[row][column])
            pairs.append((slots[likest], found[column], column))
    matched = [(slot, device) for slot, device, _ in sorted(pairs, key=lambda pair: pair[2])]
    checks = [_check(expect, field, matched, len(found)) for field in _WEIGHTS if _locked_anywhere(field, slots)]
    return _with_causes(expect, [check for check in checks if check], matched)


def describe(expect: Facts) -> str:
    """Return the locked GPUs in words, such as ``8 × NVIDIA H200``."""
    kinds = []
    for kind in expect["gpu"]["devices"]:
        name = kind.get("model") or ("GPU" if kind.get("count", 1) == 1 else "GPUs")
        mig = "" if kind.get("mig", "none") in ("", "none") else f" MIG {kind['mig']}"
        kinds.append(f"{kind.get('count', 1)} × {name}{mig}")
    return ", ".join(kinds)


def held(device: Facts) -> str:
    """Name who else holds a GPU: its programs, or how little of its memory is free; empty if nobody does.

    A container does not see other containers' programs; the free memory shows them. The driver itself keeps some
    hundred MiB of a large GPU.
    """
    programs = device.get("processes") or ()
    if programs:
        return ", ".join(f"{each.get('name') or 'a program'} (pid {each['pid']})" for each in programs)
    total, free = device.get("memory", 0), device.get("free", 0)
    return f"{free} of {total} MiB free" if total and free and total - free > 512 + total // 20 else ""


def place(index: int, device: Facts, total: int) -> str:
    """Name a GPU: its index, and as much of its UUID as ``CUDA_VISIBLE_DEVICES`` needs; the only one needs no name."""
    uuid = "-".join(device.get("uuid", "").split("-")[:2])
    return "" if total == 1 else f"GPU {index} {uuid}".rstrip()


def _cost(expect: Facts, slot: Facts, device: Facts) -> int:
    cost = 0
    for field, weight in _WEIGHTS.items():
        word, severity = policy(expect, field)
        if not same(word, field, slot, device):
            cost += weight * (1000 if severity == "hard" else 1)
    return cost


def _value(field: str, device: Facts, *, found: bool = False) -> Any:
    """Return a field's value. A GPU without MIG is no slice; drivers before 470 leave out the maker's name."""
    key = field[4:]
    value = device.get("name" if found and key == "model" else key)
    if key == "mig" and found and not value:
        return "none"
    return value.removeprefix("NVIDIA ") if key == "model" and value else value


def same(word: str, field: str, slot: Facts, device: Facts) -> bool:
    """Return whether a field of a GPU found is as locked, under a policy; a field that is not locked is."""
    locked, found = _value(field, slot), _value(field, device, found=True)
    if word == "any" or (locked is None or (locked in ("", 0) and locked is not False)):
        return True
    return found is not None and found != "" and agrees(word, locked, found)


def _locked_anywhere(field: str, slots: Sequence[Facts]) -> bool:
    values = [_value(field, slot) for slot in slots]
    return any(value is False or value not in _ABSENT for value in values)


def _show(field: str, device: Facts, *, found: bool = False) -> str:
    value = device.get("name" if found and field == "gpu.model" else field[4:])
    if field == "gpu.mig" and not value:
        return "none"
    if field == "gpu.ecc":
        return "no such mode" if value is None else "on" if value else "off"
    if value in _ABSENT:
        return "unknown"
    return f"{value} MiB" if field == "gpu.memory" else str(value)


def _check(expect: Facts, field: str, matched: Sequence[tuple[Facts, Found]], total: int) -> Check | None:
    """Make the check of one field over all pairs; None if there is no GPU to compare."""
    word, severity = policy(expect, field)
    differing = [(slot, found) for slot, found in matched if not same(word, field, slot, found[1])]
    shown = differing or matched
    if not shown:
        return None
    locked = ", ".join(_distinct(_show(field, slot) for slot, _ in shown if _locked_anywhere(field, [slot])))
    locked += "" if word == "exact" else f" ({word})"
    if not differing:
        found = ", ".join(_distinct(_show(field, device, found=True) for _, (_, device) in shown))
        return Check(field, locked, found, ok=True, severity=severity)
    slot, (_, device) = differing[0]
    if _value(field, device, found=True) in _ABSENT and field != "gpu.ecc":
        meaning = words.UNKNOWN
    elif field == "gpu.model":
        meaning = words.model(slot, device)
    else:
        meaning = words.device(field, _value(field, slot), _value(field, device, found=True))
    values = _where(field, differing, total)
    fix = _fix(expect, field, differing) if severity == "hard" else ""
    return Check(field, locked, values, ok=False, severity=severity, meaning=meaning, fix=fix)


def _where(field: str, differing: Sequence[tuple[Facts, Found]], total: int) -> str:
    """Write the values found with the GPUs that have them."""
    holders: dict[str, list[Found]] = {}
    for _, found in differing:
        holders.setdefault(_show(field, found[1], found=True), []).append(found)
    parts = []
    for value, those in holders.items():
        if len(those) == total:
            where = "" if total == 1 else f"all {total} GPUs"
        elif len(those) > 2:
            where = "GPUs " + ", ".join(str(index) for index, _ in those)
        else:
            where = ", ".join(place(index, device, total) for index, device in those)
        parts.append(f"{value} ({where})" if where else value)
    return ", ".join(parts)


def _fix(expect: Facts, field: str, differing: Sequence[tuple[Facts, Found]]) -> str:
    lines = [f"run on a host with {describe(expect)}"]
    if field != "gpu.model":
        values = ((_value(field, slot), _value(field, device, found=True)) for slot, (_, device) in differing)
        lines.append(words.relax(field, looser(field, values)))
    return "\n".join([*lines, words.DETECT, once(field)])


def _with_causes(expect: Facts, checks: list[Check], matched: Sequence[tuple[Facts, Found]]) -> list[Check]:
    """Say of each difference whether another one of the same GPUs explains it."""
    failed = {check.field: check for check in checks if not check.ok}
    for cause, followers in _FOLLOWS.items():
        for field in followers:
            check = failed.get(field)
            if check is None or check.because or cause not in failed:
                continue
            weaker = failed[cause].severity != "hard" and check.severity == "hard"
            if not weaker and all(
                not same(policy(expect, cause)[0], cause, slot, device)
                for slot, (_, device) in matched
                if not same(policy(expect, field)[0], field, slot, device)
            ):
                check.because = cause
    return checks


def _distinct(texts: Any) -> list[str]:
    return list(dict.fromkeys(texts))
