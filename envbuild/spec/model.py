"""The spec: what a person wants, read from ``spec.yaml``.

Forgiving to write, strict to read: five lines suffice, and all problems are reported at once, with field path and
line. The keys are explained in docs/reference/spec.md; their table is in spec_keys.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from envbuild.core.digest import sha256_json
from envbuild.core.fs import read_regular
from envbuild.core.text import quote
from envbuild.core.types import LockName, Value, matches
from envbuild.errors import Problem, SpecError
from envbuild.lockfile.discovery import near_spec
from envbuild.lockfile.model import Determinism, RunOptions
from envbuild.spec.hardware import HardwareRequirements, Requirement, hardware_requirements
from envbuild.spec.hardware_keys import LEVELS_OF
from envbuild.spec.keys import ROOT, STANDALONE
from envbuild.spec.package_fields import File
from envbuild.spec.places import Place
from envbuild.spec.system_keys import PYTHONS
from envbuild.spec.validators import project
from envbuild.spec.variants import joined
from envbuild.spec.yaml import MAX_LENGTH, Report, read_yaml

DETERMINISM = Determinism(seed=42, threads=2, level="ops", strict=True)
"""What is pinned unless a spec specifies otherwise."""

CheckEnv = Callable[[Mapping[str, str], str], Iterable[Problem]]

_HINT = "every key, with its values and defaults: envbuild schema"


class Archive(Value, frozen=True, kw_only=True):
    """A further apt archive.

    Attributes:
        key: file of the certificates that may sign it, relative to the spec's folder.
        replaces: packages to take from it although the release has them.
    """

    name: str
    url: str
    suite: str
    key: str
    components: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()


class Os(Value, frozen=True, kw_only=True):
    """The operating system wanted.

    Attributes:
        release: such as ``debian-12`` or ``ubuntu-24.04``.
        architecture: Debian architecture.
        mirror: address of a mirror of the release; empty: the machine's apt configuration.
        snapshot: time to take the archive at, ``20260711T000000Z``; empty: now.
        image: base image by digest instead of packages; empty: none. Then ``release`` reports nothing.
        without: what to leave out of the packages that every image has: ``tzdata``, ``ca-certificates``.
        components: of the archive that are searched; empty: the distribution's default.
        archives: further archives.
    """

    release: str = "debian-12"
    architecture: str = "amd64"
    mirror: str = ""
    snapshot: str = ""
    image: str = ""
    without: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    archives: tuple[Archive, ...] = ()


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
        projects: folders and git repositories whose projects are built.
        requirement_files: requirements files, relative to the spec's folder.
        extras, groups: of the ``pyproject.toml`` in the spec's folder, normalised.
        wheels: folders of wheels, relative to the spec's folder or absolute.
        inputs: data paths, relative to the spec's folder.
        env: environment variables of the image.
        python: feature release, or exact release; empty: the only one that the base image has.
        exclude_newer: time of upload from which on files of indexes are left out, ``20260711T000000Z``; empty: none.
        sources: packages whose sources may be built where there is no wheel; ``all`` alone: any package's.
        build_packages: Debian packages of the system that sources are built in.
        build_requirements: PEP 508 lines by package: what its build has besides what its sources ask for.
        build_env: environment variables of builds.
        missing_libraries: shared libraries that may be missing from the image, as patterns.
        cuda: ``none``, ``auto``, or a version of one or two parts.
        cudnn: version of one to four parts; empty: the framework's own.
        variant: which variant of a spec this is; its name is then ``NAME-VARIANT``.
        variants: a spec for each variant, in the written order. With any, only they are locked.
        platform: which of several platforms this is for; its name then ends in ``-PLATFORM``.
        platforms: a spec for each platform, of a spec or of a variant, in the written order. With any, only they are
            locked.
    """

    name: LockName
    os: Os = Os()
    packages: tuple[Package, ...] = ()
    python: str = PYTHONS["debian-12"]
    requirements: tuple[str, ...] = ()
    projects: tuple[Place, ...] = ()
    requirement_files: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    exclude_newer: str = ""
    wheels: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    build_packages: tuple[str, ...] = ()
    build_requirements: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    build_env: dict[str, str] = msgspec.field(default_factory=dict)
    missing_libraries: tuple[str, ...] = ()
    cuda: str = "none"
    cudnn: str = ""
    hardware: HardwareRequirements = HardwareRequirements()
    determinism: Determinism = DETERMINISM
    inputs: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    run: RunOptions = RunOptions()
    variant: str = ""
    variants: dict[str, Spec] = msgspec.field(default_factory=dict)
    platform: str = ""
    platforms: dict[str, Spec] = msgspec.field(default_factory=dict)

    @property
    def locked(self) -> tuple[Spec, ...]:
        """What is locked, each by itself: every variant for every platform, or the spec if it has neither."""
        wholes = tuple(self.variants.values()) or (self,)
        return tuple(each for whole in wholes for each in (tuple(whole.platforms.values()) or (whole,)))

    @property
    def lock_name(self) -> str:
        """The name of the lock's file, as PEP 751 wants it."""
        return f"pylock.{self.name}.toml"


