"""The command line: which module has which command, and one way to invoke them.

A command line needs one command: its module alone is imported, and typer reads its options alone. Help and completion
list all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from envbuild.cli.console import losing_stderr
from envbuild.cli.options import app

if TYPE_CHECKING:
    from typer.models import CommandInfo

_COMMANDS = {
    **dict.fromkeys(("init", "schema", "lock", "fetch"), "lock"),
    **dict.fromkeys(("build", "context", "image"), "build"),
    **dict.fromkeys(("push", "pull", "inspect"), "registry"),
    "run": "run",
    **dict.fromkeys(("submit", "manifest"), "submit"),
    "verify": "compare",
    **dict.fromkeys(("check", "probe", "runs", "show"), "run"),
    **dict.fromkeys(("diff", "report"), "compare"),
    **dict.fromkeys(("sbom", "sign"), "trust"),
    "ci": "ci",
}
"""Module of each command, in the order of the help: that of a project's life. Groups of commands are not among them."""


def whole() -> typer.Typer:
    """Return the program with all its commands, in the order of the help."""
    from envbuild.cli.commands import build, ci, compare, lock, registry, run, store, submit, trust  # noqa: F401

    order = list(_COMMANDS)
    app.registered_commands.sort(key=lambda command: order.index(_name(command)))
    return app


def _program_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the program with the command that a command line names; with all of them if it names none."""
    module = _COMMANDS.get(arguments[0]) if arguments else None
    if module is None:
        return whole()
    import_module(f"envbuild.cli.commands.{module}")
    one = copy(app)
    one.registered_groups = []
    one.registered_commands = [command for command in app.registered_commands if _name(command) == arguments[0]]
    return one


def _name(command: CommandInfo) -> str:
    return command.name or command.callback.__name__  # type: ignore[union-attr]


def invoke(arguments: Sequence[str]) -> int:
    """Parse and run a command line; returns the exit code, raises ``EnvbuildError`` and what it does not expect."""
    usage_error = typer.BadParameter.__mro__[2]  # ClickException: typer gives it no public name
    try:
        result = _program_for(arguments)(args=list(arguments), prog_name="envbuild", standalone_mode=False)
    except typer.Exit as request:
        return request.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if not isinstance(error, usage_error):
            raise
        with losing_stderr():
            error.show()  # type: ignore[attr-defined]
        return 2
    except SystemExit as request:
        # Typer ends the process by itself when the reader of standard output has gone away.
        if isinstance(request.__context__, BrokenPipeError):
            raise request.__context__ from None
        raise
    return result if isinstance(result, int) else 0


def _print_version(wanted: bool) -> None:
    if wanted:
        from envbuild import __version__

        print(f"envbuild {__version__}")
        raise typer.Exit()


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
