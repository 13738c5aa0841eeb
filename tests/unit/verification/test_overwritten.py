"""What a line showed before it was written over."""

from __future__ import annotations

import pytest

from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.overwritten import other_states

MASKS = Masks(1_795_800_000.0)


def _bar(*losses: float, step: int = 1) -> str:
    """Draw states of a loop: each at its step, with the time that it took, then a last line."""
    states = (f"\rEpoch {at * step}/50 loss {loss:.4f} 0:00:0{at}" for at, loss in enumerate(losses, 1))
    return "".join(states) + "\rdone" + " " * 40 + "\n"


@pytest.mark.parametrize(
    ("before", "after", "quoted"),
    [
        (_bar(0.5, 0.25, 0.125), _bar(0.5, 0.25, 0.125), False),
        (_bar(0.5, 0.25, 0.125), _bar(0.5, 0.375, 0.625), False),  # one in common: bars within bars have others
        (_bar(0.5, 0.25), _bar(0.75, 0.375), True),
        (_bar(0.5, 0.25), _bar(0.75, 0.375, step=20), False),  # no step in common
        (_bar(0.5, 0.25), _bar(0.75), True),
        ("\x1b[2K\x1b[1Gloss 0.5\x1b[2K\rend\n", "\x1b[2K\x1b[1Gloss 0.6\x1b[2K\rend\n", True),
        ("\rloss 0.5 1.2s\rend\n", "\rloss 0.6 1.3s\rend\n", False),  # drawn by the clock, and nothing says when
        ("\rloss 0.5\rloss 0.25\r   \n", "\rloss 0.6\rloss 0.3\r   \n", True),  # a bar that goes away
        ("\rloss 0.5\r   \n", "\rloss 0.6\r   \n", True),
        ("loss 0.5\r\r\n", "loss 0.6\r\r\n", False),  # shown at last
        ("\ra\rb\rend\n", "\ra\rend\n", False),
        ("\r 5%| 0.1s\r10%| 0.2s\rend\n", "\r 5%| 0.3s\r10%| 0.4s\rend\n", False),
        ("a\r\nb\r\n", "a\r\nc\r\n", False),  # lines that are compared as they are
        ("\rloss 0.5\rend\nmore\n", "\rloss 0.6\rend\n", False),
        ("no control\n", "none\n", False),
        ("loss 0.5\n\x1b[1A\x1b[2Kend\n", "loss 0.6\n\x1b[1A\x1b[2Kend\n", True),
        ("1/9 loss 0.5\n\x1b[1A\x1b[2Kend\n", "2/9 loss 0.6\n\x1b[1A\x1b[2Kend\n", False),  # by luck of the clock
        ("loss 0.5 in 1.2s\n\x1b[1A\x1b[2Kend\n", "loss 0.6 in 1.3s\n\x1b[1A\x1b[2Kend\n", False),
        ("\x00\rloss 0.5\rend\n", "\x00\rloss 0.6\rend\n", False),
    ],
)
def test_states_with_other_numbers_are_quoted(before: str, after: str, *, quoted: bool) -> None:
    """Where two runs show one step with other numbers; which steps are drawn is luck."""
    found = [*other_states("standard output", before.encode(), after.encode(), (MASKS, MASKS))]
    assert len(found) == quoted


def test_both_states_are_quoted() -> None:
    """As they were drawn, without control characters, with the line that they were in."""
    (found,) = other_states(
        "stderr", b"a\n\r\x1b[1m1/2 0.5\x1b[0m\rx\n", b"a\n\r\x1b[1m1/2 0.6\x1b[0m\rx\n", (MASKS, MASKS)
    )
    assert (found.path, found.line, found.before, found.after) == ("stderr", 2, "1/2 0.5", "1/2 0.6")
