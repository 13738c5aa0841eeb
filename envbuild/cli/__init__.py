"""The command line: parse, wire, call, print. The only place that turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/exit-codes.md).

    Args:
        arguments: the command line without the program's name; this process's own by default.
    """
    import errno

    from envbuild.errors import EnvbuildError

    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from envbuild.cli.app import invoke

        return invoke(arguments)
    except EnvbuildError as error:
        from envbuild.cli.console import print_error

        print_error(error.message, error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        print("envbuild: interrupted; nothing half-written was kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away (`envbuild runs | head`): that is no fault of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _unexpected(error)
        from envbuild.cli.console import print_error

        print_error(
            f"no space left on device{f': {error.filename}' if error.filename else ''}", "free some, then rerun"
        )
        return 14
    except Exception as error:
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    """Report a bug: the traceback, and what to send to whom."""
    import platform
    import traceback

    from envbuild import __version__

    traceback.print_exception(error)
    print(
        f"envbuild: unexpected fault: {type(error).__name__}: {error}\n"
        f"  This is a bug in envbuild {__version__} (Python {platform.python_version()}, {platform.platform()}).\n"
        "  → report it with the lines above and the command you typed",
        file=sys.stderr,
    )
    return 1
