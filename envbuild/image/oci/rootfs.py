"""An image's file system for programs that know no images: a folder, or one SquashFS file.

What an image says of how programs start (entry point, variables, folder) has no place in a file system. It is
written where enroot and Apptainer look for it: ``/etc/rc`` and ``/etc/environment``, ``/.singularity.d``.

SquashFS is written by ``sqfstar`` (squashfs-tools 4.5 or newer), which takes a tar and keeps its owners: no root is
needed; its files are byte for byte the same for the same image and version.
Sources: enroot, doc/image-format.md; Apptainer, "Container Metadata" of its user guide; sqfstar(1).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from envbuild.core.foreign_json import parse_json
from envbuild.errors import BuildError
from envbuild.image.oci.flatten import flattened
from envbuild.image.oci.layout import Image, not_written
from envbuild.lockfile.layout import EPOCH

_INSTALL = "install squashfs-tools 4.5 or newer: sudo apt-get install squashfs-tools"


def write_squashfs(image: Image, path: Path) -> None:
    """Write the image's file system as one SquashFS file, which appears whole or not at all.

    Raises:
        BuildError: ``sqfstar`` is missing or fails.
        BuildError, UsageError: as for ``not_written``.
    """
    program = shutil.which("sqfstar")
    if program is None:
        raise BuildError("writing SquashFS needs the program sqfstar, which is not installed", _INSTALL)
    path = path.absolute()
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    # Folders that sqfstar makes up in between would have today's time; in a layer all have this one.
    options = [
        "-quiet",
        "-no-progress",
        "-reproducible",
        "-mkfs-time",
        "0",
        "-all-time",
        str(EPOCH),
        "-root-mode",
        "755",
    ]
    # Written and read at the speed of disks; sqfstar 4.5 takes no levels, and its own for zstd and gzip are slow ones.
    command = [program, *options, "-comp", "lz4", "-exit-on-error", str(fresh)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ}
        environment.pop("SOURCE_DATE_EPOCH", None)  # it may not come together with a time on the command line
        with (
            flattened([blob.path for blob in image.layers], _settings(image)) as stream,
            tempfile.TemporaryFile() as errors,
        ):
            done = subprocess.run(command, stdin=stream, stdout=errors, stderr=errors, env=environment, check=False)
            errors.seek(0)
            text = errors.read().decode(errors="replace").strip()
        if done.returncode != 0:
            raise BuildError(f"sqfstar failed: {text.splitlines()[-1] if text else done.returncode}", _INSTALL)
        fresh.replace(path)
    except OSError as error:
        raise not_written(path, error) from error
    finally:
        fresh.unlink(missing_ok=True)


def write_folder(image: Image, folder: Path) -> None:
    """Write the image's file system into a folder, which appears whole or not at all; as root with its owners.

    Raises:
        BuildError: the folder exists already and is not empty.
        BuildError, UsageError: as for ``not_written``.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BuildError(f"{folder} exists already", "remove it, or name another folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
            fresh = Path(scratch) / "root"
            fresh.mkdir(mode=0o755)
            with (
                flattened([blob.path for blob in image.layers], _settings(image)) as stream,
                tarfile.open(fileobj=stream, mode="r|") as tar,
            ):
                tar.extractall(fresh, numeric_owner=True, filter=_as_it_is)  # noqa: S202 - of our own image
            fresh.replace(folder)
    except OSError as error:
        raise not_written(folder, error) from error
    except tarfile.TarError as error:
        raise BuildError(f"cannot write {folder}: {error}", "choose another place") from error


def _as_it_is(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    """Take members of the image that was just made as they are."""
    return member


def _settings(image: Image) -> dict[str, tuple[bytes, int]]:
    """Return the files that tell other programs how to start one: content and mode by path."""
    settings = parse_json(image.config).get("config") or {}
    variables = [str(entry).partition("=") for entry in settings.get("Env") or ()]
    entry = " ".join(shlex.quote(str(word)) for word in settings.get("Entrypoint") or ())
    directory = shlex.quote(str(settings.get("WorkingDir") or "/"))
    start = f'#!/bin/sh\nmkdir -p {directory} 2>/dev/null\ncd {directory} 2>/dev/null || cd /\nexec {entry} "$@"\n'
    exported = "".join(f"export {name}={shlex.quote(value)}\n" for name, _, value in variables)
    plain = "".join(f"{name}={value}\n" for name, _, value in variables)
    return {
        "etc/rc": (start.encode(), 0o755),
        "etc/environment": (plain.encode(), 0o644),
        "etc/fstab": (b"", 0o644),
        ".singularity.d/env/10-docker2singularity.sh": (f"#!/bin/sh\n{exported}".encode(), 0o755),
        ".singularity.d/runscript": (start.encode(), 0o755),
    }
