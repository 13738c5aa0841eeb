"""Names that look as if a run had drawn them, such as UUIDs: those that two runs have in common are data.

What is masked as a drawn name is another one in each run. A catalogue of users under UUIDs is the same in all of them,
and which of them comes first is a result.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

_UUID = re.compile(
    r"(?<![0-9a-z])[0-9a-f]{8}-[0-9a-f]{4}-[1-7][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?![0-9a-z])", re.IGNORECASE
)
MOST = 2_000
"""Names of a file or stream that are kept."""


def uuids_in(text: str) -> list[str]:
    """Return the UUIDs in a text, shortened."""
    return [shortened(each) for each in _UUID.findall(text)]


def shortened(name: str) -> str:
    """Return a few characters for a name, which distinguish it from all others of a run."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def common_names(runs: Sequence[Sequence[str]], *, ordered: bool = True) -> list[list[str]]:
    """Return the names of each run that another one has too, in their places; of all others which are the same.

    Args:
        runs: the names of each in their order, shortened.
        ordered: their order counts.
    """
    seen = Counter(name for names in runs for name in {*names})
    if not ordered:
        return [sorted(name for name in names if seen[name] > 1) for names in runs]
    found = []
    for names in runs:
        own = {name: f"#{at}" for at, name in enumerate(dict.fromkeys(each for each in names if seen[each] < 2))}
        found.append([own.get(name, name) for name in names])
    return found
