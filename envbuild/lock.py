"""The lock: a valid PEP 751 file whose ``[tool.envbuild]`` tables hold everything PEP 751 has no word for.

The value types are frozen and keyword-only; hashes and sizes are mandatory. Files are named by name, size and
SHA-256, never by download address. Source of the format: PEP 751,
https://packaging.python.org/en/latest/specifications/pylock-toml/
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import tomli_w
from msgspec import Meta

from envbuild import layout
from envbuild.digest import sha256_bytes
from envbuild.errors import LockError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - exercised by the 3.10 job
    import tomli as tomllib

Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Size = Annotated[int, Meta(ge=0)]
# No slash, no backslash, no leading dot or dash: safe as one path component, in a tar header and in a shell word.
FileName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+!~%=-]*\Z", max_length=255)]
WheelName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+!-]*\.whl\Z", max_length=255)]
DebName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9+.-]+\Z")]
DebVersion = Annotated[str, Meta(pattern=r"^[0-9][A-Za-z0-9.+~:-]*\Z")]
DebArch = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]+\Z")]
PoolPath = Annotated[str, Meta(pattern=r"^(?!/)(?!.*(?:^|/)\.\.?(?:/|\Z))[A-Za-z0-9_.+~%:/=-]+\.deb\Z")]
EnvName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
LockName = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?\Z")]

FORMAT = 1


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Base of all lock tables: frozen, keyword-only, unknown keys refused, kebab-case in the file."""


class OsPackage(Value, frozen=True, kw_only=True):
    """One Debian package file.

    Attributes:
        archive: which archive of the mirror holds it: ``debian`` or ``debian-security``.
        path: path of the file below that archive's root, as its Packages index names it.
    """

    name: DebName
    version: DebVersion
    architecture: DebArch
    archive: str
    path: PoolPath
    size: Size
    sha256: Sha256

    @property
    def file(self) -> str:
        """The file's base name."""
        return self.path.rsplit("/", 1)[-1]


class Suite(Value, frozen=True, kw_only=True):
    """One Debian suite that the packages were resolved from: the digest is that of its InRelease file."""

    archive: str
    name: str
    date: str
    sha256: Sha256


class Os(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The operating system: Debian packages, or a base image by digest with the digest of its file system."""

    release: str
    architecture: DebArch
    snapshot: str = ""
    image: str = ""
    image_rootfs: str = ""
    suites: tuple[Suite, ...] = ()
    packages: tuple[OsPackage, ...] = ()


class Wheel(Value, frozen=True, kw_only=True):
    """One wheel file, by name, size in bytes and SHA-256."""

    name: WheelName
    size: Size
    sha256: Sha256


class PythonPackage(Value, frozen=True, kw_only=True):
    """One installed distribution; ``name`` is normalised as PEP 503 says."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*\Z")]
    version: Annotated[str, Meta(pattern=r"^[A-Za-z0-9.!+-]+\Z")]
    wheel: Wheel


class Python(Value, frozen=True, kw_only=True):
    """The interpreter the wheels were chosen for.

    Attributes:
        version: feature release, such as ``3.11``.
        executable: path of the interpreter in the image.
        platform: newest platform tag it accepts, such as ``manylinux_2_36_x86_64``.
    """

    version: Annotated[str, Meta(pattern=r"^3\.[0-9]{1,2}\Z")]
    executable: Annotated[str, Meta(pattern=r"^/[A-Za-z0-9/._-]+\Z")]
    platform: Annotated[str, Meta(pattern=r"^[a-z0-9_]+\Z")]


