"""The start of a run while envbuild still finds out what to run: as the same command line ran the last time, and held.

Half of a short run's time goes into envbuild's own modules, the lock and the first record; namespaces, root and guard
need as long on another processor. What the last run of a command line asked of the kernel is kept in the store (a
``start``), for this user alone. The next one asks for the same at once, in folders of its own, and the image's guard
looks at the container and waits (``HELD`` in ``envbuild/runtime/guard/gate.py``): nothing of the program runs.

Then the run is described as ever, of the lock, the image and the command line as they are now. Only if that gives the
same text to the last byte, and what is mounted is still the same files and folders, the guard may go on; else all that
was begun is ended and the run starts anew. So a start that is out of date, or of another image, costs time alone.

Nothing here imports more than the modules that the command has by then.
"""

# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH106, PTH108, PTH109, PTH115, PTH116, PTH120, PTH211 - pathlib is not loaded yet

from __future__ import annotations

import _imp
import fcntl
import os
import stat
import sys

from envbuild.core.identity import new_id
from envbuild.engine.local.helper import Helper, keep_early, wait_for_left

TYPE_CHECKING = False  # a run begins before ``typing`` is imported
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = "starts"
"""Next to the folder of what programs write, in the store's derived things."""
_FORMAT = "1"
_REMEMBERED = 256
"""Command lines that are remembered at most, about."""
_MOST = 1 << 20
"""Bytes of a start."""
_END = b"\0"
_BEGUN = "begun"
"""Link in a run's own folder to its folder in the project: whoever finds the first left over removes the second."""
_FOLDER, _IDENTITY, _PROCESS, _GROUP = b"\1", b"\2", b"\3", b"\4"
"""What differs from run to run; no text of JSON has these bytes."""
_BOOT = "/proc/sys/kernel/random/boot_id"
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "HOROVOD_RANK", "SLURM_PROCID")
"""Variables of launchers (``cluster/launchers.py``): each rank of a job runs with others, and differently."""
_STDIN, _STDOUT, _STDERR = 0, 1, 2


class _Plan:
    """Where the start of this command line is kept.

    Attributes:
        key: the command line and what else is alike in runs that start alike.
        own: the part of it that is alike in all runs of this user and envbuild.
        path: the file.
    """

    def __init__(self, key: bytes, own: bytes, folder: str) -> None:
        self.key, self.own, self.folder = key, own, folder
        self.path = f"{folder}/{_imp.source_hash(0, key).hex()}"


