"""A process that starts itself anew in an experiment, for what is decided before Python runs (fix_memory.py).

Only an interpreter that was started as a program does that. One that another program embeds came after that program's
own work, which must not be done twice, and ``sys.orig_argv`` may be empty there, or be no command line at all.
"""

from __future__ import annotations

import os
import sys

_INTERPRETERS = ("python", "pypy")
"""How names of their files begin."""


def command_line() -> list[str]:
    """Return the words that this interpreter was started with; none if Python is embedded, or that cannot be said."""
    words: list[str] = getattr(sys, "orig_argv", None) or []
    try:
        executable = os.path.realpath(sys.executable)
        with open("/proc/self/cmdline", "rb") as file:
            given = file.read()
        own = os.path.samefile("/proc/self/exe", executable)
        known = b"".join(os.fsencode(word) + b"\0" for word in words)
    except (OSError, TypeError, ValueError):
        return []
    named = os.path.basename(executable).startswith(_INTERPRETERS)
    return words if own and named and given == known else []


def start_anew(words: list[str]) -> None:
    """Start this process anew with words of its own (``command_line``); there is no way back."""
    os.execv(sys.executable, words)
