"""Run one program of an image in namespaces, in the foreground: start, copy streams, signals, time limit, remove.

What it writes outside its mounts goes to a folder of its own, which is there until its end was looked at. If this
process is killed, the kernel ends the program, and the next run removes the folder.
"""

from __future__ import annotations

import _socket as socket  # socket itself makes enumerations of its numbers: 2.5 ms
import fcntl
import os
import signal
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from envbuild.core import quick_json
from envbuild.core.fs import hold, random_name
from envbuild.core.leftovers import registered
from envbuild.core.redact import mask_arguments, mask_environment
from envbuild.core.removal import remove_held
from envbuild.engine.local import early
from envbuild.engine.local.helper import Helper, leave, take
from envbuild.engine.local.images import FoundImage
from envbuild.engine.local.limits import Group, Limits
from envbuild.engine.local.program_request import Handed, describe
from envbuild.engine.local.program_streams import Answers, copy, program_input, resize
from envbuild.engine.local.ways import Way
from envbuild.engine.protocol import ContainerExit, ContainerRun, FileChange
from envbuild.engine.streams import SignalRelay, Sink, Write, raw_terminal, resized, tapped
from envbuild.errors import EngineError

if TYPE_CHECKING:
    import tarfile

    from envbuild.engine.local.linked import FoundTree

_STDOUT, _STDERR = 1, 2
_IDENTITY = "envbuild.run"
"""Label with the run's identity."""
_WORKSPACE = "/workspace"
_GUARD, _GATE = "/opt/envbuild/guard.py", "/opt/envbuild/lib/_envbuild/guard/gate.py"
"""The image's entry point, and the part of the guard that waits."""
_HELD = b"ENVBUILD_HELD"
"""Known to ``envbuild/runtime/guard/gate.py`` too."""
_RUN_DIR = "/run/envbuild"
"""Where guard and hook of a run write to."""


def run_program(
    request: ContainerRun,
    image: FoundImage,
    way: Way,
    gpus: Handed,
    tree: FoundTree | None = None,
) -> ContainerExit:
    """Implement ``ContainerRunner.run_container``.

    Args:
        request: what to run.
        image: the image that it names.
        way: how programs run on this machine.
        gpus: what it gets for its GPUs.
        tree: the image as one folder, where there is no overlay.
    """
    begun = early.take(request.labels.get(_IDENTITY, ""), like_others=_may_be_begun(request, way, tree))
    if begun is not None:
        try:
            found = _run(request, image, way, gpus, tree, begun)
        finally:
            begun.end()
        if found is not None:
            return found
    found = _run(request, image, way, gpus, tree, None)
    assert found is not None  # noqa: S101 - nothing was begun that could be another run
    return found


def _may_be_begun(request: ContainerRun, way: Way, tree: FoundTree | None) -> bool:
    """Whether a run may be begun before it is known: see ``early.py``."""
    odd = (request.tty, request.watcher, request.gpus, request.emulator, request.cpus, request.memory, request.cpuset)
    return request.interactive and not any(odd) and not way.prefix and tree is None


def _run(
    request: ContainerRun,
    image: FoundImage,
    way: Way,
    gpus: Handed,
    tree: FoundTree | None,
    begun: early.Start | None,
) -> ContainerExit | None:
    """Run the program as ``run_program`` does; None: it is not the one that was begun, and nothing was run."""
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder(way.scratch, begun))
        made = begun.hand_over_group() if begun else ("", -1)
        group = stack.enter_context(Group(Limits(cpus=request.cpus, memory=request.memory), made))
        if begun:
            stack.callback(begun.end)  # a group with processes cannot be removed
        if tree is not None:
            _prepare(tree, folder / "upper")
        program = _Program(request, way.prefix)
        words = describe(request, image, folder, gpus, tree)
        if way.prefix:
            words |= {"parent": 0, "entered": True}
        words |= {"groups": group.doors(), "limited": group.is_needed()}
        if begun is not None and not begun.fits(_line({**words, "held": True})):
            return None
        code = program.run(words, begun)
        if begun is None:
            _keep(request, image, words, folder, group)
        if request.ended is not None:
            layers = [str(layer.path) for layer in image.trees]
            request.ended(EndedProgram(folder / "upper", layers, tree, gpus.places()))
        out_of_memory = code != 0 and group.out_of_memory()
    return ContainerExit(code, out_of_memory=out_of_memory, timed_out=program.exceeded)


def _keep(request: ContainerRun, image: FoundImage, words: Mapping[str, Any], folder: Path, group: Group) -> None:
    """Keep how the program was begun, for the next run, unless that would write down what may be a secret."""
    process = next((str(mount.source) for mount in request.mounts if mount.target == _RUN_DIR), "")
    if not process or not early.wanted(str(folder.parent)) or _makes_places(request):
        return
    if not _guard_waits(request, image):
        return
    command, variables = words["command"], words["environment"]
    if list(mask_arguments(command)) == command and mask_environment(variables) == variables:
        sources = [mount["source"] for mount in words["mounts"] if mount["source"] != process]
        groups = [str(Path(door).parent) for door in group.doors()]
        line = _line({**words, "held": True})
        early.keep(line, str(folder), "".join(groups[:1]), process, [*words["layers"], *sources])


