"""What CatBoost notes in its files: how long iterations took, a drawn identity of a model and when it was trained.

Source: what ``catboost`` 1.2 writes. Its times are taken in C++, where no experiment with a clock reaches them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import Canonical, below, day

MODEL = b"CBM1"
TIME_LEFT = ("iter", "Passed", "Remaining")
"""Columns of ``catboost_info/time_left.tsv``; the times are in milliseconds."""
_TIMES = frozenset(("passed_time", "remaining_time"))
_ITERATION = _TIMES | {"iteration"}
_EVALUATED = frozenset(("learn", "test"))
_IDENTITY = lazy(rb"[\x1c-\x23]\0\0\0[0-9a-f]{1,8}(?:-[0-9a-f]{1,8}){3}\0{1,8}(?=\x0a\0\0\0(?P<name>model_guid)\0)")
"""Four numbers without leading zeros. Before a text, FlatBuffers have its length; behind it, zeros."""
_FINISHED = lazy(
    rb"\x14\0\0\0(?P<year>20\d\d)-(?P<month>\d\d)-(?P<day>\d\d)T[\d:]{8}Z\0{1,8}(?=\x11\0\0\0(?P<name>train_finish_time)\0)"
)


def is_time_of_iteration(key: str, siblings: Iterable[str]) -> bool:
    """Whether a number is how long CatBoost took, or will take, as of an iteration (``catboost_training.json``).

    Under such names alone it may be a result: how long something remains is predicted too.
    """
    if key not in _TIMES:
        return False  # before all names are looked at: a table may have many numbers
    names = {*siblings}
    return names >= _ITERATION and bool(names & _EVALUATED) and names <= _ITERATION | _EVALUATED


def read_model(out: Canonical, path: str, data: bytes) -> None:
    """Read a model: all of its bytes but for its identity, and for the date if that is about when the run was."""
    for pattern in (_IDENTITY, _FINISHED):
        data = pattern.sub(partial(_left_out, out, path), data)
    out.add(path, data)


def _left_out(out: Canonical, path: str, found: re.Match[bytes]) -> bytes:
    parts = found.groupdict()
    kind = "identity"
    if "year" in parts:
        moment = day(*(int(parts[each]) for each in ("year", "month", "day")))
        if moment is None or not out.is_moment(moment):
            return found[0]
        kind = "time"
    out.leave_out(below(path, parts["name"].decode()), found[0], kind)
    return b"/masked"
