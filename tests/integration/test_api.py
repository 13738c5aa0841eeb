"""``import envbuild``: the example of the Python interface, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Project

EXAMPLE = Path(__file__).parents[2] / "examples/python-api/sweep.py"
_TRAIN = """\
import argparse, json, random
parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, default=0.1)
rate = parser.parse_args().learning_rate
weights = [random.gauss(0, 1) for _ in range(100)]
for step in range(10):
    weights = [w - rate * w * random.random() for w in weights]
open("weights.json", "w").write(json.dumps(weights))
"""


@pytest.mark.engine
@pytest.mark.both_engines
def test_the_example_runs(made: Project, tmp_path: Path) -> None:
    """Lock, build, run, diff and report from Python: equal runs are equal, a changed parameter is the first cause."""
    project = made.copy(tmp_path)
    project.write("train.py", _TRAIN)
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(project.folder)],
        env=project.environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[1] == "two runs, the same bits"
    assert lines[2] == "another learning rate: results different"
    assert "learning_rate" in lines[3]
    assert (project.folder / "report.html").stat().st_size > 10_000


@pytest.mark.engine
@pytest.mark.both_engines
def test_a_limit_and_outputs_outside_the_project(made: Project, tmp_path: Path) -> None:
    """``timeout`` ends a program, and ``outputs`` keeps what it wrote elsewhere in the container."""
    project = made.copy(tmp_path)
    project.write("t.py", "import time\nopen('/tmp/result', 'w').write('kept')\ntime.sleep(600)\n")
    code = "import envbuild, sys\n"
    code += "result = envbuild.run(['t.py'], outputs=['/tmp/result'], timeout=int(sys.argv[1]))\n"
    code += "print(result.record.exit_code, *result.project.glob('.envbuild/runs/*/outside/tmp/result'))\n"
    for limit in ("20", "80", "320"):  # a busy machine may end the program before it has written anything
        command = [sys.executable, "-c", code, limit]
        done = subprocess.run(command, env=project.environ, cwd=project.folder, capture_output=True, text=True)
        code_found, _, kept = done.stdout.strip().partition(" ")
        assert code_found == "143", done.stderr
        if kept:
            break
    assert Path(kept).read_text() == "kept"


@pytest.mark.engine
def test_an_error_is_an_exception_with_the_way_on(tmp_path: Path) -> None:
    """A failure is an exception with the exit code and the hint of the command line."""
    project = Project(folder=tmp_path / "empty", store=tmp_path / "store")
    code = "import envbuild\nfrom envbuild.errors import LockError\n"
    code += "try: envbuild.build()\nexcept LockError as error: print(error.exit_code, bool(error.hint))\n"
    done = subprocess.run(
        [sys.executable, "-c", code], env=project.environ, cwd=project.folder, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("11 True\n", "")
