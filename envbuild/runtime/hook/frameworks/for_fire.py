"""Fire: the arguments of each function or class that it calls, defaults from the signature."""

from __future__ import annotations

import sys

from ..parameters import COMMAND, DEFAULT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Wrap the maker of the functions that parse for one callable."""
    original = module._MakeParseFn

    def _MakeParseFn(fn: Any, metadata: Any) -> Any:  # noqa: N802 - Fire's name
        parse = original(fn, metadata)

        def watched(args: Any) -> Any:
            result = parse(args)
            process.guarded("fire", lambda: _record(fn, result, process), vital=False)
            return result

        return watched

    _MakeParseFn.__wrapped__ = original  # type: ignore[attr-defined]
    module._MakeParseFn = _MakeParseFn


def _record(fn: Any, result: Any, process: Process) -> None:
    (positional, named), consumed = result[0], result[1]
    program = f"{sys.argv[0].rpartition('/')[2]} {getattr(fn, '__name__', type(fn).__name__)}"
    if process.parameters.add("fire", program, _values(fn, positional, named, consumed)):
        process.write()


def _values(fn: Any, positional: Any, named: Any, consumed: Any) -> Iterator[tuple[str, Any, str]]:
    """Bind as the call will; what is not among the typed arguments and equals its default is one."""
    import inspect

    signature = inspect.signature(fn)
    bound = signature.bind_partial(*positional, **named)
    bound.apply_defaults()
    typed = {argument.lstrip("-").partition("=")[0].replace("-", "_") for argument in consumed}
    for name, value in bound.arguments.items():
        default = signature.parameters[name].default
        yield name, value, DEFAULT if name not in typed and value is default else COMMAND
