"""uv as a process: requirements in, a PEP 751 file with every fitting wheel out.

Only uv's command line is relied on (``uv pip compile``), and of its output only what PEP 751 defines.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envbuild.errors import EnvbuildError, ResolveError
from envbuild.lock import PythonPackage
from envbuild.resolve.explain import failure
from envbuild.resolve.indexes import Indexes
from envbuild.resolve.wheels import Candidate, Target, read_pylock

_GLIBCS = (17, 28, *range(31, 41))
"""Minor numbers of the C library that ``--python-platform`` knows."""
_UNWANTED = ("UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_WORKING_DIR", "UV_WORKING_DIRECTORY", "UV_PROJECT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What uv is asked.

    Attributes:
        lines: requirements, one each.
        files: requirements files.
        folder: relative paths in requirements start here, and so does uv's search for its configuration.
        preferred: packages whose version is kept where the requirements allow it.
        upgrade: names to move whatever is preferred; None: everything.
        dependencies: whether to follow dependencies.
    """

    lines: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
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
    """
    with tempfile.TemporaryDirectory(prefix="envbuild-uv-") as name:
        output = Path(name) / "pylock.toml"
        if question.preferred and question.upgrade is not None:
            output.write_text(_preferences(question.preferred, target), encoding="utf-8")
        done = subprocess.run(
            [find_uv(), *_arguments(question, target, output), *indexes.arguments],
            input="".join(f"{line}\n" for line in question.lines),
            env=_environment(environ, indexes),
            cwd=question.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise _failure(done.stderr, target)
        warnings = tuple(line.removeprefix("warning: ") for line in done.stderr.splitlines() if _warns(line))
        return Answer(offered=read_pylock(output.read_bytes(), output.parent), warnings=warnings)


@cache
def find_uv() -> str:
    """Return the path of uv: the one installed beside envbuild, else the one on PATH; raises ``ResolveError``."""
    import shutil

    try:
        import uv

        return os.fsdecode(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        if found := shutil.which("uv"):
            return found
    raise ResolveError("uv is missing", f"install it beside envbuild: {sys.executable} -m pip install uv")


def platform(target: Target) -> str:
    """Return uv's name of the platform: the newest one that uv knows and the target accepts."""
    glibc = max((known for known in _GLIBCS if known <= target.glibc), default=_GLIBCS[0])
    return f"{target.machine}-manylinux_2_{glibc}"


def _arguments(question: Question, target: Target, output: Path) -> list[str]:
    """Return uv's arguments; the interpreter named is only a helper, the versions given are the target's."""
    arguments = ["pip", "compile", "--python", sys.executable, "--no-python-downloads", "--color", "never"]
    arguments += ["--python-version", target.python, "--python-platform", platform(target)]
    arguments += ["--only-binary", ":all:", "--format", "pylock.toml", "--output-file", str(output)]
    if question.upgrade is None:
        arguments.append("--upgrade")
    for name in question.upgrade or ():
        arguments += ["--upgrade-package", name]
    if not question.dependencies:
        arguments.append("--no-deps")
    arguments += [str(path.absolute()) for path in question.files]
    if question.lines:
        arguments.append("-")
    return arguments


def _environment(environ: Mapping[str, str], indexes: Indexes) -> dict[str, str]:
    """Return uv's environment: the user's, without what would choose another interpreter or folder."""
    kept = {name: value for name, value in environ.items() if name not in _UNWANTED}
    return {**kept, **indexes.environment, "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}


def _preferences(packages: Sequence[PythonPackage], target: Target) -> str:
    """Render the least PEP 751 file that tells uv which versions to prefer; names and versions are safe as they are."""
    head = f'lock-version = "1.0"\ncreated-by = "envbuild"\nrequires-python = ">={target.feature}"\n'
    return head + "".join(f'[[packages]]\nname = "{p.name}"\nversion = "{p.version}"\n' for p in packages)


def _warns(line: str) -> bool:
    """Tell whether a line of uv is a warning that concerns the lock."""
    return line.startswith("warning: ") and "UV_INDEX_STRATEGY" not in line and "experimental" not in line


def _failure(stderr: str, target: Target) -> EnvbuildError:
    """Return the error for uv's failure."""
    if "unexpected argument" in stderr or "invalid value" in stderr:
        return ResolveError(
            f"this uv does not take the arguments it was given: {' '.join(stderr.split())}",
            f"install a newer one: {sys.executable} -m pip install -U uv",
        )
    return failure(stderr, target)
