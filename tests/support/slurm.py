"""A real Slurm of two nodes: Debian's slurmctld, slurmd and munge, with files, keys and networks of its own.

Each node is a network namespace on a bridge, with a host name and mounts of its own. ``nsenter`` enters it, since
``ip netns exec`` hides the control groups from slurmd. The controller is in the bridge's namespace: its port is nobody
else's there, so that several test processes have a Slurm each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from envbuild.core.fs import locked
from tests.support.environments import CACHE

NODES = (1, 2)
CPUS = 8
"""Of each node, whatever this machine has: jobs of two ranks a node find a place."""
_PMIX_FOLDER = "/usr/lib/x86_64-linux-gnu/pmix2/lib"
_PACKAGES = {
    "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge", "ip": "iproute2",
    "mpirun": "openmpi-bin", f"{_PMIX_FOLDER}/libpmix.so.2": "libpmix2",
}  # fmt: skip
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}({network}.254)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
# No limit of time may end a job of a busy machine: a node that is slow to answer is not down.
SlurmctldTimeout=600
SlurmdTimeout=600
MessageTimeout=100
TCPTimeout=60
BatchStartTimeout=600
UnkillableStepTimeout=600
KillWait=300
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
NodeName=node1 NodeAddr={network}.1 CPUs={cpus} State=UNKNOWN
NodeName=node2 NodeAddr={network}.2 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES PriorityTier=1
PartitionName=urgent Nodes=node1,node2 MaxTime=INFINITE State=UP PriorityTier=10
"""
_START = """\
set -e
hostname "$1"
mount --bind "$2" /proc/cpuinfo
mount --bind "$3" /etc/hosts
mount --bind "$4" "$5"
shift 5
exec "$@"
"""
_WITH_PMIX = f'mount --bind "$0" {_PMIX_FOLDER} && exec "$@"'
"""Slurm looks for ``libpmix.so`` there; Debian has that name in its package for developers only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """A running Slurm.

    Attributes:
        environ: variables with which Slurm's commands find it.
        folder: its files.
        daemons: the process of each node's slurmd, by the node's number.
    """

    environ: dict[str, str]
    folder: Path
    daemons: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def here(self) -> Path:
        """A folder that each node has another one at; ``own`` names that of a node."""
        return self.folder / "here"

    def own(self, node: int) -> Path:
        """Return what a node has in ``here``."""
        return self.folder / f"own-{node}"

    @property
    def pmix(self) -> tuple[str, ...]:
        """The start of a command that finds PMIx, such as ``srun --mpi=pmix``."""
        return ("unshare", "--mount", "sh", "-c", _WITH_PMIX, str(self.folder / "libraries"))

    def cpuinfo(self, node: int, text: str) -> None:
        """Have a node see another ``/proc/cpuinfo``."""
        with (self.folder / f"cpuinfo-{node}").open("r+") as stream:  # in place: the file itself is mounted
            stream.truncate()
            stream.write(text)


@contextmanager
def slurm(folder: Path) -> Iterator[Cluster]:
    """Run a Slurm while the context lasts."""
    install_slurm()
    folder.mkdir(mode=0o755)
    for name in ("state", "here", *(f"spool-node{node}" for node in NODES), *(f"own-{node}" for node in NODES)):
        (folder / name).mkdir()
    shutil.copytree(_PMIX_FOLDER, folder / "libraries", symlinks=True)
    (folder / "libraries/libpmix.so").symlink_to("libpmix.so.2")
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    own = [
        f"--{name}={folder}/munge.{name.partition('-')[0]}" for name in ("socket", "log-file", "pid-file", "seed-file")
    ]
    with ExitStack() as stack:
        network, switch, namespaces = _networks(stack)
        configuration = folder / "slurm.conf"
        configuration.write_text(
            _CONFIGURATION.format(host=os.uname().nodename, folder=folder, network=network, cpus=CPUS)
        )
        hosts = folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{network}.{node} node{node}\n" for node in NODES))
        # Its nodes are namespaces, which Docker's one daemon is outside of.
        environ = {"SLURM_CONF": str(configuration), "ENVBUILD_ENGINE": "local"}
        cluster = Cluster(environ=environ, folder=folder)
        _daemon(stack, cluster, "munged", "munged", "--foreground", "--force", f"--key-file={key}", *own)
        _daemon(stack, cluster, "slurmctld", "nsenter", f"--net=/run/netns/{switch}", "slurmctld", "-D")
        for node in NODES:
            file = folder / f"cpuinfo-{node}"
            file.write_text(Path("/proc/cpuinfo").read_text())
            inside = ("nsenter", f"--net=/run/netns/{namespaces[node]}", "unshare", "--uts", "--mount")
            places = map(str, (file, hosts, cluster.own(node), cluster.here))
            words = ("sh", "-c", _START, "sh", f"node{node}", *places, *cluster.pmix, "slurmd", "-D")
            cluster.daemons[node] = _daemon(stack, cluster, f"slurmd-{node}", *inside, *words)
        wait_for_nodes(cluster)
        yield cluster


def _networks(stack: ExitStack) -> tuple[str, str, dict[int, str]]:
    """Make a namespace for each node; returns the first three numbers of addresses, the bridge's and their namespaces.

    The bridge between them is in a namespace of its own: in this machine's, Docker's rules would drop what crosses it.
    """
    tag = uuid.uuid4().hex[:6]
    network = f"10.{128 + int(tag[:2], 16) // 2}.{int(tag[2:4], 16)}"
    switch, names = f"s{tag}", {node: f"s{tag}-{node}" for node in NODES}
    for name in (switch, *names.values()):
        _ip("netns", "add", name)
        stack.callback(_ip, "netns", "del", name, check=False)
    _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
    _ip("-n", switch, "addr", "add", f"{network}.254/24", "dev", "bridge")
    for device in ("bridge", "lo"):
        _ip("-n", switch, "link", "set", device, "up")
    for number, name in {253: "", **names}.items():
        inside = ("-n", name) if name else ()
        device = "e0" if name else f"v{tag}"
        _ip(*inside, "link", "add", device, "type", "veth", "peer", "name", f"p{number}", "netns", switch)
        _ip("-n", switch, "link", "set", f"p{number}", "master", "bridge", "up")
        _ip(*inside, "addr", "add", f"{network}.{number}/24", "dev", device)
        _ip(*inside, "link", "set", device, "up")
        if name:
            _ip(*inside, "link", "set", "lo", "up")
    return network, switch, names


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True)


def _daemon(stack: ExitStack, cluster: Cluster, name: str, *command: str) -> subprocess.Popen[bytes]:
    """Start a daemon in the foreground, to be ended with the context."""
    log = stack.enter_context((cluster.folder / f"{name}.out").open("wb"))
    process = subprocess.Popen(command, env=os.environ | cluster.environ, stdout=log, stderr=log)
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_nodes(cluster: Cluster, count: int = len(NODES)) -> None:
    """Wait until so many nodes take jobs."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        done = subprocess.run(
            ["sinfo", "-h", "-t", "idle,mixed,allocated", "-o", "%D"],
            env=os.environ | cluster.environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if sum(map(int, done.stdout.split())) == count:
            return
        time.sleep(0.2)
    logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(cluster.folder.glob("*.out")))
    raise RuntimeError(f"Slurm did not come up:\n{logs}")


def install_slurm() -> None:
    """Install what is missing; one test process after the other, since apt refuses a second one at once."""
    with locked(CACHE / "apt.lock"):
        missing = [package for program, package in _PACKAGES.items() if not shutil.which(program, mode=os.F_OK)]
        if not missing:
            return
        if os.geteuid() != 0:
            raise RuntimeError(f"these tests need Slurm: apt-get install {' '.join(missing)}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
            words = ["apt-get", "-o", "DPkg::Lock::Timeout=300", *command]
            subprocess.run(words, check=True, env=environment, capture_output=True)
