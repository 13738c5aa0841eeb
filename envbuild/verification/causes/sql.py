"""What a text in SQL asks a database for that is another value in each run: the time, random numbers, threads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envbuild.core.patterns import lazy

SUFFIX = ".sql"
TIME, THREADS, RANDOM = "SQL now", "SQL threads", "SQL random"
_SQL = lazy(r"\b(?:select|insert|update|delete|create\s+table|create\s+view)\b", re.IGNORECASE)
_TIME = lazy(
    r"'now'|\bcurrent_(?:timestamp|date|time)\b|\blocaltime(?:stamp)?\b|\b(?:now|getdate|unixepoch|clock_timestamp)\(\)"
    r"|\bsysdate\b",
    re.IGNORECASE,
)
"""What gives the time in SQL: of SQLite, and of other databases."""
_THREADS = lazy(r"(?i)\bset\s+(?:(?:global|session)\s+)?(?:worker_)?threads\s*(?:to\b|=)\s*(?!1\b)\d")
_RANDOM = lazy(
    r"\b(?:random|rand|newid|uuid|uuidv4|uuidv7|gen_random_uuid)\s*\(\s*\)|\brandomblob\s*\("
    r"|\b(?:using\s+sample|tablesample)\b(?!.*\b(?:repeatable|seed)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""What draws in SQL: of SQLite, DuckDB, PostgreSQL and others, from a generator that is the database's own."""
_SEED = lazy(r"\bsetseed\s*\(", re.IGNORECASE)
"""What seeds it: the ``setseed()`` of DuckDB and PostgreSQL."""


def sets_seed(text: str) -> bool:
    """Return whether a text seeds a database's generator."""
    return _SEED.search(text) is not None


def asked_in(text: str, *, seeded: bool) -> Iterator[tuple[str, int]]:
    """Yield what a text asks for, ``TIME``, ``RANDOM`` or ``THREADS``, with its lines in the text from 0.

    Args:
        text: that may be SQL.
        seeded: the program seeds the database's generator.
    """
    is_query = _SQL.search(text) is not None
    for name, pattern, wanted in (
        (TIME, _TIME, is_query),
        (THREADS, _THREADS, True),
        (RANDOM, _RANDOM, is_query and not seeded),
    ):
        if wanted:
            lines = (text.count("\n", 0, found.start()) for found in pattern.finditer(text))
            yield from ((name, line) for line in dict.fromkeys(lines))
