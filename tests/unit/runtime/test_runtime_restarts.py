"""Which processes start themselves anew in an experiment (envbuild/runtime/hook/restarts.py)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import ROOT

_PROGRAM = """\
import json, sys
sys.path.insert(0, {root!r})
from envbuild.runtime.hook.restarts import command_line
{before}
print(json.dumps(command_line()))
"""


def _found(before: str = "", *words: str, executable: str = sys.executable) -> list[str]:
    command = [executable, "-c", _PROGRAM.format(root=str(ROOT), before=before), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found[3:] if found else ["-"]


@pytest.mark.subprocess
def test_an_interpreter_is_started_with_its_own_words() -> None:
    """With all of them, empty ones and such as are no text included."""
    assert _found("", "a b", "", "ü") == ["a b", "", "ü"]


@pytest.mark.subprocess
@pytest.mark.parametrize(
    "before",
    [
        "sys.orig_argv = []",  # an embedding program that gave none
        "sys.orig_argv = ['', '--own', 'words']",
        "sys.executable = '/usr/bin/env'",
        "sys.executable = ''",
        "sys.executable = None",
        "del sys.orig_argv",
    ],
)
def test_embedded_python_is_not_started_anew(before: str) -> None:
    """What embeds it did something before, and was started with other words."""
    assert _found(before, "words") == ["-"]


@pytest.mark.subprocess
def test_a_program_that_is_no_interpreter_by_its_name_is_not_started_anew(tmp_path: Path) -> None:
    """Although Python says of itself that it is that program, and knows its words."""
    program = tmp_path / "simulator"
    shutil.copy2(os.path.realpath(sys.executable), program)
    home = {"PYTHONHOME": sys.base_prefix, "LD_LIBRARY_PATH": f"{sys.base_prefix}/lib"}
    code = _PROGRAM.format(root=str(ROOT), before="")
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=True, env=os.environ | home)
    assert json.loads(done.stdout) == []
