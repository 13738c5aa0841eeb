"""The store: commands about what it holds. Everything slow is imported inside the command that needs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import Json, Platform, Quiet, Variant, Verbose, app
from envbuild.core.text import plural
from envbuild.errors import UsageError

_DAY = 24 * 3600
_AGES = {"": _DAY, "m": 60, "h": 3600, "d": _DAY, "w": 7 * _DAY}
_SIZES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}

store = typer.Typer(
    name="store",
    help="See, check, clean and copy the store, which keeps downloads and layers for all projects.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
app.add_typer(store)

Locks = Annotated[list[Path] | None, typer.Argument(metavar="[LOCK]...", help="The locks.")]


@store.command("ls")
def ls(
    things: Annotated[bool, typer.Option("--all", "-a", help="List each file and layer.")] = False,
    as_json: Json = False,
) -> None:
    """Show what the store holds, for which locks, how big, when last used."""
    from envbuild.cli.render.store import listing_json, listing_lines, listing_text
    from envbuild.operations.store import list_store

    console, listing = Console(as_json=as_json), list_store()
    if as_json:
        console.result(listing_json(listing))
        return
    console.print_lines(listing_lines(listing))
    console.text(listing_text(listing, entries=things))


@store.command()
def verify(
    offline: Annotated[
        bool, typer.Option("--offline", "--no-fetch", help="Remove what is damaged, fetch nothing.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Read every file and layer and compare it with its digest.

    Damaged files are removed, and fetched again if a lock needs them. Exits with 13 if one could not be had."""
    from envbuild.cli.render.store import check_json
    from envbuild.operations.store import verify_store

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    check = verify_store(console, offline=offline)
    console.result(check_json(check))
    check.require_whole()


@store.command()
def gc(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="How long unused: 12h, 30d, 8w; 0 for no matter.")
    ] = "30d",
    max_size: Annotated[
        str, typer.Option("--max-size", metavar="SIZE", help="Also remove younger things until so much is left: 50GB.")
    ] = "",
    keep: Annotated[
        list[Path] | None, typer.Option("--keep-lock", metavar="LOCK", help="Keep what this lock needs, too.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Remove nothing; show what would go.")] = False,
    engine: Annotated[
        bool, typer.Option("--engine", help="Also remove the container engine's images of build steps.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Remove what no lock needs and nobody has used for long.

    Safe while other commands run: what they use stays. The locks are those that envbuild has used on this machine,
    as long as their files are there."""
    from envbuild.cli.render.store import garbage_json, garbage_lines
    from envbuild.operations.store import GarbageRequest, collect_garbage, remove_step_images

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    request = GarbageRequest(
        older_than=parse_age(older_than),
        max_size=parse_size(max_size) if max_size else None,
        keep=tuple(keep or ()),
        dry_run=dry_run,
    )
    result = collect_garbage(request, console)
    console.print_lines(garbage_lines(request, result, max_size))
    images = remove_step_images(dry_run=dry_run) if engine else ()
    if engine:
        console.line("engine", f"{plural(len(images), 'image')} of build steps {'to remove' if dry_run else 'removed'}")
    console.result(garbage_json(request, result, images))


def parse_age(text: str) -> float:
    """Read an age such as ``30d``, ``12h`` or ``0`` as seconds; a number alone means days."""
    match = re.fullmatch(r"([0-9]{1,6})([mhdw]?)", text)
    if not match:
        raise UsageError(f"--older-than {text}: expected an age", "e.g. --older-than 30d, 12h, 8w, or 0")
    return float(int(match[1]) * _AGES[match[2]])


def parse_size(text: str) -> int:
    """Read a size such as ``50GB`` as bytes."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) ?(B|kB|MB|GB|TB|)", text)
    if not match:
        raise UsageError(f"--max-size {text}: expected a size", "e.g. --max-size 50GB, with B, kB, MB, GB or TB")
    return int(float(match[1]) * _SIZES[match[2]])


RemoteArgument = Annotated[
    str, typer.Argument(metavar="DIR|oci://HOST/REPO", help="A folder, or a registry's repository.")
]
Everything = Annotated[bool, typer.Option("--all", "-a", help="All locks instead of some.")]


def _chosen(locks: Sequence[Path] | None, variant: str | None, platform: str | None) -> tuple[Path, ...]:
    """Return the locks that were named, or the one of a variant and a platform."""
    from envbuild.operations.load_lock import lock_of_variant

    path = lock_of_variant(locks[0] if locks else None, variant, platform=platform)
    return tuple(locks or ((path,) if path else ()))


@store.command()
def push(
    place: RemoteArgument,
    locks: Locks = None,
    variant: Variant = None,
    platform: Platform = None,
    everything: Everything = False,
    layers: Annotated[bool, typer.Option("--layers", help="Copy the layers made of them, too.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Copy what locks need to a folder or a registry, from which other machines fill their stores.

    What is there already is not copied again. The lock is by default the one found upward from here."""
    from envbuild.operations.store_transfer import TransferRequest, push_store

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    request = TransferRequest(
        remote=place, locks=_chosen(locks, variant, platform), everything=everything, layers=layers
    )
    pushed = push_store(request, console)
    console.result({"place": place, "pushed": [asdict(lock) for lock in pushed]})


@store.command()
def pull(
    place: RemoteArgument,
    locks: Locks = None,
    variant: Variant = None,
    platform: Platform = None,
    everything: Everything = False,
    layers: Annotated[
        bool, typer.Option("--layers", help="Take layers too, if the digest next to the lock vouches for them.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Fill the store from a folder or a registry.

    Every byte is checked; what the store has already is not copied again. The lock is by default the one found
    upward from here."""
    from envbuild.operations.store_transfer import TransferRequest, pull_store

    console = Console(quiet=quiet, verbose=verbose, as_json=as_json)
    request = TransferRequest(
        remote=place, locks=_chosen(locks, variant, platform), everything=everything, layers=layers
    )
    pulled = pull_store(request, console)
    console.result({"place": place, "pulled": [asdict(lock) for lock in pulled]})