def load_spec(path: Path, *, check_env: CheckEnv | None = None) -> Spec:
    """Read a spec file, and check that the files it names are there.

    Args:
        path: the file; paths in it are relative to its folder.
        check_env: finds harmful values among environment variables; given those and their field path.

    Raises:
        SpecError: with every problem found.
    """
    try:
        data = read_regular(path, 4 * MAX_LENGTH + 1, cut=True)
    except OSError as error:
        problem = Problem(path="", message=f"cannot be read: {error.strerror}")
        raise SpecError(str(path), [problem], _way_to_a_spec(path, error)) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem(path="", message=f"not UTF-8 text: byte 0x{data[error.start]:02x}", line=line)
        raise SpecError(str(path), [problem], "save the file as UTF-8") from None
    return _parse(text, str(path), Report(base=path.parent), check_env)


def parse_spec(text: str, source: str = "spec.yaml", *, check_env: CheckEnv | None = None) -> Spec:
    """Parse a spec as ``load_spec`` does, without looking at the files it names.

    Args:
        text: YAML.
        source: what messages call it.
        check_env: as for ``load_spec``.

    Raises:
        SpecError: with every problem found.
    """
    return _parse(text, source, Report(), check_env)


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


def _way_to_a_spec(path: Path, error: OSError) -> str:
    """Describe what to do about a spec that cannot be read: a second project is not wanted where there is one."""
    if path.is_dir():
        return f"name the spec in it: {path / 'spec.yaml'}" if (path / "spec.yaml").is_file() else "name a file"
    if not isinstance(error, FileNotFoundError):
        return "check what it is and who may read it"
    if found := near_spec(path.parent.resolve()):
        return f"name the spec that is there: {found}"
    return "write a starter spec: envbuild init" if path.parent.is_dir() else f"correct the path: no {path.parent}"


def _parse(text: str, source: str, report: Report, check_env: CheckEnv | None) -> Spec:
    node = read_yaml(text, report)
    values: Any = {} if node is None else ROOT.read(node, "", report)
    if isinstance(values, dict):
        named = values.get("variants", {}).items()
        variants = {f"variants.{name}": own for name, own in named if matches(LockName, name)}
        wholes = _complete_variants(values, report)
        values = wholes.pop("", values)
        for path, own in (("", values), *variants.items()):
            env = {name: value for name, value in _mapping(own).get("env", {}).items() if isinstance(value, str)}
            for problem in check_env(env, f"{path}.env".lstrip(".")) if check_env is not None else ():
                report.add(problem.path, problem.message)
    if report.problems:
        raise SpecError(source, sorted(report.problems, key=lambda problem: problem.line), _HINT)
    return _build(values, wholes)


def _complete_variants(values: dict[str, Any], report: Report) -> dict[str, dict[str, Any]]:
    """Check a spec, or each of its variants, as a whole; returns the values of each, and under "" those of all."""
    common = {key: value for key, value in values.items() if key != "variants"}
    if "variants" not in values:
        return {"": _complete_platforms(common, report)}
    found = {"": _complete_platforms(common, Report())}  # only variants are locked: what all have need not be enough
    common_problems: set[tuple[str, str]] = set()
    for name, own in values["variants"].items():
        here = f"variants.{name}"
        known = any(problem.path == here or problem.path.startswith(f"{here}.") for problem in report.problems)
        if known or not matches(LockName, name) or not isinstance(own, dict):
            continue
        full = f"{common.get('name', '')}-{name}"
        if not matches(LockName, full) and "name" in common:
            report.add(here, f"{full} is the name of its lock, which has at most 64 characters — write a shorter one")
        part, before = Report(problems=[*report.problems]), len(report.problems)
        named = {"name": full, "variant": name} if "name" in common else {"variant": name}
        found[name] = _complete_platforms({**joined(common, own), **named}, part)
        for problem in part.problems[before:]:
            if problem.path.split(".")[0] in own:
                report.add(f"{here}.{problem.path}", problem.message)
            elif (problem.path, problem.message) not in common_problems:
                common_problems.add((problem.path, problem.message))
                report.add(problem.path, f"{problem.message} (variant {name})")
    return found


