"""Calls that end before an interrupt does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from envbuild.core import leftovers
from envbuild.core.uninterrupted import uninterrupted


@pytest.fixture(name="interrupts")
def _interrupts(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have this thread be the main one, and return what interrupts it twice while it waits."""
    came, heard = threading.Semaphore(0), threading.Semaphore(0)
    wait = threading.Event.wait

    def waited(event: Any, timeout: float | None = None) -> bool:
        if timeout is not None:
            return wait(event, timeout)
        while not came.acquire(timeout=0.01):  # a call that interrupts is not over before both were heard
            if event.is_set():
                return True
        heard.release()
        raise KeyboardInterrupt

    def interrupt() -> None:
        assert leftovers._EXPECTED
        for _ in range(2):
            came.release()
            heard.acquire()

    monkeypatch.setattr(threading, "main_thread", threading.current_thread)
    monkeypatch.setattr(threading.Event, "wait", waited)
    return interrupt


def _refused() -> str:
    raise ValueError("not made")


def test_what_is_made_meanwhile_is_known(interrupts: Callable[[], None]) -> None:
    """The interrupt comes with the result, so that this can be undone first; without one there is none."""
    made, interrupt = uninterrupted(lambda: interrupts() or "made")
    assert (made, type(interrupt)) == ("made", KeyboardInterrupt)
    assert uninterrupted(lambda: 1) == (1, None)
    assert not leftovers._EXPECTED


def test_a_call_that_fails(interrupts: Callable[[], None]) -> None:
    """Its error comes out; if it was interrupted, the interrupt does."""
    with pytest.raises(ValueError, match="not made"):
        uninterrupted(_refused)
    with pytest.raises(KeyboardInterrupt):
        uninterrupted(lambda: interrupts() or _refused())
    assert not leftovers._EXPECTED


def test_in_another_thread_it_is_called_there() -> None:
    """No interrupt comes to it."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(uninterrupted(threading.current_thread)))
    thread.start()
    thread.join()
    assert found == [(thread, None)]
