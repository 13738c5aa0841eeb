"""A run that takes too long is ended, and shows where it hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from envbuild.engine import watchdog
from envbuild.engine.watchdog import Watchdog
from envbuild.errors import UsageError
from envbuild.operations.run_options import parse_output, parse_timeout
from envbuild.runs.time_limit import TimeLimit


class Engine:
    """Notes what is sent to it; the container ends at ``deadly``."""

    def __init__(self, deadly: str) -> None:
        self.deadly, self.sent, self.dead = deadly, [], threading.Event()  # type: ignore[var-annotated]

    def send(self, word: str) -> None:
        self.sent.append(word)
        if word == self.deadly:
            self.dead.set()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are as short as can be; those that end by what happens are minutes."""
    monkeypatch.setattr(watchdog, "_TICK", 0.01)
    monkeypatch.setattr(watchdog, "_PRINTING", 0.01)
    monkeypatch.setattr(watchdog, "_ENDING", 0.01)


@pytest.mark.parametrize(
    ("deadly", "sent"),
    [
        ("SIGTERM", ["stacks", "SIGTERM", "SIGCONT"]),
        ("SIGKILL", ["stacks", "SIGTERM", "SIGCONT", "SIGKILL"]),
    ],
)
def test_a_container_whose_time_is_up_is_ended(deadly: str, sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """All its processes show their stacks, then the program is signalled, then killed if it goes on."""
    engine = Engine(deadly)
    if deadly == "SIGTERM":
        monkeypatch.setattr(watchdog, "_ENDING", 600.0)
    with Watchdog(lambda: 0.0, engine.send, lambda: engine.send("stacks")) as dog:
        assert engine.dead.wait(600)
    assert engine.sent == sent
    assert dog.exceeded == 0.0


def test_what_no_signal_reaches_is_ended_otherwise() -> None:
    """Whoever passes signals on may have been stopped, then nothing arrives: the run went on for ever."""
    engine, ended = Engine(""), threading.Event()
    with Watchdog(lambda: 0.0, engine.send, last=ended.set) as dog:
        assert ended.wait(600)
    assert engine.sent == ["SIGTERM", "SIGCONT", "SIGKILL"]
    assert dog.exceeded == 0.0


def test_no_limit_and_an_end_in_time() -> None:
    """Nothing is sent while there is no limit, or before it."""
    engine = Engine("")
    for limit in (None, 600.0):
        asked = threading.Event()

        def ask(limit: float | None = limit, asked: threading.Event = asked) -> float | None:
            asked.set()
            return limit

        with Watchdog(ask, engine.send, lambda: engine.send("stacks")) as dog:
            assert asked.wait(600)
        assert dog.exceeded is None
    assert engine.sent == []


def test_the_longest_run_sets_the_limit() -> None:
    """Ten times as long, a minute at least; what was asked for stays.

    After a first run of two seconds others took one minute on a busy machine: experiments were ended, and what they
    would have shown to be a result stayed undecided.
    """
    limit = TimeLimit()
    assert limit() is None
    limit.learn(2.0)
    assert limit() == 60.0
    limit.learn(58.0)
    assert limit() == 580.0
    limit.learn(2.0)
    assert limit() == 580.0
    asked = TimeLimit(5.0)
    asked.learn(100.0)
    assert asked() == 5.0


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86400)])
def test_times(text: str, seconds: float) -> None:
    """Seconds, or a number with a unit."""
    assert parse_timeout(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "5 parsecs", "0.5s", "1e3", "9999d"])
def test_what_is_no_time(text: str) -> None:
    """Neither nothing nor other words."""
    with pytest.raises(UsageError, match="--timeout"):
        parse_timeout(text)


def test_outputs_are_paths_in_the_container() -> None:
    """Absolute, tidied, and not the project, which counts anyway."""
    assert parse_output("/tmp//results/") == "/tmp/results"
    for text in ("results", "/", "/workspace/out", "/workspace"):
        with pytest.raises(UsageError, match="--output"):
            parse_output(text)


@pytest.mark.subprocess
def test_the_signal_shows_the_stacks_of_all_threads() -> None:
    """On standard error, by function and line; the program goes on."""
    program = (
        "import os, threading, time\n"
        "from envbuild.runtime.hook import stacks\n"
        "stacks.answer()\n"
        "over = threading.Event()\n"
        "def stuck(): over.wait()\n"
        "thread = threading.Thread(target=stuck); thread.start()\n"
        "def main(): os.kill(os.getpid(), stacks.SIGNAL)\n"
        "main(); over.set(); thread.join(); print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout == "done\n"
    assert "in stuck" in done.stderr
    assert "in main" in done.stderr
