"""The lock: a valid PEP 751 file whose ``[tool.envbuild]`` tables hold everything that PEP 751 has no field for.

The value types are frozen and keyword-only; hashes and sizes are mandatory. Files are named by name, size and
SHA-256, never by download address. Source of the format: PEP 751,
https://packaging.python.org/en/latest/specifications/pylock-toml/
"""

from collections import deque
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from envbuild.core import types
from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import read_regular
from envbuild.core.patterns import believed
from envbuild.core.toml import parse_toml
from envbuild.core.types import (
    Archive,
    BuildPath,
    Component,
    DebArch,
    DebName,
    DebVersion,
    EnvName,
    Executable,
    Fingerprint,
    GitCommit,
    GitRef,
    GitUrl,
    ImageName,
    Level,
    Line,
    LockName,
    MissingLibrary,
    Network,
    OptionalSha256,
    PackageName,
    PackageSize,
    PackageVersion,
    Platform,
    PoolPath,
    ProjectPath,
    PythonRelease,
    PythonVersion,
    RelativePath,
    Release,
    RepositoryPath,
    Sha256,
    Size,
    Snapshot,
    SourceName,
    SuiteName,
    Value,
    VariantName,
    WheelName,
    Workspace,
)
from envbuild.errors import LockError
from envbuild.lockfile import layout, pylock
from envbuild.lockfile.hardware import Cuda, Hardware

FORMAT = 1
LIMIT = 4 << 20
"""Most bytes of a lock; 2,500 wheels and 8,000 Debian packages need less, and reading takes 2 s at most."""
IN_EVERY_IMAGE = "in every image"
"""How the reason of an added package starts that nothing in the spec asks for."""
_digests: "deque[tuple[Lock, str]]" = deque(maxlen=8)
Blake3 = Sha256
"""Of the same length and form."""

_HEADER = "# Written by `envbuild lock`; do not edit. Any PEP 751 installer can use the Python part.\n"
_AGAIN = "restore the file as it was written, e.g. with git checkout; or resolve all anew: envbuild lock --upgrade"
_NEWER = "use the envbuild that wrote it, or resolve all anew: envbuild lock --upgrade"


class OsPackage(Value, frozen=True, kw_only=True):
    """One Debian package file.

    Attributes:
        archive: which archive of the mirror holds it, such as ``debian`` or ``debian-security``; or a further archive.
        path: path of the file below that archive's root, as its Packages index names it.
    """

    name: DebName
    version: DebVersion
    architecture: DebArch
    archive: Archive
    path: PoolPath
    size: PackageSize
    sha256: Sha256

    @property
    def file(self) -> str:
        """The file's base name."""
        return self.path.rsplit("/", 1)[-1]


class Suite(Value, frozen=True, kw_only=True):
    """One Debian suite that the packages were resolved from: the digest is that of its InRelease file."""

    archive: Archive
    name: SuiteName
    date: Line
    sha256: Sha256


class FurtherArchive(Value, frozen=True, kw_only=True):
    """An archive that is not the distribution's: where packages were looked for in it, and who may sign it.

    Attributes:
        suite: its suite; a path that ends in a slash for an archive without suites.
        replaces: packages that are taken from it although the distribution has them.
        keys: fingerprints of the certificates that are trusted for it, for it alone.
        key_sha256: SHA-256 of the file that has them.
    """

    name: Archive
    suite: SuiteName
    components: tuple[Component, ...] = ()
    replaces: tuple[DebName, ...] = ()
    keys: tuple[Fingerprint, ...]
    key_sha256: Sha256


