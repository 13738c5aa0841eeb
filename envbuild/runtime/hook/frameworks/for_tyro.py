"""tyro, with its own parser or argparse's: what it is about to call with, nested fields by dotted names."""

from __future__ import annotations

import sys

from ..parameters import COMMAND, DEFAULT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Wrap the step between parsing and calling."""
    original = module.callable_with_args

    def callable_with_args(f: Any, definition: Any, default: Any, values: Any, field_name_prefix: str) -> Any:
        result = original(f, definition, default, values, field_name_prefix)
        if not field_name_prefix:
            process.guarded("tyro", lambda: _record(result[0], values, process), vital=False)
        return result

    callable_with_args.__wrapped__ = original  # type: ignore[attr-defined]
    module.callable_with_args = callable_with_args


def _record(call: Any, values: Any, process: Process) -> None:
    if process.parameters.add("tyro", sys.argv[0].rpartition("/")[2], _values(call, values)):
        process.write()


def _values(call: Any, values: Any) -> Iterator[tuple[str, Any, str]]:
    from ..parameters import flat

    # tyro joins words by hyphens here, and by underscores in what it calls with.
    given = {str(name).replace("-", "_") for name, value in values.items() if isinstance(value, (str, list, tuple))}
    for whole, value in _arguments(call).items():
        for name, part in flat(whole, value):
            yield name, part, COMMAND if name.replace("-", "_") in given else DEFAULT


def _arguments(call: Any) -> dict[str, Any]:
    """Return the arguments of the partial that tyro made."""
    named = dict(getattr(call, "keywords", {}))
    positional = getattr(call, "args", ())
    if positional:
        import inspect

        named = {**inspect.signature(call.func).bind_partial(*positional, **named).arguments}
    return named
