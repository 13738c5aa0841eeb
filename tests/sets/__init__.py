"""Sets of packages that people train with, and what became of each: ``sets.toml``, read, locked, built, imported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from envbuild.resolve.cuda.plan import CudaRequest, plan_cuda
from envbuild.resolve.python.indexes import configured
from tests.sets.archives import folder_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RESULTS = Path(__file__).with_name("results.jsonl")
MANIFEST = Path(__file__).with_name("sets.toml")
_SPEC_KEYS = ("os", "packages", "cuda", "sources", "build-packages", "build-requirements", "python")
_TUPLES = ("differs", "notes")
_PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageSet:
    """One set of the manifest; the fields are described in its head."""

    name: str
    group: str
    requirements: tuple[str, ...]
    imports: tuple[str, ...]
    origin: str = ""
    refused: str = ""
    projects: tuple[str, ...] = ()
    keys: dict[str, Any]

    def spec(self) -> str:
        """Return the spec that locks it."""
        folders = (f"{pin.partition('==')[0]} @ ./{folder_of(pin)}" for pin in self.projects)
        requirements = [*self.requirements, *folders]
        values = {"name": self.name, "os": "debian-12", **self.keys, "requirements": requirements}
        return yaml.safe_dump(values, sort_keys=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of a set.

    Attributes:
        state: ``locked``, ``refused`` (as expected), ``imported``, or ``failed``: at what, see ``problem``.
        packages: how many wheels the lock has; ``system``: how many Debian packages.
        size: bytes of both.
        seconds, uv_seconds: to lock with envbuild, with no lock and with an earlier answer of the indexes at hand; and
            to resolve the same lines with uv alone, likewise.
        compared: whether the pins were compared with uv's; ``differs``: those that are not uv's.
        problem: first lines of the message.
        notes: what ``lock`` and ``build`` noted, shortened.
    """

    name: str
    group: str
    state: str
    packages: int = 0
    system: int = 0
    size: int = 0
    seconds: float = 0
    uv_seconds: float = 0
    compared: bool = False
    differs: tuple[str, ...] = ()
    problem: str = ""
    notes: tuple[str, ...] = ()


def most_used(path: Path = MANIFEST) -> list[str]:
    """Return the packages that must be in a set."""
    return list(tomllib.loads(path.read_text())["most-used"])


def load(path: Path = MANIFEST) -> list[PackageSet]:
    """Read the manifest; raises ``ValueError`` for an unknown key or a name given twice."""
    found = []
    for entry in tomllib.loads(path.read_text())["set"]:
        keys = {key: entry.pop(key) for key in _SPEC_KEYS if key in entry}
        lists = {key: tuple(entry.pop(key, ())) for key in ("requirements", "imports", "projects")}
        if unknown := set(entry) - {"name", "group", "origin", "refused"}:
            raise ValueError(f"{entry['name']}: unknown keys {sorted(unknown)}")
        found.append(PackageSet(keys=keys, **lists, **entry))
    names = [each.name for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"given twice: {sorted(twice)}")
    return found


def uv_pins(wanted: PackageSet, python: str, platform: str, cache: Path) -> dict[str, str]:
    """Return the versions that uv alone chooses, by name; raises ``CalledProcessError`` if it finds none.

    It is asked for wheels only and for the lines that ``cuda`` adds, and asks the same indexes as envbuild in
    the same order, or it would answer another question.

    Args:
        python: feature release.
        platform: uv's name of the platform, such as ``x86_64-manylinux_2_36``.
        cache: uv's cache.
    """
    plan = plan_cuda(wanted.keys.get("cuda", "none"), "", wanted.requirements, python)
    for major in plan.lower:
        with suppress(subprocess.CalledProcessError):
            return _compiled(wanted, plan, python, platform, cache)
        plan = plan_cuda(str(major), "", wanted.requirements, python)
    return _compiled(wanted, plan, python, platform, cache)


def _compiled(wanted: PackageSet, plan: CudaRequest, python: str, platform: str, cache: Path) -> dict[str, str]:
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate"]
    command += ["--only-binary", ":all:", "--python-version", python, "--python-platform", platform]
    cache.mkdir(parents=True, exist_ok=True)
    constraints = cache / "constraints.txt"
    constraints.write_text("\n".join(plan.constraints))
    command += ["--cache-dir", str(cache), "--constraint", str(constraints)]
    places = configured(os.environ, Path())
    done = subprocess.run(
        [*command, *places.arguments],
        input="\n".join([*wanted.requirements, *plan.requirements]),
        env={**os.environ, **places.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return {match[1].lower(): match[2] for match in map(_PIN.match, done.stdout.splitlines()) if match}


def save(outcome: Outcome, path: Path) -> None:
    """Append an outcome to a file, one JSON object a line."""
    with path.open("a") as stream:
        stream.write(json.dumps(asdict(outcome)) + "\n")


def read(path: Path) -> dict[str, Outcome]:
    """Return what a file of outcomes has, the last one of each set by its name."""
    lines = path.read_text().splitlines() if path.exists() else ()
    found = (json.loads(line) for line in lines)
    return {each["name"]: Outcome(**{**each, **{key: tuple(each.get(key, ())) for key in _TUPLES}}) for each in found}
