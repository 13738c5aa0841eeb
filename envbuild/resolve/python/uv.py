"""uv as a process: requirements in, a PEP 751 file with every fitting wheel out.

Only uv's command line is relied on (``uv pip compile``), and of its output only what PEP 751 defines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envbuild.core.fs import temporary_folder
from envbuild.errors import BuildError, EnvbuildError, ResolveError
from envbuild.lockfile.model import PythonPackage
from envbuild.resolve.python.explain import failure, without_wheel
from envbuild.resolve.python.indexes import Indexes
from envbuild.resolve.python.wheels import Candidate, Target, read_pylock

_GLIBCS = (17, 28, *range(31, 41))
"""Minor numbers of the C library that ``--python-platform`` knows."""
_FROM = re.compile(r"^ *# from (https?://\S+)$", re.MULTILINE)
_SOURCE = re.compile(r"^ *# from (\S+)$")
_FINDING = threading.Lock()
"""uv looks itself up through ``sysconfig``, whose table other threads see half filled before Python 3.13."""
_UNWANTED = ("UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_WORKING_DIR", "UV_WORKING_DIRECTORY", "UV_PROJECT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What uv is asked.

    Attributes:
        lines: requirements, one each.
        constraints: requirements that only limit versions of what is asked for anyway, one each.
        folder: relative paths in variables start here.
        preferred: packages whose version is kept where the requirements allow it.
        upgrade: names to move whatever is preferred; None: everything.
        dependencies: whether to follow dependencies.
    """

    lines: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    folder: Path = Path()
    preferred: tuple[PythonPackage, ...] = ()
    upgrade: tuple[str, ...] | None = ()
    dependencies: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What uv found: the wheels offered for each package, and its warnings."""

    offered: Mapping[str, Sequence[Candidate]]
    warnings: tuple[str, ...] = ()


def ask(question: Question, target: Target, indexes: Indexes, environ: Mapping[str, str]) -> Answer:
    """Resolve with uv; one process.

    Raises:
        ResolveError: no set of versions fits, a package has no wheel, or uv is missing.
        IntegrityError: an index cannot be read.
        BuildError: a limit of this process, such as ``ulimit -v``, ended uv.
    """
    with temporary_folder("envbuild-uv-") as folder:
        output, constraints = folder / "pylock.toml", folder / "constraints.txt"
        if question.preferred and question.upgrade is not None:
            output.write_text(_preferences(question.preferred, target), encoding="utf-8")
        arguments = [*_arguments(question, target), "--format", "pylock.toml", "--output-file", str(output)]
        if question.constraints:
            constraints.write_text("".join(f"{line}\n" for line in question.constraints), encoding="utf-8")
            arguments += ["--constraints", str(constraints)]
        done = _compile(question, arguments, indexes, environ)
        if done.returncode:
            raise _failure(done, question, target, indexes, environ)
        warnings = tuple(line.removeprefix("warning: ") for line in done.stderr.splitlines() if _warns(line))
        return Answer(offered=read_pylock(output.read_bytes(), output.parent), warnings=warnings)


def index_of(project: str, target: Target, indexes: Indexes, environ: Mapping[str, str]) -> str:
    """Return the address of the package index that has a project, as this machine is configured.

    Raises:
        ResolveError: no index has it, since it comes from a folder, or does not exist.
    """
    question = Question(lines=(project,), dependencies=False, upgrade=None)
    done = _compile(question, [*_arguments(question, target), "--emit-index-annotation"], indexes, environ)
    if done.returncode:
        raise _failure(done, question, target, indexes, environ)
    found = _FROM.search(done.stdout)
    if not found:
        raise ResolveError(f"{project} comes from no package index here")
    return found[1]


def indexes_of(
    lines: Sequence[str], folder: Path, target: Target, indexes: Indexes, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the address of the index that has a package, by normalised name; what comes from a folder has none.

    Args:
        lines: requirements; without an answer to all of them nothing is found.
        folder: as in ``Question``.
    """
    question = Question(lines=tuple(lines), folder=folder, dependencies=False, upgrade=None)
    done = _compile(question, [*_arguments(question, target), "--emit-index-annotation"], indexes, environ)
    found: dict[str, str] = {}
    name = ""
    for line in done.stdout.splitlines() if not done.returncode else ():
        if not line.startswith((" ", "#")):
            name = line.partition("==")[0]
        elif match := _SOURCE.fullmatch(line):
            found.setdefault(name, match[1])
    return found


