"""Run an image in the foreground: create, attach, wait, start, copy streams, remove.

Removal is the engine's duty from the start (``AutoRemove``), and waiting is for the removal, not the exit, so that
nothing of a run is left when it returns. Where somebody wants to see the container's files after the end, it is removed
here. If this process is killed, the next command removes the container by the mark of its owner.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from envbuild.core import process_mark
from envbuild.core.uninterrupted import uninterrupted
from envbuild.engine.docker import owner
from envbuild.engine.docker.attach import copy_output
from envbuild.engine.docker.endpoint import is_rootless
from envbuild.engine.docker.files import EndedFiles
from envbuild.engine.docker.http import ApiError, EngineClient, engine_refused
from envbuild.engine.docker.podman import exit_code, exit_code_asked
from envbuild.engine.protocol import ContainerExit, ContainerRun
from envbuild.engine.streams import SignalRelay, copied_input, raw_terminal, resized
from envbuild.engine.watchdog import Watchdog
from envbuild.errors import EngineError

_NO_DETACH = "ctrl-^,ctrl-@,ctrl-^,ctrl-@"
"""The default sequence would swallow Ctrl-P, a key of every shell."""


_NO_INIT = re.compile(r"docker-init|container-init binary not found")
"""Docker's message when the container starts, and podman when it is created."""


_PIDS = 32_768
"""Processes and threads of a container: far above what training needs (a few thousand with many loader workers), and
far below the four million that systemd sets for a host, so that a program that only forks leaves others room."""
_ROOT_KEEPS = ("CHOWN", "DAC_OVERRIDE", "FOWNER")
"""Capabilities of a program that runs as root: a caller who is root finds files of any owner in the project, as without
a container. All others are dropped; a program that runs as anybody else has none."""


class _NoInitError(Exception):
    """The engine lacks its init program: some distributions package it apart."""


def run_container(
    client: EngineClient, request: ContainerRun, devices: Sequence[Mapping[str, Any]] = ()
) -> ContainerExit:
    """Implement ``ContainerRunner.run_container``; ``devices`` are the GPUs in the engine's words."""
    if client.endpoint.scheme == "ssh" and request.mounts:
        from envbuild.engine.docker.limits import not_here

        raise not_here(client.endpoint, str(request.mounts[0].source))
    try:
        return _run(client, request, devices, init=True)
    except _NoInitError:
        return _run(client, request, devices, init=False)


def _run(
    client: EngineClient, request: ContainerRun, devices: Sequence[Mapping[str, Any]], *, init: bool
) -> ContainerExit:
    """Run with or without the engine's init program."""
    since = time.time()
    kept = request.ended is not None
    identity, interrupt = uninterrupted(partial(_create, client, request, devices, init))
    with _removed_unless_started(client, identity, kept=kept) as mark_started:
        if interrupt is not None:
            raise interrupt
        with ExitStack() as stack:
            with _refused("attach to the container"):
                attached = client.hijacked(f"/containers/{identity}/attach", _attachment(request))
                stream = stack.enter_context(attached)
                condition = "next-exit" if kept else "removed"
                wait = client.begun("POST", f"/containers/{identity}/wait", {"condition": condition})
                pending = stack.enter_context(wait)
                asked = stack.enter_context(exit_code_asked(client, identity)) if client.podman else None
            relay = stack.enter_context(SignalRelay(lambda name: _kill(client, identity, name)))
            watchdog = None
            if request.limit is not None:
                stacks = partial(_print_stacks, client, identity, request.stacks) if request.stacks else None
                watchdog = stack.enter_context(Watchdog(request.limit, partial(_kill, client, identity), stacks))
            if request.ready:
                request.ready()
            _start(client, identity, wants_gpus=bool(devices))
            mark_started()
            relay.open()
            if request.watcher:
                request.watcher.started(relay.send)
            if request.tty:
                stack.enter_context(raw_terminal())
                stack.enter_context(resized(lambda columns, lines: _resize(client, identity, columns, lines)))
            if request.interactive:
                stack.enter_context(copied_input(stream))
            write = request.watcher.write if request.watcher else None
            copy_output(stream, request.tty, lambda: relay.send("SIGHUP"), write, request.tap)
            code = int(pending.result()["StatusCode"])
            if asked is not None:
                code = exit_code(asked)
        if request.ended is not None:
            request.ended(EndedFiles(client, identity))
    out_of_memory = code != 0 and _out_of_memory(client, identity, since)
    return ContainerExit(code, out_of_memory=out_of_memory, timed_out=watchdog.exceeded if watchdog else None)


