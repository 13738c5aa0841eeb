"""What a run is asked for: program, image, lock, and the choices of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from envbuild.cluster.rank import Rank
from envbuild.engine.protocol import ContainerRunner, Emulator, Gpus, Mount, Watcher
from envbuild.lockfile.layout import HOST_NAME
from envbuild.lockfile.model import Lock
from envbuild.record.model import Record
from envbuild.record.printed import Printed, Stream

if TYPE_CHECKING:
    from envbuild.runs.time_limit import TimeLimit

AS_LOCKED: Final = "as locked"


class StreamReader(Protocol):
    """Takes what a program writes to one stream, as it comes."""

    def feed(self, data: memoryview) -> None:
        """Take the next piece; valid during the call only."""

    def result(self) -> Printed:
        """Return what the stream comes to, at its end."""


class RunEngine(ContainerRunner, Protocol):
    """What the run stage needs of an engine."""

    def describe(self) -> Mapping[str, str]:
        """Name, version, storage driver and API version."""


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, and where.

    Attributes:
        lock_path: the lock's file; its folder is the project.
        lock: what it reports.
        image: reference or identity for the engine; ``config`` is its config digest in hex.
        identity: of the run, where it was chosen before; empty: a new one.
        arguments: a script with its arguments, ``-m MODULE …``, or a command line; empty for a shell.
        verbatim: ``arguments`` is a command line even if it looks like a script.
        directory: the caller's working directory.
        environment: variables added for this run.
        network: empty for the lock's.
        cpus, cpuset, memory: limits; memory in bytes.
        tty: allocate a terminal; None for: if we are on one.
        controls: seeds and determinism as locked; False leaves frameworks as they come.
        gpus: GPUs to pass instead of the locked ones; None for none.
        allow: fields of the guard's table whose difference is allowed this once.
        guard: False switches the checks off; the record then has "not verified".
        emulator: starts the image's programs, with its name for the record; None: they are this machine's.
        inputs_since: asked at the end what happened to declared inputs meanwhile, a sentence for each.
        workspace: mounted in the project's place: a copy of it. The record stays with the project.
        own_variables: variables of envbuild's own, which belong to no recipe.
        own_mounts: mounts of envbuild's own, in which nothing is an output.
        watcher: takes the program's output instead of this process's streams.
        verification: identity that the runs of one verification share.
        without: switches and variables that this run goes without.
        hostname: the container's name for itself; only a verification gives it another one.
        skipped_pids: how many numbers of processes are used up before the program's, where the engine can do that.
        address: of this machine on the way to the other ranks' machines, which the container's name leads to; empty if
            there are none.
        signer: who has signed the image, as was demanded.
        index: digest of the index of several platforms that named the image in its registry; empty: none did.
        tensors: read the tensors of saved models after the run.
        outputs: paths in the container, outside the project, that count whatever their names, and are kept.
        copies: folder that files outside the project are copied to, to compare what they hold; None: nobody does.
        limit: how long the program may run; None for as long as it takes.
        meanwhile: called once the program starts: imports what every run needs at its end.
        preload: called once the program is no short one: imports what the end of a longer run may need.
        printed: makes what takes a stream of the run, from its start on; None: what is printed is not recorded.
        rank: its place among the processes of a distributed job; None if it is no part of one.
        placement: its number among the ranks of this machine, and the GPUs that ``CUDA_VISIBLE_DEVICES`` gives it there
            (empty: all); None if it is the only one.
        finished: called with the exit code before outputs are read; returns the exit codes of the ranks that have
            ended.
        recorded: called with the completed record once it is saved.
        before: state of ``mounted`` before any rank could write to it, see ``workspace.scan``; None: as it is now.
    """

    lock_path: Path
    lock: Lock
    image: str
    config: str
    arguments: tuple[str, ...]
    identity: str = ""
    verbatim: bool = False
    directory: Path = msgspec.field(default_factory=Path.cwd)
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    network: str = ""
    cpus: float | None = None
    cpuset: str = ""
    memory: int | None = None
    tty: bool | None = None
    controls: bool = True
    gpus: Gpus | Literal["as locked"] | None = AS_LOCKED
    allow: tuple[str, ...] = ()
    guard: bool = True
    emulator: tuple[Emulator, str] | None = None
    inputs_since: Callable[[], tuple[str, ...]] = tuple
    workspace: Path | None = None
    own_variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    own_mounts: tuple[Mount, ...] = ()
    watcher: Watcher | None = None
    verification: str = ""
    without: tuple[str, ...] = ()
    hostname: str = HOST_NAME
    skipped_pids: int = 0
    address: str = ""
    signer: str = ""
    index: str = ""
    tensors: bool = True
    outputs: tuple[str, ...] = ()
    copies: Path | None = None
    limit: TimeLimit | None = None
    printed: Callable[[Stream], StreamReader] | None = None
    meanwhile: Callable[[], None] | None = None
    preload: Callable[[], None] | None = None
    rank: Rank | None = None
    placement: tuple[int, str] | None = None
    finished: Callable[[int], Mapping[int, int]] | None = None
    recorded: Callable[[Record], None] | None = None
    before: Mapping[str, tuple[int, int, int, int, int]] | None = None
    _project: Path = Path()

    def __post_init__(self) -> None:
        """Find the project once: it is asked for 26 times in a run."""
        msgspec.structs.force_setattr(self, "_project", self.lock_path.resolve().parent)

    @property
    def project(self) -> Path:
        """The folder that holds the lock."""
        return self._project

    @property
    def mounted(self) -> Path:
        """The folder that the program works in: the project or a copy of it."""
        return self.workspace or self.project
