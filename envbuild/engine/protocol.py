"""What envbuild needs of a container engine, and nothing more.

Stages import these names only. Nothing here may lean on what a single engine has: an engine without a daemon
(user namespaces, Apptainer) must be able to implement each protocol. All file systems travel as plain tar
streams, so that a remote engine works like a local one and no host path is ever mounted during a build; an engine that
works on this machine's own file system may implement ``TreeStepRunner`` besides, whose results need not travel.

Values are structs of msgspec, not dataclasses: each start makes these classes, and a dataclass takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event
from typing import BinaryIO, Literal, Protocol

import msgspec

from envbuild.core.blob import Blob
from envbuild.core.progress import Progress
from envbuild.errors import EngineError


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One command over a root file system, without network, as root, with the constant host name ``envbuild``.

    Attributes:
        base: uncompressed tar of the root file system.
        base_key: digest that names the content of ``base``; engines may cache its import under it.
        inputs: tar to unpack over ``/`` before the command starts, or None.
        command: argument vector; the first item is an absolute path.
        environment: the complete environment of the command.
        result: absolute path in the container whose tree is the result; ``/`` for the whole file system.
        fresh: use nothing that was kept for ``base_key``, and keep nothing.
        unwanted: set when nobody waits for the result any more; the command is then ended, which is a ``BuildError``.
    """

    base: Path
    base_key: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    inputs: Path | None = None
    result: str = "/"
    fresh: bool = False
    unwanted: Event | None = None


class StepRunner(Protocol):
    """Runs build steps."""

    def run_step(self, step: Step) -> AbstractContextManager[BinaryIO]:
        """Run the step and give its result as a tar stream; what it started is gone on exit from the context.

        With ``result="/"`` member names are relative to the root without a leading ``./``; otherwise they begin
        with the last component of ``result``, as ``docker cp`` does.

        Raises:
            BuildError: the command failed; the message holds the end of its output.
            EngineError: the engine is not reachable or refused.
        """


class TreeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One command over a root file system that is made for it, and whose result stays where the command left it.

    Attributes:
        fill: writes the root file system as members of tars to a stream, in any order; of two members of one path the
            later one wins. The command starts only if it returns.
        base: a folder with a root file system, seen read-only below what ``fill`` writes; none of the folders in it can
            be written to. None: all comes from ``fill``.
        files: shown to the command below ``folder``, by name, read-only; there when ``fill`` has returned.
        folder: absolute path in the container; empty without ``files``.
        memory: bytes that the root file system has, about, where nobody wants it but for the result: it is made in
            memory if there is much more of that, and on the disk if not. 0: all of it may be wanted.
        removed_later: what is left of the step may be removed after the context, while others go on; this process waits
            for it at its end, and what a killed one leaves is removed by the next step.
        one_processor: the step's processes stay on the processor where the first one starts. For thousands of short
            ones that wait for each other: on a busy machine each would wait for the slice of whoever computes where it
            was placed, 2 ms.
        command, environment, result, unwanted: as for ``Step``.
    """

    fill: Callable[[BinaryIO], None]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    base: Path | None = None
    files: Mapping[str, Path] = msgspec.field(default_factory=dict)
    folder: str = ""
    memory: int = 0
    one_processor: bool = False
    removed_later: bool = False
    result: str = "/"
    unwanted: Event | None = None


class FoundEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a step has left at a path.

    Attributes:
        path: relative to the step's ``/``; undecodable bytes as surrogate escapes.
        kind: ``file``, ``dir``, ``symlink``, ``hardlink`` (to an earlier entry), ``fifo``, ``char`` or ``block``.
        mode: permission bits.
        target: of a link; that of a hard link is relative to ``/``.
        size: bytes of a file.
        capability: the extended attribute ``security.capability``; empty if there is none.
        device: numbers of a device.
    """

    path: str
    kind: str
    mode: int
    uid: int
    gid: int
    target: str = ""
    size: int = 0
    capability: bytes = b""
    device: tuple[int, int] = (0, 0)


class FinishedTree(msgspec.Struct, frozen=True, kw_only=True):
    """A step's result in place.

    Attributes:
        root: the folder that was the step's ``/``. This process may read, move and remove what is in it; owners and
            modes there may be others than in ``entries``.
        entries: all below ``result``, folders before what they hold; read once.
    """

    root: Path
    entries: Iterator[FoundEntry]


class TreeStepRunner(Protocol):
    """Runs build steps on this machine's own file system, so that their results need not travel."""

    def run_tree_step(self, step: TreeStep) -> AbstractContextManager[FinishedTree]:
        """Run the step and give its result; what is left of it is gone on exit from the context.

        Raises:
            BuildError: the command failed, the message holds the end of its output; or the disk is full.
            EngineError: the kernel refused.
        """

    def shows(self, file: Path) -> bool:
        """Return whether a step can see a file (``TreeStep.files``) without a copy of it."""


class ImageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An image as its engine holds it.

    Attributes:
        config: the engine's own name of the image in hex: the digest of its config, or, where the engine keeps images
            in containerd's store, of its manifest.
        tags: its references.
        diff_ids: uncompressed layer digests (hex), bottom first.
        architecture: as the OCI image configuration writes it, such as ``amd64``.
        environment: variables that the image sets.
    """

    config: str
    tags: tuple[str, ...]
    diff_ids: tuple[str, ...]
    architecture: str = ""
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)


class ImageFinder(Protocol):
    """Knows which images there are."""

    def find_image(self, reference: str) -> ImageInfo | None:
        """Look an image up by tag, ``repository@sha256:…`` or ``sha256:`` identity; None if the engine lacks it."""


class ParcelLayer(Blob, frozen=True, kw_only=True, eq=False):
    """A layer on its way into an engine, perhaps while it is being written; its digest is the diff ID too.

    Attributes:
        file: returns where its file is, and whether it is whole; None if it has not been begun. What is there of it
            stays as it is.
    """

    file: Callable[[], tuple[Path, bool] | None]


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """An image, or the lower part of one, on its way into an engine.

    Attributes:
        manifest: OCI image manifest.
        config: OCI image configuration.
        layers: bottom first.
        archive: makes a docker archive of it that names it, without the layers whose digests it is given; of the last
            parcel only.
    """

    manifest: bytes
    config: bytes
    layers: tuple[ParcelLayer, ...]
    archive: Callable[[Collection[str]], Iterator[bytes]]


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """How an image got into an engine.

    Attributes:
        how: ``pull``, or ``load``.
        sent: layers that the engine lacked.
        why: what spoke against a pull.
    """

    how: Literal["pull", "load"]
    sent: frozenset[str]
    why: str = ""


class ImageStore(ImageFinder, Protocol):
    """Holds images."""

    def deliver(self, parcels: Iterator[Parcel], tag: str, progress: Progress) -> Delivered:
        """Bring an image into the engine under a tag, as far as the engine lacks it.

        Args:
            parcels: ever longer lower parts of the image as they are made, or all of it while it is still being made,
                then the whole image. Raises to give up; the engine then keeps nothing under any name.
            tag: ``name:tag``.
            progress: receives bytes; what it raises ends the delivery too.

        Raises:
            EngineError: the engine refused or went away.
        """

    def held_layers(self) -> tuple[tuple[str, ...], ...] | None:
        """The diff-ID chains (hex, bottom first) the engine need not be sent again; None if it wants all of them."""

    def load(self, archive: Iterator[bytes]) -> None:
        """Load a docker archive (``manifest.json`` inside) streamed as tar; raises ``EngineError``."""


class BaseImages(ImageFinder, Protocol):
    """Brings images made elsewhere, and gives their file systems."""

    def pull_image(self, reference: str, architecture: str) -> None:
        """Bring an image from its registry into the engine, with the credentials the user's engine has.

        Args:
            reference: ``repository@sha256:…``; the engine checks what it gets against the digest.
            architecture: as the OCI image configuration writes it; chooses among the images of an index.

        Raises:
            EngineError: the registry does not answer or refuses, or has no such image.
        """

    def export_image(self, reference: str, architecture: str) -> AbstractContextManager[BinaryIO]:
        """Give the file system of an image the engine holds as a tar stream; nothing of the image is started.

        Member names are relative to the root. What engines put into every container may be among them.

        Raises:
            EngineError: the engine lacks the image or refused.
        """


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A bind mount of an absolute host path."""

    source: Path
    target: str
    read_only: bool = False


GpuSupport = Literal["cdi", "nvidia", ""]
"""How an engine passes GPUs: CDI, NVIDIA's runtime, or not as far as it specifies."""


class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs to hand to a container.

    Attributes:
        count: how many, the first ones of the host; 0 for all.
        exact: a host with fewer is refused at once; else the guard compares what there is with the lock.
        devices: these instead: identities (``GPU-…``, ``MIG-…``) or indexes (``0``, ``0:1`` for a MIG slice).
    """

    count: int = 0
    exact: bool = False
    devices: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Write as ``--gpus`` takes it."""
        return ",".join(self.devices) or (str(self.count) if self.count else "all")


class GpusRefusedError(EngineError):
    """The engine could not hand the GPUs over; the container was not started."""


def refuse_fewer(gpus: Gpus, found: int) -> None:
    """Raise ``GpusRefusedError`` where exactly so many GPUs are wanted and the host has fewer."""
    if gpus.exact and found < gpus.count:
        raise GpusRefusedError(
            f"--gpus {gpus.count}: the host has {found} {'GPU' if found == 1 else 'GPUs'}",
            "list its GPUs: nvidia-smi -L; or leave --gpus out: the lock states how many",
        )


class Watcher(Protocol):
    """Takes the place of this process's streams and signals next to one container, so that several run at once."""

    def started(self, send: Callable[[str], None]) -> None:
        """Hear that the container is about to start, and how to send it a signal by name from then on."""

    def write(self, number: int, data: memoryview) -> None:
        """Take what the program wrote to descriptor 1 or 2; ``data`` is valid during the call only."""


FileChange = Literal["created", "changed", "deleted"]


