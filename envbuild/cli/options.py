"""The program as typer knows it, and the options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="envbuild",
    help="Machine-learning training that repeats to the last bit, or refuses to start and explains why.\n\n"
    "Start with:  envbuild init  ·  envbuild lock spec.yaml  ·  envbuild run train.py",
    epilog="Exit codes are documented in docs/reference/exit-codes.md; the program's own code passes through `run`.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print details.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use the store only; name what is missing.")]
LockArgument = Annotated[
    Path | None, typer.Argument(metavar="[LOCK]", help="The lock; by default the one found upward from here.")
]
LockOption = Annotated[
    Path | None, typer.Option("--lock", metavar="FILE", help="The lock; by default the one found upward.")
]
Variant = Annotated[str | None, typer.Option("--variant", metavar="NAME", help="The lock of this variant of the spec.")]
Platform = Annotated[
    str | None,
    typer.Option(
        "--platform", metavar="ARCH", help="The lock for this platform of the spec; by default this machine's."
    ),
]
RequireSignature = Annotated[
    str | None,
    typer.Option("--require-signature", metavar="WHO", help="Accepted signer: cosign.pub, or IDENTITY@https://ISSUER."),
]
FromFolders = Annotated[
    list[Path] | None,
    typer.Option("--from", metavar="DIR", help="A folder made by `envbuild fetch --vendor`, tried before any index."),
]

# Those of a program that is run, for `run` and `verify`.
PROGRAM_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Context settings of a command whose last argument is a program with its own arguments."""
Program = Annotated[
    list[str] | None,
    typer.Argument(metavar="SCRIPT.py|-m MODULE|COMMAND [ARGS]...", help="What to run; its arguments untouched."),
]
Environment = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="NAME[=VALUE]", help="Set a variable, or pass this one on."),
]
Mounts = Annotated[
    list[str] | None,
    typer.Option("--mount", metavar="SPEC", help="SRC:DST[:ro], or type=bind,source=…,target=…[,readonly]."),
]
NetworkName = Annotated[str | None, typer.Option("--network", help="none, bridge, host or a network of the engine.")]
Memory = Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="Limit, such as 8g.")]
Outputs = Annotated[
    list[str] | None,
    typer.Option("--output", metavar="PATH", help="Count what is in this path outside the project, and keep a copy."),
]
GpuChoice = Annotated[
    str | None,
    typer.Option("--gpus", metavar="all|N|UUID,…", help="GPUs to pass to the program; as locked by default."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="FIELD", help="Let this field differ from the lock, this time; it is recorded."),
]
Controls = Annotated[
    bool,
    typer.Option("--controls/--no-controls", help="Seeds and determinism on, or off to see what they do."),
]
Nodes = Annotated[int, typer.Option("--nodes", "-N", help="How many nodes.")]
Tasks = Annotated[int, typer.Option("--tasks-per-node", help="How many tasks (ranks) on each node.")]
TimeLimit = Annotated[str, typer.Option("--time", metavar="TIME", help="Limit, as Slurm writes it: 2:00:00.")]
Partition = Annotated[str, typer.Option("--partition", help="Partitions, with commas between.")]
Constraint = Annotated[str, typer.Option("--constraint", help="Features of nodes, such as h200.")]
Account = Annotated[str, typer.Option("--account", help="Who pays.")]
GpuType = Annotated[str, typer.Option("--gpu-type", help="Type of GPU in the cluster's words, such as h200.")]
