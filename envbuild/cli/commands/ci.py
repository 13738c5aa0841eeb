"""``ci``: a pipeline for the user's own project. Everything slow is imported inside the command."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from envbuild.cli.console import Console
from envbuild.cli.options import Quiet, app


class Service(str, Enum):
    """Whose runners."""

    GITHUB = "github"
    GITLAB = "gitlab"


_NEXT = {
    "github": "commit spec, lock, Dockerfile and these; the image goes to the repository's own registry",
    "gitlab": "commit spec, lock, Dockerfile and these; to sign, set the variables named in .gitlab-ci.yml",
}


@app.command()
def ci(
    service: Annotated[Service, typer.Argument(help="Whose runners it is for.")],
    folder: Annotated[Path, typer.Argument(help="The project.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace files that were edited.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a pipeline for GitHub or GitLab into your project.

    It builds the image on two systems, compares, publishes and signs it.
    One file for the service, and ci/envbuild.sh, whose steps run anywhere; ci/
    also holds what they install, by digest."""
    from envbuild.operations.ci import write_pipeline

    console = Console(quiet=quiet)
    for path in write_pipeline(service.value, folder, force=force):
        console.line("wrote", str(path))
    console.line("next", _NEXT[service.value])
