"""The search for the field that flips a result, against programs that only pretend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from envbuild.difference.arguments import chunks, joined
from envbuild.difference.bisect import Answer, search
from envbuild.difference.finding import Context
from envbuild.difference.toggles import Plan, Setting, plan
from envbuild.record.model import LockFacts, Record, Script
from envbuild.record.processes import ReadFile
from tests.support.hosts import host
from tests.support.locks import small_lock
from tests.support.records import A, B, record, sha

LOCK = msgspec.structs.replace(small_lock(), environment={})
ALL = {sha(sign) for sign in "0123456789abcdef"}

A_RUN: dict[str, Any] = {"command": ("python", "train.py", "--lr", "0.1", "--name=x"), "environment": {"SIZE": "1"}}


def made(setting: Setting) -> str:
    """What a program makes that looks at its learning rate, its script and one variable."""
    options = dict(chunks(setting.command))
    return f"{options.get('--lr')} {setting.files['train.py']} {setting.environment.get('SIZE')}"


def run_of(name: str, program: Callable[[Setting], str] = made, **changes: Any) -> Record:
    """A recorded run of a program; its result is a metric's name."""
    started = record(name, **{**A_RUN, "outputs": (), "metrics": {}, **changes})
    found = program(plan(started, started, Context(lock_a=LOCK, lock_b=LOCK), ALL).base)
    return msgspec.structs.replace(started, metrics={found: ((0, 1.0),)})


def planned(a: Record, b: Record, available: set[str] = ALL, **known: Any) -> Plan:
    return plan(a, b, Context(**{"lock_a": LOCK, "lock_b": LOCK, **known}), available, ["train.py", "lr"])


def found(
    a: Record, b: Record, program: Callable[[Setting], str] = made, available: set[str] = ALL
) -> tuple[Answer, list[str]]:
    """Search with a program; returns the answer and the names of all runs."""
    steps = search(planned(a, b, available), a, b)
    names = []
    step = next(steps)
    while True:
        names.append(step.name)
        try:
            step = steps.send(record("01JE" + "0" * 22, outputs=(), metrics={program(step.setting): ((0, 1.0),)}))
        except StopIteration as stop:
            return stop.value, names


def edited(sign: str = "d") -> dict[str, Any]:
    """Another script."""
    return {
        "script": Script(path="train.py", sha256=sha(sign)),
        "modules": (ReadFile(path="train.py", size=9, sha256=sha(sign)), record().modules[1]),
    }


def test_one_of_two_fields_flips_the_result() -> None:
    """The one that matters is named, with as few runs as that takes; the other is not."""
    b = run_of(B, command=("python", "train.py", "--lr", "0.2", "--name=y"))
    answer, names = found(run_of(A), b)
    assert answer.sentence == "--lr flips the result: A with it as in B gives B's result"
    assert names == ["A again", "--lr"]


def test_two_fields_together_flip_the_result() -> None:
    """Neither does it alone; what does nothing is left out of the answer."""
    b = run_of(B, command=("python", "train.py", "--lr", "0.2", "--name=y"), environment={"SIZE": "2"})
    answer, names = found(run_of(A), b)
    assert answer.sentence == "--lr and variable SIZE flip the result together: none does it alone"
    assert [str(toggle) for toggle in answer.partial] == ["--lr", "variable SIZE"]
    assert names == [
        "A again", "--lr", "--name", "variable SIZE", "all together", "all but --name", "all but --lr",
        "all but variable SIZE",
    ]  # fmt: skip


def test_a_script_is_put_back_by_its_content() -> None:
    """The changed file is tried first, since it is the likeliest."""
    b = run_of(B, **edited(), environment={"SIZE": "1", "OTHER": "1"})
    answer, names = found(run_of(A), b)
    assert (answer.sentence, names) == (
        "train.py flips the result: A with it as in B gives B's result", ["A again", "train.py"]
    )  # fmt: skip


def test_what_cannot_be_toggled_is_reported() -> None:
    """Data, the machine, lost content, masked values and locks that were not kept are named."""
    b = run_of(
        B, **edited(), inputs={"data": sha("f")}, host=host(kernel="5.0"), environment={"SIZE": "1", "KEY": "***"},
        lock=LockFacts(file="pylock.digits.toml", sha256=sha("e")), image=sha("e"),
    )  # fmt: skip
    assert planned(run_of(A), b, ALL - {sha("d")}, lock_b=None).stuck == (
        "lock (not kept)",
        "train.py (its content in B was not kept)",
        "variable KEY (masked)",
        "data (data is not kept)",
        "the machine",
    )