def _complete_platforms(values: dict[str, Any], report: Report) -> dict[str, Any]:
    """Check a spec as a whole for each of its platforms, whose values are then under ``platforms``, by name."""
    platforms = values.get("platforms")
    if platforms is None or _wrong("platforms", report):
        return _complete({key: value for key, value in values.items() if key != "platforms"}, report)
    system = values.get("os", {})
    if not platforms:
        report.add("platforms", "expected one platform at least — leave it out for os.architecture alone")
    if "architecture" in system:
        report.add("os.architecture", "platforms name what the image is made for — leave one of the two out")
    hardware = _mapping(values.get("hardware"))
    flags = hardware.get("cpu-flags", Requirement()).value
    if flags and len(platforms) > 1:
        way = "describe a host of each platform: envbuild lock --platform ARCH --host FILE"
        report.add("hardware.cpu-flags", f"flags are of one platform, but platforms are {', '.join(platforms)} — {way}")
    found: dict[str, dict[str, Any]] = {}
    known: set[tuple[str, str]] = set()
    for platform in platforms:
        own = {**values, "os": {**system, "architecture": platform}, "platform": platform}
        del own["platforms"]
        if "name" in values:
            own["name"] = f"{values['name']}-{platform}"
            if not matches(LockName, own["name"]):
                text = f"{own['name']} is the name of a lock, which has at most 64 characters — write a shorter name"
                report.add("platforms", text)
        part, before = Report(problems=[*report.problems]), len(report.problems)
        found[platform] = _complete(_of_platform(own, platform, platforms), part)
        for problem in part.problems[before:]:
            if (problem.path, problem.message) not in known:
                known.add((problem.path, problem.message))
                report.add(problem.path, problem.message)
    return {**values, "platforms": found}


def _of_platform(values: dict[str, Any], platform: str, platforms: Collection[str]) -> dict[str, Any]:
    """Return the values for one of several platforms: a level of another one's CPUs is none of it."""
    hardware = values.get("hardware")
    level = hardware.get("cpu", Requirement()).value if isinstance(hardware, dict) else None
    owner = LEVELS_OF.get(str(level))
    if not isinstance(hardware, dict) or owner in (None, platform) or owner not in platforms:
        return values
    return {**values, "hardware": {key: value for key, value in hardware.items() if key != "cpu"}}


def _mapping(value: Any) -> dict[str, Any]:
    """Return a value if it is a mapping, else an empty one: what is wrong with it was reported."""
    return value if isinstance(value, dict) else {}


def _complete(values: dict[str, Any], report: Report) -> dict[str, Any]:
    """Check what concerns more than one key, and fill in the default Python."""
    system = values.get("os", {})
    if "cudnn" in values and values.get("cuda", "none") == "none" and not _wrong("cuda", report):
        report.add("cudnn", "cuDNN comes with CUDA, but cuda is none — write cuda: auto, or leave cudnn out")
    if _wrong("os", report):
        return values
    python = _python_over_image(values, report) if system.get("image") else _python_of_release(values, report)
    hardware, architecture = values.get("hardware", {}), system.get("architecture", "amd64")
    level = hardware.get("cpu", Requirement()).value if isinstance(hardware, dict) else None
    if (owner := LEVELS_OF.get(str(level), architecture)) != architecture:
        known = ", ".join(name for name, own in LEVELS_OF.items() if own == architecture)
        report.add(
            "hardware.cpu", f"{level} is a level of {owner}, but the image is for {architecture} — it has {known}"
        )
    if isinstance(hardware, dict) and hardware.get("gpu") == "optional" and values.get("cuda", "none") == "none":
        report.add("hardware.gpu", "is optional, but cuda is none, so nothing would use it — write cuda: auto")
    _build_requirements(values, report)
    determinism = values.get("determinism")
    portable = isinstance(determinism, dict) and determinism.get("level") == "portable"
    if portable and system.get("architecture", "amd64") != "amd64":
        found = system["architecture"]
        report.add(
            "determinism.level",
            f"portable is for amd64, but os.architecture is {found}, where no complete set of switches is known for "
            "what libraries choose by the CPU — write ops, and for one kind of CPU hardware.cpu-flags",
        )
    return {**values, "python": python}


