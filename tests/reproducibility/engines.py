"""The engines of the matrix: the machine's own, a newer one with either image store, podman; and none at all."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from envbuild.engine.docker.adapter import DockerEngine, connect
from envbuild.errors import EnvbuildError
from tests.reproducibility.variations import NOBODY

_SCRIPTS = Path(__file__).parents[2] / "scripts"
_STARTED = {
    "classic": (("second-engine.sh", "start", "classic"), ("second-engine.sh", "stop", "classic")),
    "containerd": (("second-engine.sh", "start"), ("second-engine.sh", "stop")),
    "podman": (("podman-service.sh", "start"), ("podman-service.sh", "stop")),
}
_NONE = "local"
NAMES = ("own", *_STARTED, _NONE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One engine: its title in the table, and its address for DOCKER_HOST, which is empty where there is no engine."""

    title: str
    host: str

    def engine(self) -> DockerEngine:
        """Connect to it."""
        return connect({"DOCKER_HOST": self.host})

    def environ(self) -> dict[str, str]:
        """Return the variables that choose it."""
        return {"DOCKER_HOST": self.host} if self.host else {"ENVBUILD_ENGINE": "local"}

    def socket_group(self) -> int:
        """Return the group that may use its socket; a user's own where there is none."""
        if not self.host:
            return NOBODY
        return Path(self.host.removeprefix("unix://")).stat().st_gid

    def access(self) -> str:
        """Return the capability that a user of that group needs: podman's socket lets in root alone."""
        if not self.host:
            return "dac_read_search"
        mode = Path(self.host.removeprefix("unix://")).stat().st_mode
        return "dac_read_search" if mode & stat.S_IWGRP else "dac_override,+dac_read_search"


@contextmanager
def started(names: Sequence[str]) -> Iterator[tuple[list[Column], list[str]]]:
    """Give the engines that can be had, and a sentence for each of the others.

    What was not running before is stopped at the end. The classic store's files are in memory: a file system that lists
    folders in another order than the disk's.
    """
    columns, missing = [], []
    with ExitStack() as stack:
        for name in names:
            if name == _NONE:
                columns.append(Column(title="no engine", host=""))
                continue
            try:
                columns.append(_column(_address(name, stack)))
            except (EnvbuildError, subprocess.CalledProcessError, OSError) as error:
                missing.append(f"{name}: not tried: {getattr(error, 'stderr', '') or error}".strip())
        yield columns, missing


def _address(name: str, stack: ExitStack) -> str:
    """Return an engine's address, starting it if need be."""
    if name == "own":
        return connect()._client.endpoint.url
    start, stop = _STARTED[name]
    environ = {**os.environ, "ENVBUILD_SECOND_MEMORY": "1" if name == "classic" else ""}
    before = _sockets()
    done = subprocess.run([_SCRIPTS / start[0], *start[1:]], env=environ, check=True, capture_output=True, text=True)
    host = done.stdout.strip().partition("=")[2]
    if host.removeprefix("unix://") not in before:
        stack.callback(subprocess.run, [_SCRIPTS / stop[0], *stop[1:]], check=True, stderr=subprocess.DEVNULL)
    return host


def _sockets() -> set[str]:
    """Return the sockets that are where the scripts put theirs."""
    found = set()
    for path in (*Path("/run").glob("envbuild-*/*.sock"), *Path("/tmp").glob("envbuild-*/*.sock")):
        if stat.S_ISSOCK(path.stat().st_mode):
            found.add(str(path))
    return found


def _column(host: str) -> Column:
    facts = connect({"DOCKER_HOST": host}).describe()
    store = "containerd" if facts["storage"] == "overlayfs" else facts["storage"]
    return Column(title=f"{facts['name']} {facts['version'].partition('+')[0]} {store}", host=host)
