"""The newer engine that ``scripts/second-engine.sh`` brings up next to the machine's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from envbuild.core.fs import locked
from tests.support.environments import CACHE
from tests.support.shared import shared

SCRIPT = Path(__file__).parents[2] / "scripts/second-engine.sh"
FOLDER = Path("/run/envbuild-second-engine")
_CDI = FOLDER / "cdi"
"""Where it looks for descriptions of devices."""
HOOK = FOLDER / "bin/nvidia-container-runtime-hook"
"""NVIDIA's hook as far as this engine is concerned: it looks for one when it starts."""
HOOK_LOG = FOLDER / "hook.log"
_HOOK = f"""\
#!/bin/sh
# Stands in for NVIDIA's hook: notes what of the container's environment is NVIDIA's, or refuses the GPU called 99.
set -eu
bundle=$(sed 's/.*"bundle":"\\([^"]*\\)".*/\\1/')
grep -o '"NVIDIA_[A-Z_]*=[^"]*"' "$bundle/config.json" | sort >{HOOK_LOG}
grep -q '"NVIDIA_VISIBLE_DEVICES=99"' {HOOK_LOG} || exit 0
echo "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=99.0, please update your driver to a" \
    "newer version, or use an earlier cuda container" >&2
exit 1
"""


def second_engine() -> AbstractContextManager[str]:
    """Start it with CDI and a hook of ours, and give its address for DOCKER_HOST; see ``shared`` for its end."""
    if os.geteuid() != 0:
        pytest.skip("starting a second engine needs root")
    return shared("second-engine", _running, _start, _stop)


@contextmanager
def described_gpus(specification: str) -> Iterator[str]:
    """As ``second_engine``, with GPUs that a CDI specification (JSON) describes, and with no other ones meanwhile.

    Two descriptions at once would name the same devices, which makes the engine know none of them.
    """
    with second_engine() as host, locked(CACHE / "second-engine-gpus.lock"):
        file = _CDI / "envbuild-test.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(specification)
        try:
            yield host
        finally:
            file.unlink()


def _running() -> bool:
    return (FOLDER / "docker.sock").exists()


def _start() -> str:
    if not _running():
        HOOK.parent.mkdir(parents=True, exist_ok=True)
        HOOK.write_text(_HOOK)
        HOOK.chmod(0o755)
    line = subprocess.run([SCRIPT, "start"], check=True, stdout=subprocess.PIPE, text=True).stdout
    name, _, host = line.strip().partition("=")
    assert name == "DOCKER_HOST"
    return host


def _stop() -> None:
    subprocess.run([SCRIPT, "stop"], check=True)


def where_it_is(folder: Path = FOLDER) -> list[str]:
    """Return the words before a command that let it run in the engine's network namespace, whose loopback is up."""
    pid = int((folder / "dockerd.pid").read_text())
    words = ["nsenter", f"--net=/proc/{pid}/ns/net"]
    subprocess.run([*words, sys.executable, "-c", _LOOPBACK_UP], check=True)
    return words


_LOOPBACK_UP = """\
import fcntl, socket, struct
with socket.socket() as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
"""
