"""The Dockerfile and its context: the same image, made by any engine of the last years, without envbuild and offline.

Source of the syntax: https://docs.docker.com/reference/dockerfile/; only what the classic builder of Docker 20.10
knows. Rendering is a pure function of the lock; the context's seed and install plan are made from the store's
packages by the same code as the assembled image.
"""

from __future__ import annotations

import io
import json
import os as system
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild.core.digest import sha256_file
from envbuild.core.fs import clone, temporary_folder
from envbuild.core.package_data import template_dir
from envbuild.core.progress import Progress, Silent
from envbuild.errors import BuildError, IntegrityError, LockError, UsageError
from envbuild.image.bytecode import compile as compiler
from envbuild.image.cpython.archive import pack_python, python_modules
from envbuild.image.os import seed
from envbuild.image.plan.layer_order import skipped
from envbuild.image.plan.model import labels as image_labels
from envbuild.image.plan.model import plan as image_plan
from envbuild.image.python import wheel
from envbuild.image.python.environment import Made, pack_tree
from envbuild.image.runtime import files as runtime
from envbuild.lockfile import layout
from envbuild.lockfile.model import Lock, PythonBuild, lock_digest

_TEMPLATE = "Dockerfile.j2"
_TOOLS = (Path(wheel.__file__), Path(compiler.__file__))


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A file of the context that is in the store: its SHA-256 and size in bytes."""

    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Everything ``docker build`` needs.

    Attributes:
        lock: what it was rendered from.
        dockerfile: the Dockerfile.
        files: the other files by relative path, but ``seed.tar`` and ``os/plan``, which are made from the packages,
            and ``python.tar`` and ``python-modules.tar``, which are made from a standalone Python's archive.
    """

    lock: Lock
    dockerfile: bytes
    files: Mapping[str, bytes | Stored]


def render(lock: Lock) -> Context:
    """Render the Dockerfile and name its context; reads nothing but envbuild's own files.

    Raises:
        LockError: a value of the lock does not fit in a Dockerfile.
        BuildError: as ``plan`` does.
    """
    files: dict[str, bytes | Stored] = {}
    wheels = {wheel.name: Stored(sha256=wheel.sha256, size=wheel.size) for wheel in image_plan(lock).wheels}
    files |= {f"wheels/{name}": stored for name, stored in wheels.items()}
    files |= {f"tools/{path.name}": path.read_bytes() for path in _TOOLS}
    files["tools/SHA256SUMS"] = _sums(wheels)
    if lock.os.image:
        files["base.tar"] = Stored(sha256=lock.os.image_rootfs, size=lock.os.image_size)
    if lock.os.packages:
        debs = {package.file: Stored(sha256=package.sha256, size=package.size) for package in lock.os.packages}
        files |= {f"os/debs/{name}": stored for name, stored in debs.items()}
        files["os/SHA256SUMS"] = _sums(debs)
        files["os/install.sh"] = seed.install_script()
    files["modules.tar"] = _tar({path: Made(data=data) for path, data in runtime.runtime_sources().items()})
    made = {path: Made(data=file.data, mode=file.mode) for path, file in runtime.runtime_files(lock).items()}
    files["runtime.tar"] = _tar(made, layout.WORKSPACE)
    return Context(lock=lock, dockerfile=_dockerfile(lock, tuple(wheels)), files=dict(sorted(files.items())))


