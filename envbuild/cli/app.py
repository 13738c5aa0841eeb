"""The command line: every command registered, in the order of the help, and one way to invoke them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from envbuild.cli.commands import build, ci, compare, lock, registry, run, store, submit, trust
from envbuild.cli.options import app

__all__ = ["app", "build", "ci", "compare", "invoke", "lock", "registry", "run", "store", "submit", "trust"]

_ORDER = (
    *("init", "schema", "lock", "fetch", "build", "context", "image", "push", "pull", "inspect"),
    *("run", "submit", "manifest", "verify", "check", "probe", "runs", "show", "diff", "report", "sbom", "sign", "ci"),
)
"""Commands in the order of the help: that of a project's life, whatever module registers them."""

app.registered_commands.sort(key=lambda command: _ORDER.index(command.name or command.callback.__name__))  # type: ignore[union-attr]


def invoke(arguments: Sequence[str]) -> int:
    """Parse and run a command line; returns the exit code, raises ``EnvbuildError`` and what it does not expect."""
    usage_error = typer.BadParameter.__mro__[2]  # ClickException: typer gives it no public name
    try:
        result = app(args=list(arguments), prog_name="envbuild", standalone_mode=False)
    except typer.Exit as request:
        return request.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if not isinstance(error, usage_error):
            raise
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