def _build_requirements(values: dict[str, Any], report: Report) -> None:
    """Report what is stated for a package that nothing is built of."""
    sources = values.get("sources", ())
    if _wrong("sources", report) or _wrong("build-requirements", report) or "all" in sources:
        return
    for name in _mapping(values.get("build-requirements")):
        if project(name) not in sources:
            report.add(f"build-requirements.{name}", f"nothing is built of it — write sources: [{name}]")


def _wrong(key: str, report: Report) -> bool:
    """Return whether something was wrong below a top-level key."""
    return any(problem.path.partition(".")[0].partition("[")[0] == key for problem in report.problems)


def _python_of_release(values: dict[str, Any], report: Report) -> str:
    """Return the release of Python: the Debian release's own, or one that there are standalone builds of."""
    release = values.get("os", {}).get("release", "debian-12")
    own = PYTHONS[release]
    if own not in STANDALONE and "python" not in values:
        report.add("python", f"is missing: {release} has Python {own}, which is too old — write python: 3.11")
        return own
    python: str = values.get("python", own)
    if ".".join(python.split(".")[:2]) not in STANDALONE:
        way = f"write {own}, which {release} has, or leave python out" if own in STANDALONE else "write 3.11"
        report.add("python", f"expected Python {STANDALONE[0]} to {STANDALONE[-1]}, found {quote(python)} — {way}")
    return python


def _python_over_image(values: dict[str, Any], report: Report) -> str:
    """Return the feature release of Python; empty: what the image has. Refuse what only packages can have."""
    for key in ("mirror", "snapshot"):
        if values["os"].get(key):
            report.add(
                f"os.{key}", "specifies where Debian packages come from, but os.image takes none — leave one out"
            )
    for key in ("components", "archives"):
        if values["os"].get(key):
            report.add(f"os.{key}", "specifies where packages come from, but os.image takes none — leave one out")
    if values["os"].get("without"):
        report.add("os.without", "nothing is installed into a base image — leave it out")
    if values.get("packages"):
        way = "install them in that image and name its new digest, or leave os.image out"
        report.add("packages", f"nothing is installed into a base image — {way}")
    return str(values.get("python", ""))


def _build(values: dict[str, Any], variants: dict[str, dict[str, Any]] | None = None) -> Spec:
    """Turn checked values into the frozen spec, and those of each variant."""
    values = dict(values)
    entries = values.pop("requirements", ())
    packages = [entry.partition("=") for entry in values.pop("packages", ())]
    system = dict(values.pop("os", {}))
    archives = tuple(_archive(table) for table in system.pop("archives", ()))
    return Spec(
        os=Os(**system, archives=archives),
        packages=tuple(Package(name=name, version=version) for name, _, version in packages),
        requirements=tuple(entry for entry in entries if not isinstance(entry, File | Place)),
        projects=tuple(entry for entry in entries if isinstance(entry, Place)),
        requirement_files=tuple(entry.path for entry in entries if isinstance(entry, File)),
        exclude_newer=values.pop("exclude-newer", ""),
        sources=values.pop("sources", ()),
        build_packages=values.pop("build-packages", ()),
        build_requirements={project(name): lines for name, lines in values.pop("build-requirements", {}).items()},
        build_env=values.pop("build-env", {}),
        missing_libraries=values.pop("missing-libraries", ()),
        hardware=hardware_requirements(values.pop("hardware", {})),
        determinism=msgspec.structs.replace(DETERMINISM, **values.pop("determinism", {})),
        run=RunOptions(**values.pop("run", {})),
        variants={name: _build(each) for name, each in (variants or {}).items()},
        platforms={name: _build(each) for name, each in values.pop("platforms", {}).items()},
        **values,
    )


def _archive(table: dict[str, Any]) -> Archive:
    """Turn a checked table into a value: an archive with suites has a component at least."""
    components = () if table["suite"].endswith("/") else table.get("components") or ("main",)
    return Archive(**{**table, "components": components})


def _without_empty(table: dict[str, Any]) -> dict[str, Any]:
    """Leave out empty fields; what a person puts into variables stays as it is."""
    kept = {
        key: _without_empty(value) if isinstance(value, dict) and key not in ("env", "build-env") else value
        for key, value in table.items()
    }
    return {key: value for key, value in kept.items() if value not in ("", [], {}, ())}
