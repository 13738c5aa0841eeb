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


def test_files_of_wheels_are_counted_and_some_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """One note for a pair of wheels or a wheel, however many files it is about."""
    console = Console()
    for count in (1, 5):
        names = tuple(f"a/{number}.py" for number in range(count))
        console.report(events.FilesChanged(wheel="a.whl", files=names))
        console.report(events.FilesReplaced(paths=names, loser="a.whl", winner="b.whl"))
    reason = "of which the RECORD in it states another hash; the image's RECORD has that of the file:"
    assert capsys.readouterr().out.splitlines() == [
        f"note      a.whl: 1 file {reason} a/0.py",
        "note      a/0.py of a.whl is replaced by that of b.whl",
        f"note      a.whl: 5 files {reason} a/0.py, a/1.py, a/2.py and 2 more",
        "note      a/0.py and 4 other files of a.whl are replaced by those of b.whl",
    ]
