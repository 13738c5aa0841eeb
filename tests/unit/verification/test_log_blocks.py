"""Errors that libraries log of themselves by the clock, with their stacks; what a program prints behind them counts."""

from __future__ import annotations

import time

import pytest

from envbuild.verification.masking.masks import BY_CLOCK, Masks
from envbuild.verification.masking.printed import rows

_NOW = 1_795_783_642.0  # 12:47:22 UTC
_HEAD = "12:47:22.565 | ERROR   | docket.dependencies - ↩ [    43ms] send_telemetry_heartbeat(){…}"
_STACK = """Traceback (most recent call last):
  File "/opt/env/lib/python3.11/site-packages/aiosqlite/core.py", line 63, in _connection_worker_thread
    result = function()
             ^^^^^^^^^^
sqlite3.OperationalError: database is locked

The above exception was the direct cause of the following exception:

sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) database is locked
[SQL: INSERT INTO configuration ("key", value) VALUES (:key, :value)]
(Background on this error at: https://sqlalche.me/e/21/e3q8)"""
_NETWORK = (
    "12:47:22.565 | ERROR   | prefect.server.services.telemetry - Failed to send telemetry: [Errno -3] Temporary"
    " failure in name resolution"
)


def _kept(text: str) -> list[str]:
    found = [row.masked for row in rows(text.encode(), Masks(_NOW))]
    return [each.text for each in found if BY_CLOCK not in each.kinds]


@pytest.mark.parametrize("error", ["", f"{_HEAD}\n{_STACK}\n", f"{_NETWORK}\n"])
def test_which_error_comes_is_luck(error: str) -> None:
    """Prefect's server reports home, or not, or its database is locked."""
    before, after = (
        "12:47:21.000 | INFO    | prefect - Starting\n",
        "12:47:23.109 | INFO    | Flow run 'a-b' - {0.1: 0.86}\n",
    )
    assert _kept(before + error + after) == [
        "⟨time⟩ | INFO | prefect - Starting", "⟨time⟩ | INFO | Flow run '⟨slug⟩' - {0.1: 0.86}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        f"{_HEAD}\n{_STACK}\nthe best one is 3",
        f"{_HEAD}\nthe best one is 3\n    indented",
        "12:47:22.565 | ERROR   | Flow run 'a-b' - Encountered an exception\n" + _STACK,
        "12:47:22.565 | ERROR   | docket.dependencies - ↩ [    43ms] train(){train}\n" + _STACK,
        _STACK,
        f"{_HEAD}\n    loss 0.5",
        f"{_HEAD}\nValueError: loss 0.5",
        f"{_HEAD}\n{_STACK}\n    loss 0.5",
        f"{_HEAD}\n{_STACK}\nValueError: loss 0.5",
        f"{_NETWORK}\n\n    loss 0.5",
    ],
)
def test_other_errors_count(text: str) -> None:
    """Those of a flow, of another task, and what is printed behind such a stack."""
    assert _kept(text)
    assert _kept(text)[-1] in text


def test_statements_of_several_lines() -> None:
    """SQLAlchemy shows them as they were sent; a second error comes with a stack of its own."""
    statement = _STACK.replace("INSERT INTO configuration", "INSERT INTO\n  configuration")
    again = f"\nDuring handling of the above exception, another exception occurred:\n\n{_STACK}\n"
    assert _kept(f"{_HEAD}\n{statement}\n{again}0.5\n") == ["0.5"]


_FIRST, _SECOND = (
    f"[12:47:22] Task [xgboost.dask-{at}]:tcp://127.0.0.1:{port} got rank {at}" for at, port in ((0, 38645), (1, 4129))
)


