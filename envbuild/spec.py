"""The spec: what a person wants, read from ``spec.yaml``.

Forgiving to write, strict to read: five lines suffice, and whatever is wrong is told all at once, with field path and
line. The keys are explained in docs/spec.md; their table is in spec_keys.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from envbuild.digest import sha256_json
from envbuild.errors import Problem, SpecError
from envbuild.lock import Determinism, Hardware, RunOptions, Value
from envbuild.lock_types import LockName
from envbuild.spec_keys import LEVELS, PYTHONS, ROOT
from envbuild.spec_kinds import File
from envbuild.spec_yaml import Report, read_yaml
from envbuild.suggest import perhaps, quote

_HINT = "every key, with its values and defaults: envbuild schema"


class Os(Value, frozen=True, kw_only=True):
    """The operating system wanted.

    Attributes:
        release: ``debian-12`` or ``debian-13``.
        architecture: Debian architecture.
        mirror: address of a Debian mirror; empty: the machine's apt configuration.
        snapshot: time to take the archive at, ``20260711T000000Z``; empty: now.
        image: base image by digest instead of packages; empty: none.
    """

    release: str = "debian-12"
    architecture: str = "amd64"
    mirror: str = ""
    snapshot: str = ""
    image: str = ""


class Package(Value, frozen=True, kw_only=True):
    """A Debian package wanted; ``version`` is empty for any."""

    name: str
    version: str = ""

    def __str__(self) -> str:
        """Return it as a spec writes it."""
        return f"{self.name}={self.version}" if self.version else self.name


class Spec(Value, frozen=True, kw_only=True):
    """A valid spec.

    Attributes:
        requirements: PEP 508 lines, normalised.
        requirement_files: requirements files, relative to the spec's folder.
        wheels: folders of wheels, relative to the spec's folder or absolute.
        inputs: data paths, relative to the spec's folder.
        env: environment variables of the image.
    """

    name: LockName
    os: Os = Os()
    packages: tuple[Package, ...] = ()
    python: str = PYTHONS["debian-12"]
    requirements: tuple[str, ...] = ()
    requirement_files: tuple[str, ...] = ()
    wheels: tuple[str, ...] = ()
    cuda: str = "none"
    hardware: Hardware = Hardware()
    determinism: Determinism = Determinism(seed=42, threads=2, level="ops", strict=True)
    inputs: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    run: RunOptions = RunOptions()


def load_spec(path: Path) -> Spec:
    """Read a spec file, and check that the files it names are there.

    Raises:
        SpecError: with every problem found.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = Problem(path="", message=f"cannot be read: {error.strerror}")
        raise SpecError(str(path), [problem], "write a starter spec: envbuild init") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem(path="", message=f"not UTF-8 text: byte 0x{data[error.start]:02x}", line=line)
        raise SpecError(str(path), [problem], "save the file as UTF-8") from None
    return _parse(text, str(path), path.parent)


def parse_spec(text: str, source: str = "spec.yaml") -> Spec:
    """Parse a spec without looking at the files it names; ``source`` is what messages call it.

    Raises:
        SpecError: with every problem found.
    """
    return _parse(text, source, None)


def spec_digest(spec: Spec) -> str:
    """Return the SHA-256 of what a spec means: layout, comments and spelled-out defaults make no difference.

    Empty values are left out, so that a key added by a later version does not make old locks stale.
    """
    return sha256_json(_without_empty(msgspec.to_builtins(spec)))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a spec, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "envbuild spec",
        "description": "What envbuild locks, builds and runs.",
        **ROOT.schema(),
    }


def _parse(text: str, source: str, base: Path | None) -> Spec:
    report = Report()
    node = read_yaml(text, report)
    values: Any = {} if node is None else ROOT.read(node, "", report)
    if isinstance(values, dict):
        values = _complete(values, report)
        if base is not None:
            _check_files(values, base, report)
    if report.problems:
        raise SpecError(source, sorted(report.problems, key=lambda problem: problem.line), _HINT)
    return _build(values)


def _complete(values: dict[str, Any], report: Report) -> dict[str, Any]:
    """Check what concerns more than one key, and fill in the default Python."""
    system = values.get("os", {})
    release = system.get("release", "debian-12")
    own = PYTHONS[release]
    python = values.get("python", own)
    if python != own and not system.get("image"):
        other = next((name for name, version in PYTHONS.items() if version == python), "")
        way = f"write {own}, or os: {other}" if other else f"write {own}, or leave python out"
        report.add("python", f"{release} has Python {own}, found {quote(python)} — {way}")
    level = values.get("hardware", {}).get("cpu", "any")
    if level in LEVELS and level != "any" and system.get("architecture", "amd64") != "amd64":
        report.add("hardware.cpu", f"{level} is a level of amd64, but os.architecture is {system['architecture']}")
    return {**values, "python": python}


def _check_files(values: dict[str, Any], base: Path, report: Report) -> None:
    """Check that requirements files and folders of wheels exist."""
    for index, entry in enumerate(values.get("requirements", ())):
        if isinstance(entry, File) and not (base / entry.path).is_file():
            here = f"requirements[{index}]" if f"requirements[{index}]" in report.lines else "requirements"
            parent = (base / entry.path).parent
            names = [file.name for file in parent.iterdir() if file.is_file()] if parent.is_dir() else []
            report.add(here, f"no file {quote(entry.path)} beside the spec{perhaps(Path(entry.path).name, names)}")
    for index, folder in enumerate(values.get("wheels", ())):
        if not (base / folder).is_dir():
            report.add(f"wheels[{index}]", f"no folder {quote(folder)} beside the spec")


def _build(values: dict[str, Any]) -> Spec:
    """Turn checked values into the frozen spec."""
    entries = values.pop("requirements", ())
    packages = [entry.partition("=") for entry in values.pop("packages", ())]
    return Spec(
        os=Os(**values.pop("os", {})),
        packages=tuple(Package(name=name, version=version) for name, _, version in packages),
        requirements=tuple(entry for entry in entries if not isinstance(entry, File)),
        requirement_files=tuple(entry.path for entry in entries if isinstance(entry, File)),
        hardware=Hardware(**values.pop("hardware", {})),
        determinism=msgspec.structs.replace(Spec(name="x").determinism, **values.pop("determinism", {})),
        run=RunOptions(**values.pop("run", {})),
        **values,
    )


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        pruned = {key: _without_empty(child) for key, child in value.items()}
        return {key: child for key, child in pruned.items() if child not in ("", [], {}, ())}
    return value
