"""The image's entry point: check, then become the command.

Usage (fixed in the image): ``PYTHON -I -S -B /opt/envbuild/guard.py COMMAND [ARGUMENT…]``. If the container does
not match the lock: a table on standard error, ``verdict.json`` in /run/envbuild, exit 78, and the command has
not been started. Otherwise the guard *becomes* the command (``execvp``): same process, nothing stays behind.

Only when the guard is process 1 of its PID namespace does it stay, as a minimal init: the kernel ignores signals
that process 1 has no handler for, so a program started as process 1 could not be stopped with SIGTERM, and orphans
would stay zombies. It then forwards signals, reaps, and exits as the command did. With ``docker run --init`` (or
Kubernetes' shared process namespace, or Apptainer) there is a process 1 already and the guard is gone.
"""

from __future__ import annotations

import os
import sys

from . import gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NOT_EXECUTABLE, NOT_FOUND, INTERRUPTED = 126, 127, 130


def main(arguments: Sequence[str]) -> int:
    """Check, then run the command; returns only if refused, interrupted, not started, or run under this init."""
    try:
        passed = gate.pass_or_refuse("entrypoint")
    except KeyboardInterrupt:  # no fault, and nobody's traceback
        return INTERRUPTED
    if not passed:
        return gate.REFUSED
    command = list(arguments) or ["python"]
    if os.getpid() == 1:
        from . import init

        return init.supervise(command, start)
    return start(command)


def start(command: Sequence[str]) -> int:
    """Become the command; returns the shell's code (126, 127) with a message if that is not possible."""
    restore_signals()
    try:
        os.execvp(command[0], list(command))
    except FileNotFoundError:
        hint = f" — perhaps: python {command[0]}" if command[0].endswith(".py") else ""
        gate.say(f"envbuild: {command[0]}: command not found{hint}\n")
        return NOT_FOUND
    except OSError as error:
        hint = f" — perhaps: python {command[0]}" if command[0].endswith(".py") else ""
        gate.say(f"envbuild: {command[0]}: {error.strerror}{hint}\n")
        return NOT_EXECUTABLE


def restore_signals() -> None:
    """Undo the signals that Python ignores at start: an ignored signal stays ignored across ``exec``."""
    import _signal  # type: ignore[import-not-found]

    for name in ("SIGPIPE", "SIGXFSZ"):
        _signal.signal(getattr(_signal, name), _signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
