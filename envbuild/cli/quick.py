"""The common command lines of ``run``, read without typer: importing it takes longer than a short program runs.

What is not in the table below (help, another option, an option without its value, completion) is left to typer, which
also reports it. A test compares the table, and what is read by it, with typer's own (``tests/unit/cli``).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # a run begins before ``typing`` is imported
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

_FLAGS = {
    "--tensors": ("tensors", True),
    "--no-tensors": ("tensors", False),
    "--trace": ("trace", True),
    "--guard": ("guard", True),
    "--no-guard": ("guard", False),
    "--controls": ("controls", True),
    "--no-controls": ("controls", False),
    "--emulate": ("emulate", True),
    "--offline": ("offline", True),
    "--quiet": ("quiet", True),
    "-q": ("quiet", True),
    "--verbose": ("verbose", True),
    "-v": ("verbose", True),
}


def _path(text: str) -> Path:
    from pathlib import Path

    return Path(text)


_VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--lock": ("lock", _path),
    "--variant": ("variant", str),
    "--platform": ("platform", str),
    "--network": ("network", str),
    "--cpus": ("cpus", float),
    "--memory": ("memory", str),
    "--timeout": ("timeout", str),
    "--gpus": ("gpus", str),
    "--image": ("image", str),
    "--require-signature": ("require_signature", str),
}
_LISTS = {
    "--env": "environment",
    "-e": "environment",
    "--mount": "mount",
    "--output": "output",
    "--allow": "allow",
}
OPTIONS = (*_FLAGS, *_VALUES, *_LISTS, "--shell")
"""All options of ``run`` in all their spellings, but for ``--help``."""
_PYTHON = ("-m", "-c")
"""Python's own: they begin the program."""


def read(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of a command line of ``run`` that differ from their defaults; None for typer to read it.

    Args:
        arguments: what follows the program's name.
    """
    if arguments[:1] != ["run"] or "_ENVBUILD_COMPLETE" in os.environ:
        return None
    values: dict[str, Any] = {}
    words = list(arguments[1:])
    while words:
        word = words[0]
        if not word.startswith("-") or (word in _PYTHON and not "".join(words[1:2]).startswith("-")):
            return {**values, "command": words}
        taken = _option(word, words[1:2], values)
        if not taken:
            return None
        del words[:taken]
    return None


def may_be_local(environment: Mapping[str, str]) -> bool:
    """Whether no variable asks for a container engine, so that the local one may be used; says nothing of files."""
    others = (environment.get(name) for name in ("DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CONTEXT"))
    return environment.get("ENVBUILD_ENGINE", "") in ("", "auto", "local") and not any(others)


_LATER = ("msgspec.inspect", "msgspec.msgpack", "msgspec.toml", "msgspec.yaml", "uuid", "decimal")
"""What msgspec imports and a run does not use."""


def load_msgspec() -> None:
    """Import msgspec without ``typing_extensions``, whose import takes 12 ms; Python 3.11 has what it needs of it.

    msgspec imports what makes schemas of types, 1 ms, and for types that no value of envbuild has ``uuid`` and
    ``decimal``, 1.5 ms; of ``datetime`` the part written in C is enough, without the other, 0.8 ms. ``pathlib`` imports
    ``urllib.parse`` for addresses of files, 2 ms, and what knows Windows' paths and patterns of names, 0.6 ms. msgspec
    keeps the ``re.compile`` that it finds, for the 50 patterns of a lock's fields, of which a run needs half: 4 ms.
    """
    if sys.version_info >= (3, 11):
        _load_without_the_rest()


def _load_without_the_rest() -> None:
    names = ("filter", "fnmatch", "fnmatchcase", "translate")
    with _Instead({"urllib.parse": ("quote_from_bytes",), "ntpath": (), "fnmatch": names}):
        import pathlib  # noqa: F401
    import re

    from envbuild.core.patterns import checking

    compiled, re.compile = re.compile, checking  # type: ignore[assignment]
    try:
        if "msgspec" not in sys.modules:
            _load_msgspec_alone()
    finally:
        re.compile = compiled


def _load_msgspec_alone() -> None:
    later: dict[str, Sequence[str]] = dict.fromkeys(_LATER, ())
    later["msgspec._json_schema"] = ("schema", "schema_components")
    with _Instead(later, absent="typing_extensions") as instead:
        for name, kind in (("uuid", "UUID"), ("uuid", "SafeUUID"), ("decimal", "Decimal")):
            if name in instead:  # it only looks whether values are of that class
                setattr(instead[name], kind, type(kind, (), {"unknown": None}))
        if "datetime" not in sys.modules:
            try:
                import _datetime  # type: ignore[import-not-found]
            except ImportError:  # a Python without it
                pass
            else:
                instead["datetime"] = sys.modules["datetime"] = _datetime
        import msgspec  # noqa: F401


class _Instead:
    """Has modules that are imported in the block get others, which import the real ones when they are first used.

    Args:
        names: the modules that are replaced, unless they are loaded, and those of their functions that are taken by
            name.
        absent: a module that is not found in the block, so that another one is taken.
    """

    def __init__(self, names: Mapping[str, Sequence[str]], absent: str = "") -> None:
        self._modules: dict[str, Any] = {
            name: _Late(name, functions) for name, functions in names.items() if name not in sys.modules
        }
        if absent and absent not in sys.modules:
            self._modules[absent] = None

    def __enter__(self) -> dict[str, Any]:
        """Put them into their places; returns them."""
        sys.modules.update(self._modules)
        return self._modules

    def __exit__(self, *error: object) -> None:
        """Take them away again."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


class _Late(type(sys)):  # type: ignore[misc]  # types.ModuleType
    """Imports a module when something of it is used first."""

    def __init__(self, name: str, functions: Sequence[str]) -> None:
        super().__init__(name)
        for each in functions:
            setattr(self, each, self._function(each))

    def _function(self, name: str) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            return self.__getattr__(name)(*arguments, **named)

        return called

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system's questions
            raise AttributeError(name)
        from importlib import import_module

        if sys.modules.get(self.__name__) is self:  # what it is there for needs more than was thought
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _option(word: str, following: Sequence[str], values: dict[str, Any]) -> int:
    """Put an option's value among the others; returns how many words it took, 0 if it is none of the table."""
    if word in _FLAGS:
        name, truth = _FLAGS[word]
        values[name] = truth
        return 1
    option, equals, value = word.partition("=")
    taken = 1 if equals and option.startswith("--") else 2
    if taken == 2:
        option, value = word, "".join(following)
    if not value or value.startswith("-"):
        return 0
    if option in _LISTS:
        values.setdefault(_LISTS[option], []).append(value)
        return taken
    if option not in _VALUES:
        return 0
    name, convert = _VALUES[option]
    try:
        values[name] = convert(value)
    except ValueError:
        return 0
    return taken