class Start:
    """A run that has begun and is held.

    Attributes:
        helper: has got the request.
        line: the request.
        identity: of the run.
        folder: the run's own, with ``root``, ``upper`` and ``work``; ``lock`` holds it.
        group: its control group, and the lock that holds that; empty and -1 where there is none.
        outputs: descriptors from which the program's output and errors are read.
    """

    def __init__(self, helper: Helper, scratch: str, runs: str) -> None:
        self.helper, self.scratch, self.runs = helper, scratch, runs
        self.identity = new_id()
        self.line, self.folder, self.group = b"", "", ""
        self.lock = self.group_lock = -1
        self.outputs: dict[int, int] = {}
        self._seen: list[tuple[bytes, int, int]] = []
        self._gone = False

    @property
    def process(self) -> str:
        """The folder of guard and hook."""
        return f"{self.runs}/{self.identity}/process"

    def begin(self, template: bytes, parent: bytes, sources: Sequence[bytes]) -> None:
        """Make its folders and send its request; raises ``OSError``.

        Args:
            template: the request, with marks for what differs from run to run.
            parent: the control group in which it makes its own; empty for none.
            sources: what is mounted.
        """
        for source in sources:
            found = os.stat(source)
            self._seen.append((source, found.st_dev, found.st_ino))
        self._make_folder()
        os.symlink(f"{self.runs}/{self.identity}", f"{self.folder}/{_BEGUN}")
        self._make_process_folder()
        if parent:
            self._make_group(parent)
        number = str(os.getpid()).encode()
        own, group = os.fsencode(self.folder), os.fsencode(self.group)
        texts = {_FOLDER: own, _IDENTITY: self.identity.encode(), _PROCESS: number, _GROUP: group}
        self.line = template
        for mark, text in texts.items():
            self.line = self.line.replace(mark, text)
        pipes = {number: os.pipe() for number in (_STDOUT, _STDERR)}
        self.outputs = {number: reader for number, (reader, _) in pipes.items()}
        try:
            self.helper.ask(self.line + b"\n", [_STDIN, *(writer for _, writer in pipes.values())])
        finally:
            for _, writer in pipes.values():
                os.close(writer)

    def fits(self, line: bytes) -> bool:
        """Whether this is the run that is asked for, and nothing was exchanged or went wrong since it has begun."""
        if line != self.line or self.helper.has_ended():
            return False
        try:
            return all(
                (found.st_dev, found.st_ino) == (device, number)
                for source, device, number in self._seen
                for found in (os.stat(source),)
            )
        except OSError:
            return False

    def let_go(self) -> dict[int, int]:
        """Have the guard go on; returns the descriptors of its output, which the caller closes, with their numbers.

        From then on the caller ends the process.
        """
        from contextlib import suppress

        with suppress(OSError):  # it has ended, and the answer reports why
            self.helper.channel.sendall(b'{"go": true}\n')
        outputs, self.outputs, self._gone = self.outputs, {}, True
        return {reader: number for number, reader in outputs.items()}

    def hand_over(self) -> tuple[str, int]:
        """Give its own folder, and the lock that holds it, to a caller who removes them."""
        given = self.folder, self.lock
        self.folder, self.lock = "", -1
        return given

    def hand_over_group(self) -> tuple[str, int]:
        """Give its control group, and the lock that holds it, to a caller who removes them."""
        given = self.group, self.group_lock
        self.group, self.group_lock = "", -1
        return given

    def end(self) -> None:
        """End it, and remove what it has made but for the run's folder in the project."""
        if not self._gone:
            self.helper.end()
        while self.outputs:
            os.close(self.outputs.popitem()[1])
        if self.group:
            _remove_group(self.group)
        if self.folder:
            from pathlib import Path

            from envbuild.core.removal import remove_held, remove_tree

            if self.lock >= 0:
                remove_held(Path(self.folder), self.lock)
                self.lock = -1
            else:
                remove_tree(Path(self.folder))
        for lock in (self.lock, self.group_lock):
            if lock >= 0:
                os.close(lock)
        self.hand_over()
        self.hand_over_group()

    def forget(self) -> None:
        """Remove the run's folder in the project where there is no record of it."""
        _forget(f"{self.runs}/{self.identity}")

    def _make_folder(self) -> None:
        """Make the run's own folder, as ``program.own_folder`` does."""
        scratch = os.open(self.scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(scratch, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder = f"{self.scratch}/run-{os.urandom(4).hex()}"
            os.mkdir(folder, 0o700)
            self.folder = folder
            self.lock = os.open(f"{folder}/lock", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        finally:
            os.close(scratch)
        os.chmod(folder, 0o711)  # noqa: S103 - the program's user passes through
        for name in ("root", "upper", "work"):
            os.mkdir(f"{folder}/{name}")
            os.chmod(f"{folder}/{name}", 0o755)  # noqa: S103 - whatever the umask

    def _make_process_folder(self) -> None:
        """Make the folder of guard and hook in a project that has runs already; no link is followed below it."""
        state, runs = os.path.split(self.runs)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = [os.open(state, flags)]
        try:
            opened.append(os.open(runs, flags, dir_fd=opened[-1]))
            os.mkdir(self.identity, 0o755, dir_fd=opened[-1])
            opened.append(os.open(self.identity, flags, dir_fd=opened[-1]))
            os.mkdir("process", 0o700, dir_fd=opened[-1])
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _make_group(self, parent: bytes) -> None:
        """Make the control group and hold it, as ``limits.Group`` does, which sets its limit."""
        self.group = f"{os.fsdecode(parent)}/envbuild-{os.getpid()}-{os.urandom(4).hex()}"
        os.mkdir(self.group)
        self.group_lock = os.open(self.group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self.group_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(self.group)  # nobody took it for one of a killed run


_plans: list[_Plan] = []
_begun: list[Start] = []
_taken: list[str] = []


def begin(arguments: Sequence[str], environment: Mapping[str, str], helper: Helper) -> None:
    """Begin the run of a command line as it was begun the last time; else keep the process that it will need.

    Args:
        arguments: the command line.
        environment: of this process.
        helper: the process, which has no request.
    """
    plan = None if _is_odd(environment) else _plan(arguments, environment)
    fields = _read(plan) if plan is not None else None
    if fields is None:
        keep_early(helper)
        return
    scratch, runs, parent, template, *sources = fields
    start = Start(helper, os.fsdecode(scratch), os.fsdecode(runs))
    try:
        start.begin(template, parent, sources)
    except OSError:
        start.end()
        start.forget()
        return
    _begun.append(start)


def bundle() -> tuple[str, bytes] | None:
    """Return where the bytecode of this envbuild is kept for runs of this user, and what for; None for odd ones."""
    if not _plans:
        return None
    return f"{_plans[0].folder}/{_imp.source_hash(0, _plans[0].own).hex()}.modules", _plans[0].own


def identity(runs: str) -> str:
    """Return the identity of the run that was begun; empty if none was.

    Args:
        runs: the folder of the project's runs.
    """
    return next((start.identity for start in _begun if start.runs == runs), "")


def take(identity: str, *, like_others: bool) -> Start | None:
    """Return the run that was begun, which the caller lets go or ends; None if none was, or another one.

    Args:
        identity: of the run that is asked for.
        like_others: whether a run of its kind may be begun early.
    """
    if _taken or not like_others:
        _plans.clear()  # a second program, which reads saved models: nobody begins with it
    _taken.append(identity)
    return next((start for start in _begun if like_others and start.identity == identity and start.folder), None)


def wanted(scratch: str) -> bool:
    """Whether ``keep`` would keep a run whose program writes to a folder of this one."""
    return bool(_plans) and f"{os.path.dirname(scratch)}/{FOLDER}" == _plans[0].folder


def keep(line: bytes, folder: str, group: str, process: str, mounted: Sequence[str]) -> None:
    """Keep how a run was begun, for the next one of this command line.

    Args:
        line: its request.
        folder: its own folder.
        group: its control group; empty for none.
        process: the folder of guard and hook, below one of its identity.
        mounted: what else is mounted.
    """
    runs, identity = os.path.split(os.path.dirname(process))
    marks = {folder: _FOLDER, identity: _IDENTITY, f'{{"parent": {os.getpid()},': b'{"parent": %b,' % _PROCESS}
    marks |= {group: _GROUP} if group else {}
    for text, mark in marks.items():
        if os.fsencode(text) not in line:  # JSON has another form of it
            return
        line = line.replace(os.fsencode(text), mark)
    plan = _plans[0]
    fields = [os.path.dirname(folder), runs, os.path.dirname(group), *mounted]
    data = _END.join([plan.key, *map(os.fsencode, fields[:3]), line, *map(os.fsencode, fields[3:])])
    if data.count(_END) != len(fields) + 1 or len(data) > _MOST:
        return
    from contextlib import suppress

    temporary = f"{plan.path}.{os.urandom(4).hex()}.tmp"
    with suppress(OSError):
        os.makedirs(plan.folder, 0o700, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as stream:
            stream.write(data)
        os.rename(temporary, plan.path)
        _forget_oldest(plan.folder)


def _forget_oldest(folder: str) -> None:
    """Remove a quarter of the starts, those that were made first, if there are too many."""
    with os.scandir(folder) as entries:
        ages = sorted((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path) for entry in entries)
    if len(ages) > _REMEMBERED:
        for _, path in ages[: len(ages) // 4]:
            os.unlink(path)


def end() -> None:
    """End what was begun and not taken; nothing is kept any more."""
    _plans.clear()
    wait_for_left()
    while _begun:
        start = _begun.pop()
        if start.folder:
            start.end()
        start.forget()


def forget_begun(folder: str) -> None:
    """Remove what a killed run had begun in its project, where there is no record of it.

    Args:
        folder: its own folder, which nobody holds.
    """
    try:
        path = os.readlink(f"{folder}/{_BEGUN}")
    except OSError:  # it was not begun early
        return
    _forget(path)


def _forget(path: str) -> None:
    """Remove a run's folder if there is nothing in it but that of guard and hook, empty too."""
    if not os.path.lexists(f"{path}/record.json"):
        from contextlib import suppress

        for each in (f"{path}/process", path):
            with suppress(OSError):  # it is gone, or somebody put something there
                os.rmdir(each)


def _remove_group(path: str) -> None:
    """Remove a control group whose processes have been ended, or end in a moment; the next run removes what is left."""
    from time import sleep

    for _ in range(10):
        try:
            os.rmdir(path)
            return
        except OSError:
            sleep(0.005)


def _is_odd(environment: Mapping[str, str]) -> bool:
    """Whether a run would not be begun as others are: on a terminal, for somebody else, or as one of a job."""
    return os.isatty(_STDIN) or bool(environment.get("SUDO_UID")) or any(name in environment for name in _RANKS)


def _plan(arguments: Sequence[str], environment: Mapping[str, str]) -> _Plan | None:
    """Return where the start of a command line is; None if that is not known without reading settings."""
    cache = environment.get("XDG_CACHE_HOME", "")
    if not cache.startswith("/"):
        cache = f"{environment.get('HOME', '')}/.cache"
    store = environment.get("ENVBUILD_STORE") or f"{cache}/envbuild"
    if not store.startswith("/"):
        return None
    boot = b""
    try:
        with open(_BOOT, "rb", buffering=0) as stream:
            boot = stream.read(64).strip()
        own = b"\1".join([boot, *map(os.fsencode, (_FORMAT, __file__, sys.executable, str(os.geteuid())))])
        key = b"\1".join([own, *map(os.fsencode, (os.getcwd(), *arguments))])
    except OSError:
        return None
    if _END in key:
        return None
    _plans[:] = [_Plan(key, own, f"{store}/derived/{FOLDER}")]
    return _plans[0]


def _read(plan: _Plan) -> list[bytes] | None:
    """Return the fields of a start, if there is one that nobody else could have written."""
    try:
        for path, kind in ((plan.folder, stat.S_ISDIR), (plan.path, stat.S_ISREG)):
            found = os.lstat(path)
            if not kind(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                return None
        with open(plan.path, "rb", buffering=0) as stream:
            key, *fields = (stream.read(_MOST) or b"").split(_END)
    except OSError:
        return None
    return fields if key == plan.key and len(fields) > 4 else None
