"""click and typer (which carries a copy of click): the parameters of each command, with the source that click names."""

from __future__ import annotations

from ..parameters import COMMAND, CONFIG, DEFAULT, ENVIRONMENT, PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process

_SOURCES = {
    "COMMANDLINE": COMMAND,
    "ENVIRONMENT": ENVIRONMENT,
    "DEFAULT": DEFAULT,
    "DEFAULT_MAP": CONFIG,
    "PROMPT": PROGRAM,
}
"""click.core.ParameterSource; a default map is what programs load from a configuration file."""


def set_up(module: Any, process: Process) -> None:
    """Wrap the step that parses one command's arguments, in click before 8.2 defined by its base class."""
    holder = next(base for base in module.Command.__mro__ if "make_context" in vars(base))
    original = holder.make_context
    library = "typer" if module.__name__.startswith("typer.") else "click"

    def make_context(self: Any, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        context = original(self, info_name, args, parent, **extra)
        process.guarded(library, lambda: _record(library, context, process), vital=False)
        return context

    make_context.__wrapped__ = original  # type: ignore[attr-defined]
    make_context.__doc__ = original.__doc__
    holder.make_context = make_context


def _record(library: str, context: Any, process: Process) -> None:
    if context.resilient_parsing:  # a shell asks for completions
        return
    hidden = {param.name for param in context.command.params if getattr(param, "hide_input", False)}
    if process.parameters.add(library, context.command_path, _values(context), hidden):
        process.write()


def _values(context: Any) -> Iterator[tuple[str, Any, str]]:
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        yield name, value, _SOURCES.get(getattr(source, "name", ""), PROGRAM)
