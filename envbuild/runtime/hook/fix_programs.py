"""What other programs gave back, noted in runs with nothing fixed (fix.py): the same for the same, or not.

A program that is no Python may draw numbers, read a clock or run things side by side (``shuf``, ``xargs -P``), and no
experiment reaches into it. One whose output is read by ``communicate``, as ``subprocess.run`` and its like do, is noted
with digests of its words and its input, and of its output. Where these are equal in two runs and the output is not, the
program is what makes the difference, or one of the things that do.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .fix_callers import Callers

_LONGEST = 60


def install(callers: Callers) -> None:
    """Note from now on what programs give back."""
    import subprocess

    original = subprocess.Popen.communicate

    def communicate(self: Any, input: Any = None, timeout: Any = None) -> Any:
        found = original(self, input, timeout)
        if found[0] is not None:
            callers.real("programs", _command(self.args), sys._getframe(1), found[0], (self.args, input))
        return found

    programs: Any = subprocess.Popen
    programs.communicate = communicate


def _command(words: Any) -> str:
    """Return the beginning of a command line, the program without its folder."""
    if not isinstance(words, (list, tuple)):
        text = os.fsdecode(words)
    elif not words:
        return ""
    else:
        first, *rest = (os.fsdecode(word) for word in words)
        text = " ".join((os.path.basename(first), *rest))
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
