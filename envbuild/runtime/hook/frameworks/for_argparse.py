"""argparse: the namespace after the outermost parse, with which of its values the command line gave.

``parse_args``, ``parse_intermixed_args``, subparsers and most libraries built on argparse end in the two methods that
are wrapped; ``_get_values`` is called for each action that meets an argument (Lib/argparse.py, 3.10 to 3.14), and
distinguishes a value that was typed from an equal default.
"""

from __future__ import annotations

import sys
from _thread import _local  # what threading.local is

from ..parameters import COMMAND, CONFIG, DEFAULT, ENVIRONMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..process import Process

_OWN = ("hydra", "fire")
"""Libraries whose own options argparse reads; what they give the program is recorded by their modules."""
_METHODS = ("parse_known_args", "parse_known_intermixed_args")


class _Parse(_local):
    """The outermost parse of a thread: the names that met an argument; None outside."""

    given: set[str] | None = None


def set_up(module: Any, process: Process) -> None:
    """Wrap the parser's class."""
    state = _Parse()
    _watch_actions(module.ArgumentParser, state)
    for name in _METHODS:
        _watch_parse(module.ArgumentParser, name, state, process)


def _watch_actions(parser: Any, state: _Parse) -> None:
    original = parser._get_values

    def _get_values(self: Any, action: Any, arguments: Any) -> Any:
        if state.given is not None and (action.option_strings or [part for part in arguments if part != "--"]):
            state.given.add(action.dest)
        return original(self, action, arguments)

    _replace(parser, "_get_values", original, _get_values)


def _watch_parse(parser: Any, name: str, state: _Parse, process: Process) -> None:
    original = getattr(parser, name)

    def parse(self: Any, args: Any = None, namespace: Any = None, **options: Any) -> Any:
        if state.given is not None or _is_own(sys._getframe(1)):
            return original(self, args, namespace, **options)
        before = set(vars(namespace)) if hasattr(namespace, "__dict__") else set()
        given: set[str] = set()
        state.given = given
        try:
            result = original(self, args, namespace, **options)
        finally:
            state.given = None
        process.guarded("argparse", lambda: _record(self, result[0], given, before, args, process), vital=False)
        return result

    _replace(parser, name, original, parse)


def _replace(parser: Any, name: str, original: Any, new: Any) -> None:
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(new, attribute, getattr(original, attribute, None))
    new.__wrapped__ = original
    setattr(parser, name, new)


def _is_own(frame: Any) -> bool:
    """Return whether one of those libraries called argparse."""
    while frame is not None and frame.f_globals.get("__name__") == "argparse":
        frame = frame.f_back
    name = frame.f_globals.get("__name__") if frame is not None else None
    return isinstance(name, str) and name.partition(".")[0] in _OWN


def _record(parser: Any, namespace: Any, given: set[str], before: set[str], args: Any, process: Process) -> None:
    """Remember a namespace, and the files that arguments were read from."""
    prefixes = parser.fromfile_prefix_chars or ""
    for argument in sys.argv[1:] if args is None else args:
        if isinstance(argument, str) and argument[:1] and argument[0] in prefixes:
            process.observer.read_config(argument[1:])
    values = _values(parser, namespace, given, before, process)
    if process.parameters.add("argparse", parser.prog, values):
        process.write()


def _values(
    parser: Any, namespace: Any, given: set[str], before: set[str], process: Process
) -> Iterator[tuple[str, Any, str]]:
    """Yield names, values and sources in the order of the namespace."""
    elsewhere = _elsewhere(parser)
    for name, value in vars(namespace).items():
        if name.startswith("_"):
            continue
        if name in elsewhere:
            source = elsewhere[name]
        elif name in given:
            source = COMMAND
        elif name in before:
            source = process.parameters.source(name, value)
        else:
            source = DEFAULT
        yield name, value, source


def _elsewhere(parser: Any) -> dict[str, str]:
    """Return what ConfigArgParse took from files and the environment; it hands all of that on as arguments."""
    found: dict[str, str] = {}
    for source, settings in (getattr(parser, "_source_to_settings", None) or {}).items():
        kind = {"environment_variables": ENVIRONMENT}.get(source, CONFIG if source.startswith("config_file") else "")
        for action, _ in settings.values() if kind else ():
            if action is not None:
                found[action.dest] = kind
    return found