def _guard_waits(request: ContainerRun, image: FoundImage) -> bool:
    """Whether the image's guard is what starts the program, and can be held: that of an older envbuild cannot."""
    if request.entrypoint is not None or image.image.entrypoint[-1:] != (_GUARD,):
        return False
    if any(mount.target.startswith("/opt") for mount in request.mounts):
        return False
    for layer in reversed(image.trees):
        with suppress(OSError):
            return _HELD in Path(f"{layer.path}{_GATE}").read_bytes()
    return False


def _makes_places(request: ContainerRun) -> bool:
    """Whether mounts may have places made for them in the project, which a run looks at before that."""
    project = next((mount.source for mount in request.mounts if mount.target == _WORKSPACE), None)
    for mount in request.mounts:
        below = mount.target.removeprefix(f"{_WORKSPACE}/")
        if below != mount.target and (project is None or project / below not in (mount.source, mount.source.parent)):
            return True
    return False


def _prepare(tree: FoundTree, own: Path) -> None:
    from envbuild.engine.local.linked import prepare

    try:
        prepare(tree, own)
    except OSError as error:
        raise EngineError(
            f"cannot copy the image's small folders to {own}: {error.strerror}",
            "make room, or choose another disk: export ENVBUILD_STORE=FOLDER",
        ) from error


class EndedProgram:
    """Implements ``OwnFiles`` for a run's own folder, an overlay's upper one.

    Args:
        upper: the folder.
        lowers: those below it.
        tree: the image as one folder, if there was no overlay.
        places: where something of the machine was mounted or linked to: what was made there is not the program's.
    """

    def __init__(
        self, upper: Path, lowers: Sequence[str], tree: FoundTree | None = None, places: Collection[str] = ()
    ) -> None:
        self._upper, self._lowers, self._tree, self._places = upper, lowers, tree, places

    def changes(self) -> Mapping[str, FileChange]:
        """List what the program wrote; see ``OwnFiles``.

        A folder that cannot be listed is listed as empty, and its archive has nothing of it.
        """
        from envbuild.engine.overlay import layer_changes

        try:
            if self._tree is not None:
                from envbuild.engine.local.linked import changes

                found = changes(self._tree, self._upper, _pass_over)
            else:
                found = layer_changes(str(self._upper), self._lowers, _pass_over)
        except OSError as error:
            raise EngineError(f"cannot list what the program wrote: {error.strerror}") from error
        return {path: change for path, change in found.items() if path not in self._places}

    @contextmanager
    def archive(self, path: str) -> Iterator[BinaryIO]:
        """Give a file or folder as tar; see ``OwnFiles``."""
        source = self._upper / path.lstrip("/")
        if not os.path.lexists(source):
            raise EngineError(f"cannot read {path} in the container: there is no such file")
        reader, writer = os.pipe()
        thread = threading.Thread(target=_write_tar, args=(source, writer), name="archive", daemon=True)
        thread.start()
        try:
            with open(reader, "rb") as stream:
                yield stream
        finally:
            thread.join()


def _pass_over(error: OSError) -> None:
    """Go on behind a folder that cannot be listed: it is missing in the archive, which the reader sees."""


