"""pip-tools as a process: the second opinion, and the resolver of those who want it.

pip resolves for the interpreter it runs in, so an interpreter of the target's feature release is needed, on a machine
of the target's architecture. pip reads its own configuration; uv's is not translated for it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.fs import locked, temporary_folder
from envbuild.errors import ResolveError
from envbuild.resolve.python.uv import Question, find_uv
from envbuild.resolve.python.wheels import Target

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([A-Za-z0-9.!+-]+)")
_VERSIONS = re.compile(r"\(from versions: [^)]*?((?:[^,)]+, ){2}[^,)]+)\)")
_START = """\
import sys
sys.path[:] = filter(None, sys.path)
from pip._internal.cli import req_command
from pip._internal.distributions.sdist import SourceDistribution
from piptools.exceptions import PipToolsError
required = req_command.install_req_from_req_string
SourceDistribution.prepare_distribution_metadata
def of_an_index(*words, **named):
    found = required(*words, **named)
    if found.link is not None:
        raise PipToolsError(f"{found} is wanted, and packages come from indexes only")
    return found
def built(distribution, *words, **named):
    raise PipToolsError(f"{distribution.req} has no wheel, and nothing is built on this host")
req_command.install_req_from_req_string = of_an_index
SourceDistribution.prepare_distribution_metadata = built
from piptools.__main__ import cli
cli(prog_name="pip-tools")
"""
"""Runs pip-tools as ``-m piptools`` does, but imports nothing from the folder that it works in, the project's, takes no
package from an address that another one's metadata names, and builds nothing: pip would do both, ``--only-binary`` or
not. With a pip that has other names for these functions it fails."""
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pins:
    """What pip-tools decided: version by normalised name, and the digests it accepts for each."""

    versions: Mapping[str, str]
    hashes: Mapping[str, frozenset[str]]


def compile_pins(
    question: Question,
    target: Target,
    wheels: Sequence[Path],
    cache_dir: Path,
    environ: Mapping[str, str],
    *,
    hashes: bool = True,
) -> Pins:
    """Resolve with pip-tools; one process, and two more the first time if an environment has to be made.

    Args:
        question: as for uv.
        wheels: further folders of wheels.
        cache_dir: folder in which environments for other interpreters are kept.
        hashes: whether to collect the digests of every file, which takes pip-tools most of its time.

    Raises:
        ResolveError: no set of versions fits, or no interpreter of the target's version is here.
    """
    if platform.machine() != target.machine:
        raise ResolveError(
            f"pip-tools can only resolve for the machine it runs on: this is {platform.machine()}, the target "
            f"{target.machine}",
            "leave out --resolver and --cross-check: uv resolves for any machine",
        )
    with temporary_folder("envbuild-pip-tools-") as folder:
        source, output = folder / "requirements.in", folder / "requirements.txt"
        options = []
        if question.constraints:
            limits = folder / "constraints.txt"
            limits.write_text("".join(f"{line}\n" for line in question.constraints), encoding="utf-8")
            options.append(f"-c {limits}")
        source.write_text("".join(f"{line}\n" for line in (*question.lines, *options)), encoding="utf-8")
        if question.upgrade is not None:
            output.write_text("".join(f"{p.name}=={p.version}\n" for p in question.preferred), encoding="utf-8")
        done = subprocess.run(
            [*_command(target, cache_dir, environ), *_arguments(question, wheels, source, output, hashes)],
            env={**environ, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONWARNINGS": "ignore"},
            cwd=question.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise ResolveError(
                f"the Python requirements cannot be met, pip-tools reports: {_complaint(done.stderr)}",
                "loosen one of the requirements, or choose another python in the spec, then lock again",
            )
        return parse(output.read_text(encoding="utf-8"))


def parse(text: str) -> Pins:
    """Read what pip-tools wrote: a requirements file with one pin per logical line."""
    from packaging.utils import canonicalize_name

    versions: dict[str, str] = {}
    hashes: dict[str, frozenset[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if pin := _PIN.match(line):
            name = canonicalize_name(pin[1])
            versions[name] = pin[2]
            hashes[name] = frozenset(_HASH.findall(line))
    return Pins(versions=versions, hashes=hashes)


def interpreter(target: Target, environ: Mapping[str, str]) -> str:
    """Return an interpreter of the target's feature release; raises ``ResolveError`` if there is none."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == target.feature:
        return sys.executable
    candidates = [shutil.which(f"python{target.feature}", path=environ.get("PATH"))]
    found = subprocess.run(
        [find_uv(), "python", "find", "--no-python-downloads", "--no-project", target.feature],
        env=dict(environ),
        cwd="/",  # a virtual environment of the project is a program of the project
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    candidates.append(found.stdout.strip())
    pyenv = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/")) / ".pyenv") / "versions"
    candidates += [str(path) for path in sorted(pyenv.glob(f"{target.feature}.*/bin/python"), reverse=True)]
    for candidate in filter(None, candidates):
        if _runs(candidate, target.feature):
            return candidate
    raise ResolveError(
        f"pip-tools resolves only for the interpreter it runs in, and there is no python{target.feature} here",
        f"install python{target.feature}, or leave out --resolver and --cross-check: uv needs none",
    )


def _runs(candidate: str, feature: str) -> bool:
    """Return whether a program is an interpreter of that release: version managers leave names that are none."""
    code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([candidate, "-I", "-c", code], capture_output=True, encoding="utf-8", check=False)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == feature


def _command(target: Target, cache_dir: Path, environ: Mapping[str, str]) -> list[str]:
    """Return how to start pip-tools in an interpreter of the target's release, making an environment if need be."""
    python = interpreter(target, environ)
    if python == sys.executable:
        return [python, "-c", _START]
    folder = cache_dir / f"pip-tools-{target.feature}"
    ready = folder / "ready"
    with locked(cache_dir / f"pip-tools-{target.feature}.lock"):
        if not ready.exists():
            shutil.rmtree(folder, ignore_errors=True)
            for step in (
                ["venv", "--quiet", "--python", python, str(folder)],
                ["pip", "install", "--quiet", "--python", str(folder / "bin/python"), "pip", "pip-tools>=7.5"],
            ):
                done = subprocess.run(
                    [find_uv(), *step, "--project", "/"],
                    env=dict(environ),
                    capture_output=True,
                    encoding="utf-8",
                    check=False,
                )
                if done.returncode:
                    raise ResolveError(
                        f"cannot install pip-tools for Python {target.feature}: {' '.join(done.stderr.split())}"
                    )
            ready.touch()
    return [str(folder / "bin/python"), "-c", _START]


def _arguments(question: Question, wheels: Sequence[Path], source: Path, output: Path, hashes: bool) -> list[str]:
    """Return pip-tools' arguments."""
    arguments = ["compile", "--quiet", "--no-config", "--no-header", "--no-annotate", "--strip-extras"]
    arguments += ["--allow-unsafe", "--resolver=backtracking", "--no-emit-index-url", "--no-emit-trusted-host"]
    arguments += ["--no-emit-find-links", "--no-emit-options", "--pip-args=--only-binary=:all:"]
    if hashes:
        arguments.append("--generate-hashes")
    if question.upgrade is None:
        arguments.append("--upgrade")
    arguments += [f"--upgrade-package={name}" for name in question.upgrade or ()]
    arguments += [f"--find-links={os.fspath(folder)}" for folder in wheels]
    return [*arguments, f"--output-file={output}", str(source)]


def _complaint(stderr: str) -> str:
    """Return pip's explanation without Python's trace and without long lists of versions."""
    lines = stderr.split("Traceback (most recent call last)")[0].splitlines()
    reported = " ".join(line.strip().removeprefix("ERROR: ") for line in lines if not line.startswith("WARNING"))
    return _VERSIONS.sub(r"(from versions: … \1)", reported).split(" To fix this ")[0]
