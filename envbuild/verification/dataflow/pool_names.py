"""Names that pools give their threads, by the sources of a program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from envbuild.verification.dataflow.targets import parsed


def pool_names(sources: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern of the names that pools give their threads, by ``thread_name_prefix``; None if none does.

    Which of a pool's threads comes to a task is luck.
    """
    prefixes = {
        keyword.value.value
        for source in sources
        if "thread_name_prefix" in source
        for node in ast.walk(parsed(source) or ast.Module([], []))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "thread_name_prefix"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
        and keyword.value.value
    }
    if not prefixes:
        return None
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, sorted(prefixes)))})_\d+(?![A-Za-z0-9_])")