def write_context(
    context: Context, store_path: Callable[[str], Path], directory: Path, progress: Progress | None = None
) -> None:
    """Write the Dockerfile and its context; the directory is whole or as it was.

    Args:
        context: what ``render`` returned.
        store_path: path of a file by its SHA-256; all of the lock's files must be in the store.
        directory: must be absent, empty, or an earlier context, which is replaced.
        progress: receives the packages that are read.

    Raises:
        UsageError: the directory holds something else.
        IntegrityError: a file is missing from the store or altered.
        BuildError: a package is unsound, or the folder cannot be written.
    """
    _check_replaceable(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(f".{directory.name}.", directory.parent) as folder:
            root = folder / "context"
            _fill(context, store_path, root, progress or Silent())
            if directory.exists():
                shutil.rmtree(directory)
            root.rename(directory)
    except OSError as error:
        raise BuildError(f"cannot write {directory}: {error.strerror}", "choose another folder") from error


def _fill(context: Context, store_path: Callable[[str], Path], root: Path, progress: Progress) -> None:
    _write(root / "Dockerfile", context.dockerfile)
    for path, content in context.files.items():
        if isinstance(content, Stored):
            _copy(store_path(content.sha256), content.sha256, root / path)
        else:
            _write(root / path, content)
    _folder(root / "wheels")
    if build := context.lock.python.build:
        _write_python(build, store_path(build.sha256), root)
    if context.lock.os.packages:
        _write_os(context.lock, store_path, root, progress)


def _write_python(build: PythonBuild, archive: Path, root: Path) -> None:
    """Write the layer of a standalone Python, and its modules once more, to be compiled."""
    with (root / "python.tar").open("wb") as stream:
        pack_python(stream, build, archive)
    modules = {path: Made(data=data) for path, data in python_modules(build, archive).items()}
    with (root / "python-modules.tar").open("wb") as stream:
        pack_tree(stream, modules, label="the modules of Python")
    for name in ("python.tar", "python-modules.tar"):
        (root / name).chmod(0o644)


def _write_os(lock: Lock, store_path: Callable[[str], Path], root: Path, progress: Progress) -> None:
    sources = seed.open_packages(lock.os, store_path)
    _write(root / "os" / "plan", seed.install_plan(sources))
    with progress.phase("os: unpack", len(sources), unit="packages") as advance:
        seed.write_seed(lock.os, sources, root / "seed.tar", advance)


def _dockerfile(lock: Lock, wheels: tuple[str, ...]) -> bytes:
    """Fill the template; every value is checked here and quoted there."""
    import jinja2

    config = image_plan(lock).config
    labels = image_labels(lock)
    environment = sorted(entry.split("=", 1) for entry in config["Env"])
    _check(lock, labels, dict(environment))
    loader = jinja2.FileSystemLoader(template_dir())
    engine = jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - not HTML: every value goes through ``quote`` or ``json``, or was matched
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters |= {"json": _json, "quote": _quote}
    text = engine.get_template(_TEMPLATE).render(
        lock=lock,
        identity=lock_digest(lock),
        facts=_facts(lock, labels),
        work=seed.WORK,
        prefix=layout.ENV_PREFIX,
        python=lock.python.executable,
        wheels=wheels,
        skipped=skipped(lock.layout),
        labels=list(labels.items()),
        environment=environment,
        config=config,
    )
    return text.encode()


def _facts(lock: Lock, labels: Mapping[str, str]) -> list[tuple[str, str]]:
    """What a reader wants to know first: name and value."""
    return [
        ("OS", labels["envbuild.os"]),
        ("kernel", labels["envbuild.kernel"]),
        ("CPU", labels["envbuild.cpu"]),
        ("CUDA", labels["envbuild.cuda"]),
        ("Python", labels["envbuild.python"]),
        *sorted(lock.frameworks.items()),
    ]


def _check(lock: Lock, labels: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Refuse what could end a line. ``lock_digest`` has refused every value that a lock must not hold."""
    values = {
        **{f"label {name}": f"{name}{value}" for name, value in labels.items()},
        **{f"environment.{name}": value for name, value in environment.items()},
        **{f"frameworks.{name}": f"{name}{value}" for name, value in lock.frameworks.items()},
    }
    for field, value in values.items():
        if not value.isprintable():
            raise LockError(
                f"{lock.file_name}: {field}: {value!r} does not fit in a Dockerfile: expected printable characters",
                "change the value in the spec and lock again: envbuild lock spec.yaml",
            )


def _quote(value: str) -> str:
    """Quote one word so that the Dockerfile parser takes it literally: no variable, no escape, no end of line."""
    if not value.isprintable():
        raise ValueError(f"cannot be quoted: {value!r}")
    return '"' + re.sub(r'([\\"$])', r"\\\1", value) + '"'


def _json(value: Any) -> str:
    """Write the exec form of a command, or one word of it."""
    return json.dumps(list(value) if isinstance(value, (list, tuple)) else value)


def _sums(files: Mapping[str, Stored]) -> bytes:
    """Return what ``sha256sum --check`` reads."""
    return "".join(f"{stored.sha256}  {name}\n" for name, stored in sorted(files.items())).encode()


def _tar(files: Mapping[str, Made], *folders: str) -> bytes:
    stream = io.BytesIO()
    relative = {path.lstrip("/"): file for path, file in files.items()}
    pack_tree(stream, relative, [folder.lstrip("/") for folder in folders], "the context")
    return stream.getvalue()


def _check_replaceable(directory: Path) -> None:
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise UsageError(f"{directory} is no folder", "name a folder that does not exist yet")
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    try:
        ours = (directory / "Dockerfile").read_bytes().startswith(b"# Written by envbuild from ")
    except OSError:
        ours = False
    # Next to a lock there is such a Dockerfile too, and the user's own files with it.
    found = {
        str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_symlink() or not path.is_dir()
    }
    if not ours or found - _own_files(directory):
        raise UsageError(f"{directory} holds files that are no context of envbuild", "name a new or empty folder")


def _own_files(directory: Path) -> set[str]:
    """Return what an earlier context consists of, by its own lists of wheels and packages: nothing else may go."""
    own = {"Dockerfile", "base.tar", "modules.tar", "runtime.tar", "seed.tar", "os/plan", "os/install.sh"}
    own |= {"python.tar", "python-modules.tar"}
    own |= {f"tools/{path.name}" for path in _TOOLS}
    for listing, folder in (("tools/SHA256SUMS", "wheels"), ("os/SHA256SUMS", "os/debs")):
        with suppress(OSError, UnicodeDecodeError):
            names = [line.partition("  ")[2] for line in (directory / listing).read_text().splitlines()]
            own |= {listing, *(f"{folder}/{name.rpartition('/')[2]}" for name in names)}
    return own


def _folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o755)


def _write(path: Path, data: bytes) -> None:
    _folder(path.parent)
    path.write_bytes(data)
    path.chmod(0o644)


def _copy(source: Path, sha256: str, target: Path) -> None:
    """Copy a file out of the store and check the copy."""
    _folder(target.parent)
    try:
        with source.open("rb") as stream, target.open("wb") as output:
            if not clone(stream, output):
                shutil.copyfileobj(stream, output, 1 << 20)
    except FileNotFoundError:
        raise IntegrityError(f"{target.name} is not in the store (sha256 {sha256})", "envbuild fetch") from None
    system.utime(target, (layout.EPOCH, layout.EPOCH))
    target.chmod(0o644)
    if sha256_file(target) != sha256:
        raise IntegrityError(
            f"{target.name} in the store was altered: expected sha256 {sha256}",
            f"delete {source} and fetch it again: envbuild fetch",
        )
