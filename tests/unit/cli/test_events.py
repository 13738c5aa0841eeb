"""Every event of the use cases has a renderer, and the console prints its lines."""

from __future__ import annotations

import inspect

import pytest

from envbuild.cli.console import Console
from envbuild.cli.render.events import lines
from envbuild.operations import events


def test_every_event_has_a_renderer() -> None:
    """An event that nothing renders would be a fault in the middle of a user's command."""
    kinds = [kind for _, kind in inspect.getmembers(events, inspect.isclass) if issubclass(kind, events.Event)]
    missing = [kind.__name__ for kind in kinds if kind is not events.Event and kind not in lines.registry]
    assert missing == []


def test_a_console_prints_what_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A note is a line on standard output; a detail goes to standard error, and only with ``--verbose``."""
    for verbose in (False, True):
        console = Console(verbose=verbose)
        console.report(events.Note(text="libfoo is old"))
        console.report(events.Detail(text="asked twice"))
    printed = capsys.readouterr()
    assert printed.out == "note      libfoo is old\n" * 2
    assert printed.err == "          asked twice\n"