class Hardware(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a host must be.

    Attributes:
        kernel: version range in PEP 440 operators, such as ``>=5.10,<7``; empty for any.
        cpu: x86-64 psABI level such as ``x86-64-v3``, or ``any``.
        gpu: the spec's GPU section, kept as it is; empty for none.
    """

    kernel: str = ""
    cpu: str = "any"
    gpu: dict[str, Any] = {}


class Determinism(Value, frozen=True, kw_only=True):
    """What is pinned so that results repeat.

    Attributes:
        level: how much: ``seeds``, or ``ops`` for deterministic operations too.
        seed: root seed.
        threads: number of threads of numerical libraries.
        strict: refuse to start when a switch cannot be set and read back; else warn.
    """

    level: str
    seed: Annotated[int, Meta(ge=0, lt=2**32)]
    threads: Annotated[int, Meta(ge=1, le=1024)]
    strict: bool = True


class Input(Value, frozen=True, kw_only=True):
    """A declared data path, relative to the lock, with the digest of its tree, number of files and bytes."""

    path: str
    sha256: Sha256
    files: Size
    bytes: Size


class RunOptions(Value, frozen=True, kw_only=True):
    """Defaults of ``envbuild run``."""

    network: str = "none"
    workspace: str = "rw"


class Lock(Value, frozen=True, kw_only=True):
    """Everything that decides an image and its runs.

    Attributes:
        name: file name part: the lock is ``pylock.<name>.toml``.
        resolution: SHA-256 of each input of the resolution by its name (``spec``, requirement files, ``options``).
        frameworks: version of each framework the tables know, by normalised name.
        environment: variables exported in the image, all of them strings.
        added: packages that envbuild added by itself, each with its reason.
    """

    name: LockName
    layout: int = layout.VERSION
    resolution: dict[str, Sha256]
    os: Os
    python: Python
    packages: tuple[PythonPackage, ...]
    frameworks: dict[str, str]
    cuda: str = "none"
    hardware: Hardware
    determinism: Determinism
    environment: dict[EnvName, str]
    added: dict[str, str] = {}
    inputs: tuple[Input, ...] = ()
    run: RunOptions = RunOptions()

    @property
    def file_name(self) -> str:
        """The lock's file name, as PEP 751 wants it."""
        return f"pylock.{self.name}.toml"


def dumps(lock: Lock) -> bytes:
    """Render a lock; equal locks give equal bytes."""
    table = msgspec.to_builtins(lock, order="deterministic")
    packages = [
        {
            "name": package["name"],
            "version": package["version"],
            "wheels": [
                {
                    "name": package["wheel"]["name"],
                    "path": f"wheels/{package['wheel']['name']}",
                    "size": package["wheel"]["size"],
                    "hashes": {"sha256": package["wheel"]["sha256"]},
                }
            ],
        }
        for package in table.pop("packages")
    ]
    machine = lock.python.platform.rsplit("_", 2)[-1] if lock.python.platform.endswith("aarch64") else "x86_64"
    marker = f"sys_platform == 'linux' and platform_machine == '{machine}'"
    document = {
        "lock-version": "1.0",
        "environments": [f"python_version == '{lock.python.version}' and {marker}"],
        "requires-python": f"=={lock.python.version}.*",
        "created-by": "envbuild",
        "packages": packages,
        "tool": {"envbuild": {"version": FORMAT, **table}},
    }
    header = "# Written by `envbuild lock`; do not edit. Any PEP 751 installer can use the Python part.\n"
    return (header + tomli_w.dumps(document)).encode()


def loads(data: bytes, source: str = "lock") -> Lock:
    """Parse and check a lock.

    Raises:
        LockError: not TOML, not a lock of this format, a missing hash, an unknown key or an unsafe value.
    """
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise LockError(f"{source} is not a TOML file: {error}", "lock again: envbuild lock spec.yaml") from None
    table = dict(document.get("tool", {}).get("envbuild", {}))
    version = table.pop("version", None)
    if version != FORMAT:
        raise LockError(
            f"{source}: tool.envbuild.version: expected {FORMAT}, found {version!r}",
            "lock again: envbuild lock spec.yaml",
        )
    try:
        table["packages"] = [_package(entry) for entry in document.get("packages", [])]
        return msgspec.convert(table, Lock)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise LockError(f"{source}: {error}", "lock again: envbuild lock spec.yaml") from None


def load(path: Path) -> Lock:
    """Read a lock file; raises ``LockError`` as ``loads`` does, also when it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LockError(f"cannot read the lock {path}: {error.strerror}", "write it: envbuild lock spec.yaml") from None
    return loads(data, path.name)


def lock_digest(lock: Lock) -> str:
    """Return the SHA-256 of the lock's canonical bytes."""
    return sha256_bytes(dumps(lock))


def _package(entry: dict[str, Any]) -> dict[str, Any]:
    """Turn one PEP 751 package table into the shape of ``PythonPackage``."""
    wheels = entry.get("wheels", [])
    if len(wheels) != 1:
        raise ValueError(f"packages: {entry.get('name')}: expected exactly one wheel, found {len(wheels)}")
    wheel = wheels[0]
    if set(wheel.get("hashes", {})) != {"sha256"}:
        raise ValueError(f"packages: {entry.get('name')}: wheels[0].hashes: expected exactly a sha256")
    if wheel.get("path") != f"wheels/{wheel.get('name')}":
        raise ValueError(f"packages: {entry.get('name')}: wheels[0].path: expected 'wheels/' and the wheel's name")
    return {
        "name": entry["name"],
        "version": entry["version"],
        "wheel": {"name": wheel["name"], "size": wheel["size"], "sha256": wheel["hashes"]["sha256"]},
    }
