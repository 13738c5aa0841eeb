"""Types that several threads decode are read by msgspec before there are threads."""

from __future__ import annotations

import subprocess
import sys
from threading import Thread

import pytest

from envbuild.core import types

_PROGRAM = """
import sys, threading, types
import msgspec
from envbuild.core.types import prepare_types

sys.setswitchinterval(1e-6)
SOURCE = '''
from __future__ import annotations
import msgspec
from typing import Literal
class Inner(msgspec.Struct):
    word: Literal["x", "y"] = "x"
    table: dict[str, Literal["q", "r"]] = {}
class Outer(msgspec.Struct):
    one: Inner | None = None
    many: tuple[Inner, ...] = ()
'''
for number in range(100):
    module = sys.modules[f"made{number}"] = types.ModuleType(f"made{number}")
    exec(SOURCE, module.__dict__)
    prepare_types(module.Outer)
    start = threading.Barrier(3)

    def decode():
        start.wait()
        msgspec.convert({"one": {"word": "y"}, "many": [{"table": {"k": "q"}}]}, module.Outer)

    threads = [threading.Thread(target=decode) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


@pytest.mark.subprocess
def test_prepared_types_are_safe_in_threads() -> None:
    """Without it this program ends by a segmentation fault (msgspec 0.22): three threads use a type first, at once."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_types_that_are_read_late_are_read_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, in whatever thread is first; without ``defer`` at once."""
    read: list[object] = []
    monkeypatch.setattr(types, "_deferred", None)
    monkeypatch.setattr(types, "prepare_types", lambda *kinds: read.extend(kinds))
    types.prepare_late(int)
    assert read == [int]
    types.defer()
    types.prepare_late(str, bytes)
    assert read == [int]
    threads = [Thread(target=types.prepare_deferred) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [int, bytes, str]


def test_what_could_not_be_read_is_read_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory may have run out."""
    read: list[object] = []

    def prepare(*kinds: object) -> None:
        read.extend(kinds)
        if len(read) == 1:
            raise MemoryError

    monkeypatch.setattr(types, "_deferred", [int])
    monkeypatch.setattr(types, "prepare_types", prepare)
    with pytest.raises(MemoryError):
        types.prepare_deferred()
    types.prepare_deferred()
    assert read == [int, int]
