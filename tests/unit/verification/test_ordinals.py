"""Numbers that say a line's place among those of its kind (envbuild/verification/masking/ordinals.py)."""

from __future__ import annotations

import pytest

from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.ordinals import Ordinals
from envbuild.verification.masking.printed import PrintedDigest
from envbuild.verification.masking.thread_lines import OwnedLine, differ_by_turns_alone, without_ordinals


@pytest.mark.parametrize(
    ("line", "placed"),
    [
        ("[1/12] trial 7 done", "[⟨n⟩/12] trial 7 done"),
        ("trial 7 scored 0.93 (1 of 12)", "trial 7 scored 0.93 (⟨n⟩ of 12)"),
        ("1/8  12.5 % b.csv", "⟨n⟩/8  ⟨n⟩ % b.csv"),
        ("done: 1/8 (13%)", "done: 1/8 (13%)"),
        ("done 1 / 8 (12%)", "done ⟨n⟩ / 8 (⟨n⟩%)"),
        ("fold 1/12: 0.81", "fold 1/12: 0.81"),
        ("Epoch 1/10", "Epoch 1/10"),
        ("2/12 trial 7", "2/12 trial 7"),
        ("1/12.5 of it", "1/12.5 of it"),
        ("a/1/12", "a/1/12"),
        ("of 2026/11/30", "of 2026/11/30"),
    ],
)
def test_the_first_line(line: str, placed: str) -> None:
    if line == "done: 1/8 (13%)":  # 12.5 % is rounded to even
        placed = "done: ⟨n⟩/8 (13%)"
    assert Ordinals().without(line) == placed


def test_numbers_that_are_no_place() -> None:
    """One that jumps, or begins again, counts something else from there on."""
    assert without_ordinals(["1/3 a", "2/3 b", "3/3 c", "1/3 d", "1/3 e"]) == [
        "⟨n⟩/3 a",
        "⟨n⟩/3 b",
        "⟨n⟩/3 c",
        "1/3 d",
        "1/3 e",
    ]
    assert without_ordinals(["2/3 a", "3/3 b"]) == ["2/3 a", "3/3 b"]


def _digest(*lines: str) -> tuple[str, str]:
    found = PrintedDigest(Masks(1_795_247_763.0))
    found.feed("".join(f"{each}\n" for each in lines).encode())
    result = found.result()
    return result.sha256, result.unordered


def test_numbers_of_ranks_count_where_lines_have_no_order() -> None:
    """Processes print them in any order, each its own: nothing shows that one is a line's place."""
    one, other = _digest("[1/2] a", "[2/2] b"), _digest("[2/2] b", "[1/2] a")
    assert one[0] != other[0]
    assert one[1] == other[1]
    assert one[1] != _digest("[1/2] b", "[2/2] a")[1]


def test_the_first_thread_logs_what_is_done_as_it_is_done() -> None:
    """Lines that say their own place may come in any order; others of the first thread may not."""
    runs = [without_ordinals(each) for each in (["1/2 a", "2/2 b", "end"], ["1/2 b", "2/2 a", "end"])]
    owned = [[OwnedLine("", text) for text in each] for each in runs]
    assert differ_by_turns_alone(runs, owned)
    runs = [["a", "b", "end"], ["b", "a", "end"]]
    assert not differ_by_turns_alone(runs, [[OwnedLine("", text) for text in each] for each in runs])