def lacking_wheels(question: Question, target: Target, indexes: Indexes, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the requirements for want of whose wheel a question has no answer; none if it has one, or fails otherwise.

    Only final releases count as an answer.
    """
    with temporary_folder("envbuild-uv-") as folder:
        constraints = folder / "constraints.txt"
        constraints.write_text("".join(f"{line}\n" for line in question.constraints), encoding="utf-8")
        arguments = [*_arguments(question, target), "--prerelease", "disallow", "--constraints", str(constraints)]
        done = _compile(question, arguments, indexes, environ)
    return without_wheel(done.stderr, _has_none(question, target, indexes, environ)) if done.returncode else ()


def _has_none(
    question: Question, target: Target, indexes: Indexes, environ: Mapping[str, str]
) -> Callable[[str], bool]:
    """Return what finds out whether no release that a requirement admits has a wheel."""

    def has_none(requirement: str) -> bool:
        alone = Question(lines=(requirement,), folder=question.folder, dependencies=False, upgrade=None)
        return bool(_compile(alone, _arguments(alone, target), indexes, environ).returncode)

    return has_none


def _compile(
    question: Question, arguments: Sequence[str], indexes: Indexes, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run uv; as in the project ``/``, where it finds no settings but the user's and the machine's."""
    return subprocess.run(
        [find_uv(), *arguments, "--project", "/", *indexes.arguments],
        input="".join(f"{line}\n" for line in question.lines),
        env=_environment(environ, indexes),
        cwd=question.folder,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def find_uv() -> str:
    """Return the path of uv: the one installed next to envbuild, else the one on PATH; raises ``ResolveError``."""
    with _FINDING:
        return _find_uv()


@cache
def _find_uv() -> str:
    import shutil

    try:
        import uv

        return os.fsdecode(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        if found := shutil.which("uv"):
            return found
    raise ResolveError("uv is missing", f"install it next to envbuild: {sys.executable} -m pip install uv")


def platform(target: Target) -> str:
    """Return uv's name of the platform: the newest one that uv knows and the target accepts."""
    glibc = max((known for known in _GLIBCS if known <= target.glibc), default=_GLIBCS[0])
    return f"{target.machine}-manylinux_2_{glibc}"


def _arguments(question: Question, target: Target) -> list[str]:
    """Return uv's arguments; the interpreter named is only a helper, the versions given are the target's."""
    arguments = ["pip", "compile", "--python", sys.executable, "--no-python-downloads", "--color", "never"]
    arguments += ["--python-version", target.python, "--python-platform", platform(target)]
    arguments += ["--only-binary", ":all:"]
    if question.upgrade is None:
        arguments.append("--upgrade")
    for name in question.upgrade or ():
        arguments += ["--upgrade-package", name]
    if not question.dependencies:
        arguments.append("--no-deps")
    if question.lines:
        arguments.append("-")
    return arguments


def _environment(environ: Mapping[str, str], indexes: Indexes) -> dict[str, str]:
    """Return uv's environment: the user's, without what would choose another interpreter or folder."""
    kept = {name: value for name, value in environ.items() if name not in _UNWANTED}
    return {**kept, **indexes.environment, "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}


def _preferences(packages: Sequence[PythonPackage], target: Target) -> str:
    """Render the least PEP 751 file that gives uv the versions to prefer; names and versions are safe as they are."""
    head = f'lock-version = "1.0"\ncreated-by = "envbuild"\nrequires-python = ">={target.feature}"\n'
    return head + "".join(f'[[packages]]\nname = "{p.name}"\nversion = "{p.version}"\n' for p in packages)


def _warns(line: str) -> bool:
    """Return whether a line of uv is a warning that concerns the lock."""
    return line.startswith("warning: ") and "UV_INDEX_STRATEGY" not in line and "experimental" not in line


def _failure(
    done: subprocess.CompletedProcess[str],
    question: Question,
    target: Target,
    indexes: Indexes,
    environ: Mapping[str, str],
) -> EnvbuildError:
    """Return the error for uv's failure; one that a limit of this process has ended says nothing about packages."""
    from envbuild.core import limits

    stderr = done.stderr
    if limit := limits.of_child(done.returncode, stderr):
        return BuildError(f"uv was ended before it had resolved the Python requirements: {limit[0]}", limit[1])
    if done.returncode < 0:
        return ResolveError(
            f"uv was ended by signal {-done.returncode} before it had resolved the Python requirements", "lock again"
        )
    if "unexpected argument" in stderr or "invalid value" in stderr:
        return ResolveError(
            f"this uv does not take the arguments it was given: {' '.join(stderr.split())}",
            f"install a newer one: {sys.executable} -m pip install -U uv",
        )
    return failure(stderr, target, _has_none(question, target, indexes, environ))
