"""What a line showed before it was written over, as progress is drawn: the last state counts, the others are quoted.

Which states are drawn depends on the time. So two runs are different in them only if they show the same step with
other numbers, and no state with numbers in common; or states without times, of which both drew as many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from envbuild.core.patterns import lazy
from envbuild.verification.masking.lines import TextDifference, lines_in_pairs
from envbuild.verification.masking.screen import BINARY

if TYPE_CHECKING:
    from envbuild.verification.masking.masks import Masks

_BACK = lazy(r"\r|\x1b\[(?:1?G|[012]?K)")
_UP = lazy(r"\x1b\[\d*[AF]")
_CONTROL = lazy(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_STEP = lazy(r"(?<![\d.])\d+\s?/\s?\d+(?![\d.])|(?<![\d.])\d+\s?%")
_DECIMAL = lazy(r"\d\.\d")
_TIMED = frozenset(("times", "rates", "memory"))
_LONGEST, _MOST = 4096, 20_000
"""Characters of a state, and how many states of a stream, that are looked at."""


class _State(NamedTuple):
    text: str
    masked: str
    timed: bool

    @property
    def step(self) -> str:
        """What is done by then, with what is before it; empty if nothing says that."""
        found = _STEP.search(self.masked)
        return self.masked[: found.end()] if found else ""

    @property
    def has_numbers(self) -> bool:
        """Whether something else than steps is in it."""
        return _DECIMAL.search(self.masked) is not None


def other_states(name: str, before: bytes, after: bytes, masks: tuple[Masks, Masks]) -> Iterator[TextDifference]:
    """Yield the lines of two streams that are equal at last and showed other numbers before they were written over.

    Args:
        name: of the stream.
        before, after: what was printed.
        masks: of the two runs.
    """
    if b"\r" not in before and b"\x1b" not in before:
        return
    moved = _UP.search(before.decode("latin-1")) is not None
    left = _MOST
    for number, mine, theirs in lines_in_pairs(before, after):
        if moved and mine != theirs and (texts := _other_line(mine, theirs, masks)) is not None:
            yield TextDifference(path=name, line=number, before=texts[0], after=texts[1])
            return
        if mine == theirs or _BACK.search(mine) is None or BINARY.search(_CONTROL.sub("", mine)) is not None:
            continue
        states = _states(mine, masks[0]), _states(theirs, masks[1])
        left -= sum(map(len, states))
        if left < 0:
            return
        if (pair := _other(*states)) is not None:
            yield TextDifference(path=name, line=number, before=pair[0].text, after=pair[1].text)


def _other_line(mine: str, theirs: str, masks: tuple[Masks, Masks]) -> tuple[str, str] | None:
    """Return two lines, of texts in which the cursor goes up, that differ but for what is masked and for steps.

    They may be written over later: what is shown at last is equal.
    """
    texts = [_CONTROL.sub("", line).strip() for line in (mine, theirs)]
    if max(map(len, texts)) > _LONGEST or any(map(BINARY.search, texts)):
        return None
    found = [each.mask(text) for each, text in zip(masks, texts, strict=True)]
    if found[0].text == found[1].text or any(not _TIMED.isdisjoint(each.kinds) for each in found):
        return None
    steps = [_STEP.findall(text) for text in texts]
    return (texts[0], texts[1]) if steps[0] == steps[1] else None


def _states(line: str, masks: Masks) -> list[_State]:
    """Return what a line showed but for what it shows at last."""
    parts = [_CONTROL.sub("", part) for part in _BACK.split(line)]
    found = []
    for part in map(str.strip, [each for each in parts if each][:-1]):  # blanks at last have written over the others
        if part and len(part) <= _LONGEST:
            masked = masks.mask(part)
            found.append(_State(part, masked.text, not _TIMED.isdisjoint(masked.kinds)))
    return found


def _other(mine: Sequence[_State], theirs: Sequence[_State]) -> tuple[_State, _State] | None:
    """Return two states that show the same with other numbers."""
    numbers = [{each.masked for each in states if each.has_numbers} for states in (mine, theirs)]
    if numbers[0] & numbers[1]:
        return None
    steps = {each.step: each for each in mine if each.step and each.has_numbers}
    for each in theirs:
        if each.has_numbers and each.step in steps:
            return steps[each.step], each
    plain = [[each for each in states if not each.timed and not each.step] for states in (mine, theirs)]
    if len(plain[0]) == len(plain[1]):
        return next((pair for pair in zip(*plain, strict=True) if pair[0].masked != pair[1].masked), None)
    return None
