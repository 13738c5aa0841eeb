"""Profiles that tools write: what pyinstrument saw when it looked, and how often; the times in DuckDB's.

Sources: pyinstrument/session.py (``Session.to_json``), pyinstrument/renderers/html.py;
duckdb/src/main/query_profiler.cpp, and profiles of DuckDB 1.4 and 2.0.
"""

from __future__ import annotations

import json
import re
from typing import Any

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import Canonical, below
from envbuild.verification.content.json_texts import Number
from envbuild.verification.masking.log_blocks import TIMES_OF_QUERY

_KNOWN = frozenset(("target_description", "sys_path", "sys_prefixes"))
_SAMPLED = ("start_time", "duration", "sample_count", "start_call_stack")
_FURTHER = ("cpu_time", "root_frame", "frame_records", "min_interval", "max_interval")
_RENDERED = frozenset((*_SAMPLED[:3], "target_description", "root_frame"))
"""What its renderer for JSON writes."""
_DATA = lazy(r"(?m)^(\s*const sessionData = )(\{.*\});?$")
"""In the page that pyinstrument writes."""
_TREE, _FRAME = "frame_tree", frozenset(("identifier", "time", "attributes", "children"))
"""What is made of the session, next to it, and what each frame there has."""

_OF_QUERY, _OF_OPERATOR = (
    frozenset(("query_name", "cpu_time", "extra_info", "cumulative_cardinality", "children")),
    frozenset(("operator_type", "operator_timing", "extra_info", "children")),
)
"""What DuckDB 1 has of a query, and of each operator."""
_PARTS, _OF_PART, _OF_SQL = (
    frozenset(("operator", "optimizer", "planner", "query", "system")),
    frozenset(("name", "type", "timing", "extra_info")),
    frozenset(("sql", "cpu_time", "total_time")),
)
"""What DuckDB 2 has: the parts of a profile, and of each operator and of the query in it."""
_OLD_TIMES = lazy(
    r"latency|cpu_time|blocked_thread_time|operator_timing|all_optimizers|cumulative_optimizer_timing"
    r"|planner|planner_binding|physical_planner|(?:physical_planner|optimizer)_[a-z_]+"
)


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


def is_profile_of_query(table: Any) -> bool:
    """Whether a JSON text is what DuckDB writes of a query, by all its operators."""
    if not isinstance(table, dict):
        return False
    if table.keys() >= _PARTS and isinstance(table["query"], dict) and table["query"].keys() >= _OF_SQL:
        operators = _operators(table["operator"])
        return bool(operators) and all(each.keys() >= _OF_PART for each in operators)
    if not table.keys() >= _OF_QUERY:
        return False
    operators = _operators(table["children"])
    return bool(operators) and all(each.keys() >= _OF_OPERATOR for each in operators)


def without_query_times(out: Canonical, path: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return such a profile without its times, which are left out; rows, sizes and all else count."""
    taken: list[tuple[str, str]] = []

    def left_out(part: dict[str, Any], before: str, times: re.Pattern[str]) -> None:
        for name, value in part.items():
            if isinstance(value, Number) and value >= 0 and times.fullmatch(before + name) is not None:
                taken.append((name, value.text))
                part[name] = "⟨time⟩"

    if table.keys() >= _PARTS:
        for name, part in table.items():
            for each in [part] if isinstance(part, dict) else _operators(part) if name == "operator" else []:
                left_out(each, f"{name}.", TIMES_OF_QUERY)
    else:
        for each in (table, *_operators(table["children"])):
            left_out(each, "", _OLD_TIMES)
    out.leave_out(below(path, "times of a query"), json.dumps(taken), "profile")
    return table


def _operators(found: Any) -> list[dict[str, Any]]:
    """Return operators and those below them; an empty one for what is none."""
    left = [found]
    operators: list[dict[str, Any]] = []
    for each in left:
        if isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            operators.append(each)
            left.append(each.get("children"))
        elif each is not None:
            operators.append({})
    return operators
