"""What experiments fix, as a program sees it that is started with it (envbuild/runtime/hook/fix_*.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.cli import ROOT

_BEGIN = """\
import json, os, sys, types
sys.path.insert(0, {root!r})
from envbuild.runtime.hook import {modules}
from envbuild.runtime.hook.fix_callers import Callers
callers = Callers(lambda path: False, frozenset())
callers.is_project = lambda code: True
"""


def _found(modules: str, program: str) -> Any:
    code = _BEGIN.format(root=str(ROOT), modules=modules) + program
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.subprocess
def test_all_clocks_follow_the_setting() -> None:
    """Also those that take which clock, of processes, and of the resources that they used."""
    clocks = _found(
        "fix_clock",
        "import resource, time\n"
        "fix_clock.Clock(callers, f'{10**18}/{10**9}/1').install()\n"
        "one = [time.clock_gettime(time.CLOCK_BOOTTIME), os.times().user, os.times().elapsed]\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(json.dumps([*one, usage.ru_utime, usage.ru_stime, time.clock_gettime_ns(0)]))\n",
    )
    assert clocks == [10**9 + 1, 10**9 + 2, 10**9 + 3, 10**9 + 4, 4, 10**18 + 5 * 10**9]


@pytest.mark.subprocess
def test_another_stream_of_entropy_is_noted() -> None:
    """With a stream, what was drawn is in the record; without, it is not, and the stream is the usual one."""
    program = (
        "import secrets\n"
        "process = types.SimpleNamespace(task='', seed=lambda name: 7)\n"
        "fix_entropy.Entropy(process, callers, {stream!r}).install()\n"
        "print(json.dumps([secrets.token_hex(8), [e.get('drawn') for e in callers.as_list()]]))\n"
    )
    one, two, usual = (_found("fix_entropy", program.format(stream=stream)) for stream in ("1", "2", ""))
    assert [each[0] in (each[1][-1] or []) for each in (one, two)] == [True, True]
    assert len({one[0], two[0], usual[0]}) == 3
    assert usual[1] == [None]


@pytest.mark.subprocess
def test_measures_of_memory_are_the_number_that_is_given() -> None:
    """Below /proc and as ``getrusage`` has it; process numbers stay as they are."""
    status, usage, same = _found(
        "fix_figures",
        "import resource\n"
        "before = os.getpid()\n"
        "fix_figures.Figures(callers, '1048576').install()\n"
        "text = next(line for line in open('/proc/self/status') if line.startswith('VmRSS'))\n"
        "print(json.dumps([text, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, os.getpid() == before]))\n",
    )
    assert status.split() == ["VmRSS:", "1048576", "kB"]
    assert (usage, same) == (1048576, True)


@pytest.mark.subprocess
def test_a_figure_is_noted_with_what_is_real() -> None:
    """So that one which is the same in all runs is not taken for a cause; the real one is in the digest alone."""
    number, (entry,) = _found(
        "fix_figures",
        "fix_figures.Figures(callers).install()\nprint(json.dumps([os.getpid(), callers.as_list()]))\n",
    )
    assert number == 1
    assert entry["call"] == "os.getpid"
    assert len(entry["values"]) == 8


@pytest.mark.subprocess
def test_output_of_programs_is_noted_by_what_they_were_given() -> None:
    """Same words, same input, same output: same digests; where it is not read nothing is noted."""
    entries = _found(
        "fix_programs",
        "import subprocess\n"
        "fix_programs.install(callers)\n"
        "for text in ('a', 'a', 'b'):\n"
        "    name = 'run_' + text\n"
        '    exec(f\'subprocess.run(["/bin/cat", "-"], input={text!r}, capture_output=True, text=True)\')\n'
        "subprocess.run(['/bin/true'])\n"
        "print(json.dumps(callers.as_list()))\n",
    )
    assert {entry["call"] for entry in entries} == {"cat -"}
    assert sum(entry["count"] for entry in entries) == 3
    assert all(len(entry["given"]) == len(entry["values"]) == 8 for entry in entries)
