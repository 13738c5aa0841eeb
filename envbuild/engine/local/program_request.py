"""What ``program_process.py`` receives: a container's request, image and GPUs as paths, numbers and variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from envbuild.engine.local import syscall_filter
from envbuild.engine.local.images import FoundImage
from envbuild.engine.protocol import ContainerRun, Emulator, Mount
from envbuild.errors import EngineError

if TYPE_CHECKING:
    from envbuild.engine.local.linked import FoundTree

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CHOWN, _DAC_OVERRIDE, _FOWNER = 0, 1, 3
_ROOT_KEEPS = (_CHOWN, _DAC_OVERRIDE, _FOWNER)
"""As with Docker (``engine/docker/run.py``): a caller who is root finds files of any owner in the project."""
_DEBUGGING = ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp")
"""Calls that Docker's profile leaves to programs, and that MPI uses between processes of one user."""
_HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_WHOLE_RANGE = ["0", "0", "4294967295"]


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """What a program gets for its GPUs.

    Attributes:
        mounts: as ``program_process.py`` takes them.
        variables: environment.
        links: target by path.
        folders: folders with shared libraries, for the loader's cache.
        groups: additional groups of the program's process; a user keeps those that he has.
    """

    mounts: tuple[Mapping[str, Any], ...] = ()
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    links: Mapping[str, str] = msgspec.field(default_factory=dict)
    folders: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()

    def places(self) -> frozenset[str]:
        """Return the paths that are made for it in a run's own folder: files, links, and the folders above them."""
        made = {str(mount["target"]) for mount in self.mounts} | set(self.links)
        return frozenset(made.union(*({str(above) for above in Path(path).parents} for path in made)))


def describe(
    request: ContainerRun,
    image: FoundImage,
    folder: Path,
    gpus: Handed,
    tree: FoundTree | None = None,
) -> dict[str, Any]:
    """Describe a program for ``program_process.py``: its one line of JSON.

    Args:
        request: what to run.
        image: the image that it names.
        folder: the run's own folder, with ``root``, ``upper`` and ``work``.
        gpus: what it gets for its GPUs.
        tree: the image as one folder, where there is no overlay; ``upper`` is then prepared for it.

    Of a layer that an image has twice (the bytecode of wheels without modules is an empty one), the upper one counts:
    it covers all that the lower one has, and the kernel refuses an overlay with both (ELOOP, ovl_check_layer).
    """
    stored = image.image
    user, _, group = request.user.partition(":")
    root = os.geteuid() == 0
    user_id = int(user or 0) if root else os.getuid()
    entrypoint = stored.entrypoint if request.entrypoint is None else request.entrypoint
    command = request.command or (stored.command if request.entrypoint is None else ())
    kept = _ROOT_KEEPS if root and user_id == 0 else ()
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return {
        "parent": os.getpid(),
        "unshare": not root,
        "mapped": not root or _is_mapped() or request.emulator is not None,
        "emulated": _emulated(request.emulator, folder) if request.emulator else {},
        "network": _network(request.network),
        "entered": False,
        "layers": list(dict.fromkeys(str(layer.path) for layer in reversed(image.trees))),
        "tree": {"path": str(tree.path), "shared": tree.known.shared, "private": tree.known.private} if tree else {},
        "writable": sorted({path for layer in image.trees for path in layer.writable}),
        "root": str(folder / "root"),
        "upper": str(folder / "upper"),
        "work": str(folder / "work"),
        "mounts": [*map(_mount_words, request.mounts), *gpus.mounts],
        "links": dict(gpus.links),
        "libraries": list(gpus.folders),
        "memory": list(request.scratch),
        "shared": half,
        "hostname": request.hostname,
        "files": name_files(request),
        "command": [*entrypoint, *command],
        "environment": {
            "PATH": _PATH,
            "HOSTNAME": request.hostname,
            **({"TERM": "xterm"} if request.tty else {}),
            **gpus.variables,
            **stored.environment,  # the lock's come before those of a description
            **request.environment,
        },
        "directory": request.workdir or stored.directory or "/",
        "user": user_id,
        "group": int(group or 0) if root else os.getgid(),
        "additional": list(gpus.groups),
        "capabilities": list(kept),
        "cpus": _cpus(request.cpuset),
        "terminal": request.tty,
        "held": False,
        "skipped": request.skipped_pids,
        "filter": syscall_filter.program(os.uname().machine, allowed=_DEBUGGING).hex(),
    }


def _emulated(emulator: Emulator, folder: Path) -> dict[str, str]:
    """Describe the emulator. It is named relative to its folder: a rule of the kernel has no room for any path."""
    program = emulator.program
    return {
        "machine": emulator.machine,
        "folder": str(program.parent),
        "name": program.name,
        "place": str(folder / "binfmt"),
    }


def _mount_words(mount: Mount) -> dict[str, Any]:
    return {
        "source": str(mount.source.resolve()),
        "target": mount.target,
        "read_only": mount.read_only,
        "file": not mount.source.is_dir(),
    }


def _network(name: str) -> bool:
    """Whether the program shares the host's network; raises ``EngineError`` for a network of an engine."""
    if name in ("none", "host", "bridge"):
        return name != "none"
    raise EngineError(
        f"the local engine has no network {name}",
        "use one of: none, host (bridge is the host's too); or an engine that has it: ENVBUILD_ENGINE=docker",
    )


def name_files(request: ContainerRun) -> dict[str, str]:
    """Return the files in which programs look names up; with the host's network they know the host's names too.

    Clusters often name their nodes in ``/etc/hosts`` alone, and JAX and TensorFlow connect to nodes by name. Docker and
    podman give the host's file to containers on its network as well.
    """
    own = f"{_HOSTS}{request.address or '127.0.0.1'}\t{request.hostname}\n"
    files = {"/etc/hostname": f"{request.hostname}\n", "/etc/hosts": own, "/etc/resolv.conf": ""}
    if request.network != "none":
        with suppress(OSError):
            files["/etc/resolv.conf"] = Path("/etc/resolv.conf").read_text()
        with suppress(OSError, UnicodeDecodeError):
            files["/etc/hosts"] = own + Path("/etc/hosts").read_text()
    return files


def _cpus(text: str) -> list[int]:
    """Read a CPU list such as ``0-1,4``; raises ``EngineError`` for one that is none."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        try:
            found += range(int(first), int(last or first) + 1)
        except ValueError:
            raise EngineError(f"{text!r} is no list of processors", "write it like this: 0-3,8") from None
    return found


def _is_mapped() -> bool:
    """Whether this process is in a user namespace."""
    with suppress(OSError):
        return Path("/proc/self/uid_map").read_text().split() != _WHOLE_RANGE
    return False
