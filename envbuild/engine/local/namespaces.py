"""Build steps without any container engine: in namespaces of the Linux kernel, by this user's own right.

Nothing has to be installed and no daemon runs; the result is that of an engine, byte for byte. The step's process
gives up what Docker's gives up and runs in a user namespace: its root is nobody on the host. For a user, an OS layer
has files of several owners and needs ranges of identities (``/etc/subuid``, ``newuidmap``); bytecode needs none. For
root, the range is the one lent to root or a fixed one; where the kernel makes no user namespace, root's step runs
without. Running programs and base images from registries remain a container engine's work. ``namespace_step.py`` is
what runs inside.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast

from envbuild.core import limits
from envbuild.core.fs import NO_SPACE, file_system, hold, is_full, no_space
from envbuild.core.removal import remove_held, remove_tree
from envbuild.engine.cancel import ended_early
from envbuild.engine.local import owners, syscall_filter
from envbuild.engine.local.identities import CHOWN, SETGID, SETUID, gives_owners, has
from envbuild.engine.local.memory import free_memory
from envbuild.engine.local.namespace_step import EMULATE, EMULATOR, START, WHOLE
from envbuild.engine.protocol import Emulator, FinishedTree, FoundEntry, Step, TreeStep
from envbuild.errors import BuildError, EngineError

_SCRIPT = Path(__file__).with_name("namespace_step.py")
_ENVIRONMENT = {"HOME": "/root", "HOSTNAME": "envbuild", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_IDENTITIES = 65_536
_UNUSED = 0x7000_0000
"""First identity of a range that no system gives out: https://systemd.io/UIDS-GIDS/ lists those in use."""
_SHOWN = "shown"
"""Folder of a step's files, as the script knows it."""
_READABLE = 0o004
"""Of a file's mode: the step's root is somebody else."""
_SHARE = 4
"""A step's files are in memory only where there is so many times as much of it."""
_FULL = ("no space left on device", "disk quota exceeded")
_JUDGED_ELSEWHERE = ("fuse", "nfs", "9p", "virtiofs", "cifs", "smb3", "ceph", "lustre", "gpfs", "beegfs")
"""Beginnings of names of file systems, as in proc_pid_mountinfo(5)."""
_FORBIDDEN = (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS, errno.ENOSYS, errno.EINVAL)

_LIMITS = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Range:
    """First identity and number of those that ``/etc/subuid`` or ``/etc/subgid`` lends to a user."""

    first: int
    count: int


