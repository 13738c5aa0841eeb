"""Several transfers at once: order, failures, interrupts."""

from __future__ import annotations

import _thread
import threading

import pytest

from envbuild.net.pool import StoppedError, run_all


def test_results_come_in_the_order_of_the_calls() -> None:
    """However many threads there are."""
    for threads in (1, 3, 50):
        assert run_all([lambda n=n: n * n for n in range(20)], threading.Event(), threads) == [n * n for n in range(20)]
    assert run_all([], threading.Event(), 3) == []


def test_the_first_failure_ends_the_others() -> None:
    """The others see the event and raise; what is reported is the failure, not that others were stopped."""
    stop, begun = threading.Event(), threading.Event()

    def patient() -> None:
        begun.set()
        stop.wait()
        raise StoppedError

    def failing() -> None:
        begun.wait()
        raise ValueError("full")

    with pytest.raises(ValueError, match=r"^full$"):
        run_all([patient, failing, patient], stop, 2)


def test_an_interrupt_does_not_wait() -> None:
    """Ctrl-C ends the call although a thread waits for a server that never answers."""
    stop, answered = threading.Event(), threading.Event()

    def interrupting() -> None:
        _thread.interrupt_main()
        answered.wait()

    with pytest.raises(KeyboardInterrupt):
        run_all([answered.wait, interrupting], stop, 2)
    assert stop.is_set()
    answered.set()
