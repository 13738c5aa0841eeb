"""Effective hyperparameters: what the program's argument parsers gave it, defaults included, and from where.

The modules below ``frameworks`` that know a parser call ``Parameters.add`` right after it has parsed. Values become
plain JSON and are masked here, before anything is written: nested ones get dotted names, long ones are cut and keep the
digest of the whole.
"""

from __future__ import annotations

import sys
from os import PathLike

from ..digest import sha256
from ..masking import MASK, mask_text, secret_parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

    Given = tuple[str, Any, str]
    """A parameter's name, its value, and where that came from."""

DEFAULT = "default"
COMMAND = "command line"
ENVIRONMENT = "environment"
CONFIG = "config file"
PROGRAM = "program"
"""Where a value came from; ``PROGRAM``: the script itself put it there, or answered a prompt."""

SETS = 32
"""How many parsers are remembered."""
NAMES = 500
LENGTH = 512
ITEMS = 100
DEPTH = 6


class Parameters:
    """The parameters of one process, in the order of parsing."""

    def __init__(self) -> None:
        self.sets: list[dict[str, Any]] = []

    def add(
        self,
        parser: str,
        program: str,
        given: Iterable[Given],
        secrets: Collection[str] = (),
        *,
        replace: bool = False,
    ) -> bool:
        """Remember what one parser gave; the same parser with the same names replaces what it gave before.

        Args:
            parser: the library, such as ``argparse``.
            program: what the parser calls the program.
            given: names, values and sources.
            secrets: names whose values the parser itself hides.
            replace: whatever the names are, this is the program's newest configuration.

        Returns:
            True if the record has to be written: programs may parse the same thing a thousand times.
        """
        values: dict[str, Any] = {}
        for whole, value, source in given:
            for name, part in flat(whole, value):
                if len(values) < NAMES:
                    values[name] = [masked(name, plain(part), hide=whole in secrets), source]
        found = {"parser": parser, "program": mask_text(text(program)), "values": values}
        if not values or found in self.sets:
            return False
        self.sets = [entry for entry in self.sets if not _same(entry, found, replace)]
        if len(self.sets) >= SETS:
            return False
        self.sets.append(found)
        return True

    def source(self, name: str, value: Any) -> str:
        """Return where a value came from that an earlier parser gave under the same name: two stages are common."""
        shown = masked(name, plain(value))
        for entry in reversed(self.sets):
            if name in entry["values"]:
                earlier, source = entry["values"][name]
                return str(source) if earlier == shown else PROGRAM
        return PROGRAM

    def as_list(self) -> list[dict[str, Any]]:
        """Return the record's part."""
        return [
            {**entry, "values": {name: _described(*pair) for name, pair in entry["values"].items()}}
            for entry in self.sets
        ]


def flat(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a nested value with dotted names: mappings, namespaces, dataclasses."""
    fields = _fields(value) if depth < DEPTH else None
    if not fields:
        yield name, value
        return
    for key, part in fields.items():
        yield from flat(f"{name}.{key}" if name else str(key), part, depth + 1)


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON has it: never with an address in memory, never longer than ``LENGTH`` characters."""
    if value is None or isinstance(value, bool):
        return value
    if _is_enum(value):
        return text(value.name)
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if type(value) is int:
        return value if -(2**63) <= value < 2**63 else cut(str(value))
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return cut(mask_text(text(value)))
    if depth < DEPTH:
        if isinstance(value, (list, tuple)):
            return _shortened([plain(part, depth + 1) for part in value[: ITEMS + 1]], value)
        if isinstance(value, (set, frozenset)):
            return _shortened(sorted((plain(part, depth + 1) for part in value), key=str), value)
        fields = _fields(value)
        if fields is not None:
            return {str(key): plain(part, depth + 1) for key, part in list(fields.items())[:ITEMS]}
    return cut(mask_text(text(_worded(value))))


def masked(name: str, value: Any, *, hide: bool = False) -> Any:
    """Mask a plain value by its parameter's name or by itself; numbers stay, ``max_token: 512`` is no secret."""
    hide = hide or secret_parameter(name.rpartition(".")[2])
    if isinstance(value, str):
        return MASK if hide and value else mask_text(value)
    if isinstance(value, list):
        return [masked(name, part, hide=hide) for part in value]
    if isinstance(value, dict):
        return {key: masked(key, part, hide=hide) for key, part in value.items()}
    return value


def cut(whole: str) -> str:
    """Shorten a long text; equal texts stay equal, others do not, thanks to the digest."""
    if len(whole) <= LENGTH:
        return whole
    digest = sha256(whole.encode("utf-8", "backslashreplace"))
    return f"{whole[: LENGTH // 2]}… ({len(whole)} characters, sha256 {digest})"


def text(value: str) -> str:
    """Return a text that any JSON reader takes: bytes that were no UTF-8 are written as escapes."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _described(value: Any, source: str) -> dict[str, Any]:
    return {"value": value, "source": source}


def _same(one: dict[str, Any], other: dict[str, Any], whatever: bool) -> bool:
    """Return whether two sets are of one parser."""
    if any(one[key] != other[key] for key in ("parser", "program")):
        return False
    return whatever or set(one["values"]) == set(other["values"])


def _shortened(parts: list[Any], whole: Any) -> list[Any]:
    """Keep the first items, and their number."""
    if len(whole) <= ITEMS:
        return parts
    return [*parts[:ITEMS], f"… ({len(whole)} items)"]


def _fields(value: Any) -> dict[Any, Any] | None:
    """Return the parts of a mapping, a namespace of a parser, a dataclass, an attrs or a pydantic object."""
    if isinstance(value, type):
        return None
    if isinstance(value, dict):
        return value
    kind = type(value)
    for names in (getattr(kind, "__dataclass_fields__", None), getattr(kind, "model_fields", None)):
        if isinstance(names, dict):
            return {name: getattr(value, name, None) for name in names}
    if hasattr(kind, "__attrs_attrs__"):
        return {entry.name: getattr(value, entry.name, None) for entry in kind.__attrs_attrs__}
    if any(base.__name__.endswith("Namespace") for base in kind.__mro__) and hasattr(value, "__dict__"):
        return dict(vars(value))
    return None


def _is_enum(value: Any) -> bool:
    enum = sys.modules.get("enum")
    return enum is not None and isinstance(value, enum.Enum)


def _worded(value: Any) -> str:
    """Return the words for a value that is neither a number nor a text nor made of such."""
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, PathLike):
        return str(value.__fspath__())
    named = getattr(value, "__qualname__", None)
    if isinstance(named, str):
        return f"{getattr(value, '__module__', '')}.{named}".lstrip(".")
    kind = type(value)
    words = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(getattr(value, "name", None), (str, int)) and hasattr(value, "read"):
        return str(value.name)
    silent = all(getattr(kind, name) is getattr(object, name) for name in ("__repr__", "__str__"))
    if silent or hasattr(kind, "__array__"):
        return words
    shown = str(value)
    return words if " at 0x" in shown else shown
