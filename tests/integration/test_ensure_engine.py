"""scripts/ensure-engine.sh: quiet where an engine answers, clear where none can."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/ensure-engine.sh"


def ensure(tmp_path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    base = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environ}
    return subprocess.run([SCRIPT], env=base, capture_output=True, text=True, check=False)


@pytest.mark.engine
def test_an_engine_that_answers_is_left_alone(tmp_path: Path) -> None:
    """With an engine, the script names it, exits 0 and writes nothing, however often it runs."""
    chosen = {"DOCKER_HOST": os.environ["DOCKER_HOST"]} if "DOCKER_HOST" in os.environ else {}
    for _ in range(2):
        done = ensure(tmp_path, **chosen)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(
            r"engine    \S.* [0-9]+\.[0-9]+\S* at \S+\n|engine    engine .* \(docker command\)\n", done.stdout
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:1"])
def test_a_chosen_engine_that_is_silent_is_not_replaced(tmp_path: Path, host: str) -> None:
    """If DOCKER_HOST names an engine that does not answer, nothing is installed or started; exit 15 and the way out."""
    done = ensure(tmp_path, DOCKER_HOST=host)
    assert (done.returncode, done.stdout) == (15, "")
    assert done.stderr == (
        f"engine    nothing answers at DOCKER_HOST={host}\n"
        "engine    start that engine, or use the system's: unset DOCKER_HOST\n"
    )
    assert list(tmp_path.iterdir()) == []
