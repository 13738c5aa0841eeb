"""Which line of a program an experiment names (envbuild/runtime/hook/fix_callers.py)."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

from envbuild.runtime.guard import gate
from envbuild.runtime.hook.fix_callers import Callers

PROGRAM = "/workspace/train.py"


def _defined(source: str, file: str, **names: Any) -> Callable[..., Any]:
    """Return the function ``made`` of a source, as if it were in a file."""
    names["__name__"] = file.rpartition("/")[2].removesuffix(".py")
    exec(compile(source, file, "exec"), names)
    made: Callable[..., Any] = names["made"]
    return made


def _entries(callers: Callers) -> list[tuple[str, str, int]]:
    return [(entry["call"], entry["place"], entry["count"]) for entry in callers.as_list()]


def test_what_the_hook_wraps_is_the_programs_own_call() -> None:
    """A call that passes through a wrapper of the hook has the name of what was called, and the program's line."""
    callers = Callers(lambda path: path == PROGRAM, frozenset())
    seed = lambda *_: callers.real("entropy", "random.seed", sys._getframe(1))  # noqa: E731
    noticed = _defined("def made(*a):\n    return original(*a)", f"{gate.PREFIX}/_envbuild/hook/x.py", original=seed)
    main = _defined("\ndef made():\n    seed(None)\n    noticed(None)", PROGRAM, seed=seed, noticed=noticed)
    main()
    assert _entries(callers) == [("random.seed", f"{PROGRAM}:3", 1), ("random.seed", f"{PROGRAM}:4", 1)]


def test_a_function_of_the_library_on_the_way_is_named() -> None:
    """What the program called in the standard library is what it knows; what that asked for is not."""
    callers = Callers(lambda path: path == PROGRAM, frozenset([f"{PROGRAM}:2"]))

    class Watched(random.Random):
        def getrandbits(self, k: int) -> int:
            answers.append(callers.real("entropy", "os.urandom", sys._getframe(1)))
            return 0

    answers: list[bool] = []
    _defined("def made(r):\n    r.randrange(8)\n    r.randrange(8)", PROGRAM)(Watched())
    assert {(name, place) for name, place, _ in _entries(callers)} == {
        ("random.Watched.randrange", f"{PROGRAM}:2"),
        ("random.Watched.randrange", f"{PROGRAM}:3"),
    }
    assert answers == [True, False]  # the first line gets what is real