class NamespaceSteps:
    """Implements ``envbuild.engine.protocol.StepRunner``.

    Args:
        scratch: folder for the steps' root file systems while they run, on a local disk; what killed builds left there
            is swept.
        prefix: command that makes a step's process root of a user namespace, where this user may make none by itself.
        emulator: starts the steps' programs; None: they are this machine's.
    """

    def __init__(self, scratch: Path, prefix: tuple[str, ...] = (), emulator: Emulator | None = None) -> None:
        self._scratch, self._prefix, self._emulator = scratch, prefix, emulator

    @contextmanager
    def run_step(self, step: Step) -> Iterator[BinaryIO]:
        """Run a build step; see ``StepRunner``."""
        tars = [str(tar.absolute()) for tar in (step.base, step.inputs) if tar is not None]
        with self._running(step, {"tars": tars}) as (_, stream):
            yield cast(BinaryIO, stream)

    @contextmanager
    def run_tree_step(self, step: TreeStep) -> Iterator[FinishedTree]:
        """Run a build step whose result stays in its folder; see ``TreeStepRunner``."""
        request = {
            "streamed": True,
            "shown": step.folder,
            "hand_over": not gives_owners(),
            "base": "" if step.base is None else str(step.base.absolute()),
            "one_processor": step.one_processor,
            "in_memory": 0 < step.memory <= free_memory() // _SHARE,
        }
        with self._running(step, request) as (root, stream):
            yield FinishedTree(root=root, entries=_entries(stream))
            while stream.read(1 << 20):
                pass

    def shows(self, file: Path) -> bool:
        """Return whether a step can see a file without a copy; see ``TreeStepRunner``.

        It is tried: file systems differ in what they link, and a kernel may link for a file's owner alone
        (``fs.protected_hardlinks``).
        """
        with _alone(self._scratch), tempfile.TemporaryDirectory(prefix="step-", dir=self._scratch) as folder:
            try:
                os.link(file, Path(folder) / "file")
            except OSError:
                return False
            return bool(file.stat().st_mode & _READABLE)

    @contextmanager
    def _running(self, step: Step | TreeStep, special: Mapping[str, Any]) -> Iterator[tuple[Path, BufferedReader]]:
        """Run a step to its command's end; gives its root and what the script writes of its result."""
        with ExitStack() as stack:
            with _alone(self._scratch):  # a folder that has no lock yet is like one of a killed step
                _sweep(self._scratch)
                name = tempfile.mkdtemp(prefix="step-", dir=self._scratch)
                lock = os.open(f"{name}/lock", os.O_CREAT | os.O_WRONLY, 0o600)
                later = isinstance(step, TreeStep) and step.removed_later
                # After a failure nobody may wait for a thread.
                stack.push(lambda kind, *_: _leave(Path(name), lock, later=later and kind is None))
                hold(lock, Path(name))
            root = Path(name) / "root"
            root.mkdir(mode=0o755)
            if special.get("base"):
                (Path(name) / "base").mkdir(mode=0o755)
            if isinstance(step, TreeStep) and step.folder:
                (Path(name) / _SHOWN).mkdir()
                (Path(name) / _SHOWN).chmod(0o755)  # whatever the umask is: the step's root is somebody else
            if self._emulator:
                shutil.copyfile(self._emulator.program, Path(name) / EMULATOR)
                (Path(name) / EMULATOR).chmod(0o755)
            record = step.result == "/" and (bool(self._prefix) or not makes_owners())
            request = {
                **special,
                "folder": name,
                "command": step.command,
                # dpkg syncs two thousand times, and nothing of a step survives a failure.
                "filter": syscall_filter.program(os.uname().machine, noticed=_noticed(record), unsynced=True).hex(),
                "record": record,
                "environment": {**_ENVIRONMENT, **step.environment},
                "user": "entered" if self._prefix else _user_namespace(self._scratch),
                "result": step.result,
                "owners": step.result == "/",
                "emulated": self._emulator.machine if self._emulator else "",
            }
            with _started(request, self._prefix) as process:
                with ended_early(step.unwanted, process.kill):
                    _judge(step, process, root)
                assert process.stdout is not None  # noqa: S101 - a pipe
                yield root, BufferedReader(_Checked(process, step), buffer_size=1 << 20)


