"""``init``, ``schema``, ``lock``, ``fetch``. Everything slow is imported inside the command that needs it."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envbuild.cli.console import Console, print_to
from envbuild.cli.options import FromFolders, Json, LockArgument, Platform, Quiet, Variant, Verbose, app
from envbuild.errors import UsageError

if TYPE_CHECKING:
    from envbuild.operations.lock import LockResult


_ADDRESSES, _DATA = 1 << 30, 256 << 20
"""Bytes that a lock must be allowed (``ulimit -v``, ``-d``): with 250 MB of addresses the OpenPGP library, which was
out of memory, waited for itself for ever, deaf to signals; with 500 MB it aborted a lock of TensorFlow."""


class Resolver(str, Enum):
    """What resolves the Python part."""

    UV = "uv"
    PIP_TOOLS = "pip-tools"


class Summary(str, Enum):
    """How ``lock --summary`` writes."""

    MARKDOWN = "markdown"


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="The project.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace a spec that is there.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a commented starter spec.yaml.

    Guesses framework and Python from what the folder holds."""
    from envbuild.cli.render.lock import starter_lines
    from envbuild.operations import init as operation

    Console(quiet=quiet).print_lines(starter_lines(operation.init(folder, force=force)))


@app.command()
def schema() -> None:
    """Print the JSON Schema of spec.yaml, for editors."""
    import json

    from envbuild.operations.init import spec_schema

    print_to(sys.stdout, json.dumps(spec_schema(), indent=2))


@app.command()
def lock(
    spec: Annotated[Path, typer.Argument(help="The spec.")] = Path("spec.yaml"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 11 if the lock is stale.")] = False,
    upgrade: Annotated[bool, typer.Option("--upgrade", "-U", help="Move every pin to its newest.")] = False,
    upgrade_package: Annotated[
        list[str] | None,
        typer.Option(
            "--upgrade-package",
            "-P",
            metavar="NAME",
            help="Move this package, of Python or of the system, and only what it forces.",
        ),
    ] = None,
    resolver: Annotated[Resolver, typer.Option(help="Who resolves the Python part.")] = Resolver.UV,
    cross_check: Annotated[
        bool, typer.Option("--cross-check", help="Resolve with uv and pip-tools; refuse if the pins differ.")
    ] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask the indexes again, however fresh the cache.")] = False,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="detect|FILE|none",
            help="Lock for this machine, for one that `envbuild probe -o FILE` described, or none.",
        ),
    ] = "",
    update_inputs: Annotated[
        bool, typer.Option("--update-inputs", help="Accept the declared data as it is now; move nothing else.")
    ] = False,
    variant: Annotated[str, typer.Option("--variant", metavar="NAME", help="Lock this variant of the spec only.")] = "",
    platform: Annotated[
        str, typer.Option("--platform", metavar="ARCH", help="Lock for this platform of the spec only.")
    ] = "",
    summary: Annotated[
        Summary | None,
        typer.Option("--summary", help="Print what moved, with CVE numbers; all else to stderr."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Resolve a spec into a lock and a pinned Dockerfile.

    Writes pylock.<name>.toml and Dockerfile next to the spec, for a spec with variants or platforms those of each.
    Pins of an earlier lock stay unless the spec or --upgrade moves them."""
    from envbuild.cli.render import lock as render
    from envbuild.core.limits import require_memory
    from envbuild.operations import lock as operation
    from envbuild.operations.lock_options import LockOptions

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json, stderr_only=summary is not None)
    require_memory("envbuild lock", addresses=_ADDRESSES, data=_DATA)
    _refuse_contradictions(check=check, update_inputs=update_inputs, host=host, summary=summary, as_json=as_json)
    if update_inputs:
        updated = operation.update_inputs(spec, console, variant, platform)
        console.print_lines(line for each in updated for line in render.update_lines(each))
        console.result(render.of_variants(map(render.update_json, updated)))
        return
    if check:
        checked = operation.check(spec, resolver.value, variant, platform)
        console.print_lines(line for each in checked for line in render.check_lines(each))
        console.result(render.of_variants(map(render.check_json, checked)))
        operation.require_fresh(checked)
        return
    options = LockOptions(
        resolver=resolver.value,
        cross_check=cross_check,
        upgrade=upgrade,
        upgrade_packages=tuple(upgrade_package or ()),
        refresh=refresh,
        host=host,
        variant=variant,
        platform=platform,
    )
    results = operation.lock(spec, options, console)
    for result in results:
        console.print_lines(render.lock_lines(result, last=result is results[-1]))
        if summary:
            print(_summary(result, console), end="")
    console.result(render.of_variants(map(render.lock_json, results)))


@app.command()
def fetch(
    lock: LockArgument = None,
    variant: Variant = None,
    platform: Platform = None,
    vendor: Annotated[
        Path | None, typer.Option("--vendor", metavar="DIR", help="Also write all files and the lock to a folder.")
    ] = None,
    sources: FromFolders = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Download every locked file, verified.

    Afterwards nothing needs the network."""
    from envbuild.cli.render.lock import fetched_json, fetched_lines
    from envbuild.operations import fetch as operation
    from envbuild.operations.load_lock import lock_of_variant

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    result = operation.fetch(
        lock_of_variant(lock, variant, platform=platform), console, vendor=vendor, sources=sources or ()
    )
    console.print_lines(fetched_lines(result))
    console.result(fetched_json(result))


def _refuse_contradictions(
    *, check: bool, update_inputs: bool, host: str, summary: Summary | None, as_json: bool
) -> None:
    """Raise ``UsageError`` for options of ``lock`` that do not go together."""
    if summary and (as_json or check or update_inputs):
        raise UsageError("--summary reports what a new lock changes", "leave out --json, --check and --update-inputs")
    if update_inputs and check:
        raise UsageError("--check writes nothing, --update-inputs writes the lock", "leave out one of them")
    if update_inputs and host:
        raise UsageError("--update-inputs moves the inputs only, not the host", "run them one after the other")
    if check and host:
        raise UsageError(
            "--check compares a lock with its spec, not with a host", "compare with this host: envbuild check"
        )


def _summary(result: LockResult, console: Console) -> str:
    """Return what a new lock moved, as Markdown; reads the changelogs of changed Debian packages."""
    from envbuild.cli.render.lock import markdown
    from envbuild.operations.changelogs import security_fixes

    if result.old is None:
        return markdown(result.path.name, None)
    return markdown(result.path.name, result.changes, security_fixes(result.path, result.old, result.lock, console))
