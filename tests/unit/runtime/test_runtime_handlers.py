"""What a signal's handler raises within the hook is the program's (hook/handlers.py)."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuild.runtime.hook import observer
from envbuild.runtime.hook.handlers import is_programs


def _raise(*_: Any) -> None:
    raise TimeoutError("the program's")


def _reset_and_raise(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise TimeoutError("the program's")


def _late(_first: str, number: int, *_rest: object, word: int = 1) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise TimeoutError("the program's", word)


def _reset_and_raise_any(*given: Any) -> None:
    _reset_and_raise(*given)


class Handler:
    """Handlers that are no functions."""

    def method(self, *arguments: Any) -> None:
        """Raise."""
        _raise(*arguments)

    def __call__(self, *arguments: Any) -> None:
        """Raise."""
        _raise(*arguments)


@pytest.fixture
def handled() -> Iterator[Callable[[Any], None]]:
    """Set the handler of a signal for a test."""
    before = signal.getsignal(signal.SIGUSR1)

    def handle(handler: Any) -> None:
        signal.signal(signal.SIGUSR1, handler)

    yield handle
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "handler",
    [
        _raise,
        Handler().method,
        Handler(),
        functools.partial(_raise, 1),
        _reset_and_raise,
        _reset_and_raise_any,
        lambda *given: _reset_and_raise(*given),
        functools.partial(_late, "first"),
    ],
)
def test_what_a_handler_raises_is_the_programs(handler: Any, handled: Callable[[Any], None]) -> None:
    """Whatever is called, however deep in the hook."""
    handled(handler)
    with pytest.raises(TimeoutError) as found:
        signal.raise_signal(signal.SIGUSR1)
    assert is_programs(found.value)


def test_other_exceptions_are_not(handled: Callable[[Any], None]) -> None:
    """They are the hook's, or a library's that it asks."""
    handled(signal.SIG_IGN)
    with pytest.raises(TimeoutError) as found:
        _raise()
    assert not is_programs(found.value)
    assert not is_programs(ValueError())


def test_calls_that_look_at_their_callers_are_not(handled: Callable[[Any], None]) -> None:
    """A frame alone makes no handler: tools that look at stacks have one too."""
    handled(signal.SIG_IGN)

    def looks(frame: object) -> None:
        raise TimeoutError(frame)

    def looked(*, frame: object, number: int) -> None:
        raise TimeoutError(frame, number)

    for call in (lambda: looks(sys._getframe()), lambda: looked(frame=sys._getframe(), number=1)):
        with pytest.raises(TimeoutError) as found:
            call()
        assert not is_programs(found.value)


def test_a_limit_of_time_reaches_the_program_out_of_a_look_at_a_file(
    handled: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's own faults do not."""
    watch = observer.Observer(lambda: None, str(tmp_path))

    def digest(path: str, limit: int) -> dict[str, Any]:
        signal.raise_signal(signal.SIGUSR1)
        raise ValueError(path, limit)

    monkeypatch.setattr(observer, "digest_file", digest)
    handled(_raise)
    with pytest.raises(TimeoutError):
        watch.look(str(tmp_path / "a.json"), ("a.json", "r", 0))
    handled(lambda *_: None)
    watch.look(str(tmp_path / "a.json"), ("a.json", "r", 0))
    assert watch.left_out == 1
