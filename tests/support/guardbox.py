"""A small image with the runtime, made of this machine's interpreter, and containers of it: no network needed."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import sysconfig
import tarfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from envbuild.image.runtime import files
from envbuild.lockfile import layout
from envbuild.lockfile.model import Lock
from tests.support.rootfs import write_rootfs
from tests.support.runtime import VERSION, make_lock

EXECUTABLE = Path(sys.base_prefix, "bin", f"python{VERSION}")
ENV_PYTHON = f"{layout.ENV_PREFIX}/bin/python"
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "42", "TZ": "UTC"}
_LEFT_OUT = {"test", "site-packages", "dist-packages", "idlelib", "tkinter", "ensurepip", "lib2to3", "__pycache__"}


def make_image_lock(**changes: Any) -> Lock:
    """Make the lock of such an image: one distribution, three variables."""
    return make_lock(**{"environment": ENVIRONMENT, **changes})


def image_files(lock: Lock) -> Iterator[tuple[str, bytes | Path]]:
    """The interpreter with its library, the runtime and one locked distribution; a Path is a file of this machine."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    yield str(EXECUTABLE), EXECUTABLE
    libraries = [EXECUTABLE]
    for path in sorted(stdlib.rglob("*")):
        relative = path.relative_to(stdlib)
        if path.is_file() and not _LEFT_OUT & set(relative.parts) and not relative.parts[0].startswith("config-"):
            yield str(path), path
            if path.suffix == ".so":
                libraries.append(path)
    listed = subprocess.run(["ldd", *map(str, libraries)], capture_output=True, text=True, check=False).stdout
    for library in sorted(set(re.findall(r"(/\S+\.so\S*) \(", listed))):
        yield library, Path(library)
    for name, file in files.runtime_files(lock).items():
        yield name, file.data
    yield f"{layout.ENV_PREFIX}/pyvenv.cfg", f"home = {EXECUTABLE.parent}\nversion = {VERSION}\n".encode()
    for part in ("METADATA", "RECORD"):
        yield f"{files.site_packages(lock)}/numpy-2.4.6.dist-info/{part}", b""


def write_image(output: Path, lock: Lock, further: Mapping[str, Path] = {}) -> None:
    """Write the root file system as a tar, with further files of this machine by absolute path."""
    write_rootfs(output, ("sh", "cat", "sleep", "kill", "true", "env", "mkdir", "touch"))
    with tarfile.open(output, "a") as tar:
        held = set(tar.getnames())
        for name, content in (*image_files(lock), *further.items()):
            member = tarfile.TarInfo(name.lstrip("/"))
            if member.name in held:
                continue
            _add_folders(tar, held, member.name)
            data = content if isinstance(content, bytes) else content.read_bytes()
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
        for name in {ENV_PYTHON, lock.python.executable} - {str(EXECUTABLE)}:
            link = tarfile.TarInfo(name.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, str(EXECUTABLE)
            _add_folders(tar, held, link.name)
            tar.addfile(link)


def _add_folders(tar: tarfile.TarFile, held: set[str], name: str) -> None:
    """Add the folders above a name that the tar does not hold yet: the local engine takes no layer without them."""
    for above in reversed(PurePosixPath(name).parents[:-1]):
        if str(above) not in held:
            held.add(str(above))
            folder = tarfile.TarInfo(str(above))
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)


def image_settings(lock: Lock) -> dict[str, Any]:
    """Return such an image's entry point, command and variables, as an image configuration has them."""
    variables = {"PATH": f"{layout.ENV_PREFIX}/bin:/bin", **lock.environment}
    return {
        "Entrypoint": list(files.entrypoint(lock)),
        "Cmd": [ENV_PYTHON],
        "Env": [f"{name}={value}" for name, value in variables.items()],
    }


def import_image(client: Any, folder: Path, lock: Lock, further: Mapping[str, Path] = {}) -> str:
    """Give the image to the engine and return its tag; the caller removes it.

    Args:
        client: the docker SDK's low-level client.
        folder: for the root file system's tar.
        lock: what the image is built from.
        further: files of this machine by absolute path in the image.
    """
    tar = folder / "rootfs.tar"
    write_image(tar, lock, further)
    settings = image_settings(lock)
    variables = [f"ENV {each}" for each in settings["Env"]]
    changes = [f"ENTRYPOINT {json.dumps(settings['Entrypoint'])}", f"CMD {json.dumps(settings['Cmd'])}", *variables]
    tag = f"envbuild-guard-test:{uuid.uuid4().hex}"
    repository, _, label = tag.partition(":")
    client.import_image(str(tar), repository=repository, tag=label, changes=changes)
    return tag


class Box:
    """A container that is removed at the end of its test."""

    def __init__(self, client: Any, image: str, command: list[str], **options: Any) -> None:
        self.client = client
        host = {name: options.pop(name) for name in ("init", "binds") if name in options}
        config = client.create_host_config(network_mode="none", **host)
        created = client.create_container(image, command, host_config=config, **options)
        self.identity = str(created["Id"])
        # What a busy engine's log has just after the end may lack what was printed last.
        self._printed = client.attach(self.identity, stream=True, demux=True)
        client.start(self.identity)

    def wait(self) -> tuple[int, str, str]:
        """Wait for the end; return exit code, standard output, standard error."""
        code = int(self.client.wait(self.identity, timeout=600)["StatusCode"])
        pieces = [*self._printed]
        out, err = (b"".join(each[at] or b"" for each in pieces).decode() for at in (0, 1))
        return code, out, err

    def says(self, text: str) -> None:
        """Wait until the output holds a text."""
        deadline = time.monotonic() + 300
        while text not in self.client.logs(self.identity).decode():
            assert self.client.inspect_container(self.identity)["State"]["Running"], self.client.logs(self.identity)
            assert time.monotonic() < deadline, self.client.logs(self.identity)
            time.sleep(0.02)

    def send(self, name: str) -> None:
        """Send the program a signal by its name, such as ``SIGTERM``."""
        self.client.kill(self.identity, name)

    def execute(self, *command: str, **variables: str) -> tuple[int, str]:
        """``docker exec``: return exit code and output."""
        started = self.client.exec_create(self.identity, list(command), environment=variables)
        output = self.client.exec_start(started["Id"]).decode()
        return int(self.client.exec_inspect(started["Id"])["ExitCode"]), output