def _write_tar(source: Path, writer: int) -> None:
    """Write a file or folder as tar to a pipe; what cannot be read is left out, an early end is the reader's wish."""
    import tarfile

    with (
        suppress(OSError, tarfile.TarError),
        open(writer, "wb") as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        left = [(source, source.name)]
        while left:
            path, name = left.pop()
            left += reversed([(path / each, f"{name}/{each}") for each in _add(tar, path, name)])


def _add(tar: tarfile.TarFile, path: Path, name: str) -> Sequence[str]:
    """Add a file or a folder, whose names are returned; left out is what cannot be opened, listed or found any more.

    Devices are left out too: in an overlay they are marks of removed files.

    Raises:
        OSError: a file could not be read to its end: then the archive has to end, for its head names a size.
    """
    names: Sequence[str] = ()
    with ExitStack() as stack:
        data = None
        try:
            member = tar.gettarinfo(path, name)
            if member is None or member.ischr() or member.isblk():
                return ()
            if member.isdir():
                names = sorted(os.listdir(path))  # noqa: PTH208 - names are all that is needed
            elif member.isreg():
                data = stack.enter_context(path.open("rb"))
        except OSError:
            return ()
        tar.addfile(member, data)
    return names


class _Program:
    """One program from its start to its end."""

    def __init__(self, request: ContainerRun, prefix: Sequence[str]) -> None:
        self._request, self._prefix = request, prefix
        self._answers = Answers()
        self.exceeded: float | None = None

    def run(self, words: Mapping[str, Any], begun: early.Start | None = None) -> int:
        """Run it; returns its exit code.

        Args:
            words: what its process is asked for.
            begun: the process that was asked already, and waits.

        Raises:
            EngineError: it could not be started.
        """
        request = self._request
        helper = begun.helper if begun else take(self._prefix)
        ours = helper.channel
        with ExitStack() as stack:
            stack.callback(self._leave, helper)
            feed = stack.enter_context(program_input(request))
            outputs = {} if request.tty or begun else {_STDOUT: os.pipe(), _STDERR: os.pipe()}
            readers = {reader: number for number, (reader, _) in outputs.items()}
            relay = stack.enter_context(SignalRelay(partial(_send, ours)))
            watchdog = None
            if request.limit is not None:
                from envbuild.engine.watchdog import Watchdog

                stacks = partial(_send_all, ours, request.stacks) if request.stacks else None
                watchdog = stack.enter_context(Watchdog(request.limit, partial(_send, ours), stacks, helper.kill))
            if request.ready:
                request.ready()
            if begun:
                readers = begun.let_go()
            else:
                _ask(helper, words, feed.theirs, outputs)
            feed.started()
            write: Write = request.watcher.write if request.watcher else Sink(lambda: relay.send("SIGHUP")).write
            if request.tap:
                write = tapped(write, request.tap)

            def started() -> None:
                relay.open()
                if request.watcher:
                    request.watcher.started(relay.send)
                if request.tty:
                    stack.enter_context(raw_terminal())
                    stack.enter_context(resized(partial(resize, self._answers)))
                if request.interactive:
                    stack.enter_context(feed.copied(self._answers))

            copy(ours, readers, self._answers, write, started)
            relay.ended(self._answers.ended)
        self._answers.close()
        self.exceeded = watchdog.exceeded if watchdog else None
        if self.exceeded is not None and not self._answers.has_result:  # the watchdog ended its process, too
            return 128 + signal.SIGKILL
        return self._answers.code()

    def _leave(self, helper: Helper) -> None:
        """End its process; one that has seen the end of all others ends by itself, and nothing waits for that."""
        if self._answers.over:
            leave(helper)
        else:
            helper.end()


def _ask(helper: Helper, words: Mapping[str, Any], stdin: int, outputs: Mapping[int, tuple[int, int]]) -> None:
    """Send the process its request; this process keeps none of the descriptors that only the program needs."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    writers = {number: writer for number, (_, writer) in outputs.items()}
    streams = [stdin if stdin >= 0 else null, writers.get(_STDOUT, null), writers.get(_STDERR, null)]
    try:
        with suppress(BrokenPipeError, ConnectionResetError):
            helper.ask(_line(words) + b"\n", streams)
    finally:
        for descriptor in (null, *writers.values()):
            os.close(descriptor)


def _line(words: Mapping[str, Any]) -> bytes:
    return quick_json.dumps(words).encode()


def _send(channel: socket.socket, name: str) -> None:
    """Send the program a signal; one that has just ended needs none."""
    with suppress(OSError):
        channel.sendall(quick_json.dumps({"signal": int(signal.Signals[name]), "all": False}).encode() + b"\n")


def _send_all(channel: socket.socket, number: int) -> None:
    """Send all its processes a signal."""
    with suppress(OSError):
        channel.sendall(quick_json.dumps({"signal": number, "all": True}).encode() + b"\n")


@contextmanager
def own_folder(scratch: Path, begun: early.Start | None = None) -> Iterator[Path]:
    """Make a run's folder, or take that of one that was begun; those of killed runs are removed."""
    scratch.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        hold(descriptor, scratch)  # a folder that has no lock yet is like one of a killed run
        sweep(scratch)
        if begun is not None:
            path, lock = begun.hand_over()
            folder = Path(path)
        else:
            folder, lock = _new_folder(scratch)
    finally:
        os.close(descriptor)
    try:
        with registered(folder):
            if begun is None:
                folder.chmod(0o711)  # the program's user passes through
                for name in ("root", "upper", "work"):
                    (folder / name).mkdir(mode=0o755)
            yield folder
    finally:
        remove_held(folder, lock)


def _new_folder(scratch: Path) -> tuple[Path, int]:
    """Make a folder, and the lock that holds it; nobody else may sweep meanwhile."""
    while True:
        folder = scratch / f"run-{random_name()}"
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            lock = os.open(folder / "lock", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            hold(lock, folder)
            return folder, lock


def sweep(scratch: Path) -> None:
    """Remove the folders of runs whose process was killed."""
    for name in os.listdir(scratch):  # noqa: PTH208 - by a pattern takes 0.3 ms of each run
        if not name.startswith("run-"):
            continue
        left = scratch / name
        with suppress(OSError):
            lock = os.open(left / "lock", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                raise
            early.forget_begun(str(left))
            remove_held(left, lock)
