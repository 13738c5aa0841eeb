"""Rules for all tests: unit tests touch neither the network nor other processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

# A test must pass whether or not somebody activated the virtual environment: nothing in it is found by its name alone.
os.environ["PATH"] = os.pathsep.join(
    part for part in os.environ["PATH"].split(os.pathsep) if part != str(Path(sys.executable).parent)
)

# Started in the background by a shell, pytest has SIGINT ignored, and so has all that it starts; tests send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _unit_tests_stay_inside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid sockets and child processes in tests/unit unless a test asks for a subprocess or loopback by marker."""
    if "unit" not in Path(str(request.fspath)).relative_to(request.config.rootpath).parts:
        return

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError(f"a unit test must not do this: {args!r}")

    if request.node.get_closest_marker("loopback") is None:
        monkeypatch.setattr(socket.socket, "connect", forbidden)
        monkeypatch.setattr(socket, "create_connection", forbidden)
    if request.node.get_closest_marker("subprocess") is None:
        monkeypatch.setattr(subprocess, "Popen", forbidden)
