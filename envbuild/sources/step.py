"""The build step: sources, build requirements and a backend's hooks in a container without network, twice.

The two builds are in different folders and at different times. What they make is brought into canonical form and
compared; what differs then is named, and nothing is taken.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import temporary_folder
from envbuild.core.progress import Progress
from envbuild.core.text import quote
from envbuild.engine.protocol import Step, StepRunner
from envbuild.errors import BuildError, NotReproducibleError
from envbuild.image.python.environment import ChangedFilesError, WheelFile, pack_wheels
from envbuild.image.tar.layer import BLOCK
from envbuild.lockfile import layout
from envbuild.sources import canonical, scm
from envbuild.sources.archive import BuildSystem

VERSION = 2
"""Another number where other bytes than before are made of the same files."""
_WORK = "build-sources"
_PLACES = ("one", "second/place")
"""Folders of the two builds; of different length, so that a path in a result shows."""
_END = 2 * BLOCK
_MOST_SHOWN = 8
_RUST = re.compile(
    r"\b(?:cargo|rustc|rustup|maturin|crates\.io)\b|setup_rust|setuptools_rust|Rust (?:compiler|toolchain)"
)
_NO_NETWORK = re.compile(
    r"name resolution|resolve (?:host|address)|Name or service not known|Network is unreachable|ConnectError|URLError"
)
_HEADER = re.compile(r"fatal error: '?(?P<name>[\w.+/-]+)'?(?:: No such file or directory| file not found)")
_CPP = re.compile(
    r"cc1plus|\b(?:g\+\+|c\+\+)(?:-\d+)?['\"]?(?: failed)?: (?:No such file|command not found|not found)"
    r"|No CMAKE_CXX_COMPILER could be found|Unknown compiler\(s\): \[\['c\+\+'"
)
_C = re.compile(
    r"\b(?:gcc|cc)(?:-\d+)?['\"]?(?: failed)?: (?:No such file|command not found|not found)"
    r"|No CMAKE_C_COMPILER could be found|Unknown compiler\(s\): \[\['cc'"
)
_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '(?P<name>\w+)")
_NVCC = re.compile(
    r"\bnvcc['\"]?(?: failed)?: (?:No such file|command not found|not found)|CUDA_HOME|CUDA_PATH|CUDAToolkit"
)
_PROGRAM = re.compile(r"No such file or directory: '(?P<name>[A-Za-z0-9_.+-]+)'")
_TRIPLET = re.compile(r"^(?:x86_64|aarch64)-linux-gnu-(?=(?:gcc|g\+\+)$)")
"""Before the name of Debian's compilers, which its Python calls by the whole name."""
_CPP_LIBRARY = re.compile(r"libstdc\+\+\.so\.6|Could not find (?:ninja|cmake)", re.IGNORECASE)
_PACKAGES = {"cc": "gcc, python3-dev", "c++": "g++, python3-dev", "gcc": "gcc, python3-dev", "g++": "g++, python3-dev"}
"""Of programs whose package alone is not enough."""
_HAS_A_WHEEL = (
    "require a release that has a wheel, or build one elsewhere and name its folder in the spec: wheels: [wheels]"
)
_FILES = 1000
"""Most files that a backend may leave next to its wheel."""
_ENVIRONMENT = {
    "HOME": f"/{_WORK}",
    "LC_ALL": "C.UTF-8",
    "PATH": f"{layout.ENV_PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "SOURCE_DATE_EPOCH": "315532800",
    "TMPDIR": f"/{_WORK}",
    "TZ": "UTC",
    "ZERO_AR_DATE": "1",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Archive:
    """An archive of sources.

    Attributes:
        name: what it is called.
        path: the file.
        subdirectory: the folder of the project in it.
        version: for backends that take theirs from git; empty: they find none.
    """

    name: str
    path: Path
    subdirectory: str = ""
    version: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """What sources are built in.

    Attributes:
        base, base_key: tar of a system with the interpreter, and a digest that names it.
        python, executable: feature release and path of the interpreter.
        layers: further tars to unpack over it.
    """

    base: Path
    base_key: str
    python: str
    executable: str
    layers: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A wheel that was built.

    Attributes:
        name: its file name.
        data: its canonical bytes.
        builds: SHA-256 of what the two builds gave.
        normalised: what differed between them and was made equal.
    """

    name: str
    data: bytes
    builds: tuple[str, str]
    normalised: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Further requirements, PEP 508 lines, that a backend has before it builds."""

    requires: tuple[str, ...]


def build(
    archive: Archive,
    system: BuildSystem,
    known: Sequence[str],
    wheels: Sequence[WheelFile],
    room: Room,
    runner: StepRunner,
    scratch: Path,
    progress: Progress,
    variables: Mapping[str, str] = {},
) -> Made | Asked:
    """Build a wheel twice and compare.

    Args:
        known: requirements that ``wheels`` meet.
        wheels: the build requirements with all that they need.
        scratch: folder for temporary files.
        variables: further environment variables.

    Raises:
        BuildError: the backend failed, or made no sound wheel.
        NotReproducibleError: the two wheels differ; the files that do are named.
        EngineError: no engine runs the step.
    """

    def once(place: str) -> tuple[str, bytes] | Asked:
        with temporary_folder("build-", scratch) as folder:
            inputs = folder / "inputs.tar"
            request: dict[str, object] = {
                "archive": f"/{_WORK}/archive/{archive.name}",
                "place": f"/{_WORK}/{place}",
                "subdirectory": archive.subdirectory,
                "backend": system.backend,
                "path": system.path,
                "known": [*known],
                "out": f"/{_WORK}/out",
            }
            _write_inputs(inputs, wheels, room, archive, request)
            step = Step(
                base=room.base,
                base_key=room.base_key,
                inputs=inputs,
                command=(f"{layout.ENV_PREFIX}/bin/python", f"/{_WORK}/backend.py"),
                environment={**variables, **_ENVIRONMENT, **scm.variables(archive.version)},
                result=f"/{_WORK}/out",
            )
            with runner.run_step(step) as stream:
                return _result(stream, archive.name)

    with progress.phase(f"build {archive.name}", 2, unit="builds") as advance:
        one = _named(archive, lambda: once(_PLACES[0]))
        if isinstance(one, Asked):
            return one
        advance(1)
        two = _named(archive, lambda: once(_PLACES[1]))
        advance(1)
    if isinstance(two, Asked):
        raise NotReproducibleError(f"{archive.name}: only the second build asks for {', '.join(two.requires)}")
    return _compared(archive, one, two)


def _named(archive: Archive, once: Callable[[], tuple[str, bytes] | Asked]) -> tuple[str, bytes] | Asked:
    """Build; an error names the archive, and the way out of what its backend printed."""
    try:
        return once()
    except BuildError as error:
        hint = error.hint or way_out(error.message, versioned=bool(archive.version), name=archive.name)
        raise BuildError(f"{archive.name} cannot be built: {error.message}", hint) from None


def way_out(printed: str, *, versioned: bool, name: str = "NAME.tar.gz") -> str:
    """Return what to do about a build that failed, as far as what it printed shows the reason.

    Args:
        versioned: the build was given a version for backends that take theirs from git.
        name: of the archive.
    """
    package = re.split(r"-[0-9]|\.tar|\.zip", name)[0]
    if not versioned and scm.NAMES_GIT.search(printed):
        return (
            "its version comes from git, which a build does not see: write one (version or fallback_version in "
            "pyproject.toml), or require it by its repository and tag: git+https://…@v1.2"
        )
    if _RUST.search(printed):
        return (
            "it is compiled with Rust, whose compiler and packages (crates) its build would download, and a build has "
            f"no network: {_HAS_A_WHEEL}. Where the sources hold their crates: build-packages: [cargo]"
        )
    if found := _MODULE.search(printed):
        return (
            f"its build imports {found['name']} and does not ask for it; write in the spec  build-requirements: "
            f"{{{package}: [{found['name']}]}}  (its package, in the version that modules are compiled for)"
        )
    if _NVCC.search(printed):
        return (
            "it lacks CUDA's compiler; write in the spec  build-requirements: "
            f"{{{package}: [nvidia-cuda-nvcc==13.0.*]}}, with the CUDA of the framework that it is for, and  "
            "build-packages: [g++, python3-dev]"
        )
    if (missing := _missing_tools(printed)) is not None:
        return missing
    if found := _PROGRAM.search(printed):
        tool = _TRIPLET.sub("", found["name"])
        packages = _PACKAGES.get(tool)
        return (
            f"it calls the program {found['name']}, which a build without build-packages lacks; write in the spec  "
            f"build-packages: [{packages or tool}]"
            + (f"  ({'Debian packages that have' if packages else 'the Debian package that has'} it)")
        )
    if _CPP_LIBRARY.search(printed):
        return (
            "programs among its build requirements (ninja, cmake) need the C++ library, which a system without "
            "build-packages lacks: build-packages: [libstdc++6], or with a compiler [g++, python3-dev]"
        )
    if _NO_NETWORK.search(printed):
        return f"its build downloads something, and a build has no network: {_HAS_A_WHEEL}"
    return (
        "if a compiler, a library or Python.h is missing: build-packages: [gcc, python3-dev] in the spec, which "
        "are Debian packages for builds only"
    )


def _missing_tools(printed: str) -> str | None:
    """Return which Debian packages have the compiler or the header that a build lacked; None if it lacked neither."""
    header = found["name"] if (found := _HEADER.search(printed)) else ""
    if header.startswith("Python.h"):
        lacks, packages = "Python's headers (Python.h)", "[gcc, python3-dev], or for C++ [g++, python3-dev]"
    elif _CPP.search(printed) or (header and not {".", "/"} & {*header}):  # only C++'s own headers have such names
        lacks, packages = "a C++ compiler with its library's headers", "[g++, python3-dev]"
    elif _C.search(printed):
        lacks, packages = "a C compiler", "[gcc, python3-dev], or for C++ [g++, python3-dev]"
    elif header:
        lacks, packages = f"the header {header}", f"[…, the package that has {header}, its name mostly ends in -dev]"
    else:
        return None
    return f"it lacks {lacks}; write in the spec  build-packages: {packages}  (Debian packages for builds only)"


def _compared(archive: Archive, one: tuple[str, bytes], two: tuple[str, bytes]) -> Made:
    first, second = (canonical.read(data, name) for name, data in (one, two))
    differing = [] if one[0] == two[0] else [f"{one[0]} and {two[0]}"]
    named = canonical.differences(first, second)
    first, second = (
        canonical.without_folder(wheel, named, f"/{_WORK}/{place}")
        for wheel, place in zip((first, second), _PLACES, strict=True)
    )
    differing += (left := canonical.differences(first, second))
    if differing:
        more = len(differing) - _MOST_SHOWN
        lines = "".join(f"\n  {name}" for name in differing[:_MOST_SHOWN]) + (f"\n  … {more} more" if more > 0 else "")
        raise NotReproducibleError(
            f"{archive.name}: two builds of it differ, in:{lines}",
            "its build writes something of its folder, the time or chance into them; build a wheel elsewhere and name "
            "its folder in the spec: wheels: [wheels]",
        )
    return Made(
        name=one[0],
        data=canonical.canonical(first),
        builds=(sha256_bytes(one[1]), sha256_bytes(two[1])),
        normalised=(
            *canonical.normalised(first, second),
            *(f"folder of the build in {quote(name)}" for name in named if name not in left),
        ),
    )


def _write_inputs(
    output: Path, wheels: Sequence[WheelFile], room: Room, archive: Archive, request: dict[str, object]
) -> None:
    """Write what is unpacked over the system: environment with the build requirements, further layers, the sources."""
    with output.open("w+b") as stream:
        _pack_environment(stream, wheels, room)
        for layer in room.layers:
            _forget_end(stream)
            with layer.open("rb") as content:
                shutil.copyfileobj(content, stream, 1 << 20)
        _forget_end(stream)
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
            _add(tar, "backend.py", Path(__file__).with_name("backend.py").read_bytes())
            _add(tar, "request.json", json.dumps(request).encode())
            _add(tar, f"archive/{archive.name}", archive.path.read_bytes())


def _pack_environment(stream: BinaryIO, wheels: Sequence[WheelFile], room: Room) -> None:
    try:
        pack_wheels(stream, wheels, room.python, executable=room.executable, advance=lambda amount: None)
    except ChangedFilesError as error:
        stream.seek(0)
        stream.truncate()
        _pack_environment(stream, error.wheels, room)


def _forget_end(stream: BinaryIO) -> None:
    """Remove the two empty blocks that end a tar, so that more can follow."""
    stream.seek(-_END, os.SEEK_END)
    stream.truncate()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(f"{_WORK}/{name}")
    member.size, member.mode, member.mtime = len(data), 0o644, layout.EPOCH
    tar.addfile(member, io.BytesIO(data))


def _result(stream: BinaryIO, name: str) -> tuple[str, bytes] | Asked:
    """Return what the step left: a wheel with its name, or what the backend asks for.

    Raises:
        BuildError: it left something else, or more than fits.
    """
    found: dict[str, bytes] = {}
    size = 0
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for number, member in enumerate(tar):
            size += member.size
            if size > canonical.LARGEST or number > _FILES:
                raise BuildError(f"{name}: its backend left more than {canonical.LARGEST} bytes, or {_FILES} files")
            tar.members = []  # type: ignore[attr-defined]  # tarfile keeps all it met
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                found[member.name.rsplit("/", 1)[-1]] = content.read()
    while stream.read(1 << 20):
        pass
    if "requires.json" in found:
        return Asked(requires=_lines(found["requires.json"], name))
    wheels = [file for file in found if file.endswith(".whl")]
    if len(wheels) != 1:
        raise BuildError(f"its backend left {len(wheels)} wheels, expected one")
    return wheels[0], found[wheels[0]]


def _lines(data: bytes, name: str) -> tuple[str, ...]:
    try:
        lines = json.loads(data)
    except ValueError:
        lines = None
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise BuildError(f"{name}: its backend asks for no list of requirements")
    return tuple(lines)
