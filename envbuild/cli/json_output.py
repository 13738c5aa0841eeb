"""Refusals as JSON, for commands whose answer may be a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from envbuild.cli.console import Console
from envbuild.errors import IntegrityError, LockError


@contextmanager
def json_error_output(console: Console, **facts: str) -> Iterator[None]:
    """Print the refusal as JSON too: with ``--json`` there is an object whatever the answer is.

    Args:
        facts: further members of the object.
    """
    try:
        yield
    except (LockError, IntegrityError) as error:
        first, *rest = error.message.splitlines()
        console.result({**facts, "fresh": False, "reasons": [line.strip() for line in rest or [first]]})
        raise
