"""jsonargparse (and LightningCLI, which is built on it): the configuration that its parser returns."""

from __future__ import annotations

from ..parameters import COMMAND, CONFIG, DEFAULT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Wrap ``parse_args``, which does not go through argparse's methods."""
    parser = module.ArgumentParser
    original = parser.parse_args
    active: list[Any] = []

    def parse_args(self: Any, args: Any = None, *rest: Any, **options: Any) -> Any:
        outermost = not active
        active.append(self)
        try:
            result = original(self, args, *rest, **options)
        finally:
            active.pop()
        if outermost:
            process.guarded("jsonargparse", lambda: _record(self, args, result, process), vital=False)
        return result

    parse_args.__wrapped__ = original  # type: ignore[attr-defined]
    parse_args.__doc__ = original.__doc__
    parser.parse_args = parse_args


def _record(parser: Any, args: Any, result: Any, process: Process) -> None:
    import sys

    typed = [argument.lstrip("-").partition("=")[0] for argument in (sys.argv[1:] if args is None else args)]
    if process.parameters.add("jsonargparse", parser.prog, _values(parser, result, set(typed))):
        process.write()


def _values(parser: Any, result: Any, typed: set[str]) -> Iterator[tuple[str, Any, str]]:
    """Compare with the defaults: what was not typed and differs came from a file or a variable."""
    from ..parameters import flat, plain

    defaults = {name: plain(value) for name, value in flat("", parser.get_defaults(skip_validation=True).as_dict())}
    for name, value in flat("", result.as_dict()):
        if name.startswith("__"):
            continue
        parts = name.split(".")
        if any(".".join(parts[: count + 1]) in typed for count in range(len(parts))):
            source = COMMAND
        else:
            source = DEFAULT if name in defaults and defaults[name] == plain(value) else CONFIG
        yield name, value, source
