"""Exceptions that a signal's handler of the program raised while the hook was at work: they are the program's.

A handler runs between any two steps of Python in the main thread, so also within the hook: a limit of time that raises
``TimeoutError`` there has to reach the program, or it would wait for ever. Where Python would print and drop what is
raised, in callbacks of ``os.fork``, it is raised once more in the caller of ``fork``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Step = Callable[[], object]

_ATTEMPTS = 3
_waiting: list[Step] = []
"""Takes back what ``_raise_in`` has set, while the exception was not raised yet."""

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


def register_at_fork(
    *, before: Step | None = None, after_in_child: Step | None = None, repeat: Step | None = None
) -> None:
    """Do as ``os.register_at_fork``; what a handler raises in a step reaches who called ``os.fork``.

    Args:
        before: in the parent; done again where a handler ended it.
        after_in_child: in the child, once.
        repeat: in the child, after that; done again as the first one is.
    """
    if before is not None:
        os.register_at_fork(before=_whole(before, _ATTEMPTS))
    for step, attempts in ((after_in_child, 1), (repeat, _ATTEMPTS)):
        if step is not None:
            os.register_at_fork(after_in_child=_whole(step, attempts))


def forget() -> None:
    """In a forked child: what a handler raised in the parent before the fork is raised there only."""
    while _waiting:
        _waiting.pop()()


def _whole(step: Step, attempts: int) -> Callable[[], None]:
    def call() -> None:
        raised: BaseException | None = None
        for _ in range(attempts):
            try:
                step()
                break
            except BaseException as error:
                if isinstance(error, Exception) and not is_programs(error):
                    raise
                raised = raised or error
        caller = sys._getframe().f_back
        if raised is not None and caller is not None:
            _raise_in(caller, raised)

    return call


def _raise_in(caller: Any, error: BaseException) -> None:
    """Raise in a frame as soon as what it has called returns, by the means of debuggers."""
    before, own, opcodes = sys.gettrace(), caller.f_trace, caller.f_trace_opcodes

    def undo() -> None:
        sys.settrace(before)
        caller.f_trace, caller.f_trace_opcodes = own, opcodes

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame is not caller:
            return None
        forget()
        raise error

    _waiting.append(undo)
    caller.f_trace, caller.f_trace_opcodes = trace, True  # not only at the next line, which may be behind a ``try``
    sys.settrace(trace)


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
