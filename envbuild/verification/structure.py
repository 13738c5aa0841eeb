"""What differs between equal runs in how parts belong together: order of optimisers, names of one file.

Neither is compared, as both may be luck (sets of tensors by address, a link where the file system has them). A result
may show in it alone, so that it is quoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envbuild.core.text import encodable
from envbuild.verification.ran import Ran


def other_order(runs: Sequence[Ran]) -> Iterator[str]:
    """Quote that optimisers that went through the same began in another order, if they did in some run."""
    if len({run.trace for run in runs}) == 1 and len({run.order for run in runs}) > 1:
        yield "the step trace: which of several optimisers was first, or trained what"


def other_links(runs: Sequence[Ran]) -> Iterator[str]:
    """Quote the first two names that are hard links of one file in some runs, and in others not.

    Names that only some runs have are drawn, or hold the time.
    """
    first, *others = runs
    for other in others:
        mine, theirs = ({output.path for output in run.record.outputs} for run in (first, other))
        both = mine & theirs
        pairs = sorted(pair for pair in first.links ^ other.links if both.issuperset(pair))
        if pairs:
            one, another = map(encodable, pairs[0])
            yield f"which names are hard links of one file: {one} and {another} are in some runs only"
            return
