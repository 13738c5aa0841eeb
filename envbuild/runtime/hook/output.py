"""Printed lines reach a pipe whole: without a buffer ``print("a", 1)`` is four writes, between which other processes'
lines may come, and runs of several processes print lines that none of them has printed.
"""

from __future__ import annotations

import os
import sys

from .handlers import is_programs, register_at_fork


def write_whole_lines() -> None:
    """Write to standard output and error line by line, as on a terminal, where PYTHONUNBUFFERED has it piece by piece.

    ``python -u`` is the program's own wish, and stays.
    """
    if not os.environ.get("PYTHONUNBUFFERED") or "-u" in getattr(sys, "orig_argv", ())[1:2]:
        return
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "write_through", False):
            stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]
    # Of a line that is not complete a forked process would print the beginning once more.
    register_at_fork(before=_flush)


def _flush() -> None:
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception as error:
            if is_programs(error):
                raise
