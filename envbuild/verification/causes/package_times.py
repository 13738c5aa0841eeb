"""Where a program lets a package's clock decide: ages after which things are forgotten, durations that it reads."""

from __future__ import annotations

import ast

from envbuild.core.patterns import lazy
from envbuild.verification.dataflow.targets import is_none, last_name, parsed

_AGE = lazy(
    r"(?:ttl|expires?(?:_in|_after|_at)?|expiry|expiration|max_age|lifetime|time_to_live|time_?idle)"
    r"(?:_s|_sec|_seconds|_ms)?\Z"
)
"""Arguments that are an age."""
_LIMITS = frozenset(("stop_after_delay", "stop_before_delay"))
"""Functions by which packages end what they do after a time: tenacity's."""
_READ = lazy(
    r"(?:.*_)?(?:times?|durations?|elapsed|latency|runtime|walltime|wall_time|seconds)(?:_(?:s|ms|sec|seconds|total))?\Z"
)
"""Keys and attributes under which packages give what they have measured."""


def given_ages(source: str) -> dict[int, str]:
    """Return the lines that give a call an age, or a limit of time, with what is given: ``expire=``."""
    tree = parsed(source)
    found: dict[int, str] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call):
            for word in node.keywords:
                if _AGE.match(word.arg or "") and not is_none(word.value):
                    found.setdefault(word.value.lineno, f"{word.arg}=")
            if last_name(node.func) in _LIMITS:
                found.setdefault(node.lineno, f"{last_name(node.func)}()")
    return found


def read_durations(source: str) -> tuple[int, ...]:
    """Return the lines that read what is named as a duration: ``results["mean_fit_time"]``, ``trial.duration``."""
    tree = parsed(source)
    found: set[int] = set()
    imported = {
        alias.asname or alias.name
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            key = getattr(node.slice, "value", None)
            if isinstance(key, str) and _READ.match(key):
                found.add(node.lineno)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Load)
            and _READ.match(node.attr)
            and last_name(node.value) not in imported
        ):
            found.add(node.lineno)
    return tuple(sorted(found))
