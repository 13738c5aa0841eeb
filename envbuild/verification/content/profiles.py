"""Profiles that are samples, as pyinstrument writes them: which functions are in them, and how often, is a measurement.

Source: pyinstrument/session.py (``Session.to_json``), pyinstrument/renderers/html.py.
"""

from __future__ import annotations

import json
import re
from typing import Any

from envbuild.verification.content.canonical import Canonical, below

_KNOWN = frozenset(("target_description", "sys_path", "sys_prefixes"))
_SAMPLED = ("start_time", "duration", "sample_count", "start_call_stack")
_FURTHER = ("cpu_time", "root_frame", "frame_records", "min_interval", "max_interval")
_RENDERED = frozenset((*_SAMPLED[:3], "target_description", "root_frame"))
"""What its renderer for JSON writes."""
_DATA = re.compile(r"(?m)^(\s*const sessionData = )(\{.*\});?$")
"""In the page that pyinstrument writes."""
_TREE, _FRAME = "frame_tree", frozenset(("identifier", "time", "attributes", "children"))
"""What is made of the session, next to it, and what each frame there has."""


def is_profile_of_samples(table: Any) -> bool:
    """Whether a JSON text is a session of pyinstrument."""
    return isinstance(table, dict) and (table.keys() >= _KNOWN | {*_SAMPLED} or table.keys() >= _RENDERED)


def without_samples(out: Canonical, path: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return a session without what was sampled, which is left out."""
    sampled = {name: table[name] for name in (*_SAMPLED, *_FURTHER) if name in table}
    out.leave_out(below(path, "samples"), json.dumps(sampled, default=str), "profile")
    return {name: value for name, value in table.items() if name not in sampled}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a table; raises ``ValueError`` if a name is in it twice, of which the first one would be lost."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name twice")
    return table


def _is_tree(value: Any) -> bool:
    """Whether all of a value is what pyinstrument measures of a call and of those that it makes; null if of none."""
    left = [] if value is None else [value]
    for each in left:
        if not isinstance(each, dict) or each.keys() != _FRAME or not isinstance(each["children"], list):
            return False
        left += each["children"]
    return True


def without_data(out: Canonical, path: str, text: str) -> str:
    """Return a page of pyinstrument without the session in it."""

    def left_out(found: re.Match[str]) -> str:
        try:
            data = json.loads(found[2], object_pairs_hook=_distinct)
        except (ValueError, RecursionError):
            return found[0]
        if not isinstance(data, dict) or not is_profile_of_samples(data.get("session")):
            return found[0]
        kept = {"session": without_samples(out, path, data["session"])}
        tree = {name: data[name] for name in (_TREE,) if name in data and _is_tree(data[name])}
        out.leave_out(below(path, "tree"), json.dumps(tree), "profile")
        kept |= {name: value for name, value in data.items() if name not in kept and name not in tree}
        return f"{found[1]}⟨profile⟩ {json.dumps(kept)}"

    return _DATA.sub(left_out, text)
