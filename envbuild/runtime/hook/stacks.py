"""The stacks of a process that hangs: printed on standard error when a signal comes that programs do not use."""

from __future__ import annotations

SIGNAL = 49
"""A real-time signal (``SIGRTMAX`` - 15), by number: the C library moves the lowest."""
_STDERR = 2


def answer() -> None:
    """Print the stacks of all threads whenever the signal comes; children inherit that, other programs do not."""
    try:
        import faulthandler
    except ImportError:  # a further interpreter of this process; the first one answers (``InterpreterPoolExecutor``)
        return
    faulthandler.register(SIGNAL, file=_STDERR, all_threads=True)
