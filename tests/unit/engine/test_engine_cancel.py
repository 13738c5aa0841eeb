"""Ending what nobody waits for any more."""

from __future__ import annotations

import threading

from envbuild.engine.cancel import ended_early


def test_what_is_unwanted_is_ended() -> None:
    """``end`` is called from another thread while the block still waits; never after it, and not without need."""
    unwanted, ended = threading.Event(), threading.Event()
    with ended_early(unwanted, ended.set):
        unwanted.set()
        assert ended.wait(60)
    calls: list[int] = []
    unwanted.clear()
    with ended_early(unwanted, lambda: calls.append(1)):
        pass
    unwanted.set()
    with ended_early(None, lambda: calls.append(2)):
        pass
    assert calls == []
