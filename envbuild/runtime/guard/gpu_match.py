"""Which GPU found is which GPU locked: indexes are not stable, so devices are matched by what they are.

With several kinds of GPU the assignment with the least difference in all is taken (the Hungarian algorithm, in the
form with potentials), so that only what really differs is reported.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def assign(costs: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Pair rows with columns at the least cost in all.

    Args:
        costs: one list per row, all of one length; may have more rows than columns.

    Returns:
        Pairs of row and column, as many as the shorter side has, sorted by row.
    """
    if not costs or not costs[0]:
        return []
    if len(costs) <= len(costs[0]):
        return sorted((row, column) for column, row in enumerate(_columns(costs)) if row >= 0)
    turned = list(zip(*costs))
    return sorted((row, column) for row, column in enumerate(_columns(turned)) if column >= 0)


def _columns(costs: Sequence[Sequence[int]]) -> list[int]:
    """Return the row of each column, -1 for none; there are at least as many columns as rows."""
    height, width = len(costs), len(costs[0])
    above, beside = [0] * (height + 1), [0] * (width + 1)
    owner = [0] * (width + 1)  # row of each column, counted from 1; column 0 holds the row that is looking
    for row in range(1, height + 1):
        owner[0], column = row, 0
        least, came, done = [1 << 60] * (width + 1), [0] * (width + 1), [False] * (width + 1)
        while owner[column]:
            done[column] = True
            here, step, following = owner[column], 1 << 60, 0
            for other in range(1, width + 1):
                if done[other]:
                    continue
                reduced = costs[here - 1][other - 1] - above[here] - beside[other]
                if reduced < least[other]:
                    least[other], came[other] = reduced, column
                if least[other] < step:
                    step, following = least[other], other
            for other in range(width + 1):
                if done[other]:
                    above[owner[other]] += step
                    beside[other] -= step
                else:
                    least[other] -= step
            column = following
        while column:
            owner[column] = owner[came[column]]
            column = came[column]
    return [owner[column] - 1 for column in range(1, width + 1)]
