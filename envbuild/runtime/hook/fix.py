"""Suspects made the same in all runs, to see which of them is the cause (``ENVBUILD_FIX``, set by ``envbuild verify``).

The value names suspects with commas between; after ``@`` the seconds after which a process is ended, since with a
clock that stands nearly still a program may wait for ever; after ``!`` lines (``/workspace/train.py:12``, with ``;``
between) that get what is real although all others do not: a line whose value alone makes runs differ is the cause. A
run with it is an experiment and no run of the program: nothing of it is kept.

``entropy`` or ``entropy=STREAM`` (fix_entropy.py), ``clock`` or ``clock=START/TICK/SCALE`` (fix_clock.py),
``addresses`` of small objects (fix_addresses.py), ``order`` in which tasks are completed (fix_order.py), ``figures`` of
files and of the kernel, or ``figures=NUMBER`` of memory alone (fix_figures.py), ``processes=NUMBER``, of which so many
numbers are skipped (vary.py), ``memory`` that is filled (fix_memory.py), ``limits`` of time, which are reached later
(fix_limits.py), ``collection`` of garbage, which is off. ``programs`` fixes nothing: it has the record show whether
other programs gave the same output for the same input (fix_programs.py), ``lines`` has printed lines say which
thread they are by (fix_lines.py), and ``path`` notes which way the first thread takes (fix_path.py).

An entry of the record (``asked``) is a line that asked for what was fixed: ``suspect``, ``call``, ``file``, ``line``,
``module`` (who called: a package, or the program), ``place`` (the innermost line of the project on the way, or that
line itself), ``count``; where it is known, ``values``: a digest of what was real, and ``given``: of what that may
follow from.
"""

from __future__ import annotations

import os
from time import monotonic  # before it is fixed

from .fix_callers import Callers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .process import Process

VARIABLE = "ENVBUILD_FIX"


def _nothing() -> None:
    """Do nothing: garbage in cycles stays where it is, unless the program itself has it collected."""


def begin(process: Process) -> None:
    """Fix what the variable names. There is no way back."""
    text, _, real = os.environ.get(VARIABLE, "").partition("!")
    text, _, limit = text.partition("@")
    wanted = dict(each.partition("=")[::2] for each in text.split(","))
    if limit.isdigit():
        import faulthandler

        faulthandler.dump_traceback_later(int(limit), exit=True)
    callers = Callers(process.observer.within, frozenset(filter(None, real.split(";"))))
    process.asked, process.callers = callers.as_list, callers
    os.register_at_fork(after_in_child=callers.clear)
    if "collection" in wanted:
        import gc

        gc.disable()
        gc.enable = _nothing
    if "programs" in wanted:
        from . import fix_programs

        fix_programs.install(callers)
    if "lines" in wanted:
        from . import fix_lines

        fix_lines.install()
    if "figures" in wanted:
        from . import fix_figures

        fix_figures.Figures(callers, wanted["figures"]).install()
    entropy, clock = None, None
    if "entropy" in wanted:
        from . import fix_entropy

        entropy = fix_entropy.Entropy(process, callers, wanted["entropy"])
        entropy.install()
    if "clock" in wanted:
        from . import fix_clock

        clock = fix_clock.Clock(callers, wanted["clock"])
        clock.install()
    if "limits" in wanted:  # what puts tasks in order waits in its own way, above these waits
        from . import fix_limits

        fix_limits.Limits(callers).install()
    if "order" in wanted:  # modules that it imports remember when that was, and what they drew
        from . import fix_order  # only here: frameworks are put in order where this module is there (for_pools.py)

        fix_order.install(callers)
    if "order" in wanted or clock is not None:  # asyncio imports logging, which remembers when that was
        from . import fix_loop

        fix_loop.LoopTime(callers if clock is not None else None).install()
    if entropy is not None or clock is not None:
        from . import fix_native

        process.guarded("fix_native", fix_native.Native(callers, clock, entropy).install, vital=False)
    if "addresses" in wanted:  # last: what the others made is in memory already
        from . import fix_addresses

        fix_addresses.install()
    if "path" in wanted and not process.path:
        from . import fix_path

        fix_path.install(callers, process.folder, monotonic)
