"""Exceptions that a signal's handler of the program raised while the hook was at work: they are the program's.

A handler runs between any two steps of Python in the main thread, so also within the hook: a limit of time that raises
``TimeoutError`` there has to reach the program, or it would wait for ever.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_VARARGS = 4
"""A function that has ``*arguments``; ``inspect.CO_VARARGS``."""


def is_programs(error: BaseException) -> bool:
    """Whether a handler of the program is among the calls that led to an exception."""
    codes, interrupted = None, None
    trace = error.__traceback__
    while trace is not None:
        codes = _codes() if codes is None else codes
        if trace.tb_frame.f_code in codes or _was_given(trace.tb_frame, interrupted):
            return True
        interrupted, trace = trace.tb_frame, trace.tb_next
    return False


def _was_given(frame: Any, interrupted: Any) -> bool:
    """Whether a call was given a number and the frame that made it, as handlers are; many set another one first."""
    code = frame.f_code
    count = code.co_argcount + bool(code.co_flags & _VARARGS)
    if interrupted is None or not count:
        return False
    names = [*code.co_varnames[: code.co_argcount], *code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][:1]]
    given = [frame.f_locals.get(name) for name in names[:count]]
    if count > code.co_argcount and isinstance(given[-1], tuple):
        given[-1:] = given[-1]
    return any(isinstance(one, int) and two is interrupted for one, two in zip(given, given[1:]))


def _codes() -> set[Any]:
    """Return the code of all handlers; those that are C have none, and raise nothing that is an ``Exception``."""
    import _signal  # type: ignore[import-not-found] # what the interpreter itself has

    return {_code(_signal.getsignal(number)) for number in range(1, _signal.NSIG)} - {None}


def _code(handler: Any) -> Any:
    """Return the code of a function, a method, a ``partial`` or an object that is called."""
    handler = getattr(handler, "func", handler)
    handler = getattr(handler, "__func__", handler)
    if not hasattr(handler, "__code__"):
        handler = getattr(type(handler), "__call__", None)  # noqa: B004 - what is called, not whether
    return getattr(handler, "__code__", None)