class Os(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The operating system: Debian packages, or a base image by digest.

    Attributes:
        archives: further archives that packages were looked for in.
        image_rootfs: SHA-256 of the base image's normalised file system, an uncompressed tar.
        image_size: its size in bytes.
    """

    release: Release
    architecture: DebArch
    snapshot: Snapshot = ""
    image: ImageName = ""
    image_rootfs: OptionalSha256 = ""
    image_size: Size = 0
    suites: tuple[Suite, ...] = ()
    archives: tuple[FurtherArchive, ...] = ()
    packages: tuple[OsPackage, ...] = ()


class Wheel(Value, frozen=True, kw_only=True):
    """One wheel file, by name, size in bytes and SHA-256."""

    name: WheelName
    size: PackageSize
    sha256: Sha256


class PythonPackage(Value, frozen=True, kw_only=True):
    """One installed distribution; ``name`` is normalised as PEP 503 specifies."""

    name: PackageName
    version: PackageVersion
    wheel: Wheel


class SourceArchive(Value, frozen=True, kw_only=True):
    """One archive of sources, by name, size in bytes and SHA-256."""

    name: SourceName
    size: PackageSize
    sha256: Sha256


class Origin(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A project that a wheel was built of: a folder, or a commit of a git repository.

    Attributes:
        path: the folder, relative to the lock; empty for git.
        editable: the wheel only leads to the folder, as ``envbuild run`` mounts it.
        git: the repository's address.
        ref: what the spec asks for: commit, tag, branch; empty: the default branch.
        commit: what that was when it was locked.
        subdirectory: the project's folder in the repository.
    """

    path: ProjectPath = ""
    editable: bool = False
    git: GitUrl = ""
    ref: GitRef = ""
    commit: GitCommit = ""
    subdirectory: RepositoryPath = ""


class Source(Value, frozen=True, kw_only=True):
    """Where a wheel comes from that ``envbuild lock`` built.

    Attributes:
        name: of the package that has the wheel.
        archive: what it was built from; of a project, its files as envbuild packs them.
        origin: of a project that no index has; None: the archive is an index's.
        requires: what its build system and its backend ask for, and the spec for them, PEP 508 lines.
        added: those that the spec has for it (``build-requirements``).
        env: environment variables that the spec has for builds (``build-env``).
        packages: the wheels that it was built with.
        builds: SHA-256 of the wheels that the two builds gave, before they were brought into canonical form.
        normalised: what differed between the two and was made equal.
        recipe: SHA-256 of all that decides the wheel: archive, wheels, interpreter, compilers, envbuild's own step.
    """

    name: PackageName
    archive: SourceArchive
    requires: tuple[Line, ...]
    packages: tuple[PythonPackage, ...]
    builds: tuple[Sha256, Sha256]
    normalised: tuple[Line, ...] = ()
    recipe: Sha256
    origin: Origin | None = None
    added: tuple[Line, ...] = ()
    env: dict[EnvName, Line] = msgspec.field(default_factory=dict)


class PythonBuild(Value, frozen=True, kw_only=True):
    """A standalone build of CPython, of the python-build-standalone project: one relocatable archive.

    Attributes:
        version: release of CPython, such as ``3.12.7``.
        path: path of the archive below a mirror's root: release of the project, then file name.
        size: bytes of the archive.
    """

    version: PythonRelease
    path: BuildPath
    size: PackageSize
    sha256: Sha256

    @property
    def file(self) -> str:
        """The archive's base name."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def release(self) -> str:
        """The release of the project that made it, a date such as ``20261110``."""
        return self.path.split("/", 1)[0]


class Python(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The interpreter the wheels were chosen for.

    Attributes:
        version: feature release, such as ``3.11``.
        executable: path of the interpreter in the image.
        platform: newest platform tag it accepts, such as ``manylinux_2_36_x86_64``.
        build: where the interpreter comes from; None: from the operating system.
    """

    version: PythonVersion
    executable: Executable
    platform: Platform
    build: PythonBuild | None = None

    @property
    def release(self) -> str:
        """The release as far as the lock names it: ``3.12.7`` of a standalone build, else ``3.11``."""
        return self.build.version if self.build else self.version


class Determinism(Value, frozen=True, kw_only=True):
    """What is pinned so that results repeat.

    Attributes:
        level: how much: ``seeds``; ``ops``: deterministic operations too; ``portable``: also the CPU's instructions.
        seed: root seed.
        threads: number of threads of numerical libraries.
        strict: refuse to start when a switch cannot be set and read back; else warn.
    """

    level: Level
    seed: Annotated[int, Meta(ge=0, lt=2**32)]
    threads: Annotated[int, Meta(ge=1, le=1024)]
    strict: bool = True


class Input(Value, frozen=True, kw_only=True):
    """A declared data path, relative to the lock, with the BLAKE3 of its manifest, number of files and bytes."""

    path: RelativePath
    blake3: Blake3
    files: Size
    bytes: Size


class RunOptions(Value, frozen=True, kw_only=True):
    """Defaults of ``envbuild run``."""

    network: Network = "none"
    workspace: Workspace = "rw"


class Lock(Value, frozen=True, kw_only=True):
    """Everything that decides an image and its runs.

    Attributes:
        name: file name part: the lock is ``pylock.<name>.toml``.
        layout: layout version of the image (``envbuild.layout``).
        resolution: SHA-256 of each input of the resolution by its name (``spec``, requirement files, ``options``).
        frameworks: version of each framework the tables know, by normalised name.
        cuda: NVIDIA's libraries among the wheels; None for none.
        environment: variables exported in the image, all of them strings.
        added: packages that envbuild added by itself, each with its reason.
        missing_libraries: shared libraries that may be missing, as the spec states them.
        exclude_newer: time of upload from which on files of indexes were left out, as the spec states it.
        sources: of which packages the wheel was built here, and how.
        build_packages: Debian packages of the system that they were built in, if it is not the image's.
        emulators: Debian packages with the program that runs build steps on a machine of another architecture than the
            image's; the package's architecture is that machine's. No part of the image.
        variant: which variant of its spec it is; the lock's name is then the spec's, a hyphen, the variant's.
        platform: which of its spec's platforms it is for, if the spec names several: that of ``os``. The lock's name
            then ends in a hyphen and the platform.
    """

    name: LockName
    layout: Annotated[int, Meta(ge=1)] = layout.VERSION
    resolution: dict[Line, Sha256]
    os: Os
    python: Python
    packages: tuple[PythonPackage, ...]
    frameworks: dict[PackageName, PackageVersion]
    cuda: Cuda | None = None
    hardware: Hardware
    determinism: Determinism
    environment: dict[EnvName, Line]
    added: dict[Line, Line] = msgspec.field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    run: RunOptions = RunOptions()
    missing_libraries: tuple[MissingLibrary, ...] = ()
    exclude_newer: Snapshot = ""
    sources: tuple[Source, ...] = ()
    build_packages: tuple[OsPackage, ...] = ()
    emulators: tuple[OsPackage, ...] = ()
    variant: VariantName = ""
    platform: VariantName = ""

    @property
    def base_name(self) -> str:
        """The name of the spec it was made from."""
        name = self.name.removesuffix(f"-{self.platform}") if self.platform else self.name
        return name.removesuffix(f"-{self.variant}") if self.variant else name

    @property
    def file_name(self) -> str:
        """The lock's file name, as PEP 751 wants it."""
        return f"pylock.{self.name}.toml"


class _Encoded(msgspec.Struct, frozen=True, kw_only=True):
    digest: Sha256
    lock: Lock


def dumps(lock: Lock) -> bytes:
    """Render a lock; equal locks give equal bytes.

    ``tool.envbuild.digest`` is ``lock_digest(lock)``: the SHA-256 of these bytes without that line.

    Raises:
        LockError: a value that ``loads`` would refuse; nothing unsafe is ever written.
    """
    start = f"[tool.envbuild]\nversion = {FORMAT}\n"  # no value holds a newline, so this is the only one
    head, tail = _content(lock).split(start)
    return f'{head}{start}digest = "{lock_digest(lock)}"\n{tail}'.encode()


def _content(lock: Lock) -> str:
    """Render a lock without its digest; raises ``LockError`` as ``dumps`` does."""
    table = msgspec.to_builtins(lock, order="deterministic")
    table |= {"os": types.without_defaults(lock.os), "hardware": types.without_defaults(lock.hardware)}
    for name in (
        "missing-libraries",
        "exclude-newer",
        "sources",
        "build-packages",
        "emulators",
        "variant",
        "platform",
    ):  # locks made before these keys existed keep their bytes
        if not table[name]:
            del table[name]
    for entry in table.get("sources", ()):
        if entry["origin"] is None:
            del entry["origin"]
    if lock.cuda is None:
        del table["cuda"]
    else:
        table["cuda"] = types.without_defaults(lock.cuda)
    _convert(table, lock.file_name, "correct the spec and lock again: envbuild lock spec.yaml")
    import tomli_w

    return _HEADER + tomli_w.dumps(pylock.document(table, FORMAT))


def loads(data: bytes, source: str = "lock") -> Lock:
    """Parse and check a lock.

    Raises:
        LockError: not TOML, not a lock of this format, a missing hash, an unknown key, an unsafe value, a Python part
            that states something else than the rest, or content that ``dumps`` did not write.
    """
    if len(data) > LIMIT:
        raise LockError(f"{source}: {len(data)} bytes; a lock has no more than {LIMIT}", _AGAIN)
    try:
        document = parse_toml(data.decode("utf-8"))
    except ValueError as error:
        raise LockError(f"{source} is not a TOML file: {error}", _AGAIN) from None
    tool = document.get("tool")
    table = tool.get("envbuild") if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        raise LockError(f"{source}: tool.envbuild: missing; not a lock of envbuild", _AGAIN)
    table = dict(table)
    version = table.pop("version", None)
    if version != FORMAT:
        raise LockError(f"{source}: tool.envbuild.version: expected {FORMAT}, found {version!r}", _NEWER)
    if "layout" not in table:  # the default is for new locks only
        raise LockError(f"{source}: tool.envbuild.layout: missing", _AGAIN)
    if "packages" in table:
        raise LockError(f"{source}: tool.envbuild.packages: unknown key", _AGAIN)
    written = table.pop("digest", None)
    try:
        entries = pylock.as_list(document.get("packages"), "packages")
        table["packages"] = [pylock.package(entry, f"packages[{i}]") for i, entry in enumerate(entries)]
    except ValueError as error:
        raise LockError(f"{source}: {error}", _AGAIN) from None
    lock = _convert(table, source)
    rendered = pylock.document(msgspec.to_builtins(lock, order="deterministic"), FORMAT)
    if difference := pylock.difference({**document, "tool": {}}, {**rendered, "tool": {}}):
        raise LockError(f"{source}: {difference}", _AGAIN)
    if written != (digest := lock_digest(lock)):
        raise LockError(
            f"{source}: tool.envbuild.digest: the file was edited after envbuild lock wrote it\n"
            f"  digest in the file     {written or 'none'}\n  digest of its content  {digest}",
            _AGAIN,
        )
    return lock


def load(path: Path) -> Lock:
    """Read a lock file; raises ``LockError`` as ``loads`` does, also when it cannot be read."""
    return loads(read(path), path.name)


def read(path: Path) -> bytes:
    """Return the bytes of a lock file; raises ``LockError`` when it cannot be read."""
    try:
        return read_regular(path, LIMIT)
    except OSError as error:
        absent = isinstance(error, FileNotFoundError)
        way = "write it: envbuild lock spec.yaml" if absent else "check what it is and who may read it"
        raise LockError(f"cannot read the lock {path}: {error.strerror}", way) from None


def encoded(lock: Lock) -> bytes:
    """Encode a lock with its digest for ``decoded``, which reads it in a tenth of the time that ``loads`` takes."""
    return msgspec.json.encode(_Encoded(digest=lock_digest(lock), lock=lock))


def decoded(data: bytes) -> Lock:
    """Return a lock that ``encoded`` wrote; only for bytes that are known to be its own.

    Raises:
        msgspec.MsgspecError: they are not.
    """
    with believed():  # it was compared with its patterns when it was encoded; to compile them takes 1 ms
        found = msgspec.json.decode(data, type=_Encoded)
    _digests.append((found.lock, found.digest))
    return found.lock


def lock_digest(lock: Lock) -> str:
    """Return the SHA-256 of the lock's canonical bytes but for the digest in them; kept, since it takes 20 ms."""
    for known, digest in _digests:
        if known is lock:
            return digest
    digest = sha256_bytes(_content(lock).encode())
    _digests.append((lock, digest))
    return digest


def _convert(table: dict[str, Any], source: str, way: str = _AGAIN) -> Lock:
    """Check a table in the shape of ``Lock``, field by field and as a whole."""
    try:
        lock = msgspec.convert(table, Lock)
        pylock.check_unique(table)
    except msgspec.ValidationError as error:
        raise LockError(f"{source}: {types.explain(error, table)}", way) from None
    except ValueError as error:
        raise LockError(f"{source}: {error}", way) from None
    return lock


types.prepare_types(_Encoded)
