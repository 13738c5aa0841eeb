"""What to do about a program that failed, by the last words of its standard error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.cli.render.modules import above, folder_of_module, in_project
from envbuild.cli.render.run import lacking, requirement
from envbuild.lockfile.layout import WORKSPACE
from envbuild.record import printed

if TYPE_CHECKING:
    from envbuild.record.model import Record

_PIP = re.compile(
    r"\bpip3? install (?:-U |--upgrade )?['\"]?([A-Za-z][\w.-]*(?:\[[\w,-]+\])?(?:[=<>~]=[\w.]+)?)(?![\w+:/])"
)
"""What errors of libraries ask for, such as ``pip install "gymnasium[other]"``."""
_NO_LIBRARY = re.compile(r"\brequires the (?:\S )?([A-Za-z][\w.-]*) library,? but it was not found")
"""What Hugging Face's libraries say of one whose wheel they do not require; not each time with a command of pip."""
_CALLED = {"pytorch": "torch"}
"""Distributions that go by another name in such sentences."""
_NO_NETWORK = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|(?:can['’]?t|cannot|can not|could ?n[o']t|could not|unable to|fail(?:ed|ure) (?:to|in)|error(?: while)?) "
    r"(?:download|fetch|retriev|connect to)\w*\b[^\n]{0,200}?\bhttps?://",
    re.IGNORECASE,
)
"""What the system says, and what libraries say of an address that keep its words to themselves."""
_NO_PROGRAM = re.compile(
    r"(?:(?:No|no) (?:working )?|(?:find|found|lacks) (?:a |any )?)(C\+\+ compiler|C compiler)\b"
    r"|(Python\.h): No such file|\bcommand '(?:[\w.-]+-linux-gnu-)?(gcc|g\+\+|cc|clang)' failed: No such file"
    r"|No such file or directory: (?:PosixPath\()?'([\w+.-]+)'\)?$"
    r"|^(?:\S+: )*(?:(?:line )?\d+: )?([\w+.-]+): (?:command )?not found$"
    r"|^make(?:\[\d+\])?: ([\w+.-]+): No such file or directory$|^(?:\S+/)?env: ['‘]([\w+.-]+)['’]: No such file",
    re.MULTILINE,
)
"""How errors name a program that is not there, in the program's own words or those of a process that it started."""
_NO_NAME = re.compile(
    r"^ImportError: cannot import name '(\w+)' from '([\w.]+)' \(\S*/site-packages/\S+\)\s*\Z", re.MULTILINE
)
_NO_KERNEL = re.compile(r"^(?:[\w.]+\.)?NoSuchKernel: No such kernel named (\S+)\s*$", re.MULTILINE)
_NO_METADATA = re.compile(
    r"^importlib[._]metadata\.PackageNotFoundError: (?:No package metadata was found for )?([A-Za-z][\w.-]*)\s*\Z",
    re.MULTILINE,
)
"""What a package says that asks for its own version and is not installed, as in a checkout of it."""
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
"""What a terminal takes as colours, as IPython writes them into the traceback of a notebook's cell."""
_END = 8_000
"""Bytes of standard error that are looked at."""


def after_failure(record: Record, project: Path) -> str:
    """Return what to do about what a failed program lacked, by what was kept of its output; mostly empty.

    Args:
        record: of the program.
        project: the folder that it was started in.
    """
    if not record.exit_code:
        return ""
    root = project / above(record.directory)
    # On a terminal standard error and output are one.
    text = printed.kept(root, record.id, "stderr") or printed.kept(root, record.id, "stdout") or b""
    return advice(without_colours(text[-_END:].decode("utf-8", "replace")), record, project)


def without_colours(text: str) -> str:
    """Return a text without what a terminal takes as colours."""
    return _COLOURS.sub("", text)


def advice(tail: str, record: Record, project: Path) -> str:
    """Return what to do about what a failed program lacked, by the last words of its standard error; mostly empty.

    Args:
        tail: these words.
        record: of the program.
        project: the folder that it was started in.
    """
    script = record.script.path if record.script and record.directory == WORKSPACE else ""
    if found := _missing_module(tail, project, above(record.directory), script):
        return found
    error = tail[max(tail.find("Traceback (most recent call last)"), 0) :]
    if (name := _NO_NAME.search(error)) is not None:
        package = requirement(name[2].partition(".")[0])[0]
        return (
            f"the locked {package} has no {name[1]}: it is in one of its extras (requirements: [{package}[EXTRA]]) "
            "or in another version"
        )
    if (kernel := _NO_KERNEL.search(error)) is not None:
        return (
            f"the notebook asks for {kernel[1]}, a kernel of its author's machine: add "
            "--ExecutePreprocessor.kernel_name=python3 (papermill: -k python3)"
        )
    if names := [*dict.fromkeys(name for name in _programs(error) if lacking(name))]:
        return lacking(*names)
    if (lacked := _NO_METADATA.search(error)) is not None:
        return _without_metadata(lacked[1], project / above(record.directory))
    lines = [line for line in error.splitlines() if "Warning" not in line]
    named = [*(name for line in lines for name in _PIP.findall(line))]
    named = named or [_CALLED.get(each, each) for each in map(str.lower, _NO_LIBRARY.findall(error))]
    if names := list(dict.fromkeys(name.rstrip(".-") for name in named)):
        return f"add what it asks for to requirements in the spec ({', '.join(names)}) and lock again"
    if record.options.network in ("", "none") and _NO_NETWORK.search(error):
        return "runs have no network: put what it downloads into the project, or allow it: --network host"
    return ""


def _without_metadata(name: str, root: Path) -> str:
    """Return how a distribution that is not in the image comes into it: the project's own, or another one."""
    from packaging.utils import canonicalize_name

    from envbuild.spec.detect import project_name

    if canonicalize_name(project_name(root)) == canonicalize_name(name):
        return f"the image lacks the project itself: add  -e .  to requirements in the spec, and  sources: [{name}]"
    return f"add {name} to requirements in the spec and lock again"


def _programs(error: str) -> Iterator[str]:
    """Yield names of programs, compilers and headers that the last lines of standard error say are not there."""
    for found in _NO_PROGRAM.finditer(error):
        yield next(filter(None, found.groups()))


def _missing_module(tail: str, project: Path, up: str = ".", script: str = "") -> str:
    """Return what to do about a package that a failed program did not find; empty if it failed for another reason."""
    found = re.search(r"^(?:ModuleNotFound|Import)Error: No module named '([\w.]+)'\s*\Z", tail, re.MULTILINE)
    found = found or re.search(r"^\S*python[\d.]*: No module named ([\w.]+)$", tail, re.MULTILINE)  # python -m pip
    if not found:
        return ""
    top = found[1].partition(".")[0]
    folder = folder_of_module(project / up, top)
    if folder is not None:
        return in_project(top, folder, script, up)
    package, known = requirement(top)
    name = package if package in found[1] else f"[{package}]"
    condition = f"{found[1]}: {known}" if known else f"if {found[1]} is a package"
    return f"{condition}, add {'it' if name == package else name} to requirements in the spec and lock again"