class OwnFiles(Protocol):
    """The files of a container whose program has ended: the image's and its own, without mounts and memory."""

    def changes(self) -> Mapping[str, FileChange]:
        """Return what the container has of its own, files and folders, by absolute path; raises ``EngineError``."""

    def archive(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Give a file or a folder as a tar stream; member names begin with the last component of ``path``.

        Raises:
            EngineError: the engine refused, or there is no such path.
        """


class Emulator(msgspec.Struct, frozen=True, kw_only=True):
    """What starts programs of another machine.

    Attributes:
        machine: which, as ``uname`` names it.
        program: QEMU's user-mode emulator of it, linked statically.
        cpu: a model of QEMU's with features taken away or added, such as ``Haswell,-pcid``; empty for its default.
    """

    machine: str
    program: Path
    cpu: str = ""


class ContainerRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of an image.

    Attributes:
        image: tag or ``sha256:…`` identity.
        command: replaces the image's command, not its entry point; empty keeps the image's.
        entrypoint: replaces the entry point, or None.
        user: ``uid:gid``.
        network: ``none``, ``bridge``, ``host`` or the name of an engine network.
        hostname: the container's name for itself.
        address: IPv4 address that this name leads to; empty for the loopback's, or whatever the engine gives it.
        cpus: number of CPUs (may be fractional) as a quota, or None.
        cpuset: CPU list such as ``0-1``, or empty.
        memory: limit in bytes, or None.
        interactive: attach standard input.
        tty: allocate a terminal.
        scratch: paths to mount as empty writable memory file systems.
        labels: labels on the container.
        gpus: GPUs to pass; None for none, even if the engine's default were all.
        watcher: gets the program's output and may send signals; None for this process's own streams and signals.
            Needs ``interactive`` and ``tty`` to be off.
        tap: called as the watcher's ``write``, with each piece of output after it was passed on; all that comes from a
            terminal is for descriptor 1.
        ready: called when all is ready but the program, which starts once it has returned.
        ended: called when the program has ended, before the container is removed. A container without it is removed by
            the engine, whatever becomes of this process.
        limit: returns how many seconds the program may run, None while there is no limit; asked while it runs.
        stacks: number of a signal that is sent to all its processes before it is ended for its time; 0 for none.
        emulator: starts the image's programs; None: they are the engine's machine's. The local engine alone has this.
        skipped_pids: how many numbers of processes are used up before the program gets its own. The local engine alone
            has this; elsewhere the program's number is the engine's.
        compared: look at the end whether somebody has changed the image's files, however short the program was.
    """

    image: str
    command: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] | None = None
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    workdir: str = ""
    user: str = ""
    network: str = "none"
    cpus: float | None = None
    cpuset: str = ""
    memory: int | None = None
    interactive: bool = False
    tty: bool = False
    scratch: tuple[str, ...] = ()
    hostname: str = "envbuild"
    address: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    gpus: Gpus | None = None
    watcher: Watcher | None = None
    tap: Callable[[int, memoryview], None] | None = None
    ready: Callable[[], None] | None = None
    ended: Callable[[OwnFiles], None] | None = None
    limit: Callable[[], float | None] | None = None
    stacks: int = 0
    emulator: Emulator | None = None
    skipped_pids: int = 0
    compared: bool = False


LayersState = Literal["", "unchanged", "changed", "not compared"]
"""What is known at the end of a run about the files of its image that were in the store: that they were the image's all
the time; that somebody has changed them; nothing, since the program was too short to be worth a look. Empty where the
engine keeps them itself."""


class ContainerExit(int):
    """A program's exit code, and what ended it if it was not itself.

    Attributes:
        out_of_memory: the kernel ended one of its processes because memory ran out.
        timed_out: the limit in seconds at which it was ended; None if it was not.
        layers: what is known of the image's files.
    """

    out_of_memory: bool
    timed_out: float | None
    layers: LayersState

    def __new__(
        cls, code: int, *, out_of_memory: bool = False, timed_out: float | None = None, layers: LayersState = ""
    ) -> ContainerExit:
        """Make one from a code."""
        made = super().__new__(cls, code)
        made.out_of_memory = out_of_memory
        made.timed_out = timed_out
        made.layers = layers
        return made


class ContainerRunner(Protocol):
    """Runs images in the foreground."""

    def run_container(self, request: ContainerRun) -> ContainerExit:
        """Run to the end with this process's streams and terminal; SIGINT, SIGTERM and SIGHUP reach the program.

        Returns:
            The program's exit code (128 + signal number if it was killed).

        Raises:
            EngineError: the container could not be created or started.
            GpusRefusedError: nor can it be, with these GPUs.
        """

    def gpu_support(self) -> GpuSupport:
        """Describe how the engine passes GPUs; empty if it does not state that it can."""

    def is_local(self) -> bool:
        """Return whether containers run on this machine, so that what is known of its hardware is known of theirs."""

    def machine(self) -> str:
        """Return the machine on which containers run as ``uname -m`` names it; empty if the engine reports none."""


class Engine(StepRunner, ImageStore, BaseImages, ContainerRunner, Protocol):
    """Everything together, and what the engine reports of itself."""

    def describe(self) -> Mapping[str, str]:
        """Name, version, storage driver and API version of the engine."""
