"""What became of a run, in one line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from envbuild.cluster.rank import Rank
from envbuild.core.text import plural
from envbuild.lockfile.layout import SHOWN_DIR, WORKSPACE
from envbuild.record.model import Record
from envbuild.record.printed import STREAMS, measured_in
from envbuild.record.summary import doubt

_NO_PROGRAM = 126
"""Exit code of what is there and cannot be started, such as a folder."""
_NOT_FOUND = 127
"""Exit code of a command that the image does not have, as shells have it."""
_WITHOUT_TIMES = (".npy", ".bin", ".raw")
"""Suffixes of files that hold nothing but numbers."""


def summary(record: Record) -> str:
    """Describe in one line what became of a run."""
    parts = [f"run {record.id[:10]} {'refused' if record.state == 'refused' else 'recorded'}"]
    if record.rank is not None and record.rank.world > 1:
        parts.append(f"rank {record.rank.rank} of {record.rank.world}")
    if record.verdict is not None:
        parts.append(f"guard {record.verdict.duration_ms:.0f} ms")
    if sentence := doubt(record):
        parts.append(sentence)
    if record.out_of_memory:
        parts.append("ran out of memory")
    if record.timed_out is not None:
        parts.append(f"ended after {record.timed_out:g} s, its time limit")
    count = len(record.outputs)
    if record.state == "finished":
        parts.append(plural(count, "output") if count else "no outputs")
    if record.state == "finished" and (count := len(record.outside) - len(shown_figures(record))):
        parts.append(f"{count} outside the project")
    if record.rank is not None and (others := _others(record.rank)):
        parts.append(others)
    if record.input_changes:
        parts.append("input data changed meanwhile")
    if record.same_bits_as:
        word = "tensors" if record.same_tensors_in else "files" if record.not_compared else "bits"
        kinds = measured_in(record.printed)
        masked = f", printed {kinds} masked" if kinds and not record.not_compared else ""
        parts.append(f"same {word} as run {record.same_bits_as[:10]}{masked}")
        if record.same_tensors_in:
            parts.append(f"other bytes in: {_first(record.same_tensors_in)}")
        if record.not_compared:
            parts.append(f"not compared: {', '.join(record.not_compared)}")
    elif record.differs_from:
        parts.append(f"differs from run {record.differs_from[:10]} in: {_first(record.differs_in)}{_of_times(record)}")
    return " · ".join(parts)


def shown_figures(record: Record) -> list[str]:
    """Return the paths, in the container, of the figures that a program has shown."""
    return [each.path for each in record.outside if each.path.startswith(f"{SHOWN_DIR}/")]


def figures(record: Record, project: Path) -> str:
    """Return how many figures a program has shown, and where they are; empty if it has shown none.

    Args:
        record: the run's.
        project: its project, as the user finds it.
    """
    if record.state != "finished" or not (shown := shown_figures(record)):
        return ""
    from envbuild.record.history import outside_folder

    copies = outside_folder(project, record.id)
    if not any((copies / path.lstrip("/")).is_file() for path in shown):  # in memory, or in a folder that is mounted
        return f"{plural(len(shown), 'figure')} shown: compared with those of other runs, not kept"
    return f"{plural(len(shown), 'figure')} shown: {os.path.relpath(copies / SHOWN_DIR.lstrip('/'))}"


def _of_times(record: Record) -> str:
    """Return that times may be all that differs, if a run differs in nothing but files whose bytes alone are known."""
    known = {output.path: output for output in (*record.outputs, *record.outside)}
    other = {*STREAMS.values(), *record.deleted, *(folder.path for folder in record.folders)}
    for name in record.differs_in:
        if name in other or name.startswith("metric ") or name.endswith(_WITHOUT_TIMES):
            return ""
        if name in known and (known[name].tensors or known[name].sha256 is None):
            return ""
    return " (times may be why: envbuild verify leaves them out)"


def _others(rank: Rank) -> str:
    from envbuild.cli.render.records import failed_ranks  # most runs are no job's

    return failed_ranks(rank)


def unread_processes(record: Record) -> str:
    """Return how many processes are not in the record; empty if all are."""
    if not record.processes_left_out:
        return ""
    count = record.processes_left_out
    what = "1 Python process" if count == 1 else f"{count:,} Python processes"
    return f"{what} left no usable report: damaged, too large, or too many"


def missing_module(record: Record, project: Path) -> str:
    """Return what to do about a package that a failed program did not find; empty if it failed for another reason.

    A module next to one that the program has loaded from the project is the project's own, and no package. One that is
    elsewhere in the project is found where ``PYTHONPATH`` has its folder.
    """
    names = [each.missing_module for each in record.processes if isinstance(each.missing_module, str)]
    if not record.exit_code or not names:
        return ""
    top = names[0].partition(".")[0]
    if any(file.path.split("/")[0] == top for file in record.modules):
        return ""
    from envbuild.cli.render.modules import above, folder_of_module, in_project  # most runs lack nothing

    up = above(record.directory)
    folder = folder_of_module(project / up, top)
    if folder is not None:
        script = record.script.path if record.script and record.directory == WORKSPACE else ""
        return f"no module named {names[0]} where Python looks: {in_project(top, folder, script, up)}"
    package, known = requirement(top)
    condition = known or "if it is a package"
    return (
        f"no module named {names[0]} in the image: {condition}, add it to the spec (requirements: [{package}]), "
        "then: envbuild lock"
    )


def missing_file(record: Record, command: Sequence[str], project: Path) -> str:
    """Return what to do about a file, or a program, that a failed program did not find; empty if nothing is known.

    That is a file next to the script, where it was started elsewhere, or a program of a known package.
    """
    names = [each.missing_file for each in record.processes if isinstance(each.missing_file, str)]
    if not record.exit_code or not names or (project / names[0]).exists():
        return ""
    script = Path(command[0]) if command else Path()
    if script.parent.name and (project / script.parent / names[0]).exists():
        from envbuild.cli.render.modules import started_there

        return f"no {names[0]} in the folder where the program was started: {started_there(command)}"
    return lacking(names[0])


def lacking(*programs: str) -> str:
    """Return what to do about programs, compilers or headers that are not in the image; empty if nothing is known."""
    from envbuild.spec.programs import PACKAGES

    known = [each for each in programs if each in PACKAGES]
    if not known:
        return ""
    plain = all(" " not in each and not each.endswith(".h") for each in known)
    what = f"{'program' if len(known) == 1 else 'programs'} {', '.join(known)}" if plain else ", ".join(known)
    packages = dict.fromkeys(package for each in known for package in PACKAGES[each].split(", "))
    return f"no {what} in the image: add to the spec (packages: [{', '.join(packages)}]), then: envbuild lock".replace(
        "add to", "add it to" if len(known) == 1 else "add them to"
    )


def missing_command(record: Record, command: Sequence[str], project: Path) -> str:
    """Return what to do about a command that was not found; empty if there was one, or nothing is known of it."""
    if record.exit_code == 1 and command[:1] == ("-m",) and len(command) > 1:
        return _unfound_module(record, command[1], project)
    if record.exit_code == _NO_PROGRAM and not record.processes and command and (project / command[0]).is_dir():
        return f"{command[0]} is a folder: name a script in it, as in envbuild run {Path(command[0]) / 'train.py'}"
    if record.exit_code != _NOT_FOUND or record.processes or not command:
        return ""
    name = command[0]
    if not name.endswith(".ipynb"):
        from envbuild.cli.render.modules import own_command

        return lacking(name) or own_command(project, name) or _typed_otherwise(command, project)
    import shlex

    words = shlex.join(("--execute", name, "--output", "executed.ipynb"))
    return (
        f"a notebook is started by a program: envbuild run -m nbconvert --to notebook {words}  "
        "(in the spec, requirements: [nbconvert, ipykernel])"
    )


def _typed_otherwise(command: Sequence[str], project: Path) -> str:
    """Return what was probably meant by a command that is no program: a script, a folder's, words in one argument."""
    import shlex

    name = command[0]
    if "\0" in name or name.startswith("-"):
        return ""
    if (project / f"{name}.py").is_file():
        return f"perhaps you meant {shlex.join([f'{name}.py', *command[1:]])}"
    if (project / name).is_dir():
        package = name.strip("./").replace("/", ".")
        started = f"; or its package: -m {package}" if (project / name / "__main__.py").is_file() and package else ""
        return f"{name} is a folder: name a script in it{started}"
    if " " in name and len(command) == 1:
        return f"the program and its arguments are one word: envbuild run -- {name}"
    return ""


def _unfound_module(record: Record, name: str, project: Path) -> str:
    """Return what to do about a package to be run by ``-m`` that is in another folder of the project: ``src``."""
    top = name.partition(".")[0]
    if record.modules or (project / top).is_dir() or (project / f"{top}.py").is_file():
        return ""
    from envbuild.cli.render.modules import folder_of_module, in_project

    folder = folder_of_module(project, top)
    return f"no module named {name} where Python looks: {in_project(top, folder)}" if folder is not None else ""


_PARTS = {
    "pkg_resources": ("setuptools<81", "it is a part of setuptools below 81"),
    "distutils": ("setuptools", "it is a part of setuptools, and of Python below 3.12"),
}
"""Modules that newer versions of what had them lack: what to require, and why."""


def requirement(module: str) -> tuple[str, str]:
    """Return what to require for a module, and why if it is not simply that package."""
    from envbuild.spec.distributions import DISTRIBUTIONS  # a tenth of all imports of a run, most of which end well

    return _PARTS.get(module) or (DISTRIBUTIONS.get(module, module), "")


def _first(paths: tuple[str, ...]) -> str:
    return ", ".join(paths[:3]) + (" …" if len(paths) > 3 else "")
