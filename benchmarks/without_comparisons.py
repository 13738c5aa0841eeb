"""envbuild without printed lines and files outside the project in its records: what those cost is the difference.

``python -m benchmarks.without_comparisons run train.py``; arguments as envbuild has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envbuild.cli import entry
from envbuild.operations.verification import printed_lines
from envbuild.record import printed
from envbuild.runs.outside import Outside

if TYPE_CHECKING:
    from collections.abc import Callable


def _returns(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


if __name__ == "__main__":
    printed_lines.LazyReader.feed = _returns(None)  # type: ignore[method-assign]
    printed.keep = _returns(None)
    Outside.look_first = _returns(None)  # type: ignore[method-assign]
    Outside.look_inside = _returns(None)  # type: ignore[method-assign]
    Outside.look_last = _returns(((), ()))  # type: ignore[method-assign]
    entry()