@pytest.mark.parametrize("text", [f"{_FIRST}\n{_SECOND}\n", f"{_SECOND}{_FIRST}\n\n", f"{_FIRST}\n", ""])
def test_ranks_of_workers_of_xgboost(text: str) -> None:
    """They are written at the same time by several processes; no other line is left out, nor an empty line more."""
    assert _kept(f"{text}0.5\n\n") == ["0.5", ""]
    assert _kept(f"{text}{_FIRST} of 2\n")[-1].endswith("got rank 0 of 2")


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (
            "Task run 'load-a6b' - Finished in state Completed()",
            "Task run 'load-1b4' - Finished in state Completed()",
            True,
        ),
        (
            "Task run 'load-a6b' - Finished in state Completed()",
            "Task run 'load-1b4' - Finished in state Failed()",
            False,
        ),
        (
            "Task run 'load-a6b' - Finished in state Completed()",
            "Task run 'save-1b4' - Finished in state Completed()",
            False,
        ),
        ("Task run 'load' - loss 0.5", "Task run 'load' - loss 0.25", False),
        ("Task run 'fold-1000' - Finished", "Task run 'fold-2000' - Finished", False),
        ("Task run 'load-a6b' - best is a6b", "Task run 'load-a6b' - best is 1b4", False),
    ],
)
def test_names_of_runs_of_tasks(before: str, after: str, same: bool) -> None:
    """Prefect names a run of a task for it, with three digits of its identity."""
    one, other = (_kept(f"12:47:22.565 | INFO    | {line}\n") for line in (before, after))
    assert (one == other) is same


@pytest.mark.parametrize(("name", "guessed"), [("lr-100", True), ("load-a6b", False)])
def test_names_of_runs_of_tasks_that_a_program_may_have_given(name: str, guessed: bool) -> None:
    """A number may be one that the program put there: such lines are quoted."""
    assert Masks(_NOW).mask(f"12:47:22.565 | INFO    | Task run '{name}' - Finished").guessed is guessed


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("[LightGBM] [Info] Trying to bind port 33457...", "[LightGBM] [Info] Trying to bind port 36343...", True),
        ("[LightGBM] [Info] Binding port 33457 succeeded", "[LightGBM] [Info] Binding port 36343 succeeded", True),
        ("[LightGBM] [Warning] Connecting to rank 1 failed, waiting for 200 milliseconds\n", "", True),
        ("[local_listen_port: 38025]", "[local_listen_port: 35267]", True),
        ("[num_iterations: 38025]", "[num_iterations: 35267]", False),
        ("[LightGBM] [Info] Local rank: 0", "[LightGBM] [Info] Local rank: 1", False),
        ("Listening on port 38025", "Listening on port 35267", False),
        ("chosen: bind port 38025", "chosen: bind port 35267", False),
        ("the port 38025 of Rotterdam", "the port 35267 of Rotterdam", False),
    ],
)
def test_ports_of_workers(before: str, after: str, same: bool) -> None:
    """LightGBM's workers draw them, and its models have them among their parameters."""
    assert (_kept(before) == _kept(after)) is same


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("Flow run 'clay-penguin' - score 1", "Flow run 'devout-kagu' - score 1", True),
        ("Flow run 'clay-penguin' - score 1", "Flow run 'devout-kagu' - score 2", False),
        ("Flow run 'fold-1' - score 1", "Flow run 'fold-2' - score 1", False),
        ("chose 'clay-penguin'", "chose 'devout-kagu'", False),
    ],
)
def test_names_of_flows(before: str, after: str, same: bool) -> None:
    """Prefect draws two words; a program may give two words too, so that those that differ are quoted."""
    one, other = (Masks(_NOW).mask(f"12:47:22.565 | INFO    | {line}") for line in (before, after))
    assert (one.text == other.text) is same
    assert not same or (one.guessed and other.guessed)


def test_a_profile_that_was_not_printed_whole_ends_with_the_next_line_of_the_program() -> None:
    """What follows is the program's own."""
    profile = (
        '{\n    "io": {\n        "total_bytes_read": 5\n    },\n    "optimizer": {\n        "filter_pushdown": 0.001'
    )
    own = '{\n    "optimizer": {\n        "lr": 0.1'
    assert _kept(f"{profile}\n{own}")[-2:] == ['    "optimizer": {', '        "lr": 0.1']
    assert _kept(profile)[-1] == '"filter_pushdown": ⟨time⟩'


def test_long_lines_below_the_names_of_a_table_take_no_longer_than_others() -> None:
    """Each took 15 s."""
    head = "Handler   Event Name   Total(s)   Min(s)/IDX   Max(s)/IDX   Mean(s)   Std(s)\n"
    start = time.process_time()
    _kept((head + "a" + " " * 60_000 + "b\n") * 10)
    assert time.process_time() - start < 10


def test_a_month_that_only_looks_like_one_does_no_harm() -> None:
    assert _kept("built \u017fep 7, 2026, 12:35:07") == ["built \u017fep 7, 2026, ⟨time⟩"]
