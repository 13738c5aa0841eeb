"""absl.flags: every flag after parsing; those that absl itself defines only where they were given."""

from __future__ import annotations

from ..parameters import COMMAND, DEFAULT, PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process


def set_up(module: Any, process: Process) -> None:
    """Wrap the call that parses; ``app.run`` ends there too."""
    original = module.FlagValues.__call__

    def __call__(self: Any, argv: Any, known_only: bool = False) -> Any:  # noqa: N807 - replaces a method
        result = original(self, argv, known_only)
        process.guarded("absl.flags", lambda: _record(self, argv, process), vital=False)
        return result

    __call__.__wrapped__ = original  # type: ignore[attr-defined]
    __call__.__doc__ = original.__doc__
    module.FlagValues.__call__ = __call__


def _record(flags: Any, argv: Any, process: Process) -> None:
    for argument in argv[1:]:
        name, _, path = argument.lstrip("-").partition("=")
        if name == "flagfile" and path:
            process.observer.read_config(path)
    if process.parameters.add("absl", str(argv[0]).rpartition("/")[2], _values(flags)):
        process.write()


def _values(flags: Any) -> Iterator[tuple[str, Any, str]]:
    own = {
        flag.name
        for module, defined in flags.flags_by_module_dict().items()
        if module.partition(".")[0] == "absl"
        for flag in defined
    }
    for name in sorted(flags):
        flag = flags[name]
        if flag.short_name == name or (name in own and not flag.present):
            continue
        source = COMMAND if flag.present else DEFAULT if flag.using_default_value else PROGRAM
        yield name, flag.value, source
