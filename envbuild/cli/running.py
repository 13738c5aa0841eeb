"""What ``run`` does once its command line is read, by typer or by ``quick``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def run_program(
    command: Sequence[str] | None,
    *,
    lock: Path | None = None,
    variant: str | None = None,
    platform: str | None = None,
    environment: Sequence[str] | None = None,
    mount: Sequence[str] | None = None,
    network: str | None = None,
    cpus: float | None = None,
    memory: str | None = None,
    timeout: str | None = None,
    output: Sequence[str] | None = None,
    tensors: bool = True,
    trace: bool = False,
    gpus: str | None = None,
    allow: Sequence[str] | None = None,
    guard: bool = True,
    emulate: bool = False,
    shell: bool = False,
    controls: bool = True,
    image: str | None = None,
    require_signature: str | None = None,
    offline: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> int:
    """Run a program and print what became of it; returns its exit code. Arguments: the options of ``envbuild run``."""
    from envbuild.cli.commands.program import misplaced, run_options
    from envbuild.cli.console import Console
    from envbuild.operations import run as operation

    options = run_options(
        "run", command, shell=shell, lock=lock, variant=variant, platform=platform, environment=environment,
        mounts=mount, network=network, cpus=cpus, memory=memory, gpus=gpus, allow=allow, controls=controls,
        tensors=tensors, trace=trace, guard=guard, emulate=emulate,
        timeout=timeout, outputs=output, offline=offline, image=image, require_signature=require_signature,
    )  # fmt: skip
    console = Console(quiet=quiet, verbose=verbose, stderr_only=True)
    result = operation.run(options, console, _load_summary, _load_advice)
    record = result.record
    from envbuild.cli.render.run import (
        figures,
        missing_command,
        missing_file,
        missing_module,
        summary,
        unread_processes,
    )

    console.note(summary(record))
    lacks = missing_module(record, Path()) or missing_file(record, options.command, Path())
    lacks = lacks or missing_command(record, options.command, Path())
    if record.exit_code and not lacks:
        from envbuild.cli.render.advice import after_failure

        lacks = after_failure(record, Path())
    for sentence in (figures(record, result.project), *record.outside_left_out, unread_processes(record), lacks):
        if sentence:
            console.note(sentence)
    if note := misplaced(options.command, record, "run"):
        console.note(note)
    if record.layers == "changed":
        from envbuild.runs.execute import changed_layers_error

        raise changed_layers_error()
    return record.exit_code if record.exit_code is not None else 1


def _load_summary() -> None:
    """Import what the end takes, while the program runs."""
    import envbuild.cli.render.run  # noqa: F401


def _load_advice() -> None:
    """Import what the end may take if the program fails, once it has run so long that nobody waits for that."""
    import envbuild.cli.render.advice
    import envbuild.cli.render.records
    import envbuild.spec.distributions
    import envbuild.spec.programs  # noqa: F401
