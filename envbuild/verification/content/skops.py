"""Models as skops writes them, which names objects and members of the archive by addresses (``skops/io/_utils.py``).

They are numbered instead, in the order in which the schema has them, so that what is shared stays shared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envbuild.core.patterns import lazy

SCHEMA = "schema.json"
_VERSION = b'"_skops_version"'
_OBJECT, _FILE = "__id__", "file"
_NAMED = lazy(r"(?:\d+|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})(?P<suffix>\.(?:npy|npz|bin))")
"""Members of arrays have the address of theirs as their names, those of bytes a UUID."""


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """A schema without addresses.

    Attributes:
        schema: it.
        members: new names of members, by those they have.
    """

    schema: bytes
    members: Mapping[str, str]


def numbered(schema: bytes, members: Sequence[str]) -> Numbered | None:
    """Return a schema with numbers in the place of addresses; None if it is none that skops wrote.

    Args:
        schema: the member ``schema.json``.
        members: the names of all members.
    """
    if _VERSION not in schema:
        return None
    try:
        found = json.loads(schema)
        if not isinstance(found, dict) or json.dumps(found, indent=2).encode() != schema:
            return None  # twice the same key, say: nothing is left out of what is not understood
        names = _Names(members=frozenset(members))
        return Numbered(schema=json.dumps(names.of(found), indent=2).encode(), members=names.files)
    except (ValueError, RecursionError):
        return None


@dataclass(kw_only=True)
class _Names:
    members: frozenset[str]
    objects: dict[int, int] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def of(self, value: Any) -> Any:
        """Return a value with numbers for addresses."""
        if isinstance(value, list):
            return [self.of(each) for each in value]
        if isinstance(value, dict):
            return {key: self._entry(key, each) for key, each in value.items()}
        return value

    def _entry(self, key: str, value: Any) -> Any:
        if key == _OBJECT and type(value) is int:
            return self.objects.setdefault(value, len(self.objects))
        named = _NAMED.fullmatch(value) if key == _FILE and isinstance(value, str) else None
        if named is not None and value in self.members:
            return self.files.setdefault(value, f"{len(self.files)}{named['suffix']}")
        return self.of(value)
