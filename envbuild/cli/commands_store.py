"""The store: commands about what it holds. Everything slow is imported inside the command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import Json, Quiet, Verbose, app

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
    from envbuild.cli.storing import list_store

    list_store(Console(as_json=as_json), things=things)


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
    from envbuild.cli.storing import verify_store

    verify_store(Console(quiet=quiet, verbose=verbose, as_json=as_json), offline=offline)


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

    Safe beside running commands: what they use stays. The locks are those that envbuild has used on this machine,
    as long as their files are there."""
    from envbuild.cli.collecting import Wishes, collect_garbage

    wishes = Wishes(older_than=older_than, max_size=max_size, keep=tuple(keep or ()), dry_run=dry_run, engine=engine)
    collect_garbage(wishes, Console(quiet=quiet, verbose=verbose, as_json=as_json))


Place = Annotated[str, typer.Argument(metavar="DIR|oci://HOST/REPO", help="A folder, or a registry's repository.")]
Everything = Annotated[bool, typer.Option("--all", "-a", help="All locks instead of some.")]


@store.command()
def push(
    place: Place,
    locks: Locks = None,
    everything: Everything = False,
    layers: Annotated[bool, typer.Option("--layers", help="Copy the layers made of them, too.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Copy what locks need to a folder or a registry, from which other machines fill their stores.

    What is there already is not copied again. The lock is by default the one found upward from here."""
    from envbuild.cli.exchanging import Copies, push_store

    wishes = Copies(place=place, locks=tuple(locks or ()), everything=everything, layers=layers)
    push_store(wishes, Console(quiet=quiet, verbose=verbose, as_json=as_json))


@store.command()
def pull(
    place: Place,
    locks: Locks = None,
    everything: Everything = False,
    layers: Annotated[
        bool, typer.Option("--layers", help="Take layers too, if the digest beside the lock vouches for them.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Fill the store from a folder or a registry.

    Every byte is checked; what the store has already is not copied again. The lock is by default the one found
    upward from here."""
    from envbuild.cli.exchanging import Copies, pull_store

    wishes = Copies(place=place, locks=tuple(locks or ()), everything=everything, layers=layers)
    pull_store(wishes, Console(quiet=quiet, verbose=verbose, as_json=as_json))
