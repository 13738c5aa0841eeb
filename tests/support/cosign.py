"""cosign as the tests have it: Debian's, unpacked next to it, and key pairs of their own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SCRIPT = Path(__file__).parents[2] / "scripts/ensure-cosign.sh"
PASSWORD = "opens-the-key"


@cache
def cosign_program(suite: str = "trixie") -> str:
    """Return the path of a Debian suite's cosign, fetched if need be."""
    environ = {**os.environ, "ENVBUILD_COSIGN_SUITE": suite, "ENVBUILD_COSIGN": ""}
    return subprocess.run([_SCRIPT], check=True, stdout=subprocess.PIPE, text=True, env=environ).stdout.strip()


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyPair:
    """Files of a key pair; the private one is opened by ``PASSWORD``."""

    private: str
    public: str


def make_keys(folder: Path, name: str = "cosign") -> KeyPair:
    """Make a key pair in a folder."""
    command = [cosign_program(), "generate-key-pair", "--output-key-prefix", name]
    environ = {**os.environ, "COSIGN_PASSWORD": PASSWORD}
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environ)
    return KeyPair(private=str(folder / f"{name}.key"), public=str(folder / f"{name}.pub"))