def test_data_that_stays_changed_is_found_by_elimination() -> None:
    """If A gives B's result by itself now, the cause is what cannot be brought back."""
    b = msgspec.structs.replace(run_of(B, inputs={"data": sha("f")}), metrics={"other": ((0, 1.0),)})
    answer, names = found(run_of(A), b, lambda setting: "other")
    assert names == ["A again"]
    assert answer.sentence == (
        "A, run again here and now, gives B's result: the cause is what cannot be brought back: data (data is not kept)"
    )


def test_a_run_that_never_repeats_cannot_be_bisected() -> None:
    """Two runs of A that differ from each other end the search."""
    results = iter("pqrs")
    answer, names = found(run_of(A), run_of(B, environment={"SIZE": "2"}), lambda setting: next(results))
    assert (answer.ending, names) == ("unstable", ["A again", "A once more"])
    assert answer.sentence == (
        "A gives another result each time, so that toggling shows nothing: envbuild verify finds where"
    )


def test_nothing_that_was_tried() -> None:
    """The end of the list is marked, with what was not tried."""
    b = msgspec.structs.replace(
        run_of(B, environment={"SIZE": "2"}, inputs={"data": sha("f")}), metrics={"x": ((0, 1.0),)}
    )
    answer, names = found(run_of(A), b)
    assert names == ["A again", "variable SIZE"]
    assert answer.sentence == (
        "nothing that was tried gives B's result; yet another result comes of variable SIZE; "
        "not tried: data (data is not kept)"
    )


def test_a_lock_is_toggled_with_its_image_unless_only_data_differs() -> None:
    """Packages come with the lock; a lock with other digests of data alone reports nothing that the data does not."""
    changes = {"lock": LockFacts(file="pylock.digits.toml", sha256=sha("e")), "image": sha("e")}
    b = run_of(B, **changes)
    assert planned(run_of(A), b).toggles == ()
    other = msgspec.structs.replace(LOCK, environment={"TZ": "UTC"})
    (toggle,) = planned(run_of(A), b, lock_b=other).toggles
    assert str(toggle) == "lock"


@pytest.mark.parametrize(
    ("changes", "available", "lock", "why"),
    [
        ({}, ALL - {sha("7")}, LOCK, "lib/model.py is not available as A read it"),
        ({"command": ("python", "train.py", "--token", "***")}, ALL, LOCK, "its command has a masked argument"),
        ({}, ALL, None, "its lock was not kept"),
    ],
)
def test_what_keeps_a_run_from_being_run_again(
    changes: dict[str, Any], available: set[str], lock: Any, why: str
) -> None:
    """Before anything is run."""
    assert planned(record(A, **changes), record(B), available, lock_a=lock).impossible == why


@pytest.mark.parametrize(
    ("command", "pieces"),
    [
        ("python train.py", {"": "python train.py"}),
        ("python train.py data --lr 1 --flag -x -1 --a=b", {
            "": "python train.py data", "--lr": "--lr 1", "--flag": "--flag", "-x": "-x -1", "--a": "--a=b",
        }),
        ("python -m pkg --lr 1 --lr 2", {"": "python", "-m": "-m pkg", "--lr": "--lr 1 --lr 2"}),
        ("sh x -- -c --d", {"": "sh x", "--": "-- -c --d"}),
    ],
)  # fmt: skip
def test_pieces_of_a_command_line(command: str, pieces: dict[str, str]) -> None:
    """Options with their values; together they are the command again."""
    found = dict(chunks(command.split()))
    assert {name: " ".join(words) for name, words in found.items()} == pieces
    assert sorted(joined(found)) == sorted(command.split())


def test_data_that_changed_since_is_why_a_run_does_not_repeat() -> None:
    """A reads a file that is another one now: it is named, whether A gives B's result or its own no more."""
    a, b = run_of(A), run_of(B, command=("python", "train.py", "--lr", "0.2", "--name=x"))
    a = msgspec.structs.replace(a, reads=(ReadFile(path="params.txt", size=1, sha256=sha("1")),))
    now = (ReadFile(path="params.txt", size=1, sha256=sha("2")), ReadFile(path="new.txt", size=1, sha256=sha("3")))
    steps = search(planned(a, b), a, b)
    next(steps)
    with pytest.raises(StopIteration) as stop:
        steps.send(msgspec.structs.replace(b, reads=now))
    assert stop.value.value.changed == ("params.txt",)
    assert stop.value.value.sentence == (
        "A, run again here and now, gives B's result: params.txt, which it reads, changed since"
    )
    steps = search(planned(a, b), a, b)
    next(steps)
    other = record("01JE" + "0" * 22, outputs=(), metrics={"other": ((0, 1.0),)}, reads=now)
    steps.send(other)
    steps.send(other)
    with pytest.raises(StopIteration) as stop:
        steps.send(b)
    assert stop.value.value.sentence.endswith(
        "A does not give its own result any more: params.txt, which it reads, changed since"
    )
