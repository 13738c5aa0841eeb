"""Control sequences of a terminal and blanks at the end, which no line that is compared has.

They are left out since progress is drawn with them as the time has it. A result may be shown by them alone, such as a
verdict in green or red, so that lines are quoted which are equal but for these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envbuild.core.patterns import lazy
from envbuild.verification.masking.lines import TextDifference, lines_in_pairs
from envbuild.verification.masking.screen import BINARY

if TYPE_CHECKING:
    from envbuild.verification.masking.masks import Masks

_CONTROL = lazy(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_DRAWN = lazy(r"\r|\x08|\x1b\[[0-9;?]*[A-HJKfhl]")
"""What a line has that is drawn anew: a bar has the colours of its last state."""
_LONGEST = 1 << 16


def other_controls(name: str, before: bytes, after: bytes, masks: tuple[Masks, Masks]) -> Iterator[TextDifference]:
    """Yield the lines of two streams that are equal but for their control sequences, or for blanks at their end.

    Args:
        name: of the stream.
        before, after: what was printed, as many lines in both, or none are compared.
        masks: of the two runs.
    """
    if before == after:
        return
    measured: bool | None = None
    for number, mine, theirs in lines_in_pairs(before, after):
        if mine == theirs or max(len(mine), len(theirs)) > _LONGEST:
            continue
        if _CONTROL.findall(mine) == _CONTROL.findall(theirs):
            if mine.rstrip() == theirs.rstrip() and not any(map(_DRAWN.search, (mine, theirs))):
                if measured is None:
                    measured = any(masks[0].mask(line).kinds for _, line, _ in lines_in_pairs(before, before))
                if not measured:  # else columns may be as wide as what was
                    counts = (len(each) - len(each.rstrip()) for each in (mine, theirs))
                    blanks = [f"{count} blank{'s' * (count != 1)} at its end" for count in counts]
                    yield TextDifference(path=name, line=number, before=blanks[0], after=blanks[1])
            continue
        if any(_DRAWN.search(each) or BINARY.search(_CONTROL.sub("", each)) for each in (mine, theirs)):
            continue
        texts = [of_run.mask(_CONTROL.sub("", each)).text for of_run, each in zip(masks, (mine, theirs), strict=True)]
        if texts[0] == texts[1]:
            shown = (" ".join(f"ESC{each[1:]}" for each in _CONTROL.findall(line)) for line in (mine, theirs))
            yield TextDifference(path=name, line=number, before=next(shown), after=next(shown))
