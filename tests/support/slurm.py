"""A real Slurm of one node on loopback: Debian's slurmctld, slurmd and munge, with files, keys and ports of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from envbuild.core.fs import locked
from tests.support.environments import CACHE

_PACKAGES = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge"}
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Run a Slurm while the context lasts; yields the variables with which its commands find it."""
    _install()
    folder.mkdir(mode=0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    controller, node = _ports(2)
    configuration = folder / "slurm.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            host=socket.gethostname(), folder=folder, controller=controller, node=node, cpus=os.cpu_count()
        )
    )
    environ = {"SLURM_CONF": str(configuration)}
    own = [
        f"--{name}={folder}/munge.{name.partition('-')[0]}" for name in ("socket", "log-file", "pid-file", "seed-file")
    ]
    with ExitStack() as stack:
        for command in (
            ["munged", "--foreground", "--force", f"--key-file={key}", *own],
            ["slurmctld", "-D"],
            ["slurmd", "-D"],
        ):
            log = stack.enter_context((folder / f"{command[0]}.out").open("wb"))
            process = subprocess.Popen(command, env=os.environ | environ, stdout=log, stderr=log)
            stack.callback(_end, process)
        _wait(environ, folder)
        yield environ


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(environ: dict[str, str], folder: Path) -> None:
    """Wait until the node takes jobs."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        done = subprocess.run(
            ["sinfo", "-h", "-t", "idle", "-o", "%D"],
            env=os.environ | environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.stdout.strip() == "1":
            return
        time.sleep(0.2)
    logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(folder.glob("*.out")))
    raise RuntimeError(f"Slurm did not come up:\n{logs}")


def _ports(count: int) -> list[int]:
    """Return ports that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _install() -> None:
    """Install what is missing; one test process after the other, since apt refuses a second one at once."""
    with locked(CACHE / "apt.lock"):
        missing = [package for program, package in _PACKAGES.items() if not shutil.which(program)]
        if not missing:
            return
        if os.geteuid() != 0:
            raise RuntimeError(f"these tests need Slurm: apt-get install {' '.join(missing)}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
            words = ["apt-get", "-o", "DPkg::Lock::Timeout=300", *command]
            subprocess.run(words, check=True, env=environment, capture_output=True)
