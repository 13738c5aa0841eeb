"""What ``run`` and ``verify`` share: typed program and options to values, and what else may have been meant."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from envbuild.cli import quick
from envbuild.core.text import names_in, perhaps, quote, script_in
from envbuild.errors import UsageError

if TYPE_CHECKING:
    from envbuild.operations.run import RunOptions
    from envbuild.record.model import Record

Verb = Literal["run", "verify"]

_REFUSED_ARGUMENTS = 2
"""How argument parsers end a program that was given what it does not know."""
_LARGEST = 1 << 30
"""Bytes of the largest script: its digest is in the record."""


def run_options(
    verb: Verb,
    command: Sequence[str] | None,
    *,
    shell: bool = False,
    lock: Path | None,
    variant: str | None = None,
    platform: str | None = None,
    environment: Sequence[str] | None = None,
    mounts: Sequence[str] | None = None,
    network: str | None = None,
    memory: str | None = None,
    outputs: Sequence[str] | None = None,
    timeout: str | None = None,
    cpus: float | None = None,
    gpus: str | None = None,
    allow: Sequence[str] | None = None,
    **others: Any,
) -> RunOptions:
    """Return the values of what was typed; raises ``UsageError`` for what cannot be meant, before anything is done.

    Args:
        shell: open a shell instead of a program.
        lock, variant, platform: which lock, if any of them was named.
        others: members of ``RunOptions`` that are taken as typed.
    """
    from envbuild.operations import run_options as parse
    from envbuild.operations.load_lock import lock_of_variant
    from envbuild.operations.run import RunOptions

    if shell and command:
        raise UsageError("--shell runs no program", "leave out either --shell or the program")
    program = () if shell else check_program(tuple(command or ()), verb)
    values: dict[str, Any] = {
        "environment": parse.parse_environment(environment or (), os.environ),
        "mounts": tuple(parse.parse_mount(text, Path.cwd()) for text in mounts or ()),
        "network": parse.check_network(network) if network else "",
        "cpus": None if cpus is None else parse.check_cpus(cpus),
        "memory": parse.parse_memory(memory) if memory else None,
        "outputs": tuple(parse.parse_output(text) for text in outputs or ()),
        "timeout": None if timeout is None else parse.parse_timeout(timeout),
        "allow": parse.parse_allow(tuple(allow or ())),
        **({} if gpus is None else {"gpus": parse.parse_gpus(gpus)}),
    }
    start = search_start(program, verb)
    path = lock_of_variant(lock, variant, start, platform=platform)
    return RunOptions(command=program, lock=path, search_from=start, **values, **others)


def check_program(command: tuple[str, ...], verb: Verb) -> tuple[str, ...]:
    """Return a program with its arguments as typed; raises ``UsageError`` if there is none, or it is an option."""
    if not command:
        shell = "; or open a shell: envbuild run --shell" if verb == "run" else ""
        raise UsageError("nothing to run", f"name a script: envbuild {verb} {script_in(Path.cwd())}{shell}")
    if not command[0]:
        raise UsageError("the name of the program is empty", f"name a script: envbuild {verb} {script_in(Path.cwd())}")
    # Python's own -m and -c come through with the program, since what follows them is the program's.
    if command[0].startswith("-") and command[0] not in ("-m", "-c"):
        name = command[0].partition("=")[0]
        meant = perhaps(name, [each for each in own_options(verb) if each.startswith("--")])
        raise UsageError(
            f"{verb} has no option {name}{meant}",
            f"see them all: envbuild {verb} --help{_as_the_scripts(command, verb)}",
        )
    if command[0] in ("-m", "-c") and len(command) == 1:
        raise UsageError(f"nothing to run after {command[0]}", f"name a module: envbuild {verb} -m MODULE")
    return command


def _as_the_scripts(command: Sequence[str], verb: Verb) -> str:
    """Return how an option before a script is given to the script; empty if there is none."""
    place = next((place for place, word in enumerate(command) if word.endswith(".py")), None)
    if place is None:
        return ""
    script, own = command[place], (*command[:place], *command[place + 1 :])
    return f"; if it is an option of {script}: envbuild {verb} {shlex.join((script, *own))}"


def search_start(command: tuple[str, ...], verb: Verb) -> Path:
    """Return where the search for a lock begins: at the script if there is one, else here.

    Raises:
        UsageError: there is no such script.
        FileNotFoundError: nor is there a working directory any more.
    """
    if command and command[0].endswith(".py"):
        script = Path(command[0])
        if not script.is_file():
            Path.cwd()
            hint = f"name a file; for another program: envbuild {verb} -- PROGRAM"
            if os.path.lexists(script):
                raise UsageError(f"{script} is no script: {_what_it_is(script)}", hint)
            meant = perhaps(script.name, [name for name in names_in(script.parent) if name.endswith(".py")])
            raise UsageError(f"no script {script} here{meant}", hint)
        if (size := script.stat().st_size) > _LARGEST:
            raise UsageError(f"{script} is no script: it has {size:,} bytes", "name a program's source")
        return script
    return Path.cwd()


def _what_it_is(path: Path) -> str:
    """Describe a path that is there and no file."""
    if path.is_symlink() and not path.exists():
        return f"it is a link to {quote(os.fspath(path.readlink()))}, which does not exist"
    return "it is a folder" if path.is_dir() else "it is a FIFO, a socket or a device"


def own_options(verb: Verb) -> list[str]:
    """Return the options of a command in all their spellings, but for ``--help``."""
    if verb == "run":
        return [*quick.OPTIONS]
    import typer

    from envbuild.cli.options import app

    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    return [name for each in command.params for name in (*each.opts, *each.secondary_opts) if name.startswith("-")]


def misplaced(command: Sequence[str], record: Record, verb: Verb) -> str:
    """Describe which of envbuild's own options a script was given that seems not to know them; empty if there are none.

    Scripts have options of the same names. Those that took their arguments are believed, if a parser was seen or they
    read the command line themselves.
    """
    took = record.exit_code != _REFUSED_ARGUMENTS
    if record.state != "finished" or (took and (record.parameters or record.exit_code)):
        return ""  # one that failed otherwise may not have come to its parser
    module = tuple(command[:1]) == ("-m",)
    if not module and not "".join(command[:1]).endswith(".py"):
        return ""
    given = [word.partition("=")[0] for word in command[2 if module else 1 :] if word.startswith("-")]
    known = {*own_options(verb)} if given else set()
    found = list(dict.fromkeys(word for word in given if word in known))
    if not found or (took and _reads_its_command_line(Path(command[0]))):
        return ""
    program = command[1] if module else command[0]
    right = f"envbuild {verb} {found[0]} … {'-m ' if module else ''}{program}"
    return f"{', '.join(found)} went to {program}: envbuild's own options come before the script, as in {right}"


def _reads_its_command_line(script: Path) -> bool:
    try:
        return b"argv" in script.read_bytes()
    except OSError:
        return False
