"""What two programs were given: parameters with their defaults, and the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

import msgspec

from envbuild.core.redact import MASK
from envbuild.core.text import plain, plural
from envbuild.difference.finding import NOWHERE, Finding, Section, changed
from envbuild.difference.text import digest, shown
from envbuild.record.model import Record, StandardInput
from envbuild.record.processes import Parameter, ParameterSet, effective
from envbuild.runtime.hook.lineage import mask

_WEIGHT = 90
_INPUT, _PIPE = 83, 43
"""Of another standard input: a file, which the program read; a pipe, which nobody need have read."""
_SOURCES = {"command line": "argument"}


def parameters(a: Record, b: Record) -> Section:
    """Compare the effective values of all parameters, defaults included."""
    if not (a.parameters and b.parameters):
        found = tuple(_one_sided(a, b))
        return Section("parameters", found, compared=False, unknown=() if found else _not_recorded(a, b))
    mine, theirs = effective(a.parameters), effective(b.parameters)
    own = {PurePosixPath(each.path).name for each in (*a.modules, *b.modules)}
    lasting = [effective(_lasting(record.parameters, own)) for record in (a, b)]
    findings = tuple(_values(mine, theirs, *lasting))
    masked = tuple(
        f"{plain(name)}, which is masked"
        for name, each in mine.items()
        if each.value == MASK and name in theirs and theirs[name].value == MASK
    )
    return Section("parameters", findings, unknown=masked)


def command(a: Record, b: Record, *, explained: bool) -> Section:
    """Compare argument vectors and working directories; ``explained``: by parameters that differ."""
    findings = []
    follows = "parameters" if explained else ""
    if a.command != b.command:
        before, after = shown(shlex.join(a.command), shlex.join(b.command))
        findings.append(changed("command", "command", before, after, _WEIGHT - 8, follows=follows))
    if a.directory != b.directory:
        before, after = shown(a.directory, b.directory)
        findings.append(changed("command", "working directory", before, after, 30))
    masked = MASK in shlex.join(a.command) and a.command == b.command
    return Section("command", tuple(findings), unknown=("masked arguments",) if masked else ())


def standard_input(a: Record, b: Record) -> Section:
    """Compare what the programs could read from their standard input; a terminal and none at all count as one."""
    before, after = a.standard_input, b.standard_input
    if before is None or after is None:
        return Section("")
    one, other = _stream(before), _stream(after)
    if one != other:
        read = any(each.kind == "file" and not each.unread for each in (before, after))
        weight = _INPUT if read else _PIPE
        return Section("standard input", (changed("command", "standard input", one, other, weight),))
    if before.kind == "pipe" or (before.kind == "file" and not before.sha256):
        return Section("", unknown=(f"standard input ({one}, whose content is not recorded)",))
    return Section("standard input" if before.kind == "file" and not before.unread else "")


def _stream(found: StandardInput) -> str:
    if found.kind != "file":
        return "a pipe" if found.kind == "pipe" else "none"
    size = f"a file of {plural(found.size or 0, 'byte')}"
    known = f"{size}, sha256 {digest(found.sha256)}" if found.sha256 else size
    return f"{known}, read at most as /dev/stdin" if found.unread else known


def _values(
    mine: dict[str, Parameter],
    theirs: dict[str, Parameter],
    lasting_mine: dict[str, Parameter],
    lasting_theirs: dict[str, Parameter],
) -> Iterator[Finding]:
    """Yield parameters of other values; a value from elsewhere that is the same is reported, and changes nothing.

    Args:
        mine, theirs: by name, of A and of B.
        lasting_mine, lasting_theirs: the same as ``_lasting`` has them; what is equal there follows from the start.
    """
    for name in {**mine, **theirs}:
        one, other = mine.get(name), theirs.get(name)
        if one == other:
            continue
        follows = "each run starts such processes anew" if lasting_mine.get(name) == lasting_theirs.get(name) else ""
        if one and other and one.value == other.value and type(one.value) is type(other.value):
            before, after = shown(one.value, other.value)
            weight = 0
        else:
            before, after = shown(_written(one), _written(other))
            weight = _WEIGHT
        before, after = _with(before, one), _with(after, other)
        yield changed("parameters", plain(name), before, after, weight, follows=follows)


def _lasting(sets: Iterable[ParameterSet], own: set[str]) -> Iterator[ParameterSet]:
    """Yield what parsers gave, without the ports, times and identities that programs of packages were given.

    A package that starts processes of its own, such as Ray, passes them its ports and the name of its session, which
    differ in each run and change nothing. What a program of the project is given may be a seed, and so may any value
    of that name.

    Args:
        own: names of the project's modules.
    """
    for each in sets:
        if each.process and each.program.split(" ")[0] not in own:
            values = {
                name: one if "seed" in name.lower() else msgspec.structs.replace(one, value=_masked(one.value))
                for name, one in each.values.items()
            }
            each = msgspec.structs.replace(each, values=values)
        yield each


def _masked(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return value
    masked = mask(str(value))
    return value if masked == str(value) else masked


def _written(parameter: Parameter | None) -> object:
    """Return what to show; a parameter that is ``null`` is there."""
    if parameter is None:
        return None
    return "null" if parameter.value is None else parameter.value


def _with(text: str, parameter: Parameter | None) -> str:
    return f"{text} ({_SOURCES.get(parameter.source, parameter.source)})" if parameter else NOWHERE


def _one_sided(a: Record, b: Record) -> Iterator[Finding]:
    """Yield what only one record has, if both runs looked for parameters: a program may have got a parser since."""
    if not (a.modules and b.modules) or bool(a.parameters) == bool(b.parameters):
        return
    mine, theirs = effective(a.parameters), effective(b.parameters)
    yield from _values(mine, theirs, mine, theirs)


def _not_recorded(a: Record, b: Record) -> tuple[str, ...]:
    if a.parameters or b.parameters:
        return (f"parameters (recorded only in {'A' if a.parameters else 'B'})",)
    return ("parameters (no parser was seen in either)",)
