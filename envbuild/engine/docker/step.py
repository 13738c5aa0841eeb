"""Build steps on a Docker-compatible engine: one command in a container made from a tar, without network.

The base tar is imported once per ``base_key`` and kept as a small cache: a step that shares its base with the next
one does not send it twice. On the classic store an imported tar shares its layer with any image that contains it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast
from uuid import uuid4

import docker
import docker.errors
import msgspec

from envbuild.core import process_mark
from envbuild.core.uninterrupted import uninterrupted
from envbuild.engine.cancel import ended_early
from envbuild.engine.docker import owner
from envbuild.engine.docker.http import engine_refused
from envbuild.engine.docker.images import engine_errors, import_tar
from envbuild.engine.protocol import Step
from envbuild.errors import BuildError, EngineError

STEP_LABEL = "envbuild.step"
_REPOSITORY = "envbuild-step"
_KEY = re.compile(r"[a-z0-9][a-z0-9_.-]{0,127}")
_CACHED = 2
"""Imported bases kept for the next build."""
_YOUNG = 60
"""Seconds in which an imported base is another build's, about to make a container of it, or this one's own: engines
report whole seconds, so that the newest of several bases is not known."""
_ABANDONED = 24 * 3600
"""Seconds after which a step's container belongs to a build that was killed, if its mark has no time."""
_TAIL, _LINE = 16 << 10, 1 << 10
"""Bytes of output kept for the error message, and of a line that came in two parts."""
_FULL = b"no space left on device"
_CHUNK = 1 << 20
_ENDED_EARLY = "passing bulk input to subprocess"


@contextmanager
def run_step(client: docker.APIClient, step: Step, through: tuple[str, ...] = ()) -> Iterator[BinaryIO]:
    """Implement ``StepRunner.run_step``; the container is removed on any exit, an interrupt included.

    ``through`` is a program with its first arguments that starts the step's command.
    """
    if step.fresh:
        step = msgspec.structs.replace(step, base_key=f"fresh-{uuid4().hex}")
    _remove_abandoned(client)
    container, interrupt = _create(client, step, through)
    stream: BufferedReader | None = None
    try:
        if interrupt is not None:
            raise interrupt
        if step.inputs is not None:
            _copy_inputs(client, container, step.inputs)
        with ended_early(step.unwanted, partial(_kill, client, container)):
            _execute(client, container, step)
        chunks = ChunkReader(_result(client, container, step), "read the step's result")
        stream = BufferedReader(chunks, buffer_size=_CHUNK)
        yield cast(BinaryIO, stream)
    finally:
        if stream is not None:
            stream.close()
        with _tidying("remove the step's container"):
            client.remove_container(container, force=True, v=True)
        if step.fresh:
            with _tidying("remove the step's base"):
                client.remove_image(f"{_REPOSITORY}:{step.base_key}")


def _copy_inputs(client: docker.APIClient, container: str, inputs: Path) -> None:
    """Unpack a tar in the container; once more if podman's unpacking process ended early, as it may on a busy machine.

    Podman 4.3 reports this as ``passing bulk input to subprocess: write |1: broken pipe``. What was unpacked already is
    written again.
    """
    for attempt in (1, 2):
        try:
            with engine_errors("copy the step's inputs"), inputs.open("rb") as tar:
                client.put_archive(container, "/", tar)
            return
        except EngineError as error:
            if attempt == 2 or _ENDED_EARLY not in error.message:
                raise


@contextmanager
def _tidying(what: str) -> Iterator[None]:
    """Let pass that a thing is gone already, or is being removed by another build that sweeps up."""
    with engine_errors(what):
        try:
            yield
        except docker.errors.APIError as error:
            if error.status_code not in (404, 409):
                raise


def _result(client: docker.APIClient, container: str, step: Step) -> Iterator[bytes]:
    """Ask for the result's tar."""
    try:
        with engine_errors("read the step's result"):
            if step.result == "/":
                return iter(client.export(container, chunk_size=_CHUNK))
            return iter(client.get_archive(container, step.result, chunk_size=_CHUNK)[0])
    except EngineError as error:
        if isinstance(error.__cause__, docker.errors.NotFound):
            raise BuildError(f"{' '.join(step.command[:3])} left no {step.result}") from None
        raise


def _create(client: docker.APIClient, step: Step, through: tuple[str, ...]) -> tuple[str, KeyboardInterrupt | None]:
    """Create the step's container, importing the base first if the engine lacks it; returns as ``uninterrupted``."""
    if not _KEY.fullmatch(step.base_key):
        raise ValueError(f"base_key: expected [a-z0-9_.-], found {step.base_key!r}")
    reference = f"{_REPOSITORY}:{step.base_key}"
    for attempt in (1, 2, 3):
        try:
            with engine_errors("create the step's container"):
                words = (*through, *step.command)
                return uninterrupted(partial(_create_container, client, reference, step, words))
        except EngineError as error:
            # Absent at first, or swept by another build between import and creation.
            if attempt == 3 or not isinstance(error.__cause__, docker.errors.NotFound):
                raise
            _import_base(client, step)
    raise AssertionError("unreachable")


