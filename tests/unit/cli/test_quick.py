"""The command lines of ``run`` that are read without typer mean what typer makes of them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from envbuild.cli import quick, running
from envbuild.cli.app import invoke
from envbuild.cli.commands import run as command
from envbuild.cli.options import app

PARAMETERS = typer.main.get_command(app).commands["run"].params  # type: ignore[attr-defined]
DEFAULTS = {name: each.default for name, each in inspect.signature(running.run_program).parameters.items()}
WORDS = (
    *quick._FLAGS, *quick._VALUES, *quick._LISTS,
    *(f"{name}=x" for name in (*quick._VALUES, *quick._LISTS)),
    "-m", "-c", "--", "-", "--help", "-h", "--shell", "--other", "-qv", "-eA=1", "-e=1", "2", "x", "", "train.py",
)  # fmt: skip


def typed(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
    """What typer gives to the command; None if it does not call it."""
    found: list[dict[str, Any]] = []

    def kept(program: Any, **values: Any) -> int:
        found.append({"command": program, **values})
        return 0

    monkeypatch.setattr(running, "run_program", kept)
    invoke(arguments)
    return found[0] if found else None


@given(st.lists(st.sampled_from(WORDS), max_size=6), st.sampled_from(["train.py", "-m", "--", "x"]))
def test_both_readers_agree(words: list[str], last: str) -> None:
    """A line that is read without typer has the values that typer reads; all others are left to typer."""
    arguments = ["run", *words, last, "module", "--lock", "its own"]
    mine = quick.read(arguments)
    if mine is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        theirs = typed(arguments, patch)
    assert theirs is not None
    theirs = {name: value for name, value in theirs.items() if name != "shell"}
    defaults = {name: value for name, value in DEFAULTS.items() if name in theirs}
    assert {name: value or None if isinstance(value, list) else value for name, value in theirs.items()} == {
        **defaults, **mine,
    }  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [["train.py"], ["--offline", "-q", "train.py"], ["-e", "A=1", "--env=B", "train.py"], ["-m", "pkg"],
     ["--cpus", "1.5", "--memory=8g", "--no-controls", "python", "-c", "pass"]],
)  # fmt: skip
def test_common_lines_need_no_typer(words: list[str]) -> None:
    """The ways in which programs are mostly run are read here: else the start is slow again and nobody notices."""
    read = quick.read(["run", *words])
    assert read is not None
    assert read["command"] == words[-len(read["command"]) :]


@pytest.mark.parametrize(
    "words",
    [[], ["--help"], ["--shell"], ["--lock"], ["--lock", "--offline", "a.py"], ["--cpus", "many", "a.py"],
     ["--", "a.py"], ["--tensor", "a.py"], ["-m", "--lock"]],
)  # fmt: skip
def test_the_rest_is_left_to_typer(words: list[str]) -> None:
    """Help, mistakes and rare forms get typer's answer."""
    assert quick.read(["run", *words]) is None


def test_the_table_has_the_options_of_run() -> None:
    """An option that ``run`` gets is in the table too, with the same meaning, or named here."""
    table = {**{flag: name for flag, (name, _) in quick._FLAGS.items()}, **quick._LISTS}
    table |= {option: name for option, (name, _) in quick._VALUES.items()}
    options = {name: each.name for each in PARAMETERS for name in (*each.opts, *each.secondary_opts) if "-" in name}
    assert {option: name for option, name in options.items() if option not in ("--shell", "--help")} == table
    assert {*quick.OPTIONS} == {*options} - {"--help"}


def test_both_have_the_same_defaults() -> None:
    """What a command line leaves out means the same to both readers."""
    declared = inspect.signature(command.run).parameters
    assert {name: each.default for name, each in declared.items() if name != "command"} == {
        name: default for name, default in DEFAULTS.items() if name != "command"
    }


def test_msgspec_is_loaded_without_typing_extensions() -> None:
    """The marker that keeps ``typing_extensions`` from being imported is gone when msgspec is there."""
    quick.load_msgspec()
    assert sys.modules.get("typing_extensions", True) is not None


@pytest.mark.subprocess
def test_what_stands_in_while_msgspec_is_loaded_is_gone_afterwards() -> None:
    """``platform`` and ``re.compile`` are Python's own again, and patterns are checked all the same."""
    code = (
        "import re, sys; own = re.compile; from envbuild.cli import quick; quick.load_msgspec(); "
        "assert re.compile is own and 'typing_extensions' not in sys.modules; "
        "import platform; assert platform.python_version(); "
        "import datetime, decimal, fnmatch, ntpath, uuid; assert uuid.uuid4().int and decimal.Decimal(1) == 1; "
        "assert fnmatch.fnmatch('a', '?') and ntpath.join('a', 'b') and datetime.timezone.utc; "
        "assert all('_Late' not in str(type(each)) for each in sys.modules.values()); "
        "import msgspec; assert msgspec.json.encode(datetime.date(2020, 1, 2)) == b'\"2020-01-02\"'; "
        "assert msgspec.toml.decode('a = 1') == {'a': 1}; "
        "from envbuild.core.types import Sha256; assert msgspec.convert('a' * 64, Sha256); "
        "refused = msgspec.ValidationError\n"
        "try: msgspec.convert('a' * 63, Sha256)\n"
        "except refused: pass\n"
        "else: raise SystemExit('not refused')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("variables", "may"),
    [({}, True), ({"ENVBUILD_ENGINE": "local"}, True), ({"ENVBUILD_ENGINE": "docker"}, False),
     ({"DOCKER_HOST": "unix:///x"}, False), ({"ENVBUILD_ENGINE": "podman"}, False)],
)  # fmt: skip
def test_no_process_is_started_early_for_a_container_engine(variables: dict[str, str], may: bool) -> None:
    """Who asks for Docker or podman by a variable pays nothing for the local engine."""
    assert quick.may_be_local(variables) is may


def test_a_lock_is_a_path() -> None:
    """The values have the types that the command takes."""
    read = quick.read(["run", "--lock", "a/pylock.b.toml", "--cpus", "2", "t.py"])
    assert read == {"lock": Path("a/pylock.b.toml"), "cpus": 2.0, "command": ["t.py"]}