def sweep_steps(folder: Path) -> None:
    """Remove what killed commands left of their steps in this folder; steps that run stay."""
    if folder.is_dir():
        with _alone(folder):
            _sweep(folder)


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"step-{'[a-z0-9_]' * 8}"):  # as mkdtemp names them
        with suppress(OSError):
            with (left / "lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                gone = remove_tree(left)
            if not gone:
                _remove(left)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Make a folder if need be, and hold it against other commands and threads that do this."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        hold(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


class _Checked(RawIOBase):
    """The result's stream; that it ends because its writer failed is an error."""

    def __init__(self, process: subprocess.Popen[bytes], step: Step | TreeStep) -> None:
        self._process = process
        self._step = step

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` with the next bytes; 0 at the end."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        count = int(self._process.stdout.readinto(buffer))  # type: ignore[attr-defined]  # unbuffered
        if count == 0 and len(buffer):
            assert self._process.stderr is not None  # noqa: S101 - a pipe
            for line in self._process.stderr:
                raise _refused(json.loads(line)) if line.startswith(b"{") else _broken(line)
            if self._process.wait() != 0:
                raise _broken(b"")
        return count


def _show(files: Mapping[str, Path], folder: Path) -> None:
    """Put files that a step is shown into a folder: other names of the same files, or copies where that cannot be."""
    for name, path in files.items():
        place = folder / name
        if path.stat().st_mode & _READABLE:
            with suppress(OSError):
                os.link(path, place)
                continue
        shutil.copyfile(path, place)
        place.chmod(0o644)


def _entries(lines: Iterable[bytes]) -> Iterator[FoundEntry]:
    """Read what the script lists."""
    for line in lines:
        fields = json.loads(line)
        capability, device = bytes.fromhex(fields.pop("capability", "")), fields.pop("device", (0, 0))
        yield FoundEntry(**fields, capability=capability, device=(device[0], device[1]))


def _fill(step: TreeStep, process: subprocess.Popen[bytes], shown: Path) -> None:
    """Write a step's root file system to the script, which starts the command when it has met the end's mark.

    Args:
        step: what was asked for.
        process: the script.
        shown: the folder that the command sees; gets its files.
    """
    assert process.stdin is not None  # noqa: S101 - a pipe
    stream = os.fdopen(os.dup(process.stdin.fileno()), "wb", 1 << 20)
    try:
        step.fill(stream)
        _show(step.files, shown)
        stream.write(tarfile.TarInfo(WHOLE).tobuf())
        stream.flush()
    except BrokenPipeError:  # it has failed, and states why
        pass
    except BaseException:
        process.kill()
        raise
    finally:
        with suppress(BrokenPipeError):
            stream.close()
        process.stdin.close()


def _judge(step: Step | TreeStep, process: subprocess.Popen[bytes], root: Path) -> None:
    """Map identities where asked, fill the root file system where asked, then wait for the command's end.

    Args:
        step: what was asked for.
        process: the script that runs it.
        root: the step's root file system, still empty.
    """
    assert process.stderr is not None  # noqa: S101 - a pipe
    for line in process.stderr:
        if not line.startswith(b"{"):
            raise _broken(line + process.stderr.read())
        answer = json.loads(line)
        if answer.get("map"):
            assert process.stdin is not None  # noqa: S101 - a pipe
            if os.geteuid() == 0:
                _shift(process.pid, (root.parent, root))
            else:
                _map(process.pid)
            process.stdin.write(b"\n")
            process.stdin.flush()
        elif answer.get("fill"):
            assert isinstance(step, TreeStep)  # noqa: S101 - asked for only then
            _fill(step, process, root.parent / _SHOWN)
        elif "failed" in answer:
            raise _refused(answer)
        elif answer.get("others"):
            raise EngineError(
                f"a package's script becomes another user ({', '.join(dict.fromkeys(answer['others']))}), "
                "and this user has one identity only: /etc/subuid lends none, or newuidmap is missing",
                _LEND,
            )
        elif answer["code"] != 0:
            raise _failed(step, int(answer["code"]), str(answer["output"]), full=is_full(root))
        elif answer["missing"]:
            raise BuildError(f"{' '.join(step.command[:3])} left no {step.result}")
        else:
            return
    raise _broken(b"")


@contextmanager
def _started(request: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Start the script with a request; it is gone when the block ends."""
    command = [*prefix, sys.executable, "-I", "-S", "-B", str(_SCRIPT)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdin is not None  # noqa: S101 - a pipe
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
            yield process
            process.wait()  # it cleans up by itself
        except BaseException:
            process.kill()
            raise


def _user_namespace(scratch: Path) -> str:
    """Return what the script is asked for: a user namespace that is "needed", "wanted", or "none".

    Args:
        scratch: folder of the steps.
    """
    if os.geteuid() != 0:
        return "needed"
    if not has(CHOWN, SETUID, SETGID):  # to hand folders over, and to map identities
        return "none"
    return "wanted" if _shifted() is not None and not _is_judged_elsewhere(scratch) else "none"


def _is_judged_elsewhere(folder: Path, table: Path = Path("/proc/self/mountinfo")) -> bool:
    """Whether a server or a daemon decides who may do what with a folder's files.

    Root of a user namespace is a user like any other to it, and gives no file to anybody: mergerfs, gocryptfs, NFS.
    """
    return file_system(folder, table).startswith(_JUDGED_ELSEWHERE)


def _shifted() -> tuple[int, int] | None:
    """Return the first user and group for root's steps; None if this process has no identities to spare.

    A root of a user namespace, as in a rootless container, often has just those that its images use.
    """
    found = []
    for kind in ("uid", "gid"):
        lent = _lent(Path(f"/etc/sub{kind}"), 0)
        here = Path(f"/proc/self/{kind}_map")
        candidates = [lent.first] if lent and lent.count >= _IDENTITIES else []
        first = next((each for each in (*candidates, _UNUSED) if _exist(here, each)), None)
        if first is None:
            return None
        found.append(first)
    return found[0], found[1]


def _exist(table: Path, first: int) -> bool:
    """Tell whether a range of identities exists in this process's own user namespace."""
    with suppress(OSError, ValueError):
        for line in table.read_text().splitlines():
            inside, _, count = map(int, line.split())
            if inside <= first and first + _IDENTITIES <= inside + count:
                return True
    return False


def _shift(process: int, folders: tuple[Path, ...]) -> None:
    """Map root and all others in a process's new user namespace to a range that is nobody's, and hand it its folders.

    Raises:
        EngineError: the kernel refused the mapping.
    """
    first = _shifted()
    assert first is not None  # noqa: S101 - else there was no request for it
    for folder in folders:
        os.chown(folder, *first)
    for name, start in zip(("uid_map", "gid_map"), first, strict=True):
        try:
            Path(f"/proc/{process}/{name}").write_text(f"0 {start} {_IDENTITIES}")
        except OSError as error:
            raise _refused({"failed": "map identities", "reason": error.errno or 0}) from None


def makes_owners() -> bool:
    """Return whether this user's steps can make files of several owners: as root, or with lent identities."""
    if os.geteuid() == 0:
        return gives_owners()
    lent = _lent(Path("/etc/subuid"), os.getuid()) and _lent(Path("/etc/subgid"), os.getuid())
    return bool(lent and shutil.which("newuidmap") and shutil.which("newgidmap"))


def _noticed(record: bool) -> Collection[int]:
    """Return the numbers of the calls that ``owners.py`` answers, if it is needed."""
    return owners.CALLS[os.uname().machine].values() if record else ()


def _map(process: int) -> None:
    """Map the identities of a process's new user namespace: this user to root, and lent ranges to all others."""
    uids, gids = _lent(Path("/etc/subuid"), os.getuid()), _lent(Path("/etc/subgid"), os.getuid())
    if uids and gids and shutil.which("newuidmap") and shutil.which("newgidmap"):
        for tool, own, lent in (("newuidmap", os.getuid(), uids), ("newgidmap", os.getgid(), gids)):
            count = min(lent.count, _IDENTITIES - 1)
            words = [tool, str(process), "0", str(own), "1", "1", str(lent.first), str(count)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise EngineError(f"{tool} refused to lend identities: {done.stderr.strip()}", _LEND)
        return
    folder = Path("/proc") / str(process)
    (folder / "setgroups").write_text("deny")
    (folder / "uid_map").write_text(f"0 {os.getuid()} 1")
    (folder / "gid_map").write_text(f"0 {os.getgid()} 1")


_LEND = (
    "lend some: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER (and install uidmap); or "
    "start Docker or podman; or bring in a store that holds the layers: envbuild store pull"
)


def _lent(path: Path, user: int) -> _Range | None:
    """Return the largest range of identities lent to a user."""
    names = {str(user)}
    with suppress(KeyError):
        names.add(pwd.getpwuid(user).pw_name)
    ranges = []
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in names:
                first, _, count = rest.partition(":")
                ranges.append(_Range(first=int(first), count=int(count)))
    return max(ranges, key=lambda lent: lent.count, default=None)


def _leave(folder: Path, lock: int, *, later: bool) -> None:
    """Remove a step's folder, here or in a thread that the process waits for at its end, and let go of its lock."""

    def remove() -> None:
        try:
            root = folder / "root"
            if root.exists() and any(root.iterdir()):
                _remove(root)
        finally:
            if not remove_held(folder, lock):
                _remove(folder)

    if later:
        threading.Thread(target=remove, name="remove-step").start()
    else:
        remove()


def _remove(folder: Path) -> None:
    """Remove a folder that may hold files of lent identities."""
    if not remove_tree(folder) and os.geteuid() != 0:
        with suppress(EngineError, OSError), _started({"remove": str(folder), "user": "needed"}) as process:
            assert process.stderr is not None  # noqa: S101 - a pipe
            assert process.stdin is not None  # noqa: S101 - a pipe
            process.stderr.readline()
            _map(process.pid)
            process.stdin.write(b"\n")


def _failed(step: Step | TreeStep, code: int, output: str, *, full: bool = False) -> BuildError | EngineError:
    """Report that the command failed, as ``docker_step.py`` does.

    Args:
        full: the disk is, whatever was printed: programs that end for that do not always print it readably.
    """
    text = output.strip() or "(it printed nothing)"
    if line := next((line for line in text.splitlines() if any(word in line.lower() for word in _FULL)), ""):
        return _no_space(line)
    if full:
        return _no_space(f"{' '.join(step.command[:3])} failed with exit code {code}: no space left on device")
    shown = "\n".join(f"  {line}" for line in text.splitlines()[-30:])
    limit, hint = limits.of_step(text) or ("", "")
    what = f"failed with exit code {code}{': ' if limit else ''}{limit}; the end of its output:\n{shown}"
    return BuildError(f"{' '.join(step.command[:3])} {what}", hint)


def _refused(answer: Mapping[str, Any]) -> BuildError | EngineError:
    """Describe what the kernel refused."""
    reason = int(answer["reason"])
    if reason in NO_SPACE and "namespace" not in answer["failed"]:
        said = str(answer["failed"])
        named = any(word in said.lower() for word in _FULL)
        return _no_space(said if named else f"{said}: {no_space(reason, on=' on device')}")
    if reason in _LIMITS and (limit := limits.explained(OSError(reason, os.strerror(reason)))):
        return BuildError(f"cannot run a build step: {limit[0]}", limit[1])
    if answer["failed"] == EMULATE:
        return EngineError(
            f"cannot run build steps of another architecture: cannot {EMULATE}: {os.strerror(reason)}", _NATIVE
        )
    if answer["failed"] == START:
        return EngineError(
            f"cannot {START}", "choose another folder: export ENVBUILD_STORE=FOLDER; or remount it with exec"
        )
    message = f"cannot run a build step without a container engine: cannot {answer['failed']}: {os.strerror(reason)}"
    if answer["failed"].startswith("use "):  # a file or folder of the step's own, in the store
        return EngineError(message, "choose another disk: export ENVBUILD_STORE=FOLDER")
    return EngineError(message, _ALLOW if reason in _FORBIDDEN else "")


_ALLOW = (
    "start Docker or podman; or let users have namespaces: sudo sysctl user.max_user_namespaces=65536, on Ubuntu also "
    "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, in a container --privileged"
)

_NATIVE = (
    "emulation needs Linux 6.7 or newer and a user namespace for each step; without them build on a machine of the "
    "lock's architecture, or bring the image in: envbuild pull"
)


def _no_space(text: str) -> BuildError:
    """Report what found the disk full, which is that of the store."""
    return BuildError(
        f"cannot run a build step: {text.strip()}", "make room, or choose another disk: export ENVBUILD_STORE=FOLDER"
    )


def _broken(text: bytes) -> EngineError:
    """Report that the script ended as it never should."""
    sentence = text.decode(errors="replace").strip().splitlines()
    return EngineError(
        f"a build step's process ended early{': ' + sentence[-1] if sentence else ''}", "run the command again"
    )