def _create_container(client: docker.APIClient, reference: str, step: Step, command: tuple[str, ...]) -> str:
    """Create, not start: no network, no mounts, no log driver, the given environment, a constant host name.

    An imported image's own user is root. Named all the same, podman would write it to ``/etc/passwd`` first.
    """
    host = client.create_host_config(network_mode="none", log_config=docker.types.LogConfig(type="none"))
    created = client.create_container(
        reference,
        entrypoint=[command[0]],
        command=list(command[1:]),
        environment=dict(step.environment),
        hostname="envbuild",
        working_dir="/",
        labels={STEP_LABEL: step.base_key, owner.LABEL: process_mark.mark()},
        host_config=host,
    )
    return str(created["Id"])


def _import_base(client: docker.APIClient, step: Step) -> None:
    """Import the base tar, and remove all but the newest bases and the young ones."""
    with step.base.open("rb") as tar:
        import_tar(client, tar, _REPOSITORY, step.base_key, {STEP_LABEL: step.base_key})
    with engine_errors("list cached steps"):
        images = client.images(filters={"label": STEP_LABEL})
    for image in _old(images):
        for name in image.get("RepoTags") or [image["Id"]]:
            with suppress(docker.errors.APIError):  # in use by another build
                client.remove_image(image["Id"] if name == "<none>:<none>" else name)


def _old(images: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the bases that may go; one was imported just now, which states what the engine's time is."""
    bases = sorted(images, key=lambda image: int(image["Created"]), reverse=True)
    return [image for image in bases[_CACHED:] if int(image["Created"]) < int(bases[0]["Created"]) - _YOUNG]


def remove_steps(client: docker.APIClient, *, dry_run: bool = False) -> list[str]:
    """Remove all imported bases and the containers of killed builds; returns the images' names.

    A build at work keeps its container, and imports its base again if it has none yet.
    """
    with engine_errors("list cached steps"):
        images = client.images(filters={"label": STEP_LABEL})
    if not dry_run:
        _remove_abandoned(client)
    removed = []
    for image in images:
        for name in image.get("RepoTags") or [image["Id"]]:
            with suppress(docker.errors.APIError):  # in use by a build
                if not dry_run:
                    client.remove_image(image["Id"] if name == "<none>:<none>" else name)
                removed.append(str(name))
    return removed


def _remove_abandoned(client: docker.APIClient) -> None:
    """Remove the containers of builds that were killed."""
    with engine_errors("list cached steps"):
        containers = client.containers(all=True, filters={"label": STEP_LABEL})
    latest = _engine_time(client) - _ABANDONED if containers else 0
    for container in containers:
        lives = process_mark.lives(str((container.get("Labels") or {}).get(owner.LABEL, "")))
        if lives is False or (lives is None and int(container["Created"]) < latest):
            with suppress(docker.errors.APIError):
                client.remove_container(container["Id"], force=True, v=True)


def _engine_time(client: docker.APIClient) -> float:
    """Return the engine's time, seconds since the epoch: this process's clock may be years off. 0 if it has none."""
    with engine_errors("ask the engine for its time"):
        text = str(client.info().get("SystemTime", ""))
    found = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    if found is None:
        return 0
    return datetime.fromisoformat(found[1] + found[2].replace("Z", "+00:00")).timestamp()


def _kill(client: docker.APIClient, container: str) -> None:
    with suppress(docker.errors.APIError):
        client.kill(container)


def _execute(client: docker.APIClient, container: str, step: Step) -> None:
    """Start the container, read its output to the end, and judge its exit code."""
    with engine_errors("run the step"):
        output = client.attach(container, stream=True)
        client.start(container)
        tail = full = b""
        for chunk in output:
            full = full or _line_with(_FULL, tail[-_LINE:] + chunk)
            tail = (tail + chunk)[-_TAIL:]
        code = int(client.wait(container)["StatusCode"])
    if code == 0:
        return
    text = tail.decode(errors="replace").strip() or "(it printed nothing)"
    if full:  # dpkg goes on after that, and prints more than is kept
        raise engine_refused("run the step", full.decode(errors="replace"))
    if "exec format error" in text.lower():
        from envbuild.engine.docker.limits import foreign

        raise foreign(str(client.version().get("Arch", "")))
    shown = "\n".join(f"  {line}" for line in text.splitlines()[-30:])
    raise BuildError(f"{' '.join(step.command[:3])} failed with exit code {code}; the end of its output:\n{shown}")


def _line_with(word: bytes, text: bytes) -> bytes:
    """Return the first line that has a word in small letters; empty if there is none."""
    return next((line for line in text.splitlines() if word in line.lower()), b"")


class ChunkReader(RawIOBase):
    """A raw stream over an iterator of byte chunks; engine faults while reading become ``EngineError`` (``doing``)."""

    def __init__(self, chunks: Iterator[bytes], doing: str) -> None:
        self._chunks = chunks
        self._doing = doing
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` with the next bytes; 0 at the end."""
        with engine_errors(self._doing):
            while not self._rest:
                chunk = next(self._chunks, None)
                if chunk is None:
                    return 0
                self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
