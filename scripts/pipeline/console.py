"""What the pipeline states and what it runs: one line for each step, then the command's own words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envbuild.errors import EnvbuildError


class StepFailedError(EnvbuildError):
    """A command of a step failed; its own words have been shown, its exit code is passed on."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code if code > 0 else 1


def report(step: str, text: str) -> None:
    """Describe what is done, or what came of it."""
    print(f"{step:<10}{text}", flush=True)


def envbuild(
    *arguments: str | Path,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    prefix: tuple[str, ...] = (sys.executable, "-m", "envbuild"),
    umask: int = -1,
    expected: int = 0,
) -> str:
    """Run an envbuild command and return its standard output; its standard error goes where this process' goes.

    Args:
        environ: its whole environment; this process' own by default.
        expected: the exit code that is right.

    Raises:
        StepFailedError: it ended otherwise.
    """
    done = subprocess.run(
        [*prefix, *map(str, arguments)], cwd=cwd, env=dict(os.environ if environ is None else environ), umask=umask,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode != expected:
        sys.stderr.write(done.stdout + done.stderr)
        words = " ".join(map(str, arguments))
        raise StepFailedError(f"envbuild {words}: exit {done.returncode}, expected {expected}", done.returncode)
    return done.stdout if expected == 0 else done.stdout + done.stderr


def envbuild_json(*arguments: str | Path, cwd: Path, **options: Any) -> Any:
    """Run an envbuild command with ``--json`` and return what it reports."""
    return json.loads(envbuild(*arguments, "--json", cwd=cwd, **options))


def holds_image(tag: str) -> bool:
    """Whether the engine has an image."""
    from envbuild.engine.docker.adapter import connect

    return connect().find_image(tag) is not None


def forget_image(tag: str) -> None:
    """Take an image out of the engine, if it has it."""
    from envbuild.engine.docker.adapter import connect
    from envbuild.engine.docker.images import remove_image

    remove_image(connect()._sdk_client(), tag)