def container_config(
    request: ContainerRun, *, init: bool, rootless: bool, shm_size: int, devices: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Translate a request into the body of the create call.

    Args:
        request: what to run.
        devices: the request's GPUs, as ``docker_gpus.device_requests`` gives them.
        init: let the engine's init program be process 1.
        rootless: the engine runs as the caller, whose identity inside is root's.
        shm_size: bytes of /dev/shm.
    """
    host: dict[str, Any] = {
        "AutoRemove": request.ended is None,
        # Reaps orphans and forwards signals; where the engine has none, envbuild's guard does that itself.
        "Init": init,
        "NetworkMode": request.network,
        "LogConfig": {"Type": "none"},
        "ShmSize": shm_size,
        # Mounted projects carry the caller's SELinux label, which a confined container may not touch.
        "SecurityOpt": ["label=disable", "no-new-privileges"],
        "CapDrop": ["ALL"],
        "Mounts": [
            {"Type": "bind", "Source": str(mount.source), "Target": mount.target, "ReadOnly": mount.read_only}
            for mount in request.mounts
        ],
        "Tmpfs": dict.fromkeys(request.scratch, "rw,exec,nosuid,nodev,mode=1777"),
    }
    user = "0:0" if rootless and request.user else request.user
    if user.partition(":")[0] in ("", "0"):  # podman would give them to another user as ambient capabilities
        host["CapAdd"] = list(_ROOT_KEEPS)
    if not rootless:  # a rootless engine may be allowed no limits; podman sets one of its own where it is
        host["PidsLimit"] = _PIDS
    if request.hostname and (request.network == "none" or request.address):
        # Engines name a container in its hosts file by its address, and here it has none; launchers look for it.
        host["ExtraHosts"] = [f"{request.hostname}:{request.address or '127.0.0.1'}"]
    if request.tty:  # from Docker 23 on the program's first look at its terminal is already right
        with suppress(OSError):
            size = os.get_terminal_size(1)
            host["ConsoleSize"] = [size.lines, size.columns]
    if request.cpus is not None:
        host["NanoCpus"] = round(request.cpus * 1e9)
    if request.cpuset:
        host["CpusetCpus"] = request.cpuset
    if request.memory is not None:
        host["Memory"] = request.memory
    if devices:
        host["DeviceRequests"] = list(devices)
    # Where NVIDIA's runtime is the default it would hand GPUs to images that ask for them by a variable.
    hidden = {} if request.gpus else {"NVIDIA_VISIBLE_DEVICES": "void"}
    config: dict[str, Any] = {
        "Image": request.image,
        "Env": [f"{name}={value}" for name, value in {**hidden, **request.environment}.items()],
        "WorkingDir": request.workdir,
        "User": user,
        "Hostname": request.hostname,
        "Labels": dict(request.labels),
        "Tty": request.tty,
        "OpenStdin": request.interactive,
        "StdinOnce": request.interactive,
        "AttachStdin": request.interactive,
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": host,
    }
    if request.command:
        config["Cmd"] = list(request.command)
    if request.entrypoint is not None:
        config["Entrypoint"] = list(request.entrypoint)
    return config


def _create(client: EngineClient, request: ContainerRun, devices: Sequence[Mapping[str, Any]], init: bool) -> str:
    """Create the container and return its identity."""
    # The kernel's own default for a memory file system. The engine's 64 MB starve data loaders with workers.
    shm_size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    rootless = is_rootless(client.endpoint)
    config = container_config(request, init=init, rootless=rootless, shm_size=shm_size, devices=devices)
    config["Labels"] |= {owner.LABEL: process_mark.mark()}
    try:
        return str(client.call("POST", "/containers/create", body=config)["Id"])
    except ApiError as error:
        if init and _NO_INIT.search(error.message):
            raise _NoInitError from None
        if error.status == 404 and "image" in error.message.lower():
            raise EngineError(f"the engine has no image {request.image}", "build it: envbuild build") from None
        raise _refusal(client, "create the container", error.message, bool(devices)) from None


def _start(client: EngineClient, identity: str, *, wants_gpus: bool = False) -> None:
    """Start the container."""
    try:
        client.call("POST", f"/containers/{identity}/start")
    except ApiError as error:
        if _NO_INIT.search(error.message):
            raise _NoInitError from None
        raise _refusal(client, "start the container", error.message, wants_gpus) from None


def _refusal(client: EngineClient, doing: str, message: str, wants_gpus: bool) -> EngineError:
    """Explain why the engine refused: as text about GPUs or where it is, if that is what it is about."""
    if wants_gpus:
        from envbuild.engine.docker.gpus import refused

        if found := refused(message):
            return found
    from envbuild.engine.docker.limits import explained

    return explained(message, client.endpoint) or engine_refused(doing, message)


@contextmanager
def _removed_unless_started(client: EngineClient, identity: str, *, kept: bool) -> Iterator[Any]:
    """Remove a container that never started, or that is ``kept`` at its end; another is the engine's to remove."""
    started = []
    try:
        yield lambda: started.append(True)
    finally:
        if kept or not started:
            with suppress(ApiError, EngineError):
                client.call("DELETE", f"/containers/{identity}", {"force": 1, "v": 1})


def _attachment(request: ContainerRun) -> dict[str, Any]:
    """Ask for all streams from the start on."""
    return {"stream": 1, "stdout": 1, "stderr": 1, "stdin": int(request.interactive), "detachKeys": _NO_DETACH}


@contextmanager
def _refused(doing: str) -> Iterator[None]:
    """Turn an error status into ``EngineError``."""
    try:
        yield
    except ApiError as error:
        raise engine_refused(doing, error.message) from None


def _kill(client: EngineClient, identity: str, signal_name: str) -> None:
    """Send a signal; a program that has just ended needs none."""
    with suppress(ApiError):
        client.call("POST", f"/containers/{identity}/kill", {"signal": signal_name})


def _print_stacks(client: EngineClient, identity: str, number: int) -> None:
    """Send a signal to all processes: a program that hangs often waits for one of its children.

    One after another, with pauses for the first twenty: two that print their stacks at once mix their lines.
    """
    script = (
        "n=0; cd /proc; for p in [0-9]*; do "
        f"[ $p = 1 ] || [ $p = $$ ] || kill -{number} $p 2>/dev/null; "
        "n=$((n+1)); [ $n -gt 20 ] || sleep 0.05; done"
    )
    command = ["/bin/sh", "-c", script]
    with suppress(ApiError):
        made = client.call("POST", f"/containers/{identity}/exec", body={"Cmd": command})
        client.call("POST", f"/exec/{made['Id']}/start", body={"Detach": True})


def _resize(client: EngineClient, identity: str, columns: int, lines: int) -> None:
    """Set the terminal's size."""
    with suppress(ApiError):
        client.call("POST", f"/containers/{identity}/resize", {"w": columns, "h": lines})


def _out_of_memory(client: EngineClient, identity: str, since: float) -> bool:
    """Ask the engine's memory of past events, since the container itself is gone."""
    filters = json.dumps({"container": [identity], "event": ["oom"]})
    query = {"since": f"{since:.6f}", "until": f"{time.time():.6f}", "filters": filters}
    with suppress(ApiError, EngineError):
        return bool(client.text("GET", "/events", query).strip())
    return False
