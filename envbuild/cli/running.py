"""``run`` and ``check``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envbuild.cli.console import Console, print_error
from envbuild.cli.programs import Verb, check_program, misplaced, search_start
from envbuild.errors import EngineError, HostMismatchError, UsageError
from envbuild.image.record import is_recorded, read_image_record
from envbuild.lockfile import model as locks
from envbuild.operations.inputs import accept_hint, compare_inputs, indented, require_locked_inputs
from envbuild.operations.load_lock import load_lock
from envbuild.record.summary import summary

if TYPE_CHECKING:
    from envbuild.engine.docker.adapter import DockerEngine
    from envbuild.engine.protocol import ContainerRunner
    from envbuild.runs.request import RunRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """Options of ``envbuild run`` as typed, and those of ``envbuild verify`` that it shares."""

    command: tuple[str, ...]
    verb: Verb = "run"
    lock: Path | None = None
    environment: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    network: str | None = None
    cpus: float | None = None
    memory: str | None = None
    shell: bool = False
    controls: bool = True
    gpus: str | None = None
    tensors: bool = True
    trace: bool = False
    allow: tuple[str, ...] = ()
    guard: bool = True
    offline: bool = False
    image: str | None = None
    require_signature: str | None = None


def run_program(options: RunOptions, console: Console) -> int:
    """Run what the options name in the locked image; returns the program's exit code."""
    from envbuild.runs.execute import run

    request, engine = prepared(options, console)
    with host_said_first(request.lock, options, engine):
        record = run(request, engine)
    console.note(summary(record))
    if said := misplaced(options.command, record, options.verb):
        console.note(said)
    return record.exit_code if record.exit_code is not None else 1


def prepared(options: RunOptions, console: Console) -> tuple[RunRequest, DockerEngine]:
    """Make all ready for a run: lock, inputs, engine and image, which is built first if need be."""
    from envbuild.engine.docker.adapter import connect
    from envbuild.runs.request import RunRequest

    arguments = () if _wants_shell(options) else check_program(options.command, options.verb)
    chosen = _chosen(options)
    opened = load_lock(options.lock, search_start(arguments, options.verb), option=True)
    path, lock = opened.path, opened.lock
    since = require_locked_inputs(path, lock, Console(quiet=console.quiet, beside=True))
    engine = connect()
    beside = Console(quiet=console.quiet, verbose=console.verbose, beside=True)
    identity, signer = read_image_record(path, lock), ""
    if options.image is not None or options.require_signature is not None:
        from envbuild.operations.pull import image_for_run
        from envbuild.signing.trust import trust

        _refuse_missing_gpus(lock, options, engine)
        who = options.require_signature
        signer = str(trust(who)) if who is not None else ""
        identity = image_for_run(options.image, opened, engine, beside, offline=options.offline, require_signature=who)
    elif identity is None or not is_recorded(engine.find_image(identity.reference), identity):
        from envbuild.operations.build import build

        _refuse_missing_gpus(lock, options, engine)
        identity = build(path, beside, offline=options.offline).record
    request = RunRequest(
        lock_path=path,
        lock=lock,
        arguments=arguments,
        inputs_since=since,
        image=identity.reference,
        config=identity.config,
        signer=signer,
        **chosen,
    )
    return request, engine


@contextmanager
def host_said_first(lock: locks.Lock, options: RunOptions, engine: ContainerRunner) -> Iterator[None]:
    """Where an engine cannot hand GPUs over, let the guard's table speak if this host is the reason: it says more.

    Of a network that it does not know, say where all are listed.
    """
    from envbuild.engine.protocol import GpusRefusedError

    try:
        yield
    except GpusRefusedError:
        if options.guard and engine.is_local():
            _refuse_host(lock)
        raise
    except EngineError as error:
        if options.network and not error.hint and f"network {options.network} " in error.message:
            raise EngineError(error.message, "list those of the engine: docker network ls") from None
        raise


def check_this_host(path: Path | None, console: Console) -> int:
    """Print the verdict on this host; returns 0 or 78."""
    from envbuild.cli.render.inputs import comparison_json, locked_inputs_lines
    from envbuild.operations.host_check import check_host, render

    opened = load_lock(path)
    verdict = check_host(opened.lock)
    inputs = compare_inputs(opened.path, opened.lock, console)
    ok = verdict.ok and not inputs.differences
    if console.as_json:
        verified = verdict.verified if ok else "no"
        console.result({**verdict.as_dict(), "ok": ok, "verified": verified, "inputs": comparison_json(inputs)})
    elif not console.quiet:
        print(
            render(verdict, data_differs=bool(inputs.differences)),
            end="",
            file=sys.stdout if ok else sys.stderr,
            flush=True,
        )
        if inputs.differences:
            message = f"input data is not as {opened.path.name} locked it\n{indented(inputs)}"
            print_error(message, accept_hint(opened.lock))
        else:
            for line in locked_inputs_lines(opened.lock):
                print(line)
    return 0 if ok else HostMismatchError.exit_code


def _wants_shell(options: RunOptions) -> bool:
    if options.shell and options.command:
        raise UsageError("--shell runs no program", "leave out either --shell or the program")
    return options.shell


def _chosen(options: RunOptions) -> dict[str, Any]:
    """Read the options that say how to run, before anything is done."""
    from envbuild.runs import options as parse
    from envbuild.runs.repeat import TRACE_VALUES, trace_variables

    return {
        "environment": parse.parse_environment(options.environment, os.environ),
        "mounts": tuple(parse.parse_mount(text, Path.cwd()) for text in options.mounts),
        "network": parse.check_network(options.network) if options.network else "",
        "cpus": None if options.cpus is None else parse.check_cpus(options.cpus),
        "memory": parse.parse_memory(options.memory) if options.memory else None,
        "controls": options.controls,
        "allow": parse.parse_allow(options.allow),
        "guard": options.guard,
        "tensors": options.tensors,
        **({"own_variables": trace_variables(TRACE_VALUES)} if options.trace else {}),
        **({} if options.gpus is None else {"gpus": parse.parse_gpus(options.gpus)}),
    }


def _refuse_missing_gpus(lock: locks.Lock, options: RunOptions, engine: ContainerRunner) -> None:
    """Raise ``HostMismatchError`` before an image of gigabytes is built for a machine that plainly cannot run it."""
    from envbuild.runs.container import wants_missing_gpus

    as_locked = options.guard and not options.allow and options.gpus is None
    if as_locked and wants_missing_gpus(lock, engine):
        _refuse_host(lock)


def _refuse_host(lock: locks.Lock) -> None:
    """Raise ``HostMismatchError`` with the guard's table if this host is not as locked."""
    from envbuild.operations.host_check import check_host
    from envbuild.runtime.guard import table

    verdict = check_host(lock)
    if not verdict.ok:
        raise HostMismatchError(table.render(verdict.checks, verdict.lock).removeprefix("envbuild: ").rstrip("\n"))
