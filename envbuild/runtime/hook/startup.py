"""What the ``.pth`` file runs: the second gate, then the hook."""

from __future__ import annotations

import os

from .. import config  # type: ignore[attr-defined] # written into the image from the lock
from ..guard import gate
from . import finder, lineage, output, stacks
from .frameworks import starts
from .process import Process

FILL = "MALLOC_PERTURB_"
"""What the C library fills memory with that it gives (mallopt(3))."""
_started = False
process: Process | None = None
"""This process, once started."""


def start() -> None:
    """Make sure the checks were passed in this container, then seed this process and wait for frameworks.

    Without controls nothing is seeded or switched, but what the program is given and reads is recorded all the same.
    Only once: in a virtual environment ``site`` reads every start-up file twice.
    """
    global _started
    if _started:
        return
    _started = True
    marker = gate.marker(config.IDENTITY)
    main = lineage.VARIABLE not in os.environ
    above: dict[str, str] | None = {}
    if os.environ.get(gate.MARKER) != marker:
        above = gate.passed_above(marker, os.environ)
        if (above is None or gate.MARKER in os.environ) and not gate.pass_or_refuse("startup"):
            os._exit(gate.REFUSED)
        if above is not None:  # its children are asked for the same, which their environment lacks
            os.environ.pop(gate.MARKER, None)
            main = main and not above
            os.environ.setdefault(lineage.VARIABLE, lineage.UNSEEN)
    asked = above or {}
    os.environ.update(asked)
    lent = os.environ.get(starts.LENT, "").split(",")
    try:
        _begin(main=main, marker=marker)
    finally:
        for name in (*asked, *lent, starts.LENT):  # the program gave this process an environment without them
            os.environ.pop(name, None)


def _begin(*, main: bool, marker: str) -> None:
    """Set this process up.

    Args:
        main: it is the first Python of the run.
        marker: of a process that passed the guard in this container.
    """
    global process
    fixed, varied = os.environ.get("ENVBUILD_FIX", ""), os.environ.get("ENVBUILD_VARY", "")
    filled = "memory" in fixed or ("memory" in varied and not varied.startswith("0"))
    if filled:
        from . import fix_memory

        fix_memory.restart()
    if "addresses" in fixed:
        from . import fix_addresses

        fix_addresses.restart()
    os.environ.pop(starts.LENT, None)  # what was started anew needs it too
    if varied and main:
        from . import vary

        vary.skip_numbers(os.environ)
    if "processes=" in fixed and main:
        from . import vary

        vary.use_up(_number(fixed.partition("processes=")[2]))
    if os.environ.pop("ENVBUILD_SHIFT", None):  # it has made the environment larger, and is no part of it
        from . import vary

        vary.move_objects()
    process = Process(config)
    if process.recorded:
        process.observer.install()
    lent = {name: os.environ[name] for name in sorted(gate.ASKED | {starts.HASHES}) if name in os.environ}
    process.lent = {gate.MARKER: marker, **lent}
    if "memory" in varied and FILL in os.environ:  # the C library has read it, and others find no other environment
        process.hidden = {FILL: os.environ.pop(FILL)}
    starts.number_starts(process)
    process.guarded("stacks", stacks.answer, vital=False)
    process.guarded("output", output.write_whole_lines, vital=False)
    controls = [] if gate.controls_off() else [finder.WATCHED, finder.TASKS, finder.REPLICAS, finder.MENDED]
    tables = [*controls, finder.PARSERS, finder.PARALLEL, finder.METRICS, finder.SHOWN]
    if os.environ.get("ENVBUILD_TRACE"):
        from . import trace

        tables += [finder.TRACED] if trace.begin(process) else []
    if filled:
        tables.append(finder.FILLED)
    if process.config.LEVEL == "portable" and not gate.controls_off():
        from .frameworks import for_libc

        process.guarded("libc", lambda: for_libc.set_up(process))
    if fixed:
        from . import fix

        process.guarded("fix", lambda: fix.begin(process), vital=False)
    if varied:
        from . import turns, vary

        process.guarded("vary", lambda: vary.begin(process), vital=False)
        process.guarded("turns", lambda: turns.begin(process), vital=False)
    if process.turn is not None:
        tables.append(finder.TURNS)
    if os.environ.get("ENVBUILD_DIAGNOSE") == "1":
        from . import entropy

        process.guarded("entropy", lambda: entropy.begin(process), vital=False)
    finder.install(process, *tables)
    if process.own_wait:
        from . import turns

        turns.wait(process.own_wait)


def _number(text: str) -> int:
    """Return the number that a text begins with, 0 if it is none that is used."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return int(digits) if len(digits) in range(1, 5) else 0
