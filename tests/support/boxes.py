"""Containers of the small image of ``guardbox``, with Docker or the local engine, whichever the environment names."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from envbuild.core.progress import Silent
from envbuild.engine.local.engine import LocalEngine
from envbuild.engine.protocol import ContainerRun, Mount
from envbuild.lockfile.model import Lock
from envbuild.operations.engines import chosen_kind, local_engine
from envbuild.store.objects import Store
from tests.support.guardbox import Box, image_settings, import_image, write_image
from tests.support.parcels import parts

PATIENCE = 300.0
"""Seconds after which something is taken to hang; nothing is measured by it."""
IS_LOCAL = chosen_kind() == "local"
"""Whether the local engine is tested."""
_TAG = "envbuild-guard-test:local"


class AnyBox(Protocol):
    """A container that has been started."""

    def wait(self) -> tuple[int, str, str]:
        """Wait for the end; return exit code, standard output, standard error."""

    def says(self, text: str) -> None:
        """Wait until the output holds a text."""

    def send(self, name: str) -> None:
        """Send the program a signal by its name."""

    def execute(self, *command: str, **variables: str) -> tuple[int, str]:
        """Run a further command in the container, with more variables; return exit code and output."""


Start = Callable[..., AnyBox]
"""Starts a container with a command, and the options of ``docker run`` that ``_LocalBox`` and ``Box`` know."""


@contextmanager
def starter(folder: Path, lock: Lock) -> Iterator[Start]:
    """Make the image of a lock, and give what starts containers of it; all of it is gone at the end.

    Args:
        folder: for the image.
    """
    if not IS_LOCAL:
        yield from _docker(folder, lock)
        return
    if os.geteuid() != 0:
        pytest.skip("enters the namespaces of programs")
    tar = folder / "rootfs.tar"
    write_image(tar, lock)
    engine = local_engine(Store(folder / "store"))
    engine.deliver(parts([tar], _TAG, settings=image_settings(lock)), _TAG, Silent())
    tar.unlink()
    boxes: list[_LocalBox] = []

    def start(*command: str, **options: Any) -> AnyBox:
        boxes.append(_LocalBox(engine, command, **options))
        return boxes[-1]

    try:
        yield start
    finally:
        for each in boxes:
            each.end()


def _docker(folder: Path, lock: Lock) -> Iterator[Start]:
    from envbuild.engine.docker.adapter import connect

    client: Any = connect()._sdk_client()
    tag = import_image(client, folder, lock)
    boxes: list[Box] = []

    def start(*command: str, **options: Any) -> AnyBox:
        boxes.append(Box(client, tag, list(command), **options))
        return boxes[-1]

    try:
        yield start
    finally:
        for each in boxes:
            client.remove_container(each.identity, force=True)
        client.remove_image(tag, force=True)


class _LocalBox:
    """A program of the local engine in a thread; implements ``AnyBox``, and ``Watcher`` for itself.

    Args:
        binds, environment, entrypoint, user: as Docker's SDK takes them.
        init: ignored: the engine's own process is always the first.
    """

    def __init__(
        self,
        engine: LocalEngine,
        command: Sequence[str],
        *,
        binds: Mapping[str, Mapping[str, str]] = {},
        environment: Mapping[str, str] = {},
        entrypoint: Sequence[str] | None = None,
        user: str = "",
        init: bool = True,
    ) -> None:
        image = engine.find_image(_TAG)
        assert image is not None
        self._environment = image.environment
        self._changed = threading.Condition()
        self._output = {1: b"", 2: b""}
        self._send: Callable[[str], None] | None = None
        self._code: int | None = None
        request = ContainerRun(
            image=_TAG,
            command=tuple(command),
            entrypoint=None if entrypoint is None else tuple(entrypoint),
            environment=environment,
            mounts=tuple(Mount(source=Path(source), target=bind["bind"]) for source, bind in binds.items()),
            user=user,
            watcher=self,
        )
        self._thread = threading.Thread(target=self._run, args=(engine, request), daemon=True)
        self._thread.start()

    def _run(self, engine: LocalEngine, request: ContainerRun) -> None:
        code = -1
        try:
            code = engine.run_container(request)
        finally:
            with self._changed:
                self._code = code
                self._changed.notify_all()

    def started(self, send: Callable[[str], None]) -> None:
        """See ``Watcher``."""
        with self._changed:
            self._send = send
            self._changed.notify_all()

    def write(self, number: int, data: memoryview) -> None:
        """See ``Watcher``."""
        with self._changed:
            self._output[number] += bytes(data)
            self._changed.notify_all()

    def wait(self) -> tuple[int, str, str]:
        """See ``AnyBox``."""
        self._thread.join(PATIENCE)
        assert self._code is not None, self._output
        return self._code, self._output[1].decode(), self._output[2].decode()

    def says(self, text: str) -> None:
        """See ``AnyBox``."""
        with self._changed:
            self._changed.wait_for(lambda: self._has(text) or self._code is not None, PATIENCE)
            assert self._has(text), self._output

    def send(self, name: str) -> None:
        """See ``AnyBox``."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._send is not None, PATIENCE)
            assert self._send is not None
            self._send(name)

    def execute(self, *command: str, **variables: str) -> tuple[int, str]:
        """See ``AnyBox``: as root of this machine, in the program's namespaces and root file system."""
        words = [f"{name}={value}" for name, value in {**self._environment, **variables}.items()]
        entered = ("nsenter", "--target", str(self._program()), "--mount", "--uts", "--ipc", "--net", "--pid", "--root")
        done = subprocess.run(
            [*entered, "--wd=/", "env", "-i", *words, *command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    def end(self) -> None:
        """Kill what still runs."""
        if self._thread.is_alive() and self._send is not None:
            self._send("SIGKILL")
        self._thread.join(PATIENCE)

    def _has(self, text: str) -> bool:
        return text.encode() in self._output[1] + self._output[2]

    def _program(self) -> int:
        """Return the program's process: below the one that this box's thread has started, and process 1."""
        number = self._thread.native_id
        found = Path(f"/proc/self/task/{number}/children").read_text().split()
        for _ in range(2):
            (process,) = found
            found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        (program,) = found
        return int(program)
